/* raw: what one synced write costs on this disk, without any server.
 *
 *   raw --dir DIR --mode append|overwrite --seconds S [--bytes N] [--gap-us N]
 *
 * append      a file that grows by one record of N bytes (300: a 200-byte job with its frame),
 *             then fdatasync; the file's length changes each time, so its inode is synced too.
 * overwrite   the same into a preallocated, zero-filled and synced file: only data is synced.
 * A gap between the syncs gives the latency of an idle disk instead of the rate of a busy one. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES  (16u << 20) /* of the preallocated file; written round and round */
#define SAMPLES_MAX (1u << 20)
#define BYTES_MAX   65536

struct options {
        const char *dir;
        bool is_overwrite;
        double seconds;
        size_t bytes;
        unsigned gap_us;
};

static _Noreturn void fail(const char *what)
{
        fprintf(stderr, "raw: %s: %s\n", what, strerror(errno));
        exit(1);
}

static int64_t now_ns(void)
{
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
        int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
        return (x > y) - (x < y);
}

static void fill_with_zeros(int fd)
{
        static const char zeros[1u << 20];
        for (size_t done = 0; done < FILE_BYTES; done += sizeof(zeros)) {
                if (pwrite(fd, zeros, sizeof(zeros), (off_t)done) != (ssize_t)sizeof(zeros))
                        fail("fill");
        }
        if (fsync(fd) != 0)
                fail("fsync");
}

static void measure(const struct options *o, int fd)
{
        static char record[BYTES_MAX];
        int64_t *took = calloc(SAMPLES_MAX, sizeof(*took));
        if (!took)
                fail("memory");
        memset(record, 'x', o->bytes);
        struct timespec gap = {.tv_sec = o->gap_us / 1000000,
                               .tv_nsec = o->gap_us % 1000000 * 1000L};
        size_t n = 0;
        off_t at = 0;
        int64_t start = now_ns(), end = start + (int64_t)(o->seconds * 1e9), now = start;
        while (now < end && n < SAMPLES_MAX) {
                if (o->gap_us) {
                        nanosleep(&gap, NULL);
                        now = now_ns();
                }
                if (pwrite(fd, record, o->bytes, at) != (ssize_t)o->bytes)
                        fail("write");
                if (fdatasync(fd) != 0)
                        fail("fdatasync");
                int64_t after = now_ns();
                took[n++] = after - now;
                now = after;
                at += (off_t)o->bytes;
                if (o->is_overwrite && at + (off_t)o->bytes > (off_t)FILE_BYTES)
                        at = 0;
        }
        double seconds = (double)(now - start) / 1e9;
        qsort(took, n, sizeof(*took), compare);
        size_t mid = n / 2, late = n * 99 / 100;
        printf("{\"work\":\"raw\",\"mode\":\"%s\",\"ops\":%zu,\"seconds\":%.6f,\"p50_us\":%.1f,"
               "\"p99_us\":%.1f,\"max_us\":%.1f,\"all_us\":[",
               o->is_overwrite ? "overwrite" : "append", n, seconds, (double)took[mid] / 1e3,
               (double)took[late] / 1e3, (double)took[n - 1] / 1e3);
        for (size_t i = 0; o->gap_us && i < n; i++)
                printf("%s%.1f", i ? "," : "", (double)took[i] / 1e3);
        printf("]}\n");
        free(took);
}

static void parse_options(struct options *o, int argc, char **argv)
{
        static const struct option options[] = {
                {"dir", required_argument, NULL, 'd'},    {"mode", required_argument, NULL, 'm'},
                {"bytes", required_argument, NULL, 'b'},  {"seconds", required_argument, NULL, 's'},
                {"gap-us", required_argument, NULL, 'g'}, {NULL, 0, NULL, 0},
        };
        int opt;
        while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (opt) {
                case 'd':
                        o->dir = optarg;
                        break;
                case 'm':
                        o->is_overwrite = strcmp(optarg, "overwrite") == 0;
                        break;
                case 'b':
                        o->bytes = strtoul(optarg, NULL, 10);
                        break;
                case 's':
                        o->seconds = strtod(optarg, NULL);
                        break;
                case 'g':
                        o->gap_us = (unsigned)strtoul(optarg, NULL, 10);
                        break;
                default:
                        exit(2);
                }
        }
        if (o->bytes == 0 || o->bytes > BYTES_MAX)
                o->bytes = 300;
}

int main(int argc, char **argv)
{
        struct options o = {.dir = ".", .seconds = 1, .bytes = 300};
        char path[4096];
        parse_options(&o, argc, argv);
        snprintf(path, sizeof(path), "%s/raw.%d", o.dir, (int)getpid());
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                fail(path);
        if (o.is_overwrite)
                fill_with_zeros(fd);
        measure(&o, fd);
        close(fd);
        unlink(path);
        return 0;
}

/* The server's CPU time is its process clock, all threads together, in nanoseconds; the disk's
 * counters are the kernel's, so whatever else writes to this disk is in them too. */
#include "sample.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#define SECTOR_BYTES 512

void die(const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        fprintf(stderr, "%s: ", program_invocation_short_name);
        vfprintf(stderr, fmt, ap);
        fputc('\n', stderr);
        va_end(ap);
        exit(1);
}

static int64_t timespec_ns(const struct timespec *ts)
{
        return (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
}

int64_t now_ns(void)
{
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        return timespec_ns(&ts);
}

void sample_find_disk(const char *dir, char *ret, size_t size)
{
        struct stat st;
        if (stat(dir, &st) != 0)
                die("no folder %s", dir);
        snprintf(ret, size, "/sys/dev/block/%u:%u/stat", major(st.st_dev), minor(st.st_dev));
}

static void read_disk(const char *path, struct sample *ret)
{
        FILE *f = *path ? fopen(path, "re") : NULL;
        if (!f)
                return;
        /* Documentation/block/stat.rst: field 7 sectors written, field 16 flushes. */
        uint64_t v[17] = {0};
        for (int i = 0; i < 17; i++) {
                if (fscanf(f, "%" SCNu64, &v[i]) != 1)
                        break;
        }
        ret->sectors = v[6];
        ret->flushes = v[15];
        fclose(f);
}

void sample_take(pid_t pid, const char *disk, struct sample *ret)
{
        struct timespec ts;
        clockid_t clock;
        memset(ret, 0, sizeof(*ret));
        if (pid && clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &ts) == 0)
                ret->server_ns = timespec_ns(&ts);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
        ret->self_ns = timespec_ns(&ts);
        read_disk(disk, ret);
        ret->at_ns = now_ns();
}

void sample_print(const char *work, uint64_t ops, const struct sample *a, const struct sample *b)
{
        printf("{\"work\":\"%s\",\"ops\":%" PRIu64 ",\"seconds\":%.6f,\"server_us\":%.1f,"
               "\"generator_us\":%.1f,\"flushes\":%" PRIu64 ",\"written_bytes\":%" PRIu64,
               work, ops, (double)(b->at_ns - a->at_ns) / 1e9,
               (double)(b->server_ns - a->server_ns) / 1e3, (double)(b->self_ns - a->self_ns) / 1e3,
               b->flushes - a->flushes, (b->sectors - a->sectors) * SECTOR_BYTES);
}

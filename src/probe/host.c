/* The machine weir runs on: load, pressure, disks.
 *
 *   load_per_core             1-minute load average over the processors that are on
 *   psi_cpu, psi_io, psi_memory   percent of the last 10 s in which something waited for it
 *   disk_used:/path           percent of what ordinary users may use, as df counts it
 *
 * /proc is read as it is; a disk is asked aside, because a network file system that is gone blocks
 * for ever.  All disks of a tick are asked before the first is waited for, so that one that is gone
 * leaves the others their time; and it is not asked again before it has answered, or there would be
 * one more thread with every tick. */
#include "base/shown.h"
#include "probe/probe_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DISK_PREFIX "disk_used:"

struct host {
        const struct probe_options *options;
        struct aside *asks[PROBE_METRICS_MAX]; /* of disks that have not answered yet */
};

struct disk_ask {
        struct statvfs st;
        int error;
        char path[];
};

static const struct {
        const char *source, *path;
} pressures[] = {
        {"psi_cpu", "/proc/pressure/cpu"},
        {"psi_io", "/proc/pressure/io"},
        {"psi_memory", "/proc/pressure/memory"},
};

static int host_check(const char *source, struct problem *problem)
{
        if (strcmp(source, "load_per_core") == 0)
                return OK;
        for (size_t i = 0; i < ARRAY_LEN(pressures); i++)
                if (strcmp(source, pressures[i].source) == 0)
                        return OK;
        if (strncmp(source, DISK_PREFIX "/", sizeof(DISK_PREFIX)) == 0)
                return OK;
        return problem_set(problem, ERR_BADARG,
                           "a host has load_per_core, psi_cpu, psi_io, psi_memory and "
                           "disk_used:/path, not '%s'",
                           source);
}

static void read_load(struct reading *ret)
{
        double load;
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        if (getloadavg(&load, 1) != 1 || cores < 1)
                reading_fail(ret, "the system does not tell its load");
        else
                reading_set(ret, load / (double)cores);
}

static void read_pressure(const char *path, struct reading *ret)
{
        char text[256];
        ssize_t n = -1;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
                n = read(fd, text, sizeof(text) - 1);
                int error = errno;
                (void)close(fd); /* only read from */
                errno = error;
        }
        if (n < 0) {
                reading_fail(ret, "%s: %s%s", path, strerror(errno),
                             errno == ENOENT || errno == EOPNOTSUPP
                                     ? "; this kernel does not measure pressure"
                                     : "");
                return;
        }
        text[n] = '\0';
        const char *avg10 = strstr(text, "avg10=");
        if (!avg10) {
                reading_fail(ret, "%s is not as expected", path);
                return;
        }
        avg10 += strlen("avg10=");
        reading_set_text(ret, avg10, strcspn(avg10, " \n"));
}

static void ask_disk(void *arg)
{
        struct disk_ask *d = arg;
        d->error = statvfs(d->path, &d->st) == 0 ? 0 : errno;
}

static void take_disk(const struct disk_ask *d, struct reading *ret)
{
        double used = (double)(d->st.f_blocks - d->st.f_bfree);
        double usable = used + (double)d->st.f_bavail;
        if (d->error)
                reading_fail(ret, "%s: %s", SHOWN_MAX(slice_str(d->path), 80), strerror(d->error));
        else if (usable <= 0)
                reading_fail(ret, "%s is on no disk", SHOWN_MAX(slice_str(d->path), 80));
        else
                reading_set(ret, 100 * used / usable);
}

/* NULL unless the metric is about a disk. */
static const char *disk_of(const struct host *h, size_t metric)
{
        const char *source = metric_source(&h->options->metrics[metric]);
        bool is_disk = strncmp(source, DISK_PREFIX, strlen(DISK_PREFIX)) == 0;
        return is_disk ? source + strlen(DISK_PREFIX) : NULL;
}

/* False: it has still to answer what it was asked at a tick before. */
static bool begin_disk(struct host *h, size_t metric, const char *path)
{
        struct aside **ask = &h->asks[metric];
        if (*ask && !aside_is_done(*ask))
                return false;
        *ask = aside_end(*ask); /* what came late is old by now */
        size_t len = strlen(path) + 1;
        struct disk_ask *d = xmalloc(sizeof(*d) + len);
        *d = (struct disk_ask){0};
        memcpy(d->path, path, len);
        *ask = aside_begin(ask_disk, d);
        return true;
}

static void read_disk(struct host *h, size_t metric, const char *path, const struct sql_wait *w,
                      struct reading *ret)
{
        struct aside **ask = &h->asks[metric];
        if (!*ask) {
                reading_fail(ret, "%s: no thread is left to ask with",
                             SHOWN_MAX(slice_str(path), 80));
                ret->is_silent = true;
        } else if (aside_wait(*ask, w) != OK) {
                reading_fail(ret, "%s: the file system does not answer",
                             SHOWN_MAX(slice_str(path), 80));
                ret->is_silent = true;
        } else {
                take_disk(aside_arg(*ask), ret);
                *ask = aside_end(*ask);
        }
}

static void read_disks(struct host *h, const struct sql_wait *w, struct reading *ret)
{
        static const struct sql_wait no_time; /* its deadline has long passed */
        bool is_new[PROBE_METRICS_MAX] = {false};
        for (size_t i = 0; i < h->options->n_metrics; i++)
                if (disk_of(h, i))
                        is_new[i] = begin_disk(h, i, disk_of(h, i));
        for (size_t i = 0; i < h->options->n_metrics; i++)
                if (disk_of(h, i))
                        read_disk(h, i, disk_of(h, i), is_new[i] ? w : &no_time, &ret[i]);
}

static int host_sample(void *self, const struct sql_wait *w, struct reading *ret)
{
        struct host *h = self;
        for (size_t i = 0; i < h->options->n_metrics; i++) {
                const char *source = metric_source(&h->options->metrics[i]);
                if (strcmp(source, "load_per_core") == 0)
                        read_load(&ret[i]);
                for (size_t k = 0; k < ARRAY_LEN(pressures); k++)
                        if (strcmp(source, pressures[k].source) == 0)
                                read_pressure(pressures[k].path, &ret[i]);
        }
        read_disks(h, w, ret);
        return OK;
}

static void *host_open(const struct probe_options *o, const struct sql_server *server,
                       bool is_replica)
{
        struct host *h = xcalloc(1, sizeof(*h));
        (void)server; /* this machine, always */
        (void)is_replica;
        h->options = o;
        return h;
}

static void host_close(void *self)
{
        struct host *h = self;
        for (size_t i = 0; i < ARRAY_LEN(h->asks); i++)
                h->asks[i] = aside_end(h->asks[i]);
        free(h);
}

const struct prober_ops host_prober = {
        .check = host_check,
        .open = host_open,
        .close = host_close,
        .sample = host_sample,
};

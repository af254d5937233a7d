/* A real disk with a hand on the tap: calls can be made to fail or to wait, from another thread.
 * Where the simulated disk is for what a crash leaves, this one is for the log's threads. */
#ifndef WEIR_TESTS_SUPPORT_GATED_DISK_H
#define WEIR_TESTS_SUPPORT_GATED_DISK_H

#include <pthread.h>
#include <stdatomic.h>

#include "log/disk.h"

struct gated_disk {
        struct disk disk;
        struct disk *real;
        _Atomic bool is_full, is_sync_failing;
        _Atomic unsigned n_syncs, n_refused;
        pthread_mutex_t gate; /* held by the test: syncs wait */
};

static struct gated_disk *gated_of(struct disk *d)
{
        return CONTAINER_OF(d, struct gated_disk, disk);
}

static int gated_lock(struct disk *d, struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        return r->ops->lock(r, p);
}

static int gated_list(struct disk *d, disk_list_fn fn, void *ctx, struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        return r->ops->list(r, fn, ctx, p);
}

static int gated_open(struct disk *d, const char *name, int *ret_fd, struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        return r->ops->open(r, name, ret_fd, p);
}

static int gated_create(struct disk *d, const char *name, uint64_t size, int *ret_fd,
                        struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        if (atomic_load(&gated_of(d)->is_full)) {
                atomic_fetch_add(&gated_of(d)->n_refused, 1);
                return problem_set(p, ERR_NOSPACE, "the tap is closed");
        }
        return r->ops->create(r, name, size, ret_fd, p);
}

static int gated_size(struct disk *d, int fd, uint64_t *ret, struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        return r->ops->size(r, fd, ret, p);
}

static int gated_read(struct disk *d, int fd, uint64_t at, void *ret, size_t n, struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        return r->ops->read(r, fd, at, ret, n, p);
}

static int gated_write(struct disk *d, int fd, uint64_t at, const void *buf, size_t n,
                       struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        return r->ops->write(r, fd, at, buf, n, p);
}

static int gated_sync(struct disk *d, int fd, struct problem *p)
{
        struct gated_disk *g = gated_of(d);
        pthread_mutex_lock(&g->gate);
        pthread_mutex_unlock(&g->gate);
        atomic_fetch_add(&g->n_syncs, 1);
        if (atomic_load(&g->is_sync_failing))
                return problem_set(p, ERR_IO, "the tap is closed");
        return g->real->ops->sync(g->real, fd, p);
}

static int gated_rename(struct disk *d, const char *from, const char *to, struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        return r->ops->rename(r, from, to, p);
}

static int gated_remove(struct disk *d, const char *name, struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        return r->ops->remove(r, name, p);
}

static int gated_sync_names(struct disk *d, struct problem *p)
{
        struct disk *r = gated_of(d)->real;
        return r->ops->sync_names(r, p);
}

static void gated_close(struct disk *d, int fd)
{
        struct disk *r = gated_of(d)->real;
        r->ops->close(r, fd);
}

/* The gated disk itself belongs to the test. */
static struct disk *gated_release(struct disk *d)
{
        struct gated_disk *g = gated_of(d);
        g->real = g->real->ops->release(g->real);
        return NULL;
}

static int gated_disk_open(struct gated_disk *g, const char *folder, struct problem *p)
{
        static const struct disk_ops OPS = {
                .lock = gated_lock,
                .list = gated_list,
                .open = gated_open,
                .create = gated_create,
                .size = gated_size,
                .read = gated_read,
                .write = gated_write,
                .sync = gated_sync,
                .rename = gated_rename,
                .remove = gated_remove,
                .sync_names = gated_sync_names,
                .close = gated_close,
                .release = gated_release,
        };
        *g = (struct gated_disk){.disk.ops = &OPS};
        pthread_mutex_init(&g->gate, NULL);
        return disk_open_folder(folder, &g->real, p);
}

#endif

/* The few things the file log asks of a disk, as a table, so that the simulation can put a disk
 * underneath that forgets, tears and reorders what was not synced.
 *
 * All return OK or ERR_IO / ERR_NOSPACE / ERR_NOTFOUND / ERR_LOCKED with the reason in *problem.
 * Handles are small integers of the disk's own. */
#ifndef WEIR_LOG_DISK_H
#define WEIR_LOG_DISK_H

#include "base/err.h"
#include "base/slice.h"

struct disk {
        const struct disk_ops *ops;
};

typedef int (*disk_list_fn)(void *ctx, const char *name);

struct disk_ops {
        int (*lock)(struct disk *d, struct problem *p); /* keep every other process out */
        int (*list)(struct disk *d, disk_list_fn fn, void *ctx, struct problem *p);
        int (*open)(struct disk *d, const char *name, int *ret_fd, struct problem *p);
        /* A new file of `size` zero bytes, all of them allocated, written and synced, the name
         * durable.  Nothing is left behind when it fails. */
        int (*create)(struct disk *d, const char *name, uint64_t size, int *ret_fd,
                      struct problem *p);
        int (*size)(struct disk *d, int fd, uint64_t *ret, struct problem *p);
        int (*read)(struct disk *d, int fd, uint64_t at, void *ret, size_t n, struct problem *p);
        /* `buf`, `at` and `n` are multiples of DISK_BLOCK. */
        int (*write)(struct disk *d, int fd, uint64_t at, const void *buf, size_t n,
                     struct problem *p);
        int (*sync)(struct disk *d, int fd, struct problem *p);
        int (*rename)(struct disk *d, const char *from, const char *to, struct problem *p);
        int (*remove)(struct disk *d, const char *name, struct problem *p);
        int (*sync_names)(struct disk *d, struct problem *p); /* makes renames and removes stay */
        uint64_t (*free_bytes)(struct disk *d); /* that files can grow by; NULL: nobody knows */
        void (*close)(struct disk *d, int fd);
        struct disk *(*release)(struct disk *d);
};

#define DISK_BLOCK 4096

/* The real one: a folder (made when missing, mode 0700), O_DIRECT where the file system has it,
 * one write and one fdatasync a batch. */
int disk_open_folder(const char *path, struct disk **ret, struct problem *p) MUST_CHECK;
/* The same, but a missing folder is ERR_NOTFOUND: for tools that only look. */
int disk_open_existing(const char *path, struct disk **ret, struct problem *p) MUST_CHECK;
/* Does somebody hold the lock of this folder?  Asks without taking it. */
bool disk_is_in_use(const char *path);

#endif

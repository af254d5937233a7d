/* Where finished jobs go, and where they are found again.  history/ implements it on SQLite.
 *
 * store: the jobs stay untouched (they are on the `finished` list) until the archive reports
 * them back through `stored`, after its commit is durable, in the order they were handed over.  A
 * job may be handed over again after a crash: the archive keeps the first, unless the options of
 * the later one have a larger `run`: a job that was taken back and ended again takes its own place.
 *
 * query: runs on the archive's reader thread; `done` is called from archive->ops->poll, on the
 * loop thread.  The rows borrow from query->arena.
 *
 * `notify` is called from the archive's threads when poll() has something to do. */
#ifndef WEIR_CORE_ARCHIVE_H
#define WEIR_CORE_ARCHIVE_H

#include "base/arena.h"
#include "state/job_view.h"

struct archive;
struct job;

/* Which jobs a listing wants; empty slices and -1 mean any. */
struct job_filter {
        int status; /* enum job_status, or -1 */
        struct slice hook, queue, group;
        struct slice match; /* a text that hook, args, error or result must hold */
};

struct archive_query {
        /* Set by the asker; the slices must live until done (arena is a good place). */
        uint64_t id;        /* one job, or 0 for a listing */
        uint64_t before_id; /* listing: ids below this, largest first */
        size_t limit;
        struct job_filter filter;
        void (*done)(struct archive_query *q);
        void *ctx;
        /* Set by the archive. */
        int err; /* OK, also when nothing was found */
        struct job_view *rows;
        size_t n_rows;
        bool is_cut; /* listing: scanning stopped at a budget; continue before last_id */
        uint64_t last_id;
        struct arena arena;
        struct archive_query *next; /* the archive's own */
};

struct archive_stat {
        uint64_t stored, deleted, errors, rows, bytes;
};

struct archive_ops {
        void (*store)(struct archive *a, struct job *const *jobs, size_t n);
        void (*query)(struct archive *a, struct archive_query *q);
        void (*poll)(struct archive *a);
        void (*stat)(struct archive *a, struct archive_stat *ret);
        /* Finishes what was handed over, closes; returns NULL. */
        struct archive *(*close)(struct archive *a);
};

struct archive {
        const struct archive_ops *ops;
        /* Set by the owner before the first call. */
        void (*stored)(void *ctx, struct job *const *jobs, size_t n); /* from poll */
        void *stored_ctx;
        void (*notify)(void *ctx); /* any thread */
        void *notify_ctx;
};

#endif

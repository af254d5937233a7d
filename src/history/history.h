/* The archive of finished jobs in one SQLite file.  core/archive.h is what it answers to;
 * docs/history.md tells operators what is in the file.
 *
 * Threads: store, query, poll and close from the loop thread; stat and history_sweep from any.
 * A writer thread and a reader thread of its own do the work.
 *
 * What it promises beyond core/archive.h:
 *   (1) `stored` is called only after the commit that holds the jobs was synced;
 *   (2) a query sees every job that was reported as stored before it was asked;
 *   (3) what cannot be written is kept and tried again, for as long as it takes.
 * close() delivers what is left through `stored` and `done` for the last time (set archive->stored
 * to NULL before when it is not to be called); queries not begun end with ERR_STOPPING. */
#ifndef WEIR_HISTORY_HISTORY_H
#define WEIR_HISTORY_HISTORY_H

#include "base/err.h"
#include "core/archive.h"

#define HISTORY_DAY_MS (86400 * MS_PER_S)

struct history_options {
        const char *path;          /* copied; "-wal" and "-shm" files appear beside it */
        int64_t keep_done_ms;      /* complete and canceled jobs; 0 = for ever */
        int64_t keep_failed_ms;    /* failed jobs; 0 = for ever */
        int64_t keep_incidents_ms; /* what the gate and its operators did; 0 = for ever */
        int64_t commit_every_ms;   /* at most one commit in this time; 0 = 3 s */
        /* Must be safe on another thread for a job that was handed over: state/job.h job_view. */
        void (*view_of)(const struct job *job, struct job_view *ret);
        int64_t (*wall_ms)(void *ctx); /* for retention; called from the writer thread */
        void *wall_ctx;
};

/* ERR_CORRUPT: the file is damaged or not ours, and *p says what to do about it. */
int history_open(const struct history_options *options, struct archive **ret,
                 struct problem *p) MUST_CHECK;

/* Deletes now everything that is past its time, and returns when that is done or has failed.
 * The writer does it by itself every minute; this is for tests and tools. */
void history_sweep(struct archive *a);

#endif

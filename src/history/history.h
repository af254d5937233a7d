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
 * to NULL before when it is not to be called); queries not begun end with ERR_STOPPING.
 *
 * With a mirror (mirror.h) the file is a copy of what several machines share, and the archive
 * follows or leads:
 *
 *   following  the copy is brought up to date about once a second; queries see the copy; what is to
 *              be stored, noted, audited or rolled up is ignored, and removals end with ERR_STATE
 *   leading    as without a mirror, and (1) to (3) hold for the mirror and for the file.  It begins
 *              with bringing the copy up to date; what is handed over meanwhile waits.
 *
 * close() may have to wait for a call of the mirror; the owner frees the mirror after it. */
#ifndef WEIR_HISTORY_HISTORY_H
#define WEIR_HISTORY_HISTORY_H

#include "base/err.h"
#include "core/archive.h"
#include "history/mirror.h"

#define HISTORY_DAY_MS (86400 * MS_PER_S)

struct history_options {
        const char *path;          /* copied; "-wal" and "-shm" files appear beside it */
        int64_t keep_done_ms;      /* complete and canceled jobs; 0 = for ever */
        int64_t keep_failed_ms;    /* failed jobs; 0 = for ever */
        int64_t keep_incidents_ms; /* what the gate and its operators did; 0 = for ever */
        int64_t keep_audit_ms;     /* the audit trail; 0 = for ever */
        int64_t commit_every_ms;   /* at most one commit in this time; 0 = 3 s */
        int64_t pack_every_ms;     /* how often rows are packed into blocks; 0 = 5 s */
        /* Must be safe on another thread for a job that was handed over: state/job.h job_view. */
        void (*view_of)(const struct job *job, struct job_view *ret);
        int64_t (*wall_ms)(void *ctx); /* for retention; called from the writer thread */
        void *wall_ctx;
        struct mirror *mirror;   /* borrowed; NULL: none.  Called from the writer thread alone */
        bool is_following;       /* at first; else it begins to lead at once */
        int64_t follow_every_ms; /* how often a follower asks the mirror; 0 = 1 s */
};

/* ERR_CORRUPT: the file is damaged or not ours, and *p says what to do about it.  ERR_STATE: there
 * is a mirror, and the file has jobs that were never in one. */
int history_open(const struct history_options *options, struct archive **ret,
                 struct problem *p) MUST_CHECK;

/* Deletes now everything that is past its time, and returns when that is done or has failed.
 * The writer does it by itself every minute; this is for tests and tools. */
void history_sweep(struct archive *a);

/* Begins to lead.  `done` (which may be NULL) is called once, from poll, when the copy has all that
 * the mirror has and no other machine can write: last_id, last_incident and last_audit of the
 * archive are right then.  Until that works it is tried again; history_follow() ends it, and `done`
 * is not called then.  Loop thread. */
void history_lead(struct archive *a, void (*done)(void *ctx), void *ctx);
/* Ends leading, and returns when no job that was handed over is looked at any more.  None of them
 * is reported after this, whether it is in the mirror or not: the next leader has them in its log.
 * Queries and removals that were asked are answered as ever.  Loop thread. */
void history_follow(struct archive *a);

/* Every question and every removal was answered: whoever asked may go.  Loop thread. */
bool history_is_idle(const struct archive *a);

#endif

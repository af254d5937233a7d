/* Where finished jobs go, and where they are found again.  history/ implements it on SQLite.
 *
 * store: the jobs stay untouched (they are on the `finished` list) until the archive reports
 * them back through `stored`, after its commit is durable, in the order they were handed over.  A
 * job may be handed over again after a crash: the archive keeps the first, unless the options of
 * the later one have a larger `run`: a job that was taken back and ended again takes its own place.
 *
 * A job that nobody wants kept any more (is_wanted) is reported back without being stored, also
 * while the archive cannot write.
 *
 * query: runs on the archive's reader thread; `done` is called from archive->ops->poll, on the
 * loop thread.  The rows borrow from query->arena.
 *
 * remove: deletes rows, each only as long as it is of the run that was seen; `done` comes as with
 * query, when it is durable.  Who asks makes sure that no job of these can be handed over again:
 * its ARCHIVED effect must be durable before.
 *
 * note, incidents: what the gate did and what operators did to it, kept beside the jobs for a time
 * of its own.  note copies, is written soon (not before the call returns), and a number that is
 * there already stays.  incidents answers from poll, as query does.
 *
 * audit, audits: entries of the audit trail (core/audit.h), which the log holds until they are
 * reported through `audited`.  audit copies, and a number that is there already stays.  audits
 * answers from poll; it sees every entry that was reported before it was asked.
 *
 * roll, rollups: what happened minute by minute (core/rollup.h).  roll copies the minute, which is
 * written soon; it is added to the minute, the ten minutes and the hour that are there already, in
 * one transaction.  A minute that was never reported is lost with a crash.  rollups adds to the
 * view what is written, and answers from poll.
 *
 * `notify` is called from the archive's threads when poll() has something to do. */
#ifndef WEIR_CORE_ARCHIVE_H
#define WEIR_CORE_ARCHIVE_H

#include "base/arena.h"
#include "base/err.h"
#include "state/audit_entry.h"
#include "state/job_view.h"

struct archive;
struct job;

struct registry;

/* Which jobs a listing wants; empty slices, 0 and a status of -1 mean any. */
struct job_filter {
        int status; /* enum job_status, or -1 */
        struct slice hook, queue, group;
        struct slice worker;             /* that runs it, or was the last to */
        struct slice match;              /* a text that hook, args, error or result must hold */
        int64_t since_ms, until_ms;      /* created at or after the one and before the other */
        int64_t ended_since_ms;          /* ended at or after this */
        unsigned tier;                   /* 1 + enum tier: its own, else that of its hook by: */
        const struct registry *registry; /* owned by the asker until done; only with a tier */
};

/* One row of one run. */
struct archive_ref {
        uint64_t id, run;
        int64_t finished_ms; /* told by the archive; a removal does not ask for it */
};

struct archive_query {
        /* Set by the asker; the slices must live until done (arena is a good place). */
        uint64_t id;         /* one job, or 0 for a listing */
        uint64_t before_id;  /* listing: ids below this; 0: all */
        uint64_t after_id;   /* listing: and above this */
        bool is_oldest;      /* listing: smallest first; else largest */
        const uint64_t *ids; /* listing: of these all that are there, in their order */
        size_t n_ids;
        bool is_brief;         /* listing: refs alone, no rows */
        bool is_without_texts; /* rows have no args, result, error, progress, options, events */
        size_t limit;
        size_t bytes_max; /* of rows, about; 0: as much as the archive allows */
        int64_t ms_max;   /* the same for the time it may take */
        struct job_filter filter;
        void (*done)(struct archive_query *q);
        void *ctx;
        /* Set by the archive. */
        int err; /* OK, also when nothing was found */
        struct job_view *rows;
        struct archive_ref *refs; /* when it is brief */
        size_t n_rows;            /* of either */
        bool is_cut; /* listing: scanning stopped at a budget; go on before (after) last_id */
        uint64_t last_id;
        size_t n_seen; /* of ids, when it is cut: go on with those after the first so many */
        struct arena arena;
        struct archive_query *next; /* the archive's own */
};

struct archive_removal {
        const struct archive_ref *refs; /* must live until done */
        size_t n;
        void (*done)(struct archive_removal *r);
        void *ctx;
        /* Set by the archive. */
        int err;
        size_t removed; /* the others were not there any more; 0 after an error */
        struct archive_removal *next;
};

/* Numbers only grow, over restarts too. */
struct archive_incident {
        uint64_t number;
        int64_t at_ms;
        struct slice event, message;
};

struct archive_incidents {
        uint64_t before; /* numbers below this, the largest first */
        size_t limit;
        void (*done)(struct archive_incidents *q);
        void *ctx;
        struct arena arena; /* the asker's; what rows borrow from */
        /* Set by the archive. */
        int err;
        struct archive_incident *rows;
        size_t n_rows;
        struct archive_incidents *next;
};

/* Entries with numbers below `before`, the largest first; empty slices and zeros mean any. */
struct archive_audits {
        uint64_t before;
        int64_t since_ms, until_ms; /* at or after the one and before the other */
        struct slice who;
        struct slice command; /* in any case */
        struct slice match;   /* a text that an entry holds */
        size_t limit;
        void (*done)(struct archive_audits *q);
        void *ctx;
        struct arena arena; /* the asker's; what rows borrow from */
        /* Set by the archive. */
        int err;
        struct audit_entry *rows;
        size_t n_rows;
        bool is_cut; /* it looked at enough of them: go on before `last` */
        uint64_t last;
        size_t n_damaged;    /* that are left out */
        uint64_t damaged_at; /* the number of the last of them */
        struct archive_audits *next;
};

/* Is it one of those? */
bool archive_audits_want(const struct archive_audits *q, const struct audit_entry *e);

struct rollup_view;

/* Rollups of `span` minutes from `from` on, but from `mid` on single minutes, all before `to`: in
 * Unix minutes, `from` and `mid` at the beginning of such a span. */
struct archive_rollups {
        unsigned span;
        int64_t from, mid, to;
        struct rollup_view *view; /* the archive's until done */
        void (*done)(struct archive_rollups *q);
        void *ctx;
        /* Set by the archive. */
        int err;
        size_t n_damaged; /* rows that are left out */
        struct archive_rollups *next;
};

struct archive_stat {
        uint64_t stored, deleted, errors, rows, bytes;
        uint64_t block_jobs;  /* of `rows`: those packed into blocks */
        uint64_t blocks;      /* how many there are */
        uint64_t block_bytes; /* of their files on the disk, part of `bytes` */
        /* That it can still grow by, about, without what it has reserved; UINT64_MAX: not known. */
        uint64_t room_bytes;
        bool is_stuck; /* the last transaction failed, and it is tried again */
        /* Something could not be written since then: Unix ms; 0: all is well. */
        int64_t failing_since_ms;
        char failing[PROBLEM_DETAIL_MAX]; /* why, of the last try; "" when all is well */
};

struct archive_ops {
        void (*store)(struct archive *a, struct job *const *jobs, size_t n);
        void (*query)(struct archive *a, struct archive_query *q);
        void (*remove)(struct archive *a, struct archive_removal *r);
        void (*note)(struct archive *a, const struct archive_incident *incident);
        void (*incidents)(struct archive *a, struct archive_incidents *q);
        /* Both may be NULL: nothing is kept. */
        void (*audit)(struct archive *a, const struct audit_entry *e);
        void (*audits)(struct archive *a, struct archive_audits *q);
        /* Both may be NULL: nothing is kept. */
        void (*roll)(struct archive *a, struct slice minute); /* packed */
        void (*rollups)(struct archive *a, struct archive_rollups *q);
        void (*poll)(struct archive *a);
        void (*stat)(struct archive *a, struct archive_stat *ret);
        /* What is wanted has changed: do not wait for the next try.  May be NULL. */
        void (*wake)(struct archive *a);
        /* The largest fence of any job in it: reads all of it and blocks, for a start whose log is
         * lost.  May be NULL: not known. */
        int (*last_fence)(struct archive *a, uint64_t *ret, struct problem *p);
        /* Finishes what was handed over, closes; returns NULL. */
        struct archive *(*close)(struct archive *a);
};

struct archive {
        const struct archive_ops *ops;
        uint64_t last_id;       /* the largest in it when it was opened; 0: it was empty */
        uint64_t last_incident; /* the same of incidents */
        uint64_t last_audit;    /* and of the audit trail */
        /* Set by the owner before the first call. */
        void (*stored)(void *ctx, struct job *const *jobs, size_t n); /* from poll */
        void *stored_ctx;
        void (*audited)(void *ctx, uint64_t number); /* from poll; may be NULL */
        void *audited_ctx;
        /* Is it still to be kept?  On the archive's threads, for a job that was handed over.  One
         * that is not is reported as stored; while the archive cannot write, out of turn. */
        bool (*is_wanted)(const struct job *job);
        void (*notify)(void *ctx); /* any thread */
        void *notify_ctx;
};

#endif

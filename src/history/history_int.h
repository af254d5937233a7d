/* What the files of the archive share: its state, by the thread that may touch it.  Only
 * history/ includes this.
 *
 * Invariants, checked by history_check() on the loop thread, with the lock:
 *   (1) reported <= reporting.len
 *   (2) `notes` is a chain of n_notes, and notes_end is its end
 *   (3) sweeps_done <= sweeps_wanted
 *   (4) `rolls` is a chain of n_rolls, no more than ROLLUPS_WAITING_MAX, and rolls_end is its end
 *   (5) `asked` and `answered` end where their `end` says
 *   (6) `audits` is a chain of n_audits, and audits_end is its end
 * and by the writer thread before each round:
 *   (7) at <= taken.len
 *   (8) it waits to try again (retry_ns) exactly while something is wrong (retry_ms)
 *
 * Who leads changes by history_lead() and history_follow(), each a new `turn`.  The writer looks at
 * jobs only between reading_begin() and reading_end() of writer_thread.c, and only at those of the
 * turn that it knows (seen_turn): so history_follow() can wait until they are let go of, which is
 * never longer than it takes to make blocks of them. */
#ifndef WEIR_HISTORY_HISTORY_INT_H
#define WEIR_HISTORY_HISTORY_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "history/archive_finder.h"
#include "history/archive_writer.h"
#include "history/audits.h"
#include "history/history.h"
#include "history/incidents.h"
#include "history/lists.h"
#include "history/rollups.h"

#define NEVER_NS INT64_MAX

struct history {
        struct archive archive; /* first: struct archive * is a struct history * */
        struct history_options options;
        char *path;
        pthread_t writer_thread, finder_thread;
        size_t n_unanswered; /* questions and removals whose done() is to come; loop thread */

        pthread_mutex_t lock; /* for what follows, down to the next group */
        pthread_cond_t writer_wake, finder_wake, swept;
        struct job_list queued;
        size_t wake_len; /* store() wakes the writer when queued reaches this */
        struct job_list stored;
        struct query_list asked, answered;
        struct archive_removal *to_remove, *removed; /* the last asked first; any order is fine */
        struct incident_note *notes, **notes_end;    /* to be written */
        size_t n_notes;
        struct audit_note *audits, **audits_end; /* the same for the audit trail */
        size_t n_audits;
        struct audit_note *audited;             /* written, to be reported; any order is fine */
        struct rollup_note *rolls, **rolls_end; /* the same for minutes */
        size_t n_rolls;
        struct archive_incidents *inquiries, *inquired; /* asked, answered; any order is fine */
        struct archive_audits *reviews, *reviewed;      /* the same for the audit trail */
        struct archive_rollups *surveys, *surveyed;     /* the same for rollups */
        uint64_t sweeps_wanted, sweeps_done;
        int64_t failing_since_ms; /* Unix; 0: the last of everything could be written */
        char failing[PROBLEM_DETAIL_MAX];
        bool is_woken; /* what is left from a failure is tried again now */
        bool is_closing;
        int64_t close_by_ns;
        bool is_to_lead;      /* what the loop wants; always without a mirror */
        uint64_t turn;        /* grows with each history_lead() and history_follow() */
        bool is_reading_jobs; /* the writer, of `taken`; `let_go` tells when it ends */
        pthread_cond_t let_go;
        bool has_led; /* leading has begun, and is to be told; what it began with: */
        uint64_t led_last_id, led_last_incident, led_last_audit;

        /* The loop thread's. */
        struct job_list reporting;
        size_t reported; /* the first of them */
        void (*led)(void *ctx);
        void *led_ctx;

        /* The writer thread's, once it runs. */
        struct archive_writer writer;
        struct job_list taken; /* being written; taken.jobs[at..] is not committed */
        size_t at;
        int64_t last_commit_ns;
        int64_t next_note_ns; /* not before this */
        bool has_note_error;
        int64_t next_audit_ns; /* the same for the audit trail */
        bool has_audit_error;
        int64_t next_roll_ns; /* the same for minutes */
        bool has_roll_error;
        int64_t next_wal_ns; /* when an idle writer looks at the -wal file */
        int64_t retry_ns;    /* not before this, after a failure */
        int64_t retry_ms;    /* the last wait; 0 when nothing is wrong */
        struct archive_sweep sweep;
        bool is_sweeping;
        uint64_t sweep_serves; /* sweeps_wanted when it began */
        int64_t next_sweep_ns, next_step_ns;
        bool has_wal_error;
        struct archive_pack pack;
        bool is_packing;
        int64_t next_pack_ns;   /* the next step, or the next pass */
        int64_t packed_rows;    /* rows that the last pass left */
        uint64_t packed_window; /* the newest one then */
        size_t packed_blocks;   /* how many there were */
        uint64_t seen_turn;
        bool is_leading;        /* and may write, unless the copy is behind */
        int64_t next_follow_ns; /* when the mirror is asked next */
        int64_t next_compare_ns;
        bool has_follow_error;

        /* The reader thread's, once it runs. */
        struct archive_finder finder;

        _Atomic uint64_t n_stored, n_deleted, n_errors, n_rows, n_bytes, n_free_bytes;
        _Atomic uint64_t n_block_jobs, n_blocks, n_block_bytes;
        _Atomic bool is_stuck;
};

/* Any thread. */
int64_t history_now_ns(void); /* CLOCK_MONOTONIC, which the condition variables go by */
int64_t history_after_ms(int64_t ms);
void history_lock(struct history *h);
void history_unlock(struct history *h);
/* With the lock; may return early. */
void history_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns);
void history_count(_Atomic uint64_t *counter, uint64_t n);
/* What the file can still grow by: the disk's free space and its own free pages. */
uint64_t history_room_bytes(const struct history *h);

/* The writer thread.  Deletes what the loop thread asked for and reports it; refuses to when it is
 * closing. */
void *history_writer_main(void *ctx);
void history_remove_asked(struct history *h, int refusal); /* OK: none */
/* Tells everybody who asks that something waits to be written; or that nothing does, if so. */
void history_failing_begin(struct history *h, const struct problem *p);
void history_failing_end(struct history *h);
void history_sweep_end(struct history *h);
void history_reading_end(void *ctx); /* struct history: the jobs that were taken are let go of */
/* Brings the figures of the writer to history_stat. */
void history_publish(struct history *h);

/* The writer thread's part with a mirror. */
bool history_can_write(const struct history *h);
/* Follows the mirror, or begins to lead, by one step; at once when it is woken. */
void history_follow_step(struct history *h, bool is_woken, uint64_t sweeps_wanted);

/* The reader thread. */
void *history_reader_main(void *ctx);

#endif

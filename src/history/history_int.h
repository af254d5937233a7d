/* What the files of the archive share: its state, by the thread that may touch it.  Only
 * history/ includes this.
 *
 * Invariants, checked by history_check() on the loop thread, with the lock:
 *   (1) reported <= reporting.len
 *   (2) `notes` is a chain of n_notes, and notes_end is its end
 *   (3) sweeps_done <= sweeps_wanted
 *   (4) `asked` and `answered` end where their `end` says
 * and by the writer thread before each round:
 *   (5) at <= taken.len
 *   (6) it waits to try again (retry_ns) exactly while something is wrong (retry_ms) */
#ifndef WEIR_HISTORY_HISTORY_INT_H
#define WEIR_HISTORY_HISTORY_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "history/archive_finder.h"
#include "history/archive_writer.h"
#include "history/history.h"
#include "history/incidents.h"
#include "history/lists.h"

#define NEVER_NS INT64_MAX

struct history {
        struct archive archive; /* first: struct archive * is a struct history * */
        struct history_options options;
        char *path;
        pthread_t writer_thread, finder_thread;

        pthread_mutex_t lock; /* for what follows, down to the next group */
        pthread_cond_t writer_wake, finder_wake, swept;
        struct job_list queued;
        size_t wake_len; /* store() wakes the writer when queued reaches this */
        struct job_list stored;
        struct query_list asked, answered;
        struct archive_removal *to_remove, *removed; /* the last asked first; any order is fine */
        struct incident_note *notes, **notes_end;    /* to be written */
        size_t n_notes;
        struct archive_incidents *inquiries, *inquired; /* asked, answered; any order is fine */
        uint64_t sweeps_wanted, sweeps_done;
        bool is_woken; /* what is left from a failure is tried again now */
        bool is_closing;
        int64_t close_by_ns;

        /* The loop thread's. */
        struct job_list reporting;
        size_t reported; /* the first of them */

        /* The writer thread's, once it runs. */
        struct archive_writer writer;
        struct job_list taken; /* being written; taken.jobs[at..] is not committed */
        size_t at;
        int64_t last_commit_ns;
        int64_t next_note_ns; /* not before this */
        bool has_note_error;
        int64_t next_wal_ns; /* when an idle writer looks at the -wal file */
        int64_t retry_ns;    /* not before this, after a failure */
        int64_t retry_ms;    /* the last wait; 0 when nothing is wrong */
        struct archive_sweep sweep;
        bool is_sweeping;
        uint64_t sweep_serves; /* sweeps_wanted when it began */
        int64_t next_sweep_ns, next_step_ns;
        bool has_wal_error;

        /* The reader thread's, once it runs. */
        struct archive_finder finder;

        _Atomic uint64_t n_stored, n_deleted, n_errors, n_rows, n_bytes, n_free_bytes;
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
void history_remove_asked(struct history *h, bool is_closing);
/* Brings the figures of the writer to history_stat. */
void history_publish(struct history *h);

/* The reader thread. */
void *history_reader_main(void *ctx);

#endif

/* The archive: two threads, the queues between them and the loop, and when to write.
 *
 *      loop thread      store() -> queued ->  writer thread  -> stored   -> poll() ->
 * archive->stored query() -> asked  ->  reader thread  -> answered -> poll() -> q->done
 *
 * Handing over is an append of pointers under a mutex.  The writer swaps the whole array for its
 * own empty one, so neither side copies a job, allocates for one, or holds the mutex for long.
 * It is woken only when it waits for what has come: one wake a transaction, not one a store().
 *
 * When to commit.  A sync costs the disk that the log writes to as well, so there is at most one
 * in COMMIT_EVERY_MS: a job that comes after a pause is committed at once, under load a
 * transaction holds what came in that time, and QUEUE_LONG jobs do not wait.  Listings join both,
 * so nobody sees when a job moves.  What follows a failure waits longer each time, up to
 * RETRY_MAX_MS.
 *
 * Incidents (what the gate did) are few and wanted soon: a transaction of their own, at most one in
 * NOTE_EVERY_MS.  So a crash loses no more than the last quarter of a second of them.
 *
 * Idle moments are for the rest: moving the -wal file into the main file, and retention, one
 * short step at a time, jobs first.  A busy writer still takes a step four times a second. */
#include "history/history.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/background.h"
#include "base/say.h"
#include "history/archive_file.h"
#include "history/archive_finder.h"
#include "history/archive_writer.h"
#include "history/incidents.h"

#define COMMIT_EVERY_MS 3000
#define QUEUE_LONG      20000
#define NOTE_EVERY_MS   250
#define NOTES_MAX       10000 /* that wait to be written; the oldest are dropped beyond */
#define RETRY_MIN_MS    100
#define RETRY_MAX_MS    5000
#define SWEEP_EVERY_MS  60000
#define STEP_IDLE_MS    10
#define STEP_BUSY_MS    250
#define WAL_PAGES_MAX   2048 /* 32 MiB: then also a busy writer moves it */
#define WAL_IDLE_MS     5000 /* after the last commit */
#define REPORT_JOBS     500  /* in one poll */
#define CLOSE_MS        1000 /* for writing what is left; the rest is still in the log */
#define TIGHT_SHARE     16   /* a transaction takes at most this part of the room */
#define TIGHT_BYTES_MIN (256 * KIB)

#define NEVER_NS        INT64_MAX

struct job_list {
        struct job **jobs;
        size_t len, cap;
};

struct query_list {
        struct archive_query *first, **end;
};

struct history {
        struct archive archive; /* first: struct archive * is a struct history * */
        struct history_options options;
        char *path;
        pthread_t writer_thread, finder_thread;

        pthread_mutex_t lock; /* for what follows, down to the next comment */
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

static int64_t now_ns(void)
{
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
        return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* The mutex is an ordinary one and no thread ends while it holds it: these cannot fail. */
static void lock(struct history *h)
{
        (void)pthread_mutex_lock(&h->lock);
}

static void unlock(struct history *h)
{
        (void)pthread_mutex_unlock(&h->lock);
}

static int64_t after_ms(int64_t ms)
{
        return now_ns() + ms * NS_PER_MS;
}

static void wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns)
{
        if (until_ns == NEVER_NS) {
                (void)pthread_cond_wait(cond, lock); /* the caller looks again in any case */
                return;
        }
        struct timespec t = {until_ns / NS_PER_S, until_ns % NS_PER_S};
        (void)pthread_cond_timedwait(cond, lock, &t); /* the same */
}

/* --- lists --- */

static void list_add(struct job_list *l, struct job *const *jobs, size_t n)
{
        if (!n)
                return;
        if (l->cap - l->len < n) {
                size_t cap = l->cap ? l->cap : 256;
                while (cap - l->len < n)
                        cap *= 2;
                l->jobs = xrealloc(l->jobs, cap * sizeof(struct job *));
                l->cap = cap;
        }
        memcpy(l->jobs + l->len, jobs, n * sizeof(struct job *));
        l->len += n;
}

static void list_swap(struct job_list *a, struct job_list *b)
{
        struct job_list was = *a;
        *a = *b;
        *b = was;
}

static void query_list_init(struct query_list *l)
{
        *l = (struct query_list){.end = &l->first};
}

static void query_list_push(struct query_list *l, struct archive_query *q)
{
        q->next = NULL;
        *l->end = q;
        l->end = &q->next;
}

static struct archive_query *query_list_pop(struct query_list *l)
{
        struct archive_query *q = l->first;
        if (!q)
                return NULL;
        l->first = q->next;
        if (!l->first)
                l->end = &l->first;
        q->next = NULL;
        return q;
}

static struct archive_query *query_list_take(struct query_list *l)
{
        struct archive_query *first = l->first;
        query_list_init(l);
        return first;
}

/* --- the writer thread --- */

static void publish(struct history *h)
{
        atomic_store_explicit(&h->n_rows, (uint64_t)h->writer.rows, memory_order_relaxed);
        atomic_store_explicit(&h->n_bytes, (uint64_t)h->writer.file_bytes, memory_order_relaxed);
        atomic_store_explicit(&h->n_free_bytes, (uint64_t)h->writer.free_pages * ARCHIVE_PAGE_BYTES,
                              memory_order_relaxed);
        atomic_store_explicit(&h->is_stuck, h->retry_ms > 0, memory_order_relaxed);
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void write_failed(struct history *h, const struct problem *p)
{
        count(&h->n_errors, 1);
        if (!h->retry_ms) {
                say_warn("history", "cannot write, keeping the jobs and retrying", "problem",
                         p->detail, "jobs", SAY_I64(h->taken.len - h->at));
                h->retry_ms = RETRY_MIN_MS;
        } else if (h->retry_ms < RETRY_MAX_MS) {
                h->retry_ms = h->retry_ms * 2 < RETRY_MAX_MS ? h->retry_ms * 2 : RETRY_MAX_MS;
        }
        h->retry_ns = after_ms(h->retry_ms);
        publish(h);
}

/* Reports those that nobody wants any more, from the job at `from` on. */
static size_t drop_unwanted_of(struct history *h, struct job_list *l, size_t from)
{
        size_t n = from;
        for (size_t i = from; i < l->len; i++) {
                if (h->archive.is_wanted(l->jobs[i]))
                        l->jobs[n++] = l->jobs[i];
                else
                        list_add(&h->stored, &l->jobs[i], 1);
        }
        size_t dropped = l->len - n;
        l->len = n;
        return dropped;
}

/* Nothing can be written.  What need not be is let go of, whatever stands before it. */
static void drop_unwanted(struct history *h)
{
        if (!h->archive.is_wanted)
                return;
        lock(h);
        size_t dropped = drop_unwanted_of(h, &h->taken, h->at);
        dropped += drop_unwanted_of(h, &h->queued, 0);
        unlock(h);
        if (!dropped)
                return;
        if (h->at == h->taken.len) { /* nothing is left of what failed */
                h->taken.len = h->at = 0;
                h->retry_ms = h->retry_ns = 0;
        }
        publish(h);
        h->archive.notify(h->archive.notify_ctx);
}

static void write_succeeded(struct history *h, size_t n)
{
        h->last_commit_ns = now_ns();
        h->next_wal_ns = h->last_commit_ns + WAL_IDLE_MS * NS_PER_MS;
        if (h->retry_ms)
                say_info("history", "writing again", "path", h->path);
        h->retry_ms = 0;
        h->retry_ns = 0;
        count(&h->n_stored, n);
        publish(h);
        lock(h);
        list_add(&h->stored, h->taken.jobs + h->at, n);
        unlock(h);
        h->at += n;
        h->archive.notify(h->archive.notify_ctx);
}

/* Trouble that leaves the jobs safe: in deleting and in checkpoints. */
static void upkeep_failed(struct history *h, const char *what, const struct problem *p)
{
        count(&h->n_errors, 1);
        say_warn("history", what, "problem", p->detail);
}

/* Readers may keep some of it from being moved, so a try does not make it empty. */
static void checkpoint(struct history *h, bool is_giving_back)
{
        struct problem p;
        h->next_wal_ns = after_ms(WAL_IDLE_MS);
        if (archive_writer_checkpoint(&h->writer, is_giving_back, &p) == OK) {
                h->has_wal_error = false;
                publish(h);
                return;
        }
        if (!h->has_wal_error)
                upkeep_failed(h, "cannot move the -wal file into the main file, retrying", &p);
        h->has_wal_error = true;
}

/* What the file can still grow by: the disk's free space and its own free pages. */
static uint64_t room_bytes(const struct history *h)
{
        struct statvfs st;
        if (statvfs(h->path, &st) < 0)
                return UINT64_MAX; /* writing will tell */
        return (uint64_t)st.f_bavail * st.f_frsize +
               atomic_load_explicit(&h->n_free_bytes, memory_order_relaxed);
}

/* A row is on the disk twice, in the -wal file and in the main file, until it was moved.  Where
 * little room is left, transactions are short and each is moved at once; true then. */
static bool limit_transaction(struct history *h)
{
        uint64_t share = room_bytes(h) / TIGHT_SHARE;
        bool is_tight = share < ARCHIVE_BATCH_BYTES;
        h->writer.is_wanted = h->archive.is_wanted;
        h->writer.batch_bytes = is_tight ? share : ARCHIVE_BATCH_BYTES;
        if (h->writer.batch_bytes < TIGHT_BYTES_MIN)
                h->writer.batch_bytes = TIGHT_BYTES_MIN;
        return is_tight;
}

/* Writes all that was taken, in as many transactions as that needs; stops at a failure. */
static void write_taken(struct history *h, int64_t close_by_ns)
{
        while (h->at < h->taken.len) {
                struct problem p;
                size_t n = h->taken.len - h->at;
                if (close_by_ns != NEVER_NS) {
                        if (now_ns() >= close_by_ns)
                                return;
                        /* Short transactions, so that the deadline is seen in time. */
                        n = n < QUEUE_LONG ? n : QUEUE_LONG;
                }
                bool is_tight = limit_transaction(h);
                if (archive_writer_add(&h->writer, h->taken.jobs + h->at, n, &n, &p) != OK) {
                        write_failed(h, &p);
                        drop_unwanted(h);
                        return;
                }
                write_succeeded(h, n);
                if (is_tight)
                        checkpoint(h, true);
        }
        h->taken.len = h->at = 0;
}

static void sweep_end(struct history *h)
{
        h->is_sweeping = false;
        h->next_sweep_ns = after_ms(SWEEP_EVERY_MS);
        lock(h);
        h->sweeps_done = h->sweep_serves;
        (void)pthread_cond_broadcast(&h->swept); /* cannot fail */
        unlock(h);
}

static int64_t cutoff(int64_t now_ms, int64_t keep_ms)
{
        return keep_ms > 0 ? now_ms - keep_ms : INT64_MIN;
}

static void sweep_begin(struct history *h, uint64_t serves)
{
        int64_t now = h->options.wall_ms(h->options.wall_ctx);
        h->is_sweeping = true;
        h->sweep_serves = serves;
        h->next_step_ns = 0;
        h->sweep = (struct archive_sweep){
                .now_ms = now,
                .done_until_ms = cutoff(now, h->options.keep_done_ms),
                .failed_until_ms = cutoff(now, h->options.keep_failed_ms),
        };
}

static void expire_incidents(struct history *h)
{
        struct problem p;
        int64_t until_ms = cutoff(h->sweep.now_ms, h->options.keep_incidents_ms);
        if (incidents_expire(h->writer.db, h->path, until_ms, &p) != OK)
                upkeep_failed(h, "cannot delete old incidents, retrying later", &p);
}

static void sweep_step(struct history *h, int64_t pace_ms)
{
        struct problem p;
        if (archive_writer_sweep(&h->writer, &h->sweep, &p) != OK) {
                upkeep_failed(h, "cannot delete old jobs, retrying later", &p);
                sweep_end(h);
                return;
        }
        count(&h->n_deleted, h->sweep.deleted);
        publish(h);
        h->next_step_ns = after_ms(pace_ms);
        if (h->sweep.is_over) {
                expire_incidents(h);
                sweep_end(h);
        }
}

/* On a full disk what the -wal file holds is room for the next transaction. */
static bool is_wal_due(const struct history *h, bool is_idle)
{
        if (h->writer.wal_pages > WAL_PAGES_MAX)
                return true;
        if (h->writer.wal_pages == 0)
                return false;
        return h->retry_ms > 0 || (is_idle && now_ns() >= h->next_wal_ns);
}

/* One piece of what is not urgent. */
static void upkeep(struct history *h, bool is_idle, uint64_t sweeps_wanted)
{
        bool is_asked = sweeps_wanted != h->sweeps_done; /* only this thread writes sweeps_done */
        if (is_wal_due(h, is_idle))
                checkpoint(h, h->retry_ms > 0);
        if (!h->is_sweeping && (is_asked || now_ns() >= h->next_sweep_ns))
                sweep_begin(h, sweeps_wanted);
        if (!h->is_sweeping || (!is_asked && now_ns() < h->next_step_ns))
                return;
        if (is_asked)
                sweep_step(h, 0);
        else
                sweep_step(h, is_idle ? STEP_IDLE_MS : STEP_BUSY_MS);
}

/* Deletes what the loop thread asked for, and reports it; the rest is refused when it is closing.
 */
static void remove_asked(struct history *h, bool is_closing)
{
        lock(h);
        struct archive_removal *r = h->to_remove;
        h->to_remove = NULL;
        unlock(h);
        while (r) {
                struct archive_removal *next = r->next;
                struct problem p;
                r->err = is_closing ? ERR_STOPPING
                                    : archive_writer_remove(&h->writer, r->refs, r->n, &r->removed,
                                                            &p);
                if (r->err && !is_closing)
                        upkeep_failed(h, "cannot delete jobs", &p);
                count(&h->n_deleted, r->removed);
                publish(h);
                lock(h);
                r->next = h->removed;
                h->removed = r;
                unlock(h);
                h->archive.notify(h->archive.notify_ctx);
                r = next;
        }
}

/* Puts what could not be written back before what came since. */
static void notes_put_back(struct history *h, struct incident_note *first, size_t n)
{
        struct incident_note **end = &first;
        while (*end)
                end = &(*end)->next;
        lock(h);
        *end = h->notes;
        if (!h->notes)
                h->notes_end = end;
        h->notes = first;
        h->n_notes += n;
        unlock(h);
}

/* Incidents that came since the last look. */
static void write_notes(struct history *h, bool is_closing)
{
        struct problem p;
        if (!is_closing && now_ns() < h->next_note_ns)
                return;
        lock(h);
        struct incident_note *first = h->notes;
        size_t n = h->n_notes;
        h->notes = NULL;
        h->notes_end = &h->notes;
        h->n_notes = 0;
        unlock(h);
        if (!first)
                return;
        if (incidents_add(h->writer.db, h->path, first, &p) == OK &&
            archive_writer_check_place(&h->writer, &p) == OK) {
                h->next_note_ns = after_ms(NOTE_EVERY_MS);
                h->has_note_error = false;
                incident_notes_free(first);
                return;
        }
        if (!h->has_note_error)
                upkeep_failed(h, "cannot write incidents, keeping them and retrying", &p);
        h->has_note_error = true;
        h->next_note_ns = after_ms(RETRY_MAX_MS);
        notes_put_back(h, first, n);
}

/* When an upkeep is due although nothing comes; called with the lock. */
static int64_t upkeep_ns(const struct history *h, bool is_idle)
{
        if (h->sweeps_wanted != h->sweeps_done || h->to_remove)
                return 0;
        int64_t at = h->is_sweeping ? h->next_step_ns : h->next_sweep_ns;
        if (h->notes && h->next_note_ns < at)
                at = h->next_note_ns;
        if (is_idle && h->writer.wal_pages > 0 && h->next_wal_ns < at)
                at = h->next_wal_ns;
        return at;
}

/* Waits until there is something to write, something else to do, or the end has come; true when
 * it is time to write.  Called with the lock. */
static bool wait_for_work(struct history *h)
{
        for (;;) {
                bool is_held = h->at < h->taken.len; /* left from a failure */
                if (h->is_closing)
                        return is_held || h->queued.len > 0;
                int64_t write_ns = NEVER_NS;
                if (is_held)
                        write_ns = h->is_woken ? 0 : h->retry_ns;
                else if (h->queued.len >= QUEUE_LONG)
                        write_ns = 0;
                else if (h->queued.len > 0)
                        write_ns = h->last_commit_ns + h->options.commit_every_ms * NS_PER_MS;
                int64_t other_ns = upkeep_ns(h, !is_held && !h->queued.len);
                int64_t now = now_ns();
                if (write_ns <= now)
                        return true;
                if (other_ns <= now)
                        return false;
                h->wake_len = h->queued.len ? QUEUE_LONG : 1;
                if (is_held)
                        h->wake_len = SIZE_MAX;
                wait_until(&h->writer_wake, &h->lock, write_ns < other_ns ? write_ns : other_ns);
                h->wake_len = SIZE_MAX;
        }
}

static void *writer_main(void *ctx)
{
        struct history *h = ctx;
        background_set(true);
        for (;;) {
                lock(h);
                bool is_write = wait_for_work(h);
                bool is_closing = h->is_closing;
                if (is_write)
                        h->is_woken = false;
                if (is_write && h->at == h->taken.len)
                        list_swap(&h->queued, &h->taken);
                bool is_idle = !h->queued.len && h->at == h->taken.len;
                int64_t close_by_ns = is_closing ? h->close_by_ns : NEVER_NS;
                uint64_t sweeps_wanted = h->sweeps_wanted;
                unlock(h);
                if (is_write)
                        write_taken(h, close_by_ns);
                remove_asked(h, is_closing);
                write_notes(h, is_closing);
                if (!is_closing)
                        upkeep(h, is_idle, sweeps_wanted);
                else if (!is_write || h->at < h->taken.len)
                        return NULL;
        }
}

/* --- the reader thread --- */

/* Called with the lock, and returns with it. */
static void answer_inquiry(struct history *h)
{
        struct archive_incidents *q = h->inquiries;
        bool is_closing = h->is_closing;
        h->inquiries = q->next;
        unlock(h);
        if (is_closing)
                q->err = ERR_STOPPING;
        else
                incidents_find(h->finder.db, q);
        if (q->err && q->err != ERR_STOPPING)
                count(&h->n_errors, 1);
        lock(h);
        q->next = h->inquired;
        h->inquired = q;
        unlock(h);
        h->archive.notify(h->archive.notify_ctx);
        lock(h);
}

static void *finder_main(void *ctx)
{
        struct history *h = ctx;
        background_lower(); /* a search may take its whole 150 ms of processor time */
        lock(h);
        for (;;) {
                if (h->inquiries) {
                        answer_inquiry(h);
                        continue;
                }
                struct archive_query *q = query_list_pop(&h->asked);
                if (!q && h->is_closing)
                        break;
                if (!q) {
                        wait_until(&h->finder_wake, &h->lock, NEVER_NS);
                        continue;
                }
                bool is_closing = h->is_closing;
                unlock(h);
                if (is_closing)
                        q->err = ERR_STOPPING;
                else
                        archive_finder_run(&h->finder, q);
                if (q->err && q->err != ERR_STOPPING)
                        count(&h->n_errors, 1);
                lock(h);
                query_list_push(&h->answered, q);
                unlock(h);
                h->archive.notify(h->archive.notify_ctx);
                lock(h);
        }
        unlock(h);
        return NULL;
}

/* --- the loop thread --- */

static struct history *of(struct archive *a)
{
        return CONTAINER_OF(a, struct history, archive);
}

static void do_store(struct archive *a, struct job *const *jobs, size_t n)
{
        struct history *h = of(a);
        lock(h);
        bool is_wake = h->queued.len < h->wake_len && h->queued.len + n >= h->wake_len;
        list_add(&h->queued, jobs, n);
        unlock(h);
        if (is_wake)
                (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

static void do_query(struct archive *a, struct archive_query *q)
{
        struct history *h = of(a);
        q->err = OK;
        q->rows = NULL;
        q->n_rows = 0;
        q->is_cut = false;
        q->last_id = 0;
        lock(h);
        query_list_push(&h->asked, q);
        unlock(h);
        (void)pthread_cond_signal(&h->finder_wake); /* cannot fail */
}

/* The oldest goes when there is no room: a file that cannot be written must not fill the memory. */
static void drop_oldest_note(struct history *h)
{
        struct incident_note *oldest = h->notes;
        ASSERT(oldest); /* there are too many */
        h->notes = oldest->next;
        if (!h->notes)
                h->notes_end = &h->notes;
        h->n_notes--;
        count(&h->n_errors, 1);
        free(oldest);
}

static void do_note(struct archive *a, const struct archive_incident *incident)
{
        struct history *h = of(a);
        struct incident_note *note = incident_note_new(incident);
        lock(h);
        bool is_first = !h->notes;
        while (h->n_notes >= NOTES_MAX)
                drop_oldest_note(h);
        *h->notes_end = note;
        h->notes_end = &note->next;
        h->n_notes++;
        unlock(h);
        if (is_first)
                (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

static void do_incidents(struct archive *a, struct archive_incidents *q)
{
        struct history *h = of(a);
        q->err = OK;
        q->rows = NULL;
        q->n_rows = 0;
        lock(h);
        q->next = h->inquiries;
        h->inquiries = q;
        unlock(h);
        (void)pthread_cond_signal(&h->finder_wake); /* cannot fail */
}

static void do_remove(struct archive *a, struct archive_removal *r)
{
        struct history *h = of(a);
        r->err = OK;
        r->removed = 0;
        lock(h);
        r->next = h->to_remove;
        h->to_remove = r;
        unlock(h);
        (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

static void tell_removed(struct archive_removal *r)
{
        while (r) {
                struct archive_removal *next = r->next; /* done() may free it */
                r->done(r);
                r = next;
        }
}

/* A transaction may hold 50,000 jobs, and letting go of one takes the core 2-8 us: some at a time,
 * so that no turn of the loop is long. */
static void report_stored(struct history *h)
{
        size_t n = h->reporting.len - h->reported;
        struct job **jobs = h->reporting.jobs + h->reported;
        if (!n)
                return;
        if (n > REPORT_JOBS && !h->is_closing)
                n = REPORT_JOBS;
        h->reported += n;
        if (h->archive.stored)
                h->archive.stored(h->archive.stored_ctx, jobs, n);
        /* For the rest of these, or for others that were stored meanwhile. */
        h->archive.notify(h->archive.notify_ctx);
}

static void do_poll(struct archive *a)
{
        struct history *h = of(a);
        lock(h);
        struct archive_query *q = query_list_take(&h->answered);
        struct archive_removal *removed = h->removed;
        h->removed = NULL;
        struct archive_incidents *inquired = h->inquired;
        h->inquired = NULL;
        if (h->reported == h->reporting.len) {
                h->reporting.len = h->reported = 0;
                list_swap(&h->stored, &h->reporting);
        }
        unlock(h);
        while (q) {
                struct archive_query *next = q->next; /* done() may free it */
                q->done(q);
                q = next;
        }
        while (inquired) {
                struct archive_incidents *next = inquired->next; /* done() may free it */
                inquired->done(inquired);
                inquired = next;
        }
        report_stored(h);
        tell_removed(removed);
}

static void do_wake(struct archive *a)
{
        struct history *h = of(a);
        lock(h);
        h->is_woken = true;
        unlock(h);
        (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

static void do_stat(struct archive *a, struct archive_stat *ret)
{
        struct history *h = of(a);
        *ret = (struct archive_stat){
                .stored = atomic_load_explicit(&h->n_stored, memory_order_relaxed),
                .deleted = atomic_load_explicit(&h->n_deleted, memory_order_relaxed),
                .errors = atomic_load_explicit(&h->n_errors, memory_order_relaxed),
                .rows = atomic_load_explicit(&h->n_rows, memory_order_relaxed),
                .bytes = atomic_load_explicit(&h->n_bytes, memory_order_relaxed),
                .room_bytes = room_bytes(h),
                .is_stuck = atomic_load_explicit(&h->is_stuck, memory_order_relaxed),
        };
}

static void release(struct history *h)
{
        archive_finder_close(&h->finder);
        archive_writer_close(&h->writer);
        (void)pthread_cond_destroy(&h->writer_wake); /* nobody waits any more */
        (void)pthread_cond_destroy(&h->finder_wake);
        (void)pthread_cond_destroy(&h->swept);
        (void)pthread_mutex_destroy(&h->lock);
        free(h->queued.jobs);
        free(h->stored.jobs);
        free(h->reporting.jobs);
        free(h->taken.jobs);
        incident_notes_free(h->notes);
        free(h->path);
        free(h);
}

static void stop(struct history *h)
{
        lock(h);
        h->is_closing = true;
        h->close_by_ns = after_ms(CLOSE_MS);
        (void)pthread_cond_broadcast(&h->writer_wake); /* cannot fail */
        (void)pthread_cond_broadcast(&h->finder_wake);
        (void)pthread_cond_broadcast(&h->swept);
        unlock(h);
}

static struct archive *do_close(struct archive *a)
{
        struct history *h = of(a);
        stop(h);
        (void)pthread_join(h->finder_thread, NULL); /* a thread of ours that nobody else joins */
        (void)pthread_join(h->writer_thread, NULL);
        remove_asked(h, true); /* what came after its last look */
        do_poll(a);
        do_poll(a); /* the first may have had some of an earlier transaction left to report */
        size_t left = h->queued.len + h->taken.len - h->at;
        if (left)
                say_warn("history", "closed with jobs not written; they come again at the start",
                         "jobs", SAY_I64(left));
        release(h);
        return NULL;
}

static int do_last_fence(struct archive *a, uint64_t *ret, struct problem *p)
{
        return archive_file_last_fence(of(a)->path, ret, p);
}

static const struct archive_ops ops = {
        .store = do_store,
        .query = do_query,
        .remove = do_remove,
        .note = do_note,
        .incidents = do_incidents,
        .poll = do_poll,
        .stat = do_stat,
        .wake = do_wake,
        .last_fence = do_last_fence,
        .close = do_close,
};

void history_sweep(struct archive *a)
{
        struct history *h = of(a);
        lock(h);
        uint64_t mine = ++h->sweeps_wanted;
        (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
        while (h->sweeps_done < mine && !h->is_closing)
                wait_until(&h->swept, &h->lock, NEVER_NS);
        unlock(h);
}

static void ignore_notify(void *ctx)
{
        (void)ctx;
}

static struct history *make(const struct history_options *options)
{
        struct history *h = xcalloc(1, sizeof(*h));
        pthread_condattr_t attr;
        h->archive.ops = &ops;
        h->archive.notify = ignore_notify;
        h->options = *options;
        if (!h->options.commit_every_ms)
                h->options.commit_every_ms = COMMIT_EVERY_MS;
        h->path = xstrdup(options->path);
        h->options.path = h->path;
        h->wake_len = SIZE_MAX;
        h->notes_end = &h->notes;
        h->last_commit_ns = now_ns() - h->options.commit_every_ms * NS_PER_MS;
        h->next_sweep_ns = now_ns(); /* the first one at once: weir may have been down for long */
        query_list_init(&h->asked);
        query_list_init(&h->answered);
        /* These fail only without memory or for bad arguments. */
        int rc = pthread_mutex_init(&h->lock, NULL) | pthread_condattr_init(&attr) |
                 pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) |
                 pthread_cond_init(&h->writer_wake, &attr) |
                 pthread_cond_init(&h->finder_wake, &attr) | pthread_cond_init(&h->swept, &attr) |
                 pthread_condattr_destroy(&attr);
        ASSERT(rc == 0);
        return h;
}

/* Signals are for the loop thread. */
static int start_thread(pthread_t *ret, void *(*fn)(void *), struct history *h, const char *name)
{
        sigset_t all;
        sigset_t was;
        (void)sigfillset(&all); /* these three fail only for bad arguments */
        (void)pthread_sigmask(SIG_SETMASK, &all, &was);
        int rc = pthread_create(ret, NULL, fn, h);
        (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
        if (rc == 0)
                (void)pthread_setname_np(*ret, name); /* only for who looks at it */
        return rc;
}

static int start_threads(struct history *h, struct problem *p)
{
        int rc = start_thread(&h->writer_thread, writer_main, h, "history-write");
        if (rc == 0) {
                rc = start_thread(&h->finder_thread, finder_main, h, "history-read");
                if (rc == 0)
                        return OK;
                stop(h);
                (void)pthread_join(h->writer_thread, NULL); /* a thread of ours */
        }
        return problem_set(p, ERR_NOMEM, "cannot start a thread for history: %s", strerror(rc));
}

int history_open(const struct history_options *options, struct archive **ret, struct problem *p)
{
        ASSERT(options->path && options->view_of && options->wall_ms);
        struct history *h = make(options);
        int err = archive_writer_open(&h->writer, h->path, options->view_of, p);
        if (!err)
                err = archive_finder_open(&h->finder, h->path, p);
        if (!err)
                err = incidents_last(h->writer.db, h->path, &h->archive.last_incident, p);
        publish(h);
        h->archive.last_id = (uint64_t)h->writer.last_id;
        if (!err)
                err = start_threads(h, p);
        if (err) {
                release(h);
                return err;
        }
        *ret = &h->archive;
        return OK;
}

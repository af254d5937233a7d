/* The archive as the loop sees it: handing over, asking, polling, and the life of both threads.
 *
 *      loop thread  store() -> queued ->  writer thread  -> stored   -> poll() -> archive->stored
 *                   query() -> asked  ->  reader thread  -> answered -> poll() -> q->done
 *
 * Handing over is an append of pointers under a mutex.  The writer swaps the whole array for its
 * own empty one, so neither side copies a job, allocates for one, or holds the mutex for long.
 * The writer is woken only when it waits for what has come: one wake a transaction, not one a
 * store(). */
#include "history/history.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/say.h"
#include "history/archive_file.h"
#include "history/history_int.h"

#define COMMIT_EVERY_MS 3000
#define NOTES_MAX       10000 /* that wait to be written; the oldest are dropped beyond */
#define REPORT_JOBS     500   /* in one poll */
#define CLOSE_MS        1000  /* for writing what is left; the rest is still in the log */

/* --- for all threads --- */

int64_t history_now_ns(void)
{
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
        return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* The mutex is an ordinary one and no thread ends while it holds it: these cannot fail. */
void history_lock(struct history *h)
{
        (void)pthread_mutex_lock(&h->lock);
}

void history_unlock(struct history *h)
{
        (void)pthread_mutex_unlock(&h->lock);
}

int64_t history_after_ms(int64_t ms)
{
        return history_now_ns() + ms * NS_PER_MS;
}

void history_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns)
{
        if (until_ns == NEVER_NS) {
                (void)pthread_cond_wait(cond, lock); /* the caller looks again in any case */
                return;
        }
        struct timespec t = {until_ns / NS_PER_S, until_ns % NS_PER_S};
        (void)pthread_cond_timedwait(cond, lock, &t); /* the same */
}

void history_count(_Atomic uint64_t *counter, uint64_t n)
{
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void history_publish(struct history *h)
{
        atomic_store_explicit(&h->n_rows, (uint64_t)h->writer.rows, memory_order_relaxed);
        atomic_store_explicit(&h->n_bytes, (uint64_t)h->writer.file_bytes, memory_order_relaxed);
        atomic_store_explicit(&h->n_free_bytes, (uint64_t)h->writer.free_pages * ARCHIVE_PAGE_BYTES,
                              memory_order_relaxed);
        atomic_store_explicit(&h->is_stuck, h->retry_ms > 0, memory_order_relaxed);
}

uint64_t history_room_bytes(const struct history *h)
{
        struct statvfs st;
        if (statvfs(h->path, &st) < 0)
                return UINT64_MAX; /* writing will tell */
        return (uint64_t)st.f_bavail * st.f_frsize +
               atomic_load_explicit(&h->n_free_bytes, memory_order_relaxed);
}

/* With the lock. */
static void history_check(const struct history *h)
{
        size_t n_notes = 0;
        for (const struct incident_note *n = h->notes; n; n = n->next)
                n_notes++;
        ASSERT(h->reported <= h->reporting.len);          /* (1) */
        ASSERT(n_notes == h->n_notes && !*h->notes_end);  /* (2) */
        ASSERT((h->notes_end == &h->notes) == !h->notes); /* (2) */
        ASSERT(h->sweeps_done <= h->sweeps_wanted);       /* (3) */
        ASSERT(!*h->asked.end && !*h->answered.end);      /* (4) */
}

/* --- the loop thread --- */

static struct history *of(struct archive *a)
{
        return CONTAINER_OF(a, struct history, archive);
}

static void do_store(struct archive *a, struct job *const *jobs, size_t n)
{
        struct history *h = of(a);
        history_lock(h);
        ASSERT(!h->is_closing);
        bool is_wake = h->queued.len < h->wake_len && h->queued.len + n >= h->wake_len;
        job_list_add(&h->queued, jobs, n);
        history_unlock(h);
        if (is_wake)
                (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

static void do_query(struct archive *a, struct archive_query *q)
{
        struct history *h = of(a);
        ASSERT(q->done);
        q->err = OK;
        q->rows = NULL;
        q->n_rows = 0;
        q->is_cut = false;
        q->last_id = 0;
        history_lock(h);
        query_list_push(&h->asked, q);
        history_unlock(h);
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
        history_count(&h->n_errors, 1);
        free(oldest);
}

static void do_note(struct archive *a, const struct archive_incident *incident)
{
        struct history *h = of(a);
        struct incident_note *note = incident_note_new(incident);
        history_lock(h);
        bool is_first = !h->notes;
        while (h->n_notes >= NOTES_MAX)
                drop_oldest_note(h);
        *h->notes_end = note;
        h->notes_end = &note->next;
        h->n_notes++;
        history_unlock(h);
        if (is_first)
                (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

static void do_incidents(struct archive *a, struct archive_incidents *q)
{
        struct history *h = of(a);
        ASSERT(q->done);
        q->err = OK;
        q->rows = NULL;
        q->n_rows = 0;
        history_lock(h);
        q->next = h->inquiries;
        h->inquiries = q;
        history_unlock(h);
        (void)pthread_cond_signal(&h->finder_wake); /* cannot fail */
}

static void do_remove(struct archive *a, struct archive_removal *r)
{
        struct history *h = of(a);
        ASSERT(r->done && (r->refs || !r->n));
        r->err = OK;
        r->removed = 0;
        history_lock(h);
        r->next = h->to_remove;
        h->to_remove = r;
        history_unlock(h);
        (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
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
        history_lock(h);
        if (IS_CHECKED)
                history_check(h);
        struct archive_query *q = query_list_take(&h->answered);
        struct archive_removal *removed = h->removed;
        h->removed = NULL;
        struct archive_incidents *inquired = h->inquired;
        h->inquired = NULL;
        if (h->reported == h->reporting.len) {
                h->reporting.len = h->reported = 0;
                job_list_swap(&h->stored, &h->reporting);
        }
        history_unlock(h);
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
        while (removed) {
                struct archive_removal *next = removed->next; /* done() may free it */
                removed->done(removed);
                removed = next;
        }
}

static void do_wake(struct archive *a)
{
        struct history *h = of(a);
        history_lock(h);
        h->is_woken = true;
        history_unlock(h);
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
                .room_bytes = history_room_bytes(h),
                .is_stuck = atomic_load_explicit(&h->is_stuck, memory_order_relaxed),
        };
}

static void release(struct history *h)
{
        archive_finder_close(&h->finder);
        archive_writer_close(&h->writer);
        (void)pthread_cond_destroy(&h->writer_wake); /* no thread waits any more */
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
        history_lock(h);
        h->is_closing = true;
        h->close_by_ns = history_after_ms(CLOSE_MS);
        (void)pthread_cond_broadcast(&h->writer_wake); /* cannot fail */
        (void)pthread_cond_broadcast(&h->finder_wake);
        (void)pthread_cond_broadcast(&h->swept);
        history_unlock(h);
}

static struct archive *do_close(struct archive *a)
{
        struct history *h = of(a);
        stop(h);
        (void)pthread_join(h->finder_thread, NULL); /* a thread of ours, joined only here */
        (void)pthread_join(h->writer_thread, NULL);
        history_remove_asked(h, true); /* what came after its last look */
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
        history_lock(h);
        uint64_t mine = ++h->sweeps_wanted;
        (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
        while (h->sweeps_done < mine && !h->is_closing)
                history_wait_until(&h->swept, &h->lock, NEVER_NS);
        history_unlock(h);
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
        h->last_commit_ns = history_now_ns() - h->options.commit_every_ms * NS_PER_MS;
        h->next_sweep_ns =
                history_now_ns(); /* the first one at once: weir may have been down for long */
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
        int rc = start_thread(&h->writer_thread, history_writer_main, h, "history-write");
        if (rc == 0) {
                rc = start_thread(&h->finder_thread, history_reader_main, h, "history-read");
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
        history_publish(h);
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

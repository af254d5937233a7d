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
#define PACK_EVERY_MS   5000 /* passes, when there are rows that the last one did not see */
#define FOLLOW_EVERY_MS 1000
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

static void publish(_Atomic uint64_t *to, uint64_t value)
{
        atomic_store_explicit(to, value, memory_order_relaxed);
}

static uint64_t published(const _Atomic uint64_t *from)
{
        return atomic_load_explicit(from, memory_order_relaxed);
}

void history_publish(struct history *h)
{
        const struct blocks *b = h->writer.blocks;
        uint64_t in_pages = (uint64_t)h->writer.free_pages * ARCHIVE_PAGE_BYTES;
        publish(&h->n_rows, (uint64_t)h->writer.rows);
        publish(&h->n_block_jobs, b ? blocks_live(b) : 0);
        publish(&h->n_blocks, b ? blocks_len(b) : 0);
        publish(&h->n_block_bytes, b ? blocks_bytes(b) : 0);
        publish(&h->n_bytes, (uint64_t)h->writer.file_bytes);
        publish(&h->n_free_bytes, in_pages); /* what segments have reserved is of no use to rows */
        atomic_store_explicit(&h->is_stuck, h->retry_ms > 0, memory_order_relaxed);
}

uint64_t history_room_bytes(const struct history *h)
{
        struct statvfs st;
        if (statvfs(h->path, &st) < 0)
                return UINT64_MAX; /* writing will tell */
        return (uint64_t)st.f_bavail * st.f_frsize + published(&h->n_free_bytes);
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
        size_t n_rolls = 0;
        for (const struct rollup_note *n = h->rolls; n; n = n->next)
                n_rolls++;
        size_t n_audits = 0;
        for (const struct audit_note *n = h->audits; n; n = n->next)
                n_audits++;
        ASSERT(n_audits == h->n_audits && !*h->audits_end); /* (6) */
        ASSERT(n_rolls == h->n_rolls && !*h->rolls_end);    /* (4) */
        ASSERT(n_rolls <= ROLLUPS_WAITING_MAX);             /* (4) */
        ASSERT(!*h->asked.end && !*h->answered.end);        /* (5) */
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
        if (!h->is_to_lead)
                n = 0;
        bool is_wake = h->queued.len < h->wake_len && h->queued.len + n >= h->wake_len;
        job_list_add(&h->queued, jobs, n);
        history_unlock(h);
        if (is_wake)
                (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

static void do_query(struct archive *a, struct archive_query *q)
{
        struct history *h = of(a);
        h->n_unanswered++;
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
        if (!h->is_to_lead) /* only this thread changes it */
                return;
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
        h->n_unanswered++;
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

/* The log has no more of them either (LIMIT_AUDIT_WAITING). */
static struct audit_note *take_oldest_audit(struct history *h)
{
        struct audit_note *oldest = h->audits;
        ASSERT(oldest); /* there are too many */
        h->audits = oldest->next;
        if (!h->audits)
                h->audits_end = &h->audits;
        h->n_audits--;
        return oldest;
}

static void do_audit(struct archive *a, const struct audit_entry *e)
{
        struct history *h = of(a);
        if (!h->is_to_lead)
                return;
        struct audit_note *note = audit_note_new(e), *dropped = NULL;
        history_lock(h);
        bool is_first = !h->audits;
        if (h->n_audits >= NOTES_MAX)
                dropped = take_oldest_audit(h);
        *h->audits_end = note;
        h->audits_end = &note->next;
        h->n_audits++;
        history_unlock(h);
        free(dropped);
        if (is_first)
                (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

static void do_audits(struct archive *a, struct archive_audits *q)
{
        struct history *h = of(a);
        h->n_unanswered++;
        ASSERT(q->done);
        q->err = OK;
        q->rows = NULL;
        q->n_rows = q->n_damaged = 0;
        q->is_cut = false;
        history_lock(h);
        q->next = h->reviews;
        h->reviews = q;
        history_unlock(h);
        (void)pthread_cond_signal(&h->finder_wake); /* cannot fail */
}

static void report_audited(struct history *h, struct audit_note *first)
{
        for (const struct audit_note *n = first; n && h->archive.audited; n = n->next)
                h->archive.audited(h->archive.audited_ctx, n->row.number);
        audit_notes_free(first);
}

static void do_roll(struct archive *a, struct slice minute)
{
        struct history *h = of(a);
        if (!h->is_to_lead)
                return;
        struct rollup_note *note = rollup_note_new(minute);
        struct rollup_note *dropped = NULL;
        history_lock(h);
        if (h->n_rolls == ROLLUPS_WAITING_MAX) {
                dropped = h->rolls;
                h->rolls = dropped->next;
                dropped->next = NULL;
                h->n_rolls--;
        }
        *h->rolls_end = note;
        h->rolls_end = &note->next;
        h->n_rolls++;
        history_unlock(h);
        if (dropped)
                history_count(&h->n_errors, 1);
        rollup_notes_free(dropped);
        (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

static void do_rollups(struct archive *a, struct archive_rollups *q)
{
        struct history *h = of(a);
        h->n_unanswered++;
        ASSERT(q->done && q->view);
        q->n_damaged = 0;
        history_lock(h);
        /* Of an answer that close() reports: the thread that would take it has ended. */
        struct archive_rollups **list = h->is_closing ? &h->surveyed : &h->surveys;
        q->err = h->is_closing ? ERR_STOPPING : OK;
        q->next = *list;
        *list = q;
        history_unlock(h);
        (void)pthread_cond_signal(&h->finder_wake); /* cannot fail */
}

static void do_remove(struct archive *a, struct archive_removal *r)
{
        struct history *h = of(a);
        h->n_unanswered++;
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

static void report_led(struct history *h)
{
        history_lock(h);
        bool has_led = h->has_led;
        h->has_led = false;
        if (has_led) {
                h->archive.last_id = h->led_last_id;
                h->archive.last_incident = h->led_last_incident;
                h->archive.last_audit = h->led_last_audit;
        }
        history_unlock(h);
        if (has_led && h->led)
                h->led(h->led_ctx);
}

static void do_poll(struct archive *a)
{
        struct history *h = of(a);
        report_led(h);
        history_lock(h);
        if (IS_CHECKED)
                history_check(h);
        struct archive_query *q = query_list_take(&h->answered);
        struct archive_removal *removed = h->removed;
        h->removed = NULL;
        struct archive_incidents *inquired = h->inquired;
        h->inquired = NULL;
        struct archive_audits *reviewed = h->reviewed;
        h->reviewed = NULL;
        struct audit_note *audited = h->audited;
        h->audited = NULL;
        struct archive_rollups *surveyed = h->surveyed;
        h->surveyed = NULL;
        if (h->reported == h->reporting.len) {
                h->reporting.len = h->reported = 0;
                job_list_swap(&h->stored, &h->reporting);
        }
        history_unlock(h);
        while (q) {
                struct archive_query *next = q->next; /* done() may free it */
                h->n_unanswered--;
                q->done(q);
                q = next;
        }
        while (inquired) {
                struct archive_incidents *next = inquired->next; /* done() may free it */
                h->n_unanswered--;
                inquired->done(inquired);
                inquired = next;
        }
        while (reviewed) {
                struct archive_audits *next = reviewed->next; /* done() may free it */
                h->n_unanswered--;
                reviewed->done(reviewed);
                reviewed = next;
        }
        report_audited(h, audited);
        while (surveyed) {
                struct archive_rollups *next = surveyed->next; /* done() may free it */
                h->n_unanswered--;
                surveyed->done(surveyed);
                surveyed = next;
        }
        report_stored(h);
        while (removed) {
                struct archive_removal *next = removed->next; /* done() may free it */
                h->n_unanswered--;
                removed->done(removed);
                removed = next;
        }
}

bool history_is_idle(const struct archive *a)
{
        return CONTAINER_OF(a, const struct history, archive)->n_unanswered == 0;
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
                .stored = published(&h->n_stored),
                .deleted = published(&h->n_deleted),
                .errors = published(&h->n_errors),
                .bytes = published(&h->n_bytes),
                .block_jobs = published(&h->n_block_jobs),
                .blocks = published(&h->n_blocks),
                .block_bytes = published(&h->n_block_bytes),
                .room_bytes = history_room_bytes(h),
                .is_stuck = atomic_load_explicit(&h->is_stuck, memory_order_relaxed),
        };
        ret->rows = published(&h->n_rows) + ret->block_jobs;
        history_lock(h);
        ret->failing_since_ms = h->failing_since_ms;
        memcpy(ret->failing, h->failing, sizeof(ret->failing));
        history_unlock(h);
}

static void release(struct history *h)
{
        archive_finder_close(&h->finder);
        archive_writer_close(&h->writer);
        (void)pthread_cond_destroy(&h->writer_wake); /* no thread waits any more */
        (void)pthread_cond_destroy(&h->finder_wake);
        (void)pthread_cond_destroy(&h->swept);
        (void)pthread_cond_destroy(&h->let_go);
        (void)pthread_mutex_destroy(&h->lock);
        free(h->queued.jobs);
        free(h->stored.jobs);
        free(h->reporting.jobs);
        free(h->taken.jobs);
        incident_notes_free(h->notes);
        audit_notes_free(h->audits);
        audit_notes_free(h->audited);
        rollup_notes_free(h->rolls);
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
        history_remove_asked(h, ERR_STOPPING); /* what came after its last look */
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
        .audit = do_audit,
        .audits = do_audits,
        .roll = do_roll,
        .rollups = do_rollups,
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

void history_lead(struct archive *a, void (*done)(void *ctx), void *ctx)
{
        struct history *h = of(a);
        ASSERT(h->options.mirror);
        history_lock(h);
        h->turn++;
        h->is_to_lead = true;
        h->has_led = false;
        h->led = done;
        h->led_ctx = ctx;
        history_unlock(h);
        (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
}

void history_follow(struct archive *a)
{
        struct history *h = of(a);
        ASSERT(h->options.mirror);
        history_lock(h);
        h->turn++;
        h->is_to_lead = false;
        h->has_led = false;
        while (h->is_reading_jobs)
                history_wait_until(&h->let_go, &h->lock, NEVER_NS);
        h->queued.len = h->stored.len = 0;
        h->reporting.len = h->reported = 0;
        struct incident_note *notes = h->notes;
        struct audit_note *audits = h->audits, *audited = h->audited;
        struct rollup_note *rolls = h->rolls;
        h->notes = NULL;
        h->audits = h->audited = NULL;
        h->rolls = NULL;
        h->notes_end = &h->notes;
        h->audits_end = &h->audits;
        h->rolls_end = &h->rolls;
        h->n_notes = h->n_audits = h->n_rolls = 0;
        history_unlock(h);
        (void)pthread_cond_signal(&h->writer_wake); /* cannot fail */
        incident_notes_free(notes);
        audit_notes_free(audits);
        audit_notes_free(audited);
        rollup_notes_free(rolls);
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
        if (!h->options.pack_every_ms)
                h->options.pack_every_ms = PACK_EVERY_MS;
        if (!h->options.follow_every_ms)
                h->options.follow_every_ms = FOLLOW_EVERY_MS;
        h->path = xstrdup(options->path);
        h->options.path = h->path;
        h->is_to_lead = !options->mirror || !options->is_following;
        h->is_leading = !options->mirror;
        h->wake_len = SIZE_MAX;
        h->notes_end = &h->notes;
        h->audits_end = &h->audits;
        h->rolls_end = &h->rolls;
        h->last_commit_ns = history_now_ns() - h->options.commit_every_ms * NS_PER_MS;
        h->next_sweep_ns =
                history_now_ns(); /* the first one at once: weir may have been down for long */
        h->next_pack_ns = history_after_ms(h->options.pack_every_ms);
        query_list_init(&h->asked);
        query_list_init(&h->answered);
        /* These fail only without memory or for bad arguments. */
        int rc = pthread_mutex_init(&h->lock, NULL) | pthread_condattr_init(&attr) |
                 pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) |
                 pthread_cond_init(&h->writer_wake, &attr) |
                 pthread_cond_init(&h->finder_wake, &attr) | pthread_cond_init(&h->swept, &attr) |
                 pthread_cond_init(&h->let_go, &attr) | pthread_condattr_destroy(&attr);
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

/* Damage that weir can live with is told once, and counts as an error. */
static void tell_damage(struct history *h)
{
        uint64_t n = blocks_damaged(h->writer.blocks);
        if (!n)
                return;
        history_count(&h->n_errors, n);
        say_warn("history", "jobs in damaged blocks are left out; weir history verify names them",
                 "path", h->path, "blocks", SAY_I64(n));
}

int history_open(const struct history_options *options, struct archive **ret, struct problem *p)
{
        ASSERT(options->path && options->view_of && options->wall_ms);
        struct history *h = make(options);
        int err = archive_writer_open(&h->writer, h->path, options->view_of, p);
        if (!err)
                err = archive_writer_set_mirror(&h->writer, options->mirror, p);
        h->writer.mirrored.on_built = history_reading_end;
        h->writer.mirrored.on_built_ctx = h;
        if (!err)
                err = archive_finder_open(&h->finder, h->path, h->writer.blocks, p);
        if (!err)
                err = incidents_last(h->writer.db, h->path, &h->archive.last_incident, p);
        if (!err)
                err = audits_last(h->writer.db, h->path, &h->archive.last_audit, p);
        history_publish(h);
        h->archive.last_id = (uint64_t)h->writer.last_id;
        if (!err)
                err = start_threads(h, p);
        if (err) {
                release(h);
                return err;
        }
        tell_damage(h);
        *ret = &h->archive;
        return OK;
}

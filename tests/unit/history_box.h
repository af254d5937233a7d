/* A history in a folder of its own, for the tests: jobs made of views, an archive opened on them,
 * and ways to wait for what it reports. */
#ifndef WEIR_TESTS_UNIT_HISTORY_BOX_H
#define WEIR_TESTS_UNIT_HISTORY_BOX_H

#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/bytes.h"
#include "base/rand.h"
#include "history/archive_file.h"
#include "history/history.h"
#include "state/event.h"
#include "state/option.h"

#define BOX_NOW      1790000000000 /* Unix ms: the boxes' time begins here */
#define BOX_NEVER_MS 86400000 /* a test packs when it means to; an idle writer would pack first */
#define BOX_WAIT_NS  (180 * NS_PER_S) /* ends what hangs */

/* What the core hands over is opaque to history: here it is a view that owns its bytes. */
struct job {
        struct job_view view;
        struct buf bytes;
        int reported;       /* how often */
        size_t reported_at; /* position among all reports */
};

struct box {
        char folder[160];
        char path[200];
        struct archive *archive;
        int64_t keep_done_ms, keep_failed_ms, keep_incidents_ms, keep_audit_ms, pack_every_ms;
        struct mirror *mirror;
        bool is_following;
        _Atomic int64_t wall_ms;
        size_t n_reported;
        int n_answers;
        pthread_mutex_t lock;
        pthread_cond_t news;
        bool has_news;
};

static inline int64_t box_clock(void *ctx)
{
        struct box *box = ctx;
        return atomic_load(&box->wall_ms);
}

static inline void box_view(const struct job *job, struct job_view *ret)
{
        *ret = job->view;
}

static inline void box_notify(void *ctx)
{
        struct box *box = ctx;
        (void)pthread_mutex_lock(&box->lock);
        box->has_news = true;
        (void)pthread_cond_signal(&box->news);
        (void)pthread_mutex_unlock(&box->lock);
}

static inline void box_stored(void *ctx, struct job *const *jobs, size_t n)
{
        struct box *box = ctx;
        for (size_t i = 0; i < n; i++) {
                jobs[i]->reported++;
                jobs[i]->reported_at = box->n_reported++;
        }
}

static inline int box_try_open(struct box *box, struct problem *p)
{
        struct history_options options = {
                .path = box->path,
                .keep_done_ms = box->keep_done_ms,
                .keep_failed_ms = box->keep_failed_ms,
                .keep_incidents_ms = box->keep_incidents_ms,
                .keep_audit_ms = box->keep_audit_ms,
                .commit_every_ms = 20, /* a test has no second for each */
                .pack_every_ms = box->pack_every_ms,
                .view_of = box_view,
                .wall_ms = box_clock,
                .wall_ctx = box,
                .mirror = box->mirror,
                .is_following = box->is_following,
                .follow_every_ms = 5,
        };
        int err = history_open(&options, &box->archive, p);
        if (err)
                return err;
        box->archive->stored = box_stored;
        box->archive->stored_ctx = box;
        box->archive->notify = box_notify;
        box->archive->notify_ctx = box;
        return OK;
}

static inline void box_open(struct box *box)
{
        struct problem p;
        int err = box_try_open(box, &p);
        if (err)
                print_error("%s\n", p.detail);
        assert_int_equal(err, OK);
}

static inline void box_close(struct box *box)
{
        assert_null(box->archive->ops->close(box->archive));
        box->archive = NULL;
}

static inline void box_init_folder(struct box *box)
{
        const char *tmp = getenv("TMPDIR");
        *box = (struct box){.pack_every_ms = BOX_NEVER_MS};
        (void)snprintf(box->folder, sizeof(box->folder), "%s/weir-history-XXXXXX",
                       tmp ? tmp : "/tmp");
        assert_non_null(mkdtemp(box->folder));
        (void)snprintf(box->path, sizeof(box->path), "%.*s/history.db",
                       (int)sizeof(box->folder) - 1, box->folder);
        atomic_store(&box->wall_ms, BOX_NOW);
        assert_int_equal(pthread_mutex_init(&box->lock, NULL), 0);
        pthread_condattr_t attr;
        assert_int_equal(pthread_condattr_init(&attr), 0);
        assert_int_equal(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), 0);
        assert_int_equal(pthread_cond_init(&box->news, &attr), 0);
        assert_int_equal(pthread_condattr_destroy(&attr), 0);
}

static inline void box_init(struct box *box)
{
        box_init_folder(box);
        box_open(box);
}

static inline int box_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

static inline void box_release(struct box *box)
{
        if (box->archive)
                box_close(box);
        (void)nftw(box->folder, box_remove, 8, FTW_DEPTH | FTW_PHYS);
        (void)pthread_cond_destroy(&box->news);
        (void)pthread_mutex_destroy(&box->lock);
}

/* Waits for the archive to have something to say, and hears it. */
static inline void box_turn(struct box *box)
{
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += BOX_WAIT_NS / NS_PER_S;
        (void)pthread_mutex_lock(&box->lock);
        int rc = 0;
        while (!box->has_news && rc == 0)
                rc = pthread_cond_timedwait(&box->news, &box->lock, &until);
        box->has_news = false;
        (void)pthread_mutex_unlock(&box->lock);
        assert_int_equal(rc, 0);
        box->archive->ops->poll(box->archive);
}

static inline void box_hand_over(struct box *box, struct job *const *jobs, size_t n)
{
        box->archive->ops->store(box->archive, jobs, n);
}

static inline void box_wait_reported(struct box *box, size_t n)
{
        while (box->n_reported < n)
                box_turn(box);
        assert_int_equal(box->n_reported, n);
}

/* Hands over and waits until all of them were reported. */
static inline void box_store(struct box *box, struct job *const *jobs, size_t n)
{
        box_hand_over(box, jobs, n);
        box_wait_reported(box, box->n_reported + n);
}

static inline void box_answered(struct archive_query *q)
{
        bool *is_done = q->ctx;
        *is_done = true;
}

/* The answer is in q; arena_release(&q->arena) ends it. */
static inline void box_ask(struct box *box, struct archive_query *q)
{
        bool is_done = false;
        q->done = box_answered;
        q->ctx = &is_done;
        box->archive->ops->query(box->archive, q);
        while (!is_done)
                box_turn(box);
        assert_int_equal(q->err, OK);
}

static inline struct archive_stat box_stat(const struct box *box)
{
        struct archive_stat st;
        box->archive->ops->stat(box->archive, &st);
        return st;
}

/* ---- jobs ---- */

static inline struct slice job_keep(struct job *job, struct slice s)
{
        ASSERT(job->bytes.cap - job->bytes.len >= s.len); /* must not move */
        const char *at = job->bytes.ptr + job->bytes.len;
        buf_put_slice(&job->bytes, s);
        return s.len ? slice_make(at, s.len) : SLICE_NONE;
}

static inline void job_text(struct job *job, struct slice *field, const char *text)
{
        *field = job_keep(job, slice_str(text));
}

/* Bytes that no compression makes shorter. */
static inline void job_noise(struct job *job, struct slice *field, size_t n)
{
        struct rng dice;
        char noise[1024];
        ASSERT(n <= sizeof(noise));
        rng_init_seed(&dice, job->view.id);
        rng_fill(&dice, noise, n);
        *field = job_keep(job, slice_make(noise, n));
}

/* A complete job, ended at BOX_NOW, with the plain story. */
static inline struct job *job_make(uint64_t id, size_t room)
{
        struct job *job = xcalloc(1, sizeof(*job));
        buf_init(&job->bytes, 0);
        assert_true(buf_reserve(&job->bytes, room + 256));
        job->view = (struct job_view){
                .id = id,
                .status = JOB_COMPLETE,
                .priority = 100,
                .attempt = 1,
                .attempts_max = 3,
                .created_ms = BOX_NOW - 1000,
                .due_ms = BOX_NOW - 1000,
                .started_ms = BOX_NOW - 200,
                .finished_ms = BOX_NOW,
                .fence = id + 7,
        };
        job_text(job, &job->view.hook, "mail.send");
        job_text(job, &job->view.queue, "default");
        job_text(job, &job->view.worker, "w1");
        job_text(job, &job->view.args, "{\"to\":\"a@b\"}");
        return job;
}

/* Appends to the story; all of a job's events in one run, since they must lie together. */
static inline void job_tell_event(struct job *job, enum event_type type, int64_t wall_ms,
                                  struct slice worker, struct slice message)
{
        struct event e = {type, wall_ms, worker, message};
        size_t before = job->bytes.len;
        struct slice *events = &job->view.events;
        ASSERT(job->bytes.cap - before >= 32 + worker.len + message.len);
        ASSERT(!events->len || events->ptr + events->len == job->bytes.ptr + before);
        event_pack(&job->bytes, &e, job->view.created_ms);
        const char *start = events->len ? events->ptr : job->bytes.ptr + before;
        *events = slice_make(start, (size_t)(job->bytes.ptr + job->bytes.len - start));
}

/* Before the events: those must lie together. */
static inline void job_set_packed(struct job *job, const struct job_options *options)
{
        struct buf packed;
        buf_init(&packed, 0);
        options_pack(options, &packed);
        job->view.options = job_keep(job, buf_slice(&packed));
        buf_release(&packed);
}

static inline void job_tell_plainly(struct job *job)
{
        static const enum event_type ends[] = {
                [JOB_COMPLETE] = EVENT_COMPLETED,
                [JOB_FAILED] = EVENT_FAILED,
                [JOB_CANCELED] = EVENT_CANCELED,
        };
        const struct job_view *v = &job->view;
        if (v->started_ms > 0)
                job_tell_event(job, EVENT_STARTED, v->started_ms, v->worker, SLICE_NONE);
        job_tell_event(job, ends[v->status], v->finished_ms, v->worker,
                       v->status == JOB_FAILED ? v->error : SLICE_NONE);
}

static inline struct job *job_plain(uint64_t id)
{
        struct job *job = job_make(id, 0);
        job_tell_plainly(job);
        return job;
}

static inline void job_drop(struct job *job)
{
        buf_release(&job->bytes);
        free(job);
}

static inline void jobs_drop(struct job **jobs, size_t n)
{
        for (size_t i = 0; i < n; i++)
                job_drop(jobs[i]);
}

static inline void assert_same_view(const struct job_view *got, const struct job_view *want)
{
        assert_int_equal(got->id, want->id);
        assert_true(slice_eq(got->hook, want->hook));
        assert_true(slice_eq(got->args, want->args));
        assert_true(slice_eq(got->queue, want->queue));
        assert_true(slice_eq(got->group, want->group));
        assert_int_equal(got->status, want->status);
        assert_int_equal(got->priority, want->priority);
        assert_int_equal(got->attempt, want->attempt);
        assert_int_equal(got->attempts_max, want->attempts_max);
        assert_int_equal(got->timeout_ms, want->timeout_ms);
        assert_int_equal(got->created_ms, want->created_ms);
        assert_int_equal(got->due_ms, want->due_ms);
        assert_int_equal(got->started_ms, want->started_ms);
        assert_int_equal(got->finished_ms, want->finished_ms);
        assert_true(slice_eq(got->worker, want->worker));
        assert_int_equal(got->fence, want->fence);
        assert_int_equal(got->lease_until_ms, 0);
        assert_true(slice_eq(got->progress, want->progress));
        assert_true(slice_eq(got->result, want->result));
        assert_true(slice_eq(got->error, want->error));
        assert_true(slice_eq(got->events, want->events));
        assert_true(slice_eq(got->options, want->options));
}

/* The job must be in history, and exactly as this one. */
static inline void assert_found(struct box *box, const struct job_view *want)
{
        struct archive_query q = {.id = want->id};
        box_ask(box, &q);
        assert_int_equal(q.n_rows, 1);
        assert_same_view(&q.rows[0], want);
        arena_release(&q.arena);
}

static inline bool box_has(struct box *box, uint64_t id)
{
        struct archive_query q = {.id = id};
        box_ask(box, &q);
        bool is_there = q.n_rows == 1;
        arena_release(&q.arena);
        return is_there;
}

/* ---- the file, as others see it ---- */

/* The first column of the first row, as people would ask for it. */
static inline void ask_sql(const struct box *box, const char *sql, char *ret, size_t size)
{
        sqlite3 *db;
        sqlite3_stmt *stmt;
        assert_int_equal(sqlite3_open_v2(box->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
        const unsigned char *text = sqlite3_column_text(stmt, 0);
        (void)snprintf(ret, size, "%s", text ? (const char *)text : "NULL");
        assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static inline void assert_sql(const struct box *box, const char *sql, const char *want)
{
        char got[4096];
        ask_sql(box, sql, got, sizeof(got));
        assert_string_equal(got, want);
}

/* What a file had one version ago, by the version that it has then. */
static const char *const box_downgrades[ARCHIVE_VERSION] = {
        [7] = "DROP TABLE audit",
        [6] = "DROP TABLE block; DROP TABLE store",
        [5] = "DROP TABLE minute",
        [4] = "DROP VIEW incidents; DROP TABLE incident",
        [3] = "ALTER TABLE job DROP COLUMN checksum",
        [2] = "ALTER TABLE span DROP COLUMN marks; ALTER TABLE span DROP COLUMN created_last;"
              "ALTER TABLE span DROP COLUMN created_first",
};

/* Makes the closed file one of an older version, 2 or later; jobs in blocks are lost. */
static inline void box_downgrade(const struct box *box, int version)
{
        sqlite3 *db;
        char text[40];
        assert_int_equal(sqlite3_open(box->path, &db), SQLITE_OK);
        for (int i = ARCHIVE_VERSION - 1; i >= version; i--)
                if (sqlite3_exec(db, box_downgrades[i], NULL, NULL, NULL) != SQLITE_OK)
                        fail_msg("to version %d: %s", i, sqlite3_errmsg(db));
        (void)snprintf(text, sizeof(text), "PRAGMA user_version = %d", version);
        assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static inline void assert_version(const struct box *box, int version)
{
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", version);
        assert_sql(box, "PRAGMA user_version", text);
}

/* How many jobs a listing of all of them finds. */
static inline size_t box_count(struct box *box)
{
        struct archive_query q;
        uint64_t before = UINT64_MAX;
        size_t n = 0;
        do {
                q = (struct archive_query){.before_id = before,
                                           .limit = 1000,
                                           .is_brief = true,
                                           .filter = {.status = -1}};
                box_ask(box, &q);
                n += q.n_rows;
                if (q.n_rows)
                        before = q.refs[q.n_rows - 1].id;
                if (q.is_cut)
                        before = q.last_id;
                arena_release(&q.arena);
        } while (q.is_cut || q.n_rows == q.limit);
        return n;
}

/* The archive says nothing when it fails: it only counts. */
static inline void await_errors(struct box *box, uint64_t n)
{
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        time_t until = t.tv_sec + BOX_WAIT_NS / NS_PER_S;
        while (box_stat(box).errors < n) {
                (void)sched_yield();
                (void)clock_gettime(CLOCK_MONOTONIC, &t);
                assert_true(t.tv_sec < until);
        }
}

#endif

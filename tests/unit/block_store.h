/* A history of rows and blocks in a folder of its own, for the tests of its reader: jobs put where
 * the test wants them, and any listing compared with a walk over those jobs. */
#ifndef WEIR_TESTS_UNIT_BLOCK_STORE_H
#define WEIR_TESTS_UNIT_BLOCK_STORE_H

#include "history_box.h"

#include "gate/registry.h"
#include "history/archive_file.h"
#include "history/archive_finder.h"
#include "history/checksum.h"
#include "history/events_json.h"

#define ALL      ((struct job_filter){.status = -1})
#define JOBS_MAX 12000

struct store {
        struct box box; /* its folder alone */
        sqlite3 *db;
        struct blocks *blocks;
        struct block_maker *maker;
        struct archive_finder finder;
        /* What is in it, by id. */
        struct job *jobs[JOBS_MAX];
        size_t n_jobs;
        uint64_t n_reads; /* at the last look */
};

static inline void run_sql(struct store *s, const char *sql)
{
        assert_int_equal(sqlite3_exec(s->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static inline void store_init(struct store *s)
{
        struct problem p;
        *s = (struct store){0};
        box_init_folder(&s->box);
        assert_int_equal(archive_file_open(s->box.path, &s->db, &p), OK);
        assert_int_equal(blocks_open(s->db, s->box.path, false, &s->blocks, &p), OK);
        assert_int_equal(archive_finder_open(&s->finder, s->box.path, s->blocks, &p), OK);
        s->maker = block_maker_new();
}

static inline void store_release(struct store *s)
{
        archive_finder_close(&s->finder);
        s->blocks = blocks_close(s->blocks);
        assert_int_equal(sqlite3_close(s->db), SQLITE_OK);
        s->maker = block_maker_free(s->maker);
        jobs_drop(s->jobs, s->n_jobs);
        box_release(&s->box);
}

/* ---- what is in it ---- */

static inline void keep(struct store *s, struct job *job)
{
        size_t at = s->n_jobs++;
        assert_true(s->n_jobs <= JOBS_MAX);
        for (; at > 0 && s->jobs[at - 1]->view.id > job->view.id; at--)
                s->jobs[at] = s->jobs[at - 1];
        s->jobs[at] = job;
}

static inline struct job *job_of(struct store *s, uint64_t id)
{
        for (size_t i = 0; i < s->n_jobs; i++)
                if (s->jobs[i]->view.id == id)
                        return s->jobs[i];
        return NULL;
}

static inline void forget(struct store *s, uint64_t id)
{
        size_t at = 0;
        while (s->jobs[at]->view.id != id)
                at++;
        job_drop(s->jobs[at]);
        s->n_jobs--;
        memmove(&s->jobs[at], &s->jobs[at + 1], (s->n_jobs - at) * sizeof(struct job *));
}

static inline uint64_t run_of(const struct job *job)
{
        struct job_options o = {0};
        assert_true(options_unpack(job->view.options, &o));
        return o.run;
}

static inline void begin(struct store *s)
{
        run_sql(s, "BEGIN IMMEDIATE");
}

static inline void commit(struct store *s)
{
        struct problem p;
        assert_int_equal(blocks_sync(s->blocks, &p), OK);
        blocks_lock(s->blocks);
        run_sql(s, "COMMIT");
        blocks_publish(s->blocks);
        blocks_unlock(s->blocks);
}

/* The jobs, ids ascending, as one block. */
static inline void put_block(struct store *s, struct job *const *jobs, size_t n)
{
        struct problem p;
        struct slice bytes;
        for (size_t i = 0; i < n; i++) {
                block_maker_add(s->maker, &jobs[i]->view, run_of(jobs[i]));
                keep(s, jobs[i]);
        }
        assert_int_equal(block_maker_end(s->maker, &bytes), OK);
        begin(s);
        assert_int_equal(blocks_put(s->blocks, bytes, family_of(jobs[0]->view.status), &p), OK);
        commit(s);
}

static inline void bind_text(sqlite3_stmt *row, struct checksum *c, enum archive_column column,
                             struct slice text)
{
        checksum_bytes(c, column, text);
        if (text.len)
                assert_int_equal(sqlite3_bind_blob(row, (int)column + 1, text.ptr, (int)text.len,
                                                   SQLITE_STATIC),
                                 SQLITE_OK);
}

static inline void bind_number(sqlite3_stmt *row, struct checksum *c, enum archive_column column,
                               int64_t number)
{
        checksum_number(c, number);
        assert_int_equal(sqlite3_bind_int64(row, (int)column + 1, number), SQLITE_OK);
}

static inline void bind_row(sqlite3_stmt *row, const struct job *job, struct slice events)
{
        const struct job_view *v = &job->view;
        struct checksum c = {0};
        bind_number(row, &c, COLUMN_ID, (int64_t)v->id);
        bind_number(row, &c, COLUMN_STATUS, v->status);
        bind_number(row, &c, COLUMN_FINISHED, v->finished_ms);
        bind_text(row, &c, COLUMN_QUEUE, v->queue);
        bind_text(row, &c, COLUMN_GROUP, v->group);
        bind_text(row, &c, COLUMN_HOOK, v->hook);
        bind_number(row, &c, COLUMN_CREATED, v->created_ms);
        bind_number(row, &c, COLUMN_DUE, v->due_ms);
        bind_number(row, &c, COLUMN_STARTED, v->started_ms);
        bind_number(row, &c, COLUMN_PRIORITY, v->priority);
        bind_number(row, &c, COLUMN_ATTEMPT, v->attempt);
        bind_number(row, &c, COLUMN_ATTEMPTS_MAX, v->attempts_max);
        bind_number(row, &c, COLUMN_TIMEOUT, v->timeout_ms);
        bind_number(row, &c, COLUMN_FENCE, (int64_t)v->fence);
        bind_text(row, &c, COLUMN_WORKER, v->worker);
        bind_text(row, &c, COLUMN_PROGRESS, v->progress);
        bind_text(row, &c, COLUMN_ERROR, v->error);
        bind_text(row, &c, COLUMN_RESULT, v->result);
        bind_text(row, &c, COLUMN_ARGS, v->args);
        bind_text(row, &c, COLUMN_EVENTS, events);
        bind_text(row, &c, COLUMN_OPTIONS, v->options);
        bind_number(row, &c, COLUMN_RUN, (int64_t)run_of(job));
        int64_t sum = checksum_value(&c);
        assert_int_equal(sqlite3_bind_int64(row, COLUMN_CHECKSUM + 1, sum), SQLITE_OK);
}

/* A row of the first level; its span says nothing about it. */
static inline void put_row(struct store *s, struct job *job)
{
        static const char insert[] =
                "INSERT INTO job VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
        char span[100];
        sqlite3_stmt *row;
        struct buf events CLEANUP(buf_release) = {0};
        events_json_write(&events, &job->view);
        assert_int_equal(sqlite3_prepare_v2(s->db, insert, -1, &row, NULL), SQLITE_OK);
        bind_row(row, job, buf_slice(&events));
        assert_int_equal(sqlite3_step(row), SQLITE_DONE);
        assert_int_equal(sqlite3_finalize(row), SQLITE_OK);
        (void)snprintf(span, sizeof(span),
                       "INSERT OR IGNORE INTO span(block, done_ms, failed_ms) VALUES(%llu, 0, 0)",
                       (unsigned long long)(job->view.id >> ARCHIVE_SPAN_SHIFT));
        run_sql(s, span);
        keep(s, job);
}

/* A block of plain jobs: n ids from `first` on, each `step` after the one before. */
static inline void put_plain(struct store *s, uint64_t first, size_t n, uint64_t step)
{
        struct job *jobs[BLOCK_JOBS];
        for (size_t i = 0; i < n; i++)
                jobs[i] = job_plain(first + i * step);
        put_block(s, jobs, n);
}

/* ---- what is found ---- */

static inline bool is_match(const struct job_filter *f, const struct job_view *v)
{
        struct job_options o = {0};
        assert_true(options_unpack(v->options, &o));
        if (f->tier && (o.tier ? o.tier : 1U + registry_tier(f->registry, v->hook)) != f->tier)
                return false;
        return (f->status < 0 || (int)v->status == f->status) &&
               (!f->hook.len || slice_eq(f->hook, v->hook)) &&
               (!f->queue.len || slice_eq(f->queue, v->queue)) &&
               (!f->group.len || slice_eq(f->group, v->group)) &&
               (!f->worker.len || slice_eq(f->worker, v->worker)) &&
               (!f->since_ms || v->created_ms >= f->since_ms) &&
               (!f->until_ms || v->created_ms < f->until_ms) &&
               (!f->ended_since_ms || v->finished_ms >= f->ended_since_ms) &&
               (!f->match.len || slice_contains(v->hook, f->match) ||
                slice_contains(v->args, f->match) || slice_contains(v->error, f->match) ||
                slice_contains(v->result, f->match));
}

static inline void ask(struct store *s, struct archive_query *q)
{
        archive_finder_run(&s->finder, q);
        assert_int_equal(q->err, OK);
}

/* Blocks read since the last look. */
static inline uint64_t reads(struct store *s)
{
        uint64_t n = s->finder.shelf.n_reads - s->n_reads;
        s->n_reads = s->finder.shelf.n_reads;
        return n;
}

static inline void assert_same_ref(const struct archive_ref *got, const struct job *want)
{
        assert_int_equal(got->id, want->view.id);
        assert_int_equal(got->run, run_of(want));
        assert_int_equal(got->finished_ms, want->view.finished_ms);
}

/* The next job that the query must find, in its order, from place *at on; NULL: none. */
static inline struct job *next_wanted(struct store *s, const struct archive_query *q, size_t *at)
{
        while (*at < s->n_jobs) {
                size_t i = (*at)++;
                struct job *job = s->jobs[q->is_oldest ? i : s->n_jobs - 1 - i];
                uint64_t id = job->view.id;
                if (id > q->after_id && (!q->before_id || id < q->before_id) &&
                    is_match(&q->filter, &job->view))
                        return job;
        }
        return NULL;
}

/* Page after page, with budgets as they are, until the listing ends. */
static inline size_t assert_pages(struct store *s, struct archive_query asked)
{
        uint64_t cursor = asked.is_oldest ? asked.after_id : asked.before_id;
        size_t n = 0, at = 0;
        for (bool is_more = true; is_more;) {
                struct archive_query q = asked;
                q.before_id = asked.is_oldest ? asked.before_id : cursor;
                q.after_id = asked.is_oldest ? cursor : asked.after_id;
                ask(s, &q);
                for (size_t i = 0; i < q.n_rows; i++, n++) {
                        const struct job *want = next_wanted(s, &asked, &at);
                        assert_non_null(want);
                        if (q.is_brief)
                                assert_same_ref(&q.refs[i], want);
                        else
                                assert_same_view(&q.rows[i], &want->view);
                        cursor = want->view.id;
                }
                is_more = q.is_cut || q.n_rows == q.limit;
                if (is_more) { /* it must get further */
                        assert_true(q.is_oldest ? q.last_id > q.after_id
                                                : !q.before_id || q.last_id < q.before_id);
                        cursor = q.last_id;
                }
                arena_release(&q.arena);
        }
        assert_null(next_wanted(s, &asked, &at));
        return n;
}

/* Both ways, in pages of several sizes; returns how many jobs it has. */
static inline size_t assert_listed(struct store *s, struct job_filter filter)
{
        static const size_t limits[] = {3, 1000};
        size_t n = 0;
        for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
                struct archive_query q = {.limit = limits[i], .filter = filter};
                n = assert_pages(s, q);
                q.is_brief = true;
                assert_int_equal(assert_pages(s, q), n);
                q.is_oldest = true;
                assert_int_equal(assert_pages(s, q), n);
                q.is_brief = false;
                assert_int_equal(assert_pages(s, q), n);
        }
        return n;
}

#endif

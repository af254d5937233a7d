/* Adding jobs to the history file, and taking old ones out.
 *
 * Adding is the busy side: every finished job passes here, so it is a handful of prepared
 * statements, bound to the job's own bytes without a copy, ten rows a statement, tens of
 * thousands a transaction.  A million 200-byte jobs cost 1.4-1.8 us of CPU each, of which the
 * kernel takes a third for writing each byte twice (log and file); SQLite's b-tree and virtual
 * machine the rest.  A row that is there already stays as it is: after a crash the core hands
 * over again what it did not hear about.
 *
 * Deleting needs to know where old rows are without an index on their times, which would cost
 * every job 0.6-0.9 us.  Ids are given in order of creation, so rows near each other mostly ended
 * near each other; the table span keeps, for every 4,096 ids, the earliest end among its rows.  A
 * sweep looks for a span that has something to give, deletes up to STEP_ROWS of it, and when no
 * more is left there works out the span's times anew.  A span that still holds one job kept for
 * longer is thus looked at again only when that job's time has come.  The sums of a transaction
 * are gathered in a small direct-mapped table; a clash writes the older one out early. */
#include "history/archive_writer.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "history/archive_file.h"
#include "history/story.h"

#define STEP_ROWS  500                   /* deleted in one transaction */
#define STEP_BYTES ((int64_t)(16 * MIB)) /* the same, estimated from the average row */
#define STEP_FEW   16                    /* but at least this many */

static const char *const sql_texts[] = {
#define X(name, text) [SQL_##name] = text,
        ARCHIVE_WRITER_SQL_MAP(X)
#undef X
};

static int fail(struct archive_writer *w, struct problem *p)
{
        return archive_file_fail(w->db, w->path, p);
}

static int prepare(struct archive_writer *w, enum archive_writer_sql which, const char *sql)
{
        return sqlite3_prepare_v3(w->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &w->stmts[which],
                                  NULL);
}

static int prepare_insert(struct archive_writer *w, enum archive_writer_sql which, int rows)
{
        struct buf sql;
        buf_init(&sql, 0);
        buf_put_str(&sql, "INSERT OR IGNORE INTO job VALUES");
        for (int row = 0; row < rows; row++) {
                buf_put_str(&sql, row ? ",(?" : "(?");
                for (int column = 1; column < COLUMN_COUNT; column++)
                        buf_put_str(&sql, ",?");
                buf_put_str(&sql, ")");
        }
        int rc = prepare(w, which, buf_cstr(&sql));
        buf_release(&sql);
        return rc;
}

/* Runs a statement that gives no rows, or whose first row is all that is wanted: *ret_row tells
 * whether there is one, and the caller resets.  Without ret_row it is reset here. */
static int step(struct archive_writer *w, enum archive_writer_sql which, bool *ret_row)
{
        sqlite3_stmt *stmt = w->stmts[which];
        int rc = sqlite3_step(stmt);
        if (ret_row)
                *ret_row = rc == SQLITE_ROW;
        if (!ret_row || rc != SQLITE_ROW)
                (void)sqlite3_reset(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int run(struct archive_writer *w, enum archive_writer_sql which)
{
        return step(w, which, NULL);
}

static void bind(struct archive_writer *w, enum archive_writer_sql which, int at, int64_t v)
{
        /* Fails only on a wrong index or a running statement: a mistake of ours. */
        int rc = sqlite3_bind_int64(w->stmts[which], at, v);
        ASSERT(rc == SQLITE_OK);
}

static void sums_clear(struct archive_writer *w)
{
        for (size_t i = 0; i < ARCHIVE_SUMS; i++)
                w->sums[i].block = -1;
}

/* After a failure; SQLite may have rolled back by itself already. */
static int undo(struct archive_writer *w, struct problem *p)
{
        int err = fail(w, p);
        sums_clear(w);
        if (!sqlite3_get_autocommit(w->db))
                (void)run(w, SQL_ROLLBACK); /* the first error is the one to tell */
        return err;
}

/* --- spans --- */

static int sum_write(struct archive_writer *w, struct archive_span *sum)
{
        if (sum->block < 0)
                return SQLITE_OK;
        bind(w, SQL_SPAN_ADD, 1, sum->block);
        bind(w, SQL_SPAN_ADD, 2, sum->done_ms);
        bind(w, SQL_SPAN_ADD, 3, sum->failed_ms);
        sum->block = -1;
        return run(w, SQL_SPAN_ADD);
}

static int sum_add(struct archive_writer *w, const struct job_view *v)
{
        int64_t block = (int64_t)(v->id >> ARCHIVE_SPAN_SHIFT);
        struct archive_span *sum = &w->sums[block % ARCHIVE_SUMS];
        if (sum->block != block) {
                int rc = sum_write(w, sum);
                if (rc != SQLITE_OK)
                        return rc;
                *sum = (struct archive_span){block, ARCHIVE_NEVER, ARCHIVE_NEVER};
        }
        int64_t *first = v->status == JOB_FAILED ? &sum->failed_ms : &sum->done_ms;
        if (v->finished_ms < *first)
                *first = v->finished_ms;
        return SQLITE_OK;
}

static int sums_write(struct archive_writer *w)
{
        for (size_t i = 0; i < ARCHIVE_SUMS; i++) {
                int rc = sum_write(w, &w->sums[i]);
                if (rc != SQLITE_OK)
                        return rc;
        }
        return SQLITE_OK;
}

/* --- rows --- */

/* The parameters of one row among those of a statement; the first error stays. */
struct row {
        sqlite3_stmt *stmt;
        int base;
        int rc;
};

static void put_int(struct row *r, enum archive_column column, int64_t v)
{
        int rc = sqlite3_bind_int64(r->stmt, r->base + (int)column, v);
        if (rc != SQLITE_OK)
                r->rc = rc;
}

/* The bytes must stay until the statement has run. */
static void put_text(struct row *r, enum archive_column column, struct slice s)
{
        int at = r->base + (int)column;
        int rc;
        if (!s.len)
                rc = sqlite3_bind_null(r->stmt, at);
        else if (story_is_text(s))
                rc = sqlite3_bind_text(r->stmt, at, s.ptr, (int)s.len, SQLITE_STATIC);
        else
                rc = sqlite3_bind_blob(r->stmt, at, s.ptr, (int)s.len, SQLITE_STATIC);
        if (rc != SQLITE_OK)
                r->rc = rc;
}

static int put_row(sqlite3_stmt *stmt, int row, const struct job_view *v, struct slice story)
{
        struct row r = {stmt, 1 + row * COLUMN_COUNT, SQLITE_OK};
        put_int(&r, COLUMN_ID, (int64_t)v->id);
        put_int(&r, COLUMN_STATUS, (int64_t)v->status);
        put_int(&r, COLUMN_FINISHED, v->finished_ms);
        put_text(&r, COLUMN_QUEUE, v->queue);
        put_text(&r, COLUMN_GROUP, v->group);
        put_text(&r, COLUMN_HOOK, v->hook);
        put_int(&r, COLUMN_CREATED, v->created_ms);
        put_int(&r, COLUMN_DUE, v->due_ms);
        put_int(&r, COLUMN_STARTED, v->started_ms);
        put_int(&r, COLUMN_PRIORITY, v->priority);
        put_int(&r, COLUMN_ATTEMPT, v->attempt);
        put_int(&r, COLUMN_ATTEMPTS_MAX, v->attempts_max);
        put_int(&r, COLUMN_TIMEOUT, v->timeout_ms);
        put_int(&r, COLUMN_FENCE, (int64_t)v->fence);
        put_text(&r, COLUMN_WORKER, v->worker);
        put_text(&r, COLUMN_PROGRESS, v->progress);
        put_text(&r, COLUMN_ERROR, v->error);
        put_text(&r, COLUMN_RESULT, v->result);
        put_text(&r, COLUMN_ARGS, v->args);
        put_text(&r, COLUMN_EVENTS, story);
        return r.rc;
}

static uint64_t weigh(const struct job_view *v)
{
        return 128 + v->hook.len + v->args.len + v->progress.len + v->result.len + v->error.len +
               v->events.len * 4;
}

/* Up to ARCHIVE_MANY rows; *inserted and *bytes grow by what they were. */
static int add_rows(struct archive_writer *w, struct job *const *jobs, size_t n, int64_t *inserted,
                    uint64_t *bytes)
{
        struct job_view views[ARCHIVE_MANY];
        size_t ends[ARCHIVE_MANY]; /* of the stories; the buffer may move while it grows */
        int rc = SQLITE_OK;
        buf_clear(&w->story);
        for (size_t i = 0; i < n; i++) {
                w->view_of(jobs[i], &views[i]);
                story_write(&w->story, &views[i]);
                ends[i] = w->story.len;
                *bytes += weigh(&views[i]);
        }
        if (w->story.failed)
                return SQLITE_NOMEM;
        bool at_once = n == ARCHIVE_MANY;
        enum archive_writer_sql which = at_once ? SQL_INSERT_MANY : SQL_INSERT_ONE;
        for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
                size_t from = i ? ends[i - 1] : 0;
                struct slice story = SLICE_NONE;
                if (ends[i] > from)
                        story = slice_make(w->story.ptr + from, ends[i] - from);
                rc = put_row(w->stmts[which], at_once ? (int)i : 0, &views[i], story);
                if (rc == SQLITE_OK && (!at_once || i + 1 == n)) {
                        rc = run(w, which);
                        *inserted += sqlite3_changes(w->db);
                }
                if (rc == SQLITE_OK)
                        rc = sum_add(w, &views[i]);
        }
        return rc;
}

static void measure(struct archive_writer *w)
{
        char wal[4096 + 8];
        struct stat st;
        w->file_bytes = 0;
        if (stat(w->path, &st) == 0)
                w->file_bytes += st.st_size;
        (void)snprintf(wal, sizeof(wal), "%s-wal", w->path); /* too long: the stat fails */
        if (stat(wal, &st) == 0)
                w->file_bytes += st.st_size;
}

static int end_transaction(struct archive_writer *w, int64_t more_rows)
{
        if (more_rows) {
                bind(w, SQL_TALLY_ADD, 1, more_rows);
                int rc = run(w, SQL_TALLY_ADD);
                if (rc != SQLITE_OK)
                        return rc;
        }
        int rc = run(w, SQL_COMMIT);
        if (rc == SQLITE_OK) {
                w->rows += more_rows;
                measure(w);
        }
        return rc;
}

int archive_writer_add(struct archive_writer *w, struct job *const *jobs, size_t n, size_t *ret,
                       struct problem *p)
{
        int64_t inserted = 0;
        uint64_t bytes = 0;
        size_t done = 0;
        int rc = run(w, SQL_BEGIN);
        if (n > ARCHIVE_BATCH_JOBS)
                n = ARCHIVE_BATCH_JOBS;
        while (rc == SQLITE_OK && done < n && bytes < ARCHIVE_BATCH_BYTES) {
                size_t some = n - done < ARCHIVE_MANY ? n - done : ARCHIVE_MANY;
                rc = add_rows(w, jobs + done, some, &inserted, &bytes);
                done += some;
        }
        if (rc == SQLITE_OK)
                rc = sums_write(w);
        if (rc == SQLITE_OK)
                rc = end_transaction(w, inserted);
        if (rc != SQLITE_OK)
                return undo(w, p);
        *ret = done;
        return OK;
}

/* --- retention --- */

/* The span's times from the rows that are left, or its end when there are none. */
static int span_renew(struct archive_writer *w, int64_t block)
{
        sqlite3_stmt *left = w->stmts[SQL_SPAN_LEFT];
        bool is_row;
        bind(w, SQL_SPAN_LEFT, 1, block * ARCHIVE_SPAN_IDS);
        bind(w, SQL_SPAN_LEFT, 2, (block + 1) * ARCHIVE_SPAN_IDS - 1);
        int rc = step(w, SQL_SPAN_LEFT, &is_row);
        if (rc != SQLITE_OK)
                return rc;
        enum archive_writer_sql which = SQL_SPAN_DROP;
        if (sqlite3_column_int64(left, 0) > 0) {
                which = SQL_SPAN_SET;
                for (int i = 1; i <= 2; i++)
                        bind(w, which, i + 1,
                             sqlite3_column_type(left, i) == SQLITE_NULL
                                     ? ARCHIVE_NEVER
                                     : sqlite3_column_int64(left, i));
        }
        bind(w, which, 1, block);
        (void)sqlite3_reset(left); /* it succeeded */
        return run(w, which);
}

/* Long rows are many pages each: fewer of them make a step. */
static int64_t step_rows(const struct archive_writer *w)
{
        int64_t average = w->file_bytes / (w->rows > 0 ? w->rows : 1) + 1;
        int64_t n = STEP_BYTES / average;
        if (n > STEP_ROWS)
                return STEP_ROWS;
        return n < STEP_FEW ? STEP_FEW : n;
}

static int expire(struct archive_writer *w, struct archive_sweep *s, int64_t block)
{
        int64_t limit = step_rows(w);
        bind(w, SQL_EXPIRE, 1, block * ARCHIVE_SPAN_IDS);
        bind(w, SQL_EXPIRE, 2, (block + 1) * ARCHIVE_SPAN_IDS - 1);
        bind(w, SQL_EXPIRE, 3, s->done_until_ms);
        bind(w, SQL_EXPIRE, 4, s->failed_until_ms);
        bind(w, SQL_EXPIRE, 5, limit);
        int rc = run(w, SQL_EXPIRE);
        if (rc != SQLITE_OK)
                return rc;
        int64_t deleted = sqlite3_changes(w->db);
        bool is_block_done = deleted < limit;
        if (is_block_done)
                rc = span_renew(w, block);
        if (rc == SQLITE_OK)
                rc = end_transaction(w, -deleted);
        if (rc != SQLITE_OK)
                return rc;
        s->deleted = (uint64_t)deleted;
        s->block = is_block_done ? block + 1 : block;
        return SQLITE_OK;
}

int archive_writer_sweep(struct archive_writer *w, struct archive_sweep *s, struct problem *p)
{
        bool is_row;
        s->deleted = 0;
        s->is_over = false;
        bind(w, SQL_SPAN_FIND, 1, s->block);
        bind(w, SQL_SPAN_FIND, 2, s->done_until_ms);
        bind(w, SQL_SPAN_FIND, 3, s->failed_until_ms);
        int rc = step(w, SQL_SPAN_FIND, &is_row);
        if (rc != SQLITE_OK)
                return fail(w, p);
        if (!is_row) {
                s->is_over = true;
                return OK;
        }
        int64_t block = sqlite3_column_int64(w->stmts[SQL_SPAN_FIND], 0);
        (void)sqlite3_reset(w->stmts[SQL_SPAN_FIND]); /* it succeeded */
        rc = run(w, SQL_BEGIN);
        if (rc == SQLITE_OK)
                rc = expire(w, s, block);
        return rc == SQLITE_OK ? OK : undo(w, p);
}

/* --- the connection --- */

static int count_wal(void *ctx, sqlite3 *db, const char *name, int pages)
{
        struct archive_writer *w = ctx;
        (void)db;
        (void)name;
        w->wal_pages = pages;
        return SQLITE_OK;
}

int archive_writer_checkpoint(struct archive_writer *w, struct problem *p)
{
        int in_wal = 0;
        int moved = 0;
        int rc = sqlite3_wal_checkpoint_v2(w->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_wal, &moved);
        if (rc != SQLITE_OK && rc != SQLITE_BUSY)
                return fail(w, p);
        if (in_wal >= 0 && moved >= 0)
                w->wal_pages = in_wal - moved;
        measure(w);
        return OK;
}

int archive_writer_open(struct archive_writer *w, const char *path,
                        void (*view_of)(const struct job *, struct job_view *), struct problem *p)
{
        *w = (struct archive_writer){.path = path, .view_of = view_of};
        buf_init(&w->story, 0);
        sums_clear(w);
        int err = archive_file_open(path, &w->db, p);
        if (err)
                return err;
        int rc = SQLITE_OK;
        for (int i = 0; i < SQL_INSERT_ONE && rc == SQLITE_OK; i++)
                rc = prepare(w, (enum archive_writer_sql)i, sql_texts[i]);
        if (rc == SQLITE_OK)
                rc = prepare_insert(w, SQL_INSERT_ONE, 1);
        if (rc == SQLITE_OK)
                rc = prepare_insert(w, SQL_INSERT_MANY, ARCHIVE_MANY);
        bool is_row = false;
        if (rc == SQLITE_OK)
                rc = step(w, SQL_TALLY, &is_row);
        if (rc != SQLITE_OK) {
                err = fail(w, p);
                archive_writer_close(w);
                return err;
        }
        w->rows = is_row ? sqlite3_column_int64(w->stmts[SQL_TALLY], 0) : 0;
        (void)sqlite3_reset(w->stmts[SQL_TALLY]); /* it succeeded */
        (void)sqlite3_wal_hook(w->db, count_wal, w);
        measure(w);
        return OK;
}

void archive_writer_close(struct archive_writer *w)
{
        for (int i = 0; i < SQL_COUNT; i++) {
                (void)sqlite3_finalize(w->stmts[i]); /* repeats the last error of a statement */
                w->stmts[i] = NULL;
        }
        if (w->db)
                (void)sqlite3_close(
                        w->db); /* moves the rest of the -wal in; no statement is open */
        w->db = NULL;
        buf_release(&w->story);
}

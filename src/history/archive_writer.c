/* Adding jobs to the history file, and taking old ones out.
 *
 * Adding is the busy side: every finished job passes here, so it is a handful of prepared
 * statements, bound to the job's own bytes without a copy, ten rows a statement, tens of
 * thousands a transaction.  A million 200-byte jobs cost 1.4-1.8 us of CPU each, of which the
 * kernel takes a third for writing each byte twice (log and file); SQLite's b-tree and virtual
 * machine the rest.  A row that is there already stays as it is: after a crash the core hands
 * over again what it did not hear about.  Only a job that was taken back and ended again replaces
 * its row, and it carries the number of its run: whatever comes twice or late has no larger one.
 *
 * Deleting needs to know where old rows are without an index on their times, which would cost
 * every job 0.6-0.9 us.  Ids are given in order of creation, so rows near each other mostly ended
 * near each other; the table span keeps, for every 4,096 ids, the earliest end among its rows.  A
 * sweep looks for a span that has something to give, deletes what there is of it, long rows in
 * several steps, and when no more is left there works out the span's times anew.  A span that still
 * holds one job kept for longer is thus looked at again only when that job's time has come.  A step
 * must be worth its commit: a busy writer takes four a second, and has to delete as fast as jobs
 * come.  The sums of a transaction are gathered in a small direct-mapped table; a clash writes the
 * older one out early.
 *
 * The same sums tell what a span holds, for filters (archive_finder.c).  They only grow: a deleted
 * row leaves its marks until the span is empty and goes. */
#include "history/archive_writer.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/shown.h"
#include "history/archive_file.h"
#include "history/checksum.h"
#include "history/events_json.h"
#include "state/option.h"

#define STEP_ROWS  ARCHIVE_SPAN_IDS      /* deleted in one transaction */
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
        bind(w, SQL_SPAN_ADD, 4, sum->created_first);
        bind(w, SQL_SPAN_ADD, 5, sum->created_last);
        int rc = sqlite3_bind_blob(w->stmts[SQL_SPAN_ADD], 6, sum->marks, SPAN_MARK_BYTES,
                                   SQLITE_STATIC);
        ASSERT(rc == SQLITE_OK); /* as in bind() */
        sum->block = -1;
        return run(w, SQL_SPAN_ADD);
}

static void mark_row(struct archive_span *sum, const struct job_view *v)
{
        const struct {
                enum span_mark_kind kind;
                struct slice text;
        } names[] = {{MARK_QUEUE, v->queue},
                     {MARK_GROUP, v->group},
                     {MARK_HOOK, v->hook},
                     {MARK_WORKER, v->worker}};
        span_mark_add(sum->marks, span_mark_status((int)v->status));
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (names[i].text.len)
                        span_mark_add(sum->marks, span_mark_hash(names[i].kind, names[i].text));
        if (v->created_ms < sum->created_first)
                sum->created_first = v->created_ms;
        if (v->created_ms > sum->created_last)
                sum->created_last = v->created_ms;
}

static int sum_add(struct archive_writer *w, const struct job_view *v)
{
        int64_t block = (int64_t)(v->id >> ARCHIVE_SPAN_SHIFT);
        struct archive_span *sum = &w->sums[block % ARCHIVE_SUMS];
        if (sum->block != block) {
                int rc = sum_write(w, sum);
                if (rc != SQLITE_OK)
                        return rc;
                *sum = (struct archive_span){.block = block,
                                             .done_ms = ARCHIVE_NEVER,
                                             .failed_ms = ARCHIVE_NEVER,
                                             .created_first = INT64_MAX,
                                             .created_last = INT64_MIN};
        }
        mark_row(sum, v);
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

/* The parameters of one row among those of a statement; the first error stays.  Columns are put in
 * their order: that is how the checksum takes them. */
struct row {
        sqlite3_stmt *stmt;
        int base;
        int rc;
        struct checksum checksum;
};

static void put_int(struct row *r, enum archive_column column, int64_t v)
{
        int rc = sqlite3_bind_int64(r->stmt, r->base + (int)column, v);
        checksum_number(&r->checksum, v);
        if (rc != SQLITE_OK)
                r->rc = rc;
}

/* The bytes must stay until the statement has run. */
static void put_text(struct row *r, enum archive_column column, struct slice s)
{
        int at = r->base + (int)column;
        int rc;
        checksum_bytes(&r->checksum, column, s);
        if (!s.len)
                rc = sqlite3_bind_null(r->stmt, at);
        else if (events_json_is_text(s))
                rc = sqlite3_bind_text(r->stmt, at, s.ptr, (int)s.len, SQLITE_STATIC);
        else
                rc = sqlite3_bind_blob(r->stmt, at, s.ptr, (int)s.len, SQLITE_STATIC);
        if (rc != SQLITE_OK)
                r->rc = rc;
}

static void put_blob(struct row *r, enum archive_column column, struct slice s)
{
        int at = r->base + (int)column;
        int rc = s.len ? sqlite3_bind_blob(r->stmt, at, s.ptr, (int)s.len, SQLITE_STATIC)
                       : sqlite3_bind_null(r->stmt, at);
        checksum_bytes(&r->checksum, column, s);
        if (rc != SQLITE_OK)
                r->rc = rc;
}

static int put_row(sqlite3_stmt *stmt, int row, const struct job_view *v, struct slice events,
                   uint64_t run_number)
{
        struct row r = {.stmt = stmt, .base = 1 + row * COLUMN_COUNT, .rc = SQLITE_OK};
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
        put_text(&r, COLUMN_EVENTS, events);
        put_blob(&r, COLUMN_OPTIONS, v->options);
        put_int(&r, COLUMN_RUN, (int64_t)run_number);
        put_int(&r, COLUMN_CHECKSUM, checksum_value(&r.checksum));
        return r.rc;
}

static uint64_t weigh(const struct job_view *v)
{
        return 128 + v->hook.len + v->args.len + v->progress.len + v->result.len + v->error.len +
               v->options.len + v->events.len * 4;
}

/* What history itself reads of a job's options. */
struct wish {
        uint64_t run, result_ms;
};

static struct wish wish_of(const struct job_view *v)
{
        struct job_options o;
        if (!v->options.len || !options_unpack(v->options, &o))
                return (struct wish){0, 0};
        return (struct wish){o.run, o.result_ms};
}

/* Makes room for a later run of a job that is there. */
static int drop_older(struct archive_writer *w, uint64_t id, uint64_t run_number, int64_t *rows)
{
        if (!run_number)
                return SQLITE_OK;
        bind(w, SQL_OLDER_DROP, 1, (int64_t)id);
        bind(w, SQL_OLDER_DROP, 2, (int64_t)run_number);
        int rc = run(w, SQL_OLDER_DROP);
        if (rc == SQLITE_OK)
                *rows -= sqlite3_changes(w->db);
        return rc;
}

static int add_lapse(struct archive_writer *w, const struct job_view *v, const struct wish *wish)
{
        if (!wish->result_ms || !v->result.len)
                return SQLITE_OK;
        uint64_t room = (uint64_t)(INT64_MAX - v->finished_ms);
        if (wish->result_ms > room)
                return SQLITE_OK; /* never */
        bind(w, SQL_LAPSE_ADD, 1, v->finished_ms + (int64_t)wish->result_ms);
        bind(w, SQL_LAPSE_ADD, 2, (int64_t)v->id);
        bind(w, SQL_LAPSE_ADD, 3, (int64_t)wish->run);
        bind(w, SQL_LAPSE_ADD, 4, v->finished_ms);
        return run(w, SQL_LAPSE_ADD);
}

/* Rows on their way into the file. */
struct load {
        size_t n;
        bool is_again; /* some were taken back before: these go one by one */
        struct job_view views[ARCHIVE_MANY];
        struct wish wishes[ARCHIVE_MANY];
        size_t ends[ARCHIVE_MANY]; /* of the stories; the buffer may move while it grows */
};

static struct slice events_of(const struct archive_writer *w, const struct load *l, size_t i)
{
        size_t from = i ? l->ends[i - 1] : 0;
        return l->ends[i] > from ? slice_make(w->events_json.ptr + from, l->ends[i] - from)
                                 : SLICE_NONE;
}

static int fill_load(struct archive_writer *w, struct job *const *jobs, struct load *l,
                     uint64_t *bytes)
{
        buf_clear(&w->events_json);
        for (size_t i = 0; i < l->n; i++) {
                w->view_of(jobs[i], &l->views[i]);
                events_json_write(&w->events_json, &l->views[i]);
                l->ends[i] = w->events_json.len;
                l->wishes[i] = wish_of(&l->views[i]);
                l->is_again |= l->wishes[i].run > 0;
                *bytes += weigh(&l->views[i]);
        }
        return w->events_json.failed ? SQLITE_NOMEM : SQLITE_OK;
}

/* Up to ARCHIVE_MANY rows; *rows and *bytes grow by what they were. */
static int add_rows(struct archive_writer *w, struct job *const *jobs, size_t n, int64_t *rows,
                    uint64_t *bytes)
{
        struct load l = {.n = n};
        int rc = fill_load(w, jobs, &l, bytes);
        bool at_once = n == ARCHIVE_MANY && !l.is_again;
        enum archive_writer_sql which = at_once ? SQL_INSERT_MANY : SQL_INSERT_ONE;
        for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
                const struct job_view *v = &l.views[i];
                rc = drop_older(w, v->id, l.wishes[i].run, rows);
                if (rc == SQLITE_OK)
                        rc = put_row(w->stmts[which], at_once ? (int)i : 0, v, events_of(w, &l, i),
                                     l.wishes[i].run);
                if (rc == SQLITE_OK && (!at_once || i + 1 == n)) {
                        rc = run(w, which);
                        *rows += rc == SQLITE_OK ? sqlite3_changes(w->db) : 0;
                }
                if (rc == SQLITE_OK)
                        rc = add_lapse(w, v, &l.wishes[i]);
                if (rc == SQLITE_OK)
                        rc = sum_add(w, v);
        }
        return rc;
}

/* The only number of the only row; 0 when there is none. */
static int read_number(struct archive_writer *w, enum archive_writer_sql which, int64_t *ret)
{
        bool is_row;
        int rc = step(w, which, &is_row);
        *ret = is_row ? sqlite3_column_int64(w->stmts[which], 0) : 0;
        (void)sqlite3_reset(w->stmts[which]); /* repeats the error of step */
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
        if (read_number(w, SQL_FREE, &w->free_pages) != SQLITE_OK)
                w->free_pages = 0;
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

/* SQLite goes on with the open file wherever that is now; what only it holds is gone when weir
 * ends. */
int archive_writer_check_place(struct archive_writer *w, struct problem *p)
{
        int is_elsewhere = 0;
        /* Fails only for a file system that cannot tell. */
        (void)sqlite3_file_control(w->db, "main", SQLITE_FCNTL_HAS_MOVED, &is_elsewhere);
        if (!is_elsewhere)
                return OK;
        return problem_set(p, ERR_IO,
                           "the history file %s was removed, moved or replaced while weir runs; "
                           "put it back, or start weir again: a new file is made when none is "
                           "there",
                           SHOWN_MAX(slice_str(w->path), 120));
}

/* The next jobs that are wanted, up to ARCHIVE_MANY; *at moves on behind the last of them. */
static size_t pick_wanted(const struct archive_writer *w, struct job *const *jobs, size_t n,
                          size_t *at, struct job **ret)
{
        size_t picked = 0;
        for (; *at < n && picked < ARCHIVE_MANY; ++*at)
                if (!w->is_wanted || w->is_wanted(jobs[*at]))
                        ret[picked++] = jobs[*at];
        return picked;
}

int archive_writer_add(struct archive_writer *w, struct job *const *jobs, size_t n, size_t *ret,
                       struct problem *p)
{
        struct job *some[ARCHIVE_MANY] = {NULL};
        int64_t inserted = 0;
        uint64_t bytes = 0, bytes_max = w->batch_bytes ? w->batch_bytes : ARCHIVE_BATCH_BYTES;
        size_t done = 0;
        int rc = run(w, SQL_BEGIN);
        if (n > ARCHIVE_BATCH_JOBS)
                n = ARCHIVE_BATCH_JOBS;
        while (rc == SQLITE_OK && done < n && bytes < bytes_max) {
                size_t picked = pick_wanted(w, jobs, n, &done, some);
                if (picked)
                        rc = add_rows(w, some, picked, &inserted, &bytes);
        }
        if (rc == SQLITE_OK)
                rc = sums_write(w);
        if (rc == SQLITE_OK)
                rc = end_transaction(w, inserted);
        if (rc != SQLITE_OK)
                return undo(w, p);
        *ret = done;
        return archive_writer_check_place(w, p);
}

int archive_writer_remove(struct archive_writer *w, const struct archive_ref *refs, size_t n,
                          size_t *ret, struct problem *p)
{
        int64_t removed = 0;
        int rc = run(w, SQL_BEGIN);
        for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
                bind(w, SQL_REMOVE, 1, (int64_t)refs[i].id);
                bind(w, SQL_REMOVE, 2, (int64_t)refs[i].run);
                rc = run(w, SQL_REMOVE);
                removed += rc == SQLITE_OK ? sqlite3_changes(w->db) : 0;
        }
        if (rc == SQLITE_OK)
                rc = end_transaction(w, -removed);
        if (rc != SQLITE_OK)
                return undo(w, p);
        *ret = (size_t)removed;
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
        bool is_block_done = deleted < limit || limit == ARCHIVE_SPAN_IDS;
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

/* Takes the next result whose time is over; false in *ret when there is none. */
static int lapse_one(struct archive_writer *w, int64_t now_ms, bool *ret)
{
        sqlite3_stmt *found = w->stmts[SQL_LAPSE_FIND];
        bind(w, SQL_LAPSE_FIND, 1, now_ms);
        int rc = step(w, SQL_LAPSE_FIND, ret);
        if (rc != SQLITE_OK || !*ret)
                return rc;
        for (int i = 0; i < 4; i++) {
                bind(w, SQL_LAPSE_DROP, i + 1, sqlite3_column_int64(found, i));
                if (i > 0)
                        bind(w, SQL_RESULT_DROP, i, sqlite3_column_int64(found, i));
        }
        (void)sqlite3_reset(found);   /* it succeeded */
        rc = run(w, SQL_RESULT_DROP); /* of no row when the job is gone or was run again since */
        return rc == SQLITE_OK ? run(w, SQL_LAPSE_DROP) : rc;
}

static int lapse_some(struct archive_writer *w, struct archive_sweep *s)
{
        bool is_more = true;
        int rc = SQLITE_OK;
        for (int64_t n = step_rows(w); n > 0 && is_more && rc == SQLITE_OK; n--)
                rc = lapse_one(w, s->now_ms, &is_more);
        if (rc == SQLITE_OK)
                rc = end_transaction(w, 0);
        if (rc == SQLITE_OK)
                s->are_results_done = !is_more;
        return rc;
}

/* Is there a result to take?  Looks before a transaction is begun for it. */
static int has_lapse(struct archive_writer *w, const struct archive_sweep *s, bool *ret)
{
        bind(w, SQL_LAPSE_FIND, 1, s->now_ms);
        int rc = step(w, SQL_LAPSE_FIND, ret);
        (void)sqlite3_reset(w->stmts[SQL_LAPSE_FIND]); /* repeats the error of step */
        return rc;
}

static int sweep_results(struct archive_writer *w, struct archive_sweep *s, struct problem *p)
{
        bool is_row = false;
        int rc = has_lapse(w, s, &is_row);
        if (rc != SQLITE_OK)
                return fail(w, p);
        if (!is_row) {
                s->are_results_done = true;
                return OK;
        }
        rc = run(w, SQL_BEGIN);
        if (rc == SQLITE_OK)
                rc = lapse_some(w, s);
        return rc == SQLITE_OK ? OK : undo(w, p);
}

int archive_writer_sweep(struct archive_writer *w, struct archive_sweep *s, struct problem *p)
{
        bool is_row;
        s->deleted = 0;
        s->is_over = false;
        if (!s->are_results_done)
                return sweep_results(w, s, p);
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

int archive_writer_checkpoint(struct archive_writer *w, bool is_giving_back, struct problem *p)
{
        int in_wal = 0;
        int moved = 0;
        int how = is_giving_back ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
        int rc = sqlite3_wal_checkpoint_v2(w->db, NULL, how, &in_wal, &moved);
        if (rc != SQLITE_OK && rc != SQLITE_BUSY)
                return fail(w, p);
        if (in_wal >= 0 && moved >= 0)
                w->wal_pages = in_wal - moved;
        measure(w);
        return OK;
}

/* What both sets hold together; not known (NULL) when that is so of one. */
static void marks_or(sqlite3_context *ctx, int n, sqlite3_value **v)
{
        uint8_t both[SPAN_MARK_BYTES];
        const uint8_t *a = sqlite3_value_blob(v[0]), *b = sqlite3_value_blob(v[1]);
        if (n != 2 || !a || !b || sqlite3_value_bytes(v[0]) != SPAN_MARK_BYTES ||
            sqlite3_value_bytes(v[1]) != SPAN_MARK_BYTES) {
                sqlite3_result_null(ctx);
                return;
        }
        for (size_t i = 0; i < SPAN_MARK_BYTES; i++)
                both[i] = a[i] | b[i];
        sqlite3_result_blob(ctx, both, SPAN_MARK_BYTES, SQLITE_TRANSIENT);
}

int archive_writer_open(struct archive_writer *w, const char *path,
                        void (*view_of)(const struct job *, struct job_view *), struct problem *p)
{
        *w = (struct archive_writer){.path = path, .view_of = view_of};
        buf_init(&w->events_json, 0);
        sums_clear(w);
        int err = archive_file_open(path, &w->db, p);
        if (err)
                return err;
        int rc = sqlite3_create_function(w->db, "weir_marks_or", 2,
                                         SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, marks_or, NULL,
                                         NULL);
        for (int i = 0; i < SQL_INSERT_ONE && rc == SQLITE_OK; i++)
                rc = prepare(w, (enum archive_writer_sql)i, sql_texts[i]);
        if (rc == SQLITE_OK)
                rc = prepare_insert(w, SQL_INSERT_ONE, 1);
        if (rc == SQLITE_OK)
                rc = prepare_insert(w, SQL_INSERT_MANY, ARCHIVE_MANY);
        if (rc == SQLITE_OK)
                rc = read_number(w, SQL_TALLY, &w->rows);
        if (rc == SQLITE_OK)
                rc = read_number(w, SQL_LAST, &w->last_id);
        if (rc != SQLITE_OK) {
                err = fail(w, p);
                archive_writer_close(w);
                return err;
        }
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
        buf_release(&w->events_json);
}

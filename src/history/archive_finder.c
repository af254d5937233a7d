/* Finding jobs in the history file.
 *
 * A listing walks back from the newest id (or from the cursor) and filters in C: the columns a
 * filter needs come first in a row, and a look at one that does not match costs 0.4-0.6 us.  Only
 * failed and canceled jobs have an index.  A filter that matches little would walk for ever in a
 * large file, so a walk has a budget of rows and of time; what it found until then is the
 * answer, with is_cut and the id it got to, and the asker decides whether to go on.  Rows
 * themselves are bounded in bytes the same way: a thousand jobs of a mebibyte each are no reply.
 *
 * A query is one read transaction, so it holds a checkpoint up for no longer than its budget. */
#include "history/archive_finder.h"

#include <time.h>

#include "base/say.h"
#include "history/archive_file.h"
#include "history/story.h"

#define CLOCK_EVERY 64 /* rows between two looks at the clock, when rows are cheap to look at */

static int64_t now_ms(void)
{
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
        return t.tv_sec * MS_PER_S + t.tv_nsec / NS_PER_MS;
}

/* Text or blob, the bytes as they were handed over.  Valid until the next step. */
static struct slice column(sqlite3_stmt *row, enum archive_column which)
{
        const void *ptr = sqlite3_column_blob(row, (int)which);
        return slice_make(ptr, (size_t)sqlite3_column_bytes(row, (int)which));
}

static int64_t number(sqlite3_stmt *row, enum archive_column which)
{
        return sqlite3_column_int64(row, (int)which);
}

static bool is_column(sqlite3_stmt *row, enum archive_column which, struct slice want)
{
        return !want.len || slice_eq(column(row, which), want);
}

static bool has_text(sqlite3_stmt *row, struct slice want)
{
        return !want.len || slice_contains(column(row, COLUMN_HOOK), want) ||
               slice_contains(column(row, COLUMN_ARGS), want) ||
               slice_contains(column(row, COLUMN_ERROR), want) ||
               slice_contains(column(row, COLUMN_RESULT), want);
}

static bool matches(sqlite3_stmt *row, const struct job_filter *f)
{
        return (f->status < 0 || number(row, COLUMN_STATUS) == f->status) &&
               is_column(row, COLUMN_QUEUE, f->queue) && is_column(row, COLUMN_GROUP, f->group) &&
               is_column(row, COLUMN_HOOK, f->hook) && has_text(row, f->match);
}

static bool copy_column(sqlite3_stmt *row, enum archive_column which, struct arena *arena,
                        struct slice *ret)
{
        struct slice s = column(row, which);
        *ret = SLICE_NONE;
        if (s.len)
                *ret = arena_copy(arena, s);
        return !s.len || ret->ptr;
}

static size_t row_bytes(sqlite3_stmt *row)
{
        static const enum archive_column long_ones[] = {COLUMN_PROGRESS, COLUMN_ERROR,
                                                        COLUMN_RESULT,   COLUMN_ARGS,
                                                        COLUMN_EVENTS,   COLUMN_OPTIONS};
        size_t n = 1024;
        for (size_t i = 0; i < ARRAY_LEN(long_ones); i++)
                n += (size_t)sqlite3_column_bytes(row, (int)long_ones[i]);
        return n;
}

static int read_row(struct archive_finder *f, sqlite3_stmt *row, struct arena *arena,
                    struct job_view *v)
{
        *v = (struct job_view){
                .id = (uint64_t)number(row, COLUMN_ID),
                .status = (enum job_status)number(row, COLUMN_STATUS),
                .priority = (uint8_t)number(row, COLUMN_PRIORITY),
                .attempt = (uint16_t)number(row, COLUMN_ATTEMPT),
                .attempts_max = (uint16_t)number(row, COLUMN_ATTEMPTS_MAX),
                .timeout_ms = (uint32_t)number(row, COLUMN_TIMEOUT),
                .created_ms = number(row, COLUMN_CREATED),
                .due_ms = number(row, COLUMN_DUE),
                .started_ms = number(row, COLUMN_STARTED),
                .finished_ms = number(row, COLUMN_FINISHED),
                .fence = (uint64_t)number(row, COLUMN_FENCE),
        };
        if ((unsigned)v->status >= JOB_STATUS_COUNT)
                return ERR_CORRUPT;
        if (!copy_column(row, COLUMN_HOOK, arena, &v->hook) ||
            !copy_column(row, COLUMN_ARGS, arena, &v->args) ||
            !copy_column(row, COLUMN_QUEUE, arena, &v->queue) ||
            !copy_column(row, COLUMN_GROUP, arena, &v->group) ||
            !copy_column(row, COLUMN_WORKER, arena, &v->worker) ||
            !copy_column(row, COLUMN_PROGRESS, arena, &v->progress) ||
            !copy_column(row, COLUMN_RESULT, arena, &v->result) ||
            !copy_column(row, COLUMN_ERROR, arena, &v->error) ||
            !copy_column(row, COLUMN_OPTIONS, arena, &v->options))
                return ERR_NOMEM;
        int err = story_read(column(row, COLUMN_EVENTS), arena, &f->scratch, v);
        if (err == ERR_CORRUPT) {
                /* The job itself is sound: better without its story than not at all. */
                say_warn("history", "a job's events cannot be read, ignoring them", "path", f->path,
                         "job", SAY_I64(v->id));
                return OK;
        }
        return err;
}

static int sqlite_failed(struct archive_finder *f)
{
        struct problem p;
        int err = archive_file_fail(f->db, f->path, &p);
        say_warn("history", "cannot read", "problem", p.detail);
        return err;
}

static int find_one(struct archive_finder *f, struct archive_query *q, sqlite3_stmt *stmt)
{
        if (q->id > INT64_MAX)
                return OK;
        q->rows = arena_array(&q->arena, 1, sizeof(*q->rows));
        if (!q->rows)
                return ERR_NOMEM;
        if (sqlite3_bind_int64(stmt, 1, (int64_t)q->id) != SQLITE_OK)
                return sqlite_failed(f);
        int rc = sqlite3_step(stmt);
        if (rc == SQLITE_DONE)
                return OK;
        if (rc != SQLITE_ROW)
                return sqlite_failed(f);
        int err = read_row(f, stmt, &q->arena, q->rows);
        q->n_rows = err ? 0 : 1;
        return err;
}

/* A listing on its way. */
struct walk {
        size_t seen;
        int64_t until_ms;
        size_t bytes;
};

static bool is_budget_spent(const struct archive_finder *f, const struct archive_query *q,
                            struct walk *walk)
{
        walk->seen++;
        if (walk->seen >= f->rows_max)
                return true;
        bool look = q->filter.match.len || walk->seen % CLOCK_EVERY == 0;
        return look && now_ms() >= walk->until_ms;
}

/* Takes the row in; *ret_full when there is no more room for it and it must be asked for again. */
static int take_row(struct archive_finder *f, struct archive_query *q, sqlite3_stmt *stmt,
                    struct walk *walk, bool *ret_full)
{
        walk->bytes += row_bytes(stmt);
        *ret_full = q->n_rows > 0 && walk->bytes > ARCHIVE_FIND_BYTES;
        if (*ret_full)
                return OK;
        int err = read_row(f, stmt, &q->arena, &q->rows[q->n_rows]);
        if (err == ERR_NOMEM && q->n_rows > 0) {
                *ret_full = true;
                return OK;
        }
        if (!err)
                q->n_rows++;
        return err;
}

static int walk_back(struct archive_finder *f, struct archive_query *q, sqlite3_stmt *stmt)
{
        struct walk walk = {.until_ms = now_ms() + f->ms_max};
        while (q->n_rows < q->limit) {
                int rc = sqlite3_step(stmt);
                if (rc == SQLITE_DONE)
                        return OK;
                if (rc != SQLITE_ROW)
                        return sqlite_failed(f);
                bool is_full = false;
                int err = OK;
                if (matches(stmt, &q->filter))
                        err = take_row(f, q, stmt, &walk, &is_full);
                if (err)
                        return err;
                if (is_full) {
                        q->is_cut = true;
                        return OK;
                }
                q->last_id = (uint64_t)number(stmt, COLUMN_ID);
                /* Not cut when the page is full: that is an answer like any other. */
                if (is_budget_spent(f, q, &walk) && q->n_rows < q->limit) {
                        q->is_cut = true;
                        return OK;
                }
        }
        return OK;
}

static sqlite3_stmt *pick(struct archive_finder *f, const struct archive_query *q)
{
        if (q->id)
                return f->one;
        bool is_indexed = q->filter.status == JOB_FAILED || q->filter.status == JOB_CANCELED;
        return is_indexed ? f->of_status : f->newest;
}

static int find_many(struct archive_finder *f, struct archive_query *q, sqlite3_stmt *stmt)
{
        uint64_t before = q->before_id ? q->before_id : INT64_MAX;
        if (before > INT64_MAX)
                before = INT64_MAX;
        if (!q->limit || q->filter.status == JOB_PENDING || q->filter.status == JOB_RUNNING)
                return OK;
        q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
        if (!q->rows)
                return ERR_NOMEM;
        if (sqlite3_bind_int64(stmt, 1, (int64_t)before) != SQLITE_OK ||
            (stmt == f->of_status && sqlite3_bind_int(stmt, 2, q->filter.status) != SQLITE_OK))
                return sqlite_failed(f);
        return walk_back(f, q, stmt);
}

void archive_finder_run(struct archive_finder *f, struct archive_query *q)
{
        q->rows = NULL;
        q->n_rows = 0;
        q->is_cut = false;
        q->last_id = 0;
        if (!q->arena.max_bytes)
                arena_init(&q->arena, 2 * ARCHIVE_FIND_BYTES);
        sqlite3_stmt *stmt = pick(f, q);
        q->err = q->id ? find_one(f, q, stmt) : find_many(f, q, stmt);
        (void)sqlite3_reset(stmt); /* its error was seen at step */
}

int archive_finder_open(struct archive_finder *f, const char *path, struct problem *p)
{
        *f = (struct archive_finder){
                .path = path, .rows_max = ARCHIVE_FIND_ROWS, .ms_max = ARCHIVE_FIND_MS};
        buf_init(&f->scratch, 0);
        int err = archive_file_open_reader(path, &f->db, p);
        if (err)
                return err;
        static const char one[] = "SELECT * FROM job WHERE id = ?1";
        static const char newest[] = "SELECT * FROM job WHERE id < ?1 ORDER BY id DESC";
        static const char of_status[] = "SELECT * FROM job INDEXED BY job_not_complete WHERE "
                                        "status > 2 AND status = ?2 AND id < ?1 ORDER BY id DESC";
        if (sqlite3_prepare_v2(f->db, one, -1, &f->one, NULL) != SQLITE_OK ||
            sqlite3_prepare_v2(f->db, newest, -1, &f->newest, NULL) != SQLITE_OK ||
            sqlite3_prepare_v2(f->db, of_status, -1, &f->of_status, NULL) != SQLITE_OK) {
                err = archive_file_fail(f->db, path, p);
                archive_finder_close(f);
                return err;
        }
        return OK;
}

void archive_finder_close(struct archive_finder *f)
{
        (void)sqlite3_finalize(f->one); /* finalize repeats the last error of a statement */
        (void)sqlite3_finalize(f->newest);
        (void)sqlite3_finalize(f->of_status);
        f->one = f->newest = f->of_status = NULL;
        if (f->db)
                (void)sqlite3_close(f->db); /* no statement is open */
        f->db = NULL;
        buf_release(&f->scratch);
}

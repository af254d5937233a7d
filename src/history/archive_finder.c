/* Finding jobs in the history file.
 *
 * A listing walks from the newest id (or from the oldest, or from the cursor) and filters in C: it
 * reads only the columns that the filter needs, which come first in a row, at 0.2-0.3 us for one
 * that does not match, and fetches a row that does.  Only failed and canceled jobs have an index.
 *
 * What keeps a filter that matches little from walking for ever are the spans: for each run of
 * 4,096 ids the file knows when their jobs were created and, as a set of marks, which statuses,
 * queues, groups, hooks and workers are among them (span_mark.h).  A span that cannot hold a match
 * is passed over for some 2 us.  So a name that is rare is found at once, and one that is not there
 * is known not to be there after a look at 2 KiB for each 4,096 jobs.  A page of 50 that has one
 * match in each span is the worst case of one name: 50 spans, about 50 ms.
 *
 * Texts (MATCH) and tiers have no marks, and names together may be in a span without meeting in a
 * row.  So a walk still has a budget of rows and of time; what it found until then is the answer,
 * with is_cut and the id it got to, and the asker decides whether to go on.  Rows themselves are
 * bounded in bytes the same way: a thousand jobs of a mebibyte each are no reply.
 *
 * A query is one read transaction, so it holds a checkpoint up for no longer than its budget. */
#include "history/archive_finder.h"

#include <time.h>

#include "base/needle.h"
#include "base/say.h"
#include "gate/registry.h"
#include "history/archive_file.h"
#include "history/checksum.h"
#include "history/events_json.h"
#include "history/span_mark.h"
#include "state/option.h"

#define CLOCK_EVERY 64 /* rows between two looks at the clock, when rows are cheap to look at */

static int64_t now_ms(void)
{
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
        return t.tv_sec * MS_PER_S + t.tv_nsec / NS_PER_MS;
}

/* Text or blob, the bytes as they were handed over.  Valid until the next step. */
static struct slice column(sqlite3_stmt *row, int which)
{
        const void *ptr = sqlite3_column_blob(row, which);
        return slice_make(ptr, (size_t)sqlite3_column_bytes(row, which));
}

static int64_t number(sqlite3_stmt *row, int which)
{
        return sqlite3_column_int64(row, which);
}

/* --- what a filter looks at --- */

/* The columns of a walk, NULL where the filter does not need them. */
enum { LOOK_ID, LOOK_STATUS, LOOK_QUEUE, LOOK_GROUP, LOOK_HOOK, LOOK_CREATED, LOOK_WORKER };
enum {
        LOOK_OPTIONS = LOOK_WORKER + 1,
        LOOK_ERROR,
        LOOK_RESULT,
        LOOK_ARGS,
        LOOK_RUN,
        LOOK_FINISHED
};

static bool is_column(sqlite3_stmt *row, int which, struct slice want)
{
        return !want.len || slice_eq(column(row, which), want);
}

static bool has_text(sqlite3_stmt *row, const struct needle *n)
{
        return !n->text.len || needle_is_in(n, column(row, LOOK_ARGS)) ||
               needle_is_in(n, column(row, LOOK_HOOK)) ||
               needle_is_in(n, column(row, LOOK_ERROR)) ||
               needle_is_in(n, column(row, LOOK_RESULT));
}

static bool is_created_in_time(const struct job_filter *f, int64_t ms)
{
        return (!f->since_ms || ms >= f->since_ms) && (!f->until_ms || ms < f->until_ms);
}

/* Its own tier, else that of its hook. */
static bool is_of_tier(sqlite3_stmt *row, const struct job_filter *f)
{
        struct job_options o = {0};
        if (!f->tier)
                return true;
        struct slice packed = column(row, LOOK_OPTIONS);
        if (packed.len && options_unpack(packed, &o) && o.tier)
                return o.tier == f->tier;
        return f->registry && 1U + registry_tier(f->registry, column(row, LOOK_HOOK)) == f->tier;
}

static bool matches(sqlite3_stmt *row, const struct job_filter *f, const struct needle *needle)
{
        return (f->status < 0 || number(row, LOOK_STATUS) == f->status) &&
               is_created_in_time(f, number(row, LOOK_CREATED)) &&
               (!f->ended_since_ms || number(row, LOOK_FINISHED) >= f->ended_since_ms) &&
               is_column(row, LOOK_QUEUE, f->queue) && is_column(row, LOOK_GROUP, f->group) &&
               is_column(row, LOOK_HOOK, f->hook) && is_column(row, LOOK_WORKER, f->worker) &&
               is_of_tier(row, f) && has_text(row, needle);
}

/* --- whole rows --- */

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

/* Nothing of a damaged row is given out but its id, and its status for the listing's sake. */
static void read_damaged(struct archive_finder *f, sqlite3_stmt *row, struct job_view *v)
{
        int64_t status = number(row, COLUMN_STATUS);
        *v = (struct job_view){
                .id = (uint64_t)number(row, COLUMN_ID),
                .status = status >= JOB_COMPLETE && status <= JOB_CANCELED ? (enum job_status)status
                                                                           : JOB_FAILED,
                .error = SLICE_LIT("history is damaged here: the checksum of this row is wrong"),
                .is_damaged = true,
        };
        if (f->damaged_id != v->id)
                say_error("history", "the checksum of a row is wrong, not delivering it", "path",
                          f->path, "job", SAY_I64(v->id));
        f->damaged_id = v->id;
}

static int read_row(struct archive_finder *f, sqlite3_stmt *row, struct arena *arena,
                    struct job_view *v)
{
        if (checksum_check(row, f->is_checksum_required) == CHECKSUM_BAD) {
                read_damaged(f, row, v);
                return OK;
        }
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
        int err = events_json_read(column(row, COLUMN_EVENTS), arena, &f->scratch, v);
        if (err == ERR_CORRUPT) {
                /* The job itself is sound: better without its events than not at all. */
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

/* The row of that id from `one`, which the caller resets; *ret is false when there is none. */
static int fetch(struct archive_finder *f, uint64_t id, bool *ret)
{
        *ret = false;
        if (id > INT64_MAX)
                return OK;
        if (sqlite3_bind_int64(f->one, 1, (int64_t)id) != SQLITE_OK)
                return sqlite_failed(f);
        int rc = sqlite3_step(f->one);
        *ret = rc == SQLITE_ROW;
        return rc == SQLITE_ROW || rc == SQLITE_DONE ? OK : sqlite_failed(f);
}

static int find_one(struct archive_finder *f, struct archive_query *q)
{
        bool is_there;
        q->rows = arena_array(&q->arena, 1, sizeof(*q->rows));
        if (!q->rows)
                return ERR_NOMEM;
        int err = fetch(f, q->id, &is_there);
        if (!err && is_there)
                err = read_row(f, f->one, &q->arena, q->rows);
        q->n_rows = !err && is_there ? 1 : 0;
        (void)sqlite3_reset(f->one); /* its error was seen at step */
        return err;
}

/* --- a walk --- */

struct walk {
        struct archive_finder *f;
        struct archive_query *q;
        sqlite3_stmt *look;
        struct needle needle;
        size_t seen, work; /* rows in all, and since the last look at the clock */
        int64_t until_ms;
        size_t bytes, bytes_max;
        bool is_over; /* the page is full, or it was cut */
};

static void cut(struct walk *w)
{
        w->q->is_cut = true;
        w->is_over = true;
}

static bool is_budget_spent(struct walk *w)
{
        w->seen++;
        w->work++;
        if (w->needle.text.len) /* a long text takes as long as many rows */
                w->work += (size_t)sqlite3_column_bytes(w->look, LOOK_ARGS) / 1024;
        if (w->seen >= w->f->rows_max)
                return true;
        if (w->work < CLOCK_EVERY)
                return false;
        w->work = 0;
        return now_ms() >= w->until_ms;
}

/* Takes in the row that was fetched; *ret_full when there is no more room for it and it must be
 * asked for again. */
static int take_fetched(struct walk *w, bool *ret_full)
{
        struct archive_finder *f = w->f;
        struct archive_query *q = w->q;
        w->bytes += row_bytes(f->one);
        *ret_full = q->n_rows > 0 && w->bytes > w->bytes_max;
        if (*ret_full)
                return OK;
        int err = read_row(f, f->one, &q->arena, &q->rows[q->n_rows]);
        if (err == ERR_NOMEM && q->n_rows > 0) {
                *ret_full = true;
                return OK;
        }
        if (!err)
                q->n_rows++;
        return err;
}

static int take_row(struct walk *w, bool *ret_full)
{
        uint64_t id = (uint64_t)number(w->look, LOOK_ID);
        if (w->q->is_brief) {
                w->q->refs[w->q->n_rows++] = (struct archive_ref){
                        id, (uint64_t)number(w->look, LOOK_RUN), number(w->look, LOOK_FINISHED)};
                return OK;
        }
        bool is_there;
        int err = fetch(w->f, id, &is_there);
        if (!err && !is_there)
                err = ERR_CORRUPT; /* an index that names a row that is not there */
        if (!err)
                err = take_fetched(w, ret_full);
        (void)sqlite3_reset(w->f->one); /* its error was seen at step */
        return err;
}

static int look_at_row(struct walk *w)
{
        struct archive_query *q = w->q;
        bool is_full = false;
        if (matches(w->look, &q->filter, &w->needle)) {
                int err = take_row(w, &is_full);
                if (err)
                        return err;
        }
        if (is_full) {
                cut(w);
                return OK;
        }
        q->last_id = (uint64_t)number(w->look, LOOK_ID);
        w->is_over = q->n_rows == q->limit;
        /* Not cut when the page is full: that is an answer like any other. */
        if (is_budget_spent(w) && !w->is_over)
                cut(w);
        return OK;
}

/* The rows of low..high. */
static int walk_range(struct walk *w, int64_t low, int64_t high)
{
        int err = OK;
        if (sqlite3_bind_int64(w->look, 1, low) != SQLITE_OK ||
            sqlite3_bind_int64(w->look, 2, high) != SQLITE_OK)
                return sqlite_failed(w->f);
        while (!w->is_over && !err) {
                int rc = sqlite3_step(w->look);
                if (rc == SQLITE_DONE)
                        break;
                err = rc == SQLITE_ROW ? look_at_row(w) : sqlite_failed(w->f);
        }
        (void)sqlite3_reset(w->look); /* its error was seen at step */
        return err;
}

/* --- spans --- */

/* The marks that a span must have. */
struct wanted {
        uint64_t marks[5];
        size_t n;
};

static void want(struct wanted *w, enum span_mark_kind kind, struct slice text)
{
        if (text.len)
                w->marks[w->n++] = span_mark_hash(kind, text);
}

static struct wanted wanted_of(const struct job_filter *f)
{
        struct wanted w = {.n = 0};
        if (f->status >= 0)
                w.marks[w.n++] = span_mark_status(f->status);
        want(&w, MARK_QUEUE, f->queue);
        want(&w, MARK_GROUP, f->group);
        want(&w, MARK_HOOK, f->hook);
        want(&w, MARK_WORKER, f->worker);
        return w;
}

enum { SPAN_BLOCK, SPAN_FIRST, SPAN_LAST, SPAN_MARKS };

static bool may_hold(sqlite3_stmt *span, const struct job_filter *f, const struct wanted *wanted)
{
        bool has_times = sqlite3_column_type(span, SPAN_FIRST) != SQLITE_NULL &&
                         sqlite3_column_type(span, SPAN_LAST) != SQLITE_NULL;
        if (has_times && ((f->since_ms && number(span, SPAN_LAST) < f->since_ms) ||
                          (f->until_ms && number(span, SPAN_FIRST) >= f->until_ms)))
                return false;
        struct slice marks = column(span, SPAN_MARKS);
        for (size_t i = 0; i < wanted->n && marks.len == SPAN_MARK_BYTES; i++)
                if (!span_mark_has((const uint8_t *)marks.ptr, wanted->marks[i]))
                        return false;
        return true;
}

static int walk_spans(struct walk *w, sqlite3_stmt *spans, int64_t low, int64_t high)
{
        struct wanted wanted = wanted_of(&w->q->filter);
        int err = OK;
        if (sqlite3_bind_int64(spans, 1, low >> ARCHIVE_SPAN_SHIFT) != SQLITE_OK ||
            sqlite3_bind_int64(spans, 2, high >> ARCHIVE_SPAN_SHIFT) != SQLITE_OK)
                return sqlite_failed(w->f);
        while (!w->is_over && !err) {
                int rc = sqlite3_step(spans);
                if (rc == SQLITE_DONE)
                        break;
                if (rc != SQLITE_ROW) {
                        err = sqlite_failed(w->f);
                        break;
                }
                int64_t first = number(spans, SPAN_BLOCK) << ARCHIVE_SPAN_SHIFT;
                int64_t last = first + ARCHIVE_SPAN_IDS - 1;
                first = first > low ? first : low;
                last = last < high ? last : high;
                if (may_hold(spans, &w->q->filter, &wanted))
                        err = walk_range(w, first, last);
                if (err || w->is_over)
                        break;
                w->q->last_id = (uint64_t)(w->q->is_oldest ? last : first);
                if (now_ms() >= w->until_ms)
                        cut(w);
        }
        (void)sqlite3_reset(spans); /* its error was seen at step */
        return err;
}

/* --- a listing --- */

/* Made for each listing: preparing takes some 30 us. */
static int prepare_look(struct archive_finder *f, const struct archive_query *q, sqlite3_stmt **ret)
{
        const struct job_filter *l = &q->filter;
        bool has_match = l->match.len > 0;
        struct buf sql CLEANUP(buf_release) = {0};
        buf_printf(&sql, "SELECT id, status, %s, %s, %s, created_ms, %s, %s, %s, %s, %s, %s, %s",
                   l->queue.len ? "queue" : "NULL", l->group.len ? "grp" : "NULL",
                   l->hook.len || has_match || l->tier ? "hook" : "NULL",
                   l->worker.len ? "worker" : "NULL", l->tier ? "options" : "NULL",
                   has_match ? "error" : "NULL", has_match ? "result" : "NULL",
                   has_match ? "args" : "NULL", q->is_brief ? "run" : "NULL",
                   q->is_brief || l->ended_since_ms ? "finished_ms" : "NULL");
        if (l->status == JOB_FAILED || l->status == JOB_CANCELED)
                buf_printf(&sql,
                           " FROM job INDEXED BY job_not_complete WHERE status > 2 AND status = %d "
                           "AND id BETWEEN ?1 AND ?2",
                           l->status);
        else
                buf_put_str(&sql, " FROM job WHERE id BETWEEN ?1 AND ?2");
        buf_printf(&sql, " ORDER BY id %s", q->is_oldest ? "ASC" : "DESC");
        if (sql.failed)
                return ERR_NOMEM;
        return sqlite3_prepare_v2(f->db, buf_cstr(&sql), -1, ret, NULL) == SQLITE_OK
                       ? OK
                       : sqlite_failed(f);
}

/* Can a span tell something about it? */
static bool has_marks(const struct job_filter *f)
{
        return f->status >= 0 || f->hook.len || f->queue.len || f->group.len || f->worker.len ||
               f->since_ms || f->until_ms;
}

static bool make_room(struct archive_query *q)
{
        if (q->is_brief)
                q->refs = arena_array(&q->arena, q->limit, sizeof(*q->refs));
        else
                q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
        return q->refs || q->rows;
}

/* The rows of the ids that were named, each read in one go: it may be deleted at any moment. */
static int find_ids(struct walk *w)
{
        struct archive_query *q = w->q;
        int err = OK;
        for (size_t i = 0; i < q->n_ids && q->n_rows < q->limit && !err && !q->is_cut; i++) {
                bool is_there;
                err = fetch(w->f, q->ids[i], &is_there);
                if (!err && is_there && q->is_brief)
                        q->refs[q->n_rows++] = (struct archive_ref){
                                q->ids[i], (uint64_t)number(w->f->one, COLUMN_RUN),
                                number(w->f->one, COLUMN_FINISHED)};
                else if (!err && is_there)
                        err = take_fetched(w, &q->is_cut);
                (void)sqlite3_reset(w->f->one); /* its error was seen at step */
                q->n_seen = q->is_cut ? i : i + 1;
        }
        return err;
}

static int64_t below_max(uint64_t id)
{
        return id > INT64_MAX ? INT64_MAX : (int64_t)id;
}

static int find_many(struct archive_finder *f, struct archive_query *q)
{
        int64_t low = below_max(q->after_id + (q->after_id < UINT64_MAX));
        int64_t high = q->before_id ? below_max(q->before_id - 1) : INT64_MAX;
        if (!q->limit || q->filter.status == JOB_PENDING || q->filter.status == JOB_RUNNING)
                return OK;
        if (!make_room(q))
                return ERR_NOMEM;
        struct walk w = {
                .f = f,
                .q = q,
                .needle = needle_make(q->filter.match),
                .until_ms = now_ms() + (q->ms_max && q->ms_max < f->ms_max ? q->ms_max : f->ms_max),
                .bytes_max = q->bytes_max ? q->bytes_max : ARCHIVE_FIND_BYTES,
        };
        if (q->n_ids)
                return find_ids(&w);
        int err = prepare_look(f, q, &w.look);
        if (err)
                return err;
        if (has_marks(&q->filter))
                err = walk_spans(&w, q->is_oldest ? f->spans_up : f->spans_down, low, high);
        else
                err = walk_range(&w, low, high);
        (void)sqlite3_finalize(w.look); /* repeats the error of step */
        return err;
}

void archive_finder_run(struct archive_finder *f, struct archive_query *q)
{
        q->rows = NULL;
        q->refs = NULL;
        q->n_rows = 0;
        q->is_cut = false;
        q->last_id = 0;
        q->n_seen = 0;
        if (!q->arena.max_bytes)
                arena_init(&q->arena, 2 * ARCHIVE_FIND_BYTES);
        q->err = q->id ? find_one(f, q) : find_many(f, q);
}

int archive_finder_open(struct archive_finder *f, const char *path, struct problem *p)
{
        *f = (struct archive_finder){
                .path = path, .rows_max = ARCHIVE_FIND_ROWS, .ms_max = ARCHIVE_FIND_MS};
        buf_init(&f->scratch, 0);
        int err = archive_file_open_reader(path, &f->db, p);
        if (err)
                return err;
#define SPANS                                                                                      \
        "SELECT block, created_first, created_last, marks FROM span WHERE block BETWEEN ?1 AND ?2"
        if (sqlite3_prepare_v2(f->db, "SELECT * FROM job WHERE id = ?1", -1, &f->one, NULL) !=
                    SQLITE_OK ||
            sqlite3_prepare_v2(f->db, SPANS " ORDER BY block DESC", -1, &f->spans_down, NULL) !=
                    SQLITE_OK ||
            sqlite3_prepare_v2(f->db, SPANS " ORDER BY block", -1, &f->spans_up, NULL) !=
                    SQLITE_OK ||
            checksum_is_required(f->db, &f->is_checksum_required) != SQLITE_OK) {
                err = archive_file_fail(f->db, path, p);
                archive_finder_close(f);
                return err;
        }
#undef SPANS
        return OK;
}

void archive_finder_close(struct archive_finder *f)
{
        (void)sqlite3_finalize(f->one); /* finalize repeats the last error of a statement */
        (void)sqlite3_finalize(f->spans_down);
        (void)sqlite3_finalize(f->spans_up);
        f->one = f->spans_down = f->spans_up = NULL;
        if (f->db)
                (void)sqlite3_close(f->db); /* no statement is open */
        f->db = NULL;
        buf_release(&f->scratch);
}

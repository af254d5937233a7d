/* The walk over rows.  A filter that spans can tell something about goes from span to span, and
 * through the rows of those that may hold a match; any other goes through all rows.  Both
 * statements are stepped through once, in the order of ids, for the whole of a listing. */
#include "history/row_walk.h"

#include "base/buf.h"
#include "base/shown.h"
#include "gate/registry.h"
#include "history/archive_file.h"
#include "history/span_mark.h"
#include "state/option.h"

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
        return !want.len || slice_eq(row_bytes_of(row, which), want);
}

static bool has_text(sqlite3_stmt *row, const struct needle *n)
{
        return !n->text.len || needle_is_in(n, row_bytes_of(row, LOOK_ARGS)) ||
               needle_is_in(n, row_bytes_of(row, LOOK_HOOK)) ||
               needle_is_in(n, row_bytes_of(row, LOOK_ERROR)) ||
               needle_is_in(n, row_bytes_of(row, LOOK_RESULT));
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
        struct slice packed = row_bytes_of(row, LOOK_OPTIONS);
        if (packed.len && options_unpack(packed, &o) && o.tier)
                return o.tier == f->tier;
        return f->registry &&
               1U + registry_tier(f->registry, row_bytes_of(row, LOOK_HOOK)) == f->tier;
}

bool row_walk_matches(const struct row_walk *w)
{
        sqlite3_stmt *row = w->look;
        const struct job_filter *f = &w->query->filter;
        return (f->status < 0 || row_number_of(row, LOOK_STATUS) == f->status) &&
               is_created_in_time(f, row_number_of(row, LOOK_CREATED)) &&
               (!f->ended_since_ms || row_number_of(row, LOOK_FINISHED) >= f->ended_since_ms) &&
               is_column(row, LOOK_QUEUE, f->queue) && is_column(row, LOOK_GROUP, f->group) &&
               is_column(row, LOOK_HOOK, f->hook) && is_column(row, LOOK_WORKER, f->worker) &&
               is_of_tier(row, f) && has_text(row, &w->needle);
}

struct archive_ref row_walk_ref(const struct row_walk *w)
{
        return (struct archive_ref){(uint64_t)row_number_of(w->look, LOOK_ID),
                                    (uint64_t)row_number_of(w->look, LOOK_RUN),
                                    row_number_of(w->look, LOOK_FINISHED)};
}

size_t row_walk_text_bytes(const struct row_walk *w)
{
        return w->needle.text.len ? (size_t)sqlite3_column_bytes(w->look, LOOK_ARGS) : 0;
}

/* --- beginning --- */

/* Made for each listing: preparing takes some 30 us. */
static int prepare_look(struct row_walk *w, struct problem *p)
{
        const struct job_filter *l = &w->query->filter;
        bool is_brief = w->query->is_brief;
        bool has_match = l->match.len > 0;
        struct buf sql CLEANUP(buf_release) = {0};
        buf_printf(&sql, "SELECT id, status, %s, %s, %s, created_ms, %s, %s, %s, %s, %s, %s, %s",
                   l->queue.len ? "queue" : "NULL", l->group.len ? "grp" : "NULL",
                   l->hook.len || has_match || l->tier ? "hook" : "NULL",
                   l->worker.len ? "worker" : "NULL", l->tier ? "options" : "NULL",
                   has_match ? "error" : "NULL", has_match ? "result" : "NULL",
                   has_match ? "args" : "NULL", is_brief ? "run" : "NULL",
                   is_brief || l->ended_since_ms ? "finished_ms" : "NULL");
        if (l->status == JOB_FAILED || l->status == JOB_CANCELED)
                buf_printf(&sql,
                           " FROM job INDEXED BY job_not_complete WHERE status > 2 AND status = %d "
                           "AND id BETWEEN ?1 AND ?2",
                           l->status);
        else
                buf_put_str(&sql, " FROM job WHERE id BETWEEN ?1 AND ?2");
        buf_printf(&sql, " ORDER BY id %s", w->query->is_oldest ? "ASC" : "DESC");
        if (sql.failed)
                return ERR_NOMEM;
        return sqlite3_prepare_v2(w->file->db, buf_cstr(&sql), -1, &w->look, NULL) == SQLITE_OK
                       ? OK
                       : archive_file_fail(w->file->db, w->file->path, p);
}

static void want(struct row_walk *w, enum span_mark_kind kind, struct slice text)
{
        if (text.len)
                w->marks[w->n_marks++] = span_mark_hash(kind, text);
}

static int bind_range(const struct row_walk *w, sqlite3_stmt *stmt, uint64_t low, uint64_t high,
                      struct problem *p)
{
        return sqlite3_bind_int64(stmt, 1, (int64_t)low) == SQLITE_OK &&
                               sqlite3_bind_int64(stmt, 2, (int64_t)high) == SQLITE_OK
                       ? OK
                       : archive_file_fail(w->file->db, w->file->path, p);
}

static int enter(struct row_walk *w, struct id_range span, struct problem *p)
{
        w->span = span;
        w->is_in_span = true;
        return bind_range(w, w->look, span.low, span.high, p);
}

int row_walk_begin(struct row_walk *w, struct row_file *f, const struct archive_query *q,
                   struct problem *p)
{
        const struct job_filter *l = &q->filter;
        w->file = f;
        w->query = q;
        w->needle = needle_make(l->match);
        if (l->status >= 0)
                w->marks[w->n_marks++] = span_mark_status(l->status);
        want(w, MARK_QUEUE, l->queue);
        want(w, MARK_GROUP, l->group);
        want(w, MARK_HOOK, l->hook);
        want(w, MARK_WORKER, l->worker);
        if (id_range_is_empty(&w->left))
                return OK;
        int err = prepare_look(w, p);
        if (err)
                return err;
        if (!w->n_marks && !l->since_ms && !l->until_ms)
                return enter(w, w->left, p);
        w->spans = q->is_oldest ? f->spans_up : f->spans_down;
        return bind_range(w, w->spans, w->left.low >> ARCHIVE_SPAN_SHIFT,
                          w->left.high >> ARCHIVE_SPAN_SHIFT, p);
}

void row_walk_end(struct row_walk *w)
{
        (void)sqlite3_finalize(w->look); /* these repeat the error of step, which was seen */
        if (w->spans)
                (void)sqlite3_reset(w->spans);
        w->look = w->spans = NULL;
}

/* --- going on --- */

enum { SPAN_BLOCK, SPAN_FIRST, SPAN_LAST, SPAN_MARKS };

static bool may_hold(const struct row_walk *w)
{
        sqlite3_stmt *span = w->spans;
        const struct job_filter *f = &w->query->filter;
        bool has_times = sqlite3_column_type(span, SPAN_FIRST) != SQLITE_NULL &&
                         sqlite3_column_type(span, SPAN_LAST) != SQLITE_NULL;
        if (has_times && ((f->since_ms && row_number_of(span, SPAN_LAST) < f->since_ms) ||
                          (f->until_ms && row_number_of(span, SPAN_FIRST) >= f->until_ms)))
                return false;
        struct slice marks = row_bytes_of(span, SPAN_MARKS);
        for (size_t i = 0; i < w->n_marks && marks.len == SPAN_MARK_BYTES; i++)
                if (!span_mark_has((const uint8_t *)marks.ptr, w->marks[i]))
                        return false;
        return true;
}

/* What SQLite does not look at while it reads: without this a row could be delivered twice. */
static int out_of_order(const struct row_walk *w, struct problem *p)
{
        return problem_set(p, ERR_CORRUPT,
                           "the history file %s is damaged: its rows are not in order; weir "
                           "history verify says more",
                           SHOWN_LONG(w->file->path));
}

static int step_span(struct row_walk *w, struct problem *p)
{
        bool is_oldest = w->query->is_oldest;
        int rc = sqlite3_step(w->spans);
        if (rc == SQLITE_DONE)
                id_range_clear(&w->left);
        if (rc != SQLITE_ROW)
                return rc == SQLITE_DONE ? OK : archive_file_fail(w->file->db, w->file->path, p);
        uint64_t first = (uint64_t)row_number_of(w->spans, SPAN_BLOCK) << ARCHIVE_SPAN_SHIFT;
        struct id_range span = {first, first + ARCHIVE_SPAN_IDS - 1};
        if (span.high < w->left.low || span.low > w->left.high)
                return out_of_order(w, p);
        if (span.low < w->left.low)
                span.low = w->left.low;
        if (span.high > w->left.high)
                span.high = w->left.high;
        if (may_hold(w)) {
                id_range_go_to(&w->left, is_oldest, id_range_next(&span, is_oldest));
                return enter(w, span, p);
        }
        id_range_pass(&w->left, is_oldest, is_oldest ? span.high : span.low);
        return OK;
}

static int step_row(struct row_walk *w, struct problem *p)
{
        bool is_oldest = w->query->is_oldest;
        int rc = sqlite3_step(w->look);
        if (rc == SQLITE_ROW) {
                uint64_t id = (uint64_t)row_number_of(w->look, LOOK_ID);
                if (!id_range_has(&w->left, id))
                        return out_of_order(w, p);
                w->is_at_row = true;
                id_range_go_to(&w->left, is_oldest, id);
                return OK;
        }
        if (rc != SQLITE_DONE)
                return archive_file_fail(w->file->db, w->file->path, p);
        (void)sqlite3_reset(w->look); /* the step went well */
        w->is_in_span = false;
        id_range_pass(&w->left, is_oldest, is_oldest ? w->span.high : w->span.low);
        return OK;
}

int row_walk_step(struct row_walk *w, struct problem *p)
{
        return w->is_in_span ? step_row(w, p) : step_span(w, p);
}

void row_walk_pass(struct row_walk *w)
{
        bool is_oldest = w->query->is_oldest;
        w->is_at_row = false;
        id_range_pass(&w->left, is_oldest, id_range_next(&w->left, is_oldest));
}

/* --- the file --- */

int row_file_prepare(struct row_file *f, struct problem *p)
{
#define SPANS                                                                                      \
        "SELECT block, created_first, created_last, marks FROM span WHERE block BETWEEN ?1 AND ?2"
        if (sqlite3_prepare_v2(f->db, SPANS " ORDER BY block DESC", -1, &f->spans_down, NULL) !=
                    SQLITE_OK ||
            sqlite3_prepare_v2(f->db, SPANS " ORDER BY block", -1, &f->spans_up, NULL) != SQLITE_OK)
                return archive_file_fail(f->db, f->path, p);
#undef SPANS
        return OK;
}

void row_file_release(struct row_file *f)
{
        (void)sqlite3_finalize(f->spans_down); /* finalize repeats the last error of a statement */
        (void)sqlite3_finalize(f->spans_up);
        f->spans_down = f->spans_up = NULL;
}

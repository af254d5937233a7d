/* Rows of the table job: the first level of history.
 *
 * A handful of prepared statements, bound to the job's own bytes without a copy, ten rows a
 * statement.  A row that is there already stays as it is: after a crash the core hands over again
 * what it did not hear about.  Only a job that was taken back and ended again replaces its row or
 * its place in a block, and it carries the number of its run: whatever comes twice or late has no
 * larger one.
 *
 * The sums of a transaction are gathered in a small direct-mapped table; a clash writes the older
 * one out early.  They tell what a span holds, for filters and for retention, and they only grow: a
 * row that is gone leaves its marks until the span is empty and goes. */
#include "history/archive_writer_int.h"
#include "history/checksum.h"
#include "history/events_json.h"
#include "state/option.h"

void rows_clear(struct archive_writer *w)
{
        for (size_t i = 0; i < ARCHIVE_SUMS; i++)
                w->sums[i].block = -1;
}

/* --- spans --- */

static int sum_write(struct archive_writer *w, struct archive_span *sum)
{
        if (sum->block < 0)
                return SQLITE_OK;
        writer_bind(w, SQL_SPAN_ADD, 1, sum->block);
        writer_bind(w, SQL_SPAN_ADD, 2, sum->done_ms);
        writer_bind(w, SQL_SPAN_ADD, 3, sum->failed_ms);
        writer_bind(w, SQL_SPAN_ADD, 4, sum->created_first);
        writer_bind(w, SQL_SPAN_ADD, 5, sum->created_last);
        int rc = sqlite3_bind_blob(w->stmts[SQL_SPAN_ADD], 6, sum->marks, SPAN_MARK_BYTES,
                                   SQLITE_STATIC);
        ASSERT(rc == SQLITE_OK); /* as in writer_bind() */
        sum->block = -1;
        return writer_run(w, SQL_SPAN_ADD);
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

int rows_end(struct archive_writer *w)
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

struct wish wish_of(const struct job_view *v)
{
        struct job_options o;
        if (!v->options.len || !options_unpack(v->options, &o))
                return (struct wish){0, 0};
        return (struct wish){o.run, o.result_ms};
}

/* Makes room for a later run of a job that is in a row. */
static int drop_older_row(struct archive_writer *w, uint64_t id, uint64_t run, int64_t *rows)
{
        writer_bind(w, SQL_OLDER_DROP, 1, (int64_t)id);
        writer_bind(w, SQL_OLDER_DROP, 2, (int64_t)run);
        int rc = writer_run(w, SQL_OLDER_DROP);
        if (rc == SQLITE_OK)
                *rows -= sqlite3_changes(w->db);
        return rc;
}

int rows_drop_older_of_block(struct archive_writer *w, uint64_t id, uint64_t run, bool *ret)
{
        const struct block_mark *m;
        size_t at;
        *ret = false;
        int err = blocks_find(w->blocks, id, &w->cache, &m, &at, &w->trouble);
        if (err == ERR_CORRUPT && writer_is_mirrored(w)) {
                w->mirrored.is_damaged = w->mirrored.is_behind = true; /* it is fetched again */
        } else if (err == ERR_CORRUPT) {
                /* What cannot be read is not delivered either: this one is. */
                w->trouble.err = OK;
                return SQLITE_OK;
        }
        if (err || !m || blocks_is_buried(w->blocks, m, at))
                return writer_code(err);
        *ret = w->cache.block.run[at] >= run;
        uint16_t place = (uint16_t)at;
        return *ret ? SQLITE_OK
                    : writer_code(
                              blocks_bury(w->blocks, m, &place, 1, m->finished_first, &w->trouble));
}

/* Only a job of a later run, and one that an earlier life of weir may have handed over, can be
 * there already. */
static int drop_older(struct archive_writer *w, const struct job_view *v, uint64_t run,
                      int64_t *rows, bool *ret_is_there)
{
        *ret_is_there = false;
        int rc = SQLITE_OK;
        if (run || v->id <= w->again_until_id)
                rc = rows_drop_older_of_block(w, v->id, run, ret_is_there);
        if (rc == SQLITE_OK && run && !*ret_is_there)
                rc = drop_older_row(w, v->id, run, rows);
        return rc;
}

int rows_add_lapse(struct archive_writer *w, const struct job_view *v, const struct wish *wish)
{
        if (!wish->result_ms || !v->result.len)
                return SQLITE_OK;
        uint64_t room = (uint64_t)(INT64_MAX - v->finished_ms);
        if (wish->result_ms > room)
                return SQLITE_OK; /* never */
        writer_bind(w, SQL_LAPSE_ADD, 1, v->finished_ms + (int64_t)wish->result_ms);
        writer_bind(w, SQL_LAPSE_ADD, 2, (int64_t)v->id);
        writer_bind(w, SQL_LAPSE_ADD, 3, (int64_t)wish->run);
        writer_bind(w, SQL_LAPSE_ADD, 4, v->finished_ms);
        return writer_run(w, SQL_LAPSE_ADD);
}

/* Rows on their way into the file. */
struct load {
        size_t n;
        const struct job_view *views[ARCHIVE_MANY];
        struct wish wishes[ARCHIVE_MANY];
        size_t ends[ARCHIVE_MANY]; /* of the stories; the buffer may move while it grows */
};

static struct slice events_of(const struct archive_writer *w, const struct load *l, size_t i)
{
        size_t from = i ? l->ends[i - 1] : 0;
        return l->ends[i] > from ? slice_make(w->events_json.ptr + from, l->ends[i] - from)
                                 : SLICE_NONE;
}

/* Up to ARCHIVE_MANY rows that are not there yet. */
static int insert_load(struct archive_writer *w, const struct load *l, int64_t *rows)
{
        bool at_once = l->n == ARCHIVE_MANY;
        enum archive_writer_sql which = at_once ? SQL_INSERT_MANY : SQL_INSERT_ONE;
        int rc = w->events_json.failed ? SQLITE_NOMEM : SQLITE_OK;
        for (size_t i = 0; i < l->n && rc == SQLITE_OK; i++) {
                const struct job_view *v = l->views[i];
                rc = put_row(w->stmts[which], at_once ? (int)i : 0, v, events_of(w, l, i),
                             l->wishes[i].run);
                if (rc == SQLITE_OK && (!at_once || i + 1 == l->n)) {
                        rc = writer_run(w, which);
                        *rows += rc == SQLITE_OK ? sqlite3_changes(w->db) : 0;
                }
                if (rc == SQLITE_OK)
                        rc = rows_add_lapse(w, v, &l->wishes[i]);
                if (rc == SQLITE_OK)
                        rc = sum_add(w, v);
        }
        return rc;
}

int rows_add(struct archive_writer *w, int64_t *rows)
{
        struct load l = {0};
        int rc = SQLITE_OK;
        buf_clear(&w->events_json);
        for (size_t i = 0; i < w->n_picks && rc == SQLITE_OK; i++) {
                const struct pick *k = &w->picks[i];
                bool is_there = false;
                if (!k->is_row || k->is_done)
                        continue;
                const struct job_view *v = &w->views[k->at];
                struct wish wish = wish_of(v);
                rc = drop_older(w, v, wish.run, rows, &is_there);
                if (rc != SQLITE_OK || is_there)
                        continue;
                events_json_write(&w->events_json, v);
                l.views[l.n] = v;
                l.wishes[l.n] = wish;
                l.ends[l.n++] = w->events_json.len;
                if (l.n < ARCHIVE_MANY)
                        continue;
                rc = insert_load(w, &l, rows);
                l.n = 0;
                buf_clear(&w->events_json);
        }
        return rc == SQLITE_OK ? insert_load(w, &l, rows) : rc;
}

int rows_renew_span(struct archive_writer *w, int64_t span)
{
        sqlite3_stmt *left = w->stmts[SQL_SPAN_LEFT];
        bool is_row;
        writer_bind(w, SQL_SPAN_LEFT, 1, span * ARCHIVE_SPAN_IDS);
        writer_bind(w, SQL_SPAN_LEFT, 2, (span + 1) * ARCHIVE_SPAN_IDS - 1);
        int rc = writer_step(w, SQL_SPAN_LEFT, &is_row);
        if (rc != SQLITE_OK)
                return rc;
        enum archive_writer_sql which = SQL_SPAN_DROP;
        if (sqlite3_column_int64(left, 0) > 0) {
                which = SQL_SPAN_SET;
                for (int i = 1; i <= 2; i++)
                        writer_bind(w, which, i + 1,
                                    sqlite3_column_type(left, i) == SQLITE_NULL
                                            ? ARCHIVE_NEVER
                                            : sqlite3_column_int64(left, i));
        }
        writer_bind(w, which, 1, span);
        (void)sqlite3_reset(left); /* it succeeded */
        return writer_run(w, which);
}

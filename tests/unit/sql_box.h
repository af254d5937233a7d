/* SQL on a source of the test's own, which notes what it is asked for, in words:
 *
 *      jobs 3..9, failed, hook a, created 5..8, newest first, without texts */
#ifndef WEIR_TESTS_UNIT_SQL_BOX_H
#define WEIR_TESTS_UNIT_SQL_BOX_H

#include "base/buf.h"
#include "history/sql_reader.h"

#define BOX_JOBS 300

struct sql_box {
        struct sql_source base; /* first */
        struct sql_reader *reader;
        struct buf asked; /* a line for each page */
        struct buf told;  /* damage, a line for each */
        struct job_view jobs[BOX_JOBS];
        size_t n_jobs;
        uint64_t n_incidents, n_audits;
        size_t page_max; /* rows that a page has at most, and is cut then; 0: as asked for */
        int err;         /* instead of an answer */
        bool stops;      /* while a page is looked for */
};

static inline void box_put_range(struct buf *b, const char *name, int64_t low, int64_t high)
{
        if (!low && !high)
                return;
        buf_printf(b, "%s ", name);
        if (low)
                buf_put_i64(b, low);
        buf_put_str(b, "..");
        if (high)
                buf_put_i64(b, high);
}

static inline void box_put_name(struct buf *b, const char *what, struct slice name)
{
        if (name.len)
                buf_printf(b, ", %s %.*s", what, (int)name.len, name.ptr);
}

static inline void box_note(struct buf *b, const struct archive_query *q)
{
        const struct job_filter *f = &q->filter;
        buf_put_str(b, "jobs");
        if (q->id)
                buf_printf(b, " %llu", (unsigned long long)q->id);
        else
                box_put_range(b, "", (int64_t)q->after_id + (q->after_id > 0),
                              (int64_t)q->before_id - (q->before_id > 0));
        if (f->status >= 0)
                buf_printf(b, ", %s", job_status_name((enum job_status)f->status));
        box_put_name(b, "hook", f->hook);
        box_put_name(b, "queue", f->queue);
        box_put_name(b, "group", f->group);
        box_put_name(b, "worker", f->worker);
        box_put_range(b, ", created", f->since_ms, f->until_ms ? f->until_ms - 1 : 0);
        box_put_range(b, ", finished", f->ended_since_ms, 0);
        buf_put_str(b, q->is_oldest ? "" : ", newest first");
        buf_put_str(b, q->is_without_texts ? ", without texts\n" : "\n");
}

static inline bool box_is_name(struct slice want, struct slice name)
{
        return !want.len || slice_eq(want, name);
}

static inline bool box_matches(const struct archive_query *q, const struct job_view *v)
{
        const struct job_filter *f = &q->filter;
        if (q->id)
                return v->id == q->id; /* which is all that the archive looks at, too */
        return v->id > q->after_id && (!q->before_id || v->id < q->before_id) &&
               (f->status < 0 || (int)v->status == f->status) && box_is_name(f->hook, v->hook) &&
               box_is_name(f->queue, v->queue) && box_is_name(f->group, v->group) &&
               box_is_name(f->worker, v->worker) &&
               (!f->since_ms || v->created_ms >= f->since_ms) &&
               (!f->until_ms || v->created_ms < f->until_ms) &&
               (!f->ended_since_ms || v->finished_ms >= f->ended_since_ms);
}

/* As the archive does it. */
static inline int box_jobs(struct sql_source *source, struct archive_query *q, struct problem *p)
{
        struct sql_box *box = CONTAINER_OF(source, struct sql_box, base);
        box_note(&box->asked, q);
        q->n_rows = 0;
        q->is_cut = false;
        if (box->stops)
                sql_reader_stop(box->reader);
        if (box->err)
                return problem_set(p, box->err, "the disk is on fire");
        q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
        assert_non_null(q->rows);
        for (size_t i = 0; i < box->n_jobs && q->n_rows < q->limit && !q->is_cut; i++) {
                const struct job_view *v = &box->jobs[q->is_oldest ? i : box->n_jobs - 1 - i];
                if (!box_matches(q, v))
                        continue;
                if (box->page_max && q->n_rows == box->page_max) {
                        q->is_cut = true;
                        continue;
                }
                q->rows[q->n_rows++] = *v;
                q->last_id = v->id;
        }
        return OK;
}

/* Numbers from 1 to n_incidents, the largest first. */
static inline int box_incidents(struct sql_source *source, struct archive_incidents *q,
                                struct problem *p)
{
        struct sql_box *box = CONTAINER_OF(source, struct sql_box, base);
        if (box->err)
                return problem_set(p, box->err, "the disk is on fire");
        uint64_t number = q->before > box->n_incidents ? box->n_incidents : q->before - 1;
        q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
        assert_non_null(q->rows);
        for (q->n_rows = 0; number > 0 && q->n_rows < q->limit; number--)
                q->rows[q->n_rows++] = (struct archive_incident){number, 1000 * (int64_t)number,
                                                                 SLICE_LIT("ramp"), SLICE_NONE};
        return OK;
}

static inline int box_audits(struct sql_source *source, struct archive_audits *q, struct problem *p)
{
        struct sql_box *box = CONTAINER_OF(source, struct sql_box, base);
        if (box->err)
                return problem_set(p, box->err, "the disk is on fire");
        uint64_t number = q->before > box->n_audits ? box->n_audits : q->before - 1;
        q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
        assert_non_null(q->rows);
        for (q->n_rows = 0; number > 0 && q->n_rows < q->limit && !q->is_cut; number--) {
                q->last = number;
                q->is_cut = number % 700 == 0; /* it has looked at enough */
                if (number % 2)
                        q->rows[q->n_rows++] = (struct audit_entry){
                                .number = number, .times = 1, .who = SLICE_LIT("ops")};
        }
        return OK;
}

static inline void box_tell(void *ctx, const char *what)
{
        struct sql_box *box = ctx;
        buf_printf(&box->told, "%s\n", what);
}

/* Complete jobs of the hook h, with the ids 1 to n. */
static inline void sql_box_init(struct sql_box *box, size_t n)
{
        struct problem p;
        *box = (struct sql_box){
                .base = {.jobs = box_jobs, .incidents = box_incidents, .audits = box_audits},
                .n_jobs = n};
        for (size_t i = 0; i < n; i++)
                box->jobs[i] = (struct job_view){.id = i + 1,
                                                 .status = JOB_COMPLETE,
                                                 .hook = SLICE_LIT("h"),
                                                 .created_ms = 1000 * (int64_t)i,
                                                 .finished_ms = 1000 * (int64_t)i};
        assert_int_equal(sql_reader_new(&box->base, box_tell, box, &box->reader, &p), OK);
}

static inline void sql_box_release(struct sql_box *box)
{
        assert_null(sql_reader_free(box->reader));
        buf_release(&box->asked);
        buf_release(&box->told);
}

/* Runs the statement: its rows as text, cells with '|' between them, a line for each. */
static inline int sql_box_run(struct sql_box *box, const char *sql, struct buf *ret,
                              struct problem *p)
{
        struct sql_script script = {sql, 1};
        sqlite3_stmt *stmt;
        int rc;
        buf_clear(ret);
        buf_clear(&box->asked);
        int err = sql_reader_prepare(box->reader, &script, &stmt, p);
        if (err)
                return err;
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
                for (int i = 0; i < sqlite3_column_count(stmt); i++) {
                        const char *text = (const char *)sqlite3_column_text(stmt, i);
                        buf_printf(ret, "%s%s", i ? "|" : "", text ? text : "NULL");
                }
                buf_put_byte(ret, '\n');
        }
        err = rc == SQLITE_DONE ? OK : sql_reader_fail(box->reader, rc, p);
        (void)sqlite3_finalize(stmt);
        return err;
}

static inline void assert_rows(struct sql_box *box, const char *sql, const char *want)
{
        struct buf rows CLEANUP(buf_release) = {0};
        struct problem p = {0};
        if (sql_box_run(box, sql, &rows, &p) != OK)
                fail_msg("%s: %s", sql, p.detail);
        assert_string_equal(buf_cstr(&rows), want);
}

/* What the source is asked for, one page after the other. */
static inline void assert_asks(struct sql_box *box, const char *sql, const char *want)
{
        struct buf rows CLEANUP(buf_release) = {0};
        struct problem p = {0};
        if (sql_box_run(box, sql, &rows, &p) != OK)
                fail_msg("%s: %s", sql, p.detail);
        if (strcmp(buf_cstr(&box->asked), want) != 0)
                fail_msg("%s\nasks for: %sinstead of: %s", sql, buf_cstr(&box->asked), want);
}

static inline void assert_fails(struct sql_box *box, const char *sql, int err, const char *part)
{
        struct buf rows CLEANUP(buf_release) = {0};
        struct problem p = {0};
        assert_int_equal(sql_box_run(box, sql, &rows, &p), err);
        has(p.detail, part);
}

#endif

/* The report of a site: what is in Action Scheduler's tables, and what a person should know of it.
 *
 * Every statement is bounded: counts stop at a cap and go on as the server's own estimates
 * (retention.c), and hooks are those of SAMPLE rows at one end of an index, so that a report costs
 * the same for ten thousand actions and for a hundred million.  How long an action took is the time
 * from its last attempt to its last log line, because the words of the log are translated. */
#include "guard/retention.h"

#include <stdio.h>
#include <time.h>

#define SAMPLE     2000
#define LOG_SAMPLE (3 * SAMPLE)
#define DAYS       7
#define FAR_S      INT64_C(253402300799) /* 9999-12-31 23:59:59 */

struct reporting {
        struct store *s;
        struct site_request *q;
        struct site_report *report;
        int64_t now_s;
};

/* NULL: the list is full, or no memory is left. */
static struct site_figure *add_figure(struct reporting *r, enum site_list list, struct slice name)
{
        struct site_report *v = r->report;
        struct site_figure *f = &v->lists[list][v->n[list]];

        if (v->n[list] == SITE_FIGURES)
                return NULL;
        f->name = arena_copy(&r->q->arena, name);
        v->n[list] += f->name.ptr != NULL;
        return f->name.ptr ? f : NULL;
}

static int run(struct reporting *r, struct mysql_result *ret)
{
        return store_run(r->s, ret, &r->q->problem);
}

/* Rows of a hook, a count and a number of seconds, the first of which are kept.  When the counts
 * make a whole sample, there may be more. */
static int take_hooks(struct reporting *r, enum site_list list, uint64_t sample)
{
        CLEANUP(mysql_result_release) struct mysql_result rows = {0};
        struct site_report *v = r->report;
        struct slice cells[3];
        uint64_t total = 0;
        int err = run(r, &rows);

        while (!err && mysql_result_next(&rows, cells, ARRAY_LEN(cells))) {
                struct site_figure *f = add_figure(r, list, cells[0]);
                uint64_t n = look_u64(cells[1]);
                total += n;
                if (f) {
                        f->count = n;
                        f->seconds = (int64_t)look_u64(cells[2]);
                }
        }
        for (size_t i = 0; i < v->n[list]; i++)
                v->lists[list][i].is_estimate = total >= sample;
        return err;
}

/* ---- sizes ---- */

static int take_tables(struct reporting *r)
{
        static const char *const names[SITE_TABLES] = {
                "actionscheduler_actions", "actionscheduler_logs", "actionscheduler_claims",
                "actionscheduler_groups"};
        int err = OK;

        for (size_t i = 0; !err && i < SITE_TABLES; i++) {
                CLEANUP(mysql_result_release) struct mysql_result rows = {0};
                struct site_table_size *t = &r->report->tables[i];
                struct slice cells[2];
                t->name = names[i];
                buf_printf(&r->s->sql,
                           "SELECT TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM "
                           "information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND "
                           "TABLE_NAME = '%s%s'",
                           r->s->options->prefix, names[i]);
                err = run(r, &rows);
                if (!err && mysql_result_next(&rows, cells, ARRAY_LEN(cells))) {
                        t->rows = look_u64(cells[0]);
                        t->bytes = look_u64(cells[1]);
                }
        }
        return err;
}

static int take_count(struct reporting *r, enum site_list list, const char *name,
                      const struct retention_range *range)
{
        uint64_t n;
        bool is_estimate;
        int err = retention_count(r->s, range, &n, &is_estimate, &r->q->problem);
        struct site_figure *f = err ? NULL : add_figure(r, list, slice_str(name));

        if (f) {
                f->count = n;
                f->is_estimate = is_estimate;
        }
        return err;
}

static int take_statuses(struct reporting *r)
{
        static const char *const statuses[] = {"pending", "in-progress", "complete", "failed",
                                               "canceled"};
        int err = OK;

        for (size_t i = 0; !err && i < ARRAY_LEN(statuses); i++) {
                const struct retention_range range = {statuses[i], 0, FAR_S};
                err = take_count(r, SITE_STATUSES, statuses[i], &range);
        }
        return err;
}

/* The last days in UTC, the newest first, by the dates of the actions. */
static int take_days(struct reporting *r)
{
        int64_t today_s = r->now_s - r->now_s % LOOK_DAY_S;
        int err = OK;

        for (int i = 0; !err && i < DAYS; i++) {
                time_t from = (time_t)(today_s - i * LOOK_DAY_S);
                struct tm utc;
                char name[16];
                (void)gmtime_r(&from, &utc); /* cannot fail for a date of this age */
                (void)strftime(name, sizeof(name), "%Y-%m-%d", &utc);
                const struct retention_range range = {"complete", from - 1, from + LOOK_DAY_S};
                err = take_count(r, SITE_DAYS, name, &range);
        }
        return err;
}

/* ---- hooks ---- */

static void put_sample(struct reporting *r, const char *seconds, const char *where,
                       const char *order)
{
        struct buf *sql = &r->s->sql;

        buf_printf(sql,
                   "SELECT " STORE_SPELLING ", COUNT(*) AS n, %s FROM (SELECT hook, "
                   "scheduled_date_gmt FROM %s",
                   seconds, r->s->actions);
        look_put_index(sql, r->s->facts.status_index);
        buf_printf(sql,
                   " WHERE status = %s ORDER BY scheduled_date_gmt %s LIMIT %d) AS "
                   "t " STORE_BY_SPELLING " ORDER BY n DESC, h",
                   where, order, SAMPLE);
}

static int take_by_status(struct reporting *r)
{
        struct buf where CLEANUP(buf_release) = {0};
        int err;

        put_sample(r, "0", "'pending'", "");
        err = take_hooks(r, SITE_PENDING, SAMPLE);
        if (err)
                return err;
        put_sample(r, "0", "'failed'", "DESC");
        err = take_hooks(r, SITE_FAILED, SAMPLE);
        if (err)
                return err;
        buf_put_str(&where, "'pending' AND scheduled_date_gmt > '0000-00-00 00:00:00' AND "
                            "scheduled_date_gmt < ");
        store_put_date(&where, r->now_s - 60);
        put_sample(r, "TIMESTAMPDIFF(SECOND, MIN(scheduled_date_gmt), UTC_TIMESTAMP())",
                   buf_cstr(&where), "");
        return take_hooks(r, SITE_PAST_DUE, SAMPLE);
}

/* How old the oldest action of the sample is: its first log line tells; 0: there is none. */
static int read_span(struct reporting *r, int64_t *ret_s)
{
        CLEANUP(mysql_result_release) struct mysql_result rows = {0};
        struct slice cell;
        int err;

        buf_printf(&r->s->sql,
                   "SELECT TIMESTAMPDIFF(SECOND, log_date_gmt, UTC_TIMESTAMP()) FROM %s",
                   r->s->logs);
        look_put_index(&r->s->sql, LOOK_LOG_INDEX);
        buf_printf(&r->s->sql,
                   " WHERE action_id = (SELECT MIN(action_id) FROM (SELECT action_id FROM %s ORDER "
                   "BY action_id DESC LIMIT %d) AS t) ORDER BY log_id LIMIT 1",
                   r->s->actions, SAMPLE);
        err = run(r, &rows);
        *ret_s = !err && mysql_result_next(&rows, &cell, 1) ? (int64_t)look_u64(cell) : 0;
        return err;
}

static int take_created(struct reporting *r)
{
        struct site_report *v = r->report;
        int64_t span_s;
        int err = read_span(r, &span_s);

        if (err || !span_s)
                return err;
        buf_printf(&r->s->sql,
                   "SELECT " STORE_SPELLING ", COUNT(*) AS n, 0 FROM (SELECT hook FROM %s ORDER "
                   "BY action_id DESC LIMIT %d) AS t " STORE_BY_SPELLING " ORDER BY n DESC, h",
                   r->s->actions, SAMPLE);
        err = take_hooks(r, SITE_CREATED, 0); /* always an estimate */
        for (size_t i = 0; i < v->n[SITE_CREATED]; i++) {
                struct site_figure *f = &v->lists[SITE_CREATED][i];
                f->count = f->count * LOOK_DAY_S / (uint64_t)span_s;
        }
        return err;
}

static int take_slowest(struct reporting *r)
{
        buf_printf(&r->s->sql,
                   "SELECT " STORE_SPELLING ", COUNT(*), MAX(GREATEST(TIMESTAMPDIFF(SECOND, "
                   "a.last_attempt_gmt, e.ended), 0)) AS took FROM (SELECT action_id, "
                   "MAX(log_date_gmt) AS ended FROM (SELECT action_id, log_date_gmt FROM %s ORDER "
                   "BY log_id DESC LIMIT %d) AS l GROUP BY action_id) AS e JOIN %s a ON "
                   "a.action_id = e.action_id WHERE a.status = 'complete' AND a.last_attempt_gmt > "
                   "'0000-00-00 00:00:00' " STORE_BY_SPELLING " ORDER BY took DESC, h",
                   r->s->logs, LOG_SAMPLE, r->s->actions);
        return take_hooks(r, SITE_SLOWEST, 0);
}

/* ---- all of it ---- */

static int take_retention(struct reporting *r)
{
        struct retention_forecast f;
        int err = retention_forecast(r->s, r->now_s, &f, &r->q->problem);

        if (err)
                return err;
        r->report->past = f.actions;
        r->report->past_lines = f.lines;
        r->report->past_bytes = f.bytes;
        r->report->is_past_estimate = f.is_estimate;
        r->report->finished_per_day = f.per_day;
        r->report->deleted_per_s = (uint64_t)f.per_s;
        return OK;
}

int store_report(struct store *s, struct site_request *q)
{
        static int (*const parts[])(struct reporting *) = {
                take_tables,  take_statuses, take_days,      take_by_status,
                take_created, take_slowest,  take_retention,
        };
        struct site_report *report = arena_alloc(&q->arena, sizeof(*report));
        struct reporting r = {.s = s, .q = q, .report = report};
        int err;

        if (!report)
                return ERR_NOMEM;
        *report = (struct site_report){0};
        err = store_now(s, &r.now_s, &q->problem);
        for (size_t i = 0; !err && i < ARRAY_LEN(parts); i++)
                err = parts[i](&r);
        if (!err)
                q->report = report;
        return err;
}

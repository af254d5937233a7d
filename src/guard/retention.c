/* Finished actions past their time: how many there are, and how long deleting them takes (purge.c
 * deletes them).
 *
 * Nothing here reads more than a bounded number of rows.  A count stops at COUNT_MAX; beyond that
 * the number is the server's own estimate, which EXPLAIN takes from two places of the index.  Bytes
 * and log lines are those of an average row. */
#include "guard/retention.h"

#include "base/plural.h"

#define COUNT_MAX    10000
#define SAMPLED      100  /* actions whose log lines are counted */
#define SAMPLE_LINES 5000 /* of these */

struct retention retention_of(const struct store_options *o, size_t kind, int64_t now_s)
{
        static const char *const statuses[RETENTION_KINDS] = {"complete", "canceled", "failed"};
        int64_t keep_s = kind == 2 ? o->retention_failed_s : o->retention_s;

        return (struct retention){statuses[kind], keep_s > 0 ? now_s - keep_s : 0};
}

/* Those with the oldest dates; an action seldom ends long after its date.  Those without a date
 * stay, and they must not fill the page. */
void retention_put_page(struct store *s, const struct retention *t, const struct store_walk *w,
                        unsigned rows)
{
        struct buf *sql = &s->sql;

        buf_printf(sql, " FROM (SELECT action_id, scheduled_date_gmt FROM %s", s->actions);
        look_put_index(sql, s->facts.status_index);
        buf_printf(sql, " WHERE status = '%s' AND scheduled_date_gmt < ", t->status);
        store_put_date(sql, t->before_s);
        if (w->at_id)
                buf_printf(sql,
                           " AND (scheduled_date_gmt > '%s' OR (scheduled_date_gmt = '%s' AND "
                           "action_id > %llu))",
                           w->at_date, w->at_date, (unsigned long long)w->at_id);
        else
                buf_put_str(sql, " AND scheduled_date_gmt > '0000-00-00 00:00:00'");
        buf_printf(sql,
                   " ORDER BY scheduled_date_gmt, action_id LIMIT %u) AS page JOIN %s a USING "
                   "(action_id)",
                   rows, s->actions);
}

/* ---- counts ---- */

static void put_range(struct store *s, const struct retention_range *r)
{
        buf_printf(&s->sql, "SELECT 1 FROM %s", s->actions);
        look_put_index(&s->sql, s->facts.status_index);
        buf_printf(&s->sql, " WHERE status = '%s' AND scheduled_date_gmt > ", r->status);
        store_put_date(&s->sql, r->from_s);
        buf_put_str(&s->sql, " AND scheduled_date_gmt < ");
        store_put_date(&s->sql, r->until_s);
}

/* Runs s->sql, and takes the number in that column of the first row. */
static int read_number(struct store *s, const char *column, uint64_t *ret, struct problem *problem)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[16] = {SLICE_NONE};
        int err = store_run(s, &r, problem);

        *ret = 0;
        if (err)
                return err;
        int at = mysql_result_column(&r, column);
        if (at >= 0 && at < (int)ARRAY_LEN(cells) && mysql_result_next(&r, cells, ARRAY_LEN(cells)))
                *ret = look_u64(cells[at]);
        return OK;
}

int retention_count(struct store *s, const struct retention_range *r, uint64_t *ret,
                    bool *ret_is_estimate, struct problem *problem)
{
        int err;

        buf_put_str(&s->sql, "SELECT COUNT(*) AS n FROM (");
        put_range(s, r);
        buf_printf(&s->sql, " LIMIT %d) AS c", COUNT_MAX + 1);
        err = read_number(s, "n", ret, problem);
        *ret_is_estimate = false;
        if (err || *ret <= COUNT_MAX)
                return err;
        buf_put_str(&s->sql, "EXPLAIN ");
        put_range(s, r);
        err = read_number(s, "rows", ret, problem);
        *ret_is_estimate = true;
        if (!err && *ret <= COUNT_MAX)
                *ret = COUNT_MAX + 1; /* there are more than were counted */
        return err;
}

/* How many log lines an action past its time has, times SAMPLED. */
static int sample_lines(struct store *s, const struct retention *t, uint64_t *ret_lines,
                        uint64_t *ret_actions, struct problem *problem)
{
        struct repair_look l = {s, NULL, NULL, problem};
        const struct store_walk begin = {0};
        struct look_ids ids;
        int err;

        buf_put_str(&s->sql, "SELECT a.action_id");
        retention_put_page(s, t, &begin, SAMPLED);
        err = look_read_ids(&l, &ids);
        *ret_lines = 0;
        *ret_actions = ids.n;
        if (err || !ids.n)
                return err;
        buf_printf(&s->sql, "SELECT COUNT(*) AS n FROM (SELECT 1 FROM %s", s->logs);
        look_put_index(&s->sql, LOOK_LOG_INDEX);
        buf_put_str(&s->sql, " WHERE action_id");
        look_put_ids(&s->sql, ids.at, ids.n);
        buf_printf(&s->sql, " LIMIT %d) AS c", SAMPLE_LINES);
        return read_number(s, "n", ret_lines, problem);
}

/* Bytes of an average row, its indexes included. */
static int read_row_bytes(struct store *s, const char *table, uint64_t *ret,
                          struct problem *problem)
{
        buf_printf(&s->sql,
                   "SELECT (DATA_LENGTH + INDEX_LENGTH) DIV GREATEST(TABLE_ROWS, 1) AS n FROM "
                   "information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = "
                   "'%sactionscheduler_%s'",
                   s->options->prefix, table);
        return read_number(s, "n", ret, problem);
}

/* Adds one status. */
static int forecast_status(struct store *s, const struct retention *t, struct retention_forecast *f,
                           struct problem *problem)
{
        const struct retention_range past = {t->status, 0, t->before_s};
        uint64_t n, n_lines, n_sampled;
        bool is_estimate;
        int err = retention_count(s, &past, &n, &is_estimate, problem);

        if (!err)
                err = sample_lines(s, t, &n_lines, &n_sampled, problem);
        if (err)
                return err;
        f->actions += n;
        f->is_estimate |= is_estimate;
        if (n_sampled)
                f->lines += n * n_lines / n_sampled;
        return OK;
}

int retention_forecast(struct store *s, int64_t now_s, struct retention_forecast *ret,
                       struct problem *problem)
{
        uint64_t n, action_bytes = 0, line_bytes = 0;
        bool is_estimate;
        int err = OK;

        *ret = (struct retention_forecast){.per_s = s->memory.purge.pace.per_s};
        for (size_t i = 0; !err && i < RETENTION_KINDS; i++) {
                struct retention t = retention_of(s->options, i, now_s);
                if (!t.before_s)
                        continue;
                err = forecast_status(s, &t, ret, problem);
                if (err)
                        break;
                const struct retention_range day = {t.status, now_s - LOOK_DAY_S, now_s};
                err = retention_count(s, &day, &n, &is_estimate, problem);
                ret->per_day += n;
        }
        if (!err)
                err = read_row_bytes(s, "actions", &action_bytes, problem);
        if (!err)
                err = read_row_bytes(s, "logs", &line_bytes, problem);
        ret->bytes = ret->actions * action_bytes + ret->lines * line_bytes;
        return err;
}

/* ---- the look ---- */

#define USUAL_PER_S 1000.0 /* of an idle server; only told as an example */

static void put_size(struct buf *b, uint64_t bytes)
{
        if (bytes >= 10 * UINT64_C(1073741824))
                buf_printf(b, "%llu GB", (unsigned long long)(bytes / 1073741824));
        else
                buf_printf(b, "%llu MB", (unsigned long long)bytes / 1048576 + 1);
}

/* "3 min", rounded up; a day and more in days. */
static void put_span(struct buf *b, double s)
{
        if (s < 60)
                buf_put_str(b, "less than a minute");
        else if (s < 2 * 3600)
                buf_printf(b, "about %.0f min", s / 60 + 0.5);
        else if (s < 2 * LOOK_DAY_S)
                buf_printf(b, "about %.0f h", s / 3600 + 0.5);
        else
                buf_printf(b, "about %.0f days", s / LOOK_DAY_S + 0.5);
}

static void put_pace(struct buf *b, const struct retention_forecast *f, bool is_mending)
{
        double per_s = f->per_s > 0 ? f->per_s : USUAL_PER_S;

        if (!is_mending)
                buf_put_str(b, " repair_retention = \"enforce\" deletes them: ");
        else
                buf_put_str(b, " weir deletes them at level normal: ");
        put_span(b, (double)f->actions / per_s);
        buf_printf(b,
                   f->per_s > 0 ? " at the pace of late, %.0f a second."
                                : " at %.0f a second; its pace here is not known yet.",
                   per_s);
        buf_printf(b, " %llu finished in the last day", (unsigned long long)f->per_day);
        if (f->per_s > 0)
                buf_printf(b, (double)f->per_day < f->per_s * LOOK_DAY_S
                                      ? ": it keeps up with them."
                                      : ": it does not keep up with them.");
        else
                buf_put_byte(b, '.');
}

/* Few are a number of the table of repairs; many want a sentence. */
static int tell_forecast(struct repair_look *l)
{
        struct retention_forecast f;
        struct buf text CLEANUP(buf_release) = {0};
        int err = retention_forecast(l->s, l->survey->now_s, &f, l->problem);

        if (err)
                return err;
        buf_printf(&text,
                   "%s%llu finished actions are past their time, with about %llu log lines, ",
                   f.is_estimate ? "About " : "", (unsigned long long)f.actions,
                   (unsigned long long)f.lines);
        put_size(&text, f.bytes);
        buf_put_str(&text, " in all (estimates).");
        put_pace(&text, &f, look_may_mend(l, REPAIR_RETENTION));
        look_advise(l, ADVICE_RETENTION, "%s", buf_cstr(&text));
        return OK;
}

static int count_past(struct repair_look *l, const struct retention *t, uint32_t *ret)
{
        const struct store_walk begin = {0};
        struct store *s = l->s;

        buf_put_str(&s->sql, "SELECT COUNT(*)");
        retention_put_page(s, t, &begin, SITE_COUNT_CAP + 1);
        buf_printf(&s->sql,
                   " WHERE a.status = '%s' AND " RETENTION_ENDED
                   " > '0000-00-00 00:00:00' AND " RETENTION_ENDED " < ",
                   t->status);
        store_put_date(&s->sql, t->before_s);
        return look_count(l, ret);
}

int look_at_retention(struct repair_look *l)
{
        uint32_t found = 0, n;
        int err = OK;

        if (!l->plan->is_calm)
                return OK;
        for (size_t i = 0; !err && i < RETENTION_KINDS; i++) {
                struct retention t = retention_of(l->s->options, i, l->survey->now_s);
                if (!t.before_s)
                        continue;
                err = count_past(l, &t, &n);
                found += err ? 0 : n;
        }
        if (err)
                return err;
        l->s->memory.found[REPAIR_RETENTION] = found;
        if (found > SITE_COUNT_CAP)
                return tell_forecast(l);
        look_forget(l, ADVICE_RETENTION);
        return OK;
}

/* Putting actions of the critical tier in front of all others.
 *
 * Action Scheduler claims what is due in the order of priority, attempts and date.  Payments have
 * the newest dates, so everything older that is due stands before them.
 *
 * From Action Scheduler 3.6 on there is a column `priority`, which no index has: setting it to 0 is
 * one byte of one row, and neither dates nor series change.  The original is in weir's log before
 * (state/front.h).  The next action of a series inherits the 0, so the ledger knows a series by a
 * number that the server makes of its arguments and its group.
 *
 * Before 3.6 the date is all there is.  An action that is due gets the second before the oldest of
 * the others, when more than a batch of them stands before it.  One that is not due must not move
 * forward: Action Scheduler would put the next of its series at the old date, and run it twice.
 * There is nothing to give back: the action is due with either date.
 *
 * As everywhere no statement waits for a row lock, and rows are changed by primary key while they
 * are pending and unclaimed. */
#include "guard/store.h"

#define FIND_ROWS    500 /* due actions of one hook, the oldest first */
#define FIND_CHUNK   25  /* hooks of one statement */
#define SEEN_ROWS    5000
#define IDS_AT_ONCE  500
#define BATCH_USUAL  25 /* of Action Scheduler's runner */
#define FRONT_AGE_S  2  /* older than this by the clocks of both machines */
#define RUNNERS_LOOK 2000
#define PACE_LOOK    200

/* One that runs still has it: it may be released, and the next of its series inherits it. */
#define IN_FRONT " AND status IN ('pending', 'in-progress') AND priority = 0"

/* A number of the series that an action belongs to; 0: it runs once. */
#define SERIES_OF(args)                                                                            \
        "IF(" STORE_RUNS_ONCE("") ", 0, GREATEST(CRC32(CONCAT(group_id, ' ', " args ")), 1))"

static const char *series_of(const struct store *s)
{
        return s->facts.has_extended_args ? SERIES_OF("COALESCE(extended_args, args, '')")
                                          : SERIES_OF("COALESCE(args, '')");
}

static void put_forced_index(struct buf *sql, const struct store *s, const char *index)
{
        buf_printf(sql, " FROM %s FORCE INDEX (", s->actions);
        mysql_put_name(sql, slice_str(index));
        buf_put_byte(sql, ')');
}

static void put_hook_is(struct buf *sql, struct slice hook)
{
        buf_put_str(sql, " WHERE hook = ");
        mysql_put_text(sql, hook);
}

/* ---- finding ---- */

static void put_find(struct store *s, const struct slice *hooks, size_t at, int64_t due_by_s)
{
        struct buf *sql = &s->sql;
        buf_printf(sql,
                   "(SELECT %zu, action_id, %s, TIMESTAMPDIFF(SECOND, '1970-01-01', "
                   "scheduled_date_gmt), %s, CAST(CONVERT(hook USING utf8mb4) AS BINARY) = ",
                   at, s->facts.has_priority ? "priority" : "10", series_of(s));
        mysql_put_text(sql, hooks[at]);
        put_forced_index(sql, s, s->facts.hook_index);
        put_hook_is(sql, hooks[at]);
        buf_put_str(sql, " AND status = 'pending' AND scheduled_date_gmt > '0000-00-00 00:00:00' "
                         "AND scheduled_date_gmt <= ");
        store_put_date(sql, due_by_s);
        buf_printf(sql, " AND claim_id = 0 ORDER BY scheduled_date_gmt LIMIT %d)", FIND_ROWS);
}

static bool take_found(const struct slice cells[6], size_t n_hooks, struct store_front_row *ret)
{
        uint64_t hook, priority, series;
        if (!slice_to_u64(cells[0], &hook) || hook >= n_hooks ||
            !slice_to_u64(cells[1], &ret->row.id) || !ret->row.id ||
            !slice_to_u64(cells[2], &priority) || priority > UINT8_MAX ||
            !slice_to_i64(cells[3], &ret->date_s) || !slice_to_u64(cells[4], &series) ||
            series > UINT32_MAX || !slice_eq(cells[5], SLICE_LIT("1")))
                return false;
        ret->hook = hook;
        ret->row.priority = (uint8_t)priority;
        ret->row.series = (uint32_t)series;
        return true;
}

int store_find_front(struct store *s, const struct slice *hooks, size_t n_hooks, int64_t due_by_s,
                     struct store_front_row *ret, size_t max, size_t *ret_n,
                     struct problem *problem)
{
        *ret_n = 0;
        for (size_t from = 0; from < n_hooks; from += FIND_CHUNK) {
                struct mysql_result rows CLEANUP(mysql_result_release) = {0};
                struct slice cells[6];
                for (size_t i = from; i < n_hooks && i < from + FIND_CHUNK; i++) {
                        buf_put_str(&s->sql, i == from ? "" : " UNION ALL ");
                        put_find(s, hooks, i, due_by_s);
                }
                int r = store_run(s, &rows, problem);
                if (r != OK)
                        return r;
                while (*ret_n < max && mysql_result_next(&rows, cells, ARRAY_LEN(cells)))
                        *ret_n += take_found(cells, n_hooks, &ret[*ret_n]);
        }
        return OK;
}

/* ---- priorities ---- */

struct new_priority {
        const struct front_row *rows;
        bool is_back; /* each gets its own again */
};

static void put_front_ids(struct buf *sql, const struct front_row *rows, size_t n)
{
        buf_put_str(sql, " WHERE action_id IN (");
        for (size_t i = 0; i < n; i++)
                buf_printf(sql, "%s%llu", i ? "," : "", (unsigned long long)rows[i].id);
        buf_put_byte(sql, ')');
}

static void put_priorities(struct store *s, const void *ctx, size_t at, size_t n)
{
        const struct new_priority *p = ctx;
        const struct front_row *rows = p->rows + at;
        struct buf *sql = &s->sql;
        buf_printf(sql, "UPDATE %s FORCE INDEX (PRIMARY) SET priority = ", s->actions);
        if (!p->is_back) {
                buf_put_byte(sql, '0');
        } else {
                buf_put_str(sql, "ELT(INTERVAL(action_id");
                for (size_t i = 0; i < n; i++)
                        buf_printf(sql, ",%llu", (unsigned long long)rows[i].id);
                buf_put_byte(sql, ')');
                for (size_t i = 0; i < n; i++)
                        buf_printf(sql, ",%u", rows[i].priority);
                buf_put_byte(sql, ')');
        }
        put_front_ids(sql, rows, n);
        buf_printf(sql, " AND claim_id = 0 AND status = 'pending' AND priority %s 0",
                   p->is_back ? "=" : ">");
}

int store_put_front(struct store *s, const struct front_row *rows, size_t n, uint64_t *ret_changed,
                    struct problem *problem)
{
        const struct new_priority p = {rows, false};
        return store_change(s, n, put_priorities, &p, ret_changed, problem);
}

int store_put_back(struct store *s, const struct front_row *rows, size_t n, uint64_t *ret_changed,
                   struct problem *problem)
{
        const struct new_priority p = {rows, true};
        return store_change(s, n, put_priorities, &p, ret_changed, problem);
}

static int take_seen(struct store *s, struct front_row *ret, size_t max, size_t *n, bool *ret_all,
                     struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cells[2];
        int r = store_run(s, &rows, problem);
        while (r == OK && mysql_result_next(&rows, cells, ARRAY_LEN(cells))) {
                uint64_t series;
                *ret_all = *ret_all && *n < max;
                if (*n < max && slice_to_u64(cells[0], &ret[*n].id) &&
                    slice_to_u64(cells[1], &series) && series <= UINT32_MAX)
                        ret[(*n)++].series = (uint32_t)series;
        }
        return r;
}

int store_see_front(struct store *s, struct slice hook, const struct front_row *rows, size_t n,
                    struct front_row *ret, size_t max, size_t *ret_n, bool *ret_all,
                    struct problem *problem)
{
        struct buf *sql = &s->sql;
        bool recurs = false;
        int r = OK;
        *ret_n = 0;
        *ret_all = true;
        for (size_t at = 0; r == OK && at < n; at += IDS_AT_ONCE) {
                size_t step = n - at < IDS_AT_ONCE ? n - at : IDS_AT_ONCE;
                buf_printf(sql, "SELECT action_id, 0 FROM %s FORCE INDEX (PRIMARY)", s->actions);
                put_front_ids(sql, rows + at, step);
                buf_put_str(sql, IN_FRONT);
                r = take_seen(s, ret, max, ret_n, ret_all, problem);
        }
        for (size_t i = 0; i < n; i++)
                recurs = recurs || rows[i].series;
        if (r != OK || !recurs)
                return r;
        buf_printf(sql, "SELECT action_id, %s", series_of(s));
        put_forced_index(sql, s, s->facts.hook_index);
        put_hook_is(sql, hook);
        buf_put_str(sql, IN_FRONT " AND NOT " STORE_RUNS_ONCE("") " LIMIT ");
        buf_printf(sql, "%d", SEEN_ROWS);
        uint64_t before = *ret_n;
        r = take_seen(s, ret, max, ret_n, ret_all, problem);
        *ret_all = *ret_all && *ret_n - before < SEEN_ROWS;
        return r;
}

/* ---- dates ---- */

static void put_others(struct store *s, const struct slice *hooks, size_t n_hooks)
{
        struct buf *sql = &s->sql;
        put_forced_index(sql, s, s->facts.status_index);
        buf_put_str(sql,
                    " WHERE status = 'pending' AND scheduled_date_gmt > '0000-00-00 00:00:00' AND "
                    "claim_id = 0 AND hook NOT IN (");
        for (size_t i = 0; i < n_hooks; i++) {
                buf_put_str(sql, i ? "," : "");
                mysql_put_text(sql, hooks[i]);
        }
        buf_put_byte(sql, ')');
}

static int read_number(struct store *s, int64_t *ret, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        int r = store_run(s, &rows, problem);
        *ret = 0;
        if (r == OK && mysql_result_next(&rows, &cell, 1) && !slice_to_i64(cell, ret))
                *ret = 0;
        return r;
}

/* More than a batch of others stands before that date. */
static int is_behind(struct store *s, const struct slice *hooks, size_t n_hooks, int64_t date_s,
                     bool *ret, struct problem *problem)
{
        int64_t n;
        buf_put_str(&s->sql, "SELECT COUNT(*) FROM (SELECT 1");
        put_others(s, hooks, n_hooks);
        buf_put_str(&s->sql, " AND scheduled_date_gmt < ");
        store_put_date(&s->sql, date_s);
        buf_printf(&s->sql, " LIMIT %d) AS before_it", BATCH_USUAL + 1);
        int r = read_number(s, &n, problem);
        *ret = n > BATCH_USUAL;
        return r;
}

int store_date_front(struct store *s, const struct slice *hooks, size_t n_hooks,
                     const struct store_front_row *rows, size_t n, int64_t now_s,
                     uint64_t *ret_changed, struct problem *problem)
{
        struct site_due_row due[SITE_ROWS_MAX];
        size_t n_due = 0;
        int64_t oldest_s, first_s = INT64_MAX;
        bool is = false;
        *ret_changed = 0;
        buf_put_str(&s->sql, "SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', scheduled_date_gmt)");
        put_others(s, hooks, n_hooks);
        buf_put_str(&s->sql, " ORDER BY scheduled_date_gmt LIMIT 1");
        int r = read_number(s, &oldest_s, problem);
        if (r != OK || oldest_s <= 1)
                return r;
        for (size_t i = 0; i < n && n_due < SITE_ROWS_MAX; i++) {
                if (rows[i].date_s > now_s - FRONT_AGE_S || rows[i].date_s < oldest_s)
                        continue;
                first_s = rows[i].date_s < first_s ? rows[i].date_s : first_s;
                due[n_due++] = (struct site_due_row){.row.id = rows[i].row.id,
                                                     .current_s = rows[i].date_s};
        }
        if (n_due)
                r = is_behind(s, hooks, n_hooks, first_s, &is, problem);
        return r == OK && is ? store_move(s, due, n_due, oldest_s - 1, NULL, ret_changed, problem)
                             : r;
}

/* ---- the pace of runners ---- */

static int count_runners(struct store *s, uint32_t *ret, struct problem *problem)
{
        int64_t n;
        buf_put_str(&s->sql, "SELECT COUNT(DISTINCT claim_id) FROM (SELECT claim_id, status");
        put_forced_index(&s->sql, s, s->facts.claim_index);
        buf_printf(&s->sql,
                   " WHERE claim_id > 0 ORDER BY claim_id DESC LIMIT %d) AS claimed WHERE status "
                   "IN ('pending', 'in-progress')",
                   RUNNERS_LOOK);
        int r = read_number(s, &n, problem);
        *ret = n > 0 && n <= RUNNERS_LOOK ? (uint32_t)n : 0;
        return r;
}

int store_read_pace(struct store *s, const struct slice *hooks, size_t n_hooks,
                    struct site_pace *ret, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cells[2] = {SLICE_NONE};
        struct buf *sql = &s->sql;
        buf_put_str(sql, "SELECT COUNT(*), COALESCE(SUM(hook NOT IN (''");
        for (size_t i = 0; i < n_hooks; i++) {
                buf_put_str(sql, ", ");
                mysql_put_text(sql, hooks[i]);
        }
        buf_put_str(sql, ")), 0) FROM (SELECT hook");
        put_forced_index(sql, s, s->facts.status_index);
        buf_printf(sql,
                   " WHERE status = 'pending' AND scheduled_date_gmt <= UTC_TIMESTAMP() - INTERVAL "
                   "1 SECOND AND claim_id = 0 LIMIT %d) AS due",
                   PACE_LOOK);
        int r = store_run(s, &rows, problem);
        if (r != OK)
                return r;
        uint64_t due = 0, others = 0;
        ret->is_idle = mysql_result_next(&rows, cells, 2) && slice_to_u64(cells[0], &due) &&
                       slice_to_u64(cells[1], &others) && due < PACE_LOOK && !others;
        return count_runners(s, &ret->runners, problem);
}

/* Moving actions in time, and giving them back.
 *
 * Ids are read first, in the order of their dates, by the index of the hook: as many rows as are
 * wanted and no more.  Then one UPDATE by primary key, so that it locks these rows and nothing
 * between them, with the conditions that make it harmless: pending, unclaimed, and of the date that
 * it was seen with.  A runner that claimed an action meanwhile and a person who edited it win.
 *
 * The rest of a batch that a runner has begun is moved only while it is in that claim.  It stays
 * there until the runner releases it, before its next action.  A return may come earlier, so it
 * accepts any claim: the runner then runs the action.
 *
 * Each row has its own date, before or after.  In the statement these are two lists,
 *
 *      ELT(INTERVAL(action_id, 17, 23, 42), 'date of 17', 'date of 23', 'date of 42')
 *
 * where INTERVAL is a binary search: the ids are in ascending order.  The local column moves by the
 * same number of seconds as the UTC one, so the site's time zone is not needed and what comes back
 * is what was there.  It is assigned first: assignments are made from left to right, and it reads
 * the old UTC date.  A local date that is zero or missing stays so.
 *
 * The session never waits for a row lock.  A refused statement changed nothing and is tried again
 * with half the rows after a few milliseconds; claims of runners are that short. */
#include "guard/store.h"

#include <stdlib.h>

#include "base/clock.h"

/* Fewer rows than this are left alone when one of them is locked. */
#define ROWS_LEAST 8
/* Refusals of one call.  MySQL waits a second for each. */
#define REFUSALS_MAX_MARIADB 20
#define REFUSALS_MAX_MYSQL   2
#define JITTER_MAX_MS        10
#define SPELLINGS            8 /* this many times the rows are read when all are of other spellings */
#define CLAIMED_LOOK         2000 /* actions with a claim, the newest claims first */

/* ---- reading ---- */

/* The cells of read_row(), of actions of the hook. */
static void put_select(struct store *s, const struct site_step *step, const char *index)
{
        struct buf *sql = &s->sql;
        buf_put_str(sql, "SELECT action_id, TIMESTAMPDIFF(SECOND, '1970-01-01', "
                         "scheduled_date_gmt), " STORE_SCHEDULE_DATE
                         ", CAST(CONVERT(hook USING utf8mb4) AS BINARY) = ");
        mysql_put_text(sql, step->hook);
        buf_printf(sql, " FROM %s FORCE INDEX (", s->actions);
        mysql_put_name(sql, slice_str(index));
        buf_put_str(sql, ") WHERE hook = ");
        mysql_put_text(sql, step->hook);
}

static void put_read_due(struct store *s, const struct site_step *step, int64_t due_by_s,
                         size_t max)
{
        struct buf *sql = &s->sql;
        put_select(s, step, s->facts.hook_index);
        /* A zero date cannot be moved and given back. */
        buf_put_str(sql, " AND status = 'pending' AND scheduled_date_gmt >= ");
        store_put_date(sql, step->not_before_s > 0 ? step->not_before_s : 1);
        buf_put_str(sql, " AND scheduled_date_gmt <= ");
        store_put_date(sql, due_by_s);
        buf_printf(sql, " AND claim_id = 0 ORDER BY scheduled_date_gmt LIMIT %zu", max);
}

/* False: the hook is spelled otherwise. */
static bool read_row(const struct slice cells[4], struct site_due_row *ret)
{
        int64_t original_s = 0;
        *ret = (struct site_due_row){0};
        if (!slice_eq(cells[3], SLICE_LIT("1")) || !slice_to_u64(cells[0], &ret->row.id) ||
            !slice_to_i64(cells[1], &ret->current_s))
                return false;
        if (!slice_to_i64(cells[2], &original_s) || original_s < 0)
                original_s = 0;
        ret->is_async = original_s == 0;
        /* A date before that of the schedule was set by a person; it is not lost by a move. */
        ret->row.original_s =
                original_s && original_s < ret->current_s ? original_s : ret->current_s;
        return true;
}

int store_read_due(struct store *s, const struct site_step *step, int64_t due_by_s,
                   struct site_due_row *ret, size_t max, size_t *ret_n, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cells[4];
        size_t limit = max;
        *ret_n = 0;
        for (int i = 0; i < 2; i++) {
                put_read_due(s, step, due_by_s, limit);
                int r = store_run(s, &rows, problem);
                if (r != OK)
                        return r;
                bool has_more = rows.n_rows == limit;
                while (*ret_n < max && mysql_result_next(&rows, cells, 4))
                        *ret_n += read_row(cells, &ret[*ret_n]);
                if (*ret_n || !has_more)
                        break;
                limit = max * SPELLINGS;
        }
        return OK;
}

/* ---- claimed ones ---- */

int store_read_claims(struct store *s, struct store_claims *ret, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        struct buf *sql = &s->sql;
        ret->n = 0;
        buf_printf(sql, "SELECT claim_id FROM (SELECT claim_id, status FROM %s FORCE INDEX (",
                   s->actions);
        mysql_put_name(sql, slice_str(s->facts.claim_index));
        buf_printf(sql,
                   ") WHERE claim_id > 0 ORDER BY claim_id DESC LIMIT %d) AS claimed GROUP BY "
                   "claim_id HAVING SUM(status = 'pending') > 0 AND SUM(status <> 'pending') > 0 "
                   "LIMIT %d",
                   CLAIMED_LOOK, STORE_CLAIMS_MAX);
        int r = store_run(s, &rows, problem);
        while (r == OK && ret->n < STORE_CLAIMS_MAX && mysql_result_next(&rows, &cell, 1))
                ret->n += slice_to_u64(cell, &ret->ids[ret->n]);
        return r;
}

static void put_claims(struct buf *sql, const struct store_claims *claims)
{
        buf_put_str(sql, " AND claim_id IN (");
        for (size_t i = 0; i < claims->n; i++)
                buf_printf(sql, "%s%llu", i ? "," : "", (unsigned long long)claims->ids[i]);
        buf_put_byte(sql, ')');
}

int store_read_claimed(struct store *s, const struct site_step *step,
                       const struct store_claims *claims, struct site_due_row *ret, size_t *ret_n,
                       struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cells[4];
        struct buf *sql = &s->sql;
        ASSERT(claims->n);
        *ret_n = 0;
        put_select(s, step, s->facts.claim_index);
        put_claims(sql, claims);
        buf_put_str(sql, " AND status = 'pending' AND scheduled_date_gmt >= ");
        store_put_date(sql, step->not_before_s > 0 ? step->not_before_s : 1);
        buf_put_str(sql, " AND scheduled_date_gmt < ");
        store_put_date(sql, step->to_s);
        buf_printf(sql, " LIMIT %d", SITE_ROWS_MAX);
        int r = store_run(s, &rows, problem);
        while (r == OK && *ret_n < SITE_ROWS_MAX && mysql_result_next(&rows, cells, 4))
                *ret_n += read_row(cells, &ret[*ret_n]);
        return r;
}

/* ---- changing ---- */

/* Rows of one change, by id.  A date of 0 stands for `to_s`, and for any of from_s. */
struct change_row {
        uint64_t id;
        int64_t has_s, to_s;
};

struct change {
        struct change_row *rows;
        size_t n;
        int64_t to_s;          /* of all rows; 0: each has its own */
        const int64_t *from_s; /* two dates that a row may have, 0: none; NULL: each its own */
        const struct store_claims *claims; /* in which the rows are; NULL: in none */
        bool is_return;                    /* a row may be in any claim */
};

static int order_by_id(const void *a, const void *b)
{
        const struct change_row *x = a, *y = b;
        return (x->id > y->id) - (x->id < y->id);
}

static void put_ids(struct buf *sql, const struct change_row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++)
                buf_printf(sql, "%s%llu", i ? "," : "", (unsigned long long)rows[i].id);
}

/* The date of each row; see above. */
static void put_dates(struct buf *sql, const struct change_row *rows, size_t n, bool is_target)
{
        buf_put_str(sql, "ELT(INTERVAL(action_id,");
        put_ids(sql, rows, n);
        buf_put_byte(sql, ')');
        for (size_t i = 0; i < n; i++) {
                buf_put_byte(sql, ',');
                store_put_date(sql, is_target ? rows[i].to_s : rows[i].has_s);
        }
        buf_put_byte(sql, ')');
}

static void put_target(struct buf *sql, const struct change *c, const struct change_row *rows,
                       size_t n)
{
        if (c->to_s)
                store_put_date(sql, c->to_s);
        else
                put_dates(sql, rows, n, true);
}

static void put_update(struct store *s, const void *ctx, size_t at, size_t n)
{
        const struct change *c = ctx;
        struct buf *sql = &s->sql;
        const struct change_row *rows = c->rows + at;
        buf_printf(sql,
                   "UPDATE %s FORCE INDEX (PRIMARY) SET scheduled_date_local = "
                   "COALESCE(scheduled_date_local + INTERVAL TIMESTAMPDIFF(SECOND, "
                   "scheduled_date_gmt, ",
                   s->actions);
        put_target(sql, c, rows, n);
        buf_put_str(sql, ") SECOND, scheduled_date_local), scheduled_date_gmt = ");
        put_target(sql, c, rows, n);
        buf_put_str(sql, " WHERE action_id IN (");
        put_ids(sql, rows, n);
        buf_put_byte(sql, ')');
        if (c->claims)
                put_claims(sql, c->claims);
        else if (!c->is_return)
                buf_put_str(sql, " AND claim_id = 0");
        buf_put_str(sql, " AND status = 'pending' AND scheduled_date_gmt ");
        if (c->from_s) {
                buf_put_str(sql, "IN (");
                store_put_date(sql, c->from_s[0] ? c->from_s[0] : c->from_s[1]);
                buf_put_byte(sql, ',');
                store_put_date(sql, c->from_s[1] ? c->from_s[1] : c->from_s[0]);
                buf_put_byte(sql, ')');
        } else {
                buf_put_str(sql, "= ");
                put_dates(sql, rows, n, false);
        }
}

int store_pause(struct store *s, struct problem *problem)
{
        int64_t ms = 1 + (int64_t)rng_below(&s->rng, JITTER_MAX_MS);
        const struct sql_wait w = {.stop_fd = s->stop_fd,
                                   .deadline_ns = clock_boot_ns() + ms * NS_PER_MS,
                                   .timeout_ms = ms};
        int r = wait_for(&w, -1, 0, NULL);
        return r == ERR_STOPPING ? wait_problem(&w, r, problem) : OK;
}

static unsigned grown(unsigned rows_at_once)
{
        unsigned n = rows_at_once + rows_at_once / 2 + 1;
        return n < SITE_ROWS_MAX ? n : SITE_ROWS_MAX;
}

int store_change(struct store *s, size_t n, store_put put, const void *ctx, uint64_t *ret_changed,
                 struct problem *problem)
{
        struct mysql_result none CLEANUP(mysql_result_release) = {0};
        int n_left = s->facts.is_mariadb ? REFUSALS_MAX_MARIADB : REFUSALS_MAX_MYSQL;
        bool is_refused = false;
        size_t at = 0;
        *ret_changed = 0;
        s->longest_ns = 0;
        while (at < n && n_left > 0) {
                size_t step = n - at < s->rows_at_once ? n - at : s->rows_at_once;
                put(s, ctx, at, step);
                int64_t began_ns = clock_boot_ns();
                int r = store_run(s, &none, problem);
                int64_t took_ns = clock_boot_ns() - began_ns;
                s->longest_ns = took_ns > s->longest_ns ? took_ns : s->longest_ns;
                if (r == OK) {
                        *ret_changed += none.affected;
                        s->rows_at_once = grown(s->rows_at_once);
                        at += step;
                        continue;
                }
                if (r != ERR_LOCKED)
                        return r;
                n_left--;
                if (step < ROWS_LEAST) {
                        is_refused = true;
                        at += step;
                }
                s->rows_at_once = step / 2 > 1 ? (unsigned)(step / 2) : 1;
                r = store_pause(s, problem);
                if (r != OK)
                        return r;
        }
        if (at < n || is_refused)
                return problem_set(problem, ERR_LOCKED, "other sessions hold locks on the actions");
        return OK;
}

static int change_rows(struct store *s, struct change *c, uint64_t *ret_moved,
                       struct problem *problem)
{
        if (c->n)
                qsort(c->rows, c->n, sizeof(*c->rows), order_by_id);
        return store_change(s, c->n, put_update, c, ret_moved, problem);
}

int store_move(struct store *s, const struct site_due_row *rows, size_t n, int64_t to_s,
               const struct store_claims *claims, uint64_t *ret_moved, struct problem *problem)
{
        struct change_row own[SITE_ROWS_MAX];
        ASSERT(n <= SITE_ROWS_MAX && to_s > 0);
        *ret_moved = 0;
        for (size_t i = 0; i < n; i++)
                own[i] = (struct change_row){.id = rows[i].row.id, .has_s = rows[i].current_s};
        struct change c = {.rows = own, .n = n, .to_s = to_s, .claims = claims};
        return change_rows(s, &c, ret_moved, problem);
}

static int change_step(struct store *s, const struct site_step *step, int64_t to_s,
                       uint64_t *ret_moved, struct problem *problem)
{
        struct change_row own[SITE_ROWS_MAX];
        ASSERT(step->n_rows <= SITE_ROWS_MAX);
        *ret_moved = 0;
        if (!step->from_s[0] && !step->from_s[1])
                return OK;
        for (size_t i = 0; i < step->n_rows; i++)
                own[i] = (struct change_row){.id = step->rows[i].id,
                                             .to_s = step->rows[i].original_s};
        struct change c = {.rows = own,
                           .n = step->n_rows,
                           .to_s = to_s,
                           .from_s = step->from_s,
                           .is_return = step->kind == STEP_RETURN};
        return change_rows(s, &c, ret_moved, problem);
}

int store_shift(struct store *s, const struct site_step *step, uint64_t *ret_moved,
                struct problem *problem)
{
        ASSERT(step->to_s > 0);
        return change_step(s, step, step->to_s, ret_moved, problem);
}

int store_return(struct store *s, const struct site_step *step, uint64_t *ret_moved,
                 struct problem *problem)
{
        return change_step(s, step, 0, ret_moved, problem);
}

int store_keep_dated(struct store *s, uint64_t *ids, size_t *n, int64_t date_s,
                     struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        size_t n_kept = 0, n_asked = *n;
        *n = 0;
        if (!n_asked)
                return OK;
        buf_printf(&s->sql, "SELECT action_id FROM %s FORCE INDEX (PRIMARY) WHERE action_id IN (",
                   s->actions);
        for (size_t i = 0; i < n_asked; i++)
                buf_printf(&s->sql, "%s%llu", i ? "," : "", (unsigned long long)ids[i]);
        buf_put_str(&s->sql, ") AND status = 'pending' AND scheduled_date_gmt = ");
        store_put_date(&s->sql, date_s);
        int r = store_run(s, &rows, problem);
        while (r == OK && n_kept < n_asked && mysql_result_next(&rows, &cell, 1))
                n_kept += slice_to_u64(cell, &ids[n_kept]);
        *n = n_kept;
        return r;
}

/* ---- the log of Action Scheduler ---- */

/* Local less UTC, in seconds.  The first line of the newest action is Action Scheduler's own, and
 * tells how the site writes its time; the dates of the action do not: async ones have UTC twice. */
int store_read_offset(struct store *s, int64_t *ret, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        buf_printf(&s->sql,
                   "SELECT TIMESTAMPDIFF(SECOND, log_date_gmt, log_date_local) FROM %s WHERE "
                   "action_id = (SELECT MAX(action_id) FROM %s) ORDER BY log_id LIMIT 1",
                   s->logs, s->actions);
        int r = store_run(s, &rows, problem);
        *ret = 0;
        if (r == OK && mysql_result_next(&rows, &cell, 1) && !slice_to_i64(cell, ret))
                *ret = 0;
        return r;
}

static void put_log(struct store *s, const uint64_t *ids, size_t n, const char *message,
                    int64_t offset_s)
{
        struct buf *sql = &s->sql;
        buf_printf(sql, "INSERT INTO %s (action_id, message, log_date_gmt, log_date_local) VALUES ",
                   s->logs);
        for (size_t i = 0; i < n; i++) {
                buf_printf(sql, "%s(%llu,", i ? "," : "", (unsigned long long)ids[i]);
                mysql_put_text(sql, slice_str(message));
                buf_printf(sql, ",UTC_TIMESTAMP(),UTC_TIMESTAMP() + INTERVAL %lld SECOND)",
                           (long long)offset_s);
        }
}

int store_log(struct store *s, const uint64_t *ids, size_t n, const char *message,
              struct problem *problem)
{
        int64_t offset_s;
        if (!n)
                return OK;
        int r = store_read_offset(s, &offset_s, problem);
        for (size_t at = 0; r == OK && at < n; at += SITE_ROWS_MAX) {
                struct mysql_result none CLEANUP(mysql_result_release) = {0};
                put_log(s, ids + at, n - at < SITE_ROWS_MAX ? n - at : SITE_ROWS_MAX, message,
                        offset_s);
                r = store_run(s, &none, problem);
        }
        return r;
}

/* Ids with a line of a move and none of a return behind it.  The lines of an action are few, and
 * are found by the index of actions. */
static int keep_deferred(struct store *s, const uint64_t *ids, size_t n, uint64_t *ret,
                         size_t *ret_n, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        buf_printf(&s->sql,
                   "SELECT action_id FROM %s FORCE INDEX (" STORE_LOG_INDEX
                   ") WHERE action_id IN (",
                   s->logs);
        for (size_t i = 0; i < n; i++)
                buf_printf(&s->sql, "%s%llu", i ? "," : "", (unsigned long long)ids[i]);
        buf_put_str(&s->sql, ") GROUP BY action_id HAVING "
                             "MAX(IF(message LIKE '" STORE_DEFERRED "%', log_id, 0)) > "
                             "MAX(IF(message LIKE '" STORE_RETURNED "%', log_id, 0))");
        int r = store_run(s, &rows, problem);
        *ret_n = 0;
        while (r == OK && *ret_n < n && mysql_result_next(&rows, &cell, 1))
                *ret_n += slice_to_u64(cell, &ret[*ret_n]);
        return r;
}

int store_log_returned(struct store *s, const uint64_t *ids, size_t n, const char *message,
                       struct problem *problem)
{
        uint64_t kept[SITE_ROWS_MAX];
        size_t n_kept = 0;
        ASSERT(n <= SITE_ROWS_MAX);
        int r = n ? keep_deferred(s, ids, n, kept, &n_kept, problem) : OK;
        return r == OK ? store_log(s, kept, n_kept, message, problem) : r;
}

/* What clients ask of a site: its actions, one action with its log, its locks.
 *
 * A page of actions follows an index, so that it costs as many rows as it has, however many there
 * are.  None of Action Scheduler's indexes has a status and then the id.  So a page of a status or
 * of a hook is in the order of the scheduled date, the latest first, and goes on below the date of
 * the action that the page before ended with.  Without status and hook it is by id.
 *
 *      ids            primary key
 *      nothing        primary key, downwards
 *      status         (status, scheduled_date_gmt)
 *      hook, status   (hook, status, scheduled_date_gmt)
 *      hook           the same for each status; the pages are merged
 */
#include "guard/option_lock.h"
#include "guard/store.h"

#include "base/shown.h"

#define LOG_LINES       50   /* of one action, the newest */
#define MESSAGE_CHARS   1000 /* of one log line */
#define LIST_ARGS_CHARS 200  /* a list shows the beginning of long ones */
#define SCHEDULE_CHARS  1000 /* its first date and its interval come before that */

/* Seconds since 1970, of any date; NULL of the zero date. */
#define SECONDS(column) "TIMESTAMPDIFF(SECOND, '1970-01-01', " column ")"

enum {
        COL_ID,
        COL_HOOK,
        COL_STATUS,
        COL_GROUP,
        COL_ARGS,
        COL_SCHEDULE,
        COL_ATTEMPTS,
        COL_PRIORITY,
        COL_CLAIM,
        COL_SCHEDULED,
        COL_LAST,
        N_COLUMNS
};

static const char *const STATUSES[] = {"pending", "in-progress", "complete", "failed", "canceled"};

/* ---- rows ---- */

static uint64_t cell_u64(struct slice cell)
{
        uint64_t v;

        return slice_to_u64(cell, &v) ? v : 0;
}

static int64_t cell_i64(struct slice cell)
{
        int64_t v;

        return slice_to_i64(cell, &v) ? v : 0;
}

/* The number after the first `mark`; 0: there is none. */
static int64_t number_after(struct slice text, const char *mark)
{
        size_t len = strlen(mark), n = 0;
        int64_t v;
        const char *at = text.len ? memmem(text.ptr, text.len, mark, len) : NULL;

        if (!at)
                return 0;
        at += len;
        while (at + n < text.ptr + text.len && (at[n] == '-' || (at[n] >= '0' && at[n] <= '9')))
                n++;
        return slice_to_i64(slice_make(at, n), &v) ? v : 0;
}

/* A serialized schedule in words.  Its class begins it: O:30:"ActionScheduler_SimpleSchedule". */
static struct slice schedule_words(struct arena *arena, struct slice schedule)
{
        struct slice head = slice_make(schedule.ptr, schedule.len < 80 ? schedule.len : 80);
        char text[48];

        if (slice_contains(head, SLICE_LIT("_NullSchedule\"")))
                return SLICE_LIT("async");
        if (slice_contains(head, SLICE_LIT("_SimpleSchedule\"")))
                return SLICE_LIT("single");
        if (slice_contains(head, SLICE_LIT("_CronSchedule\"")))
                return SLICE_LIT("cron");
        if (slice_contains(head, SLICE_LIT("_IntervalSchedule\""))) {
                int64_t every_s = number_after(schedule, "recurrence\";i:");
                if (!every_s)
                        every_s = number_after(schedule, "interval_in_seconds\";i:");
                (void)snprintf(text, sizeof(text), "every %lld s", (long long)every_s);
                return arena_copy(arena, slice_str(text));
        }
        return SLICE_LIT("unknown");
}

static int take_action(struct site_request *q, const struct slice *cells, struct site_action *ret)
{
        struct arena *arena = &q->arena;

        *ret = (struct site_action){
                .id = cell_u64(cells[COL_ID]),
                .hook = arena_copy(arena, cells[COL_HOOK]),
                .status = arena_copy(arena, cells[COL_STATUS]),
                .group = arena_copy(arena, cells[COL_GROUP]),
                .args = arena_copy(arena, cells[COL_ARGS]),
                .schedule = schedule_words(arena, cells[COL_SCHEDULE]),
                .attempts = (uint32_t)cell_u64(cells[COL_ATTEMPTS]),
                .priority = (uint32_t)cell_u64(cells[COL_PRIORITY]),
                .claim = cell_u64(cells[COL_CLAIM]),
                .scheduled_s = cell_i64(cells[COL_SCHEDULED]),
                .original_s = number_after(cells[COL_SCHEDULE], "scheduled_timestamp\";i:"),
                .last_attempt_s = cell_i64(cells[COL_LAST]),
        };
        return ret->hook.ptr && ret->status.ptr && ret->group.ptr && ret->args.ptr &&
                               ret->schedule.ptr
                       ? OK
                       : ERR_NOMEM;
}

/* The columns of a row `a` with its group `g`; empty text instead of NULL. */
static void put_columns(const struct store *s, struct buf *sql, unsigned args_chars)
{
        buf_put_str(sql,
                    "SELECT a.action_id, a.hook, a.status, COALESCE(g.slug, ''), LEFT(COALESCE(");
        if (s->facts.has_extended_args)
                buf_put_str(sql, "a.extended_args, ");
        buf_printf(sql, "a.args, ''), %u), LEFT(COALESCE(a.schedule, ''), %d), a.attempts, %s, ",
                   args_chars, SCHEDULE_CHARS, s->facts.has_priority ? "a.priority" : "10");
        buf_put_str(sql, "a.claim_id, " SECONDS("a.scheduled_date_gmt") ", " SECONDS(
                                 "a.last_attempt_gmt"));
}

static void put_group(const struct store *s, struct buf *sql)
{
        buf_printf(sql, " LEFT JOIN %s g ON g.group_id = a.group_id", s->groups);
}

/* ---- pages ---- */

/* A page of an index: ids of actions with their dates. */
struct page {
        const struct site_request *q;
        bool is_dated;      /* in the order of the date, then the id; else of the id alone */
        struct slice below; /* the date of the action q->id */
};

static void put_below(struct buf *sql, const struct page *p)
{
        if (!p->q->id)
                return;
        if (p->is_dated) {
                buf_put_str(sql, " AND (scheduled_date_gmt < ");
                mysql_put_text(sql, p->below);
                buf_put_str(sql, " OR (scheduled_date_gmt = ");
                mysql_put_text(sql, p->below);
                buf_printf(sql, " AND action_id < %llu))", (unsigned long long)p->q->id);
        } else {
                buf_printf(sql, " AND action_id < %llu", (unsigned long long)p->q->id);
        }
}

/* Ids of one status; NULL: of all. */
static void put_ids(const struct store *s, struct buf *sql, const struct page *p,
                    const char *status)
{
        const struct site_request *q = p->q;

        buf_printf(sql, "(SELECT action_id, scheduled_date_gmt FROM %s", s->actions);
        if (p->is_dated) {
                const char *index = q->hook.len ? s->facts.hook_index : s->facts.status_index;
                buf_put_str(sql, " FORCE INDEX (");
                mysql_put_name(sql, slice_str(index));
                buf_put_byte(sql, ')');
        }
        buf_put_str(sql, " WHERE 1");
        if (q->hook.len) {
                buf_put_str(sql, " AND hook = ");
                mysql_put_text(sql, q->hook);
                /* The collation takes words for equal that PHP does not. */
                buf_put_str(sql, " AND CAST(hook AS BINARY) = CAST(");
                mysql_put_text(sql, q->hook);
                buf_put_str(sql, " AS BINARY)");
        }
        if (status)
                buf_printf(sql, " AND status = '%s'", status);
        if (slice_eq(q->status, SLICE_LIT("due")))
                buf_put_str(sql, " AND scheduled_date_gmt <= UTC_TIMESTAMP()");
        put_below(sql, p);
        /* The id follows in either index by itself.  If it were asked for, the server would sort,
         * because it does not rely on it behind a column of which only a part is in the index. */
        buf_printf(sql, " ORDER BY %s DESC LIMIT %u)",
                   p->is_dated ? "scheduled_date_gmt" : "action_id", q->limit + 1);
}

/* The ids of q->ids; the other filters hold for them as well. */
static void put_listed(const struct store *s, struct buf *sql, const struct page *p)
{
        buf_printf(sql, "(SELECT action_id, scheduled_date_gmt FROM %s WHERE action_id IN (0",
                   s->actions);
        for (size_t i = 0; i < p->q->n_ids; i++)
                buf_printf(sql, ", %llu", (unsigned long long)p->q->ids[i]);
        buf_put_byte(sql, ')');
        put_below(sql, p);
        buf_put_byte(sql, ')');
}

/* What the index did not decide, for rows `a` that were found by it. */
static void put_filter(struct buf *sql, const struct site_request *q)
{
        bool is_due = slice_eq(q->status, SLICE_LIT("due"));

        buf_put_str(sql, " WHERE 1");
        if (q->status.len) {
                buf_put_str(sql, " AND a.status = ");
                mysql_put_text(sql, is_due ? SLICE_LIT("pending") : q->status);
        }
        if (is_due)
                buf_put_str(sql, " AND a.scheduled_date_gmt <= UTC_TIMESTAMP()");
        if (q->hook.len) {
                buf_put_str(sql, " AND CAST(a.hook AS BINARY) = CAST(");
                mysql_put_text(sql, q->hook);
                buf_put_str(sql, " AS BINARY)");
        }
}

static const char *status_of(const struct site_request *q)
{
        if (slice_eq(q->status, SLICE_LIT("due")))
                return "pending";
        for (size_t i = 0; i < ARRAY_LEN(STATUSES); i++)
                if (slice_eq(q->status, slice_str(STATUSES[i])))
                        return STATUSES[i];
        return NULL;
}

static void put_page(struct store *s, const struct page *p)
{
        const struct site_request *q = p->q;
        struct buf *sql = &s->sql;
        const char *status = status_of(q);

        put_columns(s, sql, LIST_ARGS_CHARS);
        buf_put_str(sql, " FROM (");
        if (q->ids)
                put_listed(s, sql, p);
        else if (q->hook.len && !status)
                for (size_t i = 0; i < ARRAY_LEN(STATUSES); i++) {
                        buf_put_str(sql, i ? " UNION ALL " : "");
                        put_ids(s, sql, p, STATUSES[i]);
                }
        else
                put_ids(s, sql, p, status);
        buf_printf(sql, ") AS found JOIN %s a ON a.action_id = found.action_id", s->actions);
        put_group(s, sql);
        put_filter(sql, q);
        buf_printf(sql, " ORDER BY %sa.action_id DESC LIMIT %u",
                   p->is_dated ? "a.scheduled_date_gmt DESC, " : "", q->limit + 1);
}

/* The date of the action that the page before ended with. */
static int find_below(struct store *s, struct site_request *q, struct slice *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cell;
        int err;

        buf_printf(&s->sql, "SELECT COALESCE(scheduled_date_gmt, 0) FROM %s WHERE action_id = %llu",
                   s->actions, (unsigned long long)q->id);
        err = store_run(s, &r, &q->problem);
        if (err)
                return err;
        if (!mysql_result_next(&r, &cell, 1))
                return problem_set(&q->problem, ERR_NOTFOUND,
                                   "action %llu, which the page before ended with, is gone; begin "
                                   "with the first page",
                                   (unsigned long long)q->id);
        *ret = arena_copy(&q->arena, cell);
        return ret->ptr ? OK : ERR_NOMEM;
}

static int answer_actions(struct store *s, struct site_request *q)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct page p = {.q = q, .is_dated = !q->ids && (q->hook.len || q->status.len)};
        struct slice cells[N_COLUMNS];
        int err = OK;

        if (q->status.len && !status_of(q))
                return problem_set(&q->problem, ERR_BADARG,
                                   "unknown status '%s'; it can be pending, due, in-progress, "
                                   "complete, failed or canceled",
                                   SHOWN(q->status));
        if (p.is_dated && q->id)
                err = find_below(s, q, &p.below);
        if (err)
                return err;
        put_page(s, &p);
        err = store_run(s, &r, &q->problem);
        if (err)
                return err;
        q->actions = arena_array(&q->arena, r.n_rows + 1, sizeof(*q->actions));
        if (!q->actions)
                return ERR_NOMEM;
        while (!err && q->n_actions < q->limit && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                err = take_action(q, cells, &q->actions[q->n_actions]);
                q->n_actions += !err;
        }
        q->has_more = r.n_rows > q->limit;
        if (q->n_actions)
                q->next_id = q->actions[q->n_actions - 1].id;
        return err;
}

/* ---- one action ---- */

static int read_lines(struct store *s, struct site_request *q)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[2];
        int err;

        buf_printf(&s->sql,
                   "SELECT " SECONDS("log_date_gmt") ", LEFT(message, %d) FROM %s FORCE INDEX "
                                                     "(action_id) WHERE action_id = %llu ORDER BY "
                                                     "log_id DESC LIMIT %d",
                   MESSAGE_CHARS, s->logs, (unsigned long long)q->id, LOG_LINES);
        err = store_run(s, &r, &q->problem);
        if (err)
                return err;
        q->lines = arena_array(&q->arena, r.n_rows + 1, sizeof(*q->lines));
        if (!q->lines)
                return ERR_NOMEM;
        while (mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                struct site_log_line *line = &q->lines[q->n_lines++];
                line->at_s = cell_i64(cells[0]);
                line->message = arena_copy(&q->arena, cells[1]);
                if (!line->message.ptr)
                        return ERR_NOMEM;
        }
        return OK;
}

static int answer_action(struct store *s, struct site_request *q)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[N_COLUMNS];
        int err;

        put_columns(s, &s->sql, 8000); /* the column has no more */
        buf_printf(&s->sql, " FROM %s a", s->actions);
        put_group(s, &s->sql);
        buf_printf(&s->sql, " WHERE a.action_id = %llu", (unsigned long long)q->id);
        err = store_run(s, &r, &q->problem);
        if (err)
                return err;
        if (!mysql_result_next(&r, cells, ARRAY_LEN(cells)))
                return problem_set(&q->problem, ERR_NOTFOUND, "site %s has no action %llu",
                                   s->options->name, (unsigned long long)q->id);
        q->actions = arena_alloc(&q->arena, sizeof(*q->actions));
        if (!q->actions)
                return ERR_NOMEM;
        err = take_action(q, cells, q->actions);
        if (err)
                return err;
        q->n_actions = 1;
        return read_lines(s, q);
}

static int answer(struct store *s, struct site_request *q)
{
        switch (q->kind) {
        case REQUEST_ACTIONS:
                return answer_actions(s, q);
        case REQUEST_ACTION:
                return answer_action(s, q);
        case REQUEST_LOCKS:
                return option_lock_list(s, q);
        case REQUEST_LOCK:
                return option_lock_take(s, q);
        case REQUEST_UNLOCK:
                return option_lock_release(s, q);
        case REQUEST_REPORT:
                return store_report(s, q);
        }
        return problem_set(&q->problem, ERR_INTERNAL, "unknown request");
}

void store_answer(struct store *s, struct site_request *q)
{
        q->err = answer(s, q);
        if (q->err && q->problem.err != q->err)
                (void)problem_set(&q->problem, q->err, "%s", err_text(q->err));
}

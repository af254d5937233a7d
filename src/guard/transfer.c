/* See transfer.h.
 *
 * Everything that belongs together is one transaction: the state of the rows and their log lines.
 * The session never waits for a row lock; a refused transaction is rolled back and tried again a
 * little later.  Claims of runners are short. */
#include "guard/transfer.h"

#include <stdio.h>

#include "base/clock.h"
#include "wire/json.h"

#define WALK_IDS      20000 /* that one statement looks at */
#define WALK_ROWS     2000  /* that it answers: their hooks fit into one answer */
#define SCHEDULE_MAX  4000  /* bytes read of a serialized schedule; those of crons have 900 */
#define LOCK_WAIT_S   3     /* the session of a move that was killed ends within this */
#define TRIES_MARIADB 300
#define TRIES_MYSQL   30 /* each waits a second */
#define DEPTH_MAX     64
#define ZERO_DATE     "'0000-00-00 00:00:00'"
#define MESSAGE_FROM  "weir: moved from " /* and the source */
#define MESSAGE_TAKEN "weir: on its way to weir; when this line stays the last, import again"

const char *transfer_why_text(enum transfer_why why)
{
        static const char *const texts[WHY_COUNT] = {
#define X(name, text) [WHY_##name] = text,
                TRANSFER_WHY_MAP(X)
#undef X
        };
        return texts[why];
}

/* ---- statements ---- */

static int run_only(struct store *s, struct problem *problem)
{
        struct mysql_result none CLEANUP(mysql_result_release) = {0};
        return store_run(s, &none, problem);
}

static int run_word(struct store *s, const char *sql, struct problem *problem)
{
        buf_clear(&s->sql);
        buf_put_str(&s->sql, sql);
        return run_only(s, problem);
}

static int read_u64(struct store *s, uint64_t *ret, struct problem *problem)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell = SLICE_NONE;
        int r = store_run(s, &rows, problem);
        *ret = 0;
        if (r == OK && mysql_result_next(&rows, &cell, 1) && !slice_to_u64(cell, ret))
                *ret = 0;
        return r;
}

/* One try of a transaction puts its statements and runs them. */
typedef int (*transfer_step)(const struct transfer *t, void *ctx, struct problem *problem);

static int transact(const struct transfer *t, transfer_step step, void *ctx,
                    struct problem *problem)
{
        struct store *s = t->store;
        int n_left = s->facts.is_mariadb ? TRIES_MARIADB : TRIES_MYSQL;
        for (;;) {
                struct problem ignored;
                int r = run_word(s, "START TRANSACTION", problem);
                if (r == OK)
                        r = step(t, ctx, problem);
                if (r == OK)
                        r = run_word(s, "COMMIT", problem);
                if (r == OK || !mysql_conn_is_open(s->conn))
                        return r;
                int undone = run_word(s, "ROLLBACK", &ignored);
                if (r != ERR_LOCKED || undone != OK || --n_left == 0)
                        return r;
                r = store_pause(s, problem);
                if (r != OK)
                        return r;
        }
}

static void put_ids(struct buf *sql, const uint64_t *ids, size_t n)
{
        for (size_t i = 0; i < n; i++)
                buf_printf(sql, "%s%llu", i ? "," : "", (unsigned long long)ids[i]);
}

/* ---- beginning ---- */

static int lock_out_others(struct store *s, struct problem *problem)
{
        uint64_t is_mine = 0;
        buf_put_str(&s->sql, "SELECT GET_LOCK(CONCAT('weir_moving_', MD5(CONCAT(DATABASE(), '.', ");
        mysql_put_text(&s->sql, slice_str(s->options->prefix));
        buf_printf(&s->sql, "))), %d)", LOCK_WAIT_S);
        int r = read_u64(s, &is_mine, problem);
        if (r == OK && !is_mine)
                return problem_set(problem, ERR_LOCKED,
                                   "another import or export of this site is running");
        return r;
}

static int find_claim(struct transfer *t, const char *option, struct problem *problem)
{
        struct store *s = t->store;
        struct mysql_result made CLEANUP(mysql_result_release) = {0};
        buf_printf(&s->sql, "SELECT option_value FROM %s WHERE option_name = '%s'", s->wp_options,
                   option);
        int r = read_u64(s, &t->claim, problem);
        if (r != OK || t->claim)
                return r;
        buf_printf(&s->sql, "INSERT INTO %s (date_created_gmt) VALUES (UTC_TIMESTAMP())",
                   s->claims);
        r = store_run(s, &made, problem);
        if (r != OK)
                return r;
        t->claim = made.insert_id;
        buf_printf(&s->sql,
                   "INSERT INTO %s (option_name, option_value, autoload) VALUES ('%s', '%llu', "
                   "'no') ON DUPLICATE KEY UPDATE option_value = VALUES(option_value)",
                   s->wp_options, option, (unsigned long long)t->claim);
        return run_only(s, problem);
}

int transfer_begin(struct transfer *t, struct store *s, bool is_export, struct problem *problem)
{
        *t = (struct transfer){.store = s};
        int r = store_check_moving(s, is_export, problem);
        if (r == OK)
                r = lock_out_others(s, problem);
        if (r == OK)
                r = find_claim(t, is_export ? "weir_export_claim" : "weir_import_claim", problem);
        return r == OK ? store_read_offset(s, &t->offset_s, problem) : r;
}

/* ---- serialized schedules ---- */

/* The number behind the mark; false: there is none. */
static bool find_number(struct slice text, const char *mark, int64_t *ret)
{
        const char *at = memmem(text.ptr, text.len, mark, strlen(mark));
        if (!at)
                return false;
        at += strlen(mark);
        size_t left = (size_t)(text.ptr + text.len - at), len = 0;
        while (len < left && at[len] != ';')
                len++;
        return len < left && slice_to_i64(slice_make(at, len), ret);
}

/* Takes a literal, or nothing. */
static bool take(struct slice *text, const char *literal)
{
        size_t len = strlen(literal);
        if (text->len < len || memcmp(text->ptr, literal, len) != 0)
                return false;
        *text = slice_make(text->ptr + len, text->len - len);
        return true;
}

static bool take_number(struct slice *text, char end, int64_t *ret)
{
        const char *at = memchr(text->ptr, end, text->len);
        if (!at || !slice_to_i64(slice_make(text->ptr, (size_t)(at - text->ptr)), ret))
                return false;
        *text = slice_make(at + 1, text->len - (size_t)(at + 1 - text->ptr));
        return true;
}

/* cronParts";a:5:{i:0;s:3:"*" "/5";i:1;...} as a line of five fields. */
static enum transfer_why read_cron(struct slice text, char ret[TRANSFER_CRON_MAX])
{
        static const char mark[] = "cronParts\";a:";
        const char *at = memmem(text.ptr, text.len, mark, strlen(mark));
        int64_t n = 0, number, len;
        size_t used = 0;
        if (!at)
                return WHY_CRON;
        at += strlen(mark);
        text = slice_make(at, (size_t)(text.ptr + text.len - at));
        if (!take_number(&text, ':', &n) || !take(&text, "{") || n < 5 || n > 6)
                return WHY_CRON;
        for (int64_t i = 0; i < n; i++) {
                if (!take(&text, "i:") || !take_number(&text, ';', &number) || number != i ||
                    !take(&text, "s:") || !take_number(&text, ':', &len) || !take(&text, "\"") ||
                    len < 1 || (size_t)len > text.len || used + (size_t)len + 2 > TRANSFER_CRON_MAX)
                        return WHY_CRON;
                if (i == 5) /* the year */
                        return len == 1 && text.ptr[0] == '*' ? WHY_NONE : WHY_YEAR;
                if (used)
                        ret[used++] = ' ';
                memcpy(ret + used, text.ptr, (size_t)len);
                used += (size_t)len;
                ret[used] = '\0';
                text = slice_make(text.ptr + len, text.len - (size_t)len);
                if (!take(&text, "\";"))
                        return WHY_CRON;
        }
        return take(&text, "}") ? WHY_NONE : WHY_CRON;
}

static void read_schedule(struct slice text, struct transfer_action *a)
{
        static const char *const classes[] = {
                [TRANSFER_ASYNC] = "\"ActionScheduler_NullSchedule\":",
                [TRANSFER_SIMPLE] = "\"ActionScheduler_SimpleSchedule\":",
                [TRANSFER_INTERVAL] = "\"ActionScheduler_IntervalSchedule\":",
                [TRANSFER_CRON] = "\"ActionScheduler_CronSchedule\":"};
        int64_t number;
        size_t kind = 0;
        a->why = WHY_CLASS;
        if (!take(&text, "O:") || !take_number(&text, ':', &number))
                return;
        while (kind < ARRAY_LEN(classes) && !take(&text, classes[kind]))
                kind++;
        if (kind == ARRAY_LEN(classes))
                return;
        a->kind = (enum transfer_kind)kind;
        a->why = a->kind == TRANSFER_CRON ? read_cron(text, a->cron) : WHY_NONE;
        /* Action Scheduler treats an interval of 0 as a single action. */
        if (a->kind == TRANSFER_INTERVAL &&
            (!find_number(text, "interval_in_seconds\";i:", &a->every_s) || a->every_s <= 0))
                a->kind = TRANSFER_SIMPLE;
        /* A date before that of the schedule was set by a person. */
        if (find_number(text, "scheduled_timestamp\";i:", &number) && number > 0 &&
            (!a->date_s || number < a->date_s))
                a->date_s = number;
}

/* ---- reading ---- */

int transfer_walk(struct store *s, uint64_t *at, struct mysql_result *rows, bool *ret_is_end,
                  struct problem *problem)
{
        uint64_t last = 0, until = *at + WALK_IDS;
        *ret_is_end = false;
        buf_printf(&s->sql, "SELECT MAX(action_id) FROM %s", s->actions);
        int r = read_u64(s, &last, problem);
        if (r != OK)
                return r;
        buf_printf(&s->sql,
                   "SELECT action_id, hook FROM %s FORCE INDEX (PRIMARY) WHERE action_id > %llu AND"
                   " action_id <= %llu AND status = 'pending' AND claim_id = 0 ORDER BY action_id"
                   " LIMIT %d",
                   s->actions, (unsigned long long)*at, (unsigned long long)until, WALK_ROWS);
        r = store_run(s, rows, problem);
        if (r == OK && rows->n_rows < WALK_ROWS) {
                *at = until;
                *ret_is_end = until >= last;
        }
        return r;
}

/* Up to WHERE; of each row what transfer_next() reads. */
static void put_read(struct store *s, const char *index)
{
        buf_printf(&s->sql,
                   "SELECT a.action_id, a.hook, a.args, %s, LEFT(a.schedule, %d), g.slug, %s, %s,"
                   " TIMESTAMPDIFF(SECOND, '1970-01-01', a.scheduled_date_gmt),"
                   " (SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', MIN(l.log_date_gmt)) FROM %s l"
                   " WHERE l.action_id = a.action_id),"
                   " TIMESTAMPDIFF(SECOND, a.last_attempt_gmt, UTC_TIMESTAMP())"
                   " FROM %s a FORCE INDEX (",
                   s->facts.has_extended_args ? "a.extended_args" : "NULL", SCHEDULE_MAX,
                   s->facts.has_priority ? "a.priority" : "10",
                   s->facts.has_unique_key ? "a.unique_key" : "NULL", s->logs, s->actions);
        mysql_put_name(&s->sql, slice_str(index));
        buf_printf(&s->sql, ") LEFT JOIN %s g ON g.group_id = a.group_id WHERE ", s->groups);
}

int transfer_read(struct store *s, const uint64_t *ids, size_t n, struct mysql_result *rows,
                  struct problem *problem)
{
        ASSERT(n > 0 && n <= TRANSFER_ROWS);
        put_read(s, "PRIMARY");
        buf_put_str(&s->sql, "a.action_id IN (");
        put_ids(&s->sql, ids, n);
        buf_put_str(&s->sql, ") AND a.status = 'pending' AND a.claim_id = 0 ORDER BY a.action_id");
        return store_run(s, rows, problem);
}

int transfer_read_taken(const struct transfer *t, struct mysql_result *rows,
                        struct problem *problem)
{
        struct store *s = t->store;
        put_read(s, s->facts.claim_index);
        buf_printf(&s->sql,
                   "a.claim_id = %llu AND a.status = 'canceled' ORDER BY a.action_id LIMIT %d",
                   (unsigned long long)t->claim, TRANSFER_ROWS);
        return store_run(s, rows, problem);
}

static void read_args(struct slice args, struct slice extended, struct transfer_action *a)
{
        struct json_value root;
        bool is_short = extended.ptr == NULL || extended.len == 0;
        a->args = is_short ? args : extended;
        if (a->why != WHY_NONE)
                return;
        if (json_parse(a->args, DEPTH_MAX, &root, NULL) == OK &&
            (root.type == JSON_ARRAY || root.type == JSON_OBJECT))
                return;
        /* The MD5 of args that are elsewhere is no JSON. */
        a->why = is_short && args.len == 32 ? WHY_NO_ARGS : WHY_ARGS;
}

bool transfer_next(struct mysql_result *rows, struct transfer_action *ret)
{
        struct slice cells[11];
        int64_t priority = 10, logged_s = 0;
        *ret = (struct transfer_action){0};
        if (!mysql_result_next(rows, cells, ARRAY_LEN(cells)) || !slice_to_u64(cells[0], &ret->id))
                return false;
        ret->hook = cells[1];
        ret->group = cells[5];
        ret->unique_key = cells[7];
        if (slice_to_i64(cells[6], &priority))
                ret->priority = (int)priority;
        if (!slice_to_i64(cells[8], &ret->date_s) || ret->date_s < 0)
                ret->date_s = 0;
        if (!slice_to_i64(cells[10], &ret->taken_s))
                ret->taken_s = 0;
        read_schedule(cells[4], ret);
        /* An async action has no date inside; it was made when its log begins. */
        if (ret->kind == TRANSFER_ASYNC && slice_to_i64(cells[9], &logged_s) && logged_s > 0 &&
            logged_s < ret->date_s)
                ret->date_s = logged_s;
        read_args(cells[2], cells[3], ret);
        return true;
}

/* ---- taking and ending ---- */

struct taking {
        const uint64_t *ids;
        size_t n;
};

static int try_take(const struct transfer *t, void *ctx, struct problem *problem)
{
        const struct taking *what = ctx;
        struct store *s = t->store;
        buf_printf(&s->sql,
                   "UPDATE %s FORCE INDEX (PRIMARY) SET claim_id = %llu, status = 'canceled',"
                   " last_attempt_gmt = UTC_TIMESTAMP(), last_attempt_local = UTC_TIMESTAMP() +"
                   " INTERVAL %lld SECOND WHERE action_id IN (",
                   s->actions, (unsigned long long)t->claim, (long long)t->offset_s);
        put_ids(&s->sql, what->ids, what->n);
        buf_put_str(&s->sql, ") AND claim_id = 0 AND status = 'pending'");
        int r = run_only(s, problem);
        if (r != OK)
                return r;
        buf_printf(&s->sql,
                   "INSERT INTO %s (action_id, message, log_date_gmt, log_date_local) SELECT"
                   " action_id, '" MESSAGE_TAKEN "', last_attempt_gmt, last_attempt_local FROM %s"
                   " FORCE INDEX (PRIMARY) WHERE action_id IN (",
                   s->logs, s->actions);
        put_ids(&s->sql, what->ids, what->n);
        buf_printf(&s->sql, ") AND claim_id = %llu", (unsigned long long)t->claim);
        return run_only(s, problem);
}

int transfer_take(const struct transfer *t, const uint64_t *ids, size_t n, struct problem *problem)
{
        struct taking what = {ids, n};
        return n ? transact(t, try_take, &what, problem) : OK;
}

/* Lines of the log in one INSERT. */
struct log_lines {
        const struct transfer *t;
        size_t n;
};

static void put_line(struct log_lines *l, uint64_t id, struct slice message)
{
        struct store *s = l->t->store;
        if (!l->n++)
                buf_printf(&s->sql,
                           "INSERT INTO %s (action_id, message, log_date_gmt, log_date_local)"
                           " VALUES ",
                           s->logs);
        else
                buf_put_byte(&s->sql, ',');
        buf_printf(&s->sql, "(%llu,", (unsigned long long)id);
        mysql_put_text(&s->sql, message);
        buf_printf(&s->sql, ",UTC_TIMESTAMP(),UTC_TIMESTAMP() + INTERVAL %lld SECOND)",
                   (long long)l->t->offset_s);
}

struct finishing {
        const struct transfer_end *ends;
        size_t n;
};

static void put_ends(const struct finishing *f, bool is_back, struct buf *sql, size_t *ret_n)
{
        *ret_n = 0;
        for (size_t i = 0; i < f->n; i++)
                if (f->ends[i].is_back == is_back)
                        buf_printf(sql, "%s%llu", (*ret_n)++ ? "," : "",
                                   (unsigned long long)f->ends[i].id);
}

/* Actions that stay canceled lose their unique key, as Action Scheduler's own do. */
static int end_rows(const struct transfer *t, const struct finishing *f, bool is_back,
                    struct problem *problem)
{
        struct store *s = t->store;
        size_t n;
        buf_printf(&s->sql,
                   "UPDATE %s FORCE INDEX (PRIMARY) SET claim_id = 0%s%s WHERE action_id"
                   " IN (",
                   s->actions,
                   is_back ? ", status = 'pending', last_attempt_gmt = " ZERO_DATE
                             ", last_attempt_local = " ZERO_DATE
                           : "",
                   !is_back && s->facts.has_unique_key ? ", unique_key = NULL" : "");
        put_ends(f, is_back, &s->sql, &n);
        buf_printf(&s->sql, ") AND claim_id = %llu AND status = 'canceled'",
                   (unsigned long long)t->claim);
        if (n)
                return run_only(s, problem);
        buf_clear(&s->sql);
        return OK;
}

static int try_finish(const struct transfer *t, void *ctx, struct problem *problem)
{
        const struct finishing *f = ctx;
        struct store *s = t->store;
        int r = end_rows(t, f, false, problem);
        if (r == OK)
                r = end_rows(t, f, true, problem);
        struct log_lines lines = {.t = t};
        for (size_t i = 0; r == OK && i < f->n; i++)
                if (f->ends[i].line)
                        put_line(&lines, f->ends[i].id, slice_str(f->ends[i].line));
        if (r == OK && lines.n)
                r = run_only(s, problem);
        buf_clear(&s->sql);
        return r;
}

int transfer_finish(const struct transfer *t, const struct transfer_end *ends, size_t n,
                    struct problem *problem)
{
        struct finishing f = {ends, n};
        return n ? transact(t, try_finish, &f, problem) : OK;
}

/* ---- making ---- */

/* A property of PHP's serialize(): private ones have their class before them, protected ones a
 * star, each between NULs. */
static void put_property(struct buf *b, const char *class_name, const char *name, int64_t value)
{
        buf_printf(b, "s:%zu:\"", strlen(class_name) + strlen(name) + 2);
        buf_put_byte(b, '\0');
        buf_put_str(b, class_name);
        buf_put_byte(b, '\0');
        buf_printf(b, "%s\";i:%lld;", name, (long long)value);
}

/* As Action Scheduler writes it. */
static void put_schedule(struct buf *b, enum transfer_kind kind, int64_t date_s, int64_t every_s)
{
        static const char simple[] = "ActionScheduler_SimpleSchedule",
                          interval[] = "ActionScheduler_IntervalSchedule";
        bool is_interval = kind == TRANSFER_INTERVAL;
        const char *name = is_interval ? interval : simple;
        if (kind == TRANSFER_ASYNC) {
                buf_put_str(b, "O:28:\"ActionScheduler_NullSchedule\":0:{}");
                return;
        }
        buf_printf(b, "O:%zu:\"%s\":%d:{", strlen(name), name, is_interval ? 5 : 2);
        put_property(b, "*", "scheduled_timestamp", date_s);
        if (is_interval) {
                put_property(b, "*", "first_timestamp", date_s);
                put_property(b, "*", "recurrence", every_s);
                put_property(b, interval, "start_timestamp", date_s);
                put_property(b, interval, "interval_in_seconds", every_s);
        } else {
                put_property(b, simple, "timestamp", date_s);
        }
        buf_put_byte(b, '}');
}

/* The two dates and the schedule, as columns = values. */
static void put_times(const struct transfer *t, const struct transfer_new *row)
{
        struct store *s = t->store;
        struct buf schedule CLEANUP(buf_release) = {0};
        put_schedule(&schedule, row->kind, row->date_s, row->every_s);
        buf_put_str(&s->sql, "scheduled_date_gmt = ");
        store_put_date(&s->sql, row->date_s);
        /* Async actions have UTC in both. */
        buf_put_str(&s->sql, ", scheduled_date_local = ");
        store_put_date(&s->sql, row->date_s + (row->kind == TRANSFER_ASYNC ? 0 : t->offset_s));
        buf_put_str(&s->sql, ", schedule = ");
        mysql_put_text(&s->sql, buf_slice(&schedule));
}

static int find_group(const struct transfer *t, struct slice slug, uint64_t *ret,
                      struct problem *problem)
{
        struct store *s = t->store;
        struct mysql_result made CLEANUP(mysql_result_release) = {0};
        buf_printf(&s->sql, "SELECT group_id FROM %s WHERE slug = ", s->groups);
        mysql_put_text(&s->sql, slug);
        buf_put_str(&s->sql, " ORDER BY group_id LIMIT 1");
        int r = read_u64(s, ret, problem);
        if (r != OK || *ret)
                return r;
        buf_printf(&s->sql, "INSERT INTO %s (slug) VALUES (", s->groups);
        mysql_put_text(&s->sql, slug);
        buf_put_byte(&s->sql, ')');
        r = store_run(s, &made, problem);
        *ret = made.insert_id;
        return r;
}

static int make_row(const struct transfer *t, struct transfer_new *row, struct problem *problem)
{
        struct store *s = t->store;
        struct mysql_result made CLEANUP(mysql_result_release) = {0};
        bool is_long = row->args.len > TRANSFER_ARGS_MAX;
        uint64_t group;
        int r = find_group(t, row->group, &group, problem);
        if (r != OK)
                return r;
        buf_printf(&s->sql, "INSERT INTO %s SET hook = ", s->actions);
        mysql_put_text(&s->sql, row->hook);
        buf_put_str(&s->sql, ", status = 'canceled', ");
        put_times(t, row);
        buf_put_str(&s->sql, is_long ? ", args = MD5(" : ", args = ");
        mysql_put_text(&s->sql, row->args);
        if (is_long) {
                buf_put_str(&s->sql, "), extended_args = ");
                mysql_put_text(&s->sql, row->args);
        }
        if (s->facts.has_priority)
                buf_printf(&s->sql, ", priority = %d", row->priority);
        if (row->unique_key.len) {
                buf_put_str(&s->sql, ", unique_key = ");
                mysql_put_text(&s->sql, row->unique_key);
        }
        buf_printf(&s->sql,
                   ", group_id = %llu, claim_id = %llu, last_attempt_gmt = UTC_TIMESTAMP(),"
                   " last_attempt_local = UTC_TIMESTAMP()",
                   (unsigned long long)group, (unsigned long long)t->claim);
        r = store_run(s, &made, problem);
        row->id = made.insert_id;
        return r;
}

struct making {
        struct transfer_new *rows;
        size_t n, at;
};

static int try_make(const struct transfer *t, void *ctx, struct problem *problem)
{
        struct making *m = ctx;
        struct log_lines lines = {.t = t};
        for (m->at = 0; m->at < m->n; m->at++) {
                int r = make_row(t, &m->rows[m->at], problem);
                if (r != OK)
                        return r;
        }
        for (size_t i = 0; i < m->n; i++) {
                struct buf from CLEANUP(buf_release) = {0};
                buf_put_str(&from, MESSAGE_FROM);
                buf_put_slice(&from, m->rows[i].source);
                put_line(&lines, m->rows[i].id, SLICE_LIT("action created"));
                put_line(&lines, m->rows[i].id, buf_slice(&from));
        }
        return run_only(t->store, problem);
}

int transfer_make(const struct transfer *t, struct transfer_new *rows, size_t n, size_t *ret_bad,
                  struct problem *problem)
{
        struct making m = {.rows = rows, .n = n};
        int r = n ? transact(t, try_make, &m, problem) : OK;
        *ret_bad = m.at < n ? m.at : 0;
        return r;
}

int transfer_redate(const struct transfer *t, uint64_t id, int64_t date_s, int64_t every_s,
                    struct problem *problem)
{
        struct store *s = t->store;
        const struct transfer_new row = {
                .kind = TRANSFER_INTERVAL, .date_s = date_s, .every_s = every_s};
        buf_printf(&s->sql, "UPDATE %s SET ", s->actions);
        put_times(t, &row);
        buf_printf(&s->sql, " WHERE action_id = %llu AND claim_id = %llu AND status = 'canceled'",
                   (unsigned long long)id, (unsigned long long)t->claim);
        return run_only(s, problem);
}

int transfer_read_made(const struct transfer *t, struct mysql_result *rows, struct problem *problem)
{
        struct store *s = t->store;
        buf_put_str(&s->sql, "SELECT a.action_id, a.hook, TIMESTAMPDIFF(SECOND, '1970-01-01',"
                             " a.scheduled_date_gmt), (SELECT l.message FROM ");
        buf_printf(&s->sql,
                   "%s l WHERE l.action_id = a.action_id AND l.message LIKE '" MESSAGE_FROM
                   "%%' ORDER BY l.log_id LIMIT 1) FROM %s a FORCE INDEX (",
                   s->logs, s->actions);
        mysql_put_name(&s->sql, slice_str(s->facts.claim_index));
        buf_printf(&s->sql,
                   ") WHERE a.claim_id = %llu AND a.status = 'canceled' ORDER BY a.action_id"
                   " LIMIT %d",
                   (unsigned long long)t->claim, TRANSFER_ROWS);
        return store_run(s, rows, problem);
}

bool transfer_next_made(struct mysql_result *rows, struct transfer_new *ret)
{
        struct slice cells[4];
        *ret = (struct transfer_new){0};
        if (!mysql_result_next(rows, cells, ARRAY_LEN(cells)) || !slice_to_u64(cells[0], &ret->id))
                return false;
        ret->hook = cells[1];
        if (!slice_to_i64(cells[2], &ret->date_s))
                ret->date_s = 0;
        ret->source = cells[3];
        if (!take(&ret->source, MESSAGE_FROM))
                ret->source = SLICE_NONE;
        return true;
}

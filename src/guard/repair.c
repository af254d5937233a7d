/* Finds and mends what Action Scheduler leaves behind, and gives advice.
 *
 * Every cycle looks at lost actions, at claims and at actions that are past due; one of the dearer
 * looks follows in turn.  Each statement is bounded by an index and a LIMIT, so that a look costs
 * the same in a table of a million actions.  Where an index holds more than one page, a look goes
 * on where the last one ended (struct store_walk).
 *
 * A fault is looked for in every mode but off.  It is mended only while both the site and this
 * repair are in enforce, by primary key and under the conditions that made it a fault, so that what
 * a runner or a person changed meanwhile stays:
 *
 *      LOST         status of a failed action       -> pending
 *      CLAIMS       claim_id of a pending action    -> 0
 *      CLAIM_ROWS   row of the claims table         deleted
 *      RETENTION    finished action and its log     deleted, at level normal only
 *
 * A repair never waits for a row lock.  One that meets a lock ends its look; the fault is still
 * there in the next cycle. */
#include "guard/store.h"

#include "base/shown.h"

#define NEWEST_ROWS     200  /* failed actions of each cycle: new faults are among the newest */
#define WALK_ROWS       500  /* of one page of a pass */
#define CLAIMED_ROWS    2000 /* claimed actions of one page */
#define LOST_AT_ONCE    50   /* actions set pending in one cycle */
#define RELEASE_AT_ONCE 1000 /* actions taken out of claims in one cycle */
#define DELETE_AT_ONCE  200  /* finished actions of one cycle */
#define DELETE_STEP     50   /* of one statement */
#define LOGS_AT_ONCE    1000 /* log lines of one step */
#define CLAIM_STEP      100  /* claims rows of one DELETE */
#define LOST_TIMES      3    /* after that a lost action is left alone */
#define DUPLICATE_HOOKS 3    /* of one look */
#define DUPLICATE_ROWS  500  /* of one hook */
#define DAY_S           86400
#define LOG_INDEX       "action_id" /* of the logs, in every version */

/* The beginning of the log line of an action that was set pending.  It tells how often that was
 * done before, so it must not change, and it must not name the status that a lost action's line
 * names. */
#define LOST_MARK "weir: set to pending again"
#define LOST_LINE LOST_MARK " (Action Scheduler lost it to a deadlock before it ran)"

/* Only the classes that are known not to recur: a recurring action has its successor already. */
#define RUNS_ONCE                                                                                  \
        "(a.schedule LIKE 'O:%:\"ActionScheduler\\_SimpleSchedule\":%' OR "                        \
        "a.schedule LIKE 'O:%:\"ActionScheduler\\_NullSchedule\":%')"
/* Action Scheduler fails an action with other arguments each time that it tries to run it. */
#define HAS_ARGS(args) "JSON_VALID(" args ") AND LEFT(" args ", 1) IN ('[', '{')"
/* When it ended; an action that was canceled before any attempt has only its date. */
#define ENDED                                                                                      \
        "IF(a.last_attempt_gmt > '0000-00-00 00:00:00', a.last_attempt_gmt, a.scheduled_date_gmt)"

/* Each line of advice that there can be; the last SITE_REPAIRS say why a repair failed. */
enum advice {
        ADVICE_MIGRATION,
        ADVICE_ACTIONS_SIZE,
        ADVICE_LOGS_SIZE,
        ADVICE_OLD_INDEX,
        ADVICE_ORPHANS,
        ADVICE_FAILED,
        ADVICE_GIVEN_UP,
        ADVICE_DUPLICATES,
        ADVICE_AUTOLOAD,
        ADVICE_TROUBLE,
        ADVICES = ADVICE_TROUBLE + SITE_REPAIRS + 1,
};
_Static_assert(ADVICES <= STORE_ADVICE_LINES, "each advice has a line in struct store_memory");

/* One call of store_repair(). */
struct look {
        struct store *s;
        const struct site_plan *plan;
        struct site_survey *survey;
        struct problem *problem;
};

struct ids {
        uint64_t at[CLAIMED_ROWS];
        size_t n;
};

/* ---- helpers ---- */

static uint64_t cell_u64(struct slice cell)
{
        uint64_t v;

        return slice_to_u64(cell, &v) ? v : 0;
}

static void put_index(struct buf *sql, const char *index)
{
        buf_put_str(sql, " FORCE INDEX (");
        mysql_put_name(sql, slice_str(index));
        buf_put_byte(sql, ')');
}

static void put_ids(struct buf *sql, const uint64_t *ids, size_t n)
{
        for (size_t i = 0; i < n; i++)
                buf_printf(sql, "%s%llu", i ? ", " : " IN (", (unsigned long long)ids[i]);
        buf_put_byte(sql, ')');
}

static bool may_mend(const struct look *l, enum site_repair repair)
{
        return l->plan->mode == MODE_ENFORCE && l->plan->repairs[repair] == MODE_ENFORCE;
}

static void advise(struct look *l, unsigned advice, const char *fmt, ...) PRINTF(3, 4);
static void advise(struct look *l, unsigned advice, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        shown_vprintf(l->s->memory.advice[advice], STORE_ADVICE_MAX, fmt, args);
        va_end(args);
}

static void forget_advice(struct look *l, unsigned advice)
{
        l->s->memory.advice[advice][0] = '\0';
}

static int run(struct look *l, struct mysql_result *ret)
{
        return store_run(l->s, ret, l->problem);
}

/* A row that another transaction holds is left for the next cycle. */
static int unless_locked(int err)
{
        return err == ERR_LOCKED ? OK : err;
}

/* Runs a statement that answers with one number. */
static int run_count(struct look *l, uint32_t *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cell;
        int err = run(l, &r);

        if (!err)
                *ret = mysql_result_next(&r, &cell, 1) ? (uint32_t)cell_u64(cell) : 0;
        return err;
}

/* Runs a statement that answers with ids; those beyond the room in *ret are left out. */
static int run_ids(struct look *l, struct ids *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cell;
        int err = run(l, &r);

        ret->n = 0;
        while (!err && ret->n < ARRAY_LEN(ret->at) && mysql_result_next(&r, &cell, 1))
                ret->at[ret->n++] = cell_u64(cell);
        return err;
}

static void copy_cell(char *ret, size_t size, struct slice cell)
{
        size_t n = cell.len < size ? cell.len : size - 1;

        if (n)
                memcpy(ret, cell.ptr, n);
        ret[n] = '\0';
}

/* After a page of a pass; the last page begins the next pass. */
static void walk_on(struct store_walk *w, uint32_t seen, bool is_last)
{
        w->seen += seen;
        if (!is_last)
                return;
        *w = (struct store_walk){.found = w->seen};
}

static uint32_t walk_found(const struct store_walk *w)
{
        return w->found > w->seen ? w->found : w->seen;
}

/* ---- LOST ---- */

/* Failed actions, the latest date first, below the place of the walk. */
static void put_failed(struct look *l, const struct store_walk *w, unsigned rows)
{
        struct store *s = l->s;
        struct buf *sql = &s->sql;

        buf_put_str(sql,
                    "SELECT a.action_id, a.scheduled_date_gmt, a.attempts = 0 AND a.claim_id = 0 "
                    "AND " RUNS_ONCE " AND ");
        buf_put_str(sql, s->facts.has_extended_args ? HAS_ARGS("COALESCE(a.extended_args, a.args)")
                                                    : HAS_ARGS("a.args"));
        buf_printf(sql, " FROM (SELECT action_id FROM %s", s->actions);
        put_index(sql, s->facts.status_index);
        buf_put_str(sql, " WHERE status = 'failed'");
        if (w->at_id)
                buf_printf(sql,
                           " AND (scheduled_date_gmt < '%s' OR (scheduled_date_gmt = '%s' AND "
                           "action_id < %llu))",
                           w->at_date, w->at_date, (unsigned long long)w->at_id);
        buf_printf(sql,
                   " ORDER BY scheduled_date_gmt DESC, action_id DESC LIMIT %u) AS page JOIN %s a "
                   "USING (action_id) ORDER BY a.scheduled_date_gmt DESC, a.action_id DESC",
                   rows, s->actions);
}

/* One page of failed actions. */
struct failed_page {
        struct ids ids;       /* candidates, then those that were lost */
        uint32_t given_up;    /* lost, and set pending often enough already */
        uint64_t given_up_id; /* one of them */
        bool is_last;
};

/* Reads the candidates of a page, and moves the walk to its end. */
static int read_failed(struct look *l, struct store_walk *w, unsigned rows, struct failed_page *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[3];
        int err;

        put_failed(l, w, rows);
        err = run(l, &r);
        ret->is_last = r.n_rows < rows;
        while (!err && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                w->at_id = cell_u64(cells[0]);
                copy_cell(w->at_date, sizeof(w->at_date), cells[1]);
                if (!cells[1].ptr)
                        ret->is_last = true; /* actions without a date end the index */
                if (cell_u64(cells[2]))
                        ret->ids.at[ret->ids.n++] = w->at_id;
        }
        return err;
}

/* Keeps the actions whose log says that they were lost since weir set them pending last. */
static int keep_lost(struct look *l, struct failed_page *p)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[3];
        int err;

        if (p->ids.n == 0)
                return OK;
        buf_printf(&l->s->sql,
                   "SELECT action_id, SUM(message LIKE '" LOST_MARK "%%'), "
                   "MAX(IF(message LIKE '%%in-progress%%', log_id, 0)) > "
                   "MAX(IF(message LIKE '" LOST_MARK "%%', log_id, 0)) FROM %s",
                   l->s->logs);
        put_index(&l->s->sql, LOG_INDEX);
        buf_put_str(&l->s->sql, " WHERE action_id");
        put_ids(&l->s->sql, p->ids.at, p->ids.n);
        buf_put_str(&l->s->sql, " GROUP BY action_id");
        err = run(l, &r);
        p->ids.n = 0;
        while (!err && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                if (!cell_u64(cells[2]))
                        continue;
                if (cell_u64(cells[1]) < LOST_TIMES) {
                        p->ids.at[p->ids.n++] = cell_u64(cells[0]);
                } else {
                        p->given_up++;
                        p->given_up_id = cell_u64(cells[0]);
                }
        }
        return err;
}

/* One by one: there are few, and each that was changed gets its line. */
static int mend_lost(struct look *l, const struct ids *ids)
{
        struct site_fault *fault = &l->survey->faults[REPAIR_LOST];
        struct ids done = {.n = 0};
        int err = OK;

        for (size_t i = 0; i < ids->n && fault->mended < LOST_AT_ONCE; i++) {
                CLEANUP(mysql_result_release) struct mysql_result r = {0};
                buf_printf(&l->s->sql, "UPDATE %s AS a SET a.status = 'pending' WHERE ",
                           l->s->actions);
                buf_printf(&l->s->sql, "a.action_id = %llu", (unsigned long long)ids->at[i]);
                buf_put_str(&l->s->sql, " AND a.status = 'failed' AND a.attempts = 0 AND "
                                        "a.claim_id = 0 AND " RUNS_ONCE);
                err = unless_locked(run(l, &r));
                if (err)
                        break;
                if (r.affected) {
                        done.at[done.n++] = ids->at[i];
                        fault->mended++;
                }
        }
        if (done.n && mysql_conn_is_open(l->s->conn)) {
                int log_err = store_log(l->s, done.at, done.n, LOST_LINE, l->problem);
                err = err ? err : log_err;
        }
        return err;
}

static int look_at_page(struct look *l, struct store_walk *w, unsigned rows,
                        struct failed_page *ret)
{
        int err;

        ret->ids.n = 0;
        ret->given_up = 0;
        err = read_failed(l, w, rows, ret);
        if (!err)
                err = keep_lost(l, ret);
        return !err && may_mend(l, REPAIR_LOST) ? mend_lost(l, &ret->ids) : err;
}

/* Counts those of a pass; the advice stays until a whole pass met none. */
static void tell_given_up(struct look *l, const struct failed_page *p)
{
        struct store_memory *m = &l->s->memory;

        m->given_up += p->given_up;
        if (p->given_up)
                advise(l, ADVICE_GIVEN_UP,
                       "%u actions were lost to deadlocks again after weir had set them pending %d "
                       "times; weir leaves them alone. The last one found is action %llu.",
                       m->given_up, LOST_TIMES, (unsigned long long)p->given_up_id);
        if (!p->is_last)
                return;
        if (!m->given_up)
                forget_advice(l, ADVICE_GIVEN_UP);
        m->given_up = 0;
}

static int look_at_lost(struct look *l)
{
        struct store_memory *m = &l->s->memory;
        struct store_walk newest = {0};
        struct failed_page page;
        uint32_t found;
        int err = look_at_page(l, &newest, NEWEST_ROWS, &page);

        if (err)
                return err;
        found = (uint32_t)page.ids.n;
        if (page.is_last) {
                m->lost = (struct store_walk){.found = found};
                m->given_up = 0;
        } else {
                err = look_at_page(l, &m->lost, WALK_ROWS, &page);
                if (err)
                        return err;
                walk_on(&m->lost, (uint32_t)page.ids.n, page.is_last);
        }
        tell_given_up(l, &page);
        m->found[REPAIR_LOST] = walk_found(&m->lost) > found ? walk_found(&m->lost) : found;
        return OK;
}

/* ---- CLAIMS ---- */

/* Pending actions of the claim, at most `max`. */
static int read_claimed(struct look *l, uint64_t claim, unsigned max, struct ids *ret)
{
        buf_printf(&l->s->sql, "SELECT action_id FROM %s", l->s->actions);
        put_index(&l->s->sql, l->s->facts.claim_index);
        buf_printf(&l->s->sql, " WHERE claim_id = %llu AND status = 'pending' LIMIT %u",
                   (unsigned long long)claim, max);
        return run_ids(l, ret);
}

/* After an UPDATE that changed fewer rows than it was given: those that have no claim now. */
static int keep_released(struct look *l, struct ids *ids)
{
        buf_printf(&l->s->sql, "SELECT action_id FROM %s WHERE action_id", l->s->actions);
        put_ids(&l->s->sql, ids->at, ids->n);
        buf_put_str(&l->s->sql, " AND claim_id = 0 AND status = 'pending'");
        return run_ids(l, ids);
}

static int release_step(struct look *l, uint64_t claim, int64_t before_s, struct ids *ids)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct buf *sql = &l->s->sql;
        char line[96];
        int err;

        buf_printf(sql, "UPDATE %s SET claim_id = 0 WHERE action_id", l->s->actions);
        put_ids(sql, ids->at, ids->n);
        buf_printf(sql, " AND status = 'pending' AND claim_id = %llu AND last_attempt_gmt < ",
                   (unsigned long long)claim);
        store_put_date(sql, before_s);
        err = run(l, &r);
        if (!err && r.affected < ids->n)
                err = keep_released(l, ids);
        if (err || r.affected == 0 || ids->n == 0)
                return err;
        l->survey->faults[REPAIR_CLAIMS].mended += (uint32_t)r.affected;
        (void)snprintf(line, sizeof(line), "weir: released from claim %llu, whose runner is gone",
                       (unsigned long long)claim);
        return store_log(l->s, ids->at, ids->n, line, l->problem);
}

/* The whole claim, as far as the cycle may go on. */
static int release_claim(struct look *l, uint64_t claim, int64_t before_s)
{
        const struct site_fault *fault = &l->survey->faults[REPAIR_CLAIMS];
        unsigned step = l->s->rows_at_once ? l->s->rows_at_once : 1;
        int err = OK;

        while (!err && fault->mended < RELEASE_AT_ONCE) {
                struct ids ids;
                uint32_t mended = fault->mended;

                err = read_claimed(l, claim, step, &ids);
                if (err || ids.n == 0)
                        break;
                err = release_step(l, claim, before_s, &ids);
                if (fault->mended == mended)
                        break; /* nothing matched: the runner is alive after all */
        }
        return err;
}

/* A claim whose runner is gone has pending actions, and none of its actions was begun lately:
 * beginning an action sets its last attempt. */
static int look_at_claims(struct look *l)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct store *s = l->s;
        struct store_walk *w = &s->memory.claims;
        int64_t before_s = l->survey->now_s - s->options->claim_timeout_s;
        uint64_t rows = 0;
        uint32_t found = 0;
        struct slice cells[4];
        int err;

        buf_put_str(&s->sql, "SELECT claim_id, COUNT(*), SUM(status = 'pending'), "
                             "MAX(last_attempt_gmt) < ");
        store_put_date(&s->sql, before_s);
        buf_printf(&s->sql, " FROM (SELECT claim_id, status, last_attempt_gmt FROM %s", s->actions);
        put_index(&s->sql, s->facts.claim_index);
        buf_printf(&s->sql,
                   " WHERE claim_id > %llu ORDER BY claim_id LIMIT %d) AS page GROUP BY claim_id "
                   "ORDER BY claim_id",
                   (unsigned long long)w->at_id, CLAIMED_ROWS);
        err = run(l, &r);
        for (uint64_t i = 0; !err && mysql_result_next(&r, cells, ARRAY_LEN(cells)); i++) {
                rows += cell_u64(cells[1]);
                /* The page may have only a part of its last claim; the next begins with it. */
                if (rows == CLAIMED_ROWS && i > 0)
                        break;
                w->at_id = cell_u64(cells[0]);
                if (!cell_u64(cells[2]) || !cell_u64(cells[3]))
                        continue;
                found += (uint32_t)cell_u64(cells[2]);
                if (may_mend(l, REPAIR_CLAIMS))
                        err = unless_locked(release_claim(l, w->at_id, before_s));
        }
        if (err) {
                *w = (struct store_walk){.found = w->found > found ? w->found : found};
                return err;
        }
        walk_on(w, found, rows < CLAIMED_ROWS);
        s->memory.found[REPAIR_CLAIMS] = walk_found(w);
        return OK;
}

/* ---- CLAIM_ROWS ---- */

static int delete_claim_rows(struct look *l, const struct ids *ids, int64_t before_s)
{
        int err = OK;

        for (size_t i = 0; !err && i < ids->n; i += CLAIM_STEP) {
                CLEANUP(mysql_result_release) struct mysql_result r = {0};
                size_t n = ids->n - i < CLAIM_STEP ? ids->n - i : CLAIM_STEP;

                buf_printf(&l->s->sql, "DELETE FROM %s WHERE claim_id", l->s->claims);
                put_ids(&l->s->sql, ids->at + i, n);
                buf_put_str(&l->s->sql, " AND date_created_gmt < ");
                store_put_date(&l->s->sql, before_s);
                err = unless_locked(run(l, &r));
                if (!err)
                        l->survey->faults[REPAIR_CLAIM_ROWS].mended += (uint32_t)r.affected;
        }
        return err;
}

static int look_at_claim_rows(struct look *l)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct store *s = l->s;
        struct store_walk *w = &s->memory.claim_rows;
        int64_t before_s = l->survey->now_s - s->options->claim_timeout_s;
        struct slice cells[2];
        struct ids ids = {.n = 0};
        int err;

        buf_put_str(&s->sql, "SELECT c.claim_id, c.date_created_gmt < ");
        store_put_date(&s->sql, before_s);
        buf_printf(&s->sql, " AND NOT EXISTS (SELECT 1 FROM %s AS a", s->actions);
        put_index(&s->sql, s->facts.claim_index);
        buf_printf(&s->sql,
                   " WHERE a.claim_id = c.claim_id) FROM (SELECT claim_id, date_created_gmt FROM "
                   "%s WHERE claim_id > %llu ORDER BY claim_id LIMIT %d) AS c ORDER BY c.claim_id",
                   s->claims, (unsigned long long)w->at_id, WALK_ROWS);
        err = run(l, &r);
        while (!err && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                w->at_id = cell_u64(cells[0]);
                if (cell_u64(cells[1]))
                        ids.at[ids.n++] = w->at_id;
        }
        if (!err && may_mend(l, REPAIR_CLAIM_ROWS))
                err = delete_claim_rows(l, &ids, before_s);
        if (err)
                return err;
        walk_on(w, (uint32_t)ids.n, r.n_rows < WALK_ROWS);
        s->memory.found[REPAIR_CLAIM_ROWS] = walk_found(w);
        return OK;
}

/* ---- RETENTION ---- */

struct retention {
        const char *status;
        int64_t before_s;
};

/* Log lines first: lines without an action stay for ever.  *ret_is_done: no line is left. */
static int delete_logs(struct look *l, const uint64_t *ids, size_t n, bool *ret_is_done)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct ids lines;
        int err;

        buf_printf(&l->s->sql, "SELECT log_id FROM %s", l->s->logs);
        put_index(&l->s->sql, LOG_INDEX);
        buf_put_str(&l->s->sql, " WHERE action_id");
        put_ids(&l->s->sql, ids, n);
        buf_printf(&l->s->sql, " LIMIT %d", LOGS_AT_ONCE);
        err = run_ids(l, &lines);
        if (!err && lines.n) {
                buf_printf(&l->s->sql, "DELETE FROM %s WHERE log_id", l->s->logs);
                put_ids(&l->s->sql, lines.at, lines.n);
                err = run(l, &r);
        }
        *ret_is_done = !err && lines.n < LOGS_AT_ONCE;
        return err;
}

static int delete_actions(struct look *l, const struct retention *t, const struct ids *ids)
{
        struct site_fault *fault = &l->survey->faults[REPAIR_RETENTION];
        int err = OK;

        for (size_t i = 0; !err && i < ids->n && fault->mended < DELETE_AT_ONCE; i += DELETE_STEP) {
                CLEANUP(mysql_result_release) struct mysql_result r = {0};
                size_t n = ids->n - i < DELETE_STEP ? ids->n - i : DELETE_STEP;
                bool is_done = false;

                err = unless_locked(delete_logs(l, ids->at + i, n, &is_done));
                if (err || !is_done)
                        continue;
                buf_printf(&l->s->sql, "DELETE a FROM %s AS a WHERE a.action_id", l->s->actions);
                put_ids(&l->s->sql, ids->at + i, n);
                buf_printf(&l->s->sql, " AND a.status = '%s' AND " ENDED " < ", t->status);
                store_put_date(&l->s->sql, t->before_s);
                err = unless_locked(run(l, &r));
                if (!err)
                        fault->mended += (uint32_t)r.affected;
        }
        return err;
}

/* Those with the oldest dates; an action seldom ends long after its date.  Those without a date
 * stay, and they must not fill the page. */
static int look_at_status(struct look *l, const struct retention *t, uint32_t *found)
{
        struct store *s = l->s;
        struct ids ids;
        int err;

        buf_printf(&s->sql, "SELECT a.action_id FROM (SELECT action_id FROM %s", s->actions);
        put_index(&s->sql, s->facts.status_index);
        buf_printf(&s->sql,
                   " WHERE status = '%s' AND scheduled_date_gmt > '0000-00-00 00:00:00' ORDER BY "
                   "scheduled_date_gmt, action_id LIMIT %d) AS page "
                   "JOIN %s a USING "
                   "(action_id) WHERE a.status = '%s' AND " ENDED
                   " > '0000-00-00 00:00:00' AND " ENDED " < ",
                   t->status, WALK_ROWS, s->actions, t->status);
        store_put_date(&s->sql, t->before_s);
        err = run_ids(l, &ids);
        if (err)
                return err;
        *found += (uint32_t)ids.n;
        return may_mend(l, REPAIR_RETENTION) ? delete_actions(l, t, &ids) : OK;
}

static int look_at_retention(struct look *l)
{
        const struct store_options *o = l->s->options;
        int64_t now_s = l->survey->now_s;
        const struct {
                const char *status;
                int64_t keep_s;
        } kinds[] = {{"complete", o->retention_s},
                     {"canceled", o->retention_s},
                     {"failed", o->retention_failed_s}};
        uint32_t found = 0;
        int err = OK;

        if (!l->plan->is_calm)
                return OK;
        for (size_t i = 0; !err && i < ARRAY_LEN(kinds); i++)
                if (kinds[i].keep_s > 0) {
                        struct retention t = {kinds[i].status, now_s - kinds[i].keep_s};
                        err = look_at_status(l, &t, &found);
                }
        if (!err)
                l->s->memory.found[REPAIR_RETENTION] = found;
        return err;
}

/* ---- reports ---- */

static int look_at_past_due(struct look *l)
{
        struct store *s = l->s;

        buf_printf(&s->sql, "SELECT COUNT(*) FROM (SELECT 1 FROM %s", s->actions);
        put_index(&s->sql, s->facts.status_index);
        buf_put_str(&s->sql, " WHERE status = 'pending' AND scheduled_date_gmt < ");
        store_put_date(&s->sql, l->survey->now_s - DAY_S);
        buf_printf(&s->sql, " LIMIT %d) AS late", SITE_COUNT_CAP + 1);
        return run_count(l, &s->memory.found[REPAIR_PAST_DUE]);
}

/* Pending actions of the hook beyond the first with the same arguments and group. */
static int count_duplicates(struct look *l, struct slice hook, uint32_t *ret)
{
        struct store *s = l->s;

        buf_printf(&s->sql,
                   "SELECT SUM(n - 1) FROM (SELECT COUNT(*) AS n FROM (SELECT args, group_id, "
                   "schedule FROM %s",
                   s->actions);
        put_index(&s->sql, s->facts.hook_index);
        buf_put_str(&s->sql, " WHERE hook = ");
        mysql_put_text(&s->sql, hook);
        buf_printf(&s->sql,
                   " AND status = 'pending' ORDER BY scheduled_date_gmt LIMIT %d) AS a WHERE ",
                   DUPLICATE_ROWS);
        buf_put_str(&s->sql, RUNS_ONCE " GROUP BY CAST(a.args AS BINARY), a.group_id) AS sets");
        return run_count(l, ret);
}

static void tell_duplicates(struct look *l)
{
        struct store_memory *m = &l->s->memory;

        if (m->worst_n)
                advise(l, ADVICE_DUPLICATES,
                       "Hook %s has %u pending actions with the same arguments and group as "
                       "another one (of the first %d). The plugin probably schedules it without "
                       "looking whether it is scheduled already.",
                       m->worst_hook, m->worst_n, DUPLICATE_ROWS);
        else
                forget_advice(l, ADVICE_DUPLICATES);
        m->worst_n = 0;
}

/* A few hooks of the survey at a time. */
static int look_at_duplicates(struct look *l)
{
        struct store_memory *m = &l->s->memory;
        struct store_walk *w = &m->duplicates;
        const struct site_survey *v = l->survey;
        uint32_t n, seen = 0;

        for (size_t i = 0; i < DUPLICATE_HOOKS && w->at_id < v->n_hooks; i++) {
                struct slice hook = v->hooks[w->at_id++].hook;
                int err = count_duplicates(l, hook, &n);
                if (err)
                        return err;
                seen += n;
                if (n > m->worst_n) {
                        m->worst_n = n;
                        copy_cell(m->worst_hook, sizeof(m->worst_hook), hook);
                }
        }
        bool is_last = w->at_id >= v->n_hooks;
        walk_on(w, seen, is_last);
        if (is_last)
                tell_duplicates(l);
        m->found[REPAIR_DUPLICATES] = walk_found(w);
        return OK;
}

/* ---- advice ---- */

#define LARGE_ROWS 1000000
#define LARGE_MB   512

static int look_at_sizes(struct look *l)
{
        static const char *const tables[] = {"actions", "logs"};
        static const unsigned lines[] = {ADVICE_ACTIONS_SIZE, ADVICE_LOGS_SIZE};

        for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
                CLEANUP(mysql_result_release) struct mysql_result r = {0};
                struct slice cells[2];
                int err;

                buf_printf(&l->s->sql,
                           "SELECT TABLE_ROWS, (DATA_LENGTH + INDEX_LENGTH) DIV 1048576 FROM "
                           "information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND "
                           "TABLE_NAME = '%sactionscheduler_%s'",
                           l->s->options->prefix, tables[i]);
                err = run(l, &r);
                if (err)
                        return err;
                forget_advice(l, lines[i]);
                if (!mysql_result_next(&r, cells, ARRAY_LEN(cells)))
                        continue;
                uint64_t rows = cell_u64(cells[0]), mb = cell_u64(cells[1]);
                if (rows >= LARGE_ROWS || mb >= LARGE_MB)
                        advise(l, lines[i],
                               "Table %sactionscheduler_%s is large: about %llu rows, %llu MB. A "
                               "shorter retention makes it smaller (repair_retention, retention).",
                               l->s->options->prefix, tables[i], (unsigned long long)rows,
                               (unsigned long long)mb);
        }
        return OK;
}

struct index {
        char name[65];
        char columns[200]; /* "status,scheduled_date_gmt" */
        bool is_of_logs, is_unique;
};

struct indexes {
        struct index at[48];
        size_t n;
};

static bool begins_with(const char *text, const char *head)
{
        size_t n = strlen(head);

        return strncmp(text, head, n) == 0 && (text[n] == ',' || text[n] == '\0');
}

static int read_indexes(struct look *l, struct indexes *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[4];
        const char *prefix = l->s->options->prefix;
        int err;

        buf_printf(&l->s->sql,
                   "SELECT INDEX_NAME, GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX), "
                   "TABLE_NAME = '%sactionscheduler_logs', MAX(NON_UNIQUE) = 0 "
                   "FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND "
                   "TABLE_NAME IN ('%sactionscheduler_actions', '%sactionscheduler_logs') "
                   "GROUP BY TABLE_NAME, INDEX_NAME ORDER BY TABLE_NAME, INDEX_NAME",
                   prefix, prefix, prefix);
        err = run(l, &r);
        ret->n = 0;
        while (!err && ret->n < ARRAY_LEN(ret->at) &&
               mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                struct index *x = &ret->at[ret->n++];
                copy_cell(x->name, sizeof(x->name), cells[0]);
                copy_cell(x->columns, sizeof(x->columns), cells[1]);
                x->is_of_logs = cell_u64(cells[2]);
                x->is_unique = cell_u64(cells[3]);
        }
        return err;
}

/* An index is left over when another one begins with its columns, or when it is the claim index of
 * an older version: WordPress adds indexes on an update and never drops one. */
static bool is_left_over(const struct indexes *all, const struct index *x, const char **ret_instead)
{
        for (size_t i = 0; i < all->n; i++) {
                const struct index *other = &all->at[i];
                if (other == x || other->is_of_logs != x->is_of_logs || x->is_unique)
                        continue;
                *ret_instead = other->name;
                /* Of two that are the same, the second. */
                if (strcmp(other->columns, x->columns) == 0
                            ? other < x
                            : begins_with(other->columns, x->columns))
                        return true;
                if (strcmp(x->columns, "claim_id,status,scheduled_date_gmt") == 0 &&
                    strcmp(other->columns, "claim_id,status,priority,scheduled_date_gmt") == 0)
                        return true;
        }
        return false;
}

static int look_at_indexes(struct look *l)
{
        struct store *s = l->s;
        struct indexes all;
        const char *instead;
        int err = read_indexes(l, &all);

        if (err)
                return err;
        forget_advice(l, ADVICE_OLD_INDEX);
        for (size_t i = 0; i < all.n; i++)
                if (is_left_over(&all, &all.at[i], &instead)) {
                        advise(l, ADVICE_OLD_INDEX,
                               "Index %s of table %sactionscheduler_%s is left over from an older "
                               "version: %s does its work, and each change of a row writes both. "
                               "It can be dropped.",
                               all.at[i].name, s->options->prefix,
                               all.at[i].is_of_logs ? "logs" : "actions", instead);
                        break;
                }
        return OK;
}

#define SAMPLED_LOGS 500
#define MANY_ORPHANS 50

/* Among the oldest lines, because an orphan stays and its neighbours go. */
static int look_at_orphans(struct look *l)
{
        uint32_t n;
        int err;

        buf_printf(&l->s->sql,
                   "SELECT COUNT(*) FROM (SELECT action_id FROM %s ORDER BY log_id LIMIT %d) AS l "
                   "LEFT JOIN %s a ON a.action_id = l.action_id WHERE a.action_id IS NULL",
                   l->s->logs, SAMPLED_LOGS, l->s->actions);
        err = run_count(l, &n);
        if (err)
                return err;
        if (n >= MANY_ORPHANS)
                advise(l, ADVICE_ORPHANS,
                       "%u of the %d oldest lines of table %sactionscheduler_logs belong to no "
                       "action. They can be deleted.",
                       n, SAMPLED_LOGS, l->s->options->prefix);
        else
                forget_advice(l, ADVICE_ORPHANS);
        return OK;
}

/* A lock that WordPress loads with every request is also cached with every request. */
static int look_at_autoload(struct look *l)
{
        static const char *const families[] = {"weir\\_lock\\_", "action\\_scheduler\\_lock\\_"};
        uint32_t n = 0, more;

        for (size_t i = 0; i < ARRAY_LEN(families); i++) {
                int err;
                buf_printf(&l->s->sql,
                           "SELECT COUNT(*) FROM (SELECT autoload FROM %s WHERE option_name LIKE "
                           "'%s%%' LIMIT %d) AS o WHERE autoload NOT IN ('no', 'off', 'auto-off')",
                           l->s->wp_options, families[i], SITE_COUNT_CAP);
                err = run_count(l, &more);
                if (err)
                        return err;
                n += more;
        }
        if (n)
                advise(l, ADVICE_AUTOLOAD,
                       "%u locks in table %soptions are loaded with every request (autoload is not "
                       "'no'), so PHP may see old values of them. Set their autoload to 'no'.",
                       n, l->s->options->prefix);
        else
                forget_advice(l, ADVICE_AUTOLOAD);
        return OK;
}

static int look_around(struct look *l)
{
        int err = look_at_sizes(l);

        if (!err)
                err = look_at_indexes(l);
        if (!err)
                err = look_at_orphans(l);
        if (!err)
                err = look_at_autoload(l);
        return err;
}

/* What the survey itself says. */
static void advise_on_survey(struct look *l)
{
        if (!l->s->facts.is_migrated)
                advise(l, ADVICE_MIGRATION,
                       "Action Scheduler has not moved all actions into its own tables yet. weir "
                       "does not see those that are still posts of the type scheduled-action.");
        else
                forget_advice(l, ADVICE_MIGRATION);
        if (l->survey->failed > SITE_COUNT_CAP)
                advise(l, ADVICE_FAILED,
                       "More than %d actions have failed. Action Scheduler before 4.0 keeps failed "
                       "actions for ever; retention_failed says how long weir keeps them.",
                       SITE_COUNT_CAP);
        else
                forget_advice(l, ADVICE_FAILED);
}

/* ---- all of them ---- */

struct chore {
        enum site_repair repair; /* SITE_REPAIRS: advice, which has no mode */
        int (*look)(struct look *l);
};

static const struct chore EACH_CYCLE[] = {
        {REPAIR_LOST, look_at_lost},
        {REPAIR_CLAIMS, look_at_claims},
        {REPAIR_PAST_DUE, look_at_past_due},
};
static const struct chore IN_TURN[] = {
        {REPAIR_CLAIM_ROWS, look_at_claim_rows},
        {REPAIR_RETENTION, look_at_retention},
        {REPAIR_DUPLICATES, look_at_duplicates},
        {SITE_REPAIRS, look_around},
};

/* An error that leaves the connection open ends this look only, and is told as advice. */
static int do_chore(struct look *l, const struct chore *c)
{
        static const char *const names[] = {
#define X(id, name, text) name,
                SITE_REPAIR_MAP(X)
#undef X
        };
        unsigned trouble = ADVICE_TROUBLE + c->repair;
        int err;

        if (c->repair < SITE_REPAIRS && l->plan->repairs[c->repair] == MODE_OFF) {
                l->s->memory.found[c->repair] = 0;
                forget_advice(l, trouble);
                return OK;
        }
        err = c->look(l);
        if (err && !mysql_conn_is_open(l->s->conn))
                return err;
        if (!err)
                forget_advice(l, trouble);
        else if (err != ERR_LOCKED)
                advise(l, trouble, "Repair %s failed: %s",
                       c->repair < SITE_REPAIRS ? names[c->repair] : "advice", l->problem->detail);
        return OK;
}

/* The advice of the survey, with a line for each of ours. */
static void tell_advice(struct look *l)
{
        struct site_survey *v = l->survey;
        struct buf text;

        buf_init(&text, 0);
        if (v->advice && *v->advice)
                buf_printf(&text, "%s\n", v->advice);
        for (size_t i = 0; i < ADVICES; i++)
                if (l->s->memory.advice[i][0])
                        buf_printf(&text, "%s\n", l->s->memory.advice[i]);
        if (text.len && !text.failed) {
                char *copy = arena_alloc(&v->arena, text.len);
                if (copy) {
                        memcpy(copy, text.ptr, text.len);
                        copy[text.len - 1] = '\0'; /* the last line needs no end */
                        v->advice = copy;
                }
        }
        buf_release(&text);
}

int store_repair(struct store *s, const struct site_plan *plan, struct site_survey *survey,
                 struct problem *problem)
{
        struct look l = {s, plan, survey, problem};
        int err = OK;

        if (plan->mode == MODE_OFF)
                return OK;
        for (size_t i = 0; !err && i < ARRAY_LEN(EACH_CYCLE); i++)
                err = do_chore(&l, &EACH_CYCLE[i]);
        if (!err)
                err = do_chore(&l, &IN_TURN[s->next_repair++ % ARRAY_LEN(IN_TURN)]);
        advise_on_survey(&l);
        for (size_t i = 0; i < SITE_REPAIRS; i++)
                survey->faults[i].found = s->memory.found[i];
        tell_advice(&l);
        return err;
}

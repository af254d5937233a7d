/* Sets failed actions pending again, by the rules of the setting `retry`: Action Scheduler itself
 * never runs an action again that failed.
 *
 * A rule names hooks by a pattern, how often their actions are retried, and how long the first of
 * these waits; each further one waits twice as long as the one before.  How often an action was
 * retried stands in its own log, one line for each, so nothing else must be kept and a new weir
 * goes on where the old one ended.  Line and status change in one transaction: an action cannot be
 * retried without being counted.
 *
 * What is retried: actions that were begun within the last day, so that a new rule does not wake
 * what failed long ago; those that run once, because the next of a series is there already; and
 * only under the conditions that made them failed, so that a person who deletes one or runs it by
 * hand wins.
 *
 * Failed actions are found as lost ones are (repair.c): the newest dates in each cycle, and older
 * ones page by page.
 *
 * Known weakness: an action that waited for more than WINDOW_S before it failed is not found. */
#include "guard/repair_look.h"

#include "gate/registry.h"

#define NEWEST_ROWS    200
#define RETRY_AT_ONCE  50 /* in one cycle */
#define FAILED_SINCE_S LOOK_DAY_S
#define WINDOW_S       (7 * LOOK_DAY_S) /* from its date to now */

/* The beginning of the lines that are counted: it must not change. */
#define MARK "weir: retry "

struct retry_row {
        uint64_t id;
        const struct store_retry *rule;
        uint32_t n_before; /* retries so far */
};

struct retry_page {
        struct retry_row rows[LOOK_WALK_ROWS];
        size_t n;
        uint32_t given_up;
        uint64_t given_up_id;
        bool is_last;
};

/* The first that matches, as they stand in the file; NULL: the hook is not named. */
static const struct store_retry *rule_of(const struct store_options *o, struct slice hook)
{
        for (size_t i = 0; i < o->n_retries; i++)
                if (registry_matches(o->retries[i].pattern, hook))
                        return &o->retries[i];
        return NULL;
}

int64_t store_retry_wait_s(const struct store_retry *rule, uint32_t n_before)
{
        int64_t wait_s = rule->wait_s;

        for (uint32_t i = 0; i < n_before && wait_s < STORE_RETRY_WAIT_MAX_S; i++)
                wait_s *= 2;
        return wait_s < STORE_RETRY_WAIT_MAX_S ? wait_s : STORE_RETRY_WAIT_MAX_S;
}

/* What makes an action `a` one to retry: it ended, and no runner has it any more.  A runner that
 * died leaves its claim on what it had failed. */
static void put_conditions(const struct repair_look *l, struct buf *sql)
{
        int64_t now_s = l->survey->now_s;

        buf_put_str(sql, "a.status = 'failed' AND a.last_attempt_gmt >= ");
        store_put_date(sql, now_s - FAILED_SINCE_S);
        buf_put_str(sql, " AND (a.claim_id = 0 OR a.last_attempt_gmt < ");
        store_put_date(sql, now_s - l->s->options->claim_timeout_s);
        buf_put_str(sql, ") AND " LOOK_RUNS_ONCE);
}

static int read_page(struct repair_look *l, struct store_walk *w, unsigned rows,
                     struct retry_page *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct buf *sql = &l->s->sql;
        struct slice cells[4];
        int err;

        buf_put_str(sql, "SELECT a.action_id, a.scheduled_date_gmt, a.hook, ");
        put_conditions(l, sql);
        look_put_failed(l->s, w, l->survey->now_s - WINDOW_S, rows);
        err = look_run(l, &r);
        ret->n = 0;
        ret->is_last = r.n_rows < rows;
        while (!err && ret->n < ARRAY_LEN(ret->rows) &&
               mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                w->at_id = look_u64(cells[0]);
                look_copy_cell(w->at_date, sizeof(w->at_date), cells[1]);
                const struct store_retry *rule =
                        look_u64(cells[3]) ? rule_of(l->s->options, cells[2]) : NULL;
                if (rule)
                        ret->rows[ret->n++] = (struct retry_row){.id = w->at_id, .rule = rule};
        }
        return err;
}

static void note_before(struct retry_page *p, uint64_t id, uint64_t n)
{
        for (size_t i = 0; i < p->n; i++)
                if (p->rows[i].id == id)
                        p->rows[i].n_before = (uint32_t)n;
}

/* Leaves out those whose retries are used up. */
static void keep_retried(struct retry_page *p)
{
        size_t n = 0;

        p->given_up = 0;
        for (size_t i = 0; i < p->n; i++) {
                if (p->rows[i].n_before < p->rows[i].rule->times) {
                        p->rows[n++] = p->rows[i];
                        continue;
                }
                p->given_up++;
                p->given_up_id = p->rows[i].id;
        }
        p->n = n;
}

/* How often each was retried before.  One without any line in the log was never. */
static int count_before(struct repair_look *l, struct retry_page *p)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct buf *sql = &l->s->sql;
        struct slice cells[2];
        int err = OK;

        if (p->n) {
                buf_printf(sql, "SELECT action_id, COUNT(*) FROM %s", l->s->logs);
                look_put_index(sql, LOOK_LOG_INDEX);
                for (size_t i = 0; i < p->n; i++)
                        buf_printf(sql, "%s%llu", i ? ", " : " WHERE action_id IN (",
                                   (unsigned long long)p->rows[i].id);
                buf_put_str(sql, ") AND message LIKE '" MARK "%' GROUP BY action_id");
                err = look_run(l, &r);
        }
        while (!err && mysql_result_next(&r, cells, ARRAY_LEN(cells)))
                note_before(p, look_u64(cells[0]), look_u64(cells[1]));
        keep_retried(p);
        return err;
}

/* ---- changing ---- */

static int run_only(struct repair_look *l, const char *sql)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};

        buf_put_str(&l->s->sql, sql);
        return look_run(l, &r);
}

/* The local column moves by the same seconds; it is assigned first, because it reads the other. */
static int set_pending(struct repair_look *l, const struct retry_row *row, int64_t to_s,
                       bool *ret_is_changed)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct buf *sql = &l->s->sql;
        int err;

        buf_printf(sql,
                   "UPDATE %s AS a FORCE INDEX (PRIMARY) SET a.status = 'pending', a.claim_id = 0, "
                   "a.scheduled_date_local = COALESCE(a.scheduled_date_local + INTERVAL "
                   "TIMESTAMPDIFF(SECOND, a.scheduled_date_gmt, ",
                   l->s->actions);
        store_put_date(sql, to_s);
        buf_put_str(sql, ") SECOND, a.scheduled_date_local), a.scheduled_date_gmt = ");
        store_put_date(sql, to_s);
        buf_printf(sql, " WHERE a.action_id = %llu AND ", (unsigned long long)row->id);
        put_conditions(l, sql);
        err = look_run(l, &r);
        *ret_is_changed = !err && r.affected;
        return err;
}

static int change_and_log(struct repair_look *l, const struct retry_row *row, bool *ret_is_changed)
{
        int64_t wait_s = store_retry_wait_s(row->rule, row->n_before);
        char line[128];
        int err = set_pending(l, row, l->survey->now_s + wait_s, ret_is_changed);

        if (err || !*ret_is_changed)
                return err;
        (void)snprintf(line, sizeof(line), MARK "%u of %u: pending again, due in %lld s",
                       row->n_before + 1, row->rule->times, (long long)wait_s);
        return store_log(l->s, &row->id, 1, line, l->problem);
}

static int retry_one(struct repair_look *l, const struct retry_row *row)
{
        bool is_changed = false;
        int err = run_only(l, "START TRANSACTION");

        if (!err)
                err = change_and_log(l, row, &is_changed);
        if (!err)
                err = run_only(l, "COMMIT");
        if (!err)
                l->survey->faults[REPAIR_RETRIES].mended += is_changed;
        else if (mysql_conn_is_open(l->s->conn)) {
                struct problem first = *l->problem;
                if (run_only(l, "ROLLBACK") != OK)
                        store_close(l->s); /* the server rolls back then */
                *l->problem = first;
        }
        return err;
}

static int retry_all(struct repair_look *l, const struct retry_page *p)
{
        const struct site_fault *fault = &l->survey->faults[REPAIR_RETRIES];
        int err = OK;

        for (size_t i = 0; !err && i < p->n && fault->mended < RETRY_AT_ONCE; i++)
                err = look_unless_locked(retry_one(l, &p->rows[i]));
        return err;
}

/* ---- the look ---- */

static int look_at_page(struct repair_look *l, struct store_walk *w, unsigned rows,
                        struct retry_page *ret)
{
        int err = read_page(l, w, rows, ret);

        if (!err)
                err = count_before(l, ret);
        return !err && look_may_mend(l, REPAIR_RETRIES) ? retry_all(l, ret) : err;
}

/* Those of the newest page and of the pass; some are counted twice, so the number is not told. */
static void tell_given_up(struct repair_look *l, const struct retry_page *p)
{
        struct store_memory *m = &l->s->memory;

        m->retry_given_up += p->given_up;
        if (p->given_up)
                look_advise(l, ADVICE_RETRIES,
                            "Actions with a retry rule have failed for good: all their retries "
                            "failed as well. The last one found is action %llu.",
                            (unsigned long long)p->given_up_id);
        if (!p->is_last)
                return;
        if (!m->retry_given_up)
                look_forget(l, ADVICE_RETRIES);
        m->retry_given_up = 0;
}

int look_at_retries(struct repair_look *l)
{
        struct store_memory *m = &l->s->memory;
        struct store_walk newest = {0};
        struct retry_page page;
        uint32_t found;
        int err;

        m->found[REPAIR_RETRIES] = 0;
        if (!l->s->options->n_retries)
                return OK;
        err = look_at_page(l, &newest, NEWEST_ROWS, &page);
        if (err)
                return err;
        found = (uint32_t)page.n;
        if (page.is_last) {
                m->retries = (struct store_walk){.found = found};
        } else {
                tell_given_up(l, &page);
                err = look_at_page(l, &m->retries, LOOK_WALK_ROWS, &page);
                if (err)
                        return err;
                look_walk_on(&m->retries, (uint32_t)page.n, page.is_last);
        }
        tell_given_up(l, &page);
        m->found[REPAIR_RETRIES] =
                look_walk_found(&m->retries) > found ? look_walk_found(&m->retries) : found;
        return OK;
}

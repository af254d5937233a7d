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
 *      RETRIES      status of a failed action       -> pending, with a later date (retry.c)
 *      CLAIMS       claim_id of a pending action    -> 0
 *      CLAIM_ROWS   row of the claims table         deleted
 *      RESTORED     nothing here: the ledger takes it, and it returns like others (stray.c)
 *      RETENTION    finished action and its log     deleted, between cycles (purge.c)
 *
 * A repair never waits for a row lock.  One that meets a lock ends its look; the fault is still
 * there in the next cycle. */
#include "guard/repair_look.h"

#define NEWEST_ROWS     200  /* failed actions of each cycle: new faults are among the newest */
#define LOST_AT_ONCE    50   /* actions set pending in one cycle */
#define RELEASE_AT_ONCE 1000 /* actions taken out of claims in one cycle */
#define CLAIM_STEP      100  /* claims rows of one DELETE */
#define LOST_TIMES      3    /* after that a lost action is left alone */
#define DUPLICATE_HOOKS 3    /* of one look */
#define DUPLICATE_ROWS  500  /* of one hook */

/* The beginning of the log line of an action that was set pending.  It tells how often that was
 * done before, so it must not change, and it must not name the status that a lost action's line
 * names. */
#define LOST_MARK "weir: set to pending again"
#define LOST_LINE LOST_MARK " (Action Scheduler lost it to a deadlock before it ran)"

/* What Action Scheduler logs then, in any language: the status that it could not set; or, when it
 * could not even set it to failed, the place in its store where PHP ended. */
#define LOST_SAYS                                                                                  \
        "(message LIKE '%%in-progress%%' OR message LIKE '%%/ActionScheduler\\_DBStore.php:%%')"

/* One of the critical tier that failed in this time is set pending in any case. */
#define LOST_CRITICAL_S 86400

/* Action Scheduler fails an action with other arguments each time that it tries to run it. */
#define HAS_ARGS(args) "JSON_VALID(" args ") AND LEFT(" args ", 1) IN ('[', '{')"

/* ---- LOST ---- */

/* Whether a failed action is mended in any case. */
static void put_is_critical(struct repair_look *l)
{
        const struct site_plan *plan = l->plan;
        struct buf *sql = &l->s->sql;

        if (!plan->is_lost_critical || !plan->n_critical) {
                buf_put_str(sql, "0");
                return;
        }
        buf_put_str(sql, "a.last_attempt_gmt > ");
        store_put_date(sql, l->survey->now_s - LOST_CRITICAL_S);
        buf_put_str(sql, " AND CAST(CONVERT(a.hook USING utf8mb4) AS BINARY) IN (");
        for (size_t i = 0; i < plan->n_critical; i++) {
                buf_put_str(sql, i ? "," : "");
                mysql_put_text(sql, plan->critical[i]);
        }
        buf_put_byte(sql, ')');
}

/* Failed actions, and whether they may have been lost. */
static void put_failed(struct repair_look *l, const struct store_walk *w, unsigned rows)
{
        struct store *s = l->s;
        struct buf *sql = &s->sql;

        buf_put_str(sql,
                    "SELECT a.action_id, a.scheduled_date_gmt, a.attempts = 0 AND a.claim_id = 0 "
                    "AND " LOOK_RUNS_ONCE " AND ");
        buf_put_str(sql, s->facts.has_extended_args ? HAS_ARGS("COALESCE(a.extended_args, a.args)")
                                                    : HAS_ARGS("a.args"));
        buf_put_str(sql, ", ");
        put_is_critical(l);
        look_put_failed(s, w, 0, rows);
}

/* One page of failed actions. */
struct failed_page {
        struct look_ids ids;      /* candidates, then those that were lost */
        struct look_ids critical; /* candidates that are mended in any case */
        uint32_t given_up;        /* lost, and set pending often enough already */
        uint64_t given_up_id;     /* one of them */
        bool is_last;
};

/* Reads the candidates of a page, and moves the walk to its end. */
static int read_failed(struct repair_look *l, struct store_walk *w, unsigned rows,
                       struct failed_page *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[4];
        int err;

        put_failed(l, w, rows);
        err = look_run(l, &r);
        ret->is_last = r.n_rows < rows;
        while (!err && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                w->at_id = look_u64(cells[0]);
                look_copy_cell(w->at_date, sizeof(w->at_date), cells[1]);
                if (!cells[1].ptr)
                        ret->is_last = true; /* actions without a date end the index */
                if (look_u64(cells[2]))
                        ret->ids.at[ret->ids.n++] = w->at_id;
                if (look_u64(cells[2]) && look_u64(cells[3]))
                        ret->critical.at[ret->critical.n++] = w->at_id;
        }
        return err;
}

/* Keeps the actions whose log says that they were lost since weir set them pending last. */
static int keep_lost(struct repair_look *l, struct failed_page *p)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[3];
        int err;

        if (p->ids.n == 0)
                return OK;
        buf_printf(&l->s->sql,
                   "SELECT action_id, SUM(message LIKE '" LOST_MARK "%%'), "
                   "MAX(IF(" LOST_SAYS ", log_id, 0)) > "
                   "MAX(IF(message LIKE '" LOST_MARK "%%', log_id, 0)) FROM %s",
                   l->s->logs);
        look_put_index(&l->s->sql, LOOK_LOG_INDEX);
        buf_put_str(&l->s->sql, " WHERE action_id");
        look_put_ids(&l->s->sql, p->ids.at, p->ids.n);
        buf_put_str(&l->s->sql, " GROUP BY action_id");
        err = look_run(l, &r);
        p->ids.n = 0;
        while (!err && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                if (!look_u64(cells[2]))
                        continue;
                if (look_u64(cells[1]) < LOST_TIMES) {
                        p->ids.at[p->ids.n++] = look_u64(cells[0]);
                } else {
                        p->given_up++;
                        p->given_up_id = look_u64(cells[0]);
                }
        }
        return err;
}

/* One by one: there are few, and each that was changed gets its line. */
static int mend_lost(struct repair_look *l, const struct look_ids *ids)
{
        struct site_fault *fault = &l->survey->faults[REPAIR_LOST];
        struct look_ids done = {.n = 0};
        int err = OK;

        for (size_t i = 0; i < ids->n && fault->mended < LOST_AT_ONCE; i++) {
                CLEANUP(mysql_result_release) struct mysql_result r = {0};
                buf_printf(&l->s->sql, "UPDATE %s AS a SET a.status = 'pending' WHERE ",
                           l->s->actions);
                buf_printf(&l->s->sql, "a.action_id = %llu", (unsigned long long)ids->at[i]);
                buf_put_str(&l->s->sql, " AND a.status = 'failed' AND a.attempts = 0 AND "
                                        "a.claim_id = 0 AND " LOOK_RUNS_ONCE);
                err = look_unless_locked(look_run(l, &r));
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

/* Keeps of `ids` what the others have, too. */
static void keep_both(struct look_ids *ids, const struct look_ids *others)
{
        size_t n = 0;
        for (size_t i = 0; i < ids->n; i++)
                for (size_t k = 0; k < others->n; k++)
                        if (ids->at[i] == others->at[k])
                                ids->at[n++] = ids->at[i];
        ids->n = n;
}

static int look_at_page(struct repair_look *l, struct store_walk *w, unsigned rows,
                        struct failed_page *ret)
{
        int err;

        ret->ids.n = ret->critical.n = 0;
        ret->given_up = 0;
        err = read_failed(l, w, rows, ret);
        if (!err)
                err = keep_lost(l, ret);
        if (err || look_may_mend(l, REPAIR_LOST))
                return err ? err : mend_lost(l, &ret->ids);
        keep_both(&ret->critical, &ret->ids);
        return mend_lost(l, &ret->critical);
}

/* Counts those of a pass; the advice stays until a whole pass met none. */
static void tell_given_up(struct repair_look *l, const struct failed_page *p)
{
        struct store_memory *m = &l->s->memory;

        m->given_up += p->given_up;
        if (p->given_up)
                look_advise(l, ADVICE_GIVEN_UP,
                            "%u actions were lost to deadlocks again after weir had set them "
                            "pending %d "
                            "times; weir leaves them alone. The last one found is action %llu.",
                            m->given_up, LOST_TIMES, (unsigned long long)p->given_up_id);
        if (!p->is_last)
                return;
        if (!m->given_up)
                look_forget(l, ADVICE_GIVEN_UP);
        m->given_up = 0;
}

static int look_at_lost(struct repair_look *l)
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
                err = look_at_page(l, &m->lost, LOOK_WALK_ROWS, &page);
                if (err)
                        return err;
                look_walk_on(&m->lost, (uint32_t)page.ids.n, page.is_last);
        }
        tell_given_up(l, &page);
        m->found[REPAIR_LOST] =
                look_walk_found(&m->lost) > found ? look_walk_found(&m->lost) : found;
        return OK;
}

/* ---- CLAIMS ---- */

/* Pending actions of the claim, at most `max`. */
static int read_claimed(struct repair_look *l, uint64_t claim, unsigned max, struct look_ids *ret)
{
        buf_printf(&l->s->sql, "SELECT action_id FROM %s", l->s->actions);
        look_put_index(&l->s->sql, l->s->facts.claim_index);
        buf_printf(&l->s->sql, " WHERE claim_id = %llu AND status = 'pending' LIMIT %u",
                   (unsigned long long)claim, max);
        return look_read_ids(l, ret);
}

/* After an UPDATE that changed fewer rows than it was given: those that have no claim now. */
static int keep_released(struct repair_look *l, struct look_ids *ids)
{
        buf_printf(&l->s->sql, "SELECT action_id FROM %s WHERE action_id", l->s->actions);
        look_put_ids(&l->s->sql, ids->at, ids->n);
        buf_put_str(&l->s->sql, " AND claim_id = 0 AND status = 'pending'");
        return look_read_ids(l, ids);
}

static int release_step(struct repair_look *l, uint64_t claim, int64_t before_s,
                        struct look_ids *ids)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct buf *sql = &l->s->sql;
        char line[96];
        int err;

        buf_printf(sql, "UPDATE %s SET claim_id = 0 WHERE action_id", l->s->actions);
        look_put_ids(sql, ids->at, ids->n);
        buf_printf(sql, " AND status = 'pending' AND claim_id = %llu AND last_attempt_gmt < ",
                   (unsigned long long)claim);
        store_put_date(sql, before_s);
        err = look_run(l, &r);
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
static int release_claim(struct repair_look *l, uint64_t claim, int64_t before_s)
{
        const struct site_fault *fault = &l->survey->faults[REPAIR_CLAIMS];
        unsigned step = l->s->rows_at_once ? l->s->rows_at_once : 1;
        int err = OK;

        while (!err && fault->mended < RELEASE_AT_ONCE) {
                struct look_ids ids;
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
static int look_at_claims(struct repair_look *l)
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
        look_put_index(&s->sql, s->facts.claim_index);
        buf_printf(&s->sql,
                   " WHERE claim_id > %llu ORDER BY claim_id LIMIT %d) AS page GROUP BY claim_id "
                   "ORDER BY claim_id",
                   (unsigned long long)w->at_id, LOOK_IDS_MAX);
        err = look_run(l, &r);
        for (uint64_t i = 0; !err && mysql_result_next(&r, cells, ARRAY_LEN(cells)); i++) {
                rows += look_u64(cells[1]);
                /* The page may have only a part of its last claim; the next begins with it. */
                if (rows == LOOK_IDS_MAX && i > 0)
                        break;
                w->at_id = look_u64(cells[0]);
                if (!look_u64(cells[2]) || !look_u64(cells[3]))
                        continue;
                found += (uint32_t)look_u64(cells[2]);
                if (look_may_mend(l, REPAIR_CLAIMS))
                        err = look_unless_locked(release_claim(l, w->at_id, before_s));
        }
        if (err) {
                *w = (struct store_walk){.found = w->found > found ? w->found : found};
                return err;
        }
        look_walk_on(w, found, rows < LOOK_IDS_MAX);
        s->memory.found[REPAIR_CLAIMS] = look_walk_found(w);
        return OK;
}

/* ---- CLAIM_ROWS ---- */

static int delete_claim_rows(struct repair_look *l, const struct look_ids *ids, int64_t before_s)
{
        int err = OK;

        for (size_t i = 0; !err && i < ids->n; i += CLAIM_STEP) {
                CLEANUP(mysql_result_release) struct mysql_result r = {0};
                size_t n = ids->n - i < CLAIM_STEP ? ids->n - i : CLAIM_STEP;

                buf_printf(&l->s->sql, "DELETE FROM %s WHERE claim_id", l->s->claims);
                look_put_ids(&l->s->sql, ids->at + i, n);
                buf_put_str(&l->s->sql, " AND date_created_gmt < ");
                store_put_date(&l->s->sql, before_s);
                err = look_unless_locked(look_run(l, &r));
                if (!err)
                        l->survey->faults[REPAIR_CLAIM_ROWS].mended += (uint32_t)r.affected;
        }
        return err;
}

static int look_at_claim_rows(struct repair_look *l)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct store *s = l->s;
        struct store_walk *w = &s->memory.claim_rows;
        int64_t before_s = l->survey->now_s - s->options->claim_timeout_s;
        struct slice cells[2];
        struct look_ids ids = {.n = 0};
        int err;

        buf_put_str(&s->sql, "SELECT c.claim_id, c.date_created_gmt < ");
        store_put_date(&s->sql, before_s);
        buf_printf(&s->sql, " AND NOT EXISTS (SELECT 1 FROM %s AS a", s->actions);
        look_put_index(&s->sql, s->facts.claim_index);
        buf_printf(&s->sql,
                   " WHERE a.claim_id = c.claim_id) FROM (SELECT claim_id, date_created_gmt FROM "
                   "%s WHERE claim_id > %llu ORDER BY claim_id LIMIT %d) AS c ORDER BY c.claim_id",
                   s->claims, (unsigned long long)w->at_id, LOOK_WALK_ROWS);
        err = look_run(l, &r);
        while (!err && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                w->at_id = look_u64(cells[0]);
                if (look_u64(cells[1]))
                        ids.at[ids.n++] = w->at_id;
        }
        if (!err && look_may_mend(l, REPAIR_CLAIM_ROWS))
                err = delete_claim_rows(l, &ids, before_s);
        if (err)
                return err;
        look_walk_on(w, (uint32_t)ids.n, r.n_rows < LOOK_WALK_ROWS);
        s->memory.found[REPAIR_CLAIM_ROWS] = look_walk_found(w);
        return OK;
}

/* ---- reports ---- */

static int look_at_past_due(struct repair_look *l)
{
        struct store *s = l->s;

        buf_printf(&s->sql, "SELECT COUNT(*) FROM (SELECT 1 FROM %s", s->actions);
        look_put_index(&s->sql, s->facts.status_index);
        buf_put_str(&s->sql, " WHERE status = 'pending' AND scheduled_date_gmt < ");
        store_put_date(&s->sql, l->survey->now_s - LOOK_DAY_S);
        buf_printf(&s->sql, " LIMIT %d) AS late", SITE_COUNT_CAP + 1);
        return look_count(l, &s->memory.found[REPAIR_PAST_DUE]);
}

/* Pending actions of the hook beyond the first with the same arguments and group. */
static int count_duplicates(struct repair_look *l, struct slice hook, uint32_t *ret)
{
        struct store *s = l->s;

        buf_put_str(&s->sql,
                    "SELECT SUM(n - 1) FROM (SELECT COUNT(*) AS n FROM (SELECT group_id, "
                    "CONVERT(args USING utf8mb4) COLLATE utf8mb4_bin AS args, " STORE_RUNS_ONCE(
                            "") " AS is_once FROM ");
        buf_put_str(&s->sql, s->actions);
        look_put_index(&s->sql, s->facts.hook_index);
        buf_put_str(&s->sql, " WHERE hook = ");
        mysql_put_text(&s->sql, hook);
        buf_printf(&s->sql,
                   " AND status = 'pending' ORDER BY scheduled_date_gmt LIMIT %d) AS a WHERE "
                   "is_once GROUP BY args, LENGTH(args), group_id) AS sets",
                   DUPLICATE_ROWS);
        return look_count(l, ret);
}

static void tell_duplicates(struct repair_look *l)
{
        struct store_memory *m = &l->s->memory;

        if (m->worst_n)
                look_advise(
                        l, ADVICE_DUPLICATES,
                        "Hook %s has %u pending actions with the same arguments and group as "
                        "another one (of the first %d). The plugin probably schedules it without "
                        "looking whether it is scheduled already.",
                        m->worst_hook, m->worst_n, DUPLICATE_ROWS);
        else
                look_forget(l, ADVICE_DUPLICATES);
        m->worst_n = 0;
}

/* A few hooks of the survey at a time. */
static int look_at_duplicates(struct repair_look *l)
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
                        look_copy_cell(m->worst_hook, sizeof(m->worst_hook), hook);
                }
        }
        bool is_last = w->at_id >= v->n_hooks;
        look_walk_on(w, seen, is_last);
        if (is_last)
                tell_duplicates(l);
        m->found[REPAIR_DUPLICATES] = look_walk_found(w);
        return OK;
}

/* ---- all of them ---- */

struct chore {
        enum site_repair repair; /* SITE_REPAIRS: advice, which has no mode */
        int (*look)(struct repair_look *l);
};

static const struct chore EACH_CYCLE[] = {
        {REPAIR_LOST, look_at_lost},
        {REPAIR_RETRIES, look_at_retries},
        {REPAIR_CLAIMS, look_at_claims},
        {REPAIR_PAST_DUE, look_at_past_due},
};
static const struct chore IN_TURN[] = {
        {REPAIR_CLAIM_ROWS, look_at_claim_rows},
        {REPAIR_RETENTION, look_at_retention},
        {REPAIR_RESTORED, look_at_restored},
        {REPAIR_DUPLICATES, look_at_duplicates},
        {SITE_REPAIRS, look_around},
};

/* An error that leaves the connection open ends this look only, and is told as advice. */
static int do_chore(struct repair_look *l, const struct chore *c)
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
                look_forget(l, trouble);
                return OK;
        }
        err = c->look(l);
        if (err && !mysql_conn_is_open(l->s->conn))
                return err;
        if (!err)
                look_forget(l, trouble);
        else if (err != ERR_LOCKED)
                look_advise(l, trouble, "Repair %s failed: %s",
                            c->repair < SITE_REPAIRS ? names[c->repair] : "advice",
                            l->problem->detail);
        return OK;
}

/* The advice of the survey, with a line for each of ours. */
static void tell_advice(struct repair_look *l)
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
        struct repair_look l = {s, plan, survey, problem};
        int err = OK;

        if (plan->mode == MODE_OFF)
                return OK;
        for (size_t i = 0; !err && i < ARRAY_LEN(EACH_CYCLE); i++)
                err = do_chore(&l, &EACH_CYCLE[i]);
        if (!err)
                err = do_chore(&l, &IN_TURN[s->next_repair++ % ARRAY_LEN(IN_TURN)]);
        look_advise_on_survey(&l);
        survey->faults[REPAIR_RETENTION].mended = store_purge_tell(s);
        for (size_t i = 0; i < SITE_REPAIRS; i++)
                survey->faults[i].found = s->memory.found[i];
        tell_advice(&l);
        return err;
}

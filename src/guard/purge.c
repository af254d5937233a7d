/* Deletes finished actions past their time, with their log lines, and log lines without an action.
 *
 * A pass goes through the statuses by the index of status and date, each page behind the last one:
 * a pass that began anew with each page would read what was just deleted again and again, because
 * the server clears its indexes later.  Rows are deleted by primary key, log lines first: lines
 * without an action stay for ever.  Then, once a day, a pass over the index of the log lines finds
 * those whose action is gone.
 *
 * The thread of the site does a slice while it rests (guard.c), and purge_pace.h says when: so a
 * slice is all that the work of each second, a request or a change of the level ever waits for.  A
 * slice is a few statements in autocommit, and row locks last as long as one of them.  weir waits
 * for none: what others hold is left for the next slice, and at last for the next pass.
 *
 * Costs: 4 statements a slice; for each action its row, 3 index entries and its log lines are read.
 * Known weakness: an action whose date is far in the future and that somebody ran by hand is kept
 * until its date is past its time as well. */
#include "guard/retention.h"

#include "base/clock.h"

#define PASS_NS    (30 * NS_PER_S)         /* from the end of a pass to the next */
#define ORPHANS_NS (LOOK_DAY_S * NS_PER_S) /* between passes over the log lines */
#define TROUBLE_NS (60 * NS_PER_S)         /* after a refusal that is not a lock's */
#define TELL_NS    (60 * NS_PER_S)         /* between events about it */
#define LINES_STEP 800                     /* log lines of one DELETE; see PACE_ROWS_MAX */
#define LINE_PAGES 4                       /* so many log lines are looked at for an action */

/* Where a pass is. */
enum { AT_ORPHANS = RETENTION_KINDS, AT_END };

struct slice_work {
        struct repair_look look;
        struct store_purge *purge;
        int64_t now_s, began_ns;
        struct purge_slice slice;
        struct look_ids ids;
        bool is_done; /* the page; else the next slice goes on with it */
};

static bool may_purge(const struct store *s, const struct site_plan *plan)
{
        const struct store_options *o = s->options;

        return plan->mode == MODE_ENFORCE && plan->repairs[REPAIR_RETENTION] == MODE_ENFORCE &&
               plan->is_calm && (o->retention_s > 0 || o->retention_failed_s > 0) && s->is_known &&
               mysql_conn_is_open(s->conn);
}

int64_t store_purge_due_ns(const struct store *s, const struct site_plan *plan)
{
        return may_purge(s, plan) ? s->memory.purge.pace.due_ns : INT64_MAX;
}

static bool is_over(const struct slice_work *w)
{
        return clock_boot_ns() - w->began_ns > PACE_SLICE_NS;
}

/* ---- deleting ---- */

static void put_delete(struct slice_work *w, const char *table, const char *key, size_t at,
                       size_t n)
{
        struct buf *sql = &w->look.s->sql;

        buf_printf(sql, "DELETE a FROM %s AS a FORCE INDEX (PRIMARY) WHERE a.%s", table, key);
        look_put_ids(sql, w->ids.at + at, n);
}

static int run_delete(struct slice_work *w, uint64_t *ret_n)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        int err = look_run(&w->look, &r);

        if (!err) {
                w->slice.changed += r.affected;
                *ret_n += r.affected;
        }
        return err;
}

/* Those of w->ids. */
static int delete_lines(struct slice_work *w, const char *more)
{
        struct buf *sql = &w->look.s->sql;
        int err = OK;

        for (size_t at = 0; !err && at < w->ids.n; at += LINES_STEP) {
                size_t left = w->ids.n - at;
                put_delete(w, w->look.s->logs, "log_id", at, left < LINES_STEP ? left : LINES_STEP);
                buf_put_str(sql, more);
                err = run_delete(w, &w->purge->lines);
        }
        return err;
}

/* All of the actions, as far as the time of the slice allows; w->is_done says whether. */
static int delete_lines_of(struct slice_work *w, const struct look_ids *actions)
{
        struct store *s = w->look.s;
        int err;

        do {
                buf_printf(&s->sql, "SELECT log_id FROM %s", s->logs);
                look_put_index(&s->sql, LOOK_LOG_INDEX);
                buf_put_str(&s->sql, " WHERE action_id");
                look_put_ids(&s->sql, actions->at, actions->n);
                buf_printf(&s->sql, " LIMIT %d", LOOK_IDS_MAX);
                err = look_read_ids(&w->look, &w->ids);
                if (!err)
                        err = delete_lines(w, "");
                w->is_done = !err && w->ids.n < LOOK_IDS_MAX;
        } while (!err && !w->is_done && !is_over(w));
        return err;
}

static int delete_actions(struct slice_work *w, const struct retention *t,
                          const struct look_ids *actions)
{
        struct buf *sql = &w->look.s->sql;
        uint64_t before = w->purge->actions;

        w->ids = *actions;
        put_delete(w, w->look.s->actions, "action_id", 0, actions->n);
        buf_printf(sql, " AND a.status = '%s' AND " RETENTION_ENDED " < ", t->status);
        store_put_date(sql, t->before_s);
        int err = run_delete(w, &w->purge->actions);
        w->slice.done = w->purge->actions - before;
        return err;
}

/* ---- pages ---- */

/* The next page of a status: those past their time.  *walk moves behind it. */
static int read_page(struct slice_work *w, const struct retention *t, struct store_walk *walk,
                     struct look_ids *ret, bool *ret_is_last)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct store *s = w->look.s;
        struct slice cells[3];
        int err;

        buf_printf(
                &s->sql,
                "SELECT a.action_id, page.scheduled_date_gmt, a.status = '%s' AND " RETENTION_ENDED
                " < ",
                t->status);
        store_put_date(&s->sql, t->before_s);
        retention_put_page(s, t, walk, w->slice.asked);
        buf_put_str(&s->sql, " ORDER BY page.scheduled_date_gmt, page.action_id");
        err = look_run(&w->look, &r);
        ret->n = 0;
        *ret_is_last = r.n_rows < w->slice.asked;
        while (!err && ret->n < LOOK_IDS_MAX && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                walk->at_id = look_u64(cells[0]);
                look_copy_cell(walk->at_date, sizeof(walk->at_date), cells[1]);
                if (look_u64(cells[2]))
                        ret->at[ret->n++] = walk->at_id;
        }
        return err;
}

static void next_kind(struct store_purge *p)
{
        p->kind++;
        p->walk = (struct store_walk){0};
}

static int purge_page(struct slice_work *w, const struct retention *t)
{
        struct store_walk walk = w->purge->walk;
        struct look_ids actions;
        bool is_last;
        int err = read_page(w, t, &walk, &actions, &is_last);

        w->is_done = true;
        if (!err && actions.n)
                err = delete_lines_of(w, &actions);
        if (!err && actions.n && w->is_done)
                err = delete_actions(w, t, &actions);
        /* One row that is held by another session does not hold up the others. */
        bool is_skipped = err == ERR_LOCKED && w->slice.asked == 1;
        if ((!err && w->is_done) || is_skipped)
                w->purge->walk = walk;
        if (!err && w->is_done && is_last)
                next_kind(w->purge);
        return err;
}

/* A page of log lines by action, and deletes those of no action.  Lines of the last day stay: an
 * action may be on its way. */
static int purge_orphans(struct slice_work *w)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct store *s = w->look.s;
        struct store_purge *p = w->purge;
        struct store_walk walk = p->walk;
        struct slice cells[3];
        unsigned rows = w->slice.asked * LINE_PAGES;
        int err;

        buf_printf(&s->sql,
                   "SELECT page.log_id, page.action_id, a.action_id IS NULL FROM (SELECT log_id, "
                   "action_id FROM %s",
                   s->logs);
        look_put_index(&s->sql, LOOK_LOG_INDEX);
        buf_printf(&s->sql,
                   " WHERE action_id > %llu OR (action_id = %llu AND log_id > %llu) ORDER BY "
                   "action_id, log_id LIMIT %u) AS page LEFT JOIN %s a ON a.action_id = "
                   "page.action_id ORDER BY page.action_id, page.log_id",
                   (unsigned long long)walk.of_id, (unsigned long long)walk.of_id,
                   (unsigned long long)walk.at_id, rows, s->actions);
        err = look_run(&w->look, &r);
        w->ids.n = 0;
        while (!err && w->ids.n < LOOK_IDS_MAX && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                walk.at_id = look_u64(cells[0]);
                walk.of_id = look_u64(cells[1]);
                if (look_u64(cells[2]))
                        w->ids.at[w->ids.n++] = walk.at_id;
        }
        struct buf more CLEANUP(buf_release) = {0};
        buf_put_str(&more, " AND a.log_date_gmt < ");
        store_put_date(&more, w->now_s - LOOK_DAY_S);
        if (!err)
                err = delete_lines(w, buf_cstr(&more));
        if (!err || (err == ERR_LOCKED && w->slice.asked == 1))
                p->walk = walk;
        if (!err && r.n_rows < rows) {
                p->orphans_ns = w->began_ns;
                next_kind(p);
        }
        return err;
}

/* ---- a slice ---- */

/* Lines of actions that are still posts have no action here. */
static bool are_orphans_due(const struct slice_work *w)
{
        const struct store_purge *p = w->purge;

        return w->look.s->facts.is_migrated &&
               (!p->orphans_ns || w->began_ns - p->orphans_ns > ORPHANS_NS);
}

static int run_slice(struct slice_work *w)
{
        struct store_purge *p = w->purge;

        for (; p->kind < RETENTION_KINDS; next_kind(p)) {
                struct retention t = retention_of(w->look.s->options, p->kind, w->now_s);
                if (t.before_s)
                        return purge_page(w, &t);
        }
        if (p->kind == AT_ORPHANS && are_orphans_due(w))
                return purge_orphans(w);
        p->kind = AT_END;
        return OK;
}

/* Begins the next pass when this one has ended. */
static void end_slice(struct slice_work *w, int err)
{
        struct store_purge *p = w->purge;
        struct purge_slice *slice = &w->slice;

        slice->began_ns = w->began_ns;
        slice->ended_ns = clock_boot_ns();
        slice->is_refused = err != OK;
        purge_pace_took(&p->pace, slice);
        if (p->kind >= AT_END) {
                p->kind = 0;
                p->walk = (struct store_walk){0};
                purge_pace_sleep(&p->pace, slice->ended_ns, slice->ended_ns + PASS_NS);
        }
        if (err && err != ERR_LOCKED) {
                look_advise(&w->look, ADVICE_PURGE, "Repair retention stopped for a minute: %s",
                            w->look.problem->detail);
                purge_pace_sleep(&p->pace, slice->ended_ns, slice->ended_ns + TROUBLE_NS);
        } else if (!err) {
                look_forget(&w->look, ADVICE_PURGE);
        }
}

int store_purge(struct store *s, const struct site_plan *plan, int64_t now_s,
                struct problem *problem)
{
        struct slice_work w = {.look = {s, plan, NULL, problem},
                               .purge = &s->memory.purge,
                               .now_s = now_s,
                               .began_ns = clock_boot_ns()};
        int err;

        if (!may_purge(s, plan))
                return OK;
        w.slice.asked = purge_pace_rows(&w.purge->pace);
        err = run_slice(&w);
        if (err && !mysql_conn_is_open(s->conn))
                return err;
        end_slice(&w, err);
        return OK;
}

uint32_t store_purge_tell(struct store *s)
{
        struct store_purge *p = &s->memory.purge;
        int64_t now_ns = clock_boot_ns();
        uint64_t n = p->actions - p->told;

        if (!n || (p->told_ns && now_ns - p->told_ns < TELL_NS))
                return 0;
        p->told = p->actions;
        p->told_ns = now_ns;
        return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* What the thread of a site does each second, between the steps of a cycle and while it rests:
 * actions of the critical tier go in front (front.c), and moved actions return as fast as runners
 * work (sites/stock.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "guard/guard_site.h"

#define FRONT_NS NS_PER_S
#define PACE_NS  (250 * NS_PER_MS)
#define SOON_S   60 /* what falls due so soon is put in front already */
/* The next action of a series comes a moment after the end of the last one, in a storm seconds.  A
 * series that had no action for so long is over. */
#define SERIES_OVER_NS (60 * NS_PER_S)

int64_t guard_now_s(const struct guard_site *s)
{
        return s->now_s + (clock_boot_ns() - s->now_ns) / NS_PER_S;
}

/* ---- to the front ---- */

static int put_hook_front(struct guard_site *s, struct slice hook, struct front_row *rows, size_t n,
                          struct problem *problem)
{
        uint64_t n_changed;
        s->talk.hook = hook;
        s->talk.fronts = rows;
        s->talk.n_rows = n;
        int r = guard_talk(s, TALK_FRONT);
        if (r != OK)
                return r == ERR_STOPPING ? r : OK; /* the ledger has no room: later */
        if (!s->talk.n_rows)
                return OK;
        return store_put_front(&s->store, rows, s->talk.n_rows, &n_changed, problem);
}

/* Those of `found` that are not in front yet, hook by hook. */
static int put_found_front(struct guard_site *s, size_t n, struct problem *problem)
{
        struct front_row rows[FRONT_ROWS_MAX];
        for (size_t at = 0, end; at < n; at = end) {
                size_t n_rows = 0;
                for (end = at; end < n && s->found[end].hook == s->found[at].hook; end++)
                        if (s->found[end].row.priority && n_rows < FRONT_ROWS_MAX)
                                rows[n_rows++] = s->found[end].row;
                int r = n_rows ? put_hook_front(s, s->plan.critical[s->found[at].hook], rows,
                                                n_rows, problem)
                               : OK;
                if (r != OK && r != ERR_LOCKED) /* locked: in a second */
                        return r;
        }
        return OK;
}

static bool is_found_due(const struct guard_site *s, size_t n)
{
        int64_t now_s = guard_now_s(s);
        for (size_t i = 0; i < n; i++)
                if (s->found[i].date_s <= now_s)
                        return true;
        return false;
}

/* *ret_due: one of them is due and no runner has it. */
static int put_front(struct guard_site *s, bool *ret_due, struct problem *problem)
{
        const struct site_plan *plan = &s->plan;
        uint64_t n_changed;
        size_t n = 0;
        *ret_due = false;
        int r = store_find_front(&s->store, plan->critical, plan->n_critical,
                                 guard_now_s(s) + SOON_S, s->found, GUARD_FRONT_FIND, &n, problem);
        if (r != OK)
                return r;
        if (!n || !plan->is_front || (s->front_problem[0] && !s->tries_front))
                return OK;
        *ret_due = is_found_due(s, n);
        s->tries_front = false;
        if (s->store.facts.has_priority)
                r = put_found_front(s, n, problem);
        else
                r = store_date_front(&s->store, plan->critical, plan->n_critical, s->found, n,
                                     guard_now_s(s), &n_changed, problem);
        if (r == OK || r == ERR_LOCKED)
                s->front_problem[0] = '\0';
        return r;
}

/* A missing privilege is told as advice: the rest of the guard works without it. */
static int end_front(struct guard_site *s, int r, const struct problem *problem)
{
        if (r == ERR_FORBIDDEN)
                (void)snprintf(s->front_problem, sizeof(s->front_problem),
                               "Actions of the critical tier are not put in front: %s",
                               problem->detail);
        if (r == OK || r == ERR_LOCKED || r == ERR_FORBIDDEN)
                return OK;
        if (r != ERR_STOPPING)
                guard_tell_failed(s, problem);
        return r;
}

/* ---- and back ---- */

static struct missed *find_missed(struct guard_site *s, uint64_t id)
{
        for (size_t i = 0; i < s->n_missed; i++)
                if (s->missed[i].id == id)
                        return &s->missed[i];
        return NULL;
}

/* Is the series over whose row of the ledger this is?  Not before it was missed for a while. */
static bool is_series_over(struct guard_site *s, uint64_t id, bool is_seen)
{
        struct missed *m = find_missed(s, id);
        int64_t now_ns = clock_boot_ns();
        bool is_over = !is_seen && m && now_ns - m->since_ns >= SERIES_OVER_NS;
        if (m && (is_seen || is_over))
                *m = s->missed[--s->n_missed];
        else if (!m && !is_seen && s->n_missed < GUARD_MISSED_MAX)
                s->missed[s->n_missed++] = (struct missed){id, now_ns};
        return is_over;
}

/* Adds the rows of series that have no action now but may have the next one soon. */
static void keep_series(struct guard_site *s, const struct site_front *front,
                        struct front_row *seen, size_t *n)
{
        size_t n_seen = *n;
        qsort(seen, n_seen, sizeof(*seen), front_by_series);
        for (size_t i = 0; i < front->n_rows; i++) {
                const struct front_row *row = &front->rows[i];
                if (!row->series)
                        continue;
                bool is_seen = bsearch(row, seen, n_seen, sizeof(*seen), front_by_series) != NULL;
                if (!is_series_over(s, row->id, is_seen) && !is_seen)
                        seen[(*n)++] = *row;
        }
}

static int check_front(struct guard_site *s, const struct site_front *front, struct front_row *seen,
                       struct problem *problem)
{
        uint64_t n_changed;
        size_t n;
        bool is_all;
        int r = store_see_front(&s->store, front->hook, front->rows, front->n_rows, seen,
                                GUARD_FRONT_FIND, &n, &is_all, problem);
        if (r != OK)
                return r;
        keep_series(s, front, seen, &n);
        s->talk.asked = front;
        s->talk.fronts = seen;
        s->talk.n_rows = n;
        s->talk.is_all = is_all;
        r = guard_talk(s, TALK_FRONTED);
        if (r != OK || !s->talk.n_rows)
                return r;
        return store_put_back(&s->store, seen, s->talk.n_rows, &n_changed, problem);
}

int guard_look_after(struct guard_site *s, const struct site_front *front)
{
        struct problem problem;
        struct front_row *seen = xcalloc(GUARD_FRONT_FIND + FRONT_ROWS_MAX, sizeof(*seen));
        int r = end_front(s, check_front(s, front, seen, &problem), &problem);
        free(seen);
        return r;
}

/* ---- moved actions return ---- */

static int top_up(struct guard_site *s)
{
        struct problem problem;
        struct site_plan returns = {0};
        size_t budget = GUARD_ROWS_PER_CYCLE;
        int r = store_read_pace(&s->store, s->plan.critical, s->plan.n_critical, &s->talk.pace,
                                &problem);
        if (r != OK) {
                guard_tell_failed(s, &problem);
                return r;
        }
        s->talk.plan = &returns;
        r = guard_talk(s, TALK_TOP_UP);
        for (size_t i = 0; r == OK && i < returns.n_steps && !guard_is_interrupted(s); i++)
                r = guard_do_step(s, &returns, &returns.steps[i], &budget);
        s->plan.is_returning = r == OK && returns.is_returning;
        site_plan_release(&returns);
        return r;
}

/* When the next is due: not before it has rested for as long as it took. */
static int64_t second_after(int64_t began_ns, int64_t every_ns)
{
        int64_t took_ns = clock_boot_ns() - began_ns;
        return began_ns + (2 * took_ns > every_ns ? 2 * took_ns : every_ns);
}

int guard_tick(struct guard_site *s)
{
        struct problem problem;
        int64_t began_ns = clock_boot_ns();
        int r = OK;
        if (!mysql_conn_is_open(s->store.conn))
                return OK;
        if (began_ns >= s->tick_ns && s->plan.mode == MODE_ENFORCE && s->plan.n_critical) {
                bool is_due;
                r = end_front(s, put_front(s, &is_due, &problem), &problem);
                if (r == OK && is_due)
                        r = guard_cut_batches(s);
                s->tick_ns = second_after(began_ns, FRONT_NS);
        }
        began_ns = clock_boot_ns();
        if (r == OK && s->plan.is_returning && began_ns >= s->pace_ns) {
                r = top_up(s);
                s->pace_ns = second_after(began_ns, PACE_NS);
        }
        return r;
}

/* What a site is to do next: from a survey, the gate and the ledger.
 *
 *      tier waits now    due actions of the hook move to a later date;
 *                        batches that were moved and are about to fall due move on
 *      tier runs now     batches come back in stocks (stock.h), the most important and then the
 *                        oldest first; those of the critical tier at once
 *      hook was moved    its batches stay where they are, and run when they fall due
 *      often enough
 *
 * A hook's tier is asked of the registry each time, so a change of the registry holds from the next
 * cycle.  A plan has a bounded number of steps; what is left follows in the next cycle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/say.h"
#include "sites/sites_state.h"

#define STEPS_MAX 100
/* Dates of moved actions are spread over this share of the delay, so that they do not fall due
 * together. */
#define SPREAD      10
#define GRAIN_MAX_S 60 /* runners move to multiples of this */
/* Of the log, for one batch: at most 500 rows of two varints, when it is proposed and when it ends.
 */
#define BATCH_BYTES 32768
/* A cycle that takes longer than this tells of a trouble that looking ahead does not help. */
#define HORIZON_SLOW_MAX_MS 60000

/* ---- the ledger ---- */

const struct moved_hook *site_next_hook(const struct core *core, const struct site *s,
                                        const struct moved_hook *h)
{
        const struct hash *all = &core->state.moved_hooks;
        const struct hash_node *n = h ? &h->node : NULL;
        while ((n = hash_next(all, n))) {
                const struct moved_hook *next = CONTAINER_OF(n, const struct moved_hook, node);
                if (slice_eq(next->site, slice_str(s->name)))
                        return next;
        }
        return NULL;
}

static const struct moved *find_batch(const struct core *core, const struct site *s,
                                      uint64_t number)
{
        char name[MOVED_NAME_MAX];
        moved_put_name(name, slice_str(s->name), number);
        const struct thing *t = thing_find(&core->state, THING_MOVED, slice_str(name));
        return t ? CONTAINER_OF(t, const struct moved, thing) : NULL;
}

static uint64_t next_number(struct core *core)
{
        struct sites *all = core->sites;
        const struct hash *ledger = &core->state.things[THING_MOVED];
        if (!all->next_batch) {
                all->next_batch = 1;
                for (const struct hash_node *n = NULL; (n = hash_next(ledger, n));)
                        if (moved_of(n)->number >= all->next_batch)
                                all->next_batch = moved_of(n)->number + 1;
        }
        return all->next_batch++;
}

static void write_batch(struct core *core, const struct moved_values *v, uint64_t number)
{
        char name[MOVED_NAME_MAX];
        moved_put_name(name, v->site, number);
        buf_clear(&core->body);
        moved_put(v, &core->body);
        thing_set(core, THING_MOVED, slice_str(name), buf_slice(&core->body));
}

static void drop_batch(struct core *core, const struct moved *m)
{
        struct thing *t = thing_find(&core->state, THING_MOVED, thing_name(&m->thing));
        ASSERT(t);
        thing_gone(core, t);
}

void moved_due(struct core *core, struct thing *t)
{
        thing_gone(core, t); /* nobody looked after it */
}

static int by_id(const void *a, const void *b)
{
        const struct site_due_row *x = a, *y = b;
        return (x->row.id > y->row.id) - (x->row.id < y->row.id);
}

static int by_row_id(const void *a, const void *b)
{
        const struct site_row *x = a, *y = b;
        return (x->id > y->id) - (x->id < y->id);
}

/* Sets the originals of async actions: that of the ledger when they were moved before, else the
 * date that they have.  Sorts all rows by id. */
static void take_originals(const struct core *core, const struct site *s, struct slice hook,
                           struct site_due_row *rows, size_t n)
{
        struct moved_ask asks[SITE_ROWS_MAX];
        for (size_t i = 0; i < n; i++)
                asks[i] = (struct moved_ask){
                        .id = rows[i].row.id, .hook = hook, .date_s = rows[i].current_s};
        moved_find(&core->state, slice_str(s->name), asks, n);
        qsort(rows, n, sizeof(*rows), by_id);
        for (size_t i = 0; i < n; i++)
                if (rows[i].is_async)
                        rows[i].row.original_s =
                                asks[i].is_found ? asks[i].original_s : rows[i].current_s;
}

/* ---- moves that begin ---- */

/* At most half of max_deferral at once: a longer delay would leave no action that may be moved, as
 * all of a batch get the same date. */
static int64_t whole_delay_s(const struct core *core, uint32_t delay_ms)
{
        int64_t delay_s = (delay_ms + MS_PER_S - 1) / MS_PER_S;
        int64_t half_s = (int64_t)(core->throttle->policy.max_deferral_ms / 2 / MS_PER_S);
        return half_s && half_s < delay_s ? half_s : delay_s;
}

static int64_t later_s(struct core *core, int64_t now_s, int64_t delay_s)
{
        return now_s + delay_s +
               (int64_t)rng_below(core->options.rng, (uint64_t)(delay_s / SPREAD) + 1);
}

/* No move goes further: the longest delay of the matrix, spread, and a runner's full minute. */
static int64_t reach_s(const struct core *core)
{
        uint32_t longest_ms = 0;
        for (size_t i = 0; i < LEVELS; i++)
                for (size_t k = 0; k < TIERS; k++) {
                        uint32_t delay_ms = core->throttle->policy.delay_ms[i][k];
                        longest_ms = delay_ms > longest_ms ? delay_ms : longest_ms;
                }
        int64_t delay_s = whole_delay_s(core, longest_ms);
        return delay_s + delay_s / SPREAD + GRAIN_MAX_S;
}

/* Originals before this have waited long enough when they would be moved to to_s; 0: none has. */
static int64_t not_before_s(const struct core *core, int64_t to_s)
{
        uint64_t max_ms = core->throttle->policy.max_deferral_ms;
        return max_ms ? to_s - (int64_t)(max_ms / MS_PER_S) : 0;
}

int site_add_batch(struct core *core, const struct moved_values *v, uint64_t *ret_number,
                   struct problem *problem)
{
        if (core->state.things[THING_MOVED].len >= SITE_BATCHES_MAX)
                return problem_set(problem, ERR_LIMIT, "%d batches of moved actions are kept",
                                   SITE_BATCHES_MAX);
        int r = core_admit(core, BATCH_BYTES, 0, problem);
        if (r != OK)
                return r;
        *ret_number = next_number(core);
        write_batch(core, v, *ret_number);
        return OK;
}

/* How many actions of the hook may still be deferred in this hour. */
static size_t deferrals_left(struct core *core, struct slice hook)
{
        uint32_t max = core->throttle->policy.deferrals_per_hour;
        uint32_t n = max ? throttle_hook_deferrals(core, hook) : 0;
        if (!max)
                return SIZE_MAX;
        return n < max ? max - n : 0;
}

/* Does the hook wait, and may the site be changed?  It may be otherwise since the plan was made. */
static bool is_still_deferred(struct core *core, const struct site *s, struct slice hook)
{
        enum tier tier;
        return site_decide(core, s, hook, &tier).would_wait && site_mode(core, s) == MODE_ENFORCE;
}

/* A batch of the same hook and date that has room for n more rows.  Not one whose move has not
 * ended: it is dropped when nothing was moved. */
static const struct moved *find_open(const struct core *core, const struct site *s,
                                     struct slice hook, int64_t date_s, size_t n)
{
        const struct moved_hook *h = moved_hook_find(&core->state, slice_str(s->name), hook);
        if (!h)
                return NULL;
        LIST_FOREACH(&h->batches, it)
        {
                const struct moved_values *v = &moved_of_link(it)->values;
                if (v->date_s == date_s && !v->before_s && v->n_moved &&
                    v->n_rows + n <= SITE_ROWS_MAX)
                        return moved_of_link(it);
        }
        return NULL;
}

static void write_rows(struct core *core, const struct moved *m, struct site_row *rows, size_t n,
                       uint64_t n_moved)
{
        struct buf packed CLEANUP(buf_release) = {0};
        struct moved_values v = m->values;
        moved_pack(&v, rows, n, &packed);
        v.n_moved = n_moved < n ? n_moved : n;
        write_batch(core, &v, m->number);
}

/* Adds rows, in the order of their ids, to a batch that has room.  Those that it has already are
 * not there twice. */
static void join_batch(struct core *core, const struct moved *m, const struct site_row *more,
                       size_t n)
{
        struct site_row rows[SITE_ROWS_MAX], at = {0};
        struct reader r = reader_make(m->values.rows);
        size_t n_rows = 0;
        while (moved_next(&r, &at))
                if (!bsearch(&at, more, n, sizeof(at), by_row_id))
                        rows[n_rows++] = at;
        memcpy(rows + n_rows, more, n * sizeof(*more));
        write_rows(core, m, rows, n_rows + n, m->values.n_moved);
}

int sites_propose(struct core *core, struct slice site, struct site_step *step,
                  struct site_due_row *rows, size_t *n, struct problem *problem)
{
        struct site *s = site_by_name(core, site);
        struct site_row kept[SITE_ROWS_MAX];
        size_t n_kept = 0;
        if (!s)
                return problem_set(problem, ERR_NOTFOUND, "the site is gone");
        ASSERT(*n <= SITE_ROWS_MAX);
        size_t max = is_still_deferred(core, s, step->hook) ? deferrals_left(core, step->hook) : 0;
        take_originals(core, s, step->hook, rows, *n);
        for (size_t i = 0; i < *n && n_kept < max; i++) {
                /* The plan may be old, and a date never becomes an earlier one. */
                if (rows[i].row.original_s < step->not_before_s ||
                    rows[i].row.original_s > step->to_s || rows[i].current_s >= step->to_s)
                        continue;
                kept[n_kept] = rows[i].row;
                rows[n_kept++] = rows[i];
        }
        *n = n_kept;
        if (!n_kept)
                return OK;
        step->n_noted = n_kept < SITE_NOTED_MAX ? n_kept : SITE_NOTED_MAX;
        memcpy(step->noted, kept + n_kept - step->n_noted, step->n_noted * sizeof(*kept));
        const struct moved *open = find_open(core, s, step->hook, step->to_s, n_kept);
        if (open) { /* small pages make no small batches */
                int r = core_admit(core, BATCH_BYTES, 0, problem);
                if (r != OK)
                        return r;
                step->batch = open->number;
                join_batch(core, open, kept, n_kept);
                return OK;
        }
        struct buf packed CLEANUP(buf_release) = {0};
        struct moved_values v = {.site = slice_str(s->name),
                                 .hook = step->hook,
                                 .date_s = step->to_s,
                                 .made_s = s->survey.now_s};
        moved_pack(&v, kept, n_kept, &packed);
        return site_add_batch(core, &v, &step->batch, problem);
}

int sites_propose_shift(struct core *core, struct slice site, struct site_step *step,
                        struct problem *problem)
{
        struct site *s = site_by_name(core, site);
        const struct moved *m = s ? find_batch(core, s, step->batch) : NULL;
        if (!m)
                return problem_set(problem, ERR_NOTFOUND, "the batch is gone");
        if (!is_still_deferred(core, s, step->hook) || step->n_rows != m->values.n_rows)
                return problem_set(problem, ERR_STATE, "what was planned has changed");
        int r = core_admit(core, BATCH_BYTES, 0, problem);
        if (r != OK || m->values.date_s == step->to_s) /* the latter: a shift goes on */
                return r;
        struct moved_values v = m->values;
        v.before_s = v.date_s;
        v.date_s = step->to_s;
        write_batch(core, &v, step->batch);
        return OK;
}

static void note_last(struct core *core, struct site *s, const struct site_step *step,
                      const struct site_row *row)
{
        struct site_last *l = &s->last[s->n_last++ % SITE_LAST];
        *l = (struct site_last){.id = row->id,
                                .at_ms = core->now.wall_ms,
                                .original_s = row->original_s,
                                .to_s = step->to_s,
                                .tier = (uint8_t)step->tier,
                                .level = (uint8_t)site_level(core, s)};
        (void)snprintf(l->hook, sizeof(l->hook), "%.*s", (int)step->hook.len, step->hook.ptr);
}

static void count_moved(struct core *core, struct site *s, const struct site_step *step, uint64_t n)
{
        s->total_moved += n;
        throttle_count_deferrals(core, step->hook, (uint32_t)n);
}

/* Runners defer one action at a time.  Their dates are full minutes (less when the delay is short),
 * so that those of a hook share a batch. */
int site_defer(struct core *core, struct site *s, struct slice hook, struct site_due_row *row,
               int64_t *ret_to_s, struct problem *problem)
{
        struct site_step step = {.kind = STEP_MOVE, .hook = hook};
        struct gate_answer a = site_decide(core, s, hook, &step.tier);
        int64_t delay_s = whole_delay_s(core, a.delay_ms), grain_s = delay_s / SPREAD;
        *ret_to_s = 0;
        if (!a.would_wait || site_mode(core, s) != MODE_ENFORCE)
                return OK;
        grain_s = grain_s < 1 ? 1 : grain_s > GRAIN_MAX_S ? GRAIN_MAX_S : grain_s;
        step.to_s = later_s(core, core->now.wall_ms / MS_PER_S, delay_s) + grain_s - 1;
        step.to_s -= step.to_s % grain_s;
        row->is_async = true; /* the caller does not tell; the ledger does */
        take_originals(core, s, hook, row, 1);
        if (row->row.original_s < not_before_s(core, step.to_s) || row->current_s >= step.to_s)
                return OK;
        size_t n = 1;
        int r = sites_propose(core, slice_str(s->name), &step, row, &n, problem);
        if (r != OK || !n)
                return r;
        sites_stepped(core, slice_str(s->name), &step, 1, false);
        *ret_to_s = step.to_s;
        return OK;
}

/* ---- moves that ended ---- */

static void end_move(struct core *core, struct site *s, const struct site_step *step,
                     const struct moved *m, uint64_t n_changed)
{
        count_moved(core, s, step, n_changed);
        for (size_t i = 0; i < step->n_noted; i++)
                note_last(core, s, step, &step->noted[i]);
        struct moved_values v = m->values;
        v.n_moved = v.n_moved + n_changed < v.n_rows ? v.n_moved + n_changed : v.n_rows;
        write_batch(core, &v, m->number);
}

static void end_shift(struct core *core, struct site *s, const struct site_step *step,
                      const struct moved *m, uint64_t n_changed)
{
        s->total_shifted += n_changed;
        struct moved_values v = m->values;
        v.before_s = 0;
        if (!step->is_resumed)
                v.n_moved = n_changed;
        write_batch(core, &v, m->number);
}

/* Rows that came into the batch since the plan stay in it.  The others are in the same order. */
static void end_return(struct core *core, const struct site_step *step, const struct moved *m)
{
        struct site_row left[SITE_ROWS_MAX], row = {0};
        struct reader r = reader_make(m->values.rows);
        size_t n = 0, at = 0;
        while (moved_next(&r, &row))
                if (at < step->n_rows && row.id == step->rows[at].id)
                        at++;
                else
                        left[n++] = row;
        if (n)
                write_rows(core, m, left, n, m->values.n_moved);
        else
                drop_batch(core, m);
}

void sites_stepped(struct core *core, struct slice site, const struct site_step *step,
                   uint64_t n_changed, bool is_refused)
{
        struct site *s = site_by_name(core, site);
        const struct moved *m = s ? find_batch(core, s, step->batch) : NULL;
        if (!m)
                return;
        if (step->kind == STEP_RETURN) {
                s->total_returned += n_changed;
                stock_add(&s->stock, n_changed);
                if (!is_refused)
                        end_return(core, step, m);
        } else if (step->kind == STEP_MOVE && n_changed) {
                end_move(core, s, step, m, n_changed);
        } else if (is_refused) {
                s->total_shifted += n_changed; /* the next cycle goes on with it */
        } else if (n_changed || step->is_resumed) {
                end_shift(core, s, step, m, n_changed);
        } else if (step->kind != STEP_MOVE || !m->values.n_moved) {
                drop_batch(core, m); /* none of its rows is ours any more */
        }
}

/* ---- the plan ---- */

struct planner {
        struct core *core;
        struct site *site;
        struct site_plan *plan;
        int64_t now_s;
        int64_t soon_s;   /* what falls due before this is handled in this cycle */
        uint64_t waiting; /* due actions of hooks that wait */
        /* Batches that may return, the most important first, and all their rows. */
        struct candidate {
                const struct moved *batch;
                enum tier tier;
        } best[STEPS_MAX];
        size_t n_best;
};

static struct site_step *add_step(struct planner *p, enum site_step_kind kind, struct slice hook,
                                  enum tier tier)
{
        /* They are planned in this order, and each kind leaves some for the next. */
        static const size_t max[] = {[STEP_SHIFT] = STEPS_MAX / 2,
                                     [STEP_RETURN] = STEPS_MAX * 3 / 4,
                                     [STEP_MOVE] = STEPS_MAX};
        struct site_plan *plan = p->plan;
        if (plan->n_steps >= max[kind])
                return NULL;
        struct site_step *step = &plan->steps[plan->n_steps++];
        *step = (struct site_step){
                .kind = kind, .hook = arena_copy(&plan->arena, hook), .tier = tier};
        ASSERT(step->hook.ptr);
        return step;
}

/* False: the plan has no step left for it. */
static bool plan_move(struct planner *p, const struct site_hook *h)
{
        enum tier tier;
        if (!h->due && !h->running) /* what runs has a claim, in which more may wait */
                return true;
        struct gate_answer a = site_decide(p->core, p->site, h->hook, &tier);
        if (!a.would_wait)
                return true;
        p->waiting += h->due;
        if (p->plan->mode != MODE_ENFORCE)
                return true;
        struct site_step *step = add_step(p, STEP_MOVE, h->hook, tier);
        if (!step)
                return false;
        step->to_s = later_s(p->core, p->now_s, whole_delay_s(p->core, a.delay_ms));
        step->not_before_s = not_before_s(p->core, step->to_s);
        return true;
}

/* Each plan begins with another hook, and with the first that the last one left out: a hook with
 * more than a cycle can move does not keep the others waiting. */
static void plan_moves(struct planner *p)
{
        struct site *s = p->site;
        const struct site_survey *v = &s->survey;
        size_t first = s->next_hook, left_out = SIZE_MAX;
        for (size_t i = 0; i < v->n_hooks; i++) {
                size_t at = (first + i) % v->n_hooks;
                if (!plan_move(p, &v->hooks[at]) && left_out == SIZE_MAX)
                        left_out = at;
        }
        s->next_hook = left_out == SIZE_MAX ? first + 1 : left_out;
}

/* The first n rows of a batch, as rows. */
static void take_rows(struct planner *p, const struct moved *m, size_t n, struct site_step *step)
{
        struct site_row *rows = arena_array(&p->plan->arena, n + 1, sizeof(*rows));
        struct reader r = reader_make(m->values.rows);
        struct site_row row = {0};
        ASSERT(rows);
        for (size_t i = 0; i < n && moved_next(&r, &row); i++)
                rows[i] = row;
        step->batch = m->number;
        step->rows = rows;
        step->n_rows = n;
        step->from_s[0] = m->values.date_s;
        step->from_s[1] = m->values.before_s ? m->values.before_s : m->values.date_s;
}

static void plan_return(struct planner *p, const struct moved *m, enum tier tier, size_t n)
{
        struct site_step *step = add_step(p, STEP_RETURN, m->values.hook, tier);
        if (step)
                take_rows(p, m, n, step);
}

/* How many of its rows have waited long enough, if all were moved on to to_s. */
static size_t count_late(const struct planner *p, const struct moved *m, int64_t to_s)
{
        int64_t limit_s = not_before_s(p->core, to_s);
        struct reader r = reader_make(m->values.rows);
        struct site_row row = {0};
        size_t n = 0;
        while (moved_next(&r, &row) && row.original_s < limit_s)
                n++;
        return n;
}

/* A batch whose tier waits still: on to a later date in time, or a shift that was cut off goes on.
 */
static void plan_shift(struct planner *p, const struct moved *m, enum tier tier, uint32_t delay_ms)
{
        const struct moved_values *v = &m->values;
        if (!v->before_s && v->date_s > p->soon_s)
                return;
        int64_t to_s = v->before_s ? v->date_s
                                   : later_s(p->core, p->now_s, whole_delay_s(p->core, delay_ms));
        if (!v->before_s && to_s <= v->date_s)
                return; /* the delay is short: there is time */
        size_t n_late = v->before_s ? 0 : count_late(p, m, to_s);
        if (n_late) { /* they come back; the next cycle moves the others on */
                plan_return(p, m, tier, n_late);
                return;
        }
        struct site_step *step = add_step(p, STEP_SHIFT, v->hook, tier);
        if (!step)
                return;
        take_rows(p, m, v->n_rows, step);
        step->to_s = to_s;
        step->from_s[0] = step->from_s[1] = v->before_s ? v->before_s : v->date_s;
        step->is_resumed = v->before_s != 0;
}

static bool is_more_important(const struct candidate *x, const struct candidate *y)
{
        int64_t x_s = x->batch->values.oldest_s, y_s = y->batch->values.oldest_s;
        if (x->tier != y->tier)
                return x->tier < y->tier;
        return x_s != y_s ? x_s < y_s : x->batch->number < y->batch->number;
}

/* Only as many as a plan has steps are kept in order: there may be thousands. */
static void add_candidate(struct planner *p, const struct moved *m, enum tier tier)
{
        const struct candidate c = {m, tier};
        if (p->n_best == STEPS_MAX && !is_more_important(&c, &p->best[STEPS_MAX - 1]))
                return;
        size_t at = p->n_best < STEPS_MAX ? p->n_best++ : STEPS_MAX - 1;
        for (; at && is_more_important(&c, &p->best[at - 1]); at--)
                p->best[at] = p->best[at - 1];
        p->best[at] = c;
}

/* All of the critical tier: their hooks were of another one before. */
static void plan_critical_returns(struct planner *p)
{
        for (size_t i = 0; i < p->n_best && p->best[i].tier == TIER_CRITICAL; i++)
                plan_return(p, p->best[i].batch, TIER_CRITICAL, p->best[i].batch->values.n_rows);
}

static void note_returning(struct planner *p)
{
        struct site *s = p->site;
        bool is_new = p->n_best && !s->is_returning;
        s->is_returning = p->n_best > 0;
        p->plan->is_returning = s->is_returning;
        if (is_new)
                throttle_tell(p->core, "site_returning",
                              "%s: moved actions return as fast as runners work", s->name);
}

/* Batches of tiers that wait are moved on; the others may come back. */
static void plan_batches(struct planner *p, bool is_return_only)
{
        for (const struct moved_hook *h = NULL; (h = site_next_hook(p->core, p->site, h));) {
                enum tier tier;
                struct gate_answer a = site_decide(p->core, p->site, h->hook, &tier);
                if (a.reason == GATE_HOOK_MAX)
                        continue;
                LIST_FOREACH(&h->batches, it)
                {
                        const struct moved *m = moved_of_link(it);
                        if (!a.would_wait)
                                add_candidate(p, m, tier);
                        else if (!is_return_only)
                                plan_shift(p, m, tier, a.delay_ms);
                }
        }
        note_returning(p);
}

static uint64_t count_due(const struct site *s)
{
        uint64_t due = 0;
        for (size_t i = 0; i < s->survey.n_hooks; i++)
                due += s->survey.hooks[i].due;
        return due;
}

size_t site_first_hooks(const struct core *core, const struct site *s, struct slice *ret)
{
        size_t n = 0;
        for (size_t i = 0; i < s->survey.n_hooks && n < SITE_FIRST_MAX; i++)
                if (site_tier(core, s, s->survey.hooks[i].hook) == TIER_CRITICAL)
                        ret[n++] = s->survey.hooks[i].hook;
        return n;
}

static uint64_t count_critical(const struct core *core, const struct site *s)
{
        uint64_t due = 0;
        for (size_t i = 0; i < s->survey.n_hooks; i++)
                if (site_tier(core, s, s->survey.hooks[i].hook) == TIER_CRITICAL)
                        due += s->survey.hooks[i].due;
        return due;
}

static void name_critical(struct planner *p)
{
        struct slice hooks[SITE_FIRST_MAX];
        size_t n = site_first_hooks(p->core, p->site, hooks);
        struct slice *kept = arena_array(&p->plan->arena, n + 1, sizeof(*kept));
        ASSERT(kept);
        for (size_t i = 0; i < n; i++)
                kept[i] = arena_copy(&p->plan->arena, hooks[i]);
        p->plan->critical = kept;
        p->plan->n_critical = n;
}

/* What may fall due before the next cycle has moved it: cycles begin an interval after the end of
 * the last one, and in a storm each of them takes seconds itself. */
static int64_t horizon_of(const struct site *s)
{
        int64_t slow_ms =
                s->survey.slow_ms < HORIZON_SLOW_MAX_MS ? s->survey.slow_ms : HORIZON_SLOW_MAX_MS;
        return (s->interval_ms + 2 * slow_ms + MS_PER_S - 1) / MS_PER_S;
}

static void plan_begin(struct core *core, struct site *s, struct site_plan *ret)
{
        throttle_ask(core);
        ret->mode = site_mode(core, s);
        for (size_t i = 0; i < SITE_REPAIRS; i++)
                ret->repairs[i] = s->repairs[i] < ret->mode ? s->repairs[i] : ret->mode;
        ret->is_lost_critical = s->is_lost_critical && ret->mode == MODE_ENFORCE;
        ret->is_calm = site_level(core, s) == LEVEL_NORMAL && !site_is_guess(core, s);
        ret->horizon_s = horizon_of(s);
        ret->reach_s = reach_s(core);
        ret->steps = arena_array(&ret->arena, STEPS_MAX, sizeof(*ret->steps));
        char *reason = arena_alloc(&ret->arena, SITE_TEXT);
        ASSERT(ret->steps && reason);
        site_put_reason(core, s, reason);
        ret->reason = reason;
}

static struct planner planner_make(struct core *core, struct site *s, struct site_plan *plan)
{
        return (struct planner){.core = core,
                                .site = s,
                                .plan = plan,
                                .now_s = s->survey.now_s,
                                .soon_s = s->survey.now_s + 2 * plan->horizon_s + 1};
}

void sites_surveyed(struct core *core, struct slice site, struct site_survey *survey,
                    struct site_plan *ret)
{
        struct site *s = site_by_name(core, site);
        *ret = (struct site_plan){.mode = MODE_OFF};
        arena_init(&ret->arena, 0);
        if (!s) {
                site_survey_release(survey);
                return;
        }
        site_survey_release(&s->survey);
        s->survey = *survey;
        *survey = (struct site_survey){0};
        s->is_surveyed = true;
        s->surveyed_ms = core->now.wall_ms;
        if (s->error[0])
                throttle_tell(core, "site_recovered", "%s: it is surveyed again", s->name);
        s->error[0] = '\0';
        plan_begin(core, s, ret);
        struct planner p = planner_make(core, s, ret);
        if (ret->mode == MODE_ENFORCE && !site_is_guess(core, s)) {
                plan_batches(&p, false);
                plan_critical_returns(&p);
        }
        if (ret->mode >= MODE_OBSERVE)
                plan_moves(&p);
        name_critical(&p);
        site_plan_front(core, s, ret);
        s->would_move = ret->mode == MODE_OBSERVE ? p.waiting : 0;
        s->due = count_due(s) - (ret->mode == MODE_ENFORCE ? p.waiting : 0);
        s->due_critical = count_critical(core, s);
        site_serve_runs(core, s);
}

void sites_top_up(struct core *core, struct slice site, const struct site_pace *pace,
                  struct site_plan *ret)
{
        struct site *s = site_by_name(core, site);
        *ret = (struct site_plan){.mode = MODE_OFF};
        arena_init(&ret->arena, 0);
        if (!s || site_mode(core, s) != MODE_ENFORCE || site_is_guess(core, s))
                return;
        enum level level = site_level(core, s);
        int64_t now_ms = core->now.steady_ns / NS_PER_MS;
        if (level > s->stock_level)
                stock_halve(&s->stock);
        s->stock_level = level;
        size_t left = stock_room(&s->stock, now_ms, pace->is_idle, pace->runners);
        ret->is_returning = s->is_returning;
        if (!left)
                return;
        plan_begin(core, s, ret);
        struct planner p = planner_make(core, s, ret);
        plan_batches(&p, true);
        stock_begin(&s->stock, now_ms);
        for (size_t i = 0; i < p.n_best && left; i++) {
                size_t rows = p.best[i].batch->values.n_rows;
                size_t take = rows < left ? rows : left;
                plan_return(&p, p.best[i].batch, p.best[i].tier, take);
                left -= take;
        }
}

/* See series.h.
 *
 * One ring per series with a number for each second of the steady clock.  The rings are filled from
 * the totals that are counted anyway, so counting costs nothing more: when a turn finds that a
 * second is over, the difference of the totals belongs to that second.  All of it: the core's clock
 * stands still from one turn to the next, so whatever happened since was done at the time of the
 * turn before.  If seconds have passed without a turn, nothing happened in them: their counts are
 * 0 and their gauges as they were.  So there is no timer, and an idle weir is not woken to write
 * zeros.
 *
 * A step is told when it is over, and steps begin at multiples of their length: who asks again gets
 * the same points, and a chart has no half of a step at its end.
 *
 * Costs: SERIES_IDS x 4096 x 4 bytes; a comparison per turn, and a walk over the queues per second
 * that had a turn. */
#include "numbers/series.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "checks/check_ctx.h"
#include "numbers/series_minutes.h"
#include "throttle/throttle_state.h"

/* The wall clock is read in whole milliseconds and corrected a little all the time: only when it is
 * off by more than this do the points move. */
#define WALL_OFF_MS 500
/* Seconds in a ring: the hour, and a step that is not over. */
#define KEPT 4096
_Static_assert(KEPT > SERIES_SECONDS + SERIES_STEP_S, "a window may end a step ago");

struct series {
        int64_t second;               /* steady, that is going on; -1: no turn yet */
        int64_t first;                /* the one of the first turn: nothing before it is known */
        int64_t wall_ahead_ms;        /* of steady time, as told last */
        uint64_t seen[SERIES_COUNTS]; /* totals when it began */
        uint32_t rings[SERIES_IDS][KEPT]; /* of the seconds before it, by second % KEPT */
};

/* ---- filling ---- */

void series_totals(const struct core *core, uint64_t ret[SERIES_COUNTS])
{
        const struct core_totals *t = &core->totals;
        const struct check_ctx *c = core->checking;
        ret[SERIES_ENQUEUED] = t->enqueued;
        ret[SERIES_STARTED] = t->started;
        ret[SERIES_COMPLETED] = t->completed;
        ret[SERIES_FAILED] = t->failed;
        ret[SERIES_GRANTED] = c->granted;
        ret[SERIES_REFUSED] = 0;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                ret[SERIES_REFUSED] += c->refused[i];
        _Static_assert(SERIES_DEFERRED_DEFERRABLE - SERIES_DEFERRED_CRITICAL == TIERS - 1,
                       "one for each tier, in their order");
        for (size_t i = 0; i < TIERS; i++)
                ret[SERIES_DEFERRED_CRITICAL + i] = core->throttle->deferred[i];
}

static uint32_t bounded(uint64_t v)
{
        return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

/* Writes the second that is over, and those after it in which nothing happened. */
static void close_second(struct core *core, int64_t now)
{
        struct series *s = core->series;
        uint64_t totals[SERIES_COUNTS];
        uint32_t row[SERIES_IDS];
        uint64_t n_parked = 0, n_ready = 0;
        for (size_t i = 0; i < STATE_TIERS; i++)
                n_parked += core->state.n_parked[i];
        for (struct hash_node *it = NULL; (it = hash_next(&core->state.queues, it));)
                n_ready += CONTAINER_OF(it, struct queue, node)->n_ready;
        series_totals(core, totals);
        for (size_t i = 0; i < SERIES_COUNTS; i++)
                row[i] = bounded(totals[i] - s->seen[i]);
        memcpy(s->seen, totals, sizeof(totals));
        row[SERIES_PARKED] = bounded(n_parked);
        row[SERIES_READY] = bounded(n_ready);
        int64_t at = s->second, oldest = now - KEPT;
        for (; at < now; at++) {
                if (at < oldest)
                        at = oldest; /* the rings hold no more, and what is older counts no more */
                for (size_t i = 0; i < SERIES_IDS; i++)
                        s->rings[i][at % KEPT] = i < SERIES_COUNTS && at > s->second ? 0 : row[i];
        }
}

static void series_turn(struct core *core)
{
        struct series *s = core->series;
        int64_t now = core->now.steady_ns / NS_PER_S;
        if (now == s->second)
                return;
        if (s->second >= 0)
                close_second(core, now);
        else
                s->first = now;
        s->second = now;
}

/* ---- reading ---- */

static uint32_t value_at(const struct series *s, enum series_id id, int64_t second)
{
        if (second < 0 || second >= s->second || second < s->second - KEPT)
                return 0;
        return s->rings[id][second % KEPT];
}

unsigned series_known(const struct core *core, unsigned seconds)
{
        const struct series *s = core->series;
        int64_t known = s->second - s->first;
        return known < seconds ? (unsigned)known : seconds;
}

uint64_t series_sum(const struct core *core, enum series_id id, unsigned seconds)
{
        const struct series *s = core->series;
        uint64_t sum = 0;
        ASSERT(seconds <= SERIES_SECONDS);
        for (int64_t at = s->second - seconds; at < s->second; at++)
                sum += value_at(s, id, at);
        return sum;
}

uint64_t series_rest(const struct core *core, enum series_id id)
{
        uint64_t totals[SERIES_COUNTS];
        ASSERT(id < SERIES_COUNTS);
        series_totals(core, totals);
        return totals[id] - core->series->seen[id];
}

uint32_t series_gauge(const struct core *core, enum series_id id)
{
        const struct series *s = core->series;
        ASSERT(id >= SERIES_COUNTS);
        return s->second > s->first ? value_at(s, id, s->second - 1) : 0;
}

/* ---- telling ---- */

/* When a second began, as the wall clock says now. */
static int64_t wall_ms_of(struct core *core, int64_t second)
{
        struct series *s = core->series;
        int64_t ahead_ms = core->now.wall_ms - core->now.steady_ns / NS_PER_MS;
        if (llabs(ahead_ms - s->wall_ahead_ms) > WALL_OFF_MS)
                s->wall_ahead_ms = ahead_ms;
        return second * MS_PER_S + s->wall_ahead_ms;
}

/* Steps of whole seconds, the first of which begins at `first`. */
struct window {
        int64_t first, step;
        size_t n;
};

static int window_of(const struct core *core, const struct command *cmd, struct window *ret,
                     struct problem *problem)
{
        const struct arg *seconds = &cmd->arg[P_SERIES_SECONDS], *step = &cmd->arg[P_SERIES_STEP];
        int64_t length = seconds->is_set ? seconds->num : SERIES_SECONDS;
        ret->step = step->is_set ? step->num : SERIES_STEP;
        if (ret->step > SERIES_STEP_S)
                return problem_set(problem, ERR_BADARG,
                                   "STEP is at most %d s, or whole minutes: a multiple of 60",
                                   SERIES_STEP_S);
        ret->n = (size_t)((length + ret->step - 1) / ret->step);
        if (ret->n > SERIES_POINTS)
                return problem_set(problem, ERR_BADARG,
                                   "that would be %zu points; at most %d: take a longer STEP",
                                   ret->n, SERIES_POINTS);
        ret->first = core->series->second / ret->step * ret->step - (int64_t)ret->n * ret->step;
        return OK;
}

struct series_ctx {
        const struct window *window;
        enum series_id id;
};

static void tell_series(struct reply *reply, const struct reply_items *items)
{
        const struct series_ctx *ctx = items->of;
        const struct series *s = items->core->series;
        int64_t at = ctx->window->first;
        for (size_t i = 0; i < items->n; i++) {
                uint64_t sum = 0, max = 0;
                bool is_known = at >= s->first;
                for (int64_t end = at + ctx->window->step; at < end; at++) {
                        uint32_t v = value_at(s, ctx->id, at);
                        sum += v;
                        max = v > max ? v : max;
                }
                if (is_known)
                        reply_int(reply, (int64_t)(ctx->id < SERIES_COUNTS ? sum : max));
                else
                        reply_null(reply);
        }
}

/* NAN: there was no sample in that second, or it is too long ago. */
static float metric_at(const struct metric *m, int64_t second)
{
        if (second < 0 || second > m->history_s || second <= m->history_s - THROTTLE_HISTORY_S)
                return NAN;
        return m->history[second % THROTTLE_HISTORY_S];
}

struct values_ctx {
        const struct window *window;
        const struct metric *metric;
};

static void tell_values(struct reply *reply, const struct reply_items *items)
{
        const struct values_ctx *ctx = items->of;
        int64_t at = ctx->window->first;
        for (size_t i = 0; i < items->n; i++) {
                float max = NAN;
                for (int64_t end = at + ctx->window->step; at < end; at++)
                        max = fmaxf(max, metric_at(ctx->metric, at)); /* passes over NAN */
                reply_decimal(reply, max, 7);
        }
}

/* The metrics of one target, or of all: -1. */
struct metrics_ctx {
        const struct window *window;
        int target;
};

static bool is_wanted(int wanted, size_t target)
{
        return wanted < 0 || (size_t)wanted == target;
}

size_t series_count_metrics(const struct core *core, int target)
{
        const struct throttle *t = core->throttle;
        size_t n = 0;
        for (size_t i = 0; i < t->n_targets; i++)
                n += is_wanted(target, i) ? t->targets[i].n_metrics : 0;
        return n < SERIES_METRICS ? n : SERIES_METRICS;
}

void series_tell_metric(struct reply *reply, const struct target *g, size_t metric,
                        struct reply_items values)
{
        const struct metric *m = &g->metrics[metric];
        const struct series_metric_reply told = {
                .target = g->name,
                .name = m->name,
                .elevated = g->rules[metric].enter[0],
                .critical = g->rules[metric].enter[1],
                .check = m->check_above,
                .values = values,
        };
        reply_series_metric(reply, &told);
}

static void tell_metrics(struct reply *reply, const struct reply_items *items)
{
        const struct throttle *t = items->core->throttle;
        const struct metrics_ctx *ctx = items->of;
        size_t left = items->n;
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                for (size_t k = 0; is_wanted(ctx->target, i) && k < g->n_metrics && left; k++) {
                        const struct values_ctx values = {ctx->window, &g->metrics[k]};
                        series_tell_metric(reply, g, k,
                                           (struct reply_items){ctx->window->n, tell_values,
                                                                items->core, &values});
                        left--;
                }
        }
}

void series_tell(struct reply *reply, const struct series_told *told)
{
        const struct reply_items *p = told->points;
        const struct series_deferred_reply deferred = {
                .critical = p[SERIES_DEFERRED_CRITICAL],
                .high = p[SERIES_DEFERRED_HIGH],
                .normal = p[SERIES_DEFERRED_NORMAL],
                .deferrable = p[SERIES_DEFERRED_DEFERRABLE],
        };
        const struct series_jobs_reply jobs = {
                .started = p[SERIES_STARTED],
                .completed = p[SERIES_COMPLETED],
                .failed = p[SERIES_FAILED],
                .enqueued = p[SERIES_ENQUEUED],
                .parked = p[SERIES_PARKED],
                .ready = p[SERIES_READY],
                .deferred = &deferred,
        };
        const struct series_checks_reply checks = {p[SERIES_GRANTED], p[SERIES_REFUSED]};
        const struct series_reply answer = {
                .from_ms = told->from_ms,
                .step_ms = told->step_ms,
                .n = (int64_t)told->n,
                .metrics = told->metrics,
                .jobs = &jobs,
                .checks = &checks,
        };
        reply_series(reply, &answer);
}

int exec_series(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        struct window w = {0};
        int target = -1;
        if (cmd->arg[P_SERIES_TARGET].is_set) {
                target = throttle_target(core, cmd->arg[P_SERIES_TARGET].text);
                if (target < 0)
                        return throttle_no_target(core, cmd->arg[P_SERIES_TARGET].text, problem);
        }
        if (series_is_by_minutes(cmd))
                return series_minutes(core, session, cmd, reply, problem);
        int r = window_of(core, cmd, &w, problem);
        if (r != OK)
                return r;
        const struct metrics_ctx metrics = {&w, target};
        struct series_ctx ctx[SERIES_IDS];
        struct series_told told = {
                .from_ms = wall_ms_of(core, w.first),
                .step_ms = w.step * MS_PER_S,
                .n = w.n,
                .metrics = {series_count_metrics(core, target), tell_metrics, core, &metrics},
        };
        for (size_t i = 0; i < SERIES_IDS; i++) {
                ctx[i] = (struct series_ctx){&w, (enum series_id)i};
                told.points[i] = (struct reply_items){w.n, tell_series, core, &ctx[i]};
        }
        series_tell(reply, &told);
        return OK;
}

static void series_init(struct core *core)
{
        core->series = xcalloc(1, sizeof(*core->series));
        core->series->second = -1;
}

static void series_release(struct core *core)
{
        free(core->series);
}

const struct feature series_feature = {
        .name = "series", .init = series_init, .release = series_release, .turn = series_turn};

/* See learning.h.
 *
 * There is no store of what was learned: rollups have the largest value of each metric for each ten
 * minutes of 10 days and each minute of 2 days, over restarts, and a week of ten minutes is 1,008
 * rows.  Two queries follow one another, because ten minutes and minutes are rows of their own.
 * The archive reads on its own thread; what remains for the loop is memory for at most 64 metrics
 * (400 KB). */
#include "numbers/learning.h"

#include <math.h>
#include <stdlib.h>

#include "base/civil.h"
#include "numbers/rollups.h"
#include "numbers/series_minutes.h"
#include "throttle/throttle_state.h"

#define MOST_PERCENT 100

static void begin_view(const struct learning *l, struct rollup_view *v, int64_t step, size_t n)
{
        int64_t now = rollups_minute(l->core);
        v->step = step;
        v->n = n;
        v->from = floor_div(now, step) * step - (int64_t)n * step;
        v->kind = -1;
        rollup_view_init(v);
}

static bool ask_archive(struct learning *l, struct rollup_view *v, unsigned span,
                        void (*done)(struct archive_rollups *q))
{
        l->query = (struct archive_rollups){.span = span, .view = v, .done = done, .ctx = l};
        return rollups_ask(l->core, &l->query);
}

static void on_minutes(struct archive_rollups *q)
{
        struct learning *l = q->ctx;
        l->err = l->err ? l->err : q->err;
        l->done(l);
}

static bool ask_minutes(struct learning *l)
{
        return ask_archive(l, &l->minutes, ROLLUP_MINUTE, on_minutes);
}

static void on_tens(struct archive_rollups *q)
{
        struct learning *l = q->ctx;
        l->err = q->err;
        if (!l->core || !ask_minutes(l))
                l->done(l);
}

bool learning_ask(struct core *core, struct slice target, struct learning *l)
{
        l->core = core;
        l->err = OK;
        arena_init(&l->arena, 0);
        l->tens = l->minutes = (struct rollup_view){.metrics = l->names};
        l->tens.n_metrics = series_name_metrics(core, target, &l->arena, l->names);
        l->minutes.n_metrics = l->tens.n_metrics;
        begin_view(l, &l->tens, ROLLUP_TEN, ADVICE_TENS);
        begin_view(l, &l->minutes, ROLLUP_MINUTE, ADVICE_MINUTES);
        return ask_archive(l, &l->tens, ROLLUP_TEN, on_tens) || ask_minutes(l);
}

void learning_forget(struct learning *l)
{
        l->core = NULL;
}

void learning_release(struct learning *l)
{
        rollup_view_release(&l->tens);
        rollup_view_release(&l->minutes);
        arena_release(&l->arena);
}

/* The largest values of a metric, point by point; NULL: it was not asked for. */
static const float *values_of(const struct learning *l, const struct rollup_view *v,
                              const struct target *g, size_t metric)
{
        size_t i = series_find_metric(l->names, v->n_metrics, g, metric);
        return i < v->n_metrics ? v->maxima + i * v->n : NULL;
}

void learning_usual(const struct learning *l, const struct target *g, size_t metric,
                    struct advice_usual *ret)
{
        const struct rollup_view *v = &l->tens;
        const float *values = values_of(l, v, g, metric);
        size_t first = (size_t)(v->from / v->step) % (ADVICE_TENS / ADVICE_DAYS);
        advice_learn(values, values ? v->n : 0, first, ret);
}

enum advice learning_propose(const struct advice_usual *u, const struct target *g, size_t metric,
                             struct level_rule *ret)
{
        const struct metric *m = &g->metrics[metric];
        const struct advice_bounds bounds = {m->is_percent ? MOST_PERCENT : INFINITY,
                                             metric_default_rule(g, metric)};
        *ret = g->rules[metric];
        return advice_propose(u, &bounds, ret);
}

struct advice_effect learning_try(const struct learning *l, const struct target *g, size_t metric,
                                  const struct level_rule *rule)
{
        const struct rollup_view *v = &l->minutes;
        const float *values = values_of(l, v, g, metric);
        return advice_replay(values, values ? v->n : 0, rule, g->dwell_ns);
}

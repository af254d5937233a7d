/* THROTTLEADVISE: thresholds that follow from the usual values of each metric (gate/advice.h),
 * beside those of now.
 *
 * An answer is made in one turn: for each of at most 64 metrics a week of ten minutes is sorted by
 * hour, and a day of minutes is tried twice.  Measured: 0.05 ms a metric. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "numbers/learning.h"
#include "throttle/throttle_state.h"

#define REASON_MAX 160

struct advising {
        struct session_wait base;
        struct learning learning;
        struct slice target; /* empty: all; of the learning's arena */
};

/* ---- telling ---- */

static void tell_hours(struct reply *reply, const struct reply_items *items)
{
        const struct advice_usual *u = items->of;
        for (size_t i = 0; i < items->n; i++)
                reply_decimal(reply, u->hour[i], 7);
}

/* What the views of one set of thresholds borrow from. */
struct told_thresholds {
        char pairs[2][LEVEL_PAIR_MAX];
        struct advice_effect_reply effect;
};

static void make_thresholds(const struct learning *l, const struct target *g, size_t metric,
                            const struct level_rule *rule, struct told_thresholds *ret)
{
        const struct advice_effect effect = learning_try(l, g, metric, rule);
        for (size_t i = 0; i < ARRAY_LEN(ret->pairs); i++)
                (void)level_pair_text(rule->enter[i], rule->exit[i], ret->pairs[i]);
        ret->effect = (struct advice_effect_reply){
                .elevated_minutes = effect.elevated,
                .critical_minutes = effect.critical,
                .entered = effect.entered,
        };
}

static const char *text_or_null(const char *text)
{
        return *text ? text : NULL;
}

/* Why nothing is proposed; "" when it is. */
static const char *reason_of(enum advice advice, const struct advice_usual *u, char ret[REASON_MAX])
{
        ret[0] = '\0';
        if (advice == ADVICE_LITTLE)
                (void)snprintf(
                        ret, REASON_MAX,
                        "too little was learned: values of %zu hours; at least %d are needed",
                        u->n / ADVICE_PER_HOUR, ADVICE_LEAST / ADVICE_PER_HOUR);
        if (advice == ADVICE_FULL)
                (void)snprintf(ret, REASON_MAX,
                               "the usual value, %g, is too near to the largest possible one",
                               u->most);
        return ret;
}

static void tell_metric(const struct core *core, struct reply *reply, const struct learning *l,
                        const struct target *g, size_t metric)
{
        struct advice_usual usual;
        struct level_rule proposal;
        struct told_thresholds now, then = {0};
        char reason[REASON_MAX], origin[THROTTLE_TEXT];
        learning_usual(l, g, metric, &usual);
        enum advice advice = learning_propose(&usual, g, metric, &proposal);
        make_thresholds(l, g, metric, &g->rules[metric], &now);
        if (advice == ADVICE_GIVEN)
                make_thresholds(l, g, metric, &proposal, &then);
        const struct advice_present_reply present = {text_or_null(now.pairs[0]),
                                                     text_or_null(now.pairs[1]), &now.effect};
        const struct advice_proposed_reply proposed = {then.pairs[0], then.pairs[1], &then.effect};
        const struct advice_metric_reply told = {
                .name = g->metrics[metric].name,
                .learned_hours = (int64_t)(usual.n / ADVICE_PER_HOUR),
                .usual_most = usual.most,
                .usual = {ADVICE_HOURS, tell_hours, core, &usual},
                .thresholds_from = metric_origin(g, metric, origin),
                .present = &present,
                .proposed = advice == ADVICE_GIVEN ? &proposed : NULL,
                .reason = reason_of(advice, &usual, reason),
        };
        reply_advice_metric(reply, &told);
}

struct metrics_of {
        const struct learning *learning;
        const struct target *target;
};

static void tell_advised(struct reply *reply, const struct reply_items *items)
{
        const struct metrics_of *m = items->of;
        for (size_t i = 0; i < items->n; i++)
                tell_metric(items->core, reply, m->learning, m->target, i);
}

static bool is_asked(const struct advising *w, const struct target *g)
{
        return !w->target.len || slice_eq(w->target, slice_str(g->name));
}

/* Metrics of that target, as long as so many are left. */
static size_t metrics_left(const struct target *g, size_t left)
{
        return g->n_metrics < left ? g->n_metrics : left;
}

static void tell_advised_targets(struct reply *reply, const struct reply_items *items)
{
        const struct advising *w = items->of;
        const struct throttle *t = items->core->throttle;
        size_t left = SERIES_METRICS, n = items->n;
        for (size_t i = 0; i < t->n_targets && n; i++) {
                const struct target *g = &t->targets[i];
                if (!is_asked(w, g))
                        continue;
                const struct metrics_of of = {&w->learning, g};
                const struct advice_target_reply told = {
                        .name = g->name,
                        .own = g->is_own,
                        .metrics = {metrics_left(g, left), tell_advised, items->core, &of},
                };
                reply_advice_target(reply, &told);
                left -= told.metrics.n;
                n--;
        }
}

/* Targets of which at least one metric is told. */
static size_t count_targets(const struct core *core, const struct advising *w)
{
        const struct throttle *t = core->throttle;
        size_t left = SERIES_METRICS, n = 0;
        for (size_t i = 0; i < t->n_targets && left; i++) {
                if (!is_asked(w, &t->targets[i]))
                        continue;
                left -= metrics_left(&t->targets[i], left);
                n++;
        }
        return n;
}

static void tell_advice(struct core *core, struct reply *reply, const struct advising *w)
{
        throttle_refresh(core);
        const struct throttle_advice_reply told = {
                .targets = {count_targets(core, w), tell_advised_targets, core, w},
                .problem = w->learning.err ? "history cannot be read: only the last hour is known"
                                           : "",
        };
        reply_throttle_advice(reply, &told);
}

/* ---- waiting for the archive ---- */

static void advising_free(struct advising *w)
{
        learning_release(&w->learning);
        free(w);
}

static void on_learned(struct learning *l)
{
        struct advising *w = l->ctx;
        struct session *session = w->base.session;
        if (session) {
                wait_end(w->base.core, &w->base);
                tell_advice(w->base.core, session->ops->reply_begin(session), w);
                session->ops->reply_end(session);
        }
        advising_free(w);
}

static void cancel_advising(struct core *core, struct session_wait *wait)
{
        learning_forget(&CONTAINER_OF(wait, struct advising, base)->learning);
        wait_end(core, wait); /* the archive has it, and on_learned() frees it */
}

static const struct wait_ops advising_ops = {.cancel = cancel_advising};

int exec_throttleadvise(struct core *core, struct session *session, const struct command *cmd,
                        struct reply *reply, struct problem *problem)
{
        struct slice target = cmd->arg[P_THROTTLEADVISE_TARGET].text;
        if (cmd->arg[P_THROTTLEADVISE_TARGET].is_set && throttle_target(core, target) < 0)
                return throttle_no_target(core, target, problem);
        struct advising *w = xcalloc(1, sizeof(*w));
        w->learning.done = on_learned;
        w->learning.ctx = w;
        bool is_later = learning_ask(core, target, &w->learning);
        w->target = arena_copy(&w->learning.arena, target);
        if (is_later) {
                wait_begin(core, &w->base, &advising_ops, session);
                return CORE_LATER;
        }
        tell_advice(core, reply, w);
        advising_free(w);
        return OK;
}

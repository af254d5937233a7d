/* See relearn.h.
 *
 * One target at a time is asked for, so that all metrics of it come whatever their number.  What
 * was learned stays until there is something newer: a history that cannot be read, or a week
 * without values, does not bring the default thresholds back.  Idle without an "auto". */
#include "numbers/relearn.h"

#include <stdlib.h>

#include "base/say.h"
#include "numbers/learning.h"
#include "throttle/throttle_state.h"

#define EVERY_NS (3600 * NS_PER_S)
#define AGAIN_NS (60 * NS_PER_S) /* after an error of the archive */

/* The archive may have the question longer than there is a core. */
struct relearning {
        struct learning learning;
        struct slice target; /* of its arena */
};

static bool is_any_auto(const struct metric *m)
{
        return metric_is_auto(m, 0) || metric_is_auto(m, 1);
}

/* When it is to be asked for; INT64_MAX: it is not. */
static int64_t metric_due_ns(const struct metric *m)
{
        if (!is_any_auto(m))
                return INT64_MAX;
        return m->learned_ns ? m->learned_ns + EVERY_NS : 0;
}

/* What was learned has all four figures. */
static bool is_same_rule(const struct level_rule *a, const struct level_rule *b)
{
        return a->enter[0] == b->enter[0] && a->exit[0] == b->exit[0] &&
               a->enter[1] == b->enter[1] && a->exit[1] == b->exit[1];
}

/* True when the thresholds are others than before. */
static bool take_learned(const struct learning *l, struct target *g, size_t metric)
{
        struct metric *m = &g->metrics[metric];
        struct advice_usual usual;
        struct level_rule rule;
        learning_usual(l, g, metric, &usual);
        if (learning_propose(&usual, g, metric, &rule) != ADVICE_GIVEN)
                return false;
        bool is_new = !m->has_learned || !is_same_rule(&rule, &m->learned);
        m->has_learned = true;
        m->learned = rule;
        m->learned_hours = (unsigned)(usual.n / ADVICE_PER_HOUR);
        if (is_new)
                say_info("gate", "thresholds_learned", "target", g->name, "metric", m->name,
                         "elevated", SAY_F64(rule.enter[0]), "critical", SAY_F64(rule.enter[1]));
        return is_new;
}

static void take_target(struct core *core, const struct relearning *r)
{
        struct throttle *t = core->throttle;
        int target = throttle_target(core, r->target);
        bool is_new = false;
        for (size_t i = 0; target >= 0 && i < t->targets[target].n_metrics; i++) {
                struct metric *m = &t->targets[target].metrics[i];
                if (!is_any_auto(m))
                        continue;
                if (r->learning.err)
                        m->learned_ns = core->now.steady_ns - EVERY_NS + AGAIN_NS;
                else
                        is_new |= take_learned(&r->learning, &t->targets[target], i);
        }
        if (!is_new)
                return;
        t->settings_seen = UINT64_MAX; /* thresholds are worked out again */
        throttle_refresh(core);
}

static void relearned(struct learning *l)
{
        struct relearning *r = l->ctx;
        struct core *core = l->core;
        if (core) {
                core->relearning = NULL;
                take_target(core, r);
        }
        learning_release(l);
        free(r);
}

static void ask_target(struct core *core, struct target *g)
{
        struct relearning *r = xcalloc(1, sizeof(*r));
        int64_t now_ns = core->now.steady_ns > 0 ? core->now.steady_ns : 1;
        for (size_t i = 0; i < g->n_metrics; i++)
                if (is_any_auto(&g->metrics[i]))
                        g->metrics[i].learned_ns = now_ns;
        r->learning.done = relearned;
        r->learning.ctx = r;
        core->relearning = r;
        bool is_later = learning_ask(core, slice_str(g->name), &r->learning);
        r->target = arena_copy(&r->learning.arena, slice_str(g->name));
        if (!is_later)
                relearned(&r->learning);
}

static int64_t target_due_ns(const struct target *g)
{
        int64_t due = INT64_MAX;
        for (size_t i = 0; i < g->n_metrics; i++) {
                int64_t at = metric_due_ns(&g->metrics[i]);
                due = at < due ? at : due;
        }
        return due;
}

static void relearn_turn(struct core *core)
{
        struct throttle *t = core->throttle;
        for (size_t i = 0; i < t->n_targets && !core->relearning; i++)
                if (target_due_ns(&t->targets[i]) <= core->now.steady_ns)
                        ask_target(core, &t->targets[i]);
}

static int64_t relearn_next_ns(const struct core *core)
{
        const struct throttle *t = core->throttle;
        int64_t next = INT64_MAX;
        for (size_t i = 0; i < t->n_targets && !core->relearning; i++) {
                int64_t at = target_due_ns(&t->targets[i]);
                next = at < next ? at : next;
        }
        return next;
}

static void relearn_release(struct core *core)
{
        if (core->relearning)
                learning_forget(&core->relearning->learning);
        core->relearning = NULL;
}

const struct feature relearn_feature = {.name = "relearn",
                                        .release = relearn_release,
                                        .turn = relearn_turn,
                                        .next_ns = relearn_next_ns};

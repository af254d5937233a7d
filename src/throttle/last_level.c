/* See last_level.h. */
#include "throttle/last_level.h"

#include <math.h>
#include <stdio.h>

#include "base/duration.h"
#include "state/last_level.h"

_Static_assert(LEVEL_NORMAL == 0 && LEVEL_ELEVATED == 1 && LEVEL_CRITICAL == LAST_LEVEL_MAX,
               "the numbers of levels are in the log");

void last_level_due(struct core *core, struct thing *t)
{
        (void)core; /* it has no alarm */
        (void)t;
}

/* ---- taken up again ---- */

/* When the metric that made the level is none of the target any more, it begins anew, as after a
 * reload (retarget.c). */
static void restore(struct core *core, struct target *g)
{
        const struct last_level *last = last_level_find(&core->state, slice_str(g->name));
        if (!last)
                return;
        const struct last_level_values *v = &last->values;
        int metric = target_metric(g, v->metric);
        if (v->level != LEVEL_NORMAL && metric < 0)
                return;
        int64_t before_ms = core->now.wall_ms - v->at_ms;
        g->last_known = (int8_t)v->level;
        g->last_known_ms = before_ms > 0 ? before_ms : 0; /* the clock may have been set back */
        leveler_restore(&g->leveler, (enum level)v->level, metric, v->value, v->threshold);
        int64_t since_ns = core->now.steady_ns - g->last_known_ms * NS_PER_MS;
        if (v->level != LEVEL_NORMAL)
                g->leveler.since_ns = since_ns > 0 ? since_ns : 0;
}

/* There are as many as there were targets: a handful. */
static void forget_removed(struct core *core)
{
        const struct hash *all = &core->state.things[THING_LAST_LEVEL];
        for (struct hash_node *n = hash_next(all, NULL); n;) {
                struct thing *t = CONTAINER_OF(n, struct thing, node);
                if (throttle_target(core, thing_name(t)) >= 0) {
                        n = hash_next(all, n);
                        continue;
                }
                thing_gone(core, t);
                n = hash_next(all, NULL); /* it took its place in the table with it */
        }
}

void last_levels_restore(struct core *core)
{
        struct throttle *t = core->throttle;
        if (!t->are_targets_new)
                return;
        t->are_targets_new = false;
        if (!core_is_following(core))
                forget_removed(core);
        for (size_t i = 0; i < t->n_targets; i++) {
                struct target *g = &t->targets[i];
                if (g->is_restored)
                        continue;
                g->is_restored = true;
                if (!g->leveler.is_unmeasured)
                        continue;
                /* It was set up before the time was known. */
                g->leveler.began_ns = g->leveler.since_ns = core->now.steady_ns;
                restore(core, g);
        }
}

/* ---- kept ---- */

static bool was_sampled(const struct target *g)
{
        for (size_t i = 0; i < g->n_metrics; i++)
                if (g->samples[i].at_ns)
                        return true;
        return false;
}

/* The metric that made the level that is held; -1 for normal. */
static int holding_metric(const struct target *g)
{
        const struct leveler *l = &g->leveler;
        if (l->held == LEVEL_NORMAL || (l->level == l->held && l->metric >= 0))
                return l->held == LEVEL_NORMAL ? -1 : l->metric;
        for (size_t i = 0; i < g->n_metrics; i++)
                if (l->reached[i] == (int8_t)l->held)
                        return (int)i;
        return -1;
}

static double number_or_0(double v)
{
        return isfinite(v) ? v : 0;
}

void last_level_keep(struct core *core, const struct target *g)
{
        const struct leveler *l = &g->leveler;
        const struct last_level *last = last_level_find(&core->state, slice_str(g->name));
        if (l->is_unmeasured || !was_sampled(g) || (last && last->values.level == l->held))
                return;
        int metric = holding_metric(g);
        if (l->held != LEVEL_NORMAL && metric < 0)
                return;
        struct last_level_values v = {.level = (uint8_t)l->held, .at_ms = core->now.wall_ms};
        if (metric >= 0) {
                v.metric = slice_str(g->metrics[metric].name);
                v.value = number_or_0(g->samples[metric].value);
                v.threshold = number_or_0(g->rules[metric].enter[l->held - 1]);
        }
        buf_clear(&core->body);
        last_level_put(&v, &core->body);
        thing_set(core, THING_LAST_LEVEL, slice_str(g->name), buf_slice(&core->body));
}

void last_levels_keep(struct core *core)
{
        const struct throttle *t = core->throttle;
        for (size_t i = 0; i < t->n_targets; i++)
                last_level_keep(core, &t->targets[i]);
}

/* ---- told ---- */

bool target_is_unmeasured(const struct target *g)
{
        return g->n_metrics && (g->leveler.is_unmeasured || !was_sampled(g));
}

const char *last_level_words(const struct target *g, char *ret)
{
        const struct leveler *l = &g->leveler;
        bool has_metric = g->last_known > LEVEL_NORMAL && l->metric >= 0;
        char time[DURATION_TEXT_MAX];
        ret[0] = '\0';
        if (!target_is_unmeasured(g))
                return ret;
        if (g->last_known < 0)
                (void)snprintf(ret, THROTTLE_TEXT, "not measured yet");
        else
                (void)snprintf(ret, THROTTLE_TEXT,
                               "last known: %s%s%s, %s before the restart, not measured yet",
                               level_name((enum level)g->last_known), has_metric ? " by " : "",
                               has_metric ? g->metrics[l->metric].name : "",
                               duration_words(g->last_known_ms, time));
        return ret;
}

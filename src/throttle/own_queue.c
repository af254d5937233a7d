/* See own_queue.h. */
#include "throttle/own_queue.h"

#include <math.h>
#include <stdio.h>

#include "base/duration.h"

/* Keys that one sample looks at: a walk through 1.6 MB, a fraction of a millisecond. */
#define LOOKED_AT 100000

static bool is_depth(const struct target *g, size_t metric)
{
        return strcmp(g->metrics[metric].name, "queue_depth") == 0;
}

/* Is no other target that counts known to be above normal? */
static bool are_others_calm(const struct throttle *t, const struct target *own)
{
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                enum level level = g->leveler.level;
                if (g != own && throttle_mode_of(t, g) != MODE_OFF &&
                    (level == LEVEL_ELEVATED || level == LEVEL_CRITICAL))
                        return false;
        }
        return true;
}

static bool is_old_enough(const struct throttle *t)
{
        return t->own_oldest_ms >= (int64_t)t->policy.queue_age_ms;
}

static void forbid(struct level_rule *rule, enum level level)
{
        rule->enter[level - 1] = rule->exit[level - 1] = NAN;
}

const struct level_rule *own_queue_rules(const struct core *core, const struct target *g,
                                         struct level_rule *room)
{
        const struct throttle *t = core->throttle;
        if (!g->is_own || !are_others_calm(t, g))
                return g->rules;
        for (size_t i = 0; i < g->n_metrics; i++) {
                room[i] = g->rules[i];
                if (!is_depth(g, i))
                        continue;
                if (!is_old_enough(t))
                        forbid(&room[i], LEVEL_ELEVATED);
                if (!is_old_enough(t) || t->policy.queue_level != LEVEL_CRITICAL)
                        forbid(&room[i], LEVEL_CRITICAL);
        }
        return room;
}

/* Why a depth above its threshold does not count for more; "" when it does. */
static const char *remark(const struct throttle *t, const struct target *g, size_t metric,
                          double depth, char *ret)
{
        const struct level_rule *rule = &g->rules[metric];
        char age[DURATION_TEXT_MAX], least[DURATION_TEXT_MAX];
        ret[0] = '\0';
        if (!(depth >= rule->enter[0]) || !are_others_calm(t, g))
                return ret;
        if (!is_old_enough(t))
                (void)snprintf(ret, THROTTLE_TEXT,
                               "the other targets are calm and the oldest due job is %s old: the "
                               "depth counts from %s on",
                               duration_words(t->own_oldest_ms, age),
                               duration_words(t->policy.queue_age_ms, least));
        else if (depth >= rule->enter[1] && t->policy.queue_level != LEVEL_CRITICAL)
                (void)snprintf(ret, THROTTLE_TEXT,
                               "the other targets are calm: the depth alone is elevated at most");
        return ret;
}

void own_queue_sample(struct core *core, size_t target)
{
        struct throttle *t = core->throttle;
        const struct target *g = &t->targets[target];
        int64_t now_ms = core->now.wall_ms, oldest = now_ms;
        uint64_t ready = 0;
        size_t budget = LOOKED_AT;
        char why[THROTTLE_TEXT];
        for (struct hash_node *n = NULL; (n = hash_next(&core->state.queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                const struct job *first = queue_first(q); /* also when others took the budget */
                int64_t due_ms = queue_oldest_due_ms(q, &budget);
                if (first && first->due_ms < due_ms)
                        due_ms = first->due_ms;
                if (due_ms < oldest)
                        oldest = due_ms;
                ready += q->n_ready;
        }
        t->own_oldest_ms = now_ms - oldest;
        for (size_t i = 0; i < g->n_metrics; i++) {
                double value = is_depth(g, i) ? (double)ready : (double)t->own_oldest_ms / MS_PER_S;
                const char *note = is_depth(g, i) ? remark(t, g, i, value, why) : "";
                core_sample(core, target, i, value, core->now.steady_ns, SAMPLE_GOOD,
                            slice_str(note));
        }
}

/* The policy of a door: what the gate says of each of its classes, frozen into a snapshot.
 *
 * A snapshot is made anew, whole, whenever something that it was made of has changed: a sample of
 * the target, a rule, a setting, the pause, the registry, the level, or the classes.  Those are
 * seen by their versions, so whoever changes something need not know of doors.  What changes with
 * time alone (how long a hold still lasts) makes a snapshot a second while there is such a thing.
 *
 * Costs: about 1 us per class, so 1 ms for a door with all classes it may have; at most once a
 * turn. */
#include <math.h>
#include <stdio.h>

#include "traffic/traffic_state.h"

int door_target(const struct core *core, const struct door *d)
{
        return d->target[0] ? throttle_target(core, slice_str(d->target)) : -1;
}

static const struct target *target_of(const struct core *core, const struct door *d)
{
        int target = door_target(core, d);
        return target < 0 ? NULL : &core->throttle->targets[target];
}

enum level door_level(const struct core *core, const struct door *d)
{
        const struct target *g = target_of(core, d);
        return g ? g->leveler.level : LEVEL_NORMAL;
}

/* ---- tiers ---- */

/* A comment may lower the tier; it may raise it where the operator trusts comments. */
enum tier known_tier(const struct core *core, struct known_class *k)
{
        const struct traffic_class *c = &k->class;
        if (k->registry_seen != core->throttle->registry_version) {
                k->registry_seen = core->throttle->registry_version;
                k->registered = check_registered_tier(core, &k->who);
        }
        enum tier tier = c->tier >= 0 ? (enum tier)c->tier : k->registered;
        if (c->comment_tier < 0)
                return tier;
        enum tier said = (enum tier)c->comment_tier;
        return c->is_comment_trusted || said > tier ? said : tier;
}

/* ---- when ---- */

static struct policy_key key_of(const struct core *core, const struct door *d)
{
        const struct target *g = target_of(core, d);
        const struct leveler *l = g ? &g->leveler : NULL;
        return (struct policy_key){{
                core->state.rules_version,
                core->state.settings_version,
                core->throttle->registry_version,
                (uint64_t)door_target(core, d),
                l ? (uint64_t)l->level << 1 | l->is_unmeasured : 0,
                l ? leveler_held_tiers(l, &core->throttle->policy, core->now.steady_ns) : 0,
                l ? (uint64_t)l->known_mask << 32 | l->pending_mask : 0,
                core->throttle->policy.is_paused,
                d->n_classes,
        }};
}

static bool is_same(const struct policy_key *a, const struct policy_key *b)
{
        return memcmp(a, b, sizeof(*a)) == 0;
}

/* ---- what ---- */

/* What the door judges by: how many statements run, and whether a metric of harm is above its
 * threshold.  That is where checks refuse, or where the level becomes elevated; what is not known
 * does no harm. */
static void put_metrics(const struct target *g, struct door_policy *p)
{
        for (size_t i = 0; g && i < g->n_metrics; i++) {
                const struct metric *m = &g->metrics[i];
                const struct level_rule *rule = &g->rules[i];
                double value = g->samples[i].value;
                double above = m->is_checked ? m->check_above : NAN;
                if (!(g->leveler.known_mask >> i & 1))
                        continue;
                if (m->is_running) {
                        p->running = value;
                        p->n_samples = (uint64_t)g->samples[i].at_ns;
                        if (m->set[0] == THRESHOLD_PAIR ||
                            (m->is_written && m->set[0] == THRESHOLD_UNSET))
                                p->running_most = rule->enter[0];
                        continue;
                }
                bool is_over = isnan(above) ? value >= rule->enter[0] : value > above;
                if (!is_over || p->is_harmed)
                        continue;
                p->is_harmed = true;
                (void)snprintf(p->harm, sizeof(p->harm), "%s %.6g against %.6g", m->name, value,
                               isnan(above) ? rule->enter[0] : above);
        }
}

static bool is_fleeting(const struct class_verdicts *v)
{
        for (size_t i = 0; i < ARRAY_LEN(v->verdict); i++) {
                enum check_reason reason = v->verdict[i].reason;
                if (reason == CHECK_PAUSED || reason == CHECK_HOLD)
                        return true;
        }
        return false;
}

static struct door_policy *freeze(struct core *core, struct door *d)
{
        struct door_policy *p = door_policy_new(d->n_classes);
        struct check_subject s = {.target = door_target(core, d)};
        put_metrics(target_of(core, d), p);
        d->is_fleeting = false;
        for (size_t i = 0; i < d->n_classes; i++) {
                struct known_class *k = d->classes[i];
                if (!k)
                        continue; /* the threads have not made it yet */
                s.who = k->who;
                s.tier = known_tier(core, k);
                check_freeze(core, &s, &k->verdicts);
                d->is_fleeting |= is_fleeting(&k->verdicts);
                p->classes[i] = k->verdicts;
        }
        return p;
}

static void tell_mode(struct core *core, size_t door)
{
        struct traffic *t = core->traffic;
        enum gate_mode mode = traffic_mode(core, door);
        if (t->doors[door].told_mode == (int)mode)
                return;
        t->doors[door].told_mode = (int)mode;
        t->threads.set_mode(t->threads.ctx, door, mode);
}

void traffic_publish(struct core *core)
{
        struct traffic *t = core->traffic;
        if (!t->has_threads)
                return;
        for (size_t i = 0; i < t->n; i++) {
                struct door *d = &t->doors[i];
                struct policy_key key = key_of(core, d);
                if (!d->is_due && is_same(&key, &d->key))
                        continue;
                throttle_refresh(core);
                tell_mode(core, i);
                door_read_classes(core, i);
                d->key = key_of(core, d);
                d->is_due = false;
                t->threads.publish(t->threads.ctx, i, freeze(core, d));
        }
}

/* The levels of the targets, and what follows from a change of them: the ramp and the adaptive
 * limit.
 *
 * The loop brings the samples.  Each updates the level of its target.  The worst level of all
 * targets that count is the one that decides (admit.c). */
#include "throttle/throttle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/plural.h"
#include "base/say.h"
#include "base/shown.h"
#include "things/setting.h"
#include "throttle/incident.h"
#include "throttle/last_level.h"
#include "throttle/own_queue.h"
#include "throttle/throttle_state.h"
#include "throttle/throttled.h"

/* ---- life ---- */

static void throttle_init(struct core *core)
{
        struct throttle *t = core->throttle = xcalloc(1, sizeof(*t));
        t->deciding = t->watching = -1;
        t->settings_seen = UINT64_MAX;
        t->held_next_ns = INT64_MAX;
        policy_init(&t->configured);
        t->policy = t->configured;
        hash_init(&t->hooks, 1);
        buf_init(&t->own_texts, 0);
        ramp_init(&t->ramp, 0, 0);
        list_init(&t->tries);
        t->groups = incident_groups_new();
        for (size_t i = 0; i < ARRAY_LEN(t->rings); i++)
                t->rings[i].events = xcalloc(THROTTLE_EVENTS, sizeof(struct throttle_event));
        core->throttled = throttled_new(core->state.queues.seed);
}

static void throttle_release(struct core *core)
{
        struct throttle *t = core->throttle;
        throttled_free(core->throttled);
        throttle_setup_release(t);
        incident_groups_free(t->groups);
        throttle_forget_hooks(t);
        hash_release(&t->hooks);
        registry_free(t->registry);
        for (size_t i = 0; i < ARRAY_LEN(t->rings); i++)
                free(t->rings[i].events);
        free(t);
}

void throttle_listen(struct core *core, const struct throttle_listener *listener)
{
        struct throttle *t = core->throttle;
        ASSERT(t->n_listeners < THROTTLE_LISTENERS_MAX);
        t->listeners[t->n_listeners++] = listener;
}

/* ---- settings ---- */

int64_t throttle_pause_ns(const struct core *core)
{
        const struct thing *t = thing_find(&core->state, THING_SETTING, SLICE_LIT(SETTING_PAUSE));
        if (!t)
                return 0;
        int64_t until = CONTAINER_OF(t, const struct setting, thing)->until_ns;
        return until ? until : INT64_MAX;
}

/* The defaults, on top the configuration, and on top what was set while weir runs. */
struct registry *throttle_build_registry(const struct core *core, const struct registry_entry *more)
{
        const struct hash *settings = &core->state.things[THING_SETTING];
        const size_t skip = sizeof(SETTING_REGISTRY) - 1;
        const struct throttle *t = core->throttle;
        struct registry_entry *entries =
                xcalloc(registry_defaults_len + t->n_own + settings->len + 1, sizeof(*entries));
        size_t n = registry_defaults_len;
        memcpy(entries, registry_defaults, n * sizeof(*entries));
        for (size_t i = 0; i < t->n_own; i++)
                entries[n++] = t->own[i];
        for (struct hash_node *it = NULL; (it = hash_next(settings, it));) {
                const struct setting *s = CONTAINER_OF(it, const struct setting, thing.node);
                if (it->key.len <= skip || memcmp(it->key.ptr, SETTING_REGISTRY, skip) != 0)
                        continue;
                int tier = tier_from_name(buf_slice(&s->bytes));
                if (tier >= 0)
                        entries[n++] = (struct registry_entry){
                                slice_make(it->key.ptr + skip, it->key.len - skip),
                                (enum tier)tier};
        }
        if (more)
                entries[n++] = *more;
        struct registry *r = registry_new(entries, n);
        free(entries);
        return r;
}

static void find_worst(struct core *core);
static void update_target(struct core *core, struct target *g);

void throttle_refresh(struct core *core)
{
        struct throttle *t = core->throttle;
        if (t->settings_seen == core->state.settings_version)
                return;
        t->settings_seen = core->state.settings_version;
        struct policy was = t->policy;
        t->policy = t->configured;
        int mode = mode_from_name(setting_bytes(core, SLICE_LIT(SETTING_MODE)));
        if (mode >= 0)
                t->policy.mode = (enum gate_mode)mode;
        t->mode = t->policy.mode;
        for (size_t i = 0; i < t->n_listeners; i++)
                if (t->listeners[i]->apply_settings)
                        t->listeners[i]->apply_settings(core);
        if (t->is_off) {
                t->policy.mode = MODE_OFF;
                throttle_take_back(core, SIZE_MAX); /* no limit keeps them aside any more */
        }
        t->policy.is_paused = throttle_pause_ns(core) != 0;
        if (t->policy.is_paused)
                t->policy.mode = MODE_ENFORCE; /* the operator's own hand is no trial */
        registry_free(t->registry);
        t->registry = throttle_build_registry(core, NULL);
        t->registry_version++;
        last_levels_restore(core);
        find_worst(core);
        for (size_t i = 0; i < t->n_targets; i++)
                update_target(core, &t->targets[i]);
        if (!parking_is_same(&was, &t->policy))
                parking_judge_later(core);
        if (t->skips_changed)
                t->skips_changed(t->asked_ctx);
}

/* ---- levels ---- */

enum gate_mode throttle_mode_of(const struct throttle *t, const struct target *g)
{
        if (t->is_off)
                return MODE_OFF;
        return g->mode >= 0 ? (enum gate_mode)g->mode : t->mode;
}

/* normal < unknown < elevated < critical: not knowing is worse than calm, and no alarm. */
static int badness(enum level level)
{
        static const int order[LEVELS] = {[LEVEL_NORMAL] = 0,
                                          [LEVEL_UNKNOWN] = 1,
                                          [LEVEL_ELEVATED] = 2,
                                          [LEVEL_CRITICAL] = 3};
        return order[level];
}

enum level throttle_level_for(const struct throttle *t, enum tier tier)
{
        return t->policy.is_paused ? LEVEL_CRITICAL : t->enforced_for[tier];
}

/* Parked jobs that may go at what is done now; the other tiers would only be parked again. */
static size_t count_returning(const struct core *core, size_t ret[TIERS])
{
        const struct throttle *t = core->throttle;
        size_t sum = 0;
        for (size_t tier = 0; tier < TIERS; tier++) {
                enum level level = throttle_level_for(t, (enum tier)tier);
                ret[tier] = t->policy.delay_ms[level][tier] ? 0 : core->state.n_parked[tier];
                sum += ret[tier];
        }
        return sum;
}

static void begin_ramp(struct core *core)
{
        struct throttle *t = core->throttle;
        size_t by_tier[TIERS], n = count_returning(core, by_tier);
        if (!n)
                return;
        ramp_begin(&t->ramp, core->now.steady_ns);
        throttle_tell(core, "ramp_started", "%zu parked %s over %u %s", n,
                      plural(n, "job returns", "jobs return"), ramp_cycles(&t->ramp),
                      plural(ramp_cycles(&t->ramp), "cycle", "cycles"));
        say_info("gate", "ramp_started", "parked", SAY_I64(n));
}

/* What is done changed: by a level, a mode, or the beginning or end of a pause. */
static void effect_changed(struct core *core, enum level was)
{
        struct throttle *t = core->throttle;
        if (core_is_following(core))
                return; /* the leader moves the jobs */
        if (badness(t->effective) <= badness(was)) {
                begin_ramp(core);
                return;
        }
        if (ramp_is_running(&t->ramp))
                throttle_tell(core, "ramp_stopped", "the level rose to %s",
                              level_name(t->effective));
        ramp_stop(&t->ramp);
        parking_stop_return(core);
}

static void raise_to(enum level *worst, enum level level)
{
        if (badness(level) > badness(*worst))
                *worst = level;
}

/* Which targets count. */
enum counting { COUNT_ENFORCED, COUNT_DECIDED, COUNT_IF_ENFORCED };

static bool is_counted(const struct throttle *t, const struct target *g, enum counting which)
{
        if (which == COUNT_IF_ENFORCED)
                return g->mode < 0 || g->mode == MODE_ENFORCE;
        return throttle_mode_of(t, g) >= (which == COUNT_ENFORCED ? MODE_ENFORCE : MODE_OBSERVE);
}

/* The worst level of those that count, and what each of them means for the tier beyond its level.
 */
static void find_levels(const struct core *core, enum counting which, enum level ret[TIERS])
{
        const struct throttle *t = core->throttle;
        enum level worst = LEVEL_NORMAL;
        for (size_t i = 0; i < t->n_targets; i++)
                if (is_counted(t, &t->targets[i], which))
                        raise_to(&worst, t->targets[i].leveler.level);
        for (enum tier tier = 0; tier < TIERS; tier++) {
                ret[tier] = worst;
                for (size_t i = 0; i < t->n_targets; i++) {
                        const struct leveler *l = &t->targets[i].leveler;
                        enum level own =
                                leveler_level_for(l, &t->policy, tier, core->now.steady_ns);
                        if (own != l->level && is_counted(t, &t->targets[i], which))
                                ret[tier] = policy_worse_level(&t->policy, ret[tier], own, tier);
                }
        }
}

static struct level_caps find_caps(const struct core *core)
{
        const struct throttle *t = core->throttle;
        struct level_caps caps = t->policy.caps[t->effective];
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct leveler *l = &t->targets[i].leveler;
                struct level_caps own = leveler_caps(l, &t->policy, core->now.steady_ns);
                if ((l->is_unmeasured || l->level == LEVEL_UNKNOWN) &&
                    is_counted(t, &t->targets[i], COUNT_ENFORCED))
                        level_caps_lower(&caps, &own);
        }
        return caps;
}

/* What the levels mean for tiers.  True: one runs now that was delayed. */
static bool find_meanings(struct core *core)
{
        struct throttle *t = core->throttle;
        enum level was[TIERS];
        bool is_freed = false;
        for (enum tier tier = 0; tier < TIERS; tier++)
                was[tier] = throttle_level_for(t, tier);
        find_levels(core, COUNT_ENFORCED, t->enforced_for);
        find_levels(core, COUNT_DECIDED, t->decided_for);
        t->caps = find_caps(core);
        t->held_next_ns = INT64_MAX;
        for (size_t i = 0; i < t->n_targets; i++) {
                int64_t at = leveler_held_next_ns(&t->targets[i].leveler, &t->policy,
                                                  core->now.steady_ns);
                t->held_next_ns = at < t->held_next_ns ? at : t->held_next_ns;
        }
        for (enum tier tier = 0; tier < TIERS; tier++)
                is_freed |= t->policy.delay_ms[was[tier]][tier] &&
                            !t->policy.delay_ms[throttle_level_for(t, tier)][tier];
        return is_freed;
}

static void find_worst(struct core *core)
{
        struct throttle *t = core->throttle;
        enum level was = t->enforced, was_effective = t->effective;
        t->deciding = t->watching = -1;
        t->watched = t->decided = t->enforced = LEVEL_NORMAL;
        for (size_t i = 0; i < t->n_targets; i++) {
                enum level level = t->targets[i].leveler.level;
                enum gate_mode mode = throttle_mode_of(t, &t->targets[i]);
                if (mode == MODE_OFF)
                        continue;
                bool is_enforced = mode == MODE_ENFORCE;
                enum level *worst = is_enforced ? &t->enforced : &t->watched;
                if (badness(level) > badness(*worst))
                        *(is_enforced ? &t->deciding : &t->watching) = (int)i;
                raise_to(worst, level);
                if (mode >= MODE_OBSERVE)
                        raise_to(&t->decided, level);
        }
        t->effective = t->policy.is_paused ? LEVEL_CRITICAL : t->enforced;
        struct level_caps was_caps = t->caps;
        bool is_freed = find_meanings(core);
        if (t->enforced != was)
                t->level_since_ns = core->now.steady_ns;
        if (t->effective != was_effective)
                effect_changed(core, was_effective);
        else if (is_freed && !core_is_following(core))
                begin_ramp(core);
        if (t->effective != was_effective || t->caps.claim_size != was_caps.claim_size ||
            t->caps.claims != was_caps.claims)
                throttle_take_back(core, SIZE_MAX); /* other caps hold now */
}

void throttle_levels_if_enforced(const struct core *core, enum level ret[TIERS])
{
        find_levels(core, COUNT_IF_ENFORCED, ret);
        for (enum tier tier = 0; core->throttle->policy.is_paused && tier < TIERS; tier++)
                ret[tier] = LEVEL_CRITICAL;
}

static void tell_transition(struct core *core, const struct target *g, enum level was)
{
        const struct leveler *l = &g->leveler;
        const char *metric = l->metric >= 0 ? g->metrics[l->metric].name : "";
        char value[32], threshold[32];
        (void)snprintf(value, sizeof(value), "%g", l->value);
        (void)snprintf(threshold, sizeof(threshold), "%g", l->threshold);
        throttle_tell(core, "load_level_transition", "%s: %s -> %s%s%s%s%s%s%s", g->name,
                      level_name(was), level_name(l->level), *metric ? " by " : "", metric,
                      *metric ? " " : "", *metric ? value : "", *metric ? " against " : "",
                      *metric ? threshold : "");
        say_info("gate", "load_level_transition", "target", g->name, "from", level_name(was), "to",
                 level_name(l->level), "metric", metric, "value", SAY_F64(l->value), "threshold",
                 SAY_F64(l->threshold));
}

static void update_target(struct core *core, struct target *g)
{
        enum level was = g->leveler.level;
        bool was_unmeasured = g->leveler.is_unmeasured;
        struct level_rule room[LEVEL_METRICS_MAX];
        if (leveler_update(&g->leveler, own_queue_rules(core, g, room), g->samples, g->n_metrics,
                           g->dwell_ns, core->now.steady_ns))
                tell_transition(core, g, was);
        else if (g->leveler.is_unmeasured == was_unmeasured)
                return;
        find_worst(core);
}

static void remember(struct metric *m, double value, int64_t steady_ns)
{
        int64_t s = steady_ns / NS_PER_S;
        if (!m->history_s || s - m->history_s > THROTTLE_HISTORY_S)
                m->history_s = s > THROTTLE_HISTORY_S ? s - THROTTLE_HISTORY_S : 0;
        for (int64_t i = m->history_s + 1; i < s; i++)
                m->history[i % THROTTLE_HISTORY_S] = NAN;
        m->history[s % THROTTLE_HISTORY_S] = (float)value;
        if (s > m->history_s)
                m->history_s = s;
}

void core_sample(struct core *core, size_t target, size_t metric, double value, int64_t steady_ns,
                 enum sample_state state, struct slice remark)
{
        bool is_error = state != SAMPLE_GOOD;
        struct throttle *t = core->throttle;
        if (target >= t->n_targets || metric >= t->targets[target].n_metrics)
                return;
        struct target *g = &t->targets[target];
        struct metric *m = &g->metrics[metric];
        struct level_sample *s = &g->samples[metric];
        /* Silence takes back nothing that was said: what failed stays so until it is good. */
        if (state != SAMPLE_SILENT || s->state != SAMPLE_FAILED)
                s->state = state;
        (void)shown_put(m->error, sizeof(m->error), is_error ? remark : SLICE_NONE);
        (void)shown_put(m->note, sizeof(m->note), is_error ? SLICE_NONE : remark);
        if (!is_error) {
                s->value = value;
                s->at_ns = steady_ns > 0 ? steady_ns : 1;
                remember(m, value, steady_ns);
                tally_sampled(core->tally, slice_str(g->name), slice_str(m->name), value);
        }
        throttle_refresh(core);
        update_target(core, g);
        if (!core_is_following(core))
                last_level_keep(core, g);
        for (size_t i = 0; i < t->n_listeners; i++)
                if (t->listeners[i]->sampled)
                        t->listeners[i]->sampled(core, target);
}

/* ---- the ramp ---- */

static void run_ramp(struct core *core)
{
        struct throttle *t = core->throttle;
        size_t parked[TIERS], release[TIERS];
        if (!ramp_is_running(&t->ramp))
                return;
        (void)count_returning(core, parked); /* ramp_step() adds them up */
        ramp_step(&t->ramp, core->now.steady_ns, parked, release);
        size_t n = 0;
        for (size_t tier = 0; tier < TIERS; tier++)
                n += release[tier];
        if (n) {
                parking_return(core, release);
                throttle_tell(core, "ramp_step", "%zu parked %s", n,
                              plural(n, "job returns", "jobs return"));
        }
        if (!ramp_is_running(&t->ramp))
                throttle_tell(core, "ramp_ended", "%llu %s returned",
                              (unsigned long long)t->ramp.released,
                              plural(t->ramp.released, "job has", "jobs have"));
}

/* Neither levels nor the ramp are in the log.  What a ramp had not brought back when weir ended, or
 * what waited for a load that is over since, would wait out its time: no level falls for it. */
static void begin_after_start(struct core *core)
{
        struct throttle *t = core->throttle;
        if (!t->awaits_levels)
                return;
        for (size_t i = 0; i < t->n_targets; i++)
                if (t->targets[i].leveler.pending_mask)
                        return; /* until its first samples, or until they are overdue */
        t->awaits_levels = false;
        if (!ramp_is_running(&t->ramp))
                begin_ramp(core);
        parking_judge_later(core); /* tiers may have changed while weir was down */
}

/* Once a tick of the zone: the limit follows the pressure. */
static void run_zone(struct core *core)
{
        struct throttle *t = core->throttle;
        if (t->adaptive == MODE_OFF || core->now.steady_ns < zone_next_ns(&t->zone))
                return;
        struct level_rule room[LEVEL_METRICS_MAX];
        double worst = NAN;
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                double u = level_pressure(own_queue_rules(core, g, room), g->samples, g->n_metrics,
                                          core->now.steady_ns);
                if (isnan(worst) || u > worst)
                        worst = u;
        }
        if (!zone_tick(&t->zone, worst, core->state.running.len, core->now.steady_ns))
                return;
        throttle_take_back(core, SIZE_MAX);
        char text[THROTTLE_TEXT];
        (void)snprintf(text, sizeof(text), "%s to %u at a pressure of %.2f%s",
                       zone_step_name(t->zone.last), t->zone.limit, t->zone.average,
                       t->adaptive == MODE_ENFORCE ? "" : " (observed)");
        throttle_tell(core, "adaptive_limit", "%s", text);
        incident_count(core, "adaptive_limit", SLICE_NONE, -1, text);
}

static void throttle_wake(struct core *core)
{
        struct throttle *t = core->throttle;
        if (core_is_following(core))
                return;
        uint32_t running = core->state.running.len;
        if (running < t->running_seen)
                throttle_take_back(core, t->running_seen - running);
        t->running_seen = running;
}

static void throttle_turn(struct core *core)
{
        struct throttle *t = core->throttle;
        throttle_refresh(core);
        for (size_t i = 0; i < t->n_targets; i++) {
                struct target *g = &t->targets[i];
                if (g->is_own && core->now.steady_ns - t->own_ns >= NS_PER_S)
                        own_queue_sample(core, i);
                else
                        update_target(core, g);
        }
        if (core->now.steady_ns - t->own_ns >= NS_PER_S)
                t->own_ns = core->now.steady_ns;
        if (core->now.steady_ns >= t->held_next_ns)
                find_worst(core);
        if (core_is_following(core))
                return;
        last_levels_keep(core);
        begin_after_start(core);
        run_ramp(core);
        parking_turn(core);
        run_zone(core);
        throttle_wake(core);
}

/* When the levels or the ramp bring jobs back, or the limit of those that run changes. */
static int64_t jobs_next_ns(const struct core *core)
{
        const struct throttle *t = core->throttle;
        int64_t next = ramp_next_ns(&t->ramp);
        if (parking_is_busy(core))
                return core->now.steady_ns;
        if (t->adaptive != MODE_OFF && zone_next_ns(&t->zone) < next)
                next = zone_next_ns(&t->zone);
        return next;
}

static int64_t throttle_next_ns(const struct core *core)
{
        const struct throttle *t = core->throttle;
        int64_t next = core_is_following(core) ? INT64_MAX : jobs_next_ns(core);
        next = t->held_next_ns < next ? t->held_next_ns : next;
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                int64_t at = leveler_next_ns(&g->leveler, g->rules, g->samples, g->n_metrics,
                                             g->dwell_ns);
                if (g->is_own && t->own_ns + NS_PER_S < at)
                        at = t->own_ns + NS_PER_S;
                if (at < next)
                        next = at;
        }
        return next;
}

/* ---- the feature ---- */

static void setting_ended(struct core *core, struct slice name)
{
        if (!slice_eq(name, SLICE_LIT(SETTING_PAUSE)))
                return;
        throttle_tell(core, "throttle_resumed", "the pause ended by itself");
        say_info("gate", "throttle_resumed", "by", "time");
}

/* Invariants: (1) the target that decides is one of those there are, and there is one exactly when
 * the level enforced is not normal; (2) what is done is the level enforced, or critical while
 * paused; (3) in the ring of what was held back, those that count are found by their keys. */
static void throttle_check(const struct core *core)
{
        const struct throttle *t = core->throttle;
        ASSERT(t->deciding < (int)t->n_targets && t->watching < (int)t->n_targets);
        ASSERT((t->deciding < 0) == (t->enforced == LEVEL_NORMAL));                   /* (1) */
        ASSERT(t->effective == (t->policy.is_paused ? LEVEL_CRITICAL : t->enforced)); /* (2) */
        throttled_check(core->throttled);                                             /* (3) */
}

const struct feature throttle_feature = {.name = "throttle",
                                         .is_local = true,
                                         .init = throttle_init,
                                         .release = throttle_release,
                                         .turn = throttle_turn,
                                         .next_ns = throttle_next_ns,
                                         .settle = throttle_wake,
                                         .settings_changed = throttle_refresh,
                                         .setting_ended = setting_ended,
                                         .check = throttle_check};

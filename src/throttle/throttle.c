/* See throttle.h.
 *
 * Samples come in on the loop; each updates the level of its target, and the worst level of all
 * targets that count is the one decided on.  A job is asked for when a claim is about to start it,
 * never before: what runs is not touched, and a job that waits costs nothing.  One that must wait
 * is parked: due again after the delay of its tier, with an event that says why, and on a list of
 * its tier so that the ramp finds it when the level falls.
 *
 * In the observe modes everything is computed and counted, and the job starts all the same. */
#include "throttle/throttle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/plural.h"
#include "base/say.h"
#include "base/shown.h"
#include "state/cap.h"
#include "things/setting.h"
#include "throttle/incident.h"
#include "throttle/last_level.h"
#include "throttle/own_queue.h"
#include "throttle/throttle_state.h"
#include "throttle/throttled.h"

#define HOUR_NS      (3600 * NS_PER_S)
#define HOOKS_KEPT   4096
#define SAY_EVERY_NS (10 * NS_PER_S)

/* These come by the thousand and have a ring of their own. */
static const char event_would_defer[] = "would_defer";
static const char event_deferred[] = "as_action_deferred";

/* ---- life ---- */

static void throttle_init(struct core *core)
{
        struct throttle *t = core->throttle = xcalloc(1, sizeof(*t));
        t->deciding = t->watching = -1;
        t->settings_seen = UINT64_MAX;
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

static void forget_hooks(struct throttle *t)
{
        for (struct hash_node *n; (n = hash_next(&t->hooks, NULL));) {
                hash_remove(&t->hooks, n);
                free(CONTAINER_OF(n, struct hook_count, node));
        }
}

static void throttle_release(struct core *core)
{
        struct throttle *t = core->throttle;
        throttled_free(core->throttled);
        throttle_setup_release(t);
        incident_groups_free(t->groups);
        forget_hooks(t);
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

/* ---- names ---- */

size_t throttle_targets(const struct core *core)
{
        return core->throttle->n_targets;
}

const char *throttle_target_name(const struct core *core, size_t target)
{
        ASSERT(target < core->throttle->n_targets);
        return core->throttle->targets[target].name;
}

int throttle_target(const struct core *core, struct slice name)
{
        const struct throttle *t = core->throttle;
        if (!name.len)
                return t->n_targets ? 0 : -1;
        for (size_t i = 0; i < t->n_targets; i++)
                if (slice_eq(name, slice_str(t->targets[i].name)))
                        return (int)i;
        return -1;
}

const char *throttle_metric_name(const struct core *core, size_t target, size_t metric)
{
        ASSERT(target < core->throttle->n_targets);
        ASSERT(metric < core->throttle->targets[target].n_metrics);
        return core->throttle->targets[target].metrics[metric].name;
}

/* "self/lag" and "shard/lag" are "lag". */
static struct slice without_scope(struct slice name)
{
        static const struct slice scopes[] = {SLICE_LIT("self/"), SLICE_LIT("shard/")};
        for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
                if (name.len > scopes[i].len && !memcmp(name.ptr, scopes[i].ptr, scopes[i].len))
                        return slice_make(name.ptr + scopes[i].len, name.len - scopes[i].len);
        return name;
}

static int find_metric(const struct target *g, struct slice name)
{
        for (size_t i = 0; i < g->n_metrics; i++)
                if (slice_eq(name, slice_str(g->metrics[i].name)))
                        return (int)i;
        return -1;
}

static int first_checked(const struct target *g)
{
        for (size_t i = 0; i < g->n_metrics; i++)
                if (g->metrics[i].is_checked)
                        return (int)i;
        return g->n_metrics ? 0 : -1;
}

int throttle_metric(const struct core *core, size_t target, struct slice name)
{
        static const struct {
                const char *theirs, *ours;
        } same[] = {
                {"lag", "replication_lag"},
                {"loadavg", "load_per_core"},
                {"mysqld-loadavg", "load_per_core"},
                {"mysqld-datadir-used-ratio", "disk_used"},
        };
        const struct target *g = &core->throttle->targets[target];
        struct slice bare = without_scope(name);
        int i = find_metric(g, bare);
        if (i < 0 && slice_eq(bare, SLICE_LIT("default")))
                i = first_checked(g);
        for (size_t k = 0; i < 0 && k < ARRAY_LEN(same); k++)
                if (slice_eq(bare, slice_str(same[k].theirs)))
                        i = find_metric(g, slice_str(same[k].ours));
        return i;
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
        if (!t->is_enforced_unmeasured)
                return t->effective;
        return worse_for_tier(&t->policy, t->effective, LEVEL_UNKNOWN, tier);
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

static void find_worst(struct core *core)
{
        struct throttle *t = core->throttle;
        enum level was = t->enforced, was_effective = t->effective;
        t->deciding = t->watching = -1;
        t->watched = t->decided = t->enforced = LEVEL_NORMAL;
        t->is_decided_unmeasured = t->is_enforced_unmeasured = false;
        for (size_t i = 0; i < t->n_targets; i++) {
                enum level level = t->targets[i].leveler.level;
                bool is_unmeasured = t->targets[i].leveler.is_unmeasured;
                enum gate_mode mode = throttle_mode_of(t, &t->targets[i]);
                if (mode == MODE_OFF)
                        continue;
                bool is_enforced = mode == MODE_ENFORCE;
                enum level *worst = is_enforced ? &t->enforced : &t->watched;
                if (badness(level) > badness(*worst))
                        *(is_enforced ? &t->deciding : &t->watching) = (int)i;
                raise_to(worst, level);
                t->is_enforced_unmeasured |= is_enforced && is_unmeasured;
                if (mode >= MODE_OBSERVE) {
                        raise_to(&t->decided, level);
                        t->is_decided_unmeasured |= is_unmeasured;
                }
        }
        t->effective = t->policy.is_paused ? LEVEL_CRITICAL : t->enforced;
        if (t->enforced != was)
                t->level_since_ns = core->now.steady_ns;
        if (t->effective != was_effective)
                effect_changed(core, was_effective);
        if (t->effective != was_effective)
                throttle_take_back(core, SIZE_MAX); /* other caps hold now */
}

enum level throttle_level_if_enforced(const struct throttle *t, bool *ret_unmeasured)
{
        enum level worst = t->policy.is_paused ? LEVEL_CRITICAL : LEVEL_NORMAL;
        *ret_unmeasured = false;
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                if (g->mode >= 0 && g->mode != MODE_ENFORCE)
                        continue;
                raise_to(&worst, g->leveler.level);
                *ret_unmeasured |= g->leveler.is_unmeasured;
        }
        return worst;
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
        }
        throttle_refresh(core);
        update_target(core, g);
        last_level_keep(core, g);
        for (size_t i = 0; i < t->n_listeners; i++)
                if (t->listeners[i]->sampled)
                        t->listeners[i]->sampled(core, target);
}

/* ---- decisions ---- */

bool throttle_is_off(const struct core *core)
{
        return core->throttle->is_off;
}

bool throttle_is_full(struct core *core, const struct job *job)
{
        struct throttle *t = core->throttle;
        if (t->adaptive == MODE_OFF || t->is_off)
                return false;
        enum tier tier = throttle_tier(core, job);
        size_t running = 0; /* of this tier and the more important ones */
        for (size_t i = 0; i <= tier; i++)
                running += core->state.n_running_tier[i];
        if (running < zone_limit(&t->zone, tier))
                return false;
        bool is_enforced = t->adaptive == MODE_ENFORCE;
        t->zone_waits[is_enforced]++;
        return is_enforced;
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

/* ---- put aside ---- */

#define ASIDE "gate:"

void throttle_put_aside(struct core *core, struct job *job)
{
        struct thing *aside = thing_get(&core->state, THING_CAP, SLICE_LIT(ASIDE));
        state_block(&core->state, job, aside);
        core->throttle->running_seen = core->state.running.len;
        if (!heap_has(&aside->alarm)) /* those who come back first may be claimed by nobody */
                thing_alarm(&core->state, aside, core->now.steady_ns + CAP_RETRY_NS);
}

void throttle_take_back(struct core *core, size_t max)
{
        struct thing *aside = thing_find(&core->state, THING_CAP, SLICE_LIT(ASIDE));
        if (aside && aside->waiting.len)
                (void)state_unblock(&core->state, aside, max);
}

static void throttle_wake(struct core *core)
{
        struct throttle *t = core->throttle;
        uint32_t running = core->state.running.len;
        if (running < t->running_seen)
                throttle_take_back(core, t->running_seen - running);
        t->running_seen = running;
}

void throttle_ask(struct core *core)
{
        struct throttle *t = core->throttle;
        if (!t->asked || core->now.steady_ns - t->asked_ns < NS_PER_S)
                return;
        t->asked_ns = core->now.steady_ns;
        t->asked(t->asked_ctx);
}

static void lower_caps(struct level_caps *caps, const struct level_caps *other)
{
        if (other->claim_size && (!caps->claim_size || other->claim_size < caps->claim_size))
                caps->claim_size = other->claim_size;
        if (other->claims && (!caps->claims || other->claims < caps->claims))
                caps->claims = other->claims;
}

struct level_caps throttle_caps(const struct core *core)
{
        const struct throttle *t = core->throttle;
        struct level_caps caps = t->policy.caps[t->effective];
        if (t->is_enforced_unmeasured)
                lower_caps(&caps, &t->policy.caps[LEVEL_UNKNOWN]);
        return caps;
}

static struct hook_count *count_of_hook(struct throttle *t, struct slice hook, int64_t now_ns)
{
        int64_t hour = now_ns / HOUR_NS;
        struct hash_node *n = hash_find(&t->hooks, hook);
        struct hook_count *c = n ? CONTAINER_OF(n, struct hook_count, node) : NULL;
        if (!c) {
                if (t->hooks.len >= HOOKS_KEPT)
                        forget_hooks(t);
                c = xcalloc(1, sizeof(*c) + hook.len);
                memcpy(c->text, hook.ptr ? hook.ptr : "", hook.len);
                c->hour = hour;
                hash_insert(&t->hooks, &c->node, slice_make(c->text, hook.len));
        }
        if (c->hour != hour) {
                c->before = c->hour == hour - 1 ? c->now : 0;
                c->now = 0;
                c->hour = hour;
        }
        return c;
}

static uint32_t deferrals_of(const struct hook_count *c, int64_t now_ns)
{
        int64_t left = HOUR_NS - now_ns % HOUR_NS; /* of the hour before, still within 60 min */
        return c->now + (uint32_t)((uint64_t)c->before * (uint64_t)(left / NS_PER_S) / 3600);
}

static enum tier tier_of(const struct throttle *t, const struct job *job)
{
        uint64_t own = job->extra ? job->extra->options.tier : 0;
        return own ? (enum tier)(own - 1) : registry_tier(t->registry, name_slice(job->hook));
}

enum tier throttle_tier(const struct core *core, const struct job *job)
{
        return tier_of(core->throttle, job);
}

static bool is_idle(const struct throttle *t)
{
        return !t->policy.is_paused && t->decided == LEVEL_NORMAL;
}

/* Of a target that is not measured only its last known level is known: as long as that is so, what
 * applies to a tier is the worse of it and unknown. */
static enum level decided_level(const struct throttle *t, enum level level, bool is_unmeasured,
                                enum tier tier)
{
        return is_unmeasured ? worse_for_tier(&t->policy, level, LEVEL_UNKNOWN, tier) : level;
}

struct gate_answer throttle_look(struct core *core, const struct job *job, enum tier *ret_tier)
{
        struct throttle *t = core->throttle;
        throttle_refresh(core);
        *ret_tier = tier_of(t, job);
        struct gate_ask ask = parking_ask(core, job, *ret_tier);
        ask.level = decided_level(t, t->enforced, t->is_enforced_unmeasured, *ret_tier);
        if (t->policy.deferrals_per_hour)
                ask.hook_deferrals =
                        deferrals_of(count_of_hook(t, name_slice(job->hook), core->now.steady_ns),
                                     core->now.steady_ns);
        struct policy policy = t->policy;
        policy.mode = MODE_ENFORCE;
        struct gate_answer a = gate_decide(&policy, &ask);
        if (a.is_wait || t->policy.is_paused ||
            (t->decided == t->enforced && t->is_decided_unmeasured == t->is_enforced_unmeasured))
                return a;
        policy.mode = MODE_OBSERVE; /* what those that are only observed would do */
        ask.level = decided_level(t, t->decided, t->is_decided_unmeasured, *ret_tier);
        return gate_decide(&policy, &ask);
}

/* The target that was decided on: one with that level whose mode does what was done. */
static const struct target *target_of(const struct throttle *t, const struct gate_answer *a)
{
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                bool is_level = g->leveler.level == a->level ||
                                (a->level == LEVEL_UNKNOWN && g->leveler.is_unmeasured);
                if (is_level &&
                    throttle_mode_of(t, g) >= (a->is_wait ? MODE_ENFORCE : MODE_OBSERVE))
                        return g;
        }
        return NULL;
}

/* What becomes of a job that would expire while it waits. */
static void put_expiry(const struct gate_answer *a, char *ret, size_t size)
{
        char time[DURATION_TEXT_MAX];
        ret[0] = '\0';
        if (a->expiry == EXPIRY_STARTS)
                (void)snprintf(ret, size, " and then starts, %s before it expires",
                               duration_words(a->margin_ms, time));
        else if (a->expiry == EXPIRY_PASSES)
                (void)snprintf(ret, size, "; it expires before that");
}

/* Of the metric that is not known: how old its last value is. */
static int64_t unknown_age_ms(const struct core *core, const struct target *g)
{
        const struct leveler *l = &g->leveler;
        int64_t at_ns = g->samples[l->metric].at_ns;
        return at_ns ? (core->now.steady_ns - at_ns) / NS_PER_MS : (int64_t)(l->value * MS_PER_S);
}

/* "critical load on shop: threads_running 150 against 15; tier normal waits 15 min"; when the value
 * has changed since the level rose: "threads_running 12, was 150 against 15".  It is kept as an
 * event: no word in it may be true only now. */
void throttle_put_reason(const struct core *core, const struct gate_answer *a, enum tier tier,
                         char *ret)
{
        const struct throttle *t = core->throttle;
        const struct target *g = a->reason == GATE_PAUSED ? NULL : target_of(t, a);
        const struct leveler *l = g ? &g->leveler : NULL;
        char wait[128], time[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX], last[THROTTLE_TEXT];
        char expiry[64];
        put_expiry(a, expiry, sizeof(expiry));
        (void)snprintf(wait, sizeof(wait), "tier %s %s %s%s%s", tier_name(tier),
                       a->is_wait ? "waits" : "would wait", duration_words(a->delay_ms, time),
                       expiry, a->is_wait ? "" : " (observe)");
        const struct level_sample *s = g && l->metric >= 0 ? &g->samples[l->metric] : NULL;
        if (!g)
                (void)snprintf(ret, THROTTLE_TEXT, "paused by the operator; %s", wait);
        else if (target_is_unmeasured(g))
                (void)snprintf(ret, THROTTLE_TEXT, "load of %s %s; %s", g->name,
                               last_level_words(g, last), wait);
        else if (l->metric < 0)
                (void)snprintf(ret, THROTTLE_TEXT, "load of %s is %s; %s", g->name,
                               level_name(a->level), wait);
        else if (a->level == LEVEL_UNKNOWN) /* then both are ages in s */
                (void)snprintf(ret, THROTTLE_TEXT,
                               "unknown load on %s: %s %s old, at most %s is allowed; %s", g->name,
                               g->metrics[l->metric].name,
                               duration_words(unknown_age_ms(core, g), time),
                               duration_words((int64_t)(l->threshold * MS_PER_S), most), wait);
        else if (s->at_ns && s->value != l->value)
                (void)snprintf(ret, THROTTLE_TEXT, "%s load on %s: %s %g, was %g against %g; %s",
                               level_name(a->level), g->name, g->metrics[l->metric].name, s->value,
                               l->value, l->threshold, wait);
        else
                (void)snprintf(ret, THROTTLE_TEXT, "%s load on %s: %s %g against %g; %s",
                               level_name(a->level), g->name, g->metrics[l->metric].name, l->value,
                               l->threshold, wait);
}

static void say_deferral(struct core *core, const struct job *job, const char *name,
                         const char *text)
{
        struct throttle *t = core->throttle;
        throttle_tell(core, name, "job %llu %.*s: %s", (unsigned long long)job_id(job),
                      (int)job->hook->len, job->hook->text, text);
        if (core->now.steady_ns - t->last_said_ns < SAY_EVERY_NS && t->last_said_ns)
                return;
        t->last_said_ns = core->now.steady_ns;
        char hook[LIMIT_NAME_BYTES + 1]; /* a name has no NUL of its own */
        (void)snprintf(hook, sizeof(hook), "%.*s", (int)job->hook->len, job->hook->text);
        say_info("gate", name, "job", SAY_I64(job_id(job)), "hook", hook, "why", text);
}

static void tell_deferral(struct core *core, const struct job *job, enum tier tier,
                          const struct gate_answer *a, const char *why)
{
        struct throttle *t = core->throttle;
        bool is_load = a->reason != GATE_PAUSED && a->reason != GATE_RAMP;
        const struct target *g = is_load ? target_of(t, a) : NULL;
        throttled_deferral(core, job, tier, a, g ? g->name : "", why);
        (a->is_wait ? t->deferred : t->observed)[tier]++;
        const char *event = a->is_wait ? event_deferred : event_would_defer;
        incident_count(core, event, name_slice(job->hook), (int)tier, why);
        say_deferral(core, job, event, why);
}

/* The gate lets it run.  False: it was parked behind older jobs of its hook. */
static bool admit_in_line(struct core *core, const struct job *job, enum tier tier)
{
        if (!parking_is_behind(core, job, tier))
                return true;
        char why[THROTTLE_TEXT];
        struct gate_answer a = {.is_wait = true, .would_wait = true, .reason = GATE_RAMP};
        parking_line_up(core, job, tier, why);
        tell_deferral(core, job, tier, &a, why);
        return false;
}

bool throttle_admit(struct core *core, struct job *job)
{
        struct throttle *t = core->throttle;
        enum tier tier;
        throttle_refresh(core);
        if (is_idle(t))
                return !parking_has_jobs_of(job->hook) || admit_in_line(core, job, tier_of(t, job));
        struct gate_answer a = throttle_look(core, job, &tier);
        t->decisions[a.level][tier][a.would_wait]++;
        if (!a.would_wait)
                return admit_in_line(core, job, tier);
        char why[THROTTLE_TEXT];
        throttle_put_reason(core, &a, tier, why);
        count_of_hook(t, name_slice(job->hook), core->now.steady_ns)->now++;
        tell_deferral(core, job, tier, &a, why);
        if (!a.is_wait)
                return admit_in_line(core, job, tier);
        parking_park(core, job, tier, &a, why);
        return false;
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
        last_levels_keep(core);
        begin_after_start(core);
        run_ramp(core);
        parking_turn(core);
        run_zone(core);
        throttle_wake(core);
}

static int64_t throttle_next_ns(const struct core *core)
{
        const struct throttle *t = core->throttle;
        int64_t next = ramp_next_ns(&t->ramp);
        if (parking_is_busy(core))
                return core->now.steady_ns;
        if (t->adaptive != MODE_OFF && zone_next_ns(&t->zone) < next)
                next = zone_next_ns(&t->zone);
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
                                         .init = throttle_init,
                                         .release = throttle_release,
                                         .turn = throttle_turn,
                                         .next_ns = throttle_next_ns,
                                         .settle = throttle_wake,
                                         .settings_changed = throttle_refresh,
                                         .setting_ended = setting_ended,
                                         .check = throttle_check};

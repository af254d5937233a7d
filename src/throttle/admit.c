/* Decisions about one job, at the moment a claim is about to start it.
 *
 * A running job is never touched, and a job that waits costs nothing.  A job that must wait is
 * parked: it is due again after the delay of its tier, with an event that gives the reason, and it
 * is on the list of its tier so that the ramp finds it when the level falls.  A job that only the
 * number of running jobs keeps is put aside until one of them ends.
 *
 * In the observe modes everything is computed and counted, and the job starts all the same. */
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/say.h"
#include "state/cap.h"
#include "throttle/incident.h"
#include "throttle/last_level.h"
#include "throttle/throttle_state.h"
#include "throttle/throttled.h"

#define HOUR_NS      (3600 * NS_PER_S)
#define HOOKS_KEPT   4096
#define SAY_EVERY_NS (10 * NS_PER_S)

/* ---- limits ---- */

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

void throttle_ask(struct core *core)
{
        struct throttle *t = core->throttle;
        if (!t->asked || core->now.steady_ns - t->asked_ns < NS_PER_S)
                return;
        t->asked_ns = core->now.steady_ns;
        t->asked(t->asked_ctx);
}

struct level_caps throttle_caps(const struct core *core)
{
        return core->throttle->caps;
}

/* ---- deferrals of a hook ---- */

void throttle_forget_hooks(struct throttle *t)
{
        for (struct hash_node *n; (n = hash_next(&t->hooks, NULL));) {
                hash_remove(&t->hooks, n);
                free(CONTAINER_OF(n, struct hook_count, node));
        }
}

static struct hook_count *count_of_hook(struct throttle *t, struct slice hook, int64_t now_ns)
{
        int64_t hour = now_ns / HOUR_NS;
        struct hash_node *n = hash_find(&t->hooks, hook);
        struct hook_count *c = n ? CONTAINER_OF(n, struct hook_count, node) : NULL;
        if (!c) {
                if (t->hooks.len >= HOOKS_KEPT)
                        throttle_forget_hooks(t);
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

uint32_t throttle_hook_deferrals(struct core *core, struct slice hook)
{
        return deferrals_of(count_of_hook(core->throttle, hook, core->now.steady_ns),
                            core->now.steady_ns);
}

void throttle_count_deferrals(struct core *core, struct slice hook, uint32_t n)
{
        count_of_hook(core->throttle, hook, core->now.steady_ns)->now += n;
}

/* ---- decisions ---- */

enum tier throttle_tier(const struct core *core, const struct job *job)
{
        const struct registry *registry = core->throttle->registry;
        uint64_t own = job->extra ? job->extra->options.tier : 0;
        return own ? (enum tier)(own - 1) : registry_tier(registry, name_slice(job->hook));
}

struct gate_answer throttle_look(struct core *core, const struct job *job, enum tier *ret_tier)
{
        struct throttle *t = core->throttle;
        throttle_refresh(core);
        *ret_tier = throttle_tier(core, job);
        struct gate_ask ask = parking_ask(core, job, *ret_tier);
        ask.level = t->enforced_for[*ret_tier];
        if (t->policy.deferrals_per_hour)
                ask.hook_deferrals = throttle_hook_deferrals(core, name_slice(job->hook));
        struct policy policy = t->policy;
        policy.mode = MODE_ENFORCE;
        struct gate_answer a = gate_decide(&policy, &ask);
        if (a.is_wait || t->policy.is_paused || t->decided_for[*ret_tier] == ask.level)
                return a;
        policy.mode = MODE_OBSERVE; /* what those that are only observed would do */
        ask.level = t->decided_for[*ret_tier];
        return gate_decide(&policy, &ask);
}

/* The target that was decided on: one that means that level for the tier, and whose mode does what
 * was done. */
static const struct target *target_of(const struct core *core, const struct gate_answer *a,
                                      enum tier tier)
{
        const struct throttle *t = core->throttle;
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                const struct leveler *l = &g->leveler;
                enum level own = leveler_level_for(l, &t->policy, tier, core->now.steady_ns);
                bool is_level = l->level == a->level || own == a->level;
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
        const struct target *g = a->reason == GATE_PAUSED ? NULL : target_of(core, a, tier);
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
        else if (l->level == LEVEL_UNKNOWN) /* then both are ages in s */
                (void)snprintf(ret, THROTTLE_TEXT,
                               "unknown load on %s%s%s%s: %s %s old, at most %s is allowed; %s",
                               g->name, a->level == LEVEL_UNKNOWN ? "" : ", ",
                               a->level == LEVEL_UNKNOWN ? "" : level_name(a->level),
                               a->level == LEVEL_UNKNOWN ? "" : " before",
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
        const struct target *g = is_load ? target_of(core, a, tier) : NULL;
        throttled_deferral(core, job, tier, a, g ? g->name : "", why);
        (a->is_wait ? t->deferred : t->observed)[tier]++;
        if (a->is_wait)
                tally_deferred(core->tally, job);
        const char *event = a->is_wait ? "as_action_deferred" : "would_defer";
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
        if (t->decided == LEVEL_NORMAL && !t->policy.is_paused)
                return !parking_has_jobs_of(job->hook) ||
                       admit_in_line(core, job, throttle_tier(core, job));
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

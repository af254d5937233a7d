/* The check door: may this step go now?
 *
 * An ask is looked up (who, where, how important, by which metrics), decided by gate/check.h from
 * the samples at hand, and counted.  Nothing of it is in the log, nothing waits for the disk, and
 * nothing is allocated for an asker that is known.
 *
 * Which metrics: those the ask names; else those a rule gives its name; else those the target is
 * configured to be checked by.  Which threshold: the ask's (a read check of freno's), else a
 * rule's, else the metric's own.
 *
 * The level of the target speaks only where it comes from a metric that the ask is not checked by:
 * where it is, the threshold is the finer judge, and waiting out the level's dwell on top would
 * turn a steady trickle into stop and go.  It always speaks for a door that decides by itself
 * (freeze.c), and of a target that holds what its level held before it became unknown. */
#include "checks/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/shown.h"
#include "checks/check_ctx.h"
#include "checks/client_int.h"
#include "state/setting.h"
#include "throttle/throttled.h"

#define LOW_MEMORY_NS NS_PER_S /* as freno remembers a refusal */
/* With more names, checked builds do not look at all of them in each turn. */
#define CHECKED_CLIENTS_MAX 200
#define WAIT_MAX_MS         60000
#define WAIT_USUAL_MS       1000
#define POOL_EVERY_NS       NS_PER_S
#define EXEMPT_BUDGET       0.2
#define WHY_TEXT            ((size_t)2 * THROTTLE_TEXT)

/* ---- life ---- */

void checking_reset(struct core *core)
{
        struct check_ctx *c = core->checking;
        struct core_checks *options = &core->checks;
        ASSERT(!c->n_waiting);
        if (!options->rule_max_ms)
                options->rule_max_ms = RULE_MAX_DEFAULT_MS;
        if (!options->starved_ms)
                options->starved_ms = STARVED_DEFAULT_MS;
        if (!(options->exempt_budget > 0))
                options->exempt_budget = EXEMPT_BUDGET;
        if (!(options->credit.aim > 0))
                credit_rule_init(&options->credit);
        free(c->targets);
        c->n_targets = throttle_targets(core);
        c->targets = xcalloc(c->n_targets + 1, sizeof(*c->targets));
        c->mode_seen = UINT64_MAX;
        for (size_t i = 0; i <= c->n_targets; i++) {
                credit_init(&c->targets[i].pool);
                list_init(&c->targets[i].lanes);
        }
}

struct check_state *check_state_of(struct core *core, int target)
{
        struct check_ctx *c = core->checking;
        return &c->targets[target < 0 ? c->n_targets : (size_t)target];
}

static uint8_t target_number(int target)
{
        return target >= 0 && target < CHECK_NO_TARGET ? (uint8_t)target : CHECK_NO_TARGET;
}

enum gate_mode check_mode(struct core *core)
{
        struct check_ctx *c = core->checking;
        if (c->mode_seen == core->state.settings_version)
                return c->mode;
        const struct thing *t = thing_find(&core->state, THING_SETTING, SLICE_LIT(SETTING_CHECK));
        int mode =
                t ? mode_from_name(buf_slice(&CONTAINER_OF(t, const struct setting, thing)->bytes))
                  : -1;
        c->mode = mode >= 0 ? (enum gate_mode)mode : core->checks.mode;
        c->mode_seen = core->state.settings_version;
        return c->mode;
}

/* ---- looking up ---- */

static int no_metric(const struct target *g, struct slice name, struct problem *problem)
{
        char names[CHECK_TEXT] = "";
        size_t used = 0;
        for (size_t i = 0; i < g->n_metrics && used < sizeof(names); i++)
                used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
                                         g->metrics[i].name);
        return problem_set(problem, ERR_NOTFOUND, "%s has no metric '%s'; it has %s", g->name,
                           SHOWN(name), names);
}

static int look_up_target(struct core *core, const struct check_ask *ask, struct ask_ctx *a,
                          struct problem *problem)
{
        a->target = throttle_target(core, ask->target);
        a->is_lost = a->target < 0 && ask->target.len;
        if (a->target >= 0 && ask->kind.len) {
                const char *kind = core->throttle->targets[a->target].kind;
                a->is_lost = !kind || !slice_eq(ask->kind, slice_str(kind));
        }
        if (!a->is_lost)
                return OK;
        a->target = -1;
        if (ask->is_rules_first) { /* a rule or a pause may refuse it even so */
                struct rule_match match;
                rule_match(core, &a->who, SLICE_NONE, &match);
                if (match.share || core->throttle->policy.is_paused)
                        return OK;
        }
        return throttle_no_target(core, ask->target, problem);
}

static int look_up_metrics(struct core *core, const struct check_ask *ask, struct ask_ctx *a,
                           struct problem *problem)
{
        if (!ask->n_metrics)
                return OK;
        if (a->target < 0)
                return throttle_no_target(core, SLICE_NONE, problem);
        const struct target *g = &core->throttle->targets[a->target];
        for (size_t i = 0; i < ask->n_metrics; i++) {
                int metric = throttle_metric(core, (size_t)a->target, ask->metrics[i]);
                if (metric < 0)
                        return no_metric(g, ask->metrics[i], problem);
                if (a->n_metrics == CHECK_METRICS_MAX)
                        return problem_set(problem, ERR_TOOBIG, "at most %d metrics may be asked",
                                           CHECK_METRICS_MAX);
                a->metrics[a->n_metrics] = (uint8_t)metric;
                a->asked[a->n_metrics++] = ask->metrics[i];
        }
        return OK;
}

/* The tier of the most specific part that is registered. */
enum tier check_registered_tier(const struct core *core, const struct identity *who)
{
        for (size_t i = 0; i < who->n; i++) {
                struct slice pattern = SLICE_NONE;
                enum tier tier = registry_explain(core->throttle->registry, who->part[i], &pattern);
                if (pattern.len)
                        return tier;
        }
        return TIER_NORMAL;
}

/* Looked up once per identity and registry: patterns cost more than all the rest of a check. */
static enum tier tier_of(const struct core *core, const struct ask_ctx *a)
{
        struct client_note *note = client_note(a->client);
        if (note->registry_seen != core->throttle->registry_version) {
                note->registry_seen = core->throttle->registry_version;
                note->tier = check_registered_tier(core, &a->who);
        }
        return note->tier;
}

int check_look_up(struct core *core, const struct check_ask *ask, struct ask_ctx *ret,
                  struct problem *problem)
{
        /* Not zeroed as a whole: the arrays are read up to n_metrics only. */
        ret->n_metrics = 0;
        int r = identity_parse(ask->identity, &ret->who, problem);
        if (r == OK)
                r = look_up_target(core, ask, ret, problem);
        if (r == OK)
                r = look_up_metrics(core, ask, ret, problem);
        if (r != OK)
                return r;
        throttle_refresh(core);
        ret->client = client_get(core, &ret->who);
        ret->tier = ask->tier >= 0 ? (enum tier)ask->tier : tier_of(core, ret);
        ret->cost = ask->cost ? ask->cost : 1;
        ret->roll = NULL;
        ret->is_frozen = false;
        ret->is_contract = ask->is_contract;
        ret->is_low = ask->is_low;
        ret->is_read = ask->is_read;
        ret->threshold = ask->threshold > 0 ? ask->threshold : NAN;
        ret->address = ask->address;
        ret->is_authenticated = ask->is_authenticated;
        return OK;
}

/* ---- deciding ---- */

static void add_metric(const struct core *core, const struct ask_ctx *a, size_t metric,
                       struct slice asked, struct check_answer *ret)
{
        const struct target *g = &core->throttle->targets[a->target];
        const struct level_sample *s = &g->samples[metric];
        struct check_metric *m = &ret->metrics[ret->n_metrics];
        bool is_known = g->leveler.known_mask >> metric & 1;
        /* One that was never sampled is unknown from the beginning; its value would be missed. */
        int64_t until_ns =
                s->at_ns ? level_good_until_ns(&g->rules[metric], s) : g->leveler.began_ns;
        m->name = g->metrics[metric].name;
        m->asked = asked.ptr ? asked : slice_str(m->name);
        m->number = (uint8_t)metric;
        m->age_ms = s->at_ns ? (core->now.steady_ns - s->at_ns) / NS_PER_MS : -1;
        m->error = is_known ? "" : g->metrics[metric].error;
        m->v = (struct check_value){
                .value = s->value,
                .threshold = g->metrics[metric].check_above,
                .is_known = is_known,
                .unknown_ms = is_known ? 0 : (core->now.steady_ns - until_ns) / NS_PER_MS,
        };
        ret->n_metrics++;
}

static bool has_metric(const struct check_answer *ret, const char *name)
{
        for (size_t i = 0; i < ret->n_metrics; i++)
                if (strcmp(ret->metrics[i].name, name) == 0)
                        return true;
        return false;
}

/* The lists of rules together; names that this target does not have are passed over. */
static void add_by_rules(struct core *core, const struct ask_ctx *a, const struct rule_match *match,
                         struct check_answer *ret)
{
        for (size_t i = 0; i < match->n_metrics; i++) {
                struct slice rest = match->metrics[i]->list, name;
                double value;
                while (rule_list_next(&rest, &name, &value)) {
                        int k = throttle_metric(core, (size_t)a->target, name);
                        if (k >= 0 && ret->n_metrics < CHECK_METRICS_MAX &&
                            !has_metric(ret,
                                        throttle_metric_name(core, (size_t)a->target, (size_t)k)))
                                add_metric(core, a, (size_t)k, name, ret);
                }
        }
}

static void choose_metrics(struct core *core, const struct ask_ctx *a,
                           const struct rule_match *match, struct check_answer *ret)
{
        ret->n_metrics = 0;
        if (a->target < 0)
                return;
        const struct target *g = &core->throttle->targets[a->target];
        for (size_t i = 0; i < a->n_metrics; i++)
                add_metric(core, a, a->metrics[i], a->asked[i], ret);
        if (!ret->n_metrics)
                add_by_rules(core, a, match, ret);
        if (ret->n_metrics)
                return;
        /* Also when a rule names only what this target does not have: unchecked would be worse. */
        for (size_t i = 0; i < g->n_metrics && ret->n_metrics < CHECK_METRICS_MAX; i++)
                if (g->metrics[i].is_checked)
                        add_metric(core, a, i, SLICE_NONE, ret);
}

static void set_thresholds(struct core *core, const struct ask_ctx *a,
                           const struct rule_match *match, struct check_answer *ret)
{
        struct slice rest = match->threshold ? match->threshold->list : SLICE_NONE, name;
        double value;
        while (rule_list_next(&rest, &name, &value)) {
                int k = throttle_metric(core, (size_t)a->target, name);
                for (size_t i = 0; k >= 0 && i < ret->n_metrics; i++)
                        if (strcmp(ret->metrics[i].name,
                                   throttle_metric_name(core, (size_t)a->target, (size_t)k)) == 0)
                                ret->metrics[i].v.threshold = value;
        }
        if (!isnan(a->threshold) && ret->n_metrics)
                ret->metrics[0].v.threshold = a->threshold;
}

static struct check_rule rule_value(const struct rule *r)
{
        static const enum check_share shares[RULE_KINDS] = {
                [RULE_HOLD] = SHARE_HOLD, [RULE_RATIO] = SHARE_RATIO, [RULE_EXEMPT] = SHARE_EXEMPT};
        if (!r)
                return (struct check_rule){SHARE_NONE, 0};
        return (struct check_rule){shares[r->kind], (double)r->ratio_ppm / RULE_RATIO_ONE};
}

/* NULL: there is none. */
static const struct target *target_of(const struct core *core, const struct ask_ctx *a)
{
        if (a->target < 0)
                return NULL;
        ASSERT(core->throttle->targets);
        return &core->throttle->targets[a->target];
}

/* A metric that it is checked by is not known: the rule for that says more than the level. */
static bool has_unknown(const struct check_answer *answer)
{
        for (size_t i = 0; i < answer->n_metrics; i++)
                if (!answer->metrics[i].v.is_known)
                        return true;
        return false;
}

/* The target is unknown, and holds the tier as its level before did (gate/level.h).  A rule for a
 * metric that is not known may say itself for how long. */
static bool is_held(const struct core *core, const struct ask_ctx *a,
                    const struct check_answer *answer)
{
        const struct target *g = target_of(core, a);
        bool says_itself = g->unknown[a->tier].policy == UNKNOWN_WAIT && has_unknown(answer);
        return !says_itself &&
               leveler_is_held(&g->leveler, &core->throttle->policy, a->tier, core->now.steady_ns);
}

/* Does the level come from a metric that this ask is not checked by, and does its tier wait? */
static bool waits_for_level(const struct core *core, const struct ask_ctx *a,
                            const struct check_answer *answer)
{
        const struct target *g = target_of(core, a);
        if (a->is_contract || !g)
                return false;
        const struct leveler *l = &g->leveler;
        bool is_unknown = l->level == LEVEL_UNKNOWN;
        if (is_held(core, a, answer))
                return true;
        if (l->level == LEVEL_NORMAL || (is_unknown && (!a->is_frozen || has_unknown(answer))))
                return false;
        if (!a->is_frozen && (l->metric < 0 || has_metric(answer, g->metrics[l->metric].name)))
                return false;
        if (is_unknown && l->is_unmeasured && l->pending_mask)
                return false; /* its first samples are still to come */
        return core->throttle->policy.delay_ms[l->level][a->tier] > 0;
}

static uint32_t bounded_wait(int64_t ms)
{
        return ms < 1 ? 1 : ms > WAIT_MAX_MS ? WAIT_MAX_MS : (uint32_t)ms;
}

static uint32_t wait_of(struct core *core, const struct ask_ctx *a, const struct rule_match *match,
                        const struct check_answer *answer)
{
        const struct check_state *s = check_state_of(core, a->target);
        int64_t now = core->now.steady_ns, pause_ns;
        switch (answer->verdict.reason) {
        case CHECK_PAUSED:
                pause_ns = throttle_pause_ns(core);
                return bounded_wait(pause_ns == INT64_MAX ? WAIT_MAX_MS
                                                          : (pause_ns - now) / NS_PER_MS + 1);
        case CHECK_HOLD:
                return bounded_wait(match->share->until_ns
                                            ? (match->share->until_ns - now) / NS_PER_MS + 1
                                            : WAIT_MAX_MS);
        case CHECK_LOW_PRIORITY:
                return bounded_wait((s->refused_ns + LOW_MEMORY_NS - now) / NS_PER_MS + 1);
        case CHECK_LEVEL:
                return bounded_wait(core->throttle->targets[a->target].dwell_ns / NS_PER_MS);
        case CHECK_GRANTED:
        case CHECK_OFF:
        case CHECK_EXEMPT:
        case CHECK_RATIO:
        case CHECK_UNKNOWN:
        case CHECK_THRESHOLD:
        case CHECK_LIMIT:
        case CHECK_REASONS:
                break;
        }
        return WAIT_USUAL_MS;
}

_Static_assert(CHECK_RULE > RULE_NAME_BYTES && CHECK_WHO > IDENTITY_BYTES,
               "a rule is named in full");

static void put_rule_name(const struct rule *r, struct check_answer *ret)
{
        (void)snprintf(ret->rule, sizeof(ret->rule), "%.*s", (int)r->called.len, r->called.ptr);
}

static void name_rule(const struct rule_match *match, struct check_answer *ret)
{
        const struct check_verdict *v = &ret->verdict;
        const struct rule *r = NULL;
        ret->rule[0] = '\0';
        if (v->reason == CHECK_HOLD || v->reason == CHECK_RATIO || v->reason == CHECK_EXEMPT)
                r = match->share;
        else if (v->is_granted && v->would_refuse &&
                 (v->would_reason == CHECK_HOLD || v->would_reason == CHECK_RATIO))
                r = match->observed;
        else if (v->reason == CHECK_THRESHOLD)
                r = match->threshold;
        if (r)
                put_rule_name(r, ret);
        /* A copy: an exemption that is past its budget is gone when the answer is told. */
        size_t len = match->share ? match->share->who.len : 0;
        ASSERT(len <= IDENTITY_BYTES);
        if (len)
                memcpy(ret->matched, match->share->who.ptr, len);
        ret->matched[len] = '\0';
}

static enum gate_mode mode_of(struct core *core, const struct target *g)
{
        return g && g->mode >= 0 ? (enum gate_mode)g->mode : check_mode(core);
}

static struct check_case case_of(struct core *core, const struct ask_ctx *a,
                                 const struct rule_match *match, const struct check_answer *answer)
{
        const struct throttle *t = core->throttle;
        const struct target *g = target_of(core, a);
        const struct check_state *s = check_state_of(core, a->target);
        bool is_low = !a->is_frozen && (a->is_low || a->tier == TIER_DEFERRABLE);
        struct check_ctx *c = core->checking;
        for (size_t i = 0; i < answer->n_metrics; i++)
                c->values[i] = answer->metrics[i].v;
        return (struct check_case){
                .mode = a->is_frozen ? MODE_ENFORCE : mode_of(core, g),
                .tier = a->tier,
                .is_paused = t->policy.is_paused && t->policy.delay_ms[LEVEL_CRITICAL][a->tier],
                .is_low = is_low && s->refused_ns &&
                          core->now.steady_ns - s->refused_ns < LOW_MEMORY_NS,
                .rule = rule_value(match->share),
                .observed = rule_value(match->observed),
                .has_level = waits_for_level(core, a, answer),
                .unknown = g ? g->unknown[a->tier] : (struct unknown_rule){UNKNOWN_OPEN, 0},
                .values = c->values,
                .n_values = answer->n_metrics,
                .roll = a->roll,
        };
}

/* For an ask that its metrics grant: what the lists that only observe would have answered. */
static void look_at_trial(struct core *core, const struct ask_ctx *a, struct check_answer *ret)
{
        struct check_answer *trial = &core->checking->trial;
        struct rule_match match;
        ret->would.name = NULL;
        if (!ret->verdict.is_granted || ret->verdict.reason != CHECK_GRANTED ||
            ret->verdict.would_refuse || a->target < 0)
                return;
        const struct rule *r = rule_match_trial(core, &a->who, ret->target, &match);
        if (!r)
                return;
        choose_metrics(core, a, &match, trial);
        set_thresholds(core, a, &match, trial);
        struct check_case c = case_of(core, a, &match, trial);
        c.mode = MODE_ENFORCE;
        c.is_paused = c.is_low = false;
        c.rule = c.observed = (struct check_rule){SHARE_NONE, 0};
        struct check_verdict v = check_decide(&c, core->options.rng); /* without dice */
        if (v.is_granted || v.value < 0)
                return;
        ret->verdict.would_refuse = true;
        ret->verdict.would_reason = v.reason;
        ret->would = trial->metrics[v.value];
        put_rule_name(r, ret);
}

/* ---- the answer ---- */

void check_answer(struct core *core, const struct ask_ctx *a, struct check_answer *ret)
{
        struct rule_match match;
        ret->target =
                a->target < 0 ? SLICE_NONE : slice_str(core->throttle->targets[a->target].name);
        rule_match(core, &a->who, ret->target, &match);
        choose_metrics(core, a, &match, ret);
        if (match.threshold || !isnan(a->threshold))
                set_thresholds(core, a, &match, ret);
        struct check_case c = case_of(core, a, &match, ret);
        ret->verdict = check_decide(&c, core->options.rng);
        ret->tier = a->tier;
        name_rule(&match, ret);
        look_at_trial(core, a, ret);
        ret->credits = ret->credit_ms = ret->wait_ms = 0;
        if (!ret->verdict.is_granted)
                ret->wait_ms = wait_of(core, a, &match, ret);
        if (ret->verdict.reason == CHECK_EXEMPT && ret->verdict.is_over && !a->is_frozen)
                check_spend_budget(core, a, match.share);
}

void check_give_credits(struct core *core, const struct ask_ctx *a, struct check_answer *ret)
{
        struct check_state *s = check_state_of(core, a->target);
        uint8_t target = target_number(a->target);
        if (!ret->verdict.is_granted || ret->verdict.reason != CHECK_GRANTED || a->is_contract ||
            a->target < 0)
                return;
        struct client_note *note = client_note(a->client);
        int64_t late_ns = note->paced_ns ? core->now.steady_ns - note->paced_ns : INT64_MAX;
        if (note->paced_ns && note->paced_target != target)
                late_ns = 0; /* it asks elsewhere too: nobody knows */
        struct credit_grant g = credit_give(&s->pool, &core->checks.credit,
                                            clients_active(core, target), a->cost, late_ns);
        ret->credits = g.steps;
        ret->credit_ms = g.ms;
        if (mode_of(core, target_of(core, a)) == MODE_ENFORCE) /* a trial slows nobody down */
                ret->wait_ms = g.pause_ms;
        note->paced_target = target;
        note->paced_ns = core->now.steady_ns + ret->wait_ms * NS_PER_MS;
}

int64_t check_paced_ns(const struct ask_ctx *a)
{
        const struct client_note *note = client_note(a->client);
        return note->paced_target == target_number(a->target) ? note->paced_ns : 0;
}

/* "threads_running 150 against 15"; "" where the reason says it all. */
void check_put_detail(const struct core *core, const struct ask_ctx *a,
                      const struct check_answer *answer, enum check_reason reason,
                      char ret[CHECK_TEXT])
{
        const struct target *g = target_of(core, a);
        const struct leveler *l = g ? &g->leveler : NULL;
        const struct check_metric *m =
                answer->verdict.value >= 0 ? &answer->metrics[answer->verdict.value] : NULL;
        if (answer->would.name)
                m = &answer->would;
        ret[0] = '\0';
        if (reason == CHECK_THRESHOLD && m)
                (void)snprintf(ret, CHECK_TEXT, "%s %g against %g", m->name, m->v.value,
                               m->v.threshold);
        else if (reason == CHECK_UNKNOWN && m)
                (void)snprintf(ret, CHECK_TEXT, "%s%s%s", m->name, m->error[0] ? ", " : "",
                               m->error);
        else if (reason == CHECK_LEVEL && l && l->level == LEVEL_UNKNOWN && l->held > LEVEL_NORMAL)
                (void)snprintf(ret, CHECK_TEXT, "unknown, %s before", level_name(l->held));
        else if (reason == CHECK_LEVEL && l && l->metric >= 0)
                (void)snprintf(ret, CHECK_TEXT, "%s by %s %g against %g", level_name(l->level),
                               g->metrics[l->metric].name, l->value, l->threshold);
        else if (reason == CHECK_LEVEL && l)
                (void)snprintf(ret, CHECK_TEXT, "%s", level_name(l->level));
}

/* "a metric is above its threshold: threads_running 150 against 15" */
static void put_why(const struct core *core, const struct ask_ctx *a,
                    const struct check_answer *answer, enum check_reason reason, char ret[WHY_TEXT])
{
        const char *slot_end = strchr(answer->rule, ':'); /* the slot is for machines */
        char detail[CHECK_TEXT];
        check_put_detail(core, a, answer, reason, detail);
        if ((reason == CHECK_HOLD || reason == CHECK_RATIO) && answer->rule[0])
                (void)snprintf(ret, WHY_TEXT, "%s: %s", check_reason_text(reason),
                               SHOWN_LONG(slot_end ? slot_end + 1 : answer->rule));
        else
                (void)snprintf(ret, WHY_TEXT, "%s%s%s", check_reason_text(reason),
                               detail[0] ? ": " : "", detail);
}

static void tell_refusal(struct core *core, const struct ask_ctx *a,
                         const struct check_answer *answer)
{
        const struct check_verdict *v = &answer->verdict;
        struct throttled_check c = {.who = a->who.whole,
                                    .is_granted = v->is_granted,
                                    .reason = v->is_granted ? v->would_reason : v->reason,
                                    .target = a->target};
        char text[WHY_TEXT];
        if (throttled_is_counted(core, &c))
                return;
        put_why(core, a, answer, c.reason, text);
        throttled_add(core, &c, answer->tier, answer->target, text);
}

void check_settle(struct core *core, const struct ask_ctx *a, const struct check_answer *answer,
                  uint32_t waited_ms)
{
        struct check_ctx *c = core->checking;
        struct check_state *s = check_state_of(core, a->target);
        const struct check_verdict *v = &answer->verdict;
        uint8_t metric = CHECK_NO_TARGET;
        if (v->value >= 0)
                metric = answer->metrics[v->value].number;
        if (v->is_granted)
                c->granted++;
        else
                c->refused[v->reason]++;
        c->observed += v->is_granted && v->would_refuse;
        if (!v->is_granted || v->would_refuse)
                tell_refusal(core, a, answer);
        if (v->reason == CHECK_THRESHOLD && !a->is_read && !a->is_low && a->tier < TIER_DEFERRABLE)
                s->refused_ns = core->now.steady_ns;
        struct client_count count = {
                .verdict = v,
                .target = target_number(a->target),
                .metric = metric,
                .waited_ms = waited_ms,
                .address = a->address,
                .is_authenticated = a->is_authenticated,
        };
        client_count(core, a->client, &count);
}

int core_check(struct core *core, const struct check_ask *ask, struct check_answer *ret,
               struct problem *problem)
{
        struct ask_ctx a;
        int r = check_look_up(core, ask, &a, problem);
        if (r != OK)
                return r;
        throttle_ask(core);
        check_answer(core, &a, ret);
        if (a.is_lost && ret->verdict.is_granted)
                return throttle_no_target(core, ask->target, problem);
        check_settle(core, &a, ret, 0);
        check_give_credits(core, &a, ret);
        return OK;
}

/* ---- pools and health ---- */

/* Value / threshold of the worst metric the target is checked by; NAN: one is not known. */
static double pressure_of(const struct target *g)
{
        double worst = NAN;
        for (size_t i = 0; i < g->n_metrics; i++) {
                double above = g->metrics[i].check_above;
                if (!g->metrics[i].is_checked || !(above > 0))
                        continue;
                if (!(g->leveler.known_mask >> i & 1))
                        return NAN;
                double u = g->samples[i].value / above;
                if (isnan(worst) || u > worst)
                        worst = u;
        }
        return worst;
}

static bool is_healthy(const struct target *g)
{
        for (size_t i = 0; i < g->n_metrics; i++)
                if (g->metrics[i].is_checked)
                        return (g->leveler.known_mask >> i & 1) &&
                               !(g->samples[i].value > g->metrics[i].check_above);
        return false;
}

static void tick_pool(struct core *core, size_t target)
{
        const struct target *g = &core->throttle->targets[target];
        struct check_state *s = &core->checking->targets[target];
        credit_tick(&s->pool, &core->checks.credit, pressure_of(g),
                    clients_active(core, target_number((int)target)), core->now.steady_ns);
        if (is_healthy(g))
                s->healthy_ms = core->now.wall_ms;
}

/* A sample of that target came. */
static void checking_sample(struct core *core, size_t target)
{
        tick_pool(core, target);
        core->checking->targets[target].has_news = true;
}

/* Once a second, so that a target without news does not keep its credits. */
void checking_tick(struct core *core)
{
        struct check_ctx *c = core->checking;
        if (core->now.steady_ns - c->pool_ns < POOL_EVERY_NS)
                return;
        c->pool_ns = core->now.steady_ns;
        for (size_t i = 0; i < c->n_targets; i++)
                if (!isfinite(c->targets[i].pool.pressure) ||
                    isnan(pressure_of(&core->throttle->targets[i])))
                        tick_pool(core, i);
}

/* ---- for the contracts ---- */

void core_each_check_target(struct core *core, void (*fn)(void *ctx, const struct check_target *t),
                            void *ctx)
{
        const struct throttle *t = core->throttle;
        struct check_answer *scratch = &core->checking->answer;
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                struct check_target told = {.name = g->name,
                                            .kind = g->kind ? g->kind : "",
                                            .healthy_ms = core->checking->targets[i].healthy_ms};
                struct ask_ctx a = {.target = (int)i};
                int first = throttle_metric(core, i, SLICE_LIT("default"));
                scratch->n_metrics = 0;
                if (first >= 0) {
                        add_metric(core, &a, (size_t)first, SLICE_NONE, scratch);
                        told.first = scratch->metrics[0];
                }
                fn(ctx, &told);
        }
}

/* ---- for /metrics ---- */

void checking_each_sample(const struct core *core,
                          void (*fn)(void *ctx, const char *name, const char *labels, double value),
                          void *ctx)
{
        const struct check_ctx *c = core->checking;
        char labels[2 * THROTTLE_TEXT];
        fn(ctx, "checks_granted_total", "", (double)c->granted);
        fn(ctx, "checks_would_refuse_total", "", (double)c->observed);
        fn(ctx, "checks_parked_total", "", (double)c->parked);
        fn(ctx, "checks_waiting", "", (double)c->n_waiting);
        fn(ctx, "check_rules", "", (double)core->state.things[THING_RULE].len);
        for (size_t i = 0; i < CHECK_REASONS; i++) {
                if (i == CHECK_GRANTED || i == CHECK_OFF || i == CHECK_EXEMPT || i == CHECK_LIMIT)
                        continue; /* no check is refused for these */
                (void)snprintf(labels, sizeof(labels), "reason=\"%s\"",
                               check_reason_name((enum check_reason)i));
                fn(ctx, "checks_refused_total", labels, (double)c->refused[i]);
        }
        struct buf target;
        buf_init(&target, 0);
        for (size_t i = 0; i < c->n_targets; i++) {
                buf_clear(&target);
                throttle_put_label(&target, "target", throttle_target_name(core, i));
                fn(ctx, "check_credits", buf_cstr(&target), c->targets[i].pool.credits);
        }
        buf_release(&target);
}

/* ---- the feature ---- */

static const struct throttle_listener listener = {.sampled = checking_sample,
                                                  .retargeted = checking_retarget};

static void checks_init(struct core *core)
{
        struct check_ctx *c = core->checking = xcalloc(1, sizeof(*c));
        hash_init(&c->lanes, 1);
        c->mode_seen = UINT64_MAX;
        core->rules = rule_index_new();
        core->clients = clients_new();
        core->checks.mode = MODE_ENFORCE;
        checking_reset(core);
        throttle_listen(core, &listener);
}

static void checks_release(struct core *core)
{
        struct check_ctx *c = core->checking;
        ASSERT(!c->n_waiting);
        clients_free(core->clients);
        rule_index_free(core->rules);
        hash_release(&c->lanes);
        free(c->targets);
        free(c);
}

static void checks_turn(struct core *core)
{
        checking_turn(core);
        clients_turn(core);
}

static int64_t checks_next_ns(const struct core *core)
{
        int64_t asks_ns = checking_next_ns(core), clients_ns = clients_next_ns(core);
        return asks_ns < clients_ns ? asks_ns : clients_ns;
}

/* Invariants: (1) there is a state for each target of the throttle, and one more; (2) the asks that
 * wait at the targets are all that wait; (3) those of the clients (client_int.h). */
static void checks_check(const struct core *core)
{
        const struct check_ctx *c = core->checking;
        size_t n_waiting = 0;
        ASSERT(c->targets && c->n_targets == throttle_targets(core)); /* (1) */
        for (size_t i = 0; i <= c->n_targets; i++)
                n_waiting += c->targets[i].n_waiting;
        ASSERT(n_waiting == c->n_waiting); /* (2) */
        if (core->clients->names.len <= CHECKED_CLIENTS_MAX)
                clients_check(core->clients); /* (3) */
}

const struct feature checks_feature = {.name = "checks",
                                       .is_local = true,
                                       .init = checks_init,
                                       .release = checks_release,
                                       .turn = checks_turn,
                                       .next_ns = checks_next_ns,
                                       .check = checks_check};

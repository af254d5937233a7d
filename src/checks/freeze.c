/* The gate for those who decide without the core: the doors of the MySQL proxy, whose threads look
 * at a snapshot.
 *
 * A frozen decision is that of a check (check.c), made for every way the dice can fall.  Only the
 * ratios of two rules ask the dice, the enforced one and the one that observes, so there are at
 * most three answers: below both ratios, between them, and above.
 *
 * What the doors decided comes back once a second as numbers, and is counted as checks are: by
 * identity, for the starved, in THROTTLED, and against the budgets of exemptions. */
#include <math.h>
#include <stdio.h>

#include "base/shown.h"
#include "checks/check_ctx.h"
#include "throttle/throttled.h"

static struct ask_ctx ask_of(const struct check_subject *s)
{
        return (struct ask_ctx){.who = s->who,
                                .target = s->target,
                                .tier = s->tier,
                                .cost = 1,
                                .threshold = NAN,
                                .is_frozen = true,
                                .is_authenticated = true};
}

static double ratio_of(const struct rule *r)
{
        return r && r->kind == RULE_RATIO ? (double)r->ratio_ppm / RULE_RATIO_ONE : 0;
}

static void find_bounds(struct core *core, const struct ask_ctx *a, double ret[2])
{
        struct rule_match match;
        struct slice target = a->target < 0
                                      ? SLICE_NONE
                                      : slice_str(throttle_target_name(core, (size_t)a->target));
        rule_match(core, &a->who, target, &match);
        double enforced = ratio_of(match.share), observed = ratio_of(match.observed);
        ret[0] = fmin(enforced, observed);
        ret[1] = fmax(enforced, observed);
        if (!(ret[0] > 0))
                ret[0] = ret[1]; /* one of them, or none: the middle is empty */
}

static enum check_reason reason_of(const struct check_verdict *v)
{
        return v->is_granted && v->would_refuse ? v->would_reason : v->reason;
}

/* Adds what this answer says against it, unless an earlier one said the same. */
static void add_why(struct core *core, const struct ask_ctx *a, const struct check_answer *answer,
                    struct class_verdicts *ret)
{
        const struct check_verdict *v = &answer->verdict;
        size_t used = strlen(ret->why);
        char text[CHECK_TEXT];
        if (!ret->rule[0])
                (void)shown_put(ret->rule, sizeof(ret->rule), slice_str(answer->rule));
        if (v->is_granted && !v->would_refuse)
                return;
        check_put_detail(core, a, answer, reason_of(v), text);
        if (!v->is_granted && !ret->retry_ms)
                ret->retry_ms = answer->wait_ms;
        if (text[0] && !strstr(ret->why, text))
                (void)snprintf(ret->why + used, sizeof(ret->why) - used, "%s%s", used ? "; " : "",
                               text);
}

void check_freeze(struct core *core, const struct check_subject *s, struct class_verdicts *ret)
{
        struct ask_ctx a = ask_of(s);
        struct check_answer *answer = &core->checking->answer;
        double rolls[3] = {0};
        ret->is_known = true;
        ret->tier = s->tier;
        ret->retry_ms = 0;
        ret->why[0] = ret->rule[0] = '\0';
        find_bounds(core, &a, ret->bound);
        rolls[1] = ret->bound[0];
        rolls[2] = ret->bound[1];
        for (size_t i = 3; i-- > 0;) {
                bool is_empty = i < 2 && ret->bound[i] <= rolls[i];
                if (is_empty) {
                        ret->verdict[i] = ret->verdict[2];
                        continue;
                }
                a.roll = &rolls[i];
                check_answer(core, &a, answer);
                ret->verdict[i] = answer->verdict;
                add_why(core, &a, answer, ret);
        }
}

/* ---- what became of them ---- */

/* The reason that counts for those that the gate was against; the limits of a class have none. */
static enum check_reason frozen_reason(const struct class_verdicts *v)
{
        for (size_t i = 3; i-- > 0;)
                if (!v->verdict[i].is_granted || v->verdict[i].would_refuse)
                        return reason_of(&v->verdict[i]);
        return CHECK_LIMIT;
}

struct counting {
        const struct ask_ctx *ask;
        const struct class_verdicts *verdicts;
        struct slice target;
        struct client_count count;
};

static void tell_throttled(struct core *core, const struct counting *c,
                           const struct check_verdict *v, uint64_t n)
{
        struct throttled_check held = {.who = c->ask->who.whole,
                                       .is_granted = v->is_granted,
                                       .reason = reason_of(v),
                                       .target = c->ask->target,
                                       .more = n - 1};
        if (throttled_is_counted(core, &held))
                return;
        bool has_detail = check_reason_has_detail(held.reason) && c->verdicts->why[0];
        char why[2 * ADMIT_WHY];
        (void)snprintf(why, sizeof(why), "%s%s%s", check_reason_text(held.reason),
                       has_detail ? ": " : "", has_detail ? c->verdicts->why : "");
        throttled_add(core, &held, c->ask->tier, c->target, why);
}

static void count_some(struct core *core, const struct counting *c, struct check_verdict verdict,
                       uint64_t n)
{
        struct client_count count = c->count;
        if (!n)
                return;
        count.verdict = &verdict;
        count.more = n - 1 < UINT32_MAX - 1 ? (uint32_t)(n - 1) : UINT32_MAX - 1;
        if (!verdict.is_granted || verdict.would_refuse)
                tell_throttled(core, c, &verdict, n);
        client_count(core, c->ask->client, &count);
}

static void spend_budget(struct core *core, const struct ask_ctx *a, struct slice target)
{
        struct rule_match match;
        rule_match(core, &a->who, target, &match);
        if (match.share && match.share->kind == RULE_EXEMPT)
                check_spend_budget(core, a, match.share);
}

void check_count_frozen(struct core *core, const struct check_subject *s,
                        const struct class_verdicts *v, const struct check_tally *tally)
{
        struct ask_ctx a = ask_of(s);
        const struct check_verdict *usual = &v->verdict[2];
        enum check_reason reason = frozen_reason(v);
        uint64_t observed = tally->observed < tally->granted ? tally->observed : tally->granted;
        if (!tally->granted && !tally->refused)
                return;
        a.client = client_get(core, &a.who);
        struct counting c = {
                .ask = &a,
                .verdicts = v,
                .target = a.target < 0 ? SLICE_NONE
                                       : slice_str(throttle_target_name(core, (size_t)a.target)),
                .count = {.target = (uint8_t)(a.target < 0 ? CHECK_NO_TARGET : a.target),
                          .metric = CHECK_NO_TARGET,
                          .address = tally->from,
                          .is_authenticated = true},
        };
        /* The granted last: a class of which some go through does not starve. */
        count_some(core, &c, (struct check_verdict){.reason = reason, .value = -1}, tally->refused);
        count_some(core, &c,
                   (struct check_verdict){.is_granted = true,
                                          .reason = CHECK_GRANTED,
                                          .would_refuse = true,
                                          .would_reason = reason,
                                          .value = -1},
                   observed);
        c.count.waited_ms = tally->waited_ms < UINT32_MAX ? (uint32_t)tally->waited_ms : UINT32_MAX;
        count_some(core, &c,
                   (struct check_verdict){.is_granted = true, .reason = CHECK_GRANTED, .value = -1},
                   tally->granted - observed);
        if (usual->reason == CHECK_EXEMPT && usual->is_over && tally->granted)
                spend_budget(core, &a, c.target);
}

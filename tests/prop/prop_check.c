/* The check door's decision: fair dice, one roll, and the order of reasons.
 *
 * The dice are rolled millions of times, with metrics and rules of all kinds around them: the share
 * of refusals is the ratio within five standard deviations, 0 never refuses, 1 always does, and a
 * twin of the generator shows that each ask draws exactly once.  The order is compared with an
 * oracle over all combinations of the inputs; it is the list of check.h read from top to bottom. */
#include "../unit/check.h"

#include <math.h>

#include "dice.h"
#include "gate/check.h"

#define ROLLS   2000000
#define WAIT_MS 30000
#define KNOWN(v, above)                                                                            \
        {                                                                                          \
                .value = (v), .threshold = (above), .is_known = true                               \
        }
#define UNKNOWN(ms)                                                                                \
        {                                                                                          \
                .value = 99, .threshold = 5, .unknown_ms = (ms)                                    \
        }

/* --- metrics, and what a person says of them ----------------------------------------------------
 */

struct metrics {
        const char *name;
        struct check_value v[4];
        size_t n;
        int above;    /* the one furthest above its threshold; -1: none is */
        int unknown;  /* the first that is not known; -1: none */
        bool is_long; /* it has not been known for WAIT_MS */
        int nearest;  /* when granted; -1: none */
};

static const struct metrics sets[] = {
        {"none", {KNOWN(9, 5)}, 0, -1, -1, false, -1},
        {"low", {KNOWN(1, 5)}, 1, -1, -1, false, 0},
        {"just at it", {KNOWN(5, 5)}, 1, -1, -1, false, 0},
        {"a hair above", {KNOWN(5.000001, 5)}, 1, 0, -1, false, 0},
        {"the second above", {KNOWN(1, 5), KNOWN(6, 5)}, 2, 1, -1, false, 1},
        {"three above", {KNOWN(6, 5), KNOWN(300, 100), KNOWN(9, 5)}, 3, 1, -1, false, 1},
        {"the second nearer", {KNOWN(1, 5), KNOWN(90, 100), KNOWN(2, 5)}, 3, -1, -1, false, 1},
        {"unknown", {UNKNOWN(0)}, 1, -1, 0, false, -2},
        {"unknown, just not long", {UNKNOWN(WAIT_MS - 1)}, 1, -1, 0, false, -2},
        {"unknown for long", {UNKNOWN(WAIT_MS)}, 1, -1, 0, true, -2},
        {"low and unknown", {KNOWN(1, 5), UNKNOWN(0)}, 2, -1, 1, false, 0},
        {"unknown and above", {UNKNOWN(0), KNOWN(6, 5)}, 2, 1, 0, false, 1},
        {"a value that is none", {KNOWN(NAN, 5)}, 1, -1, 0, false, -2},
        {"none, then above", {KNOWN(NAN, 5), KNOWN(7, 5)}, 2, 1, 0, false, 1},
        {"negative", {KNOWN(-3, 5)}, 1, -1, -1, false, 0},
        {"negative above", {KNOWN(-3, -5)}, 1, 0, -1, false, 0},
        {"zero at zero", {KNOWN(0, 0)}, 1, -1, -1, false, 0},
        {"above zero", {KNOWN(0.001, 0)}, 1, 0, -1, false, 0},
        {"no bound", {KNOWN(1e300, INFINITY)}, 1, -1, -1, false, 0},
        {"no bound at all", {KNOWN(INFINITY, INFINITY)}, 1, -1, -1, false, 0},
        {"endless", {KNOWN(INFINITY, 5)}, 1, 0, -1, false, 0},
        {"endless below", {KNOWN(-INFINITY, 5)}, 1, -1, -1, false, 0},
        {"a threshold that is none", {KNOWN(7, NAN)}, 1, -1, -1, false, -2},
        {"no bound, then low", {KNOWN(7, INFINITY), KNOWN(1, 5)}, 2, -1, -1, false, 1},
        {"no bound, then above", {KNOWN(INFINITY, INFINITY), KNOWN(6, 5)}, 2, 1, -1, false, 1},
};

/* --- the oracle ---------------------------------------------------------------------------------
 */

static const struct check_rule rules[] = {
        {SHARE_NONE, 0}, {SHARE_HOLD, 0}, {SHARE_RATIO, 0}, {SHARE_RATIO, 1}, {SHARE_EXEMPT, 0},
};
static const struct unknown_rule policies[] = {
        {UNKNOWN_OPEN, 0}, {UNKNOWN_CLOSED, 0}, {UNKNOWN_WAIT, WAIT_MS}};

/* What a rule that is not rolled for says against the ask; GRANTED: nothing. */
static enum check_reason against(const struct check_rule *r)
{
        if (r->share == SHARE_HOLD)
                return CHECK_HOLD;
        return r->share == SHARE_RATIO && r->ratio == 1 ? CHECK_RATIO : CHECK_GRANTED;
}

static bool waits_for(const struct unknown_rule *u, const struct metrics *m)
{
        if (m->unknown < 0 || u->policy == UNKNOWN_OPEN)
                return false;
        return u->policy == UNKNOWN_CLOSED || !m->is_long;
}

/* One line of the list: it applies, and it is done or only noted. */
struct line {
        enum check_reason reason;
        bool applies, is_enforced;
};

static struct check_verdict expect(const struct check_case *c, const struct metrics *m)
{
        bool enforces = c->mode == MODE_ENFORCE;
        bool decides = enforces || c->mode == MODE_OBSERVE;
        enum check_reason rule = against(&c->rule), trial = against(&c->observed);
        bool is_exempt = c->rule.share == SHARE_EXEMPT;
        const struct line list[] = {
                {CHECK_PAUSED, c->is_paused, true},
                {CHECK_HOLD, rule == CHECK_HOLD, true},
                {CHECK_LOW_PRIORITY, c->is_low && decides, enforces},
                {trial, trial != CHECK_GRANTED, false},
                {rule, rule != CHECK_GRANTED, true},
                {CHECK_EXEMPT, is_exempt, true},
                {CHECK_OFF, !decides, true},
                {CHECK_THRESHOLD, m->above >= 0, enforces},
                {CHECK_UNKNOWN, waits_for(&c->unknown, m), enforces},
                {CHECK_LEVEL, c->has_level, enforces},
        };
        struct check_verdict v = {.is_granted = true, .is_over = m->above >= 0};

        for (size_t i = 0; i < ARRAY_LEN(list); i++) {
                if (!list[i].applies)
                        continue;
                bool lets_go = list[i].reason == CHECK_EXEMPT || list[i].reason == CHECK_OFF;
                if (!lets_go && !v.would_refuse) {
                        v.would_refuse = true;
                        v.would_reason = list[i].reason;
                }
                if (!list[i].is_enforced)
                        continue;
                v.reason = list[i].reason;
                v.is_granted = lets_go;
                return v;
        }
        v.reason = CHECK_GRANTED;
        return v;
}

static void check_value_index(const struct check_case *c, const struct metrics *m,
                              const struct check_verdict *v)
{
        assert_in_range(v->value + 1, 0, m->n);
        if (v->reason == CHECK_THRESHOLD)
                assert_int_equal(v->value, m->above);
        if (v->reason == CHECK_UNKNOWN)
                assert_int_equal(v->value, m->unknown);
        if (v->reason == CHECK_GRANTED && !v->would_refuse && m->nearest > -2)
                assert_int_equal(v->value, m->nearest);
        assert_true(v->value >= 0 || c->n_values == 0);
}

static void compare(const struct check_case *c, const struct metrics *m, struct rng *rng)
{
        struct check_verdict want = expect(c, m), got = check_decide(c, rng);

        if (got.reason != want.reason || got.is_granted != want.is_granted ||
            got.would_refuse != want.would_refuse || got.is_over != want.is_over ||
            (want.would_refuse && got.would_reason != want.would_reason))
                fail_msg("metrics '%s', mode %s, paused %d, low %d, rule %d/%g, observed %d/%g, "
                         "level %d, unknown %d: %s (would %s), not %s (would %s)",
                         m->name, mode_name(c->mode), c->is_paused, c->is_low, (int)c->rule.share,
                         c->rule.ratio, (int)c->observed.share, c->observed.ratio, c->has_level,
                         (int)c->unknown.policy, check_reason_name(got.reason),
                         got.would_refuse ? check_reason_name(got.would_reason) : "not",
                         check_reason_name(want.reason),
                         want.would_refuse ? check_reason_name(want.would_reason) : "not");
        check_value_index(c, m, &got);
}

/* The inputs of number n, each digit of which is one of them; false: there are no more. */
static bool nth_case(size_t n, struct check_case *ret, const struct metrics **ret_metrics)
{
        const struct metrics *m = &sets[n % ARRAY_LEN(sets)];
        n /= ARRAY_LEN(sets);
        *ret = (struct check_case){.values = m->v, .n_values = m->n};
        *ret_metrics = m;
        ret->mode = (enum gate_mode)(n % MODES);
        n /= MODES;
        ret->rule = rules[n % ARRAY_LEN(rules)];
        n /= ARRAY_LEN(rules);
        ret->observed = rules[n % ARRAY_LEN(rules)];
        n /= ARRAY_LEN(rules);
        ret->unknown = policies[n % ARRAY_LEN(policies)];
        n /= ARRAY_LEN(policies);
        ret->tier = (enum tier)(n % TIERS);
        n /= TIERS;
        ret->is_paused = n & 1;
        ret->is_low = n & 2;
        ret->has_level = n & 4;
        return n < 8;
}

static void reasons_come_in_the_documented_order(void **state)
{
        struct rng dice;
        struct check_case c;
        const struct metrics *m;
        size_t n = 0;

        (void)state;
        dice_init(&dice, "check order");
        for (; nth_case(n, &c, &m); n++)
                compare(&c, m, &dice);
        (void)printf("# %zu cases\n", n);
        assert_true(n == ARRAY_LEN(sets) * MODES * 25 * 3 * TIERS * 8);
}

/* The operator's pause and rules are no trial; all else only refuses with enforce. */
static void modes_that_observe_never_refuse(void **state)
{
        struct rng dice;
        struct check_case c;
        const struct metrics *m;

        (void)state;
        dice_init(&dice, "check modes");
        for (size_t n = 0; nth_case(n, &c, &m); n++) {
                bool is_operator = c.is_paused || against(&c.rule) != CHECK_GRANTED;
                if (c.mode != MODE_ENFORCE && !is_operator)
                        assert_true(check_decide(&c, &dice).is_granted);
                if (c.rule.share == SHARE_NONE) {
                        struct check_case without = c;
                        without.observed = (struct check_rule){SHARE_NONE, 0};
                        struct check_verdict a = check_decide(&c, &dice);
                        struct check_verdict b = check_decide(&without, &dice);
                        assert_true(a.is_granted == b.is_granted && a.reason == b.reason);
                }
        }
}

/* --- dice ---------------------------------------------------------------------------------------
 */

static bool is_same(const struct rng *a, const struct rng *b)
{
        return memcmp(a->s, b->s, sizeof(a->s)) == 0;
}

/* An ask by the n-th set of metrics, with everything else that must not matter. */
static struct check_case any_case(uint64_t n, double ratio, bool is_observed)
{
        const struct metrics *m = &sets[n % ARRAY_LEN(sets)];
        struct check_rule rule = {SHARE_RATIO, ratio}, none = {SHARE_NONE, 0};

        return (struct check_case){
                .mode = MODE_ENFORCE,
                .tier = (enum tier)(n % TIERS),
                .rule = is_observed ? none : rule,
                .observed = is_observed || n % 3 == 0 ? rule : none,
                .values = m->v,
                .n_values = m->n,
        };
}

static uint64_t refusals(struct rng *dice, double ratio, uint64_t rolls, bool is_observed)
{
        struct rng twin = *dice;
        uint64_t refused = 0;

        for (uint64_t n = 0; n < rolls; n++) {
                struct check_case c = any_case(n, ratio, is_observed);
                struct check_verdict v = check_decide(&c, dice);
                refused += is_observed ? v.would_refuse && v.would_reason == CHECK_RATIO
                                       : v.reason == CHECK_RATIO;
                (void)rng_unit(&twin);
                if (!is_same(dice, &twin))
                        fail_msg("ask %llu did not draw once", (unsigned long long)n);
        }
        return refused;
}

static void a_ratio_refuses_its_share_with_one_roll_per_ask(void **state)
{
        static const double ratios[] = {0, 0.01, 0.3, 0.5, 0.9, 1};
        struct rng dice;
        uint64_t rolls = dice_rounds(ROLLS) / (2 * ARRAY_LEN(ratios));

        (void)state;
        dice_init(&dice, "check dice");
        for (size_t i = 0; i < 2 * ARRAY_LEN(ratios); i++) {
                double r = ratios[i / 2], n = (double)rolls;
                double got = (double)refusals(&dice, r, rolls, i % 2);
                (void)printf("# ratio %g%s: %.6f of %llu\n", r, i % 2 ? ", observed" : "", got / n,
                             (unsigned long long)rolls);
                /* With 0 and 1 there is no deviation at all. */
                assert_true(fabs(got - n * r) <= 5 * sqrt(n * r * (1 - r)));
        }
}

static void without_a_ratio_nothing_is_rolled(void **state)
{
        struct rng dice, before;
        struct check_case c;
        const struct metrics *m;

        (void)state;
        dice_init(&dice, "check no dice");
        before = dice;
        for (size_t n = 0; nth_case(n, &c, &m); n++) {
                bool has_dice = c.rule.share == SHARE_RATIO || c.observed.share == SHARE_RATIO;
                (void)check_decide(&c, &dice); /* what it draws is looked at */
                if (has_dice)
                        (void)rng_unit(&before);
                assert_true(is_same(&dice, &before));
        }
}

/* An enforced and an observed ratio are judged by the same roll: whoever is refused at 0.3 would
 * have been refused at 0.5 too. */
static void one_roll_serves_the_enforced_and_the_observed_ratio(void **state)
{
        struct rng dice;
        uint64_t refused = 0, would = 0, rolls = dice_rounds(200000);

        (void)state;
        dice_init(&dice, "check two ratios");
        for (uint64_t n = 0; n < rolls; n++) {
                struct check_case c = {.mode = MODE_ENFORCE,
                                       .rule = {SHARE_RATIO, 0.3},
                                       .observed = {SHARE_RATIO, 0.5}};
                struct check_verdict v = check_decide(&c, &dice);
                assert_true(v.is_granted || v.would_refuse);
                refused += !v.is_granted;
                would += v.would_refuse;
        }
        assert_true(fabs((double)refused / (double)rolls - 0.3) < 0.01);
        assert_true(fabs((double)would / (double)rolls - 0.5) < 0.01);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reasons_come_in_the_documented_order),
                cmocka_unit_test(modes_that_observe_never_refuse),
                cmocka_unit_test(a_ratio_refuses_its_share_with_one_roll_per_ask),
                cmocka_unit_test(without_a_ratio_nothing_is_rolled),
                cmocka_unit_test(one_roll_serves_the_enforced_and_the_observed_ratio),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Decisions frozen for a door that decides by itself: dice, levels, and what comes back. */
#include "check.h"

#include <stdio.h>

#include "checks/check_ctx.h"
#include "support/rig.h"

static const struct core_metric metrics[] = {
        {.name = "threads_running",
         .rule = {{5, 15}, {3, 10}, 5 * NS_PER_S, false},
         .check_above = 10,
         .is_checked = true},
        {.name = "replication_lag",
         .rule = {{2, 10}, {1, 5}, 5 * NS_PER_S, false},
         .check_above = 2},
};
static const struct core_target shop = {
        .name = "shop",
        .metrics = metrics,
        .n_metrics = 2,
        .dwell_ns = 30 * NS_PER_S,
        .mode = -1,
        .unknown = {
                {UNKNOWN_OPEN, 0}, {UNKNOWN_OPEN, 0}, {UNKNOWN_CLOSED, 0}, {UNKNOWN_WAIT, 30000}}};

static void init(struct rig *rig)
{
        rig_init(rig);
        rig_set_gate(rig, &shop, 1, MODE_OFF, MODE_OFF); /* the doors have modes of their own */
        rig_turn(rig);
}

static void load(struct rig *rig, double threads, double lag)
{
        rig_sample(rig, 0, 0, threads);
        rig_sample(rig, 0, 1, lag);
        rig_turn(rig);
}

static struct check_subject subject(const char *who, enum tier tier)
{
        struct check_subject s = {.target = 0, .tier = tier};
        struct problem problem;
        assert_int_equal(identity_parse(slice_str(who), &s.who, &problem), OK);
        return s;
}

static struct class_verdicts freeze(struct rig *rig, const char *who, enum tier tier)
{
        struct check_subject s = subject(who, tier);
        struct class_verdicts v = {0};
        throttle_refresh(rig->core);
        check_freeze(rig->core, &s, &v);
        assert_true(v.is_known);
        assert_int_equal(v.tier, tier);
        return v;
}

/* The one that a transaction gets whose dice fell so. */
static const struct check_verdict *of_roll(const struct class_verdicts *v, double roll)
{
        return &v->verdict[roll < v->bound[0] ? 0 : roll < v->bound[1] ? 1 : 2];
}

static void without_load_and_rules_it_runs(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        load(&rig, 1, 0);
        struct class_verdicts v = freeze(&rig, "etl:dba", TIER_NORMAL);
        for (size_t i = 0; i < 3; i++)
                assert_true(v.verdict[i].is_granted && !v.verdict[i].would_refuse);
        assert_true(v.bound[0] == 0 && v.bound[1] == 0);
        assert_string_equal(v.why, "");
        rig_release(&rig);
}

static void a_threshold_refuses_in_every_mode_of_the_checks_and_says_why(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        load(&rig, 12, 0);
        struct class_verdicts v = freeze(&rig, "etl", TIER_NORMAL);
        assert_false(v.verdict[2].is_granted);
        assert_int_equal(v.verdict[2].reason, CHECK_THRESHOLD);
        assert_string_equal(v.why, "threads_running 12 against 10"); /* beside the reason */
        assert_true(v.retry_ms > 0);
        rig_release(&rig);
}

/* 7 threads are below the threshold of checks, 10, but elevated. */
static void the_matrix_speaks_although_its_metric_is_checked(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        load(&rig, 7, 0);
        struct class_verdicts v = freeze(&rig, "etl", TIER_NORMAL);
        assert_int_equal(v.verdict[2].reason, CHECK_LEVEL);
        has(v.why, "elevated by threads_running 7 against 5");
        assert_true(freeze(&rig, "pay", TIER_HIGH).verdict[2].is_granted);
        load(&rig, 20, 0);
        assert_false(freeze(&rig, "pay", TIER_HIGH).verdict[2].is_granted);
        rig_release(&rig);
}

static void before_the_first_sample_the_rule_for_the_unknown_decides(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        assert_int_equal(freeze(&rig, "etl", TIER_NORMAL).verdict[2].reason, CHECK_UNKNOWN);
        assert_true(freeze(&rig, "pay", TIER_HIGH).verdict[2].is_granted);
        rig_release(&rig);
}

static void a_deferrable_one_does_not_yield_for_a_refused_check(void **state)
{
        (void)state;
        struct rig rig;
        rig_init(&rig);
        rig_set_gate(&rig, &shop, 1, MODE_OFF, MODE_ENFORCE);
        load(&rig, 12, 0);
        has(rig_do(&rig, "CHECK", "other"), "refused");
        rig_pass_ms(&rig, 100);
        assert_int_equal(freeze(&rig, "etl", TIER_DEFERRABLE).verdict[2].reason, CHECK_THRESHOLD);
        rig_release(&rig);
}

static void a_ratio_divides_the_dice(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        load(&rig, 1, 0);
        rig_do(&rig, "RULESET", "etl", "ratio", "RATIO", "0.25");
        struct class_verdicts v = freeze(&rig, "nightly:etl", TIER_NORMAL);
        assert_int_equal(of_roll(&v, 0)->reason, CHECK_RATIO);
        assert_int_equal(of_roll(&v, 0.2499)->reason, CHECK_RATIO);
        assert_true(of_roll(&v, 0.25)->is_granted);
        assert_true(of_roll(&v, 0.99)->is_granted);
        assert_string_equal(v.rule, "share:etl");
        assert_string_equal(v.why, ""); /* the reason and the rule say it all */
        load(&rig, 12, 0);
        v = freeze(&rig, "nightly:etl", TIER_NORMAL);
        assert_int_equal(of_roll(&v, 0.2)->reason, CHECK_RATIO);
        assert_int_equal(of_roll(&v, 0.3)->reason, CHECK_THRESHOLD);
        assert_string_equal(v.why, "threads_running 12 against 10");
        rig_release(&rig);
}

static void an_observing_ratio_beside_an_enforced_one_makes_three_parts(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        load(&rig, 1, 0);
        rig_do(&rig, "RULESET", "all", "ratio", "RATIO", "0.2");
        rig_do(&rig, "RULESET", "etl", "ratio", "RATIO", "0.6", "MODE", "observe");
        struct class_verdicts v = freeze(&rig, "etl", TIER_NORMAL);
        assert_false(of_roll(&v, 0.1)->is_granted);
        assert_true(of_roll(&v, 0.4)->is_granted && of_roll(&v, 0.4)->would_refuse);
        assert_true(of_roll(&v, 0.8)->is_granted && !of_roll(&v, 0.8)->would_refuse);
        rig_release(&rig);
}

static void holds_exemptions_and_the_pause_are_frozen_too(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        load(&rig, 12, 0);
        rig_do(&rig, "RULESET", "etl", "exempt");
        struct class_verdicts v = freeze(&rig, "etl", TIER_NORMAL);
        assert_int_equal(v.verdict[2].reason, CHECK_EXEMPT);
        assert_true(v.verdict[2].is_granted && v.verdict[2].is_over);
        rig_do(&rig, "RULESET", "all", "hold", "FOR", "5000");
        v = freeze(&rig, "etl", TIER_NORMAL);
        assert_int_equal(v.verdict[2].reason, CHECK_HOLD);
        assert_in_range(v.retry_ms, 4900, 5001);
        rig_do(&rig, "THROTTLE", "PAUSE");
        assert_int_equal(freeze(&rig, "etl", TIER_NORMAL).verdict[2].reason, CHECK_PAUSED);
        assert_int_equal(freeze(&rig, "etl", TIER_CRITICAL).verdict[2].reason, CHECK_HOLD);
        rig_release(&rig);
}

/* ---- what comes back ---- */

static void count(struct rig *rig, const char *who, const struct check_tally *tally)
{
        struct check_subject s = subject(who, TIER_NORMAL);
        struct class_verdicts v = freeze(rig, who, TIER_NORMAL);
        check_count_frozen(rig->core, &s, &v, tally);
}

static void transactions_are_counted_by_identity(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        load(&rig, 12, 0);
        count(&rig, "job:etl",
              &(struct check_tally){.granted = 1000,
                                    .refused = 20,
                                    .observed = 300,
                                    .waited_ms = 5000,
                                    .from = SLICE_LIT("mysql:shop")});
        const char *told = rig_do(&rig, "CLIENTSHOW", "etl");
        has(told, "1000");
        has(told, "300");
        has(told, "mysql:shop");
        has(told, "threshold");
        has(rig_do(&rig, "THROTTLED"), "12 against 10");
        has(rig_do(&rig, "THROTTLED"), "20");
        rig_release(&rig);
}

static void one_that_is_only_refused_starves(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        for (int i = 0; i < 400; i++) {
                rig_pass_ms(&rig, 1000);
                load(&rig, 12, 0);
                count(&rig, "etl", &(struct check_tally){.refused = 2});
                count(&rig, "pay", &(struct check_tally){.granted = 5, .refused = 5});
        }
        const char *told = rig_do(&rig, "STARVED");
        has(told, "etl");
        has(told, "pay"); /* the starver, and not starved itself */
        assert_int_equal(clients_starved(rig.core), 1);
        rig_release(&rig);
}

static void limits_of_a_class_are_a_reason_of_their_own(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        load(&rig, 1, 0);
        count(&rig, "etl", &(struct check_tally){.refused = 3});
        has(rig_do(&rig, "CLIENTSHOW", "etl"), "limit");
        has(rig_do(&rig, "THROTTLED"), "a limit of its class");
        rig_release(&rig);
}

static void an_exemption_is_charged_for_what_it_lets_through(void **state)
{
        (void)state;
        struct rig rig;
        struct core_exemptions e;
        init(&rig);
        load(&rig, 12, 0);
        rig_do(&rig, "RULESET", "etl", "exempt");
        core_exemptions(rig.core, &e);
        assert_true(e.used == 0);
        count(&rig, "etl", &(struct check_tally){.granted = 3});
        core_exemptions(rig.core, &e);
        assert_true(e.used > 0);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(without_load_and_rules_it_runs),
                cmocka_unit_test(a_threshold_refuses_in_every_mode_of_the_checks_and_says_why),
                cmocka_unit_test(the_matrix_speaks_although_its_metric_is_checked),
                cmocka_unit_test(before_the_first_sample_the_rule_for_the_unknown_decides),
                cmocka_unit_test(a_deferrable_one_does_not_yield_for_a_refused_check),
                cmocka_unit_test(a_ratio_divides_the_dice),
                cmocka_unit_test(an_observing_ratio_beside_an_enforced_one_makes_three_parts),
                cmocka_unit_test(holds_exemptions_and_the_pause_are_frozen_too),
                cmocka_unit_test(transactions_are_counted_by_identity),
                cmocka_unit_test(one_that_is_only_refused_starves),
                cmocka_unit_test(limits_of_a_class_are_a_reason_of_their_own),
                cmocka_unit_test(an_exemption_is_charged_for_what_it_lets_through),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

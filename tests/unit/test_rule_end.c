/* When a rule ends: at its time, over restarts, jumps of the clock and late alarms. */
#include "rule_box.h"

#include "state/rulelog.h"

static void jump_ms(struct rig *rig, int64_t ms)
{
        rig->now.wall_ms += ms;
        rig_turn(rig);
}

static void a_rule_ends_at_its_time_and_not_before(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold", "FOR", "60000");
        rig_pass_ms(&rig, 59999);
        same(decides(&rig, "etl", "shop"), "etl hold");
        has(rig_do(&rig, "RULES"), "left_ms:1 ");
        rig_pass_ms(&rig, 1);
        same(decides(&rig, "etl", "shop"), "");
        assert_int_equal(n_rules(&rig), 0);
        has(rig_do(&rig, "RULEHISTORY"), "action:'expired' rule:'share:etl'");
        restart(&rig);
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

static void a_rule_lasts_an_hour_unless_it_says_otherwise(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "exempt");
        has(rig_do(&rig, "RULES"), "left_ms:3600000 ");
        rig_pass_ms(&rig, HOUR_MS - 1);
        assert_int_equal(n_rules(&rig), 1);
        rig_pass_ms(&rig, 1);
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

static void an_alarm_that_is_late_does_not_lengthen_a_rule(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "all", "hold", "FOR", "1000");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "disk_used=1", "FOR", "1000");
        ok(&rig, "RULESET", "etl", "metrics", "METRICS", "disk_used", "FOR", "1000");
        rig.core->now.steady_ns += NS_PER_S - 1; /* time passed, no turn was made */
        struct rule_match m = match(&rig, "etl", "files");
        assert_true(m.share && m.threshold && m.n_metrics == 1);
        rig.core->now.steady_ns += 1;
        m = match(&rig, "etl", "files");
        assert_false(m.share || m.threshold || m.n_metrics);
        assert_int_equal(n_rules(&rig), 3);
        rig_release(&rig);
}

static void jumps_of_the_wall_clock_do_not_move_the_end(void **unused)
{
        (void)unused;
        static const int64_t jumps[] = {DAY_MS, -DAY_MS, -DAY_MS, DAY_MS};
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold", "FOR", "8000");
        for (size_t i = 0; i < ARRAY_LEN(jumps); i++) {
                jump_ms(&rig, jumps[i]);
                rig_pass_ms(&rig, 1000);
                same(decides(&rig, "etl", "shop"), "etl hold");
                restart(&rig);
                jump_ms(&rig, jumps[i]);
                same(decides(&rig, "etl", "shop"), "etl hold");
        }
        rig_pass_ms(&rig, 3999);
        same(decides(&rig, "etl", "shop"), "etl hold");
        jump_ms(&rig, -DAY_MS);
        rig_pass_ms(&rig, 1);
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

static void a_rule_ends_at_its_time_over_a_recovery(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "0.25", "FOR", "10000", "TARGET", "shop",
           "AUTHOR", "nina", "REASON", "nightly purge", "MODE", "observe");
        rig_pass_ms(&rig, 4000);
        restart(&rig);
        has(rig_do(&rig, "RULES"),
            "{name:'etl' kind:'ratio' slot:'share' target:'shop' ratio:'0.25' list:'' "
            "mode:'observe' author:'nina' address:'' reason:'nightly purge' set_ms:1700000000000 "
            "left_ms:6000 self_ending:false]");
        rig_pass_ms(&rig, 5999);
        assert_int_equal(n_rules(&rig), 1);
        restart(&rig);
        rig_pass_ms(&rig, 1);
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

/* Steady time goes on from the last one in the log: a weir that only answers checks must tell it
 * the time, or each restart would begin the hour again. */
static void a_restart_of_an_idle_weir_lengthens_a_rule_by_seconds_at_most(void **unused)
{
        (void)unused;
        struct rig rig;
        int64_t passed = 0;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold", "FOR", "3600000");
        for (int life = 0; life < 4; life++) {
                for (int s = 0; s < 600; s++, passed++)
                        rig_pass_ms(&rig, 1000);
                rig.now.steady_ns = core_steady_ns(rig.core); /* as a killed one begins again */
                restart(&rig);
        }
        const struct rule_place place = {.slot = SLICE_LIT("share"), .who = SLICE_LIT("etl")};
        const struct rule *r = rule_find(rig.core, &place);
        int64_t left_s = (r->until_ns - rig.now.steady_ns) / NS_PER_S;
        assert_in_range(left_s, 3600 - passed, 3600 - passed + 4 * RULELOG_BEAT_NS / NS_PER_S);
        rig_release(&rig);
}

static void without_an_ending_rule_nothing_beats(void **unused)
{
        (void)unused;
        struct rig rig;
        const struct core_checks checks = {.mode = MODE_ENFORCE, .is_endless_allowed = true};
        init(&rig);
        configure(&rig, &checks);
        ok(&rig, "RULESET", "etl", "hold", "ENDLESS");
        has(rig_do(&rig, "RULES"), "left_ms:-1 ");
        rig_pass_ms(&rig, 20000);
        uint64_t last = rig.log.last_seq;
        for (int i = 0; i < 100; i++)
                rig_pass_ms(&rig, 20000);
        assert_int_equal(rig.log.last_seq, last);
        same(decides(&rig, "etl", "shop"), "etl hold");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_rule_ends_at_its_time_and_not_before),
                cmocka_unit_test(a_rule_lasts_an_hour_unless_it_says_otherwise),
                cmocka_unit_test(an_alarm_that_is_late_does_not_lengthen_a_rule),
                cmocka_unit_test(jumps_of_the_wall_clock_do_not_move_the_end),
                cmocka_unit_test(a_rule_ends_at_its_time_over_a_recovery),
                cmocka_unit_test(a_restart_of_an_idle_weir_lengthens_a_rule_by_seconds_at_most),
                cmocka_unit_test(without_an_ending_rule_nothing_beats),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

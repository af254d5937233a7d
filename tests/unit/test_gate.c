/* The decision: the matrix, the modes, the pause, and what turns a wait into a run. */
#include "check.h"

#include "gate/gate.h"

#define MIN_MS 60000U

static struct policy enforced(void)
{
        struct policy p;

        policy_init(&p);
        p.mode = MODE_ENFORCE;
        return p;
}

static struct gate_answer ask(const struct policy *p, enum tier tier, enum level level)
{
        return gate_decide(p, &(struct gate_ask){.tier = tier, .level = level});
}

static void names_are_those_of_the_protocol_and_read_back(void **state)
{
        (void)state;
        assert_string_equal(tier_name(TIER_CRITICAL), "critical");
        assert_string_equal(tier_name(TIER_DEFERRABLE), "deferrable");
        assert_string_equal(level_name(LEVEL_ELEVATED), "elevated");
        assert_string_equal(level_name(LEVEL_UNKNOWN), "unknown");
        assert_string_equal(mode_name(MODE_TEST_OBSERVE), "test_observe");
        for (int i = 0; i < TIERS; i++)
                assert_int_equal(tier_from_name(slice_str(tier_name((enum tier)i))), i);
        for (int i = 0; i < MODES; i++)
                assert_int_equal(mode_from_name(slice_str(mode_name((enum gate_mode)i))), i);
        for (int i = 0; i < GATE_REASONS; i++)
                assert_true(*gate_reason_name((enum gate_reason)i));
        assert_int_equal(tier_from_name(SLICE_LIT("HIGH")), TIER_HIGH);
        assert_int_equal(tier_from_name(SLICE_LIT("hig")), -1);
        assert_int_equal(tier_from_name(SLICE_LIT("highest")), -1);
        assert_int_equal(tier_from_name(SLICE_NONE), -1);
        assert_int_equal(mode_from_name(SLICE_LIT("Enforce")), MODE_ENFORCE);
        assert_int_equal(mode_from_name(SLICE_LIT("on")), -1);
}

static void name_of_no_tier(void)
{
        (void)tier_name(TIERS);
}

static void name_of_no_level(void)
{
        (void)level_name(LEVELS);
}

static void decide_on_no_level(void)
{
        struct policy p = enforced();
        (void)ask(&p, TIER_NORMAL, LEVELS);
}

static void decide_on_no_tier(void)
{
        struct policy p = enforced();
        (void)ask(&p, TIERS, LEVEL_NORMAL);
}

static void what_is_no_tier_or_level_is_our_mistake(void **state)
{
        (void)state;
        assert_panics(name_of_no_tier);
        assert_panics(name_of_no_level);
        assert_panics(decide_on_no_level);
        assert_panics(decide_on_no_tier);
}

static void the_default_matrix_is_the_documented_one(void **state)
{
        static const uint32_t minutes[LEVELS][TIERS] = {
                [LEVEL_NORMAL] = {0, 0, 0, 0},
                [LEVEL_ELEVATED] = {0, 0, 5, 15},
                [LEVEL_CRITICAL] = {0, 5, 15, 60},
                [LEVEL_UNKNOWN] = {0, 0, 5, 15},
        };
        struct policy p = enforced();

        (void)state;
        for (int level = 0; level < LEVELS; level++) {
                for (int tier = 0; tier < TIERS; tier++) {
                        struct gate_answer a = ask(&p, (enum tier)tier, (enum level)level);
                        uint32_t want = minutes[level][tier] * MIN_MS;
                        enum gate_reason waits = level == LEVEL_UNKNOWN ? GATE_UNKNOWN : GATE_LEVEL;
                        assert_int_equal(a.is_wait, want != 0);
                        assert_int_equal(a.would_wait, want != 0);
                        assert_int_equal(a.delay_ms, want);
                        assert_int_equal(a.level, level);
                        assert_int_equal(a.reason, want ? waits : GATE_ALLOWED);
                }
        }
}

static void the_default_caps_are_the_documented_ones_and_the_mode_is_off(void **state)
{
        struct policy p;

        (void)state;
        policy_init(&p);
        assert_int_equal(p.mode, MODE_OFF);
        assert_false(p.is_paused);
        assert_int_equal(p.deferrals_per_hour, 0);
        assert_true(p.max_deferral_ms == 0);
        assert_int_equal(p.caps[LEVEL_NORMAL].claim_size, 0);
        assert_int_equal(p.caps[LEVEL_ELEVATED].claim_size, 5);
        assert_int_equal(p.caps[LEVEL_ELEVATED].claims, 1);
        assert_int_equal(p.caps[LEVEL_CRITICAL].claim_size, 1);
        assert_int_equal(p.caps[LEVEL_CRITICAL].claims, 1);
        assert_int_equal(p.caps[LEVEL_UNKNOWN].claims, 0);
}

static void off_and_test_observe_decide_nothing_even_while_paused(void **state)
{
        (void)state;
        for (int mode = MODE_OFF; mode <= MODE_TEST_OBSERVE; mode++) {
                struct policy p = enforced();
                p.mode = (enum gate_mode)mode;
                p.is_paused = true;
                struct gate_answer a = ask(&p, TIER_DEFERRABLE, LEVEL_CRITICAL);
                assert_false(a.is_wait || a.would_wait);
                assert_int_equal(a.reason, GATE_OFF);
                assert_int_equal(a.level, LEVEL_CRITICAL);
                assert_int_equal(a.delay_ms, 0);
        }
}

static struct gate_ask nth_ask(unsigned n)
{
        return (struct gate_ask){
                .tier = (enum tier)(n % TIERS),
                .level = (enum level)(n / TIERS % LEVELS),
                .deferred_ms = (uint64_t)(n / (TIERS * LEVELS) % 4) * 20 * MIN_MS,
                .hook_deferrals = n / (TIERS * LEVELS * 4) % 4,
                .expires_in_ms = n % 3 ? 0 : n % 7 * 10 * MIN_MS,
        };
}

static void observe_announces_exactly_what_enforce_does(void **state)
{
        struct policy enforce = enforced();

        (void)state;
        enforce.max_deferral_ms = 40ULL * MIN_MS;
        enforce.deferrals_per_hour = 2;
        for (unsigned n = 0; n < TIERS * LEVELS * 16 * 2; n++) {
                struct gate_ask a = nth_ask(n);
                enforce.is_paused = n >= TIERS * LEVELS * 16;
                struct policy observe = enforce;
                observe.mode = MODE_OBSERVE;
                struct gate_answer does = gate_decide(&enforce, &a);
                struct gate_answer says = gate_decide(&observe, &a);
                assert_int_equal(does.is_wait, does.would_wait);
                assert_false(says.is_wait);
                assert_int_equal(says.would_wait, does.would_wait);
                assert_int_equal(says.delay_ms, does.delay_ms);
                assert_int_equal(says.level, does.level);
                assert_int_equal(says.reason, does.reason);
        }
}

static void a_pause_is_critical_and_says_that_it_is_a_pause(void **state)
{
        struct policy p = enforced();

        (void)state;
        p.is_paused = true;
        for (int level = 0; level < LEVELS; level++) {
                struct gate_answer a = ask(&p, TIER_HIGH, (enum level)level);
                assert_true(a.is_wait);
                assert_int_equal(a.delay_ms, 5 * MIN_MS);
                assert_int_equal(a.level, LEVEL_CRITICAL);
                assert_int_equal(a.reason, GATE_PAUSED);
                a = ask(&p, TIER_CRITICAL, (enum level)level);
                assert_false(a.would_wait);
                assert_int_equal(a.reason, GATE_ALLOWED);
                assert_int_equal(a.level, LEVEL_CRITICAL);
        }
}

static void the_critical_tier_runs_and_normal_is_open_whatever_the_matrix_says(void **state)
{
        struct policy p = enforced();

        (void)state;
        for (int level = 0; level < LEVELS; level++)
                for (int tier = 0; tier < TIERS; tier++)
                        p.delay_ms[level][tier] = 1;
        for (int i = 0; i < LEVELS; i++)
                assert_false(ask(&p, TIER_CRITICAL, (enum level)i).would_wait);
        for (int i = 0; i < TIERS; i++)
                assert_false(ask(&p, (enum tier)i, LEVEL_NORMAL).would_wait);
        assert_true(ask(&p, TIER_HIGH, LEVEL_ELEVATED).is_wait);
}

static void a_job_waits_up_to_its_maximum_and_then_runs(void **state)
{
        struct policy p = enforced();
        struct gate_ask a = {.tier = TIER_DEFERRABLE, .level = LEVEL_CRITICAL};

        (void)state;
        p.max_deferral_ms = 90ULL * MIN_MS;
        assert_int_equal(gate_decide(&p, &a).delay_ms, 60 * MIN_MS);
        a.deferred_ms = 30ULL * MIN_MS;
        assert_int_equal(gate_decide(&p, &a).delay_ms, 60 * MIN_MS);
        a.deferred_ms = 60ULL * MIN_MS; /* 30 min are left of 90 */
        assert_int_equal(gate_decide(&p, &a).delay_ms, 30 * MIN_MS);
        a.deferred_ms = 90ULL * MIN_MS - 1;
        assert_int_equal(gate_decide(&p, &a).delay_ms, 1);
        assert_int_equal(gate_decide(&p, &a).reason, GATE_LEVEL);
        for (int i = 0; i < 2; i++) {
                a.deferred_ms = i ? UINT64_MAX : 90ULL * MIN_MS;
                struct gate_answer r = gate_decide(&p, &a);
                assert_false(r.is_wait || r.would_wait);
                assert_int_equal(r.reason, GATE_DEFERRED_MAX);
                assert_int_equal(r.level, LEVEL_CRITICAL);
        }
        a.level = LEVEL_NORMAL; /* what runs anyway gives no other reason */
        assert_int_equal(gate_decide(&p, &a).reason, GATE_ALLOWED);
        a.level = LEVEL_CRITICAL;
        p.max_deferral_ms = 0;
        assert_true(gate_decide(&p, &a).is_wait);
}

static void a_hook_is_deferred_so_often_an_hour_and_then_runs(void **state)
{
        struct policy p = enforced();
        struct gate_ask a = {
                .tier = TIER_NORMAL, .level = LEVEL_ELEVATED, .hook_deferrals = UINT32_MAX};

        (void)state;
        assert_true(gate_decide(&p, &a).is_wait); /* 0: no bound */
        p.deferrals_per_hour = 5;
        a.hook_deferrals = 4;
        assert_true(gate_decide(&p, &a).is_wait);
        a.hook_deferrals = 5;
        assert_false(gate_decide(&p, &a).would_wait);
        assert_int_equal(gate_decide(&p, &a).reason, GATE_HOOK_MAX);
        p.is_paused = true;
        assert_int_equal(gate_decide(&p, &a).reason, GATE_HOOK_MAX);
        a.tier = TIER_CRITICAL;
        assert_int_equal(gate_decide(&p, &a).reason, GATE_ALLOWED);
        a.tier = TIER_NORMAL;
        a.deferred_ms = p.max_deferral_ms = 1;
        assert_int_equal(gate_decide(&p, &a).reason, GATE_DEFERRED_MAX);
}

static void a_job_that_expires_waits_for_as_long_as_it_can(void **state)
{
        struct policy p = enforced();
        struct gate_ask a = {.tier = TIER_DEFERRABLE, .level = LEVEL_CRITICAL};

        (void)state;
        a.expires_in_ms = 61 * MIN_MS; /* room for the whole delay */
        assert_int_equal(gate_decide(&p, &a).delay_ms, 60 * MIN_MS);
        assert_int_equal(gate_decide(&p, &a).expiry, EXPIRY_NONE);
        a.expires_in_ms = 61 * MIN_MS - 1;
        assert_int_equal(gate_decide(&p, &a).delay_ms, 60 * MIN_MS - 1);
        assert_int_equal(gate_decide(&p, &a).expiry, EXPIRY_STARTS);
        assert_int_equal(gate_decide(&p, &a).margin_ms, MIN_MS);
        a.expires_in_ms = 1000; /* a tenth */
        assert_int_equal(gate_decide(&p, &a).delay_ms, 900);
        a.expires_in_ms = 2;
        assert_int_equal(gate_decide(&p, &a).delay_ms, 1);
        a.expires_in_ms = 1; /* there is nothing left to wait for */
        assert_false(gate_decide(&p, &a).would_wait);
        assert_int_equal(gate_decide(&p, &a).reason, GATE_EXPIRY);
        a.expires_in_ms = MIN_MS;
        a.is_last_call = true;
        assert_false(gate_decide(&p, &a).would_wait);
        assert_int_equal(gate_decide(&p, &a).reason, GATE_EXPIRY);
        p.lets_expire[TIER_DEFERRABLE] = true;
        assert_int_equal(gate_decide(&p, &a).delay_ms, 60 * MIN_MS);
        assert_int_equal(gate_decide(&p, &a).expiry, EXPIRY_PASSES);
        p.lets_expire[TIER_CRITICAL] = true;
        assert_int_equal(policy_check(&p, NULL), ERR_BADARG);
}

static void a_policy_may_not_hold_up_the_critical_tier_nor_level_normal(void **state)
{
        struct problem why = {0};
        struct policy p = enforced();

        (void)state;
        assert_int_equal(policy_check(&p, &why), OK);
        for (int level = 0; level < LEVELS; level++) {
                p = enforced();
                p.delay_ms[level][TIER_CRITICAL] = 1;
                assert_int_equal(policy_check(&p, &why), ERR_BADARG);
                assert_non_null(strstr(why.detail, "critical tier always runs"));
        }
        for (int tier = TIER_HIGH; tier < TIERS; tier++) {
                p = enforced();
                p.delay_ms[LEVEL_NORMAL][tier] = 1;
                assert_int_equal(policy_check(&p, &why), ERR_BADARG);
                assert_non_null(strstr(why.detail, tier_name((enum tier)tier)));
        }
        p = enforced();
        p.mode = MODES;
        assert_int_equal(policy_check(&p, NULL), ERR_BADARG);
}

static void a_delay_is_at_most_seven_days(void **state)
{
        struct problem why = {0};
        struct policy p = enforced();

        (void)state;
        p.delay_ms[LEVEL_UNKNOWN][TIER_NORMAL] = GATE_DELAY_MAX_MS - 1;
        assert_int_equal(policy_check(&p, &why), OK);
        p.delay_ms[LEVEL_UNKNOWN][TIER_NORMAL] = GATE_DELAY_MAX_MS;
        assert_int_equal(policy_check(&p, &why), OK);
        p.delay_ms[LEVEL_UNKNOWN][TIER_NORMAL] = GATE_DELAY_MAX_MS + 1;
        assert_int_equal(policy_check(&p, &why), ERR_BADARG);
        assert_non_null(strstr(why.detail, "normal at level unknown"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names_are_those_of_the_protocol_and_read_back),
                cmocka_unit_test(what_is_no_tier_or_level_is_our_mistake),
                cmocka_unit_test(the_default_matrix_is_the_documented_one),
                cmocka_unit_test(the_default_caps_are_the_documented_ones_and_the_mode_is_off),
                cmocka_unit_test(off_and_test_observe_decide_nothing_even_while_paused),
                cmocka_unit_test(observe_announces_exactly_what_enforce_does),
                cmocka_unit_test(a_job_that_expires_waits_for_as_long_as_it_can),
                cmocka_unit_test(a_pause_is_critical_and_says_that_it_is_a_pause),
                cmocka_unit_test(
                        the_critical_tier_runs_and_normal_is_open_whatever_the_matrix_says),
                cmocka_unit_test(a_job_waits_up_to_its_maximum_and_then_runs),
                cmocka_unit_test(a_hook_is_deferred_so_often_an_hour_and_then_runs),
                cmocka_unit_test(a_policy_may_not_hold_up_the_critical_tier_nor_level_normal),
                cmocka_unit_test(a_delay_is_at_most_seven_days),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

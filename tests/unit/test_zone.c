/* The adaptive limit: what each zone of pressure does, when it rests, and who shrinks first. */
#include "check.h"

#include <math.h>

#include "gate/zone.h"

#define S NS_PER_S

struct rig {
        struct zone z;
        int64_t now_ns;
};

static struct rig rig_at(uint32_t start)
{
        struct rig r = {.now_ns = 1000 * S};
        struct zone_rule rule;

        zone_rule_init(&rule);
        rule.start = start;
        zone_init(&r.z, &rule, r.now_ns);
        return r;
}

/* n ticks under one pressure, all of the limit in use. */
static void ticks(struct rig *r, double pressure, int n)
{
        while (n-- > 0) {
                r->now_ns += 5 * S;
                (void)zone_tick(&r->z, pressure, r->z.limit, r->now_ns); /* seen in r->z */
        }
}

static void a_tick_is_every_five_seconds(void **state)
{
        struct rig r = rig_at(10);

        (void)state;
        assert_true(zone_next_ns(&r.z) == r.now_ns + 5 * S);
        assert_false(zone_tick(&r.z, 0, 10, r.now_ns + 5 * S - 1));
        assert_true(isnan(r.z.average));
        assert_true(zone_tick(&r.z, 0, 10, r.now_ns + 5 * S));
        assert_int_equal(r.z.limit, 11);
        assert_int_equal(r.z.last, ZONE_GROW);
        assert_true(zone_next_ns(&r.z) == r.now_ns + 10 * S);
        assert_false(zone_tick(&r.z, 0, 10, r.now_ns + 6 * S));
}

static void each_zone_does_what_it_is_for(void **state)
{
        static const struct {
                double pressure;
                uint32_t limit;
                enum zone_step step;
        } rows[] = {
                {0, 11, ZONE_GROW},      {0.399, 11, ZONE_GROW}, {0.4, 10, ZONE_HOLD},
                {0.55, 10, ZONE_HOLD},   {0.699, 10, ZONE_HOLD}, {0.7, 9, ZONE_SHRINK},
                {0.999, 9, ZONE_SHRINK}, {1.0, 5, ZONE_HALVE},   {1000, 5, ZONE_HALVE},
                {-1, 11, ZONE_GROW},     {NAN, 10, ZONE_HOLD},   {INFINITY, 10, ZONE_HOLD},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct rig r = rig_at(10);
                ticks(&r, rows[i].pressure, 1);
                assert_int_equal(r.z.limit, rows[i].limit);
                assert_int_equal(r.z.last, rows[i].step);
        }
}

static void the_average_weighs_the_newest_by_three_tenths(void **state)
{
        struct rig r = rig_at(10);

        (void)state;
        ticks(&r, 0.5, 1);
        assert_true(fabs(r.z.average - 0.5) < 1e-9);
        ticks(&r, 1.5, 1);
        assert_true(fabs(r.z.average - 0.8) < 1e-9);
        ticks(&r, 0, 1);
        assert_true(fabs(r.z.average - 0.56) < 1e-9);
}

static void no_signal_holds_and_draws_the_average_to_the_middle(void **state)
{
        struct rig r = rig_at(10);

        (void)state;
        ticks(&r, 0, 1);
        assert_false(r.z.is_blind);
        assert_int_equal(r.z.limit, 11);
        ticks(&r, NAN, 100);
        assert_true(r.z.is_blind);
        assert_true(fabs(r.z.average - 0.55) < 1e-9);
        uint32_t held = r.z.limit;
        assert_true(held <= 12); /* it took some ticks to forget that all was well */
        ticks(&r, NAN, 100);
        assert_int_equal(r.z.limit, held);
}

static void after_a_change_it_rests_for_fifteen_seconds(void **state)
{
        struct rig r = rig_at(10);

        (void)state;
        ticks(&r, 0, 3);
        assert_int_equal(r.z.limit, 11);
        ticks(&r, 0, 1);
        assert_int_equal(r.z.limit, 12);
        r = rig_at(10);
        ticks(&r, 0.9, 3);
        assert_int_equal(r.z.limit, 9);
        ticks(&r, 0.9, 1);
        assert_int_equal(r.z.limit, 8);
}

static void a_halving_does_not_wait_for_a_small_step_to_cool_but_for_another_halving(void **state)
{
        struct rig r = rig_at(100);

        (void)state;
        ticks(&r, 0.9, 1);
        assert_int_equal(r.z.limit, 99);
        ticks(&r, 3, 1);
        assert_int_equal(r.z.limit, 49);
        ticks(&r, 3, 2);
        assert_int_equal(r.z.limit, 49);
        ticks(&r, 3, 1);
        assert_int_equal(r.z.limit, 24);
}

static void one_wild_sample_is_forgotten_soon(void **state)
{
        struct rig r = rig_at(64);

        (void)state;
        ticks(&r, 0.5, 10);
        ticks(&r, 1e300, 1);
        assert_int_equal(r.z.limit, 32);
        ticks(&r, 0.5, 20);
        assert_true(r.z.limit >= 14); /* one halving more, and some steps */
        assert_true(r.z.average < 0.51);
}

static void it_grows_only_while_at_least_half_of_it_is_in_use(void **state)
{
        struct rig r = rig_at(10);

        (void)state;
        assert_false(zone_tick(&r.z, 0, 4, r.now_ns += 5 * S));
        assert_true(zone_tick(&r.z, 0, 5, r.now_ns += 5 * S));
        assert_int_equal(r.z.limit, 11);
        assert_true(zone_tick(&r.z, 0, UINT32_MAX, r.now_ns += 15 * S));
}

static void the_limit_stays_between_its_bounds(void **state)
{
        struct rig r = rig_at(10);

        (void)state;
        ticks(&r, 5, 100);
        assert_int_equal(r.z.limit, 1);
        ticks(&r, 0.9, 100);
        assert_int_equal(r.z.limit, 1);
        ticks(&r, 0, 4000);
        assert_int_equal(r.z.limit, 1000);
        int64_t changed_ns = r.z.changed_ns;
        ticks(&r, 0, 10);
        assert_true(r.z.changed_ns == changed_ns); /* what changes nothing is no change */
}

static void the_critical_tier_is_never_limited_and_the_others_nest(void **state)
{
        struct rig r = rig_at(100);

        (void)state;
        for (int i = 0; i < 500; i++) {
                ticks(&r, (i * 7919 % 200) / 100.0, 1);
                uint32_t high = zone_limit(&r.z, TIER_HIGH);
                uint32_t normal = zone_limit(&r.z, TIER_NORMAL);
                uint32_t last = zone_limit(&r.z, TIER_DEFERRABLE);
                assert_true(zone_limit(&r.z, TIER_CRITICAL) == ZONE_UNLIMITED);
                assert_int_equal(high, r.z.limit);
                assert_true(high >= normal && normal >= last && last >= 1);
        }
}

static void the_least_important_shrink_first_and_return_last(void **state)
{
        struct rig r = rig_at(64);

        (void)state;
        assert_int_equal(zone_limit(&r.z, TIER_DEFERRABLE), 64);
        ticks(&r, 1.2, 1);
        assert_int_equal(zone_limit(&r.z, TIER_HIGH), 32);
        assert_int_equal(zone_limit(&r.z, TIER_NORMAL), 16);
        assert_int_equal(zone_limit(&r.z, TIER_DEFERRABLE), 8);
        ticks(&r, 1.2, 3);
        assert_int_equal(zone_limit(&r.z, TIER_HIGH), 16);
        assert_int_equal(zone_limit(&r.z, TIER_NORMAL), 4);
        assert_int_equal(zone_limit(&r.z, TIER_DEFERRABLE), 1);
        /* Fine again at the lower limit: after some minutes all share it. */
        ticks(&r, 0.5, 8);
        uint32_t some = zone_limit(&r.z, TIER_DEFERRABLE);
        assert_true(some < r.z.limit);
        ticks(&r, 0.5, 60);
        assert_true(zone_limit(&r.z, TIER_DEFERRABLE) > some);
        assert_int_equal(zone_limit(&r.z, TIER_DEFERRABLE), r.z.limit);
}

static void it_settles_where_the_database_can_carry_it(void **state)
{
        struct rig r = rig_at(2);
        uint32_t low = UINT32_MAX, high = 0;

        (void)state;
        /* Each job costs a hundredth of what the database can carry, others a tenth in all. */
        for (int i = 0; i < 4000; i++) {
                ticks(&r, 0.1 + r.z.limit / 100.0, 1);
                if (i < 2000)
                        continue;
                low = r.z.limit < low ? r.z.limit : low;
                high = r.z.limit > high ? r.z.limit : high;
        }
        assert_true(low >= 29 && high <= 61); /* between 0.4 and 0.7 */
        assert_true(high - low <= 1);         /* and it does not saw */
}

static void rules_out_of_bounds_are_refused(void **state)
{
        struct zone_rule ok;
        struct problem why;

        (void)state;
        zone_rule_init(&ok);
        assert_int_equal(zone_rule_check(&ok, &why), OK);
        struct zone_rule bad[9];
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                bad[i] = ok;
        bad[0].min = 0;
        bad[1].max = ZONE_LIMIT_MAX + 1;
        bad[2].min = 1001;
        bad[3].start = 0;
        bad[4].start = 1001;
        bad[5].tick_ns = NS_PER_MS - 1;
        bad[6].cool_ns = -1;
        bad[7].weight = 0;
        bad[8].weight = NAN;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_int_equal(zone_rule_check(&bad[i], &why), ERR_BADARG);
        ok.max = ZONE_LIMIT_MAX;
        ok.weight = 1;
        ok.cool_ns = 0;
        assert_int_equal(zone_rule_check(&ok, NULL), OK);
}

static void steps_have_names(void **state)
{
        (void)state;
        assert_string_equal(zone_step_name(ZONE_HOLD), "hold");
        assert_string_equal(zone_step_name(ZONE_HALVE), "halve");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_tick_is_every_five_seconds),
                cmocka_unit_test(each_zone_does_what_it_is_for),
                cmocka_unit_test(the_average_weighs_the_newest_by_three_tenths),
                cmocka_unit_test(no_signal_holds_and_draws_the_average_to_the_middle),
                cmocka_unit_test(after_a_change_it_rests_for_fifteen_seconds),
                cmocka_unit_test(
                        a_halving_does_not_wait_for_a_small_step_to_cool_but_for_another_halving),
                cmocka_unit_test(one_wild_sample_is_forgotten_soon),
                cmocka_unit_test(it_grows_only_while_at_least_half_of_it_is_in_use),
                cmocka_unit_test(the_limit_stays_between_its_bounds),
                cmocka_unit_test(the_critical_tier_is_never_limited_and_the_others_nest),
                cmocka_unit_test(the_least_important_shrink_first_and_return_last),
                cmocka_unit_test(it_settles_where_the_database_can_carry_it),
                cmocka_unit_test(rules_out_of_bounds_are_refused),
                cmocka_unit_test(steps_have_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

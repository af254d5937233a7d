/* The pool of credits, step by step: when it grows, what it begins with when it gets tight, how it
 * shrinks, and what one asker is told. */
#include "check.h"

#include <math.h>

#include "gate/credit.h"

#define S NS_PER_S

struct box {
        struct credit_rule rule;
        struct credit_pool pool;
        int64_t now_ns;
};

static struct box box_make(void)
{
        struct box b = {.now_ns = 1000 * S};

        credit_rule_init(&b.rule);
        credit_init(&b.pool);
        return b;
}

/* A second passes in which `asks` are granted, then a sample comes. */
static void second(struct box *b, unsigned asks, double pressure)
{
        b->now_ns += S;
        for (unsigned i = 0; i < asks; i++)
                (void)credit_give(&b->pool, &b->rule, 1, 1); /* only counted here */
        credit_tick(&b->pool, &b->rule, pressure, 1, b->now_ns);
}

static uint32_t share(const struct box *b, size_t askers, uint32_t cost)
{
        return credit_share(&b->pool, &b->rule, askers, cost);
}

/* Paced, with a pool of about 100 and the pressure at the aim. */
static struct box box_paced(void)
{
        struct box b = box_make();

        second(&b, 50, 0);
        second(&b, 100, 0.5); /* of 5 credits each and the step itself */
        b.pool.base = b.pool.credits = 100;
        return b;
}

static void the_defaults_are_as_documented_and_allowed(void **state)
{
        struct box b = box_make();

        (void)state;
        assert_true(b.rule.aim == 0.5 && b.rule.increase == 5 && b.rule.decrease == 0.4);
        assert_int_equal(b.rule.max, 1000);
        assert_int_equal(b.rule.ms, 1000);
        assert_int_equal(credit_rule_check(&b.rule, NULL), OK);
}

static void a_rule_that_cannot_steer_is_refused(void **state)
{
        static const struct credit_rule bad[] = {
                {0, 5, 0.4, 1000, 1000},     {1, 5, 0.4, 1000, 1000},
                {NAN, 5, 0.4, 1000, 1000},   {0.5, 0, 0.4, 1000, 1000},
                {0.5, 2e6, 0.4, 1000, 1000}, {0.5, NAN, 0.4, 1000, 1000},
                {0.5, 5, 0, 1000, 1000},     {0.5, 5, 1.01, 1000, 1000},
                {0.5, 5, NAN, 1000, 1000},   {0.5, 5, 0.4, 1000001, 1000},
                {0.5, 5, 0.4, 1000, 9},      {0.5, 5, 0.4, 1000, 60001},
                {-0.5, 5, 0.4, 1000, 1000},  {0.5, INFINITY, 0.4, 1000, 1000},
        };
        static const struct credit_rule good[] = {
                {0.01, 0.1, 0.01, 0, 10},
                {0.99, 1e6, 1, 1000000, 60000},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct problem problem = {0};
                assert_int_equal(credit_rule_check(&bad[i], &problem), ERR_BADARG);
                assert_non_null(strstr(problem.detail, "credits: "));
        }
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                assert_int_equal(credit_rule_check(&good[i], NULL), OK);
}

static void before_the_first_sample_nobody_gets_credits(void **state)
{
        struct box b = box_make();

        (void)state;
        assert_true(isnan(b.pool.pressure));
        assert_int_equal(share(&b, 1, 1), 0);
        struct credit_grant g = credit_give(&b.pool, &b.rule, 1, 1);
        assert_int_equal(g.steps + g.ms + g.pause_ms, 0);
}

static void while_free_it_grows_as_long_as_askers_come_back_early(void **state)
{
        struct box b = box_make();

        (void)state;
        second(&b, 50, 0.1); /* half of what was asked for, at once */
        assert_int_equal(share(&b, 1, 1), 25);
        second(&b, 10, 0.1);
        assert_int_equal(share(&b, 1, 1), 30);
        second(&b, 2, 0.49);
        assert_int_equal(share(&b, 1, 1), 35);
        for (int i = 0; i < 10; i++)
                second(&b, 1, 0.1); /* their time ends before the credits do */
        assert_in_range(share(&b, 1, 1), 26, 33);
        struct credit_grant g = credit_give(&b.pool, &b.rule, 1, 1);
        assert_int_equal(g.ms, 1000);
        assert_int_equal(g.pause_ms, 0);
}

static void it_grows_per_asker_and_is_shared_evenly_and_by_cost(void **state)
{
        struct box b = box_make();

        (void)state;
        for (int i = 0; i < 10; i++) {
                b.now_ns += S;
                for (int k = 0; k < 20; k++)
                        (void)credit_give(&b.pool, &b.rule, 4, 1);
                credit_tick(&b.pool, &b.rule, 0, 4, b.now_ns);
        }
        assert_true(b.pool.credits == 200);
        assert_int_equal(share(&b, 4, 1), 50);
        assert_int_equal(share(&b, 4, 20), 2);
        assert_int_equal(share(&b, 4, 51), 0);
        assert_int_equal(share(&b, 4, 0), 50); /* 0 is 1 */
        assert_int_equal(share(&b, 0, 1), 200);
        b.rule.ms = 500; /* half the time, half the steps */
        assert_int_equal(share(&b, 4, 1), 25);
}

static void one_answer_gives_no_more_than_the_maximum(void **state)
{
        struct box b = box_make();

        (void)state;
        b.rule.max = 12;
        for (int i = 0; i < 10; i++)
                second(&b, 100, 0);
        assert_int_equal(share(&b, 1, 1), 12);
        b.rule.max = 0;
        assert_int_equal(share(&b, 1, 1), 0);
        for (int i = 0; i < 10; i++)
                second(&b, 100, 0.7);
        struct credit_grant g = credit_give(&b.pool, &b.rule, 1, 1);
        assert_int_equal(g.steps + g.ms + g.pause_ms, 0);
        assert_true(b.pool.credits > 0); /* those that wait are still let go by it */
}

static void many_samples_in_one_second_count_once(void **state)
{
        struct box b = box_make(), twin;

        (void)state;
        second(&b, 50, 0);
        twin = b;
        for (int i = 1; i < 100; i++)
                credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns + i * S / 120);
        second(&b, 50, 0);
        second(&twin, 50, 0);
        assert_true(b.pool.credits == twin.pool.credits);
}

static void pacing_begins_with_what_was_really_taken(void **state)
{
        struct box b = box_make();

        (void)state;
        second(&b, 10, 0);   /* 10 steps, no credits yet */
        second(&b, 10, 0.5); /* 10 asks with 5 credits each */
        assert_true(b.pool.demand == 60 && b.pool.credits == 60);
        struct credit_grant g = credit_give(&b.pool, &b.rule, 3, 1);
        assert_int_equal(g.steps, 19); /* and the one that asked: 20 in a second */
        assert_int_equal(g.ms, 1000);
        assert_int_equal(g.pause_ms, 1000);
}

static void a_share_below_a_step_becomes_a_longer_pause(void **state)
{
        struct box b = box_paced();
        struct credit_grant g = credit_give(&b.pool, &b.rule, 40, 1);

        (void)state;
        assert_int_equal(g.steps, 1); /* 2.5 in a second: 2 in 800 ms */
        assert_int_equal(g.pause_ms, 800);
        g = credit_give(&b.pool, &b.rule, 40, 10);
        assert_int_equal(g.steps, 0);
        assert_int_equal(g.ms, 0);
        assert_int_equal(g.pause_ms, 4000);
        g = credit_give(&b.pool, &b.rule, 40, 1000000);
        assert_int_equal(g.pause_ms, 30000);
}

static void what_is_given_out_follows_the_pressure_at_once(void **state)
{
        static const double given[][2] = {{0.5, 100}, {0.75, 50}, {0.9, 20}, {0.6, 80}, {1, 0}};
        struct box b = box_paced();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(given); i++) {
                credit_tick(&b.pool, &b.rule, given[i][0], 1, b.now_ns + 10 * NS_PER_MS);
                assert_true(fabs(b.pool.credits - given[i][1]) < 0.001);
        }
        assert_int_equal(share(&b, 1, 1), 0);
}

static void the_pool_shrinks_by_the_overshoot_but_never_below_half(void **state)
{
        struct box b = box_paced();

        (void)state;
        second(&b, 1, 0.6);
        assert_true(fabs(b.pool.base - 92) < 0.001);
        second(&b, 1, 0.75);
        assert_true(fabs(b.pool.base - 92 * 0.8) < 0.001);
        double was = b.pool.base;
        second(&b, 1, 100);
        assert_true(b.pool.base == was / 2);
        second(&b, 1, INFINITY);
        assert_true(b.pool.base == was / 4);
        assert_true(b.pool.credits == 0);
}

static void the_pool_waits_while_the_pressure_moves_the_right_way(void **state)
{
        struct box b = box_paced();

        (void)state;
        second(&b, 1, 0.9);
        double was = b.pool.base;
        second(&b, 1, 0.8);
        second(&b, 1, 0.6);
        assert_true(b.pool.base == was);
        second(&b, 1, 0.3);
        assert_true(b.pool.base == was * 1.125);
        second(&b, 1, 0.45);
        assert_true(b.pool.base == was * 1.125);
        second(&b, 1, 0.46); /* as good as still */
        assert_true(b.pool.base == was * 1.125 * 1.125);
}

static void nothing_is_learned_while_nobody_is_granted_anything(void **state)
{
        struct box b = box_paced();

        (void)state;
        for (int i = 0; i < 30; i++)
                second(&b, 0, 3 + i);
        assert_true(b.pool.base == 100);
        for (int i = 0; i < 30; i++)
                second(&b, 0, 0.1);
        assert_true(b.pool.base == 0 && b.pool.demand == 0); /* a minute later all is forgotten */
}

static void an_asker_that_meets_a_loaded_target_asks_for_each_step_first(void **state)
{
        struct box b = box_make();

        (void)state;
        second(&b, 0, 0.8);
        assert_int_equal(share(&b, 1, 1), 0);
        (void)credit_give(&b.pool, &b.rule, 1, 1); /* only counted */
        credit_tick(&b.pool, &b.rule, 0.8, 1, b.now_ns + S / 4);
        assert_true(b.pool.demand == 0); /* too early to know */
        second(&b, 6, 0.8);
        assert_true(b.pool.demand == 7 && b.pool.base == 7);
}

static void pacing_ends_when_the_pool_is_back_at_what_was_taken(void **state)
{
        struct box b = box_make();

        (void)state;
        second(&b, 10, 0.1);
        second(&b, 20, 0.6);
        assert_true(b.pool.demand == 120);
        second(&b, 1, 0.9);
        assert_true(b.pool.base < 120);
        int seconds = 0;
        for (; b.pool.demand > 0; seconds++) {
                assert_true(credit_give(&b.pool, &b.rule, 1, 1).pause_ms > 0);
                second(&b, 1, 0);
        }
        assert_in_range(seconds, 2, 5);
        assert_int_equal(credit_give(&b.pool, &b.rule, 1, 1).pause_ms, 0);
}

static void when_nobody_knows_the_pool_is_empty_and_comes_back_as_it_was(void **state)
{
        struct box b = box_paced();

        (void)state;
        second(&b, 1, NAN);
        assert_true(isnan(b.pool.pressure) && b.pool.credits == 0);
        struct credit_grant g = credit_give(&b.pool, &b.rule, 1, 1);
        assert_int_equal(g.steps + g.pause_ms, 0);
        credit_tick(&b.pool, &b.rule, 0.5, 1, b.now_ns + S / 10);
        assert_true(b.pool.credits == 100);
}

static void odd_pressures_and_clocks_do_no_harm(void **state)
{
        struct box b = box_make();

        (void)state;
        second(&b, 10, -3);
        assert_true(b.pool.pressure == 0);
        assert_int_equal(share(&b, 1, 1), 5);
        credit_tick(&b.pool, &b.rule, 0.1, 1, b.now_ns - 50 * S); /* back in time: nothing turns */
        assert_int_equal(share(&b, 1, 1), 5);
        b.now_ns += 3600 * S; /* an hour is one turn */
        second(&b, 50, 0.1);
        assert_true(b.pool.base <= 10);
        credit_tick(&b.pool, &b.rule, 0.1, 0, b.now_ns + 2 * S);
        assert_true(isfinite(b.pool.base));
}

static void without_counts_it_grows_and_shrinks_by_pressure_alone(void **state)
{
        struct box b = box_make();

        (void)state;
        for (int i = 0; i < 10; i++)
                second(&b, 0, 0.1);
        assert_int_equal(share(&b, 1, 1), 50);
        second(&b, 0, 0.5);
        assert_int_equal(share(&b, 1, 1), 50);
        second(&b, 0, 0.75);
        assert_int_equal(share(&b, 1, 1), 20); /* 50 x 0.8, half of it given out */
        assert_true(b.pool.demand == 0);
        assert_int_equal(credit_give(&b.pool, &b.rule, 1, 1).steps, 0); /* begins anew */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_defaults_are_as_documented_and_allowed),
                cmocka_unit_test(a_rule_that_cannot_steer_is_refused),
                cmocka_unit_test(before_the_first_sample_nobody_gets_credits),
                cmocka_unit_test(while_free_it_grows_as_long_as_askers_come_back_early),
                cmocka_unit_test(it_grows_per_asker_and_is_shared_evenly_and_by_cost),
                cmocka_unit_test(one_answer_gives_no_more_than_the_maximum),
                cmocka_unit_test(many_samples_in_one_second_count_once),
                cmocka_unit_test(pacing_begins_with_what_was_really_taken),
                cmocka_unit_test(a_share_below_a_step_becomes_a_longer_pause),
                cmocka_unit_test(what_is_given_out_follows_the_pressure_at_once),
                cmocka_unit_test(the_pool_shrinks_by_the_overshoot_but_never_below_half),
                cmocka_unit_test(the_pool_waits_while_the_pressure_moves_the_right_way),
                cmocka_unit_test(nothing_is_learned_while_nobody_is_granted_anything),
                cmocka_unit_test(an_asker_that_meets_a_loaded_target_asks_for_each_step_first),
                cmocka_unit_test(pacing_ends_when_the_pool_is_back_at_what_was_taken),
                cmocka_unit_test(when_nobody_knows_the_pool_is_empty_and_comes_back_as_it_was),
                cmocka_unit_test(odd_pressures_and_clocks_do_no_harm),
                cmocka_unit_test(without_counts_it_grows_and_shrinks_by_pressure_alone),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

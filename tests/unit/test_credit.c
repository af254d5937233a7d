/* The pool of credits, step by step: what it begins with, when it grows and shrinks, and what one
 * asker is told. */
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
        b.rule.aim = 0.5; /* rounder numbers */
        credit_init(&b.pool);
        credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns);
        return b;
}

/* An ask of the only asker there is, as soon as its pause is over. */
static struct credit_grant give(struct box *b)
{
        return credit_give(&b->pool, &b->rule, 1, 1, 0);
}

/* Half a second passes in which something is granted, then a sample comes. */
static void turn(struct box *b, double pressure)
{
        (void)give(b); /* only counted here */
        b->now_ns += S / 2;
        credit_tick(&b->pool, &b->rule, pressure, 1, b->now_ns);
}

/* The beginning is over: a pool of 100, of which the target takes 80, and no pressure now. */
static struct box box_known(void)
{
        struct box b = box_make();

        turn(&b, 0.3);
        turn(&b, 0);
        b.pool.base = b.pool.credits = 100;
        b.pool.taken = 80;
        b.pool.calm = 0;
        return b;
}

static bool is_about(double a, double b)
{
        return fabs(a - b) < 1e-9;
}

static void the_defaults_are_as_documented_and_allowed(void **state)
{
        struct credit_rule r;

        (void)state;
        credit_rule_init(&r);
        assert_true(r.aim == 0.4 && r.increase == 5 && r.decrease == 0.4);
        assert_int_equal(r.max, 1000);
        assert_int_equal(r.ms, 1000);
        assert_int_equal(credit_rule_check(&r, NULL), OK);
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

static void before_the_first_sample_nobody_gets_credits_or_is_paced(void **state)
{
        struct box b = {0};

        (void)state;
        credit_rule_init(&b.rule);
        credit_init(&b.pool);
        assert_true(isnan(b.pool.pressure));
        struct credit_grant g = give(&b);
        assert_int_equal(g.steps + g.ms + g.pause_ms, 0);
}

static void it_begins_with_ten_steps_a_second_and_paces_from_the_first_one_on(void **state)
{
        struct box b = box_make();
        struct credit_grant g = give(&b);

        (void)state;
        assert_true(b.pool.credits == 10);
        assert_int_equal(g.steps, 1); /* 2.5 in a quarter of a second: 2 in 200 ms */
        assert_int_equal(g.pause_ms, 200);
        assert_int_equal(g.ms, 1000);
}

static void it_begins_with_steps_of_the_size_that_is_asked_for(void **state)
{
        struct box b = box_make();
        struct credit_grant g = credit_give(&b.pool, &b.rule, 1, 500, INT64_MAX);

        (void)state;
        assert_true(b.pool.credits == 5000);
        assert_int_equal(g.steps, 1);
        assert_int_equal(g.pause_ms, 200);
        /* A much larger one is paced by its size, and the next are known to be large. */
        g = credit_give(&b.pool, &b.rule, 1, 500000, 0);
        assert_int_equal(g.steps, 0);
        assert_int_equal(g.pause_ms, 30000);
        for (int i = 0; i < 20; i++)
                (void)credit_give(&b.pool, &b.rule, 1, 500000, 0); /* only counted here */
        b.now_ns += S / 2;
        credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns);
        assert_true(b.pool.base > 0.2 * 400000);
}

static void it_grows_by_a_fifth_in_half_a_second_until_there_is_pressure(void **state)
{
        struct box b = box_make();

        (void)state;
        turn(&b, 0);
        assert_true(is_about(b.pool.base, 12));
        b.now_ns += S / 2; /* a sample later: what passed is made up for, up to a second */
        turn(&b, 0);
        assert_true(is_about(b.pool.base, 12 * 1.4));
        b.now_ns += 30 * S;
        turn(&b, 0);
        assert_true(is_about(b.pool.base, 12 * 1.4 * 1.4));
        turn(&b, 0.2); /* seen: some of it is taken back, and what is left is the estimate */
        assert_true(is_about(b.pool.base, 12 * 1.4 * 1.4 * 0.6));
        assert_true(b.pool.taken > 0);
}

static void it_grows_only_while_somebody_waits_for_it(void **state)
{
        static const int64_t lates[] = {700 * NS_PER_MS, 10 * S, INT64_MAX};
        struct box b = box_make();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(lates); i++) {
                (void)credit_give(&b.pool, &b.rule, 1, 1, lates[i]); /* only counted here */
                b.now_ns += S / 2;
                credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns);
                assert_true(b.pool.base == 10);
        }
        /* It had used up its few credits before their time was over: more would save asks. */
        (void)credit_give(&b.pool, &b.rule, 1, 1, 600 * NS_PER_MS); /* only counted here */
        b.now_ns += S / 2;
        credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns);
        assert_true(is_about(b.pool.base, 12));
        b.pool.base = b.pool.credits = 100;                         /* these are not few */
        (void)credit_give(&b.pool, &b.rule, 1, 1, 600 * NS_PER_MS); /* only counted here */
        b.now_ns += S / 2;
        credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns);
        assert_true(b.pool.base == 100);
}

static void after_pressure_it_grows_slowly_and_faster_the_longer_it_is_calm(void **state)
{
        struct box b = box_known();
        double was = 100, last = 0;

        (void)state;
        for (int i = 0; i < 60; i++) {
                turn(&b, 0);
                double part = b.pool.base / was - 1;
                assert_true(part >= last - 1e-9 && part <= 0.2 + 1e-9);
                assert_true(i > 0 || part < 0.04);
                was = b.pool.base;
                last = part;
        }
        assert_true(last > 0.15);
}

static void it_comes_back_quickly_to_what_the_target_once_took(void **state)
{
        struct box b = box_known();

        (void)state;
        b.pool.base = b.pool.credits = 50;
        turn(&b, 0);
        assert_true(is_about(b.pool.base, 60));
        turn(&b, 0);
        assert_true(is_about(b.pool.base, 72)); /* beyond 64 it is careful again */
        turn(&b, 0);
        assert_true(b.pool.base < 72 * 1.1);
}

static void the_nearer_the_aim_the_less_it_grows(void **state)
{
        struct box b = box_known();

        (void)state;
        b.pool.before = 1; /* on its way down */
        turn(&b, 0.25);
        assert_true(is_about(b.pool.base, 100 * (1 + 0.03 * 0.5)));
        double was = b.pool.base;
        turn(&b, 0.4); /* it rises: wait */
        assert_true(b.pool.base == was);
        turn(&b, 0.41); /* as good as still */
        assert_true(b.pool.base > was);
}

static void the_share_is_even_and_by_cost(void **state)
{
        struct box b = box_known();

        (void)state;
        assert_int_equal(give(&b).steps, 24); /* and the one that was asked for */
        assert_int_equal(credit_give(&b.pool, &b.rule, 2, 1, 0).steps, 11);
        assert_int_equal(credit_give(&b.pool, &b.rule, 1, 2, 0).steps, 11);
        assert_int_equal(credit_give(&b.pool, &b.rule, 2, 0, 0).steps, 11); /* 0 is 1 */
        assert_int_equal(credit_give(&b.pool, &b.rule, 0, 1, 0).steps, 24);
        b.rule.ms = 120; /* no more than may be used in their time */
        struct credit_grant g = give(&b);
        assert_int_equal(g.steps, 11);
        assert_int_equal(g.ms, 120);
        assert_int_equal(g.pause_ms, 120);
}

static void when_the_target_is_known_small_shares_are_given_for_longer(void **state)
{
        struct box b = box_known();
        struct credit_grant g = credit_give(&b.pool, &b.rule, 3, 1, 0);

        (void)state;
        assert_int_equal(g.steps, 11); /* a dozen at 33 a second */
        assert_int_equal(g.pause_ms, 360);
        g = credit_give(&b.pool, &b.rule, 10, 1, 0);
        assert_int_equal(g.steps, 3); /* 4.5 in 450 ms */
        assert_int_equal(g.pause_ms, 400);
        b.pool.taken = 0;
        g = credit_give(&b.pool, &b.rule, 10, 1, 0);
        assert_int_equal(g.steps, 1); /* 2.5 in 250 ms */
        assert_int_equal(g.pause_ms, 200);
}

static void one_answer_gives_no_more_than_the_maximum_and_pauses_no_longer_for_it(void **state)
{
        struct box b = box_known();

        (void)state;
        b.rule.max = 9;
        struct credit_grant g = give(&b);
        assert_int_equal(g.steps, 9);
        assert_int_equal(g.pause_ms, 100);
        b.rule.max = 0;
        g = give(&b);
        assert_int_equal(g.steps + g.ms + g.pause_ms, 0);
        turn(&b, 0.7);
        assert_true(b.pool.credits > 0); /* those that wait are still let go by it */
}

static void a_share_below_a_step_becomes_a_longer_pause(void **state)
{
        struct box b = box_known();
        struct credit_grant g = credit_give(&b.pool, &b.rule, 40, 1, 0);

        (void)state;
        assert_int_equal(g.steps, 0);
        assert_int_equal(g.ms, 0);
        assert_int_equal(g.pause_ms, 400);
        g = credit_give(&b.pool, &b.rule, 40, 10, 0);
        assert_int_equal(g.pause_ms, 4000);
        g = credit_give(&b.pool, &b.rule, 40, 1000000, 0);
        assert_int_equal(g.pause_ms, 30000);
}

static void what_is_given_out_follows_the_pressure_at_once(void **state)
{
        static const double given[][2] = {{0.5, 50}, {0.75, 25}, {0.9, 10}, {0, 100}, {1, 0}};
        struct box b = box_known();

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(given); i++) {
                credit_tick(&b.pool, &b.rule, given[i][0], 1, b.now_ns + 10 * NS_PER_MS);
                assert_true(is_about(b.pool.credits, given[i][1]));
        }
        struct credit_grant g = give(&b);
        assert_int_equal(g.steps, 0);
        assert_int_equal(g.pause_ms, 40); /* as if a quarter of the pool were given out */
}

static void the_pool_shrinks_by_the_overshoot_but_never_below_half(void **state)
{
        struct box b = box_known();

        (void)state;
        b.pool.taken = 1e-9;
        turn(&b, 0.6);
        assert_true(is_about(b.pool.base, 92));
        turn(&b, 0.75);
        assert_true(is_about(b.pool.base, 92 * 0.8));
        double was = b.pool.base;
        b.pool.taken = 1e-9;
        turn(&b, 100);
        assert_true(b.pool.base == was / 2);
        b.pool.taken = 1e-9;
        turn(&b, INFINITY);
        assert_true(b.pool.base == was / 4);
        assert_true(b.pool.credits == 0);
}

static void it_does_not_shrink_far_below_what_the_target_took_until_that_is_old(void **state)
{
        struct box b = box_known();

        (void)state;
        for (int i = 0; i < 4; i++)
                turn(&b, 0.9 + i / 100.0);
        assert_true(b.pool.base == b.pool.taken / 2);
        assert_in_range(b.pool.base, 25, 40);
        for (int i = 0; i < 200; i++)
                turn(&b, 0.99);
        assert_true(b.pool.base < 1);
        assert_true(b.pool.base >= 1.0 / 30);
}

static void the_pool_waits_while_the_pressure_falls(void **state)
{
        struct box b = box_known();

        (void)state;
        turn(&b, 0.9);
        double was = b.pool.base;
        turn(&b, 0.8);
        turn(&b, 0.6);
        assert_true(b.pool.base == was);
}

static void many_samples_in_half_a_second_count_once(void **state)
{
        struct box b = box_make(), twin;

        (void)state;
        turn(&b, 0);
        twin = b;
        for (int i = 1; i < 50; i++)
                credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns + i * S / 120);
        turn(&b, 0);
        turn(&twin, 0);
        assert_true(b.pool.credits == twin.pool.credits);
}

static void nothing_is_learned_while_nobody_is_granted_anything(void **state)
{
        struct box b = box_known();

        (void)state;
        (void)give(&b); /* only counted here */
        for (int i = 0; i < 39; i++) {
                b.now_ns += S;
                credit_tick(&b.pool, &b.rule, i ? 3 + i : 0.3, 1, b.now_ns);
                if (i > 0)
                        assert_true(b.pool.taken > 0 && b.pool.base > 95);
        }
        b.now_ns += 2 * S; /* then all is forgotten */
        credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns);
        assert_true(b.pool.base == 10 && b.pool.taken == 0);
}

static void what_is_wound_down_begins_anew_after_five_calm_seconds(void **state)
{
        struct box b = box_known();

        (void)state;
        b.pool.base = b.pool.taken = 0.1;
        for (int i = 0; i < 9; i++)
                turn(&b, 0);
        assert_true(b.pool.base < 5);
        turn(&b, 0);
        assert_true(b.pool.base >= 10);
}

static void when_nobody_knows_nobody_is_paced_and_it_comes_back_as_it_was(void **state)
{
        struct box b = box_known();

        (void)state;
        turn(&b, NAN);
        assert_true(isnan(b.pool.pressure) && b.pool.credits == 0);
        struct credit_grant g = give(&b);
        assert_int_equal(g.steps + g.ms + g.pause_ms, 0);
        credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns + S / 10);
        assert_true(b.pool.credits == 100);
}

static void odd_pressures_and_clocks_do_no_harm(void **state)
{
        struct box b = box_make();

        (void)state;
        turn(&b, -3);
        assert_true(b.pool.pressure == 0 && is_about(b.pool.base, 12));
        credit_tick(&b.pool, &b.rule, 0, 1, b.now_ns - 50 * S); /* back in time: nothing turns */
        assert_true(is_about(b.pool.base, 12));
        credit_tick(&b.pool, &b.rule, 0, 0, b.now_ns + 2 * S);
        assert_true(isfinite(b.pool.base));
        for (int i = 0; i < 1000; i++)
                turn(&b, 0); /* not beyond all bounds */
        assert_true(b.pool.base == 1e6);
        (void)credit_give(&b.pool, &b.rule, 1, UINT32_MAX, INT64_MIN); /* nor does this */
        turn(&b, 0);
        assert_true(isfinite(b.pool.base));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_defaults_are_as_documented_and_allowed),
                cmocka_unit_test(a_rule_that_cannot_steer_is_refused),
                cmocka_unit_test(before_the_first_sample_nobody_gets_credits_or_is_paced),
                cmocka_unit_test(it_begins_with_ten_steps_a_second_and_paces_from_the_first_one_on),
                cmocka_unit_test(it_begins_with_steps_of_the_size_that_is_asked_for),
                cmocka_unit_test(it_grows_by_a_fifth_in_half_a_second_until_there_is_pressure),
                cmocka_unit_test(it_grows_only_while_somebody_waits_for_it),
                cmocka_unit_test(after_pressure_it_grows_slowly_and_faster_the_longer_it_is_calm),
                cmocka_unit_test(it_comes_back_quickly_to_what_the_target_once_took),
                cmocka_unit_test(the_nearer_the_aim_the_less_it_grows),
                cmocka_unit_test(the_share_is_even_and_by_cost),
                cmocka_unit_test(when_the_target_is_known_small_shares_are_given_for_longer),
                cmocka_unit_test(
                        one_answer_gives_no_more_than_the_maximum_and_pauses_no_longer_for_it),
                cmocka_unit_test(a_share_below_a_step_becomes_a_longer_pause),
                cmocka_unit_test(what_is_given_out_follows_the_pressure_at_once),
                cmocka_unit_test(the_pool_shrinks_by_the_overshoot_but_never_below_half),
                cmocka_unit_test(
                        it_does_not_shrink_far_below_what_the_target_took_until_that_is_old),
                cmocka_unit_test(the_pool_waits_while_the_pressure_falls),
                cmocka_unit_test(many_samples_in_half_a_second_count_once),
                cmocka_unit_test(nothing_is_learned_while_nobody_is_granted_anything),
                cmocka_unit_test(what_is_wound_down_begins_anew_after_five_calm_seconds),
                cmocka_unit_test(when_nobody_knows_nobody_is_paced_and_it_comes_back_as_it_was),
                cmocka_unit_test(odd_pressures_and_clocks_do_no_harm),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Thresholds from what is usual: what teaches, what is proposed, and what thresholds do to a day.
 */
#include "check.h"

#include <math.h>

#include "gate/advice.h"

#define DAY_TENS 144

static float tens[ADVICE_TENS];

static void fill_tens(float value)
{
        for (size_t i = 0; i < ADVICE_TENS; i++)
                tens[i] = value;
}

/* In all ten minutes of that hour of one day; the days begin at midnight. */
static void set_hour(size_t day, size_t hour, float value)
{
        for (size_t i = 0; i < 6; i++)
                tens[day * DAY_TENS + hour * 6 + i] = value;
}

static struct advice_usual learn(size_t n)
{
        struct advice_usual u;
        advice_learn(tens, n, 0, &u);
        return u;
}

static const struct advice_bounds no_bounds = {INFINITY, {{NAN, NAN}, {NAN, NAN}, 0, false}};

/* What is proposed when each value was this one. */
static struct level_rule proposed_for(double usual, const struct advice_bounds *bounds)
{
        struct level_rule r = {0};
        fill_tens((float)usual);
        const struct advice_usual u = learn(ADVICE_TENS);
        assert_int_equal(advice_propose(&u, bounds, &r), ADVICE_GIVEN);
        return r;
}

static void assert_rule(const struct level_rule *r, double elevated, double elevated_exit,
                        double critical, double critical_exit)
{
        assert_true(r->enter[0] == elevated);
        assert_true(r->exit[0] == elevated_exit);
        assert_true(r->enter[1] == critical);
        assert_true(r->exit[1] == critical_exit);
}

/* ---- learning ---- */

static void each_hour_of_the_day_has_its_own_usual_value(void **unused)
{
        (void)unused;
        fill_tens(2);
        for (size_t day = 0; day < ADVICE_DAYS; day++) {
                set_hour(day, 3, 9);
                set_hour(day, 20, 6);
        }
        struct advice_usual u = learn(ADVICE_TENS);
        assert_int_equal(u.n, ADVICE_TENS);
        for (size_t i = 0; i < ADVICE_HOURS; i++)
                assert_true(u.hour[i] == (i == 3 ? 9 : i == 20 ? 6 : 2));
        assert_true(u.most == 9);
        assert_true(u.is_whole);
}

static void the_first_value_may_be_of_any_time_of_the_day(void **unused)
{
        (void)unused;
        struct advice_usual u;
        fill_tens(1);
        for (size_t i = 0; i < 6; i++)
                tens[i] = 5; /* 23:50 to 00:50 */
        advice_learn(tens, DAY_TENS, DAY_TENS - 1, &u);
        assert_true(u.hour[23] == 5);
        assert_true(u.hour[0] == 5);
        assert_true(u.hour[1] == 1);
}

static void what_happened_on_one_day_alone_does_not_teach(void **unused)
{
        (void)unused;
        fill_tens(4);
        for (size_t hour = 0; hour < ADVICE_HOURS; hour++)
                set_hour(5, hour, 300); /* a whole day */
        assert_true(learn(ADVICE_TENS).most == 4);
        set_hour(2, 11, 200);
        struct advice_usual u = learn(ADVICE_TENS);
        assert_true(u.hour[11] == 200); /* on two days */
        assert_true(u.hour[10] == 4);
}

static void ten_minutes_of_every_day_do_teach(void **unused)
{
        (void)unused;
        fill_tens(4);
        for (size_t day = 0; day < ADVICE_DAYS; day++)
                tens[day * DAY_TENS + 2 * 6 + day % 6] = 50;
        assert_true(learn(ADVICE_TENS).hour[2] == 50);
        tens[2 * 6] = 4; /* one day less */
        assert_true(learn(ADVICE_TENS).hour[2] == 4);
}

static void times_without_values_are_passed_over(void **unused)
{
        (void)unused;
        fill_tens(NAN);
        struct advice_usual u = learn(ADVICE_TENS);
        assert_int_equal(u.n, 0);
        assert_true(isnan(u.most) && isnan(u.hour[0]));
        set_hour(6, 12, 3.5f);
        u = learn(ADVICE_TENS);
        assert_int_equal(u.n, 6);
        assert_true(u.hour[12] == 3.5 && isnan(u.hour[11]));
        assert_true(u.most == 3.5);
        assert_false(u.is_whole);
        advice_learn(NULL, 0, 0, &u);
        assert_int_equal(u.n, 0);
}

/* ---- proposing ---- */

static void less_than_a_day_proposes_nothing(void **unused)
{
        (void)unused;
        struct level_rule r = {{1, 2}, {1, 2}, 0, false};
        fill_tens(4);
        struct advice_usual u = learn(ADVICE_LEAST - 1);
        assert_int_equal(advice_propose(&u, &no_bounds, &r), ADVICE_LITTLE);
        assert_rule(&r, 1, 1, 2, 2);
        u = learn(ADVICE_LEAST);
        assert_int_equal(advice_propose(&u, &no_bounds, &r), ADVICE_GIVEN);
}

static void thresholds_are_above_what_is_usual_and_round(void **unused)
{
        (void)unused;
        static const struct {
                double usual, elevated, elevated_exit, critical, critical_exit;
        } rows[] = {
                {0, 1, 1, 3, 2},
                {1, 2, 2, 4, 3},
                {2, 3, 3, 6, 4},
                {4, 6, 5, 12, 8},
                {10, 15, 12, 30, 20},
                {37, 60, 45, 120, 80},
                {70, 110, 80, 250, 170},
                {1234, 1900, 1500, 4000, 3000},
                {0.25, 1.3, 0.55, 3.5, 2.5},
                {1.5, 2.5, 1.8, 4.5, 3},
                {-5, -4, -4, -2, -2},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct level_rule r = proposed_for(rows[i].usual, &no_bounds);
                assert_rule(&r, rows[i].elevated, rows[i].elevated_exit, rows[i].critical,
                            rows[i].critical_exit);
        }
}

static void the_order_holds_for_any_usual_value(void **unused)
{
        (void)unused;
        const struct advice_bounds percent = {100, no_bounds.lowest};
        for (double usual = 0; usual < 5000; usual = usual * 1.07 + 0.01) {
                struct level_rule r = proposed_for(usual, &no_bounds);
                float learned = (float)usual;
                assert_true(r.enter[0] >= learned + 1 || r.enter[0] >= 1.5 * learned);
                assert_true(r.exit[0] > learned && r.exit[0] <= r.enter[0]);
                assert_true(r.exit[1] >= r.enter[0] && r.exit[1] <= r.enter[1]);
                struct advice_usual u = learn(ADVICE_TENS);
                if (advice_propose(&u, &percent, &r) != ADVICE_GIVEN)
                        continue;
                assert_true(r.enter[0] > learned && r.enter[0] < 100 && r.enter[1] <= 100);
                assert_true(r.exit[0] > learned && r.exit[0] <= r.enter[0]);
                assert_true(r.exit[1] >= r.enter[0] && r.exit[1] <= r.enter[1]);
        }
}

static void a_percentage_has_thresholds_within_its_room(void **unused)
{
        (void)unused;
        const struct advice_bounds percent = {100, no_bounds.lowest};
        struct level_rule r = proposed_for(20, &percent);
        assert_rule(&r, 30, 25, 60, 40);
        r = proposed_for(70, &percent);
        assert_rule(&r, 85, 75, 100, 85);
        fill_tens(99);
        struct advice_usual u = learn(ADVICE_TENS);
        assert_int_equal(advice_propose(&u, &percent, &r), ADVICE_FULL);
        assert_rule(&r, 85, 75, 100, 85);
}

static void no_proposal_is_below_the_default_of_its_metric(void **unused)
{
        (void)unused;
        const struct advice_bounds bounds = {INFINITY, {{5, 15}, {3, 10}, 0, false}};
        struct level_rule r = proposed_for(1, &bounds);
        assert_rule(&r, 5, 3, 15, 10);
        r = proposed_for(4, &bounds);
        assert_rule(&r, 6, 5, 15, 10);
        r = proposed_for(37, &bounds);
        assert_rule(&r, 60, 45, 120, 80);
        const struct advice_bounds low_exit = {INFINITY, {{8, 9}, {2, 2}, 0, false}};
        r = proposed_for(4, &low_exit);
        assert_rule(&r, 8, 5, 12, 8); /* an exit at what is usual would never be left */
}

/* ---- trying ---- */

#define RULE                                                                                       \
        {                                                                                          \
                {5, 15}, {3, 10}, 0, false                                                         \
        }

static void assert_effect(struct advice_effect e, unsigned elevated, unsigned critical,
                          unsigned entered)
{
        assert_int_equal(e.elevated, elevated);
        assert_int_equal(e.critical, critical);
        assert_int_equal(e.entered, entered);
}

static void a_replay_counts_minutes_and_how_often_a_level_was_entered(void **unused)
{
        (void)unused;
        static const float minutes[] = {1, 5, 4, 3, 2, 1, 20, 12, 6, 4, 2, 7, 2};
        const struct level_rule rule = RULE;
        assert_effect(advice_replay(minutes, ARRAY_LEN(minutes), &rule, 30 * NS_PER_S), 3 + 2 + 1,
                      2, 3);
        assert_effect(advice_replay(minutes, 0, &rule, 30 * NS_PER_S), 0, 0, 0);
}

static void a_long_dwell_holds_the_level_for_minutes(void **unused)
{
        (void)unused;
        static const float minutes[] = {1, 5, 1, 1, 1, 1, 1};
        const struct level_rule rule = RULE;
        assert_effect(advice_replay(minutes, ARRAY_LEN(minutes), &rule, 60 * NS_PER_S), 1, 0, 1);
        assert_effect(advice_replay(minutes, ARRAY_LEN(minutes), &rule, 180 * NS_PER_S), 3, 0, 1);
}

static void minutes_without_values_do_not_count_and_keep_the_level(void **unused)
{
        (void)unused;
        static const float minutes[] = {NAN, 1, 5, NAN, NAN, 4, NAN, 1};
        const struct level_rule rule = RULE, none = {{NAN, NAN}, {NAN, NAN}, 0, true};
        assert_effect(advice_replay(minutes, ARRAY_LEN(minutes), &rule, 0), 2, 0, 1);
        assert_effect(advice_replay(minutes, ARRAY_LEN(minutes), &none, 0), 0, 0, 0);
        assert_effect(advice_replay(minutes, 1, &rule, 0), 0, 0, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_hour_of_the_day_has_its_own_usual_value),
                cmocka_unit_test(the_first_value_may_be_of_any_time_of_the_day),
                cmocka_unit_test(what_happened_on_one_day_alone_does_not_teach),
                cmocka_unit_test(ten_minutes_of_every_day_do_teach),
                cmocka_unit_test(times_without_values_are_passed_over),
                cmocka_unit_test(less_than_a_day_proposes_nothing),
                cmocka_unit_test(thresholds_are_above_what_is_usual_and_round),
                cmocka_unit_test(the_order_holds_for_any_usual_value),
                cmocka_unit_test(a_percentage_has_thresholds_within_its_room),
                cmocka_unit_test(no_proposal_is_below_the_default_of_its_metric),
                cmocka_unit_test(a_replay_counts_minutes_and_how_often_a_level_was_entered),
                cmocka_unit_test(a_long_dwell_holds_the_level_for_minutes),
                cmocka_unit_test(minutes_without_values_do_not_count_and_keep_the_level),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

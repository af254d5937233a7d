/* From metrics to a level: thresholds, hysteresis, dwell, and not knowing. */
#include "check.h"

#include <float.h>
#include <math.h>

#include "gate/level.h"

#define S     NS_PER_S
#define DWELL (30 * S)

/* threads_running, queue depth, and one that knows only critical; stale after 3 s. */
enum { THREADS, DEPTH, LAG, METRICS };

struct rig {
        struct level_rule rules[METRICS];
        struct level_sample samples[METRICS];
        struct leveler l;
        size_t n;
        int64_t now_ns;
};

static struct rig rig_of(size_t n)
{
        struct rig r = {
                .rules =
                        {
                                [THREADS] = {{5, 15}, {3, 10}, 3 * S, false},
                                [DEPTH] = {{100, 500}, {50, 250}, 3 * S, false},
                                [LAG] = {{NAN, 10}, {NAN, NAN}, 3 * S, false},
                        },
                .n = n,
                .now_ns = 1000 * S,
        };
        leveler_init(&r.l, r.now_ns);
        return r;
}

static bool update(struct rig *r)
{
        return leveler_update(&r->l, r->rules, r->samples, r->n, DWELL, r->now_ns);
}

static void put(struct rig *r, size_t metric, double value)
{
        r->samples[metric] = (struct level_sample){value, r->now_ns, false};
}

/* A fresh sample of one metric now; the others as they are. */
static bool see(struct rig *r, size_t metric, double value)
{
        put(r, metric, value);
        return update(r);
}

/* So many seconds in which the first metrics have these values, one sample a second. */
static void pass(struct rig *r, int seconds, double threads, double depth)
{
        for (int i = 0; i < seconds; i++) {
                r->now_ns += S;
                put(r, THREADS, threads);
                put(r, DEPTH, depth);
                (void)update(r); /* seen in r->l */
        }
}

static int64_t next_ns(const struct rig *r)
{
        return leveler_next_ns(&r->l, r->rules, r->samples, r->n, DWELL);
}

static void it_begins_unknown_and_names_nobody(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        assert_true(r.l.is_unmeasured);
        assert_true(r.l.since_ns == 1000 * S);
        assert_int_equal(r.l.metric, -1);
        assert_int_equal(r.l.cause, -1);
        assert_false(update(&r));
}

static void a_first_calm_sample_makes_it_normal_at_once(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        assert_true(see(&r, THREADS, 1));
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_false(r.l.is_unmeasured);
        assert_false(see(&r, THREADS, 1));
}

static void it_is_unknown_until_each_metric_was_measured_or_is_overdue(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        assert_false(see(&r, THREADS, 1)); /* the depth is to come */
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        assert_true(see(&r, DEPTH, 1));
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        r = rig_of(2);
        assert_false(see(&r, THREADS, 1));
        r.now_ns += 3 * S + 1;
        assert_true(see(&r, THREADS, 1)); /* the depth does not come */
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        r = rig_of(2);
        assert_true(see(&r, THREADS, 15)); /* one is enough to raise it */
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        assert_false(r.l.is_unmeasured);
}

static void a_level_known_before_holds_until_a_sample_comes_and_then_dwells(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        leveler_restore(&r.l, LEVEL_CRITICAL, THREADS, 150, 15);
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        assert_int_equal(r.l.metric, THREADS);
        assert_true(r.l.value == 150 && r.l.threshold == 15);
        assert_false(update(&r));
        r.samples[THREADS].state = SAMPLE_SILENT;
        r.now_ns += 1000 * S; /* nothing comes: to know nothing is no reason to open */
        assert_false(update(&r));
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        assert_true(r.l.is_unmeasured);
        pass(&r, 30, 2, 0);
        assert_int_equal(r.l.level, LEVEL_CRITICAL); /* it dwells */
        assert_false(r.l.is_unmeasured);
        pass(&r, 1, 2, 0);
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_int_equal(r.l.cause, THREADS);
}

static void a_level_known_before_has_the_exit_threshold_of_one_that_was_reached(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        leveler_restore(&r.l, LEVEL_CRITICAL, THREADS, 150, 15);
        pass(&r, 100, 10, 0); /* below 15, which enters, and not below 10, which leaves */
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        r = rig_of(1);
        leveler_restore(&r.l, LEVEL_ELEVATED, THREADS, 8, 5);
        assert_true(see(&r, THREADS, 20)); /* a rise is at once */
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
}

static void a_normal_level_known_before_is_unknown_until_measured(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        leveler_restore(&r.l, LEVEL_NORMAL, -1, 0, 0);
        assert_false(update(&r));
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        assert_true(see(&r, THREADS, 1));
        assert_int_equal(r.l.level, LEVEL_NORMAL);
}

static void who_raised_the_level_before_and_does_not_come_leaves_it_unknown(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        leveler_restore(&r.l, LEVEL_CRITICAL, DEPTH, 900, 500);
        for (int i = 0; i < 3; i++) {
                r.now_ns += S;
                assert_false(see(&r, THREADS, 1));
        }
        assert_true(r.l.is_unmeasured); /* the depth is still waited for */
        for (int i = 0; i < 32; i++) {
                r.now_ns += S;
                (void)see(&r, THREADS, 1);
        }
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        assert_int_equal(r.l.metric, DEPTH);
}

static void a_level_is_entered_at_its_threshold_and_not_below(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        assert_true(see(&r, THREADS, nextafter(5, 0)));
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_true(see(&r, THREADS, 5));
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        assert_false(see(&r, THREADS, nextafter(15, 0)));
        assert_true(see(&r, THREADS, 15));
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        assert_int_equal(r.l.metric, THREADS);
        assert_int_equal(r.l.cause, THREADS);
        assert_true(r.l.value == 15 && r.l.threshold == 15);
        assert_true(r.l.since_ns == r.now_ns);
}

static void it_rises_from_normal_to_critical_at_once(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        assert_true(see(&r, THREADS, 150));
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
}

static void it_stays_while_at_or_above_the_exit_threshold(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 5, 0);
        pass(&r, 1000, 3, 0);
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        pass(&r, 1, 15, 0);
        pass(&r, 1000, 10, 0);
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
}

static void it_falls_after_dwell_below_exit_and_not_before(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 5, 0);
        pass(&r, 30, 2, 0); /* calm since the first of them, 29 s ago */
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        assert_true(next_ns(&r) == r.now_ns + S);
        r.now_ns += S - 1;
        assert_false(update(&r));
        r.now_ns += 1;
        assert_true(update(&r));
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_int_equal(r.l.metric, -1);
        assert_int_equal(r.l.cause, THREADS);
        assert_true(r.l.value == 2 && r.l.threshold == 3);
}

static void one_value_at_exit_starts_dwell_anew(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 5, 0);
        for (int i = 0; i < 10; i++) {
                pass(&r, 30, 2, 0);
                pass(&r, 1, 3, 0);
        }
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        pass(&r, 31, 2, 0);
        assert_int_equal(r.l.level, LEVEL_NORMAL);
}

static void critical_falls_to_elevated_at_its_enter_threshold_else_to_normal(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 15, 0);
        pass(&r, 31, 5, 0);
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        assert_int_equal(r.l.metric, THREADS);
        assert_true(r.l.value == 5 && r.l.threshold == 5);
        pass(&r, 1, 15, 0);
        pass(&r, 31, 4, 0); /* above the exit of elevated, but elevated was left behind */
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        pass(&r, 1, 15, 0);
        pass(&r, 15, 6, 0);
        pass(&r, 16, 4, 0); /* elevated for a while, and below its enter when dwell is over */
        assert_int_equal(r.l.level, LEVEL_NORMAL);
}

static void two_falls_are_a_dwell_apart(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 15, 100);
        pass(&r, 30, 5, 0);
        pass(&r, 1, 5, 0);
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        int64_t fell_ns = r.l.since_ns;
        pass(&r, 100, 0, 0);
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_true(r.l.since_ns - fell_ns >= DWELL);
}

static void a_rise_while_dwelling_is_at_once_and_dwell_starts_anew(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 5, 0);
        pass(&r, 30, 0, 0);
        pass(&r, 1, 20, 0);
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        pass(&r, 30, 0, 0);
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        pass(&r, 1, 0, 0);
        assert_int_equal(r.l.level, LEVEL_NORMAL);
}

static void the_worst_metric_wins_and_is_named(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 6, 600);
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        assert_int_equal(r.l.metric, DEPTH);
        assert_true(r.l.value == 600 && r.l.threshold == 500);
        pass(&r, 1, 6, 240); /* calm: it is still the reason */
        assert_int_equal(r.l.metric, DEPTH);
        pass(&r, 30, 6, 40);
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        assert_int_equal(r.l.metric, THREADS);
        assert_true(r.l.value == 6 && r.l.threshold == 5);
}

static void of_two_at_the_same_level_the_farther_one_is_named_until_it_is_no_more(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 16, 5000);
        assert_int_equal(r.l.metric, DEPTH);
        pass(&r, 1, 1000, 501); /* the name does not hop */
        assert_int_equal(r.l.metric, DEPTH);
        pass(&r, 1, 30, 0);
        assert_int_equal(r.l.metric, THREADS);
        assert_true(r.l.value == 30);
        assert_int_equal(r.l.cause, DEPTH); /* the transition was its doing */
}

static void a_metric_that_never_entered_does_not_hold_a_level(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 20, 300); /* depth is above the exit of critical, and never was critical */
        pass(&r, 31, 0, 300);
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        assert_int_equal(r.l.metric, DEPTH);
}

static void a_fall_from_critical_asks_every_metric_for_its_enter_threshold(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 0, 120);
        pass(&r, 100, 0, 60); /* elevated by its exit threshold */
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        pass(&r, 1, 20, 60);
        pass(&r, 31, 0, 60);
        assert_int_equal(r.l.level, LEVEL_NORMAL);
}

static void what_was_critical_while_nothing_could_be_told_has_to_dwell_too(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        r.rules[DEPTH].is_required = true;
        pass(&r, 1, 0, NAN);
        pass(&r, 1, 20, NAN);
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        pass(&r, 30, 6, 0);
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        pass(&r, 1, 6, 0);
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
}

/* Depth is elevated by its exit threshold when threads makes the target critical, and is not heard
 * of again: it was below its enter threshold, so it is nobody whose loss matters. */
static void how_often_the_same_samples_are_looked_at_does_not_matter(void **state)
{
        (void)state;
        for (int looks = 1; looks <= 2; looks++) {
                struct rig r = rig_of(2);
                pass(&r, 1, 0, 120);
                pass(&r, 1, 20, 60);
                if (looks == 2)
                        assert_false(update(&r));
                r.now_ns += 3 * S + 1;
                for (int i = 0; i < 32; i++) {
                        (void)see(&r, THREADS, 0);
                        r.now_ns += S;
                }
                assert_int_equal(r.l.level, LEVEL_NORMAL);
        }
}

static void a_threshold_that_is_nan_makes_no_level(void **state)
{
        struct rig r = rig_of(METRICS);

        (void)state;
        pass(&r, 1, 0, 0);
        assert_true(see(&r, LAG, 9));
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_true(see(&r, LAG, 10));
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        for (int i = 0; i < 31; i++) { /* without an exit threshold it is the enter threshold */
                put(&r, LAG, 9.9);
                pass(&r, 1, 0, 0);
        }
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_int_equal(r.l.cause, LAG);
        assert_true(isfinite(r.l.threshold));
}

static void a_first_sample_is_waited_for(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        assert_false(update(&r));
        assert_true(next_ns(&r) == r.now_ns + 3 * S + 1);
        r.now_ns += 3 * S;
        assert_false(update(&r));
        assert_int_equal(r.l.metric, -1);
        r.now_ns += 1;
        assert_false(update(&r)); /* it was unknown, and is; now it names what is missed */
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        assert_int_equal(r.l.metric, THREADS);
        assert_true(r.l.value >= 3 && r.l.threshold == 3);
        assert_true(next_ns(&r) == INT64_MAX); /* only a sample can change it */
}

static void a_first_try_that_nobody_answers_gets_less_time(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        r.samples[THREADS].state = SAMPLE_SILENT;
        assert_false(update(&r));
        r.now_ns += LEVEL_SILENCE_NS;
        assert_false(update(&r));
        assert_true(r.l.is_unmeasured);
        r.now_ns += 1;
        assert_false(update(&r));
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        assert_int_equal(r.l.metric, THREADS);
        r = rig_of(1);
        r.rules[THREADS].stale_ns = 0; /* the same when no sample is ever too old */
        r.samples[THREADS].state = SAMPLE_SILENT;
        r.now_ns += LEVEL_SILENCE_NS + 1;
        assert_false(update(&r));
        assert_int_equal(r.l.metric, THREADS);
}

static void silence_leaves_the_last_sample_valid_for_a_moment(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        assert_true(see(&r, THREADS, 7));
        r.samples[THREADS].state = SAMPLE_SILENT;
        r.now_ns += LEVEL_SILENCE_NS;
        assert_false(update(&r));
        assert_true(next_ns(&r) == r.now_ns + 1);
        r.now_ns += 1;
        assert_true(update(&r));
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
}

static void an_answer_that_is_an_error_counts_at_once(void **state)
{
        static const int64_t stale_ns[] = {0, S, 30 * S};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(stale_ns); i++) {
                struct rig r = rig_of(1);
                r.rules[THREADS].stale_ns = stale_ns[i];
                assert_true(see(&r, THREADS, 7));
                r.samples[THREADS].state = SAMPLE_FAILED;
                assert_true(update(&r));
                assert_int_equal(r.l.level, LEVEL_UNKNOWN);
                assert_true(r.l.threshold == 0);
                assert_true(isnan(level_pressure(r.rules, r.samples, 1, r.now_ns)));
                assert_true(next_ns(&r) == INT64_MAX);

                struct rig first = rig_of(1); /* as the first answer of all, too */
                first.rules[THREADS].stale_ns = stale_ns[i];
                first.samples[THREADS].state = SAMPLE_FAILED;
                assert_false(update(&first)); /* it begins as unknown, and now it is missed */
                assert_int_equal(first.l.level, LEVEL_UNKNOWN);
                assert_int_equal(first.l.metric, THREADS);
        }
}

static void a_value_that_is_no_number_is_no_sample(void **state)
{
        static const double bad[] = {NAN, INFINITY, -INFINITY};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct rig r = rig_of(1);
                assert_false(see(&r, THREADS, bad[i]));
                assert_int_equal(r.l.level, LEVEL_UNKNOWN);
                assert_true(isfinite(r.l.value) && isfinite(r.l.threshold));
        }
}

static void without_a_bound_no_sample_is_too_old(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        r.rules[THREADS].stale_ns = 0;
        assert_true(see(&r, THREADS, 7));
        assert_true(next_ns(&r) == INT64_MAX);
        r.now_ns += 1000000 * S;
        assert_false(update(&r));
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
}

static void a_sample_from_the_future_is_fresh(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        r.samples[THREADS] = (struct level_sample){7, r.now_ns + 100 * S, false};
        assert_true(update(&r));
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
}

static void a_target_without_metrics_is_normal(void **state)
{
        struct rig r = rig_of(0);

        (void)state;
        r.now_ns += 1000 * S;
        assert_true(update(&r));
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_false(update(&r));
        assert_true(next_ns(&r) == INT64_MAX);
}

static void a_missing_metric_that_is_not_required_leaves_the_others_to_decide(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 1, 1);
        for (int i = 0; i < 100; i++) {
                r.now_ns += S;
                assert_false(see(&r, THREADS, 1));
        }
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_int_equal(r.l.known_mask, 1 << THREADS);
        assert_true(see(&r, THREADS, 20));
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
}

static void a_required_metric_that_is_missing_is_unknown_whatever_the_others_say(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        r.rules[DEPTH].is_required = true;
        pass(&r, 1, 1, 1);
        r.now_ns += 3 * S + 1;
        assert_true(see(&r, THREADS, 1));
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        assert_int_equal(r.l.metric, DEPTH);
        assert_false(see(&r, THREADS, 100));
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        assert_true(see(&r, DEPTH, 1)); /* back: the other one counts again */
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        assert_int_equal(r.l.metric, THREADS);
}

static void of_several_missing_the_required_one_is_named(void **state)
{
        struct rig r = rig_of(METRICS);

        (void)state;
        r.rules[DEPTH].is_required = true;
        r.now_ns += 4 * S;
        assert_false(update(&r));
        assert_int_equal(r.l.metric, DEPTH);
}

static void unknown_is_left_for_normal_after_dwell(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        r.now_ns += 4 * S;
        assert_false(update(&r));
        pass(&r, 30, 1, 1);
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        pass(&r, 1, 1, 1);
        assert_int_equal(r.l.level, LEVEL_NORMAL);
        assert_int_equal(r.l.metric, -1);
}

static void unknown_is_left_for_a_higher_level_at_once(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        r.now_ns += 4 * S;
        assert_false(update(&r));
        assert_true(see(&r, THREADS, 5));
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        assert_int_equal(r.l.metric, THREADS);
}

static void a_gap_is_no_way_round_dwell(void **state)
{
        struct rig r = rig_of(1);

        (void)state;
        assert_true(see(&r, THREADS, 20));
        r.now_ns += S;
        assert_true(see(&r, THREADS, NAN));
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        r.now_ns += S;
        assert_true(see(&r, THREADS, 6)); /* would be elevated, but critical has not dwelled */
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        assert_int_equal(r.l.metric, THREADS);
        assert_true(r.l.value == 6 && r.l.threshold == 5);
        for (int i = 0; i < 29; i++) {
                r.now_ns += S;
                assert_false(see(&r, THREADS, 6));
        }
        r.now_ns += S;
        assert_true(see(&r, THREADS, 6));
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
}

static void who_raised_a_level_and_is_gone_leaves_it_unknown_and_not_normal(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 20, 0);
        for (int i = 0; i < 40; i++) { /* threads is heard no more */
                r.now_ns += S;
                (void)see(&r, DEPTH, 0);
                if (i < 20)
                        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        }
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        assert_int_equal(r.l.metric, THREADS);
        for (int i = 0; i < 1000; i++) {
                r.now_ns += S;
                assert_false(see(&r, DEPTH, 0));
        }
        pass(&r, 30, 0, 0); /* back, and calm: dwell from now */
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        pass(&r, 1, 0, 0);
        assert_int_equal(r.l.level, LEVEL_NORMAL);
}

static void who_raised_a_level_and_comes_back_high_has_it_again(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 20, 0);
        for (int i = 0; i < 40; i++) {
                r.now_ns += S;
                (void)see(&r, DEPTH, 0);
        }
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        pass(&r, 1, 12, 0); /* above exit: it never left */
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
        assert_true(r.l.value == 12 && r.l.threshold == 10);
}

static void what_is_known_to_be_elevated_is_elevated_whoever_is_missing(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 20, 120);
        for (int i = 0; i < 100; i++) {
                r.now_ns += S;
                (void)see(&r, DEPTH, 120);
        }
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
        assert_int_equal(r.l.metric, DEPTH);
        for (int i = 0; i < 31; i++) {
                r.now_ns += S;
                (void)see(&r, DEPTH, 0);
        }
        assert_int_equal(r.l.level, LEVEL_UNKNOWN); /* and never normal without threads */
        r.now_ns += S;
        assert_true(see(&r, DEPTH, 120));
        assert_int_equal(r.l.level, LEVEL_ELEVATED);
}

static void a_missing_metric_does_not_pull_down_what_another_holds(void **state)
{
        struct rig r = rig_of(2);

        (void)state;
        pass(&r, 1, 20, 600);
        for (int i = 0; i < 100; i++) {
                r.now_ns += S;
                assert_false(see(&r, DEPTH, 300));
        }
        assert_int_equal(r.l.level, LEVEL_CRITICAL);
}

static void pressure_is_the_worst_part_of_a_critical_threshold(void **state)
{
        struct rig r = rig_of(METRICS);

        (void)state;
        assert_true(isnan(level_pressure(r.rules, r.samples, r.n, r.now_ns)));
        put(&r, THREADS, 6);
        assert_true(level_pressure(r.rules, r.samples, r.n, r.now_ns) == 0.4);
        put(&r, DEPTH, 1000);
        assert_true(level_pressure(r.rules, r.samples, r.n, r.now_ns) == 2);
        r.now_ns += S;
        put(&r, LAG, 5);
        r.now_ns += 2 * S + 1; /* only that one is fresh now */
        assert_true(level_pressure(r.rules, r.samples, r.n, r.now_ns) == 0.5);
        put(&r, LAG, -5);
        assert_true(level_pressure(r.rules, r.samples, r.n, r.now_ns) == 0);
        put(&r, LAG, NAN);
        assert_true(isnan(level_pressure(r.rules, r.samples, r.n, r.now_ns)));
        r.rules[LAG].enter[1] = 0; /* nothing to be a part of */
        put(&r, LAG, 5);
        assert_true(isnan(level_pressure(r.rules, r.samples, r.n, r.now_ns)));
}

static void all_metrics_there_may_be_are_looked_at(void **state)
{
        struct level_rule rules[LEVEL_METRICS_MAX];
        struct level_sample samples[LEVEL_METRICS_MAX];
        struct leveler l;

        (void)state;
        leveler_init(&l, S);
        for (size_t i = 0; i < LEVEL_METRICS_MAX; i++) {
                rules[i] = (struct level_rule){{5, 15}, {3, 10}, 3 * S, false};
                samples[i] = (struct level_sample){0, S, false};
        }
        samples[LEVEL_METRICS_MAX - 1].value = 15;
        assert_true(leveler_update(&l, rules, samples, LEVEL_METRICS_MAX, DWELL, S));
        assert_int_equal(l.metric, LEVEL_METRICS_MAX - 1);
}

static void too_many(void)
{
        static struct level_rule rules[LEVEL_METRICS_MAX + 1];
        static struct level_sample samples[LEVEL_METRICS_MAX + 1];
        struct leveler l;

        leveler_init(&l, S);
        (void)leveler_update(&l, rules, samples, LEVEL_METRICS_MAX + 1, DWELL, S);
}

static void more_metrics_than_there_may_be_are_our_mistake(void **state)
{
        (void)state;
        assert_panics(too_many);
}

static void a_pair_is_the_shortest_text_that_reads_back_the_same(void **unused)
{
        (void)unused;
        char text[LEVEL_PAIR_MAX];
        same(level_pair_text(5, 3, text), "5,3");
        same(level_pair_text(0.1, NAN, text), "0.1,0.1");
        same(level_pair_text(1.0 / 3, 1e-9, text), "0.3333333333333333,1e-09");
        same(level_pair_text(-DBL_MAX, -DBL_MAX, text),
             "-1.7976931348623157e+308,-1.7976931348623157e+308");
        same(level_pair_text(NAN, 3, text), "");
}

/* ---- for a tier ---- */

static void what_became_unknown_holds_each_tier_as_long_as_the_level_before_delays_it(void **state)
{
        static const struct {
                int64_t at_s; /* since it is unknown */
                enum level level[TIERS];
                unsigned held;
                uint32_t claims;
                int64_t next_s;
        } cases[] = {
                {0, {LEVEL_UNKNOWN, LEVEL_CRITICAL, LEVEL_CRITICAL, LEVEL_CRITICAL}, 14, 1, 300},
                {299, {LEVEL_UNKNOWN, LEVEL_CRITICAL, LEVEL_CRITICAL, LEVEL_CRITICAL}, 14, 1, 300},
                {300, {LEVEL_UNKNOWN, LEVEL_UNKNOWN, LEVEL_CRITICAL, LEVEL_CRITICAL}, 12, 0, 900},
                {900, {LEVEL_UNKNOWN, LEVEL_UNKNOWN, LEVEL_UNKNOWN, LEVEL_CRITICAL}, 8, 0, 3600},
                {3600, {LEVEL_UNKNOWN, LEVEL_UNKNOWN, LEVEL_UNKNOWN, LEVEL_UNKNOWN}, 0, 0, -1},
        };
        struct rig r = rig_of(1);
        struct policy p;

        (void)state;
        policy_init(&p);
        see(&r, THREADS, 20);
        assert_int_equal(leveler_held_tiers(&r.l, &p, r.now_ns), 0);
        assert_int_equal(leveler_level_for(&r.l, &p, TIER_HIGH, r.now_ns), LEVEL_CRITICAL);
        r.now_ns += 4 * S;
        assert_true(update(&r));
        assert_int_equal(r.l.level, LEVEL_UNKNOWN);
        int64_t began_ns = r.now_ns;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                int64_t now_ns = began_ns + cases[i].at_s * S;
                int64_t next = leveler_held_next_ns(&r.l, &p, now_ns);
                for (enum tier tier = 0; tier < TIERS; tier++)
                        assert_int_equal(leveler_level_for(&r.l, &p, tier, now_ns),
                                         cases[i].level[tier]);
                assert_int_equal(leveler_held_tiers(&r.l, &p, now_ns), cases[i].held);
                assert_int_equal(leveler_caps(&r.l, &p, now_ns).claims, cases[i].claims);
                assert_int_equal(next,
                                 cases[i].next_s < 0 ? INT64_MAX : began_ns + cases[i].next_s * S);
        }
}

/* To normal nothing was held, and where unknown delays longer it decides. */
static void unknown_after_normal_or_with_longer_delays_decides_itself(void **state)
{
        struct rig r = rig_of(1);
        struct policy p;

        (void)state;
        policy_init(&p);
        see(&r, THREADS, 1);
        r.now_ns += 4 * S;
        assert_true(update(&r));
        assert_int_equal(leveler_held_tiers(&r.l, &p, r.now_ns), 0);
        see(&r, THREADS, 20);
        r.now_ns += 4 * S;
        assert_true(update(&r));
        p.delay_ms[LEVEL_UNKNOWN][TIER_HIGH] = 600000;
        assert_int_equal(leveler_level_for(&r.l, &p, TIER_HIGH, r.now_ns), LEVEL_UNKNOWN);
        assert_int_equal(leveler_level_for(&r.l, &p, TIER_NORMAL, r.now_ns), LEVEL_CRITICAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(
                        what_became_unknown_holds_each_tier_as_long_as_the_level_before_delays_it),
                cmocka_unit_test(unknown_after_normal_or_with_longer_delays_decides_itself),
                cmocka_unit_test(a_pair_is_the_shortest_text_that_reads_back_the_same),
                cmocka_unit_test(it_begins_unknown_and_names_nobody),
                cmocka_unit_test(a_first_calm_sample_makes_it_normal_at_once),
                cmocka_unit_test(it_is_unknown_until_each_metric_was_measured_or_is_overdue),
                cmocka_unit_test(a_level_known_before_holds_until_a_sample_comes_and_then_dwells),
                cmocka_unit_test(
                        a_level_known_before_has_the_exit_threshold_of_one_that_was_reached),
                cmocka_unit_test(a_normal_level_known_before_is_unknown_until_measured),
                cmocka_unit_test(who_raised_the_level_before_and_does_not_come_leaves_it_unknown),
                cmocka_unit_test(a_level_is_entered_at_its_threshold_and_not_below),
                cmocka_unit_test(it_rises_from_normal_to_critical_at_once),
                cmocka_unit_test(it_stays_while_at_or_above_the_exit_threshold),
                cmocka_unit_test(it_falls_after_dwell_below_exit_and_not_before),
                cmocka_unit_test(one_value_at_exit_starts_dwell_anew),
                cmocka_unit_test(critical_falls_to_elevated_at_its_enter_threshold_else_to_normal),
                cmocka_unit_test(two_falls_are_a_dwell_apart),
                cmocka_unit_test(a_rise_while_dwelling_is_at_once_and_dwell_starts_anew),
                cmocka_unit_test(the_worst_metric_wins_and_is_named),
                cmocka_unit_test(
                        of_two_at_the_same_level_the_farther_one_is_named_until_it_is_no_more),
                cmocka_unit_test(a_metric_that_never_entered_does_not_hold_a_level),
                cmocka_unit_test(a_fall_from_critical_asks_every_metric_for_its_enter_threshold),
                cmocka_unit_test(what_was_critical_while_nothing_could_be_told_has_to_dwell_too),
                cmocka_unit_test(how_often_the_same_samples_are_looked_at_does_not_matter),
                cmocka_unit_test(a_threshold_that_is_nan_makes_no_level),
                cmocka_unit_test(a_first_sample_is_waited_for),
                cmocka_unit_test(a_first_try_that_nobody_answers_gets_less_time),
                cmocka_unit_test(silence_leaves_the_last_sample_valid_for_a_moment),
                cmocka_unit_test(an_answer_that_is_an_error_counts_at_once),
                cmocka_unit_test(a_value_that_is_no_number_is_no_sample),
                cmocka_unit_test(without_a_bound_no_sample_is_too_old),
                cmocka_unit_test(a_sample_from_the_future_is_fresh),
                cmocka_unit_test(a_target_without_metrics_is_normal),
                cmocka_unit_test(a_missing_metric_that_is_not_required_leaves_the_others_to_decide),
                cmocka_unit_test(
                        a_required_metric_that_is_missing_is_unknown_whatever_the_others_say),
                cmocka_unit_test(of_several_missing_the_required_one_is_named),
                cmocka_unit_test(unknown_is_left_for_normal_after_dwell),
                cmocka_unit_test(unknown_is_left_for_a_higher_level_at_once),
                cmocka_unit_test(a_gap_is_no_way_round_dwell),
                cmocka_unit_test(who_raised_a_level_and_is_gone_leaves_it_unknown_and_not_normal),
                cmocka_unit_test(who_raised_a_level_and_comes_back_high_has_it_again),
                cmocka_unit_test(what_is_known_to_be_elevated_is_elevated_whoever_is_missing),
                cmocka_unit_test(a_missing_metric_does_not_pull_down_what_another_holds),
                cmocka_unit_test(pressure_is_the_worst_part_of_a_critical_threshold),
                cmocka_unit_test(all_metrics_there_may_be_are_looked_at),
                cmocka_unit_test(more_metrics_than_there_may_be_are_our_mistake),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

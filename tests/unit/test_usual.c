/* What is usual, hour by hour and day by day on a clock that is moved: what executes at once, the
 * mean server time, metrics, and the pace of the last seconds. */
#include "check.h"

#include <math.h>

#include "gate/usual.h"

#define S    NS_PER_S
#define HOUR (3600 * S)
#define DAY  (24 * HOUR)
#define MOST 16383 /* the largest count that has a bucket of its own */

static bool is_about(double a, double b)
{
        return fabs(a - b) < 1e-6;
}

/* One transaction was seen. */
static struct usual usual_begun(void)
{
        struct usual u = {0};

        usual_end(&u, 10);
        return u;
}

/* So many minutes pass, looked at and settled each minute. */
static void pass_minutes(struct usual *u, uint32_t executing, bool is_well, int minutes)
{
        for (int i = 0; i < minutes; i++) {
                if (is_well)
                        usual_spend(u, executing, 60 * S);
                usual_look(u, 60 * S, is_well);
                usual_settle(u, 60 * S);
        }
}

static void pass_hours(struct usual *u, uint32_t executing, int hours)
{
        pass_minutes(u, executing, true, 60 * hours);
}

/* Works out the figure of the hour as it is now. */
static double settled(struct usual *u)
{
        usual_settle(u, 0);
        return u->memory.executing;
}

/* ---- buckets ---- */

static void small_counts_have_a_bucket_each_and_larger_ones_a_quarter_of_an_octave(void **state)
{
        (void)state;
        for (unsigned count = 0; count < 16; count++) {
                assert_int_equal(usual_bucket(count), count);
                assert_int_equal(usual_bucket_most(count), count);
        }
        assert_int_equal(usual_bucket_most(16), 19);
        assert_int_equal(usual_bucket_most(19), 31);
        assert_int_equal(usual_bucket_most(20), 39);
        assert_int_equal(usual_bucket_most(USUAL_BUCKETS - 1), MOST);
        for (unsigned count = 1; count <= MOST; count++) {
                unsigned b = usual_bucket(count);
                assert_true(count <= usual_bucket_most(b));
                assert_true(count > usual_bucket_most(b - 1));
                assert_true(usual_bucket_most(b) < 1.25 * count);
        }
}

static void odd_counts_have_a_bucket_too(void **state)
{
        (void)state;
        assert_int_equal(usual_bucket(3.2), 4);
        assert_int_equal(usual_bucket(0.001), 1);
        assert_int_equal(usual_bucket(15.5), 16);
        assert_int_equal(usual_bucket(19.01), 17);
        assert_int_equal(usual_bucket(-0.5), 0);
        assert_int_equal(usual_bucket(-INFINITY), 0);
        assert_int_equal(usual_bucket(NAN), 0);
        assert_int_equal(usual_bucket(MOST + 1), USUAL_BUCKETS - 1);
        assert_int_equal(usual_bucket(1e300), USUAL_BUCKETS - 1);
        assert_int_equal(usual_bucket(INFINITY), USUAL_BUCKETS - 1);
}

static void ask_beyond_the_last_bucket(void)
{
        (void)usual_bucket_most(USUAL_BUCKETS);
}

static void there_is_no_bucket_beyond_the_last(void **state)
{
        (void)state;
        assert_panics(ask_beyond_the_last_bucket);
}

/* ---- what executes at once ---- */

static void the_figure_of_an_hour_is_not_exceeded_for_99_percent_of_the_time(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        usual_spend(&u, 0, 500 * S);
        usual_spend(&u, 4, 490 * S);
        usual_spend(&u, 12, 10 * S);
        assert_true(settled(&u) == 4);
        usual_spend(&u, 12, 1 * S);
        assert_true(settled(&u) == 12);
}

static void a_count_of_many_is_the_largest_of_its_bucket(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        usual_spend(&u, 100, 700 * S);
        assert_true(settled(&u) == 111);
}

static void an_idle_kind_may_still_execute_one(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        usual_spend(&u, 0, 700 * S);
        assert_true(settled(&u) == 1);
}

static void nothing_is_set_before_ten_well_minutes(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        pass_minutes(&u, 8, false, 5);
        pass_minutes(&u, 8, true, 9);
        usual_spend(&u, 8, 60 * S - 1);
        assert_true(settled(&u) == 0);
        usual_spend(&u, 8, 0); /* no time at all */
        usual_spend(&u, 8, -60 * S);
        assert_true(settled(&u) == 0);
        usual_spend(&u, 8, 1);
        assert_true(settled(&u) == 8);
}

static void the_time_before_the_first_transaction_is_not_learned_from(void **state)
{
        struct usual u = {0};

        (void)state;
        pass_hours(&u, 0, 30);
        assert_true(u.memory.executing == 0);
        assert_true(u.memory.seconds == 0);
        assert_int_equal(u.memory.n_hours, 0);
        usual_spend(&u, 1, S); /* the first one executes, and ends */
        usual_end(&u, 10);
        pass_minutes(&u, 0, true, 9);
        assert_true(u.memory.executing == 0);
        pass_minutes(&u, 5, true, 1);
        assert_true(u.memory.executing == 5);
}

static void a_kind_is_learned_after_ten_minutes_and_a_thousand_transactions(void **state)
{
        struct usual u = {0};

        (void)state;
        for (int i = 0; i < USUAL_ENDS; i++)
                usual_end(&u, 10);
        pass_minutes(&u, 3, true, 9);
        assert_false(usual_is_learned(&u));
        pass_minutes(&u, 3, true, 1);
        assert_true(usual_is_learned(&u));

        u = usual_begun();
        pass_minutes(&u, 3, true, 10);
        for (int i = 2; i < USUAL_ENDS; i++)
                usual_end(&u, 10);
        assert_false(usual_is_learned(&u));
        usual_end(&u, 10);
        assert_true(usual_is_learned(&u));
}

static void only_well_time_after_the_first_transaction_counts_as_learning(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        usual_look(&u, 30 * S, true);
        usual_look(&u, 40 * S, false);
        usual_look(&u, -50 * S, true);
        usual_look(&u, 2 * S, true);
        assert_true(u.memory.seconds == 32);
        assert_true(u.hour_ns == 72 * S);
}

static void an_hour_that_was_not_well_leaves_no_figure(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        pass_hours(&u, 4, 1);
        assert_int_equal(u.memory.n_hours, 1);
        pass_minutes(&u, 200, true, 9);
        pass_minutes(&u, 200, false, 51);
        assert_int_equal(u.memory.n_hours, 1);
        assert_true(u.memory.executing == 4);
        assert_true(u.spent_sum_ns == 0 && u.hour_ns == 0); /* and the next begins with nothing */
        pass_minutes(&u, 7, true, 10);
        pass_minutes(&u, 200, false, 50);
        assert_int_equal(u.memory.n_hours, 2);
        assert_true(u.memory.executing == 7);
}

static void the_usual_is_the_90th_percentile_of_the_hours(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        pass_hours(&u, 4, 8);
        pass_hours(&u, 12, 1);
        assert_true(u.memory.executing == 12); /* one hour of nine */
        pass_minutes(&u, 4, true, 9);
        assert_true(u.memory.executing == 12);
        pass_minutes(&u, 4, true, 1); /* the tenth hour counts from its tenth minute on */
        assert_true(u.memory.executing == 4);
        pass_minutes(&u, 4, true, 50);
        assert_true(u.memory.executing == 4);
        pass_minutes(&u, 12, true, 10);
        assert_true(u.memory.executing == 12); /* two of eleven */
}

static void the_end_of_an_hour_changes_nothing_by_itself(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        for (int hour = 0; hour < 2 * USUAL_HOURS; hour++) {
                pass_minutes(&u, hour % 7 ? 3 : 9, true, 59);
                double before = u.memory.executing;
                pass_minutes(&u, 3, true, 1);
                assert_true(u.hour_ns == 0); /* it is over, */
                assert_true(u.memory.executing == before);
                usual_spend(&u, 100, 599 * S); /* and the next one has no figure yet */
                assert_true(settled(&u) == before);
                u.spent_ns[usual_bucket(100)] = u.spent_sum_ns = 0;
        }
}

static void in_a_full_ring_the_current_hour_stands_for_the_oldest(void **state)
{
        struct usual u = {.memory = {.n_hours = USUAL_HOURS, .next_hour = 5, .executing = 9}};

        (void)state;
        memset(u.memory.hours, 4, sizeof(u.memory.hours));
        for (int i = 5; i < 5 + 17; i++) /* the oldest 17: one more than a tenth */
                u.memory.hours[i] = 9;
        assert_true(settled(&u) == 9);
        usual_spend(&u, 2, 600 * S);
        assert_true(settled(&u) == 4);
        u.hour_ns = HOUR;
        assert_true(settled(&u) == 4);
        assert_int_equal(u.memory.hours[5], 2);
        assert_int_equal(u.memory.next_hour, 6);
        assert_int_equal(u.memory.n_hours, USUAL_HOURS);
}

static void on_its_first_day_it_rises_at_once(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        pass_hours(&u, 4, 23);
        pass_minutes(&u, 12, true, 10);
        assert_true(u.memory.executing == 4); /* one hour of 24 */
        pass_minutes(&u, 12, true, 49);
        u.memory.hours[3] = u.memory.hours[4] = 12;
        assert_true(settled(&u) == 12);

        u.memory.executing = 0; /* or when there is nothing to rise from */
        u.memory.n_hours = 100;
        memset(u.memory.hours, 12, 100);
        assert_true(settled(&u) == 12);
}

static void after_a_day_it_rises_by_a_quarter_a_day_and_not_beyond_its_hours(void **state)
{
        struct usual u = {.memory = {.executing = 8, .n_hours = 24, .next_hour = 24}};

        (void)state;
        memset(u.memory.hours, 13, 24);
        usual_settle(&u, DAY);
        assert_true(u.memory.executing == 10);
        usual_settle(&u, DAY / 2);
        assert_true(u.memory.executing == 11.25);
        usual_settle(&u, 0);
        usual_settle(&u, -DAY);
        assert_true(u.memory.executing == 11.25);
        usual_settle(&u, DAY);
        assert_true(u.memory.executing == 13);
        usual_settle(&u, DAY);
        assert_true(u.memory.executing == 13);

        u.memory.executing = 8;
        u.memory.n_hours = u.memory.next_hour = 23;
        usual_settle(&u, 0);
        assert_true(u.memory.executing == 13);
}

static void what_jumps_is_let_in_slowly_and_what_falls_is_forgotten_at_once(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        pass_hours(&u, 8, 30);
        assert_true(u.memory.executing == 8);
        pass_hours(&u, 1000, 24); /* half of the hours, but not for long enough */
        assert_true(u.memory.executing > 9 && u.memory.executing < 8 * 1.2841);
        double risen = u.memory.executing;
        pass_hours(&u, 1000, 24);
        assert_true(u.memory.executing > risen * 1.25 && u.memory.executing < risen * 1.2841);
        memset(u.memory.hours, 2, sizeof(u.memory.hours));
        assert_true(settled(&u) == 2);
}

static void hours_of_a_week_ago_are_forgotten(void **state)
{
        struct usual u = usual_begun();

        (void)state;
        pass_hours(&u, 14, 20);
        pass_hours(&u, 2, USUAL_HOURS - 20);
        assert_int_equal(u.memory.n_hours, USUAL_HOURS);
        assert_int_equal(u.memory.next_hour, 0);
        assert_true(u.memory.executing == 14); /* 20 of 168 are more than a tenth */
        pass_hours(&u, 2, 3);
        assert_true(u.memory.executing == 14);
        pass_hours(&u, 2, 1); /* 16 are not */
        assert_true(u.memory.executing == 2);
        assert_int_equal(u.memory.n_hours, USUAL_HOURS);
        assert_int_equal(u.memory.next_hour, 4);
}

/* ---- how long the server takes ---- */

static void look_at_ends(struct usual *u, int n, double log_time, int64_t ns, bool is_well)
{
        for (int i = 0; i < n; i++)
                usual_end(u, log_time);
        usual_look(u, ns, is_well);
}

/* A thousand transactions with a mean of 10. */
static struct usual usual_timed(void)
{
        struct usual u = {0};

        look_at_ends(&u, USUAL_ENDS, 10, S, true);
        return u;
}

static void the_mean_of_the_first_thousand_is_a_plain_one(void **state)
{
        struct usual u = {0};

        (void)state;
        look_at_ends(&u, 1, 12, S, true);
        assert_true(is_about(u.memory.log_time, 12));
        look_at_ends(&u, 3, 16, S, false); /* well or not */
        assert_true(is_about(u.memory.log_time, 15));
        look_at_ends(&u, 0, 0, S, true);
        assert_true(is_about(u.memory.log_time, 15));
        look_at_ends(&u, 96, 10, S, true);
        assert_true(is_about(u.memory.log_time, 10.2));
        assert_int_equal(u.memory.ends, 100);
}

static void a_first_look_at_very_many_is_a_plain_mean_too(void **state)
{
        struct usual u = {0};

        (void)state;
        look_at_ends(&u, 50 * USUAL_ENDS, 11, S, true);
        assert_true(is_about(u.memory.log_time, 11));
}

static void then_the_mean_moves_over_twenty_minutes(void **state)
{
        struct usual u = usual_timed();

        (void)state;
        for (int i = 0; i < 1200; i++)
                look_at_ends(&u, 1 + i % 3, 12, S, true); /* however many */
        assert_true(is_about(u.memory.log_time, 12 - 2 * exp(-1)));

        u = usual_timed();
        for (int i = 0; i < 12000; i++)
                look_at_ends(&u, 1, 12, S / 10, true); /* however often */
        assert_true(is_about(u.memory.log_time, 12 - 2 * exp(-1)));
}

static void while_the_database_is_not_well_the_mean_moves_ten_times_slower(void **state)
{
        struct usual u = usual_timed();

        (void)state;
        for (int i = 0; i < 1200; i++)
                look_at_ends(&u, 1, 12, S, false);
        assert_true(is_about(u.memory.log_time, 12 - 2 * exp(-0.1)));
}

static void a_look_after_a_long_time_counts_as_one_second(void **state)
{
        struct usual u = usual_timed(), v = u;

        (void)state;
        look_at_ends(&u, 1, 20, HOUR, true);
        look_at_ends(&v, 1, 20, S, true);
        assert_true(u.memory.log_time > 10 && u.memory.log_time == v.memory.log_time);
        look_at_ends(&u, 1, 20, -S, true);
        assert_true(u.memory.log_time == v.memory.log_time);
}

/* Of a hundred: 97 of the mean, three that take five times as long. */
static void look_at_a_hundred(struct usual *u, bool is_well)
{
        for (int i = 0; i < 100; i++)
                usual_end(u, i < 97 ? 10 : 10 + log(5));
        usual_look(u, S, is_well);
}

static void slow_is_what_two_of_a_hundred_exceed(void **state)
{
        struct usual u = {0};

        (void)state;
        look_at_ends(&u, 10, 10, S, true);
        for (int i = 0; i < 4; i++)
                look_at_a_hundred(&u, true);
        assert_true(u.memory.slow == 0); /* too few */
        assert_false(usual_is_slow(&u, 20));
        for (int i = 0; i < 20; i++)
                look_at_a_hundred(&u, true);
        assert_true(u.memory.slow > log(5) - 0.1 && u.memory.slow < log(5) + 0.3);
        assert_true(usual_is_slow(&u, 10 + log(7.5)));
        assert_false(usual_is_slow(&u, 10 + log(4)));
        for (int i = 0; i < 100; i++) /* one of a hundred only */
                look_at_ends(&u, 100, 10, S, true);
        assert_true(u.memory.slow < 0.5);
}

static void slow_transactions_of_a_database_that_is_not_well_teach_nothing(void **state)
{
        struct usual u = {0};

        (void)state;
        for (int i = 0; i < 20; i++)
                look_at_ends(&u, 100, 10, S, true);
        double slow = u.memory.slow;
        assert_true(slow > 0);
        for (int i = 0; i < 20; i++)
                look_at_ends(&u, 100, 12, S, false);
        assert_true(u.memory.slow == slow);
        look_at_ends(&u, 1, 10, S, true); /* and what was seen then is not added later */
        assert_true(u.memory.slow == slow);
        look_at_ends(&u, 1, HUGE_VAL, S, true);
        assert_true(u.memory.slow == slow); /* what takes for ever is one of them */
}

static void times_that_cannot_be_do_not_spoil_the_mean(void **state)
{
        static const double odd[] = {-INFINITY, INFINITY, NAN, -1, 1e300};
        struct usual u = usual_timed(), v = {0};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
                look_at_ends(&u, 1, odd[i], S, true);
                assert_true(u.memory.log_time > 9 && u.memory.log_time < 11);
                look_at_ends(&v, 1, odd[i], S, true);
                assert_true(v.memory.log_time >= 0 && v.memory.log_time <= 60);
        }
        assert_int_equal(v.memory.ends, ARRAY_LEN(odd));
}

/* ---- kept over a restart ---- */

static struct usual_memory good_memory(void)
{
        struct usual_memory m = {.ends = 5000,
                                 .seconds = 9000,
                                 .executing = 6.5,
                                 .log_time = 14,
                                 .n_hours = 2,
                                 .next_hour = 2,
                                 .hours = {6, 7}};
        return m;
}

static void what_was_kept_counts_at_once(void **state)
{
        struct usual u = usual_begun();
        struct usual_memory m = good_memory();

        (void)state;
        pass_minutes(&u, 3, true, 30);
        assert_true(usual_restore(&u, &m));
        assert_memory_equal(&u.memory, &m, sizeof(m));
        assert_true(usual_is_learned(&u));
        assert_true(u.spent_sum_ns == 0 && u.hour_ns == 0);
        assert_int_equal(u.look_n, 0);
        assert_true(settled(&u) == 7);
        look_at_ends(&u, 1, 20, S, true); /* not a plain mean any more */
        assert_true(u.memory.log_time < 14.01);
}

static void without_any_hour_the_usual_stays_as_it_was_kept(void **state)
{
        struct usual u = {0};
        struct usual_memory m = {.ends = 5000, .executing = 6.5};

        (void)state;
        assert_true(usual_restore(&u, &m));
        pass_minutes(&u, 3, true, 9);
        assert_true(u.memory.executing == 6.5);
        pass_minutes(&u, 3, true, 1);
        assert_true(u.memory.executing == 3);
}

static void a_ring_may_begin_anywhere(void **state)
{
        struct usual u = {0};
        struct usual_memory m = {.n_hours = 3, .next_hour = 1};

        (void)state;
        m.hours[0] = m.hours[USUAL_HOURS - 1] = 5;
        m.hours[USUAL_HOURS - 2] = 6;
        m.hours[USUAL_HOURS - 3] = m.hours[1] = m.hours[2] = 11; /* no longer, or not yet */
        assert_true(usual_restore(&u, &m));
        assert_true(settled(&u) == 6);
}

static void the_limits_of_what_is_kept_are_allowed(void **state)
{
        struct usual u = {0};
        struct usual_memory none = {0}, all = good_memory();

        (void)state;
        assert_true(usual_restore(&u, &none));
        assert_false(usual_is_learned(&u));
        all.executing = MOST;
        all.log_time = 60;
        all.n_hours = USUAL_HOURS;
        all.next_hour = USUAL_HOURS - 1;
        memset(all.hours, USUAL_BUCKETS - 1, sizeof(all.hours));
        assert_true(usual_restore(&u, &all));
        assert_true(settled(&u) == MOST);
        all.executing = 1;
        assert_true(usual_restore(&u, &all));
}

static void refuse_memory(struct usual_memory m)
{
        struct usual u = usual_begun(), before;

        usual_spend(&u, 3, 60 * S);
        memcpy(&before, &u, sizeof(u));
        assert_false(usual_restore(&u, &m));
        assert_memory_equal(&u, &before, sizeof(u));
}

#define REFUSED(change)                                                                            \
        do {                                                                                       \
                struct usual_memory m = good_memory();                                             \
                m.change;                                                                          \
                refuse_memory(m);                                                                  \
        } while (0)

static void what_makes_no_sense_is_refused_and_changes_nothing(void **state)
{
        (void)state;
        REFUSED(seconds = -1);
        REFUSED(seconds = NAN);
        REFUSED(seconds = INFINITY);
        REFUSED(executing = -1);
        REFUSED(executing = 0.5);
        REFUSED(executing = NAN);
        REFUSED(executing = MOST + 1);
        REFUSED(executing = INFINITY);
        REFUSED(log_time = -0.1);
        REFUSED(log_time = 60.1);
        REFUSED(log_time = NAN);
        REFUSED(n_hours = USUAL_HOURS + 1);
        REFUSED(next_hour = USUAL_HOURS);
        REFUSED(hours[0] = USUAL_BUCKETS);
        REFUSED(hours[USUAL_HOURS - 1] = 255);
}

/* ---- metrics ---- */

static void add_values(struct usual_metric *m, double value, int n, int64_t since_ns)
{
        for (int i = 0; i < n; i++)
                usual_metric_add(m, value, since_ns);
}

static void a_metric_is_known_after_ten_minutes_and_sixty_values(void **state)
{
        struct usual_metric m;

        (void)state;
        usual_metric_init(&m);
        assert_true(isnan(m.most));
        add_values(&m, 5, 599, S);
        assert_true(isnan(m.most));
        add_values(&m, 5, 1, S);
        assert_true(m.most == 5);

        usual_metric_init(&m);
        add_values(&m, 7, 59, 20 * S);
        assert_true(isnan(m.most));
        add_values(&m, 7, 1, 20 * S); /* in the middle of a minute, or not */
        assert_true(isnan(m.most));   /* the first values already weigh a bit less */
        add_values(&m, 7, 1, 1);
        assert_true(m.most == 7);
}

static void the_usual_of_a_metric_is_its_99th_percentile(void **state)
{
        struct usual_metric m;

        (void)state;
        usual_metric_init(&m);
        add_values(&m, 3.5, 990, 0);
        add_values(&m, 40, 9, 0);
        usual_metric_add(&m, 40, 30 * S);
        assert_true(isnan(m.most));
        m.seconds = 600;
        usual_metric_add(&m, 0, 0);
        assert_true(m.most == 4); /* 10 of 1,001 were above */
        add_values(&m, 40, 1, 0);
        assert_true(m.most == 4); /* not before the minute is over */
        usual_metric_add(&m, 40, 30 * S);
        assert_true(m.most == 47);
}

static void a_gap_between_two_values_counts_as_a_minute(void **state)
{
        struct usual_metric m;

        (void)state;
        usual_metric_init(&m);
        usual_metric_add(&m, 1, DAY);
        usual_metric_add(&m, 1, -DAY);
        usual_metric_add(&m, NAN, 30 * S); /* is no value */
        assert_true(m.seconds == 60);
        assert_true(is_about(m.n[1], exp(-60 / (7 * 86400.0)) + 1));
        assert_true(m.n[0] == 0);
}

static void values_of_last_month_are_forgotten(void **state)
{
        struct usual_metric m;
        int days = 0;

        (void)state;
        usual_metric_init(&m);
        add_values(&m, 14, 7 * 1440, 60 * S);
        assert_true(m.most == 14);
        double before = m.n[14];
        add_values(&m, 2, 7 * 1440, 60 * S);
        assert_true(m.most == 14);
        assert_true(fabs(m.n[14] / before - exp(-1)) < 1e-6);
        while (m.most != 2 && days++ < 60)
                add_values(&m, 2, 1440, 60 * S);
        assert_in_range(7 + days, 28, 33); /* 0.63 e^(-t/7 days) = 0.01: 29 days */
}

static void a_rising_metric_is_followed_within_hours(void **state)
{
        struct usual_metric m;

        (void)state;
        usual_metric_init(&m);
        add_values(&m, 2, 1440, 60 * S);
        add_values(&m, 14, 12, 60 * S);
        assert_true(m.most == 2);
        add_values(&m, 14, 3, 60 * S);
        assert_true(m.most == 14);
}

static void what_was_kept_of_a_metric_is_worked_out_at_once(void **state)
{
        struct usual_metric m;
        double n[USUAL_BUCKETS] = {[3] = 990, [9] = 10};

        (void)state;
        usual_metric_init(&m);
        add_values(&m, 1, 3, 7 * S);
        assert_true(usual_metric_restore(&m, n, 600));
        assert_true(m.most == 3 && m.seconds == 600 && m.unsettled_s == 0);
        assert_memory_equal(m.n, n, sizeof(n));
        n[9] = 11;
        assert_true(usual_metric_restore(&m, n, 600));
        assert_true(m.most == 9);
        assert_true(usual_metric_restore(&m, n, 599));
        assert_true(isnan(m.most));
        n[3] = 40;
        assert_true(usual_metric_restore(&m, n, 6000));
        assert_true(isnan(m.most));
}

static void refuse_metric(double n_3, double n_4, double seconds)
{
        struct usual_metric m, before;
        double n[USUAL_BUCKETS] = {[3] = n_3, [4] = n_4};

        usual_metric_init(&m);
        add_values(&m, 1, 3, 7 * S);
        memcpy(&before, &m, sizeof(m));
        assert_false(usual_metric_restore(&m, n, seconds));
        assert_memory_equal(&m, &before, sizeof(m));
}

static void a_metric_that_makes_no_sense_is_refused_and_changes_nothing(void **state)
{
        (void)state;
        refuse_metric(-1, 100, 600);
        refuse_metric(NAN, 100, 600);
        refuse_metric(INFINITY, 0, 600);
        refuse_metric(-INFINITY, 0, 600);
        refuse_metric(1e308, 1e308, 600);
        refuse_metric(100, 0, -1);
        refuse_metric(100, 0, NAN);
        refuse_metric(100, 0, INFINITY);
}

/* ---- pace ---- */

static uint32_t pace_n(const struct pace *p, int64_t now_ns, double want_sum)
{
        struct pace_sum all = pace_sum(p, now_ns);
        assert_true(is_about(all.log_ratio, want_sum));
        return all.n;
}

static void an_empty_pace_says_nothing_at_any_time(void **state)
{
        struct pace p = {0};

        (void)state;
        assert_int_equal(pace_n(&p, 0, 0), 0);
        assert_int_equal(pace_n(&p, 3 * S, 0), 0);
        assert_int_equal(pace_n(&p, INT64_MAX, 0), 0);
        pace_add(&p, 0.5, false, 1000 * DAY);
        assert_int_equal(pace_n(&p, 1000 * DAY, 0.5), 1);
        pace_add(&p, 0.5, false, INT64_MAX);
        assert_int_equal(pace_n(&p, INT64_MAX, 0.5), 1);

        p = (struct pace){0};
        pace_add(&p, 0.5, false, 0);
        assert_int_equal(pace_n(&p, 0, 0.5), 1);
        assert_int_equal(pace_n(&p, 5 * S - 1, 0.5), 1);
        assert_int_equal(pace_n(&p, 5 * S, 0), 0);
}

static void the_pace_is_forgotten_after_five_seconds(void **state)
{
        struct pace p = {0};
        int64_t at_ns = 1000 * S;

        (void)state;
        pace_add(&p, 1, false, at_ns);
        pace_add(&p, 2, false, at_ns + 499 * NS_PER_MS);
        pace_add(&p, -0.5, false, at_ns + 500 * NS_PER_MS);
        pace_add(&p, 4, false, at_ns + 3 * S);
        assert_int_equal(pace_n(&p, at_ns + 3 * S, 6.5), 4);
        assert_int_equal(pace_n(&p, at_ns + 5 * S - 1, 6.5), 4);
        assert_int_equal(pace_n(&p, at_ns + 5 * S, 3.5), 2);
        assert_int_equal(pace_n(&p, at_ns + 5500 * NS_PER_MS, 4), 1);
        assert_int_equal(pace_n(&p, at_ns + 8 * S - 1, 4), 1);
        assert_int_equal(pace_n(&p, at_ns + 8 * S, 0), 0);
        assert_int_equal(pace_n(&p, at_ns + DAY, 0), 0);
}

static void slots_that_were_skipped_are_empty(void **state)
{
        (void)state;
        for (int gap = 1; gap <= 3 * PACE_SLOTS; gap++) {
                struct pace p = {0};
                for (int64_t slot = 100; slot < 100 + PACE_SLOTS; slot++)
                        pace_add(&p, 1, false, slot * PACE_SLOT_NS);
                int64_t at_ns = (100 + PACE_SLOTS - 1 + gap) * PACE_SLOT_NS;
                uint32_t left = gap < PACE_SLOTS ? (uint32_t)(PACE_SLOTS - gap) : 0;
                pace_add(&p, 1, false, at_ns);
                assert_int_equal(pace_n(&p, at_ns, left + 1), left + 1);
        }
}

static void a_time_in_the_past_counts_as_the_newest(void **state)
{
        struct pace p = {0};
        int64_t at_ns = 1000 * S;

        (void)state;
        pace_add(&p, 1, false, at_ns);
        pace_add(&p, 2, false, at_ns - 60 * S);
        assert_int_equal(pace_n(&p, at_ns, 3), 2);
        assert_int_equal(pace_n(&p, at_ns + 5 * S - 1, 3), 2);
        assert_int_equal(pace_n(&p, at_ns + 5 * S, 0), 0);
        pace_add(&p, 5, false, at_ns + 2 * S);
        assert_int_equal(pace_n(&p, at_ns, 8), 3); /* a look back sees the newest ones too */
}

static void slow_ones_are_counted_and_forgotten_with_the_others(void **state)
{
        struct pace p = {0};
        int64_t at_ns = 1000 * S;

        (void)state;
        for (int i = 0; i < 10; i++)
                pace_add(&p, 0, i < 3, at_ns);
        pace_add(&p, 0, true, at_ns + 2 * S);
        assert_int_equal(pace_sum(&p, at_ns + 2 * S).slow, 4);
        assert_int_equal(pace_sum(&p, at_ns + 5 * S).slow, 1);
        pace_add(&p, 0, false, at_ns + 5 * S); /* its slot is used again */
        assert_int_equal(pace_sum(&p, at_ns + 5 * S).slow, 1);
        assert_int_equal(pace_sum(&p, at_ns + 7 * S).slow, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(
                        small_counts_have_a_bucket_each_and_larger_ones_a_quarter_of_an_octave),
                cmocka_unit_test(odd_counts_have_a_bucket_too),
                cmocka_unit_test(there_is_no_bucket_beyond_the_last),
                cmocka_unit_test(the_figure_of_an_hour_is_not_exceeded_for_99_percent_of_the_time),
                cmocka_unit_test(a_count_of_many_is_the_largest_of_its_bucket),
                cmocka_unit_test(an_idle_kind_may_still_execute_one),
                cmocka_unit_test(nothing_is_set_before_ten_well_minutes),
                cmocka_unit_test(the_time_before_the_first_transaction_is_not_learned_from),
                cmocka_unit_test(a_kind_is_learned_after_ten_minutes_and_a_thousand_transactions),
                cmocka_unit_test(only_well_time_after_the_first_transaction_counts_as_learning),
                cmocka_unit_test(an_hour_that_was_not_well_leaves_no_figure),
                cmocka_unit_test(the_usual_is_the_90th_percentile_of_the_hours),
                cmocka_unit_test(the_end_of_an_hour_changes_nothing_by_itself),
                cmocka_unit_test(in_a_full_ring_the_current_hour_stands_for_the_oldest),
                cmocka_unit_test(on_its_first_day_it_rises_at_once),
                cmocka_unit_test(after_a_day_it_rises_by_a_quarter_a_day_and_not_beyond_its_hours),
                cmocka_unit_test(what_jumps_is_let_in_slowly_and_what_falls_is_forgotten_at_once),
                cmocka_unit_test(hours_of_a_week_ago_are_forgotten),
                cmocka_unit_test(the_mean_of_the_first_thousand_is_a_plain_one),
                cmocka_unit_test(a_first_look_at_very_many_is_a_plain_mean_too),
                cmocka_unit_test(then_the_mean_moves_over_twenty_minutes),
                cmocka_unit_test(while_the_database_is_not_well_the_mean_moves_ten_times_slower),
                cmocka_unit_test(a_look_after_a_long_time_counts_as_one_second),
                cmocka_unit_test(slow_is_what_two_of_a_hundred_exceed),
                cmocka_unit_test(slow_transactions_of_a_database_that_is_not_well_teach_nothing),
                cmocka_unit_test(times_that_cannot_be_do_not_spoil_the_mean),
                cmocka_unit_test(what_was_kept_counts_at_once),
                cmocka_unit_test(without_any_hour_the_usual_stays_as_it_was_kept),
                cmocka_unit_test(a_ring_may_begin_anywhere),
                cmocka_unit_test(the_limits_of_what_is_kept_are_allowed),
                cmocka_unit_test(what_makes_no_sense_is_refused_and_changes_nothing),
                cmocka_unit_test(a_metric_is_known_after_ten_minutes_and_sixty_values),
                cmocka_unit_test(the_usual_of_a_metric_is_its_99th_percentile),
                cmocka_unit_test(a_gap_between_two_values_counts_as_a_minute),
                cmocka_unit_test(values_of_last_month_are_forgotten),
                cmocka_unit_test(a_rising_metric_is_followed_within_hours),
                cmocka_unit_test(what_was_kept_of_a_metric_is_worked_out_at_once),
                cmocka_unit_test(a_metric_that_makes_no_sense_is_refused_and_changes_nothing),
                cmocka_unit_test(an_empty_pace_says_nothing_at_any_time),
                cmocka_unit_test(the_pace_is_forgotten_after_five_seconds),
                cmocka_unit_test(slots_that_were_skipped_are_empty),
                cmocka_unit_test(a_time_in_the_past_counts_as_the_newest),
                cmocka_unit_test(slow_ones_are_counted_and_forgotten_with_the_others),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

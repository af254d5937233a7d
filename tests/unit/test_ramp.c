/* The way back of parked jobs: shares, order, moments, and an end. */
#include "check.h"

#include "gate/ramp.h"

#define S NS_PER_S

static size_t sum(const size_t n[TIERS])
{
        return n[0] + n[1] + n[2] + n[3];
}

static void zero_means_three_cycles_of_a_minute(void **state)
{
        struct ramp r;

        (void)state;
        ramp_init(&r, 0, 0);
        assert_int_equal(ramp_cycles(&r), 3);
        assert_true(r.cycle_ns == 60 * S);
        ramp_init(&r, 5, 7 * S);
        assert_int_equal(ramp_cycles(&r), 5);
        assert_true(r.cycle_ns == 7 * S);
        assert_false(ramp_is_running(&r));
        assert_true(ramp_next_ns(&r) == INT64_MAX);
}

static void nothing_returns_before_it_has_begun(void **state)
{
        struct ramp r;
        size_t parked[TIERS] = {0, 1, 2, 3}, release[TIERS] = {9, 9, 9, 9};

        (void)state;
        ramp_init(&r, 0, 0);
        ramp_step(&r, 100 * S, parked, release);
        assert_int_equal(sum(release), 0);
}

static void a_third_returns_each_cycle_most_important_first(void **state)
{
        struct ramp r;
        size_t parked[TIERS] = {0, 2, 3, 5}, release[TIERS];

        (void)state;
        ramp_init(&r, 0, 0);
        ramp_begin(&r, 100 * S);
        assert_true(ramp_next_ns(&r) == 100 * S);
        ramp_step(&r, 100 * S, parked, release); /* 10 / 3, rounded up */
        assert_memory_equal(release, ((size_t[TIERS]){0, 2, 2, 0}), sizeof(release));
        assert_true(ramp_next_ns(&r) == 160 * S);

        ramp_step(&r, 160 * S - 1, parked, release); /* too early */
        assert_int_equal(sum(release), 0);

        memcpy(parked, (size_t[TIERS]){0, 0, 1, 5}, sizeof(parked));
        ramp_step(&r, 160 * S, parked, release); /* 6 / 2 */
        assert_memory_equal(release, ((size_t[TIERS]){0, 0, 1, 2}), sizeof(release));

        memcpy(parked, (size_t[TIERS]){0, 0, 0, 3}, sizeof(parked));
        ramp_step(&r, 220 * S, parked, release); /* all */
        assert_memory_equal(release, ((size_t[TIERS]){0, 0, 0, 3}), sizeof(release));
        assert_true(ramp_is_running(&r)); /* they return within this cycle */
        assert_true(ramp_next_ns(&r) == 280 * S);
        assert_true(r.released == 10);

        parked[TIER_DEFERRABLE] = 0;
        ramp_step(&r, 280 * S, parked, release);
        assert_int_equal(sum(release), 0);
        assert_false(ramp_is_running(&r));
        assert_true(ramp_next_ns(&r) == INT64_MAX);
}

static void what_was_parked_meanwhile_is_part_of_it(void **state)
{
        struct ramp r;
        size_t parked[TIERS] = {0, 0, 0, 9}, release[TIERS];

        (void)state;
        ramp_init(&r, 3, S);
        ramp_begin(&r, S);
        ramp_step(&r, S, parked, release);
        assert_int_equal(release[TIER_DEFERRABLE], 3);
        memcpy(parked, (size_t[TIERS]){0, 5, 0, 6}, sizeof(parked));
        ramp_step(&r, 2 * S, parked, release); /* 11 / 2 */
        assert_memory_equal(release, ((size_t[TIERS]){0, 5, 0, 1}), sizeof(release));
        memcpy(parked, (size_t[TIERS]){0, 0, 100, 5}, sizeof(parked));
        ramp_step(&r, 3 * S, parked, release);
        assert_int_equal(sum(release), 105);
}

static void a_rise_stops_it_and_the_next_fall_begins_anew(void **state)
{
        struct ramp r;
        size_t parked[TIERS] = {0, 0, 90, 0}, release[TIERS];

        (void)state;
        ramp_init(&r, 3, S);
        ramp_begin(&r, S);
        ramp_step(&r, S, parked, release);
        ramp_stop(&r);
        assert_false(ramp_is_running(&r));
        parked[TIER_NORMAL] = 60;
        ramp_step(&r, 2 * S, parked, release);
        assert_int_equal(sum(release), 0);
        ramp_begin(&r, 10 * S);
        assert_true(r.released == 0);
        ramp_step(&r, 10 * S, parked, release);
        assert_int_equal(sum(release), 20); /* a third again, not a half */
        ramp_begin(&r, 10 * S);             /* and so when one is going on */
        ramp_step(&r, 10 * S, parked, release);
        assert_int_equal(sum(release), 20);
}

static void it_ends_early_when_nothing_is_parked(void **state)
{
        struct ramp r;
        size_t none[TIERS] = {0}, release[TIERS] = {1, 1, 1, 1};

        (void)state;
        ramp_init(&r, 3, S);
        ramp_begin(&r, S);
        ramp_step(&r, S, none, release);
        assert_int_equal(sum(release), 0);
        assert_false(ramp_is_running(&r));
}

static void a_late_step_makes_nothing_up(void **state)
{
        struct ramp r;
        size_t parked[TIERS] = {0, 0, 30, 0}, release[TIERS];

        (void)state;
        ramp_init(&r, 3, S);
        ramp_begin(&r, S);
        ramp_step(&r, S, parked, release);
        parked[TIER_NORMAL] = 20;
        ramp_step(&r, 100 * S, parked, release);
        assert_int_equal(sum(release), 10);
        assert_true(ramp_next_ns(&r) == 101 * S);
}

static void one_cycle_gives_back_everything_at_once(void **state)
{
        struct ramp r;
        size_t parked[TIERS] = {1, 2, 3, 4}, release[TIERS];

        (void)state;
        ramp_init(&r, 1, S);
        ramp_begin(&r, S);
        ramp_step(&r, S, parked, release);
        assert_memory_equal(release, parked, sizeof(release));
}

static void fewer_jobs_than_cycles_return_one_by_one(void **state)
{
        struct ramp r;
        size_t parked[TIERS] = {0, 0, 1, 1}, release[TIERS];

        (void)state;
        ramp_init(&r, 10, S);
        ramp_begin(&r, S);
        ramp_step(&r, S, parked, release);
        assert_memory_equal(release, ((size_t[TIERS]){0, 0, 1, 0}), sizeof(release));
}

static void jobs_return_in_order_each_in_its_own_slot(void **state)
{
        struct ramp r;
        struct rng dice;
        size_t parked[TIERS] = {0, 0, 0, 300}, release[TIERS];
        int64_t last = -1;

        (void)state;
        rng_init_seed(&dice, 1);
        ramp_init(&r, 3, 60 * S);
        ramp_begin(&r, S);
        ramp_step(&r, S, parked, release);
        for (int64_t i = 0; i < 100; i++) {
                int64_t at = ramp_jitter_ms(&r, &dice);
                assert_true(at >= i * 600 && at < (i + 1) * 600);
                assert_true(at > last);
                last = at;
        }
        for (int i = 0; i < 10; i++) { /* one too many is still within the cycle */
                int64_t at = ramp_jitter_ms(&r, &dice);
                assert_true(at >= 59400 && at < 60000);
        }
}

static void the_moment_within_a_slot_is_random(void **state)
{
        struct ramp r;
        struct rng dice;
        size_t parked[TIERS] = {0, 0, 0, 1}, release[TIERS];
        unsigned early = 0;

        (void)state;
        rng_init_seed(&dice, 2);
        for (int i = 0; i < 1000; i++) {
                ramp_init(&r, 1, 60 * S);
                ramp_begin(&r, S);
                ramp_step(&r, S, parked, release);
                early += ramp_jitter_ms(&r, &dice) < 30000;
        }
        assert_true(early > 400 && early < 600);
}

static void more_jobs_than_milliseconds_share_them(void **state)
{
        struct ramp r;
        struct rng dice;
        size_t parked[TIERS] = {0, 0, 0, 5000}, release[TIERS];
        int64_t last = 0;

        (void)state;
        rng_init_seed(&dice, 3);
        ramp_init(&r, 1, S);
        ramp_begin(&r, S);
        ramp_step(&r, S, parked, release);
        for (int i = 0; i < 5000; i++) {
                int64_t at = ramp_jitter_ms(&r, &dice);
                assert_true(at >= last && at < 1000);
                last = at;
        }
        assert_true(last >= 999);
}

static void counts_beyond_reason_do_not_overflow(void **state)
{
        struct ramp r;
        struct rng dice;
        size_t parked[TIERS] = {0, 0, SIZE_MAX / 4, SIZE_MAX / 4}, release[TIERS];

        (void)state;
        rng_init_seed(&dice, 4);
        ramp_init(&r, 2, INT64_MAX / 4);
        ramp_begin(&r, S);
        ramp_step(&r, S, parked, release);
        assert_true(release[TIER_NORMAL] == SIZE_MAX / 4 && release[TIER_DEFERRABLE] == 0);
        r.n_placed = r.n_given - 1;
        assert_true(ramp_jitter_ms(&r, &dice) <= INT64_MAX / 4 / NS_PER_MS);
}

static void a_new_job_waits_behind_the_ramp_and_the_line_ends_by_itself(void **state)
{
        struct ramp r;
        size_t parked[TIERS] = {0, 0, 0, 9}, release[TIERS];
        int64_t last_due_ns = 0;

        (void)state;
        ramp_init(&r, 2, 60 * S);
        assert_true(ramp_behind_ns(&r, 100 * S) == 0);
        ramp_begin(&r, 100 * S);
        assert_true(ramp_end_ns(&r) == 220 * S);
        ramp_step(&r, 100 * S, parked, release);
        assert_true(ramp_end_ns(&r) == 220 * S);
        assert_false(ramp_is_last(&r));
        assert_true(100 * S + ramp_behind_ns(&r, 100 * S) >= 220 * S);
        ramp_step(&r, 160 * S, parked, release);
        assert_true(ramp_is_last(&r));
        assert_true(ramp_end_ns(&r) == 220 * S);
        for (int64_t now = 160 * S; now < 280 * S; now += S) {
                int64_t due = now + ramp_behind_ns(&r, now);
                assert_true(due >= 220 * S && due > last_due_ns); /* in order, after all others */
                assert_true(last_due_ns == 0 || due - last_due_ns == S / 2);
                last_due_ns = due;
                if (now == 230 * S) { /* and it goes on when the ramp has ended */
                        ramp_step(&r, now, parked, release);
                        assert_false(ramp_is_running(&r));
                }
        }
        assert_true(ramp_behind_ns(&r, 280 * S) == 0);
        ramp_begin(&r, 300 * S);
        assert_false(ramp_is_last(&r));
        ramp_step(&r, 300 * S, parked, release);
        ramp_step(&r, 360 * S, parked, release);
        ramp_stop(&r); /* a level rose: the gate itself makes them wait */
        assert_true(ramp_behind_ns(&r, 361 * S) == 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_new_job_waits_behind_the_ramp_and_the_line_ends_by_itself),
                cmocka_unit_test(zero_means_three_cycles_of_a_minute),
                cmocka_unit_test(nothing_returns_before_it_has_begun),
                cmocka_unit_test(a_third_returns_each_cycle_most_important_first),
                cmocka_unit_test(what_was_parked_meanwhile_is_part_of_it),
                cmocka_unit_test(a_rise_stops_it_and_the_next_fall_begins_anew),
                cmocka_unit_test(it_ends_early_when_nothing_is_parked),
                cmocka_unit_test(a_late_step_makes_nothing_up),
                cmocka_unit_test(one_cycle_gives_back_everything_at_once),
                cmocka_unit_test(fewer_jobs_than_cycles_return_one_by_one),
                cmocka_unit_test(jobs_return_in_order_each_in_its_own_slot),
                cmocka_unit_test(the_moment_within_a_slot_is_random),
                cmocka_unit_test(more_jobs_than_milliseconds_share_them),
                cmocka_unit_test(counts_beyond_reason_do_not_overflow),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

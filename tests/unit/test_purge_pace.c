/* The pace of retention: the size of slices, their rests, and the rate that is told. */
#include "check.h"

#include "guard/purge_pace.h"

#define MS NS_PER_MS

static int64_t now_ns;

/* A slice as large as it may be; four rows of all tables for each. */
static void slice(struct purge_pace *p, int64_t took_ms)
{
        unsigned asked = purge_pace_rows(p);
        struct purge_slice s = {.began_ns = now_ns,
                                .ended_ns = now_ns + took_ms * MS,
                                .asked = asked,
                                .changed = (uint64_t)asked * 4,
                                .done = asked};
        purge_pace_took(p, &s);
        now_ns = p->due_ns;
}

static void a_slice_grows_while_it_is_quick_and_shrinks_when_it_takes_too_long(void **unused)
{
        (void)unused;
        struct purge_pace p = {0};
        now_ns = NS_PER_S;
        assert_int_equal(purge_pace_rows(&p), PACE_ROWS_FIRST);
        for (int i = 0; i < 20; i++)
                slice(&p, 1);
        assert_int_equal(purge_pace_rows(&p), PACE_ROWS_MAX);
        slice(&p, 100); /* twice too long */
        assert_int_equal(purge_pace_rows(&p), PACE_ROWS_MAX / 2);
        slice(&p, 40); /* between half of it and all of it: as it is */
        assert_int_equal(purge_pace_rows(&p), PACE_ROWS_MAX / 2);
        for (int i = 0; i < 20; i++)
                slice(&p, 5000);
        assert_int_equal(purge_pace_rows(&p), 1);
}

static void a_refusal_halves_the_slice_and_rests_longer(void **unused)
{
        (void)unused;
        struct purge_pace p = {.rows = 100};
        const struct purge_slice s = {
                .began_ns = NS_PER_S, .ended_ns = NS_PER_S + MS, .asked = 100, .is_refused = true};
        purge_pace_took(&p, &s);
        assert_int_equal(purge_pace_rows(&p), 50);
        assert_true(p.due_ns >= s.ended_ns + 100 * MS);
}

static void a_rest_is_four_times_the_slice_and_longer_when_rows_take_longer(void **unused)
{
        (void)unused;
        struct purge_pace p = {.rows = 500};
        const struct purge_slice quick = {.began_ns = NS_PER_S,
                                          .ended_ns = NS_PER_S + 30 * MS,
                                          .asked = 500,
                                          .changed = 2000};
        const struct purge_slice slow = {.began_ns = NS_PER_S,
                                         .ended_ns = NS_PER_S + 90 * MS,
                                         .asked = 500,
                                         .changed = 2000};
        const struct purge_slice stuck = {.began_ns = NS_PER_S,
                                          .ended_ns = NS_PER_S + 900 * MS,
                                          .asked = 500,
                                          .changed = 2000};
        purge_pace_took(&p, &quick);
        assert_in_range(p.due_ns - quick.ended_ns, 120 * MS, 121 * MS);
        purge_pace_took(&p, &slow);
        assert_in_range(p.due_ns - slow.ended_ns, 1000 * MS, 1080 * MS); /* 3 times 4 times 90 */
        purge_pace_took(&p, &stuck);
        assert_in_range(p.due_ns - stuck.ended_ns, 4 * 900 * MS, 8 * 4 * 900 * MS);
}

static void the_rate_counts_the_rests_and_not_the_sleep(void **unused)
{
        (void)unused;
        struct purge_pace p = {.rows = 500};
        now_ns = NS_PER_S;
        for (int i = 0; i < 110; i++) /* 100 ms each with its rest: 5,000 a second */
                slice(&p, 20);
        assert_in_range((int64_t)p.per_s, 4300, 5100);
        purge_pace_sleep(&p, now_ns, now_ns + 100 * NS_PER_S);
        assert_true(p.due_ns == now_ns + 100 * NS_PER_S);
        now_ns = p.due_ns;
        for (int i = 0; i < 110; i++)
                slice(&p, 20);
        assert_in_range((int64_t)p.per_s, 4300, 5100);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(
                        a_slice_grows_while_it_is_quick_and_shrinks_when_it_takes_too_long),
                cmocka_unit_test(a_refusal_halves_the_slice_and_rests_longer),
                cmocka_unit_test(a_rest_is_four_times_the_slice_and_longer_when_rows_take_longer),
                cmocka_unit_test(the_rate_counts_the_rests_and_not_the_sleep),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

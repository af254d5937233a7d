/* Which digests are known, what their mean is, and which of them a full set forgets. */
#include "check.h"

#include <math.h>

/* The hash and the number of sets are needed to fill a set. */
#include "../../src/gate/digests.c" /* NOLINT(bugprone-suspicious-include) */
#include "base/rand.h"

#define CLASS 7

static int setup_digests(void **state)
{
        *state = digests_new();
        return 0;
}

static int teardown_digests(void **state)
{
        *state = digests_free(*state);
        return *state ? 1 : 0;
}

static void add_times(struct digests *d, uint64_t digest, int n, double log_time)
{
        for (int i = 0; i < n; i++)
                digests_add(d, CLASS, digest, log_time);
}

/* -1: it is new. */
static double mean_of(const struct digests *d, uint64_t digest)
{
        double mean = NAN;

        return digests_find(d, CLASS, digest, &mean) ? mean : -1;
}

static bool is_near(double a, double b)
{
        return fabs(a - b) < 1e-3;
}

/* Digests of the same set, the one of the number 1. */
static void same_set(uint64_t *ret, int n)
{
        uint64_t digest = 1, set = digest_hash(CLASS, digest) % SETS;

        for (int i = 0; i < n; digest++)
                if (digest_hash(CLASS, digest) % SETS == set)
                        ret[i++] = digest;
}

static void a_digest_is_known_after_three_transactions(void **state)
{
        struct digests *d = *state;
        double mean = 99;

        assert_true(mean_of(d, 1) == -1);
        add_times(d, 1, 2, 14);
        assert_false(digests_find(d, CLASS, 1, &mean));
        assert_true(mean == 99); /* untouched */
        add_times(d, 1, 1, 14);
        assert_true(is_near(mean_of(d, 1), 14));
        assert_true(mean_of(d, 2) == -1);
}

static void the_same_digest_is_another_one_in_another_class(void **state)
{
        struct digests *d = *state;
        double mean = 0;

        add_times(d, 1, 3, 14);
        assert_false(digests_find(d, CLASS + 1, 1, &mean));
        for (int i = 0; i < 3; i++)
                digests_add(d, CLASS + 1, 1, 20);
        assert_true(digests_find(d, CLASS + 1, 1, &mean));
        assert_true(is_near(mean, 20));
        assert_true(is_near(mean_of(d, 1), 14));
}

/* The hash of the last of them is 0. */
static void any_class_and_digest_can_be_known(void **state)
{
        static const uint64_t ends[] = {1, UINT64_MAX, 0 - 0x9e3779b97f4a7c15ULL};
        struct digests *d = *state;
        double mean = 0;

        for (size_t i = 0; i < ARRAY_LEN(ends); i++)
                for (int n = 0; n < 3; n++) {
                        digests_add(d, 0, ends[i], 10 + (double)i);
                        digests_add(d, UINT16_MAX, ends[i], 20 + (double)i);
                }
        for (uint64_t digest = 2, n = 0; n < 4; digest++)
                if (digest_hash(CLASS, digest) % SETS < 2) {
                        add_times(d, digest, 1, 30);
                        n++;
                }
        for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
                assert_true(digests_find(d, 0, ends[i], &mean));
                assert_true(is_near(mean, 10 + (double)i));
                assert_true(digests_find(d, UINT16_MAX, ends[i], &mean));
                assert_true(is_near(mean, 20 + (double)i));
        }
}

static void the_mean_is_a_plain_one_and_moves_slowly_later(void **state)
{
        struct digests *d = *state;

        add_times(d, 1, 1, 10);
        add_times(d, 1, 1, 12);
        add_times(d, 1, 2, 15);
        assert_true(is_near(mean_of(d, 1), 13));
        add_times(d, 1, 60, 13);
        assert_true(is_near(mean_of(d, 1), 13));
        add_times(d, 1, 1, 13 + 64);
        assert_true(is_near(mean_of(d, 1), 14)); /* the 65th is a 64th */
        add_times(d, 1, 1000, 14);
        add_times(d, 1, 1, 14 + 64);
        assert_true(is_near(mean_of(d, 1), 15)); /* so is the 1,066th */
}

static void a_time_that_cannot_be_is_left_out(void **state)
{
        struct digests *d = *state;

        add_times(d, 1, 2, 14);
        add_times(d, 1, 1, -INFINITY);
        add_times(d, 1, 1, INFINITY);
        add_times(d, 1, 1, NAN);
        assert_true(mean_of(d, 1) == -1);
        add_times(d, 1, 1, 14);
        assert_true(is_near(mean_of(d, 1), 14));
}

static void a_full_set_forgets_the_rarest_and_the_others_count_half(void **state)
{
        struct digests *d = *state;
        uint64_t in_set[5];

        same_set(in_set, 5);
        add_times(d, in_set[0], 7, 10);
        add_times(d, in_set[1], 20, 11);
        add_times(d, in_set[2], 4, 12);
        add_times(d, in_set[3], 5, 13);
        for (int i = 0; i < 4; i++)
                assert_true(is_near(mean_of(d, in_set[i]), 10 + i));
        add_times(d, in_set[4], 3, 14);
        assert_true(is_near(mean_of(d, in_set[0]), 10)); /* 3 */
        assert_true(is_near(mean_of(d, in_set[1]), 11)); /* 10 */
        assert_true(mean_of(d, in_set[2]) == -1);        /* gone */
        assert_true(mean_of(d, in_set[3]) == -1);        /* 2: not known any more, */
        add_times(d, in_set[3], 1, 13);
        assert_true(is_near(mean_of(d, in_set[3]), 13)); /* but not gone */
        assert_true(is_near(mean_of(d, in_set[4]), 14));
}

static void wherever_it_stands_the_rarest_goes(void **state)
{
        struct digests *d = *state;
        uint64_t in_set[5];

        same_set(in_set, 5);
        for (int rarest = 0; rarest < 4; rarest++) {
                memset(d, 0, sizeof(*d));
                for (int i = 0; i < 4; i++)
                        add_times(d, in_set[i], i == rarest ? 7 : 8, 10);
                add_times(d, in_set[4], 3, 10);
                for (int i = 0; i < 5; i++)
                        assert_int_equal(mean_of(d, in_set[i]) > 0, i != rarest);
        }
}

static void the_count_stops_at_its_largest_value(void **state)
{
        struct digests *d = *state;
        struct digest_entry *set = d->sets[digest_hash(CLASS, 1) % SETS];

        add_times(d, 1, 3, 10);
        set[0].n = UINT16_MAX;
        add_times(d, 1, 3, 10);
        assert_true(set[0].n == UINT16_MAX);
        assert_true(is_near(mean_of(d, 1), 10));
}

static void a_digest_that_was_frequent_once_makes_room_in_the_end(void **state)
{
        struct digests *d = *state;
        uint64_t in_set[40];

        same_set(in_set, 40);
        for (int i = 0; i < 4; i++)
                add_times(d, in_set[i], 1000, 10);
        for (int i = 4; i < 40; i++)
                add_times(d, in_set[i], 8, 11);
        for (int i = 0; i < 4; i++)
                assert_true(mean_of(d, in_set[i]) == -1);
        assert_true(is_near(mean_of(d, in_set[39]), 11));
}

static void a_flood_of_digests_leaves_what_is_used(void **state)
{
        struct digests *d = *state;
        struct rng rng;
        double mean = 0;

        rng_init_seed(&rng, 42);
        for (int round = 0; round < 2000; round++) {
                for (int i = 0; i < 100; i++)
                        digests_add(d, (uint16_t)rng_u64(&rng), rng_u64(&rng), 20);
                for (uint64_t heavy = 1; heavy <= 20; heavy++)
                        add_times(d, heavy, 2, 10 + (double)heavy);
        }
        for (uint64_t heavy = 1; heavy <= 20; heavy++)
                assert_true(is_near(mean_of(d, heavy), 10 + (double)heavy));
        int n_known = 0;
        for (int i = 0; i < 10000; i++)
                n_known += digests_find(d, (uint16_t)rng_u64(&rng), rng_u64(&rng), &mean);
        assert_int_equal(n_known, 0);
}

static void digests_are_spread_over_all_sets(void **state)
{
        struct digests *d = *state;
        unsigned n_known = 0;

        for (uint64_t digest = 1; digest <= SETS; digest++)
                add_times(d, digest << 32, 3, 10);
        for (uint64_t digest = 1; digest <= SETS; digest++)
                n_known += mean_of(d, digest << 32) > 0;
        assert_in_range(n_known, SETS * 97 / 100, SETS);
}

static void what_is_known_moves_to_another_one(void **state)
{
        static struct digest_row rows[DIGESTS_MOST];
        struct digests *d = *state, *other = digests_new();
        double mean = 0;

        add_times(d, 1, 5, 14);
        add_times(d, 2, 2, 14); /* not known */
        digests_add(d, CLASS + 1, 1, 9);
        assert_int_equal(digests_copy(d, rows), 1);
        assert_true(rows[0].digest == 1 && rows[0].n == 5 && rows[0].class_number == CLASS);
        assert_true(digest_row_is_valid(&rows[0]));
        digests_put(other, &rows[0]);
        assert_true(digests_find(other, CLASS, 1, &mean));
        assert_true(is_near(mean, 14));
        add_times(other, 1, 5, 16); /* and goes on from there */
        assert_true(is_near(mean_of(other, 1), 15));
        assert_null(digests_free(other));
}

static void a_row_that_makes_no_sense_is_told(void **state)
{
        static const struct digest_row wrong[] = {
                {.digest = 0, .log_time = 10, .n = 5},  {.digest = 1, .log_time = 10, .n = 2},
                {.digest = 1, .log_time = -1, .n = 5},  {.digest = 1, .log_time = 61, .n = 5},
                {.digest = 1, .log_time = NAN, .n = 5},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                assert_false(digest_row_is_valid(&wrong[i]));
}

static void freeing_nothing_is_fine(void **state)
{
        (void)state;
        assert_null(digests_free(NULL));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_digest_is_known_after_three_transactions,
                                                setup_digests, teardown_digests),
                cmocka_unit_test_setup_teardown(the_same_digest_is_another_one_in_another_class,
                                                setup_digests, teardown_digests),
                cmocka_unit_test_setup_teardown(any_class_and_digest_can_be_known, setup_digests,
                                                teardown_digests),
                cmocka_unit_test_setup_teardown(the_mean_is_a_plain_one_and_moves_slowly_later,
                                                setup_digests, teardown_digests),
                cmocka_unit_test_setup_teardown(a_time_that_cannot_be_is_left_out, setup_digests,
                                                teardown_digests),
                cmocka_unit_test_setup_teardown(
                        a_full_set_forgets_the_rarest_and_the_others_count_half, setup_digests,
                        teardown_digests),
                cmocka_unit_test_setup_teardown(wherever_it_stands_the_rarest_goes, setup_digests,
                                                teardown_digests),
                cmocka_unit_test_setup_teardown(the_count_stops_at_its_largest_value, setup_digests,
                                                teardown_digests),
                cmocka_unit_test_setup_teardown(
                        a_digest_that_was_frequent_once_makes_room_in_the_end, setup_digests,
                        teardown_digests),
                cmocka_unit_test_setup_teardown(a_flood_of_digests_leaves_what_is_used,
                                                setup_digests, teardown_digests),
                cmocka_unit_test_setup_teardown(digests_are_spread_over_all_sets, setup_digests,
                                                teardown_digests),
                cmocka_unit_test_setup_teardown(what_is_known_moves_to_another_one, setup_digests,
                                                teardown_digests),
                cmocka_unit_test(a_row_that_makes_no_sense_is_told),
                cmocka_unit_test_setup_teardown(freeing_nothing_is_fine, setup_digests,
                                                teardown_digests),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Dice: repeatable when seeded, never repeated when not, and fair. */
#include "check.h"

#include "base/rand.h"

static void a_seed_gives_the_same_numbers_every_time(void **state)
{
        struct rng a, b, c;
        bool is_different = false;

        (void)state;
        rng_init_seed(&a, 42);
        rng_init_seed(&b, 42);
        rng_init_seed(&c, 43);
        for (int i = 0; i < 1000; i++) {
                uint64_t v = rng_u64(&a);
                assert_true(v == rng_u64(&b));
                is_different |= v != rng_u64(&c);
        }
        assert_true(is_different);
}

static void the_seeded_numbers_are_xoshiro256starstar_from_splitmix64(void **state)
{
        struct rng r;

        (void)state;
        /* splitmix64 from 0 is known to begin with these. */
        rng_init_seed(&r, 0);
        assert_true(r.s[0] == 0xe220a8397b1dcdafULL);
        assert_true(r.s[1] == 0x6e789e6aa1b965f4ULL);
        assert_true(r.s[2] == 0x06c45d188009454fULL);
        assert_true(r.s[3] == 0xf88bb8a8724c81ecULL);
        /* xoshiro256** from the state 1, 2, 3, 4 is known to begin with these. */
        r.s[0] = 1;
        r.s[1] = 2;
        r.s[2] = 3;
        r.s[3] = 4;
        assert_true(rng_u64(&r) == 11520);
        assert_true(rng_u64(&r) == 0);
        assert_true(rng_u64(&r) == 1509978240);
        assert_true(rng_u64(&r) == 1215971899390074240ULL);
}

static void bytes_are_filled_to_the_last_and_no_further(void **state)
{
        struct rng rngs[2];

        (void)state;
        rng_init_seed(&rngs[0], 1);
        rng_init_system(&rngs[1]);
        for (size_t k = 0; k < 2; k++) {
                for (size_t n = 0; n < 40; n++) {
                        unsigned char seen[40] = {0};
                        for (int round = 0; round < 64; round++) {
                                unsigned char bytes[41] = {0};
                                rng_fill(&rngs[k], bytes, n);
                                for (size_t i = 0; i < n; i++)
                                        seen[i] |= bytes[i];
                                assert_int_equal(bytes[n], 0);
                        }
                        for (size_t i = 0; i < n; i++)
                                assert_int_equal(seen[i], 255); /* each bit was 1 at some time */
                }
        }
}

static void the_systems_dice_do_not_repeat_over_pools_and_leave_no_trace(void **state)
{
        static unsigned char big[3 * RNG_POOL_BYTES + 5];
        struct rng a, b;

        (void)state;
        rng_init_system(&a);
        rng_init_system(&b);
        assert_true(rng_u64(&a) != rng_u64(&b));
        rng_fill(&a, big, sizeof(big));
        for (size_t i = RNG_POOL_BYTES; i + 16 <= sizeof(big); i += RNG_POOL_BYTES)
                assert_memory_not_equal(big, big + i, 16);
        for (size_t i = 0; i < a.pool_at; i++)
                assert_int_equal(a.pool[i], 0);
}

static void below_n_is_fair_and_never_reaches_n(void **state)
{
        static const uint64_t sides[] = {1, 2, 3, 6, 10, 100};
        struct rng r;

        (void)state;
        rng_init_seed(&r, 7);
        for (size_t k = 0; k < ARRAY_LEN(sides); k++) {
                unsigned count[100] = {0};
                for (int i = 0; i < 100000; i++) {
                        uint64_t v = rng_below(&r, sides[k]);
                        assert_true(v < sides[k]);
                        count[v]++;
                }
                /* Ten standard deviations for 100 sides, and far more for fewer. */
                for (uint64_t v = 0; v < sides[k]; v++)
                        assert_true(llabs((long long)(count[v] * sides[k]) - 100000) < 32000);
        }
}

static void a_third_of_the_range_that_a_remainder_would_favour_is_not_favoured(void **state)
{
        uint64_t n = 3ULL << 62; /* v % n would fall below 2^62 half of the time */
        unsigned low = 0;
        struct rng r;

        (void)state;
        rng_init_seed(&r, 9);
        for (int i = 0; i < 30000; i++) {
                uint64_t v = rng_below(&r, n);
                assert_true(v < n);
                low += v < 1ULL << 62;
        }
        assert_true(low > 9500 && low < 10500);
}

static void roll_no_sides(void)
{
        struct rng r;

        rng_init_seed(&r, 1);
        (void)rng_below(&r, 0);
}

static void dice_without_sides_are_our_mistake(void **state)
{
        (void)state;
        assert_panics(roll_no_sides);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_seed_gives_the_same_numbers_every_time),
                cmocka_unit_test(the_seeded_numbers_are_xoshiro256starstar_from_splitmix64),
                cmocka_unit_test(bytes_are_filled_to_the_last_and_no_further),
                cmocka_unit_test(the_systems_dice_do_not_repeat_over_pools_and_leave_no_trace),
                cmocka_unit_test(below_n_is_fair_and_never_reaches_n),
                cmocka_unit_test(
                        a_third_of_the_range_that_a_remainder_would_favour_is_not_favoured),
                cmocka_unit_test(dice_without_sides_are_our_mistake),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Histograms of whole octaves: which value is in which bucket, merging, quantiles, bounds. */
#include "check.h"

#include <math.h>

#include "base/octaves.h"

static void a_value_is_in_the_bucket_of_its_digits(void **unused)
{
        (void)unused;
        assert_int_equal(octave_of(0), 0);
        assert_int_equal(octave_of(1), 1);
        assert_int_equal(octave_of(2), 2);
        assert_int_equal(octave_of(3), 2);
        assert_int_equal(octave_of(4), 3);
        assert_int_equal(octave_of((1u << 30) - 1), 30);
        assert_int_equal(octave_of(1u << 30), 31);
        assert_int_equal(octave_of(UINT64_MAX), 31);
        for (unsigned i = 1; i < OCTAVES; i++) {
                assert_int_equal(octave_of(octave_from(i)), i);
                assert_int_equal(octave_of(octave_from(i) - 1), i - 1);
        }
}

static void merging_adds_bucket_by_bucket_and_stops_at_the_largest(void **unused)
{
        (void)unused;
        struct octaves a = {0}, b = {0};
        octaves_add(&a, 5);
        octaves_add(&b, 6);
        octaves_add(&b, 100);
        octaves_merge(&a, &b);
        assert_int_equal(a.n[3], 2);
        assert_int_equal(a.n[7], 1);
        assert_int_equal(octaves_total(&a), 3);
        b.n[3] = UINT32_MAX - 1;
        octaves_merge(&a, &b);
        assert_int_equal(a.n[3], UINT32_MAX);
        octaves_add(&a, 5);
        assert_int_equal(a.n[3], UINT32_MAX);
}

static void quantiles_are_within_the_bucket_that_has_them(void **unused)
{
        (void)unused;
        struct octaves o = {0};
        assert_true(isnan(octaves_quantile(&o, 0.5)));
        octaves_add(&o, 0);
        assert_true(octaves_quantile(&o, 0.99) <= 1);
        o = (struct octaves){0};
        for (uint64_t v = 1; v <= 1000; v++)
                octaves_add(&o, v);
        /* Evenly spread over a bucket's octave is not evenly spread over its values. */
        assert_true(octaves_quantile(&o, 0.5) > 450 && octaves_quantile(&o, 0.5) < 512);
        assert_true(octaves_quantile(&o, 0.99) > 512 && octaves_quantile(&o, 0.99) <= 1024);
        assert_true(octaves_quantile(&o, 0) >= 1);
        assert_true(octaves_quantile(&o, 1) <= 1024);
        double last = 0;
        for (int i = 0; i <= 100; i++) {
                double v = octaves_quantile(&o, i / 100.0);
                assert_true(v >= last);
                last = v;
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_value_is_in_the_bucket_of_its_digits),
                cmocka_unit_test(merging_adds_bucket_by_bucket_and_stops_at_the_largest),
                cmocka_unit_test(quantiles_are_within_the_bucket_that_has_them),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

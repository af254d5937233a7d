/* When freed memory is given back to the system. */
#include "check.h"

#include "loop/trim.h"

static void memory_that_falls_is_given_back_in_pieces(void **state)
{
        struct trim t = {0};
        int64_t now = NS_PER_S;

        (void)state;
        assert_false(trim_note(&t, 100 * MIB)); /* it grows */
        assert_false(trim_look(&t, 100 * MIB, now));
        assert_true(trim_note(&t, 90 * MIB)); /* it falls */
        assert_false(trim_look(&t, 100 * MIB - TRIM_BYTES + 1, now));
        assert_true(trim_look(&t, 100 * MIB - TRIM_BYTES, now));
        assert_false(trim_look(&t, 100 * MIB - TRIM_BYTES, now)); /* once */
        assert_true(trim_look(&t, 100 * MIB - 2 * TRIM_BYTES, now));
}

static void what_is_left_is_given_back_later(void **state)
{
        struct trim t = {0};
        int64_t now = NS_PER_S;

        (void)state;
        assert_false(trim_note(&t, 10 * MIB));
        assert_false(trim_note(&t, 9 * MIB + 1)); /* too little for ever */
        assert_false(trim_look(&t, 9 * MIB + 1, now));
        assert_true(trim_note(&t, 9 * MIB));
        assert_false(trim_look(&t, 9 * MIB, now));
        assert_false(trim_look(&t, 9 * MIB, now + TRIM_LATE_NS - 1));
        assert_true(trim_look(&t, 9 * MIB, now + TRIM_LATE_NS));
        assert_false(trim_note(&t, 9 * MIB));
}

static void what_comes_and_goes_is_kept(void **state)
{
        struct trim t = {0};
        int64_t now = NS_PER_S;

        (void)state;
        for (int i = 0; i < 100; i++, now += NS_PER_S) {
                (void)trim_note(&t, 1000 * MIB);
                assert_false(trim_look(&t, 950 * MIB, now)); /* a twentieth of it */
                assert_false(trim_look(&t, 1000 * MIB, now));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(memory_that_falls_is_given_back_in_pieces),
                cmocka_unit_test(what_is_left_is_given_back_later),
                cmocka_unit_test(what_comes_and_goes_is_kept),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

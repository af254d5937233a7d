/* Searching texts: the same answers as memmem, wherever the needle is. */
#include "check.h"

#include "base/needle.h"
#include "base/rand.h"

static void a_needle_is_found_wherever_it_is_and_nowhere_else(void **state)
{
        (void)state;
        struct needle n = needle_make(SLICE_LIT("\"to\":7"));
        assert_true(needle_is_in(&n, SLICE_LIT("{\"to\":7}")));
        assert_true(needle_is_in(&n, SLICE_LIT("\"to\":7")));
        assert_true(needle_is_in(&n, SLICE_LIT("\"to\":\"to\":7")));
        assert_false(needle_is_in(&n, SLICE_LIT("\"to\":")));
        assert_false(needle_is_in(&n, SLICE_LIT("{\"to\":8}")));
        assert_false(needle_is_in(&n, SLICE_NONE));
        n = needle_make(SLICE_NONE);
        assert_true(needle_is_in(&n, SLICE_NONE) && needle_is_in(&n, SLICE_LIT("x")));
}

static void it_agrees_with_memmem_on_texts_of_few_letters(void **state)
{
        struct rng rng;
        char hay[64], text[8];
        (void)state;
        rng_init_seed(&rng, 11);
        for (int i = 0; i < 200000; i++) {
                size_t hay_len = rng_below(&rng, sizeof(hay)), len = rng_below(&rng, sizeof(text));
                for (size_t k = 0; k < hay_len; k++)
                        hay[k] = "abj\""[rng_below(&rng, 4)];
                for (size_t k = 0; k < len; k++)
                        text[k] = "abj\""[rng_below(&rng, 4)];
                struct needle n = needle_make(slice_make(text, len));
                bool want = len == 0 || memmem(hay, hay_len, text, len) != NULL;
                assert_int_equal(needle_is_in(&n, slice_make(hay, hay_len)), want);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_needle_is_found_wherever_it_is_and_nowhere_else),
                cmocka_unit_test(it_agrees_with_memmem_on_texts_of_few_letters),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

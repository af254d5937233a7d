/* Numbers of few bits: what is written is read, in how many bits, and what is missing is seen. */
#include "check.h"

#include "base/bits.h"

static void what_is_written_is_read_again(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        struct bit_writer w = {.to = &b};
        for (unsigned width = 1; width <= 32; width++) {
                bits_put(&w, (1ULL << width) - 1, width);
                bits_put(&w, 1, width);
                bits_put_number(&w, (1ULL << width) - 1);
                bits_put_signed(&w, -(int64_t)width);
                bits_put_signed(&w, INT64_MAX >> (width - 1));
        }
        bits_put_number(&w, UINT64_MAX - 1);
        bits_end(&w);
        struct bit_reader r = bits_make(buf_slice(&b));
        for (unsigned width = 1; width <= 32; width++) {
                assert_int_equal(bits_get(&r, width), (1ULL << width) - 1);
                assert_int_equal(bits_get(&r, width), 1);
                assert_int_equal(bits_get_number(&r), (1ULL << width) - 1);
                assert_int_equal(bits_get_signed(&r), -(int64_t)width);
                assert_true(bits_get_signed(&r) == INT64_MAX >> (width - 1));
        }
        assert_true(bits_get_number(&r) == UINT64_MAX - 1);
        assert_false(r.failed);
}

static void small_numbers_are_short(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        struct bit_writer w = {.to = &b};
        for (int i = 0; i < 8; i++)
                bits_put_number(&w, 0);
        bits_end(&w);
        assert_int_equal(b.len, 1);
        for (int i = 0; i < 8; i++)
                bits_put_signed(&w, i % 2 ? -1 : 0);
        bits_end(&w);
        assert_int_equal(b.len, 3);
}

static void a_short_read_fails_and_stays_so(void **unused)
{
        (void)unused;
        struct bit_reader r = bits_make(SLICE_LIT("\xff"));
        assert_int_equal(bits_get(&r, 8), 0xff);
        assert_int_equal(bits_get(&r, 1), 0);
        assert_true(r.failed);
        r = bits_make(SLICE_LIT("\0\0\0\0\0\0\0\0\0"));
        assert_int_equal(bits_get_number(&r), 0); /* 72 zeros begin no number */
        assert_true(r.failed);
        assert_int_equal(bits_get(&r, 1), 0);
        r = bits_make(SLICE_NONE);
        assert_int_equal(bits_get_signed(&r), 0);
        assert_true(r.failed);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_written_is_read_again),
                cmocka_unit_test(small_numbers_are_short),
                cmocka_unit_test(a_short_read_fails_and_stays_so),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

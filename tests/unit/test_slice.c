/* Slices: comparing, searching, UTF-8, numbers, hex. */
#include "check.h"

static struct slice lit(const char *s)
{
        return slice_str(s);
}

static void equal_means_same_length_and_bytes(void **state)
{
        (void)state;
        assert_true(slice_eq(lit("abc"), lit("abc")));
        assert_false(slice_eq(lit("abc"), lit("abd")));
        assert_false(slice_eq(lit("abc"), lit("ab")));
        assert_true(slice_eq(SLICE_NONE, lit("")));
        assert_true(slice_eq(slice_str(NULL), SLICE_NONE));
        assert_true(slice_eq(SLICE_LIT("a\0b"), slice_make("a\0b", 3)));
        assert_false(slice_eq(SLICE_LIT("a\0b"), SLICE_LIT("a\0c")));
}

static void case_is_folded_for_ascii_letters_only(void **state)
{
        (void)state;
        assert_true(slice_eq_nocase(lit("EnQueue"), lit("eNqUEUE")));
        assert_true(slice_eq_nocase(SLICE_NONE, lit("")));
        assert_false(slice_eq_nocase(lit("abc"), lit("abcd")));
        assert_false(slice_eq_nocase(lit("["), lit("{")));
        assert_false(slice_eq_nocase(lit("@"), lit("`")));
        assert_false(slice_eq_nocase(lit("\xc4"), lit("\xe4")));
}

static void order_is_bytewise_and_the_shorter_comes_first(void **state)
{
        (void)state;
        assert_int_equal(slice_cmp(lit("a"), lit("b")), -1);
        assert_int_equal(slice_cmp(lit("b"), lit("a")), 1);
        assert_int_equal(slice_cmp(lit("a"), lit("aa")), -1);
        assert_int_equal(slice_cmp(lit("aa"), lit("a")), 1);
        assert_int_equal(slice_cmp(lit("a"), lit("a")), 0);
        assert_int_equal(slice_cmp(lit("\x7f"), lit("\x80")), -1);
        assert_int_equal(slice_cmp(SLICE_NONE, lit("a")), -1);
        assert_int_equal(slice_cmp(SLICE_NONE, SLICE_NONE), 0);
}

static void a_needle_is_found_anywhere_in_the_hay(void **state)
{
        (void)state;
        assert_true(slice_contains(lit("haystack"), lit("hay")));
        assert_true(slice_contains(lit("haystack"), lit("ack")));
        assert_true(slice_contains(lit("haystack"), lit("haystack")));
        assert_true(slice_contains(lit("haystack"), SLICE_NONE));
        assert_true(slice_contains(SLICE_NONE, SLICE_NONE));
        assert_false(slice_contains(SLICE_NONE, lit("a")));
        assert_false(slice_contains(lit("hay"), lit("hayy")));
        assert_false(slice_contains(lit("haystack"), lit("stick")));
}

static void well_formed_utf8_is_accepted(void **state)
{
        static const char *const good[] = {
                "",
                "plain",
                "sixteen bytes ok",
                "\xc2\x80",         /* U+0080, the first of two bytes */
                "\xdf\xbf",         /* U+07FF */
                "\xe0\xa0\x80",     /* U+0800 */
                "\xed\x9f\xbf",     /* U+D7FF, just below the surrogates */
                "\xee\x80\x80",     /* U+E000, just above */
                "\xef\xbf\xbf",     /* U+FFFF */
                "\xf0\x90\x80\x80", /* U+10000 */
                "\xf4\x8f\xbf\xbf", /* U+10FFFF, the last */
                "eight---\xc3\xa4 after eight",
                "seven--\xf0\x9f\x90\x9f across a word",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                assert_true(slice_is_utf8(lit(good[i])));
        assert_true(slice_is_utf8(SLICE_NONE));
        assert_true(slice_is_utf8(SLICE_LIT("a\0b")));
}

static void ill_formed_utf8_is_refused_wherever_it_stands(void **state)
{
        static const char *const bad[] = {
                "\x80",             /* a continuation alone */
                "\xbf",             /* */
                "\xc0\x80",         /* overlong NUL */
                "\xc1\xbf",         /* overlong */
                "\xc2",             /* cut */
                "\xc2\x41",         /* no continuation */
                "\xc2\xc0",         /* */
                "\xe0\x9f\xbf",     /* overlong */
                "\xe1\x80",         /* cut */
                "\xe1\x80\x41",     /* */
                "\xe1\x80\xc0",     /* */
                "\xed\xa0\x80",     /* surrogate U+D800 */
                "\xed\xbf\xbf",     /* surrogate U+DFFF */
                "\xf0\x8f\xbf\xbf", /* overlong */
                "\xf1\x80\x80",     /* cut */
                "\xf1\x80\x80\x41", /* */
                "\xf4\x90\x80\x80", /* past U+10FFFF */
                "\xf5\x80\x80\x80", /* */
                "\xfe",             /* */
                "\xff",             /* */
        };
        char text[64];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                for (size_t before = 0; before < 20; before++) {
                        size_t n = strlen(bad[i]);
                        memset(text, 'x', sizeof(text));
                        memcpy(text + before, bad[i], n);
                        assert_int_equal(utf8_sequence(text + before, n), 0);
                        assert_false(slice_is_utf8(slice_make(text, before + n)));
                        assert_false(slice_is_utf8(slice_make(text, before + n + 9)));
                }
        }
}

static void every_code_point_and_no_surrogate_is_utf8(void **state)
{
        (void)state;
        for (unsigned code = 0x800; code < 0x110000; code++) {
                char text[4];
                size_t n = code < 0x10000 ? 3 : 4;
                if (n == 3) {
                        text[0] = (char)(0xe0 | code >> 12);
                } else {
                        text[0] = (char)(0xf0 | code >> 18);
                        text[1] = (char)(0x80 | (code >> 12 & 0x3f));
                }
                text[n - 2] = (char)(0x80 | (code >> 6 & 0x3f));
                text[n - 1] = (char)(0x80 | (code & 0x3f));
                bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
                assert_int_equal(utf8_sequence(text, n), is_surrogate ? 0 : n);
                assert_int_equal(utf8_sequence(text, n - 1), 0);
        }
}

static void decimal_numbers_are_read_exactly(void **state)
{
        static const struct {
                const char *text;
                int64_t value;
        } good[] = {
                {"0", 0},
                {"7", 7},
                {"-1", -1},
                {"10", 10},
                {"9223372036854775806", INT64_MAX - 1},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775807", INT64_MIN + 1},
                {"-9223372036854775808", INT64_MIN},
        };
        uint64_t u;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                int64_t v = 42;
                assert_true(slice_to_i64(lit(good[i].text), &v));
                assert_true(v == good[i].value);
        }
        assert_true(slice_to_u64(lit("18446744073709551615"), &u));
        assert_true(u == UINT64_MAX);
        assert_true(slice_to_u64(lit("18446744073709551614"), &u));
        assert_true(u == UINT64_MAX - 1);
}

static void anything_that_is_no_plain_number_is_refused_and_leaves_the_result_alone(void **state)
{
        static const char *const bad[] = {
                "",
                "-",
                "--1",
                "+1",
                "-0",
                "00",
                "01",
                "-01",
                " 1",
                "1 ",
                "1.0",
                "1e3",
                "0x10",
                "a",
                "1a",
                "/",
                ":",
                "9223372036854775808",
                "-9223372036854775809",
                "18446744073709551616",
                "99999999999999999999",
                "100000000000000000000",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                int64_t v = 42;
                assert_false(slice_to_i64(lit(bad[i]), &v));
                assert_true(v == 42);
        }
        uint64_t u = 42;
        assert_false(slice_to_u64(lit("-1"), &u));
        assert_false(slice_to_u64(lit("18446744073709551616"), &u));
        assert_false(slice_to_u64(lit("018446744073709551615"), &u));
        assert_false(slice_to_u64(SLICE_LIT("1\0"), &u));
        assert_true(u == 42);
}

static void hex_goes_there_and_back(void **state)
{
        uint8_t bytes[256], back[256];
        char text[512];

        (void)state;
        for (size_t i = 0; i < 256; i++)
                bytes[i] = (uint8_t)i;
        hex_from_bytes(bytes, 256, text);
        assert_memory_equal(text, "000102030405060708090a0b0c0d0e0f1011", 36);
        assert_true(slice_to_hex_bytes(slice_make(text, 512), back, 256));
        assert_memory_equal(back, bytes, 256);
        assert_true(slice_to_hex_bytes(lit("DEADbeef"), back, 4));
        assert_memory_equal(back, "\xde\xad\xbe\xef", 4);
        assert_true(slice_to_hex_bytes(SLICE_NONE, back, 0));
}

static void hex_of_another_length_or_with_other_letters_is_refused(void **state)
{
        uint8_t bytes[4] = {1, 2, 3, 4};

        (void)state;
        assert_false(slice_to_hex_bytes(lit("deadbeef00"), bytes, 4));
        assert_false(slice_to_hex_bytes(lit("deadbe"), bytes, 4));
        assert_false(slice_to_hex_bytes(lit("deadbee"), bytes, 4));
        assert_false(slice_to_hex_bytes(lit("deadbee"), bytes, 3));
        static const char others[] = "/:@G`g \xe1";
        for (size_t i = 0; i < sizeof(others); i++) {
                for (size_t at = 0; at < 8; at++) {
                        char text[] = "deadbeef";
                        text[at] = others[i];
                        assert_false(slice_to_hex_bytes(slice_make(text, 8), bytes, 4));
                }
        }
        assert_memory_equal(bytes, "\1\2\3\4", 4);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(equal_means_same_length_and_bytes),
                cmocka_unit_test(case_is_folded_for_ascii_letters_only),
                cmocka_unit_test(order_is_bytewise_and_the_shorter_comes_first),
                cmocka_unit_test(a_needle_is_found_anywhere_in_the_hay),
                cmocka_unit_test(well_formed_utf8_is_accepted),
                cmocka_unit_test(ill_formed_utf8_is_refused_wherever_it_stands),
                cmocka_unit_test(every_code_point_and_no_surrogate_is_utf8),
                cmocka_unit_test(decimal_numbers_are_read_exactly),
                cmocka_unit_test(
                        anything_that_is_no_plain_number_is_refused_and_leaves_the_result_alone),
                cmocka_unit_test(hex_goes_there_and_back),
                cmocka_unit_test(hex_of_another_length_or_with_other_letters_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

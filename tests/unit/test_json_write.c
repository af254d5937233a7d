/* The JSON writer: escapes, commas, bytes of unknown origin. */
#include "check.h"

#include "wire/json.h"

static struct buf b;

static int start(void **state)
{
        (void)state;
        buf_init(&b, 0);
        return 0;
}

static int stop(void **state)
{
        (void)state;
        buf_release(&b);
        return 0;
}

static const char *text_of(struct slice s)
{
        buf_clear(&b);
        json_put_text(&b, s);
        return buf_cstr(&b);
}

static const char *lossy_of(struct slice s)
{
        buf_clear(&b);
        json_put_text_lossy(&b, s);
        return buf_cstr(&b);
}

static void text_is_quoted_and_escaped_where_it_must_be(void **state)
{
        (void)state;
        assert_string_equal(text_of(SLICE_NONE), "\"\"");
        assert_string_equal(text_of(SLICE_LIT("plain")), "\"plain\"");
        assert_string_equal(text_of(SLICE_LIT("a\"b\\c/d<e>&")), "\"a\\\"b\\\\c/d<e>&\"");
        assert_string_equal(text_of(SLICE_LIT("\b\t\n\v\f\r")), "\"\\b\\t\\n\\u000b\\f\\r\"");
        assert_string_equal(text_of(SLICE_LIT("\0\x01\x1f\x7f")), "\"\\u0000\\u0001\\u001f\x7f\"");
        assert_string_equal(text_of(SLICE_LIT("\xc3\xa4 \xe2\x80\xa8 \xf0\x9f\x90\x9f")),
                            "\"\xc3\xa4 \xe2\x80\xa8 \xf0\x9f\x90\x9f\"");
}

static void every_byte_below_128_survives_writing_and_reading_at_any_place(void **state)
{
        struct arena a;

        (void)state;
        arena_init(&a, 0);
        for (int c = 0; c < 128; c++) {
                for (size_t at = 0; at < 40; at++) {
                        char text[41];
                        struct json_value v;
                        struct slice s;
                        memset(text, 'x', sizeof(text));
                        text[at] = (char)c;
                        (void)text_of(slice_make(text, at + 1));
                        assert_int_equal(json_parse(buf_slice(&b), 0, &v, NULL), OK);
                        assert_int_equal(json_to_text(&v, &a, &s), OK);
                        assert_true(slice_eq(s, slice_make(text, at + 1)));
                }
                arena_clear(&a);
        }
        arena_release(&a);
}

static void bytes_that_are_no_utf8_are_replaced_one_by_one(void **state)
{
#define BAD "\xef\xbf\xbd"
        (void)state;
        assert_string_equal(lossy_of(SLICE_LIT("fine \xc3\xa4\n")), "\"fine \xc3\xa4\\n\"");
        assert_string_equal(lossy_of(SLICE_LIT("\xff")), "\"" BAD "\"");
        assert_string_equal(lossy_of(SLICE_LIT("a\x80\"\xc3")), "\"a" BAD "\\\"" BAD "\"");
        assert_string_equal(lossy_of(SLICE_LIT("\xe2\x82x\xe2\x82\xac")),
                            "\"" BAD BAD "x\xe2\x82\xac\"");
        assert_string_equal(lossy_of(SLICE_LIT("\xed\xa0\x80")), "\"" BAD BAD BAD "\"");
        assert_string_equal(lossy_of(SLICE_NONE), "\"\"");
#undef BAD
}

static void commas_come_between_and_nowhere_else(void **state)
{
        (void)state;
        buf_put_byte(&b, '{');
        json_put_key(&b, "a");
        buf_put_i64(&b, 1);
        json_put_key(&b, "list");
        buf_put_byte(&b, '[');
        for (int i = 0; i < 3; i++) {
                json_put_comma(&b);
                json_put_text(&b, SLICE_LIT("[{")); /* its quote is what counts */
        }
        buf_put_byte(&b, ']');
        json_put_key(&b, "o");
        buf_put_str(&b, "{}");
        json_put_key(&b, "z\"");
        buf_put_str(&b, "null}");
        assert_string_equal(buf_cstr(&b), "{\"a\":1,\"list\":[\"[{\",\"[{\",\"[{\"],\"o\":{},"
                                          "\"z\\\"\":null}");
        assert_true(json_is_valid(buf_slice(&b), 2));
        buf_clear(&b);
        json_put_comma(&b); /* nothing before it */
        assert_int_equal(b.len, 0);
}

static void a_full_buffer_stays_failed(void **state)
{
        struct buf small;

        (void)state;
        for (size_t max = 1; max < 12; max++) {
                buf_init(&small, max);
                json_put_text(&small, SLICE_LIT("12\n345\""));
                assert_int_equal(small.failed, max < 11);
                buf_clear(&small);
                json_put_text_lossy(&small, SLICE_LIT("1234\xff"));
                assert_int_equal(small.failed, max < 9);
                buf_release(&small);
        }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(text_is_quoted_and_escaped_where_it_must_be),
                TEST(every_byte_below_128_survives_writing_and_reading_at_any_place),
                TEST(bytes_that_are_no_utf8_are_replaced_one_by_one),
                TEST(commas_come_between_and_nowhere_else),
                TEST(a_full_buffer_stays_failed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

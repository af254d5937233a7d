/* Text of others in our sentences: cut between characters, and nothing in it that is no text. */
#include "check.h"

#include <stdio.h>

#include "base/shown.h"

static void a_short_text_is_shown_as_it_is(void **state)
{
        (void)state;
        assert_string_equal(SHOWN(SLICE_LIT("shop")), "shop");
        assert_string_equal(SHOWN(SLICE_NONE), "");
        assert_string_equal(SHOWN(SLICE_LIT("\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x9f")),
                            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x9f");
        assert_string_equal(SHOWN_STR("a word"), "a word");
}

static void a_long_text_is_cut_between_characters_and_dots_say_so(void **state)
{
        static const char *const letters[] = {"x", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\x9f"};
        (void)state;
        for (size_t k = 0; k < ARRAY_LEN(letters); k++) {
                size_t n = strlen(letters[k]);
                for (size_t begin = 0; begin < n; begin++) {
                        char text[4 * SHOWN_BYTES];
                        size_t len = begin;
                        memset(text, 'a', begin);
                        for (; len <= SHOWN_BYTES + 3; len += n)
                                memcpy(text + len, letters[k], n);
                        const char *got = SHOWN(slice_make(text, len));
                        size_t kept = SHOWN_BYTES - (SHOWN_BYTES - begin) % n;
                        assert_int_equal(strlen(got), kept + 3);
                        assert_memory_equal(got, text, kept);
                        assert_string_equal(got + kept, "...");
                }
        }
}

static void what_fits_with_the_dots_room_is_not_cut(void **state)
{
        char text[SHOWN_BYTES + 5] = {0};
        (void)state;
        memset(text, 'a', SHOWN_BYTES + 3);
        assert_string_equal(SHOWN_STR(text), text);
        text[SHOWN_BYTES + 3] = 'a';
        assert_string_equal(SHOWN_STR(text) + SHOWN_BYTES, "...");
}

static void what_is_no_text_becomes_a_question_mark(void **state)
{
        static const struct {
                struct slice sent;
                const char *shown;
        } cases[] = {
                {SLICE_LIT("a\r\nb\tc\x1b[31m\x7f"), "a??b?c?[31m?"},
                {SLICE_LIT("a\0b"), "a?b"},
                {SLICE_LIT("\xff\xfe"), "??"},
                {SLICE_LIT("a\xc3"), "a?"},
                {SLICE_LIT("\xe2\x82."), "??."},
                {SLICE_LIT("\x80\xc3\xa4"), "?\xc3\xa4"},
                {SLICE_LIT("\xed\xa0\x80"), "???"},
                {SLICE_LIT("\xc0\xaf"), "??"},
                {SLICE_LIT("\xc2\x9b"
                           "2J"),
                 "?2J"},
                {SLICE_LIT("\xc2\xa0"), "\xc2\xa0"},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                assert_string_equal(SHOWN(cases[i].sent), cases[i].shown);
}

static void bytes_of_no_character_are_cut_anywhere(void **state)
{
        char text[2 * SHOWN_BYTES];
        (void)state;
        memset(text, 0x80, sizeof(text));
        const char *got = SHOWN(slice_make(text, sizeof(text)));
        assert_true(slice_is_utf8(slice_str(got)));
        assert_true(strlen(got) > SHOWN_BYTES - 4);
}

static void sentence(char *ret, size_t size, const char *fmt, ...) PRINTF(3, 4);
static void sentence(char *ret, size_t size, const char *fmt, ...)
{
        va_list args;
        va_start(args, fmt);
        shown_vprintf(ret, size, fmt, args);
        va_end(args);
}

static void a_sentence_is_cut_and_cleaned_as_a_whole(void **state)
{
        char text[16];
        (void)state;
        sentence(text, sizeof(text), "%d of %s", 7, "\xc3\xa4\x01");
        assert_string_equal(text, "7 of \xc3\xa4?");
        sentence(text, sizeof(text), "%s", "123456789012345");
        assert_string_equal(text, "123456789012345");
        sentence(text, sizeof(text), "%s", "1234567890123456");
        assert_string_equal(text, "123456789012...");
        sentence(text, sizeof(text), "%s", "12345678901\xc3\xa4ijklm");
        assert_string_equal(text, "12345678901...");
        sentence(text, sizeof(text), "%.2s!", "a\xc3\xa4"); /* half a character in the middle */
        assert_string_equal(text, "a?!");
}

static void any_bytes_come_out_as_text(void **state)
{
        uint32_t x = 2463534242U;
        (void)state;
        for (int round = 0; round < 20000; round++) {
                char bytes[40], text[24];
                for (size_t i = 0; i < sizeof(bytes); i++) {
                        x ^= x << 13;
                        x ^= x >> 17;
                        x ^= x << 5;
                        bytes[i] = (char)(x % 3 ? 0x80 | x >> 8 : x >> 8);
                }
                (void)shown_put(text, sizeof(text), slice_make(bytes, x % sizeof(bytes)));
                assert_true(strlen(text) < sizeof(text));
                assert_true(slice_is_utf8(slice_str(text)));
                for (const char *c = text; *c; c++)
                        assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_short_text_is_shown_as_it_is),
                cmocka_unit_test(a_long_text_is_cut_between_characters_and_dots_say_so),
                cmocka_unit_test(what_fits_with_the_dots_room_is_not_cut),
                cmocka_unit_test(what_is_no_text_becomes_a_question_mark),
                cmocka_unit_test(bytes_of_no_character_are_cut_anywhere),
                cmocka_unit_test(a_sentence_is_cut_and_cleaned_as_a_whole),
                cmocka_unit_test(any_bytes_come_out_as_text),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

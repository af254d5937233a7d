/* Names of those who ask: what is taken, into which parts, and what is refused with which words. */
#include "check.h"

#include <stdio.h>

#include "gate/identity.h"

static struct identity parse(struct slice text)
{
        struct identity who;
        struct problem problem = {0};

        if (identity_parse(text, &who, &problem) != OK)
                fail_msg("'%.*s': %s", (int)text.len, text.ptr, problem.detail);
        assert_ptr_equal(who.whole.ptr, text.ptr);
        assert_int_equal(who.whole.len, text.len);
        return who;
}

/* Refused, with a detail that has `words` in it, and nothing is written. */
static void assert_refused(struct slice text, const char *words)
{
        struct identity who, before;
        struct problem problem = {0};

        memset(&who, 0x5a, sizeof(who));
        before = who;
        assert_int_equal(identity_parse(text, &who, &problem), ERR_BADARG);
        assert_int_equal(problem.err, ERR_BADARG);
        if (!strstr(problem.detail, words))
                fail_msg("'%s' does not say '%s'", problem.detail, words);
        assert_memory_equal(&who, &before, sizeof(who));
        assert_int_equal(identity_parse(text, &who, NULL), ERR_BADARG);
}

static void parts_point_into_the_text_most_specific_first(void **state)
{
        static const char text[] = "7f3e:vcopier:vreplication:online-ddl";
        struct identity who = parse(slice_str(text));

        (void)state;
        assert_int_equal(who.n, 4);
        assert_slice(who.part[0], "7f3e");
        assert_slice(who.part[1], "vcopier");
        assert_slice(who.part[2], "vreplication");
        assert_slice(who.part[3], "online-ddl");
        assert_ptr_equal(who.part[0].ptr, text);
        assert_ptr_equal(who.part[1].ptr, text + 5);
}

static void a_name_without_colons_is_its_own_only_part(void **state)
{
        char text[IDENTITY_PART_BYTES + 1];

        (void)state;
        memset(text, 'n', sizeof(text));
        for (size_t len = 1; len <= IDENTITY_PART_BYTES; len++) {
                struct identity who = parse(slice_make(text, len));
                assert_int_equal(who.n, 1);
                assert_ptr_equal(who.part[0].ptr, text);
                assert_int_equal(who.part[0].len, len);
        }
        assert_refused(slice_make(text, sizeof(text)), "has 65 bytes; at most 64");
}

static void a_colon_is_found_at_every_place(void **state)
{
        char text[40];

        (void)state;
        for (size_t len = 3; len <= sizeof(text); len++) {
                for (size_t at = 1; at + 1 < len; at++) {
                        memset(text, 'n', sizeof(text));
                        text[at] = ':';
                        struct identity who = parse(slice_make(text, len));
                        assert_int_equal(who.n, 2);
                        assert_int_equal(who.part[0].len, at);
                        assert_ptr_equal(who.part[1].ptr, text + at + 1);
                        assert_int_equal(who.part[1].len, len - at - 1);
                }
        }
}

static void eight_parts_are_taken_and_nine_are_not(void **state)
{
        struct identity who = parse(SLICE_LIT("a:b:c:d:e:f:g:h"));

        (void)state;
        assert_int_equal(who.n, 8);
        assert_slice(who.part[7], "h");
        assert_refused(SLICE_LIT("a:b:c:d:e:f:g:h:i"), "more than 8 parts");
        assert_refused(SLICE_LIT("a:b:c:d:e:f:g:h:i:j:k:l:m:n:o:p:q"), "more than 8 parts");
        assert_refused(SLICE_LIT("a:b:c:d:e:f:g:h:"), "more than 8 parts");
}

static void the_whole_has_at_most_255_bytes(void **state)
{
        char text[256];

        (void)state;
        memset(text, 'n', sizeof(text));
        for (size_t i = 50; i < 250; i += 50)
                text[i] = ':';
        assert_int_equal(parse(slice_make(text, 255)).n, 5);
        assert_refused(slice_make(text, 256), "has 256 bytes; at most 255");
        assert_refused(slice_make(NULL, 0), "the identity is empty");
        char *huge = xmalloc(10000);
        memset(huge, 'n', 10000);
        assert_refused(slice_make(huge, 10000), "has 10000 bytes");
        free(huge);
}

static void an_empty_part_is_refused_wherever_it_is(void **state)
{
        (void)state;
        assert_refused(SLICE_LIT(":"), "part 1 of the identity is empty");
        assert_refused(SLICE_LIT(":a"), "part 1 of the identity is empty");
        assert_refused(SLICE_LIT("a:"), "part 2 of the identity is empty");
        assert_refused(SLICE_LIT("a::b"), "part 2 of the identity is empty");
        assert_refused(SLICE_LIT("abcdefg:abcdefg:"), "part 3 of the identity is empty");
        assert_refused(SLICE_LIT("::::::::"), "part 1 of the identity is empty");
}

static void the_length_of_each_part_counts_not_only_of_the_first(void **state)
{
        char text[70];

        (void)state;
        memset(text, 'n', sizeof(text));
        text[2] = ':';
        assert_int_equal(parse(slice_make(text, 3 + 64)).part[1].len, 64);
        assert_refused(slice_make(text, 3 + 65), "part 2 of the identity has 65 bytes");
}

static bool is_allowed(int c)
{
        return c > ' ' && c < 0x7f && c != '/';
}

static void every_ascii_byte_is_judged_the_same_at_every_place(void **state)
{
        char text[19];

        (void)state;
        for (int c = 0; c < 0x80; c++) {
                for (size_t at = 0; at < sizeof(text) && c != ':'; at++) {
                        struct identity who;
                        memset(text, 'n', sizeof(text));
                        text[at] = (char)c;
                        int r = identity_parse(slice_make(text, sizeof(text)), &who, NULL);
                        assert_int_equal(r, is_allowed(c) ? OK : ERR_BADARG);
                }
        }
        assert_refused(SLICE_LIT("x:a b"), "part 2 of the identity has byte 0x20");
        assert_refused(SLICE_LIT("a/b"), "byte 0x2f");
        assert_refused(SLICE_LIT("a\0b"), "byte 0x00");
        assert_refused(SLICE_LIT("a\x7f"), "byte 0x7f");
}

static void names_may_be_in_any_script_but_must_be_utf8(void **state)
{
        struct identity who = parse(SLICE_LIT("täglich:выгрузка:夜間:🌙"));

        (void)state;
        assert_int_equal(who.n, 4);
        assert_slice(who.part[2], "夜間");
        parse(SLICE_LIT("x\xc2\xa0y"));                     /* the first that is no control */
        assert_refused(SLICE_LIT("\xff"), "UTF-8");         /* never */
        assert_refused(SLICE_LIT("a:\xc3"), "UTF-8");       /* cut off */
        assert_refused(SLICE_LIT("a\xc3:\xa4"), "UTF-8");   /* a colon within a sequence */
        assert_refused(SLICE_LIT("\xc0\xaf"), "UTF-8");     /* '/', overlong */
        assert_refused(SLICE_LIT("\xed\xa0\x80"), "UTF-8"); /* a surrogate */
        assert_refused(SLICE_LIT("x\xc2\x85y"), "control"); /* next line, U+0085 */
        assert_refused(SLICE_LIT("\xc2\x9f"), "control");
        assert_refused(SLICE_LIT("\xaf\xba\xa0"), "UTF-8"); /* '/', ':', ' ' with the high bit */
}

static void nobody_is_called_all(void **state)
{
        (void)state;
        assert_refused(SLICE_LIT("all"), "part 1 of the identity is \"all\"");
        assert_refused(SLICE_LIT("a:all"), "part 2 of the identity is \"all\"");
        assert_refused(SLICE_LIT("a:all:b"), "part 2");
        parse(SLICE_LIT("alls:al:ball:All"));
}

static void a_rule_names_a_part_a_whole_or_all(void **state)
{
        struct problem problem = {0};

        (void)state;
        assert_int_equal(identity_check_name(SLICE_LIT("all"), &problem), OK);
        assert_int_equal(identity_check_name(SLICE_LIT("online-ddl"), &problem), OK);
        assert_int_equal(identity_check_name(SLICE_LIT("a:b"), &problem), OK);
        assert_int_equal(identity_check_name(SLICE_LIT("a:all"), &problem), ERR_BADARG);
        assert_int_equal(identity_check_name(SLICE_LIT(""), &problem), ERR_BADARG);
        assert_int_equal(identity_check_name(SLICE_LIT("a/b"), NULL), ERR_BADARG);
        assert_non_null(strstr(problem.detail, "empty"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(parts_point_into_the_text_most_specific_first),
                cmocka_unit_test(a_name_without_colons_is_its_own_only_part),
                cmocka_unit_test(a_colon_is_found_at_every_place),
                cmocka_unit_test(eight_parts_are_taken_and_nine_are_not),
                cmocka_unit_test(the_whole_has_at_most_255_bytes),
                cmocka_unit_test(an_empty_part_is_refused_wherever_it_is),
                cmocka_unit_test(the_length_of_each_part_counts_not_only_of_the_first),
                cmocka_unit_test(every_ascii_byte_is_judged_the_same_at_every_place),
                cmocka_unit_test(names_may_be_in_any_script_but_must_be_utf8),
                cmocka_unit_test(nobody_is_called_all),
                cmocka_unit_test(a_rule_names_a_part_a_whole_or_all),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

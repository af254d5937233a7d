/* Keys as terminals send them, and lines that fit. */
#include "check.h"

#include "cli/term.h"

static void check_key(const char *bytes, bool is_all, int key, size_t used)
{
        size_t got;
        assert_int_equal(term_decode(bytes, strlen(bytes), is_all, &got), key);
        assert_int_equal(got, used);
}

static void bytes_are_keys(void **state)
{
        (void)state;
        check_key("q", false, 'q', 1);
        check_key("\tq", false, TERM_TAB, 1);
        check_key("\r", false, TERM_ENTER, 1);
        check_key("\x7f", false, TERM_DELETE, 1);
        check_key("\xc3\xa4", false, 0xc3, 1);
        check_key("", true, TERM_NONE, 0);
}

static void arrows_come_as_sequences_in_both_modes(void **state)
{
        (void)state;
        check_key("\033[A", false, TERM_UP, 3);
        check_key("\033OA", false, TERM_UP, 3);
        check_key("\033[Bx", false, TERM_DOWN, 3);
        check_key("\033[5~", false, TERM_PAGE_UP, 4);
        check_key("\033[6~", false, TERM_PAGE_DOWN, 4);
        check_key("\033[H", false, TERM_HOME, 3);
        check_key("\033[4~", false, TERM_END, 4);
        check_key("\033[Z", false, TERM_BACK_TAB, 3);
}

static void an_escape_is_a_key_only_when_nothing_follows(void **state)
{
        (void)state;
        check_key("\033", false, TERM_NONE, 0);
        check_key("\033", true, TERM_ESCAPE, 1);
        check_key("\033[", false, TERM_NONE, 0);
        check_key("\033[1;", false, TERM_NONE, 0);
        check_key("\033[1;", true, TERM_NONE, 4);
        check_key("\033q", false, TERM_ESCAPE, 1);
}

static void an_unknown_sequence_is_used_up_and_means_nothing(void **state)
{
        (void)state;
        check_key("\033[1;5Cq", false, TERM_NONE, 6);
        check_key("\033[?1;2c", false, TERM_NONE, 7);
        check_key("\033[99~q", false, TERM_NONE, 5);
}

static void check_cut(const char *line, size_t columns, const char *wanted)
{
        struct buf b;
        buf_init(&b, 0);
        term_put_cut(&b, slice_str(line), columns);
        assert_string_equal(buf_cstr(&b), wanted);
        buf_release(&b);
}

static void a_line_is_cut_at_the_width_and_its_tone_ended(void **state)
{
        (void)state;
        check_cut("abc", 3, "abc");
        check_cut("abcd", 3, "ab\u2026");
        check_cut("", 0, "");
        check_cut("abc", 0, "");
        check_cut("\033[31mabc\033[0m", 3, "\033[31mabc\033[0m");
        check_cut("\033[31mabcd\033[0m", 3, "\033[31mab\u2026\033[0m");
        check_cut("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", 3, "\xc3\xa4\xc3\xb6\u2026");
        check_cut("\033[", 5, "\033["); /* no tone; whoever puts it there is told by the tests */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bytes_are_keys),
                cmocka_unit_test(arrows_come_as_sequences_in_both_modes),
                cmocka_unit_test(an_escape_is_a_key_only_when_nothing_follows),
                cmocka_unit_test(an_unknown_sequence_is_used_up_and_means_nothing),
                cmocka_unit_test(a_line_is_cut_at_the_width_and_its_tone_ended),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

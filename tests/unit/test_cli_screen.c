/* Tables, widths, and what a terminal must never be sent. */
#include "check.h"

#include "cli/json.h"
#include "cli/screen.h"

static const struct column columns[] = {
        {"ID", .is_right = true},
        {"NAME", .may_shrink = true},
        {"NOTE", .may_shrink = true},
};

static void check_safe(struct slice in, const char *out)
{
        struct buf b;
        buf_init(&b, 0);
        text_put_safe(&b, in);
        assert_string_equal(buf_cstr(&b), out);
        buf_release(&b);
}

static void control_characters_are_shown_not_sent(void **state)
{
        (void)state;
        check_safe(SLICE_LIT("plain \xc3\xa4 \xf0\x9f\x98\x80"), "plain \xc3\xa4 \xf0\x9f\x98\x80");
        check_safe(SLICE_LIT("\033[31mred\033[0m"), "\\x1b[31mred\\x1b[0m");
        check_safe(SLICE_LIT("a\nb\tc\rd\0e\x7f"), "a\\nb\\tc\\rd\\x00e\\x7f");
        check_safe(SLICE_LIT("\xc2\x9b"
                             "31m"),
                   "\\x9b31m");                                          /* CSI as one character */
        static const char turned[] = {'\xe2', '\x80', '\xae', 'a', 'b'}; /* right to left */
        check_safe(slice_make(turned, sizeof(turned)), "\\u202eab");
        check_safe(SLICE_LIT("\xff\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xc3"),
                   "\\xff\\xc0\\x80\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xc3");
}

static void lines_are_kept_and_indented_where_wanted(void **state)
{
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        text_put_safe_lines(&b, SLICE_LIT("a\nb\033\n\n"), 2);
        assert_string_equal(buf_cstr(&b), "a\n  b\\x1b");
        buf_release(&b);
}

static void width_counts_columns_not_bytes(void **state)
{
        struct screen s;
        (void)state;
        screen_init(&s); /* sets the character type */
        assert_int_equal(text_width(SLICE_LIT("abc")), 3);
        assert_int_equal(text_width(SLICE_LIT("\xc3\xa4")), 1);
        assert_int_equal(text_width(SLICE_LIT("\xe6\xbc\xa2\xe5\xad\x97")), 4);
        assert_int_equal(text_width(SLICE_LIT("e\xcc\x81")), 1);
}

static void print(struct table *t, const struct screen *s, struct buf *b)
{
        buf_init(b, 0);
        table_print(t, s, b);
        table_release(t);
}

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
        struct table t;
        struct screen s = {0};
        struct buf b;
        (void)state;
        table_init(&t, columns, 3);
        table_add_int(&t, 1000);
        table_add(&t, SLICE_LIT("x"), TONE_RED);
        table_add(&t, SLICE_LIT("long note"), TONE_PLAIN);
        table_add_int(&t, 7);
        table_add(&t, SLICE_LIT("\xe6\xbc\xa2\xe5\xad\x97 a"), TONE_PLAIN);
        table_add(&t, SLICE_LIT(""), TONE_PLAIN);
        print(&t, &s, &b);
        assert_string_equal(buf_cstr(&b), "  ID  NAME    NOTE\n"
                                          "1000  x       long note\n"
                                          "   7  \xe6\xbc\xa2\xe5\xad\x97 a  \n");
        buf_release(&b);
}

static void a_narrow_terminal_cuts_what_may_be_cut(void **state)
{
        struct table t;
        struct screen s = {.width = 30};
        struct buf b;
        (void)state;
        table_init(&t, columns, 3);
        table_add_int(&t, 1234567);
        table_add(&t, SLICE_LIT("a name that is quite long"), TONE_PLAIN);
        table_add(&t, SLICE_LIT("a note that is even longer than that"), TONE_PLAIN);
        print(&t, &s, &b);
        const char *line = strchr(buf_cstr(&b), '\n') + 1;
        assert_int_equal(text_width(slice_make(line, strcspn(line, "\n"))), 30);
        assert_non_null(strstr(line, "1234567"));
        assert_non_null(strstr(line, "\xe2\x80\xa6"));
        buf_release(&b);
}

static void add_row(struct table *t, int64_t id, const char *name, const char *note)
{
        table_add_int(t, id);
        table_add(t, slice_str(name), TONE_PLAIN);
        table_add(t, slice_str(note), TONE_PLAIN);
}

static void parts_of_a_table_are_aligned_with_each_other(void **state)
{
        struct table t;
        struct screen s = {0};
        struct buf b = {0};
        (void)state;
        table_init(&t, columns, 3);
        add_row(&t, 1000, "anna", "x");
        table_print_part(&t, &s, &b);
        add_row(&t, 7, "b", "y");
        table_print_part(&t, &s, &b);
        add_row(&t, 8, "barbara", "z");
        table_print_part(&t, &s, &b);
        table_print_part(&t, &s, &b); /* nothing was added */
        assert_string_equal(buf_cstr(&b), "  ID  NAME  NOTE\n"
                                          "1000  anna  x\n"
                                          "   7  b     y\n"
                                          "   8  barbara  z\n");
        table_release(&t);
        buf_release(&b);
}

/* Without a terminal nothing is cut: then it stands out. */
static void one_long_cell_does_not_make_every_row_long(void **state)
{
        struct table t;
        struct screen s = {0};
        struct buf b;
        char text[1001] = {0};
        (void)state;
        memset(text, 'x', sizeof(text) - 1);
        table_init(&t, columns, 3);
        add_row(&t, 1, text, "a");
        add_row(&t, 2, "short", "b");
        print(&t, &s, &b);
        has(buf_cstr(&b), text);
        const char *last = strstr(buf_cstr(&b), "short");
        assert_int_equal(strlen(last), 200 + strlen("  b\n"));
        buf_release(&b);
}

static void tones_are_used_only_where_wanted(void **state)
{
        struct screen with = {.has_tones = true}, without = {0};
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        screen_put_toned(&with, &b, TONE_RED, SLICE_LIT("x"));
        screen_put_toned(&without, &b, TONE_RED, SLICE_LIT("y"));
        screen_put_toned(&with, &b, TONE_PLAIN, SLICE_LIT("z"));
        assert_string_equal(buf_cstr(&b), "\033[31mx\033[0myz");
        buf_release(&b);
}

static void payloads_stay_json_in_json(void **state)
{
        struct value items[] = {
                {.type = VALUE_TEXT, .text = SLICE_LIT("args")},
                {.type = VALUE_TEXT, .text = SLICE_LIT("{\"a\": [1, 2]}")},
                {.type = VALUE_TEXT, .text = SLICE_LIT("result")},
                {.type = VALUE_TEXT, .text = SLICE_LIT("{not json")},
                {.type = VALUE_TEXT, .text = SLICE_LIT("error")},
                {.type = VALUE_TEXT, .text = SLICE_LIT("12")},
                {.type = VALUE_TEXT, .text = SLICE_LIT("n")},
                {.type = VALUE_INT, .num = INT64_MAX},
                {.type = VALUE_TEXT, .text = SLICE_LIT("b")},
                {.type = VALUE_BOOL, .num = 1},
                {.type = VALUE_TEXT, .text = SLICE_LIT("z")},
                {.type = VALUE_NULL},
        };
        struct value map = {.type = VALUE_MAP, .items = items, .n = ARRAY_LEN(items)};
        struct value list = {.type = VALUE_LIST, .items = &map, .n = 1};
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        value_put_json(&b, &list);
        assert_string_equal(buf_cstr(&b), "[{\"args\":{\"a\": [1, 2]},\"result\":\"{not "
                                          "json\",\"result_is_text\":true,\"error\":\"12\","
                                          "\"n\":9223372036854775807,\"b\":true,\"z\":null}]");
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(control_characters_are_shown_not_sent),
                cmocka_unit_test(lines_are_kept_and_indented_where_wanted),
                cmocka_unit_test(width_counts_columns_not_bytes),
                cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
                cmocka_unit_test(a_narrow_terminal_cuts_what_may_be_cut),
                cmocka_unit_test(parts_of_a_table_are_aligned_with_each_other),
                cmocka_unit_test(one_long_cell_does_not_make_every_row_long),
                cmocka_unit_test(tones_are_used_only_where_wanted),
                cmocka_unit_test(payloads_stay_json_in_json),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The marks of a move, in a file and in a row of the log. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/move_mark.h"

static struct move_mark some_mark(void)
{
        struct move_mark m = {.way = MOVE_OUT, .next_id = 12345678901234ULL, .fence = 99};
        move_mark_new_id(&m);
        (void)snprintf(m.why, sizeof(m.why), "it is elsewhere");
        return m;
}

static void what_is_printed_is_parsed(void **state)
{
        char text[LEDGER_CLOSED_MAX];
        struct move_mark m = some_mark(), got;
        (void)state;
        move_mark_print(&m, text);
        assert_true(move_mark_parse(text, &got));
        assert_int_equal(got.way, MOVE_OUT);
        assert_string_equal(got.id, m.id);
        assert_int_equal(strlen(got.id), MOVE_ID_LEN);
        assert_int_equal(got.next_id, m.next_id);
        assert_int_equal(got.fence, m.fence);
        assert_string_equal(got.why, m.why);
        struct move_mark other = some_mark();
        assert_string_not_equal(other.id, m.id);
}

static void a_long_reason_is_cut_and_the_rest_stays(void **state)
{
        char text[LEDGER_CLOSED_MAX];
        struct move_mark m = some_mark(), got;
        (void)state;
        memset(m.why, 'x', sizeof(m.why) - 1);
        move_mark_print(&m, text);
        assert_true(strlen(text) < LEDGER_CLOSED_MAX);
        assert_true(move_mark_parse(text, &got));
        assert_string_equal(got.id, m.id);
        assert_int_equal(got.fence, m.fence);
}

static void other_texts_are_no_marks(void **state)
{
        static const char *const texts[] = {
                "", "closed", "closed\n", "closed\nmove in 0123 next_id 1 fence 2\n",
                "closed\nmove in 0123456789abcdef0123456789abcdef next_id 1\n"};
        struct move_mark got;
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                assert_false(move_mark_parse(texts[i], &got));
                assert_string_equal(got.id, "");
                assert_string_equal(got.why, i ? "closed" : "");
        }
}

static void a_folder_with_a_mark_does_not_start(void **state)
{
        char folder[] = "/tmp/weir-mark.XXXXXX", path[64];
        struct move_mark m = some_mark(), got;
        struct problem p;
        (void)state;
        assert_non_null(mkdtemp(folder));
        (void)snprintf(path, sizeof(path), "%s/" MOVED_NAME, folder);
        assert_int_equal(move_mark_check(folder, &p), OK);
        assert_int_equal(move_mark_write(folder, MOVED_NAME, &m, &p), OK);
        assert_int_equal(move_mark_check(folder, &p), ERR_STATE);
        assert_string_equal(p.detail, "it is elsewhere");
        assert_int_equal(move_mark_read(folder, MOVED_NAME, &got, &p), OK);
        assert_string_equal(got.id, m.id);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        (void)fputs("what is this", f);
        (void)fclose(f);
        assert_int_equal(move_mark_check(folder, &p), ERR_CORRUPT);
        has(p.detail, "not what weir writes");
        assert_int_equal(unlink(path), 0);
        assert_int_equal(move_mark_check(folder, &p), OK);
        assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_printed_is_parsed),
                cmocka_unit_test(a_long_reason_is_cut_and_the_rest_stays),
                cmocka_unit_test(other_texts_are_no_marks),
                cmocka_unit_test(a_folder_with_a_mark_does_not_start),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

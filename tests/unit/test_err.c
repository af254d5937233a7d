/* The error table and the problem that travels with a request. */
#include "check.h"

#include "base/err.h"

static void every_row_can_be_looked_up_by_code_and_by_name(void **state)
{
        int n = 0;

        (void)state;
#define X(name, http, exit, text)                                                                  \
        assert_string_equal(err_name(ERR_##name), #name);                                          \
        assert_string_equal(err_text(ERR_##name), text);                                           \
        assert_int_equal(err_http(ERR_##name), http);                                              \
        assert_int_equal(err_exit(ERR_##name), exit);                                              \
        assert_int_equal(err_from_name(#name, strlen(#name)), ERR_##name);                         \
        assert_true(ERR_##name < 0);                                                               \
        n++;
        ERR_MAP(X)
#undef X
        assert_int_equal(n, ERR_END - ERR_NUMBER_BASE - 1);
}

static void ok_is_no_error(void **state)
{
        (void)state;
        assert_int_equal(OK, 0);
        assert_string_equal(err_name(OK), "OK");
        assert_int_equal(err_http(OK), 200);
        assert_int_equal(err_exit(OK), 0);
        assert_int_equal(err_from_name("OK", 2), OK);
}

static void what_is_not_in_the_table_is_internal(void **state)
{
        static const int strays[] = {1, -1, -2, ERR_NUMBER_BASE, ERR_END, INT32_MIN, INT32_MAX};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(strays); i++) {
                assert_string_equal(err_name(strays[i]), "INTERNAL");
                assert_int_equal(err_http(strays[i]), 500);
        }
        assert_int_equal(err_from_name("NOSUCH", 6), ERR_INTERNAL);
        assert_int_equal(err_from_name("notfound", 8), ERR_INTERNAL);
        assert_int_equal(err_from_name("NOTFOUNDx", 8), ERR_NOTFOUND);
        assert_int_equal(err_from_name("NOTFOUND", 7), ERR_INTERNAL);
        assert_int_equal(err_from_name(NULL, 0), ERR_INTERNAL);
}

static void a_problem_says_what_was_wrong_and_returns_its_code(void **state)
{
        struct problem p;

        (void)state;
        assert_int_equal(problem_set(&p, ERR_BADARG, "priority is %d, at most %d", 300, 255),
                         ERR_BADARG);
        assert_int_equal(p.err, ERR_BADARG);
        assert_string_equal(p.detail, "priority is 300, at most 255");
        assert_int_equal(problem_set(NULL, ERR_IO, "nobody listens %d", 1), ERR_IO);
}

static void control_characters_do_not_get_into_a_detail(void **state)
{
        struct problem p;

        (void)state;
        problem_set(&p, ERR_BADARG, "%s", "a\r\nb\tc\x1b[31m\x7f \xc3\xa4");
        assert_string_equal(p.detail, "a??b?c?[31m? \xc3\xa4");
}

static void bytes_that_are_no_text_do_not_get_into_a_detail(void **state)
{
        struct problem p;

        (void)state;
        problem_set(&p, ERR_BADARG, "not '%.2s' and \xff\xfe", "a\xc3\xa4");
        assert_string_equal(p.detail, "not 'a?' and ??");
}

#define DOTS_AT (PROBLEM_DETAIL_MAX - 1 - 3) /* where they begin when nothing is in the way */

static void a_long_detail_is_cut_between_characters_and_says_so(void **state)
{
        static const char *const tails[] = {"x", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\x9f"};
        char text[400];
        struct problem p;

        (void)state;
        for (size_t k = 0; k < ARRAY_LEN(tails); k++) {
                size_t n = strlen(tails[k]);
                for (size_t begin = DOTS_AT - 6; begin < PROBLEM_DETAIL_MAX; begin++) {
                        memset(text, 'a', sizeof(text) - 1);
                        text[sizeof(text) - 1] = '\0';
                        memcpy(text + begin, tails[k], n);
                        problem_set(&p, ERR_BADARG, "%s", text);
                        bool is_in_the_way = begin < DOTS_AT && begin + n > DOTS_AT;
                        size_t kept = is_in_the_way ? begin : DOTS_AT;
                        assert_true(slice_is_utf8(slice_str(p.detail)));
                        assert_memory_equal(p.detail, text, kept);
                        assert_string_equal(p.detail + kept, "...");
                }
        }
}

static void a_detail_is_cut_only_when_it_is_too_long(void **state)
{
        char text[PROBLEM_DETAIL_MAX + 2];
        struct problem p;

        (void)state;
        for (size_t len = PROBLEM_DETAIL_MAX - 1; len <= PROBLEM_DETAIL_MAX + 1; len++) {
                memset(text, 'a', sizeof(text));
                memcpy(text + len - 2, "\xc3\xa4", 3);
                problem_set(&p, ERR_BADARG, "%s", text);
                assert_true(slice_is_utf8(slice_str(p.detail)));
                assert_int_equal(strlen(p.detail), PROBLEM_DETAIL_MAX - 1);
                if (len == PROBLEM_DETAIL_MAX - 1)
                        assert_string_equal(p.detail, text);
                else
                        assert_string_equal(p.detail + DOTS_AT, "...");
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_row_can_be_looked_up_by_code_and_by_name),
                cmocka_unit_test(ok_is_no_error),
                cmocka_unit_test(what_is_not_in_the_table_is_internal),
                cmocka_unit_test(a_problem_says_what_was_wrong_and_returns_its_code),
                cmocka_unit_test(control_characters_do_not_get_into_a_detail),
                cmocka_unit_test(bytes_that_are_no_text_do_not_get_into_a_detail),
                cmocka_unit_test(a_long_detail_is_cut_between_characters_and_says_so),
                cmocka_unit_test(a_detail_is_cut_only_when_it_is_too_long),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

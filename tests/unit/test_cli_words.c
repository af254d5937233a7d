/* Commands split into words, and placeholders in them. */
#include "check.h"

#include "work/words.h"

static void words_are_split_as_a_shell_would(void **state)
{
        static const struct {
                const char *text;
                const char *words[6];
        } rows[] = {
                {"cat", {"cat"}},
                {"  a   b\tc\nd  ", {"a", "b", "c", "d"}},
                {"a 'b c' d", {"a", "b c", "d"}},
                {"a \"b c\" d", {"a", "b c", "d"}},
                {"a b\\ c", {"a", "b c"}},
                {"a '' \"\"", {"a", "", ""}},
                {"a 'x'\"y\"z", {"a", "xyz"}},
                {"sh -c 'echo $HOME | wc; exit 3'", {"sh", "-c", "echo $HOME | wc; exit 3"}},
                {"a \"q\\\"q\" \"b\\\\\" \"\\n\"", {"a", "q\"q", "b\\", "\\n"}},
                {"a \\| \\$x", {"a", "|", "$x"}},
                {"a *.c ~", {"a", "*.c", "~"}},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct words w;
                struct problem p;
                assert_int_equal(words_split(rows[i].text, &w, &p), OK);
                for (size_t k = 0; k < w.n; k++)
                        assert_string_equal(w.argv[k], rows[i].words[k]);
                assert_null(rows[i].words[w.n]);
                assert_null(w.argv[w.n]);
                words_release(&w);
        }
}

static void what_needs_a_shell_is_refused(void **state)
{
        static const char *const bad[] = {"",       "  ",      "a | b",   "a; b",   "a && b",
                                          "a > f",  "a < f",   "a $HOME", "a `b`",  "a (b)",
                                          "\"$x\"", "\"`x`\"", "'open",   "\"open", "end\\"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct words w = {0};
                struct problem p;
                assert_int_equal(words_split(bad[i], &w, &p), ERR_BADARG);
                assert_null(w.argv);
                assert_non_null(strstr(p.detail, "--exec"));
        }
}

static int fill(const char *text, const char *hook, struct words *ret)
{
        const struct word_value values[] = {{"id", SLICE_LIT("17")}, {"hook", slice_str(hook)}};
        struct words w;
        struct problem p;
        assert_int_equal(words_split(text, &w, &p), OK);
        int r = words_fill(&w, values, 2, ret, &p);
        words_release(&w);
        return r;
}

static void placeholders_are_filled_inside_their_words(void **state)
{
        struct words w;
        (void)state;
        assert_int_equal(fill("run {id} job-{id}-{hook} {x} {id {} '{hook}'", "a b; rm", &w), OK);
        assert_int_equal(w.n, 7);
        assert_string_equal(w.argv[1], "17");
        assert_string_equal(w.argv[2], "job-17-a b; rm");
        assert_string_equal(w.argv[3], "{x}");
        assert_string_equal(w.argv[4], "{id");
        assert_string_equal(w.argv[5], "{}");
        assert_string_equal(w.argv[6], "a b; rm");
        words_release(&w);
}

static void a_job_cannot_choose_a_program_outside_the_folder(void **state)
{
        static const char *const bad[] = {"../x", "/bin/sh", "a/b", ".x", "-x"};
        struct words w;
        (void)state;
        assert_int_equal(fill("./handlers/{hook} {id}", "resize", &w), OK);
        assert_string_equal(w.argv[0], "./handlers/resize");
        words_release(&w);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_int_equal(fill("./handlers/{hook}", bad[i], &w), ERR_BADARG);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(words_are_split_as_a_shell_would),
                cmocka_unit_test(what_needs_a_shell_is_refused),
                cmocka_unit_test(placeholders_are_filled_inside_their_words),
                cmocka_unit_test(a_job_cannot_choose_a_program_outside_the_folder),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

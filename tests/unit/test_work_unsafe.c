/* Commands in which a job's author could choose an option, code or a program. */
#include "check.h"

#include "work/unsafe.h"

static int judge(const char *command, struct problem *p)
{
        struct words w = {0};
        int r = words_split(command, &w, p);
        assert_int_equal(r, OK);
        r = unsafe_check(&w, "exec", "so", p);
        words_release(&w);
        return r;
}

static void text_that_could_become_an_option_is_refused(void **state)
{
        static const char *const bad[] = {"run {hook}", "run -{hook}", "run --{group}=1",
                                          "run a {queue}/x"};
        static const char *const good[] = {"run {id}",       "run {attempt} {fence}", "run a{hook}",
                                           "run --x={hook}", "run {id}-{hook}",       "run {hok}",
                                           "./bin/{hook} a"};
        struct problem p;
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                assert_int_equal(judge(bad[i], &p), ERR_BADARG);
                assert_non_null(strstr(p.detail, "could be an option"));
        }
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                assert_int_equal(judge(good[i], &p), OK);
        assert_int_equal(judge("{hook} x", &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "any program of PATH"));
}

static void text_inside_code_is_refused(void **state)
{
        static const char *const bad[] = {
                "sh -c 'a {hook}'",       "/usr/bin/bash -ce 'a {hook}'",
                "sh -c -x 'a {hook}'",    "nice -n 5 python3.11 -c 'a {hook}'",
                "perl '-eprint {hook}'",  "node --print 'a {hook}'",
                "node '--eval=a {hook}'", "ssh host -- a 'b {group}'",
                "sqlite3 x 'a {group}'",  "mysql -uroot --execute 'a {group}'",
        };
        static const char *const good[] = {
                "sh -c 'a {id}' x on-{hook}", "sh ./run on-{hook}",    "sh -c 'a ${hook}'",
                "python3 run.py on-{hook}",   "mysql db_{group}",      "ship -c 'a {hook}'",
                "perl -w run.pl on-{hook}",   "node run.js on-{hook}", "php run.php on-{hook}",
        };
        struct problem p;
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                assert_int_equal(judge(bad[i], &p), ERR_BADARG);
                assert_non_null(strstr(p.detail, "into code"));
        }
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                assert_int_equal(judge(good[i], &p), OK);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(text_that_could_become_an_option_is_refused),
                cmocka_unit_test(text_inside_code_is_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Patterns, precedence and the list of hosts. */
#include "check.h"

#include <stdio.h>

#include "work/handler.h"

static void patterns_match_whole_texts(void **state)
{
        static const struct {
                const char *pattern, *text;
                bool matches;
        } rows[] = {
                {"a", "a", true},
                {"a", "ab", false},
                {"a", "", false},
                {"*", "", true},
                {"*", "anything", true},
                {"a*", "a", true},
                {"a*", "ba", false},
                {"*a", "banana", true},
                {"*a", "banan", false},
                {"a*b*c", "axxbyyc", true},
                {"a*b*c", "axxcyyb", false},
                {"?", "x", true},
                {"?", "", false},
                {"?", "xy", false},
                {"a?c", "abc", true},
                {"?", "\xc3\xbc", true},
                {"??", "\xc3\xbc", false},
                {"*?", "x", true},
                {"**", "x", true},
                {"*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaa", false},
                {"A", "a", false},
                {"[a]", "[a]", true},
                {"a.c", "abc", false},
                {"?", "\xff", true},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_int_equal(pattern_matches(rows[i].pattern, rows[i].text), rows[i].matches);
}

static void add(struct handlers *hs, const char *pattern)
{
        struct handler h;
        struct problem p;
        handler_init(&h);
        h.pattern = xstrdup(pattern);
        assert_int_equal(handlers_add(hs, &h, &p), OK);
}

static void the_most_specific_pattern_wins(void **state)
{
        static const char *const patterns[] = {"*",     "?bc",   "a*",  "ab*",
                                               "ab*yz", "a*xyz", "abc", "a?c"};
        static const struct {
                const char *hook, *pattern;
        } rows[] = {{"abc", "abc"},    {"abd", "ab*"}, {"abyz", "ab*yz"},
                    {"axyz", "a*xyz"}, {"xbc", "?bc"}, {"x", "*"},
                    {"axc", "a?c"},    {"a", "a*"},    {"abxyz", "ab*yz"}};
        (void)state;
        for (size_t turn = 0; turn < ARRAY_LEN(patterns); turn++) {
                struct handlers hs = {0};
                for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
                        add(&hs, patterns[(i + turn) % ARRAY_LEN(patterns)]);
                for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                        assert_string_equal(handlers_find(&hs, rows[i].hook)->pattern,
                                            rows[i].pattern);
                handlers_release(&hs);
        }
}

static void no_pattern_no_handler(void **state)
{
        struct handlers hs = {0};
        (void)state;
        assert_null(handlers_find(&hs, "a"));
        add(&hs, "b*");
        assert_null(handlers_find(&hs, "a"));
        handlers_release(&hs);
}

static void a_second_handler_of_a_pattern_and_one_too_many_are_refused(void **state)
{
        struct handlers hs = {0};
        struct handler h;
        struct problem p;
        char name[16];
        (void)state;
        for (int i = 0; i < HANDLERS_MAX; i++) {
                (void)snprintf(name, sizeof(name), "h%d", i);
                if (i < HANDLERS_MAX - 1)
                        add(&hs, name);
        }
        handler_init(&h);
        h.pattern = xstrdup("h7");
        assert_int_equal(handlers_add(&hs, &h, &p), ERR_BADARG);
        assert_null(h.pattern);
        add(&hs, name);
        handler_init(&h);
        h.pattern = xstrdup("more");
        assert_int_equal(handlers_add(&hs, &h, &p), ERR_BADARG);
        assert_int_equal(hs.n, HANDLERS_MAX);
        handlers_release(&hs);
}

static void hosts_are_names_or_everything_below_one(void **state)
{
        struct handler h;
        (void)state;
        handler_init(&h);
        assert_true(handler_allows_host(&h, "any.example"));
        words_add(&h.hosts, "Shop.example");
        words_add(&h.hosts, "*.cdn.example");
        assert_true(handler_allows_host(&h, "shop.EXAMPLE"));
        assert_true(handler_allows_host(&h, "a.cdn.example"));
        assert_true(handler_allows_host(&h, "a.b.cdn.example"));
        assert_false(handler_allows_host(&h, "cdn.example"));
        assert_false(handler_allows_host(&h, ".cdn.example"));
        assert_false(handler_allows_host(&h, "xcdn.example"));
        assert_false(handler_allows_host(&h, "a.shop.example"));
        assert_false(handler_allows_host(&h, "shop.example.evil"));
        assert_false(handler_allows_host(&h, ""));
        handler_release(&h);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(patterns_match_whole_texts),
                cmocka_unit_test(the_most_specific_pattern_wins),
                cmocka_unit_test(no_pattern_no_handler),
                cmocka_unit_test(a_second_handler_of_a_pattern_and_one_too_many_are_refused),
                cmocka_unit_test(hosts_are_names_or_everything_below_one),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

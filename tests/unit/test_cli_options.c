/* Options from tables, and what is suggested after a typing error. */
#include "check.h"

#include "cli/options.h"

static const struct option_def own[] = {
        {"queue", "NAME", "a queue"},
        {"once", NULL, "a switch"},
        {NULL, NULL, NULL},
};

#define PARSE(a, p, ...)                                                                           \
        parse((a), (p), (char *[]){__VA_ARGS__}, (int)ARRAY_LEN(((char *[]){__VA_ARGS__})))

static int parse(struct args *a, struct problem *p, char **argv, int argc)
{
        *a = (struct args){0};
        return args_parse(a, own, argv, argc, p);
}

static char queue[] = "--queue", queue_eq[] = "--queue=x=y", once[] = "--once", one[] = "one",
            two[] = "two", dashes[] = "--", dash[] = "-", json[] = "--json", h[] = "-h";

static void options_and_words_mix(void **state)
{
        struct args a;
        struct problem p;
        size_t at = 0;
        (void)state;
        assert_int_equal(PARSE(&a, &p, one, queue, two, once, dash, queue_eq, json), OK);
        assert_int_equal(a.n_positional, 2);
        assert_string_equal(a.positional[0], "one");
        assert_string_equal(a.positional[1], "-");
        assert_string_equal(args_get(&a, "queue"), "x=y");
        assert_string_equal(args_next(&a, "queue", &at), "two");
        assert_string_equal(args_next(&a, "queue", &at), "x=y");
        assert_null(args_next(&a, "queue", &at));
        assert_true(args_has(&a, "once"));
        assert_true(args_has(&a, "json"));
        assert_false(args_has(&a, "help"));
        assert_int_equal(PARSE(&a, &p, h), OK);
        assert_true(args_has(&a, "help"));
}

static void after_two_dashes_everything_is_a_word(void **state)
{
        struct args a;
        struct problem p;
        (void)state;
        assert_int_equal(PARSE(&a, &p, dashes, once, dashes), OK);
        assert_int_equal(a.n_positional, 2);
        assert_false(args_has(&a, "once"));
}

static void wrong_options_are_named_with_the_nearest(void **state)
{
        static char typo[] = "--qeue", far[] = "--zzzzzz", value[] = "--once=1", single[] = "-x";
        struct args a;
        struct problem p;
        (void)state;
        assert_int_equal(PARSE(&a, &p, typo), ERR_SYNTAX);
        assert_non_null(strstr(p.detail, "did you mean --queue?"));
        assert_int_equal(PARSE(&a, &p, far), ERR_SYNTAX);
        assert_null(strstr(p.detail, "did you mean"));
        assert_int_equal(PARSE(&a, &p, value), ERR_SYNTAX);
        assert_int_equal(PARSE(&a, &p, single), ERR_SYNTAX);
        assert_int_equal(PARSE(&a, &p, queue), ERR_SYNTAX);
        assert_non_null(strstr(p.detail, "needs a value"));
}

static void the_nearest_name_is_near(void **state)
{
        static const char *const names[] = {"list", "show", "cancel", "events", NULL};
        (void)state;
        assert_string_equal(nearest_name("lits", names), "list");
        assert_string_equal(nearest_name("cancle", names), "cancel");
        assert_string_equal(nearest_name("ev", names), "events");
        assert_string_equal(nearest_name("hsow", names), "show");
        assert_null(nearest_name("delete", names));
        assert_null(nearest_name("", names));
        assert_null(nearest_name("a-very-long-word-that-is-longer-than-any-name-there", names));
}

static void more_than_fits_is_refused(void **state)
{
        static char *many[ARGS_MAX + 1];
        struct args a;
        struct problem p;
        (void)state;
        for (size_t i = 0; i <= ARGS_MAX; i++)
                many[i] = one;
        assert_int_equal(parse(&a, &p, many, ARGS_MAX), OK);
        assert_int_equal(parse(&a, &p, many, ARGS_MAX + 1), ERR_TOOBIG);
        for (size_t i = 0; i <= ARGS_MAX; i++)
                many[i] = once;
        assert_int_equal(parse(&a, &p, many, ARGS_MAX), OK);
        assert_int_equal(parse(&a, &p, many, ARGS_MAX + 1), ERR_TOOBIG);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(options_and_words_mix),
                cmocka_unit_test(after_two_dashes_everything_is_a_word),
                cmocka_unit_test(wrong_options_are_named_with_the_nearest),
                cmocka_unit_test(the_nearest_name_is_near),
                cmocka_unit_test(more_than_fits_is_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

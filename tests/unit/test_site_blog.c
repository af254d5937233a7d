/* What the blog of a runner adds to its command and its environment. */
#include "check.h"

#include <stdio.h>

#include "work/site_blog.h"

/* The last words of the command, joined by blanks. */
static void has_words(const struct site_blog *b, const struct site_command *c, const char *want)
{
        struct words w;
        char got[512] = "";
        site_blog_put_command(b, c, &w);
        for (size_t i = 0; i < w.n; i++)
                (void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", i ? " " : "",
                               w.argv[i]);
        assert_string_equal(got, want);
        words_release(&w);
}

static void a_runner_is_told_its_blog_and_to_end_when_others_wait(void **state)
{
        struct site_blog b = {0};
        struct site_command wp = {.url_option = "--url=", .turn_option = "--batches=5"}, own = {0};
        (void)state;
        words_add(&wp.words, "wp");
        words_add(&own.words, "run");
        has_words(&b, &wp, "wp");
        (void)snprintf(b.url, sizeof(b.url), "http://two.example");
        has_words(&b, &wp, "wp --url=http://two.example");
        b.is_shared = true;
        has_words(&b, &wp, "wp --batches=5 --url=http://two.example");
        has_words(&b, &own, "run"); /* its environment says so */
        words_release(&wp.words);
        words_release(&own.words);
}

static void the_environment_names_prefix_and_address_when_they_are_known(void **state)
{
        struct site_blog b = {0};
        struct words env = {0};
        (void)state;
        site_blog_put_env(&b, &env);
        assert_int_equal(env.n, 0);
        (void)snprintf(b.url, sizeof(b.url), "http://two.example");
        (void)snprintf(b.prefix, sizeof(b.prefix), "wp_2_");
        site_blog_put_env(&b, &env);
        assert_string_equal(env_get(env.argv, "WEIR_PREFIX"), "wp_2_");
        assert_string_equal(env_get(env.argv, "WEIR_BLOG_URL"), "http://two.example");
        words_release(&env);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_runner_is_told_its_blog_and_to_end_when_others_wait),
                cmocka_unit_test(the_environment_names_prefix_and_address_when_they_are_known),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

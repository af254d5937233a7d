/* Hooks to tiers: the defaults, what is more specific, and what a pattern may be. */
#include "check.h"

#include <stdio.h>

#include "gate/registry.h"

#define E(text, of)                                                                                \
        {                                                                                          \
                .pattern = {text, sizeof(text) - 1}, .tier = (of)                                  \
        }

static void expect(const struct registry *r, const char *hook, enum tier tier, const char *pattern)
{
        struct slice by;

        assert_int_equal(registry_tier(r, slice_str(hook)), tier);
        assert_int_equal(registry_explain(r, slice_str(hook), &by), tier);
        assert_slice(by, pattern);
}

static void the_defaults_are_the_documented_ones(void **state)
{
        CLEANUP(registry_freep)
        struct registry *r = registry_new(registry_defaults, registry_defaults_len);

        (void)state;
        assert_int_equal(registry_defaults_len, 13);
        expect(r, "nofraud_check", TIER_CRITICAL, "nofraud_*");
        expect(r, "woocommerce_payment_retry", TIER_CRITICAL, "woocommerce_payment_*");
        expect(r, "wc_payment_capture", TIER_CRITICAL, "wc_payment_*");
        expect(r, "woocommerce_scheduled_subscription_payment", TIER_HIGH,
               "woocommerce_scheduled_subscription_*");
        expect(r, "wcs_renew", TIER_HIGH, "wcs_*");
        expect(r, "woocommerce_deliver_webhook_async", TIER_HIGH, "woocommerce_deliver_webhook_*");
        expect(r, "woocommerce_run_update", TIER_NORMAL, "woocommerce_run_*");
        expect(r, "action_scheduler_run_queue", TIER_NORMAL, "action_scheduler_*");
        expect(r, "facebook_for_woocommerce_sync", TIER_DEFERRABLE, "facebook_for_woocommerce_*");
        expect(r, "wc_facebook_feed", TIER_DEFERRABLE, "wc_facebook_*");
        expect(r, "shipstation_export", TIER_DEFERRABLE, "shipstation_*");
        expect(r, "klaviyo_", TIER_DEFERRABLE, "klaviyo_*");
        expect(r, "woocommerce_flush_rewrite", TIER_DEFERRABLE, "woocommerce_flush_*");
        for (size_t i = 0; i < registry_defaults_len; i++)
                assert_int_equal(registry_check_pattern(registry_defaults[i].pattern, NULL), OK);
}

static void a_hook_that_nothing_matches_is_normal(void **state)
{
        CLEANUP(registry_freep)
        struct registry *r = registry_new(registry_defaults, registry_defaults_len);
        CLEANUP(registry_freep) struct registry *none = registry_new(NULL, 0);

        (void)state;
        expect(r, "send_mail", TIER_NORMAL, "");
        expect(r, "klaviyo", TIER_NORMAL, ""); /* one byte short of klaviyo_ */
        expect(r, "", TIER_NORMAL, "");
        assert_int_equal(registry_tier(r, SLICE_NONE), TIER_NORMAL);
        expect(none, "klaviyo_x", TIER_NORMAL, "");
        assert_int_equal(registry_tier(none, SLICE_NONE), TIER_NORMAL);
}

static void an_exact_name_comes_first(void **state)
{
        static const struct registry_entry entries[] = {
                E("wcs_renew", TIER_DEFERRABLE),
                E("wcs_rene?", TIER_HIGH),
                E("wcs_renew*", TIER_CRITICAL),
        };
        CLEANUP(registry_freep) struct registry *r = registry_new(entries, ARRAY_LEN(entries));

        (void)state;
        expect(r, "wcs_renew", TIER_DEFERRABLE, "wcs_renew");
        expect(r, "wcs_renews", TIER_CRITICAL, "wcs_renew*");
        expect(r, "wcs_renex", TIER_HIGH, "wcs_rene?");
}

static void then_the_longest_text_before_a_wildcard(void **state)
{
        static const struct registry_entry entries[] = {
                E("a_b*", TIER_HIGH),
                E("a_*_very_long_tail", TIER_CRITICAL),
                E("*", TIER_DEFERRABLE),
        };
        CLEANUP(registry_freep) struct registry *r = registry_new(entries, ARRAY_LEN(entries));

        (void)state;
        expect(r, "a_b_very_long_tail", TIER_HIGH, "a_b*");
        expect(r, "a_c_very_long_tail", TIER_CRITICAL, "a_*_very_long_tail");
        expect(r, "a_c", TIER_DEFERRABLE, "*");
        expect(r, "", TIER_DEFERRABLE, "*");
        assert_int_equal(registry_tier(r, SLICE_NONE), TIER_DEFERRABLE);
}

static void then_more_literal_bytes(void **state)
{
        static const struct registry_entry entries[] = {
                E("shop_*_sync", TIER_HIGH),
                E("shop_*", TIER_DEFERRABLE),
                E("shop_?", TIER_CRITICAL),
        };
        CLEANUP(registry_freep) struct registry *r = registry_new(entries, ARRAY_LEN(entries));

        (void)state;
        expect(r, "shop_1_sync", TIER_HIGH, "shop_*_sync");
        expect(r, "shop_1", TIER_CRITICAL, "shop_?"); /* set last */
        expect(r, "shop_12", TIER_DEFERRABLE, "shop_*");
}

static void then_the_one_that_was_set_last(void **state)
{
        static const struct registry_entry entries[] = {
                E("x_*", TIER_HIGH),          E("x_*", TIER_DEFERRABLE), E("name", TIER_HIGH),
                E("name", TIER_CRITICAL),     E("*_ab", TIER_HIGH),      E("*b_a*", TIER_CRITICAL),
                E("*_tail", TIER_DEFERRABLE), E("*_tail", TIER_HIGH),
        };
        CLEANUP(registry_freep) struct registry *r = registry_new(entries, ARRAY_LEN(entries));

        (void)state;
        expect(r, "x_1", TIER_DEFERRABLE, "x_*");
        expect(r, "name", TIER_CRITICAL, "name");
        expect(r, "b_ab", TIER_CRITICAL, "*b_a*");
        expect(r, "c_ab", TIER_HIGH, "*_ab");
        expect(r, "a_tail", TIER_HIGH, "*_tail");
}

static void wildcards_match_what_they_stand_for(void **state)
{
        static const struct {
                const char *pattern, *hook;
                bool is_match;
        } rows[] = {
                {"?", "a", true},
                {"?", "", false},
                {"?", "ab", false},
                {"a?", "a", false},
                {"*?", "a", true},
                {"*?", "", false},
                {"**", "", true},
                {"a**", "a", true},
                {"a**", "b", false},
                {"*a*", "bab", true},
                {"*a*", "bbb", false},
                {"*ab*ab*", "abab", true},
                {"*ab*ab*", "aab_", false},
                {"*ab*ab*", "xabyabz", true},
                {"*abcd", "abcabcd", true},
                {"*abcd", "abcdx", false},
                {"a*b?c*d", "a__b_cxd", true},
                {"a*b?c*d", "a__bcxd", false},
                {"?bcde", "xbcde", true},
                {"?bcde", "bcde", false},
                {"*_\xc3\xa9t\xc3\xa9", "an_\xc3\xa9t\xc3\xa9", true},
                {"??", "\xc3\xa9", true}, /* bytes, not characters */
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct registry_entry e = {slice_str(rows[i].pattern), TIER_HIGH};
                CLEANUP(registry_freep) struct registry *r = registry_new(&e, 1);
                expect(r, rows[i].hook, rows[i].is_match ? TIER_HIGH : TIER_NORMAL,
                       rows[i].is_match ? rows[i].pattern : "");
        }
}

static void wildcards_in_a_hook_are_plain_bytes(void **state)
{
        static const struct registry_entry entries[] = {
                E("abc", TIER_HIGH),
                E("a*", TIER_CRITICAL),
        };
        CLEANUP(registry_freep) struct registry *r = registry_new(entries, ARRAY_LEN(entries));

        (void)state;
        expect(r, "*", TIER_NORMAL, "");
        expect(r, "???", TIER_NORMAL, "");
        expect(r, "a*", TIER_CRITICAL, "a*");
}

static void the_longest_patterns_and_longer_hooks_work(void **state)
{
        char text[REGISTRY_PATTERN_MAX + 46];
        memset(text, 'x', sizeof(text));
        char prefix[REGISTRY_PATTERN_MAX], odd[REGISTRY_PATTERN_MAX];
        memset(prefix, 'x', sizeof(prefix));
        memset(odd, 'x', sizeof(odd));
        prefix[sizeof(prefix) - 1] = '*';
        odd[0] = '*';
        struct registry_entry entries[] = {
                {slice_make(text, REGISTRY_PATTERN_MAX), TIER_HIGH},
                {slice_make(prefix, sizeof(prefix)), TIER_CRITICAL},
                {slice_make(odd, sizeof(odd)), TIER_DEFERRABLE},
        };
        CLEANUP(registry_freep) struct registry *r = registry_new(entries, ARRAY_LEN(entries));

        (void)state;
        assert_int_equal(registry_tier(r, slice_make(text, 255)), TIER_HIGH);
        assert_int_equal(registry_tier(r, slice_make(text, 254)), TIER_CRITICAL);
        assert_int_equal(registry_tier(r, slice_make(text, 253)), TIER_NORMAL);
        assert_int_equal(registry_tier(r, slice_make(text, sizeof(text))), TIER_CRITICAL);
        text[0] = 'y';
        assert_int_equal(registry_tier(r, slice_make(text, sizeof(text))), TIER_DEFERRABLE);
}

static void the_registry_keeps_a_copy_of_the_patterns(void **state)
{
        char text[] = "abc_*";
        struct registry_entry e = {slice_str(text), TIER_HIGH};
        CLEANUP(registry_freep) struct registry *r = registry_new(&e, 1);

        (void)state;
        memset(text, 'z', sizeof(text) - 1);
        expect(r, "abc_1", TIER_HIGH, "abc_*");
}

/* A pattern of one of five shapes, or a hook that matches it and no other. */
static struct slice nth_text(int i, bool is_hook, char ret[48])
{
        static const char *const shapes[5][2][2] = {
                {{"job_", "_*"}, {"job_", "_x"}},   {{"name_", ""}, {"name_", ""}},
                {{"*_tail_", ""}, {"x_tail_", ""}}, {{"a?_", "_*z"}, {"ab_", "_yz"}},
                {{"*mid", "_*"}, {"xmid", "_x"}},
        };
        const char *const *shape = shapes[i % 5][is_hook];

        return slice_make(ret, (size_t)snprintf(ret, 48, "%s%d%s", shape[0], i, shape[1]));
}

static void ten_thousand_patterns_are_all_found(void **state)
{
        enum { N = 10000 };
        static char text[N][48];
        static struct registry_entry entries[N];
        char hook[48];

        (void)state;
        for (int i = 0; i < N; i++)
                entries[i] = (struct registry_entry){nth_text(i, false, text[i]),
                                                     (enum tier)(i % TIERS)};
        CLEANUP(registry_freep) struct registry *r = registry_new(entries, N);
        for (int i = 0; i < N; i++) {
                (void)nth_text(i, true, hook);
                expect(r, hook, (enum tier)(i % TIERS), text[i]);
        }
        expect(r, "job_10000_x", TIER_NORMAL, "");
}

static void a_pattern_has_1_to_255_bytes_of_utf8_without_control_characters(void **state)
{
        char text[REGISTRY_PATTERN_MAX + 1];
        struct problem why;

        (void)state;
        memset(text, 'a', sizeof(text));
        assert_int_equal(registry_check_pattern(SLICE_NONE, &why), ERR_BADARG);
        assert_int_equal(registry_check_pattern(slice_make(text, 1), &why), OK);
        assert_int_equal(registry_check_pattern(slice_make(text, 254), &why), OK);
        assert_int_equal(registry_check_pattern(slice_make(text, 255), &why), OK);
        assert_int_equal(registry_check_pattern(slice_make(text, 256), &why), ERR_BADARG);
        assert_non_null(strstr(why.detail, "1 to 255"));
        assert_int_equal(registry_check_pattern(SLICE_LIT("a\tb"), &why), ERR_BADARG);
        assert_int_equal(registry_check_pattern(SLICE_LIT("a\x7f"), &why), ERR_BADARG);
        assert_int_equal(registry_check_pattern(SLICE_LIT("a\0b"), &why), ERR_BADARG);
        assert_int_equal(registry_check_pattern(SLICE_LIT("\xff"), &why), ERR_BADARG);
        assert_int_equal(registry_check_pattern(SLICE_LIT("\xc3\xa9*"), NULL), OK);
}

static void new_with_an_empty_pattern(void)
{
        (void)registry_new(&(struct registry_entry){SLICE_LIT(""), TIER_HIGH}, 1);
}

static void an_unchecked_pattern_is_our_mistake(void **state)
{
        (void)state;
        assert_panics(new_with_an_empty_pattern);
}

static void nothing_is_freed_without_harm(void **state)
{
        (void)state;
        assert_null(registry_free(NULL));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_defaults_are_the_documented_ones),
                cmocka_unit_test(a_hook_that_nothing_matches_is_normal),
                cmocka_unit_test(an_exact_name_comes_first),
                cmocka_unit_test(then_the_longest_text_before_a_wildcard),
                cmocka_unit_test(then_more_literal_bytes),
                cmocka_unit_test(then_the_one_that_was_set_last),
                cmocka_unit_test(wildcards_match_what_they_stand_for),
                cmocka_unit_test(wildcards_in_a_hook_are_plain_bytes),
                cmocka_unit_test(the_longest_patterns_and_longer_hooks_work),
                cmocka_unit_test(the_registry_keeps_a_copy_of_the_patterns),
                cmocka_unit_test(ten_thousand_patterns_are_all_found),
                cmocka_unit_test(a_pattern_has_1_to_255_bytes_of_utf8_without_control_characters),
                cmocka_unit_test(an_unchecked_pattern_is_our_mistake),
                cmocka_unit_test(nothing_is_freed_without_harm),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The configuration file: what is taken, and what is refused with its place. */
#include "config_box.h"

#include <stdio.h>

#include "history/history.h"
#include "serve/config.h"
#include "sql/tls.h"

static void a_file_sets_what_it_names_and_leaves_the_rest(void **unused)
{
        (void)unused;
        struct config c;
        struct problem problem = {0};
        take_text("data = \"/x/y\"\n"
                  "resp = {\"127.0.0.1:1\", \"/run/w.sock\"}\n"
                  "log_level = warn\nlog_json = true\n"
                  "history = failures\nhistory_keep_done = 2d\n"
                  "history_keep_failed = forever\n"
                  "queue \"quick\" { history = none }\n",
                  &c);
        assert_int_equal(config_finish(&c, &problem), OK);
        assert_string_equal(c.data, "/x/y");
        assert_int_equal(c.n_resp, 2);
        assert_string_equal(c.resp[1], "/run/w.sock");
        assert_int_equal(c.n_http, 1);
        assert_string_equal(c.http[0], "127.0.0.1:7380");
        assert_int_equal(c.log_level, SAY_WARN);
        assert_true(c.is_log_json);
        assert_int_equal(c.keep_done_ms, 2 * HISTORY_DAY_MS);
        assert_int_equal(c.keep_failed_ms, 0);
        assert_int_equal(config_history_of(&c, SLICE_LIT("quick")), HISTORY_NONE);
        assert_int_equal(config_history_of(&c, SLICE_LIT("other")), HISTORY_FAILURES);
        config_release(&c);
}

static void what_is_wrong_is_named_and_nothing_is_guessed(void **unused)
{
        (void)unused;
        static const struct {
                const char *text, *told;
        } cases[] = {
                {"nosuch = 1\n", "nosuch"},
                {"data = \n", "conf:"},
                {"log_level = loud\n", "log_level must be"},
                {"history = some\n", "history must be"},
                {"history_keep_done = soon\n", "history_keep_done"},
                {"queue \"q\" { history = maybe }\n", "history must be"},
                {"token_file = /nosuch/file\n", "/nosuch/file"},
                {"check_without_token = perhaps\n", "check_without_token"},
                {"locks { enabled = perhaps }\n", "enabled"},
                {"locks = false\n", "locks"},
                {"client_memory = lots\n", "client_memory: 'lots' is no size"},
                {"client_memory = \"63m\"\n", "client_memory must be 64m or more, not '63m'"},
                {"client_memory = \"9999999g\"\n", "client_memory: at most"},
                {"throttle { check_mode = on }\n", "check_mode must be off, test_observe"},
                {"throttle { mode = on }\n", "throttle: mode must be off, test_observe"},
                {"throttle { rule_max = soon }\n", "rule_max"},
                {"throttle { rule_max = 59s }\n", "rule_max must be 1m to 365d, not '59s'"},
                {"throttle { rule_max = 366d }\n", "rule_max must be"},
                {"throttle { rule_endless = 7 }\n", "rule_endless"},
                {"throttle { starved_after = 999ms }\n", "starved_after must be 1s to 1d"},
                {"throttle { starved_after = 25h }\n", "starved_after must be"},
                {"throttle { exempt_budget = 0 }\n", "above 0 and at most 1, not 0"},
                {"throttle { exempt_budget = 1.01 }\n", "exempt_budget is a share"},
                {"throttle { exempt_budget = -0.1 }\n", "exempt_budget is a share"},
                {"throttle { exempt_budget = nan }\n", "exempt_budget is a share"},
                {"throttle { credits_max = -1 }\n", "credits_max must be 0 (none) to 1000000"},
                {"throttle { credits_max = 1000001 }\n", "credits_max must be"},
                {"throttle { credits_time = 99ms }\n", "credits_time must be 100ms to 1m"},
                {"throttle { credits_time = 61s }\n", "credits_time must be"},
                {"throttle { queue_level = \"high\" }",
                 "\"elevated\" or \"critical\", not \"high\""},
                {"throttle { queue_age = \"2d\" }", "queue_age must be 0s to 1d"},
                {"throttle { queue_age = \"soon\" }", "queue_age"},
                {"throttle { queue_depth = {9, 5, 90, 50} }\ntarget \"queues\" { kind = host }\n",
                 "target \"queues\" is weir's own"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                refuse_text(cases[i].text, cases[i].told);
        }
}

static void locks_are_on_unless_the_file_says_otherwise(void **unused)
{
        (void)unused;
        static const struct {
                const char *text;
                bool are_off;
        } cases[] = {
                {"", false},
                {"locks { }\n", false},
                {"locks { enabled = true }\n", false},
                {"locks { enabled = false }\n", true},
                {"throttle { enabled = false }\n", false}, /* that is another switch */
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct config c;
                take_text(cases[i].text, &c);
                assert_int_equal(c.are_locks_off, cases[i].are_off);
                config_release(&c);
        }
}

static void checks_answer_as_the_file_says(void **unused)
{
        (void)unused;
        struct config c;
        take_text("check_without_token = true\n"
                  "throttle { check_mode = observe rule_max = 30d rule_endless = true\n"
                  " starved_after = 90s exempt_budget = 0.05 exempt_ends = true\n"
                  " credits_max = 0 credits_time = 250ms }\n",
                  &c);
        const struct core_checks *k = &c.throttle.checks;
        assert_true(c.is_check_open);
        assert_int_equal(k->mode, MODE_OBSERVE);
        assert_int_equal(k->rule_max_ms, 30 * HISTORY_DAY_MS);
        assert_true(k->is_endless_allowed);
        assert_int_equal(k->starved_ms, 90000);
        assert_true(k->exempt_budget == 0.05);
        assert_true(k->exempt_ends);
        assert_int_equal(k->credit.max, 0);
        assert_int_equal(k->credit.ms, 250);
        assert_int_equal(c.throttle.policy.mode, MODE_OFF); /* that of jobs is another */
        config_release(&c);
}

static void checks_are_enforced_by_default_and_every_rule_ends(void **unused)
{
        (void)unused;
        static const char *const texts[] = {"", "throttle { }\n"};
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                struct config c;
                struct credit_rule usual;
                credit_rule_init(&usual);
                take_text(texts[i], &c);
                const struct core_checks *k = &c.throttle.checks;
                assert_false(c.is_check_open);
                assert_int_equal(k->mode, MODE_ENFORCE);
                assert_int_equal(k->rule_max_ms, 7 * HISTORY_DAY_MS);
                assert_false(k->is_endless_allowed);
                assert_int_equal(k->starved_ms, 300000);
                assert_true(k->exempt_budget == 0.2);
                assert_false(k->exempt_ends);
                assert_memory_equal(&k->credit, &usual, sizeof(usual));
                config_release(&c);
        }
}

static void a_token_file_must_be_private_and_of_a_sane_length(void **unused)
{
        (void)unused;
        static const struct {
                const char *text;
                mode_t mode;
                int err;
        } cases[] = {
                {"0123456789abcdef\n", 0600, OK},
                {"0123456789abcdef\nfedcba9876543210\n", 0600, OK},
                {"0123456789abcdef\nfedcba9876543210\nand-a-third-one-here\n", 0600, ERR_BADARG},
                {"0123456789abcdef\nshort\n", 0600, ERR_BADARG},
                {"0123456789abcdef\n", 0644, ERR_FORBIDDEN},
                {"0123456789abcde\n", 0600, ERR_BADARG},
                {"", 0600, ERR_BADARG},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct config c;
                struct problem problem = {0};
                const char *path = write_file("token", cases[i].text, cases[i].mode);
                config_init(&c);
                assert_int_equal(config_set_token_file(&c, path, &problem), cases[i].err);
                if (cases[i].err == OK)
                        assert_string_equal(c.token.text[0], "0123456789abcdef");
                config_release(&c);
        }
}

/* The rows spell out the words of enums that other modules name too. */
static void choices_are_called_as_everywhere_else(void **unused)
{
        (void)unused;
        static const enum setting_id modes[] = {SET_THROTTLE_mode, SET_THROTTLE_adaptive,
                                                SET_THROTTLE_check_mode, SET_TARGET_mode};
        for (size_t i = 0; i < ARRAY_LEN(modes); i++)
                for (int k = 0; k < MODES; k++) {
                        const char *word = setting_table[modes[i]].choices[k];
                        if (word)
                                assert_string_equal(word, mode_name((enum gate_mode)k));
                }
        const char *const *levels = setting_table[SET_THROTTLE_queue_level].choices;
        assert_string_equal(levels[LEVEL_ELEVATED], level_name(LEVEL_ELEVATED));
        assert_string_equal(levels[LEVEL_CRITICAL], level_name(LEVEL_CRITICAL));
        for (int k = 0; k < PROBE_KINDS; k++)
                assert_string_equal(setting_table[SET_TARGET_kind].choices[k],
                                    probe_kind_name((enum probe_kind)k));
        for (int k = 0; k < SQL_TLS_MODES; k++)
                assert_string_equal(setting_table[SET_TARGET_tls].choices[k],
                                    sql_tls_mode_name((enum sql_tls_mode)k));
        assert_int_equal(setting_table[SET_TARGET_tls].usual, SQL_TLS_PREFER);
        enum say_level level;
        assert_true(
                say_level_from_name(setting_table[SET_TOP_log_level].choices[SAY_WARN], &level));
        assert_int_equal(level, SAY_WARN);
        assert_int_equal(setting_choice(&setting_table[SET_TOP_history], SLICE_LIT("failures")),
                         HISTORY_FAILURES);
        assert_int_equal(setting_choice(&setting_table[SET_TOP_history], SLICE_LIT("none")),
                         HISTORY_NONE);
}

/* What the man page, the page and errors say of a setting is all there. */
static void every_row_says_what_it_is(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < SETTING_IDS; i++) {
                const struct setting_def *def = &setting_table[i];
                bool has_choice = false;
                for (size_t k = 0; k < SETTING_CHOICES_MAX; k++)
                        has_choice |= def->choices[k] != NULL;
                assert_true(def->text && *def->text && def->text[strlen(def->text) - 1] != '.');
                assert_int_equal(has_choice, def->type == SETTING_CHOICE);
                assert_true(def->type != SETTING_INT || def->max > 0);
                assert_true(def->type != SETTING_SIZE || def->otherwise);
                assert_true(def->max == 0 || def->min <= def->max);
                assert_true(def->type < SETTING_TEXT || def->form);
                assert_true(def->type < SETTING_TEXT || def->usual_text || def->otherwise);
                assert_true(def->section != SECTION_LIVE || def->live);
                if (def->type == SETTING_CHOICE)
                        assert_true(def->usual < 0 ? def->otherwise : def->choices[def->usual]);
        }
        assert_ptr_equal(setting_find(SLICE_LIT("throttle.mode")),
                         &setting_table[SET_THROTTLE_mode]);
        assert_ptr_equal(setting_find(SLICE_LIT("data")), &setting_table[SET_TOP_data]);
        assert_null(setting_find(SLICE_LIT("mode")));
        assert_null(setting_find(SLICE_LIT("target.kind")));
        assert_null(setting_find(SLICE_LIT("")));
}

/* What a module does by itself is what the row says that it does. */
static void defaults_of_the_gate_are_those_of_the_rows(void **unused)
{
        (void)unused;
        struct config_throttle t;
        struct policy policy;
        struct credit_rule credit;
        config_throttle_init(&t);
        policy_init(&policy);
        credit_rule_init(&credit);
        assert_int_equal(t.policy.mode, policy.mode);
        assert_int_equal(t.policy.max_deferral_ms, policy.max_deferral_ms);
        assert_int_equal(t.policy.deferrals_per_hour, policy.deferrals_per_hour);
        assert_int_equal(t.policy.queue_age_ms, policy.queue_age_ms);
        assert_int_equal(t.policy.queue_level, policy.queue_level);
        assert_int_equal(t.policy.expiry_margin_ms, policy.expiry_margin_ms);
        assert_int_equal(t.checks.credit.max, credit.max);
        assert_int_equal(t.checks.credit.ms, credit.ms);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_file_sets_what_it_names_and_leaves_the_rest),
                cmocka_unit_test(what_is_wrong_is_named_and_nothing_is_guessed),
                cmocka_unit_test(locks_are_on_unless_the_file_says_otherwise),
                cmocka_unit_test(checks_answer_as_the_file_says),
                cmocka_unit_test(checks_are_enforced_by_default_and_every_rule_ends),
                cmocka_unit_test(a_token_file_must_be_private_and_of_a_sane_length),
                cmocka_unit_test(choices_are_called_as_everywhere_else),
                cmocka_unit_test(every_row_says_what_it_is),
                cmocka_unit_test(defaults_of_the_gate_are_those_of_the_rows),
        };
        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

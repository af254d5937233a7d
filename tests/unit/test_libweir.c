/* The client library: what it asks, what it reads, and how it fails, against a server that plays a
 * script.  tests/integration/client_library.py has the real one. */
#include "fake_weir.h"

/* ---- answers ------------------------------------------------------------------------------- */

static void an_answer_is_told_in_full(void **state)
{
        struct fake f;
        struct weir_answer a;
        (void)state;

        FAKE(&f, {.say = REFUSAL}, {.say = GRANT});
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        assert_int_equal(a.source, WEIR_FROM_SERVER);
        assert_int_equal(a.error, WEIR_OK);
        assert_string_equal(a.reason, "threshold");
        assert_string_equal(a.metric, "lag");
        assert_true(a.value == 7.1 && a.threshold == 5);
        assert_int_equal(a.age_ms, 120);
        assert_string_equal(a.rule, "slow");
        assert_int_equal(a.wait_ms, 2);
        assert_string_equal(a.would, "");
        assert_int_equal(weir_set(w, WEIR_SET_K_PERCENT, 0), WEIR_OK);
        assert_int_equal(weir_check(w, &plain, NULL), WEIR_GO);
        assert_int_equal(weir_count(w, WEIR_COUNT_GRANTED), 1);
        assert_int_equal(weir_count(w, WEIR_COUNT_REFUSED), 1);
        assert_int_equal(weir_count(w, WEIR_COUNT_CONNECTS), 1);
        assert_string_equal(weir_message(w), "");
        weir_free(w);
        fake_free(&f);
}

static void an_ask_says_what_it_was_given_and_nothing_else(void **state)
{
        static const char *const metrics[] = {"lag", "threads_running", NULL};
        const struct weir_ask full = {.identity = "a:b",
                                      .target = "main",
                                      .priority = "high",
                                      .metrics = metrics,
                                      .cost = 7,
                                      .wait_ms = 0};
        struct fake f;
        (void)state;

        FAKE(&f, {.say = GRANT});
        struct weir *w = handle(&f, WEIR_CLOSED);
        assert_int_equal(weir_check(w, &plain, NULL), WEIR_GO);
        assert_string_equal(f.heard, "CHECK purge:nightly COST 1 ");
        assert_int_equal(weir_check(w, &full, NULL), WEIR_GO);
        assert_string_equal(f.heard, "CHECK a:b TARGET main PRIORITY high COST 7 METRICS lag "
                                     "threads_running ");
        assert_int_equal(weir_step(w, "c", 0), WEIR_GO);
        assert_non_null(strstr(f.heard, "CHECK c COST 1 WAIT "));
        weir_free(w);
        fake_free(&f);
}

static void an_answer_in_single_bytes_is_an_answer(void **state)
{
        struct fake f;
        (void)state;

        FAKE(&f, {.say = GRANT, .is_dripping = true});
        struct weir *w = handle(&f, WEIR_CLOSED);
        for (int i = 0; i < 10; i++)
                assert_int_equal(weir_check(w, &plain, NULL), WEIR_GO);
        weir_free(w);
        fake_free(&f);
}

/* ---- failing the chosen way ---------------------------------------------------------------- */

static void expect_failure(struct fake *f, enum weir_error error)
{
        struct weir_answer a;
        static const enum weir_policy policies[] = {WEIR_OPEN, WEIR_CLOSED, WEIR_WAIT_THEN_OPEN};

        for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
                struct weir *w = handle(f, policies[i]);
                if (error == WEIR_ETIMEDOUT)
                        assert_int_equal(weir_set(w, WEIR_SET_REPLY_MS, 20), WEIR_OK);
                enum weir_verdict v = weir_check(w, &plain, &a);
                assert_int_equal(v, policies[i] == WEIR_OPEN ? WEIR_GO : WEIR_NO);
                assert_int_equal(a.verdict, v);
                assert_int_equal(a.source, WEIR_FROM_POLICY);
                assert_int_equal(a.error, error);
                assert_string_equal(a.reason, "away");
                assert_int_equal(a.credits, 0);
                assert_true(strlen(weir_message(w)) > 10);
                assert_null(strstr(weir_message(w), "secret"));
                weir_free(w);
        }
}

static void nobody_there_fails_the_chosen_way(void **state)
{
        struct fake f;
        (void)state;

        fake_init(&f);
        expect_failure(&f, WEIR_EAWAY);
        fake_free(&f);
}

static void garbage_fails_the_chosen_way(void **state)
{
        static const char *const garbage[] = {
                "HTTP/1.1 400 Bad Request\r\n\r\n",
                "\x16\x03\x01",
                "hello\r\n",
                "*11\r\n$7\r\ngrantedXX$1\r\n",
                "$5\r\nabcdefg",
                "*2000000000\r\n*2000000000\r\nx",
                GRANT GRANT,
                GRANT "+OK\r\n",
                "+OK\r\n",
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*"
                "1\r\n"
                "*1\r\n*1\r\n*1\r\n*1\r\n",
        };
        (void)state;

        for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
                struct fake f;
                FAKE(&f, {.say = garbage[i]});
                expect_failure(&f, WEIR_EPROTO);
                fake_free(&f);
        }
}

static void an_endless_answer_is_cut_off(void **state)
{
        size_t len = 1 << 20;
        char *flood = malloc(len);
        struct fake f;
        (void)state;

        assert_non_null(flood);
        memset(flood, 'x', len);
        memcpy(flood, "$2000000000\r\n", 13);
        FAKE(&f, {.say = flood, .len = len});
        expect_failure(&f, WEIR_EPROTO);
        fake_free(&f);
        free(flood);
}

static void an_answer_that_ends_anywhere_is_none(void **state)
{
        struct fake f;
        struct weir_answer a;
        (void)state;

        FAKE(&f, {.say = GRANT, .len = 1, .is_last = true});
        for (size_t cut = 1; cut < sizeof(GRANT) - 1; cut++) {
                PLAY(&f, {.say = GRANT, .len = cut, .is_last = true});
                struct weir *w = handle(&f, WEIR_CLOSED);
                assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
                assert_int_equal(a.error, WEIR_EAWAY);
                weir_free(w);
        }
        fake_free(&f);
}

static void silence_fails_the_chosen_way(void **state)
{
        struct fake f;
        (void)state;

        FAKE(&f, {.say = NULL});
        expect_failure(&f, WEIR_ETIMEDOUT);
        PLAY(&f, {.say = GRANT, .len = 20});
        expect_failure(&f, WEIR_ETIMEDOUT);
        fake_free(&f);
}

static void errors_of_weir_fail_the_chosen_way(void **state)
{
        static const struct {
                const char *line;
                enum weir_error error;
        } rows[] = {
                {"-NOAUTH a token is wanted\r\n", WEIR_EDENIED},
                {"-FORBIDDEN this is not allowed\r\n", WEIR_EDENIED},
                {"-STOPPING weir is shutting down\r\n", WEIR_ESERVER},
                {"-UNKNOWN no such command CHECK\r\n", WEIR_ESERVER},
                {"-ERR unknown command 'CHECK'\r\n", WEIR_ESERVER},
                {"-LIMIT too many wait\r\n", WEIR_ESERVER},
        };
        (void)state;

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct fake f;
                FAKE(&f, {.say = rows[i].line});
                expect_failure(&f, rows[i].error);
                fake_free(&f);
        }
}

static void an_ask_that_is_not_taken_is_no_outage(void **state)
{
        static const struct weir_ask bad = {.identity = "all"};
        struct weir_answer a;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = "-BADARG nobody may be called all\r\n"},
             {.say = "-NOTFOUND no target x\r\n"}, {.say = GRANT});
        struct weir *w = handle(&f, WEIR_WAIT_THEN_OPEN);
        assert_int_equal(weir_check(w, &bad, &a), WEIR_GO);
        assert_int_equal(a.error, WEIR_EASK);
        assert_string_equal(weir_message(w), "nobody may be called all");
        assert_int_equal(weir_check(w, &bad, &a), WEIR_GO);
        assert_int_equal(a.error, WEIR_EASK);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_GO);
        assert_int_equal(a.source, WEIR_FROM_SERVER);
        assert_int_equal(weir_count(w, WEIR_COUNT_CONNECTS), 1);
        weir_free(w);
        fake_free(&f);
}

static void asks_that_cannot_be_right_are_not_sent(void **state)
{
        static char longest[257], longer[258];
        static const char *metrics[34], *const empty[] = {"", NULL};
        struct weir_answer a;
        struct fake f;
        (void)state;

        memset(longest, 'a', 255);
        memset(longer, 'a', 256);
        for (int i = 0; i < 33; i++)
                metrics[i] = "m";
        const struct weir_ask wrong[] = {
                {.identity = NULL},
                {.identity = ""},
                {.identity = longer},
                {.identity = "a", .target = longer},
                {.identity = "a", .priority = longer},
                {.identity = "a", .metrics = metrics},
                {.identity = "a", .metrics = empty},
        };
        FAKE(&f, {.say = GRANT});
        struct weir *w = handle(&f, WEIR_CLOSED);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                assert_int_equal(weir_check(w, &wrong[i], &a), WEIR_NO);
                assert_int_equal(a.error, WEIR_EASK);
        }
        assert_int_equal(f.accepts, 0);
        metrics[32] = NULL;
        const struct weir_ask largest = {.identity = longest, .metrics = metrics};
        assert_int_equal(weir_check(w, &largest, &a), WEIR_GO);
        weir_free(w);
        fake_free(&f);
}

static void the_token_goes_first_and_is_never_told(void **state)
{
        char url[300];
        struct weir_answer a;
        struct weir *w;
        struct fake f;
        (void)state;

        FAKE(&f, {.say = GRANT});
        (void)snprintf(url, sizeof(url), "%s", f.url);
        (void)setenv("WEIR_URL", url, 1);
        (void)setenv("WEIR_TOKEN", "secret", 1);
        assert_int_equal(weir_new(NULL, WEIR_CLOSED, &w), WEIR_OK);
        assert_int_equal(weir_check(w, &plain, NULL), WEIR_GO);
        assert_int_equal(weir_check(w, &plain, NULL), WEIR_GO);
        assert_int_equal(weir_count(w, WEIR_COUNT_CONNECTS), 1);
        weir_free(w);

        f.auth = "-BADARG no token is set here\r\n"; /* it is not needed: fine */
        assert_int_equal(weir_new(NULL, WEIR_CLOSED, &w), WEIR_OK);
        assert_int_equal(weir_check(w, &plain, NULL), WEIR_GO);
        weir_free(w);

        f.auth = "-BADTOKEN the access token is wrong\r\n";
        assert_int_equal(weir_new(NULL, WEIR_CLOSED, &w), WEIR_OK);
        assert_int_equal(weir_check(w, &plain, &a), WEIR_NO);
        assert_int_equal(a.error, WEIR_EDENIED);
        assert_null(strstr(weir_message(w), "secret"));
        weir_free(w);

        (void)setenv("WEIR_TOKEN", "@/nowhere/at/all", 1);
        assert_int_equal(weir_new(NULL, WEIR_CLOSED, &w), WEIR_EDENIED);
        (void)unsetenv("WEIR_TOKEN");
        (void)unsetenv("WEIR_URL");
        fake_free(&f);
}

/* ---- the handle ---------------------------------------------------------------------------- */

static void what_is_no_address_makes_no_handle(void **state)
{
        static const char *const wrong[] = {"",
                                            "http://127.0.0.1:7380",
                                            "rediss://h?ca=",
                                            "rediss://h?key=k",
                                            "rediss://h?verify=never",
                                            "ftp://h",
                                            "redis://h:0",
                                            "redis://h:65536",
                                            "redis://token@h",
                                            "unix:",
                                            "h:x"};
        struct weir *w;
        (void)state;

        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                w = (struct weir *)-1;
                assert_int_equal(weir_new(wrong[i], WEIR_OPEN, &w), WEIR_EURL);
                assert_null(w);
        }
        assert_int_equal(weir_new("h", (enum weir_policy)3, &w), WEIR_EINVAL);
        weir_free(NULL);
}

static void settings_have_bounds(void **state)
{
        static const struct {
                enum weir_setting setting;
                uint32_t least, most;
        } rows[] = {
                {WEIR_SET_CONNECT_MS, 1, 60000},      {WEIR_SET_REPLY_MS, 1, 60000},
                {WEIR_SET_STEP_MS, 1, UINT32_MAX},    {WEIR_SET_WAIT_MS, 1, 600000},
                {WEIR_SET_HOLD_MS, 0, UINT32_MAX},    {WEIR_SET_BACKOFF_MS, 1, 600000},
                {WEIR_SET_BACKOFF_MAX_MS, 1, 600000}, {WEIR_SET_K_PERCENT, 0, 10000},
                {WEIR_SET_PROBE_MS, 1, 600000},       {WEIR_SET_INTERRUPTIBLE, 0, 1},
        };
        struct weir *w;
        (void)state;

        assert_int_equal(weir_new("h", WEIR_OPEN, &w), WEIR_OK);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                assert_int_equal(rows[i].setting, i);
                assert_int_equal(weir_set(w, rows[i].setting, rows[i].least), WEIR_OK);
                assert_int_equal(weir_set(w, rows[i].setting, rows[i].most), WEIR_OK);
                if (rows[i].least > 0)
                        assert_int_equal(weir_set(w, rows[i].setting, rows[i].least - 1),
                                         WEIR_EINVAL);
                if (rows[i].most < UINT32_MAX)
                        assert_int_equal(weir_set(w, rows[i].setting, rows[i].most + 1),
                                         WEIR_EINVAL);
        }
        assert_int_equal(weir_set(w, (enum weir_setting)ARRAY_LEN(rows), 1), WEIR_EINVAL);
        assert_int_equal(weir_count(w, (enum weir_counter)99), 0);
        weir_free(w);
}

static void every_error_has_a_sentence(void **state)
{
        (void)state;
        for (int e = WEIR_OK; e <= WEIR_ETLS; e++) {
                assert_true(strlen(weir_strerror(e)) > 10);
                assert_null(strstr(weir_strerror(e), "does not know"));
        }
        assert_non_null(strstr(weir_strerror(WEIR_ETLS + 1), "does not know"));
        assert_non_null(strstr(weir_strerror(-1), "does not know"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_answer_is_told_in_full),
                cmocka_unit_test(an_ask_says_what_it_was_given_and_nothing_else),
                cmocka_unit_test(an_answer_in_single_bytes_is_an_answer),
                cmocka_unit_test(nobody_there_fails_the_chosen_way),
                cmocka_unit_test(garbage_fails_the_chosen_way),
                cmocka_unit_test(an_endless_answer_is_cut_off),
                cmocka_unit_test(an_answer_that_ends_anywhere_is_none),
                cmocka_unit_test(silence_fails_the_chosen_way),
                cmocka_unit_test(errors_of_weir_fail_the_chosen_way),
                cmocka_unit_test(an_ask_that_is_not_taken_is_no_outage),
                cmocka_unit_test(asks_that_cannot_be_right_are_not_sent),
                cmocka_unit_test(the_token_goes_first_and_is_never_told),
                cmocka_unit_test(what_is_no_address_makes_no_handle),
                cmocka_unit_test(settings_have_bounds),
                cmocka_unit_test(every_error_has_a_sentence),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

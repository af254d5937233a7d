/* Who is starved and by whom, and the samples of /metrics. */
#include "check.h"

#include "client_box.h"

/* ---- the starved ---- */

static void asks_for(struct rig *rig, int seconds)
{
        for (int i = 0; i < seconds; i++) {
                rig_pass_ms(rig, 1000);
                refused(rig, "daily-etl");
                for (int k = 0; k < 10; k++)
                        granted(rig, "x:purge");
                granted(rig, "small");
                granted_on(rig, "stocktaking", 1); /* elsewhere */
                for (int k = 0; k < 20; k++)
                        granted_on(rig, "stocktaking", 1);
        }
        rig_turn(rig);
}

static void who_is_never_granted_is_starved_and_the_starver_is_named(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        asks_for(&rig, 300);
        assert_int_equal(clients_starved(rig.core), 0);
        assert_string_equal(rig_do(&rig, "STARVED"), "[]");
        asks_for(&rig, 3);
        assert_int_equal(clients_starved(rig.core), 1);
        has(rig_do(&rig, "THROTTLEHISTORY"),
            "event:'starved' message:'daily-etl has not been granted for 5 min (301 refusals, "
            "threshold); x:purge was granted ");
        const char *text = rig_do(&rig, "STARVED");
        has(text, "[{name:'daily-etl' since_ms:302000 asks:303 refused:303 reason:'threshold' "
                  "metric:'replication_lag' starver:'x:purge' starver_grants:");
        has(text, " target:'shop']]");
        unsigned long grants = strtoul(strstr(text, "grants:") + 7, NULL, 10);
        assert_in_range(grants, 2700, 3030); /* all but those of a span of 30 s */
        has(rig_do(&rig, "CLIENTS", "MATCH", "daily"), "waiting_ms:302000 starved:true");
        asks_for(&rig, 60);
        assert_null(strstr(strstr(rig_do(&rig, "THROTTLEHISTORY"), "event:'starved'") + 1,
                           "event:'starved'")); /* told once */
        release(&rig);
}

static void a_grant_ends_it_at_once(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        asks_for(&rig, 310);
        assert_int_equal(clients_starved(rig.core), 1);
        granted(&rig, "daily-etl");
        assert_int_equal(clients_starved(rig.core), 0);
        has(rig_do(&rig, "THROTTLEHISTORY"),
            "event:'starved_over' message:'daily-etl is granted again after 5 min (310 refusals)'");
        assert_string_equal(rig_do(&rig, "STARVED"), "[]");
        asks_for(&rig, 310);
        assert_int_equal(clients_starved(rig.core), 1);
        release(&rig);
}

static void who_asked_a_few_times_and_left_is_not_starved_however_short_the_time(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        rig.core->checks.starved_ms = 5000;
        for (int i = 0; i < 4; i++)
                refused(&rig, "gone");
        for (int i = 0; i < 20; i++) {
                rig_pass_ms(&rig, 1000);
                refused(&rig, "stays");
                rig_turn(&rig);
        }
        const char *text = rig_do(&rig, "STARVED");
        has(text, "name:'stays'");
        assert_null(strstr(text, "name:'gone'"));
        release(&rig);
}

static void who_asks_no_more_is_not_starved_after_five_minutes(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        asks_for(&rig, 310);
        for (int i = 0; i < 300; i++)
                rig_pass_ms(&rig, 1000);
        assert_int_equal(clients_starved(rig.core), 1);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(clients_starved(rig.core), 0);
        has(rig_do(&rig, "THROTTLEHISTORY"),
            "event:'starved_over' message:'daily-etl asks no more");
        assert_int_equal(clients_next_ns(rig.core), INT64_MAX);
        release(&rig);
}

static void who_comes_back_after_a_silence_has_not_waited_all_that_time(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        granted(&rig, "nightly");
        rig_pass_ms(&rig, 12 * HOUR);
        for (int i = 0; i < 10; i++) {
                refused(&rig, "nightly");
                rig_pass_ms(&rig, 1000);
        }
        assert_int_equal(clients_starved(rig.core), 0);
        has(rig_do(&rig, "CLIENTS"), "waiting_ms:10000 starved:false");
        release(&rig);
}

/* A job that asks every few minutes and is granted each time has not waited in between. */
static void the_time_counts_from_the_first_refusal_not_from_the_last_grant(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        granted(&rig, "hourly");
        rig_pass_ms(&rig, 4 * MINUTE + 50 * 1000);
        for (int i = 0; i < 299; i++) {
                refused(&rig, "hourly");
                rig_pass_ms(&rig, 1000);
        }
        assert_int_equal(clients_starved(rig.core), 0);
        has(rig_do(&rig, "CLIENTS"), "waiting_ms:299000 starved:false");
        for (int i = 0; i < 3; i++) {
                refused(&rig, "hourly");
                rig_pass_ms(&rig, 1000);
        }
        assert_int_equal(clients_starved(rig.core), 1);
        has(rig_do(&rig, "STARVED"), "name:'hourly' since_ms:302000 asks:302 refused:302");
        release(&rig);
}

/* The refusal of a parked ask began when it was parked. */
static void a_parked_ask_was_refused_when_it_was_parked(void **state)
{
        struct rig rig;
        struct check_verdict v = {.reason = CHECK_THRESHOLD, .value = -1};
        struct client_count count = counting(&v);
        (void)state;
        init(&rig);
        granted(&rig, "etl");
        rig_pass_ms(&rig, MINUTE);
        count.waited_ms = 40 * 1000;
        count_as(&rig, "etl", &count);
        has(rig_do(&rig, "CLIENTS"), "waiting_ms:40000 starved:false");
        release(&rig);
}

static void two_refusals_are_bad_luck(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        refused(&rig, "etl");
        rig_pass_ms(&rig, 4 * MINUTE);
        refused(&rig, "etl");
        rig_pass_ms(&rig, 4 * MINUTE);
        assert_int_equal(clients_starved(rig.core), 0);
        refused(&rig, "etl");
        rig_turn(&rig);
        assert_int_equal(clients_starved(rig.core), 1);
        has(rig_do(&rig, "THROTTLEHISTORY"), "(3 refusals, threshold); nobody was meanwhile");
        has(rig_do(&rig, "STARVED"), "starver:'' starver_grants:0");
        release(&rig);
}

static void long_waits_are_no_silence(void **state)
{
        struct rig rig;
        struct check_verdict v = {.reason = CHECK_THRESHOLD, .value = -1};
        struct client_count count = counting(&v);
        (void)state;
        init(&rig);
        count.waited_ms = 10 * MINUTE;
        for (int i = 0; i < 3; i++) {
                rig_pass_ms(&rig, 10 * MINUTE);
                count_as(&rig, "patient", &count);
        }
        rig_turn(&rig);
        assert_int_equal(clients_starved(rig.core), 1);
        has(rig_do(&rig, "STARVED"), "since_ms:1800000 asks:3");
        rig_pass_ms(&rig, 10 * MINUTE);
        assert_int_equal(clients_starved(rig.core), 1);
        release(&rig);
}

static void the_time_after_which_one_is_starved_can_be_set(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        rig.core->checks.starved_ms = 5000;
        asks_for(&rig, 5);
        assert_int_equal(clients_starved(rig.core), 0);
        asks_for(&rig, 2);
        assert_int_equal(clients_starved(rig.core), 1);
        has(rig_do(&rig, "STARVED"), "starver:'x:purge' starver_grants:60 ");
        rig_pass_ms(&rig, 1000);
        release(&rig);
}

static void long_names_are_cut_between_characters(void **state)
{
        struct rig rig;
        char name[128];
        size_t n = 0;
        (void)state;
        init(&rig);
        name[n++] = 'x';
        for (size_t i = 0; i < 60; i++) {
                if (i == 30)
                        name[n++] = ':';
                memcpy(name + n, "\xc3\xa4", 2);
                n += 2;
        }
        name[n] = '\0';
        for (int i = 0; i < 310; i++) {
                refused(&rig, name);
                rig_pass_ms(&rig, 1000);
        }
        assert_int_equal(clients_starved(rig.core), 1);
        const char *text = rig_do(&rig, "THROTTLEHISTORY");
        assert_true(slice_is_utf8(slice_str(text)));
        has(text, "... has not been granted for 5 min");
        release(&rig);
}

static void a_starved_one_that_is_dropped_is_told_as_over(void **state)
{
        struct rig rig;
        char name[32];
        (void)state;
        init(&rig);
        asks_for(&rig, 310);
        for (size_t i = 0; i < LIMIT_CLIENTS; i++) {
                (void)snprintf(name, sizeof(name), "n%zu", i);
                granted(&rig, name);
        }
        assert_int_equal(clients_starved(rig.core), 0);
        has(rig_do(&rig, "THROTTLEHISTORY"), "event:'starved_over'");
        release(&rig);
}

static void a_storm_of_starved_ones_is_worked_off_in_steps(void **state)
{
        struct rig rig;
        char name[32];
        (void)state;
        init(&rig);
        rig.core->checks.starved_ms = 5000;
        for (int s = 0; s < 12; s++) {
                for (size_t i = 0; i < 3000; i++) {
                        (void)snprintf(name, sizeof(name), "n%zu", i);
                        refused(&rig, name);
                }
                granted(&rig, "purge");
                rig_pass_ms(&rig, 1000);
                clients_check(rig.core->clients);
        }
        assert_int_equal(clients_starved(rig.core), 3000);
        has(rig_do(&rig, "STARVED"), "starver:'purge'");
        release(&rig);
}

static void one_turn_searches_for_a_few_starvers_and_the_next_for_more(void **state)
{
        struct rig rig;
        char name[32];
        (void)state;
        init(&rig);
        rig.core->checks.starved_ms = 5000;
        for (size_t i = 0; i < 20; i++) { /* each waits for another time: no search is shared */
                (void)snprintf(name, sizeof(name), "n%zu", i);
                refused(&rig, name);
                refused(&rig, name);
                rig_pass_ms(&rig, 1000);
        }
        rig_pass_ms(&rig, 6000);
        for (size_t i = 0; i < 20; i++) {
                (void)snprintf(name, sizeof(name), "n%zu", i);
                refused(&rig, name);
        }
        rig_turn(&rig);
        assert_int_equal(clients_starved(rig.core), 8);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(clients_starved(rig.core), 16);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(clients_starved(rig.core), 20);
        release(&rig);
}

/* ---- /metrics ---- */

static void collect(void *ctx, const char *name, const char *labels, double value)
{
        buf_printf(ctx, "%s{%s} %g\n", name, labels, value);
}

static void samples_have_escaped_labels_and_each_ask_once(void **state)
{
        struct rig rig;
        struct buf b;
        (void)state;
        init(&rig);
        buf_init(&b, 0);
        granted(&rig, "a\"b\\c:etl");
        observed(&rig, "a\"b\\c:etl");
        refused(&rig, "other"); /* has the name of the rest: is counted there */
        clients_each_sample(rig.core, collect, &b);
        const char *text = buf_cstr(&b);
        has(text, "check_asks_total{identity=\"a\\\"b\\\\c:etl\",verdict=\"granted\"} 1\n"
                  "check_asks_total{identity=\"a\\\"b\\\\c:etl\",verdict=\"observed\"} 1\n"
                  "check_asks_total{identity=\"a\\\"b\\\\c:etl\",verdict=\"refused\"} 0\n"
                  "check_asks_total{identity=\"other\",verdict=\"granted\"} 0\n"
                  "check_asks_total{identity=\"other\",verdict=\"observed\"} 0\n"
                  "check_asks_total{identity=\"other\",verdict=\"refused\"} 1\n"
                  "check_starved{} 0\n"
                  "check_clients{} 4\n");
        has_not(text, "identity=\"etl\"");
        buf_release(&b);
        release(&rig);
}

static void find_other(void *ctx, const char *name, const char *labels, double value)
{
        if (!strcmp(name, "check_asks_total") &&
            !strcmp(labels, "identity=\"other\",verdict=\"granted\""))
                *(double *)ctx = value;
}

static void what_is_told_of_the_rest_never_falls(void **state)
{
        struct rig rig;
        char name[32];
        double before = 0, other = 0;
        (void)state;
        init(&rig);
        for (size_t round = 1; round < 70; round++) {
                for (size_t i = 0; i < round; i++) {
                        (void)snprintf(name, sizeof(name), "n%zu", i % 2 ? i : round - i);
                        granted(&rig, name);
                }
                clients_each_sample(rig.core, find_other, &other);
                assert_true(other >= before);
                before = other;
        }
        assert_true(other > 0);
        release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(who_is_never_granted_is_starved_and_the_starver_is_named),
                cmocka_unit_test(a_grant_ends_it_at_once),
                cmocka_unit_test(
                        who_asked_a_few_times_and_left_is_not_starved_however_short_the_time),
                cmocka_unit_test(who_asks_no_more_is_not_starved_after_five_minutes),
                cmocka_unit_test(who_comes_back_after_a_silence_has_not_waited_all_that_time),
                cmocka_unit_test(the_time_counts_from_the_first_refusal_not_from_the_last_grant),
                cmocka_unit_test(a_parked_ask_was_refused_when_it_was_parked),
                cmocka_unit_test(two_refusals_are_bad_luck),
                cmocka_unit_test(long_waits_are_no_silence),
                cmocka_unit_test(the_time_after_which_one_is_starved_can_be_set),
                cmocka_unit_test(long_names_are_cut_between_characters),
                cmocka_unit_test(a_starved_one_that_is_dropped_is_told_as_over),
                cmocka_unit_test(a_storm_of_starved_ones_is_worked_off_in_steps),
                cmocka_unit_test(one_turn_searches_for_a_few_starvers_and_the_next_for_more),
                cmocka_unit_test(samples_have_escaped_labels_and_each_ask_once),
                cmocka_unit_test(what_is_told_of_the_rest_never_falls),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

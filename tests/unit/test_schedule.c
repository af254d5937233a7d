/* Schedules through the core, with a clock that is moved by hand: when a slot makes a job and when
 * not.  Random histories are in tests/prop/prop_schedule.c. */
#include "schedule_box.h"

static void fail_one(struct rig *rig)
{
        assert_true(rig_fail_next(rig, "default", "no") != 0);
}

/* ---- slots ---- */

static void an_interval_begins_after_one_interval_and_does_not_drift(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(
                rig_do(&rig, "SCHEDULE", "a", "hook", "{}", "EVERY", "60000", "OVERLAP", "allow"),
                "{created:true state:'active' next_ms:1700000060000]");
        rig_pass_ms(&rig, MINUTE - 1);
        assert_string_equal(slots(&rig), "");
        rig_pass_ms(&rig, 1);
        assert_string_equal(slots(&rig), "+60000");
        rig_pass_ms(&rig, MINUTE + 700); /* the loop was late */
        rig_pass_ms(&rig, MINUTE - 701);
        assert_string_equal(slots(&rig), "+60000 +120000");
        rig_pass_ms(&rig, 1);
        assert_string_equal(slots(&rig), "+60000 +120000 +180000");
        rig_release(&rig);
}

static void the_first_slot_can_be_given(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        has(rig_do(&rig, "SCHEDULE", "now", "h", "", "EVERY", "60000", "FIRST", "1700000000000",
                   "OVERLAP", "allow"),
            "next_ms:1700000000000]");
        has(rig_do(&rig, "SCHEDULE", "past", "h", "", "EVERY", "60000", "FIRST", "1699999990000"),
            "next_ms:1700000050000]");
        has(rig_do(&rig, "SCHEDULE", "later", "h", "", "EVERY", "60000", "FIRST", "1700000090000"),
            "next_ms:1700000090000]");
        has(rig_do(&rig, "SCHEDULE", "cron", "h", "", "CRON", "* * * * *", "FIRST",
                   "1700000200000"),
            "next_ms:1700000220000]");
        rig_turn(&rig);
        assert_string_equal(slots(&rig), "+0");
        rig_pass_ms(&rig, 50000);
        assert_string_equal(slots(&rig), "+0 +50000");
        rig_release(&rig);
}

static void a_cron_schedule_follows_its_zone(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        has(rig_do(&rig, "SCHEDULE", "utc", "h", "", "CRON", "0 9 * * *"),
            "next_ms:1700038800000]");
        has(rig_do(&rig, "SCHEDULE", "berlin", "h", "", "CRON", "0 9 * * *", "ZONE",
                   "Europe/Berlin"),
            "next_ms:1700035200000]");
        has(rig_do(&rig, "SCHEDULE", "seconds", "h", "", "CRON", "*/10 * * * * *"),
            "next_ms:1700000010000]");
        rig_release(&rig);
}

static void after_until_a_schedule_is_done(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "UNTIL", "1700000120000",
                     "OVERLAP", "allow");
        for (int i = 0; i < 5; i++)
                rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "+60000 +120000");
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'done'");
        has(rig_do(&rig, "SCHEDULED", "a"), "next_ms:null next:[]");
        restart(&rig);
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'done'");
        assert_string_equal(rig_do(&rig, "NEXTRUNS", "a"), "[]");
        /* Sent again as it was, it is no mistake; a new one that cannot run is. */
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "UNTIL", "1700000120000"),
            "state:'done' next_ms:null");
        refuses(rig_do(&rig, "SCHEDULE", "b", "h", "", "EVERY", "60000", "UNTIL", "1700000120000"),
                "BADARG", "never run");
        rig_release(&rig);
}

static void jitter_moves_the_job_and_not_the_slot(void **unused)
{
        (void)unused;
        struct rig rig;
        bool is_moved = false;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "JITTER", "10000", "OVERLAP",
                     "allow");
        for (int i = 0; i < 8; i++)
                rig_pass_ms(&rig, MINUTE);
        for (uint64_t id = 1; id <= 8; id++) {
                const struct job *job = state_job(&rig.core->state, id);
                int64_t slot = START + (int64_t)id * MINUTE;
                assert_int_equal(job->extra->options.slot_ms, slot);
                assert_in_range(job->due_ms, slot, slot + 10000);
                is_moved |= job->due_ms != slot;
        }
        assert_true(is_moved);
        rig_release(&rig);
}

static void the_next_runs_are_told_up_to_a_thousand(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "1000");
        assert_string_equal(rig_do(&rig, "NEXTRUNS", "a", "COUNT", "3"),
                            "[1700000001000 1700000002000 1700000003000]");
        const char *text = rig_do(&rig, "NEXTRUNS", "a", "COUNT", "1000");
        has(text, " 1700001000000]");
        refuses(rig_do(&rig, "NEXTRUNS", "a", "COUNT", "1001"), "BADARG", "1 to 1000");
        refuses(rig_do(&rig, "NEXTRUNS", "b"), "NOTFOUND", "no schedule 'b'");
        /* Of a paused one: as if it were resumed now. */
        (void)rig_do(&rig, "PAUSESCHEDULE", "a");
        rig_pass_ms(&rig, 10500);
        assert_string_equal(rig_do(&rig, "NEXTRUNS", "a", "COUNT", "1"), "[1700000011000]");
        rig_release(&rig);
}

static void times_are_tried_without_setting_anything(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(rig_do(&rig, "SCHEDULETRY", "CRON", "0 9 * * *", "ZONE",
                                   "Europe/Berlin", "COUNT", "2"),
                            "[1700035200000 1700121600000]");
        assert_string_equal(rig_do(&rig, "SCHEDULETRY", "EVERY", "60000", "COUNT", "2"),
                            "[1700000060000 1700000120000]");
        assert_string_equal(rig_do(&rig, "SCHEDULETRY", "EVERY", "60000", "FIRST", "1700000007000",
                                   "UNTIL", "1700000070000"),
                            "[1700000007000 1700000067000]");
        has(rig_do(&rig, "SCHEDULETRY", "EVERY", "1000", "COUNT", "1000"), " 1700001000000]");
        assert_int_equal(rig.core->state.things[THING_SCHEDULE].len, 0);
        assert_string_equal(slots(&rig), "");
        rig_release(&rig);
}

static void what_is_wrong_with_times_is_said_as_setting_them_would_say_it(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        refuses(rig_do(&rig, "SCHEDULETRY"), "BADARG", "cron or every is missing");
        refuses(rig_do(&rig, "SCHEDULETRY", "CRON", "60 * * * *"), "BADARG", "minute");
        refuses(rig_do(&rig, "SCHEDULETRY", "CRON", "0 0 30 2 *"), "BADARG", "no day of any year");
        refuses(rig_do(&rig, "SCHEDULETRY", "CRON", "@daily", "ZONE", "Atlantis/Center"), "BADARG",
                "Atlantis/Center");
        refuses(rig_do(&rig, "SCHEDULETRY", "CRON", "@daily", "EVERY", "1000"), "BADARG", "every");
        refuses(rig_do(&rig, "SCHEDULETRY", "EVERY", "1000", "ZONE", "UTC"), "BADARG",
                "zone goes with cron");
        refuses(rig_do(&rig, "SCHEDULETRY", "EVERY", "99"), "BADARG", "100 to");
        refuses(rig_do(&rig, "SCHEDULETRY", "EVERY", "1000", "UNTIL", "1000"), "BADARG",
                "never run");
        refuses(rig_do(&rig, "SCHEDULETRY", "EVERY", "1000", "COUNT", "1001"), "BADARG",
                "1 to 1000");
        rig_release(&rig);
}

/* The same times leave a schedule where it is, other times begin anew: a try says which it is. */
static void times_are_tried_in_place_of_those_of_a_schedule(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        rig_pass_ms(&rig, 40000);
        assert_string_equal(
                rig_do(&rig, "SCHEDULETRY", "EVERY", "60000", "NAME", "a", "COUNT", "1"),
                "[1700000060000]");
        assert_string_equal(
                rig_do(&rig, "SCHEDULETRY", "EVERY", "60000", "NAME", "b", "COUNT", "1"),
                "[1700000100000]");
        assert_string_equal(
                rig_do(&rig, "SCHEDULETRY", "EVERY", "30000", "NAME", "a", "COUNT", "1"),
                "[1700000070000]");
        assert_string_equal(rig_do(&rig, "NEXTRUNS", "a", "COUNT", "1"), "[1700000060000]");
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "30000"), "next_ms:1700000070000");
        rig_release(&rig);
}

/* ---- overlap ---- */

static void a_slot_is_skipped_while_the_job_before_has_not_ended(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        rig_pass_ms(&rig, MINUTE);
        rig_pass_ms(&rig, MINUTE);
        restart(&rig);
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "+60000");
        assert_int_equal(past(&rig, "a")->n_overlapped, 2);
        complete_one(&rig);
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "+240000");
        rig_release(&rig);
}

static void a_queued_job_waits_for_all_before_it(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "queue");
        for (int i = 0; i < 3; i++)
                rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "+60000 +120000 +180000");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "CLAIM", "w", "QUEUES", "default"), "[]");
        /* The middle one is canceled: the last still waits for the first. */
        assert_string_equal(rig_do(&rig, "CANCEL", "2"), "OK");
        assert_string_equal(rig_do(&rig, "CLAIM", "w", "QUEUES", "default"), "[]");
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "x", "RETRYIN", "0"), "'pending'");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        rig_turn(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 3);
        rig_release(&rig);
}

static void a_new_run_can_cancel_the_old_one(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "cancel");
        rig_pass_ms(&rig, MINUTE);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "+120000");
        starts_with(rig_do(&rig, "COMPLETE", "1", token), "!CANCELED");
        assert_int_equal(past(&rig, "a")->failures, 0);
        restart(&rig);
        assert_string_equal(slots(&rig), "+120000");
        rig_release(&rig);
}

/* ---- failures ---- */

static void make_failing(struct rig *rig, const char *stop_after)
{
        rig_init(rig);
        say_setup(SAY_ERROR, false);
        (void)rig_do(rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "ATTEMPTS", "1", "STOPAFTER",
                     stop_after);
}

static void failures_in_a_row_stop_a_schedule_until_it_is_resumed(void **unused)
{
        (void)unused;
        struct rig rig;
        make_failing(&rig, "3");
        for (int i = 0; i < 2; i++) {
                rig_pass_ms(&rig, MINUTE);
                fail_one(&rig);
        }
        rig_pass_ms(&rig, MINUTE);
        complete_one(&rig); /* the row is broken */
        assert_int_equal(past(&rig, "a")->failures, 0);
        for (int i = 0; i < 3; i++) {
                rig_pass_ms(&rig, MINUTE);
                fail_one(&rig);
        }
        restart(&rig);
        const char *text = rig_do(&rig, "SCHEDULED", "a");
        has(text, "state:'stopped' reason:'3 jobs in a row have failed, the last was job 6'");
        has(text, "next_ms:null");
        rig_pass_ms(&rig, HOUR);
        assert_string_equal(slots(&rig), "");
        assert_string_equal(rig_do(&rig, "RESUMESCHEDULE", "a"), "OK");
        assert_int_equal(past(&rig, "a")->failures, 0);
        restart(&rig);
        assert_string_equal(slots(&rig), ""); /* what went by is not made up for */
        rig_pass_ms(&rig, MINUTE);
        assert_int_equal(past(&rig, "a")->last_slot_ms, START + HOUR + 7 * MINUTE);
        rig_release(&rig);
}

static void without_a_bound_a_schedule_never_stops(void **unused)
{
        (void)unused;
        struct rig rig;
        make_failing(&rig, "0");
        for (int i = 0; i < 20; i++) {
                rig_pass_ms(&rig, MINUTE);
                fail_one(&rig);
        }
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'active'");
        assert_int_equal(past(&rig, "a")->failures, 20);
        rig_release(&rig);
}

static void five_failures_stop_it_unless_said_otherwise(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "ATTEMPTS", "1");
        for (int i = 0; i < 5; i++) {
                has(rig_do(&rig, "SCHEDULED", "a"), "state:'active'");
                rig_pass_ms(&rig, MINUTE);
                fail_one(&rig);
        }
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'stopped'");
        rig_release(&rig);
}

static void a_late_completion_takes_the_stop_back(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        make_failing(&rig, "1");
        rig_pass_ms(&rig, MINUTE);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig_pass_ms(&rig, 300001); /* the lease is over, and with it the only attempt */
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'stopped'");
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'active'");
        assert_int_equal(past(&rig, "a")->failures, 0);
        restart(&rig);
        rig_pass_ms(&rig, MINUTE);
        assert_int_equal(n_live(&rig), 1);
        rig_release(&rig);
}

static void jobs_of_an_older_definition_do_not_count(void **unused)
{
        (void)unused;
        struct rig rig;
        make_failing(&rig, "1");
        rig_pass_ms(&rig, MINUTE);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "ATTEMPTS", "1", "STOPAFTER",
                     "1");
        fail_one(&rig);
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'active'");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_interval_begins_after_one_interval_and_does_not_drift),
                cmocka_unit_test(the_first_slot_can_be_given),
                cmocka_unit_test(a_cron_schedule_follows_its_zone),
                cmocka_unit_test(after_until_a_schedule_is_done),
                cmocka_unit_test(jitter_moves_the_job_and_not_the_slot),
                cmocka_unit_test(the_next_runs_are_told_up_to_a_thousand),
                cmocka_unit_test(times_are_tried_without_setting_anything),
                cmocka_unit_test(what_is_wrong_with_times_is_said_as_setting_them_would_say_it),
                cmocka_unit_test(times_are_tried_in_place_of_those_of_a_schedule),
                cmocka_unit_test(a_slot_is_skipped_while_the_job_before_has_not_ended),
                cmocka_unit_test(a_queued_job_waits_for_all_before_it),
                cmocka_unit_test(a_new_run_can_cancel_the_old_one),
                cmocka_unit_test(failures_in_a_row_stop_a_schedule_until_it_is_resumed),
                cmocka_unit_test(without_a_bound_a_schedule_never_stops),
                cmocka_unit_test(five_failures_stop_it_unless_said_otherwise),
                cmocka_unit_test(a_late_completion_takes_the_stop_back),
                cmocka_unit_test(jobs_of_an_older_definition_do_not_count),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

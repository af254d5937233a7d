/* Slots that came while weir was down, and clocks that jump. */
#include "schedule_box.h"

/* ---- missed ---- */

static void away(struct rig *rig, const char *missed, const char *window, int64_t ms)
{
        rig_init(rig);
        if (window)
                (void)rig_do(rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "allow",
                             "MISSED", missed, "WINDOW", window);
        else
                (void)rig_do(rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "allow",
                             "MISSED", missed);
        set_clock(rig, START + ms);
}

static void skip_makes_a_job_for_the_newest_slot_if_that_is_not_long_ago(void **unused)
{
        (void)unused;
        struct rig rig;
        away(&rig, "skip", NULL, 10 * MINUTE + 30000);
        assert_string_equal(slots(&rig), "+600000");
        assert_int_equal(past(&rig, "a")->n_missed, 9);
        rig_release(&rig);
        away(&rig, "skip", "20000", 10 * MINUTE + 20000);
        assert_string_equal(slots(&rig), "+600000");
        rig_release(&rig);
        away(&rig, "skip", "20000", 10 * MINUTE + 20001);
        assert_string_equal(slots(&rig), "");
        assert_int_equal(past(&rig, "a")->n_missed, 10);
        rig_pass_ms(&rig, MINUTE - 20001);
        assert_string_equal(slots(&rig), "+660000");
        rig_release(&rig);
}

static void one_makes_one_job_however_long_it_was(void **unused)
{
        (void)unused;
        struct rig rig;
        away(&rig, "one", NULL, 1000 * DAY + 30000);
        assert_string_equal(slots(&rig), "+86400000000");
        assert_int_equal(past(&rig, "a")->n_missed, 1000 * 1440 - 1);
        rig_release(&rig);
        away(&rig, "one", "1000", 10 * MINUTE + 1001);
        assert_string_equal(slots(&rig), "");
        rig_release(&rig);
}

static void all_makes_one_job_for_each_slot_within_the_window(void **unused)
{
        (void)unused;
        struct rig rig;
        away(&rig, "all", NULL, 5 * MINUTE);
        assert_string_equal(slots(&rig), "+60000 +120000 +180000 +240000 +300000");
        assert_int_equal(past(&rig, "a")->n_missed, 0);
        rig_release(&rig);
        away(&rig, "all", "120000", 5 * MINUTE);
        assert_string_equal(slots(&rig), "+180000 +240000 +300000");
        assert_int_equal(past(&rig, "a")->n_missed, 2);
        rig_release(&rig);
        away(&rig, "all", NULL, 10 * DAY);
        assert_int_equal(n_live(&rig), 1441); /* the ends of the day both count */
        assert_int_equal(past(&rig, "a")->n_missed, 9 * 1440 - 1);
        rig_release(&rig);
}

static void a_turn_makes_a_bounded_number_of_jobs(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "1000", "OVERLAP", "allow", "MISSED",
                     "all");
        rig_pass_ms(&rig, 5000 * 1000);
        assert_int_equal(n_live(&rig), 2000);
        assert_true(core_next_ns(rig.core) <= rig.now.steady_ns);
        rig_turn(&rig);
        rig_turn(&rig);
        rig_turn(&rig);
        assert_int_equal(n_live(&rig), 5000);
        rig_release(&rig);
}

static void a_year_of_cron_seconds_is_passed_over_at_once(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "CRON", "* * * * * *");
        set_clock(&rig, START + 365 * DAY + 500);
        assert_string_equal(slots(&rig), "+31536000000");
        assert_int_equal(past(&rig, "a")->cursor_ms, START + 365 * DAY);
        rig_release(&rig);
}

/* ---- the clock ---- */

static void a_clock_that_goes_back_fires_no_slot_again(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "allow", "MISSED",
                     "all");
        set_clock(&rig, START + 3 * MINUTE);
        set_clock(&rig, START - HOUR);
        set_clock(&rig, START + 3 * MINUTE);
        restart(&rig);
        assert_string_equal(slots(&rig), "+60000 +120000 +180000");
        set_clock(&rig, START + 4 * MINUTE);
        assert_string_equal(slots(&rig), "+60000 +120000 +180000 +240000");
        rig_release(&rig);
}

static void a_restart_between_slots_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "CRON", "* * * * *", "OVERLAP", "allow",
                     "MISSED", "all");
        for (int i = 0; i < 20; i++) {
                restart(&rig);
                rig_pass_ms(&rig, MINUTE / 4);
        }
        assert_string_equal(slots(&rig), "+40000 +100000 +160000 +220000 +280000");
        rig_release(&rig);
}

static void a_clock_of_another_age_does_no_harm(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "allow");
        set_clock(&rig, 1000); /* 1970 */
        restart(&rig);
        has(rig_do(&rig, "SCHEDULE", "old", "h", "", "CRON", "* * * * *"), "next_ms:60000]");
        set_clock(&rig, 40000000000000); /* the year 3237 */
        refuses(rig_do(&rig, "SCHEDULE", "new", "h", "", "EVERY", "1000"), "BADARG", "never run");
        (void)rig_do(&rig, "PAUSESCHEDULE", "old");
        (void)rig_do(&rig, "RESUMESCHEDULE", "old");
        restart(&rig);
        set_clock(&rig, START + MINUTE);
        restart(&rig);
        assert_string_equal(slots(&rig), ""); /* all of its time is over */
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'done'");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(skip_makes_a_job_for_the_newest_slot_if_that_is_not_long_ago),
                cmocka_unit_test(one_makes_one_job_however_long_it_was),
                cmocka_unit_test(all_makes_one_job_for_each_slot_within_the_window),
                cmocka_unit_test(a_turn_makes_a_bounded_number_of_jobs),
                cmocka_unit_test(a_year_of_cron_seconds_is_passed_over_at_once),
                cmocka_unit_test(a_clock_that_goes_back_fires_no_slot_again),
                cmocka_unit_test(a_restart_between_slots_changes_nothing),
                cmocka_unit_test(a_clock_of_another_age_does_no_harm),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

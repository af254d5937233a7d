/* Schedules through the core, with a clock that is moved by hand: when a slot makes a job and when
 * not, what a restart and a jump of the clock change (nothing), and what is refused.  Random
 * histories are in tests/prop/prop_schedule.c. */
#include "unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/say.h"
#include "core/inside.h"
#include "core/schedule.h"
#include "state/schedule.h"
#include "support/rig.h"

#define START  1700000000000 /* of the rig: 2023-11-14 22:13:20 UTC, a Tuesday */
#define MINUTE 60000
#define HOUR   3600000
#define DAY    86400000LL

static void has(const char *text, const char *part)
{
        if (!strstr(text, part))
                fail_msg("'%s' does not hold '%s'", text, part);
}

static void refuses(const char *text, const char *code, const char *part)
{
        if (text[0] != '!' || strncmp(text + 1, code, strlen(code)) != 0)
                fail_msg("'%s' is no %s", text, code);
        has(text, part);
}

static struct schedule *find(struct rig *rig, const char *name)
{
        struct thing *t = thing_find(&rig->core->state, THING_SCHEDULE, slice_str(name));
        return t && thing_is_durable(t) ? schedule_of(t) : NULL;
}

static const struct schedule_past *past(struct rig *rig, const char *name)
{
        assert_non_null(find(rig, name));
        return &find(rig, name)->past;
}

/* The slots of the live jobs as "+60000 +120000", counted from the start; "run" has none. */
static const char *slots(struct rig *rig)
{
        static char text[4096];
        size_t at = 0;
        uint64_t id = 0;
        text[0] = '\0';
        for (struct job *job; (job = idmap_next(&rig->core->state.jobs, id, &id)); id++) {
                if (job->state == JOB_FINISHED || !job->extra || !job->extra->schedule)
                        continue;
                int64_t slot = (int64_t)job->extra->options.slot_ms;
                const char *space = at ? " " : "";
                int n = slot ? snprintf(text + at, sizeof(text) - at, "%s+%lld", space,
                                        (long long)(slot - START))
                             : snprintf(text + at, sizeof(text) - at, "%srun", space);
                at += (size_t)n;
                assert_true(at < sizeof(text));
        }
        return text;
}

static size_t n_live(const struct rig *rig)
{
        return rig->core->state.jobs.len - rig->core->state.n_finished;
}

static uint64_t digest(const struct rig *rig)
{
        state_check(&rig->core->state);
        return state_digest(&rig->core->state);
}

static void restart(struct rig *rig)
{
        uint64_t before = digest(rig);
        rig_restart(rig);
        assert_true(before == digest(rig));
        rig_turn(rig);
}

/* The wall clock is set; steady time passes a little. */
static void set_clock(struct rig *rig, int64_t wall_ms)
{
        rig->now.wall_ms = wall_ms;
        rig->now.steady_ns += NS_PER_MS;
        for (int i = 0; i < 5; i++)
                rig_turn(rig);
}

static void complete_one(struct rig *rig)
{
        char token[33], id[24];
        uint64_t n = rig_claim(rig, "w", "default", token);
        assert_true(n != 0);
        (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)n);
        assert_string_equal(rig_do(rig, "COMPLETE", id, token), "OK");
}

static void fail_one(struct rig *rig)
{
        char token[33], id[24];
        uint64_t n = rig_claim(rig, "w", "default", token);
        assert_true(n != 0);
        (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)n);
        assert_string_equal(rig_do(rig, "FAIL", id, token, "no"), "'failed'");
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
        refuses(rig_do(&rig, "COMPLETE", "1", token), "CANCELED", "");
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

/* ---- commands ---- */

static void the_same_schedule_again_stays_where_it_is(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "allow");
        rig_pass_ms(&rig, 90000);
        assert_string_equal(rig_do(&rig, "SCHEDULE", "a", "other", "{}", "EVERY", "60000",
                                   "OVERLAP", "allow", "PRIORITY", "7"),
                            "{created:false state:'active' next_ms:1700000120000]");
        rig_pass_ms(&rig, 30000);
        assert_string_equal(slots(&rig), "+60000 +120000");
        has(rig_do(&rig, "SCHEDULED", "a"), "hook:'other' args:'{}' queue:'default' group:null "
                                            "priority:7");
        /* Other times begin anew. */
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "50000"), "next_ms:1700000170000]");
        restart(&rig);
        assert_int_equal(past(&rig, "a")->n_jobs, 2);
        rig_release(&rig);
}

static void new_times_never_go_behind_a_slot_that_was_served(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "OVERLAP", "allow");
        rig_pass_ms(&rig, MINUTE);
        set_clock(&rig, START);
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "30000", "FIRST", "1700000030000"),
            "next_ms:1700000090000]");
        rig_release(&rig);
}

static void a_paused_schedule_makes_nothing_and_makes_nothing_up(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "MISSED", "all", "OVERLAP",
                     "allow");
        assert_string_equal(rig_do(&rig, "PAUSESCHEDULE", "a"), "OK");
        assert_string_equal(rig_do(&rig, "PAUSESCHEDULE", "a"), "OK");
        rig_pass_ms(&rig, HOUR);
        restart(&rig);
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'paused' reason:null");
        /* A new definition leaves it paused. */
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "MISSED", "all", "OVERLAP",
                   "allow"),
            "state:'paused' next_ms:null");
        assert_string_equal(rig_do(&rig, "RESUMESCHEDULE", "a"), "OK");
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "+3660000");
        rig_release(&rig);
}

static void a_run_outside_the_slots_moves_none(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        assert_string_equal(rig_do(&rig, "RUNSCHEDULE", "a"), "1");
        assert_string_equal(rig_do(&rig, "RUNSCHEDULE", "a"), "2");
        rig_pass_ms(&rig, MINUTE); /* both have not ended: skipped */
        assert_string_equal(slots(&rig), "run run");
        complete_one(&rig);
        rig_pass_ms(&rig, MINUTE);
        assert_int_equal(past(&rig, "a")->n_overlapped, 2);
        complete_one(&rig);
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "+180000");
        rig_release(&rig);
}

static void a_removed_schedule_leaves_its_jobs_and_a_new_one_begins_anew(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(rig_do(&rig, "UNSCHEDULE", "a"), "OK");
        refuses(rig_do(&rig, "UNSCHEDULE", "a"), "NOTFOUND", "no schedule 'a'");
        refuses(rig_do(&rig, "SCHEDULED", "a"), "NOTFOUND", "no schedule 'a'");
        assert_string_equal(rig_do(&rig, "SCHEDULES"), "{schedules:[] cursor:'']");
        rig_pass_ms(&rig, HOUR);
        restart(&rig);
        assert_string_equal(slots(&rig), "+60000");
        assert_string_equal(rig_do(&rig, "SCHEDULES"), "{schedules:[] cursor:'']");
        has(rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000"), "{created:true");
        rig_pass_ms(&rig, MINUTE); /* the old job has not ended */
        assert_int_equal(past(&rig, "a")->n_overlapped, 1);
        complete_one(&rig);
        (void)rig_do(&rig, "UNSCHEDULE", "a");
        memory_archive_commit(&rig.archive, 10);
        rig_turn(&rig);
        assert_null(thing_find(&rig.core->state, THING_SCHEDULE, SLICE_LIT("a")));
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void what_it_makes_is_as_enqueue_would_make_it(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "hook", "{\"x\":1}", "EVERY", "60000", "QUEUE", "q",
                     "GROUP", "g", "PRIORITY", "3", "TIMEOUT", "5000", "ATTEMPTS", "4", "BACKOFF",
                     "fixed:5s", "KEY", "k", "KEYMAX", "2", "LIMIT", "l", "TARGET", "t", "EXPIRES",
                     "90000", "RESULTFOR", "1000", "SIGNATURE", "k1:00");
        restart(&rig);
        rig_pass_ms(&rig, MINUTE);
        const struct job *job = state_job(&rig.core->state, 1);
        const struct job_options *o = &job->extra->options;
        assert_true(slice_eq(name_slice(job->hook), SLICE_LIT("hook")));
        assert_true(slice_eq(slice_make(job->args, job->args_len), SLICE_LIT("{\"x\":1}")));
        assert_true(slice_eq(name_slice(job->queue->name), SLICE_LIT("q")));
        assert_true(slice_eq(name_slice(job->group), SLICE_LIT("g")));
        assert_int_equal(job->priority, 3);
        assert_int_equal(job->timeout_ms, 5000);
        assert_int_equal(job->attempts_max, 4);
        assert_true(o->backoff.len > 0);
        assert_true(slice_eq(o->key, SLICE_LIT("k")));
        assert_int_equal(o->key_max, 2);
        assert_true(slice_eq(o->limit, SLICE_LIT("l")));
        assert_true(slice_eq(o->target, SLICE_LIT("t")));
        assert_int_equal(o->expires_ms, START + MINUTE + 90000);
        assert_int_equal(o->result_ms, 1000);
        assert_true(slice_eq(o->signature, SLICE_LIT("k1:00")));
        assert_true(slice_eq(o->schedule, SLICE_LIT("a")));
        has(rig_do(&rig, "SCHEDULED", "a"), "backoff:'fixed:5s' key:'k' key_max:2 limit:'l'");
        rig_release(&rig);
}

static void what_cannot_be_is_refused_and_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        uint64_t before = digest(&rig);
        const struct {
                const char *words[8];
                const char *part;
        } wrong[] = {
                {{NULL}, "cron or every is missing"},
                {{"CRON", "* * * * *", "EVERY", "1000", NULL}, "cannot both be given"},
                {{"CRON", "0 0 30 2 *", NULL}, "day"},
                {{"CRON", "61 * * * *", NULL}, "minute"},
                {{"CRON", "", NULL}, "cron"},
                {{"CRON", "* * * * *", "ZONE", "Mars/Olympus", NULL}, "Mars/Olympus"},
                {{"CRON", "* * * * *", "ZONE", "../etc/passwd", NULL}, ""},
                {{"EVERY", "1000", "ZONE", "UTC", NULL}, "zone goes with cron"},
                {{"EVERY", "99", NULL}, "every must be 100 to"},
                {{"EVERY", "-5", NULL}, "every must be 100 to"},
                {{"EVERY", "1000", "FIRST", "5000", "UNTIL", "4000", NULL}, "until is before"},
                {{"EVERY", "1000", "UNTIL", "5000", NULL}, "never run"},
                {{"EVERY", "1000", "MISSED", "some", NULL}, "skip|one|all"},
                {{"EVERY", "1000", "OVERLAP", "no", NULL}, "skip|queue|allow|cancel"},
                {{"EVERY", "1000", "BACKOFF", "soon", NULL}, "backoff"},
                {{"EVERY", "1000", "KEYMAX", "3", NULL}, "keymax needs key"},
                {{"EVERY", "1000", "WINDOW", "0", NULL}, "window must be 1 to"},
                {{"EVERY", "1000", "STOPAFTER", "1001", NULL}, "stopafter must be 0 to 1000"},
                {{"EVERY", "1000", "JITTER", "86400001", NULL}, "jitter must be 0 to 86400000"},
        };
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                struct slice argv[16] = {SLICE_LIT("SCHEDULE"), SLICE_LIT("a"), SLICE_LIT("h"),
                                         SLICE_LIT("")};
                size_t n = 4;
                for (size_t j = 0; wrong[i].words[j]; j++)
                        argv[n++] = slice_str(wrong[i].words[j]);
                refuses(rig_argv(&rig, &rig.me, argv, n), "BADARG", wrong[i].part);
                assert_true(digest(&rig) == before);
        }
        refuses(rig_do(&rig, "PAUSESCHEDULE", "b"), "NOTFOUND", "no schedule 'b'");
        refuses(rig_do(&rig, "RESUMESCHEDULE", "b"), "NOTFOUND", "no schedule 'b'");
        refuses(rig_do(&rig, "RUNSCHEDULE", "b"), "NOTFOUND", "no schedule 'b'");
        assert_true(digest(&rig) == before);
        rig_release(&rig);
}

static void schedules_are_listed_by_name_page_by_page(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        static const char *const names[] = {"c", "a", "bb", "b"};
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                (void)rig_do(&rig, "SCHEDULE", names[i], "h", "", "EVERY", "60000");
        const char *text = rig_do(&rig, "SCHEDULES", "LIMIT", "2");
        has(text, "{schedules:[{name:'a' state:'active' hook:'h' queue:'default' cron:null "
                  "every_ms:60000 zone:null next_ms:1700000060000 last_slot_ms:null "
                  "last_job:null failures:0] {name:'b'");
        has(text, "cursor:'b']");
        text = rig_do(&rig, "SCHEDULES", "LIMIT", "2", "CURSOR", "b");
        has(text, "{schedules:[{name:'bb'");
        has(text, "{name:'c'");
        has(text, "cursor:'']");
        text = rig_do(&rig, "SCHEDULES", "MATCH", "b");
        has(text, "{name:'b'");
        assert_null(strstr(text, "{name:'c'"));
        rig_release(&rig);
}

static void there_can_be_as_many_schedules_as_the_limit_says(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[24];
        rig_init(&rig);
        say_setup(SAY_ERROR, false);
        for (int i = 0; i < LIMIT_SCHEDULES; i++) {
                (void)snprintf(name, sizeof(name), "s%d", i);
                has(rig_do(&rig, "SCHEDULE", name, "h", "", "EVERY", "60000"), "{created:true");
        }
        refuses(rig_do(&rig, "SCHEDULE", "more", "h", "", "EVERY", "60000"), "LIMIT", "10000");
        has(rig_do(&rig, "SCHEDULE", "s5", "h", "", "EVERY", "60000"), "{created:false");
        (void)rig_do(&rig, "UNSCHEDULE", "s5");
        has(rig_do(&rig, "SCHEDULE", "more", "h", "", "EVERY", "60000"), "{created:true");
        rig_release(&rig);
}

/* ---- trouble ---- */

static void a_full_disk_puts_a_slot_off_and_does_not_lose_it(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        say_setup(SAY_ERROR, false);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "EVERY", "60000");
        struct log_stat before = rig.log.stat;
        rig.log.stat.is_disk_full = true;
        rig.log.stat.room_bytes = 0;
        rig_pass_ms(&rig, MINUTE);
        assert_string_equal(slots(&rig), "");
        has(rig_do(&rig, "SCHEDULED", "a"), "reason:'the disk is full");
        rig_pass_ms(&rig, 5000);
        rig.log.stat = before;
        rig_pass_ms(&rig, 1000);
        assert_string_equal(slots(&rig), "+60000");
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'active' reason:null");
        rig_release(&rig);
}

static bool sets(struct rig *rig, struct thing *t, struct slice body)
{
        return schedule_ops.set(&rig->core->state, t, body);
}

static void a_body_that_cannot_be_is_refused(void **unused)
{
        (void)unused;
        struct rig rig;
        struct buf body CLEANUP(buf_release);
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "hook", "args", "CRON", "* * * * *", "KEY", "k");
        struct thing *t = &find(&rig, "a")->thing;
        buf_init(&body, 0);
        schedule_ops.put(t, &body);
        for (size_t n = 1; n < body.len; n++)
                assert_false(sets(&rig, t, slice_make(body.ptr, n)));
        buf_put_byte(&body, 'x');
        assert_false(sets(&rig, t, buf_slice(&body)));
        body.len--;
        assert_true(sets(&rig, t, buf_slice(&body)));
        for (char op = 0; op < 8; op++)
                assert_false(schedule_ops.note(&rig.core->state, t,
                                               slice_make(((char[]){op, 1, 1, 1, 1, 1}), 6)));
        assert_false(schedule_ops.note(&rig.core->state, t, SLICE_NONE));
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void a_zone_that_is_gone_stops_the_schedule_and_not_weir(void **unused)
{
        (void)unused;
        struct rig rig;
        struct buf body CLEANUP(buf_release);
        rig_init(&rig);
        (void)rig_do(&rig, "SCHEDULE", "a", "h", "", "CRON", "* * * * *");
        struct schedule *sch = find(&rig, "a");
        struct schedule_def def = sch->def;
        def.zone = SLICE_LIT("Gone/Away");
        buf_init(&body, 0);
        schedule_put(&def, &sch->past, &body);
        thing_set(rig.core, THING_SCHEDULE, SLICE_LIT("a"), buf_slice(&body));
        rig_turn(&rig);
        restart(&rig);
        has(rig_do(&rig, "SCHEDULED", "a"), "state:'active' reason:'");
        has(rig_do(&rig, "SCHEDULED", "a"), "Gone/Away");
        rig_pass_ms(&rig, HOUR);
        assert_string_equal(slots(&rig), "");
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
                cmocka_unit_test(skip_makes_a_job_for_the_newest_slot_if_that_is_not_long_ago),
                cmocka_unit_test(one_makes_one_job_however_long_it_was),
                cmocka_unit_test(all_makes_one_job_for_each_slot_within_the_window),
                cmocka_unit_test(a_turn_makes_a_bounded_number_of_jobs),
                cmocka_unit_test(a_year_of_cron_seconds_is_passed_over_at_once),
                cmocka_unit_test(a_clock_that_goes_back_fires_no_slot_again),
                cmocka_unit_test(a_restart_between_slots_changes_nothing),
                cmocka_unit_test(a_clock_of_another_age_does_no_harm),
                cmocka_unit_test(a_slot_is_skipped_while_the_job_before_has_not_ended),
                cmocka_unit_test(a_queued_job_waits_for_all_before_it),
                cmocka_unit_test(a_new_run_can_cancel_the_old_one),
                cmocka_unit_test(failures_in_a_row_stop_a_schedule_until_it_is_resumed),
                cmocka_unit_test(without_a_bound_a_schedule_never_stops),
                cmocka_unit_test(five_failures_stop_it_unless_said_otherwise),
                cmocka_unit_test(a_late_completion_takes_the_stop_back),
                cmocka_unit_test(jobs_of_an_older_definition_do_not_count),
                cmocka_unit_test(the_same_schedule_again_stays_where_it_is),
                cmocka_unit_test(new_times_never_go_behind_a_slot_that_was_served),
                cmocka_unit_test(a_paused_schedule_makes_nothing_and_makes_nothing_up),
                cmocka_unit_test(a_run_outside_the_slots_moves_none),
                cmocka_unit_test(a_removed_schedule_leaves_its_jobs_and_a_new_one_begins_anew),
                cmocka_unit_test(what_it_makes_is_as_enqueue_would_make_it),
                cmocka_unit_test(what_cannot_be_is_refused_and_changes_nothing),
                cmocka_unit_test(schedules_are_listed_by_name_page_by_page),
                cmocka_unit_test(there_can_be_as_many_schedules_as_the_limit_says),
                cmocka_unit_test(a_full_disk_puts_a_slot_off_and_does_not_lose_it),
                cmocka_unit_test(a_body_that_cannot_be_is_refused),
                cmocka_unit_test(a_zone_that_is_gone_stops_the_schedule_and_not_weir),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

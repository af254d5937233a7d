/* What a job may carry: unique keys, shared keys, dependencies, an end, backoff; and what a queue
 * may be set to.  Each through the commands, with the clock moved by hand, and again after a
 * restart from the log. */
#include "check.h"

#include <stdio.h>

#include "core/kernel.h"
#include "support/rig.h"

/* What the log holds must be what is true. */
static void restart_and_compare(struct rig *rig)
{
        rig_turn(rig);
        assert_true(rig_replays(rig));
        rig_turn(rig);
}

/* ---- maxrun ---- */

static const char *status_of(struct rig *rig, const char *id)
{
        const char *text = rig_do(rig, "JOB", id);
        static const char *const words[] = {"in-progress", "pending", "failed", "complete"};
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                if (strstr(text, words[i]))
                        return words[i];
        return text;
}

static void maxrun_ends_an_attempt_however_often_its_lease_is_extended(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        struct rng dice;
        rng_init_seed(&dice, 1);
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "MAXRUN", "10000", "TIMEOUT", "4000", "ATTEMPTS", "2",
               "BACKOFF", "none");
        for (int attempt = 1; attempt <= 2; attempt++) {
                assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
                for (int second = 3; second < 10; second += 3) {
                        rig_pass_ms(&rig, 3000);
                        assert_string_equal(rig_do(&rig, "EXTEND", "1", token, "4000"), "OK");
                        restart_and_compare(&rig);
                        rig_fall_behind(&rig, &dice);
                }
                rig_pass_ms(&rig, 999);
                assert_string_equal(status_of(&rig, "1"), "in-progress");
                rig_pass_ms(&rig, 1);
                assert_string_equal(status_of(&rig, "1"), attempt == 1 ? "pending" : "failed");
        }
        assert_non_null(strstr(rig_do(&rig, "EVENTS", "1"), "as long as its MAXRUN allows"));
        rig_release(&rig);
}

static void a_lease_is_no_longer_than_maxrun_and_ends_as_before_when_shorter(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "MAXRUN", "1000", "TIMEOUT", "60000", "ATTEMPTS", "1");
        rig_do(&rig, "ENQUEUE", "h", "", "MAXRUN", "60000", "TIMEOUT", "1000", "ATTEMPTS", "1");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        rig_pass_ms(&rig, 1000);
        assert_string_equal(status_of(&rig, "1"), "failed");
        assert_string_equal(status_of(&rig, "2"), "failed");
        assert_non_null(strstr(rig_do(&rig, "EVENTS", "1"), "MAXRUN"));
        assert_null(strstr(rig_do(&rig, "EVENTS", "2"), "MAXRUN"));
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "MAXRUN", "99"), "!BADARG");
        rig_release(&rig);
}

/* ---- the backoff of a queue that sets none ---- */

/* How long the job that just failed waits, found by trying: ms. */
static int64_t waits_for(struct rig *rig)
{
        char token[RIG_TOKEN];
        int64_t ms = 0;
        for (; !rig_claim(rig, "w", "default", token) && ms < 600000; ms += 50)
                rig_pass_ms(rig, 50);
        rig_do(rig, "FAIL", "1", token, "again");
        return ms;
}

static void a_queue_without_a_backoff_has_the_default_and_none_stays_none(void **unused)
{
        (void)unused;
        struct rig rig;
        struct backoff usual = backoff_default();
        rig_init(&rig);
        rig.options.backoff = &usual;
        rig_restart(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "ATTEMPTS", "1000");
        assert_int_equal(waits_for(&rig), 0);
        assert_in_range(waits_for(&rig), 4250, 5800); /* 5 s, and 15 % either way */
        assert_in_range(waits_for(&rig), 8500, 11550);
        assert_non_null(strstr(rig_do(&rig, "QUEUE", "default"), "exp:5s,2,5m,15%"));
        assert_string_equal(rig_do(&rig, "QUEUESET", "default", "BACKOFF", "none"), "OK");
        (void)waits_for(&rig); /* what was decided before */
        restart_and_compare(&rig);
        assert_int_equal(waits_for(&rig), 0);
        assert_int_equal(waits_for(&rig), 0);
        assert_null(strstr(rig_do(&rig, "QUEUE", "default"), "exp:"));
        assert_string_equal(rig_do(&rig, "QUEUESET", "default", "BACKOFF", "default"), "OK");
        (void)waits_for(&rig);
        assert_in_range(waits_for(&rig), 4250, 345000);
        rig_release(&rig);
}

/* ---- unique keys ---- */

static void a_unique_key_is_answered_with_its_first_job(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "1", "UNIQUE", "k"), "1");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "2", "UNIQUE", "k"), "1");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "3", "UNIQUE", "other"), "2");
        restart_and_compare(&rig);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "4", "UNIQUE", "k"), "1");
        /* Scope pending: a start frees the key. */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "5", "UNIQUE", "k"), "3");
        rig_release(&rig);
}

static void a_made_key_tells_hook_group_and_args_apart(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "a", "UNIQUE", "*"), "1");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "a", "UNIQUE", "*"), "1");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "b", "UNIQUE", "*"), "2");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "ha", "", "UNIQUE", "*"), "3");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "a", "UNIQUE", "*", "GROUP", "g"), "4");
        rig_release(&rig);
}

static void a_made_key_takes_json_args_by_their_value(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(
                rig_do(&rig, "ENQUEUE", "h", "{\"order\":7,\"shop\":\"a\"}", "UNIQUE", "*"), "1");
        restart_and_compare(&rig);
        assert_string_equal(
                rig_do(&rig, "ENQUEUE", "h", "{ \"shop\": \"a\", \"order\": 7 }", "UNIQUE", "*"),
                "1");
        assert_string_equal(
                rig_do(&rig, "ENQUEUE", "h", "{\"shop\":\"a\",\"order\":7.0}", "UNIQUE", "*"), "1");
        assert_string_equal(
                rig_do(&rig, "ENQUEUE", "h", "{\"shop\":\"a\",\"order\":\"7\"}", "UNIQUE", "*"),
                "2");
        /* Not JSON: every byte counts. */
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "order 7", "UNIQUE", "*"), "3");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "order  7", "UNIQUE", "*"), "4");
        rig_release(&rig);
}

static void scope_running_holds_the_key_until_the_end(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k", "SCOPE", "running");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        restart_and_compare(&rig);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k", "SCOPE", "running"),
                            "1");
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "no"), "'pending'");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k"), "1");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k"), "2");
        rig_release(&rig);
}

static void scope_after_holds_the_key_for_a_time(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k", "SCOPE", "after", "UNIQUEFOR", "1000");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        restart_and_compare(&rig);
        rig_pass_ms(&rig, 999);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k"), "1");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k", "CONFLICT", "reject"),
                    "!CONFLICT");
        rig_pass_ms(&rig, 1);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k"), "2");
        rig_release(&rig);
}

static void a_conflict_may_replace_the_args_or_be_refused(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "old", "UNIQUE", "k", "IN", "100");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "no", "UNIQUE", "k", "CONFLICT", "reject"),
                    "!CONFLICT job 1 holds");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "a much longer text", "UNIQUE", "k",
                                   "CONFLICT", "replace"),
                            "1");
        restart_and_compare(&rig);
        has(rig_do(&rig, "JOB", "1"), "args:'a much longer text'");
        rig_pass_ms(&rig, 100);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig_release(&rig);
}

static void many_jobs_with_a_refused_key_change_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        starts_with(rig_do(&rig, "ENQUEUEMANY", "UNIQUE", "k", "CONFLICT", "reject", "JOBS", "a",
                           "1", "b", "2"),
                    "!CONFLICT job 1 of this request");
        assert_int_equal(rig.core->state.jobs.len, 0);
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "SCOPE", "running"), "!BADARG");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k", "SCOPE", "after"), "!BADARG");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k", "SCOPE", "x"), "!BADARG");
        rig_release(&rig);
}

/* ---- shared keys and caps ---- */

static void a_key_runs_one_at_a_time_over_all_queues(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN], other[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "QUEUE", "a");
        rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "QUEUE", "b");
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "b", "PRIORITY", "200");
        assert_int_equal(rig_claim(&rig, "w", "a", token), 1);
        assert_int_equal(rig_claim(&rig, "w", "b", other), 3);
        has(rig_do(&rig, "WHY", "2"), "code:'single_instance'");
        assert_int_equal(rig_claim(&rig, "w", "b", other), 0);
        restart_and_compare(&rig);
        assert_int_equal(rig_claim(&rig, "w", "b", other), 0);
        has(rig_do(&rig, "JOB", "2"), "attempt:0 ");
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        assert_int_equal(rig_claim(&rig, "w", "b", token), 2);
        rig_release(&rig);
}

static void who_waits_for_a_key_is_woken_by_its_end(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session worker;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_session_init(&worker);
        rig_do(&rig, "ENQUEUE", "h", "first", "KEY", "k");
        rig_do(&rig, "ENQUEUE", "h", "second", "KEY", "k");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(
                rig_as(&rig, &worker, "CLAIM", "v", "WAIT", "100000", "QUEUES", "default"),
                "(waits)");
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        rig_turn(&rig);
        assert_true(worker.is_answered);
        rig_session_release(&rig, &worker);
        rig_release(&rig);
}

/* The job woken first may sit in a queue that nobody claims from. */
static void a_free_place_is_not_lost_to_a_queue_without_workers(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "QUEUE", "a");
        rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "QUEUE", "lonely", "PRIORITY", "1");
        rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "QUEUE", "a");
        assert_string_equal(rig_do(&rig, "CANCEL", "2"), "OK");
        rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "QUEUE", "lonely", "PRIORITY", "1");
        char first[RIG_TOKEN];
        assert_int_equal(rig_claim(&rig, "w", "a", first), 1);
        assert_int_equal(rig_claim(&rig, "w", "lonely", token), 0); /* blocked from here on */
        assert_int_equal(rig_claim(&rig, "w", "a", token), 0);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", first), "OK");
        rig_turn(&rig);
        for (int s = 0; s < 3 && rig_claim(&rig, "w", "a", token) != 3; s++)
                rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "JOB", "3"), "status:'in-progress'");
        rig_release(&rig);
}

static void keymax_and_cap_say_how_many(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        for (int i = 0; i < 5; i++)
                rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "KEYMAX", "2");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        assert_string_equal(rig_do(&rig, "CAP", "key:k", "3"), "OK");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 3);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "CAPS"), "name:'key:k' max:3 weight:1 running:3 waiting:2");
        has(rig_do(&rig, "CAPS", "MATCH", "ey:"),
            "name:'key:k' max:3 weight:1 running:3 waiting:2");
        assert_null(strstr(rig_do(&rig, "CAPS", "MATCH", "kk"), "name:"));
        restart_and_compare(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        assert_string_equal(rig_do(&rig, "UNCAP", "key:k"), "OK");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        starts_with(rig_do(&rig, "CAP", "k", "3"), "!BADARG");
        starts_with(rig_do(&rig, "UNCAP", "key:x"), "!NOTFOUND");
        rig_release(&rig);
}

static void a_group_has_a_cap_over_all_queues(void **unused)
{
        (void)unused;
        struct rig rig;
        char one[RIG_TOKEN], token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "GROUP", "acme", "QUEUE", "a");
        assert_int_equal(rig_claim(&rig, "w", "a", one), 1); /* counted although set later */
        assert_string_equal(rig_do(&rig, "CAP", "group:acme", "2"), "OK");
        for (int i = 0; i < 3; i++)
                rig_do(&rig, "ENQUEUE", "h", "", "GROUP", "acme", "QUEUE", "b");
        rig_do(&rig, "ENQUEUE", "h", "", "GROUP", "other", "QUEUE", "b");
        assert_int_equal(rig_claim(&rig, "w", "b", token), 2);
        assert_int_equal(rig_claim(&rig, "w", "b", token), 5);
        assert_int_equal(rig_claim(&rig, "w", "b", token), 0);
        restart_and_compare(&rig);
        assert_int_equal(rig_claim(&rig, "w", "b", token), 0);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", one), "OK");
        assert_int_equal(rig_claim(&rig, "w", "b", token), 3);
        assert_int_equal(rig_claim(&rig, "w", "b", token), 0);
        rig_release(&rig);
}

/* ---- dependencies ---- */

static void a_job_starts_after_those_it_comes_after(void **unused)
{
        (void)unused;
        struct rig rig;
        char one[RIG_TOKEN], two[RIG_TOKEN], token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "a", "");
        rig_do(&rig, "ENQUEUE", "b", "");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "c", "", "AFTER", "1,2"), "3");
        assert_int_equal(rig_claim(&rig, "w", "default", one), 1);
        assert_int_equal(rig_claim(&rig, "w", "default", two), 2);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "WHY", "3"), "comes after job 1");
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", one), "OK");
        restart_and_compare(&rig);
        has_not(rig_do(&rig, "WHY", "3"), "comes after job 1");
        has(rig_do(&rig, "WHY", "3"), "comes after job 2");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        assert_string_equal(rig_do(&rig, "COMPLETE", "2", two), "OK");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 3);
        rig_release(&rig);
}

static void a_failed_dependency_decides_what_becomes_of_a_chain(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "a", "", "ATTEMPTS", "1");
        rig_do(&rig, "ENQUEUE", "canceled", "", "AFTER", "1");
        rig_do(&rig, "ENQUEUE", "failed", "", "AFTER", "1", "OTHERWISE", "fail");
        rig_do(&rig, "ENQUEUE", "catch", "", "AFTER", "1", "WHEN", "failed");
        rig_do(&rig, "ENQUEUE", "finally", "", "AFTER", "1,2,3", "WHEN", "ended");
        rig_do(&rig, "ENQUEUE", "further", "", "AFTER", "2");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "no"), "'failed'");
        rig_turn(&rig);
        has(rig_do(&rig, "JOB", "2"), "status:'canceled'");
        has(rig_do(&rig, "EVENTS", "2"), "job 1, which it comes after, is failed");
        has(rig_do(&rig, "JOB", "3"), "status:'failed'");
        has(rig_do(&rig, "JOB", "6"), "status:'canceled'");
        restart_and_compare(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 4);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 5);
        rig_release(&rig);
}

static void a_dependency_may_be_history_already(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "a", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        rig_turn(&rig);
        memory_archive_commit(&rig.archive, 10);
        rig_turn(&rig);
        assert_null(state_job(&rig.core->state, 1));
        assert_string_equal(rig_do(&rig, "ENQUEUE", "b", "", "AFTER", "1"), "2");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "c", "", "AFTER", "1", "WHEN", "failed"), "3");
        rig_turn(&rig);
        rig_turn(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        has(rig_do(&rig, "JOB", "3"), "status:'canceled'");
        starts_with(rig_do(&rig, "ENQUEUE", "d", "", "AFTER", "99"), "!NOTFOUND after:");
        starts_with(rig_do(&rig, "ENQUEUE", "d", "", "AFTER", "4"), "!NOTFOUND after:");
        starts_with(rig_do(&rig, "ENQUEUE", "d", "", "AFTER", "1,,2"), "!BADARG");
        starts_with(rig_do(&rig, "ENQUEUE", "d", "", "AFTER", "x"), "!BADARG");
        starts_with(rig_do(&rig, "ENQUEUE", "d", "", "WHEN", "ended"), "!BADARG");
        rig_release(&rig);
}

static void a_long_chain_falls(void **unused)
{
        (void)unused;
        struct rig rig;
        char after[24], last[24];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "a", "");
        for (int i = 1; i < 3000; i++) {
                (void)snprintf(after, sizeof(after), "%d", i);
                rig_do(&rig, "ENQUEUE", "b", "", "AFTER", after);
        }
        assert_string_equal(rig_do(&rig, "CANCEL", "1"), "OK");
        rig_turn(&rig);
        (void)snprintf(last, sizeof(last), "%d", 3000);
        has(rig_do(&rig, "JOB", last), "status:'canceled'");
        restart_and_compare(&rig);
        rig_release(&rig);
}

/* ---- an end, and backoff ---- */

static void a_job_is_not_started_after_it_expires(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "a", "", "EXPIRES", "1000");
        rig_do(&rig, "ENQUEUE", "b", "", "EXPIRES", "1000");
        rig_do(&rig, "ENQUEUE", "c", "", "IN", "5000", "EXPIRES", "2000");
        restart_and_compare(&rig);
        rig_pass_ms(&rig, 998);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig_pass_ms(&rig, 3);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "JOB", "1"), "status:'in-progress'");
        has(rig_do(&rig, "JOB", "2"), "status:'canceled'");
        has(rig_do(&rig, "EVENTS", "2"), "expired before it was started");
        rig_pass_ms(&rig, 1001);
        has(rig_do(&rig, "JOB", "3"), "status:'canceled'");
        rig_release(&rig);
}

static void backoff_comes_from_the_job_or_its_queue(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        assert_string_equal(rig_do(&rig, "QUEUESET", "default", "BACKOFF", "fixed:7s"), "OK");
        rig_do(&rig, "ENQUEUE", "a", "");
        rig_do(&rig, "ENQUEUE", "b", "", "BACKOFF", "list:1s,2s", "PRIORITY", "101");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "no"), "'pending'");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        assert_string_equal(rig_do(&rig, "FAIL", "2", token, "no"), "'pending'");
        restart_and_compare(&rig);
        has(rig_do(&rig, "WHY", "1"), "code:'backoff'");
        rig_pass_ms(&rig, 1001);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        assert_string_equal(rig_do(&rig, "FAIL", "2", token, "no"), "'pending'");
        rig_pass_ms(&rig, 1990);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_pass_ms(&rig, 11);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        rig_pass_ms(&rig, 4000);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "no", "RETRYIN", "5"), "'pending'");
        rig_pass_ms(&rig, 6);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        starts_with(rig_do(&rig, "ENQUEUE", "b", "", "BACKOFF", "soon"), "!BADARG");
        starts_with(rig_do(&rig, "QUEUESET", "default", "BACKOFF", "soon"), "!BADARG");
        rig_release(&rig);
}

/* ---- settings of a queue ---- */

static void a_queue_has_a_cap_a_claim_size_and_a_number_of_claims(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        for (int i = 0; i < 20; i++)
                rig_do(&rig, "ENQUEUE", "h", "");
        assert_string_equal(rig_do(&rig, "QUEUESET", "default", "CAP", "5", "CLAIMSIZE", "3"),
                            "OK");
        const char *claimed = rig_do(&rig, "CLAIM", "w", "MAX", "10", "QUEUES", "default");
        has(claimed, "id:3 ");
        has_not(claimed, "id:4 ");
        claimed = rig_do(&rig, "CLAIM", "w", "MAX", "10", "QUEUES", "default");
        has(claimed, "id:5 ");
        has_not(claimed, "id:6 ");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "WHY", "6"), "code:'queue_cap'");
        restart_and_compare(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        /* Two claims have running jobs: a third is refused until one of them has ended. */
        assert_string_equal(rig_do(&rig, "QUEUESET", "default", "CAP", "0", "CLAIMS", "2"), "OK");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "WHY", "6"), "code:'claims'");
        assert_string_equal(rig_do(&rig, "CANCEL", "4"), "OK");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        assert_string_equal(rig_do(&rig, "CANCEL", "5"), "OK");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 6);
        has(rig_do(&rig, "QUEUE", "default"), "cap:0 claimsize:3 claims:2 lease:0");
        starts_with(rig_do(&rig, "QUEUESET", "default", "LEASE", "5"), "!BADARG");
        rig_release(&rig);
}

static void fair_turns_follow_the_weights(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        int big = 0, small = 0;
        rig_init(&rig);
        assert_string_equal(rig_do(&rig, "CAP", "group:small", "0", "WEIGHT", "3"), "OK");
        for (int i = 0; i < 300; i++)
                rig_do(&rig, "ENQUEUE", "h", "", "GROUP", "big");
        for (int i = 0; i < 60; i++)
                rig_do(&rig, "ENQUEUE", "h", "", "GROUP", "small");
        assert_string_equal(rig_do(&rig, "QUEUESET", "default", "FAIR", "on"), "OK");
        restart_and_compare(&rig);
        for (int i = 0; i < 40; i++) {
                uint64_t job = rig_claim(&rig, "w", "default", token);
                assert_true(job > 0);
                *(job <= 300 ? &big : &small) += 1;
                assert_string_equal(rig_do(&rig, "COMPLETE", rig_number(job), token), "OK");
        }
        assert_int_equal(big, 10);
        assert_int_equal(small, 30);
        /* Priority still comes first. */
        rig_do(&rig, "ENQUEUE", "h", "", "GROUP", "big", "PRIORITY", "1");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 361);
        assert_string_equal(rig_do(&rig, "QUEUESET", "default", "FAIR", "off"), "OK");
        state_check(&rig.core->state);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 11);
        rig_release(&rig);
}

static void a_job_shows_its_options(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "u", "KEY", "k", "BACKOFF", "fixed:5s");
        rig_do(&rig, "ENQUEUE", "h", "", "AFTER", "1", "WHEN", "ended");
        const char *job = rig_do(&rig, "JOB", "1");
        has(job, "unique:'u'");
        has(job, "key:'k'");
        has(job, "backoff:'fixed:5s'");
        has(job, "scope:'pending'");
        job = rig_do(&rig, "JOB", "2");
        has(job, "when:'ended'");
        rig_release(&rig);
}

static void limits_hold_at_their_edges(void **unused)
{
        (void)unused;
        struct rig rig;
        char ids[8 * (LIMIT_AFTER + 1) + 1] = "", name[32];
        rig_init(&rig);
        for (int i = 1; i <= LIMIT_AFTER + 1; i++)
                rig_do(&rig, "ENQUEUE", "h", "");
        for (int i = 1; i <= LIMIT_AFTER + 1; i++) {
                size_t len = strlen(ids);
                (void)snprintf(ids + len, sizeof(ids) - len, "%s%d", len ? "," : "", i);
                if (i == LIMIT_AFTER)
                        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "AFTER", ids), "102");
        }
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "AFTER", ids), "!TOOBIG");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "KEYMAX", "1000000"),
                            "103");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "KEYMAX", "1000001"), "!BADARG");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "KEY", "k", "KEYMAX", "0"), "!BADARG");
        /* The key of job 103 is a cap too, but nobody set it. */
        rig_audit(&rig, false);
        for (int i = 1; i < LIMIT_CAPS; i++) {
                (void)snprintf(name, sizeof(name), "group:%d", i);
                assert_string_equal(rig_do(&rig, "CAP", name, "1"), "OK");
        }
        rig_audit(&rig, true);
        starts_with(rig_do(&rig, "CAP", "group:x", "1"), "!LIMIT");
        assert_string_equal(rig_do(&rig, "CAP", "group:1", "2"), "OK");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_unique_key_is_answered_with_its_first_job),
                cmocka_unit_test(a_made_key_tells_hook_group_and_args_apart),
                cmocka_unit_test(maxrun_ends_an_attempt_however_often_its_lease_is_extended),
                cmocka_unit_test(a_lease_is_no_longer_than_maxrun_and_ends_as_before_when_shorter),
                cmocka_unit_test(a_queue_without_a_backoff_has_the_default_and_none_stays_none),
                cmocka_unit_test(a_made_key_takes_json_args_by_their_value),
                cmocka_unit_test(scope_running_holds_the_key_until_the_end),
                cmocka_unit_test(scope_after_holds_the_key_for_a_time),
                cmocka_unit_test(a_conflict_may_replace_the_args_or_be_refused),
                cmocka_unit_test(many_jobs_with_a_refused_key_change_nothing),
                cmocka_unit_test(a_key_runs_one_at_a_time_over_all_queues),
                cmocka_unit_test(who_waits_for_a_key_is_woken_by_its_end),
                cmocka_unit_test(a_free_place_is_not_lost_to_a_queue_without_workers),
                cmocka_unit_test(keymax_and_cap_say_how_many),
                cmocka_unit_test(a_group_has_a_cap_over_all_queues),
                cmocka_unit_test(a_job_starts_after_those_it_comes_after),
                cmocka_unit_test(a_failed_dependency_decides_what_becomes_of_a_chain),
                cmocka_unit_test(a_dependency_may_be_history_already),
                cmocka_unit_test(a_long_chain_falls),
                cmocka_unit_test(a_job_is_not_started_after_it_expires),
                cmocka_unit_test(backoff_comes_from_the_job_or_its_queue),
                cmocka_unit_test(a_queue_has_a_cap_a_claim_size_and_a_number_of_claims),
                cmocka_unit_test(fair_turns_follow_the_weights),
                cmocka_unit_test(a_job_shows_its_options),
                cmocka_unit_test(limits_hold_at_their_edges),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

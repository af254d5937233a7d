/* The core through its commands: what a client may rely on, with the clock moved by hand. */
#include "check.h"
#include "features/features.h"

#include <stdio.h>

#include "core/kernel.h"
#include "support/rig.h"

static void a_job_goes_from_pending_to_complete(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "mail", "{\"to\":1}"), "1");
        has(rig_do(&rig, "JOB", "1"), "status:'pending'");
        assert_int_equal(rig_claim(&rig, "w1", "default", token), 1);
        has(rig_do(&rig, "JOB", "1"), "status:'in-progress'");
        has(rig_do(&rig, "JOB", "1"), "worker:'w1'");
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token, "done"), "OK");
        memory_archive_commit(&rig.archive, 10);
        rig_turn(&rig);
        assert_null(state_job(&rig.core->state, 1));
        has(rig_do(&rig, "JOB", "1"), "status:'complete'");
        has(rig_do(&rig, "JOB", "1"), "result:'done'");
        const char *events = rig_do(&rig, "EVENTS", "1");
        has(events, "event:'created'");
        has(events, "event:'started'");
        has(events, "event:'completed'");
        rig_release(&rig);
}

static void a_reply_may_not_leave_before_its_batch_is_durable(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig.log.is_manual = true;
        assert_string_equal(rig_do(&rig, "ENQUEUE", "mail", ""), "1");
        uint64_t seq = core_reply_seq(rig.core);
        assert_true(seq > core_durable_seq(rig.core));
        /* The next command collects while the first is in flight, and waits for its own batch. */
        assert_string_equal(rig_do(&rig, "ENQUEUE", "mail", ""), "2");
        assert_int_equal(core_reply_seq(rig.core), seq + 1);
        memory_log_sync(&rig.log);
        assert_int_equal(core_durable_seq(rig.core), seq);
        core_commit(rig.core);
        memory_log_sync(&rig.log);
        assert_int_equal(core_durable_seq(rig.core), seq + 1);
        assert_true(core_is_settled(rig.core));
        rig_release(&rig);
}

static void order_is_priority_then_attempts_then_due_then_id(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "late", "", "PRIORITY", "5");  /* 1 */
        rig_do(&rig, "ENQUEUE", "first", "", "PRIORITY", "1"); /* 2 */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        rig_do(&rig, "FAIL", "2", token, "x");
        rig_do(&rig, "ENQUEUE", "fresh", "", "PRIORITY", "1"); /* 3: same priority, no attempt */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 3);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        rig_do(&rig, "ENQUEUE", "second", "", "PRIORITY", "5"); /* 4 */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 4);
        rig_release(&rig);
}

static void a_claim_takes_the_best_job_over_all_its_queues(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "a", "PRIORITY", "9");
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "b", "PRIORITY", "3");
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "a", "PRIORITY", "1");
        const char *text = rig_do(&rig, "CLAIM", "w", "MAX", "5", "QUEUES", "a", "b", "a");
        starts_with(text, "[{id:3 ");
        const char *second = strstr(text, "id:2 "), *third = strstr(text, "id:1 ");
        assert_true(second && third && second < third);
        assert_string_equal(rig_do(&rig, "CLAIM", "w", "QUEUES", "a", "b"), "[]");
        rig_release(&rig);
}

static void a_delayed_job_is_ready_at_its_time_and_not_before(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "IN", "1000");
        rig_pass_ms(&rig, 999);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_pass_ms(&rig, 1);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);

        rig.now.steady_ns += NS_PER_MS / 2; /* not early by a part of a millisecond either */
        rig_turn(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "IN", "10");
        rig.now.steady_ns += 10 * NS_PER_MS - 1;
        rig_turn(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig.now.steady_ns += NS_PER_MS;
        rig_turn(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        rig_release(&rig);
}

static void a_jump_of_the_wall_clock_moves_at_but_not_in(void **unused)
{
        (void)unused;
        struct rig rig;
        char at[24], token[33];
        rig_init(&rig);
        (void)snprintf(at, sizeof(at), "%lld", (long long)(rig.now.wall_ms + 60000));
        rig_do(&rig, "ENQUEUE", "in", "", "IN", "60000", "QUEUE", "in");
        rig_do(&rig, "ENQUEUE", "at", "", "AT", at, "QUEUE", "at");
        rig.now.wall_ms += 3600000;
        rig_turn(&rig);
        assert_int_equal(rig_claim(&rig, "w", "in", token), 0);
        assert_int_equal(rig_claim(&rig, "w", "at", token), 2);
        rig_pass_ms(&rig, 60000);
        assert_int_equal(rig_claim(&rig, "w", "in", token), 1);
        rig_release(&rig);
}

static void a_lease_ends_at_its_deadline_and_not_before(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33], again[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "");
        assert_int_equal(rig_claim(&rig, "w1", "default", token), 1);
        rig_pass_ms(&rig, JOB_LEASE_DEFAULT_MS - 1);
        assert_int_equal(rig_claim(&rig, "w2", "default", again), 0);
        rig.now.wall_ms -= 86400000; /* the wall clock has no say in it */
        rig_pass_ms(&rig, 1);
        assert_int_equal(rig_claim(&rig, "w2", "default", again), 1);
        starts_with(rig_do(&rig, "COMPLETE", "1", token), "!NOTOWNER");
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", again), "OK");
        rig_release(&rig);
}

static void extend_moves_the_end_of_the_lease(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33], other[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "TIMEOUT", "1000");
        assert_int_equal(rig_claim(&rig, "w1", "default", token), 1);
        rig_pass_ms(&rig, 900);
        assert_string_equal(rig_do(&rig, "EXTEND", "1", token, "5000"), "OK");
        rig_pass_ms(&rig, 4999);
        assert_int_equal(rig_claim(&rig, "w2", "default", other), 0);
        rig_pass_ms(&rig, 1);
        assert_int_equal(rig_claim(&rig, "w2", "default", other), 1);
        rig_release(&rig);
}

static void a_late_completion_counts_while_nobody_else_was_granted_the_job(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "");
        rig_claim(&rig, "w1", "default", token);
        rig_pass_ms(&rig, JOB_LEASE_DEFAULT_MS);
        has(rig_do(&rig, "JOB", "1"), "status:'pending'");
        starts_with(rig_do(&rig, "FAIL", "1", token, "late"), "!STATE");
        starts_with(rig_do(&rig, "EXTEND", "1", token, "1000"), "!STATE");
        rig_restart(&rig); /* the right to it survives a restart */
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        has(rig_do(&rig, "JOB", "1"), "status:'complete'");
        rig_release(&rig);
}

static void a_job_whose_last_lease_runs_out_is_failed_and_may_still_be_completed(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "ATTEMPTS", "1", "TIMEOUT", "1000");
        rig_claim(&rig, "w1", "default", token);
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "JOB", "1"), "status:'failed'");
        has(rig_do(&rig, "JOB", "1"), "error:'timed out'");
        has(rig_do(&rig, "QUEUES"), "failed:1");
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        has(rig_do(&rig, "JOB", "1"), "status:'complete'");
        has(rig_do(&rig, "QUEUES"), "failed:0");

        rig_do(&rig, "ENQUEUE", "h", "", "ATTEMPTS", "1", "TIMEOUT", "1000");
        rig_claim(&rig, "w1", "default", token);
        rig_pass_ms(&rig, 1000);
        rig_pass_ms(&rig, 1000); /* the grace is as long as the lease was */
        memory_archive_commit(&rig.archive, 10);
        rig_turn(&rig);
        starts_with(rig_do(&rig, "COMPLETE", "2", token), "!STATE");
        has(rig_do(&rig, "JOB", "2"), "status:'failed'");
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void a_job_fails_for_good_when_its_attempts_are_used_up(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "ATTEMPTS", "2");
        rig_claim(&rig, "w", "default", token);
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "boom", "RETRYIN", "500"),
                            "'pending'");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_pass_ms(&rig, 500);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "boom again"), "'failed'");
        has(rig_do(&rig, "JOB", "1"), "status:'failed'");
        has(rig_do(&rig, "JOB", "1"), "error:'boom again'");
        has(rig_do(&rig, "EVENTS", "1"), "event:'retried'");
        rig_release(&rig);
}

static void a_job_that_is_given_up_is_failed_at_once_and_says_so(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "ATTEMPTS", "3", "BACKOFF", "fixed:5s");
        rig_claim(&rig, "w", "default", token);
        starts_with(rig_do(&rig, "FAIL", "1", token, "bad", "NORETRY", "RETRYIN", "5"), "!BADARG");
        has(rig_do(&rig, "JOB", "1"), "status:'in-progress'");
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "bad", "NORETRY"), "'failed'");
        has(rig_do(&rig, "WHY", "1"),
            "it has ended: failed at attempt 1 of 3: its worker said not to try again");
        has(rig_do(&rig, "JOB", "1"), "error:'bad'");
        has(rig_do(&rig, "JOB", "1"), "attempt:1");
        has(rig_do(&rig, "EVENTS", "1"), "message:'bad'");
        has(rig_do(&rig, "EVENTS", "1"), "event:'given up'");
        assert_true(rig_replays(&rig));
        has(rig_do(&rig, "EVENTS", "1"), "event:'given up'");
        rig_archive_all(&rig);
        has(rig_do(&rig, "EVENTS", "1"), "event:'given up'");
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'");
        for (int i = 0; i < 2; i++) {
                assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
                assert_string_equal(rig_do(&rig, "FAIL", "1", token, "no", "RETRYIN", "0"),
                                    "'pending'");
        }
        rig_release(&rig);
}

static void a_last_attempt_has_nothing_to_give_up(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "ATTEMPTS", "1");
        rig_claim(&rig, "w", "default", token);
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "bad", "NORETRY"), "'failed'");
        assert_null(strstr(rig_do(&rig, "EVENTS", "1"), "given up"));
        has(rig_do(&rig, "WHY", "1"), "'it has ended: failed'");
        rig_release(&rig);
}

static void a_release_uses_no_attempt(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "ATTEMPTS", "1");
        for (int i = 0; i < 3; i++) {
                assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
                assert_string_equal(rig_do(&rig, "RELEASE", "1", token), "OK");
        }
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "RELEASE", "1", token, "IN", "100"), "OK");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_pass_ms(&rig, 100);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        has(rig_do(&rig, "JOB", "1"), "attempt:1 ");
        rig_release(&rig);
}

static void cancel_ends_a_pending_and_a_running_job(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "");
        rig_do(&rig, "ENQUEUE", "h", "");
        assert_string_equal(rig_do(&rig, "CANCEL", "1"), "OK");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        assert_string_equal(rig_do(&rig, "CANCEL", "2"), "OK");
        starts_with(rig_do(&rig, "EXTEND", "2", token, "1000"), "!CANCELED");
        starts_with(rig_do(&rig, "COMPLETE", "2", token), "!CANCELED");
        starts_with(rig_do(&rig, "CANCEL", "2"), "!STATE");
        starts_with(rig_do(&rig, "CANCEL", "3"), "!NOTFOUND");
        has(rig_do(&rig, "JOB", "2"), "status:'canceled'");
        rig_release(&rig);
}

static void a_waiting_claim_gets_the_job_in_the_batch_that_brings_it(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session worker;
        rig_init(&rig);
        rig_session_init(&worker);
        assert_string_equal(rig_as(&rig, &worker, "CLAIM", "w", "WAIT", "1000", "QUEUES", "x", "y"),
                            "(waits)");
        uint64_t batches = rig.log.last_seq;
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "y");
        assert_true(worker.is_answered);
        starts_with(text_reply_str(&worker.reply), "[{id:1 ");
        assert_int_equal(rig.log.last_seq, batches + 1);
        rig_session_release(&rig, &worker);
        rig_release(&rig);
}

static void waiting_claims_are_served_in_order_and_end_empty_at_their_time(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session a, b;
        rig_init(&rig);
        rig_session_init(&a);
        rig_session_init(&b);
        rig_as(&rig, &a, "CLAIM", "a", "WAIT", "1000", "QUEUES", "q");
        rig_as(&rig, &b, "CLAIM", "b", "WAIT", "500", "QUEUES", "q");
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q");
        assert_true(a.is_answered);
        assert_false(b.is_answered);
        rig_pass_ms(&rig, 499);
        assert_false(b.is_answered);
        rig_pass_ms(&rig, 1);
        assert_true(b.is_answered);
        assert_string_equal(text_reply_str(&b.reply), "[]");
        rig_session_release(&rig, &a);
        rig_session_release(&rig, &b);
        rig_release(&rig);
}

static void a_waiting_peer_that_leaves_is_granted_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session gone, here;
        rig_init(&rig);
        rig_session_init(&gone);
        rig_session_init(&here);
        rig_as(&rig, &gone, "CLAIM", "gone", "WAIT", "1000", "QUEUES", "q", "r");
        rig_as(&rig, &here, "CLAIM", "here", "WAIT", "1000", "QUEUES", "q");
        rig_session_release(&rig, &gone);
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q");
        assert_true(here.is_answered);
        has(rig_do(&rig, "JOB", "1"), "worker:'here'");
        rig_session_release(&rig, &here);
        rig_release(&rig);
}

static void complete_can_claim_the_next_in_one_step(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "");
        rig_do(&rig, "ENQUEUE", "h", "");
        rig_claim(&rig, "w", "default", token);
        uint64_t batches = rig.log.last_seq;
        starts_with(
                rig_do(&rig, "COMPLETE", "1", token, "CLAIM", "w", "MAX", "1", "QUEUES", "default"),
                "[{id:2 ");
        assert_int_equal(rig.log.last_seq, batches + 1);
        /* A result that is called like the clause is a result when nothing follows it. */
        rig_do(&rig, "ENQUEUE", "h", "");
        rig_claim(&rig, "w", "default", token);
        assert_string_equal(rig_do(&rig, "COMPLETE", "3", token, "CLAIM"), "OK");
        has(rig_do(&rig, "JOB", "3"), "result:'CLAIM'");
        rig_release(&rig);
}

static void a_paused_queue_hands_out_nothing_until_resumed(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session worker;
        rig_init(&rig);
        rig_session_init(&worker);
        rig_do(&rig, "PAUSE", "q");
        rig_restart(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q");
        rig_as(&rig, &worker, "CLAIM", "w", "WAIT", "1000", "QUEUES", "q");
        assert_false(worker.is_answered);
        assert_string_equal(rig_do(&rig, "RESUME", "q"), "OK");
        assert_true(worker.is_answered);
        starts_with(rig_do(&rig, "RESUME", "nosuch"), "!NOTFOUND");
        rig_session_release(&rig, &worker);
        rig_release(&rig);
}

static void fences_grow_over_a_restart(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        uint64_t last = 0;
        for (int i = 1; i <= 5; i++) {
                rig_do(&rig, "ENQUEUE", "h", "");
                uint64_t id = rig_claim(&rig, "w", "default", token);
                uint64_t fence = state_job(&rig.core->state, id)->more->fence;
                assert_true(fence > last);
                last = fence;
                rig_do(&rig, "COMPLETE", rig_number(id), token);
                rig_restart(&rig);
        }
        rig_release(&rig);
}

static void downtime_does_not_count_against_a_lease(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33], other[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "TIMEOUT", "1000");
        rig_claim(&rig, "w", "default", token);
        /* Steady time stands still while weir is down: only the wall clock has moved. */
        rig.now.wall_ms += 3600000;
        rig_restart(&rig);
        rig_pass_ms(&rig, 999);
        assert_int_equal(rig_claim(&rig, "w2", "default", other), 0);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        rig_release(&rig);
}

static void many_are_taken_all_or_none(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(rig_do(&rig, "ENQUEUEMANY", "QUEUE", "q", "PRIORITY", "7", "JOBS", "a",
                                   "1", "b", "2"),
                            "[1 2]");
        has(rig_do(&rig, "JOB", "2"), "hook:'b' args:'2' queue:'q'");
        has(rig_do(&rig, "JOB", "2"), "priority:7");
        starts_with(rig_do(&rig, "ENQUEUEMANY", "JOBS", "a", "1", "b"), "!BADARG");
        starts_with(rig_do(&rig, "ENQUEUEMANY", "JOBS", "a", "1", "", "2"), "!BADARG");
        has(rig_do(&rig, "QUEUES"), "enqueued:2");
        rig_release(&rig);
}

static void a_full_disk_refuses_new_work_and_finishes_the_old(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "");
        rig.log.stat.room_bytes = 1 * MIB;
        rig.log.stat.is_disk_full = true;
        rig_turn(&rig);
        starts_with(rig_do(&rig, "ENQUEUE", "h", ""), "!NOSPACE");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        char big[1000];
        memset(big, 'x', sizeof(big) - 1);
        big[sizeof(big) - 1] = '\0';
        starts_with(rig_do(&rig, "COMPLETE", "1", token, big), "!NOSPACE");
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token, "short"), "OK");
        rig.log.stat.is_disk_full = false;
        rig.log.stat.room_bytes = 1ULL << 40;
        rig_turn(&rig);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", ""), "2");
        rig_release(&rig);
}

static void claims_slow_down_while_the_archive_is_behind(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig.core->options.finished_max = 2;
        for (int i = 0; i < 3; i++)
                rig_do(&rig, "ENQUEUE", "h", "");
        for (uint64_t id = 1; id <= 2; id++) {
                assert_int_equal(rig_claim(&rig, "w", "default", token), id);
                rig_do(&rig, "COMPLETE", rig_number(id), token);
        }
        struct rig_session worker;
        rig_session_init(&worker);
        rig_as(&rig, &worker, "CLAIM", "w", "WAIT", "5000", "QUEUES", "default");
        assert_false(worker.is_answered);
        memory_archive_commit(&rig.archive, 10);
        rig_turn(&rig);
        rig_turn(&rig);
        assert_true(worker.is_answered);
        starts_with(text_reply_str(&worker.reply), "[{id:3 ");
        rig_session_release(&rig, &worker);
        rig_release(&rig);
}

static void a_listing_shows_live_and_archived_jobs_as_one(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33], cursor[24] = "";
        rig_init(&rig);
        for (int i = 0; i < 10; i++)
                rig_do(&rig, "ENQUEUE", i % 2 ? "odd" : "even", "x");
        for (int i = 0; i < 5; i++) {
                uint64_t id = rig_claim(&rig, "w", "default", token);
                rig_do(&rig, "COMPLETE", rig_number(id), token);
        }
        memory_archive_commit(&rig.archive, 3); /* 1-3 archived, 4-5 ended, 6-10 pending */
        rig_turn(&rig);
        unsigned long long expected = 10;
        do {
                const char *text = rig_do(&rig, "JOBS", "LIMIT", "3", "CURSOR", cursor);
                for (const char *at = text; (at = strstr(at, "{id:")); at++) {
                        unsigned long long id = 0;
                        assert_int_equal(sscanf(at, "{id:%llu", &id), 1);
                        assert_int_equal(id, expected--);
                }
                const char *c = strstr(text, "cursor:'");
                assert_non_null(c);
                cursor[0] = '\0';
                (void)sscanf(c, "cursor:'%20[0-9]", cursor);
        } while (cursor[0]);
        assert_int_equal(expected, 0);
        const char *done = rig_do(&rig, "JOBS", "STATUS", "complete", "HOOK", "odd");
        has(done, "{id:4 ");
        has(done, "{id:2 ");
        has_not(done, "{id:3 ");
        has_not(done, "{id:6 ");
        rig_release(&rig);
}

static void bad_input_gets_a_clear_error_and_changes_nothing(void **unused)
{
        (void)unused;
        static const char *const cases[][10] = {
                {"!SYNTAX", "too few", "ENQUEUE", "h"},
                {"!BADARG", "hook must be 1", "ENQUEUE", "", "x"},
                {"!BADARG", "control", "ENQUEUE", "a\nb", "x"},
                {"!BADARG", "UTF-8", "ENQUEUE", "\xff", "x"},
                {"!SYNTAX", "'BOGUS'", "ENQUEUE", "h", "x", "BOGUS", "1"},
                {"!SYNTAX", "missing after 'queue'", "ENQUEUE", "h", "x", "QUEUE"},
                {"!BADARG", "twice", "ENQUEUE", "h", "x", "QUEUE", "a", "QUEUE", "b"},
                {"!BADARG", "0 to 255", "ENQUEUE", "h", "x", "PRIORITY", "256"},
                {"!BADARG", "0 to 255", "ENQUEUE", "h", "x", "PRIORITY", "-1"},
                {"!BADARG", "whole number", "ENQUEUE", "h", "x", "PRIORITY", "1.5"},
                {"!BADARG", "cannot both", "ENQUEUE", "h", "x", "IN", "1", "AT", "1"},
                {"!BADARG", "attempts must be 1", "ENQUEUE", "h", "x", "ATTEMPTS", "0"},
                {"!BADARG", "queues is missing", "CLAIM", "w"},
                {"!BADARG", "queues takes 1", "CLAIM", "w", "QUEUES"},
                {"!BADARG", "max must be 1", "CLAIM", "w", "MAX", "0", "QUEUES", "q"},
                {"!BADARG", "32 hex", "COMPLETE", "1", "nothex"},
                {"!BADARG", "id must be", "JOB", "zero"},
                {"!BADARG", "id must be", "JOB", "0"},
                {"!NOTFOUND", "no job 99", "JOB", "99"},
                {"!BADARG", "status must be", "JOBS", "STATUS", "weird"},
                {"!BADARG", "cursor", "JOBS", "CURSOR", "abc"},
        };
        struct rig rig;
        rig_init(&rig);
        uint64_t digest = state_digest(&rig.core->state);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct slice argv[8];
                size_t argc = 0;
                while (argc + 2 < 10 && cases[i][argc + 2]) {
                        argv[argc] = slice_str(cases[i][argc + 2]);
                        argc++;
                }
                const char *text = rig_argv(&rig, &rig.me, argv, argc);
                assert_memory_equal(text, cases[i][0], strlen(cases[i][0]));
                has(text, cases[i][1]);
        }
        assert_int_equal(state_digest(&rig.core->state), digest);
        rig_release(&rig);
}

static void names_and_payloads_are_bounded_at_exactly_their_limit(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        const struct {
                size_t name_len, args_len;
                const char *prefix;
        } cases[] = {
                {LIMIT_NAME_BYTES, 1, "1"},
                {LIMIT_NAME_BYTES + 1, 1, "!TOOBIG"},
                {1, LIMIT_PAYLOAD_BYTES, "2"},
                {1, LIMIT_PAYLOAD_BYTES + 1, "!TOOBIG"},
        };
        char *bytes = malloc(LIMIT_PAYLOAD_BYTES + 1);
        assert_non_null(bytes);
        memset(bytes, 'a', LIMIT_PAYLOAD_BYTES + 1);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct slice argv[] = {SLICE_LIT("ENQUEUE"), slice_make(bytes, cases[i].name_len),
                                       slice_make(bytes, cases[i].args_len)};
                const char *text = rig_argv(&rig, &rig.me, argv, 3);
                assert_memory_equal(text, cases[i].prefix, strlen(cases[i].prefix));
        }
        free(bytes);
        rig_release(&rig);
}

static void a_claim_of_large_jobs_carries_a_bounded_number_of_them(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        char *bytes = malloc(LIMIT_PAYLOAD_BYTES);
        assert_non_null(bytes);
        memset(bytes, 'a', LIMIT_PAYLOAD_BYTES);
        struct slice argv[] = {SLICE_LIT("ENQUEUE"), SLICE_LIT("h"),
                               slice_make(bytes, LIMIT_PAYLOAD_BYTES)};
        for (int i = 0; i < 20; i++)
                assert_int_not_equal(rig_argv(&rig, &rig.me, argv, 3)[0], '!');
        const char *text = rig_do(&rig, "CLAIM", "w", "MAX", "20", "QUEUES", "default");
        size_t n = 0;
        for (const char *at = text; (at = strstr(at, "{id:")); at++)
                n++;
        assert_int_equal(n, 16); /* MiB */
        has(rig_do(&rig, "QUEUES"), "ready:4 ");
        free(bytes);
        rig_release(&rig);
}

static void a_job_remembers_its_newest_events_and_counts_the_rest(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "");
        for (int i = 0; i < 80; i++) { /* 160 events: started, released */
                rig_claim(&rig, "w", "default", token);
                rig_do(&rig, "RELEASE", "1", token);
        }
        const struct job *job = state_job(&rig.core->state, 1);
        assert_int_equal(event_count(buf_slice(&job->more->events)), LIMIT_EVENTS_KEPT);
        has(rig_do(&rig, "EVENTS", "1"), "event:'dropped'");
        has(rig_do(&rig, "EVENTS", "1"), "message:'61'");
        uint64_t digest = state_digest(&rig.core->state);
        rig_restart(&rig);
        assert_int_equal(state_digest(&rig.core->state), digest);
        rig_release(&rig);
}

static void every_command_is_in_the_table_once_and_explains_itself(void **unused)
{
        (void)unused;
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                assert_ptr_equal(command_find(slice_str(def->name)), def);
                assert_true(def->n_params <= COMMAND_PARAMS_MAX);
                assert_true(def->summary[0] && def->returns[0]);
                assert_true((command_execs[i] == NULL) == ((def->flags & COMMAND_DOOR) != 0));
                struct buf usage;
                buf_init(&usage, 1024);
                command_usage(def, &usage);
                assert_false(usage.failed);
                buf_release(&usage);
        }
        assert_null(command_find(SLICE_LIT("NOSUCH")));
        assert_non_null(command_find(SLICE_LIT("enqueue")));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_job_goes_from_pending_to_complete),
                cmocka_unit_test(a_reply_may_not_leave_before_its_batch_is_durable),
                cmocka_unit_test(order_is_priority_then_attempts_then_due_then_id),
                cmocka_unit_test(a_claim_takes_the_best_job_over_all_its_queues),
                cmocka_unit_test(a_delayed_job_is_ready_at_its_time_and_not_before),
                cmocka_unit_test(a_jump_of_the_wall_clock_moves_at_but_not_in),
                cmocka_unit_test(a_lease_ends_at_its_deadline_and_not_before),
                cmocka_unit_test(extend_moves_the_end_of_the_lease),
                cmocka_unit_test(a_late_completion_counts_while_nobody_else_was_granted_the_job),
                cmocka_unit_test(
                        a_job_whose_last_lease_runs_out_is_failed_and_may_still_be_completed),
                cmocka_unit_test(a_job_fails_for_good_when_its_attempts_are_used_up),
                cmocka_unit_test(a_job_that_is_given_up_is_failed_at_once_and_says_so),
                cmocka_unit_test(a_last_attempt_has_nothing_to_give_up),
                cmocka_unit_test(a_release_uses_no_attempt),
                cmocka_unit_test(cancel_ends_a_pending_and_a_running_job),
                cmocka_unit_test(a_waiting_claim_gets_the_job_in_the_batch_that_brings_it),
                cmocka_unit_test(waiting_claims_are_served_in_order_and_end_empty_at_their_time),
                cmocka_unit_test(a_waiting_peer_that_leaves_is_granted_nothing),
                cmocka_unit_test(complete_can_claim_the_next_in_one_step),
                cmocka_unit_test(a_paused_queue_hands_out_nothing_until_resumed),
                cmocka_unit_test(fences_grow_over_a_restart),
                cmocka_unit_test(downtime_does_not_count_against_a_lease),
                cmocka_unit_test(many_are_taken_all_or_none),
                cmocka_unit_test(a_full_disk_refuses_new_work_and_finishes_the_old),
                cmocka_unit_test(claims_slow_down_while_the_archive_is_behind),
                cmocka_unit_test(a_listing_shows_live_and_archived_jobs_as_one),
                cmocka_unit_test(bad_input_gets_a_clear_error_and_changes_nothing),
                cmocka_unit_test(names_and_payloads_are_bounded_at_exactly_their_limit),
                cmocka_unit_test(a_claim_of_large_jobs_carries_a_bounded_number_of_them),
                cmocka_unit_test(a_job_remembers_its_newest_events_and_counts_the_rest),
                cmocka_unit_test(every_command_is_in_the_table_once_and_explains_itself),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

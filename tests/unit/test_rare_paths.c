/* Ways through the core that are seldom taken: each was once wrong, and found by
 * tests/prop/prop_core.c or by reading. */
#include "throttle_box.h"

#include <stdio.h>

#include "core/kernel.h"

/* ---- history that cannot be read ---- */

static void a_dependency_is_looked_up_again_when_history_could_not_be_read(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "first", "");
        assert_int_equal(rig_complete_next(&rig, "default"), 1);
        rig_archive_all(&rig);
        rig.archive.is_broken = true;
        assert_string_equal(rig_do(&rig, "ENQUEUE", "second", "", "AFTER", "1"), "2");
        has(rig_do(&rig, "WHY", "2"), "which is being looked up in history");
        assert_true(core_next_ns(rig.core) <= rig.now.steady_ns + NS_PER_S);
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "WHY", "2"), "which is being looked up in history");
        rig.archive.is_broken = false;
        rig_pass_ms(&rig, 1000);
        assert_int_equal(rig_complete_next(&rig, "default"), 2);
        assert_int_equal(core_next_ns(rig.core), INT64_MAX);
        rig_release(&rig);
}

/* ---- one claim over several queues ---- */

/* A job of b carries what stands before a. */
static void make_crossing(struct rig *rig, const char *option, const char *name)
{
        rig_init(rig);
        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "b", "PRIORITY", "1", option, name);
        rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "a", "PRIORITY", "2");
}

static void a_job_may_take_the_last_start_of_another_queue(void **unused)
{
        (void)unused;
        struct rig rig;
        make_crossing(&rig, "LIMIT", "queue:a");
        rig_do(&rig, "LIMIT", "queue:a", "1", "1000");
        const char *text = rig_do(&rig, "CLAIM", "w", "MAX", "10", "QUEUES", "a", "b");
        assert_int_equal(times(text, "{id:"), 1);
        has(rig_do(&rig, "USAGE", "queue:a"), "left:0");
        rig_pass_ms(&rig, 1001);
        assert_int_equal(rig_claim_many(&rig, "a"), 1);
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

static void a_job_may_be_the_probe_for_another_queue(void **unused)
{
        (void)unused;
        struct rig rig;
        make_crossing(&rig, "TARGET", "queue:a");
        rig_do(&rig, "BREAKER", "queue:a", "COOLDOWN", "100");
        rig_do(&rig, "TRIP", "queue:a");
        rig_pass_ms(&rig, 101);
        has(rig_do(&rig, "BREAKERSTATE", "queue:a"), "half-open");
        const char *text = rig_do(&rig, "CLAIM", "w", "MAX", "10", "QUEUES", "a", "b");
        assert_int_equal(times(text, "{id:"), 1);
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

/* ---- a probe that is canceled ---- */

static void a_probe_whose_schedule_cancels_it_makes_way_for_the_next(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "shop", "COOLDOWN", "100");
        rig_do(&rig, "TRIP", "shop");
        rig_pass_ms(&rig, 101);
        rig_do(&rig, "SCHEDULE", "s", "h", "", "EVERY", "1000", "OVERLAP", "cancel", "TARGET",
               "shop", "TIMEOUT", "3600000");
        rig_pass_ms(&rig, 1000);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        has(rig_do(&rig, "BREAKERSTATE", "shop"), "half-open");
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "JOB", "1"), "canceled");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        assert_string_equal(rig_do(&rig, "COMPLETE", "2", token), "OK");
        has(rig_do(&rig, "BREAKERSTATE", "shop"), "closed");
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

/* ---- many jobs in one request ---- */

/* An array of jobs, as HTTP takes it: the second comes after `after`. */
static const char *enqueue_two(struct rig *rig, const char *after)
{
        const struct slice words[] = {
                SLICE_LIT("UNIQUE"),   SLICE_LIT("k"),    SLICE_LIT("CONFLICT"),
                SLICE_LIT("replace"),  SLICE_LIT("JOBS"), SLICE_LIT("new"),
                SLICE_LIT("new args"), SLICE_LIT("next"), SLICE_LIT(""),
        };
        struct problem problem = {0};
        struct command cmd;
        arena_clear(&rig->arena);
        text_reply_clear(&rig->me.reply);
        assert_int_equal(command_bind_argv(command_find(SLICE_LIT("ENQUEUEMANY")), words,
                                           ARRAY_LEN(words), &rig->arena, &cmd, &problem),
                         OK);
        assert_int_equal(cmd.n_specs, 2);
        cmd.specs[1].options.unique = SLICE_NONE;
        cmd.specs[1].conflict = CONFLICT_FIRST;
        cmd.specs[1].after = slice_str(after);
        if (core_exec(rig->core, &rig->me.base, &cmd, &rig->me.reply.base, &problem) != OK)
                reply_error(&rig->me.reply.base, &problem);
        core_commit(rig->core);
        return text_reply_str(&rig->me.reply);
}

static void many_jobs_of_which_one_comes_after_nothing_change_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "old", "old args", "UNIQUE", "k");
        uint64_t before = state_digest(&rig.core->state);
        has(enqueue_two(&rig, "99"), "!NOTFOUND after: there is no job 99");
        assert_int_equal(state_digest(&rig.core->state), before);
        has(rig_do(&rig, "JOB", "1"), "old args");
        assert_string_equal(enqueue_two(&rig, "1"), "[1 2]");
        has(rig_do(&rig, "JOB", "1"), "new args");
        rig_release(&rig);
}

static void many_jobs_that_no_batch_holds_change_nothing(void **unused)
{
        (void)unused;
        static char args[MIB];
        struct rig rig;
        struct slice words[6 + 2 * 60] = {SLICE_LIT("ENQUEUEMANY"), SLICE_LIT("UNIQUE"),
                                          SLICE_LIT("*"),           SLICE_LIT("CONFLICT"),
                                          SLICE_LIT("replace"),     SLICE_LIT("JOBS")};
        for (size_t i = 6; i < ARRAY_LEN(words); i += 2) {
                words[i] = SLICE_LIT("h");
                words[i + 1] = slice_make(args, sizeof(args) - i);
        }
        rig_init(&rig);
        uint64_t before = state_digest(&rig.core->state);
        has(rig_argv(&rig, &rig.me, words, ARRAY_LEN(words)), "!UNAVAIL the log is behind");
        assert_int_equal(state_digest(&rig.core->state), before);
        assert_int_equal(state_n_queues(&rig.core->state), 0);
        starts_with(rig_argv(&rig, &rig.me, words, 6 + 2 * 40), "[1 2 3 ");
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

/* ---- completing and claiming in one step ---- */

static void a_job_is_not_completed_and_refused_in_one_step(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN], name[16];
        rig_init(&rig);
        rig_do(&rig, "BATCH", "b", "ONDONE", "after", "QUEUE", "callbacks");
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q", "BATCH", "b");
        rig_do(&rig, "CLOSEBATCH", "b");
        assert_int_equal(rig_claim(&rig, "w", "q", token), 1);
        /* One more queue fits: the one that is waited for, and the callback makes it two. */
        for (int i = 0; state_n_queues(&rig.core->state) < LIMIT_QUEUES - 1; i++) {
                (void)snprintf(name, sizeof(name), "full%d", i);
                rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", name);
        }
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token, "r", "CLAIM", "w", "WAIT", "1000",
                                   "QUEUES", "waited for"),
                            "(waits)");
        assert_int_equal(job_status(state_job(&rig.core->state, 1)), JOB_COMPLETE);
        rig_release(&rig);
}

/* ---- more jobs that must wait than one turn looks at ---- */

static void a_worker_that_waits_gets_the_job_behind_many_that_are_parked(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session worker;
        init(&rig, MODE_ENFORCE);
        sample(&rig, 20);
        rig_session_init(&worker);
        assert_string_equal(rig_as(&rig, &worker, "CLAIM", "w", "WAIT", "600000", "QUEUES", "q"),
                            "(waits)");
        rig_do(&rig, "PAUSE", "q");
        for (int i = 0; i < 1100; i++)
                rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q", "PRIORITY", "1", "TIER",
                       "deferrable");
        rig_do(&rig, "ENQUEUE", "now", "", "QUEUE", "q", "PRIORITY", "9", "TIER", "critical");
        rig_do(&rig, "RESUME", "q");
        assert_true(worker.is_answered || core_next_ns(rig.core) <= rig.now.steady_ns);
        rig_turn(&rig);
        assert_true(worker.is_answered);
        has(text_reply_str(&worker.reply), "hook:'now'");
        rig_session_release(&rig, &worker);
        rig_release(&rig);
}

/* ---- two who wait for what the gate has put aside ---- */

static void those_who_wait_do_not_wake_each_other_for_ever(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session waiting[2];
        const char *const queues[] = {"a", "b"};
        init(&rig, MODE_ENFORCE);
        sample(&rig, 8); /* elevated: five jobs of a queue run, and no more */
        for (size_t i = 0; i < 2; i++) {
                for (int k = 0; k < 5; k++)
                        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", queues[i], "TIER", "high");
                assert_int_equal(rig_claim_many(&rig, queues[i]), 5);
                rig_session_init(&waiting[i]);
                rig_as(&rig, &waiting[i], "CLAIM", "w", "WAIT", "60000", "QUEUES", queues[i]);
        }
        for (size_t i = 0; i < 2; i++)
                rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", queues[i], "TIER", "high");
        assert_true(!waiting[0].is_answered && !waiting[1].is_answered);
        sample_for(&rig, 1, 40);
        assert_true(waiting[0].is_answered && waiting[1].is_answered);
        for (size_t i = 0; i < 2; i++)
                rig_session_release(&rig, &waiting[i]);
        rig_release(&rig);
}

static void enqueue_high(struct rig *rig, const char *queue, const char *priority, int n)
{
        for (int i = 0; i < n; i++)
                rig_do(rig, "ENQUEUE", "h", "", "QUEUE", queue, "TIER", "high", "PRIORITY",
                       priority);
}

static void a_free_place_is_not_lost_to_jobs_put_aside_that_nobody_claims(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session worker;
        char tokens[5][RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        sample(&rig, 8); /* elevated: five jobs of a queue run, and no more */
        enqueue_high(&rig, "served", "9", 6);
        for (size_t i = 0; i < 5; i++)
                assert_int_equal(rig_claim(&rig, "w", "served", tokens[i]), i + 1);
        enqueue_high(&rig, "left", "1", 25);
        assert_int_equal(rig_claim_many(&rig, "left"), 5); /* and nobody comes for the others */
        rig_session_init(&worker);
        assert_string_equal(
                rig_as(&rig, &worker, "CLAIM", "w", "WAIT", "600000", "QUEUES", "served"),
                "(waits)");
        for (size_t i = 0; i < 5; i++)
                assert_string_equal(rig_do(&rig, "COMPLETE", rig_number(i + 1), tokens[i]), "OK");
        sample_for(&rig, 8, 20);
        assert_true(worker.is_answered);
        has(text_reply_str(&worker.reply), "{id:6 ");
        rig_session_release(&rig, &worker);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_dependency_is_looked_up_again_when_history_could_not_be_read),
                cmocka_unit_test(a_job_may_take_the_last_start_of_another_queue),
                cmocka_unit_test(a_probe_whose_schedule_cancels_it_makes_way_for_the_next),
                cmocka_unit_test(many_jobs_of_which_one_comes_after_nothing_change_nothing),
                cmocka_unit_test(many_jobs_that_no_batch_holds_change_nothing),
                cmocka_unit_test(a_job_is_not_completed_and_refused_in_one_step),
                cmocka_unit_test(a_worker_that_waits_gets_the_job_behind_many_that_are_parked),
                cmocka_unit_test(those_who_wait_do_not_wake_each_other_for_ever),
                cmocka_unit_test(a_free_place_is_not_lost_to_jobs_put_aside_that_nobody_claims),
                cmocka_unit_test(a_job_may_be_the_probe_for_another_queue),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

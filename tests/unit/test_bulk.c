/* Many jobs at once, through the commands: what is concerned and what is not, what it leaves in the
 * story of a job, and what a crash half-way leaves. */
#include "check.h"

#include <stdio.h>

#include "core/kernel.h"
#include "support/rig.h"

static const struct job *live(const struct rig *rig, uint64_t id)
{
        return state_job(&rig->core->state, id);
}

/* Turns until the answer is there. */
static const char *answer(struct rig *rig)
{
        for (int n = 0; !rig->me.is_answered; n++) {
                assert_true(n < 10000);
                rig_archive_all(rig);
        }
        return text_reply_str(&rig->me.reply);
}

#define bulk(rig, ...)                                                                             \
        (strcmp(rig_do(rig, __VA_ARGS__), "(waits)") == 0 ? answer(rig)                            \
                                                          : text_reply_str(&(rig)->me.reply))

static void assert_replay_is_the_same(struct rig *rig)
{
        for (int i = 0; i < 5; i++)
                rig_turn(rig);
        assert_true(rig_replays(rig));
}

static uint64_t start(struct rig *rig, const char *queue)
{
        char token[33];
        return rig_claim(rig, "w", queue, token);
}

static void finish(struct rig *rig, const char *queue, const char *how)
{
        char token[33];
        const char *id = rig_number(rig_claim(rig, "w", queue, token));
        rig_do(rig, how, id, token, "text");
}

/* 1 and 2 wait in a, 3 runs in a, 4 waits until later in b, 5 is complete, 6 failed. */
static void make_jobs(struct rig *rig)
{
        rig_init(rig);
        rig_do(rig, "ENQUEUE", "mail", "", "QUEUE", "a");
        rig_do(rig, "ENQUEUE", "mail", "", "QUEUE", "a", "GROUP", "g");
        rig_do(rig, "ENQUEUE", "mail", "", "QUEUE", "a", "PRIORITY", "1");
        assert_int_equal(start(rig, "a"), 3);
        rig_do(rig, "ENQUEUE", "sms", "", "QUEUE", "b", "IN", "60000");
        rig_do(rig, "ENQUEUE", "mail", "", "QUEUE", "c");
        finish(rig, "c", "COMPLETE");
        rig_do(rig, "ENQUEUE", "sms", "", "QUEUE", "c", "ATTEMPTS", "1");
        finish(rig, "c", "FAIL");
}

static void a_job_is_canceled_only_while_it_is_pending_and_with_a_reason_if_asked(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        assert_int_equal(job_status(live(&rig, 3)), JOB_RUNNING);
        has(rig_do(&rig, "CANCEL", "3", "PENDING", "REASON", "moved"), "!STATE job 3 is running");
        assert_int_equal(job_status(live(&rig, 3)), JOB_RUNNING);
        assert_string_equal(rig_do(&rig, "CANCEL", "1", "PENDING", "REASON", "moved"), "OK");
        has(rig_do(&rig, "EVENTS", "1"), "message:'moved'");
        assert_string_equal(rig_do(&rig, "CANCEL", "3", "REASON", "too slow"), "OK");
        has(rig_do(&rig, "EVENTS", "3"), "message:'too slow'");
        rig_release(&rig);
}

static void canceling_many_concerns_what_has_not_ended(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        assert_string_equal(bulk(&rig, "CANCELMANY", "HOOK", "mail", "DRYRUN"),
                            "{matched:3 changed:0]");
        assert_int_equal(job_status(live(&rig, 1)), JOB_PENDING);
        assert_string_equal(bulk(&rig, "CANCELMANY", "HOOK", "mail"), "{matched:3 changed:3]");
        assert_string_equal(bulk(&rig, "CANCELMANY", "HOOK", "mail"), "{matched:0 changed:0]");
        has(rig_do(&rig, "EVENTS", "1"), "event:'canceled'");
        has(rig_do(&rig, "EVENTS", "1"), "message:'by a bulk command'");
        has(rig_do(&rig, "EVENTS", "3"), "message:'while it was running, by a bulk command'");
        has(rig_do(&rig, "JOB", "5"), "status:'complete'");
        assert_int_equal(job_status(live(&rig, 4)), JOB_PENDING);
        assert_string_equal(bulk(&rig, "CANCELMANY", "STATUS", "complete"),
                            "{matched:0 changed:0]");
        assert_replay_is_the_same(&rig);
        rig_release(&rig);
}

static void ids_are_taken_once_each_and_unknown_ones_are_passed_over(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        assert_string_equal(bulk(&rig, "CANCELMANY", "IDS", "2,2,5,77,4"), "{matched:2 changed:2]");
        assert_int_equal(job_status(live(&rig, 1)), JOB_PENDING);
        rig_release(&rig);
}

static void all_jobs_must_be_meant_and_not_forgotten_to_be_named(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        const char *commands[] = {"CANCELMANY", "RUNMANY", "DELETEMANY"};
        for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
                has(rig_do(&rig, commands[i]), "!BADARG name the jobs");
                has(rig_do(&rig, commands[i], "DRYRUN"), "!BADARG name the jobs");
                has(rig_do(&rig, commands[i], "IDS", "1", "HOOK", "mail"), "not both");
        }
        has(rig_do(&rig, "RETIERMANY", "HOOK", "mail"), "!BADARG set is missing");
        rig_release(&rig);
}

static void running_many_makes_those_due_that_wait_for_their_time(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        assert_string_equal(bulk(&rig, "RUNMANY", "STATUS", "pending"), "{matched:3 changed:1]");
        assert_int_equal(live(&rig, 4)->state, JOB_READY);
        has(rig_do(&rig, "EVENTS", "4"), "message:'run now, by a bulk command'");
        assert_replay_is_the_same(&rig);
        rig_release(&rig);
}

static void a_tier_is_changed_for_one_or_many_and_taken_back(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        assert_string_equal(rig_do(&rig, "RETIER", "1", "high"), "OK");
        assert_int_equal(live(&rig, 1)->extra->options.tier, 2);
        has(rig_do(&rig, "EVENTS", "1"), "event:'retiered'");
        has(rig_do(&rig, "EVENTS", "1"), "message:'high'");
        assert_string_equal(bulk(&rig, "RETIERMANY", "QUEUE", "a", "SET", "high"),
                            "{matched:3 changed:2]");
        has(rig_do(&rig, "EVENTS", "2"), "message:'high, by a bulk command'");
        assert_string_equal(bulk(&rig, "RETIERMANY", "TIER", "high", "SET", "registered"),
                            "{matched:3 changed:3]");
        assert_int_equal(live(&rig, 1)->extra->options.tier, 0);
        has(rig_do(&rig, "RETIER", "5", "high"), "!STATE");
        has(rig_do(&rig, "RETIER", "99", "high"), "!NOTFOUND");
        has(rig_do(&rig, "RETIER", "1", "urgent"), "!BADARG");
        assert_replay_is_the_same(&rig);
        rig_release(&rig);
}

/* Puts job 1 aside as the gate does. */
static void park(struct rig *rig, enum tier tier)
{
        struct effect e = {.type = EFFECT_JOB_PARK,
                           .id = 1,
                           .due_ms = rig->now.wall_ms + 600000,
                           .priority = (uint8_t)tier,
                           .text = SLICE_LIT("load")};
        core_emit(rig->core, &e);
}

static void a_parked_job_moves_to_its_new_tier_or_leaves_the_gate(void **state)
{
        struct rig rig;
        (void)state;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "mail", "");
        rig_do(&rig, "THROTTLE", "pause");
        park(&rig, TIER_NORMAL);
        assert_int_equal(rig.core->state.n_parked[TIER_NORMAL], 1);
        has(rig_do(&rig, "JOBCOUNTS", "QUEUE", "default"), "parked:1");
        assert_string_equal(rig_do(&rig, "RETIER", "1", "deferrable"), "OK");
        assert_int_equal(rig.core->state.n_parked[TIER_NORMAL], 0);
        assert_int_equal(rig.core->state.n_parked[TIER_DEFERRABLE], 1);
        assert_replay_is_the_same(&rig);
        assert_int_equal(rig.core->state.n_parked[TIER_DEFERRABLE], 1);
        assert_string_equal(rig_do(&rig, "RETIER", "1", "critical"), "OK"); /* which always runs */
        assert_int_equal(rig.core->state.n_parked[TIER_DEFERRABLE], 0);
        assert_int_equal(live(&rig, 1)->state, JOB_READY);
        has(rig_do(&rig, "JOBCOUNTS", "QUEUE", "default"), "parked:0");
        assert_replay_is_the_same(&rig);
        rig_release(&rig);
}

static void deleting_many_concerns_what_has_ended_stored_or_not_yet(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        rig_turn(&rig);
        assert_string_equal(rig_do(&rig, "DELETEMANY", "IDS", "1,3,5,6"), "(waits)");
        rig_turn(&rig);
        assert_false(rig.me.is_answered); /* 5 and 6 are on their way into history */
        assert_string_equal(answer(&rig), "{matched:2 changed:2]");
        assert_null(memory_archive_find(&rig.archive, 5));
        has(rig_do(&rig, "JOB", "5"), "!NOTFOUND");
        assert_non_null(live(&rig, 1));
        assert_non_null(live(&rig, 3));
        assert_replay_is_the_same(&rig);
        rig_archive_all(&rig);
        assert_null(memory_archive_find(&rig.archive, 5)); /* and it does not come back */
        rig_release(&rig);
}

static void deleting_by_a_filter_goes_through_all_pages(void **state)
{
        struct rig rig;
        (void)state;
        rig_init(&rig);
        for (int i = 0; i < 60; i++) {
                rig_do(&rig, "ENQUEUE", i % 3 ? "some" : "other", "", "QUEUE", "c");
                finish(&rig, "c", "COMPLETE");
        }
        rig_archive_all(&rig);
        rig.archive.budget = 7;
        assert_string_equal(bulk(&rig, "DELETEMANY", "HOOK", "some", "DRYRUN"),
                            "{matched:40 changed:0]");
        assert_string_equal(bulk(&rig, "DELETEMANY", "HOOK", "some"), "{matched:40 changed:40]");
        assert_int_equal(rig.archive.rows.len, 20);
        rig_release(&rig);
}

/* Until the batch with its ARCHIVED effect is durable a crash would make the job live and ended
 * again, and the archive would get it a second time. */
static void a_row_is_deleted_only_when_nothing_can_bring_it_back(void **state)
{
        struct rig rig;
        (void)state;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "mail", "", "QUEUE", "c");
        finish(&rig, "c", "COMPLETE");
        rig_turn(&rig);
        rig.log.is_manual = true;
        memory_archive_commit(&rig.archive, SIZE_MAX);
        rig_turn(&rig); /* let go of, in a batch that is not durable */
        assert_null(live(&rig, 1));
        assert_string_equal(rig_do(&rig, "DELETEMANY", "STATUS", "complete"), "(waits)");
        for (int i = 0; i < 5; i++)
                rig_turn(&rig);
        assert_non_null(memory_archive_find(&rig.archive, 1));
        memory_log_sync(&rig.log);
        for (int i = 0; i < 5; i++) {
                rig_turn(&rig);
                memory_log_sync(&rig.log);
        }
        assert_true(rig.me.is_answered);
        assert_null(memory_archive_find(&rig.archive, 1));
        rig_release(&rig);
}

static void a_retry_and_a_deletion_of_the_same_job_come_one_after_the_other(void **state)
{
        struct rig rig;
        struct rig_session other;
        (void)state;
        make_jobs(&rig);
        rig_archive_all(&rig);
        rig_session_init(&other);
        struct command cmd;
        struct problem problem;
        struct slice words[] = {SLICE_LIT("IDS"), SLICE_LIT("6")};
        const struct command_def *def = command_find(SLICE_LIT("DELETEMANY"));
        assert_int_equal(command_bind_argv(def, words, 2, &rig.arena, &cmd, &problem), OK);
        assert_int_equal(core_exec(rig.core, &other.base, &cmd, &other.reply.base, &problem),
                         CORE_LATER);
        (void)rig_do(&rig, "RETRY", "6");
        for (int i = 0; i < 5; i++)
                rig_turn(&rig);
        assert_string_equal(text_reply_str(&other.reply), "{matched:1 changed:1]");
        has(text_reply_str(&rig.me.reply), "!NOTFOUND");
        assert_null(live(&rig, 6));
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

static void retries_are_counted_by_filter_and_done_by_ids(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        assert_string_equal(bulk(&rig, "RETRYMANY", "DRYRUN"), "{matched:1 changed:0]");
        assert_string_equal(bulk(&rig, "RETRYMANY", "DRYRUN", "HOOK", "mail"),
                            "{matched:0 changed:0]");
        assert_string_equal(bulk(&rig, "RETRYMANY", "IDS", "5,6,1,99"),
                            "{retried:1 skipped:1 cursor:'' matched:2 changed:1]");
        assert_int_equal(job_status(live(&rig, 6)), JOB_PENDING);
        rig_release(&rig);
}

static void enqueue_many(struct rig *rig, size_t n)
{
        struct slice argv[2 + 2 * 1000];
        for (size_t i = 0; i < ARRAY_LEN(argv); i++)
                argv[i] = SLICE_LIT("h");
        argv[0] = SLICE_LIT("ENQUEUEMANY");
        argv[1] = SLICE_LIT("JOBS");
        for (; n; n -= 1000)
                (void)rig_argv(rig, &rig->me, argv, ARRAY_LEN(argv));
}

static void many_are_changed_bit_by_bit_and_a_peer_that_goes_away_ends_it(void **state)
{
        struct rig rig;
        struct rig_session other;
        (void)state;
        rig_init(&rig);
        enqueue_many(&rig, 20000);
        rig_session_init(&other);
        (void)rig_as(&rig, &other, "CANCELMANY", "HOOK", "h");
        uint64_t most = 0, before = rig.core->totals.canceled;
        for (int i = 0; i < 10; i++) {
                rig_turn(&rig);
                uint64_t now = rig.core->totals.canceled;
                most = now - before > most ? now - before : most;
                before = now;
        }
        assert_in_range(most, 100, 2000);
        assert_false(other.is_answered);
        rig_session_release(&rig, &other);
        rig_turn(&rig);
        assert_int_equal(rig.core->totals.canceled, before);
        assert_true(list_is_empty(&rig.core->bulks) && list_is_empty(&rig.core->scans));
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void canceling_waits_for_an_archive_that_is_behind(void **state)
{
        struct rig rig;
        (void)state;
        rig_init(&rig);
        rig.core->options.finished_max = 1000;
        enqueue_many(&rig, 5000);
        (void)rig_do(&rig, "CANCELMANY", "HOOK", "h");
        for (int i = 0; i < 50; i++)
                rig_turn(&rig);
        assert_in_range(rig.core->state.n_finished, 1000, 1500);
        assert_string_equal(answer(&rig), "{matched:5000 changed:5000]");
        rig_release(&rig);
}

static void a_stop_says_how_far_it_came(void **state)
{
        struct rig rig;
        (void)state;
        rig_init(&rig);
        enqueue_many(&rig, 20000);
        (void)rig_do(&rig, "RETIERMANY", "HOOK", "h", "SET", "high");
        rig_turn(&rig);
        core_stop(rig.core);
        assert_true(rig.me.is_answered);
        has(text_reply_str(&rig.me.reply), "!STOPPING");
        has(text_reply_str(&rig.me.reply), "jobs were retiered, then: weir is stopping");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(
                        a_job_is_canceled_only_while_it_is_pending_and_with_a_reason_if_asked),
                cmocka_unit_test(canceling_many_concerns_what_has_not_ended),
                cmocka_unit_test(ids_are_taken_once_each_and_unknown_ones_are_passed_over),
                cmocka_unit_test(all_jobs_must_be_meant_and_not_forgotten_to_be_named),
                cmocka_unit_test(running_many_makes_those_due_that_wait_for_their_time),
                cmocka_unit_test(a_tier_is_changed_for_one_or_many_and_taken_back),
                cmocka_unit_test(a_parked_job_moves_to_its_new_tier_or_leaves_the_gate),
                cmocka_unit_test(deleting_many_concerns_what_has_ended_stored_or_not_yet),
                cmocka_unit_test(deleting_by_a_filter_goes_through_all_pages),
                cmocka_unit_test(a_row_is_deleted_only_when_nothing_can_bring_it_back),
                cmocka_unit_test(a_retry_and_a_deletion_of_the_same_job_come_one_after_the_other),
                cmocka_unit_test(retries_are_counted_by_filter_and_done_by_ids),
                cmocka_unit_test(many_are_changed_bit_by_bit_and_a_peer_that_goes_away_ends_it),
                cmocka_unit_test(canceling_waits_for_an_archive_that_is_behind),
                cmocka_unit_test(a_stop_says_how_far_it_came),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

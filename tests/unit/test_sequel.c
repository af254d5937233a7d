/* Crowds: what follows from one event for many jobs takes several turns and batches, goes on after
 * a restart by the same outcome, and never makes a batch that the log does not take. */
#include "check.h"

#include <stdio.h>

#include "core/kernel.h"
#include "jobs/dependents.h"
#include "support/rig.h"

#define STEPS 4
#define CROWD 30

/* A core that takes few steps a turn. */
static void init(struct rig *rig)
{
        rig_init(rig);
        rig->options.turn_steps = STEPS;
        rig_restart(rig);
}

static const struct queue *queue_of(const struct rig *rig, const char *name)
{
        const struct queue *q = state_queue_find(&rig->core->state, slice_str(name));
        assert_non_null(q);
        return q;
}

/* Job 1 in the queue roots, and those after it in the queue crowd. */
static void make_crowd(struct rig *rig, const char *history, const char *when)
{
        rig_do(rig, "QUEUESET", "roots", "HISTORY", history);
        same(rig_do(rig, "ENQUEUE", "root", "", "QUEUE", "roots", "ATTEMPTS", "1"), "1");
        for (int i = 0; i < CROWD; i++)
                rig_do(rig, "ENQUEUE", "follower", "", "QUEUE", "crowd", "AFTER", "1", "WHEN", when,
                       "UNIQUE", rig_number((uint64_t)i), "SCOPE", "after", "UNIQUEFOR", "3600000");
        assert_int_equal(queue_of(rig, "crowd")->n_waiting, CROWD);
}

/* Turns until nobody waits; before each the process ends when is_crashing.  How many it took. */
static int work_off(struct rig *rig, bool is_crashing)
{
        int turns = 0;
        while (queue_of(rig, "crowd")->n_waiting) {
                if (is_crashing)
                        assert_true(rig_replays(rig));
                rig_turn(rig);
                assert_true(++turns < 2 * CROWD);
        }
        return turns;
}

static void end_root(struct rig *rig, const char *how)
{
        char token[RIG_TOKEN];
        if (strcmp(how, "canceled") == 0) {
                same(rig_do(rig, "CANCEL", "1"), "OK");
                return;
        }
        assert_int_equal(rig_claim(rig, "w", "roots", token), 1);
        if (strcmp(how, "complete") == 0)
                same(rig_do(rig, "COMPLETE", "1", token), "OK");
        else
                same(rig_do(rig, "FAIL", "1", token, "no"), "'failed'");
}

/* ---- outcomes ---- */

static void check_outcome(const char *how, const char *history, const char *when, bool is_crashing,
                          bool is_let_run)
{
        struct rig rig;
        init(&rig);
        make_crowd(&rig, history, when);
        end_root(&rig, how);
        assert_in_range(queue_of(&rig, "crowd")->n_waiting, 1, CROWD - 1);
        assert_true(work_off(&rig, is_crashing) >= CROWD / STEPS - 1);
        rig_turn(&rig);
        const struct queue *crowd = queue_of(&rig, "crowd");
        if (crowd->n_ready != (is_let_run ? CROWD : 0) ||
            crowd->canceled != (is_let_run ? 0 : CROWD))
                fail_msg("%s, %s, %s, %d: %zu ready, %llu canceled", how, history, when,
                         is_crashing, crowd->n_ready, (unsigned long long)crowd->canceled);
        assert_true(list_is_empty(&rig.core->state.sequels));
        assert_int_equal(rig.core->state.things[THING_SEQUEL].len, 0);
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

static void a_crowd_ends_as_its_parent_did_wherever_the_process_ends(void **unused)
{
        (void)unused;
        static const struct {
                const char *how, *when;
                bool is_let_run;
        } rows[] = {{"complete", "complete", true},  {"failed", "complete", false},
                    {"canceled", "complete", false}, {"failed", "failed", true},
                    {"canceled", "failed", false},   {"canceled", "ended", true}};
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                for (int k = 0; k < 4; k++)
                        check_outcome(rows[i].how, k & 1 ? "none" : "full", rows[i].when, k & 2,
                                      rows[i].is_let_run);
}

static void a_tree_is_worked_off_to_its_last_leaf(void **unused)
{
        (void)unused;
        struct rig rig;
        char after[24];
        init(&rig);
        rig_do(&rig, "QUEUESET", "crowd", "HISTORY", "none");
        rig_do(&rig, "ENQUEUE", "root", "", "QUEUE", "roots");
        for (int i = 2; i < 200; i++) { /* three each */
                (void)snprintf(after, sizeof(after), "%d", (i + 1) / 3);
                rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "crowd", "AFTER", after);
        }
        same(rig_do(&rig, "CANCEL", "1"), "OK");
        for (int turns = 0; queue_of(&rig, "crowd")->n_waiting; turns++) {
                assert_true(rig_replays(&rig));
                rig_turn(&rig);
                assert_true(turns < 400);
        }
        assert_int_equal(queue_of(&rig, "crowd")->canceled, 198);
        rig_turn(&rig);
        assert_int_equal(rig.core->state.things[THING_SEQUEL].len, 0);
        rig_release(&rig);
}

static void a_small_cascade_does_not_wait_for_a_large_one(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        make_crowd(&rig, "none", "complete");
        same(rig_do(&rig, "ENQUEUE", "a", "", "QUEUE", "small"), rig_number(CROWD + 2));
        rig_do(&rig, "ENQUEUE", "b", "", "QUEUE", "small", "AFTER", rig_number(CROWD + 2));
        end_root(&rig, "canceled");
        core_turn(rig.core, rig.now);
        uint64_t batches = rig.log.last_seq;
        same(rig_do(&rig, "CANCEL", rig_number(CROWD + 2)), "OK");
        assert_int_equal(rig.log.last_seq, batches + 1);
        assert_int_equal(queue_of(&rig, "small")->canceled, 2);
        assert_true(queue_of(&rig, "crowd")->n_waiting > 0);
        rig_release(&rig);
}

static void few_followers_leave_no_trace_of_a_sequel(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        make_crowd(&rig, "none", "complete");
        uint64_t batches = rig.log.last_seq;
        end_root(&rig, "canceled");
        assert_int_equal(rig.log.last_seq, batches + 1);
        assert_int_equal(queue_of(&rig, "crowd")->canceled, CROWD);
        assert_int_equal(rig.core->state.things[THING_SEQUEL].len, 0);
        rig_release(&rig);
}

/* ---- the parent meanwhile ---- */

static void a_late_completion_lets_those_run_that_were_not_told_of_the_failure(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig);
        make_crowd(&rig, "full", "complete");
        assert_int_equal(rig_claim(&rig, "w", "roots", token), 1);
        rig_pass_ms(&rig, JOB_LEASE_DEFAULT_MS);
        uint64_t canceled = queue_of(&rig, "crowd")->canceled;
        assert_in_range(canceled, 1, CROWD - 1);
        same(rig_do(&rig, "COMPLETE", "1", token), "OK");
        canceled = queue_of(&rig, "crowd")->canceled;
        (void)work_off(&rig, true);
        assert_int_equal(queue_of(&rig, "crowd")->canceled, canceled);
        assert_int_equal(queue_of(&rig, "crowd")->n_ready, CROWD - canceled);
        rig_release(&rig);
}

static void a_job_comes_back_when_its_followers_were_told(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        make_crowd(&rig, "full", "complete");
        end_root(&rig, "canceled");
        memory_archive_commit(&rig.archive, SIZE_MAX);
        core_archive_poll(rig.core);
        core_commit(rig.core);
        assert_null(state_job(&rig.core->state, 1));
        assert_true(dependents_are_left(rig.core, 1));
        has(rig_do(&rig, "RETRY", "1"), "!UNAVAIL jobs that come after job 1 are still being told");
        (void)work_off(&rig, false);
        rig_archive_all(&rig);
        same(rig_do(&rig, "RETRY", "1"), "'pending'");
        rig_release(&rig);
}

static void who_comes_later_is_told_the_same(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        make_crowd(&rig, "none", "complete");
        end_root(&rig, "canceled");
        assert_null(state_job(&rig.core->state, 1));
        rig_do(&rig, "ENQUEUE", "late", "", "QUEUE", "crowd", "AFTER", "1");
        (void)work_off(&rig, true);
        assert_int_equal(queue_of(&rig, "crowd")->canceled, CROWD + 1);
        rig_release(&rig);
}

/* More ids are waited for than the archive is asked about at once. */
static void all_that_history_holds_are_looked_up(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        for (int i = 0; i < 2500; i++)
                rig_do(&rig, "ENQUEUE", "old", "", "QUEUE", "old");
        for (uint64_t id = 1; id <= 2500; id++)
                rig_do(&rig, "CANCEL", rig_number(id));
        rig_archive_all(&rig);
        assert_int_equal(rig.core->state.jobs.len, 0);
        rig.archive.is_broken = true;
        for (uint64_t id = 1; id <= 2500; id++)
                rig_do(&rig, "ENQUEUE", "new", "", "QUEUE", "crowd", "AFTER", rig_number(id));
        assert_int_equal(queue_of(&rig, "crowd")->n_waiting, 2500);
        rig.archive.is_broken = false;
        for (int i = 0; i < 20; i++)
                rig_pass_ms(&rig, 1000);
        assert_int_equal(queue_of(&rig, "crowd")->canceled, 2500);
        rig_release(&rig);
}

/* ---- a log that is behind ---- */

#define MANY      180000
#define MANY_EACH 10000

static char long_name[LIMIT_NAME_BYTES + 1];

static void enqueue_many(struct rig *rig, const char *name, const char *value)
{
        static struct slice argv[8 + 2 * MANY_EACH];
        const char *words[] = {"ENQUEUEMANY", "QUEUE", "crowd", name, value, "JOBS"};
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                argv[i] = slice_str(words[i]);
        for (size_t i = 0; i < MANY_EACH; i++) {
                argv[6 + 2 * i] = SLICE_LIT("h");
                argv[7 + 2 * i] = SLICE_LIT("");
        }
        for (size_t i = 0; i < MANY / MANY_EACH; i++)
                has_not(rig_argv(rig, &rig->me, argv, 6 + 2 * MANY_EACH), "!");
}

/* Turns while a sync does not end; then the log catches up. */
static void stand_still(struct rig *rig)
{
        rig->log.is_manual = true;
        for (int i = 0; i < 300; i++)
                rig_turn(rig);
        assert_true(rig->core->batch[rig->core->open].len < LOG_BATCH_MAX / 2);
        for (int i = 0; i < 300; i++) {
                memory_log_sync(&rig->log);
                rig_turn(rig);
        }
        rig->log.is_manual = false;
        memory_log_sync(&rig->log);
        rig_turn(rig);
        for (uint64_t i = 0; i < rig->log.last_seq; i++)
                assert_true(rig->log.batches[i].len < LOG_BATCH_MAX / 2);
}

static void a_crowd_that_ends_waits_for_the_log(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BATCH", long_name);
        rig_do(&rig, "PAUSE", "crowd");
        enqueue_many(&rig, "BATCH", long_name);
        rig_do(&rig, "CLOSEBATCH", long_name);
        rig.log.is_manual = true;
        rig_do(&rig, "CANCELBATCH", long_name);
        for (int i = 0; i < 300; i++)
                rig_pass_ms(&rig, 1);
        stand_still(&rig);
        for (int i = 0; i < 300; i++)
                rig_pass_ms(&rig, 1);
        assert_int_equal(queue_of(&rig, "crowd")->canceled, MANY);
        rig_release(&rig);
}

static void waiting_claims_wait_for_the_log(void **unused)
{
        (void)unused;
        struct rig rig;
        static struct rig_session workers[MANY / 1000];
        size_t n_answered = 0;
        rig_init(&rig);
        rig_do(&rig, "PAUSE", "crowd");
        enqueue_many(&rig, "ATTEMPTS", "1");
        for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
                rig_session_init(&workers[i]);
                same(rig_as(&rig, &workers[i], "CLAIM", long_name, "MAX", "1000", "WAIT", "600000",
                            "QUEUES", "crowd"),
                     "(waits)");
        }
        rig.log.is_manual = true;
        rig_do(&rig, "RESUME", "crowd");
        stand_still(&rig);
        for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
                n_answered += workers[i].is_answered;
                rig_session_release(&rig, &workers[i]);
        }
        assert_int_equal(n_answered, ARRAY_LEN(workers));
        assert_int_equal(queue_of(&rig, "crowd")->n_running, MANY);
        rig_release(&rig);
}

int main(void)
{
        memset(long_name, 'n', LIMIT_NAME_BYTES);
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_crowd_ends_as_its_parent_did_wherever_the_process_ends),
                cmocka_unit_test(a_tree_is_worked_off_to_its_last_leaf),
                cmocka_unit_test(a_small_cascade_does_not_wait_for_a_large_one),
                cmocka_unit_test(few_followers_leave_no_trace_of_a_sequel),
                cmocka_unit_test(
                        a_late_completion_lets_those_run_that_were_not_told_of_the_failure),
                cmocka_unit_test(a_job_comes_back_when_its_followers_were_told),
                cmocka_unit_test(who_comes_later_is_told_the_same),
                cmocka_unit_test(all_that_history_holds_are_looked_up),
                cmocka_unit_test(a_crowd_that_ends_waits_for_the_log),
                cmocka_unit_test(waiting_claims_wait_for_the_log),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

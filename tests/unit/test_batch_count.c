/* What counts in a batch, and as what: jobs that are tried again, late, unique, refused. */
#include "batch_box.h"

static void a_job_that_is_tried_again_has_not_ended(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "BATCH", "b");
        rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b", "ATTEMPTS", "2");
        rig_do(&rig, "CLOSEBATCH", "b");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "no"), "'pending'");
        batch_has(&rig, "status:'closed' total:1 left:1 complete:0 failed:0");
        restart_and_compare(&rig);
        assert_int_equal(rig_fail_next(&rig, "default", "no"), 1);
        batch_has(&rig, "status:'finished' total:1 left:0 complete:0 failed:1");
        rig_release(&rig);
}

static void a_late_completion_counts_as_complete(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init_with_jobs(&rig, 2);
        rig_do(&rig, "CLOSEBATCH", "b");
        assert_int_equal(rig_claim(&rig, "w", "work", token), 1);
        rig_pass_ms(&rig, 300001);
        batch_has(&rig, "left:1 complete:0 failed:1");
        restart_and_compare(&rig);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        batch_has(&rig, "left:1 complete:1 failed:0");
        restart_and_compare(&rig);
        assert_int_equal(rig_complete_next(&rig, "work"), 2);
        batch_has(&rig, "onsuccess:{hook:'good' args:'{\"ok\":1}' job:3]");
        rig_release(&rig);
}

static void a_completion_after_the_end_of_the_batch_changes_the_counts_alone(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init_with_jobs(&rig, 1);
        rig_do(&rig, "CLOSEBATCH", "b");
        assert_int_equal(rig_claim(&rig, "w", "work", token), 1);
        rig_pass_ms(&rig, 300001);
        batch_has(&rig, "status:'finished' total:1 left:0 complete:0 failed:1");
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        batch_has(&rig, "status:'finished' total:1 left:0 complete:1 failed:0");
        assert_int_equal(rig.core->state.next_id, 3); /* done was called, success is not */
        restart_and_compare(&rig);
        rig_release(&rig);
}

static void a_job_that_runs_again_does_not_count_again(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BATCH", "b");
        add(&rig, "b", "1");
        add(&rig, "b", "2");
        assert_int_equal(rig_fail_next(&rig, "work", "no"), 1);
        rig_archive_all(&rig);
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'");
        restart_and_compare(&rig);
        batch_has(&rig, "total:2 left:1 complete:0 failed:1");
        assert_string_equal(rig_do(&rig, "CANCELBATCH", "b"), "1"); /* not the one of before */
        restart_and_compare(&rig);
        assert_int_equal(rig_complete_next(&rig, "work"), 1);
        batch_has(&rig, "status:'finished' total:2 left:0 complete:0 failed:1 canceled:1");
        restart_and_compare(&rig);
        rig_release(&rig);
}

static void a_unique_key_that_is_taken_adds_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BATCH", "b");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k"), "1");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k", "BATCH", "b"), "1");
        batch_has(&rig, "total:0");
        /* The second of this request meets the first. */
        assert_string_equal(rig_do(&rig, "ENQUEUEMANY", "UNIQUE", "*", "BATCH", "b", "JOBS", "h",
                                   "1", "h", "1", "h", "2"),
                            "[2 2 3]");
        batch_has(&rig, "total:2 left:2");
        rig_do(&rig, "ENQUEUE", "h", "3", "UNIQUE", "k", "BATCH", "b", "CONFLICT", "replace");
        batch_has(&rig, "total:2 left:2");
        restart_and_compare(&rig);
        rig_release(&rig);
}

static const char *exec_specs(struct rig *rig, struct job_spec *specs, size_t n)
{
        struct problem problem = {0};
        struct command cmd;
        command_init(&cmd, command_find(SLICE_LIT("ENQUEUEMANY")));
        cmd.specs = specs;
        cmd.n_specs = n;
        cmd.is_many = true;
        text_reply_clear(&rig->me.reply);
        if (core_exec(rig->core, &rig->me.base, &cmd, &rig->me.reply.base, &problem) < 0)
                reply_error(&rig->me.reply.base, &problem);
        core_commit(rig->core);
        return text_reply_str(&rig->me.reply);
}

static void a_request_that_is_refused_counts_nowhere(void **unused)
{
        (void)unused;
        struct rig rig;
        struct job_spec specs[4];
        rig_init(&rig);
        rig_do(&rig, "BATCH", "a");
        rig_do(&rig, "BATCH", "b", "ONDONE", "over");
        for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
                job_spec_init(&specs[i]);
                specs[i].hook = SLICE_LIT("h");
                specs[i].has_options = true;
                specs[i].options.batch = i < 2 ? SLICE_LIT("a") : SLICE_LIT("b");
        }
        specs[3].after = SLICE_LIT("99");
        starts_with(exec_specs(&rig, specs, 4), "!NOTFOUND after:");
        has(state_of(&rig, "a"), "total:0 left:0 complete:0 failed:0 canceled:0");
        has(state_of(&rig, "b"), "total:0 left:0 complete:0 failed:0 canceled:0");
        assert_int_equal(rig.core->state.jobs.len, 0);
        restart_and_compare(&rig);
        specs[3].after = SLICE_NONE;
        specs[1].options.batch = SLICE_LIT("missing");
        starts_with(exec_specs(&rig, specs, 4), "!NOTFOUND there is no batch 'missing'");
        specs[1].options.batch = SLICE_NONE;
        starts_with(exec_specs(&rig, specs, 4), "[1 2 3 4]");
        has(state_of(&rig, "a"), "total:1 left:1");
        has(state_of(&rig, "b"), "total:2 left:2");
        restart_and_compare(&rig);
        rig_release(&rig);
}

static void jobs_that_never_start_count_as_well(void **unused)
{
        (void)unused;
        struct rig rig;
        init_with_jobs(&rig, 0);
        rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b", "EXPIRES", "100", "IN", "1000");
        rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b", "AFTER", "1");
        rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b", "AFTER", "1", "OTHERWISE", "fail");
        rig_do(&rig, "CLOSEBATCH", "b");
        restart_and_compare(&rig);
        rig_pass_ms(&rig, 101);
        batch_has(&rig, "status:'finished' total:3 left:0 complete:0 failed:1 canceled:2");
        restart_and_compare(&rig);
        assert_int_equal(rig.core->state.next_id, 5);
        rig_release(&rig);
}

static void jobs_count_that_history_does_not_keep(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "QUEUESET", "work", "HISTORY", "none");
        make_with_callbacks(&rig, "b");
        add(&rig, "b", "1");
        add(&rig, "b", "2");
        rig_do(&rig, "CLOSEBATCH", "b");
        assert_int_equal(rig_complete_next(&rig, "work"), 1);
        assert_string_equal(rig_do(&rig, "CANCELBATCH", "b"), "1");
        batch_has(&rig, "status:'finished' total:2 left:0 complete:1 failed:0 canceled:1");
        assert_null(state_job(&rig.core->state, 2));
        restart_and_compare(&rig);
        rig_release(&rig);
}

/* ---- jobs that ended elsewhere ---- */

static void a_batch_may_begin_with_jobs_that_ended_elsewhere(void **unused)
{
        static const char *const outcomes[] = {"COMPLETE", "FAILED", "CANCELED"};
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
                struct rig rig;
                rig_init(&rig);
                assert_string_equal(rig_do(&rig, "BATCH", "b", "ONSUCCESS", "good", "ONDONE",
                                           "over", outcomes[i], "2"),
                                    "OK");
                batch_has(&rig, "status:'open' total:2 left:0 ");
                add(&rig, "b", "1");
                restart_and_compare(&rig);
                assert_string_equal(rig_do(&rig, "CLOSEBATCH", "b"), "'closed'");
                assert_int_equal(rig_complete_next(&rig, "work"), 1);
                batch_has(&rig, "status:'finished' total:3 left:0 ");
                batch_has(&rig, i == 0 ? "complete:3 failed:0 canceled:0" : "complete:1 ");
                batch_has(&rig, i == 0 ? "onsuccess:{hook:'good' args:'' job:2]"
                                       : "onsuccess:{hook:'good' args:'' job:null]");
                restart_and_compare(&rig);
                assert_int_equal(rig.core->state.next_id, i == 0 ? 4 : 3);
                rig_release(&rig);
        }
}

static void those_count_towards_the_most_that_a_batch_has(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        starts_with(rig_do(&rig, "BATCH", "b", "COMPLETE", "-1"), "!BADARG");
        starts_with(rig_do(&rig, "BATCH", "b", "FAILED", "10000001"), "!BADARG");
        starts_with(rig_do(&rig, "BATCH", "b", "FAILED", "5000000", "CANCELED", "5000001"),
                    "!LIMIT a batch has at most 10000000 jobs");
        assert_int_equal(rig.core->state.things[THING_BATCH].len, 0);
        assert_string_equal(
                rig_do(&rig, "BATCH", "b", "COMPLETE", "9999998", "FAILED", "1", "CANCELED", "0"),
                "OK");
        add(&rig, "b", "1");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b"), "!LIMIT");
        batch_has(&rig, "total:10000000 left:1 complete:9999998 failed:1 canceled:0");
        restart_and_compare(&rig);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_job_that_is_tried_again_has_not_ended),
                cmocka_unit_test(a_late_completion_counts_as_complete),
                cmocka_unit_test(a_completion_after_the_end_of_the_batch_changes_the_counts_alone),
                cmocka_unit_test(a_job_that_runs_again_does_not_count_again),
                cmocka_unit_test(a_unique_key_that_is_taken_adds_nothing),
                cmocka_unit_test(a_request_that_is_refused_counts_nowhere),
                cmocka_unit_test(jobs_that_never_start_count_as_well),
                cmocka_unit_test(jobs_count_that_history_does_not_keep),
                cmocka_unit_test(a_batch_may_begin_with_jobs_that_ended_elsewhere),
                cmocka_unit_test(those_count_towards_the_most_that_a_batch_has),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

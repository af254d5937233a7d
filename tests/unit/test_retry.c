/* Running jobs again, through the commands: what becomes of a job of every status, wherever it
 * is on its way into history, and what listings show of it meanwhile. */
#include "check.h"

#include <stdio.h>

#include "core/kernel.h"
#include "support/rig.h"

static void make_failed(struct rig *rig)
{
        rig_do(rig, "ENQUEUE", "mail", "{\"to\":1}", "ATTEMPTS", "1", "GROUP", "g");
        assert_int_equal(rig_fail_next(rig, "default", "no route"), 1);
}

static const struct job *live(const struct rig *rig, uint64_t id)
{
        return state_job(&rig->core->state, id);
}

static uint64_t run_of(const struct rig *rig, uint64_t id)
{
        const struct job *job = live(rig, id);
        assert_non_null(job);
        return job->extra ? job->extra->options.run : 0;
}

static void a_failed_job_of_history_runs_again_under_its_id(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        make_failed(&rig);
        rig_archive_all(&rig);
        assert_null(live(&rig, 1));
        rig_pass_ms(&rig, 5000);
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'");
        const char *job = rig_do(&rig, "JOB", "1");
        has(job, "status:'pending'");
        has(job, "attempt:0 ");
        has(job, "error:'no route'");
        has(job, "args:'{\"to\":1}'");
        has(job, "group:'g'");
        has(job, "finished_ms:0");
        const char *events = rig_do(&rig, "EVENTS", "1");
        has(events, "event:'failed'");
        has(events, "event:'retried'");
        assert_int_equal(run_of(&rig, 1), 1);
        assert_true(rig_replays(&rig));

        assert_int_equal(rig_claim(&rig, "w2", "default", token), 1);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token, "done"), "OK");
        rig_archive_all(&rig);
        assert_null(live(&rig, 1));
        job = rig_do(&rig, "JOB", "1");
        has(job, "status:'complete'");
        has(job, "result:'done'");
        has(job, "error:''");
        has(job, "worker:'w2'");
        assert_int_equal(rig.archive.ignored, 0);
        rig_release(&rig);
}

static void it_can_be_taken_back_any_number_of_times(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        make_failed(&rig);
        for (uint64_t run = 1; run <= 60; run++) { /* more events than are kept */
                rig_archive_all(&rig);
                assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'");
                assert_int_equal(run_of(&rig, 1), run);
                state_check(&rig.core->state);
                assert_int_equal(rig_fail_next(&rig, "default", "no route"), 1);
        }
        assert_true(rig_replays(&rig));
        rig_archive_all(&rig);
        struct job_options o;
        const struct job_view *row = memory_archive_find(&rig.archive, 1);
        assert_true(options_unpack(row->options, &o));
        assert_int_equal(o.run, 60);
        rig_release(&rig);
}

static void what_retry_does_depends_on_the_status(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        starts_with(rig_do(&rig, "RETRY", "1"), "!NOTFOUND");
        starts_with(rig_do(&rig, "RUN", "1"), "!NOTFOUND");

        rig_do(&rig, "ENQUEUE", "ready", ""); /* 1 */
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'");
        assert_string_equal(rig_do(&rig, "RUN", "1"), "'pending'");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        starts_with(rig_do(&rig, "RETRY", "1"), "!STATE");
        has(rig_do(&rig, "RUN", "1"), "in-progress");
        rig_do(&rig, "COMPLETE", "1", token, "first");
        starts_with(rig_do(&rig, "RETRY", "1"), "!STATE"); /* not archived yet */
        rig_archive_all(&rig);
        has(rig_do(&rig, "RETRY", "1"), "!STATE job 1 is complete: it runs again only with force");
        has(rig_do(&rig, "RUN", "1"), "!STATE job 1 has ended: retry it to run it again");
        assert_string_equal(rig_do(&rig, "RETRY", "1", "FORCE"), "'pending'");
        has(rig_do(&rig, "JOB", "1"), "result:null");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig_do(&rig, "COMPLETE", "1", token, "second");
        rig_archive_all(&rig);
        has(rig_do(&rig, "JOB", "1"), "result:'second'");

        rig_do(&rig, "ENQUEUE", "cancel", ""); /* 2 */
        rig_do(&rig, "CANCEL", "2");
        rig_archive_all(&rig);
        assert_string_equal(rig_do(&rig, "RETRY", "2"), "'pending'");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        rig_release(&rig);
}

static void a_delayed_job_becomes_due_now(void **unused)
{
        static const char *const commands[] = {"RETRY", "RUN"};
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
                struct rig rig;
                char token[33];
                rig_init(&rig);
                const char *at = rig_number((uint64_t)rig.now.wall_ms + 3600000);
                rig_do(&rig, "ENQUEUE", "in", "", "IN", "3600000", "QUEUE", "in"); /* 1 */
                rig_do(&rig, "ENQUEUE", "at", "", "AT", at, "QUEUE", "at");        /* 2 */
                rig_do(&rig, "ENQUEUE", "back", "", "QUEUE", "back");              /* 3 */
                assert_int_equal(rig_claim(&rig, "w", "back", token), 3);
                rig_do(&rig, "FAIL", "3", token, "x", "RETRYIN", "60000");
                assert_int_equal(rig_claim(&rig, "w", "back", token), 0);
                for (const char *id = "123"; *id; id++) {
                        const char word[] = {*id, 0};
                        assert_string_equal(rig_do(&rig, commands[i], word), "'pending'");
                }
                assert_true(rig_replays(&rig));
                assert_int_equal(rig_claim(&rig, "w", "in", token), 1);
                assert_int_equal(rig_claim(&rig, "w", "at", token), 2);
                assert_int_equal(rig_claim(&rig, "w", "back", token), 3);
                has(rig_do(&rig, "EVENTS", "1"), i ? "run now" : "retry now");
                rig_release(&rig);
        }
}

static void a_job_that_comes_after_another_is_not_hurried(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "a", "");
        rig_do(&rig, "ENQUEUE", "b", "");
        rig_do(&rig, "ENQUEUE", "c", "", "AFTER", "2");
        rig_do(&rig, "ENQUEUE", "d", "", "AFTER", "1,2");
        has(rig_do(&rig, "RUN", "3"), "comes after job 2, which");
        has(rig_do(&rig, "RETRY", "4"), "comes after job 1 and 1 more");
        rig_release(&rig);
}

static void dependencies_and_the_end_of_its_time_do_not_come_back(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "a", "", "ATTEMPTS", "1");
        rig_do(&rig, "ENQUEUE", "b", "", "AFTER", "1", "OTHERWISE", "fail");
        rig_do(&rig, "ENQUEUE", "c", "", "EXPIRES", "1000", "QUEUE", "c");
        assert_int_equal(rig_fail_next(&rig, "default", "no route"), 1);
        rig_pass_ms(&rig, 2000);
        rig_archive_all(&rig);
        has(rig_do(&rig, "JOB", "2"), "status:'failed'");
        has(rig_do(&rig, "JOB", "3"), "status:'canceled'");
        assert_string_equal(rig_do(&rig, "RETRY", "2"), "'pending'");
        assert_string_equal(rig_do(&rig, "RETRY", "3"), "'pending'");
        rig_pass_ms(&rig, 5000);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        assert_int_equal(rig_claim(&rig, "w", "c", token), 3);
        rig_release(&rig);
}

static void a_job_in_its_grace_time_comes_back_at_once_and_is_closed_to_late_words(void **unused)
{
        (void)unused;
        for (int i = 0; i < 2; i++) {
                struct rig rig;
                char token[33], again[33];
                rig_init(&rig);
                rig_do(&rig, "ENQUEUE", "h", "x", "ATTEMPTS", "1", "TIMEOUT", "1000");
                assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
                rig_pass_ms(&rig, 1000);
                has(rig_do(&rig, "JOB", "1"), "status:'failed'");
                assert_int_equal(rig.core->state.grace.len, 1);
                assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'");
                assert_int_equal(rig.core->state.grace.len, 0);
                starts_with(rig_do(&rig, "COMPLETE", "1", token), "!NOTOWNER");
                if (i)
                        assert_true(rig_replays(&rig));
                rig_pass_ms(&rig, 600000);
                rig_archive_all(&rig);
                assert_null(memory_archive_find(&rig.archive, 1)); /* the first end never came */
                assert_int_equal(rig_claim(&rig, "w", "default", again), 1);
                assert_string_equal(rig_do(&rig, "COMPLETE", "1", again), "OK");
                rig_archive_all(&rig);
                has(rig_do(&rig, "JOB", "1"), "status:'complete'");
                rig_release(&rig);
        }
}

static void a_job_on_its_way_to_history_is_waited_for(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        rig_init(&rig);
        rig_session_init(&other);
        make_failed(&rig);
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "(waits)");
        assert_string_equal(rig_as(&rig, &other, "RETRY", "1"), "(waits)");
        rig_turn(&rig);
        assert_false(rig.me.is_answered);
        rig_archive_all(&rig);
        assert_string_equal(text_reply_str(&rig.me.reply), "'pending'");
        assert_string_equal(text_reply_str(&other.reply), "'pending'");
        assert_int_equal(run_of(&rig, 1), 1); /* once, though two asked */
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

static void a_history_that_does_not_store_is_not_waited_for_long(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        make_failed(&rig);
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "(waits)");
        rig_pass_ms(&rig, 9999);
        assert_false(rig.me.is_answered);
        rig_pass_ms(&rig, 1);
        assert_true(rig.me.is_answered);
        starts_with(text_reply_str(&rig.me.reply), "!UNAVAIL");
        assert_string_equal(rig_do(&rig, "RETRYMANY"), "(waits)");
        core_stop(rig.core);
        starts_with(text_reply_str(&rig.me.reply), "!STOPPING");
        rig_archive_all(&rig);
        assert_null(live(&rig, 1)); /* nobody is there to have it back */
        rig_release(&rig);
}

static void a_peer_that_goes_away_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        rig_init(&rig);
        rig_session_init(&other);
        make_failed(&rig);
        assert_string_equal(rig_as(&rig, &other, "RETRY", "1"), "(waits)");
        session_release(rig.core, &other.base);
        rig_archive_all(&rig);
        assert_null(live(&rig, 1));
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

/* The batch under way did not reach the disk. */
static void lose_in_flight(struct rig *rig)
{
        assert_int_equal(rig->log.in_flight, rig->log.last_seq);
        buf_release(&rig->log.batches[--rig->log.last_seq]);
        rig->log.in_flight = 0;
}

static void a_retry_that_is_not_durable_did_not_happen(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        make_failed(&rig);
        rig_archive_all(&rig);
        rig.log.is_manual = true;
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'");
        assert_true(core_reply_seq(rig.core) > core_durable_seq(rig.core));
        lose_in_flight(&rig);
        rig_restart(&rig);
        rig.log.is_manual = false;
        assert_null(live(&rig, 1));
        has(rig_do(&rig, "JOB", "1"), "status:'failed'");
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'");
        assert_int_equal(run_of(&rig, 1), 1);
        rig_release(&rig);
}

static void a_unique_key_that_another_has_is_named(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k", "ATTEMPTS", "1"); /* 1 */
        assert_int_equal(rig_fail_next(&rig, "default", "no route"), 1);
        rig_archive_all(&rig);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k"), "2");
        const char *no = rig_do(&rig, "RETRY", "1");
        starts_with(no, "!STATE");
        has(no, "job 2 has its unique key");
        has(rig_do(&rig, "RETRYMANY"), "{retried:0 skipped:1 cursor:''");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'"); /* SCOPE pending */
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k"), "1");
        rig_release(&rig);
}

static void a_key_held_after_the_end_is_no_hindrance_for_its_own_job(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k", "SCOPE", "after", "UNIQUEFOR", "60000");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig_do(&rig, "COMPLETE", "1", token);
        rig_archive_all(&rig);
        assert_string_equal(rig_do(&rig, "ENQUEUE", "h", "", "UNIQUE", "k"), "1");
        assert_string_equal(rig_do(&rig, "RETRY", "1", "FORCE"), "'pending'");
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

/* A history file that somebody changed. */
static void what_cannot_run_in_history_is_refused(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        make_failed(&rig);
        rig_archive_all(&rig);
        struct memory_row *row = idmap_get(&rig.archive.rows, 1);
        const struct job_view sound = row->view;
        struct job_view broken[6];
        for (size_t i = 0; i < ARRAY_LEN(broken); i++)
                broken[i] = sound;
        broken[0].queue = SLICE_NONE;
        broken[1].hook = SLICE_NONE;
        broken[2].attempts_max = 0;
        broken[3].created_ms = -1;
        broken[4].options = SLICE_LIT("\xff");
        broken[5].started_ms = -5;
        for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
                row->view = broken[i];
                starts_with(rig_do(&rig, "RETRY", "1"), "!CORRUPT");
                has(rig_do(&rig, "RETRYMANY"), "retried:0 skipped:1");
                assert_null(live(&rig, 1));
        }
        row->view = sound;
        row->view.events = SLICE_LIT("\x63nonsense");
        assert_string_equal(rig_do(&rig, "RETRY", "1"), "'pending'");
        has(rig_do(&rig, "EVENTS", "1"), "event:'retried'");
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

/* ---- many ---- */

static void fail_many(struct rig *rig, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                rig_do(rig, "ENQUEUE", i % 2 ? "odd" : "even", "x", "ATTEMPTS", "1");
                (void)rig_fail_next(rig, "default", "no route");
        }
        rig_archive_all(rig);
}

static void many_failed_jobs_come_back_page_by_page(void **unused)
{
        enum { N = 2500 };
        (void)unused;
        struct rig rig;
        char cursor[24] = "";
        unsigned long long total = 0;
        size_t pages = 0;
        rig_init(&rig);
        fail_many(&rig, N);
        assert_int_equal(rig.core->state.jobs.len, 0);
        do {
                unsigned long long retried, skipped;
                const char *text = rig_do(&rig, "RETRYMANY", "LIMIT", "1000", "CURSOR", cursor);
                cursor[0] = '\0';
                assert_true(sscanf(text, "{retried:%llu skipped:%llu cursor:'%23[0-9]", &retried,
                                   &skipped, cursor) >= 2);
                assert_true(retried <= 1000);
                assert_int_equal(skipped, 0);
                total += retried;
                pages++;
        } while (cursor[0]);
        assert_int_equal(total, N);
        assert_int_equal(pages, 3);
        assert_int_equal(rig.core->state.jobs.len, N);
        for (uint64_t id = 1; id <= N; id++)
                assert_int_equal(run_of(&rig, id), 1);
        assert_true(rig_replays(&rig));
        has(rig_do(&rig, "RETRYMANY"), "retried:0"); /* nothing is left to retry */
        assert_string_equal(rig_do(&rig, "JOBS", "STATUS", "failed", "LIMIT", "1"),
                            "{jobs:[] cursor:'2500']");
        rig_release(&rig);
}

static void a_filter_chooses_what_comes_back(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        fail_many(&rig, 6);
        rig_do(&rig, "ENQUEUE", "even", ""); /* 7 */
        rig_do(&rig, "CANCEL", "7");
        rig_archive_all(&rig);
        has(rig_do(&rig, "RETRYMANY", "HOOK", "even"), "retried:3");
        has(rig_do(&rig, "RETRYMANY", "HOOK", "none"), "retried:0");
        has(rig_do(&rig, "RETRYMANY", "MATCH", "no route", "LIMIT", "1"),
            "retried:1 skipped:0 cursor:'6'");
        has(rig_do(&rig, "RETRYMANY", "QUEUE", "default", "GROUP", "g"), "retried:0");
        has(rig_do(&rig, "RETRYMANY", "STATUS", "canceled"), "retried:1");
        has(rig_do(&rig, "RETRYMANY", "STATUS", "failed"), "retried:2");
        assert_int_equal(rig.core->state.jobs.len, 7);
        starts_with(rig_do(&rig, "RETRYMANY", "STATUS", "complete"), "!BADARG");
        starts_with(rig_do(&rig, "RETRYMANY", "CURSOR", "x"), "!BADARG");
        starts_with(rig_do(&rig, "RETRYMANY", "LIMIT", "1001"), "!BADARG");
        starts_with(rig_do(&rig, "RETRYMANY", "LIMIT", "0"), "!BADARG");
        has(rig_do(&rig, "RETRYMANY", "LIMIT", "1000"), "retried:0");
        rig_release(&rig);
}

static void many_include_what_has_just_ended_but_not_what_may_still_complete(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "slow", "", "ATTEMPTS", "1", "TIMEOUT", "1000"); /* 1 */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig_pass_ms(&rig, 1000);
        rig_do(&rig, "ENQUEUE", "a", "", "ATTEMPTS", "1"); /* 2 */
        assert_int_equal(rig_fail_next(&rig, "default", "no route"), 2);
        rig_do(&rig, "ENQUEUE", "b", "", "ATTEMPTS", "1"); /* 3 */
        assert_int_equal(rig_fail_next(&rig, "default", "no route"), 3);
        assert_string_equal(rig_do(&rig, "RETRYMANY"), "(waits)");
        memory_archive_commit(&rig.archive, 1);
        rig_turn(&rig);
        assert_false(rig.me.is_answered);
        memory_archive_commit(&rig.archive, 1);
        rig_turn(&rig);
        rig_turn(&rig);
        has(text_reply_str(&rig.me.reply), "retried:2");
        assert_int_equal(rig.core->state.grace.len, 1);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        rig_release(&rig);
}

/* ---- listings ---- */

static void the_old_row_of_a_job_that_is_live_again_is_not_listed(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        fail_many(&rig, 3);
        rig_do(&rig, "RETRY", "2");
        const char *failed = rig_do(&rig, "JOBS", "STATUS", "failed");
        has(failed, "id:3 ");
        has_not(failed, "id:2 ");
        has(failed, "id:1 ");
        const char *pending = rig_do(&rig, "JOBS", "STATUS", "pending");
        has(pending, "id:2 ");
        has_not(pending, "id:1 ");
        has(rig_do(&rig, "JOBS", "MATCH", "no route"), "id:2 "); /* its error is kept */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        rig_do(&rig, "COMPLETE", "2", token, "well");
        has_not(rig_do(&rig, "JOBS", "STATUS", "failed"), "id:2 ");
        rig_archive_all(&rig);
        has_not(rig_do(&rig, "JOBS", "STATUS", "failed"), "id:2 ");
        has(rig_do(&rig, "JOBS", "STATUS", "complete"), "result:'well'");
        rig_release(&rig);
}

/* Any pattern of live-again jobs, any page size, with and without a filter: all of the pages
 * together show each job once. */
static void every_job_is_on_exactly_one_page(void **unused)
{
        enum { N = 8 };
        (void)unused;
        for (unsigned pattern = 0; pattern < 1 << N; pattern += 5) {
                struct rig rig;
                rig_init(&rig);
                fail_many(&rig, N);
                for (unsigned i = 0; i < N; i++)
                        if (pattern >> i & 1)
                                rig_do(&rig, "RETRY", rig_number(i + 1));
                for (unsigned limit = 1; limit <= N + 1; limit++) {
                        unsigned seen[2] = {0, 0};
                        for (int is_failed = 0; is_failed < 2; is_failed++) {
                                char cursor[24] = "";
                                const char *size = rig_number(limit);
                                do {
                                        const char *text = is_failed
                                                                   ? rig_do(&rig, "JOBS", "LIMIT",
                                                                            size, "CURSOR", cursor,
                                                                            "STATUS", "failed")
                                                                   : rig_do(&rig, "JOBS", "LIMIT",
                                                                            size, "CURSOR", cursor);
                                        for (const char *at = text; (at = strstr(at, "{id:"));
                                             at += 4) {
                                                unsigned bit = 1U << (at[4] - '1');
                                                assert_false(seen[is_failed] & bit);
                                                seen[is_failed] |= bit;
                                        }
                                        const char *end = strstr(text, "] cursor:'");
                                        assert_non_null(end);
                                        cursor[0] = '\0';
                                        (void)sscanf(end, "] cursor:'%23[0-9]", cursor);
                                } while (cursor[0]);
                        }
                        assert_int_equal(seen[0], (1 << N) - 1);
                        assert_int_equal(seen[1], ~pattern & ((1 << N) - 1));
                }
                rig_release(&rig);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_failed_job_of_history_runs_again_under_its_id),
                cmocka_unit_test(it_can_be_taken_back_any_number_of_times),
                cmocka_unit_test(what_retry_does_depends_on_the_status),
                cmocka_unit_test(a_delayed_job_becomes_due_now),
                cmocka_unit_test(a_job_that_comes_after_another_is_not_hurried),
                cmocka_unit_test(dependencies_and_the_end_of_its_time_do_not_come_back),
                cmocka_unit_test(
                        a_job_in_its_grace_time_comes_back_at_once_and_is_closed_to_late_words),
                cmocka_unit_test(a_job_on_its_way_to_history_is_waited_for),
                cmocka_unit_test(a_history_that_does_not_store_is_not_waited_for_long),
                cmocka_unit_test(a_peer_that_goes_away_changes_nothing),
                cmocka_unit_test(a_retry_that_is_not_durable_did_not_happen),
                cmocka_unit_test(a_unique_key_that_another_has_is_named),
                cmocka_unit_test(a_key_held_after_the_end_is_no_hindrance_for_its_own_job),
                cmocka_unit_test(what_cannot_run_in_history_is_refused),
                cmocka_unit_test(many_failed_jobs_come_back_page_by_page),
                cmocka_unit_test(a_filter_chooses_what_comes_back),
                cmocka_unit_test(many_include_what_has_just_ended_but_not_what_may_still_complete),
                cmocka_unit_test(the_old_row_of_a_job_that_is_live_again_is_not_listed),
                cmocka_unit_test(every_job_is_on_exactly_one_page),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

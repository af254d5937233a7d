/* Batches through the commands: callbacks, closing, canceling and forgetting, with the clock moved
 * by hand, and again after a restart from the log. */
#include "batch_box.h"

#include <stdio.h>

#include "wire/sign.h"

#define DAY_MS 86400000LL

/* ---- the end of a batch ---- */

static void a_batch_is_finished_when_it_is_closed_and_its_last_job_has_ended(void **unused)
{
        (void)unused;
        struct rig rig;
        init_with_jobs(&rig, 2);
        batch_has(&rig, "title:'Import' status:'open' total:2 left:2 complete:0");
        restart_and_compare(&rig);
        assert_int_equal(rig_complete_next(&rig, "work"), 1);
        assert_string_equal(rig_do(&rig, "CLOSEBATCH", "b"), "'closed'");
        batch_has(&rig, "status:'closed' total:2 left:1 complete:1");
        restart_and_compare(&rig);
        assert_int_equal(rig.core->state.next_id, 3); /* no callback so far */
        assert_int_equal(rig_complete_next(&rig, "work"), 2);
        restart_and_compare(&rig);
        batch_has(&rig, "status:'finished' total:2 left:0 complete:2 failed:0");
        batch_has(&rig, "onsuccess:{hook:'good' args:'{\"ok\":1}' job:3]");
        batch_has(&rig, "ondone:{hook:'over' args:'d' job:4]");
        has(rig_do(&rig, "JOB", "3"), "hook:'good'");
        has(rig_do(&rig, "JOB", "3"), "queue:'calls'");
        has(rig_do(&rig, "JOB", "3"), "priority:7");
        assert_int_equal(rig.core->state.next_id, 5);
        rig_release(&rig);
}

static void an_open_batch_never_finishes(void **unused)
{
        (void)unused;
        struct rig rig;
        init_with_jobs(&rig, 1);
        assert_int_equal(rig_complete_next(&rig, "work"), 1);
        rig_pass_ms(&rig, 30 * DAY_MS);
        batch_has(&rig, "status:'open' total:1 left:0 complete:1");
        add(&rig, "b", "2");
        assert_int_equal(rig_complete_next(&rig, "work"), 2);
        assert_string_equal(rig_do(&rig, "CLOSEBATCH", "b"), "'finished'");
        assert_string_equal(rig_do(&rig, "CLOSEBATCH", "b"), "'finished'");
        assert_int_equal(rig.core->state.next_id, 5);
        rig_release(&rig);
}

static void a_failed_or_canceled_job_leaves_only_the_callback_for_done(void **unused)
{
        (void)unused;
        for (int is_cancel = 0; is_cancel < 2; is_cancel++) {
                struct rig rig;
                init_with_jobs(&rig, 2);
                assert_string_equal(rig_do(&rig, "CLOSEBATCH", "b"), "'closed'");
                if (is_cancel)
                        assert_string_equal(rig_do(&rig, "CANCEL", "1"), "OK");
                else
                        assert_int_equal(rig_fail_next(&rig, "work", "no"), 1);
                assert_int_equal(rig_complete_next(&rig, "work"), 2);
                batch_has(&rig, is_cancel ? "complete:1 failed:0 canceled:1"
                                          : "complete:1 failed:1 canceled:0");
                batch_has(&rig, "onsuccess:{hook:'good' args:'{\"ok\":1}' job:null]");
                batch_has(&rig, "ondone:{hook:'over' args:'d' job:3]");
                restart_and_compare(&rig);
                assert_int_equal(rig.core->state.next_id, 4);
                rig_release(&rig);
        }
}

static void an_empty_batch_is_finished_by_its_close(void **unused)
{
        (void)unused;
        struct rig rig;
        init_with_jobs(&rig, 0);
        assert_string_equal(rig_do(&rig, "BATCH", "plain"), "OK");
        assert_string_equal(rig_do(&rig, "CLOSEBATCH", "b"), "'finished'");
        assert_string_equal(rig_do(&rig, "CLOSEBATCH", "plain"), "'finished'");
        has(state_of(&rig, "plain"), "queue:'default' priority:100 onsuccess:null ondone:null");
        assert_int_equal(rig.core->state.next_id, 3);
        restart_and_compare(&rig);
        rig_release(&rig);
}

static void the_callbacks_are_in_the_log_with_the_last_end(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init_with_jobs(&rig, 1);
        rig_do(&rig, "CLOSEBATCH", "b");
        assert_int_equal(rig_claim(&rig, "w", "work", token), 1);
        uint64_t before = rig.log.last_seq;
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        assert_int_equal(rig.log.last_seq, before + 1);
        rig_restart(&rig);
        batch_has(&rig, "status:'finished'");
        assert_int_equal(rig.core->state.next_id, 4);
        rig_release(&rig);
}

static void a_worker_may_claim_the_callback_with_the_last_completion(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init_with_jobs(&rig, 1);
        rig_do(&rig, "CLOSEBATCH", "b");
        assert_int_equal(rig_claim(&rig, "w", "work", token), 1);
        has(rig_do(&rig, "COMPLETE", "1", token, "", "CLAIM", "w", "MAX", "2", "QUEUES", "calls"),
            "hook:'good'");
        rig_release(&rig);
}

static void callbacks_wait_for_room_and_are_made_once(void **unused)
{
        (void)unused;
        struct rig rig;
        init_with_jobs(&rig, 1);
        rig_do(&rig, "CLOSEBATCH", "b");
        uint64_t room = rig.log.stat.room_bytes;
        rig.log.stat.room_bytes = 1000;
        rig.log.stat.is_disk_full = true;
        rig_turn(&rig);
        assert_int_equal(rig_complete_next(&rig, "work"), 1);
        batch_has(&rig, "status:'closed' total:1 left:0 complete:1");
        starts_with(rig_do(&rig, "UNBATCH", "b"), "!STATE");
        rig_pass_ms(&rig, 1000);
        rig_pass_ms(&rig, 5000);
        batch_has(&rig, "status:'closed'");
        restart_and_compare(&rig);
        batch_has(&rig, "status:'closed'");
        rig.log.stat.room_bytes = room;
        rig.log.stat.is_disk_full = false;
        rig_pass_ms(&rig, 1000);
        batch_has(&rig, "status:'finished'");
        rig_pass_ms(&rig, 1000);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(rig.core->state.next_id, 4);
        restart_and_compare(&rig);
        rig_release(&rig);
}

static void the_one_callback_that_found_room_is_not_made_again(void **unused)
{
        (void)unused;
        struct rig rig;
        char args[LIMIT_BATCH_ARGS_BYTES];
        rig_init(&rig);
        memset(args, 'x', sizeof(args));
        struct slice words[] = {SLICE_LIT("BATCH"),     SLICE_LIT("b"),
                                SLICE_LIT("ONSUCCESS"), SLICE_LIT("good"),
                                SLICE_LIT("ONDONE"),    SLICE_LIT("over"),
                                SLICE_LIT("DONEARGS"),  slice_make(args, sizeof(args))};
        assert_string_equal(rig_argv(&rig, &rig.me, words, ARRAY_LEN(words)), "OK");
        uint64_t room = rig.log.stat.room_bytes;
        rig.log.stat.room_bytes = 4 * MIB;
        rig.log.stat.is_disk_full = true;
        rig_turn(&rig);
        assert_string_equal(rig_do(&rig, "CLOSEBATCH", "b"), "'closed'");
        while (rig.core->state.next_id == 1 && rig.log.stat.room_bytes < room) {
                rig.log.stat.room_bytes += 2000; /* less than the other needs */
                rig_pass_ms(&rig, 1000);
        }
        batch_has(&rig, "status:'closed'");
        batch_has(&rig, "onsuccess:{hook:'good' args:'' job:1]");
        restart_and_compare(&rig);
        rig.log.stat.room_bytes = room;
        rig.log.stat.is_disk_full = false;
        rig_pass_ms(&rig, 1000);
        batch_has(&rig, "status:'finished'");
        assert_int_equal(rig.core->state.next_id, 3);
        rig_release(&rig);
}

static void callbacks_bring_signatures_of_their_own(void **unused)
{
        (void)unused;
        struct rig rig;
        struct sign_keys keys;
        struct problem problem;
        char signature[SIGN_TEXT_MAX], token[RIG_TOKEN];
        const struct sign_fields fields = {
                .hook = SLICE_LIT("over"),
                .args = SLICE_LIT("d"),
                .queue = SLICE_LIT("calls"),
                .priority = 100,
                .attempts = JOB_ATTEMPTS_DEFAULT,
        };
        sign_keys_init(&keys);
        assert_int_equal(sign_keys_load(&keys, SLICE_LIT("k hex:00112233445566778899aabbccddeeff"),
                                        &problem),
                         OK);
        assert_int_equal(sign_make(&keys, SLICE_NONE, &fields, signature, &problem), OK);
        rig_init(&rig);
        rig.options.sign_keys = &keys;
        rig_restart(&rig);
        rig_do(&rig, "BATCH", "b", "ONSUCCESS", "good", "ONDONE", "over", "DONEARGS", "d", "QUEUE",
               "calls", "DONESIGNATURE", signature);
        batch_has(&rig, "onsuccess:{hook:'good' args:'' job:null]");
        batch_has(&rig, "ondone:{hook:'over' args:'d' job:null signature:'k:");
        restart_and_compare(&rig);
        assert_string_equal(rig_do(&rig, "CLOSEBATCH", "b"), "'finished'");
        assert_int_equal(rig_claim(&rig, "w", "calls", token), 2);
        has(rig_do(&rig, "JOB", "1"), "status:'failed'"); /* nobody signed that one */
        rig_release(&rig);
        sign_keys_release(&keys);
}

/* ---- closing, canceling, removing ---- */

static void a_closed_batch_takes_no_more_jobs(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BATCH", "b");
        add(&rig, "b", "1");
        rig_do(&rig, "CLOSEBATCH", "b");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b"),
                    "!STATE the batch 'b' is closed");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "c"), "!NOTFOUND");
        rig_do(&rig, "CANCELBATCH", "b");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b"), "!STATE");
        assert_int_equal(rig.core->state.next_id, 2);
        rig_release(&rig);
}

static void canceling_takes_running_jobs_too(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init_with_jobs(&rig, 0);
        for (int i = 1; i <= 3; i++)
                rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b", "QUEUE", "work");
        rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b", "IN", "60000");
        rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b", "AFTER", "4");
        assert_int_equal(rig_complete_next(&rig, "work"), 1);
        assert_int_equal(rig_claim(&rig, "w", "work", token), 2);
        assert_string_equal(rig_do(&rig, "CANCELBATCH", "b"), "4");
        batch_has(&rig, "status:'finished' total:5 left:0 complete:1 failed:0 canceled:4");
        starts_with(rig_do(&rig, "EXTEND", "2", token, "60000"), "!CANCELED");
        has(rig_do(&rig, "EVENTS", "2"), "with its batch");
        assert_int_equal(rig_claim(&rig, "w", "work", token), 0);
        assert_string_equal(rig_do(&rig, "CANCELBATCH", "b"), "0");
        batch_has(&rig, "ondone:{hook:'over' args:'d' job:6]");
        restart_and_compare(&rig);
        rig_release(&rig);
}

static void a_large_batch_is_canceled_a_part_at_a_time_over_restarts(void **unused)
{
        (void)unused;
        struct rig rig;
        struct slice words[6 + 5000];
        init_with_jobs(&rig, 0);
        const char *const begin[] = {"ENQUEUEMANY", "BATCH", "b", "JOBS"};
        size_t n = 0;
        for (; n < ARRAY_LEN(begin); n++)
                words[n] = slice_str(begin[n]);
        for (int i = 0; i < 2500; i++) {
                words[n++] = SLICE_LIT("h");
                words[n++] = SLICE_LIT("");
        }
        (void)rig_argv(&rig, &rig.me, words, n);
        assert_string_equal(rig_do(&rig, "CANCELBATCH", "b"), "2500");
        batch_has(&rig, "status:'canceling' total:2500 left:1500");
        rig_turn(&rig); /* no time has passed: others had no turn yet */
        batch_has(&rig, "left:1500");
        assert_string_equal(rig_do(&rig, "CANCELBATCH", "b"), "1500");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b"), "!STATE");
        rig_turn(&rig);
        uint64_t before = state_digest(&rig.core->state);
        rig_restart(&rig); /* its first turn goes on with it */
        assert_true(before != state_digest(&rig.core->state));
        rig_turn(&rig);
        batch_has(&rig, "left:500 complete:0 failed:0 canceled:2000");
        state_check(&rig.core->state);
        rig_pass_ms(&rig, 1);
        batch_has(&rig, "status:'finished' total:2500 left:0 complete:0 failed:0 "
                        "canceled:2500");
        batch_has(&rig, "job:2501]");
        restart_and_compare(&rig);
        rig_release(&rig);
}

static void a_name_is_taken_until_its_batch_is_removed(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BATCH", "b");
        starts_with(rig_do(&rig, "BATCH", "b"), "!CONFLICT");
        add(&rig, "b", "1");
        starts_with(rig_do(&rig, "UNBATCH", "b"), "!STATE 1 job of the batch 'b' has not ended");
        assert_int_equal(rig_complete_next(&rig, "work"), 1);
        assert_string_equal(rig_do(&rig, "UNBATCH", "b"), "OK");
        restart_and_compare(&rig);
        for (int i = 0; i < 2; i++) {
                const char *const commands[] = {"BATCHSTATE", "CLOSEBATCH", "CANCELBATCH",
                                                "UNBATCH"};
                for (size_t j = 0; j < ARRAY_LEN(commands); j++)
                        starts_with(rig_do(&rig, commands[j], "b"), "!NOTFOUND");
                rig_archive_all(&rig);
        }
        assert_string_equal(rig_do(&rig, "BATCH", "b"), "OK");
        rig_release(&rig);
}

static void a_name_used_again_has_nothing_to_do_with_the_jobs_of_before(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "BATCH", "b");
        add(&rig, "b", "1");
        assert_int_equal(rig_claim(&rig, "w", "work", token), 1);
        rig_pass_ms(&rig, 300001); /* timed out for good; may be completed late */
        assert_string_equal(rig_do(&rig, "UNBATCH", "b"), "OK");
        restart_and_compare(&rig);
        assert_string_equal(rig_do(&rig, "BATCH", "b"), "OK");
        /* The old job's record comes after that of the new batch when the log is cleaned. */
        rig.log.stat.head_seq = rig.log.last_seq;
        rig.log.stat.retained_bytes = 1ULL << 30;
        for (int i = 0; i < 10; i++)
                rig_pass_ms(&rig, 1);
        restart_and_compare(&rig);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        batch_has(&rig, "total:0 left:0 complete:0 failed:0");
        restart_and_compare(&rig);
        rig_release(&rig);
}

static void a_finished_batch_is_forgotten_after_seven_days(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BATCH", "open");
        rig_do(&rig, "BATCH", "b");
        rig_do(&rig, "CLOSEBATCH", "b");
        rig_pass_ms(&rig, 7 * DAY_MS - 1);
        restart_and_compare(&rig);
        batch_has(&rig, "status:'finished'");
        rig_pass_ms(&rig, 1);
        starts_with(state_of(&rig, "b"), "!NOTFOUND");
        has(state_of(&rig, "open"), "status:'open'");
        restart_and_compare(&rig);
        rig_release(&rig);
}

/* ---- listing, bad words, limits ---- */

static void batches_are_listed_by_name_page_after_page(void **unused)
{
        (void)unused;
        struct rig rig;
        const char *const names[] = {"d", "b", "a", "e", "c"};
        rig_init(&rig);
        has(rig_do(&rig, "BATCHES"), "{batches:[] cursor:'']");
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                rig_do(&rig, "BATCH", names[i], "TITLE", "t");
        const char *page = rig_do(&rig, "BATCHES", "LIMIT", "2");
        has(page, "[{name:'a' title:'t' status:'open' total:0 left:0");
        has(page, "{name:'b'");
        has(page, "cursor:'b'");
        has_not(page, "name:'c'");
        page = rig_do(&rig, "BATCHES", "LIMIT", "2", "CURSOR", "b");
        has(page, "name:'c'");
        has(page, "cursor:'d'");
        page = rig_do(&rig, "BATCHES", "LIMIT", "2", "CURSOR", "d");
        has(page, "name:'e'");
        has(page, "cursor:''");
        starts_with(rig_do(&rig, "BATCHES", "LIMIT", "0"), "!BADARG");
        starts_with(rig_do(&rig, "BATCHES", "LIMIT", "1001"), "!BADARG");
        rig_release(&rig);
}

static void bad_words_are_refused_and_change_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        starts_with(rig_do(&rig, "BATCH", ""), "!BADARG");
        starts_with(rig_do(&rig, "BATCH", "b", "SUCCESSARGS", "x"), "!BADARG successargs");
        starts_with(rig_do(&rig, "BATCH", "b", "ONSUCCESS", "h", "DONEARGS", "x"),
                    "!BADARG doneargs");
        starts_with(rig_do(&rig, "BATCH", "b", "DONESIGNATURE", "k:0"), "!BADARG donesignature");
        starts_with(rig_do(&rig, "BATCH", "b", "PRIORITY", "256"), "!BADARG");
        starts_with(rig_do(&rig, "BATCH", "b", "ONDONE", ""), "!BADARG");
        starts_with(rig_do(&rig, "CLOSEBATCH"), "!SYNTAX");
        assert_int_equal(rig.core->state.things[THING_BATCH].len, 0);
        rig_release(&rig);
}

static void args_of_a_callback_have_a_limit(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        char *args = malloc(LIMIT_BATCH_ARGS_BYTES + 1);
        assert_non_null(args);
        memset(args, 'x', LIMIT_BATCH_ARGS_BYTES + 1);
        for (int over = -1; over <= 1; over++) {
                struct slice words[] = {SLICE_LIT("BATCH"),
                                        SLICE_LIT("b"),
                                        SLICE_LIT("ONDONE"),
                                        SLICE_LIT("h"),
                                        SLICE_LIT("DONEARGS"),
                                        slice_make(args, (size_t)(LIMIT_BATCH_ARGS_BYTES + over))};
                const char *reply = rig_argv(&rig, &rig.me, words, ARRAY_LEN(words));
                if (over > 0)
                        starts_with(reply, "!TOOBIG");
                else
                        assert_string_equal(reply, "OK");
                if (over <= 0)
                        assert_string_equal(rig_do(&rig, "UNBATCH", "b"), "OK");
        }
        free(args);
        rig_release(&rig);
}

static void a_batch_has_at_most_so_many_jobs(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BATCH", "b");
        struct batch *b = batch_of(thing_find(&rig.core->state, THING_BATCH, SLICE_LIT("b")));
        b->total = b->complete = LIMIT_BATCH_JOBS - 2; /* as if they had been */
        starts_with(rig_do(&rig, "ENQUEUEMANY", "BATCH", "b", "JOBS", "h", "", "h", "", "h", ""),
                    "!LIMIT");
        assert_string_equal(rig_do(&rig, "ENQUEUEMANY", "BATCH", "b", "JOBS", "h", "", "h", ""),
                            "[1 2]");
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "BATCH", "b"), "!LIMIT");
        batch_has(&rig, "total:10000000 left:2");
        rig_release(&rig);
}

static void there_are_at_most_so_many_batches(void **unused)
{
        (void)unused;
        struct rig rig;
        struct batch_terms terms = {.first_id = 1, .queue = SLICE_LIT("q")};
        struct buf body;
        char name[24];
        rig_init(&rig);
        buf_init(&body, 0);
        batch_put_new(&body, &terms, &(struct batch_past){0});
        for (int i = 0; i < LIMIT_BATCHES - 1; i++) {
                int n = snprintf(name, sizeof(name), "n%d", i);
                thing_set(rig.core, THING_BATCH, slice_make(name, (size_t)n), buf_slice(&body));
        }
        assert_string_equal(rig_do(&rig, "BATCH", "last"), "OK");
        starts_with(rig_do(&rig, "BATCH", "one more"), "!LIMIT");
        assert_string_equal(rig_do(&rig, "UNBATCH", "n0"), "OK");
        assert_string_equal(rig_do(&rig, "BATCH", "one more"), "OK");
        buf_release(&body);
        rig_release(&rig);
}

static void a_record_that_cannot_be_is_refused(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BATCH", "b", "TITLE", "t", "ONDONE", "h", "DONEARGS", "x");
        struct state *s = &rig.core->state;
        struct thing *t = thing_find(s, THING_BATCH, SLICE_LIT("b"));
        struct buf body;
        buf_init(&body, 0);
        batch_ops.put(t, &body);
        assert_true(batch_ops.set(s, t, buf_slice(&body)));
        for (size_t n = 0; n < body.len; n++)
                assert_false(batch_ops.set(s, t, slice_make(body.ptr, n)));
        buf_put_byte(&body, 0);
        assert_false(batch_ops.set(s, t, buf_slice(&body)));
        body.len--;
        assert_true(batch_ops.set(s, t, buf_slice(&body)));
        const struct slice notes[] = {
                SLICE_LIT(""),     SLICE_LIT("\1"),     SLICE_LIT("\2\1"),  SLICE_LIT("\3\1"),
                SLICE_LIT("\4\1"), SLICE_LIT("\5\1"),   SLICE_LIT("\12\0"), SLICE_LIT("\13\0"),
                SLICE_LIT("\0\0"), SLICE_LIT("\1\1\1"),
        };
        for (size_t i = 0; i < ARRAY_LEN(notes); i++)
                assert_false(batch_ops.note(s, t, notes[i]));
        buf_release(&body);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_batch_is_finished_when_it_is_closed_and_its_last_job_has_ended),
                cmocka_unit_test(an_open_batch_never_finishes),
                cmocka_unit_test(a_failed_or_canceled_job_leaves_only_the_callback_for_done),
                cmocka_unit_test(an_empty_batch_is_finished_by_its_close),
                cmocka_unit_test(the_callbacks_are_in_the_log_with_the_last_end),
                cmocka_unit_test(a_worker_may_claim_the_callback_with_the_last_completion),
                cmocka_unit_test(callbacks_wait_for_room_and_are_made_once),
                cmocka_unit_test(the_one_callback_that_found_room_is_not_made_again),
                cmocka_unit_test(callbacks_bring_signatures_of_their_own),
                cmocka_unit_test(a_closed_batch_takes_no_more_jobs),
                cmocka_unit_test(canceling_takes_running_jobs_too),
                cmocka_unit_test(a_large_batch_is_canceled_a_part_at_a_time_over_restarts),
                cmocka_unit_test(a_name_is_taken_until_its_batch_is_removed),
                cmocka_unit_test(a_name_used_again_has_nothing_to_do_with_the_jobs_of_before),
                cmocka_unit_test(a_finished_batch_is_forgotten_after_seven_days),
                cmocka_unit_test(batches_are_listed_by_name_page_after_page),
                cmocka_unit_test(bad_words_are_refused_and_change_nothing),
                cmocka_unit_test(args_of_a_callback_have_a_limit),
                cmocka_unit_test(a_batch_has_at_most_so_many_jobs),
                cmocka_unit_test(there_are_at_most_so_many_batches),
                cmocka_unit_test(a_record_that_cannot_be_is_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

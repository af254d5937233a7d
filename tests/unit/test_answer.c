/* Idempotency keys: a request under a key is carried out once and answered the same way for a
 * day, whatever happens in between. */
#include "check.h"

#include <stdio.h>

#include "core/answer_print.h"
#include "core/kernel.h"
#include "state/answer.h"
#include "support/bench.h"
#include "support/rig.h"

#define DAY_MS ((int64_t)LIMIT_ANSWER_MS)

/* Of SHA-256 over the name, then each argument: its name and its value, texts with their length in
 * front of them, numbers as 8 bytes. */
static void the_fingerprint_of_a_request_never_changes(void **state)
{
        static const char wanted[] = "825182b009185ed50b83cc5443980c06";
        const struct slice argv[] = {SLICE_LIT("mail"), SLICE_LIT("{\"to\":1}"),
                                     SLICE_LIT("PRIORITY"), SLICE_LIT("5")};
        struct problem problem;
        struct command cmd;
        struct arena arena;
        uint8_t print[ANSWER_PRINT_BYTES];
        char hex[2 * ANSWER_PRINT_BYTES];
        (void)state;
        arena_init(&arena, 0);
        assert_int_equal(command_bind_argv(command_find(SLICE_LIT("ENQUEUE")), argv,
                                           ARRAY_LEN(argv), &arena, &cmd, &problem),
                         OK);
        assert_true(answer_print(&cmd, print));
        hex_from_bytes(print, sizeof(print), hex);
        assert_slice(slice_make(hex, sizeof(hex)), wanted);
        arena_release(&arena);
}

/* --- the core ------------------------------------------------------------------------------- */

/* Runs a command under a key; the words end in NULL. */
static const char *ask_as(struct rig *rig, struct rig_session *s, struct slice key, ...)
{
        struct slice argv[32];
        size_t argc = 0;
        struct problem problem = {0};
        struct command cmd;
        va_list words;
        va_start(words, key);
        for (const char *w; (w = va_arg(words, const char *));)
                argv[argc++] = slice_str(w);
        va_end(words);
        arena_clear(&rig->arena);
        text_reply_clear(&s->reply);
        int r = command_bind_argv(command_find(argv[0]), argv + 1, argc - 1, &rig->arena, &cmd,
                                  &problem);
        if (r == OK)
                r = command_set_key(&cmd, key, &problem);
        if (r == OK)
                r = core_exec(rig->core, &s->base, &cmd, &s->reply.base, &problem);
        if (r == CORE_LATER)
                return "(waits)";
        if (r != OK)
                reply_error(&s->reply.base, &problem);
        return text_reply_str(&s->reply);
}

/* Asks, and lets the batch become durable unless the log waits to be told. */
#define ask(rig, key, ...)                                                                         \
        (ask_as(rig, &(rig)->me, slice_str(key), __VA_ARGS__, (char *)NULL),                       \
         core_commit((rig)->core), text_reply_str(&(rig)->me.reply))

static uint64_t n_jobs(const struct rig *rig)
{
        return rig->core->totals.enqueued;
}

static size_t n_keys(const struct rig *rig)
{
        return rig->core->state.things[THING_ANSWER].len;
}

static void the_first_answer_is_given_again_and_nothing_is_done(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(ask(&rig, "k1", "ENQUEUE", "mail", "{}"), "1");
        assert_string_equal(ask(&rig, "k1", "ENQUEUE", "mail", "{}"), "1");
        assert_string_equal(ask(&rig, "k2", "ENQUEUE", "mail", "{}"), "2");
        assert_string_equal(ask(&rig, "k3", "ENQUEUEMANY", "JOBS", "a", "1", "b", "2"), "[3 4]");
        assert_string_equal(ask(&rig, "k3", "ENQUEUEMANY", "JOBS", "a", "1", "b", "2"), "[3 4]");
        assert_int_equal(n_jobs(&rig), 4);
        assert_int_equal(rig.core->totals.answers_repeated, 2);
        assert_string_equal(ask(&rig, "p", "PAUSE", "default"), "OK");
        assert_string_equal(rig_do(&rig, "RESUME", "default"), "OK");
        assert_string_equal(ask(&rig, "p", "PAUSE", "default"), "OK");
        assert_false(state_queue_find(&rig.core->state, SLICE_LIT("default"))->is_paused);
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void a_key_is_known_after_a_restart(void **unused)
{
        (void)unused;
        struct rig rig;
        char jobs[512];
        rig_init(&rig);
        assert_string_equal(ask(&rig, "k1", "ENQUEUE", "mail", "{}"), "1");
        (void)snprintf(jobs, sizeof(jobs), "%s",
                       ask(&rig, "k2", "CLAIM", "w", "QUEUES", "default"));
        has(jobs, "[{id:1 token:'");
        assert_true(rig_replays(&rig));
        assert_int_equal(n_keys(&rig), 2);
        assert_string_equal(ask(&rig, "k1", "ENQUEUE", "mail", "{}"), "1");
        assert_string_equal(ask(&rig, "k2", "CLAIM", "w", "QUEUES", "default"), jobs);
        assert_int_equal(n_jobs(&rig), 0); /* since the restart */
        rig_release(&rig);
}

static void a_key_used_for_another_request_is_refused(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "mail", "{}"), "1");
        has(ask(&rig, "k", "ENQUEUE", "mail", "{ }"), "!STATE this key was used for another");
        has(ask(&rig, "k", "PAUSE", "mail"), "!STATE this key was used for another");
        assert_int_equal(n_jobs(&rig), 1);
        assert_null(state_queue_find(&rig.core->state, SLICE_LIT("mail")));
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "mail", "{}"), "1");
        rig_release(&rig);
}

static void a_refusal_is_not_kept(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        has(ask(&rig, "k", "RESUME", "q"), "!NOTFOUND");
        assert_int_equal(n_keys(&rig), 0);
        rig_do(&rig, "PAUSE", "q");
        assert_string_equal(ask(&rig, "k", "RESUME", "q"), "OK");
        assert_int_equal(n_keys(&rig), 1);
        /* After a refusal the key is free for anything. */
        has(ask(&rig, "free", "CANCEL", "99"), "!NOTFOUND");
        assert_string_equal(ask(&rig, "free", "ENQUEUE", "mail", "{}"), "1");
        rig_release(&rig);
}

static void a_claim_that_found_nothing_stays_empty_under_its_key(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(ask(&rig, "k", "CLAIM", "w", "QUEUES", "default"), "[]");
        rig_do(&rig, "ENQUEUE", "mail", "{}");
        assert_string_equal(ask(&rig, "k", "CLAIM", "w", "QUEUES", "default"), "[]");
        has(ask(&rig, "k2", "CLAIM", "w", "QUEUES", "default"), "[{id:1 ");
        rig_release(&rig);
}

static void completing_and_claiming_in_one_step_is_done_once(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33], answer[512];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "mail", "1");
        rig_do(&rig, "ENQUEUE", "mail", "2");
        rig_do(&rig, "ENQUEUE", "mail", "3");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        (void)snprintf(
                answer, sizeof(answer), "%s",
                ask(&rig, "k", "COMPLETE", "1", token, "r", "CLAIM", "w", "QUEUES", "default"));
        has(answer, "[{id:2 ");
        rig_restart(&rig);
        assert_string_equal(
                ask(&rig, "k", "COMPLETE", "1", token, "r", "CLAIM", "w", "QUEUES", "default"),
                answer);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 3);
        rig_release(&rig);
}

static void a_request_with_a_key_cannot_wait(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        has(ask(&rig, "k", "CLAIM", "w", "WAIT", "5", "QUEUES", "q"), "!BADARG a request with an");
        assert_string_equal(ask(&rig, "k", "CLAIM", "w", "WAIT", "0", "QUEUES", "q"), "[]");
        rig_do(&rig, "ENQUEUE", "mail", "1");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        has(ask(&rig, "c", "COMPLETE", "1", token, "r", "CLAIM", "w", "WAIT", "1", "QUEUES", "q"),
            "!BADARG a request with an");
        has(rig_do(&rig, "JOB", "1"), "status:'in-progress'");
        assert_string_equal(
                ask(&rig, "c", "COMPLETE", "1", token, "r", "CLAIM", "w", "QUEUES", "q"), "[]");
        rig_release(&rig);
}

/* A job that failed for good and is history. */
static void fail_one(struct rig *rig)
{
        char token[33];
        assert_string_equal(rig_do(rig, "ENQUEUE", "mail", "1", "ATTEMPTS", "1"), "1");
        assert_int_equal(rig_claim(rig, "w", "default", token), 1);
        assert_string_equal(rig_do(rig, "FAIL", "1", token, "bad"), "'failed'");
        memory_archive_commit(&rig->archive, 10);
        rig_turn(rig);
        assert_null(state_job(&rig->core->state, 1));
}

#define RETRY(rig, s, key) ask_as(rig, s, SLICE_LIT(key), "RETRY", "1", (char *)NULL)

static void an_answer_that_must_ask_history_is_kept_as_well(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        char token[33];
        rig_init(&rig);
        rig_session_init(&other);
        fail_one(&rig);
        assert_string_equal(RETRY(&rig, &rig.me, "k"), "(waits)");
        has(RETRY(&rig, &other, "k"), "!UNAVAIL the first request with this key is still");
        has(ask_as(&rig, &other, SLICE_LIT("k"), "PAUSE", "q", (char *)NULL),
            "!STATE this key was used for another");
        state_check(&rig.core->state);
        rig_turn(&rig);
        assert_true(rig.me.is_answered);
        assert_string_equal(text_reply_str(&rig.me.reply), "'pending'");
        state_check(&rig.core->state);
        assert_string_equal(RETRY(&rig, &other, "k"), "'pending'");

        /* It runs and fails again: the key does not run it a third time. */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "FAIL", "1", token, "bad"), "'failed'");
        rig_restart(&rig);
        assert_string_equal(RETRY(&rig, &other, "k"), "'pending'");
        rig_turn(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

static void a_peer_that_leaves_before_its_answer_leaves_its_key_free(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session gone;
        rig_init(&rig);
        rig_session_init(&gone);
        fail_one(&rig);
        assert_string_equal(RETRY(&rig, &gone, "k"), "(waits)");
        assert_int_equal(n_keys(&rig), 1);
        rig_session_release(&rig, &gone);
        assert_int_equal(n_keys(&rig), 0);
        rig_turn(&rig);
        assert_null(state_job(&rig.core->state, 1));
        assert_string_equal(RETRY(&rig, &rig.me, "k"), "(waits)");
        rig_turn(&rig);
        assert_string_equal(text_reply_str(&rig.me.reply), "'pending'");
        rig_release(&rig);
}

static void a_refusal_that_comes_later_is_not_kept_either(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "mail", "1");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig_do(&rig, "COMPLETE", "1", token);
        memory_archive_commit(&rig.archive, 10);
        rig_turn(&rig);
        assert_string_equal(RETRY(&rig, &rig.me, "k"), "(waits)");
        rig_turn(&rig);
        has(text_reply_str(&rig.me.reply), "!STATE job 1 is complete");
        assert_int_equal(n_keys(&rig), 0);
        /* And weir stops while somebody waits. */
        assert_string_equal(RETRY(&rig, &rig.me, "k"), "(waits)");
        core_stop(rig.core);
        rig_turn(&rig);
        assert_int_equal(n_keys(&rig), 0);
        rig_release(&rig);
}

static void only_what_changes_something_takes_a_key(void **unused)
{
        (void)unused;
        struct problem problem;
        for (size_t i = 0; i < command_table_len; i++) {
                struct command cmd;
                command_init(&cmd, &command_table[i]);
                int r = command_set_key(&cmd, SLICE_LIT("k"), &problem);
                unsigned flags = command_table[i].flags;
                bool is_fine = flags & COMMAND_WRITE && !(flags & COMMAND_SECRET);
                assert_int_equal(r, is_fine ? OK : ERR_BADARG);
        }
}

static void a_key_is_1_to_255_bytes_of_any_kind(void **unused)
{
        (void)unused;
        struct rig rig;
        char key[LIMIT_ANSWER_KEY_BYTES + 1];
        rig_init(&rig);
        memset(key, 0, sizeof(key));
        for (size_t n = 0; n <= sizeof(key); n++) {
                const char *text = ask_as(&rig, &rig.me, slice_make(key, n), "ENQUEUE", "h", "a",
                                          (char *)NULL);
                if (n == 0)
                        has(text, "!BADARG an idempotency key must be 1 to 255 bytes long, not 0");
                else if (n > LIMIT_ANSWER_KEY_BYTES)
                        has(text, "!TOOBIG an idempotency key must be 1 to 255 bytes long");
                else
                        assert_true(text[0] != '!');
        }
        core_commit(rig.core);
        assert_int_equal(n_keys(&rig), LIMIT_ANSWER_KEY_BYTES);
        assert_int_equal(n_jobs(&rig), LIMIT_ANSWER_KEY_BYTES);
        rig_restart(&rig);
        assert_int_equal(n_keys(&rig), LIMIT_ANSWER_KEY_BYTES);
        rig_release(&rig);
}

static void a_key_is_free_again_after_24_hours_and_not_before(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "mail", "{}"), "1");
        rig.now.wall_ms += 10 * DAY_MS; /* a jump of the clock on the wall is not a day */
        rig_turn(&rig);
        rig_pass_ms(&rig, DAY_MS - 1);
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "mail", "{}"), "1");
        rig_restart(&rig);
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "mail", "{}"), "1");
        rig_pass_ms(&rig, 1);
        assert_int_equal(n_keys(&rig), 0);
        assert_int_equal(rig.core->state.answer_bytes, 0);
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "mail", "{}"), "2");
        rig_restart(&rig);
        assert_int_equal(n_keys(&rig), 1);
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "mail", "{}"), "2");
        rig_release(&rig);
}

static void two_requests_of_one_turn_are_one(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        rig_init(&rig);
        rig_session_init(&other);
        rig.log.is_manual = true;
        assert_string_equal(ask_as(&rig, &rig.me, SLICE_LIT("k"), "ENQUEUE", "h", "", (char *)NULL),
                            "1");
        uint64_t seq = core_reply_seq(rig.core);
        assert_true(seq > core_durable_seq(rig.core));
        assert_string_equal(ask_as(&rig, &other, SLICE_LIT("k"), "ENQUEUE", "h", "", (char *)NULL),
                            "1");
        assert_int_equal(core_reply_seq(rig.core), seq);
        core_commit(rig.core);
        /* In flight: the answer is known, and may leave no earlier than the first one. */
        assert_string_equal(ask_as(&rig, &other, SLICE_LIT("k"), "ENQUEUE", "h", "", (char *)NULL),
                            "1");
        assert_int_equal(core_reply_seq(rig.core), seq);
        assert_true(core_durable_seq(rig.core) < seq);
        memory_log_sync(&rig.log);
        assert_int_equal(core_durable_seq(rig.core), seq);
        assert_int_equal(n_jobs(&rig), 1);
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

static void an_answer_and_what_it_tells_of_are_in_one_batch(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        uint64_t before = rig.log.last_seq;
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "h", ""), "1");
        assert_int_equal(rig.log.last_seq, before + 1);
        /* A crash that loses the batch loses both. */
        buf_release(&rig.log.batches[--rig.log.last_seq]);
        rig_restart(&rig);
        assert_int_equal(n_keys(&rig), 0);
        assert_null(state_job(&rig.core->state, 1));
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "h", ""), "1");
        assert_non_null(state_job(&rig.core->state, 1));
        rig_release(&rig);
}

/* Claims a job whose args make the tape `len` bytes long. */
static const char *claim_of_size(struct rig *rig, const char *key, size_t len)
{
        static char args[LIMIT_PAYLOAD_BYTES];
        /* Two jobs of about half: what is on the tape besides is measured with the first. */
        static size_t overhead;
        size_t half = LIMIT_ANSWER_BYTES / 2 - 1000;
        size_t rest = overhead ? len - overhead - half : half;
        memset(args, 'x', sizeof(args));
        args[half] = '\0';
        rig_do(rig, "ENQUEUE", "h", args);
        args[half] = 'x';
        args[rest] = '\0';
        rig_do(rig, "ENQUEUE", "h", args);
        const char *text = ask(rig, key, "CLAIM", "w", "MAX", "2", "QUEUES", "default");
        const struct answer *a =
                answer_of(thing_find(&rig->core->state, THING_ANSWER, slice_str(key)));
        if (!overhead)
                overhead = a->tape_len - 2 * half;
        else if (a->is_whole)
                assert_int_equal(a->tape_len, len);
        return text;
}

static void an_answer_too_large_to_be_kept_is_given_once_and_not_repeated(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        (void)claim_of_size(&rig, "measure", 0);
        for (int more = -1; more <= 1; more++) {
                static char first[2 * LIMIT_ANSWER_BYTES];
                char key[16];
                (void)snprintf(key, sizeof(key), "k%d", more);
                (void)snprintf(first, sizeof(first), "%s",
                               claim_of_size(&rig, key, (size_t)(LIMIT_ANSWER_BYTES + more)));
                assert_memory_equal(first, "[{id:", 5);
                for (int i = 0; i < 2; i++) {
                        const char *text =
                                ask(&rig, key, "CLAIM", "w", "MAX", "2", "QUEUES", "default");
                        if (more <= 0)
                                assert_string_equal(text, first);
                        else
                                has(text, "!STATE this request was carried out; its answer was");
                        rig_restart(&rig);
                }
        }
        has(ask(&rig, "k1", "PAUSE", "q"), "!STATE this key was used for another");
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void when_the_batch_is_full_the_request_stands_and_its_answer_is_not_kept(void **unused)
{
        (void)unused;
        struct rig rig;
        char args[2000];
        rig_init(&rig);
        memset(args, 'x', sizeof(args) - 1);
        args[sizeof(args) - 1] = '\0';
        rig_do(&rig, "ENQUEUE", "h", args);
        struct buf *open = &rig.core->batch[rig.core->open];
        size_t max = open->max;
        open->max = open->len + 1000;
        has(ask(&rig, "k", "CLAIM", "w", "QUEUES", "default"), "[{id:1 ");
        open->max = max;
        has(ask(&rig, "k", "CLAIM", "w", "QUEUES", "default"), "!STATE this request was carried");
        rig_restart(&rig);
        has(ask(&rig, "k", "CLAIM", "w", "QUEUES", "default"), "!STATE this request was carried");
        has(rig_do(&rig, "JOB", "1"), "status:'in-progress'");
        rig_release(&rig);
}

static void a_key_too_many_is_refused_before_anything_is_done(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct hash *keys = &rig.core->state.things[THING_ANSWER];
        assert_string_equal(ask(&rig, "a", "ENQUEUE", "h", ""), "1");
        keys->len += LIMIT_ANSWERS - 2; /* as if there were as many: one place is left */
        assert_string_equal(ask(&rig, "b", "ENQUEUE", "h", ""), "2");
        has(ask(&rig, "c", "ENQUEUE", "h", ""), "!LIMIT 1000000 idempotency keys are known");
        assert_string_equal(ask(&rig, "b", "ENQUEUE", "h", ""), "2"); /* known ones still work */
        keys->len -= LIMIT_ANSWERS - 2;
        assert_int_equal(n_jobs(&rig), 2);
        assert_string_equal(ask(&rig, "c", "ENQUEUE", "h", ""), "3");
        rig_release(&rig);
}

static void kept_answers_are_bounded_in_bytes(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        uint64_t *bytes = &rig.core->state.answer_bytes;
        uint64_t full = LIMIT_ANSWERS_BYTES - LIMIT_ANSWER_BYTES - 1; /* a key of one byte fits */
        assert_string_equal(ask(&rig, "a", "ENQUEUE", "h", ""), "1");
        uint64_t used = *bytes;
        assert_int_equal(used,
                         1 + answer_of(thing_find(&rig.core->state, THING_ANSWER, SLICE_LIT("a")))
                                         ->tape_len);
        *bytes = full + 1;
        has(ask(&rig, "b", "ENQUEUE", "h", ""), "!LIMIT answers of ");
        assert_int_equal(n_jobs(&rig), 1);
        *bytes = full;
        assert_string_equal(ask(&rig, "b", "ENQUEUE", "h", ""), "2");
        assert_int_equal(*bytes, full + used);
        assert_true(*bytes <= LIMIT_ANSWERS_BYTES);
        *bytes = 2 * used;
        rig_pass_ms(&rig, DAY_MS);
        assert_int_equal(*bytes, 0);
        rig_release(&rig);
}

static void a_full_disk_refuses_keys_but_not_the_end_of_a_job(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        assert_string_equal(ask(&rig, "a", "ENQUEUE", "h", ""), "1");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig.log.stat.is_disk_full = true;
        rig.log.stat.room_bytes = 0;
        rig_turn(&rig);
        has(ask(&rig, "b", "COMPLETE", "1", token), "!NOSPACE the disk is full and the answer");
        assert_string_equal(ask(&rig, "a", "ENQUEUE", "h", ""), "1"); /* changes nothing */
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        rig_release(&rig);
}

static void the_cleaner_keeps_answers_while_the_log_is_cut(void **unused)
{
        (void)unused;
        struct rig rig;
        char args[4000], answer[512];
        rig_init(&rig);
        rig.options.log_slack_bytes = 64 * KIB;
        rig.log.stat.head_seq = UINT64_MAX; /* all of it can be given back */
        rig_restart(&rig);
        memset(args, 'x', sizeof(args) - 1);
        args[sizeof(args) - 1] = '\0';
        rig_do(&rig, "ENQUEUE", "h", "1");
        (void)snprintf(answer, sizeof(answer), "%s",
                       ask(&rig, "k", "CLAIM", "w", "QUEUES", "default"));
        uint64_t made_in = thing_find(&rig.core->state, THING_ANSWER, SLICE_LIT("k"))->live.seq;
        for (int i = 0; i < 400; i++) {
                char id[24];
                (void)snprintf(id, sizeof(id), "%s", rig_do(&rig, "ENQUEUE", "h", args));
                rig_do(&rig, "CANCEL", id);
                memory_archive_commit(&rig.archive, 10);
                rig_turn(&rig);
        }
        assert_true(rig.log.trimmed_before > made_in);
        assert_true(rig_replays(&rig));
        assert_string_equal(ask(&rig, "k", "CLAIM", "w", "QUEUES", "default"), answer);
        rig_release(&rig);
}

static void a_body_that_no_answer_has_is_not_taken(void **unused)
{
        (void)unused;
        struct state s;
        struct buf body;
        struct problem problem;
        uint8_t print[ANSWER_PRINT_BYTES] = {1, 2, 3};
        struct effect e = {.type = EFFECT_THING_SET, .kind = THING_ANSWER, .name = SLICE_LIT("k")};
        state_init(&s, 1, thing_kinds);
        buf_init(&body, 0);
        answer_put_head(&body, 5, print, true);
        buf_put_str(&body, "tape");
        for (size_t n = 0; n < ANSWER_HEAD_BYTES; n++) {
                e.body = slice_make(body.ptr, n);
                assert_int_equal(state_apply(&s, &e, 1, &problem), ERR_CORRUPT);
        }
        for (size_t i = 0; i < 2; i++) { /* version, is_whole */
                char was = body.ptr[i];
                body.ptr[i] = 2;
                e.body = buf_slice(&body);
                assert_int_equal(state_apply(&s, &e, 1, &problem), ERR_CORRUPT);
                body.ptr[i] = was;
        }
        body.ptr[1] = 0; /* not whole, and yet a tape */
        assert_int_equal(state_apply(&s, &e, 1, &problem), ERR_CORRUPT);
        body.ptr[1] = 1;
        e.body = buf_slice(&body);
        assert_int_equal(state_apply(&s, &e, 1, &problem), OK);
        assert_int_equal(s.answer_bytes, 5);
        answer_drop_tape(&body);
        e.body = buf_slice(&body);
        assert_int_equal(state_apply(&s, &e, 1, &problem), OK);
        assert_int_equal(s.answer_bytes, 1);
        buf_release(&body);
        state_release(&s);
}

static void an_answer_that_cannot_be_read_is_an_error_and_nothing_is_done(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(ask(&rig, "k", "ENQUEUE", "h", ""), "1");
        struct thing *t = thing_find(&rig.core->state, THING_ANSWER, SLICE_LIT("k"));
        CONTAINER_OF(t, struct answer, thing)->tape[0] = 99;
        has(ask(&rig, "k", "ENQUEUE", "h", ""), "!CORRUPT this request was carried out");
        assert_int_equal(n_jobs(&rig), 1);
        rig_release(&rig);
}

/* --- a door --------------------------------------------------------------------------------- */

static void a_repeated_answer_leaves_no_earlier_than_the_first(void **unused)
{
        (void)unused;
        struct bench b;
        bench_init(&b, NULL);
        b.log.is_manual = true;
        int fd = dial(b.resp_port), other = dial(b.resp_port);
        tell(fd, "IDEMPOTENT k ENQUEUE h a\r\n");
        until(&b, b.log.in_flight == 1);
        tell(other, "PING\r\nIDEMPOTENT k ENQUEUE h a\r\n");
        expect_text(&b, other, "+PONG\r\n");
        expect_nothing(&b, fd);
        expect_nothing(&b, other);
        memory_log_sync(&b.log);
        expect_text(&b, fd, ":1\r\n");
        expect_text(&b, other, ":1\r\n");
        close(fd);
        close(other);
        bench_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_fingerprint_of_a_request_never_changes),
                cmocka_unit_test(the_first_answer_is_given_again_and_nothing_is_done),
                cmocka_unit_test(a_key_is_known_after_a_restart),
                cmocka_unit_test(a_key_used_for_another_request_is_refused),
                cmocka_unit_test(a_refusal_is_not_kept),
                cmocka_unit_test(a_claim_that_found_nothing_stays_empty_under_its_key),
                cmocka_unit_test(completing_and_claiming_in_one_step_is_done_once),
                cmocka_unit_test(a_request_with_a_key_cannot_wait),
                cmocka_unit_test(an_answer_that_must_ask_history_is_kept_as_well),
                cmocka_unit_test(a_peer_that_leaves_before_its_answer_leaves_its_key_free),
                cmocka_unit_test(a_refusal_that_comes_later_is_not_kept_either),
                cmocka_unit_test(only_what_changes_something_takes_a_key),
                cmocka_unit_test(a_key_is_1_to_255_bytes_of_any_kind),
                cmocka_unit_test(a_key_is_free_again_after_24_hours_and_not_before),
                cmocka_unit_test(two_requests_of_one_turn_are_one),
                cmocka_unit_test(an_answer_and_what_it_tells_of_are_in_one_batch),
                cmocka_unit_test(an_answer_too_large_to_be_kept_is_given_once_and_not_repeated),
                cmocka_unit_test(
                        when_the_batch_is_full_the_request_stands_and_its_answer_is_not_kept),
                cmocka_unit_test(a_key_too_many_is_refused_before_anything_is_done),
                cmocka_unit_test(kept_answers_are_bounded_in_bytes),
                cmocka_unit_test(a_full_disk_refuses_keys_but_not_the_end_of_a_job),
                cmocka_unit_test(the_cleaner_keeps_answers_while_the_log_is_cut),
                cmocka_unit_test(a_body_that_no_answer_has_is_not_taken),
                cmocka_unit_test(an_answer_that_cannot_be_read_is_an_error_and_nothing_is_done),
                cmocka_unit_test(a_repeated_answer_leaves_no_earlier_than_the_first),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

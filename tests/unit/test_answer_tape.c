/* What an idempotency key keeps: the tape of an answer, and the fingerprint of a request. */
#include "check.h"

#include "core/answer_print.h"
#include "core/answer_tape.h"
#include "door/bind.h"
#include "door/json_reply.h"
#include "support/text_reply.h"

/* --- tapes ---------------------------------------------------------------------------------- */

/* One of everything a reply can say. */
static void say_all(struct reply *r)
{
        reply_wrap(r, "all");
        reply_list(r, 7);
        reply_int(r, INT64_MIN);
        reply_int(r, INT64_MAX);
        reply_null(r);
        reply_ok(r);
        reply_map(r, 2);
        reply_key(r, "yes");
        reply_bool(r, true);
        reply_key(r, "no");
        reply_bool(r, false);
        reply_end(r);
        reply_record(r, 3);
        reply_key(r, "text");
        reply_text(r, SLICE_LIT("a\0b"));
        reply_key(r, "args");
        reply_payload(r, SLICE_LIT("\xff\0\1"));
        reply_key(r, "none");
        reply_list(r, 0);
        reply_end(r);
        reply_end(r);
        reply_text(r, SLICE_NONE);
        reply_end(r);
}

static void json_of(struct slice tape, struct buf *ret)
{
        struct json_reply json;
        buf_init(ret, 0);
        json_reply_init(&json, ret);
        if (tape.len)
                assert_true(tape_play(tape, &json.reply));
        else
                say_all(&json.reply);
        json_reply_finish(&json);
}

static void record_all(struct buf *bytes, struct text_reply *heard)
{
        struct tape tape;
        tape_init(&tape, &heard->base, bytes);
        say_all(&tape.reply);
        assert_false(tape.is_error);
}

static void a_tape_says_again_what_was_said(void **unused)
{
        (void)unused;
        struct text_reply direct, heard, again;
        struct buf bytes, json, json_again;
        text_reply_init(&direct);
        text_reply_init(&heard);
        text_reply_init(&again);
        buf_init(&bytes, 0);
        say_all(&direct.base);
        record_all(&bytes, &heard);
        assert_string_equal(text_reply_str(&heard), text_reply_str(&direct));
        assert_true(tape_play(buf_slice(&bytes), &again.base));
        assert_string_equal(text_reply_str(&again), text_reply_str(&direct));

        /* Recorded before somebody who knows no names at the top, played to somebody who does. */
        json_of(SLICE_NONE, &json);
        json_of(buf_slice(&bytes), &json_again);
        assert_string_equal(buf_cstr(&json_again), buf_cstr(&json));
        buf_release(&json);
        buf_release(&json_again);
        buf_release(&bytes);
        text_reply_release(&direct);
        text_reply_release(&heard);
        text_reply_release(&again);
}

/* Plays bytes that may be anything; exact allocation, so that a byte too far is found. */
static bool plays(struct slice bytes)
{
        char *copy = malloc(bytes.len + !bytes.len);
        struct text_reply heard;
        assert_non_null(copy);
        if (bytes.len)
                memcpy(copy, bytes.ptr, bytes.len);
        text_reply_init(&heard);
        bool is_tape = tape_play(slice_make(copy, bytes.len), &heard.base);
        assert_true(is_tape || heard.text.len == 0); /* all or nothing */
        text_reply_release(&heard);
        free(copy);
        return is_tape;
}

static void a_damaged_tape_is_refused_before_a_word_is_said(void **unused)
{
        (void)unused;
        struct text_reply heard;
        struct buf bytes;
        text_reply_init(&heard);
        buf_init(&bytes, 0);
        record_all(&bytes, &heard);
        for (size_t n = 0; n < bytes.len; n++)
                assert_false(plays(slice_make(bytes.ptr, n)));
        assert_true(plays(buf_slice(&bytes)));
        for (size_t i = 0; i < bytes.len; i++) {
                char was = bytes.ptr[i];
                for (int v = 0; v < 256; v++) {
                        bytes.ptr[i] = (char)v;
                        (void)plays(buf_slice(&bytes)); /* some are tapes of something else */
                }
                bytes.ptr[i] = was;
        }
        buf_put_byte(&bytes, 1); /* something behind the end */
        assert_false(plays(buf_slice(&bytes)));
        text_reply_release(&heard);
        buf_release(&bytes);
}

static void containers_inside_each_other_are_bounded(void **unused)
{
        (void)unused;
        for (size_t depth = 1; depth < 70; depth++) {
                struct text_reply heard;
                struct tape tape;
                struct buf bytes;
                text_reply_init(&heard);
                buf_init(&bytes, 0);
                tape_init(&tape, &heard.base, &bytes);
                for (size_t i = 0; i < depth; i++)
                        reply_list(&tape.reply, i + 1 < depth);
                for (size_t i = 0; i < depth; i++)
                        reply_end(&tape.reply);
                assert_int_equal(plays(buf_slice(&bytes)), depth < 32);
                text_reply_release(&heard);
                buf_release(&bytes);
        }
}

static void a_full_tape_does_not_keep_the_listener_from_hearing_all(void **unused)
{
        (void)unused;
        struct text_reply direct, heard;
        struct buf bytes;
        text_reply_init(&direct);
        say_all(&direct.base);
        for (size_t max = 1; max < 40; max++) {
                text_reply_init(&heard);
                buf_init(&bytes, max);
                record_all(&bytes, &heard);
                assert_true(bytes.failed && bytes.len <= max);
                assert_string_equal(text_reply_str(&heard), text_reply_str(&direct));
                text_reply_release(&heard);
                buf_release(&bytes);
        }
        text_reply_release(&direct);
}

static void an_error_is_passed_on_and_marked(void **unused)
{
        (void)unused;
        struct text_reply heard;
        struct tape tape;
        struct buf bytes;
        struct problem problem;
        text_reply_init(&heard);
        buf_init(&bytes, 0);
        tape_init(&tape, &heard.base, &bytes);
        (void)problem_set(&problem, ERR_STATE, "no");
        reply_error(&tape.reply, &problem);
        assert_true(tape.is_error);
        assert_int_equal(bytes.len, 0);
        assert_string_equal(text_reply_str(&heard), "!STATE no");
        text_reply_release(&heard);
        buf_release(&bytes);
}

/* --- fingerprints --------------------------------------------------------------------------- */

struct print {
        uint8_t bytes[ANSWER_PRINT_BYTES];
};

static struct print print_words(const char *line)
{
        struct slice argv[64];
        size_t argc = 0;
        struct arena arena;
        struct command cmd;
        struct problem problem = {0};
        struct print ret;
        for (const char *at = line; *at;) {
                size_t n = strcspn(at, " ");
                argv[argc++] = slice_make(at, n);
                at += n + (at[n] == ' ');
        }
        const struct command_def *def = command_find(argv[0]);
        assert_non_null(def);
        arena_init(&arena, MIB);
        int r = command_bind_argv(def, argv + 1, argc - 1, &arena, &cmd, &problem);
        if (r != OK)
                fail_msg("%s: %s", line, problem.detail);
        assert_true(answer_print(&cmd, ret.bytes));
        arena_release(&arena);
        return ret;
}

static struct print print_json(const char *name, const char *id, const char *body)
{
        struct arena arena;
        struct command cmd;
        struct problem problem = {0};
        struct print ret;
        struct bind_path path = {SLICE_LIT("id"), slice_str(id)};
        struct bind_request request = {.path = &path,
                                       .n_path = id ? 1 : 0,
                                       .has_body = body != NULL,
                                       .body = slice_str(body)};
        arena_init(&arena, MIB);
        int r = bind_command(command_find(slice_str(name)), &request, &arena, &cmd, &problem);
        if (r != OK)
                fail_msg("%s: %s", body, problem.detail);
        cmd.raw = request.body;
        assert_true(answer_print(&cmd, ret.bytes));
        arena_release(&arena);
        return ret;
}

static bool is_same(struct print a, struct print b)
{
        return memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

#define TOKEN "00112233445566778899aabbccddeeff"

static void the_same_request_has_one_fingerprint_over_both_doors(void **unused)
{
        (void)unused;
        static const struct {
                const char *words, *name, *id, *json;
        } rows[] = {
                {"ENQUEUE mail {\"a\":1}", "ENQUEUE", NULL,
                 "{ \"args\": {\"a\":1}, \"hook\": \"m\\u0061il\" }"},
                {"ENQUEUE h 1 PRIORITY 7 QUEUE q IN 5", "ENQUEUE", NULL,
                 "{\"hook\":\"h\",\"args\":1,\"in\":5,\"queue\":\"q\",\"priority\":7}"},
                {"CLAIM w MAX 3 LEASE 1000 QUEUES a b", "CLAIM", NULL,
                 "{\"worker\":\"w\",\"queues\":[\"a\",\"b\"],\"max\":3,\"lease\":1000}"},
                {"COMPLETE 7 " TOKEN " 1 CLAIM w QUEUES q", "COMPLETE", "7",
                 "{\"token\":\"" TOKEN "\",\"result\":1,"
                 "\"claim\":{\"worker\":\"w\",\"queues\":[\"q\"]}}"},
                {"EXTEND 7 00112233445566778899AABBCCDDEEFF 500", "EXTEND", "7",
                 "{\"token\":\"" TOKEN "\",\"ms\":500}"},
                {"FAIL 7 " TOKEN " bad", "FAIL", "7",
                 "{\"token\":\"" TOKEN "\",\"error\":\"bad\"}"},
                {"CANCEL 7", "CANCEL", "7", NULL},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (!is_same(print_words(rows[i].words),
                             print_json(rows[i].name, rows[i].id, rows[i].json)))
                        fail_msg("%s", rows[i].words);
}

static void any_difference_between_requests_is_in_the_fingerprint(void **unused)
{
        (void)unused;
        static const char *const lines[] = {
                "ENQUEUE h a",
                "ENQUEUE h b",
                "ENQUEUE h aa",
                "ENQUEUE ha a",
                "ENQUEUE h a QUEUE b",
                "ENQUEUE h a GROUP b",
                "ENQUEUE h a PRIORITY 1",
                "ENQUEUE h a ATTEMPTS 1",
                "ENQUEUE h a IN 1",
                "ENQUEUE h a AT 1",
                "ENQUEUEMANY JOBS h a",
                "ENQUEUEMANY JOBS h a h a",
                "ENQUEUEMANY JOBS ha h a h",
                "ENQUEUEMANY QUEUE q JOBS h a",
                "CLAIM w QUEUES a b",
                "CLAIM w QUEUES b a",
                "CLAIM w QUEUES ab",
                "CLAIM w MAX 2 QUEUES a b",
                "CLAIM w LEASE 200 QUEUES a b",
                "COMPLETE 7 " TOKEN,
                "COMPLETE 8 " TOKEN,
                "COMPLETE 7 00112233445566778899aabbccddeef0",
                "COMPLETE 7 " TOKEN " x",
                "COMPLETE 7 " TOKEN " x CLAIM w QUEUES a",
                "COMPLETE 7 " TOKEN " x CLAIM w QUEUES b",
                "COMPLETE 7 " TOKEN " x CLAIM v QUEUES a",
                "COMPLETE 7 " TOKEN " x CLAIM w MAX 2 QUEUES a",
                "COMPLETE 7 " TOKEN " x CLAIM w LEASE 200 QUEUES a",
                "RELEASE 7 " TOKEN,
                "PAUSE a",
                "RESUME a",
        };
        struct print prints[ARRAY_LEN(lines)];
        for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
                prints[i] = print_words(lines[i]);
                assert_true(is_same(prints[i], print_words(lines[i])));
                for (size_t j = 0; j < i; j++)
                        if (is_same(prints[i], prints[j]))
                                fail_msg("%s and %s", lines[j], lines[i]);
        }
        struct print one = print_json("ENQUEUE", NULL, "[{\"hook\":\"h\",\"args\":1}]");
        struct print other =
                print_json("ENQUEUE", NULL, "[{\"hook\":\"h\",\"args\":1,\"priority\":3}]");
        assert_false(is_same(one, other));
}

static void a_fingerprint_is_the_same_in_every_version(void **unused)
{
        (void)unused;
        /* sha256 of: 7 "ENQUEUE" 4 "hook" 1 "h" 4 "args" 1 "a", lengths as u64. */
        char hex[2 * ANSWER_PRINT_BYTES];
        struct print print = print_words("ENQUEUE h a");
        hex_from_bytes(print.bytes, sizeof(print.bytes), hex);
        assert_slice(slice_make(hex, sizeof(hex)), "913d1c73d501d69cd4e281f259f89890");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_tape_says_again_what_was_said),
                cmocka_unit_test(a_damaged_tape_is_refused_before_a_word_is_said),
                cmocka_unit_test(containers_inside_each_other_are_bounded),
                cmocka_unit_test(a_full_tape_does_not_keep_the_listener_from_hearing_all),
                cmocka_unit_test(an_error_is_passed_on_and_marked),
                cmocka_unit_test(the_same_request_has_one_fingerprint_over_both_doors),
                cmocka_unit_test(any_difference_between_requests_is_in_the_fingerprint),
                cmocka_unit_test(a_fingerprint_is_the_same_in_every_version),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

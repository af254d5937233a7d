/* Replies as JSON bodies. */
#include "check.h"

#include "door/json_reply.h"
#include "wire/json.h"

static void the_parts_of_a_reply_are_put_together(void **state)
{
        struct buf b;
        struct json_reply j;
        struct reply *r = &j.reply;

        (void)state;
        buf_init(&b, 0);
        json_reply_init(&j, &b);
        reply_wrap(r, "all");
        reply_list(r, 3);
        reply_map(r, 2);
        reply_key(r, "n");
        reply_int(r, -5);
        reply_key(r, "t");
        reply_text(r, SLICE_LIT("a\"b\n\xff"));
        reply_end(r);
        reply_record(r, 3);
        reply_key(r, "ok");
        reply_bool(r, true);
        reply_key(r, "none");
        reply_null(r);
        reply_key(r, "list");
        reply_list(r, 0);
        reply_end(r);
        reply_end(r);
        reply_int(r, 7);
        reply_end(r);
        json_reply_finish(&j);
        assert_slice(buf_slice(&b), "{\"all\":[{\"n\":-5,\"t\":\"a\\\"b\\n\xef\xbf\xbd\"},"
                                    "{\"ok\":true,\"none\":null,\"list\":[]},7]}\n");
        assert_int_equal(j.first_int, -5);
        assert_int_equal(j.err, OK);
        buf_release(&b);
}

static void a_payload_is_json_or_marked_as_text_or_base64(void **state)
{
        static const struct {
                struct slice payload;
                const char *json;
        } rows[] = {
                {SLICE_LIT("{ \"a\": 1.0 }"), "{\"args\":{ \"a\": 1.0 },\"x\":1}\n"},
                {SLICE_LIT("12"), "{\"args\":12,\"x\":1}\n"},
                {SLICE_LIT(""), "{\"args\":\"\",\"args_is_text\":true,\"x\":1}\n"},
                {SLICE_LIT("{a}"), "{\"args\":\"{a}\",\"args_is_text\":true,\"x\":1}\n"},
                {SLICE_LIT("\"{a}\""), "{\"args\":\"{a}\",\"x\":1}\n"},
                {SLICE_LIT(" 1 "), "{\"args\": 1 ,\"x\":1}\n"},
                {SLICE_LIT("a\0b"), "{\"args\":\"a\\u0000b\",\"args_is_text\":true,\"x\":1}\n"},
                {SLICE_LIT("\xff\0\1"), "{\"args_base64\":\"/wAB\",\"x\":1}\n"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct buf b;
                struct json_reply j;
                buf_init(&b, 0);
                json_reply_init(&j, &b);
                reply_record(&j.reply, 2);
                reply_key(&j.reply, "args");
                reply_payload(&j.reply, rows[i].payload);
                reply_key(&j.reply, "x");
                reply_int(&j.reply, 1);
                reply_end(&j.reply);
                json_reply_finish(&j);
                assert_slice(buf_slice(&b), rows[i].json);
                assert_true(json_is_valid(buf_slice(&b), 8));
                buf_release(&b);
        }
}

static void an_error_is_the_whole_reply(void **state)
{
        struct buf b;
        struct json_reply j;
        struct problem p;

        (void)state;
        buf_init(&b, 0);
        json_reply_init(&j, &b);
        reply_wrap(&j.reply, "jobs");
        (void)problem_set(&p, ERR_NOTFOUND, "no job \"%d\"", 7);
        reply_error(&j.reply, &p);
        json_reply_finish(&j);
        assert_slice(buf_slice(&b), "{\"type\":\"urn:weir:error:NOTFOUND\",\"title\":"
                                    "\"no such object\",\"status\":404,\"code\":\"NOTFOUND\","
                                    "\"detail\":\"no job \\\"7\\\"\"}\n");
        assert_int_equal(j.err, ERR_NOTFOUND);
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_parts_of_a_reply_are_put_together),
                cmocka_unit_test(a_payload_is_json_or_marked_as_text_or_base64),
                cmocka_unit_test(an_error_is_the_whole_reply),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

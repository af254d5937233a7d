/* telemetry/spans.c: attempts as JSON of OTLP, byte for byte. */
#include "telemetry/spans.h"

#include "unit/check.h"

#include "telemetry/exporter.h"
#include "wire/json.h"

static const struct spans_source source = {"shop \"1\"", "9.9", "host:/data"};

static struct attempt an_attempt(void)
{
        struct attempt a = {
                .has_enqueue = true,
                .end = ATTEMPT_FAILED,
                .number = 1,
                .of = 3,
                .job = 17,
                .created_ms = 1700000000000,
                .due_ms = 1700000001000,
                .started_ms = 1700000002500,
                .ended_ms = 1700000003001,
                .queue = SLICE_LIT("mail"),
                .hook = SLICE_LIT("send"),
                .worker = SLICE_LIT("w1"),
                .error = SLICE_LIT("no \"host\"\n\xff"),
        };
        memset(a.trace, 0xab, sizeof(a.trace));
        memset(a.client, 0x11, sizeof(a.client));
        memset(a.enqueue, 0x22, sizeof(a.enqueue));
        memset(a.wait, 0x33, sizeof(a.wait));
        memset(a.run, 0x44, sizeof(a.run));
        return a;
}

static const char *request_of(const struct attempt *a, size_t n, struct buf *ret)
{
        struct buf packed CLEANUP(buf_release) = {0};
        for (size_t i = 0; i < n; i++)
                spans_pack(&packed, &a[i]);
        struct slice rest = buf_slice(&packed);
        buf_clear(ret);
        (void)spans_put_request(ret, &source, &rest, 1000);
        assert_int_equal(rest.len, 0);
        assert_true(json_is_valid(buf_slice(ret), 32));
        return buf_cstr(ret);
}

#define TEXT(key, value)   "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" value "\"}}"
#define NUMBER(key, value) "{\"key\":\"" key "\",\"value\":{\"intValue\":\"" value "\"}}"
#define TRACE              "\"traceId\":\"abababababababababababababababab\","
#define BEGIN                                                                                      \
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[" TEXT(                                \
                "service.name",                                                                    \
                "shop \\\"1\\\"") "," TEXT("service.version",                                      \
                                           "9.9") "," TEXT("service.instance.id",                  \
                                                           "host:/data") "]},\"scopeSpans\":[{"    \
                                                                         "\"scope\":{\"name\":"    \
                                                                         "\"weir\"},\"spans\":["
#define COMMON(name, type)                                                                         \
        "\"attributes\":[" TEXT("messaging.system", "weir") "," TEXT(                              \
                "messaging.destination.name", "mail") "," TEXT("messaging.operation.name", name)   \
                type "," TEXT("messaging.message.id", "17") "," TEXT("weir.hook", "send")
#define ATTEMPT "," NUMBER("weir.attempt", "1") "," NUMBER("weir.attempts", "3")

static void an_attempt_is_three_spans_word_for_word(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        struct attempt a = an_attempt();
        assert_string_equal(
                request_of(&a, 1, &b), BEGIN
                "{" TRACE "\"spanId\":\"2222222222222222\","
                "\"parentSpanId\":\"1111111111111111\",\"name\":\"enqueue\",\"kind\":4,"
                "\"startTimeUnixNano\":\"1700000000000000000\","
                "\"endTimeUnixNano\":\"1700000000000000000\"," COMMON(
                        "enqueue",
                        "," TEXT("messaging.operation.type",
                                 "send")) "]},"
                                          "{" TRACE "\"spanId\":\"3333333333333333\","
                                          "\"parentSpanId\":\"2222222222222222\",\"name\":\"wait\","
                                          "\"kind\":1,"
                                          "\"startTimeUnixNano\":\"1700000001000000000\","
                                          "\"endTimeUnixNano\":\"1700000002500000000\"," COMMON(
                                                  "wait", "") ATTEMPT
                "]},"
                "{" TRACE "\"spanId\":\"4444444444444444\","
                "\"parentSpanId\":\"2222222222222222\",\"name\":\"run\",\"kind\":5,"
                "\"startTimeUnixNano\":\"1700000002500000000\","
                "\"endTimeUnixNano\":\"1700000003001000000\"," COMMON(
                        "run", "," TEXT("messaging.operation.type", "process")) ATTEMPT
                "," TEXT("messaging.client.id", "w1") "," TEXT("weir.worker", "w1") "," TEXT(
                        "weir.outcome",
                        "failed") "," TEXT("error.type",
                                           "failed") "],"
                                                     "\"status\":{\"code\":2,\"message\":\"no "
                                                     "\\\"host\\\"\\n\xef\xbf\xbd\"}}"
                                                     "]}]}]}");
}

static void a_later_attempt_has_no_enqueue_and_a_good_one_no_status(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        struct attempt a = an_attempt();
        a.has_enqueue = false;
        a.end = ATTEMPT_COMPLETE;
        a.runs = 2;
        a.group = SLICE_LIT("g");
        const char *text = request_of(&a, 1, &b);
        assert_null(strstr(text, "\"enqueue\""));
        assert_null(strstr(text, "status"));
        assert_null(strstr(text, "error.type"));
        assert_non_null(strstr(text, NUMBER("weir.run", "2")));
        assert_non_null(strstr(text, TEXT("weir.group", "g")));
        assert_non_null(strstr(text, TEXT("weir.outcome", "complete")));
}

static void a_trace_that_weir_began_has_no_parent(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        struct attempt a = an_attempt();
        memset(a.client, 0, sizeof(a.client));
        const char *text = request_of(&a, 1, &b);
        const char *enqueue = strstr(text, "\"name\":\"enqueue\"");
        assert_non_null(enqueue);
        assert_true(strstr(text, "parentSpanId") > enqueue); /* that of wait */
}

static void only_failures_and_timeouts_are_errors(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        for (unsigned end = 0; end < ATTEMPT_ENDS; end++) {
                struct attempt a = an_attempt();
                a.end = (uint8_t)end;
                bool is_error = strstr(request_of(&a, 1, &b), "\"status\"") != NULL;
                assert_int_equal(is_error, end == ATTEMPT_FAILED || end == ATTEMPT_TIMED_OUT);
        }
}

static void a_request_has_no_more_spans_than_it_may_and_leaves_the_rest(void **unused)
{
        (void)unused;
        struct buf packed CLEANUP(buf_release) = {0}, b CLEANUP(buf_release) = {0};
        struct attempt a = an_attempt();
        for (int i = 0; i < 5; i++)
                spans_pack(&packed, &a);
        struct slice rest = buf_slice(&packed);
        assert_int_equal(spans_put_request(&b, &source, &rest, 8), 6); /* 9 would be too many */
        assert_int_equal(spans_put_request(&b, &source, &rest, 9), 9);
        assert_int_equal(rest.len, 0);
        assert_int_equal(spans_put_request(&b, &source, &rest, 9), 0);
}

static void what_is_packed_is_unpacked_the_same_but_for_a_long_error(void **unused)
{
        (void)unused;
        struct buf packed CLEANUP(buf_release) = {0};
        char error[SPANS_ERROR_BYTES + 1];
        memset(error, 'x', sizeof(error));
        struct attempt a = an_attempt(), got;
        spans_pack(&packed, &a);
        a.error = slice_make(error, sizeof(error));
        spans_pack(&packed, &a);
        struct slice rest = buf_slice(&packed);
        assert_true(spans_unpack(&rest, &got));
        assert_int_equal(got.job, 17);
        assert_true(slice_eq(got.queue, a.queue) && slice_eq(got.worker, a.worker));
        assert_true(slice_eq(got.error, an_attempt().error));
        assert_true(spans_unpack(&rest, &got));
        assert_int_equal(got.error.len, SPANS_ERROR_BYTES);
        assert_false(spans_unpack(&rest, &got));
}

static void a_header_has_a_name_and_a_value(void **unused)
{
        (void)unused;
        static const char *const good[] = {"X-Key: 1", "a:b", "authorization: Bearer x y=="};
        static const char *const bad[] = {"",        "x",           ":",       ": v",
                                          "X-K:",    "X K: v",      "X\tK: v", "X: a\rb",
                                          "X: \x7f", "\xc3\xa9: v", "X-Key 1"};
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                assert_true(exporter_is_header(slice_str(good[i])));
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                if (exporter_is_header(slice_str(bad[i])))
                        fail_msg("taken: '%s'", bad[i]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_attempt_is_three_spans_word_for_word),
                cmocka_unit_test(a_later_attempt_has_no_enqueue_and_a_good_one_no_status),
                cmocka_unit_test(a_trace_that_weir_began_has_no_parent),
                cmocka_unit_test(only_failures_and_timeouts_are_errors),
                cmocka_unit_test(a_request_has_no_more_spans_than_it_may_and_leaves_the_rest),
                cmocka_unit_test(what_is_packed_is_unpacked_the_same_but_for_a_long_error),
                cmocka_unit_test(a_header_has_a_name_and_a_value),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* How a command's end is told. */
#include "check.h"

#include "work/outcome.h"

static void the_last_line_may_ask_for_a_delay(void **state)
{
        static const struct {
                const char *text, *left;
                int64_t ms;
        } rows[] = {
                {"weir-retry-in: 30s", "", 30000},
                {"weir-retry-in:5m\n\n", "", 300000},
                {"a\nb\nweir-retry-in: 500ms \r\n", "a\nb", 500},
                {"a\n\nweir-retry-in: 0s", "a\n", 0},
                {"weir-retry-in: 2h", "", 7200000},
                {"weir-retry-in: 1d", "", 86400000},
                {"weir-retry-in: 8d", "", HANDLER_RETRY_MAX_MS},
                {"weir-retry-in: 9223372036854775807d", "", HANDLER_RETRY_MAX_MS},
                {"a\nweir-retry-in: never\n", "a", HANDLER_RETRY_NEVER},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct slice text = slice_str(rows[i].text);
                int64_t ms = -1;
                assert_true(outcome_take_retry(&text, &ms));
                assert_int_equal(ms, rows[i].ms);
                assert_slice(text, rows[i].left);
        }
}

static void what_is_no_delay_stays_in_the_text(void **state)
{
        static const char *const rows[] = {
                "",
                "\n",
                "weir-retry-in: 30",
                "weir-retry-in: s",
                "weir-retry-in:",
                "weir-retry-in: -3s",
                "weir-retry-in: 3 s",
                "weir-retry-in: 3y",
                "weir-retry-in: nevermore",
                "weir-retry-in: 3never",
                "weir-retry-in: 99999999999999999999s",
                " weir-retry-in: 3s",
                "weir-retry-in: 3s\nmore",
                "Weir-Retry-In: 3s",
                "weir-retry-i",
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct slice text = slice_str(rows[i]);
                int64_t ms = -1;
                assert_false(outcome_take_retry(&text, &ms));
                assert_slice(text, rows[i]);
        }
}

static void failure_is(const struct task_result *r, bool is_too_long, const char *text)
{
        struct handler h;
        struct buf b;
        char origin[] = "--timeout";
        handler_init(&h);
        buf_init(&b, 0);
        h.origin = origin;
        h.timeout_ms = is_too_long ? 1500 : 0;
        h.cpu_s = 3;
        outcome_put_failure(&b, &h, r, is_too_long ? 1500 : 0);
        assert_string_equal(buf_cstr(&b), text);
        buf_release(&b);
}

static void failures_say_how_and_why(void **state)
{
        (void)state;
        failure_is(&(struct task_result){.exit_code = 3}, false, "exit 3");
        failure_is(&(struct task_result){.exit_code = 3, .errors = SLICE_LIT("a\nb")}, false,
                   "exit 3: a\nb");
        failure_is(&(struct task_result){.signal = 9}, false, "killed by signal 9");
        failure_is(&(struct task_result){.signal = SIGXCPU}, false,
                   "killed after 3 s of cpu (--timeout)");
        failure_is(&(struct task_result){.signal = 15}, true, "killed after 1.5 s (--timeout)");
        failure_is(
                &(struct task_result){.exit_code = 1, .errors = SLICE_LIT("\x1b[1m\x07\xc3\xbc")},
                false, "exit 1: ?[1m?\xc3\xbc");
        failure_is(&(struct task_result){.exit_code = 1, .errors = SLICE_LIT("\xff\xc3\xbc\t")},
                   false, "exit 1: ???\t");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_last_line_may_ask_for_a_delay),
                cmocka_unit_test(what_is_no_delay_stays_in_the_text),
                cmocka_unit_test(failures_say_how_and_why),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Jobs as lines of JSON, filters, and how progress is told. */
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/filter.h"
#include "cli/job_line.h"
#include "cli/progress.h"

static const char *words_of(struct slice options)
{
        static char text[1024];
        size_t len = 0;
        text[0] = '\0';
        while (options.len) {
                size_t n = load_u32(options.ptr);
                len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s", len ? " " : "",
                                        (int)n, options.ptr + 4);
                options = slice_make(options.ptr + 4 + n, options.len - 4 - n);
        }
        return text;
}

static void check_line(const char *line, const struct job_line_rules *rules, const char *hook,
                       const char *args, const char *options)
{
        struct job_line l;
        struct problem p = {0};
        job_line_init(&l);
        assert_int_equal(job_line_parse(&l, slice_str(line), rules, &p), OK);
        assert_true(slice_eq(l.job.hook, slice_str(hook)));
        assert_true(slice_eq(l.job.args, slice_str(args)));
        assert_string_equal(words_of(l.job.options), options);
        job_line_release(&l);
}

static void a_line_has_the_keys_of_a_posted_job(void **state)
{
        const struct job_line_rules plain = {0};
        (void)state;
        check_line("{\"hook\":\"h\"}", &plain, "h", "", "");
        check_line("{\"hook\":\"h\\u0041\",\"args\":{\"a\": [1, 2]}}", &plain, "hA",
                   "{\"a\": [1, 2]}", "");
        check_line("{\"queue\":\"q\",\"hook\":\"h\",\"priority\":7,\"after\":[1,2]}", &plain, "h",
                   "", "QUEUE q PRIORITY 7 AFTER 1,2");
        check_line("{\"hook\":\"h\",\"args_base64\":\"aGVsbG8=\"}", &plain, "h", "hello", "");
        check_line("{\"hook\":\"h\",\"args\":\"text\"}", &plain, "h", "\"text\"", "");
        check_line("{\"args_is_text\":true,\"hook\":\"h\",\"args\":\"a\\n\"}", &plain, "h", "a\n",
                   "");
        check_line("{\"hook\":\"h\",\"args\":\"a\",\"args_is_text\":false}", &plain, "h", "\"a\"",
                   "");
}

static void the_command_line_says_what_the_line_does_not(void **state)
{
        struct buf defaults;
        (void)state;
        buf_init(&defaults, 0);
        bulk_put_word(&defaults, SLICE_LIT("QUEUE"));
        bulk_put_word(&defaults, SLICE_LIT("dq"));
        bulk_put_word(&defaults, SLICE_LIT("PRIORITY"));
        bulk_put_word(&defaults, SLICE_LIT("9"));
        struct job_line_rules rules = {.defaults = buf_slice(&defaults), .hook = SLICE_LIT("dh")};
        check_line("{}", &rules, "dh", "", "QUEUE dq PRIORITY 9");
        check_line("{\"queue\":\"q\"}", &rules, "dh", "", "QUEUE q PRIORITY 9");
        check_line("{\"hook\":\"h\",\"priority\":1}", &rules, "h", "", "PRIORITY 1 QUEUE dq");
        buf_release(&defaults);
}

static void check_refused(const char *line, bool is_export, const char *why)
{
        struct job_line l;
        struct problem p = {0};
        const struct job_line_rules rules = {.is_export = is_export};
        job_line_init(&l);
        assert_int_not_equal(job_line_parse(&l, slice_str(line), &rules, &p), OK);
        if (!strstr(p.detail, why))
                fail_msg("'%s' does not say '%s'", p.detail, why);
        job_line_release(&l);
}

static void what_is_no_job_is_refused_with_a_reason(void **state)
{
        (void)state;
        check_refused("", false, "JSON");
        check_refused("[]", false, "a job is an object, not an array");
        check_refused("{}", false, "it has no hook");
        check_refused("{\"hook\":\"h\",\"prioriy\":1}", false, "'prioriy' is not known");
        check_refused("{\"hook\":\"h\",\"hook\":\"i\"}", false, "'hook' is there twice");
        check_refused("{\"hook\":17}", false, "hook must be a string, not a number");
        check_refused("{\"hook\":\"h\",\"in\":\"5m\"}", false, "in must be a whole number");
        check_refused("{\"hook\":\"h\",\"in\":1.5}", false, "in must be a whole number");
        check_refused("{\"hook\":\"h\",\"after\":[0]}", false, "after must be an array of ids");
        check_refused("{\"hook\":\"h\",\"args_base64\":\"a\"}", false, "not padded base64");
        check_refused("{\"hook\":\"h\",\"args_base64\":\"AP9=\"}", false, "not padded base64");
        check_refused("{\"hook\":\"h\",\"args_base64\":\" AP8\"}", false, "not padded base64");
        check_refused("{\"hook\":\"h\",\"args\":1,\"args_is_text\":true}", false,
                      "args must be a string where args_is_text is true, not a number");
        check_refused("{\"hook\":\"h\",\"args_is_text\":true}", false,
                      "args is missing, of which args_is_text speaks");
        check_refused("{\"hook\":\"h\",\"args\":\"\",\"args_is_text\":\"x\"}", false,
                      "args_is_text must be true or false, not a string");
        check_refused("{\"hook\":\"h\",\"id\":1}", false, "'id' is not known");
        check_refused("{\"hook\":\"h\",\"nonsense\":1}", true, "'nonsense' is not known");
}

static uint64_t add_100(void *ctx, uint64_t id)
{
        (void)ctx;
        return id == 5 ? 0 : id + 100;
}

static void an_exported_job_tells_its_old_id_and_gets_new_ones(void **state)
{
        const struct job_line_rules rules = {.is_export = true, .map_id = add_100};
        struct job_line l;
        struct problem p = {0};
        (void)state;
        job_line_init(&l);
        assert_int_equal(
                job_line_parse(&l,
                               SLICE_LIT("{\"type\":\"job\",\"id\":7,\"status\":\"pending\","
                                         "\"hook\":\"h\",\"due_ms\":99,\"after\":[5,6]}"),
                               &rules, &p),
                OK);
        assert_int_equal(l.id, 7);
        assert_int_equal(l.due_ms, 99);
        assert_true(slice_eq(l.status, SLICE_LIT("pending")));
        assert_string_equal(words_of(l.job.options), "AFTER 106");
        job_line_put(&l, "AT", 99);
        assert_string_equal(words_of(l.job.options), "AFTER 106 AT 99");
        assert_int_equal(
                job_line_parse(&l, SLICE_LIT("{\"hook\":\"h\",\"after\":[5]}"), &rules, &p), OK);
        assert_string_equal(words_of(l.job.options), "");
        /* How the others must end means nothing without them, wherever it stands. */
        assert_int_equal(
                job_line_parse(&l,
                               SLICE_LIT("{\"hook\":\"h\",\"when\":\"ended\",\"after\":[5],"
                                         "\"otherwise\":\"fail\"}"),
                               &rules, &p),
                OK);
        assert_string_equal(words_of(l.job.options), "");
        assert_int_equal(
                job_line_parse(&l,
                               SLICE_LIT("{\"hook\":\"h\",\"when\":\"ended\",\"after\":[6],"
                                         "\"otherwise\":\"fail\"}"),
                               &rules, &p),
                OK);
        assert_string_equal(words_of(l.job.options), "AFTER 106 WHEN ended OTHERWISE fail");
        assert_int_equal(job_line_parse(&l, SLICE_LIT("{\"hook\":\"h\",\"when\":\"ended\"}"),
                                        &(struct job_line_rules){0}, &p),
                         OK);
        assert_string_equal(words_of(l.job.options), "WHEN ended"); /* the server refuses it */
        job_line_release(&l);
}

static bool keeps_open(void *ctx, struct slice name)
{
        (void)ctx;
        return slice_eq(name, SLICE_LIT("open"));
}

static void a_job_may_lose_its_batch(void **state)
{
        const struct job_line_rules rules = {.is_export = true, .keeps_batch = keeps_open};
        struct job_line l;
        struct problem p = {0};
        (void)state;
        job_line_init(&l);
        assert_int_equal(
                job_line_parse(&l, SLICE_LIT("{\"hook\":\"h\",\"batch\":\"open\"}"), &rules, &p),
                OK);
        assert_string_equal(words_of(l.job.options), "BATCH open");
        assert_int_equal(
                job_line_parse(&l, SLICE_LIT("{\"hook\":\"h\",\"batch\":\"lost\"}"), &rules, &p),
                OK);
        assert_string_equal(words_of(l.job.options), "");
        job_line_release(&l);
}

static void lines_are_counted_whatever_their_ends_and_however_they_come(void **state)
{
        int ends[2];
        struct line_reader r = {0};
        struct slice line;
        struct problem p = {0};
        static const char text[] = "one\r\n\n\nfour\nfive";
        (void)state;
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], text, sizeof(text) - 1), sizeof(text) - 1);
        close(ends[1]);
        r.fd = ends[0];
        buf_init(&r.bytes, 0);
        assert_int_equal(line_reader_next(&r, &line, &p), OK);
        assert_true(slice_eq(line, SLICE_LIT("one")));
        assert_int_equal(line_reader_next(&r, &line, &p), OK);
        assert_true(slice_eq(line, SLICE_LIT("four")));
        assert_int_equal(r.line, 4);
        assert_int_equal(line_reader_next(&r, &line, &p), OK);
        assert_true(slice_eq(line, SLICE_LIT("five")));
        assert_int_equal(r.offset, sizeof(text) - 1);
        assert_int_equal(line_reader_next(&r, &line, &p), ERR_NOTFOUND);
        line_reader_close(&r);
}

static void check_filter(const char *filter, const char *doc, const char *wanted)
{
        struct filter f;
        struct buf b;
        struct problem p = {0};
        buf_init(&b, 0);
        buf_put_str(&b, doc);
        filter_parse(&f, filter);
        assert_int_equal(filter_json(&f, &b, &p), OK);
        assert_string_equal(buf_cstr(&b), wanted);
        buf_release(&b);
}

static void a_filter_keeps_rows_of_lists_and_leaves_the_rest(void **state)
{
        (void)state;
        check_filter("MAIL", "[{\"q\":\"mail\"},{\"q\":\"x\"}]\n", "[{\"q\":\"mail\"}]\n");
        check_filter("q=x",
                     "{\"rows\":[{\"q\":\"mail\",\"r\":\"x\"},{\"q\":\"x\"}],\"cursor\":\"\"}",
                     "{\"rows\":[{\"q\":\"x\"}],\"cursor\":\"\"}\n");
        check_filter("a=b", "[{\"q\":1}]", "[]\n");
        check_filter("", "[{\"q\":1}]\n", "[{\"q\":1}]\n");
        check_filter("x", "17\n", "17\n");
}

static void progress_tells_rate_and_time_to_go(void **state)
{
        struct progress p = {.verb = "added", .noun = "jobs", .total_bytes = 1000, .began_ns = 0};
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        progress_put(&b, &p, 1234567, 250, 10 * NS_PER_S);
        assert_string_equal(buf_cstr(&b), "added 1,234,567 jobs  [######..................]  25%  "
                                          "123,456/s  30 s left");
        buf_clear(&b);
        p.total_bytes = 0;
        progress_put(&b, &p, 20, 0, 10 * NS_PER_S);
        assert_string_equal(buf_cstr(&b), "added 20 jobs  2/s");
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_line_has_the_keys_of_a_posted_job),
                cmocka_unit_test(the_command_line_says_what_the_line_does_not),
                cmocka_unit_test(what_is_no_job_is_refused_with_a_reason),
                cmocka_unit_test(an_exported_job_tells_its_old_id_and_gets_new_ones),
                cmocka_unit_test(a_job_may_lose_its_batch),
                cmocka_unit_test(lines_are_counted_whatever_their_ends_and_however_they_come),
                cmocka_unit_test(a_filter_keeps_rows_of_lists_and_leaves_the_rest),
                cmocka_unit_test(progress_tells_rate_and_time_to_go),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

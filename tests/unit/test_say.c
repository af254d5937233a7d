/* What the operator reads: the form of a line, escaping, cutting, the rate limit, the ring. */
#include "check.h"

#include <sys/mman.h>

#include "../../src/base/say.c" /* NOLINT(bugprone-suspicious-include) */
#include "wire/json.h"

static int capture_fd, stderr_fd;
static char text[1 << 20];

static int start_capture(void **state)
{
        (void)state;
        memset(says.rates, 0, sizeof(says.rates));
        memset(says.ring_len, 0, sizeof(says.ring_len));
        says.ring_at = 0;
        say_setup(SAY_INFO, false);
        stderr_fd = dup(STDERR_FILENO);
        capture_fd = memfd_create("stderr", 0);
        return dup2(capture_fd, STDERR_FILENO) == STDERR_FILENO ? 0 : -1;
}

static int stop_capture(void **state)
{
        (void)state;
        (void)dup2(stderr_fd, STDERR_FILENO);
        (void)close(stderr_fd);
        (void)close(capture_fd);
        return 0;
}

/* What was said since the start or the last call. */
static const char *said(void)
{
        ssize_t n = pread(capture_fd, text, sizeof(text) - 1, 0);

        assert_true(n >= 0);
        text[n] = '\0';
        assert_int_equal(ftruncate(capture_fd, 0), 0);
        assert_int_equal(lseek(capture_fd, 0, SEEK_SET), 0);
        return text;
}

/* Behind "time=2026-11-15T08:51:00.123Z ", whose form is checked. */
static const char *after_time(const char *line)
{
        static const char form[] = "time=dddd-dd-ddTdd:dd:dd.dddZ ";

        for (size_t i = 0; i < sizeof(form) - 1; i++) {
                if (form[i] == 'd')
                        assert_in_range(line[i], '0', '9');
                else
                        assert_int_equal(line[i], form[i]);
        }
        return line + sizeof(form) - 1;
}

static void a_line_is_key_value_pairs_in_order(void **state)
{
        (void)state;
        say_warn("history", "cannot write, retrying", "path", "/x/y", "errno", "No such file");
        assert_string_equal(after_time(said()),
                            "level=warn area=history msg=\"cannot write, retrying\" path=/x/y "
                            "errno=\"No such file\"\n");
        say_error("log", "bad", "n", SAY_I64(-5), "max", SAY_I64(INT64_MIN));
        assert_string_equal(after_time(said()),
                            "level=error area=log msg=bad n=-5 max=-9223372036854775808\n");
        say_info("log", "alone");
        assert_string_equal(after_time(said()), "level=info area=log msg=alone\n");
}

static void only_what_is_at_least_as_grave_as_asked_for_is_said(void **state)
{
        enum say_level level = SAY_DEBUG;

        (void)state;
        say_debug("a", "hidden");
        assert_string_equal(said(), "");
        say_setup(SAY_ERROR, false);
        say_warn("a", "hidden too");
        assert_string_equal(said(), "");
        say_setup(SAY_DEBUG, false);
        say_debug("a", "seen");
        assert_string_equal(after_time(said()), "level=debug area=a msg=seen\n");
        assert_true(say_level_from_name("error", &level));
        assert_int_equal(level, SAY_ERROR);
        assert_true(say_level_from_name("debug", &level));
        assert_int_equal(level, SAY_DEBUG);
        assert_false(say_level_from_name("loud", &level));
        assert_int_equal(level, SAY_DEBUG);
}

static void values_are_quoted_when_they_are_more_than_a_word(void **state)
{
        (void)state;
        say_info("a", "b", "empty", "", "word", "x-y.z/1", "eq", "a=b", "quote", "a\"b", "slash",
                 "a\\b", "umlaut", "\xc3\xa4");
        assert_string_equal(after_time(said()),
                            "level=info area=a msg=b empty=\"\" word=x-y.z/1 eq=\"a=b\" "
                            "quote=\"a\\\"b\" slash=\"a\\\\b\" umlaut=\"\xc3\xa4\"\n");
}

static void no_control_character_reaches_the_terminal(void **state)
{
        char all[32];

        (void)state;
        for (int i = 1; i < 32; i++)
                all[i - 1] = (char)i;
        all[31] = '\0';
        for (int as_json = 0; as_json < 2; as_json++) {
                say_setup(SAY_INFO, as_json);
                say_info("a", "b", "all", all, "del", "\x7f", "c1", "\xc2\x9b", "bad",
                         "x\xffy\xc2");
                const char *line = said();
                size_t n = strlen(line);
                assert_int_equal(line[n - 1], '\n');
                for (size_t i = 0; i < n - 1; i++)
                        assert_in_range(line[i], ' ', '~');
                if (!as_json) {
                        assert_non_null(strstr(line, "all=\"\\x01\\x02"));
                        assert_non_null(strstr(line, "\\x09\\n\\x0b"));
                        assert_non_null(strstr(line, "del=\"\\x7f\" c1=\"\\xc2\\x9b\" "
                                                     "bad=\"x\\xffy\\xc2\""));
                } else {
                        assert_non_null(strstr(line, "\"all\":\"\\u0001\\u0002"));
                        assert_non_null(strstr(line, "\"del\":\"\\u007f\",\"c1\":\"\\u009b\","
                                                     "\"bad\":\"x\\ufffdy\\ufffd\"}"));
                        assert_true(json_is_valid(slice_make(line, n), 1));
                }
        }
}

static void json_lines_are_objects_with_the_same_pairs(void **state)
{
        struct json_value root, v;
        const char *line;

        (void)state;
        say_setup(SAY_INFO, true);
        say_warn("history", "can \"not\" write", "path", "/x/\n");
        line = said();
        assert_int_equal(json_parse(slice_str(line), 1, &root, NULL), OK);
        assert_int_equal(json_count(&root), 5);
        assert_true(json_get(&root, "level", &v));
        assert_slice(v.text, "\"warn\"");
        assert_true(json_get(&root, "msg", &v));
        assert_slice(v.text, "\"can \\\"not\\\" write\"");
        assert_true(json_get(&root, "path", &v));
        assert_slice(v.text, "\"/x/\\n\"");
}

static void json_lines_carry_numbers_as_numbers(void **state)
{
        (void)state;
        say_setup(SAY_INFO, true);
        say_info("a", "b", "n", SAY_I64(-17), "hook", "123", "big", SAY_I64(INT64_MAX), "x",
                 SAY_F64(0.25), "none", SAY_F64(NAN), "last", SAY_I64(0));
        has(said(), "\"n\":-17,\"hook\":\"123\",\"big\":9223372036854775807,\"x\":0.25,"
                    "\"none\":null,\"last\":0}\n");
        say_setup(SAY_INFO, false);
        say_info("a", "b", "n", SAY_I64(-17), "hook", "123", "x", SAY_F64(0.25));
        assert_string_equal(after_time(said()), "level=info area=a msg=b n=-17 hook=123 x=0.25\n");
}

static void a_long_line_is_cut_between_characters_and_stays_whole(void **state)
{
        static char value[2 * LINE_BYTES];

        (void)state;
        say_setup(SAY_INFO, true);
        for (size_t fill = LINE_BYTES - 150; fill < LINE_BYTES + 10; fill++) {
                memset(value, 'x', fill);
                memcpy(value + fill, "\xe2\x82\xac\x01\xff\"", 7);
                memset(says.rates, 0, sizeof(says.rates));
                say_info("a", "b", "long", value, "after", "it");
                const char *line = said();
                size_t n = strlen(line);
                assert_in_range(n, LINE_BYTES - 200, LINE_BYTES);
                assert_int_equal(line[n - 1], '\n');
                assert_true(json_is_valid(slice_make(line, n), 1));
        }
        say_setup(SAY_INFO, false);
        memset(value, 'y', sizeof(value) - 1);
        say_info("a", "c", "long", value, "after", "it");
        const char *line = said();
        assert_string_equal(line + strlen(line) - 5, "y...\n");
        assert_null(strstr(line, "after"));
}

static void a_missing_value_ends_the_line_and_not_the_process(void **state)
{
        (void)state;
        say_line(SAY_INFO, "a", "b", "key", (char *)NULL, (char *)NULL);
        assert_string_equal(after_time(said()), "level=info area=a msg=b key=(null)\n");
}

static void ten_lines_of_a_kind_pass_in_a_second(void **state)
{
        uint32_t left_out = 99;
        int64_t t = 5 * NS_PER_S;

        (void)state;
        for (int i = 0; i < 10; i++) {
                assert_true(rate_allows("a", "b", t + i, &left_out));
                assert_int_equal(left_out, 0);
        }
        for (int i = 0; i < 7; i++)
                assert_false(rate_allows("a", "b", t + NS_PER_S - 1, &left_out));
        assert_true(rate_allows("a", "c", t + NS_PER_S - 1, &left_out)); /* another kind */
        assert_true(rate_allows("b", "b", t + NS_PER_S - 1, &left_out));
        assert_int_equal(left_out, 0);
        assert_true(rate_allows("a", "b", t + NS_PER_S, &left_out));
        assert_int_equal(left_out, 7);
        assert_true(rate_allows("a", "b", t + NS_PER_S, &left_out));
        assert_int_equal(left_out, 0);
}

static void more_kinds_than_can_be_remembered_still_pass(void **state)
{
        uint32_t left_out;

        (void)state;
        for (int i = 0; i < 1000; i++) {
                char kind[24];
                assert_true(rate_allows("a", say_i64(kind, i), i, &left_out));
        }
}

static void the_next_line_says_how_many_were_left_out(void **state)
{
        int n = 0;

        (void)state;
        for (int i = 0; i < 50; i++)
                say_info("a", "often");
        const char *all = said();
        for (const char *p = all; (p = strchr(p, '\n')) != NULL; p++)
                n++;
        assert_in_range(n, 10, 20); /* 20 when a second ended meanwhile */
        for (size_t i = 0; i < RATE_SLOTS; i++)
                says.rates[i].since_ns -= 2 * NS_PER_S; /* time passes */
        say_info("a", "often");
        if (n == 10)
                assert_string_equal(after_time(said()),
                                    "level=info area=a msg=often left_out=40\n");
}

static void the_last_lines_are_kept_oldest_first(void **state)
{
        char key[24];

        (void)state;
        for (int i = 0; i < RING_LINES + 9; i++) {
                memset(says.rates, 0, sizeof(says.rates));
                say_info("ring", "line", "n", say_number, say_i64(key, i));
        }
        (void)said();
        say_dump(STDERR_FILENO);
        const char *p = said();
        for (int i = 9; i < RING_LINES + 9; i++) {
                char want[64];
                (void)snprintf(want, sizeof(want), "level=info area=ring msg=line n=%d\n", i);
                p = after_time(p);
                assert_memory_equal(p, want, strlen(want));
                p += strlen(want);
        }
        assert_string_equal(p, "");
}

static void a_dump_does_not_wait_for_the_speaker(void **state)
{
        (void)state;
        say_info("a", "kept");
        (void)said();
        pthread_mutex_lock(&says.lock);
        say_dump(STDERR_FILENO);
        pthread_mutex_unlock(&says.lock);
        assert_non_null(strstr(said(), "msg=kept\n"));
}

static void *speak(void *kind)
{
        for (int i = 0; i < 200; i++)
                say_info(kind, "thread speaks", "text", "abcdefghijklmnopqrstuvwxyz");
        return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state)
{
        static char names[4][2] = {"a", "b", "c", "d"};
        pthread_t threads[4];
        int n = 0;

        (void)state;
        for (int i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, speak, names[i]), 0);
        for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        for (const char *p = said(); *p; n++) {
                p = after_time(p);
                assert_memory_equal(p, "level=info area=", 16);
                p = strchr(p, '\n') + 1;
        }
        assert_true(n >= 40);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_capture, stop_capture)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(a_line_is_key_value_pairs_in_order),
                TEST(only_what_is_at_least_as_grave_as_asked_for_is_said),
                TEST(values_are_quoted_when_they_are_more_than_a_word),
                TEST(no_control_character_reaches_the_terminal),
                TEST(json_lines_are_objects_with_the_same_pairs),
                TEST(json_lines_carry_numbers_as_numbers),
                TEST(a_long_line_is_cut_between_characters_and_stays_whole),
                TEST(a_missing_value_ends_the_line_and_not_the_process),
                TEST(ten_lines_of_a_kind_pass_in_a_second),
                TEST(more_kinds_than_can_be_remembered_still_pass),
                TEST(the_next_line_says_how_many_were_left_out),
                TEST(the_last_lines_are_kept_oldest_first),
                TEST(a_dump_does_not_wait_for_the_speaker),
                TEST(lines_of_several_threads_do_not_mix),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

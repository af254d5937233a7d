/* The probes without a database: threads, mailboxes, hibernation, the host, commands, HTTP. */
#include "probe_box.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "probe/probe_int.h"
#include "support/temp_dir.h"

#define LONG_MS 60000

static struct probe_options command(char **argv, struct probe_metric *metric)
{
        *metric = (struct probe_metric){.name = "value"};
        struct probe_options o = host(metric, 1);
        o.kind = PROBE_COMMAND;
        o.argv = argv;
        return o;
}

#define SHELL(text) ((char *[]){(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){text}, NULL})

/* ---- values ---- */

static void only_finite_decimal_numbers_are_values(void **unused)
{
        (void)unused;
        static const struct {
                const char *text;
                double value;
        } good[] = {{"0", 0},      {"42", 42}, {" 42\n", 42}, {"-1.5", -1.5},
                    {"1e3", 1000}, {".5", .5}, {"+7", 7},     {"0.0001", 0.0001}};
        static const char *const bad[] = {"",    " ",  "nan", "NaN", "inf",   "0x10", "1,5",
                                          "1 2", "1e", "--1", "e",   "1e999", "true", "5%"};
        struct reading r;
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                reading_set_text(&r, good[i].text, strlen(good[i].text));
                if (r.is_error || r.value != good[i].value)
                        fail_msg("'%s' is %g, %s", good[i].text, r.value, r.text);
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                reading_set_text(&r, bad[i], strlen(bad[i]));
                if (!r.is_error || !strstr(r.text, "number"))
                        fail_msg("'%s' is taken", bad[i]);
        }
}

static void a_sentence_is_cut_between_characters_and_has_no_control_characters(void **unused)
{
        (void)unused;
        struct reading r;
        char text[400];
        memset(text, 'x', sizeof(text));
        text[0] = '\n';
        for (size_t i = 1; i + 1 < sizeof(text) - 1; i += 2)
                memcpy(text + i, "\xc3\xa9", 2);
        text[sizeof(text) - 1] = '\0';
        reading_fail(&r, "%s", text);
        assert_true(r.is_error);
        assert_true(strlen(r.text) >= PROBE_ERROR_MAX - 2);
        assert_true(slice_is_utf8(slice_str(r.text)));
        assert_true(r.text[0] != '\n');
}

static void every_kind_knows_its_metrics_and_names_them(void **unused)
{
        (void)unused;
        static const struct {
                enum probe_kind kind;
                const char *source;
                bool is_good;
        } cases[] = {
                {PROBE_MYSQL, "threads_running", true},
                {PROBE_MYSQL, "status:Threads_connected", true},
                {PROBE_MYSQL, "status:", false},
                {PROBE_MYSQL, "status:x' OR 1", false},
                {PROBE_MYSQL, "rate:Questions", true},
                {PROBE_MYSQL, "sql:SELECT 1", true},
                {PROBE_MYSQL, "sql: with x as (select 1) select * from x", true},
                {PROBE_MYSQL, "sql:DELETE FROM t", false},
                {PROBE_MYSQL, "sql:SELECT 1; DROP TABLE t", false},
                {PROBE_MYSQL, "active_backends", false},
                {PROBE_POSTGRES, "active_backends", true},
                {PROBE_POSTGRES, "replication_lag", true},
                {PROBE_POSTGRES, "sql:SELECT 1", true},
                {PROBE_POSTGRES, "status:x", false},
                {PROBE_HOST, "psi_memory", true},
                {PROBE_HOST, "disk_used:/var", true},
                {PROBE_HOST, "disk_used:", false},
                {PROBE_HOST, "disk_used:var", false},
                {PROBE_HOST, "load", false},
                {PROBE_HTTP, "json:a.b", true},
                {PROBE_HTTP, "json:", false},
                {PROBE_HTTP, "a.b", false},
                {PROBE_COMMAND, "", true},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct problem problem = {0};
                int r = probe_check_source(cases[i].kind, cases[i].source, &problem);
                if ((r == OK) != cases[i].is_good)
                        fail_msg("%s: %s", cases[i].source, problem.detail);
        }
        enum probe_kind kind;
        for (int i = 0; i < PROBE_KINDS; i++) {
                assert_true(probe_kind_from_name(probe_kind_name((enum probe_kind)i), &kind));
                assert_int_equal(kind, i);
        }
        assert_false(probe_kind_from_name("oracle", &kind));
}

static void a_rest_grows_from_one_second_to_ten(void **unused)
{
        (void)unused;
        struct rest r = {0};
        const int64_t pauses_ms[] = {1000, 2000, 4000, 8000, 10000, 10000};
        assert_true(rest_is_over(&r, 0));
        for (size_t i = 0; i < ARRAY_LEN(pauses_ms); i++) {
                rest_begin(&r, 7);
                assert_false(rest_is_over(&r, 7 + pauses_ms[i] * NS_PER_MS - 1));
                assert_true(rest_is_over(&r, 7 + pauses_ms[i] * NS_PER_MS));
        }
}

/* ---- threads ---- */

static void the_host_tells_its_load_and_its_disks(void **unused)
{
        (void)unused;
        char root[] = "disk_used:/", gone[] = "disk_used:/no/such/folder";
        struct probe_metric metrics[] = {{.name = "load_per_core"},
                                         {.name = "root", .source = root},
                                         {.name = "gone", .source = gone},
                                         {.name = "psi_cpu"}};
        struct probe_sample got[4];
        struct probe_options o = host(metrics, 4);
        int64_t before_ns = clock_boot_ns();
        sample_once(&o, got);
        assert_false(got[0].is_error);
        assert_true(got[0].value >= 0 && got[0].value < 10000);
        assert_true(got[0].at_ns >= before_ns && got[0].at_ns <= clock_boot_ns());
        assert_false(got[1].is_error);
        assert_true(got[1].value > 0 && got[1].value <= 100);
        assert_true(got[2].is_error);
        assert_non_null(strstr(got[2].error, "/no/such/folder: No such file"));
        bool has_pressure = access("/proc/pressure/cpu", R_OK) == 0;
        assert_int_equal(got[3].is_error, !has_pressure);
        assert_true(got[3].value >= 0 && got[3].value <= 100);
}

static void a_busy_loop_finds_the_newest_sample_of_each_metric_only(void **unused)
{
        (void)unused;
        char dir[TEMP_DIR_SIZE], text[2 * TEMP_DIR_SIZE + 100];
        temp_dir_make(dir);
        snprintf(text, sizeof(text), "echo x >> %s/f; grep -c x %s/f", dir, dir);
        char shell[] = "/bin/sh", c[] = "-c";
        char *argv[] = {shell, c, text, NULL};
        struct probe_metric metric;
        struct probe_options o = command(argv, &metric);
        struct probe_sample got[3];
        struct ear ear;
        struct probe *p = start(&o, &ear);
        assert_true(ear_wait(&ear, 5, EAR_MS));
        assert_int_equal(probe_take(p, got, 3), 1);
        assert_false(got[0].is_error);
        assert_true(got[0].value >= 5);
        assert_true(ear_wait(&ear, ear_count(&ear) + 1, EAR_MS));
        double before = got[0].value;
        assert_int_equal(probe_take(p, got, 3), 1);
        assert_true(got[0].value > before);
        assert_null(probe_stop(p));
        temp_dir_remove(dir);
}

static void samples_come_in_the_order_they_were_taken_and_as_many_as_fit(void **unused)
{
        (void)unused;
        struct probe_metric metrics[] = {
                {.name = "load_per_core"}, {.name = "psi_cpu"}, {.name = "psi_io"}};
        struct probe_options o = host(metrics, 3);
        struct probe_sample got[2];
        struct ear ear;
        o.interval_ms = LONG_MS;
        struct probe *p = start(&o, &ear);
        assert_true(ear_wait(&ear, 1, EAR_MS));
        assert_int_equal(probe_take(p, got, 2), 2);
        assert_int_equal(got[0].metric, 0);
        assert_int_equal(got[1].metric, 1);
        assert_int_equal(probe_take(p, got, 2), 1);
        assert_int_equal(got[0].metric, 2);
        assert_int_equal(probe_take(p, got, 2), 0);
        assert_null(probe_stop(p));
}

static void nobody_asks_and_it_sleeps_until_somebody_does(void **unused)
{
        (void)unused;
        struct probe_metric metric = {.name = "load_per_core"};
        struct probe_options o = host(&metric, 1);
        struct ear ear;
        o.hibernate_after_ms = 100;
        o.hibernate_every_ms = LONG_MS;
        struct probe *p = start(&o, &ear);
        for (int round = 0; round < 3; round++) {
                /* Asleep when nothing has come for many intervals. */
                while (ear_wait(&ear, ear_count(&ear) + 1, 300))
                        ;
                size_t n = ear_count(&ear);
                probe_asked(p);
                assert_true(ear_wait(&ear, n + 3, EAR_MS)); /* awake: not just one */
        }
        assert_null(probe_stop(p));
}

static void asking_keeps_it_awake(void **unused)
{
        (void)unused;
        struct probe_metric metric = {.name = "load_per_core"};
        struct probe_options o = host(&metric, 1);
        struct ear ear;
        o.interval_ms = 20;
        o.hibernate_after_ms = LONG_MS;
        o.hibernate_every_ms = 2 * LONG_MS;
        struct probe *p = start(&o, &ear);
        for (size_t i = 1; i < 50; i++) {
                assert_true(ear_wait(&ear, i, LONG_MS));
                probe_asked(p);
        }
        assert_null(probe_stop(p));
}

static void a_failing_connection_is_told_at_every_interval_and_tried_rarely(void **unused)
{
        (void)unused;
        char host_name[] = "127.0.0.1", user[] = "weir", password[] = "hunter2-secret";
        struct probe_metric metric = {.name = "threads_running"};
        struct probe_options o = host(&metric, 1);
        struct probe_sample got;
        struct ear ear;
        /* A port nobody listens on: bound, so that nobody else takes it. */
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(at);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
        o.primary = (struct sql_server){.host = host_name, .port = ntohs(at.sin_port)};
        o.user = user;
        o.password = password;
        for (int kind = PROBE_MYSQL; kind <= PROBE_POSTGRES; kind++) {
                char name[] = "active_backends";
                o.kind = (enum probe_kind)kind;
                metric.source = kind == PROBE_POSTGRES ? name : NULL;
                struct probe *p = start(&o, &ear);
                for (size_t i = 1; i < 20; i++) {
                        assert_true(ear_wait(&ear, i, EAR_MS));
                        if (probe_take(p, &got, 1) == 0)
                                continue;
                        assert_true(got.is_error);
                        assert_non_null(strstr(got.error, "cannot connect to 127.0.0.1:"));
                        assert_non_null(strstr(got.error, "Connection refused"));
                        assert_null(strstr(got.error, password));
                }
                assert_null(probe_stop(p));
        }
        close(fd);
}

/* ---- commands ---- */

static void a_command_gives_its_first_line(void **unused)
{
        (void)unused;
        static const struct {
                const char *text;
                double value;
                const char *error;
        } cases[] = {
                {"echo 42; echo 43", 42, NULL},
                {"printf 7.5", 7.5, NULL},
                {"echo 1; exec sleep 0", 1, NULL},
                {"(sleep 1000 &) ; echo 3", 3, NULL}, /* holds the pipe open */
                {"head -c 300000 /dev/zero | tr '\\0' '1'", 0, "no number"},
                {"echo many", 0, "no number: 'many'"},
                {"true", 0, "empty"},
                {"echo no disk >&2; echo more >&2; exit 3", 0, "ended with 3: no disk"},
                {"kill -9 $$", 0, "ended by signal 9"},
                {"cat; echo 5", 5, NULL},                           /* nothing to read */
                {"ls /proc/self/fd | tail -n +5 | wc -l", 0, NULL}, /* and nothing of ours */
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct probe_metric metric;
                struct probe_sample got;
                char shell[] = "/bin/sh", c[] = "-c", text[200];
                snprintf(text, sizeof(text), "%s", cases[i].text);
                char *argv[] = {shell, c, text, NULL};
                struct probe_options o = command(argv, &metric);
                sample_once(&o, &got);
                if (got.is_error != (cases[i].error != NULL) ||
                    (cases[i].error && !strstr(got.error, cases[i].error)) ||
                    (!cases[i].error && got.value != cases[i].value))
                        fail_msg("%s: %g '%s'", cases[i].text, got.value, got.error);
        }
}

/* The text is run by a shell; the error says what it printed. */
static void check_env(char **env, const char *text, const char *told)
{
        struct probe_metric metric;
        struct probe_sample got;
        char shell[] = "/bin/sh", c[] = "-c", copy[200];
        snprintf(copy, sizeof(copy), "%s", text);
        char *argv[] = {shell, c, copy, NULL};
        struct probe_options o = command(argv, &metric);
        o.env = env;
        sample_once(&o, &got);
        if (!got.is_error || !strstr(got.error, told))
                fail_msg("%s: '%s' is not in '%s'", text, told, got.error);
}

static void a_command_gets_only_the_environment_that_is_named(void **unused)
{
        (void)unused;
        char by_name[] = "WEIR_TEST_NAMED", by_value[] = "GIVEN=a=b", gone[] = "WEIR_TEST_NOT_SET";
        char other_home[] = "HOME=/nowhere";
        char *named[] = {by_name, by_value, gone, other_home, NULL};
        static const char names[] =
                "tr '\\0' '\\n' </proc/$$/environ | cut -d= -f1 | sort | tr '\\n' ' '";
        assert_int_equal(setenv("WEIR_TEST_SECRET", "s3cret", 1), 0);
        assert_int_equal(setenv("WEIR_TEST_NAMED", "passed on", 1), 0);
        assert_int_equal(setenv("HOME", "/here", 1), 0);
        assert_int_equal(setenv("LANG", "C.UTF-8", 1), 0);
        assert_int_equal(setenv("TZ", "UTC", 1), 0);
        assert_int_equal(unsetenv("WEIR_TEST_NOT_SET"), 0);
        check_env(NULL, names, "'HOME LANG PATH TZ'");
        check_env(named, names, "'GIVEN HOME LANG PATH TZ WEIR_TEST_NAMED'");
        check_env(named, "echo \"$GIVEN $HOME $WEIR_TEST_NAMED\"", "'a=b /nowhere passed on'");
}

static void a_program_that_is_not_there_is_named(void **unused)
{
        (void)unused;
        char gone[] = "/no/such/program";
        char *argv[] = {gone, NULL};
        struct probe_metric metric;
        struct probe_sample got;
        struct probe_options o = command(argv, &metric);
        sample_once(&o, &got);
        assert_true(got.is_error);
        assert_non_null(strstr(got.error, "cannot run /no/such/program: No such file"));
}

static void a_command_that_hangs_is_killed_with_all_it_started(void **unused)
{
        (void)unused;
        char dir[TEMP_DIR_SIZE], text[TEMP_DIR_SIZE + 100];
        int fds[2];
        temp_dir_make(dir);
        /* The fifo is open for writing as long as one of them lives. */
        snprintf(text, sizeof(text), "exec 2>%s/f; (sleep 1000) & sleep 1000", dir);
        char shell[] = "/bin/sh", c[] = "-c", path[TEMP_DIR_SIZE + 4], byte;
        char *argv[] = {shell, c, text, NULL};
        snprintf(path, sizeof(path), "%s/f", dir);
        assert_int_equal(mkfifo(path, 0600), 0);
        fds[0] = open(path, O_RDONLY | O_NONBLOCK);
        assert_true(fds[0] >= 0);
        assert_int_equal(fcntl(fds[0], F_SETFL, 0), 0);
        struct probe_metric metric;
        struct probe_sample got;
        struct probe_options o = command(argv, &metric);
        o.timeout_ms = 300;
        o.interval_ms = LONG_MS;
        sample_once(&o, &got);
        assert_true(got.is_error);
        assert_non_null(strstr(got.error, "no answer within 300ms"));
        assert_int_equal(read(fds[0], &byte, 1), 0); /* the end: nobody is left */
        close(fds[0]);
        temp_dir_remove(dir);
}

static void stopping_does_not_wait_for_what_hangs(void **unused)
{
        (void)unused;
        struct probe_metric metric;
        struct probe_options o = command(SHELL("sleep 1000"), &metric);
        struct probe *p = NULL;
        struct problem problem;
        o.timeout_ms = EAR_MS;
        int64_t began_ns = clock_boot_ns();
        for (int i = 0; i < 20; i++) {
                assert_int_equal(probe_start(&o, 1, NULL, NULL, &p, &problem), OK);
                assert_null(probe_stop(p));
        }
        assert_true(clock_boot_ns() - began_ns < EAR_MS * NS_PER_MS);
        assert_null(probe_stop(NULL));
}

/* ---- HTTP ---- */

struct web {
        int fd;
        const char *answer; /* NULL: none ever */
        pthread_t thread;
        char asked[1024]; /* the last request */
};

/* One connection after the other, one request each; ends when the listening socket is shut. */
static void *serve(void *ctx)
{
        struct web *w = ctx;
        int silent = -1;
        for (int fd; (fd = accept(w->fd, NULL, NULL)) >= 0;) {
                if (!w->answer) {
                        silent = fd; /* stays open until the end */
                        continue;
                }
                size_t len = 0;
                ssize_t n;
                while (len < sizeof(w->asked) - 1 &&
                       (n = read(fd, w->asked + len, sizeof(w->asked) - 1 - len)) > 0) {
                        len += (size_t)n;
                        w->asked[len] = '\0';
                        if (strstr(w->asked, "\r\n\r\n"))
                                break;
                }
                n = write(fd, w->answer, strlen(w->answer));
                close(fd);
        }
        if (silent >= 0)
                close(silent);
        return NULL;
}

static struct probe_options web_start(struct web *w, const char *answer, char *url, size_t size)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(at);
        *w = (struct web){.fd = socket(AF_INET, SOCK_STREAM, 0), .answer = answer};
        assert_int_equal(bind(w->fd, (struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(listen(w->fd, 16), 0);
        assert_int_equal(getsockname(w->fd, (struct sockaddr *)&at, &len), 0);
        snprintf(url, size, "http://127.0.0.1:%d/status", ntohs(at.sin_port));
        assert_int_equal(pthread_create(&w->thread, NULL, serve, w), 0);
        struct probe_options o = host(NULL, 0);
        o.kind = PROBE_HTTP;
        o.url = url;
        return o;
}

static void web_stop(struct web *w)
{
        shutdown(w->fd, SHUT_RDWR);
        pthread_join(w->thread, NULL);
        close(w->fd);
}

static void values_are_found_in_a_json_answer(void **unused)
{
        (void)unused;
        static const char answer[] =
                "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
                "{\"depth\": 7, \"queues\": [{\"n\": 1.5}, {\"n\": -2e1}], \"name\": \"x\","
                " \"deep\": {\"er\": {\"still\": 9}}}";
        static const struct {
                const char *source;
                double value;
                const char *error;
        } cases[] = {
                {"json:depth", 7, NULL},
                {"json:queues.0.n", 1.5, NULL},
                {"json:queues.1.n", -20, NULL},
                {"json:deep.er.still", 9, NULL},
                {"json:queues.2.n", 0, "the answer has no queues.2.n"},
                {"json:nosuch", 0, "the answer has no nosuch"},
                {"json:name", 0, "name is a string, not a number"},
                {"json:deep", 0, "deep is an object, not a number"},
        };
        struct probe_metric metrics[ARRAY_LEN(cases)] = {0};
        char sources[ARRAY_LEN(cases)][40], url[64];
        struct probe_sample got[ARRAY_LEN(cases)];
        struct web w;
        struct probe_options o = web_start(&w, answer, url, sizeof(url));
        char user[] = "weir", password[] = "pw";
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                snprintf(sources[i], sizeof(sources[i]), "%s", cases[i].source);
                metrics[i].source = sources[i];
        }
        o.metrics = metrics;
        o.n_metrics = ARRAY_LEN(cases);
        o.user = user;
        o.password = password;
        o.interval_ms = LONG_MS;
        sample_once(&o, got);
        web_stop(&w);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                if (got[i].is_error != (cases[i].error != NULL) ||
                    (cases[i].error && strcmp(got[i].error, cases[i].error) != 0) ||
                    (!cases[i].error && got[i].value != cases[i].value))
                        fail_msg("%s: %g '%s'", cases[i].source, got[i].value, got[i].error);
        assert_non_null(strstr(w.asked, "GET /status HTTP/1.1\r\n"));
        assert_non_null(strstr(w.asked, "Authorization: Basic d2Vpcjpwdw==\r\n"));
}

static void an_answer_that_is_no_good_is_an_error_of_every_metric(void **unused)
{
        (void)unused;
        static const struct {
                const char *answer, *error;
        } cases[] = {
                {"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n{\"a\":1,\"b\":2}", "status 500"},
                {"HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1:1/\r\nConnection: close\r\n\r\n",
                 "status 302"},
                {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<html>", "not JSON"},
                {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":1", ""},
                {NULL, "no answer within 300ms"},
        };
        char a[] = "json:a", b[] = "json:b", url[64];
        struct probe_metric metrics[] = {{.name = "a", .source = a}, {.name = "b", .source = b}};
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct web w;
                struct probe_sample got[2];
                struct probe_options o = web_start(&w, cases[i].answer, url, sizeof(url));
                o.metrics = metrics;
                o.n_metrics = 2;
                o.interval_ms = LONG_MS;
                o.timeout_ms = cases[i].answer ? EAR_MS : 300;
                sample_once(&o, got);
                web_stop(&w);
                for (int k = 0; k < 2; k++)
                        if (!got[k].is_error || !strstr(got[k].error, cases[i].error))
                                fail_msg("case %zu: '%s'", i, got[k].error);
        }
}

static void stopping_does_not_wait_for_a_web_server(void **unused)
{
        (void)unused;
        char a[] = "json:a", url[64];
        struct probe_metric metric = {.name = "a", .source = a};
        struct web w;
        struct probe *p = NULL;
        struct problem problem;
        struct probe_options o = web_start(&w, NULL, url, sizeof(url));
        o.metrics = &metric;
        o.n_metrics = 1;
        o.timeout_ms = EAR_MS;
        int64_t began_ns = clock_boot_ns();
        assert_int_equal(probe_start(&o, 1, NULL, NULL, &p, &problem), OK);
        assert_null(probe_stop(p));
        assert_true(clock_boot_ns() - began_ns < EAR_MS / 2 * NS_PER_MS);
        web_stop(&w);
}

/* Nobody listens there: every replica is an error with its name, until it is skipped. */
static void wait_for_lag(struct probe *p, struct ear *ear, const char *text)
{
        struct probe_sample got = {0};
        for (;;) {
                size_t heard = ear_count(ear);
                while (probe_take(p, &got, 1))
                        if (got.is_error && strstr(got.error, text))
                                return;
                if (!ear_wait(ear, heard + 1, EAR_MS))
                        fail_msg("'%s' did not come; the last was '%s'", text, got.error);
        }
}

static void skipping_takes_effect_at_once_and_all_skipped_is_an_error(void **unused)
{
        (void)unused;
        static char near[] = "127.0.0.1", a[] = "a", b[] = "b", user[] = "weir";
        struct sql_server replicas[] = {{.host = near, .port = 1, .name = a},
                                        {.host = near, .port = 2, .name = b}};
        struct probe_metric metrics[] = {{.name = "replication_lag"}};
        struct probe_options o = host(metrics, 1);
        o.kind = PROBE_MYSQL;
        o.primary = (struct sql_server){.host = near, .port = 3};
        o.replicas = replicas;
        o.n_replicas = 2;
        o.user = user;
        o.interval_ms = LONG_MS; /* one tick, at the start: all else comes by skipping */
        const char *const only_a[] = {"A"};
        const char *const both[] = {"b", "nobody", "127.0.0.1:1"};
        const char *const neither[] = {"127.0.0.1:3"};
        struct ear ear;
        struct probe *p = start(&o, &ear);
        wait_for_lag(p, &ear, "a (127.0.0.1:1)");
        probe_set_skipped(p, only_a, 1);
        wait_for_lag(p, &ear, "b (127.0.0.1:2)");
        probe_set_skipped(p, both, 3);
        wait_for_lag(p, &ear, "all replicas are skipped");
        probe_set_skipped(p, neither, 1);
        wait_for_lag(p, &ear, "a (127.0.0.1:1)");
        size_t heard = ear_count(&ear);
        probe_set_skipped(p, NULL, 0); /* as good as before: nothing to tell */
        assert_int_equal(ear_count(&ear), heard);
        assert_null(probe_stop(p));
}

/* With thresholds of their own, say. */
static void two_metrics_may_both_be_the_lag_of_the_replicas(void **unused)
{
        (void)unused;
        static char near[] = "127.0.0.1", a[] = "a", user[] = "weir", lag[] = "replication_lag";
        struct sql_server replica = {.host = near, .port = 1, .name = a};
        struct probe_metric metrics[] = {{.name = "replication_lag"},
                                         {.name = "lag", .source = lag}};
        struct probe_options o = host(metrics, 2);
        struct probe_sample s[2];
        struct ear ear;
        o.kind = PROBE_MYSQL;
        o.primary = (struct sql_server){.host = near, .port = 3};
        o.replicas = &replica;
        o.n_replicas = 1;
        o.user = user;
        o.interval_ms = LONG_MS;
        struct probe *p = start(&o, &ear);
        assert_true(ear_wait(&ear, 1, EAR_MS)); /* once for both; the primary has nothing to tell */
        assert_int_equal(probe_take(p, s, 2), 2);
        for (size_t i = 0; i < 2; i++) {
                assert_true(s[i].is_error);
                assert_non_null(strstr(s[i].error, "a (127.0.0.1:1)"));
        }
        assert_null(probe_stop(p));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(only_finite_decimal_numbers_are_values),
                cmocka_unit_test(
                        a_sentence_is_cut_between_characters_and_has_no_control_characters),
                cmocka_unit_test(every_kind_knows_its_metrics_and_names_them),
                cmocka_unit_test(skipping_takes_effect_at_once_and_all_skipped_is_an_error),
                cmocka_unit_test(two_metrics_may_both_be_the_lag_of_the_replicas),
                cmocka_unit_test(a_rest_grows_from_one_second_to_ten),
                cmocka_unit_test(the_host_tells_its_load_and_its_disks),
                cmocka_unit_test(a_busy_loop_finds_the_newest_sample_of_each_metric_only),
                cmocka_unit_test(samples_come_in_the_order_they_were_taken_and_as_many_as_fit),
                cmocka_unit_test(nobody_asks_and_it_sleeps_until_somebody_does),
                cmocka_unit_test(asking_keeps_it_awake),
                cmocka_unit_test(a_failing_connection_is_told_at_every_interval_and_tried_rarely),
                cmocka_unit_test(a_command_gives_its_first_line),
                cmocka_unit_test(a_command_gets_only_the_environment_that_is_named),
                cmocka_unit_test(a_program_that_is_not_there_is_named),
                cmocka_unit_test(a_command_that_hangs_is_killed_with_all_it_started),
                cmocka_unit_test(stopping_does_not_wait_for_what_hangs),
                cmocka_unit_test(values_are_found_in_a_json_answer),
                cmocka_unit_test(an_answer_that_is_no_good_is_an_error_of_every_metric),
                cmocka_unit_test(stopping_does_not_wait_for_a_web_server),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

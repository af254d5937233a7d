/* The target sections of the configuration: what is taken, what is refused with its place. */
#include "config_box.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serve/config.h"

static void a_target_is_taken_with_all_it_says(void **unused)
{
        (void)unused;
        struct config c;
        char text[2000];
        const char *secret = write_file("password", "p \"w\r\n", 0600);
        snprintf(text, sizeof(text),
                 "target \"shop\" {\n kind = \"mysql\" host = \"db.example\" port = 3307\n"
                 " user = \"weir\" password_file = \"%s\" database = \"shop\"\n"
                 " interval = \"100ms\" timeout = \"2s\" dwell = \"1m\" mode = \"observe\"\n"
                 " heartbeat_table = \"meta.heartbeat\"\n"
                 " replica \"db2\" { host = \"10.0.0.2\" }\n"
                 " replica \"db3\" { socket = \"/run/db3.sock\" port = 3310 }\n"
                 " ignore_replicas = 1 missing_replica = \"ignore\"\n"
                 " metric \"threads_running\" { elevated = {6, 4} critical = {16, 11.5} }\n"
                 " metric \"replication_lag\" { required = true stale = \"5s\" }\n"
                 " metric \"orders\" { source = \"sql:SELECT COUNT(*) FROM o WHERE s='new'\"\n"
                 "  critical = {500, 250} }\n}\n",
                 secret);
        take_text(text, &c);
        assert_int_equal(c.targets.n, 1);
        const struct probe_options *o = &c.targets.probes[0];
        const struct config_target *l = &c.targets.levels[0];
        assert_string_equal(o->name, "shop");
        assert_int_equal(o->kind, PROBE_MYSQL);
        assert_string_equal(o->primary.host, "db.example");
        assert_int_equal(o->primary.port, 3307);
        assert_string_equal(o->user, "weir");
        assert_string_equal(o->password, "p \"w");
        assert_string_equal(o->database, "shop");
        assert_string_equal(o->heartbeat_table, "meta.heartbeat");
        assert_int_equal(o->interval_ms, 100);
        assert_int_equal(o->timeout_ms, 2000);
        assert_int_equal(o->hibernate_every_ms, 2500); /* half of the shortest staleness */
        assert_int_equal(l->dwell_ns, 60 * NS_PER_S);
        assert_int_equal(l->mode, MODE_OBSERVE);
        assert_int_equal(o->n_replicas, 2);
        assert_string_equal(o->replicas[0].name, "db2");
        assert_string_equal(o->replicas[0].host, "10.0.0.2");
        assert_int_equal(o->replicas[0].port, 3306);
        assert_string_equal(o->replicas[1].host, "/run/db3.sock");
        assert_int_equal(o->replicas[1].port, 3310);
        assert_int_equal(o->ignore_replicas, 1);
        assert_true(o->is_missing_replica_fine);
        assert_int_equal(o->n_metrics, 3);
        assert_true(l->rules[0].enter[0] == 6 && l->rules[0].exit[0] == 4);
        assert_true(l->rules[0].enter[1] == 16 && l->rules[0].exit[1] == 11.5);
        assert_int_equal(l->rules[0].stale_ns, 10 * NS_PER_S);
        assert_false(l->rules[0].is_required);
        assert_string_equal(o->metrics[1].source, "replication_lag");
        assert_true(l->rules[1].enter[0] == 2 && l->rules[1].exit[1] == 5);
        assert_true(l->rules[1].is_required);
        assert_int_equal(l->rules[1].stale_ns, 5 * NS_PER_S);
        assert_string_equal(o->metrics[2].source, "sql:SELECT COUNT(*) FROM o WHERE s='new'");
        assert_true(isnan(l->rules[2].enter[0]) && l->rules[2].enter[1] == 500);
        config_release(&c);
}

static void a_short_target_gets_the_defaults_of_its_kind(void **unused)
{
        (void)unused;
        struct config c;
        take_text("target \"a\" { kind = mysql }\n"
                  "target \"b\" { kind = postgres }\n"
                  "target \"c\" { kind = host }\n",
                  &c);
        assert_int_equal(c.targets.n, 3);
        const struct probe_options *o = c.targets.probes;
        const struct config_target *l = c.targets.levels;
        assert_string_equal(o[0].primary.host, "127.0.0.1");
        assert_int_equal(o[0].primary.port, 3306);
        assert_int_equal(o[1].primary.port, 5432);
        assert_string_equal(o[0].metrics[0].name, "threads_running");
        assert_string_equal(o[1].metrics[0].name, "active_backends");
        assert_string_equal(o[2].metrics[0].name, "load_per_core");
        assert_true(l[0].rules[0].enter[0] == 5 && l[0].rules[0].exit[0] == 3);
        assert_true(l[0].rules[0].enter[1] == 15 && l[0].rules[0].exit[1] == 10);
        assert_int_equal(o[0].interval_ms, 1000);
        assert_true(o[0].interval_ms + o[0].timeout_ms < 3000); /* trouble is seen within 3 s */
        assert_int_equal(l[0].dwell_ns, 30 * NS_PER_S);
        assert_int_equal(l[0].mode, -1);
        assert_null(o[0].password);
        config_release(&c);
}

/* ---- what the check door asks by ---- */

static void expect_metric(const struct config *c, size_t i, const char *name, double above,
                          bool is_checked)
{
        const struct config_target *l = &c->targets.levels[0];
        assert_string_equal(c->targets.probes[0].metrics[i].name, name);
        assert_int_equal(l->is_checked[i], is_checked);
        if (isnan(above) ? !isnan(l->check_above[i]) : l->check_above[i] != above)
                fail_msg("%s is checked against %g", name, l->check_above[i]);
}

static void a_target_is_checked_by_the_metrics_it_names_in_their_order(void **unused)
{
        (void)unused;
        struct config c;
        take_text("target \"shop\" { kind = mysql\n"
                  " check = {\"replication_lag\", \"threads_running\"}\n"
                  " metric \"orders\" { source = \"sql:SELECT 1\" critical = {500, 250} }\n"
                  " metric \"threads_running\" { elevated = {6, 4} }\n"
                  " metric \"row_lock_waits\" { }\n"
                  " metric \"replication_lag\" { threshold = 2.5 stale = \"5s\" } }\n",
                  &c);
        assert_int_equal(c.targets.probes[0].n_metrics, 4);
        expect_metric(&c, 0, "replication_lag", 2.5, true);
        expect_metric(&c, 1, "threads_running", 6, true);
        expect_metric(&c, 2, "orders", 500, false);
        expect_metric(&c, 3, "row_lock_waits", NAN, false);
        /* All that belongs to a metric moved with it. */
        const struct config_target *l = &c.targets.levels[0];
        assert_int_equal(l->rules[0].stale_ns, 5 * NS_PER_S);
        assert_true(l->rules[0].enter[0] == 2 && l->rules[1].enter[0] == 6);
        assert_true(isnan(l->rules[2].enter[0]) && l->rules[2].enter[1] == 500);
        assert_string_equal(c.targets.probes[0].metrics[2].source, "sql:SELECT 1");
        assert_true(!l->is_written[0] && l->is_written[1] && !l->is_written[2]);
        assert_true(!l->is_any_written[0] && l->is_any_written[1] && l->is_any_written[2]);
        assert_true(l->is_check_written[0] && !l->is_check_written[1]);
        config_release(&c);
}

static void a_threshold_may_be_auto(void **unused)
{
        (void)unused;
        struct config c;
        take_text("target \"shop\" { kind = mysql check = {\"row_lock_waits\"}\n"
                  " metric \"threads_running\" { elevated = \"auto\" critical = {\"auto\"} }\n"
                  " metric \"replication_lag\" { elevated = auto critical = {1, 0.5} }\n"
                  " metric \"row_lock_waits\" { critical = auto } }\n",
                  &c);
        const struct config_target *l = &c.targets.levels[0];
        assert_true(!l->is_auto[0][0] && l->is_auto[0][1]); /* row_lock_waits moved to the front */
        assert_true(isnan(l->rules[0].enter[1]) && isnan(l->check_above[0]));
        assert_true(l->is_auto[1][0] && l->is_auto[1][1]);
        assert_true(l->rules[1].enter[0] == 5 && l->rules[1].enter[1] == 15); /* until it learned */
        assert_true(!l->is_written[1] && !l->is_any_written[1]);
        assert_true(l->is_auto[2][0] && !l->is_auto[2][1]);
        assert_true(l->rules[2].enter[1] == 1 && l->is_any_written[2] && !l->is_written[2]);
        config_release(&c);
}

static void without_a_word_the_lag_is_checked_or_the_first_that_can_refuse(void **unused)
{
        (void)unused;
        static const struct {
                const char *metrics;
                size_t checked;
                double above; /* of that one */
        } cases[] = {
                {"", 0, 5}, /* threads_running */
                {"metric \"threads_running\" { } metric \"replication_lag\" { }", 1, 2},
                {"metric \"threads_running\" { } metric \"behind\" { source = "
                 "\"replication_lag\" threshold = 9 }",
                 1, 9},
                {"metric \"row_lock_waits\" { } metric \"threads_running\" { }", 1, 5},
                {"metric \"row_lock_waits\" { } metric \"redo_percent\" { critical = {80, 60} }", 1,
                 80},
                {"metric \"row_lock_waits\" { } metric \"redo_percent\" { }", 0, NAN},
                {"metric \"row_lock_waits\" { } metric \"redo_percent\" { threshold = 0 }", 1, 0},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct config c;
                char text[300];
                snprintf(text, sizeof(text), "target \"t\" { kind = mysql %s }\n",
                         cases[i].metrics);
                take_text(text, &c);
                const struct probe_options *o = &c.targets.probes[0];
                for (size_t k = 0; k < o->n_metrics; k++)
                        if (c.targets.levels[0].is_checked[k] != (k == cases[i].checked))
                                fail_msg("case %zu: %s", i, o->metrics[k].name);
                expect_metric(&c, cases[i].checked, o->metrics[cases[i].checked].name,
                              cases[i].above, true);
                config_release(&c);
        }
}

static void what_unknown_means_is_said_per_tier(void **unused)
{
        (void)unused;
        struct config c;
        take_text("target \"a\" { kind = mysql }\n"
                  "target \"b\" { kind = mysql\n"
                  " unknown = {\"closed\", \"open\", \"wait:30s\", \"wait:1500ms\"} }\n",
                  &c);
        const struct unknown_rule *usual = c.targets.levels[0].unknown;
        const struct unknown_rule *said = c.targets.levels[1].unknown;
        assert_int_equal(usual[TIER_CRITICAL].policy, UNKNOWN_OPEN);
        assert_int_equal(usual[TIER_HIGH].policy, UNKNOWN_OPEN);
        assert_int_equal(usual[TIER_NORMAL].policy, UNKNOWN_CLOSED);
        assert_int_equal(usual[TIER_DEFERRABLE].policy, UNKNOWN_CLOSED);
        assert_int_equal(said[TIER_CRITICAL].policy, UNKNOWN_CLOSED);
        assert_int_equal(said[TIER_HIGH].policy, UNKNOWN_OPEN);
        assert_int_equal(said[TIER_NORMAL].policy, UNKNOWN_WAIT);
        assert_int_equal(said[TIER_NORMAL].wait_ms, 30000);
        assert_int_equal(said[TIER_DEFERRABLE].wait_ms, 1500);
        config_release(&c);
}

static void the_name_of_a_target_fits_into_an_address(void **unused)
{
        (void)unused;
        char n64[65], n65[66];
        memset(n64, 'n', 64);
        memset(n65, 'n', 65);
        n64[64] = n65[65] = '\0';
        const struct {
                const char *name;
                bool is_good;
        } cases[] = {
                {"n", true},     {n64, true},   {n65, false},       {"", false},
                {"a/b", false},  {"/", false},  {"a\001b", false},  {"a\177b", false},
                {"\xff", false}, {"a b", true}, {"\xc3\xa9", true}, {"main:eu-1", true},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct config c;
                struct problem problem = {0};
                char text[200];
                snprintf(text, sizeof(text), "target \"%s\" { kind = mysql }\n", cases[i].name);
                int r = read_text(text, &c, &problem);
                if ((r == OK) != cases[i].is_good)
                        fail_msg("'%s': %s", cases[i].name, problem.detail);
                if (r == OK)
                        assert_string_equal(c.targets.probes[0].name, cases[i].name);
                else
                        assert_non_null(strstr(problem.detail, "1 to 64 bytes"));
                config_release(&c);
        }
}

static void what_makes_no_sense_is_refused_with_its_place(void **unused)
{
        (void)unused;
        static const struct {
                const char *body, *told;
        } cases[] = {
                {"", "kind must be"},
                {"kind = oracle", "not oracle"},
                {"kind = mysql port = 70000", "port must be 1 to 65535"},
                {"kind = mysql host = \"a\" socket = \"/b\"", "not both"},
                {"kind = mysql socket = \"\"", "socket must be a path"},
                {"kind = mysql host = \"\"", "host must be"},
                {"kind = mysql interval = \"99ms\"", "interval must be 100ms to 1h"},
                {"kind = mysql interval = \"61m\"", "interval must be"},
                {"kind = mysql timeout = \"soon\"", "timeout"},
                {"kind = mysql dwell = \"2h\"", "dwell must be"},
                {"kind = mysql mode = \"on\"", "mode must be"},
                {"kind = mysql password = \"x\"", "password"},
                {"kind = mysql password_file = \"/no/such\"", "/no/such"},
                {"kind = mysql password_env = \"WEIR_NO_SUCH\"", "WEIR_NO_SUCH"},
                {"kind = mysql password_env = \"A\" password_file = \"/b\"", "not both"},
                {"kind = mysql heartbeat_table = \"a;b\"", "heartbeat_table"},
                {"kind = mysql heartbeat_table = \"a.b.c\"", "heartbeat_table"},
                {"kind = postgres heartbeat_table = \"a\"", "mysql only"},
                {"kind = mysql heartbeat_utc = true", "needs heartbeat_table"},
                {"kind = postgres heartbeat_utc = false", "needs heartbeat_table"},
                {"kind = mysql heartbeat_table = \"a\" heartbeat_utc = perhaps", ""},
                {"kind = mysql replica \"r\" { }", "replica \"r\" needs a host"},
                {"kind = mysql replica \"a b\" { host = \"h\" }",
                 "replica \"a b\" must be named with 1 to 255 bytes of UTF-8 without blanks and "
                 "control characters"},
                {"kind = mysql replica \"\" { host = \"h\" }", "replica \"\" must be named"},
                {"kind = mysql ignore_replicas = 1 replica \"r\" { host = \"h\" }",
                 "ignore_replicas must be less"},
                {"kind = mysql ignore_replicas = -1", "ignore_replicas"},
                {"kind = mysql missing_replica = \"forget\"", "missing_replica must be"},
                {"kind = mysql metric \"m\" { }", "metric \"m\": mysql has threads_running"},
                {"kind = mysql metric \"threads_running\" { elevated = {1, 2} }",
                 "metric \"threads_running\": elevated: the exit"},
                {"kind = mysql metric \"threads_running\" { elevated = {1} }", "two numbers"},
                {"kind = mysql metric \"threads_running\" { elevated = {1, x} }",
                 "metric \"threads_running\": elevated must be two numbers, {enter, exit}, or "
                 "\"auto\""},
                {"kind = mysql metric \"threads_running\" { critical = \"Auto\" }",
                 "critical must be two numbers, {enter, exit}, or \"auto\""},
                {"kind = mysql metric \"threads_running\" { critical = {auto, auto} }", "or"},
                {"kind = mysql metric \"threads_running\" { elevated = {inf, 1} }", "or"},
                {"kind = mysql metric \"threads_running\" { elevated = {20, 1} critical = {5, 1} }",
                 "critical must not begin below"},
                {"kind = mysql metric \"threads_running\" { stale = \"1ms\" }", "stale must be"},
                {"kind = mysql metric \"x\" { source = \"sql:DROP TABLE x\" }", "mysql has"},
                {"kind = http metric \"a\" { source = \"json:a\" }", "needs url"},
                {"kind = http url = \"file:///x\" metric \"json:a\" { }", "needs url"},
                {"kind = http url = \"http://u:p@h/\" metric \"json:a\" { }", "do not belong"},
                {"kind = http url = \"http://h/\"", "needs a metric"},
                {"kind = mysql check = {\"lag\"}",
                 "check: it has no metric 'lag'; it has threads_running"},
                {"kind = mysql check = {\"x\"} metric \"row_lock_waits\" { } metric "
                 "\"replication_lag\" { }",
                 "it has row_lock_waits, replication_lag"},
                {"kind = mysql check = {\"threads_running\", \"threads_running\"}", "twice"},
                {"kind = mysql metric \"threads_running\" { threshold = inf }",
                 "metric \"threads_running\": threshold must be a number"},
                {"kind = mysql metric \"threads_running\" { threshold = nan }",
                 "threshold must be a number"},
                {"kind = mysql metric \"threads_running\" { threshold = high }", "threshold"},
                {"kind = mysql unknown = {\"open\"}", "critical, high, normal and deferrable"},
                {"kind = mysql unknown = {\"open\", \"open\", \"open\", \"open\", \"open\"}",
                 "unknown takes 4 texts"},
                {"kind = mysql unknown = {\"open\", \"open\", \"shut\", \"open\"}",
                 "open, closed or wait:30s"},
                {"kind = mysql unknown = {\"open\", \"open\", \"wait:\", \"open\"}", "not 'wait:'"},
                {"kind = command metric \"a\" { }", "needs command"},
                {"kind = command command = {\"x\"} env = {\"A-B\"} metric \"a\" { }",
                 "'A-B' is no NAME=VALUE"},
                {"kind = command command = {\"x\"} env = {\"=secret\"} metric \"a\" { }",
                 "'' is no NAME=VALUE"},
                {"kind = command command = {\"x\"} env = {\"1A=secret\"} metric \"a\" { }",
                 "'1A' is no NAME=VALUE"},
                {"kind = mysql env = {\"A\"}", "env is for kind command"},
                {"kind = command command = {\"x\"} metric \"a\" { } metric \"b\" { }",
                 "more than 1 metrics"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                char text[300];
                snprintf(text, sizeof(text), "target \"shop\" { %s }\n", cases[i].body);
                refuse_text(text, cases[i].told);
        }
}

static void a_password_comes_from_a_private_file_or_the_environment(void **unused)
{
        (void)unused;
        static const struct {
                const char *text;
                mode_t mode;
                int err;
        } cases[] = {
                {"secret\n", 0600, OK},
                {"secret", 0640, OK},
                {"", 0600, OK},
                {"secret\n", 0644, ERR_FORBIDDEN},
                {"two\nlines\n", 0600, ERR_BADARG},
        };
        struct config c;
        struct problem problem = {0};
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                char text[TEMP_DIR_SIZE + 100];
                const char *path = write_file("password", cases[i].text, cases[i].mode);
                snprintf(text, sizeof(text),
                         "target \"t\" { kind = mysql password_file = \"%s\" }\n", path);
                assert_int_equal(read_text(text, &c, &problem), cases[i].err);
                assert_null(strstr(problem.detail, "secret"));
                config_release(&c);
        }
        assert_int_equal(setenv("WEIR_TEST_PASSWORD", "from-env", 1), 0);
        take_text("target \"t\" { kind = mysql password_env = \"WEIR_TEST_PASSWORD\" }\n", &c);
        assert_string_equal(c.targets.probes[0].password, "from-env");
        config_release(&c);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_target_is_taken_with_all_it_says),
                cmocka_unit_test(a_short_target_gets_the_defaults_of_its_kind),
                cmocka_unit_test(a_target_is_checked_by_the_metrics_it_names_in_their_order),
                cmocka_unit_test(a_threshold_may_be_auto),
                cmocka_unit_test(without_a_word_the_lag_is_checked_or_the_first_that_can_refuse),
                cmocka_unit_test(what_unknown_means_is_said_per_tier),
                cmocka_unit_test(the_name_of_a_target_fits_into_an_address),
                cmocka_unit_test(what_makes_no_sense_is_refused_with_its_place),
                cmocka_unit_test(a_password_comes_from_a_private_file_or_the_environment),
        };
        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

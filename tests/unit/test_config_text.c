/* The configuration written out, read again and compared, and the lines that errors name. */
#include "config_box.h"

#include <stdio.h>

#include "cli/config_diff.h"
#include "serve/config_lines.h"
#include "serve/config_text.h"

static const char everything[] =
        "data = \"/x\\\"y\"\n"
        "resp = {\"127.0.0.1:1\", \"/run/w.sock\"}\n"
        "check_without_token = true\n"
        "client_memory = \"128m\"\n"
        "log_level = warn\nlog_json = true\n"
        "history = failures\nhistory_keep_done = 2d\nhistory_keep_failed = forever\n"
        "history_keep_incidents = 10d\n"
        "queue \"quick\" { history = none }\n"
        "locks { enabled = false }\n"
        "throttle {\n"
        "        enabled = false  mode = \"observe\"  ramp_cycles = 5  ramp_cycle = \"10s\"\n"
        "        max_deferral = \"1h30m\"  deferrals_per_hour = 12\n"
        "        expiry_margin = \"90s\"  expire = {\"normal\", \"deferrable\"}\n"
        "        registry = {\"a_*=high\", \"b=c=deferrable\"}\n"
        "        queue_depth = {10, 5.5, 100, 50}  queue_age = \"0s\"  queue_level = \"critical\"\n"
        "        adaptive = \"enforce\"  adaptive_limit = {2, 4, 8}\n"
        "        check_mode = \"off\"  rule_max = \"3d\"  rule_endless = true\n"
        "        starved_after = \"1m\"  exempt_budget = 0.125  exempt_ends = true\n"
        "        credits_max = 7  credits_time = \"2s\"\n"
        "        level \"critical\" { delays = {\"0s\", \"1s\", \"2s\", \"3s\"} claims = 9 }\n"
        "}\n"
        "target \"my shop\" {\n"
        "        kind = \"mysql\"  socket = \"/run/m.sock\"  user = \"weir\"\n"
        "        password_env = \"HOME\"  database = \"shop\"  heartbeat_table = \"meta.hb\"\n"
        "        heartbeat_utc = true\n"
        "        interval = \"2s\"  timeout = \"1s\"  dwell = \"5s\"  mode = \"enforce\"\n"
        "        ignore_replicas = 1  missing_replica = \"ignore\"\n"
        "        check = {\"replication_lag\", \"depth\"}\n"
        "        unknown = {\"open\", \"closed\", \"wait:30s\", \"closed\"}\n"
        "        replica \"db2\" { host = \"10.0.0.2\" port = 3307 }\n"
        "        replica \"db3\" { host = \"10.0.0.3\" }\n"
        "        metric \"threads_running\" { required = true stale = \"1m\" }\n"
        "        metric \"depth\" { source = \"sql:SELECT \\\"1\\\"\" critical = {0.1, 0.05}\n"
        "                          threshold = 2.5 }\n"
        "        metric \"replication_lag\" { }\n"
        "        metric \"row_lock_waits\" { elevated = \"auto\" critical = auto }\n"
        "}\n"
        "target \"pg\" { kind = \"postgres\" host = \"db\" port = 5433 }\n"
        "target \"near\" { kind = \"mysql\" socket = \"/run/s\" }\n"
        "target \"box\" { kind = \"host\" }\n"
        "target \"web\" { kind = \"http\" url = \"http://a/b\" metric \"json:x.y\" { } }\n"
        "target \"run\" { kind = \"command\" command = {\"sh\", \"-c\", \"echo \\\"\\$1\\\" "
        "\\\\\"}\n"
        "               env = {\"HOME\", \"A_B=c \\\"d\\\" \\$e=f\"}\n"
        "               metric \"value\" { elevated = {1, 1} } }\n"
        "wordpress \"site\" { database = \"w\\\"\" host = \"db\" port = 3307 prefix = \"a\\$\"\n"
        "        user = \"u\" target = \"box\" mode = \"enforce\" interval = \"1s\"\n"
        "        repair_lost = \"off\" repair_retention = \"enforce\" retention = \"forever\"\n"
        "        retry = {\"a\\$* 3 5m\", \"b 1 1s\"}\n"
        "        retention_failed = \"1d\" claim_timeout = \"1500ms\" timeout = \"1s\" }\n"
        "wordpress \"off\" { database = \"w\" socket = \"/run/s\" mode = \"off\" }\n"
        "mysql \"door\" { listen = {\":0\", \"/run/m\"} server = \"db\" target = \"\"\n"
        "        mode = \"enforce\" wait = \"0s\" concurrency = 7 comment_tiers = \"any\"\n"
        "        proxy_protocol_from = {\"::/0\"} proxy_protocol = true }\n"
        "class \"etl\" { mysql = \"door\" user = \"e\\\"*\" identity = \"a:b\" tier = \"high\"\n"
        "        error = 3024 rate = 0.25 time_budget = \"1500ms\" wait = \"0s\" mode = \"off\" "
        "}\n";

static void what_is_written_reads_back_the_same(void **unused)
{
        (void)unused;
        for (int has_defaults = 0; has_defaults < 2; has_defaults++) {
                struct config a, b;
                struct problem problem = {0};
                struct buf first, second;
                buf_init(&first, 0);
                buf_init(&second, 0);
                take_text(everything, &a);
                assert_int_equal(config_finish(&a, &problem), OK);
                config_put(&a, has_defaults, &first);
                take_text(buf_cstr(&first), &b);
                assert_int_equal(config_finish(&b, &problem), OK);
                config_put(&b, has_defaults, &second);
                assert_string_equal(buf_cstr(&first), buf_cstr(&second));
                assert_int_equal(a.targets.n, b.targets.n);
                for (size_t i = 0; i < a.targets.n; i++)
                        assert_true(
                                config_probe_is_same(&a.targets.probes[i], &b.targets.probes[i]));
                assert_int_equal(a.sites.n, b.sites.n);
                for (size_t i = 0; i < a.sites.n; i++)
                        assert_true(config_site_is_same(&a.sites.sites[i], &b.sites.sites[i]));
                assert_string_equal(b.sites.sites[0].store.prefix, "a$");
                assert_int_equal(b.sites.sites[0].mode, MODE_ENFORCE);
                assert_int_equal(b.sites.sites[0].repairs[REPAIR_LOST], MODE_OFF);
                assert_int_equal(b.sites.sites[0].store.retention_s, 0);
                assert_string_equal(b.doors.doors[0].listen[1], "/run/m");
                assert_true(b.doors.doors[0].sends_proxy);
                assert_string_equal(b.doors.classes[0].user, "e\"*");
                assert_true(b.doors.classes[0].rate == 0.25);
                assert_int_equal(b.doors.classes[0].wait_ms, 0);
                assert_string_equal(b.data, "/x\"y");
                assert_true(b.throttle.is_off);
                assert_true(b.are_locks_off);
                assert_true(b.throttle.queue_depth.exit[0] == 5.5);
                assert_int_equal(b.throttle.policy.queue_age_ms, 0);
                assert_int_equal(b.throttle.policy.queue_level, LEVEL_CRITICAL);
                assert_true(b.targets.levels[0].check_above[1] == 2.5);
                assert_string_equal(b.targets.probes[5].argv[2], "echo \"$1\" \\");
                config_release(&a);
                config_release(&b);
                buf_release(&first);
                buf_release(&second);
        }
}

static void a_probe_is_another_when_anything_it_uses_is(void **unused)
{
        (void)unused;
        static const char *const others[] = {
                "kind = \"mysql\" host = \"b\"",
                "kind = \"mysql\" host = \"a\" port = 1",
                "kind = \"mysql\" host = \"a\" user = \"u\"",
                "kind = \"mysql\" host = \"a\" password_env = \"HOME\"",
                "kind = \"mysql\" host = \"a\" database = \"d\"",
                "kind = \"mysql\" host = \"a\" interval = \"3s\"",
                "kind = \"mysql\" host = \"a\" metric \"questions\" { source = \"status:x\" }",
                "kind = \"mysql\" host = \"a\" replica \"r\" { host = \"c\" }",
                "kind = \"postgres\" host = \"a\"",
        };
        struct config a;
        take_text("target \"t\" { kind = \"mysql\" host = \"a\" }", &a);
        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
                struct config b;
                char text[200];
                (void)snprintf(text, sizeof(text), "target \"t\" { %s }", others[i]);
                take_text(text, &b);
                assert_false(config_probe_is_same(&a.targets.probes[0], &b.targets.probes[0]));
                config_release(&b);
        }
        struct config same;
        take_text("target \"t\" { kind = \"mysql\" host = \"a\" dwell = \"1s\"\n"
                  "metric \"threads_running\" { elevated = {50, 40} \n"
                  "critical = {80, 70} } }",
                  &same);
        assert_true(config_probe_is_same(&a.targets.probes[0], &same.targets.probes[0]));
        config_release(&same);
        config_release(&a);
}

static void secrets_are_not_written(void **unused)
{
        (void)unused;
        struct config c;
        struct buf text;
        char conf[1024], token[TEMP_DIR_SIZE + 40], password[TEMP_DIR_SIZE + 40];
        (void)snprintf(token, sizeof(token), "%s",
                       write_file("token", "0123456789-the-token\n", 0600));
        (void)snprintf(password, sizeof(password), "%s",
                       write_file("password", "very-secret\n", 0600));
        (void)snprintf(conf, sizeof(conf),
                       "token_file = \"%s\"\ntarget \"t\" { kind = \"mysql\" host = \"a\" user = "
                       "\"u\"\npassword_file = \"%s\" }",
                       token, password);
        take_text(conf, &c);
        buf_init(&text, 0);
        config_put(&c, true, &text);
        has_not(buf_cstr(&text), "the-token");
        has_not(buf_cstr(&text), "very-secret");
        has(buf_cstr(&text), token);
        has(buf_cstr(&text), password);
        buf_release(&text);
        config_release(&c);
}

static void an_error_names_the_line(void **unused)
{
        (void)unused;
        static const struct {
                const char *text, *told;
        } cases[] = {
                {"# one\n\nlog_level = loud\n", "conf:3: log_level must be"},
                {"throttle {\n mode = \"off\"\n}\nhistory = some\n", "conf:4: history must be"},
                {"throttle {\n /* a\n mode */ mode = \"loud\"\n}\n", "conf:3: throttle: mode must"},
                {"throttle {\n level \"critical\" {\n  claims = 1\n  delays = {\"1s\"}\n }\n}\n",
                 "conf:4: throttle level \"critical\": delays takes"},
                {"throttle {\n ramp_cycles = -4\n}\n", "conf:2: throttle: ramp_cycles"},
                {"throttle {\n\n ramp_cycle = soon\n}\n", "conf:3: throttle: ramp_cycle: 'soon'"},
                {"target \"a\" { kind = \"host\" }\ntarget \"b\" {\n kind = \"host\"\n"
                 " # dwell = \"3s\"\n\n dwell = \"2h\"\n}\n",
                 "conf:6: target \"b\": dwell must be"},
                {"target \"a\" {\n kind = \"host\"\n metric \"psi_io\" {\n  elevated = {1, 0}\n }\n"
                 " metric \"psi_cpu\" {\n  elevated = {5, 3}\n  critical = {15, 20}\n }\n}\n",
                 "conf:8: target \"a\", metric \"psi_cpu\": critical: the exit"},
                {"target \"a\" { kind = \"host\" }\n\ntarget \"b\" { dwell = \"1s\" }\n",
                 "conf:3: target \"b\": kind must be"},
                {"data = \"a\nb\"\n# c\nnosuch = 1\n", "conf:4: no such option 'nosuch'"},
                {"# c\ntarget \"a\" { kind = \"host\" }\ntarget \"b\" {\n nosuch = 3\n}\n",
                 "conf:4: no such option 'nosuch'"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct config c;
                struct problem problem = {0};
                assert_int_not_equal(read_text(cases[i].text, &c, &problem), OK);
                has(problem.detail, cases[i].told);
                config_release(&c);
        }
}

/* The bad line is marked with a '@', which is not in the file; a comment is put above each of the
 * lines in turn, and above all of them. */
struct marked {
        const char *text, *told;
};

static void put_marked(struct buf *file, const char *text, const char *comment, int above,
                       unsigned *ret_line)
{
        unsigned line = 1;
        int n = 0;
        for (const char *c = text; *c; c++) {
                bool is_begin = c == text || c[-1] == '\n';
                if (is_begin && (above < 0 || n == above)) {
                        buf_put_str(file, comment);
                        for (const char *k = comment; *k; k++)
                                line += *k == '\n';
                }
                n += is_begin;
                if (*c == '@') {
                        *ret_line = line;
                        continue;
                }
                line += *c == '\n';
                buf_put_byte(file, *c);
        }
}

static void check_marked(const struct marked *m, const char *comment, int above)
{
        struct config c;
        struct problem problem = {0};
        struct buf file;
        char place[32];
        unsigned line = 0;
        buf_init(&file, 0);
        put_marked(&file, m->text, comment, above, &line);
        assert_int_not_equal(read_text(buf_cstr(&file), &c, &problem), OK);
        (void)snprintf(place, sizeof(place), "conf:%u: ", line);
        if (!strstr(problem.detail, place) || !strstr(problem.detail, m->told))
                fail_msg("wanted %s%s, got %s for:\n%s", place, m->told, problem.detail,
                         buf_cstr(&file));
        config_release(&c);
        buf_release(&file);
}

static void a_line_is_the_right_one_whatever_comments_are_above_it(void **unused)
{
        static const char *const comments[] = {
                "# a { comment\n",
                "// one with a \" in it\n",
                "/* a = {block}\n\n of lines */\n",
                "/* within a line */ ",
                "# one\n# after\n// another\n/* of\nall */\n",
        };
        static const struct marked files[] = {
                {"data = \"a\"\n@nosuch = 1\n", "no such option 'nosuch'"},
                {"data = \"a\"\n@}\n", "unexpected closing brace"},
                {"data = \"a\"\nlog_json = true\n@log_json = maybe\n", "invalid boolean value"},
                {"throttle {\n enabled = true\n@ enabled = many\n}\nlog_json = true\n",
                 "invalid boolean value"},
                {"data = \"a\"\n@http 3\nresp = {\"x\"}\n", "missing equal sign"},
                {"target \"a\" {\n kind = \"host\"\n}\ntarget \"b\" {\n kind = \"host\"\n"
                 "@ nosuch = 3\n}\n",
                 "no such option 'nosuch'"},
                {"target \"a\" {\n kind = \"host\"\n metric \"x\" {\n  required = true\n }\n"
                 " metric \"y\" {\n@  required = perhaps\n }\n}\n",
                 "invalid boolean value"},
                {"target \"a\" {\n kind = \"host\"\n}\ntarget \"b\" {\n kind = \"host\"\n}\n"
                 "queue \"q\" {\n}\n@nosuch = 3\n",
                 "no such option 'nosuch'"},
                {"target \"a\" {\n kind = \"host\"\n}\ntarget \"b\" {\n@ dwell = \"2h\"\n"
                 " kind = \"host\"\n}\n",
                 "dwell must be"},
                {"target \"a\" {\n kind = \"host\"\n}\n@target \"a\" {\n kind = \"host\"\n}\n",
                 "found duplicate title 'a'"},
                {"resp = {\"x\",\n \"y\"}\n@nosuch = 1\n", "no such option 'nosuch'"},
                {"data = \"a\"\n@throttle {\n mode = \"off\"\n", "this { is never closed"},
                {"data = \"http://x#y/*z\"\n@nosuch = 1\n", "no such option 'nosuch'"},
        };
        static const char *const fine[] = {"", "#", "\n", "// a", "/* a */", "data = a#b\n"};
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(fine); i++) {
                struct config c;
                take_text(fine[i], &c);
                config_release(&c);
        }
        for (size_t i = 0; i < ARRAY_LEN(files); i++) {
                int n_lines = 0;
                for (const char *c = files[i].text; *c; c++)
                        n_lines += *c == '\n';
                check_marked(&files[i], "", -1);
                for (size_t k = 0; k < ARRAY_LEN(comments); k++) {
                        check_marked(&files[i], comments[k], -1);
                        for (int above = 0; above < n_lines; above++)
                                check_marked(&files[i], comments[k], above);
                }
        }
}

/* Whatever is in the file, looking for a line ends. */
static void the_scanner_ends_on_any_text(void **unused)
{
        (void)unused;
        static const char *const texts[] = {
                "",      "\"", "'\\",   "{{{{", "}}}}", "= = =", "a {",       "/*",
                "a \"b", "#",  "a = {", "\\",   "(",    "a=b",   "x { y { z", "=}{"};
        struct config_way way = {.section = {SLICE_LIT("a")}, .n = 1, .option = SLICE_LIT("b")};
        way.title[0] = SLICE_NONE;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                assert_true(config_lines_find(slice_str(texts[i]), &way) <= 1);
}

static void put_line(void *ctx, struct slice name, struct slice was, struct slice now)
{
        config_diff_put(ctx, name, was, now);
        buf_put_byte(ctx, '\n');
}

static void differences_are_told_by_name(void **unused)
{
        (void)unused;
        static const char was[] = "data = \"a\"\n\nthrottle {\n        mode = \"off\"\n"
                                  "        level \"critical\" {\n                claims = 1\n"
                                  "        }\n}\n\ntarget \"old\" {\n        kind = \"host\"\n}\n"
                                  "target \"old.er\" {\n        kind = \"host\"\n}\n";
        static const char now[] = "data = \"a\"\nuser = \"x = y\"\n\nthrottle {\n"
                                  "        mode = \"enforce\"\n        level \"critical\" {\n"
                                  "                claims = 2\n        }\n}\n\n"
                                  "target \"new\" {\n        kind = \"host\"\n        a = 1\n}\n"
                                  "target \"old.er\" {\n        kind = \"mysql\"\n}\n";
        struct buf told;
        buf_init(&told, 0);
        config_diff(slice_str(was), slice_str(now), put_line, &told);
        assert_string_equal(buf_cstr(&told), "target order: {\"old\", \"old.er\"} -> "
                                             "{\"new\", \"old.er\"}\n"
                                             "target.new: added\n"
                                             "target.old: removed\n"
                                             "target.old.er.kind: \"host\" -> \"mysql\"\n"
                                             "throttle.level.critical.claims: 1 -> 2\n"
                                             "throttle.mode: \"off\" -> \"enforce\"\n"
                                             "user: \"x = y\" added\n");
        buf_clear(&told);
        config_diff(slice_str(now), slice_str(now), put_line, &told);
        assert_int_equal(told.len, 0);
        config_diff(SLICE_LIT(""), SLICE_LIT("data = 1\n"), put_line, &told);
        assert_string_equal(buf_cstr(&told), "data: 1 added\n");
        buf_release(&told);
        assert_true(config_needs_restart(SLICE_LIT("http")));
        assert_false(config_needs_restart(SLICE_LIT("throttle.mode")));
}

/* The first target is the one of checks that name none, the first metric that of a threshold that
 * names none: their order is a setting like any other.  That of queues and replicas is not. */
static void an_order_that_matters_is_told(void **unused)
{
        (void)unused;
        static const struct {
                const char *was, *now, *told;
        } cases[] = {
                {"target \"a\" {\n}\ntarget \"b\" {\n}\n", "target \"b\" {\n}\ntarget \"a\" {\n}\n",
                 "target order: {\"a\", \"b\"} -> {\"b\", \"a\"}\n"},
                {"target \"a\" {\n}\n", "target \"b\" {\n}\ntarget \"a\" {\n}\n",
                 "target order: {\"a\"} -> {\"b\", \"a\"}\ntarget.b: added\n"},
                {"target \"a\" {\n}\ntarget \"b\" {\n}\ntarget \"c\" {\n}\n",
                 "target \"a\" {\n}\ntarget \"c\" {\n}\ntarget \"d\" {\n}\n",
                 "target.b: removed\ntarget.d: added\n"},
                {"target \"a\" {\n}\ntarget \"b\" {\n}\ntarget \"c\" {\n}\n",
                 "target \"a\" {\n}\ntarget \"d\" {\n}\ntarget \"c\" {\n}\ntarget \"b\" {\n}\n",
                 "target order: {\"a\", \"b\", \"c\"} -> {\"a\", \"d\", \"c\", \"b\"}\n"
                 "target.d: added\n"},
                {"target \"a\" {\nmetric \"x\" {\n}\nmetric \"y\" {\n}\n}\ntarget \"b\" {\n}\n",
                 "target \"a\" {\nmetric \"y\" {\n}\nmetric \"x\" {\n}\n}\ntarget \"b\" {\n}\n",
                 "target.a.metric order: {\"x\", \"y\"} -> {\"y\", \"x\"}\n"},
                {"", "target \"a\" {\nmetric \"x\" {\n}\n}\n", "target.a: added\n"},
                {"queue \"a\" {\n}\nqueue \"b\" {\n}\n", "queue \"b\" {\n}\nqueue \"a\" {\n}\n",
                 ""},
                {"target \"a\" {\nreplica \"x\" {\n}\nreplica \"y\" {\n}\n}\n",
                 "target \"a\" {\nreplica \"y\" {\n}\nreplica \"x\" {\n}\n}\n", ""},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct buf told;
                buf_init(&told, 0);
                config_diff(slice_str(cases[i].was), slice_str(cases[i].now), put_line, &told);
                assert_string_equal(buf_cstr(&told), cases[i].told);
                buf_release(&told);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_written_reads_back_the_same),
                cmocka_unit_test(a_probe_is_another_when_anything_it_uses_is),
                cmocka_unit_test(secrets_are_not_written),
                cmocka_unit_test(an_error_names_the_line),
                cmocka_unit_test(a_line_is_the_right_one_whatever_comments_are_above_it),
                cmocka_unit_test(the_scanner_ends_on_any_text),
                cmocka_unit_test(differences_are_told_by_name),
                cmocka_unit_test(an_order_that_matters_is_told),
        };
        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* The wordpress sections of the configuration: what is taken, what is refused with its place. */
#include "config_box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/config_text.h"

#define DB "target \"db\" { kind = mysql }\n"

static void a_site_is_taken_with_all_it_says(void **unused)
{
        (void)unused;
        struct config c;
        char text[2000];
        const char *secret = write_file("password", "geheim\n", 0600);
        snprintf(text, sizeof(text),
                 "target \"box\" { kind = host }\n" DB
                 "wordpress \"shop\" {\n host = \"db.example\" port = 3307 user = \"weir\"\n"
                 " password_file = \"%s\" database = \"wordpress\" prefix = \"wp_2_$\"\n"
                 " tls = \"require\" target = \"box\" mode = \"enforce\" interval = \"100ms\"\n"
                 " timeout = \"2s\" repair_lost = \"enforce\" repair_claims = \"off\"\n"
                 " repair_claim_rows = \"enforce\" repair_retention = \"enforce\"\n"
                 " claim_timeout = \"90s\" retention = \"7d\" retention_failed = \"93d\"\n"
                 " retry = {\"pay_*  3\\t5m\", \" ?x 20 1d \"} repair_retries = \"observe\"\n}\n",
                 secret);
        take_text(text, &c);
        assert_int_equal(c.sites.n, 1);
        const struct config_site *s = &c.sites.sites[0];
        assert_string_equal(s->name, "shop");
        assert_string_equal(s->store.name, "shop");
        assert_string_equal(s->store.prefix, "wp_2_$");
        assert_string_equal(s->store.login.server.host, "db.example");
        assert_int_equal(s->store.login.server.port, 3307);
        assert_string_equal(s->store.login.user, "weir");
        assert_string_equal(s->store.login.password, "geheim");
        assert_string_equal(s->store.login.database, "wordpress");
        assert_int_equal(s->store.login.tls.mode, SQL_TLS_REQUIRE);
        assert_string_equal(s->target, "box");
        assert_int_equal(s->mode, MODE_ENFORCE);
        assert_int_equal(s->interval_ms, 100);
        assert_int_equal(s->store.timeout_ms, 2000);
        assert_int_equal(s->repairs[REPAIR_LOST], MODE_ENFORCE);
        assert_int_equal(s->repairs[REPAIR_CLAIMS], MODE_OFF);
        assert_int_equal(s->repairs[REPAIR_CLAIM_ROWS], MODE_ENFORCE);
        assert_int_equal(s->repairs[REPAIR_RETENTION], MODE_ENFORCE);
        assert_int_equal(s->store.claim_timeout_s, 90);
        assert_int_equal(s->store.retention_s, 7 * 86400);
        assert_int_equal(s->store.retention_failed_s, 93 * 86400);
        assert_int_equal(s->repairs[REPAIR_RETRIES], MODE_OBSERVE);
        assert_int_equal(s->store.n_retries, 2);
        assert_memory_equal(s->store.retries[0].pattern.ptr, "pay_*", 5);
        assert_int_equal(s->store.retries[0].pattern.len, 5);
        assert_int_equal(s->store.retries[0].times, 3);
        assert_int_equal(s->store.retries[0].wait_s, 300);
        assert_int_equal(s->store.retries[1].pattern.len, 2);
        assert_int_equal(s->store.retries[1].times, 20);
        assert_int_equal(s->store.retries[1].wait_s, 86400);
        config_release(&c);
}

static void a_short_site_gets_the_defaults(void **unused)
{
        (void)unused;
        struct config c;
        take_text("target \"pg\" { kind = postgres }\n" DB "target \"db2\" { kind = mysql }\n"
                  "wordpress \"a\" { database = \"w\" }\n"
                  "wordpress \"b\" { database = \"w\" prefix = \"wp_2_\" socket = \"/run/s\" }\n",
                  &c);
        assert_int_equal(c.sites.n, 2);
        const struct config_site *s = c.sites.sites;
        assert_string_equal(s[0].store.prefix, "wp_");
        assert_string_equal(s[0].store.login.server.host, "127.0.0.1");
        assert_int_equal(s[0].store.login.server.port, 3306);
        assert_int_equal(s[0].store.login.tls.mode, SQL_TLS_PREFER);
        assert_null(s[0].store.login.password);
        assert_string_equal(s[0].target, "db"); /* the first of kind mysql */
        assert_int_equal(s[0].mode, MODE_OBSERVE);
        assert_int_equal(s[0].interval_ms, 5000);
        assert_int_equal(s[0].store.timeout_ms, 5000);
        static const enum gate_mode repairs[SITE_REPAIRS] = {
                [REPAIR_LOST] = MODE_OBSERVE,       [REPAIR_CLAIMS] = MODE_OBSERVE,
                [REPAIR_CLAIM_ROWS] = MODE_OBSERVE, [REPAIR_RETENTION] = MODE_OFF,
                [REPAIR_PAST_DUE] = MODE_OBSERVE,   [REPAIR_DUPLICATES] = MODE_OBSERVE,
                [REPAIR_RETRIES] = MODE_ENFORCE,    [REPAIR_RESTORED] = MODE_ENFORCE};
        for (size_t i = 0; i < SITE_REPAIRS; i++)
                assert_int_equal(s[0].repairs[i], repairs[i]);
        assert_int_equal(s[0].store.claim_timeout_s, 300);
        assert_int_equal(s[0].store.retention_s, 31 * 86400);
        assert_int_equal(s[0].store.retention_failed_s, 0); /* for ever */
        assert_int_equal(s[0].store.n_retries, 0);
        assert_string_equal(s[1].store.login.server.host, "/run/s");
        config_release(&c);
}

static void times_below_a_second_are_rounded_up(void **unused)
{
        (void)unused;
        struct config c;
        take_text(DB "wordpress \"a\" { database = \"w\" claim_timeout = \"1500ms\"\n"
                     " retention = \"1ms\" retention_failed = \"forever\" }\n",
                  &c);
        assert_int_equal(c.sites.sites[0].store.claim_timeout_s, 2);
        assert_int_equal(c.sites.sites[0].store.retention_s, 1); /* 0 would be for ever */
        assert_int_equal(c.sites.sites[0].store.retention_failed_s, 0);
        config_release(&c);
}

static void a_site_that_is_off_needs_no_target(void **unused)
{
        (void)unused;
        struct config c;
        take_text("wordpress \"a\" { database = \"w\" mode = \"off\" }\n", &c);
        assert_null(c.sites.sites[0].target);
        config_release(&c);
        refuse_text("target \"box\" { kind = host }\n"
                    "wordpress \"a\" { database = \"w\" mode = \"observe\" }\n",
                    "conf:2: wordpress \"a\": target is missing, and the file has no target of "
                    "kind mysql: add one, name another with target = \"NAME\", or say mode = "
                    "\"off\"");
}

static void what_makes_no_sense_is_refused_with_its_place(void **unused)
{
        (void)unused;
        static const struct {
                const char *body, *told;
        } cases[] = {
                {"", "database is missing: the name of the site's database, DB_NAME in "
                     "wp-config.php"},
                {"database = \"\"", "database is missing"},
                {"database = w prefix = \"\"",
                 "prefix must be 1 to 40 letters, digits, _ and $, not ''"},
                {"database = w prefix = \"wp`\"", "not 'wp`'"},
                {"database = w prefix = \"wp-\"", "prefix must be"},
                {"database = w prefix = \"a234567890123456789012345678901234567890_\"", "1 to 40"},
                {"database = w network = \"maybe\"", "network"},
                {"database = w network = true prefix = \"a12345678901234567890123456789\"",
                 "network: the prefix must be at most 29 bytes, because its blogs have "
                 "a123456789012345678901234567892_ and so on"},
                {"database = w target = \"nodb\"",
                 "target 'nodb' is not in this file; it has 'db'"},
                {"database = w mode = \"on\"",
                 "mode must be off, test_observe, observe or enforce, not 'on'"},
                {"database = w repair_lost = \"test_observe\"",
                 "repair_lost must be off, observe or enforce, not 'test_observe'"},
                {"database = w repair_claims = \"yes\"", "repair_claims must be off, observe"},
                {"database = w repair_claim_rows = \"1\"", "repair_claim_rows must be off"},
                {"database = w repair_retention = \"\"", "repair_retention must be off"},
                {"database = w repair_past_due = \"enforce\"", "repair_past_due"},
                {"database = w interval = \"99ms\"", "interval must be 100ms to 1h, not '99ms'"},
                {"database = w interval = \"61m\"", "interval must be 100ms to 1h"},
                {"database = w timeout = \"soon\"", "timeout"},
                {"database = w timeout = \"2m\"", "timeout must be 100ms to 1m"},
                {"database = w claim_timeout = \"999ms\"", "claim_timeout must be 1s to 1d"},
                {"database = w claim_timeout = \"forever\"", "claim_timeout"},
                {"database = w retention = \"long\"", "retention"},
                {"database = w port = 70000", "port must be 1 to 65535"},
                {"database = w host = \"a\" socket = \"/b\"", "not both"},
                {"database = w socket = \"\"", "socket must be a path"},
                {"database = w password = \"x\"", "password"},
                {"database = w password_file = \"/no/such\"", "/no/such"},
                {"database = w password_env = \"WEIR_NO_SUCH\"", "WEIR_NO_SUCH"},
                {"database = w tls = \"maybe\"", "tls must be off, prefer, require or verify"},
                {"database = w tls = \"verify\"", "tls verify needs tls_ca"},
                {"database = w tls = \"require\" socket = \"/s\"", "tls is for a host"},
                {"database = w tls_name = \"x\"", "tls_name needs tls"},
                {"database = w tls_cert = \"/x\"", "tls_key is missing"},
                {"database = w retry = {\"a 3\"}",
                 "retry 'a 3' must be a hook, a number of retries and the wait before the first, "
                 "such as 'woocommerce_deliver_webhook_* 3 5m'"},
                {"database = w retry = {\"\"}", "retry '' must be a hook"},
                {"database = w retry = {\"my hook 3 5m\"}", "retry 'my hook 3 5m' must be a hook"},
                {"database = w retry = {\"a 0 5m\"}",
                 "retry 'a 0 5m': the number of retries must be 1 to 20, not '0'"},
                {"database = w retry = {\"a 21 5m\"}", "must be 1 to 20, not '21'"},
                {"database = w retry = {\"a -1 5m\"}", "must be 1 to 20, not '-1'"},
                {"database = w retry = {\"a 5m 3\"}", "must be 1 to 20, not '5m'"},
                {"database = w retry = {\"a 3 soon\"}", "retry 'a 3 soon': the wait"},
                {"database = w retry = {\"a 3 999ms\"}",
                 "retry 'a 3 999ms': the wait must be 1s to 1d, not '999ms'"},
                {"database = w retry = {\"a 3 25h\"}", "the wait must be 1s to 1d, not '25h'"},
                {"database = w retry = {\"a 1 1s\", \"*?* 3 5m\"}",
                 "retry '*?* 3 5m': the hook is only * and ?, and that would be every hook"},
                {"database = w retry = {\"\\001 3 5m\"}", "control characters"},
                {"database = w repair_retries = \"yes\"",
                 "repair_retries must be off, observe or enforce, not 'yes'"},
                {"database = w kind = \"mysql\"", "no such option 'kind'"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                char text[300];
                snprintf(text, sizeof(text), DB "wordpress \"shop\" { %s }\n", cases[i].body);
                refuse_text(text, cases[i].told);
        }
        refuse_text(DB "wordpress \"shop\" {\n database = \"w\"\n prefix = \"-\" }\n",
                    "conf:4: wordpress \"shop\": prefix must be");
        refuse_text(DB "wordpress \"n12345678901234567890123456789012345678901234567890125\" "
                       "{ database = \"w\" network = true }\n",
                    "network: the name must be at most 53 bytes");
        refuse_text(DB "wordpress \"a/b\" { database = \"w\" }\n",
                    "a site needs a name of 1 to 64 bytes of UTF-8 without '/'");
        refuse_text(DB "wordpress \"a\" { database = \"w\" }\n"
                       "wordpress \"b\" { database = \"w\" port = 3306 }\n",
                    "conf:3: wordpress \"b\": it has the database and the prefix of wordpress "
                    "\"a\"; a site may be there once");
}

static void a_blog_has_a_name_and_a_prefix_of_its_own_and_all_else_of_its_network(void **unused)
{
        (void)unused;
        struct config c;
        take_text(DB "wordpress \"n1234567890123456789012345678901234567890123456789012\" {\n"
                     " database = \"w\" prefix = \"p1234567890123456789012345678\"\n"
                     " network = true interval = \"7s\" }\n"
                     "wordpress \"own\" { database = \"w\" prefix = "
                     "\"p12345678901234567890123456787_\" }\n"
                     "wordpress \"n1234567890123456789012345678901234567890123456789012.8\" {\n"
                     " database = \"other\" }\n",
                  &c);
        const struct config_site *network = &c.sites.sites[0];
        assert_true(network->store.is_network);
        struct config_site *blog = config_site_of_blog(network, UINT32_MAX);
        assert_string_equal(blog->name,
                            "n1234567890123456789012345678901234567890123456789012.4294967295");
        assert_string_equal(blog->store.name, blog->name);
        assert_string_equal(blog->store.prefix, "p12345678901234567890123456784294967295_");
        assert_int_equal(strlen(blog->name), SITE_NAME_MAX);
        assert_int_equal(strlen(blog->prefix), SITE_PREFIX_MAX);
        assert_int_equal(blog->interval_ms, 7000);
        assert_ptr_equal(blog->store.login.database, network->store.login.database);
        assert_false(blog->is_network || blog->store.is_network);
        assert_false(config_sites_has(&c.sites, blog));
        (void)config_site_of_blog_free(blog);
        for (uint32_t id = 6; id <= 9; id++) { /* 7 by its tables, 8 by its name */
                blog = config_site_of_blog(network, id);
                assert_int_equal(config_sites_has(&c.sites, blog), id == 7 || id == 8);
                (void)config_site_of_blog_free(blog);
        }
        config_release(&c);
}

static void a_site_is_found_by_its_section_or_as_a_blog_of_a_network(void **unused)
{
        (void)unused;
        static const struct {
                const char *name, *prefix;
                bool is_blog;
        } cases[] = {
                {"net", "wp_", false},  {"net.7", "wp_7_", true}, {"net.2", "own_", false},
                {"one.x", "x_", false}, {"net.1", NULL, false},   {"net.07", NULL, false},
                {"net.x", NULL, false}, {"net.", NULL, false},    {"one.7", NULL, false},
                {"ne.7", NULL, false},  {"", NULL, false},        {"net.4294967296", NULL, false},
        };
        struct config c;
        take_text(DB "wordpress \"net\" { database = \"w\" network = true }\n"
                     "wordpress \"net.2\" { database = \"w\" prefix = \"own_\" }\n"
                     "wordpress \"one.x\" { database = \"w\" prefix = \"x_\" }\n"
                     "wordpress \"one\" { database = \"v\" }\n",
                  &c);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct config_site *blog;
                const struct config_site *site = config_sites_find(&c.sites, cases[i].name, &blog);
                assert_int_equal(site != NULL, cases[i].prefix != NULL);
                assert_int_equal(blog != NULL, cases[i].is_blog);
                if (site)
                        assert_string_equal(site->prefix, cases[i].prefix);
                (void)config_site_of_blog_free(blog); /* NULL */
        }
        config_release(&c);
}

static void there_are_at_most_32_sites(void **unused)
{
        (void)unused;
        struct config c;
        struct buf text;
        buf_init(&text, 0);
        buf_put_str(&text, DB);
        for (int i = 0; i < CONFIG_SITES_MAX; i++)
                buf_printf(&text, "wordpress \"s%d\" { database = \"w%d\" }\n", i, i);
        take_text(buf_cstr(&text), &c);
        assert_int_equal(c.sites.n, CONFIG_SITES_MAX);
        config_release(&c);
        buf_put_str(&text, "wordpress \"more\" { database = \"w\" }\n");
        refuse_text(buf_cstr(&text), "more than 32 wordpress sections");
        buf_release(&text);
}

static void a_guard_is_another_when_anything_it_uses_is(void **unused)
{
        (void)unused;
        static const char *const others[] = {
                "database = \"x\"",
                "database = \"w\" host = \"b\"",
                "database = \"w\" port = 1",
                "database = \"w\" user = \"u\"",
                "database = \"w\" password_env = \"HOME\"",
                "database = \"w\" tls = \"require\"",
                "database = \"w\" prefix = \"p_\"",
                "database = \"w\" network = true",
                "database = \"w\" interval = \"3s\"",
                "database = \"w\" timeout = \"3s\"",
                "database = \"w\" claim_timeout = \"3m\"",
                "database = \"w\" retention = \"3d\"",
                "database = \"w\" retention_failed = \"3d\"",
        };
        struct config a, same;
        take_text(DB "wordpress \"s\" { database = \"w\" }", &a);
        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
                struct config b;
                char text[200];
                (void)snprintf(text, sizeof(text), DB "wordpress \"s\" { %s }", others[i]);
                take_text(text, &b);
                if (config_site_is_same(&a.sites.sites[0], &b.sites.sites[0]))
                        fail_msg("%s makes no difference", others[i]);
                config_release(&b);
        }
        take_text("target \"t\" { kind = host }\n"
                  "wordpress \"s\" { database = \"w\" target = \"t\" mode = \"enforce\"\n"
                  " repair_lost = \"enforce\" }",
                  &same);
        assert_true(config_site_is_same(&a.sites.sites[0], &same.sites.sites[0]));
        config_release(&same);
        config_release(&a);
}

static void the_password_is_not_written(void **unused)
{
        (void)unused;
        struct config c;
        struct buf text;
        assert_int_equal(setenv("WEIR_TEST_PASSWORD", "geheim", 1), 0);
        take_text(DB "wordpress \"s\" { database = \"w\" password_env = \"WEIR_TEST_PASSWORD\" }",
                  &c);
        assert_string_equal(c.sites.sites[0].store.login.password, "geheim");
        buf_init(&text, 0);
        config_put(&c, true, &text);
        has(buf_cstr(&text), "password_env = \"WEIR_TEST_PASSWORD\"");
        assert_null(strstr(buf_cstr(&text), "geheim"));
        buf_release(&text);
        config_release(&c);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_site_is_taken_with_all_it_says),
                cmocka_unit_test(a_short_site_gets_the_defaults),
                cmocka_unit_test(times_below_a_second_are_rounded_up),
                cmocka_unit_test(a_site_that_is_off_needs_no_target),
                cmocka_unit_test(what_makes_no_sense_is_refused_with_its_place),
                cmocka_unit_test(
                        a_blog_has_a_name_and_a_prefix_of_its_own_and_all_else_of_its_network),
                cmocka_unit_test(a_site_is_found_by_its_section_or_as_a_blog_of_a_network),
                cmocka_unit_test(there_are_at_most_32_sites),
                cmocka_unit_test(a_guard_is_another_when_anything_it_uses_is),
                cmocka_unit_test(the_password_is_not_written),
        };
        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

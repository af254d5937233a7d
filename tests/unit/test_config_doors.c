/* The mysql and class sections of the configuration: what is taken, what is refused with its
 * place. */
#include "config_box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/config_text.h"

#define DB   "target \"db\" { kind = mysql }\n"
#define DOOR "mysql \"shop\" { listen = {\":3307\"} }\n"

static void a_door_is_taken_with_all_it_says(void **unused)
{
        (void)unused;
        struct config c;
        take_text(
                "mysql_threads = 3\n"
                "target \"box\" { kind = host }\n" DB "mysql \"shop\" {\n"
                " listen = {\"127.0.0.1:3307\", \"[::1]:3307\", \":0\", \"/run/m.sock\"}\n"
                " server = \"db.example:3310\" target = \"box\" mode = \"enforce\" wait = \"0s\"\n"
                " connect_timeout = \"500ms\" concurrency = 40 max_connections = 500\n"
                " max_user_connections = 50 comment_tiers = \"any\" tls = \"off\"\n"
                " server_tls = \"require\" proxy_protocol = true\n"
                " proxy_protocol_from = {\"10.0.0.0/8\", \"192.0.2.7\", \"2001:db8::/32\", "
                "\"unix\"}\n}\n",
                &c);
        assert_int_equal(c.mysql_threads, 3);
        assert_int_equal(c.doors.n, 1);
        const struct config_door *d = &c.doors.doors[0];
        assert_string_equal(d->name, "shop");
        assert_int_equal(d->n_listen, 4);
        assert_string_equal(d->listen[3], "/run/m.sock");
        assert_string_equal(d->server, "db.example:3310");
        assert_string_equal(d->target, "box");
        assert_int_equal(d->mode, MODE_ENFORCE);
        assert_int_equal(d->wait_ms, 0);
        assert_int_equal(d->connect_timeout_ms, 500);
        assert_int_equal(d->concurrency, 40);
        assert_int_equal(d->max_connections, 500);
        assert_int_equal(d->max_user_connections, 50);
        assert_int_equal(d->comment_tiers, 1);
        assert_int_equal(d->server_tls, 1);
        assert_true(d->sends_proxy);
        assert_int_equal(d->n_proxy_from, 4);
        assert_string_equal(d->proxy_from[2], "2001:db8::/32");
        config_release(&c);
}

static void a_short_door_gets_the_defaults(void **unused)
{
        (void)unused;
        struct config c;
        take_text("target \"box\" { kind = host }\n" DB "target \"db2\" { kind = mysql }\n" DOOR,
                  &c);
        const struct config_door *d = &c.doors.doors[0];
        assert_int_equal(c.mysql_threads, 0);
        assert_string_equal(d->server, "127.0.0.1:3306");
        assert_string_equal(d->target, "db"); /* the first of kind mysql */
        assert_int_equal(d->mode, MODE_OBSERVE);
        assert_int_equal(d->wait_ms, 2000);
        assert_int_equal(d->connect_timeout_ms, 3000);
        assert_int_equal(d->concurrency, 0);
        assert_int_equal(d->max_connections, 0);
        assert_int_equal(d->max_user_connections, 0);
        assert_int_equal(d->comment_tiers, 0);
        assert_int_equal(d->tls, 0);
        assert_int_equal(d->server_tls, 0);
        assert_null(d->tls_cert);
        assert_null(d->server_name);
        assert_int_equal(d->n_proxy_from, 0);
        assert_false(d->sends_proxy);
        config_release(&c);
}

static void a_door_can_be_without_a_target(void **unused)
{
        (void)unused;
        struct config c;
        take_text("target \"box\" { kind = host }\n" DOOR, &c);
        assert_string_equal(c.doors.doors[0].target, "");
        config_release(&c);
        take_text(DB "mysql \"a\" { listen = {\":1\"} target = \"\" }\n", &c);
        assert_string_equal(c.doors.doors[0].target, "");
        config_release(&c);
}

static void a_public_address_and_all_forms_of_addresses_are_taken(void **unused)
{
        (void)unused;
        static const char *const listens[] = {"0.0.0.0:3307", "[::]:3307",  "db.example:1",
                                              ":65535",       "/run/x/y.s", "localhost:0"};
        static const char *const servers[] = {"db",       "db:3306", "[::1]",        "[::1]:1",
                                              "10.0.0.1", "/run/s",  "a-b.c_d:65535"};
        struct config c;
        char text[300];
        for (size_t i = 0; i < ARRAY_LEN(listens); i++) {
                snprintf(text, sizeof(text), "mysql \"a\" { listen = {\"%s\"} }\n", listens[i]);
                take_text(text, &c);
                config_release(&c);
        }
        for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
                snprintf(text, sizeof(text), "mysql \"a\" { listen = {\":0\"} server = \"%s\" }\n",
                         servers[i]);
                take_text(text, &c);
                config_release(&c);
        }
}

static const struct {
        const char *body, *told;
} wrong_doors[] = {
        {"", "listen is missing: where MySQL clients connect, such as listen = "
             "{\"127.0.0.1:3307\"}"},
        {"listen = {\"3307\"}",
         "listen takes \"host:port\", \":port\" or the path of a unix socket, and an IPv6 "
         "address as \"[::1]:3307\", not '3307'"},
        {"listen = {\":65536\"}", "not ':65536'"},
        {"listen = {\"a:\"}", "not 'a:'"},
        {"listen = {\"::1:3307\"}", "not '::1:3307'"},
        {"listen = {\"[::g]:3307\"}", "not '[::g]:3307'"},
        {"listen = {\"a b:3307\"}", "not 'a b:3307'"},
        {"listen = {\":-1\"}", "not ':-1'"},
        {"listen = {\"tcp:run/mysql.sock\"}", "begins with / and has at most 107 bytes"},
        {"listen = {\":1\", \"127.0.0.1:1\"}",
         "listen: mysql \"shop\" has '127.0.0.1:1' already; an address may be there once"},
        {"listen = {\":1\"} server = \"\"",
         "server takes \"host:port\", \"host\" or the path of a unix socket, and an IPv6 "
         "address as \"[::1]:3306\", not ''"},
        {"listen = {\":1\"} server = \":3306\"", "not ':3306'"},
        {"listen = {\":1\"} server = \"db:0\"", "not 'db:0'"},
        {"listen = {\":1\"} server = \"db:\"", "not 'db:'"},
        {"listen = {\":3306\"}", "server '127.0.0.1:3306' is where the door itself listens"},
        {"listen = {\":3306\"} server = \"localhost\"", "is where the door itself listens"},
        {"listen = {\":1\"} target = \"nodb\"", "target 'nodb' is not in this file; it has 'db'"},
        {"listen = {\":1\"} mode = \"test_observe\"",
         "mode must be off, observe or enforce, not 'test_observe'"},
        {"listen = {\":1\"} wait = \"61s\"", "wait must be 0s to 1m, not '61s'"},
        {"listen = {\":1\"} wait = \"soon\"", "wait"},
        {"listen = {\":1\"} connect_timeout = \"99ms\"",
         "connect_timeout must be 100ms to 1m, not '99ms'"},
        {"listen = {\":1\"} concurrency = -1",
         "concurrency must be 0 (no limit) to 100000, not -1"},
        {"listen = {\":1\"} max_connections = 1000001", "max_connections must be 0"},
        {"listen = {\":1\"} max_user_connections = -5", "max_user_connections must be 0"},
        {"listen = {\":1\"} comment_tiers = \"raise\"",
         "comment_tiers must be lower or any, not 'raise'"},
        {"listen = {\":1\"} tls = \"on\"", "tls must be off, terminate or blind, not 'on'"},
        {"listen = {\":1\"} tls = \"terminate\"", "tls terminate needs tls_cert and tls_key"},
        {"listen = {\":1\"} tls = \"terminate\" tls_cert = \"/x\"",
         "tls_cert and tls_key go together: tls_key is missing"},
        {"listen = {\":1\"} tls = \"terminate\" tls_key = \"/x\"", "tls_cert is missing"},
        {"listen = {\":1\"} tls = \"terminate\" tls_cert = \"/no/c\" tls_key = \"/no/k\"", "/no/c"},
        {"listen = {\":1\"} tls_cert = \"/x\"", "tls_cert needs tls = \"terminate\""},
        {"listen = {\":1\"} tls = \"blind\" tls_key = \"/x\"", "tls_key needs tls = \"terminate\""},
        {"listen = {\":1\"} server_tls = \"off\"",
         "server_tls must be as_client, require or verify, not 'off'"},
        {"listen = {\":1\"} server_tls = \"verify\"", "server_tls verify needs server_ca"},
        {"listen = {\":1\"} server_tls = \"verify\" server_ca = \"/no/ca\"", "server_ca /no/ca"},
        {"listen = {\":1\"} server_ca = \"/x\"", "server_ca needs server_tls = \"verify\""},
        {"listen = {\":1\"} server_name = \"db\"", "server_name needs server_tls = \"verify\""},
        {"listen = {\":1\"} server = \"/run/s\" server_tls = \"require\"",
         "server_tls require is for a host"},
        {"listen = {\":1\"} tls = \"blind\" server_tls = \"require\"",
         "server_tls require makes no sense with tls = \"blind\""},
        {"listen = {\":1\"} proxy_protocol_from = {\"10.0.0.0/33\"}",
         "proxy_protocol_from takes an address or a network such as \"10.0.0.0/8\" or "
         "\"2001:db8::/32\", or \"unix\", not '10.0.0.0/33'"},
        {"listen = {\":1\"} proxy_protocol_from = {\"proxy.example\"}", "not 'proxy.example'"},
        {"listen = {\":1\"} proxy_protocol_from = {\"::1/129\"}", "not '::1/129'"},
        {"listen = {\":1\"} proxy_protocol_from = {\"\"}", "not ''"},
        {"listen = {\":1\"} proxy_protocol_from = {\"10.0.0.1/8\"}",
         "proxy_protocol_from: '10.0.0.1/8' has bits beyond its first 8"},
        {"listen = {\":1\"} password = \"x\"", "password"},
        {"listen = {\":1\"} listn = \"x\"", "did you mean 'listen'?"},
};

static void a_wrong_door_is_refused_with_its_place(void **unused)
{
        (void)unused;
        char text[400], told[300];
        for (size_t i = 0; i < ARRAY_LEN(wrong_doors); i++) {
                snprintf(text, sizeof(text), DB "\nmysql \"shop\" { %s }\n", wrong_doors[i].body);
                refuse_text(text, wrong_doors[i].told);
                refuse_text(text, "conf:3: ");
        }
        snprintf(told, sizeof(told), "conf:2: mysql \"x/y\": a door needs a name of 1 to %d bytes",
                 PROBE_NAME_MAX);
        refuse_text("\nmysql \"x/y\" { listen = {\":1\"} }\n", told);
        refuse_text("mysql \"a\" { listen = {\":3307\", \"/run/s\"} }\n"
                    "mysql \"b\" {\n listen = {\":1\",\"localhost:3307\"} }\n",
                    "conf:3: mysql \"b\": listen: mysql \"a\" has 'localhost:3307' already");
        refuse_text(
                "mysql \"a\" { listen = {\"/run/s\"} }\nmysql \"b\" { listen = {\"/run/s\"} }\n",
                "mysql \"a\" has '/run/s' already");
        refuse_text("mysql_threads = 65\n",
                    "conf:1: mysql_threads must be 0 (one per processor) to 64, not 65");
}

static void several_doors_may_listen_on_any_free_port(void **unused)
{
        (void)unused;
        struct config c;
        take_text("mysql \"a\" { listen = {\":0\", \":0\"} }\n"
                  "mysql \"b\" { listen = {\":0\", \"127.0.0.1:1\", \"127.0.0.2:1\"} }\n",
                  &c);
        assert_int_equal(c.doors.n, 2);
        config_release(&c);
}

static void there_are_bounds_for_doors_and_classes(void **unused)
{
        (void)unused;
        char *text = calloc(1, 40000);
        size_t n = 0;
        for (int i = 0; i <= CONFIG_DOORS_MAX; i++)
                n += (size_t)sprintf(text + n, "mysql \"d%d\" { listen = {\":0\"} }\n", i);
        refuse_text(text, "more than 16 mysql sections");
        n = 0;
        for (int i = 0; i <= CONFIG_CLASSES_MAX; i++)
                n += (size_t)sprintf(text + n, "class \"c%d\" { user = \"u%d\" }\n", i, i);
        refuse_text(text, "more than 256 class sections");
        n = (size_t)sprintf(text, "mysql \"d\" {\n listen = {\":0\"");
        for (int i = 0; i < SETTING_LIST_MAX; i++)
                n += (size_t)sprintf(text + n, ", \":0\"");
        (void)sprintf(text + n, "} }\n");
        refuse_text(text, "conf:2: mysql \"d\": listen: more than 16");
        free(text);
}

static void a_class_is_taken_with_all_it_says(void **unused)
{
        (void)unused;
        struct config c;
        take_text(DOOR "class \"etl\" { mysql = \"shop\" user = \"etl*\" database = \"shop_?\"\n"
                       " program = \"pt-archiver\" comment = \"application=shop*\"\n"
                       " address = \"10.0.0.0/8\" digest = \"0123456789abcdef\"\n"
                       " statements = \"write\" identity = \"nightly:etl\" tier = \"deferrable\"\n"
                       " mode = \"enforce\" wait = \"0s\" error = 1205 concurrency = 2\n"
                       " rate = 0.5 time_budget = \"200ms\" }\n"
                       "class \"rest\" { user = \"*\" }\n",
                  &c);
        assert_int_equal(c.doors.n_classes, 2);
        const struct config_class *e = &c.doors.classes[0], *rest = &c.doors.classes[1];
        assert_string_equal(e->name, "etl");
        assert_string_equal(e->door, "shop");
        assert_string_equal(e->user, "etl*");
        assert_string_equal(e->database, "shop_?");
        assert_string_equal(e->program, "pt-archiver");
        assert_string_equal(e->comment, "application=shop*");
        assert_string_equal(e->address, "10.0.0.0/8");
        assert_string_equal(e->digest, "0123456789abcdef");
        assert_int_equal(e->statements, 2);
        assert_string_equal(e->identity, "nightly:etl");
        assert_int_equal(e->tier, TIER_DEFERRABLE);
        assert_int_equal(e->mode, MODE_ENFORCE);
        assert_int_equal(e->wait_ms, 0);
        assert_string_equal(setting_table[SET_CLASS_error].choices[e->error], "1205");
        assert_int_equal(e->concurrency, 2);
        assert_true(e->rate == 0.5);
        assert_int_equal(e->budget_ms, 200);
        assert_null(rest->door);
        assert_null(rest->identity);
        assert_int_equal(rest->tier, -1);
        assert_int_equal(rest->mode, -1);
        assert_int_equal(rest->wait_ms, -1);
        assert_string_equal(setting_table[SET_CLASS_error].choices[rest->error], "1213");
        assert_true(rest->rate == 0);
        assert_int_equal(rest->budget_ms, 0);
        config_release(&c);
}

static const struct {
        const char *body, *told;
} wrong_classes[] = {
        {"", "nothing says which transactions it is for: give user, database, program, "
             "comment, address, digest or statements; user = \"*\" is for all"},
        {"mysql = \"shop\" tier = \"high\"", "nothing says which transactions"},
        {"statements = \"any\"", "nothing says which transactions"},
        {"user = \"\"", "user is empty: leave it out instead"},
        {"user = \"u\" identity = \"\"", "identity is empty: leave it out instead"},
        {"identity = \"a\"", "nothing says which transactions"},
        {"user = \"u\" mysql = \"shp\"", "mysql 'shp' is not in this file; it has 'shop'"},
        {"user = \"u\" comment = \"\"", "comment is empty"},
        {"address = \"10.0.0.0/99\"", "address '10.0.0.0/99' is no network; write"},
        {"digest = \"select\"", "digest 'select' is not 16 hex digits"},
        {"statements = \"ddl\"", "statements must be any, read or write, not 'ddl'"},
        {"user = \"u\" identity = \"all\"", "identity: "},
        {"user = \"u\" identity = \"a b\"", "identity: "},
        {"user = \"u\" identity = \"a:b:c:d:e:f:g:h:i\"", "identity: "},
        {"user = \"u\" tier = \"low\"",
         "tier must be critical, high, normal or deferrable, not 'low'"},
        {"user = \"u\" mode = \"on\"", "mode must be off, observe or enforce, not 'on'"},
        {"user = \"u\" wait = \"2m\"", "wait must be 0s to 1m, not '2m'"},
        {"user = \"u\" error = 1064",
         "error must be 1213, 1205, 1041, 1040, 1226 or 3024, not '1064'"},
        {"user = \"u\" concurrency = 100001", "concurrency must be 0 (no limit) to 100000"},
        {"user = \"u\" rate = -0.5", "rate must be 0 (no limit) to 1000000, not -0.5"},
        {"user = \"u\" time_budget = \"11m\"", "time_budget must be 0s to 10m, not '11m'"},
        {"user = \"u\" time_budget = 200", "time_budget"},
        {"user = \"u\" usr = \"v\"", "did you mean 'user'?"},
};

static void a_class_becomes_a_row_of_the_proxy(void **unused)
{
        (void)unused;
        struct config c;
        take_text(DOOR
                  "class \"etl\" { mysql = \"shop\" user = \"e*\" digest = \"0123456789abcdef\"\n"
                  " identity = \"a:b\" tier = \"high\" statements = \"read\" rate = 2\n"
                  " time_budget = \"3s\" concurrency = 4 wait = \"5s\" error = 1040 }\n"
                  "class \"web\" { program = \"php\" }\n",
                  &c);
        struct class_row row = config_class_row(&c.doors.classes[0]);
        assert_true(slice_eq(row.name, SLICE_LIT("etl")));
        assert_true(slice_eq(row.door, SLICE_LIT("shop")));
        assert_true(slice_eq(row.user, SLICE_LIT("e*")));
        assert_true(slice_eq(row.digest, SLICE_LIT("0123456789abcdef")));
        assert_true(slice_eq(row.identity, SLICE_LIT("a:b")));
        assert_int_equal(row.program.len, 0);
        assert_int_equal(row.tier, TIER_HIGH);
        assert_int_equal(row.mode, -1);
        assert_int_equal(row.statements, CLASS_STATEMENTS_READ);
        assert_int_equal(row.wait_ms, 5000);
        assert_int_equal(row.error, 1040);
        assert_string_equal(row.sqlstate, "08004");
        assert_int_equal(row.concurrency, 4);
        assert_true(row.rate == 2);
        assert_int_equal(row.time_budget_ms, 3000);
        row = config_class_row(&c.doors.classes[1]);
        assert_int_equal(row.door.len, 0);
        assert_int_equal(row.tier, -1);
        assert_int_equal(row.wait_ms, -1);
        assert_int_equal(row.error, 1213);
        assert_string_equal(row.sqlstate, "40001");
        for (int i = 0; i < 3; i++)
                assert_string_equal(class_statements_name((enum class_statements)i),
                                    setting_table[SET_CLASS_statements].choices[i]);
        config_release(&c);
}

static void a_wrong_class_is_refused_with_its_place(void **unused)
{
        (void)unused;
        char text[400];
        for (size_t i = 0; i < ARRAY_LEN(wrong_classes); i++) {
                snprintf(text, sizeof(text), DOOR "\nclass \"etl\" { %s }\n",
                         wrong_classes[i].body);
                refuse_text(text, wrong_classes[i].told);
                refuse_text(text, "conf:3: ");
        }
        refuse_text("class \"a b\" { user = \"u\" }\n",
                    "class \"a b\": 'a b' is no name for a class");
        refuse_text("class \"x/y\" { user = \"u\" }\n", "conf:1: class \"x/y\": a class needs");
        refuse_text("class \"a\" { user = \"u\"\n mysql = \"shop\" }\n",
                    "conf:2: class \"a\": mysql 'shop' is not in this file; it has no mysql "
                    "section");
}

static void what_is_written_says_it_in_one_way(void **unused)
{
        (void)unused;
        struct config c;
        struct problem problem = {0};
        struct buf text CLEANUP(buf_release) = {0};
        take_text(DOOR "mysql \"b\" { listen = {\":1\"} target = \"\" wait = \"1500ms\"\n"
                       " proxy_protocol_from = {\"::1\"} }\n"
                       "class \"etl\" { user = \"e\\$\" error = 1041 rate = 2.5 wait = \"1s\" }\n",
                  &c);
        assert_int_equal(config_finish(&c, &problem), OK);
        config_put(&c, false, &text);
        assert_string_equal(buf_cstr(&text), "mysql \"shop\" {\n"
                                             "        listen = {\":3307\"}\n"
                                             "        target = \"\"\n"
                                             "}\n"
                                             "\n"
                                             "mysql \"b\" {\n"
                                             "        listen = {\":1\"}\n"
                                             "        target = \"\"\n"
                                             "        wait = \"1s500ms\"\n"
                                             "        proxy_protocol_from = {\"::1\"}\n"
                                             "}\n"
                                             "\n"
                                             "class \"etl\" {\n"
                                             "        user = \"e\\$\"\n"
                                             "        wait = \"1s\"\n"
                                             "        error = \"1041\"\n"
                                             "        rate = 2.5\n"
                                             "}\n");
        config_release(&c);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_door_is_taken_with_all_it_says),
                cmocka_unit_test(a_short_door_gets_the_defaults),
                cmocka_unit_test(a_door_can_be_without_a_target),
                cmocka_unit_test(a_public_address_and_all_forms_of_addresses_are_taken),
                cmocka_unit_test(a_wrong_door_is_refused_with_its_place),
                cmocka_unit_test(several_doors_may_listen_on_any_free_port),
                cmocka_unit_test(there_are_bounds_for_doors_and_classes),
                cmocka_unit_test(a_class_is_taken_with_all_it_says),
                cmocka_unit_test(a_class_becomes_a_row_of_the_proxy),
                cmocka_unit_test(a_wrong_class_is_refused_with_its_place),
                cmocka_unit_test(what_is_written_says_it_in_one_way),
        };
        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

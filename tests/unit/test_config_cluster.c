/* The cluster section of the configuration: what is taken, what is refused with its place. */
#include "config_box.h"

#include <stdio.h>
#include <string.h>

#include "serve/config_text.h"

static char secret[TEMP_DIR_SIZE + 40], password[TEMP_DIR_SIZE + 40];

static int begin(void **unused)
{
        (void)make_folder(unused); /* 0 */
        (void)snprintf(password, sizeof(password), "%s", write_file("password", "geheim\n", 0600));
        (void)snprintf(secret, sizeof(secret), "%s",
                       write_file("secret", "0123456789abcdef0123456789abcdef\n", 0600));
        return 0;
}

static const char *with(const char *rest)
{
        static char text[2000];
        (void)snprintf(text, sizeof(text), "cluster { secret_file = \"%s\"\n%s }\n", secret, rest);
        return text;
}

static void a_cluster_is_taken_with_all_it_says(void **unused)
{
        (void)unused;
        struct config c;
        char rest[1000];
        (void)snprintf(rest, sizeof(rest),
                       "kind = \"mysql\" hosts = {\"db1:3307\", \"db2\", \"[::1]:3308\"}\n"
                       "database = \"w\" user = \"u\" password_file = \"%s\" tls = \"require\"\n"
                       "durability = \"single\" node = \"a-1.x_y\" address = \"weir1:7379\"\n"
                       "priority = 70 lease = \"12s\"",
                       password);
        take_text(with(rest), &c);
        const struct config_cluster *k = &c.cluster;
        assert_true(k->is_given);
        assert_int_equal(k->kind, CLUSTER_MYSQL);
        assert_int_equal(k->ledger.n_logins, 3);
        static const struct {
                const char *host;
                int port;
        } wanted[] = {{"db1", 3307}, {"db2", 3306}, {"::1", 3308}};
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
                assert_string_equal(k->ledger.logins[i].server.host, wanted[i].host);
                assert_int_equal(k->ledger.logins[i].server.port, wanted[i].port);
                assert_string_equal(k->ledger.logins[i].user, "u");
                assert_string_equal(k->ledger.logins[i].password, "geheim");
                assert_string_equal(k->ledger.logins[i].database, "w");
                assert_int_equal(k->ledger.logins[i].tls.mode, SQL_TLS_REQUIRE);
        }
        assert_int_equal(k->ledger.durability, LEDGER_SINGLE);
        assert_string_equal(k->ledger.space, "default");
        assert_string_equal(k->node, "a-1.x_y");
        assert_string_equal(k->secret, "0123456789abcdef0123456789abcdef");
        assert_int_equal(k->priority, 70);
        assert_int_equal(k->lease_ms, 12000);
        config_release(&c);
}

static void a_short_cluster_gets_the_defaults(void **unused)
{
        (void)unused;
        struct config c;
        take_text(with("kind = postgres hosts = {\"db\", \"/run\"} address = \"weir1:7379\" "
                       "node = \"a\""),
                  &c);
        const struct config_cluster *k = &c.cluster;
        assert_int_equal(k->ledger.logins[0].server.port, 5432);
        assert_string_equal(k->ledger.logins[1].server.host, "/run");
        assert_string_equal(k->ledger.logins[0].database, "weir");
        assert_string_equal(k->ledger.logins[0].user, "weir");
        assert_null(k->ledger.logins[0].password);
        assert_int_equal(k->ledger.logins[0].tls.mode, SQL_TLS_PREFER);
        assert_int_equal(k->ledger.durability, LEDGER_REPLICATED);
        assert_int_equal(k->priority, 50);
        assert_int_equal(k->lease_ms, 0);
        struct buf text CLEANUP(buf_release) = {0};
        config_put(&c, false, &text);
        has(buf_cstr(&text), "cluster {");
        assert_null(strstr(buf_cstr(&text), "0123456789abcdef"));
        config_release(&c);
        take_text("", &c);
        assert_false(c.cluster.is_given);
        config_release(&c);
}

static void what_makes_no_sense_is_refused(void **unused)
{
        (void)unused;
#define GOOD "kind = postgres hosts = {\"db\"} address = \"weir1:7379\" node = \"a\" "
        refuse_text(with("hosts = {\"db\"}"), "cluster: kind is missing");
        refuse_text(with("kind = postgres"), "cluster: hosts is missing");
        refuse_text(with("kind = oracle"), "kind");
        refuse_text(with("kind = postgres hosts = {\"db\"} node = \"a\""), "address is missing");
        refuse_text(with("kind = postgres hosts = {\"db:0\"}"), "'db:0' has no port");
        refuse_text(with("kind = postgres hosts = {\"db:x\"}"), "'db:x' has no port");
        refuse_text(with("kind = postgres hosts = {\":5432\"}"), "not ':5432'");
        refuse_text(with("kind = postgres hosts = {\"[]:5432\"}"), "not '[]:5432'");
        refuse_text(with(GOOD "node = \"a b\""), "node must be 1 to 64 letters");
        refuse_text(with(GOOD "address = \"/run/weir\""), "address must be a host and a port");
        refuse_text(with(GOOD "address = \"redis://:token@weir1:7379\""), "without a token");
        refuse_text(with(GOOD "address = \"weir1:99999\""), "address: ");
        refuse_text(with(GOOD "priority = 101"), "priority");
        refuse_text(with(GOOD "lease = \"1s\""), "lease");
        refuse_text("cluster { " GOOD "}", "secret_file is missing");
        (void)write_file("short", "0123456789\n", 0600);
        char text[2000];
        (void)snprintf(text, sizeof(text), "cluster { " GOOD "secret_file = \"%s/short\" }",
                       config_folder);
        refuse_text(text, "one line of 22 to 512 characters");
#undef GOOD
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_cluster_is_taken_with_all_it_says),
                cmocka_unit_test(a_short_cluster_gets_the_defaults),
                cmocka_unit_test(what_makes_no_sense_is_refused),
        };
        return cmocka_run_group_tests(tests, begin, remove_folder);
}

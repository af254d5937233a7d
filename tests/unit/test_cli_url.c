/* Addresses of a server, in every form people write. */
#include "check.h"

#include "wire/server_url.h"

static void tcp_addresses_in_all_forms(void **state)
{
        static const struct {
                const char *text, *host, *token, *shown;
                unsigned port;
        } rows[] = {
                {"127.0.0.1:7379", "127.0.0.1", "", "127.0.0.1:7379", 7379},
                {"example.org", "example.org", "", "example.org:7379", 7379},
                {":9000", "127.0.0.1", "", "127.0.0.1:9000", 9000},
                {"[::1]:9000", "::1", "", "[::1]:9000", 9000},
                {"[::1]", "::1", "", "[::1]:7379", 7379},
                {"::1", "::1", "", "[::1]:7379", 7379},
                {"redis://h", "h", "", "h:7379", 7379},
                {"redis://h:1/", "h", "", "h:1", 1},
                {"redis://h:65535/0", "h", "", "h:65535", 65535},
                {"weir://h:5", "h", "", "h:5", 5},
                {"redis://:secret@h:5", "h", "secret", "h:5", 5},
                {"redis://user:secret@[::1]:5", "::1", "secret", "[::1]:5", 5},
                {"redis://:a%2Fb%40c@h", "h", "a/b@c", "h:7379", 7379},
                {"redis://:a@b@h", "h", "a@b", "h:7379", 7379},
                {"redis://:%41@h", "h", "A", "h:7379", 7379},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct server_url u;
                struct problem p;
                assert_int_equal(server_url_parse(rows[i].text, &u, &p), OK);
                assert_false(u.is_unix);
                assert_string_equal(u.host, rows[i].host);
                assert_string_equal(u.token, rows[i].token);
                assert_string_equal(u.text, rows[i].shown);
                assert_int_equal(u.port, rows[i].port);
        }
}

static void unix_sockets_in_all_forms(void **state)
{
        static const char *const forms[][2] = {{"unix:/run/weir.sock", "/run/weir.sock"},
                                               {"unix:///run/weir.sock", "/run/weir.sock"},
                                               {"/run/weir.sock", "/run/weir.sock"},
                                               {"./weir.sock", "./weir.sock"},
                                               {"unix:weir.sock", "weir.sock"}};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
                struct server_url u;
                struct problem p;
                assert_int_equal(server_url_parse(forms[i][0], &u, &p), OK);
                assert_true(u.is_unix);
                assert_string_equal(u.path, forms[i][1]);
        }
}

static void a_path_may_have_107_bytes_and_no_more(void **state)
{
        char text[128];
        struct server_url u;
        struct problem p;
        (void)state;
        memset(text, 'x', sizeof(text));
        text[0] = '/';
        text[107] = '\0';
        assert_int_equal(server_url_parse(text, &u, &p), OK);
        text[107] = 'x';
        text[108] = '\0';
        assert_int_equal(server_url_parse(text, &u, &p), ERR_BADARG);
}

static void an_http_address_is_answered_with_the_one_that_is_meant(void **state)
{
        struct server_url u;
        struct problem p;
        (void)state;
        assert_int_equal(server_url_parse("http://127.0.0.1:7380", &u, &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "redis://"));
        assert_int_equal(server_url_parse("https://x", &u, &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "redis://"));
}

static void other_addresses_are_refused(void **state)
{
        static const char *const bad[] = {"",
                                          "ftp://h",
                                          "rediss://h",
                                          "h:0",
                                          "h:65536",
                                          "h:x",
                                          "h:",
                                          "[::1",
                                          "[::1]x",
                                          "redis://token@h",
                                          "redis://h/3",
                                          "redis://:%4@h",
                                          "redis://:%zz@h",
                                          "redis://:a%00b@h",
                                          "unix:"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct server_url u;
                struct problem p = {0};
                assert_int_equal(server_url_parse(bad[i], &u, &p), ERR_BADARG);
                assert_true(p.detail[0] != '\0');
        }
}

static void a_token_is_never_shown(void **state)
{
        struct server_url u;
        struct problem p;
        (void)state;
        assert_int_equal(server_url_parse("redis://:hunter2@h:5", &u, &p), OK);
        assert_null(strstr(u.text, "hunter2"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(tcp_addresses_in_all_forms),
                cmocka_unit_test(unix_sockets_in_all_forms),
                cmocka_unit_test(a_path_may_have_107_bytes_and_no_more),
                cmocka_unit_test(an_http_address_is_answered_with_the_one_that_is_meant),
                cmocka_unit_test(other_addresses_are_refused),
                cmocka_unit_test(a_token_is_never_shown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Addresses of a server, in every form people write. */
#include "check.h"

#include <stdlib.h>

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
        assert_non_null(strstr(p.detail, "rediss://"));
}

static void other_addresses_are_refused(void **state)
{
        static const char *const bad[] = {"",
                                          "ftp://h",
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
                                          "redis://h?ca=x",
                                          "redis://a%:b@h",
                                          "rediss://token@h",
                                          "rediss://h:0",
                                          "rediss://h/3?ca=x",
                                          "rediss://h?ca",
                                          "rediss://h?ca=",
                                          "rediss://h?ca=a&ca=b",
                                          "rediss://h?ca=%4",
                                          "rediss://h?x=1",
                                          "rediss://h?&",
                                          "rediss://h?verify=no",
                                          "rediss://h?verify=OFF",
                                          "rediss://h?verify=off%00",
                                          "redissss://h",
                                          "unix:"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct server_url u;
                struct problem p = {0};
                assert_int_equal(server_url_parse(bad[i], &u, &p), ERR_BADARG);
                assert_true(p.detail[0] != '\0');
        }
}

/* ---- users ---- */

static void a_user_is_sent_before_the_token(void **state)
{
        static const struct {
                const char *text, *words[3];
        } rows[] = {
                {"redis://h", {0}},
                {"redis://:t@h", {"AUTH", "t", NULL}},
                {"redis://ci:t@h", {"AUTH", "ci", "t"}},
                {"rediss://c%69:t%3A@h", {"AUTH", "ci", "t:"}},
                {"redis://ci:a:b@h", {"AUTH", "ci", "a:b"}},
                {"redis://ci:@h", {"AUTH", "ci", ""}},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct slice words[SERVER_AUTH_WORDS];
                struct server_url u;
                struct problem p;
                size_t n = 0;
                assert_int_equal(server_url_parse(rows[i].text, &u, &p), OK);
                while (n < 3 && rows[i].words[n])
                        n++;
                assert_int_equal(server_url_auth(&u, words), n);
                for (size_t k = 0; k < n; k++)
                        assert_true(slice_eq(words[k], slice_str(rows[i].words[k])));
        }
}

static void a_user_may_have_255_bytes_and_no_more(void **state)
{
        char text[300] = "redis://";
        struct server_url u;
        struct problem p;
        (void)state;
        memset(text + 8, 'u', 256);
        memcpy(text + 8 + 255, ":t@h", 5);
        assert_int_equal(server_url_parse(text, &u, &p), OK);
        assert_int_equal(strlen(u.user), 255);
        memset(text + 8, 'u', 256);
        memcpy(text + 8 + 256, ":t@h", 5);
        assert_int_equal(server_url_parse(text, &u, &p), ERR_BADARG);
}

/* ---- TLS ---- */

static const char *const variables[] = {"WEIR_TLS_CA", "WEIR_TLS_CERT", "WEIR_TLS_KEY",
                                        "WEIR_TLS_NAME", "WEIR_TLS_VERIFY"};

static int forget_environment(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(variables); i++)
                (void)unsetenv(variables[i]);
        return 0;
}

/* What the url says when the environment has had its word. */
static void expect_url(const char *text, const char *wanted)
{
        struct buf b CLEANUP(buf_release) = {0};
        struct server_url u, again;
        struct problem p = {0};
        int r = server_url_parse(text, &u, &p);
        if (r == OK)
                r = server_url_add_env(&u, &p);
        if (r != OK)
                fail_msg("%s: %s", text, p.detail);
        server_url_put(&b, &u);
        assert_string_equal(buf_cstr(&b), wanted);
        assert_int_equal(server_url_parse(buf_cstr(&b), &again, &p), OK);
        assert_memory_equal(&u.tls, &again.tls, sizeof(u.tls));
}

static void tls_addresses_have_their_port_and_options(void **state)
{
        struct server_url u;
        struct problem p;
        (void)state;
        assert_int_equal(server_url_parse("redis://h", &u, &p), OK);
        assert_false(u.is_tls);
        assert_int_equal(server_url_parse("weirs://:t@[::1]", &u, &p), OK);
        assert_true(u.is_tls && server_url_is_verified(&u));
        assert_int_equal(u.port, SERVER_PORT_TLS_DEFAULT);
        assert_string_equal(u.text, "[::1]:7381");
        assert_int_equal(server_url_parse("rediss://u:t@h:5/0?cert=%2fa&verify=off", &u, &p), OK);
        assert_string_equal(u.tls.cert, "/a");
        assert_false(server_url_is_verified(&u));
        expect_url("h:5", "h:5");
        expect_url("unix:/x", "/x");
        expect_url("rediss://u:t@h", "rediss://h:7381");
        expect_url("rediss://h?", "rediss://h:7381");
        expect_url("rediss://h?ca=/a b%26@c?&verify=on&name=n",
                   "rediss://h:7381?ca=/a%20b%26%40c%3F&name=n&verify=on");
        expect_url("weirs://h:1/?key=k&cert=c", "rediss://h:1?cert=c&key=k");
}

static void the_environment_fills_in_what_the_url_leaves_out(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(variables); i++)
                assert_int_equal(setenv(variables[i], i == 4 ? "off" : "/e", 1), 0);
        expect_url("rediss://h", "rediss://h:7381?ca=/e&cert=/e&key=/e&name=/e&verify=off");
        expect_url("rediss://h?ca=u&verify=on",
                   "rediss://h:7381?ca=u&cert=/e&key=/e&name=/e&verify=on");
        expect_url("redis://h", "h:7379");
        assert_int_equal(setenv("WEIR_TLS_CA", "", 1), 0);
        expect_url("rediss://h", "rediss://h:7381?cert=/e&key=/e&name=/e&verify=off");
}

static void wrong_options_are_refused_with_what_is_allowed(void **state)
{
        char longest[SERVER_FILE_SIZE + 1];
        struct server_url u;
        struct problem p = {0};
        (void)state;
        assert_int_equal(server_url_parse("rediss://h?cipher=x", &u, &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "ca, cert, key, name and verify"));
        assert_int_equal(server_url_parse("rediss://h?verify=0", &u, &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "on or off"));
        assert_int_equal(server_url_parse("rediss://h?key=k", &u, &p), OK);
        assert_int_equal(server_url_add_env(&u, &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "WEIR_TLS_CERT"));
        assert_int_equal(server_url_parse("rediss://h", &u, &p), OK);
        assert_int_equal(setenv("WEIR_TLS_VERIFY", "true", 1), 0);
        assert_int_equal(server_url_add_env(&u, &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "WEIR_TLS_VERIFY is 'true'"));
        (void)unsetenv("WEIR_TLS_VERIFY");
        memset(longest, 'x', sizeof(longest));
        longest[SERVER_FILE_SIZE] = '\0';
        assert_int_equal(setenv("WEIR_TLS_CA", longest, 1), 0);
        assert_int_equal(server_url_add_env(&u, &p), ERR_BADARG);
        assert_int_equal(setenv("WEIR_TLS_CA", longest + 1, 1), 0);
        assert_int_equal(server_url_add_env(&u, &p), OK);
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
                cmocka_unit_test(a_user_is_sent_before_the_token),
                cmocka_unit_test(a_user_may_have_255_bytes_and_no_more),
                cmocka_unit_test_setup(tls_addresses_have_their_port_and_options,
                                       forget_environment),
                cmocka_unit_test_setup(the_environment_fills_in_what_the_url_leaves_out,
                                       forget_environment),
                cmocka_unit_test_setup(wrong_options_are_refused_with_what_is_allowed,
                                       forget_environment),
                cmocka_unit_test(a_token_is_never_shown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

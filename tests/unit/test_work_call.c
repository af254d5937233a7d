/* The address and the signature of a request. */
#include "check.h"

#include <stdio.h>

#include "work/call.h"
#include "work/sign.h"

#include "../../src/work/call.c" /* NOLINT(bugprone-suspicious-include) */

static struct job job_of(const char *hook, const char *group)
{
        struct job j = {.id = 17, .attempt = 2, .fence = 5};
        (void)snprintf(j.hook, sizeof(j.hook), "%s", hook);
        (void)snprintf(j.queue, sizeof(j.queue), "%s", "q");
        (void)snprintf(j.group, sizeof(j.group), "%s", group);
        return j;
}

/* The address, or NULL when it is refused. */
static const char *url_of(const char *url, const char *host, const char *hook, const char *group,
                          struct buf *b)
{
        struct handler h;
        struct job j = job_of(hook, group);
        struct problem p;
        handler_init(&h);
        h.url = xstrdup(url);
        if (host)
                words_add(&h.hosts, host);
        buf_clear(b);
        int r = call_url(&h, &j, b, &p);
        handler_release(&h);
        return r == OK ? buf_cstr(b) : NULL;
}

static void values_are_encoded_and_cannot_leave_their_place(void **state)
{
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        assert_string_equal(url_of("http://h/{hook}/{id}?a={attempt}&f={fence}&q={queue}", NULL,
                                   "a/b?c#d e%&=\xc3\xbc~-._", "", &b),
                            "http://h/a%2Fb%3Fc%23d%20e%25%26%3D%C3%BC~-._/17?a=2&f=5&q=q");
        assert_string_equal(url_of("https://h:8443/{x}{hook", NULL, "a", "", &b),
                            "https://h:8443/{x}{hook");
        assert_string_equal(url_of("http://h", NULL, "a", "", &b), "http://h");
        assert_string_equal(url_of("http://h?{hook}", NULL, "..", "", &b), "http://h?..");
        assert_string_equal(url_of("http://[::1]:80/", NULL, "a", "", &b), "http://[::1]:80/");
        assert_string_equal(url_of("http://h/a{hook}", NULL, "..", "", &b), "http://h/a..");
        assert_null(url_of("http://h/{hook}", NULL, "..", "", &b));
        assert_null(url_of("http://h/{hook}/x", NULL, ".", "", &b));
        assert_null(url_of("http://h/{hook}{group}?x", NULL, ".", ".", &b));
        buf_release(&b);
}

static void a_host_from_a_job_must_be_a_name_of_the_list(void **state)
{
        static const char *const bad[] = {"",    "a@b", "a/b",   "a?b",      "a#b",          "a:80",
                                          "a b", "a%b", "[::1]", "\xc3\xbc", "evil.example."};
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        assert_string_equal(
                url_of("http://{group}.shop.example/x", "*.shop.example", "h", "a-b.c", &b),
                "http://a-b.c.shop.example/x");
        assert_null(url_of("http://{group}/x", "*.shop.example", "h", "evil.example", &b));
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_null(url_of("http://{group}/", "*.shop.example", "h", bad[i], &b));
        buf_release(&b);
}

static int check(const char *url, const char *host)
{
        struct handler h;
        struct problem p;
        handler_init(&h);
        h.url = xstrdup(url);
        if (host)
                words_add(&h.hosts, host);
        int r = call_url_check(&h, &p);
        handler_release(&h);
        return r;
}

static void a_template_is_checked_before_any_job(void **state)
{
        static const char *const bad[] = {"",
                                          "h/x",
                                          "ftp://h/",
                                          "file:///etc/passwd",
                                          "http://",
                                          "http:///x",
                                          "http://u@h/",
                                          "http://u:p@h",
                                          "http://h:0/",
                                          "http://h:65536/",
                                          "http://h:/",
                                          "http://h:x/",
                                          "http://h/ x",
                                          "http://h/#x",
                                          "http://h\\x",
                                          "http://[::1",
                                          "http://h/{x}",
                                          "http://h/{hook",
                                          "http://{group}/",
                                          "http://h/\r\nX: y",
                                          "http://:80/"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_int_not_equal(check(bad[i], NULL), OK);
        assert_int_equal(check("HTTPS://h/{hook}?{id}{queue}{group}{attempt}{fence}", NULL), OK);
        assert_int_equal(check("http://h:65535", NULL), OK);
        assert_int_equal(check("http://{group}.a/", "*.a"), OK);
        assert_int_equal(check("http://b/", "a"), ERR_FORBIDDEN);
        assert_int_equal(check("http://[::1]/", "::1"), OK);
}

static void a_signature_is_an_hmac_over_head_and_body(void **state)
{
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        /* printf '1700000000.17.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef */
        assert_true(sign_put(&b, SLICE_LIT("0123456789abcdef"), SLICE_LIT("1700000000.17."),
                             SLICE_LIT("{\"a\":1}")));
        assert_string_equal(buf_cstr(&b),
                            "25ea8f68a77f545a4630920c2056621d9add13febc5923061dccea3da1697aaa");
        buf_clear(&b);
        assert_true(sign_put(&b, SLICE_LIT("0123456789abcdef"), SLICE_LIT("1700000000.17."),
                             SLICE_NONE));
        assert_string_equal(buf_cstr(&b),
                            "3c7272d4ad946890320b20e8ef39f37a28c97d14b7fe5ee5bf5d09890fb4c3b4");
        buf_release(&b);
}

/* libcurl's struct has room for an IPv4 address and is the head of a longer one. */
static curl_socket_t open_to(struct call *c, const char *ip)
{
        union {
                struct curl_sockaddr head;
                char room[sizeof(struct curl_sockaddr) + sizeof(struct sockaddr_in6)];
        } a = {.head = {.socktype = SOCK_STREAM, .family = AF_INET}};
        char *at = a.room + offsetof(struct curl_sockaddr, addr);
        struct sockaddr_in in = {.sin_family = AF_INET};
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
        if (inet_pton(AF_INET, ip, &in.sin_addr) == 1) {
                memcpy(at, &in, sizeof(in));
        } else {
                assert_int_equal(inet_pton(AF_INET6, ip, &in6.sin6_addr), 1);
                a.head.family = AF_INET6;
                memcpy(at, &in6, sizeof(in6));
        }
        return on_open_socket(c, CURLSOCKTYPE_IPCXN, &a.head);
}

static void a_refused_address_is_no_reason_when_another_was_connected_to(void **state)
{
        static const char *const orders[][2] = {{"::1", "127.0.0.1"}, {"127.0.0.1", "::1"}};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
                struct handler h;
                struct address_net net;
                handler_init(&h);
                assert_true(address_net_parse("127.0.0.1", &net));
                h.addresses.nets = &net;
                h.addresses.n_nets = 1;
                struct call c = {.spec.handler = &h};
                for (size_t at = 0; at < 2; at++) {
                        curl_socket_t fd = open_to(&c, orders[i][at]);
                        assert_int_equal(fd == CURL_SOCKET_BAD, orders[i][at][0] == ':');
                        if (fd != CURL_SOCKET_BAD)
                                (void)close(fd);
                }
                describe_trouble(&c, CURLE_OPERATION_TIMEDOUT);
                assert_string_equal(buf_cstr(&c.text), "no answer in time: Timeout was reached");
                buf_release(&c.text);
                h.addresses = (struct address_rules){0};
                handler_release(&h);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(values_are_encoded_and_cannot_leave_their_place),
                cmocka_unit_test(a_host_from_a_job_must_be_a_name_of_the_list),
                cmocka_unit_test(a_template_is_checked_before_any_job),
                cmocka_unit_test(a_signature_is_an_hmac_over_head_and_body),
                cmocka_unit_test(a_refused_address_is_no_reason_when_another_was_connected_to),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

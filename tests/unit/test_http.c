/* HTTP requests and heads of responses: what is taken, what is refused and with which status,
 * limits at their edges, bodies in chunks; and that it makes no difference how the bytes were
 * cut. */
#include "check.h"

#include <stdio.h>

#include "wire/http.h"

#define HEAD_MAX 512
#define BODY_MAX 64

struct parse {
        struct http_parser p;
        char *bytes;
        enum http_step step;
};

/* Shows the first `first` bytes, then one more each time, in fresh memory each time, as a caller
 * whose buffer moves would.  What the parser wrote (joined chunks) is carried over. */
static void parse_begin(struct parse *x, const char *bytes, size_t len, size_t first)
{
        http_parser_init(&x->p, HEAD_MAX, BODY_MAX);
        x->bytes = NULL;
        x->step = HTTP_STEP_MORE;
        for (size_t n = first; n <= len && x->step == HTTP_STEP_MORE; n++) {
                char *moved = malloc(n ? n : 1);
                assert_non_null(moved);
                memcpy(moved, bytes, n);
                if (x->bytes)
                        memcpy(moved, x->bytes, n - 1);
                free(x->bytes);
                x->bytes = moved;
                x->step = http_parse(&x->p, moved, n);
        }
}

static void parse_end(struct parse *x)
{
        free(x->bytes);
}

static void assert_header(const struct parse *x, enum http_header which, const char *text)
{
        assert_slice(http_slice(x->bytes, x->p.header[which]), text);
}

static const char post[] = "POST /v1/jobs?a=1&b HTTP/1.1\r\n"
                           "Host: localhost:7380\r\n"
                           "Content-Type:  application/json \r\n"
                           "AUTHORIZATION: Bearer x\r\n"
                           "X-Other: y\r\n"
                           "Content-Length: 13\r\n"
                           "\r\n"
                           "{\"hook\": \"h\"}";

static void a_request_means_the_same_wherever_it_is_cut(void **state)
{
        (void)state;
        for (size_t first = 1; first < sizeof(post); first++) {
                struct parse x;
                parse_begin(&x, post, sizeof(post) - 1, first);
                assert_int_equal(x.step, HTTP_STEP_REQUEST);
                assert_int_equal(x.p.used, sizeof(post) - 1);
                assert_string_equal(http_method(&x.p), "POST");
                assert_slice(http_slice(x.bytes, x.p.path), "/v1/jobs");
                assert_slice(http_slice(x.bytes, x.p.query), "a=1&b");
                assert_slice(http_slice(x.bytes, x.p.body), "{\"hook\": \"h\"}");
                assert_header(&x, HTTP_HEADER_HOST, "localhost:7380");
                assert_header(&x, HTTP_HEADER_CONTENT_TYPE, "application/json");
                assert_header(&x, HTTP_HEADER_AUTHORIZATION, "Bearer x");
                assert_false(x.p.header[HTTP_HEADER_EXPECT].is_set);
                assert_true(x.p.is_keep_alive);
                parse_end(&x);
        }
}

static const char chunked[] = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
                              "5\r\nhello\r\n1;ext=\"q\"\r\n,\r\nA\r\n 0123\r\n67\n\r\n"
                              "0\r\nX-Trailer: y\r\nHost: b\r\n\r\n";

static void the_chunks_of_a_body_are_joined_wherever_they_are_cut(void **state)
{
        (void)state;
        for (size_t first = 1; first < sizeof(chunked); first++) {
                struct parse x;
                parse_begin(&x, chunked, sizeof(chunked) - 1, first);
                assert_int_equal(x.step, HTTP_STEP_REQUEST);
                assert_int_equal(x.p.used, sizeof(chunked) - 1);
                assert_slice(http_slice(x.bytes, x.p.body), "hello, 0123\r\n67\n");
                assert_header(&x, HTTP_HEADER_HOST, "a"); /* a trailer changes no header */
                parse_end(&x);
        }
}

static void pipelined_requests_are_taken_one_by_one(void **state)
{
        static const char two[] = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
                                  "GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        char bytes[sizeof(two)];
        struct http_parser p;

        (void)state;
        memcpy(bytes, two, sizeof(two));
        http_parser_init(&p, HEAD_MAX, BODY_MAX);
        assert_int_equal(http_parse(&p, bytes, sizeof(two) - 1), HTTP_STEP_REQUEST);
        size_t used = p.used;
        assert_slice(http_slice(bytes, p.path), "/a");
        assert_true(p.is_keep_alive);
        http_parser_next(&p);
        assert_int_equal(http_parse(&p, bytes + used, sizeof(two) - 1 - used), HTTP_STEP_REQUEST);
        assert_slice(http_slice(bytes + used, p.path), "/b");
        assert_false(p.is_keep_alive);
        assert_int_equal(used + p.used, sizeof(two) - 1);
}

static void the_head_is_known_before_the_body_has_come(void **state)
{
        struct parse x;

        (void)state;
        parse_begin(&x, post, sizeof(post) - 1 - 13, 1);
        assert_int_equal(x.step, HTTP_STEP_MORE);
        assert_true(x.p.is_head_done && x.p.has_body);
        assert_header(&x, HTTP_HEADER_AUTHORIZATION, "Bearer x");
        parse_end(&x);
        parse_begin(&x, post, sizeof(post) - 1 - 14, 1);
        assert_false(x.p.is_head_done);
        parse_end(&x);
}

#define GET  "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define TE   POST "Transfer-Encoding: chunked\r\n\r\n"

static const struct {
        int status;
        const char *bytes;
} refused[] = {
        {400, GET "\r\n"},
        {400, GET "Host: a\r\nHost: a\r\n\r\n"},
        {400, GET "Host: a\n\r\n"},
        {400, "GET / HTTP/1.1\nHost: a\r\n\r\n"},
        {400, GET "Host: a\r\n\n"},
        {400, GET "Host: a\r\nX: a\rb\r\n\r\n"},
        {400, GET "Host: a\r\nX: a\r\n b\r\n\r\n"},
        {400, GET "Host: a\r\n folded: b\r\n\r\n"},
        {400, GET "Host : a\r\n\r\n"},
        {400, GET "Host: a\r\nno colon\r\n\r\n"},
        {400, GET "Host: a\r\n: no name\r\n\r\n"},
        {400, "get / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"},
        {505, "GET /\r\n\r\n"}, /* HTTP/0.9 */
        {400, "GET / HTTQ/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET x HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET /#f HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
        {400, "\x16\x03\x01\x02\x01"},
        {400, "*1\r\n$4\r\nPING\r\n"},
        {400, POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"},
        {400, POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, POST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n"},
        {400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, POST "Content-Length: +1\r\n\r\nx"},
        {400, POST "Content-Length: -1\r\n\r\nx"},
        {400, POST "Content-Length: 1,1\r\n\r\nx"},
        {400, POST "Content-Length: 0x1\r\n\r\nx"},
        {400, POST "Content-Length: 99999999999999999999\r\n\r\nx"},
        {501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {501, POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
        {501, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"},
        {400, TE "5\nhello\r\n0\r\n\r\n"},
        {400, TE "5\r\nhelloXX0\r\n\r\n"},
        {400, TE "5\r\nhello\n0\r\n\r\n"},
        {400, TE "5\r\nhello\r\n0\r\n\n"},
        {400, TE "-5\r\nhello\r\n0\r\n\r\n"},
        {400, TE "g\r\nhello\r\n0\r\n\r\n"},
        {400, TE "\r\nhello\r\n0\r\n\r\n"},
        {413, TE "41\r\n"},
        {413, TE "40\r\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n1\r\n"},
        {413, POST "Content-Length: 65\r\n\r\n"},
};

static void whatever_can_be_read_in_two_ways_is_refused(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
                size_t len = strlen(refused[i].bytes);
                for (size_t first = len; first; first = first == len && len > 1 ? 1 : 0) {
                        struct parse x;
                        parse_begin(&x, refused[i].bytes, len, first);
                        if (x.step != HTTP_STEP_BAD || x.p.status != refused[i].status)
                                print_message("row %zu, from %zu: step %d, status %d\n", i, first,
                                              (int)x.step, x.p.status);
                        assert_int_equal(x.step, HTTP_STEP_BAD);
                        assert_int_equal(x.p.status, refused[i].status);
                        assert_true(x.p.error && x.p.error[0]);
                        parse_end(&x);
                }
        }
        struct parse x;
        parse_begin(&x, GET "Host: a\r\nX: a\0b\r\n\r\n",
                    sizeof(GET "Host: a\r\nX: a\0b\r\n\r\n") - 1, 1);
        assert_int_equal(x.step, HTTP_STEP_BAD);
        parse_end(&x);
}

static void a_body_may_be_as_large_as_the_limit(void **state)
{
        char bytes[256];

        (void)state;
        for (size_t n = BODY_MAX - 1; n <= BODY_MAX; n++) {
                struct parse x;
                int head = snprintf(bytes, sizeof(bytes), POST "Content-Length: %zu\r\n\r\n", n);
                memset(bytes + head, 'x', n);
                parse_begin(&x, bytes, (size_t)head + n, (size_t)head);
                assert_int_equal(x.step, HTTP_STEP_REQUEST);
                assert_int_equal(x.p.body.len, n);
                parse_end(&x);
        }
}

static void a_head_may_be_as_large_as_the_limit(void **state)
{
        (void)state;
        for (size_t n = HEAD_MAX - 1; n <= HEAD_MAX + 1; n++) {
                char bytes[HEAD_MAX + 64];
                struct parse x;
                size_t fill = n - strlen(GET "Host: a\r\nX: \r\n\r\n");
                (void)snprintf(bytes, sizeof(bytes), GET "Host: a\r\nX: %0*d\r\n\r\n", (int)fill,
                               0);
                assert_int_equal(strlen(bytes), n);
                parse_begin(&x, bytes, n, 1);
                assert_int_equal(x.step, n <= HEAD_MAX ? HTTP_STEP_REQUEST : HTTP_STEP_BAD);
                assert_int_equal(x.p.status, n <= HEAD_MAX ? 0 : 431);
                parse_end(&x);
                parse_begin(&x, bytes, n, n);
                assert_int_equal(x.step, n <= HEAD_MAX ? HTTP_STEP_REQUEST : HTTP_STEP_BAD);
                parse_end(&x);
        }
}

static void an_address_longer_than_the_limit_has_its_own_status(void **state)
{
        char bytes[HEAD_MAX + 64];
        struct parse x;

        (void)state;
        memset(bytes, 'a', sizeof(bytes));
        memcpy(bytes, "GET /", 5);
        parse_begin(&x, bytes, sizeof(bytes), sizeof(bytes));
        assert_int_equal(x.step, HTTP_STEP_BAD);
        assert_int_equal(x.p.status, 414);
        parse_end(&x);
}

static void old_and_absolute_forms_are_understood(void **state)
{
        static const struct {
                const char *bytes, *path, *query, *host;
                bool is_keep_alive;
        } rows[] = {
                {"GET / HTTP/1.0\r\n\r\n", "/", "", "", false},
                {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "/", "", "", true},
                {"GET http://b:1/z?q HTTP/1.1\r\nHost: a\r\n\r\n", "/z", "q", "b:1", true},
                {"GET http://b?q HTTP/1.1\r\nHost: a\r\n\r\n", "", "q", "b", true},
                {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "*", "", "a", true},
                {"\r\n\r\nGET /? HTTP/1.1\r\nHost: a\r\n\r\n", "/", "", "a", true},
                {GET "Host: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", "/", "", "a", true},
                {GET "Host:\r\n\r\n", "/", "", "", true},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                for (size_t first = strlen(rows[i].bytes); first; first = first == 1 ? 0 : 1) {
                        struct parse x;
                        parse_begin(&x, rows[i].bytes, strlen(rows[i].bytes), first);
                        assert_int_equal(x.step, HTTP_STEP_REQUEST);
                        assert_int_equal(x.p.used, strlen(rows[i].bytes));
                        assert_slice(http_slice(x.bytes, x.p.path), rows[i].path);
                        assert_slice(http_slice(x.bytes, x.p.query), rows[i].query);
                        assert_header(&x, HTTP_HEADER_HOST, rows[i].host);
                        assert_int_equal(x.p.is_keep_alive, rows[i].is_keep_alive);
                        parse_end(&x);
                }
        }
}

static void a_header_that_nobody_else_asks_for_is_found_by_its_name(void **state)
{
        static const char text[] = "\r\nPOST /cookie:x HTTP/1.1\r\nhost: a\r\nCookies: no\r\n"
                                   "COOKIE:  a=b; c \t\r\nX-Empty:\r\nCookie: second\r\n"
                                   "Content-Length: 17\r\n\r\nx\r\nX-Body: no\r\n..";

        (void)state;
        for (size_t first = sizeof(text) - 1; first; first = first == 1 ? 0 : 1) {
                struct parse x;
                parse_begin(&x, text, sizeof(text) - 1, first);
                assert_int_equal(x.step, HTTP_STEP_REQUEST);
                assert_slice(http_field(&x.p, x.bytes, SLICE_LIT("cookie")), "a=b; c");
                assert_slice(http_field(&x.p, x.bytes, SLICE_LIT("host")), "a");
                assert_slice(http_field(&x.p, x.bytes, SLICE_LIT("x-empty")), "");
                assert_slice(http_field(&x.p, x.bytes, SLICE_LIT("x-body")), "");
                assert_slice(http_field(&x.p, x.bytes, SLICE_LIT("cooki")), "");
                assert_slice(http_field(&x.p, x.bytes, SLICE_LIT("content-length")), "17");
                parse_end(&x);
        }
}

static void percent_escapes_are_decoded_or_refused(void **state)
{
        static const struct {
                const char *in, *path, *query; /* NULL: refused */
        } rows[] = {
                {"", "", ""},         {"a+b", "a+b", "a b"}, {"%41%2f%2F", "A//", "A//"},
                {"%C3%BC", "ü", "ü"}, {"%", NULL, NULL},     {"%4", NULL, NULL},
                {"%zz", NULL, NULL},  {"a%00", NULL, NULL},  {"%%41", NULL, NULL},
        };
        char out[64];
        size_t len;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct slice in = slice_str(rows[i].in);
                assert_int_equal(http_unescape(in, false, out, &len), rows[i].path != NULL);
                if (rows[i].path)
                        assert_slice(slice_make(out, len), rows[i].path);
                assert_int_equal(http_unescape(in, true, out, &len), rows[i].query != NULL);
                if (rows[i].query)
                        assert_slice(slice_make(out, len), rows[i].query);
        }
}

static void a_query_is_taken_apart_pair_by_pair(void **state)
{
        struct slice query = slice_str("&a=1&&b&=x&c=d=e&"), key, value;
        static const char *const pairs[][2] = {{"a", "1"}, {"b", ""}, {"", "x"}, {"c", "d=e"}};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
                assert_true(http_query_next(&query, &key, &value));
                assert_slice(key, pairs[i][0]);
                assert_slice(value, pairs[i][1]);
        }
        assert_false(http_query_next(&query, &key, &value));
        query = SLICE_NONE;
        assert_false(http_query_next(&query, &key, &value));
}

static void the_head_of_a_response_says_what_it_is_told(void **state)
{
        struct http_head head = {.status = 201,
                                 .content_type = "application/json",
                                 .length = 7,
                                 .is_closing = true,
                                 .date = "D",
                                 .extra = SLICE_LIT("Location: /x\r\n")};
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        http_put_head(&b, &head);
        assert_slice(buf_slice(&b), "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
                                    "Content-Length: 7\r\nDate: D\r\nConnection: close\r\n"
                                    "Location: /x\r\n\r\n");
        buf_clear(&b);
        head = (struct http_head){.status = 204};
        http_put_head(&b, &head);
        assert_slice(buf_slice(&b), "HTTP/1.1 204 No Content\r\n\r\n");
        buf_clear(&b);
        head = (struct http_head){.status = 304, .extra = SLICE_LIT("ETag: x\r\n")};
        http_put_head(&b, &head);
        assert_slice(buf_slice(&b), "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n");
        buf_clear(&b);
        head = (struct http_head){.status = 200, .is_stream = true, .is_closing = true};
        http_put_head(&b, &head);
        assert_slice(buf_slice(&b), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        buf_release(&b);
        assert_string_equal(http_reason(599), "Error");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_request_means_the_same_wherever_it_is_cut),
                cmocka_unit_test(the_chunks_of_a_body_are_joined_wherever_they_are_cut),
                cmocka_unit_test(pipelined_requests_are_taken_one_by_one),
                cmocka_unit_test(the_head_is_known_before_the_body_has_come),
                cmocka_unit_test(whatever_can_be_read_in_two_ways_is_refused),
                cmocka_unit_test(a_body_may_be_as_large_as_the_limit),
                cmocka_unit_test(a_head_may_be_as_large_as_the_limit),
                cmocka_unit_test(an_address_longer_than_the_limit_has_its_own_status),
                cmocka_unit_test(old_and_absolute_forms_are_understood),
                cmocka_unit_test(a_header_that_nobody_else_asks_for_is_found_by_its_name),
                cmocka_unit_test(percent_escapes_are_decoded_or_refused),
                cmocka_unit_test(a_query_is_taken_apart_pair_by_pair),
                cmocka_unit_test(the_head_of_a_response_says_what_it_is_told),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

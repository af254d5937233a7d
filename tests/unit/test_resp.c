/* RESP requests and replies: framing, limits at their edges, inline lines, foreign protocols; and
 * that it makes no difference how the bytes were cut. */
#include "check.h"

#include <stdio.h>

#include "wire/resp.h"

#define ARGS  8
#define BYTES 4096

/* One parse of memory of exactly this size, so that a byte too far is seen by the sanitizer. */
struct parse {
        struct slice argv[ARGS];
        struct resp_request r;
        struct arena arena;
        char *bytes;
        enum resp_step step;
};

static void parse_begin(struct parse *p, const char *bytes, size_t len)
{
        *p = (struct parse){.r = {.argv = p->argv, .argv_max = ARGS, .bytes_max = BYTES}};
        arena_init(&p->arena, MIB);
        p->bytes = malloc(len ? len : 1);
        assert_non_null(p->bytes);
        memcpy(p->bytes, bytes, len);
        p->step = resp_parse(slice_make(p->bytes, len), &p->arena, &p->r);
}

static void parse_end(struct parse *p)
{
        arena_release(&p->arena);
        free(p->bytes);
}

static enum resp_step step_of(const char *bytes, size_t len)
{
        struct parse p;
        parse_begin(&p, bytes, len);
        parse_end(&p);
        return p.step;
}

static void an_array_of_bulk_strings_is_read_in_place(void **state)
{
        static const char bytes[] = "*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$6\r\na\r\nb\0c\r\nPING\r\n";
        struct parse p;

        (void)state;
        parse_begin(&p, bytes, sizeof(bytes) - 1);
        assert_int_equal(p.step, RESP_REQUEST);
        assert_int_equal(p.r.argc, 3);
        assert_int_equal(p.r.used, sizeof(bytes) - 1 - 6);
        assert_slice(p.argv[0], "ECHO");
        assert_int_equal(p.argv[1].len, 0);
        assert_int_equal(p.argv[2].len, 6);
        assert_memory_equal(p.argv[2].ptr, "a\r\nb\0c", 6);
        assert_ptr_equal(p.argv[0].ptr, p.bytes + 8);
        parse_end(&p);
}

static const char *const requests[] = {
        "*1\r\n$4\r\nPING\r\n",
        "*0\r\n",
        "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
        "*5\r\n$7\r\nENQUEUE\r\n$1\r\nh\r\n$12\r\n{\"a\":[1,2]}\n\r\n$5\r\nQUEUE\r\n$1\r\nq\r\n",
        "PING\r\n",
        "PING\n",
        "\r\n",
        "ECHO \"a b\\x41\\n\" 'it\\'s' plain\r\n",
        "  ECHO\t x  \r\n",
};

static void a_request_cut_anywhere_waits_for_the_rest_and_means_the_same(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
                size_t len = strlen(requests[i]);
                for (size_t cut = 0; cut < len; cut++) {
                        struct parse p;
                        parse_begin(&p, requests[i], cut);
                        assert_int_equal(p.step, RESP_MORE);
                        /* It asks for more than there is, and for no more than will come. */
                        assert_true(p.r.need > cut && p.r.need <= len);
                        parse_end(&p);
                }
                struct parse p;
                parse_begin(&p, requests[i], len);
                assert_int_equal(p.step, RESP_REQUEST);
                assert_int_equal(p.r.used, len);
                parse_end(&p);
        }
}

static void what_is_missing_is_asked_for_at_once(void **state)
{
        struct parse p;

        (void)state;
        /* The bulk of 100 with its CR LF, and two more arguments of at least 6 bytes. */
        parse_begin(&p, "*4\r\n$1\r\na\r\n$100\r\nxyz", 20);
        assert_int_equal(p.step, RESP_MORE);
        assert_int_equal(p.r.need, 17 + 100 + 2 + 2 * 6);
        parse_end(&p);
        parse_begin(&p, "*4\r\n", 4);
        assert_int_equal(p.r.need, 4 + 4 * 6);
        parse_end(&p);
}

static void framing_that_is_not_resp_is_refused(void **state)
{
        static const char *const bad[] = {
                "*x\r\n",
                "*-1\r\n",
                "*+1\r\n",
                "* 1\r\n",
                "*01\r\n",
                "*\r\n",
                "*1\n",
                "*1\rx",
                "*12345678901\r\n",
                "*1\r\nPING\r\n",
                "*1\r\n:4\r\n",
                "*1\r\n$\r\n",
                "*1\r\n$-1\r\n",
                "*1\r\n$x\r\n",
                "*1\r\n$04\r\nPING\r\n",
                "*1\r\n$4\nPING\r\n",
                "*1\r\n$4\r\nPINGxx",
                "*1\r\n$4\r\nPING\rx",
                "*1\r\n$4\r\nPINGx\n",
                "*1\r\n$3\r\nPING\r\n",
                "ECHO \"open\r\n",
                "ECHO 'open\r\n",
                "ECHO \"a\"b\r\n",
                "ECHO 'a'b\r\n",
                "a b c d e f g h i\r\n",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct parse p;
                parse_begin(&p, bad[i], strlen(bad[i]));
                assert_int_equal(p.step, RESP_BAD);
                assert_non_null(p.r.error);
                parse_end(&p);
        }
        assert_int_equal(step_of("PI\0NG\r\n", 7), RESP_BAD);
}

/* *n followed by n times "$1\r\nx\r\n". */
static size_t words(char *to, size_t n)
{
        size_t len = (size_t)snprintf(to, 32, "*%zu\r\n", n);
        for (size_t i = 0; i < n; i++, len += 7)
                memcpy(to + len, "$1\r\nx\r\n", 7);
        return len;
}

static void the_number_of_arguments_has_its_limit(void **state)
{
        char bytes[256];

        (void)state;
        for (size_t n = ARGS - 1; n <= ARGS + 1; n++) {
                size_t len = words(bytes, n);
                assert_int_equal(step_of(bytes, len), n <= ARGS ? RESP_REQUEST : RESP_BAD);
        }
        assert_int_equal(step_of("*9\r\n", 4), RESP_BAD); /* before the arguments come */
}

static void the_size_of_a_request_has_its_limit(void **state)
{
        static char bytes[BYTES + 64];

        (void)state;
        for (size_t n = BYTES - 1; n <= BYTES + 1; n++) {
                size_t bulk = n - strlen("*1\r\n$4000\r\n") - 2;
                int head = snprintf(bytes, sizeof(bytes), "*1\r\n$%zu\r\n", bulk);
                memset(bytes + head, 'x', bulk);
                memcpy(bytes + head + bulk, "\r\n", 2);
                assert_int_equal((size_t)head + bulk + 2, n);
                assert_int_equal(step_of(bytes, n), n <= BYTES ? RESP_REQUEST : RESP_BAD);
                /* Too large is known from the length alone. */
                assert_int_equal(step_of(bytes, (size_t)head), n <= BYTES ? RESP_MORE : RESP_BAD);
        }
        assert_int_equal(step_of("*1\r\n$9999999999\r\n", 17), RESP_BAD);
}

static void an_inline_line_has_its_limit(void **state)
{
        static char bytes[BYTES + 8];

        (void)state;
        memset(bytes, 'x', sizeof(bytes));
        assert_int_equal(step_of(bytes, BYTES - 1), RESP_MORE);
        assert_int_equal(step_of(bytes, BYTES), RESP_BAD);
        bytes[BYTES - 1] = '\n';
        assert_int_equal(step_of(bytes, BYTES), RESP_REQUEST);
}

static void an_inline_line_is_split_and_unescaped(void **state)
{
        struct parse p;
        const char *line = "ECHO  \"a b\\x41\\n\\\"\\q\" 'it\\'s \\n' pl\\x41ain \"\" x\r\n";

        (void)state;
        parse_begin(&p, line, strlen(line));
        assert_int_equal(p.step, RESP_REQUEST);
        assert_int_equal(p.r.argc, 6);
        assert_slice(p.argv[0], "ECHO");
        assert_slice(p.argv[1], "a bA\n\"q");
        assert_slice(p.argv[2], "it's \\n");
        assert_slice(p.argv[3], "pl\\x41ain");
        assert_slice(p.argv[4], "");
        assert_slice(p.argv[5], "x");
        parse_end(&p);
}

static void http_and_tls_are_known_by_their_first_bytes(void **state)
{
        static const char *const foreign[] = {
                "GET ",    "POST ",    "PUT ",         "HEAD ",
                "DELETE ", "OPTIONS ", "PATCH ",       "CONNECT ",
                "TRACE ",  "PRI ",     "get ",         "Host: localhost ",
                "host:",   "\x16\x03", "\x16\x03\x01", "BREW /pot HTTP/1.1\r\n",
        };
        static const char *const ours[] = {"GETX \r\n", "HOST\r\n", "\x16\x04\r\n",
                                           "ECHO / HTTP/1.1 x\r\n", "*1\r\n$5\r\nPOST \r\n"};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
                assert_int_equal(step_of(foreign[i], strlen(foreign[i])), RESP_FOREIGN);
        for (size_t i = 0; i < ARRAY_LEN(ours); i++)
                assert_int_equal(step_of(ours[i], strlen(ours[i])), RESP_REQUEST);
}

static void replies_are_written_in_the_protocol_asked_for(void **state)
{
        struct buf b;

        (void)state;
        for (int proto = 2; proto <= 3; proto++) {
                buf_init(&b, 0);
                resp_put_int(&b, 0);
                resp_put_int(&b, INT64_MIN);
                resp_put_int(&b, INT64_MAX);
                resp_put_bulk(&b, SLICE_LIT("a\r\nb"));
                resp_put_bulk(&b, SLICE_NONE);
                resp_put_simple(&b, "OK");
                resp_put_error(&b, "BADARG", "no");
                resp_put_array(&b, 10);
                resp_put_map(&b, 2, proto);
                resp_put_null(&b, proto);
                resp_put_bool(&b, true, proto);
                resp_put_bool(&b, false, proto);
                resp_put_verbatim(&b, SLICE_LIT("hi"), proto);
                assert_slice(buf_slice(&b),
                             proto == 2 ? ":0\r\n:-9223372036854775808\r\n:9223372036854775807\r\n"
                                          "$4\r\na\r\nb\r\n$0\r\n\r\n+OK\r\n-BADARG no\r\n*10\r\n"
                                          "*4\r\n$-1\r\n:1\r\n:0\r\n$2\r\nhi\r\n"
                                        : ":0\r\n:-9223372036854775808\r\n:9223372036854775807\r\n"
                                          "$4\r\na\r\nb\r\n$0\r\n\r\n+OK\r\n-BADARG no\r\n*10\r\n"
                                          "%2\r\n_\r\n#t\r\n#f\r\n=6\r\ntxt:hi\r\n");
                buf_release(&b);
        }
}

static void a_full_buffer_takes_no_half_reply(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 16);
        resp_put_bulk(&b, SLICE_LIT("twenty bytes of text"));
        assert_true(b.failed);
        assert_int_equal(b.len, 0);
        resp_put_int(&b, 1);
        assert_int_equal(b.len, 0);
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_array_of_bulk_strings_is_read_in_place),
                cmocka_unit_test(a_request_cut_anywhere_waits_for_the_rest_and_means_the_same),
                cmocka_unit_test(what_is_missing_is_asked_for_at_once),
                cmocka_unit_test(framing_that_is_not_resp_is_refused),
                cmocka_unit_test(the_number_of_arguments_has_its_limit),
                cmocka_unit_test(the_size_of_a_request_has_its_limit),
                cmocka_unit_test(an_inline_line_has_its_limit),
                cmocka_unit_test(an_inline_line_is_split_and_unescaped),
                cmocka_unit_test(http_and_tls_are_known_by_their_first_bytes),
                cmocka_unit_test(replies_are_written_in_the_protocol_asked_for),
                cmocka_unit_test(a_full_buffer_takes_no_half_reply),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

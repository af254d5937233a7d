/* The PROXY protocol: both versions, whole, cut at every byte, and wrong. */
#include "mysql_bytes.h"

#include "wire/proxy_header.h"

#define SIGNATURE "0d0a0d0a000d0a515549540a "
#define V1        "PROXY TCP4 192.0.2.1 198.51.100.9 56324 3306\r\n"
#define V1_V6     "PROXY TCP6 2001:db8::1 2001:db8::2 56324 3306\r\n"
#define V2        SIGNATURE "21 11 000c c0000201 c6336409 dc04 0cea"
#define V2_V6                                                                                      \
        SIGNATURE "21 21 0024 20010db8000000000000000000000001"                                    \
                  "20010db8000000000000000000000002 dc04 0cea"
/* An authority (2), a CRC (3) and nothing (4): all are passed over. */
#define V2_TLVS                                                                                    \
        SIGNATURE "21 11 001e c0000201 c6336409 dc04 0cea 020005 73686f7031 030004 01020304 "      \
                  "040000"

static int parse(struct slice bytes, struct proxy_header *ret, size_t *ret_len)
{
        struct problem problem;
        int r = proxy_header_parse(bytes, ret, ret_len, &problem);

        assert_true(r == OK ||
                    (r == ERR_SYNTAX && problem.err == r && strstr(problem.detail, "PROXY")));
        return r;
}

static void assert_end(const struct proxy_end *e, const char *ip, unsigned port)
{
        struct ip wanted;

        assert_true(ip_parse(slice_str(ip), &wanted));
        assert_memory_equal(e->ip.bytes, wanted.bytes, IP_BYTES);
        assert_int_equal(e->port, port);
}

/* At every byte it says that more is needed, and never reads beyond; then what follows is left. */
static void assert_read(struct slice whole, struct proxy_header *ret)
{
        size_t len = 1;

        for (size_t i = 0; i < whole.len; i++) {
                char *cut = malloc(i ? i : 1);
                assert_non_null(cut);
                memcpy(cut, whole.ptr, i);
                assert_int_equal(parse(slice_make(cut, i), ret, &len), OK);
                assert_int_equal(len, 0);
                assert_false(ret->is_told);
                free(cut);
        }
        char *more = malloc(whole.len + 5);
        assert_non_null(more);
        memcpy(more, whole.ptr, whole.len);
        memcpy(more + whole.len, "hello", 5);
        assert_int_equal(parse(slice_make(more, whole.len + 5), ret, &len), OK);
        assert_int_equal(len, whole.len);
        free(more);
}

static void a_line_tells_both_ends(void **state)
{
        struct proxy_header h;

        (void)state;
        assert_read(SLICE_LIT(V1), &h);
        assert_true(h.is_told);
        assert_end(&h.from, "192.0.2.1", 56324);
        assert_end(&h.to, "198.51.100.9", 3306);
        assert_read(SLICE_LIT(V1_V6), &h);
        assert_true(h.is_told);
        assert_end(&h.from, "2001:db8::1", 56324);
        assert_end(&h.to, "2001:db8::2", 3306);
}

static void the_longest_line_is_read(void **state)
{
        static const char longest[] = "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
                                      "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
        struct proxy_header h;

        (void)state;
        assert_int_equal(sizeof(longest) - 1, 107);
        assert_read(slice_str(longest), &h);
        assert_false(h.is_told);
}

static void binary_headers_tell_both_ends(void **state)
{
        static const char *const v4[] = {V2, V2_TLVS};
        struct proxy_header h;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(v4); i++) {
                struct bytes b = bytes_of(v4[i]);
                assert_read(slice_of(b), &h);
                assert_true(h.is_told);
                assert_end(&h.from, "192.0.2.1", 56324);
                assert_end(&h.to, "198.51.100.9", 3306);
                free(b.at);
        }
        struct bytes b = bytes_of(V2_V6);
        assert_read(slice_of(b), &h);
        assert_true(h.is_told);
        assert_end(&h.from, "2001:db8::1", 56324);
        assert_end(&h.to, "2001:db8::2", 3306);
        free(b.at);
}

static void health_checks_and_unix_sockets_tell_nobody(void **state)
{
        static const char *const rows[] = {
                SIGNATURE "20 00 0000",        SIGNATURE "20 11 000c c0000201 c6336409 dc04 0cea",
                SIGNATURE "20 ff 0003 010203", SIGNATURE "21 00 0000",
                SIGNATURE "21 00 0003 040000", SIGNATURE "21 31 0004 2f746d70",
        };
        static const char *const lines[] = {"PROXY UNKNOWN\r\n", "PROXY UNKNOWN \r\n",
                                            "PROXY UNKNOWN what ever\r\n"};
        struct proxy_header h;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct bytes b = bytes_of(rows[i]);
                assert_read(slice_of(b), &h);
                assert_false(h.is_told);
                free(b.at);
        }
        for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
                assert_read(slice_str(lines[i]), &h);
                assert_false(h.is_told);
        }
}

static void an_ipv6_address_that_is_one_of_ipv4_is_told_as_such(void **state)
{
        struct proxy_header h;

        (void)state;
        assert_read(SLICE_LIT("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 0\r\n"), &h);
        assert_true(ip_is_v4(&h.from.ip));
        assert_end(&h.from, "192.0.2.1", 1);
        assert_end(&h.to, "::1", 0);
}

static void lines_that_make_no_sense_are_refused(void **state)
{
        static const char *const rows[] = {
                "GET / HTTP/1.1\r\n",
                "PROXX",
                "p",
                "proxy TCP4",
                "PROXY\tTCP4",
                "\n",
                "\r\n\r\n\1",
                "PROXY \r\n",
                "PROXY \n",
                "PROXY UNKNOWN\n",
                "PROXY UNKNOWNS\r\n",
                "PROXY  TCP4 192.0.2.1 192.0.2.9 1 2\r\n",
                "PROXY UDP4 192.0.2.1 192.0.2.9 1 2\r\n",
                "PROXY TCP4\r\n",
                "PROXY TCP4 192.0.2.1\r\n",
                "PROXY TCP4 192.0.2.1 192.0.2.9 1\r\n",
                "PROXY TCP4 192.0.2.1 192.0.2.9 1 \r\n",
                "PROXY TCP4 192.0.2.1 192.0.2.9 1 2 3\r\n",
                "PROXY TCP4 192.0.2.1 192.0.2.9 1 2 \r\n",
                "PROXY TCP4 192.0.2.1 192.0.2.9 1 65536\r\n",
                "PROXY TCP4 192.0.2.1 192.0.2.9 01 2\r\n",
                "PROXY TCP4 192.0.2.1 192.0.2.9 -1 2\r\n",
                "PROXY TCP4 192.0.2.1 192.0.2.256 1 2\r\n",
                "PROXY TCP4 192.0.2.1  192.0.2.9 1 2\r\n",
                "PROXY TCP4 ::1 ::1 1 2\r\n",
                "PROXY TCP6 192.0.2.1 192.0.2.9 1 2\r\n",
                "PROXY TCP6 fe80::1%lo ::1 1 2\r\n",
                "PROXY TCP4 192.0.2.1 192.0.2.9 1 2\n",
        };
        struct proxy_header h;
        size_t len;
        char endless[108];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                if (parse(slice_str(rows[i]), &h, &len) != ERR_SYNTAX)
                        fail_msg("taken for a header: %s", rows[i]);
                assert_int_equal(len, 0);
                assert_false(h.is_told);
        }
        memset(endless, 'a', sizeof(endless));
        memcpy(endless, "PROXY UNKNOWN ", 14);
        assert_int_equal(parse(slice_make(endless, 106), &h, &len), OK);
        assert_int_equal(parse(slice_make(endless, 107), &h, &len), ERR_SYNTAX);
        memcpy(endless + 106, "\r\n", 2);
        assert_int_equal(parse(slice_make(endless, 108), &h, &len), ERR_SYNTAX);
}

static void binary_headers_that_make_no_sense_are_refused(void **state)
{
        static const char *const rows[] = {
                SIGNATURE "11 11 000c", /* version 1 in binary: at once */
                SIGNATURE "22 11 000c",
                SIGNATURE "2f 00 0000",
                SIGNATURE "21 00 0ff1", /* longer than PROXY_HEADER_MAX */
                SIGNATURE "21 00 ffff",
                SIGNATURE "20 00 ffff",
                SIGNATURE "21 11 000b c0000201 c6336409 dc04 0c",
                SIGNATURE "21 11 0000",
                SIGNATURE "21 21 000c c0000201 c6336409 dc04 0cea",
                SIGNATURE "21 12 000c c0000201 c6336409 dc04 0cea", /* UDP */
                SIGNATURE "21 41 0000",
                "0d0a0d0a000d0a515549540b 21 11",
        };
        struct proxy_header h;
        size_t len;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct bytes b = bytes_of(rows[i]);
                if (parse(slice_of(b), &h, &len) != ERR_SYNTAX)
                        fail_msg("taken for a header: %s", rows[i]);
                assert_int_equal(len, 0);
                assert_false(h.is_told);
                free(b.at);
        }
}

static void assert_put(const char *from, const char *to, const char *hex)
{
        struct proxy_header h = {.is_told = from != NULL}, again;
        struct buf out = {0};
        size_t len;
        struct bytes wanted = bytes_of(hex);

        if (from) {
                h.from.port = 56324;
                h.to.port = 3306;
                assert_true(ip_parse(slice_str(from), &h.from.ip));
                assert_true(ip_parse(slice_str(to), &h.to.ip));
        }
        proxy_header_put(&out, &h);
        assert_int_equal(out.len, wanted.n);
        assert_memory_equal(out.ptr, wanted.at, wanted.n);
        assert_int_equal(parse(buf_slice(&out), &again, &len), OK);
        assert_int_equal(len, out.len);
        assert_int_equal(again.is_told, h.is_told);
        if (from) {
                assert_end(&again.from, from, 56324);
                assert_end(&again.to, to, 3306);
        }
        free(wanted.at);
        buf_release(&out);
}

static void what_is_written_can_be_read(void **state)
{
        (void)state;
        assert_put("192.0.2.1", "198.51.100.9", V2);
        assert_put("2001:db8::1", "2001:db8::2", V2_V6);
        assert_put(NULL, NULL, SIGNATURE "20 00 0000");
        assert_put("192.0.2.1", "::1",
                   SIGNATURE "21 21 0024 00000000000000000000ffffc0000201"
                             "00000000000000000000000000000001 dc04 0cea");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_line_tells_both_ends),
                cmocka_unit_test(the_longest_line_is_read),
                cmocka_unit_test(binary_headers_tell_both_ends),
                cmocka_unit_test(health_checks_and_unix_sockets_tell_nobody),
                cmocka_unit_test(an_ipv6_address_that_is_one_of_ipv4_is_told_as_such),
                cmocka_unit_test(lines_that_make_no_sense_are_refused),
                cmocka_unit_test(binary_headers_that_make_no_sense_are_refused),
                cmocka_unit_test(what_is_written_can_be_read),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

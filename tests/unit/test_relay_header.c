/* What a follower tells the leader of a client, and the proof of it. */
#include "check.h"

#include <stdio.h>

#include "wire/relay_header.h"

#define NOW_MS 1700000000000

static const struct slice secret = SLICE_LIT("the secret of the cluster");

static struct relay_header a_header(void)
{
        struct relay_header h = {
                .has_address = true,
                .door = RELAY_RESP,
                .proto = 3,
                .is_near = true,
                .is_certified = true,
                .node = SLICE_LIT("b"),
                .name = SLICE_LIT("worker-7"),
                .token = SLICE_LIT("deploy"),
                .sent_ms = NOW_MS,
        };
        assert_true(ip_parse(SLICE_LIT("192.0.2.7"), &h.ip));
        for (unsigned i = 0; i < sizeof(h.nonce); i++)
                h.nonce[i] = (uint8_t)(i * 17);
        return h;
}

static struct buf written(const struct relay_header *h)
{
        struct buf b = {0};
        assert_true(relay_header_put(&b, h, secret));
        return b;
}

/* From a copy of exactly that size: ASan sees a byte that is read beyond it. */
static int read_at(const char *bytes, size_t n, int64_t now_ms, struct relay_header *ret,
                   size_t *ret_len)
{
        struct problem p = {0};
        char *copy = xmalloc(n ? n : 1);
        memcpy(copy, bytes, n);
        int r = relay_header_read(slice_make(copy, n), secret, now_ms, ret, ret_len, &p);
        if (r != OK)
                assert_true(p.err == r && p.detail[0]);
        free(copy);
        return r;
}

static void a_header_tells_what_was_put_into_it(void **state)
{
        struct relay_header h = a_header(), got;
        size_t len;
        (void)state;
        const char *const addresses[] = {"192.0.2.7", "2001:db8::7", NULL};
        for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
                h.has_address = addresses[i] != NULL;
                if (addresses[i])
                        assert_true(ip_parse(slice_str(addresses[i]), &h.ip));
                h.door = i == 1 ? RELAY_HTTP : RELAY_RESP;
                h.proto = i == 1 ? 0 : 2;
                h.is_local = i == 2;
                h.is_tls = i == 1;
                if (i == 2)
                        h.name = h.token = SLICE_NONE;
                struct buf b = written(&h);
                buf_put_str(&b, "*1\r\n"); /* what follows is not of it */
                assert_int_equal(relay_header_read(buf_slice(&b), secret, NOW_MS, &got, &len, NULL),
                                 OK);
                assert_int_equal(len, b.len - 4);
                assert_int_equal(got.has_address, h.has_address);
                if (h.has_address)
                        assert_memory_equal(&got.ip, &h.ip, sizeof(h.ip));
                assert_int_equal(got.door, h.door);
                assert_int_equal(got.proto, h.proto);
                assert_int_equal(got.is_local, h.is_local);
                assert_int_equal(got.is_tls, h.is_tls);
                assert_true(got.is_near && got.is_certified);
                assert_true(slice_eq(got.node, h.node) && slice_eq(got.name, h.name) &&
                            slice_eq(got.token, h.token));
                assert_int_equal(got.sent_ms, h.sent_ms);
                assert_memory_equal(got.nonce, h.nonce, sizeof(h.nonce));
                buf_release(&b);
        }
}

static void every_flipped_bit_is_refused(void **state)
{
        struct relay_header h = a_header(), got;
        struct buf b = written(&h);
        size_t len;
        (void)state;
        for (size_t i = 0; i < 8 * b.len; i++) {
                b.ptr[i / 8] ^= (char)(1 << i % 8);
                int r = read_at(b.ptr, b.len, NOW_MS, &got, &len);
                /* A larger length waits for bytes that never come. */
                assert_true(r != OK || (len == 0 && (i / 8 == 14 || i / 8 == 15)));
                b.ptr[i / 8] ^= (char)(1 << i % 8);
        }
        assert_int_equal(read_at(b.ptr, b.len, NOW_MS, &got, &len), OK);
        assert_int_equal(len, b.len);
        buf_release(&b);
}

static void a_beginning_waits_for_the_rest(void **state)
{
        struct relay_header h = a_header(), got;
        struct buf b = written(&h);
        size_t len;
        (void)state;
        for (size_t n = 0; n < b.len; n++) {
                assert_int_equal(read_at(b.ptr, n, NOW_MS, &got, &len), OK);
                assert_int_equal(len, 0);
        }
        buf_release(&b);
}

static void another_secret_is_refused(void **state)
{
        struct relay_header h = a_header(), got;
        struct buf b = written(&h);
        struct problem p;
        size_t len;
        (void)state;
        assert_int_equal(
                relay_header_read(buf_slice(&b), SLICE_LIT("another"), NOW_MS, &got, &len, &p),
                ERR_FORBIDDEN);
        assert_non_null(strstr(p.detail, "cluster secret"));
        buf_release(&b);
}

static void a_header_is_valid_for_a_minute(void **state)
{
        struct relay_header h = a_header(), got;
        struct buf b = written(&h);
        size_t len;
        (void)state;
        static const int64_t good[] = {0, RELAY_CLOCK_MS, -RELAY_CLOCK_MS};
        static const int64_t bad[] = {RELAY_CLOCK_MS + 1, -RELAY_CLOCK_MS - 1};
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                assert_int_equal(read_at(b.ptr, b.len, NOW_MS + good[i], &got, &len), OK);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_int_equal(read_at(b.ptr, b.len, NOW_MS + bad[i], &got, &len), ERR_FORBIDDEN);
        buf_release(&b);
}

static void a_header_of_a_balancer_is_none(void **state)
{
        struct proxy_header proxy = {.is_told = true};
        struct relay_header got;
        struct buf b = {0};
        size_t len;
        (void)state;
        assert_true(ip_parse(SLICE_LIT("192.0.2.7"), &proxy.from.ip));
        proxy.to = proxy.from;
        proxy_header_put(&b, &proxy);
        assert_int_equal(read_at(b.ptr, b.len, NOW_MS, &got, &len), ERR_SYNTAX);
        assert_int_equal(read_at("PROXY UNKNOWN\r\n", 15, NOW_MS, &got, &len), ERR_SYNTAX);
        assert_int_equal(read_at("*1\r\n$4\r\nPING\r\n", 14, NOW_MS, &got, &len), ERR_SYNTAX);
        buf_release(&b);
}

static void the_answer_depends_on_secret_and_nonce(void **state)
{
        char one[RELAY_ANSWER_BYTES], two[RELAY_ANSWER_BYTES];
        uint8_t nonce[RELAY_NONCE_BYTES] = {1};
        (void)state;
        assert_true(relay_answer_make(secret, nonce, one));
        assert_memory_equal(one, RELAY_ANSWER_BEGIN, strlen(RELAY_ANSWER_BEGIN));
        assert_memory_equal(one + sizeof(one) - 2, "\r\n", 2);
        assert_true(relay_answer_make(secret, nonce, two));
        assert_memory_equal(one, two, sizeof(one));
        assert_true(relay_answer_make(SLICE_LIT("another"), nonce, two));
        assert_memory_not_equal(one, two, sizeof(one));
        nonce[0] = 2;
        assert_true(relay_answer_make(secret, nonce, two));
        assert_memory_not_equal(one, two, sizeof(one));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_header_tells_what_was_put_into_it),
                cmocka_unit_test(every_flipped_bit_is_refused),
                cmocka_unit_test(a_beginning_waits_for_the_rest),
                cmocka_unit_test(another_secret_is_refused),
                cmocka_unit_test(a_header_is_valid_for_a_minute),
                cmocka_unit_test(a_header_of_a_balancer_is_none),
                cmocka_unit_test(the_answer_depends_on_secret_and_nonce),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

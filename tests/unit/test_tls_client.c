/* The client's end of TLS against OpenSSL's server in the same process: no socket, every step as
 * small as wanted, and bytes that are no TLS at all. */
#include "check.h"

#include <stdio.h>

#include "base/openssl.h"
#include "base/rand.h"
#include "support/temp_dir.h"
#include "wire/tls_client.h"

struct peer {
        char dir[TEMP_DIR_SIZE];
        char pem[512]; /* file of the certificate */
        SSL_CTX *ctx;
        SSL *ssl;
        BIO *from, *to;
        struct server_url url;
        struct tls_client *client;
        struct buf heard; /* plain bytes that came to the client */
};

static void make_certificate(struct peer *e)
{
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *x = X509_new();
        assert_true(key && x && X509_set_version(x, 2) == 1);
        assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x), 1), 1);
        (void)X509_gmtime_adj(X509_getm_notBefore(x), -3600);
        (void)X509_gmtime_adj(X509_getm_notAfter(x), 3600);
        (void)X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                                         (const unsigned char *)"h", -1, -1, 0);
        (void)X509_set_issuer_name(x, X509_get_subject_name(x));
        assert_int_equal(X509_set_pubkey(x, key), 1);
        assert_true(X509_sign(x, key, EVP_sha256()) > 0);
        assert_int_equal(SSL_CTX_use_certificate(e->ctx, x), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey(e->ctx, key), 1);
        (void)snprintf(e->pem, sizeof(e->pem), "%s/cert.pem", e->dir);
        FILE *f = fopen(e->pem, "we");
        assert_non_null(f);
        assert_int_equal(PEM_write_X509(f, x), 1);
        assert_int_equal(fclose(f), 0);
        X509_free(x);
        EVP_PKEY_free(key);
}

static void peer_init(struct peer *e, int newest)
{
        char text[600];
        struct problem p = {0};
        *e = (struct peer){0};
        temp_dir_make(e->dir);
        e->ctx = SSL_CTX_new(TLS_server_method());
        make_certificate(e);
        assert_int_equal(SSL_CTX_set_max_proto_version(e->ctx, newest), 1);
        e->ssl = SSL_new(e->ctx);
        e->from = BIO_new(BIO_s_mem());
        e->to = BIO_new(BIO_s_mem());
        SSL_set_bio(e->ssl, e->from, e->to);
        SSL_set_accept_state(e->ssl);
        (void)snprintf(text, sizeof(text), "rediss://h?ca=%s", e->pem);
        assert_int_equal(server_url_parse(text, &e->url, &p), OK);
        assert_int_equal(tls_client_new(&e->url, &e->client, &p), OK);
        assert_true(tls_client_out(e->client)->len > 0);
}

static void peer_release(struct peer *e)
{
        (void)tls_client_free(e->client);
        SSL_free(e->ssl);
        SSL_CTX_free(e->ctx);
        buf_release(&e->heard);
        temp_dir_remove(e->dir);
}

/* What the client has to send goes to the server. */
static void to_server(struct peer *e)
{
        struct buf *out = tls_client_out(e->client);
        if (out->len)
                assert_int_equal(BIO_write(e->from, out->ptr, (int)out->len), (int)out->len);
        buf_clear(out);
}

/* What the server has to send goes to the client, so many bytes at a time; the first failure. */
static int to_client(struct peer *e, size_t step, struct problem *p)
{
        char room[20000];
        int r = OK, n;
        ASSERT(step <= sizeof(room));
        while (r == OK && (n = BIO_read(e->to, room, (int)step)) > 0)
                r = tls_client_take(e->client, slice_make(room, (size_t)n), &e->heard, p);
        return r;
}

static void shake_hands(struct peer *e, size_t step)
{
        struct problem p = {0};
        for (int i = 0; i < 10 && !(tls_client_is_up(e->client) && SSL_is_init_finished(e->ssl));
             i++) {
                to_server(e);
                (void)SSL_do_handshake(e->ssl);
                if (to_client(e, step, &p) != OK)
                        fail_msg("%s", p.detail);
        }
        assert_true(tls_client_is_up(e->client));
}

static void bytes_pass_both_ways_in_steps_of_any_size(void **state)
{
        static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
        static const size_t steps[] = {1, 7, 16384};
        static char text[100000], got[sizeof(text)];
        (void)state;
        for (size_t i = 0; i < sizeof(text); i++)
                text[i] = (char)(i * 7 % 251);
        for (size_t i = 0; i < ARRAY_LEN(versions) * ARRAY_LEN(steps); i++) {
                struct problem p = {0};
                struct peer e;
                size_t n = 0, all = 0;
                peer_init(&e, versions[i % 2]);
                shake_hands(&e, steps[i / 2]);
                assert_int_equal(tls_client_put(e.client, slice_make(text, sizeof(text)), &p), OK);
                to_server(&e);
                while (SSL_read_ex(e.ssl, got + all, sizeof(got) - all, &n) == 1)
                        all += n;
                assert_int_equal(all, sizeof(text));
                assert_memory_equal(got, text, sizeof(text));
                assert_int_equal(SSL_write_ex(e.ssl, text, sizeof(text), &n), 1);
                assert_int_equal(to_client(&e, steps[i / 2], &p), OK);
                assert_int_equal(e.heard.len, sizeof(text));
                assert_memory_equal(e.heard.ptr, text, sizeof(text));
                peer_release(&e);
        }
}

static void nothing_is_put_before_the_handshake_is_over(void **state)
{
        struct problem p = {0};
        struct peer e;
        (void)state;
        peer_init(&e, TLS1_3_VERSION);
        to_server(&e);
        assert_int_equal(tls_client_put(e.client, SLICE_LIT("x"), &p), ERR_INTERNAL);
        assert_int_equal(tls_client_out(e.client)->len, 0);
        tls_client_end(e.client);
        assert_int_equal(tls_client_out(e.client)->len, 0);
        peer_release(&e);
}

static void an_end_is_told_and_heard(void **state)
{
        struct problem p = {0};
        struct peer e;
        char c;
        (void)state;
        peer_init(&e, TLS1_3_VERSION);
        shake_hands(&e, 100);
        assert_false(tls_client_is_ended(e.client));
        tls_client_end(e.client);
        to_server(&e);
        assert_int_equal(SSL_read(e.ssl, &c, 1), 0);
        assert_int_equal(SSL_get_shutdown(e.ssl), SSL_RECEIVED_SHUTDOWN);
        assert_int_equal(SSL_write(e.ssl, "late", 4), 4); /* half of it is still open */
        (void)SSL_shutdown(e.ssl);
        assert_int_equal(to_client(&e, 3, &p), OK);
        assert_int_equal(e.heard.len, 4);
        assert_true(tls_client_is_ended(e.client));
        assert_int_equal(to_client(&e, 3, &p), OK);
        peer_release(&e);
}

static void an_answer_larger_than_its_room_is_a_failure(void **state)
{
        struct problem p = {0};
        struct peer e;
        char text[5000] = {0};
        (void)state;
        peer_init(&e, TLS1_3_VERSION);
        shake_hands(&e, 100);
        e.heard.max = 4999;
        assert_int_equal(SSL_write(e.ssl, text, sizeof(text)), (int)sizeof(text));
        assert_int_equal(to_client(&e, 16384, &p), ERR_TOOBIG);
        peer_release(&e);
}

static void what_is_no_tls_is_told_in_a_sentence(void **state)
{
        static const char *const answers[] = {
                "-ERR unknown command\r\n", "HTTP/1.1 400 Bad\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
                struct problem p = {0};
                struct peer e;
                peer_init(&e, TLS1_3_VERSION);
                assert_int_equal(tls_client_take(e.client, slice_str(answers[i]), &e.heard, &p),
                                 ERR_UNAVAIL);
                assert_non_null(strstr(p.detail, "does not speak TLS"));
                assert_non_null(strstr(p.detail, "redis://"));
                peer_release(&e);
        }
}

/* One bit of an answer is another: a failure with a sentence, or a wait for more; never an answer.
 */
static void a_damaged_answer_is_never_taken_for_good(void **state)
{
        struct rng rng;
        (void)state;
        rng_init_seed(&rng, 20260101);
        for (int i = 0; i < 100; i++) {
                struct problem p = {0};
                struct peer e;
                char room[4096];
                peer_init(&e, i % 2 ? TLS1_3_VERSION : TLS1_2_VERSION);
                shake_hands(&e, 16384);
                assert_int_equal(SSL_write(e.ssl, "+OK\r\n", 5), 5);
                int n = BIO_read(e.to, room, sizeof(room));
                assert_true(n > 5);
                size_t at = rng_below(&rng, (uint64_t)n);
                room[at] = (char)(room[at] ^ (1 << rng_below(&rng, 8)));
                int r = tls_client_take(e.client, slice_make(room, (size_t)n), &e.heard, &p);
                assert_true(r == OK || (r == ERR_UNAVAIL && p.detail[0]));
                assert_int_equal(e.heard.len, 0);
                peer_release(&e);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bytes_pass_both_ways_in_steps_of_any_size),
                cmocka_unit_test(nothing_is_put_before_the_handshake_is_over),
                cmocka_unit_test(an_end_is_told_and_heard),
                cmocka_unit_test(an_answer_larger_than_its_room_is_a_failure),
                cmocka_unit_test(what_is_no_tls_is_told_in_a_sentence),
                cmocka_unit_test(a_damaged_answer_is_never_taken_for_good),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

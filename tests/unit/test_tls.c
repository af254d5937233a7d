/* TLS over memory, against a client of OpenSSL: handshakes, bytes in any pieces, the end, client
 * certificates, and what is said of files that cannot be used. */
#include "check.h"

#include "door/tls_files.h"
#include "door/tls_store.h"
#include "support/tls_peer.h"

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

struct bed {
        struct cert_bed certs;
        struct tls_ctx *ctx;
        struct tls *tls;
        struct tls_peer peer;
        struct buf got;
};

static struct tls_files files_of(const struct cert_bed *b, enum tls_verify verify)
{
        return (struct tls_files){b->cert_path, b->key_path,
                                  verify == TLS_VERIFY_OFF ? NULL : b->ca_path, verify};
}

static void begin(struct bed *b, enum tls_verify verify, int version)
{
        struct problem p;
        *b = (struct bed){.ctx = NULL};
        bed_init(&b->certs);
        struct tls_files files = files_of(&b->certs, verify);
        assert_int_equal(tls_ctx_new(&files, clock_wall_ms(), &b->ctx, &p), OK);
        peer_init(&b->peer, b->certs.ca_path, version);
        peer_begin(&b->peer);
        b->tls = tls_new(b->ctx, false);
        assert_non_null(b->tls);
}

/* A new connection of the same client. */
static void again(struct bed *b, bool is_http)
{
        (void)tls_free(b->tls);
        b->tls = tls_new(b->ctx, is_http);
        peer_begin(&b->peer);
        buf_clear(&b->got);
}

static void end(struct bed *b)
{
        (void)tls_free(b->tls);
        (void)tls_ctx_free(b->ctx);
        peer_release(&b->peer);
        buf_release(&b->got);
        bed_release(&b->certs);
}

static void expect_failure(struct bed *b, const char *reason)
{
        assert_int_equal(carry(&b->peer, b->tls, 0, &b->got), TLS_FAILED);
        assert_string_equal(tls_reason(b->tls), reason);
        assert_false(tls_is_open(b->tls));
        assert_int_equal(b->got.len, 0);
        assert_int_equal(carry(&b->peer, b->tls, 0, &b->got), TLS_FINE); /* takes no more */
        assert_int_equal(b->got.len, 0);
}

/* ---- handshakes ---- */

static void both_versions_shake_hands_and_carry_bytes_in_any_pieces(void **state)
{
        static const size_t steps[] = {0, 1, 7, 1000};
        (void)state;
        for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
                struct bed b;
                begin(&b, TLS_VERIFY_OFF, versions[v]);
                for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                        struct buf back = {0};
                        again(&b, false);
                        assert_false(tls_is_open(b.tls));
                        assert_int_equal(carry(&b.peer, b.tls, steps[i], &b.got), TLS_FINE);
                        assert_true(tls_is_open(b.tls));
                        assert_int_equal(SSL_get_verify_result(b.peer.ssl), X509_V_OK);
                        assert_false(tls_has_peer(b.tls));
                        assert_int_equal(SSL_write(b.peer.ssl, "PING\r\n", 6), 6);
                        assert_int_equal(carry(&b.peer, b.tls, steps[i], &b.got), TLS_FINE);
                        assert_slice(buf_slice(&b.got), "PING\r\n");
                        assert_true(peer_read(&b.peer, b.tls, slice_str("+PONG\r\n"), &back));
                        assert_slice(buf_slice(&back), "+PONG\r\n");
                        buf_release(&back);
                }
                end(&b);
        }
}

static void a_mebibyte_passes_in_both_directions(void **state)
{
        struct bed b;
        struct buf back = {0};
        char *large = xmalloc(MIB);
        (void)state;
        for (size_t i = 0; i < MIB; i++)
                large[i] = (char)(i * 31 >> 3);
        begin(&b, TLS_VERIFY_OFF, TLS1_3_VERSION);
        assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
        assert_int_equal(SSL_write(b.peer.ssl, large, MIB), (int)MIB);
        /* Each piece brings what it holds: nothing stays inside but an unfinished record. */
        assert_int_equal(carry(&b.peer, b.tls, 65521, &b.got), TLS_FINE);
        assert_int_equal(b.got.len, MIB);
        assert_memory_equal(b.got.ptr, large, MIB);
        assert_true(peer_read(&b.peer, b.tls, slice_make(large, MIB), &back));
        assert_int_equal(back.len, MIB);
        assert_memory_equal(back.ptr, large, MIB);
        buf_release(&back);
        free(large);
        end(&b);
}

static void an_old_version_is_refused(void **state)
{
        struct bed b;
        (void)state;
        begin(&b, TLS_VERIFY_OFF, TLS1_1_VERSION);
        expect_failure(&b, "unsupported protocol");
        end(&b);
}

static void what_is_no_TLS_is_told_apart(void **state)
{
        static const struct {
                const char *text;
                enum tls_outcome outcome;
        } rows[] = {
                {"GET / HTTP/1.1\r\n", TLS_PLAIN},
                {"*1\r\n$4\r\nPING\r\n", TLS_PLAIN},
                {"\r\n", TLS_PLAIN},
                {"\x01\x02garbage", TLS_FAILED},
                {"\x16GET /", TLS_FAILED},
                {"\x16\x03\x01\x01\x02hello, world", TLS_FINE},
                {"\x80\x2e\x01\x03\x01", TLS_FINE},
        };
        struct bed b;
        (void)state;
        begin(&b, TLS_VERIFY_OFF, TLS1_3_VERSION);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char plain[TLS_PLAIN_MAX(64)];
                struct buf out = {0};
                size_t n = 9;
                again(&b, false);
                assert_int_equal(tls_take(b.tls, slice_str(rows[i].text), plain, &n, &out),
                                 rows[i].outcome);
                assert_int_equal(n, 0);
                assert_false(tls_is_open(b.tls));
                assert_true(rows[i].outcome != TLS_PLAIN || out.len == 0);
                buf_release(&out);
        }
        end(&b);
}

static void renegotiation_is_refused(void **state)
{
        struct bed b;
        (void)state;
        begin(&b, TLS_VERIFY_OFF, TLS1_2_VERSION);
        assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
        assert_int_equal(SSL_renegotiate(b.peer.ssl), 1);
        (void)carry(&b.peer, b.tls, 0, &b.got);
        ERR_clear_error();
        assert_true(SSL_in_init(b.peer.ssl)); /* the client's new handshake never ends */
        end(&b);
}

static void a_key_update_is_answered_and_bytes_go_on(void **state)
{
        struct bed b;
        struct buf back = {0};
        (void)state;
        begin(&b, TLS_VERIFY_OFF, TLS1_3_VERSION);
        assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(SSL_key_update(b.peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
                assert_int_equal(SSL_write(b.peer.ssl, "a", 1), 1);
                assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
                assert_true(peer_read(&b.peer, b.tls, slice_str("b"), &back));
        }
        assert_slice(buf_slice(&b.got), "aaa");
        assert_slice(buf_slice(&back), "bbb");
        buf_release(&back);
        end(&b);
}

static void a_ticket_makes_the_next_handshake_short(void **state)
{
        (void)state;
        for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
                struct bed b;
                struct buf back = {0};
                begin(&b, TLS_VERIFY_OFF, versions[v]);
                assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
                assert_true(peer_read(&b.peer, b.tls, slice_str("x"), &back)); /* and the ticket */
                assert_false(SSL_session_reused(b.peer.ssl));
                SSL_SESSION *session = SSL_get1_session(b.peer.ssl);
                again(&b, false);
                assert_int_equal(SSL_set_session(b.peer.ssl, session), 1);
                assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
                assert_true(tls_is_open(b.tls));
                assert_true(SSL_session_reused(b.peer.ssl));
                SSL_SESSION_free(session);
                buf_release(&back);
                end(&b);
        }
}

static void http_is_chosen_or_refused_and_resp_does_not_care(void **state)
{
        static const struct {
                const char *offer;
                bool is_http;
                const char *chosen; /* NULL: refused */
        } rows[] = {
                {"\x02h2\x08http/1.1", true, "http/1.1"},
                {"\x02h2", true, NULL},
                {"\x08http/1.1", true, "http/1.1"},
                {"", true, ""},
                {"\x02h2", false, ""},
                {"\x08http/1.1", false, ""},
        };
        struct bed b;
        (void)state;
        begin(&b, TLS_VERIFY_OFF, TLS1_3_VERSION);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const unsigned char *chosen = NULL;
                unsigned n = 0;
                again(&b, rows[i].is_http);
                assert_int_equal(SSL_set_alpn_protos(b.peer.ssl,
                                                     (const unsigned char *)rows[i].offer,
                                                     (unsigned)strlen(rows[i].offer)),
                                 0);
                if (!rows[i].chosen) {
                        expect_failure(&b, "no application protocol");
                        continue;
                }
                assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
                SSL_get0_alpn_selected(b.peer.ssl, &chosen, &n);
                assert_slice(slice_make((const char *)chosen, n), rows[i].chosen);
        }
        end(&b);
}

/* ---- the end ---- */

static void the_goodbye_of_either_side_arrives(void **state)
{
        (void)state;
        for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
                struct bed b;
                struct buf out = {0};
                char byte;
                begin(&b, TLS_VERIFY_OFF, versions[v]);
                tls_say_goodbye(b.tls, &out); /* too early: nobody could read it */
                assert_int_equal(out.len, 0);
                assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
                assert_int_equal(SSL_write(b.peer.ssl, "last", 4), 4);
                assert_int_equal(SSL_shutdown(b.peer.ssl), 0);
                assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_ENDED);
                assert_slice(buf_slice(&b.got), "last");
                struct buf back = {0};
                assert_true(tls_put(b.tls, slice_str("answer"), &back)); /* it may still listen */
                tls_say_goodbye(b.tls, &out);
                assert_true(out.len > 0);
                assert_int_equal(BIO_write(b.peer.in, back.ptr, (int)back.len), (int)back.len);
                assert_int_equal(BIO_write(b.peer.in, out.ptr, (int)out.len), (int)out.len);
                while (SSL_read(b.peer.ssl, &byte, 1) > 0)
                        ;
                assert_int_equal(SSL_get_error(b.peer.ssl, 0), SSL_ERROR_ZERO_RETURN);
                buf_release(&out);
                buf_release(&back);
                end(&b);
        }
}

static void a_changed_byte_fails_and_nothing_of_its_record_is_seen(void **state)
{
        struct bed b;
        struct buf wire = {0}, out = {0};
        char plain[TLS_PLAIN_MAX(4096)];
        size_t n;
        (void)state;
        begin(&b, TLS_VERIFY_OFF, TLS1_3_VERSION);
        assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
        assert_int_equal(SSL_write(b.peer.ssl, "DEL everything", 14), 14);
        peer_take_out(&b.peer, &wire);
        wire.ptr[wire.len - 3] ^= 1;
        assert_int_equal(tls_take(b.tls, buf_slice(&wire), plain, &n, &out), TLS_FAILED);
        assert_int_equal(n, 0);
        assert_true(out.len > 0); /* the alert */
        assert_int_equal(tls_take(b.tls, buf_slice(&wire), plain, &n, &out), TLS_FINE);
        assert_int_equal(n, 0);
        assert_false(tls_put(b.tls, slice_str("x"), &out));
        buf_release(&wire);
        buf_release(&out);
        end(&b);
}

/* ---- clients with certificates ---- */

static void use_cert(struct bed *b, const struct cert *c)
{
        char cert[PEER_PATH_MAX], key[PEER_PATH_MAX];
        (void)snprintf(cert, sizeof(cert), "%s/client.crt", b->certs.dir);
        (void)snprintf(key, sizeof(key), "%s/client.key", b->certs.dir);
        bed_put(c, cert, key);
        assert_int_equal(SSL_CTX_use_certificate_file(b->peer.ctx, cert, SSL_FILETYPE_PEM), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(b->peer.ctx, key, SSL_FILETYPE_PEM), 1);
        again(b, false);
}

static void names_are_those_of_a_certificate_that_is_good(void **state)
{
        static const char *const want[] = {"ci", "localhost", "ci.example.org", "weir://ops/ci",
                                           "ci@example.org"};
        (void)state;
        for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
                struct bed b;
                struct slice names[16];
                begin(&b, TLS_VERIFY_REQUIRE, versions[v]);
                struct cert *good = bed_sign(CERT_CLIENT, "ci", b.certs.ca, -1, 2);
                use_cert(&b, good);
                assert_int_equal(tls_peer_names(b.tls, names, 16), 0);
                assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
                assert_true(tls_has_peer(b.tls));
                assert_int_equal(tls_peer_names(b.tls, names, 16), ARRAY_LEN(want));
                for (size_t i = 0; i < ARRAY_LEN(want); i++)
                        assert_slice(names[i], want[i]);
                assert_int_equal(tls_peer_names(b.tls, names, 2), 2);
                (void)cert_free(good);
                end(&b);
        }
}

static void a_bad_certificate_or_none_is_refused(void **state)
{
        struct bed b;
        (void)state;
        begin(&b, TLS_VERIFY_REQUIRE, TLS1_3_VERSION);
        expect_failure(&b, "peer did not return a certificate");
        struct cert *other = bed_sign(CERT_AUTHORITY, "another authority", NULL, -1, 30);
        struct cert *rows[] = {bed_sign(CERT_CLIENT, "ci", other, -1, 2),
                               bed_sign(CERT_CLIENT, "ci", b.certs.ca, -3, 2),
                               bed_sign(CERT_CLIENT, "ci", b.certs.ca, 1, 2),
                               bed_sign(CERT_SERVER, "ci", b.certs.ca, -1, 2),
                               bed_sign(CERT_CLIENT, "ci", NULL, -1, 2)};
        static const char *const why[] = {"unable to get local issuer certificate",
                                          "certificate has expired", "certificate is not yet valid",
                                          "unsuitable certificate purpose",
                                          "self-signed certificate"};
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                use_cert(&b, rows[i]);
                expect_failure(&b, why[i]);
                assert_false(tls_has_peer(b.tls));
                (void)cert_free(rows[i]);
        }
        (void)cert_free(other);
        end(&b);
}

static void a_client_that_is_asked_may_show_none_but_none_that_is_bad(void **state)
{
        struct bed b;
        (void)state;
        begin(&b, TLS_VERIFY_ASK, TLS1_3_VERSION);
        assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
        assert_true(tls_is_open(b.tls));
        assert_false(tls_has_peer(b.tls));
        struct cert *other = bed_sign(CERT_AUTHORITY, "another authority", NULL, -1, 30);
        struct cert *bad = bed_sign(CERT_CLIENT, "ci", other, -1, 2);
        use_cert(&b, bad);
        expect_failure(&b, "unable to get local issuer certificate");
        (void)cert_free(bad);
        (void)cert_free(other);
        end(&b);
}

/* ---- files ---- */

static void expect_refused(const struct tls_files *files, const char *path, const char *why)
{
        struct tls_ctx *ctx = NULL;
        struct problem p;
        int r = tls_ctx_new(files, clock_wall_ms(), &ctx, &p);
        if (!strstr(p.detail, path) || !strstr(p.detail, why))
                fail_msg("'%s' has no '%s' and '%s'", p.detail, path, why);
        assert_int_not_equal(r, OK);
        assert_null(ctx);
}

static void files_that_cannot_be_used_are_named_with_the_reason(void **state)
{
        struct cert_bed b;
        char path[PEER_PATH_MAX];
        (void)state;
        bed_init(&b);
        struct tls_files good = files_of(&b, TLS_VERIFY_REQUIRE), f = good;
        (void)snprintf(path, sizeof(path), "%s/other", b.dir);
        f.cert = path;
        expect_refused(&f, path, "No such file");
        bed_write(path, slice_str("hello\n"));
        expect_refused(&f, path, "holds no certificate");
        f.cert = b.dir;
        expect_refused(&f, b.dir, "it is not a file");
        f = good;
        f.key = path;
        expect_refused(&f, path, "holds no private key");
        f.key = b.cert_path;
        expect_refused(&f, b.cert_path, "holds no private key");
        f = good;
        f.ca = path;
        expect_refused(&f, path, "holds no certificate");
        assert_int_equal(chmod(b.key_path, 0644), 0);
        expect_refused(&good, b.key_path, "can be read or written by others");
        assert_int_equal(chmod(b.key_path, 0640), 0); /* a group may read it */
        struct tls_ctx *ctx = NULL;
        struct problem p;
        assert_int_equal(tls_ctx_new(&good, clock_wall_ms(), &ctx, &p), OK);
        ctx = tls_ctx_free(ctx);
        struct cert *other = bed_sign(CERT_SERVER, "localhost", b.ca, -3, 2);
        bed_put(other, b.cert_path, NULL);
        expect_refused(&good, b.key_path, "is not the key of cert");
        bed_put(other, b.cert_path, b.key_path);
        expect_refused(&good, b.cert_path, "expired on");
        (void)cert_free(other);
        other = bed_sign(CERT_SERVER, "localhost", b.ca, 1, 2);
        bed_put(other, b.cert_path, b.key_path);
        assert_int_equal(tls_ctx_new(&good, clock_wall_ms(), &ctx, &p), OK); /* only warned of */
        assert_true(tls_ctx_begins_ms(ctx) > clock_wall_ms());
        ctx = tls_ctx_free(ctx);
        (void)cert_free(other);
        bed_release(&b);
}

static void a_chain_with_a_damaged_end_is_refused(void **state)
{
        struct cert_bed b;
        struct buf text = {0};
        struct problem p;
        struct tls_ctx *ctx = NULL;
        (void)state;
        bed_init(&b);
        struct tls_files files = files_of(&b, TLS_VERIFY_OFF);
        cert_put(b.server, &text);
        cert_put(b.ca, &text);
        bed_write(b.cert_path, buf_slice(&text));
        assert_int_equal(tls_ctx_new(&files, clock_wall_ms(), &ctx, &p), OK);
        ctx = tls_ctx_free(ctx);
        text.len -= 60;
        bed_write(b.cert_path, buf_slice(&text));
        expect_refused(&files, b.cert_path, "certificate 2 of it cannot be used");
        buf_release(&text);
        bed_release(&b);
}

/* ---- the store ---- */

static void the_store_takes_a_new_pair_and_keeps_the_old_one_until_it_is_whole(void **state)
{
        struct cert_bed b;
        struct tls_store *s = NULL;
        struct problem p;
        int64_t now_ms = clock_wall_ms();
        (void)state;
        bed_init(&b);
        struct tls_files files = files_of(&b, TLS_VERIFY_OFF);
        assert_int_equal(tls_store_new(&files, now_ms, &s, &p), OK);
        const struct tls_ctx *first = tls_store_peek(s);
        tls_store_look(s, now_ms);
        assert_ptr_equal(tls_store_peek(s), first);
        struct cert *next = bed_sign(CERT_SERVER, "localhost", b.ca, -1, 5);
        bed_put(next, b.cert_path, NULL);
        for (int i = 0; i < 3; i++) {
                tls_store_look(s, now_ms);
                assert_ptr_equal(tls_store_peek(s), first);
        }
        bed_put(next, b.cert_path, b.key_path);
        tls_store_look(s, now_ms);
        assert_ptr_not_equal(tls_store_peek(s), first);
        int64_t ends_ms = tls_ctx_ends_ms(tls_store_peek(s));
        assert_true(ends_ms > now_ms + 3 * MS_PER_DAY && ends_ms < now_ms + 5 * MS_PER_DAY);
        assert_int_equal(unlink(b.key_path), 0);
        tls_store_look(s, now_ms);
        assert_int_equal(tls_ctx_ends_ms(tls_store_peek(s)), ends_ms);
        files.cert = b.key_path;
        assert_int_equal(tls_store_set(s, &files, now_ms, &p), ERR_IO);
        assert_int_equal(tls_ctx_ends_ms(tls_store_peek(s)), ends_ms);
        (void)cert_free(next);
        (void)tls_store_free(s);
        bed_release(&b);
}

static void a_connection_keeps_the_certificate_that_it_began_with(void **state)
{
        struct bed b;
        (void)state;
        begin(&b, TLS_VERIFY_OFF, TLS1_3_VERSION);
        b.ctx = tls_ctx_free(b.ctx); /* as a store does when there is a new one */
        assert_int_equal(carry(&b.peer, b.tls, 0, &b.got), TLS_FINE);
        assert_true(tls_is_open(b.tls));
        end(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(both_versions_shake_hands_and_carry_bytes_in_any_pieces),
                cmocka_unit_test(a_mebibyte_passes_in_both_directions),
                cmocka_unit_test(an_old_version_is_refused),
                cmocka_unit_test(what_is_no_TLS_is_told_apart),
                cmocka_unit_test(renegotiation_is_refused),
                cmocka_unit_test(a_key_update_is_answered_and_bytes_go_on),
                cmocka_unit_test(a_ticket_makes_the_next_handshake_short),
                cmocka_unit_test(http_is_chosen_or_refused_and_resp_does_not_care),
                cmocka_unit_test(the_goodbye_of_either_side_arrives),
                cmocka_unit_test(a_changed_byte_fails_and_nothing_of_its_record_is_seen),
                cmocka_unit_test(names_are_those_of_a_certificate_that_is_good),
                cmocka_unit_test(a_bad_certificate_or_none_is_refused),
                cmocka_unit_test(a_client_that_is_asked_may_show_none_but_none_that_is_bad),
                cmocka_unit_test(files_that_cannot_be_used_are_named_with_the_reason),
                cmocka_unit_test(a_chain_with_a_damaged_end_is_refused),
                cmocka_unit_test(
                        the_store_takes_a_new_pair_and_keeps_the_old_one_until_it_is_whole),
                cmocka_unit_test(a_connection_keeps_the_certificate_that_it_began_with),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

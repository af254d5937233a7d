/* For tests of TLS: certificates as files of a folder, and a client that speaks to a struct tls
 * over memory. */
#ifndef WEIR_TESTS_SUPPORT_TLS_PEER_H
#define WEIR_TESTS_SUPPORT_TLS_PEER_H

#include <sys/stat.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/openssl.h"
#include "door/tls.h"
#include "serve/cert_make.h"
#include "support/temp_dir.h"

#define PEER_PATH_MAX (TEMP_DIR_SIZE + 40)

/* A folder with ca.crt, server.crt and server.key. */
struct cert_bed {
        char dir[TEMP_DIR_SIZE];
        char ca_path[PEER_PATH_MAX], cert_path[PEER_PATH_MAX], key_path[PEER_PATH_MAX];
        struct cert *ca, *server;
};

/* Mode 600; replaces what is there by another file. */
__attribute__((unused)) static void bed_write(const char *path, struct slice text)
{
        char part[PEER_PATH_MAX + 8];
        (void)snprintf(part, sizeof(part), "%s.part", path);
        int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        ASSERT(fd >= 0 && write(fd, text.ptr, text.len) == (ssize_t)text.len && close(fd) == 0 &&
               rename(part, path) == 0);
}

__attribute__((unused)) static void bed_put(const struct cert *c, const char *cert_path,
                                            const char *key_path)
{
        struct buf text = {0};
        cert_put(c, &text);
        bed_write(cert_path, buf_slice(&text));
        buf_clear(&text);
        cert_put_key(c, &text);
        if (key_path)
                bed_write(key_path, buf_slice(&text));
        buf_release(&text);
}

/* Valid from and for so many days. */
__attribute__((unused)) static struct cert *bed_sign(enum cert_kind kind, const char *name,
                                                     const struct cert *ca, int from, int days)
{
        static const char *const names[] = {"localhost", "URI:weir://ops/ci", "127.0.0.1",
                                            "email:ci@example.org", "ci.example.org"};
        int64_t now_ms = clock_wall_ms();
        struct cert_spec spec = {.kind = kind,
                                 .name = name,
                                 .names = names,
                                 .n_names = kind == CERT_AUTHORITY ? 0 : ARRAY_LEN(names),
                                 .begins_ms = now_ms + from * MS_PER_DAY,
                                 .ends_ms = now_ms + (from + days) * MS_PER_DAY};
        struct cert *c = cert_new(&spec, ca);
        ASSERT(c);
        return c;
}

__attribute__((unused)) static void bed_init(struct cert_bed *b)
{
        (void)temp_dir_make(b->dir);
        (void)snprintf(b->ca_path, sizeof(b->ca_path), "%s/ca.crt", b->dir);
        (void)snprintf(b->cert_path, sizeof(b->cert_path), "%s/server.crt", b->dir);
        (void)snprintf(b->key_path, sizeof(b->key_path), "%s/server.key", b->dir);
        b->ca = bed_sign(CERT_AUTHORITY, "test authority", NULL, -1, 30);
        b->server = bed_sign(CERT_SERVER, "localhost", b->ca, -1, 29);
        bed_put(b->ca, b->ca_path, NULL);
        bed_put(b->server, b->cert_path, b->key_path);
}

__attribute__((unused)) static void bed_release(struct cert_bed *b)
{
        b->ca = cert_free(b->ca);
        b->server = cert_free(b->server);
        temp_dir_remove(b->dir);
}

/* ---- a client ---- */

struct tls_peer {
        SSL_CTX *ctx;
        SSL *ssl;
        BIO *in, *out; /* of the SSL */
};

/* `ca_path` NULL: it believes everything. */
__attribute__((unused)) static void peer_init(struct tls_peer *c, const char *ca_path, int version)
{
        c->ctx = SSL_CTX_new(TLS_client_method());
        ASSERT(c->ctx);
        SSL_CTX_set_security_level(c->ctx, 0); /* for versions that are too old */
        (void)SSL_CTX_set_min_proto_version(c->ctx, version);
        (void)SSL_CTX_set_max_proto_version(c->ctx, version);
        if (ca_path) {
                ASSERT(SSL_CTX_load_verify_locations(c->ctx, ca_path, NULL) == 1);
                SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
        }
        c->ssl = NULL;
}

__attribute__((unused)) static void peer_begin(struct tls_peer *c)
{
        if (c->ssl) /* else its session could not be used again */
                SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        SSL_free(c->ssl);
        c->ssl = SSL_new(c->ctx);
        c->in = BIO_new(BIO_s_mem());
        c->out = BIO_new(BIO_s_mem());
        ASSERT(c->ssl && c->in && c->out);
        SSL_set_bio(c->ssl, c->in, c->out);
        SSL_set_connect_state(c->ssl);
}

__attribute__((unused)) static void peer_release(struct tls_peer *c)
{
        SSL_free(c->ssl);
        SSL_CTX_free(c->ctx);
}

/* What the client has to send. */
__attribute__((unused)) static void peer_take_out(struct tls_peer *c, struct buf *ret)
{
        char bytes[4096];
        for (int n; (n = BIO_read(c->out, bytes, sizeof(bytes))) > 0;)
                buf_put(ret, bytes, (size_t)n);
}

/* Carries bytes between both until neither has more to say, in pieces of `step` bytes (0: whole).
 * Plain bytes of the server are added to `got`. */
__attribute__((unused)) static enum tls_outcome carry(struct tls_peer *c, struct tls *t,
                                                      size_t step, struct buf *got)
{
        struct buf wire = {0}, out = {0};
        enum tls_outcome outcome = TLS_FINE;
        for (;;) {
                (void)SSL_do_handshake(c->ssl); /* what it makes of it is looked at elsewhere */
                ERR_clear_error();
                buf_clear(&wire);
                peer_take_out(c, &wire);
                if (!wire.len || outcome != TLS_FINE)
                        break;
                for (size_t at = 0; at < wire.len && outcome == TLS_FINE;) {
                        size_t n = step && step < wire.len - at ? step : wire.len - at, k = 0;
                        char *plain = malloc(TLS_PLAIN_MAX(n));
                        ASSERT(plain);
                        outcome = tls_take(t, slice_make(wire.ptr + at, n), plain, &k, &out);
                        buf_put(got, plain, k);
                        free(plain);
                        at += n;
                }
                ASSERT(!out.len || BIO_write(c->in, out.ptr, (int)out.len) == (int)out.len);
                buf_clear(&out);
        }
        buf_release(&wire);
        buf_release(&out);
        return outcome;
}

/* The server sends; what the client can read is added to `got`. */
__attribute__((unused)) static bool peer_read(struct tls_peer *c, struct tls *t, struct slice plain,
                                              struct buf *got)
{
        struct buf out = {0};
        char bytes[4096];
        bool is_fine = tls_put(t, plain, &out);
        ASSERT(!out.len || BIO_write(c->in, out.ptr, (int)out.len) == (int)out.len);
        for (int n; (n = SSL_read(c->ssl, bytes, sizeof(bytes))) > 0;)
                buf_put(got, bytes, (size_t)n);
        ERR_clear_error();
        buf_release(&out);
        return is_fine;
}

#endif

/* See tls.h.
 *
 * OpenSSL reads and writes through a BIO of ours that lends it the caller's memory for the time of
 * one call: no copy of the input is kept but an unfinished record, which OpenSSL holds itself, and
 * an idle connection holds neither of OpenSSL's buffers (SSL_MODE_RELEASE_BUFFERS).  A call takes
 * all input and gives all plain bytes, so that nothing is left inside which nobody would ask for.
 *
 * One SSL_CTX serves both doors: which protocols a client may choose is asked of the connection. */
#include "door/tls.h"

#include <stdlib.h>

#include "base/openssl.h"
#include "door/tls_files.h"

/* AES-128 is as safe as the rest of a handshake and a third cheaper than AES-256.  All of them have
 * forward secrecy. */
#define SUITES_13 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define SUITES_12 "ECDHE+AESGCM:ECDHE+CHACHA20"
/* A ticket shortens the next handshake for so long; another certificate makes it void. */
#define TICKET_S 3600
/* Certificates that a client may send, in bytes; chains are 2 to 6 KiB. */
#define CHAIN_MAX   (32 * KIB)
#define CHAIN_DEPTH 8
/* Names kept of a client's certificate, all together. */
#define NAMES_MAX        (4 * KIB)
#define HANDSHAKE_RECORD 0x16

struct tls_ctx {
        SSL_CTX *ssl;
        int64_t begins_ms, ends_ms;
};

struct tls {
        SSL_CTX *ctx;
        SSL *ssl;         /* NULL until the first byte */
        struct slice in;  /* lent for a call: input that OpenSSL has not taken */
        struct buf *out;  /* lent for a call */
        struct buf names; /* of a verified certificate, each with a NUL behind it */
        const char *reason;
        bool is_http;
        bool is_open;
        bool is_over; /* ended or failed */
        bool has_peer;
};

/* ---- memory instead of a socket ---- */

static int lent_read(BIO *bio, char *ret, int n)
{
        struct tls *t = BIO_get_data(bio);
        BIO_clear_retry_flags(bio);
        if (!t->in.len) {
                BIO_set_retry_read(bio);
                return -1;
        }
        size_t k = (size_t)n < t->in.len ? (size_t)n : t->in.len;
        memcpy(ret, t->in.ptr, k);
        t->in = slice_make(t->in.ptr + k, t->in.len - k);
        return (int)k;
}

static int lent_write(BIO *bio, const char *bytes, int n)
{
        struct tls *t = BIO_get_data(bio);
        BIO_clear_retry_flags(bio);
        if (!t->out)
                return -1;
        buf_put(t->out, bytes, (size_t)n);
        return t->out->failed ? -1 : n;
}

static long lent_ctrl(BIO *bio, int command, long number, void *pointer)
{
        (void)bio;
        (void)number;
        (void)pointer;
        return command == BIO_CTRL_FLUSH;
}

/* One for all, made at the first use and never freed. */
static const BIO_METHOD *lent_method(void)
{
        static BIO_METHOD *method;
        if (method)
                return method;
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lent memory");
        ASSERT(method);
        (void)BIO_meth_set_read(method, lent_read); /* these only store a pointer */
        (void)BIO_meth_set_write(method, lent_write);
        (void)BIO_meth_set_ctrl(method, lent_ctrl);
        return method;
}

/* ---- what a listener shows ---- */

/* A client that offers protocols and not ours is refused, as RFC 7301 wants it: it would take our
 * answer for another protocol's.  RESP has no name there, and its clients offer nothing. */
static int choose_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_n,
                           const unsigned char *offered, unsigned n, void *unused)
{
        static const unsigned char ours[] = "\x08http/1.1\x08http/1.0";
        const struct tls *t = SSL_get_app_data(ssl);
        unsigned char *chosen;
        (void)unused;
        if (!t->is_http)
                return SSL_TLSEXT_ERR_NOACK;
        if (SSL_select_next_proto(&chosen, ret_n, ours, sizeof(ours) - 1, offered, n) !=
            OPENSSL_NPN_NEGOTIATED)
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        *ret = chosen;
        return SSL_TLSEXT_ERR_OK;
}

static void set_up(SSL_CTX *ctx)
{
        static const unsigned char id[] = "weir";
        /* None of these fails: the words are constant and known to every OpenSSL there is. */
        (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
        (void)SSL_CTX_set_cipher_list(ctx, SUITES_12);
        (void)SSL_CTX_set_ciphersuites(ctx, SUITES_13);
        (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                               SSL_OP_CIPHER_SERVER_PREFERENCE |
                                               SSL_OP_PRIORITIZE_CHACHA);
        (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
        /* Tickets alone: the server remembers no session. */
        (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        (void)SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1);
        (void)SSL_CTX_set_timeout(ctx, TICKET_S);
        SSL_CTX_set_max_cert_list(ctx, CHAIN_MAX);
        SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
}

static void set_verify(SSL_CTX *ctx, enum tls_verify verify)
{
        if (verify == TLS_VERIFY_OFF)
                return;
        SSL_CTX_set_verify_depth(ctx, CHAIN_DEPTH);
        SSL_CTX_set_verify(
                ctx,
                SSL_VERIFY_PEER |
                        (verify == TLS_VERIFY_REQUIRE ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                NULL);
}

int tls_ctx_new(const struct tls_files *files, int64_t now_ms, struct tls_ctx **ret,
                struct problem *problem)
{
        struct tls_ctx *ctx = xcalloc(1, sizeof(*ctx));
        ctx->ssl = SSL_CTX_new(TLS_server_method());
        int r = ctx->ssl ? OK : problem_set(problem, ERR_NOMEM, "tls: no memory");
        if (r == OK) {
                set_up(ctx->ssl);
                set_verify(ctx->ssl, files->verify);
                r = tls_files_load(files, ctx->ssl, &ctx->begins_ms, &ctx->ends_ms, problem);
        }
        if (r == OK && ctx->ends_ms <= now_ms)
                r = tls_files_expired(files, ctx->ends_ms, problem);
        ERR_clear_error();
        if (r == OK)
                *ret = ctx;
        else
                (void)tls_ctx_free(ctx);
        return r;
}

struct tls_ctx *tls_ctx_free(struct tls_ctx *ctx)
{
        if (!ctx)
                return NULL;
        SSL_CTX_free(ctx->ssl);
        free(ctx);
        return NULL;
}

int64_t tls_ctx_begins_ms(const struct tls_ctx *ctx)
{
        return ctx->begins_ms;
}

int64_t tls_ctx_ends_ms(const struct tls_ctx *ctx)
{
        return ctx->ends_ms;
}

/* ---- the peer's certificate ---- */

static void keep_name(struct tls *t, const ASN1_STRING *name)
{
        unsigned char *text = NULL;
        int n = ASN1_STRING_to_UTF8(&text, name);
        struct slice s = slice_make((const char *)text, n > 0 ? (size_t)n : 0);
        bool is_fine = s.len && slice_is_utf8(s) && t->names.len + s.len < NAMES_MAX;
        for (size_t i = 0; i < s.len; i++)
                is_fine &= (uint8_t)s.ptr[i] >= ' ' && s.ptr[i] != 0x7f;
        if (is_fine) {
                buf_put_slice(&t->names, s);
                buf_put_byte(&t->names, '\0');
        }
        OPENSSL_free(text);
}

static void keep_peer(struct tls *t)
{
        static const int kinds[] = {GEN_DNS, GEN_URI, GEN_EMAIL};
        const X509 *cert = SSL_get0_peer_certificate(t->ssl);
        if (!cert || SSL_get_verify_result(t->ssl) != X509_V_OK)
                return;
        t->has_peer = true;
        const X509_NAME *subject = X509_get_subject_name(cert);
        int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
        if (at >= 0)
                keep_name(t, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
        GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
                for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
                        int kind;
                        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
                        const void *value = GENERAL_NAME_get0_value(name, &kind);
                        if (kind == kinds[k])
                                keep_name(t, value);
                }
        }
        GENERAL_NAMES_free(names);
}

bool tls_has_peer(const struct tls *t)
{
        return t->has_peer;
}

size_t tls_peer_names(const struct tls *t, struct slice *ret, size_t max)
{
        size_t n = 0;
        for (size_t at = 0; at < t->names.len && n < max; at += ret[n++].len + 1)
                ret[n] = slice_str(t->names.ptr + at);
        return n;
}

/* ---- a connection ---- */

struct tls *tls_new(struct tls_ctx *ctx, bool is_http)
{
        struct tls *t = calloc(1, sizeof(*t));
        if (!t)
                return NULL;
        (void)SSL_CTX_up_ref(ctx->ssl); /* only counts */
        t->ctx = ctx->ssl;
        t->is_http = is_http;
        t->reason = "";
        return t;
}

struct tls *tls_free(struct tls *t)
{
        if (!t)
                return NULL;
        SSL_free(t->ssl);
        SSL_CTX_free(t->ctx);
        buf_release(&t->names);
        free(t);
        return NULL;
}

bool tls_is_open(const struct tls *t)
{
        return t->is_open;
}

const char *tls_reason(const struct tls *t)
{
        return t->reason;
}

static bool begin(struct tls *t)
{
        BIO *bio = BIO_new(lent_method());
        t->ssl = SSL_new(t->ctx);
        if (!bio || !t->ssl) {
                BIO_free(bio);
                return false;
        }
        BIO_set_data(bio, t);
        BIO_set_init(bio, 1);
        SSL_set_bio(t->ssl, bio, bio);
        SSL_set_app_data(t->ssl, t);
        SSL_set_accept_state(t->ssl);
        return true;
}

static enum tls_outcome fail(struct tls *t, const char *reason)
{
        const char *said = ERR_reason_error_string(ERR_peek_last_error());
        long code = t->ssl ? SSL_get_verify_result(t->ssl) : X509_V_OK;
        if (reason)
                t->reason = reason;
        else if (code != X509_V_OK && !t->is_open)
                t->reason = X509_verify_cert_error_string(code);
        else
                t->reason = said ? said : "the connection broke";
        t->is_over = true;
        ERR_clear_error();
        return TLS_FAILED;
}

static bool is_printable(char c)
{
        return (c >= ' ' && c < 0x7f) || c == '\r' || c == '\n';
}

/* Until there is nothing more to take: SSL_read() also does the handshake. */
static enum tls_outcome take_all(struct tls *t, char *plain, size_t room, size_t *ret_n)
{
        for (;;) {
                size_t n = 0;
                ASSERT(*ret_n < room);
                if (SSL_read_ex(t->ssl, plain + *ret_n, room - *ret_n, &n) == 1) {
                        *ret_n += n;
                        if (!t->in.len && SSL_pending(t->ssl) == 0)
                                return TLS_FINE; /* asking again would cost a buffer */
                        continue;
                }
                switch (SSL_get_error(t->ssl, 0)) {
                case SSL_ERROR_WANT_READ:
                        return TLS_FINE;
                case SSL_ERROR_ZERO_RETURN:
                        t->is_over = true;
                        return TLS_ENDED;
                default:
                        return fail(t, NULL);
                }
        }
}

enum tls_outcome tls_take(struct tls *t, struct slice bytes, char *plain, size_t *ret_n,
                          struct buf *out)
{
        *ret_n = 0;
        if (t->is_over || !bytes.len)
                return TLS_FINE;
        ERR_clear_error();
        if (!t->ssl && bytes.ptr[0] != HANDSHAKE_RECORD && is_printable(bytes.ptr[0])) {
                (void)fail(t, "the client does not speak TLS");
                return TLS_PLAIN;
        }
        if (!t->ssl && !begin(t))
                return fail(t, "no memory");
        t->in = bytes;
        t->out = out;
        enum tls_outcome outcome = take_all(t, plain, TLS_PLAIN_MAX(bytes.len), ret_n);
        t->in = SLICE_NONE;
        t->out = NULL;
        if (!t->is_open && SSL_is_init_finished(t->ssl)) {
                t->is_open = true;
                keep_peer(t);
        }
        return outcome;
}

bool tls_put(struct tls *t, struct slice plain, struct buf *out)
{
        size_t n = 0;
        ASSERT(t->is_open);
        if (!plain.len)
                return true;
        ERR_clear_error();
        t->out = out;
        bool is_fine = SSL_write_ex(t->ssl, plain.ptr, plain.len, &n) == 1 && n == plain.len;
        t->out = NULL;
        if (!is_fine)
                (void)fail(t, NULL);
        return is_fine;
}

void tls_say_goodbye(struct tls *t, struct buf *out)
{
        if (!t->is_open)
                return;
        ERR_clear_error();
        t->out = out;
        (void)SSL_shutdown(t->ssl); /* after a failure there is nothing to say */
        t->out = NULL;
        ERR_clear_error();
}

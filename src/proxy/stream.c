#include "proxy/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/openssl.h"

/* ---- bytes ---- */

static ssize_t tls_outcome(const struct stream *s, int r, bool *waits_to_read, bool *waits_to_send)
{
        switch (SSL_get_error(s->tls, r)) {
        case SSL_ERROR_WANT_READ:
                *waits_to_read = true;
                return STREAM_AGAIN;
        case SSL_ERROR_WANT_WRITE:
                *waits_to_send = true;
                return STREAM_AGAIN;
        case SSL_ERROR_ZERO_RETURN:
                return 0;
        default:
                return STREAM_GONE;
        }
}

static ssize_t tls_read(struct stream *s, void *ret, size_t n)
{
        bool ignored;
        ERR_clear_error();
        s->read_waits_to_send = false;
        int r = SSL_read(s->tls, ret, (int)n);
        return r > 0 ? r : tls_outcome(s, r, &ignored, &s->read_waits_to_send);
}

static ssize_t tls_write(struct stream *s, const void *bytes, size_t n)
{
        bool ignored;
        ERR_clear_error();
        s->write_waits_to_read = false;
        int r = SSL_write(s->tls, bytes, (int)n);
        return r > 0 ? r : tls_outcome(s, r, &s->write_waits_to_read, &ignored);
}

ssize_t stream_read(struct stream *s, void *ret, size_t n)
{
        if (s->tls)
                return tls_read(s, ret, n);
        ssize_t r = recv(s->fd, ret, n, 0);
        if (r >= 0)
                return r;
        return errno == EAGAIN || errno == EINTR ? STREAM_AGAIN : STREAM_GONE;
}

ssize_t stream_write(struct stream *s, const void *bytes, size_t n)
{
        if (s->tls)
                return tls_write(s, bytes, n);
        ssize_t r = send(s->fd, bytes, n, MSG_NOSIGNAL);
        if (r >= 0)
                return r;
        return errno == EAGAIN || errno == EINTR ? STREAM_AGAIN : STREAM_GONE;
}

bool stream_has_more(const struct stream *s)
{
        return s->tls && SSL_pending(s->tls) > 0;
}

void stream_close(struct stream *s)
{
        if (s->tls) {
                (void)SSL_shutdown(s->tls); /* says goodbye if the socket takes it at once */
                SSL_free(s->tls);
                s->tls = NULL;
        }
        if (s->fd >= 0)
                (void)close(s->fd); /* nothing is left to be saved */
        s->fd = -1;
}

/* ---- TLS ---- */

static const char *openssl_text(void)
{
        const char *text = ERR_reason_error_string(ERR_peek_last_error());
        return text ? text : "unknown error";
}

/* What is written again after STREAM_AGAIN may lie elsewhere by then, and have grown. */
static SSL_CTX *new_ctx(const SSL_METHOD *method)
{
        SSL_CTX *ctx = SSL_CTX_new(method);
        ASSERT(ctx);
        (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
        (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                            SSL_MODE_RELEASE_BUFFERS);
        return ctx;
}

int stream_accept_ctx(const char *cert, const char *key, struct ssl_ctx_st **ret,
                      struct problem *problem)
{
        SSL_CTX *ctx = new_ctx(TLS_server_method());
        ERR_clear_error();
        const char *wrong = SSL_CTX_use_certificate_chain_file(ctx, cert) != 1             ? cert
                            : SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ? key
                            : SSL_CTX_check_private_key(ctx) != 1                          ? key
                                                                                           : NULL;
        if (!wrong) {
                *ret = ctx;
                return OK;
        }
        SSL_CTX_free(ctx);
        return problem_set(problem, ERR_BADARG, "%s cannot be used for TLS: %s", wrong,
                           openssl_text());
}

int stream_connect_ctx(bool is_verified, const char *ca, struct ssl_ctx_st **ret,
                       struct problem *problem)
{
        SSL_CTX *ctx = new_ctx(TLS_client_method());
        int r = 1;
        ERR_clear_error();
        if (is_verified) {
                SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
                r = ca ? SSL_CTX_load_verify_locations(ctx, ca, NULL)
                       : SSL_CTX_set_default_verify_paths(ctx);
        }
        if (r == 1) {
                *ret = ctx;
                return OK;
        }
        SSL_CTX_free(ctx);
        return problem_set(problem, ERR_BADARG, "%s cannot be used to check certificates: %s",
                           ca ? ca : "what the system trusts", openssl_text());
}

struct ssl_ctx_st *stream_ctx_free(struct ssl_ctx_st *ctx)
{
        SSL_CTX_free(ctx);
        return NULL;
}

static bool begin_tls(struct stream *s, struct ssl_ctx_st *ctx)
{
        s->tls = SSL_new(ctx);
        return s->tls && SSL_set_fd(s->tls, s->fd) == 1;
}

bool stream_accept_tls(struct stream *s, struct ssl_ctx_st *ctx)
{
        if (!begin_tls(s, ctx))
                return false;
        SSL_set_accept_state(s->tls);
        return true;
}

bool stream_connect_tls(struct stream *s, struct ssl_ctx_st *ctx, char *name)
{
        if (!begin_tls(s, ctx))
                return false;
        SSL_set_connect_state(s->tls);
        if (!name)
                return true;
        /* A name that is an address is looked for among the addresses of the certificate. */
        X509_VERIFY_PARAM *param = SSL_get0_param(s->tls);
        if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1)
                return true;
        return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
               SSL_set_tlsext_host_name(s->tls, name) == 1;
}

const char *stream_tls_problem(const struct stream *s)
{
        if (!s->tls)
                return "";
        long code = SSL_get_verify_result(s->tls);
        if (code != X509_V_OK && SSL_get_verify_mode(s->tls) != SSL_VERIFY_NONE)
                return X509_verify_cert_error_string(code);
        return ERR_peek_last_error() ? openssl_text() : "";
}

/* A socket, with TLS or without, that never blocks.
 *
 * The handshake is part of the first reads and writes.  A read of TLS may have to write, and a
 * write to read: which of them waits for what is told to epoll by stream_waits(). */
#ifndef WEIR_PROXY_STREAM_H
#define WEIR_PROXY_STREAM_H

#include <sys/types.h>

#include "base/err.h"

struct ssl_st;
struct ssl_ctx_st;

struct stream {
        int fd;                  /* -1: none */
        struct ssl_st *tls;      /* NULL: plain */
        bool read_waits_to_send; /* TLS must send before it can go on with a read */
        bool write_waits_to_read;
};

#define STREAM_AGAIN (-1) /* try again when epoll says so */
#define STREAM_GONE  (-2)

/* Bytes, 0 at the end, or one of the above. */
ssize_t stream_read(struct stream *s, void *ret, size_t n);
ssize_t stream_write(struct stream *s, const void *bytes, size_t n);
/* Bytes that are decrypted already: epoll does not know of them. */
bool stream_has_more(const struct stream *s);
void stream_close(struct stream *s);

/* ---- TLS ---- */

/* Certificate and key (PEM files) that clients are shown. */
int stream_accept_ctx(const char *cert, const char *key, struct ssl_ctx_st **ret,
                      struct problem *problem) MUST_CHECK;
/* For the server; is_verified: its certificate is checked, by `ca` or by what the system trusts. */
int stream_connect_ctx(bool is_verified, const char *ca, struct ssl_ctx_st **ret,
                       struct problem *problem) MUST_CHECK;
struct ssl_ctx_st *stream_ctx_free(struct ssl_ctx_st *ctx); /* NULL is fine; returns NULL */
/* The next bytes are those of a handshake.  False: there is no memory. */
bool stream_accept_tls(struct stream *s, struct ssl_ctx_st *ctx) MUST_CHECK;
/* `name`: what its certificate must be for; NULL: it is not checked. */
bool stream_connect_tls(struct stream *s, struct ssl_ctx_st *ctx, char *name) MUST_CHECK;
/* Why the last call on this thread said STREAM_GONE, as far as TLS knows; "": it does not. */
const char *stream_tls_problem(const struct stream *s);

#endif

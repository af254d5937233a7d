/* TLS: what a listener shows (a certificate with its key, and the authorities of its clients), and
 * the TLS state of one connection.
 *
 * Neither sees a socket: a connection hands in the bytes that arrived and gets plain bytes and
 * bytes to send.  So nothing blocks, and a test or a fuzzer can be the peer.
 *
 * Life of a struct tls
 *   NEW      tls_new       no byte yet; holds no more than a few words
 *   SHAKING  tls_take      the handshake runs
 *   OPEN     tls_take      bytes pass in both directions
 *   ENDED    tls_take      the peer sent close_notify or failed; nothing more is taken in
 *
 * Ownership: a struct tls keeps the SSL_CTX that it began with, so another certificate holds for
 * new connections only.  Threads: any, one at a time. */
#ifndef WEIR_DOOR_TLS_H
#define WEIR_DOOR_TLS_H

#include "api/setting_table.h"
#include "base/buf.h"
#include "base/err.h"

struct tls_files {
        const char *cert; /* PEM, with the chain behind it */
        const char *key;
        const char *ca; /* NULL unless clients are verified */
        enum tls_verify verify;
};

/* ---- what a listener shows ---- */

struct tls_ctx;

/* Reads the files.  The problem names the file and the reason.  now_ms: Unix ms; a certificate that
 * has expired is refused. */
int tls_ctx_new(const struct tls_files *files, int64_t now_ms, struct tls_ctx **ret,
                struct problem *problem) MUST_CHECK;
struct tls_ctx *tls_ctx_free(struct tls_ctx *ctx);    /* NULL is fine; returns NULL */
int64_t tls_ctx_begins_ms(const struct tls_ctx *ctx); /* Unix ms: of its certificate */
int64_t tls_ctx_ends_ms(const struct tls_ctx *ctx);

/* So long before the end of a certificate its end is warned of. */
#define TLS_ENDS_SOON_MS (14LL * 24 * 3600 * MS_PER_S)

/* ---- a connection ---- */

struct tls;

/* Largest number of plain bytes that so many bytes of input can bring: a record of which all but
 * the last byte came before has 16 KiB. */
#define TLS_PLAIN_MAX(bytes) ((bytes) + 17 * KIB)

enum tls_outcome {
        TLS_FINE,
        TLS_ENDED,  /* close_notify; what came before it is there */
        TLS_FAILED, /* tls_reason() says why; an alert for the peer may be among the output */
        TLS_PLAIN,  /* the very first byte is none of TLS, but printable: the input is as it was */
};

/* NULL: no memory.  is_http: clients may choose among HTTP protocols (ALPN). */
struct tls *tls_new(struct tls_ctx *ctx, bool is_http);
struct tls *tls_free(struct tls *t); /* NULL is fine; returns NULL */
/* The handshake is done. */
bool tls_is_open(const struct tls *t);

/* Takes all bytes that arrived.  Plain bytes go to `plain`, which has room for
 * TLS_PLAIN_MAX(bytes.len), and *ret_n is how many; `out` gets what TLS itself has to say. */
enum tls_outcome tls_take(struct tls *t, struct slice bytes, char *plain, size_t *ret_n,
                          struct buf *out) MUST_CHECK;
/* Encrypts; it is open.  False: no memory, or the connection is broken. */
bool tls_put(struct tls *t, struct slice plain, struct buf *out) MUST_CHECK;
void tls_say_goodbye(struct tls *t, struct buf *out); /* close_notify, when it is open */

const char *tls_reason(const struct tls *t); /* of TLS_FAILED; lives forever */
/* Whether the client has shown a certificate; it is verified then. */
bool tls_has_peer(const struct tls *t);
/* The names in that certificate: the subject's common name, then its alternative names of the kinds
 * DNS, URI and email, in order.  Borrowed from t; returns how many there are, at most max.  Names
 * that are not printable UTF-8 are left out. */
#define TLS_NAMES_MAX 32
size_t tls_peer_names(const struct tls *t, struct slice *ret, size_t max);

#endif

/* The client's end of TLS: bytes of a connection in, plain bytes out, and the other way round.
 *
 *      take(bytes of the socket) -> plain bytes        put(plain bytes) -> out -> the socket
 *
 * It knows no socket: each client has its own way of waiting, and the same sentences.  After every
 * call the caller sends what is in tls_client_out() and drops what was sent from it; also after a
 * failure, when it may hold the alert that tells the server why.
 *
 * Failures are ERR_UNAVAIL with a sentence that says what to set, ERR_BADARG for a file that cannot
 * be used, or ERR_NOMEM.  After one the connection is of no use. */
#ifndef WEIR_WIRE_TLS_CLIENT_H
#define WEIR_WIRE_TLS_CLIENT_H

#include "wire/server_url.h"

struct tls_client;

/* Begins the handshake: its first bytes are in `out`.  Reads the files that the url names, so that
 * a renewed one counts from the next connection on.  The url is borrowed for the life of the
 * result. */
int tls_client_new(const struct server_url *url, struct tls_client **ret,
                   struct problem *p) MUST_CHECK;
struct tls_client *tls_client_free(struct tls_client *t); /* NULL is fine; returns NULL */
DEFINE_CLEANUP(struct tls_client, tls_client_free)

/* Bytes of the socket; the plain ones among them are appended to *plain. */
int tls_client_take(struct tls_client *t, struct slice bytes, struct buf *plain,
                    struct problem *p) MUST_CHECK;
/* Plain bytes to be sent; only when the handshake is over. */
int tls_client_put(struct tls_client *t, struct slice plain, struct problem *p) MUST_CHECK;
void tls_client_end(struct tls_client *t); /* says that nothing more will be put */
struct buf *tls_client_out(struct tls_client *t);

bool tls_client_is_up(const struct tls_client *t);    /* the handshake is over */
bool tls_client_is_ended(const struct tls_client *t); /* the server said that it is done */

/* The sentences for a server that falls silent, or closes, before the handshake is over. */
int tls_client_silent(const struct tls_client *t, struct problem *p);
int tls_client_cut(const struct tls_client *t, struct problem *p);

#endif

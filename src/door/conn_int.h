/* What the files of a connection tell each other. */
#ifndef WEIR_DOOR_CONN_INT_H
#define WEIR_DOOR_CONN_INT_H

#include "door/door_int.h"
#include "door/tls.h"

/* Bytes that are handed to libuv at once when the socket is full, and that TLS encrypts at once.  A
 * larger piece would make a slow but honest reader look stalled. */
#define CONN_WRITE_CHUNK (256 * KIB)

/* --- conn.c --- */

/* Plain input; `bytes` may be written to. */
void conn_take(struct conn *c, char *bytes, size_t n);
/* The peer will send no more.  is_clean: it said so, and what it sent before is answered. */
void conn_end_input(struct conn *c, bool is_clean);
/* The socket is full: libuv gets a copy. */
void conn_write_later(struct conn *c, const char *bytes, size_t n);
/* To be flushed before the turn ends. */
void conn_make_dirty(struct conn *c);
/* The handshake is done: without an access token no more is asked of the peer. */
void conn_secured(struct conn *c);

/* It waits for a leader, for RELAY_WAIT_MS; or no more. */
void conn_wait_for_leader(struct conn *c, bool must_wait);
/* Another weir has answered for it from here on, which also judges who it is. */
void conn_hand_over(struct conn *c);
/* It is that client's: where it comes from, by which door.  False: it was turned away. */
struct conn_origin {
        const struct door *door;
        const char *address; /* "" : a unix socket */
        bool is_local, is_near;
};
bool conn_become(struct conn *c, const struct conn_origin *origin) MUST_CHECK;

/* --- conn_tls.c --- */

/* After accept, before any byte.  False: no memory. */
bool conn_tls_begin(struct conn *c);
void conn_tls_release(struct conn *c);
bool conn_is_shaking(const struct conn *c); /* its handshake is not done */
void conn_tls_read(struct conn *c, const char *bytes, size_t n);
void conn_tls_write(struct conn *c); /* sends sent..ready, as far as the socket takes it */
void conn_tls_say_goodbye(struct conn *c);

#endif

/* The leader's end of a relay (door/relay.h): a connection that another weir of the cluster made
 * for one of its clients, and what that weir told of the client (wire/relay_header.h).
 *
 * It comes to a RESP address, but may speak HTTP.  From the header on it is that client's
 * connection: limits, metrics, roles and checks of the Host hold as if it had come here.  A header
 * is taken once: nonces are remembered for as long as a header is valid. */
#ifndef WEIR_DOOR_TOLD_H
#define WEIR_DOOR_TOLD_H

#include "base/hash.h"
#include "door/muffle.h"

struct conn;
struct server;

/* Part of the server.  A nonce is in one of the two; the older is forgotten as a whole. */
struct told_nonces {
        struct hash now, before;
        int64_t since_ms; /* Unix ms: the oldest of `now` */
        struct muffle said;
};

void told_init(struct server *s);
void told_free(struct server *s);
/* The first bytes of a RESP connection, which begin as a PROXY header does.  Returns how many it
 * took; 0 and c->need when more must come. */
size_t told_take(struct conn *c, const char *bytes, size_t n);

#endif

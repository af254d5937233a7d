/* What a weir that follows says to the leader before it relays a client's connection: whose the
 * connection is, and a proof that a machine of the cluster says so.
 *
 * It is a PROXY header of version 2 with extras of weir's own:
 *
 *      0xE0  version (1), door, RESP version, flags, Unix ms (8 bytes, big-endian), nonce (16)
 *      0xE1  the node that sends it
 *      0xE2  the name that the client gave its connection (CLIENT SETNAME)
 *      0xE3  the name of the token that the client has shown
 *      0xE4  HMAC-SHA256 over everything before its value, with the cluster's secret; the last
 *
 * The leader answers with a line: "+WEIR " and the HMAC of the nonce in hex, or "-CODE reason" and
 * the end.  The follower sends nothing of the client before.  So either side knows that the other
 * has the secret, and a refused connection can be tried again elsewhere.
 *
 * Pure: time is passed in, Unix ms.  The leader must remember the nonces for RELAY_NONCE_MS. */
#ifndef WEIR_WIRE_RELAY_HEADER_H
#define WEIR_WIRE_RELAY_HEADER_H

#include "wire/proxy_header.h"

#define RELAY_CLOCK_MS     60000 /* a header that is older, or that much younger, is refused */
#define RELAY_NONCE_MS     (2LL * RELAY_CLOCK_MS) /* so long a header can be accepted */
#define RELAY_NONCE_BYTES  16
#define RELAY_NAME_MAX     255
#define RELAY_ANSWER_BEGIN "+WEIR "
#define RELAY_ANSWER_BYTES 72 /* with its CR LF */

enum relay_door { RELAY_RESP = 1, RELAY_HTTP = 2 };

struct relay_header {
        bool has_address; /* false: a unix socket */
        struct ip ip;
        enum relay_door door;
        uint8_t proto;     /* of RESP: 2 or 3; 0 with HTTP */
        bool is_local;     /* a unix socket of the follower */
        bool is_near;      /* the client is on the follower's machine */
        bool is_tls;       /* it came over TLS */
        bool is_certified; /* its certificate stands for the token */
        struct slice node, name, token;
        int64_t sent_ms; /* Unix ms */
        uint8_t nonce[RELAY_NONCE_BYTES];
};

/* False: no memory. */
bool relay_header_put(struct buf *out, const struct relay_header *h,
                      struct slice secret) MUST_CHECK;
/* OK: it has *ret_len bytes, 0 when more are needed to know.  ERR_SYNTAX: it is none of weir's;
 * ERR_FORBIDDEN: the proof is wrong, or the time; and why.  Texts are borrowed from the bytes. */
int relay_header_read(struct slice bytes, struct slice secret, int64_t now_ms,
                      struct relay_header *ret, size_t *ret_len, struct problem *p) MUST_CHECK;

/* The line by which the leader accepts; no NUL behind it.  False: no memory. */
bool relay_answer_make(struct slice secret, const uint8_t nonce[RELAY_NONCE_BYTES],
                       char ret[RELAY_ANSWER_BYTES]) MUST_CHECK;

#endif

/* The header that a balancer puts before a connection to tell whose it is: the PROXY protocol,
 * versions 1 (a line of text) and 2 (binary).  weir reads both and writes version 2. */
#ifndef WEIR_WIRE_PROXY_HEADER_H
#define WEIR_WIRE_PROXY_HEADER_H

#include "base/buf.h"
#include "base/err.h"
#include "base/network.h"

#define PROXY_HEADER_MAX 4096 /* addresses need 232 bytes at most; the rest is for extras (TLV) */

struct proxy_end {
        struct ip ip;
        uint16_t port;
};

struct proxy_header {
        bool is_told; /* false: a health check of the balancer, or a client on a unix socket */
        struct proxy_end from, to;
};

/* OK: it has *ret_len bytes, 0 when more are needed to know.  ERR_SYNTAX: it is none, and why. */
int proxy_header_parse(struct slice bytes, struct proxy_header *ret, size_t *ret_len,
                       struct problem *problem) MUST_CHECK;
/* Whether these bytes are, or may become, a header of version 2. */
bool proxy_header_is_begun(struct slice bytes);
/* Version 2, in at most 52 bytes. */
void proxy_header_put(struct buf *out, const struct proxy_header *header);

/* Extras (TLVs) behind the addresses of version 2: a type, the length of the value in two bytes,
 * the value. */
void proxy_header_put_with(struct buf *out, const struct proxy_header *header, struct slice extras);
/* Those of a header that was parsed, as they came; `header` is all of it. */
struct slice proxy_header_extras(struct slice header);
void proxy_extra_put(struct buf *extras, uint8_t type, struct slice value);
/* Takes the next one off the front; false at the end, and when the rest makes no sense, which then
 * is not empty. */
bool proxy_extra_next(struct slice *extras, uint8_t *ret_type, struct slice *ret_value);

#endif

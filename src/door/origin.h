/* Where an HTTP request comes from: its Host, and what a browser says about the page that asks.
 * Pure: reads the head of a parsed request. */
#ifndef WEIR_DOOR_ORIGIN_H
#define WEIR_DOOR_ORIGIN_H

#include "wire/http.h"

/* "localhost", 127.x.x.x or "[::1]", with or without a port, and nothing else around it. */
bool origin_is_loopback(struct slice host);

/* How a request came. */
struct origin_way {
        bool is_proxied; /* a proxy may have replaced Host, so X-Forwarded-Host counts as well */
        bool is_tls; /* over TLS: a page of http:// is another's, as anybody on the way wrote it */
};

/* The request is sent by a browser for a page that is not served by this Host. */
bool origin_is_foreign(const struct http_parser *p, const char *bytes, struct origin_way way);

/* The request may be sent by a browser and nothing shows that a page of this Host asked for it. For
 * a GET that changes something: an image, a link or a mail can make a browser send it. */
bool origin_is_unproven(const struct http_parser *p, const char *bytes, bool is_tls);

#endif

/* Where a client finds its weir: the text of --url or WEIR_URL, taken apart.
 *
 *      redis://[[user]:token@]host[:port][/]      weir:// is the same
 *      unix:/path   unix:///path   /path   ./path
 *      host:port    host    :port    [::1]:7379
 *
 * Pure text; names are not resolved here. */
#ifndef WEIR_WIRE_SERVER_URL_H
#define WEIR_WIRE_SERVER_URL_H

#include "base/err.h"
#include "base/slice.h"

#define SERVER_URL_DEFAULT  "127.0.0.1:7379"
#define SERVER_PORT_DEFAULT 7379

struct server_url {
        bool is_unix;
        char path[108]; /* of the unix socket; the size is sun_path's */
        char host[256]; /* without brackets */
        uint16_t port;
        char token[1024]; /* empty = none */
        char text[300];   /* "127.0.0.1:7379" or the path: for messages, without the token */
};

int server_url_parse(const char *text, struct server_url *ret, struct problem *p) MUST_CHECK;

#endif

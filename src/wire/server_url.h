/* Where a client finds its weir: the text of --url or WEIR_URL, taken apart.
 *
 *      redis://[[user]:token@]host[:port][/]      weir:// is the same
 *      rediss://[[user]:token@]host[:port][/][?option=value&...]
 *                                                 over TLS; weirs:// is the same
 *      unix:/path   unix:///path   /path   ./path
 *      host:port    host    :port    [::1]:7379
 *
 * User, token and values are percent-decoded.  Pure text; names are not resolved here, and files
 * not read. */
#ifndef WEIR_WIRE_SERVER_URL_H
#define WEIR_WIRE_SERVER_URL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define SERVER_URL_DEFAULT      "127.0.0.1:7379"
#define SERVER_PORT_DEFAULT     7379
#define SERVER_PORT_TLS_DEFAULT 7381
#define SERVER_FILE_SIZE        512

/* What TLS is to do; a text that is empty was not given. */
struct server_tls {
        char ca[SERVER_FILE_SIZE];   /* PEM file of the authorities to trust; empty: the system's */
        char cert[SERVER_FILE_SIZE]; /* PEM file of the client's own certificate and its chain */
        char key[SERVER_FILE_SIZE];  /* PEM file of its key; empty: it is in `cert` */
        char name[256];              /* that the server's certificate must have; empty: the host */
        char verify[4];              /* "on" or "off"; empty is on */
};

struct server_url {
        bool is_unix, is_tls;
        char path[108]; /* of the unix socket; the size is sun_path's */
        char host[256]; /* without brackets */
        uint16_t port;
        char user[256];   /* empty = none: AUTH gets the token alone */
        char token[1024]; /* empty = none */
        struct server_tls tls;
        char text[300]; /* "127.0.0.1:7379" or the path: for messages, without the token */
};

int server_url_parse(const char *text, struct server_url *ret, struct problem *p) MUST_CHECK;
/* Takes the TLS options that the url left out from the environment (WEIR_TLS_CA and so on), and
 * checks that they fit together.  Does nothing for an address without TLS. */
int server_url_add_env(struct server_url *u, struct problem *p) MUST_CHECK;
/* The address as another program may be given it, without user and token. */
void server_url_put(struct buf *b, const struct server_url *u);

bool server_url_is_verified(const struct server_url *u);
/* AUTH [user] token; its words are borrowed from the url.  0: there is nothing to say. */
#define SERVER_AUTH_WORDS 3
size_t server_url_auth(const struct server_url *u, struct slice ret[SERVER_AUTH_WORDS]);

#endif

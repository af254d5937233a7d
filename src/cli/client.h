/* A blocking client: one connection, one question at a time.
 *
 * Speaks RESP3 when the server does.  A server's error comes back as its code with its own
 * sentence in the problem; trouble with the connection as ERR_UNAVAIL, ERR_TIMEOUT or ERR_IO with
 * what to do next.  The reply is valid until the next call. */
#ifndef WEIR_CLI_CLIENT_H
#define WEIR_CLI_CLIENT_H

#include "wire/resp_reply.h"
#include "wire/server_url.h"
#include "wire/tls_client.h"

#define CLIENT_CONNECT_MS 5000
#define CLIENT_REPLY_MS   30000 /* nothing the command line asks takes that long */

struct client {
        int fd; /* -1 = not connected */
        const struct server_url *url;
        struct tls_client *tls; /* NULL: the connection is plain, or there is none */
        struct buf out, in;     /* plain bytes */
        bool is_greeting;       /* nothing was asked yet */
        size_t in_used;         /* bytes of `in` that belong to the last reply */
        struct arena arena;
};

void client_init(struct client *c, const struct server_url *url);
void client_release(struct client *c);
void client_hang_up(struct client *c); /* client_connect() may follow */
int client_connect(struct client *c, struct problem *p) MUST_CHECK;
int client_call(struct client *c, const struct slice *argv, size_t argc, const struct value **ret,
                struct problem *p) MUST_CHECK;
/* For questions the server may think about: ERR_TIMEOUT when the answer is not there in time. */
int client_call_within(struct client *c, const struct slice *argv, size_t argc, int64_t reply_ms,
                       const struct value **ret, struct problem *p) MUST_CHECK;
/* The two halves, for several requests on their way at once; replies come in their order.  Small
 * requests are collected and sent together, at the latest before something is received. */
int client_send(struct client *c, const struct slice *argv, size_t argc,
                struct problem *p) MUST_CHECK;
int client_receive(struct client *c, const struct value **ret, struct problem *p) MUST_CHECK;

#endif

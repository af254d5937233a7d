/* The server: the doors RESP and HTTP, their listeners and their connections.  A member of the loop
 * (loop/loop.h), which runs, stops and frees it.
 *
 * Threads: loop thread only. */
#ifndef WEIR_DOOR_SERVER_H
#define WEIR_DOOR_SERVER_H

#include "base/err.h"

struct loop;
struct server;

enum server_kind { SERVER_RESP, SERVER_HTTP };

struct server_options {
        /* "host:port", ":port" (127.0.0.1), "[::1]:port", or a path of a unix socket (holds a
         * '/'); port 0 picks a free one. */
        const char *const *resp_addrs;
        size_t n_resp;
        const char *const *http_addrs;
        size_t n_http;
        const char *token; /* clients must show it; NULL = none, loopback only */
        /* Checks of the foreign contracts need no token (never what changes or lists anything). */
        bool is_check_open;
        uint64_t client_bytes; /* all clients' unsent output and unfinished input; 0: default */
        const char *version;   /* of weir; must outlive the server */
        const char *instance;  /* what no other weir has, for login_init(); NULL: it is alone */
};

/* A quarter of the memory of the machine, or of the control group, and never less than can be
 * configured: the largest request, and as much again for all others. */
uint64_t server_client_bytes_default(void);

/* Listens on every address; clients may connect when this returns, and are served from loop_run()
 * on.  The loop has its core, owns the server, and frees it; after an error too. */
int server_new(struct loop *loop, const struct server_options *options, struct server **ret,
               struct problem *problem) MUST_CHECK;

/* The i-th address of a kind as it really is (the port that was picked); NULL past the last. */
const char *server_address(const struct server *s, enum server_kind kind, size_t i);

#endif

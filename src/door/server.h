/* The server: the doors RESP and HTTP, their listeners and their connections.  A member of the loop
 * (loop/loop.h), which runs, stops and frees it.
 *
 * Threads: loop thread only. */
#ifndef WEIR_DOOR_SERVER_H
#define WEIR_DOOR_SERVER_H

#include "base/err.h"
#include "door/tls.h"

struct loop;
struct server;

enum server_kind { SERVER_RESP, SERVER_HTTP, SERVER_RESP_TLS, SERVER_HTTP_TLS, SERVER_KINDS };

/* Addresses of one kind: "host:port", ":port" (127.0.0.1), "[::1]:port", or without TLS the path of
 * a unix socket (holds a '/'); port 0 picks a free one. */
struct server_addresses {
        const char *const *text;
        size_t n;
};

struct server_options {
        struct server_addresses addresses[SERVER_KINDS];
        struct tls_files tls; /* for addresses with TLS; else cert is NULL */
        bool is_insecure;     /* other machines may connect without TLS */
        /* Checks of the foreign contracts need no token (never what changes or lists anything). */
        bool is_check_open;
        uint64_t client_bytes; /* all clients' unsent output and unfinished input; 0: default */
        const char *version;   /* of weir; must outlive the server */
        const char *instance;  /* what no other weir has, for login_init(); NULL: it is alone */
        /* Of a cluster; NULL: this weir is alone.  Both must outlive the server. */
        const char *cluster_secret; /* that its machines know */
        const char *node;           /* this one's name */
};

/* A quarter of the memory of the machine, or of the control group, and never less than can be
 * configured: the largest request, and as much again for all others. */
uint64_t server_client_bytes_default(void);

/* Listens on every address; clients may connect when this returns, and are served from loop_run()
 * on.  The loop has its core, owns the server, and frees it; after an error too. */
int server_new(struct loop *loop, const struct server_options *options, struct server **ret,
               struct problem *problem) MUST_CHECK;

/* Other files of the certificate, or the same to be read once more; new connections get it.  After
 * an error the old one stays. */
int server_set_tls(struct server *s, const struct tls_files *files,
                   struct problem *problem) MUST_CHECK;

/* In a cluster; loop thread, not from inside a call of the core.  A server leads until it is told
 * to follow, and the other way round; being told what it does already changes nothing, but that the
 * leader may be another.
 *
 * One that follows answers checks itself, and what needs no state (PING); every other connection is
 * relayed whole to the leader, from the first command on that is not one of those.  `leader` is the
 * RESP address of that machine ("weir1:7379", or rediss://weir1:7381?ca=FILE for TLS); NULL: nobody
 * is known to lead, connections wait for RELAY_WAIT_MS and are told UNAVAIL then.
 *
 * On a change all connections are closed, except those that only ask for checks: their answers that
 * may leave do, the others never. */
#define RELAY_WAIT_MS 10000
void server_lead(struct server *s);
void server_follow(struct server *s, const char *leader);
/* While this weir leads and its lease is in doubt (`leads_until` has passed): no answer leaves and
 * no request is run, except checks on connections that ask for nothing else.  It means nothing to
 * one that follows.  Answers that are held when it is told to follow never leave. */
void server_hold(struct server *s, bool is_held);
/* Closes every connection, whatever it asks: answers that may leave do, the others never. */
void server_hang_up(struct server *s);
/* No connection waits for the core: it may be emptied.  So it is right after server_hang_up(). */
bool server_is_empty(const struct server *s);
/* For /readyz and INFO of one that follows: so many batches are not applied yet. */
void server_set_lag(struct server *s, uint64_t batches);

/* The i-th address of a kind as it really is (the port that was picked); NULL past the last. */
const char *server_address(const struct server *s, enum server_kind kind, size_t i);

#endif

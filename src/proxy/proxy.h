/* The MySQL proxy: doors that clients connect to, and threads that relay between each client and
 * its own connection to the server, holding transactions at their start when the gate says so.
 *
 * One set of threads serves all doors.  A connection lives on one thread.  What doors share
 * (classes, admission) is behind the lock of the door.  The loop publishes policies and asks for
 * counts; it never waits for a socket here.
 *
 * Loop thread only, all of it. */
#ifndef WEIR_PROXY_PROXY_H
#define WEIR_PROXY_PROXY_H

#include "base/buf.h"
#include "gate/sql_class.h"
#include "loop/loop.h"
#include "traffic/traffic.h"

enum proxy_tls_mode {
        PROXY_TLS_OFF,       /* clients are told that there is none */
        PROXY_TLS_TERMINATE, /* weir's certificate for clients; to the server as server_tls says */
        PROXY_TLS_BLIND,     /* a client that wants TLS is relayed unread */
        PROXY_TLS_MODES
};
enum proxy_server_tls {
        PROXY_SERVER_AS_CLIENT, /* encrypted exactly when the client's side is */
        PROXY_SERVER_REQUIRE,   /* any certificate will do */
        PROXY_SERVER_VERIFY,    /* signed by server_ca, for the server's name */
        PROXY_SERVER_TLS_MODES
};

/* Borrowed during the call that takes it. */
struct proxy_door {
        const char *name;
        const char *const *listens; /* "host:port", ":port", or the path of a unix socket */
        size_t n_listens;
        const char *server; /* "host:port", "host" (port 3306), or a path */
        enum gate_mode mode;
        int64_t wait_ms, connect_timeout_ms;
        uint32_t concurrency; /* transactions at the server at once; 0: any */
        bool is_floor_off;    /* deferrable_floor = 0 */
        uint32_t max_connections, max_user_connections; /* 0: no limit */
        bool is_comment_trusted;                        /* comment_tiers = "any" */
        enum proxy_tls_mode tls;
        const char *tls_cert, *tls_key; /* of weir, for clients */
        enum proxy_server_tls server_tls;
        const char *server_ca, *server_name; /* NULL: the host of `server` */
        const char *const
                *proxy_from; /* their connections begin with a PROXY header: networks, or "unix" */
        size_t n_proxy_from;
        bool sends_proxy; /* a PROXY v2 header to the server */
        const struct class_row
                *rows; /* of the file, all of them: those of other doors are left out */
        size_t n_rows;
};

struct proxy;

/* threads 0: one per processor. */
int proxy_new(struct loop *loop, unsigned threads, struct proxy **ret,
              struct problem *problem) MUST_CHECK;
/* Sets the doors: those of the same name go on with their connections; those that are gone close
 * their entrances, and their connections as soon as they have no transaction.  On an error nothing
 * has changed. */
int proxy_change(struct proxy *p, const struct proxy_door *doors, size_t n,
                 struct problem *problem) MUST_CHECK;
/* Where door i listens, really; NULL at the end. */
const char *proxy_address(const struct proxy *p, size_t door, size_t i);
struct traffic_threads proxy_for_core(struct proxy *p);
/* What that door has learned, as text for a file; any thread.  False: there is no such door. */
bool proxy_memory(struct proxy *p, size_t door, char name[TRAFFIC_NAME_MAX + 1], struct buf *ret);
/* Takes it over.  On an error nothing has changed. */
int proxy_remember(struct proxy *p, size_t door, struct slice text,
                   struct problem *problem) MUST_CHECK;
/* The loop is to stop: takes no more connections, closes those without a transaction. */
struct proxy *proxy_free(struct proxy *p); /* cuts what is left; NULL is fine; returns NULL */

#endif

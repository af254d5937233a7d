/* The addresses that connect: how many connections each has, how many of those have not shown the
 * token, and how many wrong tokens came from it.
 *
 * A peer is an IPv4 address, the /64 of an IPv6 address (a host that has one of its addresses has
 * all of them), or this machine as a whole.  A peer without connections is kept only for its wrong
 * tokens.  At most PEERS_KEPT of these are kept; the one whose last wrong token is oldest goes.
 *
 * Loop thread only; the time is passed in, steady ns.
 *
 * Invariants, checked by peers_check():
 *   (1) a peer is on `idle` exactly when it has no connection
 *   (2) n_idle is the length of `idle`, and at most PEERS_KEPT
 *   (3) `idle` is in order of failed_ns */
#ifndef WEIR_DOOR_PEER_H
#define WEIR_DOOR_PEER_H

#include <netinet/in.h>

#include "api/access.h"
#include "base/hash.h"
#include "base/list.h"
#include "door/muffle.h"

#define PEERS_KEPT 1000
/* After this long without another one, the wrong tokens of a peer are forgotten. */
#define PEER_FORGET_NS (600 * NS_PER_S)
/* Lines about wrong tokens a minute, of all peers together. */
#define PEER_LINES 20

struct peer {
        struct hash_node node;
        struct list link;   /* peers->idle, while it has no connection */
        uint32_t conns;     /* open ones */
        struct use use;     /* of another machine's address: its memory and commands */
        uint32_t strangers; /* those that have not shown the token */
        uint32_t failures;  /* wrong tokens */
        int64_t failed_ns;  /* the last of them */
        struct muffle said; /* of its wrong tokens */
        char name[INET6_ADDRSTRLEN];
};

struct peers {
        struct hash by_name;
        struct list idle; /* the longest without a wrong token first */
        size_t n_idle;
        int64_t lines_ns; /* the minute in which so many lines were written */
        unsigned lines;
};

void peers_init(struct peers *p, uint64_t seed);
void peers_release(struct peers *p); /* no connection may be left */
void peers_check(const struct peers *p);

/* For a connection that opened; `address` as in struct session. */
struct peer *peer_join(struct peers *p, const char *address, bool is_near);
void peer_leave(struct peers *p, struct peer *peer); /* it closed; the peer may be gone */

/* A wrong token.  True: there were too many, so that the answer must wait. */
bool peer_fail(struct peer *peer, int64_t now_ns);
/* How many wrong tokens to report in a log line now; 0 = write no line. */
uint64_t peer_fail_line(struct peers *p, struct peer *peer, int64_t now_ns);

#endif

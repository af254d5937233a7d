/* The connections of a weir that follows, relayed to the weir that leads.
 *
 * A connection begins as always.  Checks, and what needs no state, are answered here.  At the first
 * request that is something else the connection becomes a relay:
 *
 *      state        entered by                       leaves by
 *        WAITING    relay_way, an attempt failed     a leader is known -> DIALING
 *        DIALING    dial                             connected -> GREETING, else WAITING
 *        GREETING   greet                            the leader accepts -> OPEN, else WAITING
 *        OPEN       on_accepted                      either side closes, or another weir leads
 *
 * Nothing of the client is sent before the leader has accepted, so a relay that fails before goes
 * back to WAITING with all its input, and after RELAY_WAIT_MS the client is told UNAVAIL.  From
 * OPEN on bytes are copied both ways: what the client sends waits in conn.in, what the leader sends
 * in conn.out, and while the one side does not take them the other is not read.
 *
 * When the leader cannot be reached, one relay tries at a time, and the others go after it.
 *
 * Loop thread only. */
#ifndef WEIR_DOOR_RELAY_H
#define WEIR_DOOR_RELAY_H

#include <sys/socket.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "door/muffle.h"
#include "loop/loop.h"
#include "wire/server_url.h"

struct conn;
struct relay;
struct server;

#define RELAY_ADDRESSES 8 /* of a host that are tried, in turn */

/* What a connection that relays asks of it.  conn.c knows relays by this alone, as it knows
 * protocols by struct door. */
struct relay_ops {
        bool (*is_waiting)(const struct conn *c);
        bool (*can_take)(const struct conn *c);                 /* more input */
        size_t (*input)(struct conn *c, char *bytes, size_t n); /* returns how many bytes it took */
        void (*end_input)(struct conn *c); /* the client sends no more, and all it sent is taken */
        void (*flushed)(struct conn *c);   /* its output may have left */
        void (*give_up)(struct conn *c);   /* no leader in time: what it has asked is refused */
        void (*end)(struct conn *c);       /* it relays no more */
        size_t (*bytes)(const struct conn *c); /* memory of what is on its way to the leader */
};

/* Part of the server. */
struct relays {
        const struct relay_ops *ops;
        struct list all;
        char *leader; /* its address, as it was told; NULL: none is known */
        struct server_url url;
        struct sockaddr_storage at[RELAY_ADDRESSES];
        size_t n_at, next_at;
        uv_getaddrinfo_t lookup;
        bool is_looking_up;
        bool is_stale;           /* what is looked up is not wanted any more */
        bool is_reached;         /* the leader accepted the last connection that was tried */
        struct relay *trying;    /* while it did not */
        struct problem trouble;  /* why it could not be reached; err OK: nothing is known */
        struct loop_timer timer; /* tries again */
        struct muffle said;
        bool is_closed;
};

void relays_init(struct server *s);
void relays_close(struct server *s); /* before the handles of the loop are closed */
void relays_release(struct server *s);
/* Another leader; NULL: none is known, or this weir leads.  Open relays are over. */
void relays_set_leader(struct server *s, const char *leader);
/* Whether a connection that comes now would be taken by the leader. */
bool relays_are_ready(const struct server *s);

/* The next request of the connection is for the leader. */
enum relay_way {
        RELAY_HERE,    /* run it: this weir leads */
        RELAY_AWAY,    /* do not: it is relayed, or waits */
        RELAY_REFUSED, /* answer it with *p */
};
enum relay_way relay_way(struct conn *c, struct problem *p);

bool relay_is_waiting(const struct conn *c); /* it relays, and is not open yet */
void relay_cancel(struct conn *c);           /* such a one runs its input itself */

#endif

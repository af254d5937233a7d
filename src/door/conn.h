/* A connection: bytes in, commands through its door, bytes out when they may leave.
 *
 * Life
 *   OPEN       conn_accept           reads, runs, writes
 *   CLOSING    conn_finish           reads and runs no more; closes when its output has left
 *   LINGERING  conn_finish, output   after an error: our half is shut, what still comes in is
 *              sent                  thrown away, so that the peer can read the error
 *   CLOSED     conn_close            the handle is closing; freed when libuv is done with it,
 *                                    which is after the turn, so nothing in a turn dangles
 *
 * Output: out[0..sent) has left, out[sent..ready) may leave, the rest waits for the log: each
 * mark says up to which byte a batch sets free.  Order of replies is order of bytes.
 *
 * Invariants, checked by conn_check():
 *   (1) sent <= ready <= out.len, and marks lie in (ready, out.len], both fields rising
 *   (2) the last mark, or ready when there is none, is out.len
 *   (3) a connection with marks is on `dirty` or `held`
 *   (4) in_at <= in.len
 *   (5) it is on `heavy` exactly when held_bytes > 0 */
#ifndef WEIR_DOOR_CONN_H
#define WEIR_DOOR_CONN_H

#include <uv.h>

#include "api/session.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"

struct server;
struct conn;
struct peer;
struct relay;
struct relay_header;
struct tls;

/* What a protocol is to a connection. */
struct door {
        const char *name;
        size_t conn_bytes; /* of the struct that begins with struct conn */
        /* LIMIT_PREAUTH_BYTES holds; HTTP has its own bound on the head, and looks at the token
         * before it takes a body. */
        bool counts_preauth;
        bool is_http; /* over TLS, clients may choose it by its name */
        struct session_ops session;
        void (*open)(struct conn *c);
        /* Runs the requests that are complete while conn_can_run(); returns how many bytes they
         * took and sets c->need when it stopped at an unfinished one.  May write to the bytes. */
        size_t (*input)(struct conn *c, char *bytes, size_t len);
        /* Tells the peer why it is turned away; the connection is closed afterwards. */
        void (*refuse)(struct conn *c, const struct problem *problem);
        void (*close)(struct conn *c);
        /* In a cluster: what the leader is to know of it, and what it was told (door/relay.h). */
        void (*tell)(const struct conn *c, struct relay_header *ret);
        void (*hear)(struct conn *c, const struct relay_header *told);
};

/* Each kind has one length, so each list is in order of time by itself. */
enum conn_deadline {
        CONN_DEADLINE_NONE,
        CONN_DEADLINE_PREAUTH, /* LIMIT_PREAUTH_MS from accept to authenticated */
        CONN_DEADLINE_REQUEST, /* LIMIT_STALL_MS from its first byte to its last */
        CONN_DEADLINE_TOKEN,   /* LIMIT_TOKEN_WAIT_MS until a wrong token is answered */
        CONN_DEADLINE_OUTPUT,  /* LIMIT_STALL_MS without the peer taking anything */
        CONN_DEADLINE_LINGER,
        CONN_DEADLINE_RELAY, /* RELAY_WAIT_MS until the leader takes it over */
        CONN_DEADLINE_COUNT,
};

/* At most one batch is in flight and one open, so two are in use; more would be merged. */
#define CONN_MARKS 2

/* What stays known of a client that another weir of the cluster has relayed here (door/told.h). */
struct told {
        bool is_tls;      /* between it and the weir that relays */
        char certified[]; /* the token that its certificate stands for; "": none */
};

struct conn_mark {
        uint64_t seq;
        size_t end;
};

/* Idle connections are many: one of HTTP is to fit into 1 KiB, so offsets are short.  Input and
 * output are bounded far below 4 GiB (IN_MAX and OUT_MAX in conn.c). */

struct conn {
        union {
                uv_handle_t handle;
                uv_stream_t stream;
                uv_tcp_t tcp;
                uv_pipe_t pipe;
        } uv;
        struct session session;
        struct server *server;
        const struct door *door;
        struct tls *tls;   /* NULL: what passes is plain (conn_tls.c) */
        int64_t opened_ms; /* Unix ms */

        union {
                struct relay *relay; /* unless is_told; NULL: this weir answers it */
                struct told *told;   /* of one that another weir has relayed here */
        } cluster;

        struct list link;      /* server->conns */
        struct list out_link;  /* dirty or held */
        struct list run_link;  /* resumed (the round) or congested */
        struct list time_link; /* deadlines[deadline] */
        int64_t deadline_ns;

        struct buf in; /* input not run yet, from in_at on */
        uint32_t in_at;
        uint32_t need;          /* bytes without which another look at the input is of no use */
        uint32_t preauth_bytes; /* input so far, while not authenticated; of a handshake first */

        /* Its go, which ends when it has used its share of the turn (loop/share.h). */
        uint32_t active_turn, read_turn; /* numbers of turns */
        uint32_t spent_commands;
        uint32_t spent_bytes; /* of input; those of output are out.len - go_out */
        uint32_t go_out;

        struct buf out;
        uint32_t sent, ready;
        uint32_t writing;    /* bytes handed to libuv because the socket was full */
        uint32_t held_bytes; /* memory of its input and output, as counted last */
        struct conn_mark marks[CONN_MARKS];

        struct peer *peer;       /* NULL once it is closed */
        struct heap_node weight; /* server->heavy, while it holds memory; its id is conn_id() */

        uint8_t n_marks;
        uint8_t deadline; /* enum conn_deadline */
        bool is_local;    /* a unix socket */
        bool is_near;     /* the peer is of this machine, by a unix socket or loopback */
        bool is_authed;
        bool is_held_back; /* output waits for CONN_DEADLINE_TOKEN */
        bool is_go_open;   /* the turn ended within its go: the rest of its share is left */
        bool is_reading;
        bool is_eof;
        bool is_closing;
        bool is_faulty; /* the peer may still be sending: linger */
        bool is_lingering;
        bool is_listening; /* asks no more; what it still sends is thrown away */
        bool is_closed;
        /* Of a cluster (door/relay.h, door/told.h). */
        bool is_told : 1;
        bool has_state : 1;   /* has asked for more than checks: ends when another weir leads */
        bool is_stalled : 1;  /* its next request waits until the lease is certain */
        bool is_unserved : 1; /* no leader came in time: the requests it has are refused */
};

static inline uint64_t conn_id(const struct conn *c)
{
        return c->weight.id;
}

static inline struct relay *conn_relay(const struct conn *c)
{
        return c->is_told ? NULL : c->cluster.relay;
}

static inline struct told *conn_told(const struct conn *c)
{
        return c->is_told ? c->cluster.told : NULL;
}

/* The client has encrypted what it sent, to this weir or to the one that relays it. */
bool conn_is_tls(const struct conn *c);

struct listener;
int conn_accept(struct listener *l);

/* Whether the next request may run: not waiting, not closing, output and open batch not full, and
 * its share of the turn not used up. */
bool conn_can_run(const struct conn *c);
/* A request of so many bytes was run. */
void conn_spend(struct conn *c, size_t bytes);

/* Room for a reply in c->out; call before the first byte of one. */
struct buf *conn_out(struct conn *c);
/* A reply was written to c->out that may leave when batch `seq` is durable; 0 = at once. */
void conn_replied(struct conn *c, uint64_t seq);
/* For session_ops.reply_end: as above, and the connection may run on, later in this turn. */
void conn_replied_late(struct conn *c, uint64_t seq);
void conn_authenticated(struct conn *c, struct grant *grant); /* by a token of that grant */
/* The TLS handshake has ended with a certificate of the client that `ca` vouches for; called once,
 * before any request runs. */
void conn_certified(struct conn *c);
/* It has shown a wrong token; counts it.  True: too many came from there, so that the connection
 * must end with this answer, and conn_hold_back() is called. */
bool conn_count_failure(struct conn *c);
void conn_hold_back(struct conn *c);   /* what is answered leaves after LIMIT_TOKEN_WAIT_MS */
void conn_forget_auth(struct conn *c); /* as after accept; nothing when no token is needed */

/* From here on it only gets what others write to it.  No deadline holds: the writer must look at
 * conn_unsent(). */
void conn_listen(struct conn *c);
size_t conn_unsent(const struct conn *c); /* bytes of output that the socket has not taken */

void conn_finish(struct conn *c, bool is_faulty);
void conn_close(struct conn *c);

/* For the server: its lists and its timer of deadlines, at the start. */
void conn_deadlines_init(struct server *s);
/* For the turn. */
void conn_run(struct conn *c);   /* the input it has, as far as its share goes */
void conn_flush(struct conn *c); /* what may leave; off `dirty` and `held` or back on `held` */
void conn_cut(struct conn *c);   /* its deadline passed */
/* All connections together hold too much: what this one holds is given back.  Not from inside a
 * call of the core. */
void conn_cut_heavy(struct conn *c);
/* The same, for that reason. */
void conn_cut_for(struct conn *c, const struct problem *why);
void conn_stop(struct conn *c); /* the server stops: no more input, answer what is there */
/* The state that it asked about is another's from here on: answers that may leave do, the others
 * never, and it closes.  Its session has nothing of the core any more when this returns.
 * may_leave: false when nothing may.  Not from inside a call of the core. */
void conn_hang_up(struct conn *c, bool may_leave);
void conn_resume(struct conn *c); /* it may run on, later in this turn or in the next */
void conn_check(const struct conn *c);

#endif

/* What the files of this room share: the server, its counters, and what a door must provide.
 * Only files in door/ include this. */
#ifndef WEIR_DOOR_DOOR_INT_H
#define WEIR_DOOR_DOOR_INT_H

#include <uv.h>

#include "api/limits.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/list.h"
#include "checks/check.h"
#include "core/audit.h"
#include "core/core.h"
#include "door/conn.h"
#include "door/login.h"
#include "door/muffle.h"
#include "door/peer.h"
#include "door/relay.h"
#include "door/server.h"
#include "door/stream.h"
#include "door/tls_store.h"
#include "door/told.h"
#include "door/use.h"
#include "door/who.h"
#include "loop/loop.h"
#include "wire/secret.h"

/* One read takes at most this much; a request that is complete in it is never copied. */
#define SERVER_READ_BYTES (256 * KIB)
/* Output buffers kept for reuse, so that answering allocates nothing. */
#define SERVER_SPARE_BUFS 128

/*      name                  kind   what it counts */
#define DOOR_COUNTER_MAP(X)                                                                        \
        X(CONNECTIONS, "connections", COUNTER_GAUGE, "Connections that are open.")                 \
        X(ACCEPTED, "connections_accepted", COUNTER_TOTAL, "Connections that were accepted.")      \
        X(REFUSED, "connections_refused", COUNTER_TOTAL,                                           \
          "Connections turned away because too many were open.")                                   \
        X(CUT, "connections_cut", COUNTER_TOTAL, "Connections cut because a deadline passed.")     \
        X(FOREIGN, "connections_foreign", COUNTER_TOTAL,                                           \
          "Connections to the RESP port that spoke HTTP or TLS and were dropped.")                 \
        X(PROTOCOL_ERRORS, "protocol_errors", COUNTER_TOTAL,                                       \
          "Connections closed because what they sent was not the protocol.")                       \
        X(AUTH_FAILURES, "auth_failures", COUNTER_TOTAL, "Wrong access tokens.")                   \
        X(RESP_COMMANDS, "resp_commands", COUNTER_TOTAL, "Commands run over RESP.")                \
        X(RESP_ERRORS, "resp_errors", COUNTER_TOTAL, "Error replies over RESP.")                   \
        X(HTTP_REQUESTS, "http_requests", COUNTER_TOTAL, "Requests answered over HTTP.")           \
        X(HTTP_ERRORS, "http_errors", COUNTER_TOTAL, "HTTP answers with a status of 400 or more.") \
        X(BYTES_IN, "bytes_in", COUNTER_TOTAL, "Bytes read from clients.")                         \
        X(BYTES_OUT, "bytes_out", COUNTER_TOTAL, "Bytes written to clients.")                      \
        X(CLIENT_BYTES, "client_memory_bytes", COUNTER_GAUGE,                                      \
          "Memory of unsent output and unfinished input, all connections together.")               \
        X(CUT_MEMORY, "connections_cut_memory", COUNTER_TOTAL,                                     \
          "Connections cut because all together held more than client_memory.")                    \
        X(SLOWED, "connections_slowed", COUNTER_TOTAL,                                             \
          "Times that a connection had to wait: its address or token had sent too many commands.") \
        X(CUT_USE, "connections_cut_use", COUNTER_TOTAL,                                           \
          "Connections cut because their address or token held more memory than it may.")          \
        X(REFUSED_USE, "connections_refused_use", COUNTER_TOTAL,                                   \
          "Connections turned away because their token had too many.")                             \
        X(CUT_STRANGERS, "connections_cut_strangers", COUNTER_TOTAL,                               \
          "Connections cut before they showed the token, to make room for newer ones.")            \
        X(RELAYS, "connections_relaying", COUNTER_GAUGE,                                           \
          "Connections that this weir relays to the leader of the cluster.")                       \
        X(RELAY_FAILURES, "relay_failures", COUNTER_TOTAL,                                         \
          "Times that the leader could not be reached, or refused a connection.")                  \
        X(RELAYED, "connections_relayed", COUNTER_TOTAL,                                           \
          "Connections that another weir of the cluster has relayed to this one.")                 \
        X(RELAYED_REFUSED, "connections_relayed_refused", COUNTER_TOTAL,                           \
          "Connections of another weir that were refused: no leader here, or a wrong proof.")      \
        X(TLS_CONNECTIONS, "tls_connections", COUNTER_GAUGE,                                       \
          "Connections over TLS that are open.")                                                   \
        X(TLS_HANDSHAKES, "tls_handshakes", COUNTER_TOTAL, "TLS handshakes that were completed.")  \
        X(TLS_FAILURES, "tls_failures", COUNTER_TOTAL,                                             \
          "Connections over TLS that failed: no TLS, no common version, a bad certificate.")

enum door_counter {
#define X(id, name, kind, text) DOOR_##id,
        DOOR_COUNTER_MAP(X)
#undef X
                DOOR_COUNTERS
};

struct listener;

/* Invariants of the server between turns; its check in server.c asserts them:
 *   (1) a connection is on `conns` until it is closed
 *   (2) DOOR_CONNECTIONS is the length of `conns`
 *   (3) `dirty` is empty
 *   (4) DOOR_CLIENT_BYTES is the sum of what is on `heavy`, and at most client_bytes_max
 *   (5) strangers are connections
 *   (6) at most SERVER_SPARE_BUFS are spare
 *   (7) nothing is listened on while stopping
 *   (8) is_gated says whether it follows or is held, and it is never both */
struct server {
        struct loop *loop; /* not owned; owns this */
        struct core *core; /* that of the loop */
        const char *version;
        /* Who may ask (door/who.c).  Of the two grants one is for those who have shown no token
         * yet, and one for those who only ask with a check contract. */
        bool needs_token;
        bool is_check_open; /* checks need no token */
        uint64_t tokens_seen;
        struct grant *stranger, *asker;

        struct listener **listeners;
        size_t n_listeners;

        /* Connections, and what they wait for. */
        struct list conns;
        struct list dirty;     /* has output to look at before the turn ends */
        struct list held;      /* has output that waits for the log */
        struct list resumed;   /* the round: may run input it already has, each in its turn */
        struct list congested; /* has input, but the open batch is large */
        struct list slowed;    /* has input, but its address or token must wait (door/use.c) */
        struct loop_timer slow_timer;
        bool is_over; /* some address or token holds more memory than it may */
        struct list deadlines[CONN_DEADLINE_COUNT]; /* each in order of time */
        struct loop_timer deadline_timer;
        uint64_t next_conn_id;

        struct peers peers;
        size_t strangers; /* connections of other machines that have not shown the token */
        int files_max;    /* descriptors are below it (RLIMIT_NOFILE) */
        struct muffle refused_said, strangers_said;

        /* Memory of clients: DOOR_CLIENT_BYTES is the sum. */
        struct heap heavy;         /* connections that hold any, the heaviest first */
        uint64_t client_bytes_max; /* past it the heaviest are cut */
        struct muffle heavy_said;

        /* One request's memory, shared by all: only one request is read at a time. */
        char *read_buf;
        struct slice *argv; /* LIMIT_COMMAND_ARGS of them */
        struct arena arena;
        struct command command;
        struct problem problem;
        struct check_answer check_answer;
        struct buf spare[SERVER_SPARE_BUFS];
        size_t n_spare;

        /* TLS: NULL and empty unless an address asks for it. */
        struct tls_store *tls;
        struct loop_timer tls_timer; /* looks at the files of the certificate */
        char *tls_plain;             /* what was decrypted of one read */
        struct buf tls_out;          /* what is to be sent, within one call */
        struct muffle tls_said;

        struct stream stream;
        struct login login;

        /* Of a cluster. */
        struct slice secret;     /* empty: this weir is alone */
        const struct door *http; /* that a connection to a RESP address may be relayed for */
        size_t conn_bytes;       /* which needs at least so much room */
        const char *node;        /* its name; "" */
        bool is_following;       /* another weir leads */
        bool is_doubted;         /* the lease is in doubt: server_hold() said so */
        bool is_held;            /* and this weir leads */
        bool is_gated;           /* one of the two: requests for the leader are not run */
        uint64_t lag;            /* batches that the leader has and this weir has not yet */
        uint64_t n_led;          /* how often this weir began to lead */
        struct relays relays;
        struct told_nonces nonces;

        struct buf openapi; /* made once */
        int64_t date_s;     /* Unix time of `date`, which changes once a second */
        char date[32];      /* "Sun, 15 Nov 2026 08:51:00 GMT" */

        uint64_t counter[DOOR_COUNTERS];
        int64_t started_ms; /* Unix ms */
        int64_t checked_ns; /* steady: the last check by Vitess's contract; 0: none */
};

/* The two doors. */
extern const struct door resp_door;
extern const struct door http_door;

/* Any weir of a cluster answers it itself, whoever leads. */
static inline bool command_is_local(const struct command_def *def)
{
        return (def->flags & COMMAND_LOCAL) != 0;
}

/* What the reply to a command waits for; 0: nothing. */
uint64_t server_seq_of(struct server *s, const struct command_def *def);
/* The same for one that comes later. */
uint64_t server_late_seq(struct server *s, struct session *session);

/* Door counters as rows, like core_counters(). */
size_t server_counters(const struct server *s, struct counter_row *ret, size_t max);

/* When the certificate ends, Unix ms; 0: there is none. */
int64_t server_tls_ends_ms(const struct server *s);

/* Unsent output of a connection past which it runs no more; less when memory is short. */
size_t server_output_max(const struct server *s);

/* An empty buffer, with memory when there is a spare one; and back. */
struct buf server_take_buf(struct server *s);
void server_give_buf(struct server *s, struct buf *b);

#endif

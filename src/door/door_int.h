/* What the files of this room share: the server, its counters, and what a door must provide.
 * Nobody outside door/ includes this. */
#ifndef WEIR_DOOR_DOOR_INT_H
#define WEIR_DOOR_DOOR_INT_H

#include <stdatomic.h>
#include <uv.h>

#include "api/limits.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/list.h"
#include "checks/check.h"
#include "core/core.h"
#include "door/conn.h"
#include "door/login.h"
#include "door/muffle.h"
#include "door/peer.h"
#include "door/secret.h"
#include "door/server.h"
#include "door/share.h"
#include "door/stream.h"
#include "door/trim.h"

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
        X(CUT_STRANGERS, "connections_cut_strangers", COUNTER_TOTAL,                               \
          "Connections cut before they showed the token, to make room for newer ones.")

enum door_counter {
#define X(id, name, kind, text) DOOR_##id,
        DOOR_COUNTER_MAP(X)
#undef X
                DOOR_COUNTERS
};

struct listener;

/* How long turns hold the loop, the waits for the disk aside. */
#define TURN_SLOTS   7 /* the running one and a minute before it */
#define TURN_SLOT_NS (10ULL * NS_PER_S)
#define TURN_SLOW_NS (5ULL * NS_PER_MS)
struct turn_watch {
        uint64_t began_ns, waited_ns; /* of the turn under way */
        uint64_t slot;                /* number of the running one, since the start of the clock */
        uint64_t max_ns[TURN_SLOTS];
        uint64_t slow; /* turns longer than TURN_SLOW_NS */
};

struct server {
        uv_loop_t loop;
        struct core *core;
        const char *version;
        bool has_token;
        bool is_check_open; /* checks need no token */
        struct secret token;
        int64_t steady_base_ns;

        /* The turn. */
        bool is_in_turn;
        struct now now;
        uv_prepare_t prepare;
        uv_check_t check;
        struct share share;
        uv_idle_t busy;           /* active while the round is not over: polls do not sleep */
        uv_idle_t gather;         /* active while the next commands are waited for */
        uint64_t gather_until_ns; /* 0 = not waiting */
        uint64_t gather_want, committed, answered;
        int64_t asked_ns; /* the last check: while there are some, no sync is waited for */
        pthread_t loop_thread;
        struct turn_watch turns;
        uv_timer_t core_timer;
        int64_t core_timer_ns; /* what it is set to; INT64_MAX = not set */

        /* News from other threads. */
        uv_async_t durable_async, archive_async, notice_async;
        void (*on_notice)(void *ctx);
        void *notice_ctx;
        _Atomic uint64_t durable_seq;
        uint64_t durable_seen;

        struct listener **listeners;
        size_t n_listeners;

        /* Connections, and what they wait for. */
        struct list conns;
        struct list dirty;     /* has output to look at before the turn ends */
        struct list held;      /* has output that waits for the log */
        struct list resumed;   /* the round: may run input it already has, each in its turn */
        struct list congested; /* has input, but the open batch is large */
        struct list deadlines[CONN_DEADLINE_COUNT]; /* each in order of time */
        uv_timer_t deadline_timer;
        uint64_t next_conn_id;

        struct peers peers;
        size_t strangers; /* connections of other machines that have not shown the token */
        int files_max;    /* descriptors are below it (RLIMIT_NOFILE) */
        struct muffle refused_said, strangers_said;

        /* Memory of clients: DOOR_CLIENT_BYTES is the sum. */
        struct heap heavy;         /* connections that hold any, the heaviest first */
        uint64_t client_bytes_max; /* past it the heaviest are cut */
        struct muffle heavy_said;

        struct trim trim; /* of these and of the core's live objects */
        uv_timer_t trim_timer;

        /* Stopping. */
        bool is_stopping;
        bool is_stop_late;
        bool is_stopped;
        uv_timer_t stop_timer;

        /* One request's memory, shared by all: only one request is read at a time. */
        char *read_buf;
        struct slice *argv; /* LIMIT_COMMAND_ARGS of them */
        struct arena arena;
        struct command command;
        struct problem problem;
        struct check_answer check_answer;
        struct buf spare[SERVER_SPARE_BUFS];
        size_t n_spare;

        struct stream stream;
        struct login login;

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

/* Every callback of the loop begins with this; the time is read once a turn. */
void server_turn_begin(struct server *s);

/* The longest turn of the last minute. */
uint64_t server_turn_max_ns(const struct server *s);

/* What the reply to a command waits for; 0: nothing. */
uint64_t server_seq_of(struct server *s, const struct command_def *def);
/* The same for one that comes later. */
uint64_t server_late_seq(struct server *s, struct session *session);
/* A check was asked: its answer, and those that follow, must not wait for the disk. */
void server_asked(struct server *s);

/* Door counters as rows, like core_counters(). */
size_t server_counters(const struct server *s, struct counter_row *ret, size_t max);

/* Unsent output of a connection past which it runs no more; less when memory is short. */
size_t server_output_max(const struct server *s);

/* An empty buffer, with memory when there is a spare one; and back. */
struct buf server_take_buf(struct server *s);
void server_give_buf(struct server *s, struct buf *b);

#endif

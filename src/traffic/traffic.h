/* The doors of the MySQL proxy as the core sees them: which there are, which classes their
 * transactions belong to, and what the gate says of each.
 *
 * Loop thread only.  The threads of proxy/ read sockets and decide on a snapshot; they come here
 * through the loop with classes they have not seen before, and get a snapshot whenever something
 * that it was made of has changed: a sample, a rule, a setting, a pause, the registry.  What they
 * count they are asked for. */
#ifndef WEIR_TRAFFIC_TRAFFIC_H
#define WEIR_TRAFFIC_TRAFFIC_H

#include "core/core.h"
#include "gate/admission.h"
#include "gate/sql_class.h"

#define TRAFFIC_DOORS_MAX   16
#define TRAFFIC_NAME_MAX    64
#define TRAFFIC_ADDRESS_MAX 64
#define TRAFFIC_TEXT        256

struct traffic_options {
        const char *name;
        const char *target; /* whose load decides; NULL: none, and only rules and limits count */
        enum gate_mode mode;
};

/* A class of a door, as the threads made it.  Its number never changes its meaning. */
struct traffic_class {
        char identity[IDENTITY_BYTES + 1];
        char row[TRAFFIC_NAME_MAX + 1]; /* of the file; "": none */
        int8_t tier;                    /* of the row; -1: the registry says */
        int8_t comment_tier;            /* -1: the comments say none */
        bool is_comment_trusted;        /* it may raise the tier, too */
};

/* A door as its threads see it. */
struct traffic_door {
        char listens[TRAFFIC_TEXT]; /* "127.0.0.1:3307, /run/weir/mysql.sock" */
        char server[TRAFFIC_TEXT];
        char problem[TRAFFIC_TEXT]; /* why the server is away; "": it is not */
        uint32_t connections, connections_max;
        uint32_t in_transaction, with_locks, blind;
        uint64_t accepted, refused;   /* connections, so far */
        uint64_t bytes_in, bytes_out; /* from clients, to clients */
        bool is_draining;
        struct admission_state admission;
};

/*      id         what the connection does */
#define TRAFFIC_STATE_MAP(X)                                                                       \
        X(LOGIN, "login")     /* it is not logged in yet */                                        \
        X(IDLE, "idle")       /* no transaction, no statement */                                   \
        X(HELD, "held")       /* a transaction waits to start */                                   \
        X(RUNNING, "running") /* a statement is at the server */                                   \
        X(OPEN, "open")       /* in a transaction, between statements */                           \
        X(BLIND, "blind")     /* passed through unread */
enum traffic_state {
#define X(id, name) TRAFFIC_##id,
        TRAFFIC_STATE_MAP(X)
#undef X
                TRAFFIC_STATES
};
const char *traffic_state_name(enum traffic_state state);

struct traffic_client {
        uint32_t thread_id; /* the server's: what KILL takes */
        enum traffic_state state;
        bool has_locks;
        int64_t state_ns;     /* for how long it has been in this state */
        int64_t connected_ns; /* for how long it has been there */
        uint64_t statements, transactions;
        uint32_t class_number; /* of its last transaction; UINT32_MAX: none yet */
        char user[TRAFFIC_NAME_MAX + 1], database[TRAFFIC_NAME_MAX + 1];
        char program[TRAFFIC_NAME_MAX + 1], address[TRAFFIC_ADDRESS_MAX];
        char why[TRAFFIC_TEXT];     /* of a held one, */
        char text[SQL_DIGEST_TEXT]; /* and its statement without literals */
};

struct traffic_statement {
        uint64_t digest;
        char text[SQL_DIGEST_TEXT];
        uint32_t class_number; /* of the last one; UINT32_MAX: none */
        uint64_t count, errors, rows, held;
        int64_t busy_ns, max_ns, held_ns;
};
/* "other": what found no place in the bounded table. */

enum traffic_order { TRAFFIC_BY_TIME, TRAFFIC_BY_COUNT, TRAFFIC_BY_ROWS, TRAFFIC_BY_HELD };

/* Who would send this, and what would become of it. */
struct traffic_explained {
        struct traffic_class class;
        struct class_explanation how; /* its row is NULL or lives until the next reload */
        struct class_limits limits;
        struct admission_state admission;
        bool is_seen;           /* the door has that class: */
        struct class_view view; /* its counts and verdicts are not set */
};

/* The threads.  All of it may be called only on the loop thread; `door` is its index. */
struct traffic_threads {
        /* Takes the reference. */
        void (*publish)(void *ctx, size_t door, struct door_policy *policy);
        void (*set_mode)(void *ctx, size_t door, enum gate_mode mode);
        void (*drain)(void *ctx, size_t door, bool is_on);
        void (*state)(void *ctx, size_t door, struct traffic_door *ret);
        size_t (*n_classes)(void *ctx, size_t door);
        /* Calls fn for each class under the lock of the door: it must be quick. */
        void (*each_class)(void *ctx, size_t door,
                           void (*fn)(void *fn_ctx, size_t number, const struct traffic_class *c,
                                      const struct class_view *v),
                           void *fn_ctx);
        /* At most max of them; returns how many, *ret_more says whether there are others. */
        size_t (*clients)(void *ctx, size_t door, struct traffic_client *ret, size_t max,
                          bool *ret_more);
        size_t (*statements)(void *ctx, size_t door, enum traffic_order order,
                             struct traffic_statement *ret, size_t max);
        void (*explain)(void *ctx, size_t door, const struct class_facts *facts, struct slice sql,
                        struct traffic_explained *ret);
        void *ctx;
};

/* Everything is copied.  Doors that stay keep what is known of them. */
void core_set_traffic(struct core *core, const struct traffic_options *doors, size_t n,
                      const struct traffic_threads *threads);

/* ---- for the threads, through the loop ---- */

/* The threads made classes: the door's policy is due. */
void traffic_classes_made(struct core *core, size_t door);

/* ---- for other rooms ---- */

enum gate_mode traffic_mode(const struct core *core,
                            size_t door); /* the setting, else the file's */
/* The strictest of all doors; off without a door. */
enum gate_mode traffic_doors_mode(const struct core *core);
size_t traffic_count(const struct core *core);
const char *traffic_name(const struct core *core, size_t door);
bool traffic_has(const struct core *core, struct slice name);
enum gate_mode traffic_configured_mode(const struct core *core, size_t door);
void traffic_each_sample(const struct core *core,
                         void (*fn)(void *ctx, const char *name, const char *labels, double value),
                         void *ctx);
extern const struct feature traffic_feature;

#endif

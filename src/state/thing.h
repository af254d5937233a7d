/* Named things beside jobs and queues: locks, limits, breakers, schedules, batches and the like.
 *
 * Each kind is a struct that begins with a struct thing, and a row of operations.  Three records
 * serve them all, and each kind reads and writes its own bodies:
 *
 *      THING_SET    kind u8, name, body    this is the whole of it now; made when missing
 *      THING_NOTE   kind u8, name, body    a change; in replay skipped when the thing is not seen
 *      THING_GONE   kind u8, name
 *
 * A thing may also exist without the log knowing of it (somebody waits for a lock that was never
 * taken): then its `live` is not linked, and thing_drop() ends it when nothing needs it any more.
 *
 * Each thing has one alarm: the time at which core/thing.c calls the kind.  It is derived state,
 * set by the kind's own functions with thing_alarm(), live and in replay alike. */
#ifndef WEIR_STATE_THING_H
#define WEIR_STATE_THING_H

#include "base/err.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/order.h"
#include "state/field.h"
#include "state/live.h"

/* Numbers in the log: append new rows at the end, never reuse one. */
#define THING_MAP(X)                                                                               \
        X(LOCK, lock)                                                                              \
        X(LIMIT, limit)                                                                            \
        X(BREAKER, breaker)                                                                        \
        X(SCHEDULE, schedule)                                                                      \
        X(BATCH, batch)                                                                            \
        X(CAP, cap)                                                                                \
        X(HOLD, hold)                                                                              \
        X(ANSWER, answer)                                                                          \
        X(SETTING, setting)                                                                        \
        X(RULE, rule)                                                                              \
        X(RULELOG, rulelog)                                                                        \
        X(SEQUEL, sequel)                                                                          \
        X(LAST_LEVEL, last_level)                                                                  \
        X(MOVED, moved)                                                                            \
        X(TOKEN, token)                                                                            \
        X(AUDIT, audit)                                                                            \
        X(FRONT, front)

enum thing_kind {
#define X(name, text) THING_##name,
        THING_MAP(X)
#undef X
                THING_KINDS
};

struct job;
struct state;
struct effect;

struct thing {
        struct live live; /* linked once the log knows of it; live.kind is LIVE_THING */
        struct hash_node node;
        struct order_node order; /* in state->ordered[], for kinds that are listed by pages */
        struct heap_node alarm; /* on state->alarms, or state->wall_alarms for kinds with is_wall */
        char *name;             /* what node.key borrows */
        uint32_t weight;        /* its share of state->live_bytes while linked */
        uint8_t kind;           /* enum thing_kind */
        /* Ready jobs that this thing keeps from being started (state_block), best first. */
        struct heap waiting;
};

struct thing_ops {
        const char *text;           /* for docs/log-records.md: what it is, */
        const char *body;           /* what the body of its SET begins with or consists of, */
        const struct field *fields; /* and the fields that follow; may be NULL */
        size_t n_fields;
        size_t size;     /* of the struct that begins with struct thing */
        bool is_wall;    /* its alarm is a Unix time in ms; else steady ns */
        bool is_ordered; /* its names are kept in order, for pages of them (core/page.h) */
        /* The rest of a new one: zeroed so far, kind and name set.  May be NULL. */
        void (*init)(struct state *s, struct thing *t);
        /* Takes over the body of a SET, whatever it was before.  False: no such body can be. */
        bool (*set)(struct state *s, struct thing *t, struct slice body);
        void (*put)(const struct thing *t, struct buf *body); /* the body of its SET */
        /* A change.  NULL: this kind has none. */
        bool (*note)(struct state *s, struct thing *t, struct slice body);
        /* Lets go of all it owns; nobody points to it any more.  May be NULL. */
        void (*release)(struct state *s, struct thing *t);
        /* Must it stay although the log forgets it (somebody waits)?  Then set() is called with an
         * empty body.  NULL: never. */
        bool (*is_needed)(const struct thing *t);
        /* A job that names it in its options is new, has moved to another state, goes.  NULL: no
         * job belongs to things of this kind (state/links.c), or it does not matter. */
        void (*join)(struct state *s, struct job *job);
        void (*moved)(struct job *job);
        void (*part)(struct state *s, struct job *job);
        /* Asserts what must hold.  May be NULL. */
        void (*check)(const struct thing *t);
};

/* One row per kind, in state/<kind>.c. */
#define X(name, text) extern const struct thing_ops text##_ops;
THING_MAP(X)
#undef X
extern const struct thing_ops
        *const thing_kinds[THING_KINDS]; /* features/kinds.c: by enum thing_kind */

struct thing *thing_find(const struct state *s, enum thing_kind kind, struct slice name);
struct thing *thing_get(struct state *s, enum thing_kind kind, struct slice name); /* made */
/* Ends one that the log does not know of (any more). */
void thing_drop(struct state *s, struct thing *t);
/* INT64_MAX: none.  0 or the past: at once. */
void thing_alarm(struct state *s, struct thing *t, int64_t at);
static inline const char *thing_kind_name(enum thing_kind kind) /* "lock" */
{
        static const char *const names[THING_KINDS] = {
#define X(name, text) [THING_##name] = #text,
                THING_MAP(X)
#undef X
        };
        ASSERT(kind < THING_KINDS);
        return names[kind];
}
static inline struct slice thing_name(const struct thing *t)
{
        return t->node.key;
}
static inline bool thing_is_durable(const struct thing *t)
{
        return list_is_linked(&t->live.link);
}

/* state.c calls these. */
int thing_apply_set(struct state *s, const struct effect *e, uint64_t seq,
                    struct problem *problem) MUST_CHECK;
int thing_apply_note(struct state *s, const struct effect *e, uint64_t seq,
                     struct problem *problem) MUST_CHECK;
int thing_apply_gone(struct state *s, const struct effect *e, uint64_t seq,
                     struct problem *problem) MUST_CHECK;
int thing_replay_end(struct state *s, struct problem *problem) MUST_CHECK;
void things_init(struct state *s, uint64_t hash_seed);
void things_release(struct state *s);
/* Adds what the durable ones weigh and how many there are. */
void things_check(const struct state *s, uint64_t *weight, size_t *n);
/* The SET that keeps the cleaner's promise; the body is put into `body`, which must live. */
void effect_of_thing(const struct state *s, const struct thing *t, struct buf *body,
                     struct effect *ret);

#endif

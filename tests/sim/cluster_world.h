/* Two or three nodes in virtual time over one database in memory, and all that can go wrong between
 * them.
 *
 * A node has three actors, which are its threads: the appender, the watcher and the loop.  A tick
 * lets one of them do a step.  While a call to the database waits, ticks go on without its actor,
 * on the same stack: so anything may happen between a statement, its commit and its answer.
 *
 * What a node does in its loop, and what is checked, belongs to who uses this (struct cluster_ops).
 */
#ifndef WEIR_TESTS_SIM_CLUSTER_WORLD_H
#define WEIR_TESTS_SIM_CLUSTER_WORLD_H

#include "base/rand.h"
#include "support/memory_ledger.h"

#define CLUSTER_NODES 3

enum actor_kind { ACTOR_APPENDER, ACTOR_WATCHER, ACTOR_LOOP, ACTORS };

struct cluster;
struct cnode;

struct actor {
        struct cnode *node;
        bool is_busy; /* its call waits */
};

struct cnode {
        struct cluster *cluster;
        size_t index;
        struct log *log; /* NULL: it does not run */
        struct memory_ledger *ledgers[2];
        struct actor actors[ACTORS];
        bool is_away;         /* it cannot reach the database */
        int64_t asleep_until; /* none of its threads runs */
        int64_t dead_until;
        void *owner; /* of who uses this */
};

/* Times when each fault ends; 0: there is none of it. */
enum trouble {
        TROUBLE_CUT,
        TROUBLE_DOWN,
        TROUBLE_FULL,
        TROUBLE_UNSAFE,
        TROUBLE_FROZEN,
        TROUBLE_AWAY, /* one for each node */
        TROUBLES = TROUBLE_AWAY + CLUSTER_NODES
};

struct cluster_ops {
        /* The node starts: set the callbacks of its log.  It ends: forget what was in memory. */
        void (*born)(struct cnode *n);
        void (*died)(struct cnode *n);
        /* A turn of the node's loop. */
        void (*turn)(struct cnode *n);
        /* After each tick: what must always hold. */
        void (*check)(struct cluster *c);
};

struct cluster {
        const struct cluster_ops *ops;
        struct memory_db db;
        struct rng dice, rng;
        struct cnode nodes[CLUSTER_NODES];
        size_t n_nodes;
        bool is_calm; /* no new faults */
        int depth;    /* calls that wait, one in another */
        unsigned per_mille_fault;
        int64_t ends_ns[TROUBLES];
        uint64_t n_ticks, n_faults, n_kills;
        void *owner;
};

void cluster_init(struct cluster *c, const struct cluster_ops *ops, uint64_t seed);
void cluster_release(struct cluster *c);
void cluster_tick(struct cluster *c);
/* No faults, for so long: all that is wrong ends. */
void cluster_calm(struct cluster *c, int64_t ms);
void cnode_start(struct cnode *n);
/* is_clean: it is told to end; else it is killed. */
void cnode_stop(struct cnode *n, bool is_clean);

static inline uint64_t cluster_roll(struct cluster *c, uint64_t n)
{
        return rng_below(&c->dice, n);
}

#endif

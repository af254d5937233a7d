/* A machine of a cluster: follows, leads, and changes between the two without a restart.
 *
 *      following   batches arrive and go into the core; clients are relayed to the leader
 *      taking over the log leads; the history is brought up to date
 *      leading     as a weir that is alone
 *      emptying    the lead is lost, or what had arrived does not hold: connections close, then
 *                  the core is emptied, told the configuration again, and follows
 *
 * Threads: loop thread only. */
#ifndef WEIR_SERVE_CLUSTER_H
#define WEIR_SERVE_CLUSTER_H

#include "base/err.h"
#include "base/rand.h"
#include "serve/config_cluster.h"

struct archive;
struct cluster;
struct core;
struct log;
struct loop;
struct mirror;
struct server;

/* Opens the log; nothing is connected yet.  The texts of the configuration must outlive it. */
int cluster_open(const struct config_cluster *config, struct loop *loop, struct rng *rng,
                 struct cluster **ret, struct problem *problem) MUST_CHECK;
struct log *cluster_log(struct cluster *c); /* closed by the caller, before the loop is freed */
struct mirror *cluster_mirror(struct cluster *c);

/* What changes with the role.  None is owned; all outlive the last turn. */
struct cluster_parts {
        struct core *core;       /* follows */
        struct archive *archive; /* follows */
        struct server *server;
        void (*configure)(void *ctx); /* tells the core, which was emptied, all it must know */
        void (*leads)(void *ctx, bool is_leader); /* for whatever runs only where the leader is */
        void *ctx;
};
/* From here on it follows and wants to lead. */
void cluster_begin(struct cluster *c, const struct cluster_parts *parts);
/* The last turn is over: nothing waits for the database any more.  Before the archive is closed. */
void cluster_stop(struct cluster *c);
struct cluster *cluster_free(struct cluster *c); /* after the loop; NULL is fine; returns NULL */

#endif

/* The database of a cluster, looked at from outside: its log, who uses it, its history.  For tools
 * that are no machine of the cluster. */
#ifndef WEIR_SERVE_CLUSTER_STORE_H
#define WEIR_SERVE_CLUSTER_STORE_H

#include "base/err.h"
#include "cluster/ledger.h"
#include "history/mirror.h"
#include "log/log.h"
#include "serve/config_cluster.h"

struct cluster_store {
        struct ledger_options options;
        struct ledger *ledger; /* connected */
        struct mirror *mirror;
        int stop_fd; /* never readable */
};

/* The texts of the configuration must outlive it.  ERR_STATE: the tables are not there, or the
 * database is not as safe as was asked for. */
int cluster_store_open(struct cluster_store *s, const struct config_cluster *config,
                       struct problem *problem) MUST_CHECK;
void cluster_store_close(struct cluster_store *s); /* never opened is fine when it is all zeros */

/* A log as it was read. */
struct cluster_log {
        struct ledger_head last; /* seq 0: there has never been a row */
        uint64_t first;          /* that can be read */
        uint64_t batches;        /* that hold something */
        /* Why it is closed, all of it (cluster/ledger.h); "": it is open. */
        char closed[LEDGER_CLOSED_MAX];
};
/* Reads all batches up to the last one, which is durable then.  fn may be NULL.  ERR_CONFLICT: the
 * log changed under the reader, which has to begin again with nothing. */
int cluster_store_read(struct cluster_store *s, log_read_fn fn, void *ctx, struct cluster_log *ret,
                       struct problem *problem) MUST_CHECK;

/* OK: no weir of the cluster runs.  Waits for the lease and for signs of life of one that has just
 * died.  ERR_LOCKED names one that runs. */
int cluster_store_check_idle(struct cluster_store *s, struct problem *problem) MUST_CHECK;

#endif

/* The lead of a cluster's log, held by a tool: it takes the lead of a log that is closed, too, and
 * each call waits until what it wrote is durable.
 *
 * Threads: one; the log has its own. */
#ifndef WEIR_SERVE_MOVER_H
#define WEIR_SERVE_MOVER_H

#include "base/err.h"
#include "cluster/ledger.h"
#include "serve/config_cluster.h"

struct mover;

/* Waits until it leads.  ERR_CONFLICT: the log has other rows than those up to `last`.  The texts
 * of the configuration must outlive it. */
int mover_lead(const struct config_cluster *config, uint64_t last, struct mover **ret,
               struct problem *problem) MUST_CHECK;
/* Gives the lead back. */
struct mover *mover_free(struct mover *m); /* NULL is fine; returns NULL */

uint64_t mover_epoch(const struct mover *m);
uint64_t mover_seq(const struct mover *m); /* of the last row */

/* Any error means that it does not lead any more, and that the row may be there or not. */
int mover_append(void *mover, struct slice batch, struct problem *problem) MUST_CHECK;
/* Closes the log, or opens it. */
int mover_mark(struct mover *m, enum ledger_kind kind, struct slice why,
               struct problem *problem) MUST_CHECK;
/* Batches before that one are removed, by and by. */
void mover_trim(struct mover *m, uint64_t before);
/* ERR_UNAVAIL: it does not lead any more. */
int mover_check(struct mover *m, struct problem *problem) MUST_CHECK;

#endif

/* The copy of a cluster that runs, as the data folder of a lone weir. */
#ifndef WEIR_SERVE_BACKUP_CLUSTER_H
#define WEIR_SERVE_BACKUP_CLUSTER_H

#include "base/err.h"
#include "serve/config_cluster.h"
#include "serve/replayed.h"

/* Makes `log` and then `history.db` in the folder.  ret is the state of the log, which history may
 * be ahead of; it is initialised, and released by the caller.  *ret_bytes: of the log. */
int backup_cluster_copy(const struct config_cluster *config, const char *folder,
                        struct replayed *ret, uint64_t *ret_bytes,
                        struct problem *problem) MUST_CHECK;

#endif

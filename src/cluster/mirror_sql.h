/* The mirror of a history (history/mirror.h) in the database of the cluster. */
#ifndef WEIR_CLUSTER_MIRROR_SQL_H
#define WEIR_CLUSTER_MIRROR_SQL_H

#include "cluster/ledger.h"
#include "history/mirror.h"

/* The options must outlive it.  It connects when it is first used. */
struct mirror *mirror_postgres_new(const struct ledger_options *options, int stop_fd);
struct mirror *mirror_mariadb_new(const struct ledger_options *options, int stop_fd);
/* From now on transactions are those of this epoch (0: of none, nothing may be written).  Any
 * thread. */
void mirror_sql_set_epoch(struct mirror *m, uint64_t epoch);

#endif

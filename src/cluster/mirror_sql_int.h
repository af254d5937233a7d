/* What both dialects of the mirror share.  Only mirror_*.c include this.
 *
 * The mirror has a connection of its own, which a ledger makes and verifies as it does for the log;
 * it is made when it is first used, and closed after every error.  So an open transaction never
 * outlives an error, and the server that is asked next is one that takes writes.
 *
 * A transaction begins by moving the fence: the row of weir_fence with the epoch of the last leader
 * that wrote, and the number of the last transaction.  It moves only from the number before, and
 * only to an epoch that is not smaller: zero rows mean that another machine leads or led meanwhile.
 * Two that do so at once wait for each other's row, or on Galera one of them fails to commit. */
#ifndef WEIR_CLUSTER_MIRROR_SQL_INT_H
#define WEIR_CLUSTER_MIRROR_SQL_INT_H

#include <stdatomic.h>

#include "base/buf.h"
#include "cluster/ledger_sql.h"
#include "cluster/mirror_sql.h"

struct sql_mirror {
        struct mirror base; /* first */
        struct ledger *ledger;
        const struct ledger_options *options;
        int stop_fd;
        _Atomic uint64_t epoch; /* 0: nothing may be written */
        uint64_t change;        /* of the open transaction */
        bool is_piping;         /* PostgreSQL: statements were sent whose answers are to be read */
        size_t n_piped;
        struct buf sql; /* MariaDB: the statement */
};

struct sql_mirror *sql_mirror_new(const struct mirror_ops *ops, struct ledger *ledger,
                                  const struct ledger_options *options, int stop_fd);
struct sql_mirror *sql_mirror_of(struct mirror *m);
struct mirror *sql_mirror_free(struct mirror *m);

/* The time that a call has from now on. */
struct sql_wait sql_mirror_wait(const struct sql_mirror *m);
/* Connects, if it is not connected. */
int sql_mirror_open(struct sql_mirror *m, struct problem *problem) MUST_CHECK;
/* Closes the connection, and returns err. */
int sql_mirror_hang_up(struct sql_mirror *m, int err);
void sql_mirror_abandon(struct mirror *m);
/* The epoch of a transaction that begins.  ERR_STATE: there is none. */
int sql_mirror_epoch(struct sql_mirror *m, uint64_t *ret, struct problem *problem) MUST_CHECK;
/* What it means when the fence does not move. */
int sql_mirror_refused(struct sql_mirror *m, struct problem *problem);

/* How far a page goes: the changes and the sizes of the first rows after it began, in order. */
#define SQL_MIRROR_LOOK_ROWS 4096
struct sql_mirror_bound {
        uint64_t bytes_max;
        uint64_t bytes, change, before; /* the last change that was seen, and the one before it */
        uint64_t upto;                  /* 0: not known yet */
        size_t n;
};
void sql_mirror_bound_add(struct sql_mirror_bound *b, uint64_t change, uint64_t bytes);
/* After the last row; `last` is the number of the mirror's last transaction. */
uint64_t sql_mirror_bound_end(const struct sql_mirror_bound *b, uint64_t last);

#endif

/* The tables of a cluster in a database, over one connection: the log's rows, the lease, the
 * members.  A dialect (PostgreSQL, MariaDB, and in tests one in memory) is a row of operations.
 *
 * A batch is one row, or several when it is larger than LEDGER_PIECE_BYTES: pieces 0, 1, 2, ... of
 * one seq, written in one transaction.  Every row carries the space, the epoch of the leader that
 * wrote it and its node: a name with a random number, so that a process that starts again is
 * another one.  The first row of an epoch has kind LEDGER_EPOCH, an empty body, and is never
 * removed: whoever slept since the epoch before finds its next number taken.
 *
 * A log can be closed: by a row of kind LEDGER_CLOSED, whose first line says why, until one of kind
 * LEDGER_OPENED.  In between nobody leads but `weir move`.  Both are trimmed as batches are.
 *
 * Every call waits at most until the deadline of its struct sql_wait and watches its stop_fd.
 * After ERR_IO, ERR_TIMEOUT and ERR_STOPPING the connection is closed.  A ledger belongs to one
 * thread. */
#ifndef WEIR_CLUSTER_LEDGER_H
#define WEIR_CLUSTER_LEDGER_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "log/log.h"
#include "sql/login.h"
#include "sql/wait.h"

#define LEDGER_PIECE_BYTES MIB
#define LEDGER_SPACE       "default"
/* A name, '.', 16 hex digits. */
#define LEDGER_NODE_MAX  (LOG_NAME_MAX + 17)
#define LEDGER_TRIM_ROWS 500

/* The numbers are in databases out there. */
enum ledger_kind { LEDGER_BATCH, LEDGER_EPOCH, LEDGER_CLOSED, LEDGER_OPENED };
/* Of the body of a row of LEDGER_CLOSED. */
#define LEDGER_CLOSED_MAX 1024

enum ledger_durability {
        LEDGER_REPLICATED, /* a commit is on two machines when it returns, and that is verified */
        LEDGER_SINGLE,     /* one server is meant */
};

/* What cannot be told from the database; its owner owns the strings, which outlive the ledger. */
struct ledger_options {
        const struct sql_login *logins; /* of each server, in the order in which they are tried */
        size_t n_logins;
        const char *space; /* LEDGER_SPACE */
        enum ledger_durability durability;
};

/* A batch without its body. */
struct ledger_head {
        uint64_t seq, epoch; /* 0: there is none */
        char node[LEDGER_NODE_MAX + 1];
        enum ledger_kind kind;
};

/* What became of an append. */
enum ledger_outcome {
        LEDGER_DURABLE, /* it is there, and as safe as was asked for */
        LEDGER_REFUSED, /* nothing was written: the row before is not the one that was named, or
                         * it is not the newest */
        LEDGER_TAKEN,   /* nothing was written: a row with that number is there */
        LEDGER_BUSY,    /* nothing was written: another insert of that number is not done yet */
        LEDGER_FULL,    /* nothing was written: the server has no room, or is read-only now */
        LEDGER_UNKNOWN, /* it may be there or may come to be; the connection is closed */
};

#define LEDGER_LEASE_FAR 2

/* The lease, by the database's clock. */
struct ledger_lease {
        char node[LEDGER_NODE_MAX + 1]; /* "": nobody has ever had it */
        int64_t left_ms;                /* 0 or less: it is over */
};

struct buf;
struct ledger;

struct ledger_ops {
        /* Finds the server that takes writes, logs in, sets the session up, and verifies what
         * struct ledger_options asks for as verify() does. */
        int (*connect)(struct ledger *l, const struct sql_wait *w, struct problem *problem);
        void (*disconnect)(struct ledger *l); /* waits for nothing */
        bool (*is_open)(const struct ledger *l);
        const char *(*where)(const struct ledger *l); /* "db2 (10.0.0.2:5432)" */

        /* Writes a batch, if the row before it is `previous` (seq 0: if there is no row at all) and
         * no row with a greater number is there: a statement that runs late must not bring back a
         * batch that was trimmed since. */
        enum ledger_outcome (*append)(struct ledger *l, const struct ledger_head *head,
                                      struct slice body, const struct ledger_head *previous,
                                      const struct sql_wait *w, struct problem *problem);
        /* Is it there, byte for byte?  ret_seen: what is there under that number. */
        int (*has)(struct ledger *l, const struct ledger_head *head, struct slice body,
                   const struct sql_wait *w, struct ledger_head *ret_seen, bool *ret,
                   struct problem *problem);
        /* Returns when all that is visible over this connection is as safe as an append. */
        int (*barrier)(struct ledger *l, const struct sql_wait *w, struct problem *problem);

        /* The newest row, and the oldest batch that is kept in one piece with all after it
         * (last + 1 when only rows of epochs are left). */
        int (*tail)(struct ledger *l, const struct sql_wait *w, struct ledger_head *ret_last,
                    uint64_t *ret_first, struct problem *problem);
        /* Calls fn for batches from `from` on in order, at most `bytes` of bodies and one more.
         * ERR_NOTFOUND: `from` is not there, though a later one is. */
        int (*read)(struct ledger *l, uint64_t from, uint64_t bytes, const struct sql_wait *w,
                    void (*fn)(void *ctx, const struct ledger_head *head, struct slice body),
                    void *ctx, struct problem *problem);
        /* Removes at most LEDGER_TRIM_ROWS batches of [*from, before), never the first of an epoch
         * nor the newest of all; *from grows, but not past the newest.  When it does not grow,
         * there is nothing more to remove for now. */
        int (*trim)(struct ledger *l, uint64_t *from, uint64_t before, const struct sql_wait *w,
                    struct problem *problem);

        /* Takes it if nobody has it, it is over, it is node's, or more than LEDGER_LEASE_FAR times
         * ms of it are left: then the clock went back, and nobody knows when it is over.
         * ret_is_mine says whether it is node's now.  Not durable: it is for liveness alone. */
        int (*lease_take)(struct ledger *l, const char *node, int64_t ms, const struct sql_wait *w,
                          bool *ret_is_mine, struct problem *problem);
        int (*lease_look)(struct ledger *l, const struct sql_wait *w, struct ledger_lease *ret,
                          struct problem *problem);
        /* From node to another.  ret_done false: it is not node's any more. */
        int (*lease_give)(struct ledger *l, const char *node, const char *to, int64_t ms,
                          const struct sql_wait *w, bool *ret_done, struct problem *problem);
        /* At least so long a lease must be: longer than the database stalls when one of its servers
         * dies. */
        int64_t (*lease_ms)(const struct ledger *l);

        /* Says that the member is there, and reads all that were seen within a day.  Without a self
         * it only reads. */
        int (*meet)(struct ledger *l, const struct log_member *self, const char *node,
                    const struct sql_wait *w, struct log_member *ret, size_t max, size_t *ret_n,
                    struct problem *problem);
        /* Is the database still as safe as was asked for?  ERR_STATE names the setting to change.
         * ERR_UNAVAIL: it is, but commits wait for a standby that is away; connect() takes that for
         * fine. */
        int (*verify)(struct ledger *l, const struct sql_wait *w, struct problem *problem);
        struct ledger *(*free)(struct ledger *l); /* returns NULL */
};

struct ledger {
        const struct ledger_ops *ops;
};

/* The options must outlive them. */
struct ledger *ledger_postgres_new(const struct ledger_options *options);
struct ledger *ledger_mariadb_new(const struct ledger_options *options);

/* Makes or migrates the tables over a connection of somebody who may, and appends to *ret what was
 * done and the least GRANT that the user `weir` needs. */
int ledger_postgres_init(const struct ledger_options *options, const char *user,
                         const struct sql_wait *w, struct buf *ret, struct problem *problem);
int ledger_mariadb_init(const struct ledger_options *options, const char *user,
                        const struct sql_wait *w, struct buf *ret, struct problem *problem);

#endif

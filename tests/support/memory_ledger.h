/* A replicated database in memory, which the ledgers (cluster/ledger.h) of several nodes share: one
 * server takes writes, another has a copy of what was replicated.
 *
 * A row is SAFE when the other server has it.  Such a row stays, whatever happens: that is what
 * real servers promise, and no fault here breaks it.  Short of that:
 *
 *   WAITING   written, invisible, its key held: it waits for the other server.  It stays so after
 *             its client is gone, and then appears or vanishes
 *   LOCAL     visible, and not replicated: the wait was cancelled, or the server was killed and
 *             started again.  A failover forgets it
 *   a late    statement runs only after its client is gone, if the row before is then still there
 *
 * Everything before a safe row is safe: there is one order of commits.  The lease and what was
 * trimmed may go back to what they were when the server fails over.  The server's clock is its own.
 *
 * One append can be told what becomes of it (next_append); dice decide about each call otherwise.
 * A call that waits lets `meanwhile` pass the time, or moves the clock to its deadline. */
#ifndef WEIR_TESTS_MEMORY_LEDGER_H
#define WEIR_TESTS_MEMORY_LEDGER_H

#include <pthread.h>

#include "base/rand.h"
#include "cluster/ledger.h"

enum memory_fate {
        FATE_NONE,
        FATE_LOST,       /* nothing is written, and the connection ends */
        FATE_UNANSWERED, /* safe, and the connection ends */
        FATE_LOCAL,      /* local, and the connection ends (or a warning came) */
        FATE_WAITING,    /* waiting, and the connection ends */
        FATE_LATE,       /* a late statement */
        FATES
};

enum memory_state { ROW_WAITING, ROW_LOCAL, ROW_SAFE };

struct db_row {
        struct ledger_head head;
        char *body;
        size_t len;
        enum memory_state state;
        bool is_orphan;     /* WAITING: the client is gone */
        bool is_trimmed;    /* not there any more, unless the server fails over */
        int64_t decided_ns; /* WAITING: when it is known what becomes of it */
};

struct memory_late {
        struct db_row row;
        struct ledger_head previous;
        int64_t at_ns;
};

struct memory_lease {
        char node[LEDGER_NODE_MAX + 1];
        int64_t until_ms; /* by the server's clock */
};

struct memory_ledger;

#define MEMORY_LATE_MAX 16
struct memory_db {
        pthread_mutex_t mu; /* of all; let go while a call waits */
        bool is_threaded;   /* time is real, and waiting is */
        struct rng dice;
        /* In a thousand calls. */
        unsigned per_mille_append, per_mille_call, per_mille_connect, per_mille_pause;
        enum memory_fate next_append;
        /* Passes the time until then at most, for a call of that ledger (0: a moment). */
        void (*meanwhile)(void *ctx, struct memory_ledger *l, int64_t until_ns);
        void *ctx;

        bool is_down;   /* nobody can connect */
        bool is_cut;    /* the other server is away: nothing is replicated */
        bool is_full;   /* no room */
        bool is_unsafe; /* the settings ask for less than replication */
        bool is_frozen; /* no answers */
        uint64_t life;  /* of the server: a connection of another life is over */
        int64_t skew_ms;
        int64_t lease_min_ms;

        struct db_row *rows; /* ascending; no two of one number */
        size_t n_rows, cap_rows;
        struct memory_late late[MEMORY_LATE_MAX];
        size_t n_late;
        struct memory_lease lease, lease_safe;
        struct log_member members[LOG_MEMBERS_MAX];
        int64_t members_ms[LOG_MEMBERS_MAX];
        size_t n_members;
        uint64_t n_appends, n_fates[FATES], n_failovers, n_vanished;
};

struct memory_ledger {
        struct ledger base;
        struct memory_db *db;
        const bool *is_away; /* the node cannot reach the database, or is dead */
        void *owner;         /* for meanwhile */
        bool is_open;
        uint64_t life;
};

/* The clock of tests without threads. */
extern int64_t memory_now_ns;
int64_t memory_boot_ns(void);

void memory_db_init(struct memory_db *db, uint64_t seed);
void memory_db_release(struct memory_db *db);
/* is_away and owner may be NULL. */
struct ledger *memory_ledger_new(struct memory_db *db, const bool *is_away, void *owner);

/* Time has passed: what waited or came late is decided, the copy catches up. */
void memory_db_tick(struct memory_db *db);
/* The other server is back: all is replicated. */
void memory_db_heal(struct memory_db *db);
/* The server is killed and starts again: what waited is visible. */
void memory_db_restart(struct memory_db *db);
/* The other server takes over. */
void memory_db_fail_over(struct memory_db *db);
/* The visible row of that number, or NULL. */
const struct db_row *memory_db_row(const struct memory_db *db, uint64_t seq);
uint64_t memory_db_last(const struct memory_db *db); /* visible; 0: none */

#endif

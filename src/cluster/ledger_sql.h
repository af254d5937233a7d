/* What the dialects of the ledger share: trying the servers in turn, putting pieces together, and
 * judging the settings of a server; and their connections, for who keeps more in that database. */
#ifndef WEIR_CLUSTER_LEDGER_SQL_H
#define WEIR_CLUSTER_LEDGER_SQL_H

#include "base/buf.h"
#include "cluster/ledger.h"

struct pgsql_conn;
struct mysql_conn;

/* The version of the tables; weir_version holds it. */
#define LEDGER_VERSION 1
/* How long a lease is at least, where the database does not stall for longer. */
#define LEDGER_LEASE_MS 5000
/* Rows that one read looks at. */
#define LEDGER_READ_ROWS 4096

/* The session of PostgreSQL.  A WARNING must reach us whatever the role says; plans made once for
 * all values must use the keys.  A leader that vanishes in a transaction must not keep the next one
 * from leading, so the server ends the transaction within a lease: it hears nothing of a machine
 * that has no power. */
#define LEDGER_POSTGRES_SESSION                                                                    \
        "-c search_path=weir -c synchronous_commit=on -c lock_timeout=1000 "                       \
        "-c statement_timeout=0 -c idle_in_transaction_session_timeout=5000 "                      \
        "-c default_transaction_isolation=read\\ committed -c client_min_messages=warning "        \
        "-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off"

/* The connection of a ledger, while it is open.  Its session is set up, and the server verified:
 * PostgreSQL finds the tables in its search_path and waits for the standby at every commit; MariaDB
 * has them in the chosen database.  Both give up on a lock after a second. */
struct pgsql_conn *ledger_postgres_conn(struct ledger *l);
struct mysql_conn *ledger_mariadb_conn(struct ledger *l);
/* After a lock that could not be had: ends the sessions of weir that hold locks on its tables and
 * have said nothing for a second.  Then try again. */
void ledger_postgres_end_silent(struct pgsql_conn *conn, const struct sql_wait *w);
/* OK: no commit over that connection since it was made was left without a second copy.  Only a
 * semi-synchronous pair has to be asked; the connection is closed when it was.  After a commit of
 * one's own. */
int ledger_mariadb_confirm(struct ledger *l, const struct sql_wait *w, struct problem *problem);

/* ---- the servers ---- */

/* Tries one server after the other, beginning with the last that did, until one does.  What is left
 * of the time is shared evenly among those that are left, so that one that does not answer does not
 * use up all of it.  The problem told is the one that a person can do most about. */
struct ledger_search {
        const struct ledger_options *options;
        int (*attempt)(void *self, const struct sql_login *login, const struct sql_wait *w,
                       struct problem *problem);
        void *self;
        size_t first; /* the last that did */
};
int ledger_search(struct ledger_search *s, const struct sql_wait *w,
                  struct problem *problem) MUST_CHECK;

/* ---- settings ---- */

/* Names and values as a server tells them. */
#define LEDGER_FACTS_MAX 40
struct ledger_facts {
        struct {
                char *name, *value;
        } facts[LEDGER_FACTS_MAX];
        size_t n;
};
void ledger_facts_put(struct ledger_facts *f, struct slice name, struct slice value);
const char *ledger_facts_get(const struct ledger_facts *f, const char *name); /* "": not there */
bool ledger_facts_is(const struct ledger_facts *f, const char *name, const char *value);
void ledger_facts_release(struct ledger_facts *f);

enum ledger_rule_kind {
        RULE_IS,       /* the value, in any case */
        RULE_IS_NOT,   /* any other */
        RULE_AT_LEAST, /* a number */
        RULE_HAS,      /* contains it */
};

struct ledger_rule {
        const char *name;
        enum ledger_rule_kind kind;
        const char *value;
        const char *what_to_do; /* "set fsync = on" */
};
/* ERR_STATE: the first that is broken, in a sentence. */
int ledger_judge(const struct ledger_facts *f, const struct ledger_rule *rules, size_t n,
                 const char *where, struct problem *problem) MUST_CHECK;

/* What init() made of tables that had this version; 0: there were none. */
void ledger_put_made(struct buf *ret, const char *where, int version);

/* ---- rows ---- */

/* A row as it is in the table. */
struct ledger_row {
        uint64_t seq, epoch, kind;
        unsigned piece;
        struct slice node, body;
};
void ledger_head_from(const struct ledger_row *row, struct ledger_head *ret);
size_t ledger_pieces(struct slice body); /* at least 1 */
struct slice ledger_piece(struct slice body, size_t piece);

/* Puts rows together that come in order; tells whole batches without a gap from `from` on. */
struct ledger_reader {
        uint64_t from;
        void (*fn)(void *ctx, const struct ledger_head *head, struct slice body);
        void *ctx;
        /* Its own. */
        struct ledger_head head; /* of the batch that is being put together; seq 0: none */
        struct buf body;
        unsigned n_pieces;
        bool is_missing; /* the first row was another */
        bool is_over;    /* there is a gap after what was told */
};
int ledger_reader_add(struct ledger_reader *r, const struct ledger_row *row,
                      struct problem *problem) MUST_CHECK;
/* Tells the last, and releases.  ERR_NOTFOUND as struct ledger_ops.read says it. */
int ledger_reader_end(struct ledger_reader *r, struct problem *problem) MUST_CHECK;

/* Compares rows with a batch: is it there byte for byte? */
struct ledger_match {
        const struct ledger_head *head;
        struct slice body;
        struct ledger_head seen; /* of what is there; seq 0: nothing */
        size_t at;               /* bytes that are the same so far */
        bool differs;
};
void ledger_match_add(struct ledger_match *m, const struct ledger_row *row);
bool ledger_match_end(const struct ledger_match *m);

/* Copies a cell as a string. */
void ledger_text(char *ret, size_t size, struct slice text); /* cut when it is too long */

#endif

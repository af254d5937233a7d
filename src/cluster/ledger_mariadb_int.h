/* What the files of the ledger in MariaDB share; see ledger_mariadb.c. */
#ifndef WEIR_CLUSTER_LEDGER_MARIADB_INT_H
#define WEIR_CLUSTER_LEDGER_MARIADB_INT_H

#include "cluster/ledger_sql.h"
#include "sql/mysql.h"

#define UUID_MAX 40

enum site { SITE_ALONE, SITE_PAIR, SITE_GALERA };

struct maria {
        struct ledger base;
        const struct ledger_options *options;
        struct mysql_conn *conn; /* NULL: there has been none */
        struct ledger_search search;
        struct buf sql, space; /* space: in quotes */
        enum site site;
        char uuid[UUID_MAX]; /* of the state of a Galera cluster; "": unknown */
        uint64_t no_tx;      /* Rpl_semi_sync_master_no_tx when the connection was made */
        int64_t lease_ms;
};

static inline bool maria_is_replicated(const struct maria *m)
{
        return m->options->durability == LEDGER_REPLICATED;
}

const char *maria_where(const struct maria *m); /* "": there has been no connection */
uint64_t maria_number(struct slice cell);       /* 0 for what is none */

/* Begins m->sql. */
#define MARIA_SQL(m, ...) (buf_clear(&(m)->sql), buf_printf(&(m)->sql, __VA_ARGS__))
#define MARIA_SPACE(m)    buf_cstr(&(m)->space)
/* Run what is in m->sql.  A node of Galera that has lost the others is left: ERR_IO. */
int maria_run(struct maria *m, const struct sql_wait *w, struct mysql_result *ret,
              struct problem *problem) MUST_CHECK;
/* The first number that it gives; 0: it gives none. */
int maria_ask_number(struct maria *m, const struct sql_wait *w, uint64_t *ret,
                     struct problem *problem) MUST_CHECK;

/* ---- ledger_mariadb_verify.c ---- */

/* Is the server as safe as was asked for?  ERR_LOCKED: it takes no writes; ERR_UNAVAIL: it is, and
 * its replica is away.  is_new: finds out first what kind of server it is. */
int maria_verify(struct maria *m, bool is_new, const struct sql_wait *w,
                 struct problem *problem) MUST_CHECK;
/* Are the tables there, and what they must be? */
int maria_check_tables(struct maria *m, const struct sql_wait *w,
                       struct problem *problem) MUST_CHECK;
/* Of a node of Galera: is it in the primary component? */
int maria_is_primary(struct maria *m, const struct sql_wait *w, bool *ret,
                     struct problem *problem) MUST_CHECK;

#endif

/* How a connection to PostgreSQL is made; postgres.c asks over it. */
#ifndef WEIR_SQL_POSTGRES_CONNECT_H
#define WEIR_SQL_POSTGRES_CONNECT_H

#include "sql/login.h"
#include "sql/wait.h"

struct pg_conn; /* PGconn */

struct pgsql_dial {
        const struct sql_login *login;
        const char *session; /* settings, "-c name=value ..."; NULL: none */
        const char *where;
};

/* libpq's messages have several lines; the first says it. */
int pgsql_say(struct problem *problem, int err, const char *before, const char *text);

/* To an address, or the folder of the socket of the server.  The connection does not block.  The
 * caller ends it with PQfinish(). */
int pgsql_dial(const struct pgsql_dial *d, const char *address, const struct sql_wait *w,
               struct pg_conn **ret, struct problem *problem) MUST_CHECK;

#endif

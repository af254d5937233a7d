/* How a connection to MySQL or MariaDB is made and ended, and how its calls wait; mysql.c asks over
 * it. */
#ifndef WEIR_PROBE_MYSQL_CONNECT_H
#define WEIR_PROBE_MYSQL_CONNECT_H

#include "probe/inside.h"

struct st_mysql; /* MYSQL */

struct my_dial {
        const struct probe_options *options;
        const struct probe_server *server;
        const char *where;
};

/* To an address, or the socket of the server.  The caller hangs up. */
int my_dial(const struct my_dial *d, const char *address, const struct probe_wait *w,
            struct st_mysql **ret, struct problem *problem) MUST_CHECK;
/* Waits for nothing; NULL is fine; returns NULL. */
struct st_mysql *my_hang_up(struct st_mysql *db);
/* For what a non-blocking call of the library returned; *ret is for its next step. */
int my_wait(struct st_mysql *db, int status, const struct probe_wait *w, int *ret) MUST_CHECK;

#endif

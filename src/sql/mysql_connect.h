/* How a connection to MySQL or MariaDB is made and ended, and how its calls wait; mysql.c asks over
 * it. */
#ifndef WEIR_SQL_MYSQL_CONNECT_H
#define WEIR_SQL_MYSQL_CONNECT_H

#include "sql/login.h"
#include "sql/wait.h"

struct st_mysql; /* MYSQL */

struct my_dial {
        const struct sql_login *login;
        const char *where;
        uint64_t answer_max; /* no packet that comes is longer */
};

/* Before the first connection; once is enough. */
void my_setup(void);
/* To an address, or the socket of the server.  The caller hangs up. */
int my_dial(const struct my_dial *d, const char *address, const struct sql_wait *w,
            struct st_mysql **ret, struct problem *problem) MUST_CHECK;
/* Waits for nothing; NULL is fine; returns NULL. */
struct st_mysql *my_hang_up(struct st_mysql *db);
/* For what a non-blocking call of the library returned; *ret is for its next step. */
int my_wait(struct st_mysql *db, int status, const struct sql_wait *w, int *ret) MUST_CHECK;

/* Only ways to log in that do not tell the password; see mysql_auth.c. */
void my_auth_restrict(struct st_mysql *db);
/* Around whatever this thread has the library read: cuts the connection when that is longer than
 * ANSWER_MAX (or than my_watch_allow() says after that) or comes after the deadline, when it does
 * not begin with a greeting (unless that has come before), or when the greeting offers no TLS and
 * it is needed. my_watch_end() returns OK, or why it was cut: ERR_TOOBIG, ERR_TIMEOUT, ERR_STATE
 * (no TLS), ERR_BADARG (no greeting). */
void my_watch_begin(const struct sql_wait *w, bool is_greeted, bool needs_tls);
void my_watch_allow(uint64_t bytes);
int my_watch_end(void);

#endif

/* What stands between libpq and a server; see postgres_relay.c. */
#ifndef WEIR_SQL_POSTGRES_RELAY_H
#define WEIR_SQL_POSTGRES_RELAY_H

#include "sql/wait.h"

struct pg_relay;

/* Takes the place of the server on libpq's socket, of which nothing has been read yet.
 * is_open_login: the login that follows is not encrypted, and may be listened to.  NULL: there is
 * no descriptor left. */
struct pg_relay *pg_relay_begin(int fd, bool is_open_login) MUST_CHECK;
struct pg_relay *pg_relay_end(struct pg_relay *r); /* NULL is fine; returns NULL */
/* After a login: gives libpq the server's own socket back, and ends the relay (*r becomes NULL).
 * false: something is still under way in it, which a server does not send unasked. */
bool pg_relay_leave(struct pg_relay **r) MUST_CHECK;
void pg_relay_logged_in(struct pg_relay *r);
/* Before each question: its answer has its own measure.  ERR_IO: this connection has done enough.
 */
int pg_relay_question(struct pg_relay *r) MUST_CHECK;
/* Passes on until libpq has something to read, be it the end.  ERR_TIMEOUT, ERR_STOPPING;
 * ERR_TOOBIG: more than ANSWER_MAX; of a login ERR_FORBIDDEN: the server asks for the password in
 * clear text, and is not given it; ERR_BADARG: what comes is no login. */
int pg_relay_wait(struct pg_relay *r, const struct sql_wait *w) MUST_CHECK;

#endif

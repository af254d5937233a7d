/* One connection to PostgreSQL: connect, run prepared statements, read rows.
 *
 * Every call waits at most until the deadline of its struct sql_wait, and watches its stop_fd.  A
 * connection belongs to one thread.  Values go and come in binary: a bigint is 8 bytes, text and
 * bytea are their bytes.  The servers are trusted: an answer may be as long as they like. */
#ifndef WEIR_SQL_POSTGRES_H
#define WEIR_SQL_POSTGRES_H

#include "base/buf.h"
#include "base/err.h"
#include "sql/login.h"
#include "sql/wait.h"

struct pgsql_conn;

/* `session` is settings of the session as a server takes them, "-c lock_timeout=1s -c ..."; NULL:
 * none.  It must outlive the connection. */
struct pgsql_conn *pgsql_conn_new(const char *session);
struct pgsql_conn *pgsql_conn_free(struct pgsql_conn *c); /* NULL is fine; returns NULL */
DEFINE_CLEANUP(struct pgsql_conn, pgsql_conn_free)

/* Logs in; the login must stay until the next connect.  After an error nothing is connected.  A
 * connection that is open is closed first.
 *   ERR_FORBIDDEN: the server refuses the user, the password or the database
 *   ERR_UNAVAIL:   nobody is there, or TLS as asked for cannot be had
 *   ERR_IO, ERR_TIMEOUT, ERR_STOPPING */
int pgsql_conn_connect(struct pgsql_conn *c, const struct sql_login *login,
                       const struct sql_wait *w, struct problem *problem) MUST_CHECK;
void pgsql_conn_disconnect(struct pgsql_conn *c); /* waits for nothing */
bool pgsql_conn_is_open(const struct pgsql_conn *c);
const char *
pgsql_conn_where(const struct pgsql_conn *c); /* "db2 (10.0.0.2:5432)"; "" before connect */
const char *pgsql_conn_tls(const struct pgsql_conn *c); /* "TLSv1.3"; NULL: not encrypted */
int pgsql_conn_version(const struct pgsql_conn *c);     /* 150018; only while open */

/* A statement and its values $1, $2, ...  The text has static storage: it is prepared once per
 * connection, and known again by its address.  It says the types itself: "$1::bigint".  Values are
 * borrowed; numbers live in the query, so it is not copied. */
#define PGSQL_VALUES_MAX 12
struct pgsql_query {
        const char *sql;
        size_t n;
        struct slice values[PGSQL_VALUES_MAX]; /* ptr NULL: NULL */
        unsigned char numbers[PGSQL_VALUES_MAX][8];
};
void pgsql_query_init(struct pgsql_query *q, const char *sql);
void pgsql_query_i64(struct pgsql_query *q, int64_t value);        /* bigint */
void pgsql_query_bytes(struct pgsql_query *q, struct slice value); /* bytea or text; never NULL */
void pgsql_query_text(struct pgsql_query *q, const char *value);   /* NULL: NULL */

/* What a statement gave.  Its user zeroes it before the first use, and releases it after the last.
 */
struct pgsql_result {
        void *rows; /* PGresult; NULL: there are none */
        int n_rows, n_columns, next;
        uint64_t affected; /* rows inserted, changed or removed */
};
void pgsql_result_release(struct pgsql_result *r);
/* The next row: its first n cells.  A NULL cell, and one that the row does not have, has ptr NULL.
 * Cells borrow from the result. */
bool pgsql_result_next(struct pgsql_result *r, struct slice *cells, size_t n);
/* A smallint, integer or bigint as it came; 0 for NULL. */
int64_t pgsql_cell_i64(struct slice cell);

/* Runs one statement, prepared, and reads its answer.  *ret is released first, and empty after an
 * error; NULL: nobody wants it.
 *   ERR_IO, ERR_TIMEOUT, ERR_STOPPING: the connection is closed
 *   ERR_FORBIDDEN: a privilege is missing (42501)
 *   ERR_NOTFOUND:  no such table, column or schema
 *   ERR_LOCKED:    the wait for a lock took too long (55P03), or a deadlock
 *   ERR_CONFLICT:  the key is there already (23505)
 *   ERR_NOSPACE:   its disk is full (53100)
 *   ERR_STATE:     it is read-only (25006)
 *   ERR_UNAVAIL:   the statement was canceled (57014)
 *   ERR_BADARG:    any other refusal, in the server's words */
int pgsql_conn_run(struct pgsql_conn *c, const struct pgsql_query *q, const struct sql_wait *w,
                   struct pgsql_result *ret, struct problem *problem) MUST_CHECK;
/* The same for one statement without values that is not prepared; it may be on the stack. */
int pgsql_conn_command(struct pgsql_conn *c, const char *sql, const struct sql_wait *w,
                       struct pgsql_result *ret, struct problem *problem) MUST_CHECK;
/* The same, row by row: only one is in memory.  Cells are borrowed until fn returns; whatever it
 * returns but OK ends the calls and is returned, when the rest has been read and dropped. */
struct pgsql_rows {
        int (*fn)(void *ctx, const struct slice *cells, size_t n);
        void *ctx;
};
int pgsql_conn_each(struct pgsql_conn *c, const struct pgsql_query *q, const struct sql_wait *w,
                    const struct pgsql_rows *rows, struct problem *problem) MUST_CHECK;

/* A pipeline: statements are sent one after the other, and the answers read at its end; all the
 * while one that is being sent waits only for room in the connection.  Its user begins and commits
 * a transaction in it.  After the first that fails the server skips the others; a transaction that
 * was begun is then rolled back by pgsql_pipe_end().
 *
 * Of pgsql_pipe_send() only ERR_IO, ERR_TIMEOUT and ERR_STOPPING are told, and the connection is
 * closed.  pgsql_pipe_end() tells the first error as pgsql_conn_run() does; ret_affected[i] is of
 * the i-th statement, of the first n, and 0 for those that failed or were skipped. */
#define PGSQL_PIPE_MAX 128 /* statements in one pipeline */
int pgsql_pipe_begin(struct pgsql_conn *c, struct problem *problem) MUST_CHECK;
int pgsql_pipe_send(struct pgsql_conn *c, const struct pgsql_query *q, const struct sql_wait *w,
                    struct problem *problem) MUST_CHECK;
int pgsql_pipe_end(struct pgsql_conn *c, const struct sql_wait *w, uint64_t *ret_affected, size_t n,
                   struct problem *problem) MUST_CHECK;

/* Of the last statement or pipeline: the SQLSTATE of its error, "" when there was none or the
 * connection was lost; and the first WARNING that the server gave meanwhile, NULL when it gave
 * none.  A commit that was not replicated says so in a WARNING alone. */
const char *pgsql_conn_sqlstate(const struct pgsql_conn *c);
const char *pgsql_conn_warning(const struct pgsql_conn *c);

#endif

/* One connection to MySQL or MariaDB: connect, run statements, read rows.
 *
 * Every call waits at most until the deadline of its struct sql_wait, and watches its stop_fd.  A
 * connection belongs to one thread.  CLIENT_FOUND_ROWS is never set, so `affected` counts changed
 * rows. */
#ifndef WEIR_SQL_MYSQL_H
#define WEIR_SQL_MYSQL_H

#include "base/buf.h"
#include "base/err.h"
#include "sql/login.h"
#include "sql/wait.h"

struct mysql_conn;

/* The login must outlive it.  The first call sets libmariadb up. */
struct mysql_conn *mysql_conn_new(const struct sql_login *login);
struct mysql_conn *mysql_conn_free(struct mysql_conn *c); /* NULL is fine; returns NULL */
DEFINE_CLEANUP(struct mysql_conn, mysql_conn_free)

/* Before it connects: an answer may be that long in place of ANSWER_MAX, and so may a packet.  For
 * a server that is trusted. */
void mysql_conn_allow(struct mysql_conn *c, uint64_t answer_bytes);

/* Logs in, and sets the session up: time_zone '+00:00', sql_mode '', autocommit on, character set
 * utf8mb4.  After an error nothing is connected.  A connection that is open is closed first. */
int mysql_conn_connect(struct mysql_conn *c, const struct sql_wait *w,
                       struct problem *problem) MUST_CHECK;
/* As mysql_conn_connect(), but leaves the session as the server makes it (in utf8mb4). */
int mysql_conn_dial(struct mysql_conn *c, const struct sql_wait *w,
                    struct problem *problem) MUST_CHECK;
void mysql_conn_disconnect(struct mysql_conn *c); /* waits for nothing */
bool mysql_conn_is_open(const struct mysql_conn *c);
const char *mysql_conn_where(const struct mysql_conn *c); /* "db2 (10.0.0.2:3306)" */
const char *mysql_conn_tls(const struct mysql_conn *c);   /* "TLSv1.3"; NULL: not encrypted */
/* "10.11.19-MariaDB..." and whether it is MariaDB; only while open. */
const char *mysql_conn_version(const struct mysql_conn *c, bool *ret_is_mariadb);

/* An answer with more columns is too long. */
#define MYSQL_COLUMNS_MAX 256

/* What a statement gave.  Its user zeroes it before the first use, and releases it after the last.
 */
struct mysql_result {
        void *rows; /* MYSQL_RES; NULL: the statement has no rows */
        uint64_t n_rows;
        uint64_t affected; /* changed rows; 0 when the statement has rows */
        uint64_t insert_id;
        unsigned n_columns;
};
void mysql_result_release(struct mysql_result *r);
/* The next row: its first n cells.  A NULL cell, and one that the row does not have, has ptr NULL;
 * after any other stands a NUL that its length does not count.  Cells borrow from the result. */
bool mysql_result_next(struct mysql_result *r, struct slice *cells, size_t n);
/* The number of the column with that name, in any case; -1: there is none. */
int mysql_result_column(const struct mysql_result *r, const char *name);

/* Runs one statement and reads its whole answer (at most ANSWER_MAX bytes, or what was allowed).
 * *ret is released first, and empty after an error. ERR_IO, ERR_TIMEOUT, ERR_STOPPING, ERR_TOOBIG:
 * the connection is closed ERR_FORBIDDEN: a privilege is missing ERR_NOTFOUND:  no such table,
 * column or database ERR_LOCKED:    the wait for a lock took too long (1205, 1467), or a deadlock
 * (1213) ERR_UNAVAIL:   the server ended the statement, because it took longer than the session
 * allows ERR_BADARG:    any other refusal, in the server's words */
int mysql_conn_run(struct mysql_conn *c, struct slice sql, const struct sql_wait *w,
                   struct mysql_result *ret, struct problem *problem) MUST_CHECK;
/* The same, row by row: only one is in memory.  Cells are borrowed until fn returns; whatever it
 * returns but OK ends the calls and is returned, when the rest has been read and dropped. */
struct mysql_rows {
        int (*fn)(void *ctx, const struct slice *cells, size_t n);
        void *ctx;
};
int mysql_conn_each(struct mysql_conn *c, struct slice sql, const struct sql_wait *w,
                    const struct mysql_rows *rows, struct problem *problem) MUST_CHECK;

/* A statement without rows and its values, which travel as they are, without quotes.  The text has
 * static storage: it is prepared once per connection, and known again by its address.  Values are
 * borrowed; numbers live in the statement, so it is not copied. */
#define MYSQL_VALUES_MAX 12
enum mysql_value_kind { MYSQL_VALUE_NUMBER, MYSQL_VALUE_TEXT, MYSQL_VALUE_BYTES };
struct mysql_statement {
        const char *sql;
        size_t n;
        enum mysql_value_kind kinds[MYSQL_VALUES_MAX];
        struct slice values[MYSQL_VALUES_MAX];
        uint64_t numbers[MYSQL_VALUES_MAX];
};
void mysql_statement_init(struct mysql_statement *s, const char *sql);
void mysql_statement_u64(struct mysql_statement *s, uint64_t value);
void mysql_statement_text(struct mysql_statement *s, const char *value);
void mysql_statement_bytes(struct mysql_statement *s, struct slice value);
/* Runs it; errors as of mysql_conn_run(). */
int mysql_conn_execute(struct mysql_conn *c, const struct mysql_statement *s,
                       const struct sql_wait *w, uint64_t *ret_affected,
                       struct problem *problem) MUST_CHECK;
/* The number of the server's or the library's error at the last statement; 0: there was none. */
unsigned mysql_conn_errno(const struct mysql_conn *c);

/* Appends text in quotes, escaped for sql_mode '' and utf8mb4. */
void mysql_put_text(struct buf *sql, struct slice text);
/* Appends an identifier in backquotes.  The server refuses one with a NUL in it. */
void mysql_put_name(struct buf *sql, struct slice name);

#endif

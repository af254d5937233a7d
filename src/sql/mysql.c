/* Statements over one connection to MySQL or MariaDB, through libmariadb's non-blocking calls, so
 * that every wait has our deadline and can be ended: the library's own timeouts count each packet
 * anew and in whole seconds.
 *
 * After an error that leaves part of an answer unread the connection is closed at once: what came
 * later would be taken for the answer to the next statement. */
#include "sql/mysql.h"

#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>
#include <stdlib.h>

#include "base/banned.h" /* late: see the Makefile */
#include "sql/mysql_connect.h"
#include "sql/tls.h"

/* A statement took longer than the session allows: MariaDB's number and MySQL's.  The headers of
 * either know only their own. */
#define TIMEOUT_MARIADB 1969
#define TIMEOUT_MYSQL   3024

static const char session_sql[] =
        "SET NAMES utf8mb4, SESSION time_zone = '+00:00', SESSION sql_mode = '', "
        "SESSION autocommit = 1";

#define PREPARED_MAX 16 /* statements of one user; a constant of the program */

struct mysql_conn {
        const struct sql_login *login;
        MYSQL *db;       /* NULL: not connected */
        unsigned number; /* of the last error */
        uint64_t answer_max;
        char where[WHERE_MAX];
        struct {
                const char *sql;
                MYSQL_STMT *statement;
        } prepared[PREPARED_MAX]; /* on this connection */
        size_t n_prepared;
};

/* ---- results ---- */

void mysql_result_release(struct mysql_result *r)
{
        if (r->rows)
                mysql_free_result(r->rows);
        *r = (struct mysql_result){0};
}

bool mysql_result_next(struct mysql_result *r, struct slice *cells, size_t n)
{
        MYSQL_ROW row = r->rows ? mysql_fetch_row(r->rows) : NULL;
        if (!row)
                return false;
        const unsigned long *lengths = mysql_fetch_lengths(r->rows);
        for (size_t i = 0; i < n; i++)
                cells[i] = i < r->n_columns && row[i] ? slice_make(row[i], lengths[i]) : SLICE_NONE;
        return true;
}

int mysql_result_column(const struct mysql_result *r, const char *name)
{
        if (!r->rows)
                return -1;
        const MYSQL_FIELD *fields = mysql_fetch_fields(r->rows);
        for (unsigned i = 0; i < r->n_columns; i++)
                if (strcasecmp(fields[i].name, name) == 0)
                        return (int)i;
        return -1;
}

/* ---- one statement ---- */

static int error_problem(struct mysql_conn *c, unsigned number, const char *text,
                         const struct sql_wait *w, struct problem *problem)
{
        int err = ERR_BADARG;
        c->number = number;
        switch (number) {
        case CR_SERVER_GONE_ERROR:
        case CR_SERVER_LOST:
        case CR_SERVER_LOST_EXTENDED:
        case CR_COMMANDS_OUT_OF_SYNC: /* it answered more than was asked */
        case ER_SERVER_SHUTDOWN:
        case ER_NORMAL_SHUTDOWN:
        case ER_CONNECTION_KILLED:
                return problem_set(problem, ERR_IO, "the connection was lost: %s", text);
        case TIMEOUT_MARIADB:
        case TIMEOUT_MYSQL:
                (void)wait_problem(w, ERR_TIMEOUT, problem);
                return ERR_UNAVAIL;
        case ER_SPECIFIC_ACCESS_DENIED_ERROR:
        case ER_TABLEACCESS_DENIED_ERROR:
        case ER_COLUMNACCESS_DENIED_ERROR:
        case ER_DBACCESS_DENIED_ERROR:
                return problem_set(problem, ERR_FORBIDDEN, "a privilege is missing: %s", text);
        case ER_NO_SUCH_TABLE:
        case ER_BAD_TABLE_ERROR:
        case ER_UNKNOWN_TABLE:
        case ER_BAD_FIELD_ERROR:
        case ER_BAD_DB_ERROR:
        case ER_NO_DB_ERROR:
                err = ERR_NOTFOUND;
                break;
        case ER_LOCK_WAIT_TIMEOUT:
        case ER_LOCK_DEADLOCK:
        case ER_AUTOINC_READ_FAILED: /* the wait for the AUTO-INC lock of the table */
                err = ERR_LOCKED;
                break;
        default:
                break;
        }
        return problem_set(problem, err, "error %u: %s", c->number, text);
}

static int statement_problem(struct mysql_conn *c, const struct sql_wait *w,
                             struct problem *problem)
{
        return error_problem(c, mysql_errno(c->db), mysql_error(c->db), w, problem);
}

static int ask(struct mysql_conn *c, struct slice sql, const struct sql_wait *w,
               struct problem *problem)
{
        int failed = 0, ready, r;
        int status = mysql_real_query_start(&failed, c->db, sql.ptr, sql.len);
        while (status) {
                r = my_wait(c->db, status, w, &ready);
                if (r != OK)
                        return wait_problem(w, r, problem);
                status = mysql_real_query_cont(&failed, c->db, ready);
        }
        if (failed)
                return statement_problem(c, w, problem);
        return mysql_field_count(c->db) > MYSQL_COLUMNS_MAX ? answer_too_long(problem) : OK;
}

static int run_unwatched(struct mysql_conn *c, struct slice sql, const struct sql_wait *w,
                         MYSQL_RES **ret, struct problem *problem)
{
        int ready, r = ask(c, sql, w, problem);
        if (r != OK)
                return r;
        int status = mysql_store_result_start(ret, c->db);
        while (status) {
                r = my_wait(c->db, status, w, &ready);
                if (r != OK)
                        return wait_problem(w, r, problem);
                status = mysql_store_result_cont(ret, c->db, ready);
        }
        if (!*ret && mysql_errno(c->db))
                return statement_problem(c, w, problem);
        return OK;
}

static bool is_dead(int err)
{
        return err == ERR_IO || err == ERR_TIMEOUT || err == ERR_STOPPING || err == ERR_TOOBIG;
}

static void fill(const struct mysql_conn *c, MYSQL_RES *rows, struct mysql_result *ret)
{
        if (rows)
                *ret = (struct mysql_result){.rows = rows,
                                             .n_rows = mysql_num_rows(rows),
                                             .n_columns = mysql_num_fields(rows)};
        else
                *ret = (struct mysql_result){.affected = mysql_affected_rows(c->db),
                                             .insert_id = mysql_insert_id(c->db)};
}

static int watch_begin(struct mysql_conn *c, const struct sql_wait *w, struct problem *problem)
{
        c->number = 0;
        if (!c->db)
                return problem_set(problem, ERR_IO, "there is no connection to %s", c->where);
        my_watch_begin(w, true, false);
        my_watch_allow(c->answer_max);
        return OK;
}

/* What became of it: r, unless it was cut. */
static int watch_end(int r, const struct sql_wait *w, struct problem *problem)
{
        int watched = my_watch_end();
        if (watched == ERR_TOOBIG)
                return answer_too_long(problem);
        return watched == OK ? r : wait_problem(w, watched, problem);
}

int mysql_conn_run(struct mysql_conn *c, struct slice sql, const struct sql_wait *w,
                   struct mysql_result *ret, struct problem *problem)
{
        MYSQL_RES *rows = NULL;
        mysql_result_release(ret);
        int r = watch_begin(c, w, problem);
        if (r != OK)
                return r;
        r = watch_end(run_unwatched(c, sql, w, &rows, problem), w, problem);
        if (r == OK)
                fill(c, rows, ret);
        else if (rows)
                mysql_free_result(rows);
        if (is_dead(r))
                mysql_conn_disconnect(c);
        return r;
}

/* ---- row by row ---- */

static int next_row(struct mysql_conn *c, MYSQL_RES *rows, const struct sql_wait *w, MYSQL_ROW *ret,
                    struct problem *problem)
{
        int ready, status = mysql_fetch_row_start(ret, rows);
        while (status) {
                int r = my_wait(c->db, status, w, &ready);
                if (r != OK)
                        return wait_problem(w, r, problem);
                status = mysql_fetch_row_cont(ret, rows, ready);
        }
        return !*ret && mysql_errno(c->db) ? statement_problem(c, w, problem) : OK;
}

static int give_row(MYSQL_RES *result, MYSQL_ROW row, const struct mysql_rows *rows)
{
        struct slice cells[MYSQL_COLUMNS_MAX];
        const unsigned long *lengths = mysql_fetch_lengths(result);
        size_t n = mysql_num_fields(result);
        for (size_t i = 0; i < n; i++)
                cells[i] = row[i] ? slice_make(row[i], lengths[i]) : SLICE_NONE;
        return rows->fn(rows->ctx, cells, n);
}

/* ret_given: what fn returned. */
static int each_unwatched(struct mysql_conn *c, MYSQL_RES *result, const struct sql_wait *w,
                          const struct mysql_rows *rows, int *ret_given, struct problem *problem)
{
        MYSQL_ROW row;
        *ret_given = OK;
        for (;;) {
                int r = next_row(c, result, w, &row, problem);
                if (r != OK || !row)
                        return r;
                if (*ret_given == OK)
                        *ret_given = give_row(result, row, rows);
        }
}

int mysql_conn_each(struct mysql_conn *c, struct slice sql, const struct sql_wait *w,
                    const struct mysql_rows *rows, struct problem *problem)
{
        MYSQL_RES *result = NULL;
        int given = OK, r = watch_begin(c, w, problem);
        if (r != OK)
                return r;
        r = ask(c, sql, w, problem);
        if (r == OK)
                result = mysql_use_result(c->db);
        if (result)
                r = each_unwatched(c, result, w, rows, &given, problem);
        else if (r == OK && mysql_errno(c->db))
                r = statement_problem(c, w, problem);
        r = watch_end(r, w, problem);
        if (is_dead(r)) /* first: releasing a result would read the rest of it */
                mysql_conn_disconnect(c);
        if (result)
                mysql_free_result(result);
        return r != OK ? r : given;
}

/* ---- prepared statements ---- */

void mysql_statement_init(struct mysql_statement *s, const char *sql)
{
        s->sql = sql;
        s->n = 0;
}

void mysql_statement_u64(struct mysql_statement *s, uint64_t value)
{
        ASSERT(s->n < MYSQL_VALUES_MAX);
        s->kinds[s->n] = MYSQL_VALUE_NUMBER;
        s->numbers[s->n++] = value;
}

void mysql_statement_text(struct mysql_statement *s, const char *value)
{
        ASSERT(s->n < MYSQL_VALUES_MAX);
        s->kinds[s->n] = MYSQL_VALUE_TEXT;
        s->values[s->n++] = slice_str(value);
}

void mysql_statement_bytes(struct mysql_statement *s, struct slice value)
{
        ASSERT(s->n < MYSQL_VALUES_MAX);
        s->kinds[s->n] = MYSQL_VALUE_BYTES;
        s->values[s->n++] = value.ptr ? value : SLICE_LIT("");
}

/* The server takes text for text of the connection, and bytes for what they are. */
static void bind_value(const struct mysql_statement *s, size_t i, unsigned long *length,
                       MYSQL_BIND *ret)
{
        static const enum enum_field_types types[] = {
                [MYSQL_VALUE_NUMBER] = MYSQL_TYPE_LONGLONG,
                [MYSQL_VALUE_TEXT] = MYSQL_TYPE_STRING,
                [MYSQL_VALUE_BYTES] = MYSQL_TYPE_LONG_BLOB,
        };
        bool is_number = s->kinds[i] == MYSQL_VALUE_NUMBER;
        const void *at = is_number ? (const void *)&s->numbers[i] : s->values[i].ptr;
        *length = is_number ? 0 : s->values[i].len;
        ret->buffer_type = types[s->kinds[i]];
        ret->buffer = (void *)(uintptr_t)at; /* it is only read */
        ret->is_unsigned = is_number;
        ret->length = length;
}

static int prepared_problem(struct mysql_conn *c, MYSQL_STMT *statement, const struct sql_wait *w,
                            struct problem *problem)
{
        return error_problem(c, mysql_stmt_errno(statement), mysql_stmt_error(statement), w,
                             problem);
}

static int prepare(struct mysql_conn *c, const char *sql, const struct sql_wait *w,
                   MYSQL_STMT **ret, struct problem *problem)
{
        int failed = 0, ready;
        for (size_t i = 0; i < c->n_prepared; i++) {
                if (c->prepared[i].sql == sql) {
                        *ret = c->prepared[i].statement;
                        return OK;
                }
        }
        ASSERT(c->n_prepared < PREPARED_MAX);
        MYSQL_STMT *statement = mysql_stmt_init(c->db);
        ASSERT(statement); /* NULL for want of memory alone */
        /* One that failed stays, without a name, until the connection ends: closing it would ask
         * the server. */
        c->prepared[c->n_prepared].sql = NULL;
        c->prepared[c->n_prepared++].statement = statement;
        int status = mysql_stmt_prepare_start(&failed, statement, sql, strlen(sql));
        while (status) {
                int r = my_wait(c->db, status, w, &ready);
                if (r != OK)
                        return wait_problem(w, r, problem);
                status = mysql_stmt_prepare_cont(&failed, statement, ready);
        }
        if (failed) {
                int r = prepared_problem(c, statement, w, problem);
                return is_dead(r) ? r : ERR_IO; /* there is room for few of those */
        }
        c->prepared[c->n_prepared - 1].sql = sql;
        *ret = statement;
        return OK;
}

static int execute_unwatched(struct mysql_conn *c, const struct mysql_statement *s,
                             const struct sql_wait *w, uint64_t *ret, struct problem *problem)
{
        MYSQL_BIND binds[MYSQL_VALUES_MAX] = {0};
        unsigned long lengths[MYSQL_VALUES_MAX];
        MYSQL_STMT *statement = NULL;
        int failed = 0, ready, r = prepare(c, s->sql, w, &statement, problem);
        if (r != OK)
                return r;
        ASSERT(mysql_stmt_param_count(statement) == s->n);
        for (size_t i = 0; i < s->n; i++)
                bind_value(s, i, &lengths[i], &binds[i]);
        if (mysql_stmt_bind_param(statement, binds))
                return prepared_problem(c, statement, w, problem);
        int status = mysql_stmt_execute_start(&failed, statement);
        while (status) {
                r = my_wait(c->db, status, w, &ready);
                if (r != OK)
                        return wait_problem(w, r, problem);
                status = mysql_stmt_execute_cont(&failed, statement, ready);
        }
        if (failed)
                return prepared_problem(c, statement, w, problem);
        *ret = mysql_stmt_affected_rows(statement);
        return OK;
}

int mysql_conn_execute(struct mysql_conn *c, const struct mysql_statement *s,
                       const struct sql_wait *w, uint64_t *ret_affected, struct problem *problem)
{
        int r = watch_begin(c, w, problem);
        if (r != OK)
                return r;
        r = watch_end(execute_unwatched(c, s, w, ret_affected, problem), w, problem);
        if (is_dead(r))
                mysql_conn_disconnect(c);
        return r;
}

unsigned mysql_conn_errno(const struct mysql_conn *c)
{
        return c->number;
}

/* ---- text ---- */

void mysql_put_text(struct buf *sql, struct slice text)
{
        buf_put_byte(sql, '\'');
        for (size_t i = 0; i < text.len; i++) {
                char byte = text.ptr[i];
                switch (byte) {
                case '\0':
                        buf_put_str(sql, "\\0");
                        break;
                case '\'':
                case '\\':
                        buf_put_byte(sql, '\\');
                        buf_put_byte(sql, byte);
                        break;
                default: /* bytes of longer UTF-8 sequences are none of these */
                        buf_put_byte(sql, byte);
                }
        }
        buf_put_byte(sql, '\'');
}

void mysql_put_name(struct buf *sql, struct slice name)
{
        buf_put_byte(sql, '`');
        for (size_t i = 0; i < name.len; i++) {
                if (name.ptr[i] == '`')
                        buf_put_byte(sql, '`');
                buf_put_byte(sql, name.ptr[i]);
        }
        buf_put_byte(sql, '`');
}

/* ---- connecting ---- */

void mysql_conn_disconnect(struct mysql_conn *c)
{
        c->db = my_hang_up(c->db);
        /* After that: a statement that has a connection tells the server that it ends. */
        while (c->n_prepared)
                (void)mysql_stmt_close(c->prepared[--c->n_prepared].statement);
}

bool mysql_conn_is_open(const struct mysql_conn *c)
{
        return c->db != NULL;
}

const char *mysql_conn_where(const struct mysql_conn *c)
{
        return c->where;
}

const char *mysql_conn_tls(const struct mysql_conn *c)
{
        const char *version = NULL;
        if (!c->db || !mysql_get_ssl_cipher(c->db) ||
            mariadb_get_infov(c->db, MARIADB_CONNECTION_TLS_VERSION, (void *)&version) != 0)
                return NULL;
        return version;
}

const char *mysql_conn_version(const struct mysql_conn *c, bool *ret_is_mariadb)
{
        ASSERT(c->db);
        *ret_is_mariadb = mariadb_connection(c->db);
        return mysql_get_server_info(c->db);
}

static int attempt(void *self, const char *address, const struct sql_wait *w,
                   struct problem *problem)
{
        struct mysql_conn *c = self;
        const struct my_dial dial = {c->login, c->where, c->answer_max};
        return my_dial(&dial, address, w, &c->db, problem);
}

int mysql_conn_dial(struct mysql_conn *c, const struct sql_wait *w, struct problem *problem)
{
        mysql_conn_disconnect(c);
        return server_attempt(&c->login->server, w, attempt, c, problem);
}

int mysql_conn_connect(struct mysql_conn *c, const struct sql_wait *w, struct problem *problem)
{
        struct mysql_result none = {0};
        struct problem why;
        int r = mysql_conn_dial(c, w, problem);
        if (r != OK)
                return r;
        r = mysql_conn_run(c, slice_str(session_sql), w, &none, &why);
        mysql_result_release(&none);
        if (r == OK)
                return OK;
        mysql_conn_disconnect(c);
        return problem_set(problem, r, "cannot set up the session with %s: %s", c->where,
                           why.detail);
}

struct mysql_conn *mysql_conn_new(const struct sql_login *login)
{
        struct mysql_conn *c = xcalloc(1, sizeof(*c));
        my_setup();
        tls_setup();
        c->login = login;
        c->answer_max = ANSWER_MAX;
        (void)server_where(&login->server, c->where); /* it returns what it was given */
        return c;
}

void mysql_conn_allow(struct mysql_conn *c, uint64_t answer_bytes)
{
        c->answer_max = answer_bytes;
}

struct mysql_conn *mysql_conn_free(struct mysql_conn *c)
{
        if (c)
                mysql_conn_disconnect(c);
        free(c);
        return NULL;
}

/* In MariaDB an UPDATE returns no rows, so a claim is a transaction in two round trips: the rows
 * that are locked, then their mark and the commit.  Enqueue and complete commit by themselves.
 *
 * READ COMMITTED: there are no locks on gaps, which would make the inserts of others wait. */
#include <inttypes.h>
#include <mariadb/mysql.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "sql_queue.h"

#define ER_LOCK_WAIT 1205
#define ER_DEADLOCK  1213
#define DIGITS_MAX   24
#define SQL_BYTES    (512 + BATCH_MAX * DIGITS_MAX)

struct queue_conn {
        MYSQL *db;
        const struct queue_server *server;
        unsigned batch, claimer;
        MYSQL_STMT *enqueue, *complete;
        char sql[SQL_BYTES];
        uint64_t retries;
};

static const char *const schema[] = {
        "CREATE DATABASE IF NOT EXISTS bench",
        "USE bench",
        "DROP TABLE IF EXISTS bench_queue",
        "CREATE TABLE bench_queue (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, "
        "claimer int NOT NULL DEFAULT 0, created timestamp(6) NOT NULL DEFAULT "
        "current_timestamp(6), "
        "claimed timestamp(6) NULL, payload varchar(4096) NOT NULL, KEY waiting (claimer, id)) "
        "ENGINE=InnoDB DEFAULT CHARSET=ascii STATS_AUTO_RECALC=0",
};

__attribute__((noreturn)) static void fail(struct queue_conn *c, const char *what)
{
        die("%s: %u %s", what, mysql_errno(c->db), mysql_error(c->db));
}

static void run(struct queue_conn *c, const char *sql)
{
        if (mysql_query(c->db, sql) != 0)
                fail(c, sql);
}

static struct queue_conn *my_open(const struct queue_server *server, unsigned batch,
                                  unsigned claimer)
{
        struct queue_conn *c = calloc(1, sizeof(*c));
        if (!c || !(c->db = mysql_init(NULL)))
                die("out of memory");
        c->server = server;
        c->batch = batch;
        c->claimer = claimer;
        if (!mysql_real_connect(c->db, server->host, server->user, server->password, NULL,
                                server->port, NULL, CLIENT_MULTI_STATEMENTS))
                fail(c, "connect");
        run(c, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
        return c;
}

static void my_close(struct queue_conn *c)
{
        if (c->enqueue) {
                mysql_stmt_close(c->enqueue);
                mysql_stmt_close(c->complete);
        }
        mysql_close(c->db);
        free(c);
}

static void my_make_table(struct queue_conn *c)
{
        for (size_t i = 0; i < sizeof(schema) / sizeof(schema[0]); i++)
                run(c, schema[i]);
}

/* The head, `each` n times with commas, the tail. */
static MYSQL_STMT *prepare(struct queue_conn *c, const char *head, const char *each, unsigned n,
                           const char *tail)
{
        size_t at = (size_t)snprintf(c->sql, SQL_BYTES, "%s", head);
        for (unsigned i = 0; i < n; i++)
                at += (size_t)snprintf(c->sql + at, SQL_BYTES - at, "%s%s", i ? "," : "", each);
        at += (size_t)snprintf(c->sql + at, SQL_BYTES - at, "%s", tail);
        MYSQL_STMT *stmt = mysql_stmt_init(c->db);
        if (!stmt)
                die("out of memory");
        if (mysql_stmt_prepare(stmt, c->sql, at) != 0)
                fail(c, c->sql);
        return stmt;
}

static MYSQL_STMT *prepare_enqueue(struct queue_conn *c, unsigned n)
{
        return prepare(c, "INSERT INTO bench_queue (payload) VALUES ", "(?)", n, "");
}

static void my_prepare(struct queue_conn *c)
{
        run(c, "USE bench");
        c->enqueue = prepare_enqueue(c, c->batch);
        c->complete = prepare(c, "DELETE FROM bench_queue WHERE id IN (", "?", c->batch,
                              ") AND claimer = ?");
}

static uint64_t my_count(struct queue_conn *c)
{
        run(c, "SELECT count(*) FROM bench.bench_queue");
        MYSQL_RES *rows = mysql_store_result(c->db);
        if (!rows)
                fail(c, "count");
        uint64_t n = strtoull(mysql_fetch_row(rows)[0], NULL, 10);
        mysql_free_result(rows);
        return n;
}

static uint64_t my_retries(const struct queue_conn *c)
{
        return c->retries;
}

static bool is_retried(struct queue_conn *c, unsigned error)
{
        c->retries++;
        return error == ER_LOCK_WAIT || error == ER_DEADLOCK;
}

/* --- the steps ------------------------------------------------------------------------------ */

static void exec(struct queue_conn *c, MYSQL_STMT *stmt, MYSQL_BIND *bind, size_t rows)
{
        if (mysql_stmt_bind_param(stmt, bind))
                die("bind: %s", mysql_stmt_error(stmt));
        while (mysql_stmt_execute(stmt) != 0)
                if (!is_retried(c, mysql_stmt_errno(stmt)))
                        die("%u %s", mysql_stmt_errno(stmt), mysql_stmt_error(stmt));
        if (mysql_stmt_affected_rows(stmt) != rows)
                die("%" PRIu64 " rows changed, not %zu", (uint64_t)mysql_stmt_affected_rows(stmt),
                    rows);
}

static MYSQL_BIND bytes_bind(const char *bytes, unsigned long len)
{
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_STRING,
                            .buffer = (void *)(uintptr_t)bytes,
                            .buffer_length = len};
}

static MYSQL_BIND number_bind(const int64_t *number)
{
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG,
                            .buffer = (void *)(uintptr_t)number};
}

static void my_enqueue(struct queue_conn *c, const char *payloads, size_t n)
{
        MYSQL_BIND bind[BATCH_MAX];
        const unsigned len = c->server->payload;
        for (size_t i = 0; i < n; i++)
                bind[i] = bytes_bind(payloads + i * len, len);
        if (n == c->batch) {
                exec(c, c->enqueue, bind, n);
                return;
        }
        MYSQL_STMT *smaller = prepare_enqueue(c, (unsigned)n); /* once, at the start */
        exec(c, smaller, bind, n);
        mysql_stmt_close(smaller);
}

/* All answers of several statements in one; the rows of the second, or NULL.  False: a deadlock. */
static bool run_several(struct queue_conn *c, MYSQL_RES **ret)
{
        int more = mysql_query(c->db, c->sql);
        for (; more == 0; more = mysql_next_result(c->db)) {
                MYSQL_RES *rows = mysql_store_result(c->db);
                if (rows && ret)
                        *ret = rows;
        }
        if (more < 0)
                return true;
        if (!is_retried(c, mysql_errno(c->db)))
                fail(c, c->sql);
        return false;
}

static size_t take_rows(MYSQL_RES *rows, size_t n, struct queue_job *ret)
{
        size_t got = 0;
        for (MYSQL_ROW row; (row = mysql_fetch_row(rows)); got++) {
                if (got == n)
                        die("claim: more than %zu jobs", n);
                ret[got].id = strtoll(row[0], NULL, 10);
                snprintf(ret[got].payload, sizeof(ret[got].payload), "%s", row[1]);
        }
        mysql_free_result(rows);
        return got;
}

/* Marks what was locked, or ends the transaction when there was nothing. */
static bool mark(struct queue_conn *c, const struct queue_job *jobs, size_t n)
{
        size_t at = 0;
        if (n > 0)
                at = (size_t)snprintf(c->sql, SQL_BYTES,
                                      "UPDATE bench_queue SET claimer = %u, claimed = "
                                      "current_timestamp(6) WHERE id IN (%" PRId64,
                                      c->claimer, jobs[0].id);
        for (size_t i = 1; i < n; i++)
                at += (size_t)snprintf(c->sql + at, SQL_BYTES - at, ",%" PRId64, jobs[i].id);
        snprintf(c->sql + at, SQL_BYTES - at, n > 0 ? "); COMMIT" : "COMMIT");
        return run_several(c, NULL);
}

static size_t my_claim(struct queue_conn *c, size_t n, struct queue_job *ret)
{
        for (;;) {
                MYSQL_RES *rows = NULL;
                snprintf(c->sql, SQL_BYTES,
                         "START TRANSACTION; SELECT id, payload FROM bench_queue FORCE INDEX "
                         "(waiting) WHERE claimer = 0 ORDER BY id LIMIT %zu FOR UPDATE SKIP LOCKED",
                         n);
                if (!run_several(c, &rows) || !rows)
                        continue;
                size_t got = take_rows(rows, n, ret);
                if (mark(c, ret, got))
                        return got;
        }
}

static void my_complete(struct queue_conn *c, const struct queue_job *jobs, size_t n)
{
        static const int64_t nobody = 0;
        MYSQL_BIND bind[BATCH_MAX + 1];
        int64_t claimer = c->claimer;
        for (size_t i = 0; i < c->batch; i++)
                bind[i] = number_bind(i < n ? &jobs[i].id : &nobody);
        bind[c->batch] = number_bind(&claimer);
        exec(c, c->complete, bind, n);
}

const struct queue_dialect queue_mariadb = {
        .name = "mariadb",
        .open = my_open,
        .close = my_close,
        .make_table = my_make_table,
        .prepare = my_prepare,
        .count = my_count,
        .retries = my_retries,
        .enqueue = my_enqueue,
        .claim = my_claim,
        .complete = my_complete,
};

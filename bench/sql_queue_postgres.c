/* In PostgreSQL each step is one statement, which commits by itself.
 *
 * The index has only what waits, so that a claim finds its rows at once; vacuum keeps up with rows
 * that live for milliseconds.  The plans are made once: a claim must never walk the table because
 * it was empty when the plan was made. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "sql_queue.h"

#define INT8_OID       20
#define TEXT_OID       25
#define ARRAY_HEAD     20 /* dimensions, flags, type, length, first index */
#define ELEMENT_HEAD   4
#define BYTES_OF_ARRAY (ARRAY_HEAD + BATCH_MAX * (ELEMENT_HEAD + PAYLOAD_MAX))

struct queue_conn {
        PGconn *db;
        const struct queue_server *server;
        unsigned batch;
        uint32_t claimer; /* in network order */
        char *array;      /* a parameter in binary */
        size_t array_len;
};

#define OLDEST                                                                                     \
        "SELECT id FROM bench_queue WHERE claimer = 0 ORDER BY id LIMIT $2::int FOR UPDATE SKIP "  \
        "LOCKED"

static const struct {
        const char *name, *sql;
} statements[] = {
        {"enqueue", "INSERT INTO bench_queue (payload) SELECT unnest($1::text[])"},
        {"claim", "UPDATE bench_queue SET claimer = $1::int, claimed = now() "
                  "WHERE id = ANY (ARRAY(" OLDEST ")) RETURNING id, payload"},
        {"complete", "DELETE FROM bench_queue WHERE id = ANY ($1::bigint[]) AND claimer = $2::int"},
        {"enqueue1", "INSERT INTO bench_queue (payload) VALUES ($1::text)"},
        {"complete1", "DELETE FROM bench_queue WHERE id = $1::bigint AND claimer = $2::int"},
};

static const char *const schema[] = {
        "DROP TABLE IF EXISTS bench_queue",
        "CREATE TABLE bench_queue (id bigint GENERATED ALWAYS AS IDENTITY (CACHE 32) PRIMARY KEY, "
        "claimer int NOT NULL DEFAULT 0, created timestamptz NOT NULL DEFAULT now(), "
        "claimed timestamptz, payload text NOT NULL) WITH (autovacuum_vacuum_scale_factor = 0, "
        "autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1, "
        "autovacuum_analyze_threshold = 1000000000, autovacuum_vacuum_cost_delay = 0)",
        "CREATE INDEX bench_queue_waiting ON bench_queue (id) WHERE claimer = 0",
};

static PGresult *must(struct queue_conn *c, PGresult *result, const char *what)
{
        ExecStatusType status = PQresultStatus(result);
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
                die("%s: %s", what, PQerrorMessage(c->db));
        return result;
}

static void run(struct queue_conn *c, const char *sql)
{
        PQclear(must(c, PQexec(c->db, sql), sql));
}

static void be_quiet(void *arg, const char *message)
{
        (void)arg;
        (void)message; /* "does not exist, skipping" */
}

static struct queue_conn *pg_open(const struct queue_server *server, unsigned batch,
                                  unsigned claimer)
{
        struct queue_conn *c = calloc(1, sizeof(*c));
        char port[16];
        snprintf(port, sizeof(port), "%u", server->port);
        const char *const keys[] = {"host", "port", "user", "password", "dbname", "sslmode", NULL};
        const char *const values[] = {server->host, port,      server->user, server->password,
                                      "postgres",   "disable", NULL};
        if (!c || !(c->array = malloc(BYTES_OF_ARRAY)))
                die("out of memory");
        c->server = server;
        c->batch = batch;
        c->claimer = htonl(claimer);
        c->db = PQconnectdbParams(keys, values, 0);
        if (PQstatus(c->db) != CONNECTION_OK)
                die("connect: %s", PQerrorMessage(c->db));
        PQsetNoticeProcessor(c->db, be_quiet, NULL);
        run(c, "SET synchronous_commit = on");
        run(c, "SET plan_cache_mode = force_generic_plan");
        run(c, "SET enable_seqscan = off");
        run(c, "SET enable_bitmapscan = off");
        return c;
}

static void pg_close(struct queue_conn *c)
{
        PQfinish(c->db);
        free(c->array);
        free(c);
}

static void pg_make_table(struct queue_conn *c)
{
        for (size_t i = 0; i < sizeof(schema) / sizeof(schema[0]); i++)
                run(c, schema[i]);
}

static void pg_prepare(struct queue_conn *c)
{
        for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
                PQclear(must(c, PQprepare(c->db, statements[i].name, statements[i].sql, 0, NULL),
                             statements[i].name));
}

static uint64_t pg_count(struct queue_conn *c)
{
        PGresult *rows = must(c, PQexec(c->db, "SELECT count(*) FROM bench_queue"), "count");
        uint64_t n = strtoull(PQgetvalue(rows, 0, 0), NULL, 10);
        PQclear(rows);
        return n;
}

static uint64_t pg_retries(const struct queue_conn *c)
{
        (void)c;
        return 0; /* a row that is locked is skipped, and nobody locks a second one */
}

/* --- arrays in binary ----------------------------------------------------------------------- */

static void put_int(struct queue_conn *c, size_t value)
{
        uint32_t bytes = htonl((uint32_t)value);
        memcpy(c->array + c->array_len, &bytes, sizeof(bytes));
        c->array_len += sizeof(bytes);
}

static void array_begin(struct queue_conn *c, uint32_t type, size_t n)
{
        c->array_len = 0;
        put_int(c, 1); /* dimension */
        put_int(c, 0); /* no NULL */
        put_int(c, type);
        put_int(c, n);
        put_int(c, 1); /* the first index */
}

static void array_put(struct queue_conn *c, const void *bytes, size_t len)
{
        put_int(c, len);
        memcpy(c->array + c->array_len, bytes, len);
        c->array_len += len;
}

static uint64_t to_network(uint64_t v)
{
        return (uint64_t)htonl((uint32_t)v) << 32 | htonl((uint32_t)(v >> 32));
}

/* --- the steps ------------------------------------------------------------------------------ */

/* Two parameters, or one when the second is NULL; all in binary. */
static PGresult *exec(struct queue_conn *c, const char *name, const char *first, size_t len,
                      const void *second)
{
        const char *const values[] = {first, second};
        const int lengths[] = {(int)len, sizeof(uint32_t)}, formats[] = {1, 1};
        return must(c, PQexecPrepared(c->db, name, second ? 2 : 1, values, lengths, formats, 1),
                    name);
}

static void must_change(PGresult *result, size_t n, const char *what)
{
        if (strtoull(PQcmdTuples(result), NULL, 10) != n)
                die("%s: %s rows changed, not %zu", what, PQcmdTuples(result), n);
        PQclear(result);
}

static void pg_enqueue(struct queue_conn *c, const char *payloads, size_t n)
{
        const size_t len = c->server->payload;
        if (n == 1) {
                must_change(exec(c, "enqueue1", payloads, len, NULL), 1, "enqueue");
                return;
        }
        array_begin(c, TEXT_OID, n);
        for (size_t i = 0; i < n; i++)
                array_put(c, payloads + i * len, len);
        must_change(exec(c, "enqueue", c->array, c->array_len, NULL), n, "enqueue");
}

static size_t pg_claim(struct queue_conn *c, size_t n, struct queue_job *ret)
{
        uint32_t limit = htonl((uint32_t)n);
        PGresult *rows = exec(c, "claim", (const char *)&c->claimer, sizeof(c->claimer), &limit);
        size_t got = (size_t)PQntuples(rows);
        if (got > n)
                die("claim: %zu jobs, not %zu", got, n);
        for (size_t i = 0; i < got; i++) {
                uint64_t id;
                size_t len = (size_t)PQgetlength(rows, (int)i, 1);
                memcpy(&id, PQgetvalue(rows, (int)i, 0), sizeof(id));
                ret[i].id = (int64_t)to_network(id);
                if (len > PAYLOAD_MAX)
                        die("claim: a payload of %zu bytes", len);
                memcpy(ret[i].payload, PQgetvalue(rows, (int)i, 1), len);
                ret[i].payload[len] = '\0';
        }
        PQclear(rows);
        return got;
}

static void pg_complete(struct queue_conn *c, const struct queue_job *jobs, size_t n)
{
        uint64_t id = to_network((uint64_t)jobs[0].id);
        if (n == 1) {
                must_change(exec(c, "complete1", (const char *)&id, sizeof(id), &c->claimer), 1,
                            "complete");
                return;
        }
        array_begin(c, INT8_OID, n);
        for (size_t i = 0; i < n; i++) {
                id = to_network((uint64_t)jobs[i].id);
                array_put(c, &id, sizeof(id));
        }
        must_change(exec(c, "complete", c->array, c->array_len, &c->claimer), n, "complete");
}

const struct queue_dialect queue_postgres = {
        .name = "postgres",
        .open = pg_open,
        .close = pg_close,
        .make_table = pg_make_table,
        .prepare = pg_prepare,
        .count = pg_count,
        .retries = pg_retries,
        .enqueue = pg_enqueue,
        .claim = pg_claim,
        .complete = pg_complete,
};

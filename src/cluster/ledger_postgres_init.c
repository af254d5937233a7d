/* The tables of a cluster in PostgreSQL: made and migrated in one transaction, under a lock that
 * two who do so at once must wait for.
 *
 * A later version appends its steps.  Each must leave alone what is there already: a space that is
 * new finds the tables of the others. */
#include <stdlib.h>

#include "cluster/ledger_sql.h"
#include "sql/postgres.h"

#define LOCK_SQL "select pg_advisory_xact_lock(7379736561)::text" /* any number of our own */

static const struct {
        int version;
        const char *sql;
} steps[] = {
        {1, "create schema if not exists weir"},
        {1, "create table if not exists weir.weir_version(space text not null,"
            "version integer not null,primary key(space))"},
        /* The log.  kind: enum ledger_kind.  Bodies are compressed or random already, or
         * too short to matter: compressing them costs ten times the append. */
        {1, "create table if not exists weir.weir_log(space text not null,seq bigint not null,"
            "piece smallint not null default 0,epoch bigint not null,node text not null,"
            "kind smallint not null,body bytea not null,primary key(space,seq,piece))"},
        {1, "alter table weir.weir_log alter body set storage external"},
        /* Rows come and go by the thousand: without this the table grows until it is a fifth dead
         * rows. */
        {1, "alter table weir.weir_log set (autovacuum_vacuum_scale_factor=0,"
            "autovacuum_vacuum_threshold=5000,autovacuum_vacuum_cost_delay=0,"
            "toast.autovacuum_vacuum_scale_factor=0,toast.autovacuum_vacuum_threshold=5000,"
            "toast.autovacuum_vacuum_cost_delay=0)"},
        {1, "create table if not exists weir.weir_lease(space text not null,node text not null,"
            "until timestamptz not null,primary key(space))"},
        {1, "create table if not exists weir.weir_member(space text not null,name text not null,"
            "node text not null,address text not null,priority integer not null,"
            "epoch bigint not null,seq bigint not null,digest_seq bigint not null,"
            "digest bigint not null,seen timestamptz not null,primary key(space,name))"},
        {1, "create table if not exists weir.weir_history(space text not null,"
            "kind smallint not null,key bigint not null,change bigint not null,"
            "body bytea not null,dead bytea not null default '',primary key(space,kind,key))"},
        {1, "alter table weir.weir_history alter body set storage external"},
        {1, "create index if not exists weir_history_change on weir.weir_history(space,change)"},
        {1, "create table if not exists weir.weir_fence(space text not null,"
            "epoch bigint not null,change bigint not null,primary key(space))"},
};

static const char *const grants[] = {
        "grant usage on schema weir to ",
        "grant select,insert,delete on weir.weir_log to ",
        "grant select,insert,update on weir.weir_lease,weir.weir_member,weir.weir_fence to ",
        "grant select,insert,update,delete on weir.weir_history to ",
        "grant select on weir.weir_version to ",
        "grant pg_read_all_stats to ",
};

struct init {
        const struct ledger_options *options;
        struct pgsql_conn *conn;
        const struct sql_wait *w;
        struct problem *problem;
        int64_t version; /* that is there; 0: none */
};

static int run(struct init *i, const char *sql)
{
        return pgsql_conn_command(i->conn, sql, i->w, NULL, i->problem);
}

static const char read_sql[] = "select version from weir.weir_version where space=$1::text";
static const char write_sql[] = "insert into weir.weir_version values($1::text,$2::bigint::integer)"
                                " on conflict(space) do update set version=excluded.version";
static const char exists_sql[] = "select count(to_regclass('weir.weir_version'))";

static int ask(struct init *i, const struct pgsql_query *q, int64_t *ret)
{
        struct pgsql_result result = {0};
        struct slice cell = SLICE_NONE;
        int r = pgsql_conn_run(i->conn, q, i->w, &result, i->problem);
        (void)pgsql_result_next(&result, &cell, 1); /* none: 0 */
        *ret = pgsql_cell_i64(cell);
        pgsql_result_release(&result);
        return r;
}

static int read_version(struct init *i)
{
        struct pgsql_query q;
        int64_t is_there;
        pgsql_query_init(&q, exists_sql);
        int r = ask(i, &q, &is_there);
        i->version = 0;
        if (r != OK || !is_there)
                return r;
        pgsql_query_init(&q, read_sql);
        pgsql_query_text(&q, i->options->space);
        return ask(i, &q, &i->version);
}

static int write_version(struct init *i)
{
        struct pgsql_query q;
        int64_t unused;
        pgsql_query_init(&q, write_sql);
        pgsql_query_text(&q, i->options->space);
        pgsql_query_i64(&q, LEDGER_VERSION);
        return ask(i, &q, &unused);
}

static int migrate(struct init *i)
{
        int r = run(i, "begin");
        if (r == OK)
                r = run(i, LOCK_SQL);
        if (r == OK)
                r = read_version(i);
        if (r == OK && i->version > LEDGER_VERSION)
                return problem_set(i->problem, ERR_STATE,
                                   "the tables on %s are of version %lld, and this weir knows %d; "
                                   "install a newer weir",
                                   pgsql_conn_where(i->conn), (long long)i->version,
                                   LEDGER_VERSION);
        for (size_t s = 0; r == OK && s < ARRAY_LEN(steps); s++)
                if (steps[s].version > i->version)
                        r = run(i, steps[s].sql);
        if (r == OK && i->version < LEDGER_VERSION)
                r = write_version(i);
        return r == OK ? run(i, "commit") : r;
}

static int attempt(void *self, const struct sql_login *login, const struct sql_wait *w,
                   struct problem *problem)
{
        static const char sql[] = "select case when pg_is_in_recovery() then 1 else 0 end";
        struct init *i = self;
        struct pgsql_query q;
        int64_t is_standby;
        int r = pgsql_conn_connect(i->conn, login, w, problem);
        if (r != OK)
                return r;
        pgsql_query_init(&q, sql);
        i->w = w;
        i->problem = problem;
        r = ask(i, &q, &is_standby);
        if (r == OK && is_standby)
                r = problem_set(problem, ERR_LOCKED, "%s is a standby", pgsql_conn_where(i->conn));
        return r;
}

static void put_name(struct buf *b, const char *name)
{
        buf_put_byte(b, '"');
        for (const char *at = name; *at; at++) {
                if (*at == '"')
                        buf_put_byte(b, '"');
                buf_put_byte(b, *at);
        }
        buf_put_byte(b, '"');
}

static void tell(const struct init *i, const char *user, struct buf *ret)
{
        ledger_put_made(ret, pgsql_conn_where(i->conn), (int)i->version);
        buf_put_str(ret, "The least that weir needs there:\n");
        for (size_t g = 0; g < ARRAY_LEN(grants); g++) {
                buf_printf(ret, "  %s", grants[g]);
                put_name(ret, user);
                buf_put_str(ret, ";\n");
        }
}

int ledger_postgres_init(const struct ledger_options *options, const char *user,
                         const struct sql_wait *w, struct buf *ret, struct problem *problem)
{
        struct init i = {.options = options, .conn = pgsql_conn_new(LEDGER_POSTGRES_SESSION)};
        struct ledger_search search = {.options = options, .attempt = attempt, .self = &i};
        int r = ledger_search(&search, w, problem);
        i.w = w;
        i.problem = problem;
        if (r == OK)
                r = migrate(&i);
        if (r == OK)
                tell(&i, user, ret);
        i.conn = pgsql_conn_free(i.conn); /* what was not committed is rolled back */
        return r;
}

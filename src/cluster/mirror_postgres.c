/* The mirror of a history in PostgreSQL.  Statements of a transaction go through pipelines: the
 * first one moves the fence and waits for the answer, the others are read when there are many or at
 * the end.  The commit waits for the synchronous standby; a WARNING means that it did not get it,
 * and the outcome is unknown then. */
#include <stdlib.h>

#include "cluster/mirror_sql_int.h"
#include "sql/postgres.h"

#define PIPED_MAX 100 /* below PGSQL_PIPE_MAX */
_Static_assert(PIPED_MAX + 1 <= PGSQL_PIPE_MAX, "and a commit");

#define SYNCED_SQL "($4::bigint=0 or current_setting('synchronous_standby_names')<>'')"

static const char begin_sql[] = "begin";
static const char commit_sql[] = "commit";
static const char fence_sql[] =
        "insert into weir_fence as f(space,epoch,change) select $1::text,$2::bigint,$3::bigint "
        "where ($3::bigint=1 or exists(select 1 from weir_fence where space=$1::text)) "
        "and " SYNCED_SQL " on conflict(space) do update set epoch=excluded.epoch,"
        "change=excluded.change where f.epoch<=excluded.epoch and f.change=excluded.change-1";
static const char put_sql[] =
        "insert into weir_history(space,kind,key,change,body,dead) "
        "values($1::text,$2::bigint::smallint,$3::bigint,$4::bigint,$5::bytea,''::bytea) "
        "on conflict(space,kind,key) do update set change=excluded.change,body=excluded.body,"
        "dead=excluded.dead";
static const char bury_sql[] =
        "update weir_history set change=$4::bigint,dead=$5::bytea "
        "where space=$1::text and kind=$2::bigint::smallint and key=$3::bigint";
static const char drop_sql[] = "delete from weir_history where space=$1::text and "
                               "kind=$2::bigint::smallint and key=$3::bigint";
static const char last_sql[] = "select change from weir_fence where space=$1::text";
static const char snapshot_sql[] = "begin isolation level repeatable read read only";
static const char look_sql[] =
        "select change,octet_length(body)::bigint from weir_history "
        "where space=$1::text and change>$2::bigint order by space,change limit $3::bigint";
static const char since_sql[] =
        "select kind::bigint,key,change,body,dead from weir_history where space=$1::text "
        "and change>$2::bigint and change<=$3::bigint order by space,change";
static const char keys_sql[] =
        "select key from weir_history where space=$1::text and kind=$2::bigint::smallint "
        "and key>=$3::bigint order by key limit $4::bigint";

static struct pgsql_conn *conn_of(struct sql_mirror *m)
{
        return ledger_postgres_conn(m->ledger);
}

/* A query whose first value is the space. */
static void query(const struct sql_mirror *m, struct pgsql_query *q, const char *sql)
{
        pgsql_query_init(q, sql);
        pgsql_query_text(q, m->options->space);
}

/* ---- writing ---- */

static int read_answers(struct sql_mirror *m, uint64_t *ret_affected, size_t n,
                        struct problem *problem)
{
        struct sql_wait w = sql_mirror_wait(m);
        m->is_piping = false;
        m->n_piped = 0;
        return pgsql_pipe_end(conn_of(m), &w, ret_affected, n, problem);
}

static int send(struct sql_mirror *m, const struct pgsql_query *q, struct problem *problem)
{
        struct sql_wait w = sql_mirror_wait(m);
        int err = m->is_piping ? OK : pgsql_pipe_begin(conn_of(m), problem);
        m->is_piping = true;
        if (!err)
                err = pgsql_pipe_send(conn_of(m), q, &w, problem);
        m->n_piped++;
        return err;
}

/* A statement of the transaction.  Its answer may come later. */
static int send_some(struct sql_mirror *m, const struct pgsql_query *q, struct problem *problem)
{
        int err = send(m, q, problem);
        if (!err && m->n_piped == PIPED_MAX)
                err = read_answers(m, NULL, 0, problem);
        return err;
}

static int pg_begin(struct mirror *mirror, uint64_t change, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct pgsql_query begin, fence;
        uint64_t epoch, affected[2] = {0};
        m->change = change;
        int err = sql_mirror_epoch(m, &epoch, problem);
        if (!err)
                err = sql_mirror_open(m, problem);
        if (err)
                return err;
        pgsql_query_init(&begin, begin_sql);
        query(m, &fence, fence_sql);
        pgsql_query_i64(&fence, (int64_t)epoch);
        pgsql_query_i64(&fence, (int64_t)change);
        pgsql_query_i64(&fence, m->options->durability == LEDGER_REPLICATED);
        err = send(m, &begin, problem);
        if (!err)
                err = send(m, &fence, problem);
        if (!err)
                err = read_answers(m, affected, ARRAY_LEN(affected), problem);
        if (err == ERR_LOCKED) {
                struct sql_wait w = sql_mirror_wait(m);
                ledger_postgres_end_silent(conn_of(m), &w);
        }
        if (err) /* none of them says who leads */
                return err == ERR_STATE ? ERR_IO : err;
        return affected[1] == 1 ? OK : sql_mirror_refused(m, problem);
}

/* A query for one row of weir_history. */
static void row_query(const struct sql_mirror *m, struct pgsql_query *q, const char *sql,
                      enum mirror_kind kind, uint64_t key)
{
        query(m, q, sql);
        pgsql_query_i64(q, kind);
        pgsql_query_i64(q, (int64_t)key);
}

static int pg_put(struct mirror *mirror, const struct mirror_row *row, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct pgsql_query q;
        row_query(m, &q, put_sql, row->kind, row->key);
        pgsql_query_i64(&q, (int64_t)m->change);
        pgsql_query_bytes(&q, row->body);
        return send_some(m, &q, problem);
}

static int pg_bury(struct mirror *mirror, uint64_t block, struct slice dead,
                   struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct pgsql_query q;
        row_query(m, &q, bury_sql, MIRROR_BLOCK, block);
        pgsql_query_i64(&q, (int64_t)m->change);
        pgsql_query_bytes(&q, dead);
        return send_some(m, &q, problem);
}

static int pg_drop(struct mirror *mirror, enum mirror_kind kind, uint64_t key,
                   struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct pgsql_query q;
        row_query(m, &q, drop_sql, kind, key);
        return send_some(m, &q, problem);
}

static int pg_commit(struct mirror *mirror, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct pgsql_query q;
        pgsql_query_init(&q, commit_sql);
        int err = send(m, &q, problem);
        if (!err)
                err = read_answers(m, NULL, 0, problem);
        if (!err && pgsql_conn_warning(conn_of(m)))
                err = problem_set(problem, ERR_IO, "%s warns at a commit: %s",
                                  m->ledger->ops->where(m->ledger), pgsql_conn_warning(conn_of(m)));
        if (err)
                return sql_mirror_hang_up(m, err == ERR_STATE ? ERR_IO : err);
        return OK;
}

/* ---- reading ---- */

/* The first number of the first row; 0: there is none. */
static int ask(struct sql_mirror *m, const struct pgsql_query *q, uint64_t *ret,
               struct problem *problem)
{
        struct sql_wait w = sql_mirror_wait(m);
        struct pgsql_result result = {0};
        struct slice cell = SLICE_NONE;
        int err = pgsql_conn_run(conn_of(m), q, &w, &result, problem);
        (void)pgsql_result_next(&result, &cell, 1); /* none: 0 */
        *ret = (uint64_t)pgsql_cell_i64(cell);
        pgsql_result_release(&result);
        return err;
}

static int pg_last(struct mirror *mirror, uint64_t *ret, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct pgsql_query q;
        int err = sql_mirror_open(m, problem);
        if (err)
                return err;
        query(m, &q, last_sql);
        err = ask(m, &q, ret, problem);
        return err ? sql_mirror_hang_up(m, err) : OK;
}

static int on_look(void *ctx, const struct slice *cells, size_t n)
{
        ASSERT(n == 2);
        sql_mirror_bound_add(ctx, (uint64_t)pgsql_cell_i64(cells[0]),
                             (uint64_t)pgsql_cell_i64(cells[1]));
        return OK;
}

/* How far the page goes, and that the snapshot of the transaction is made. */
static int find_end(struct sql_mirror *m, const struct mirror_page *page, uint64_t *ret,
                    struct problem *problem)
{
        struct sql_wait w = sql_mirror_wait(m);
        struct pgsql_query q;
        struct sql_mirror_bound bound = {.bytes_max = page->bytes};
        struct pgsql_rows rows = {on_look, &bound};
        uint64_t last = 0;
        query(m, &q, look_sql);
        pgsql_query_i64(&q, (int64_t)page->since);
        pgsql_query_i64(&q, SQL_MIRROR_LOOK_ROWS);
        int err = pgsql_conn_each(conn_of(m), &q, &w, &rows, problem);
        query(m, &q, last_sql);
        if (!err)
                err = ask(m, &q, &last, problem);
        *ret = sql_mirror_bound_end(&bound, last);
        return err;
}

struct giving {
        const struct mirror_page *page;
        struct problem *problem;
};

static int on_row(void *ctx, const struct slice *cells, size_t n)
{
        const struct giving *g = ctx;
        ASSERT(n == 5);
        struct mirror_row row = {.kind = (enum mirror_kind)pgsql_cell_i64(cells[0]),
                                 .key = (uint64_t)pgsql_cell_i64(cells[1]),
                                 .change = (uint64_t)pgsql_cell_i64(cells[2]),
                                 .body = cells[3],
                                 .dead = cells[4]};
        return g->page->fn(g->page->ctx, &row, g->problem);
}

static int give_page(struct sql_mirror *m, struct mirror_page *page, struct problem *problem)
{
        struct sql_wait w = sql_mirror_wait(m);
        struct pgsql_query q;
        struct giving giving = {page, problem};
        struct pgsql_rows rows = {on_row, &giving};
        int err = find_end(m, page, &page->upto, problem);
        if (err)
                return err;
        query(m, &q, since_sql);
        pgsql_query_i64(&q, (int64_t)page->since);
        pgsql_query_i64(&q, (int64_t)page->upto);
        return pgsql_conn_each(conn_of(m), &q, &w, &rows, problem);
}

static int pg_since(struct mirror *mirror, struct mirror_page *page, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        int err = sql_mirror_open(m, problem);
        if (err)
                return err;
        struct sql_wait w = sql_mirror_wait(m);
        err = pgsql_conn_command(conn_of(m), snapshot_sql, &w, NULL, problem);
        if (!err)
                err = give_page(m, page, problem);
        if (!err)
                err = pgsql_conn_command(conn_of(m), commit_sql, &w, NULL, problem);
        return err ? sql_mirror_hang_up(m, err) : OK;
}

static int pg_keys(struct mirror *mirror, enum mirror_kind kind, uint64_t from, uint64_t *ret,
                   size_t n, size_t *ret_n, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct pgsql_query q;
        struct pgsql_result result = {0};
        struct slice cell;
        int err = sql_mirror_open(m, problem);
        if (err)
                return err;
        struct sql_wait w = sql_mirror_wait(m);
        row_query(m, &q, keys_sql, kind, from);
        pgsql_query_i64(&q, (int64_t)n);
        err = pgsql_conn_run(conn_of(m), &q, &w, &result, problem);
        *ret_n = 0;
        while (!err && *ret_n < n && pgsql_result_next(&result, &cell, 1))
                ret[(*ret_n)++] = (uint64_t)pgsql_cell_i64(cell);
        pgsql_result_release(&result);
        return err ? sql_mirror_hang_up(m, err) : OK;
}

static const struct mirror_ops ops = {
        .begin = pg_begin,
        .put = pg_put,
        .bury = pg_bury,
        .drop = pg_drop,
        .commit = pg_commit,
        .abandon = sql_mirror_abandon,
        .last = pg_last,
        .since = pg_since,
        .keys = pg_keys,
        .free = sql_mirror_free,
};

struct mirror *mirror_postgres_new(const struct ledger_options *options, int stop_fd)
{
        return &sql_mirror_new(&ops, ledger_postgres_new(options), options, stop_fd)->base;
}

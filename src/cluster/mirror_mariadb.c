/* The mirror of a history in MariaDB: Galera, a semi-synchronous pair, or a single server.
 *
 * Bodies travel as values of prepared statements, and one that is longer than a packet may be in
 * pieces that are put together in the row.  After any error the transaction is given up with its
 * connection: on Galera a transaction that another one defeated fails at some later statement, and
 * its COMMIT would then say OK for nothing. */
#include <stdlib.h>

#include "cluster/mirror_sql_int.h"
#include "sql/mysql.h"

#define WHERE_SQL " where space=? and kind=? and `key`=?"

static const char fence_sql[] = "update weir_fence set epoch=?,`change`=? where space=? and "
                                "epoch<=? and `change`=?";
static const char first_sql[] = "insert ignore into weir_fence(space,epoch,`change`) values(?,0,0)";
static const char put_sql[] =
        "insert into weir_history(space,kind,`key`,`change`,body,dead) values(?,?,?,?,?,'') "
        "on duplicate key update `change`=values(`change`),body=values(body),dead=''";
static const char append_sql[] = "update weir_history set body=concat(body,?)" WHERE_SQL;
static const char bury_sql[] = "update weir_history set `change`=?,dead=?" WHERE_SQL;
static const char drop_sql[] = "delete from weir_history" WHERE_SQL;

static struct mysql_conn *conn_of(struct sql_mirror *m)
{
        return ledger_mariadb_conn(m->ledger);
}

static uint64_t number(struct slice cell)
{
        uint64_t value;
        return slice_to_u64(cell, &value) ? value : 0;
}

/* ---- writing ---- */

static int execute(struct sql_mirror *m, const struct mysql_statement *s, uint64_t *ret_affected,
                   struct problem *problem)
{
        struct sql_wait w = sql_mirror_wait(m);
        return mysql_conn_execute(conn_of(m), s, &w, ret_affected, problem);
}

/* A statement without values. */
static int command(struct sql_mirror *m, const char *sql, struct problem *problem)
{
        struct sql_wait w = sql_mirror_wait(m);
        struct mysql_result result = {0};
        int err = mysql_conn_run(conn_of(m), slice_str(sql), &w, &result, problem);
        mysql_result_release(&result);
        return err;
}

static int make_fence(struct sql_mirror *m, struct problem *problem)
{
        struct mysql_statement s;
        uint64_t affected;
        mysql_statement_init(&s, first_sql);
        mysql_statement_text(&s, m->options->space);
        return execute(m, &s, &affected, problem);
}

static int my_begin(struct mirror *mirror, uint64_t change, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct mysql_statement s;
        uint64_t epoch, affected = 0;
        m->change = change;
        int err = sql_mirror_epoch(m, &epoch, problem);
        if (!err)
                err = sql_mirror_open(m, problem);
        if (err)
                return err;
        err = command(m, "start transaction", problem);
        if (!err && change == 1)
                err = make_fence(m, problem);
        mysql_statement_init(&s, fence_sql);
        mysql_statement_u64(&s, epoch);
        mysql_statement_u64(&s, change);
        mysql_statement_text(&s, m->options->space);
        mysql_statement_u64(&s, epoch);
        mysql_statement_u64(&s, change - 1);
        if (!err)
                err = execute(m, &s, &affected, problem);
        if (err)
                return err;
        return affected == 1 ? OK : sql_mirror_refused(m, problem);
}

/* The values of WHERE_SQL. */
static void put_place(const struct sql_mirror *m, struct mysql_statement *s, enum mirror_kind kind,
                      uint64_t key)
{
        mysql_statement_text(s, m->options->space);
        mysql_statement_u64(s, kind);
        mysql_statement_u64(s, key);
}

static int my_put(struct mirror *mirror, const struct mirror_row *row, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct mysql_statement s;
        uint64_t affected;
        mysql_statement_init(&s, put_sql);
        put_place(m, &s, row->kind, row->key);
        mysql_statement_u64(&s, m->change);
        mysql_statement_bytes(&s, ledger_piece(row->body, 0));
        int err = execute(m, &s, &affected, problem);
        for (size_t i = 1; i < ledger_pieces(row->body) && !err; i++) {
                mysql_statement_init(&s, append_sql);
                mysql_statement_bytes(&s, ledger_piece(row->body, i));
                put_place(m, &s, row->kind, row->key);
                err = execute(m, &s, &affected, problem);
        }
        return err;
}

static int my_bury(struct mirror *mirror, uint64_t block, struct slice dead,
                   struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct mysql_statement s;
        uint64_t affected;
        mysql_statement_init(&s, bury_sql);
        mysql_statement_u64(&s, m->change);
        mysql_statement_bytes(&s, dead);
        put_place(m, &s, MIRROR_BLOCK, block);
        return execute(m, &s, &affected, problem);
}

static int my_drop(struct mirror *mirror, enum mirror_kind kind, uint64_t key,
                   struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct mysql_statement s;
        uint64_t affected;
        mysql_statement_init(&s, drop_sql);
        put_place(m, &s, kind, key);
        return execute(m, &s, &affected, problem);
}

static int my_commit(struct mirror *mirror, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        int err = command(m, "commit", problem);
        struct sql_wait w = sql_mirror_wait(m);
        if (!err)
                err = ledger_mariadb_confirm(m->ledger, &w, problem);
        if (err)
                return sql_mirror_hang_up(m, err == ERR_STATE ? ERR_IO : err);
        return OK;
}

/* ---- reading ---- */

/* Begins m->sql with a text in which %s stands for the space. */
#define SQL(m, ...) (buf_clear(&(m)->sql), buf_printf(&(m)->sql, __VA_ARGS__))

/* The space as a text in quotes. */
static const char *space_of(const struct sql_mirror *m, struct buf *scratch)
{
        buf_clear(scratch);
        mysql_put_text(scratch, slice_str(m->options->space));
        return buf_cstr(scratch);
}

static int each(struct sql_mirror *m, int (*fn)(void *, const struct slice *, size_t), void *ctx,
                struct problem *problem)
{
        struct sql_wait w = sql_mirror_wait(m);
        struct mysql_rows rows = {fn, ctx};
        if (m->sql.failed)
                return problem_set(problem, ERR_NOMEM, "no memory for a statement");
        return mysql_conn_each(conn_of(m), buf_slice(&m->sql), &w, &rows, problem);
}

static int on_number(void *ctx, const struct slice *cells, size_t n)
{
        ASSERT(n == 1);
        *(uint64_t *)ctx = number(cells[0]);
        return OK;
}

static int ask_last(struct sql_mirror *m, uint64_t *ret, struct problem *problem)
{
        struct buf space CLEANUP(buf_release) = {0};
        *ret = 0; /* no row */
        SQL(m, "select `change` from weir_fence where space=%s", space_of(m, &space));
        return each(m, on_number, ret, problem);
}

static int my_last(struct mirror *mirror, uint64_t *ret, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        int err = sql_mirror_open(m, problem);
        if (err)
                return err;
        err = ask_last(m, ret, problem);
        return err ? sql_mirror_hang_up(m, err) : OK;
}

static int on_look(void *ctx, const struct slice *cells, size_t n)
{
        ASSERT(n == 2);
        sql_mirror_bound_add(ctx, number(cells[0]), number(cells[1]));
        return OK;
}

struct giving {
        const struct mirror_page *page;
        struct problem *problem;
};

static int on_row(void *ctx, const struct slice *cells, size_t n)
{
        const struct giving *g = ctx;
        ASSERT(n == 5);
        struct mirror_row row = {.kind = (enum mirror_kind)number(cells[0]),
                                 .key = number(cells[1]),
                                 .change = number(cells[2]),
                                 .body = cells[3],
                                 .dead = cells[4]};
        return g->page->fn(g->page->ctx, &row, g->problem);
}

static int give_page(struct sql_mirror *m, struct mirror_page *page, struct problem *problem)
{
        struct buf space CLEANUP(buf_release) = {0};
        struct sql_mirror_bound bound = {.bytes_max = page->bytes};
        struct giving giving = {page, problem};
        uint64_t last = 0;
        SQL(m,
            "select `change`,length(body) from weir_history where space=%s and `change`>%llu "
            "order by `change` limit %d",
            space_of(m, &space), (unsigned long long)page->since, SQL_MIRROR_LOOK_ROWS);
        int err = each(m, on_look, &bound, problem);
        if (!err)
                err = ask_last(m, &last, problem);
        if (err)
                return err;
        page->upto = sql_mirror_bound_end(&bound, last);
        SQL(m,
            "select kind,`key`,`change`,body,dead from weir_history where space=%s and "
            "`change`>%llu and `change`<=%llu order by `change`",
            space_of(m, &space), (unsigned long long)page->since, (unsigned long long)page->upto);
        return each(m, on_row, &giving, problem);
}

static int my_since(struct mirror *mirror, struct mirror_page *page, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        int err = sql_mirror_open(m, problem);
        if (err)
                return err;
        /* The session reads what is committed; this is of one moment. */
        err = command(m, "set transaction isolation level repeatable read", problem);
        if (!err)
                err = command(m, "start transaction with consistent snapshot,read only", problem);
        if (!err)
                err = give_page(m, page, problem);
        if (!err)
                err = command(m, "commit", problem);
        return err ? sql_mirror_hang_up(m, err) : OK;
}

struct key_array {
        uint64_t *keys;
        size_t n, max;
};

static int on_key(void *ctx, const struct slice *cells, size_t n)
{
        struct key_array *k = ctx;
        ASSERT(n == 1);
        if (k->n < k->max)
                k->keys[k->n++] = number(cells[0]);
        return OK;
}

static int my_keys(struct mirror *mirror, enum mirror_kind kind, uint64_t from, uint64_t *ret,
                   size_t n, size_t *ret_n, struct problem *problem)
{
        struct sql_mirror *m = sql_mirror_of(mirror);
        struct buf space CLEANUP(buf_release) = {0};
        struct key_array keys = {.keys = ret, .max = n};
        int err = sql_mirror_open(m, problem);
        if (err)
                return err;
        SQL(m,
            "select `key` from weir_history where space=%s and kind=%d and `key`>=%llu order by "
            "`key` limit %zu",
            space_of(m, &space), (int)kind, (unsigned long long)from, n);
        err = each(m, on_key, &keys, problem);
        *ret_n = keys.n;
        return err ? sql_mirror_hang_up(m, err) : OK;
}

static const struct mirror_ops ops = {
        .begin = my_begin,
        .put = my_put,
        .bury = my_bury,
        .drop = my_drop,
        .commit = my_commit,
        .abandon = sql_mirror_abandon,
        .last = my_last,
        .since = my_since,
        .keys = my_keys,
        .free = sql_mirror_free,
};

struct mirror *mirror_mariadb_new(const struct ledger_options *options, int stop_fd)
{
        return &sql_mirror_new(&ops, ledger_mariadb_new(options), options, stop_fd)->base;
}

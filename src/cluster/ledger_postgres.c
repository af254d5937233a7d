/* The ledger in PostgreSQL.
 *
 * An append is one INSERT that commits by itself, guarded by the row before it; a large one is a
 * transaction of pieces in one pipeline.  The commit waits for the synchronous standby.  Three
 * things can make its "OK" worth less, and each is looked at:
 *
 * - The wait is canceled: the server says so in a WARNING, and in nothing else.
 * - synchronous_standby_names is emptied: nothing is said.  So the guard asks for it, too.
 * - The row count is 0: the guard did not hold.
 *
 * An ERROR (not FATAL) of a statement means that its transaction is gone.  Only those that are
 * understood are told as such; after all others the outcome is unknown.
 *
 * The lease, the members and trimming are for liveness and for tidiness: they do not wait for the
 * standby. */
#include <stdio.h>
#include <stdlib.h>

#include "base/shown.h"
#include "cluster/ledger_sql.h"
#include "sql/postgres.h"

#define SYSTEM_ID_MAX 32

struct pg_ledger {
        struct ledger base;
        const struct ledger_options *options;
        struct pgsql_conn *conn;
        struct ledger_search search;
        char system_id[SYSTEM_ID_MAX]; /* of the servers: all must be copies of one; "": unknown */
};

static struct pg_ledger *of(const struct ledger *l)
{
        return CONTAINER_OF(l, struct pg_ledger, base);
}

static bool is_replicated(const struct pg_ledger *p)
{
        return p->options->durability == LEDGER_REPLICATED;
}

/* A query whose first value is the space. */
static void begin(const struct pg_ledger *p, struct pgsql_query *q, const char *sql)
{
        pgsql_query_init(q, sql);
        pgsql_query_text(q, p->options->space);
}

/* ---- verifying ---- */

static const char look_sql[] =
        "select name,setting from pg_settings where name in ('fsync','full_page_writes',"
        "'zero_damaged_pages','ignore_checksum_failure','synchronous_standby_names',"
        "'synchronous_commit','transaction_read_only') "
        "union all select 'in recovery',pg_is_in_recovery()::text "
        "union all select 'persistence of weir_log',relpersistence::text from pg_class "
        "where oid='weir_log'::regclass "
        "union all select 'number of triggers on weir_log',count(*)::text from pg_trigger "
        "where tgrelid='weir_log'::regclass and not tgisinternal "
        "union all select 'number of rules on weir_log',count(*)::text from pg_rewrite "
        "where ev_class='weir_log'::regclass "
        "union all select 'membership in pg_read_all_stats',"
        "pg_has_role('pg_read_all_stats','USAGE')::text "
        "union all select 'standbys',count(*)::text from pg_stat_replication "
        "where sync_state in ('sync','quorum') "
        "union all select 'system',system_identifier::text from pg_control_system()";

static const struct ledger_rule rules[] = {
        {"fsync", RULE_IS, "on", "set fsync = on"},
        {"full_page_writes", RULE_IS, "on", "set full_page_writes = on"},
        {"zero_damaged_pages", RULE_IS, "off", "set zero_damaged_pages = off"},
        {"ignore_checksum_failure", RULE_IS, "off", "set ignore_checksum_failure = off"},
        {"synchronous_commit", RULE_IS, "on", "let this user set synchronous_commit = on"},
        {"persistence of weir_log", RULE_IS, "p", "run: alter table weir.weir_log set logged"},
        {"number of triggers on weir_log", RULE_IS, "0", "drop them"},
        {"number of rules on weir_log", RULE_IS, "0", "drop them"},
};

static const struct ledger_rule replicated_rules[] = {
        {"synchronous_standby_names", RULE_IS_NOT, "",
         "set it to the standbys, for example 'ANY 1 (*)', or durability to \"single\""},
        {"membership in pg_read_all_stats", RULE_IS, "true",
         "run: grant pg_read_all_stats to the user of weir"},
};

static int look(struct pg_ledger *p, const struct sql_wait *w, struct ledger_facts *ret,
                struct problem *problem)
{
        struct pgsql_query q;
        struct pgsql_result result = {0};
        struct slice cells[2];
        pgsql_query_init(&q, look_sql);
        int r = pgsql_conn_run(p->conn, &q, w, &result, problem);
        while (r == OK && pgsql_result_next(&result, cells, ARRAY_LEN(cells)))
                ledger_facts_put(ret, cells[0], cells[1]);
        pgsql_result_release(&result);
        return r;
}

/* All servers are copies of one database: rows written to another would be no log. */
static int judge_system(struct pg_ledger *p, const char *id, struct problem *problem)
{
        if (!p->system_id[0])
                (void)snprintf(p->system_id, sizeof(p->system_id), "%s", id);
        if (strcmp(p->system_id, id) == 0)
                return OK;
        return problem_set(problem, ERR_STATE,
                           "%s is another database than the one before: its system identifier is "
                           "%s, not %s; name only copies of one server in `hosts`",
                           pgsql_conn_where(p->conn), SHOWN_STR(id), p->system_id);
}

static int judge(struct pg_ledger *p, const struct ledger_facts *f, struct problem *problem)
{
        const char *where = pgsql_conn_where(p->conn);
        if (ledger_facts_is(f, "in recovery", "true") ||
            ledger_facts_is(f, "transaction_read_only", "on"))
                return problem_set(problem, ERR_LOCKED, "%s is a standby, or read-only", where);
        int r = judge_system(p, ledger_facts_get(f, "system"), problem);
        if (r == OK)
                r = ledger_judge(f, rules, ARRAY_LEN(rules), where, problem);
        if (r == OK && is_replicated(p))
                r = ledger_judge(f, replicated_rules, ARRAY_LEN(replicated_rules), where, problem);
        if (r != OK)
                return r;
        if (is_replicated(p) && ledger_facts_is(f, "standbys", "0"))
                return problem_set(problem, ERR_UNAVAIL,
                                   "no synchronous standby is connected to %s: it commits nothing "
                                   "until one is",
                                   where);
        return OK;
}

static int look_and_judge(struct pg_ledger *p, const struct sql_wait *w, struct problem *problem)
{
        struct ledger_facts facts = {0};
        int r = look(p, w, &facts, problem);
        if (r == OK)
                r = judge(p, &facts, problem);
        ledger_facts_release(&facts);
        return r;
}

static int pg_verify(struct ledger *l, const struct sql_wait *w, struct problem *problem)
{
        int r = look_and_judge(of(l), w, problem);
        if (r != ERR_LOCKED)
                return r;
        pgsql_conn_disconnect(of(l)->conn); /* another one takes writes now */
        return ERR_IO;
}

/* ---- connecting ---- */

static const char version_sql[] = "select version from weir_version where space=$1::text";

static int check_version(struct pg_ledger *p, const struct sql_wait *w, struct problem *problem)
{
        struct pgsql_query q;
        struct pgsql_result result = {0};
        struct slice cell = SLICE_NONE;
        begin(p, &q, version_sql);
        int r = pgsql_conn_run(p->conn, &q, w, &result, problem);
        (void)pgsql_result_next(&result, &cell, 1); /* none: 0 */
        int64_t version = pgsql_cell_i64(cell);
        pgsql_result_release(&result);
        if (r == ERR_NOTFOUND || (r == OK && !version))
                return problem_set(problem, ERR_STATE,
                                   "%s does not show this user the tables of weir; run `weir "
                                   "cluster init` and the GRANT statements it prints",
                                   pgsql_conn_where(p->conn));
        if (r == OK && version != LEDGER_VERSION)
                return problem_set(problem, ERR_STATE,
                                   "the tables on %s are of version %lld, and this weir knows %d; "
                                   "%s",
                                   pgsql_conn_where(p->conn), (long long)version, LEDGER_VERSION,
                                   version < LEDGER_VERSION ? "run `weir cluster init`"
                                                            : "install a newer weir");
        return r;
}

static int attempt(void *self, const struct sql_login *login, const struct sql_wait *w,
                   struct problem *problem)
{
        struct pg_ledger *p = self;
        int r = pgsql_conn_connect(p->conn, login, w, problem);
        if (r == OK)
                r = check_version(p, w, problem);
        if (r == OK) {
                r = look_and_judge(p, w, problem);
                if (r == ERR_UNAVAIL && !*pgsql_conn_sqlstate(p->conn))
                        return OK; /* safe, though its standby is away; verify() tells */
        }
        if (r != OK)
                pgsql_conn_disconnect(p->conn);
        return r;
}

static int pg_connect(struct ledger *l, const struct sql_wait *w, struct problem *problem)
{
        struct pg_ledger *p = of(l);
        return ledger_search(&p->search, w, problem);
}

static void pg_disconnect(struct ledger *l)
{
        pgsql_conn_disconnect(of(l)->conn);
}

static bool pg_is_open(const struct ledger *l)
{
        return pgsql_conn_is_open(of(l)->conn);
}

static const char *pg_where(const struct ledger *l)
{
        return pgsql_conn_where(of(l)->conn);
}

/* ---- locks of those that have fallen silent ---- */

/* A client that stops between the statements of a pipeline leaves its session waiting for the next
 * one.  For PostgreSQL that is not idle, so no timeout ends it and its locks would stay for ever.
 * Who writes to the tables of weir and has said nothing for as long as we have waited has lost the
 * lead, or will find out that the outcome is unknown and write again.  A session that waits for its
 * standby is none of them. */
static const char end_silent_sql[] =
        "select pg_terminate_backend(a.pid)::text from pg_stat_activity a where "
        "a.usename=current_user and a.datname=current_database() and a.application_name='weir' and "
        "a.wait_event='ClientRead' and a.query_start<clock_timestamp()-interval '1 second' and "
        "exists(select 1 from pg_locks l join pg_class c on c.oid=l.relation where l.pid=a.pid and "
        "l.mode='RowExclusiveLock' and c.relnamespace='weir'::regnamespace)";

void ledger_postgres_end_silent(struct pgsql_conn *conn, const struct sql_wait *w)
{
        struct pgsql_query q;
        struct pgsql_result result = {0};
        struct problem ignored; /* what is told is that there is a lock */
        pgsql_query_init(&q, end_silent_sql);
        if (pgsql_conn_run(conn, &q, w, &result, &ignored) != OK)
                pgsql_conn_disconnect(conn);
        pgsql_result_release(&result);
}

/* ---- appending ---- */

#define INSERT_SQL "insert into weir_log(space,seq,piece,epoch,node,kind,body) "
#define ROW_SQL                                                                                    \
        INSERT_SQL "select $1::text,$2::bigint,0::smallint,$3::bigint,$4::text,"                   \
                   "$5::bigint::smallint,$6::bytea where "
#define AFTER_SQL                                                                                  \
        "exists(select 1 from weir_log where space=$1::text and seq=$2::bigint-1 and piece=0 "     \
        "and epoch=$7::bigint and node=$8::text) and not exists(select 1 from weir_log where "     \
        "space=$1::text and seq>$2::bigint)"
#define ALONE_SQL  "not exists(select 1 from weir_log where space=$1::text)"
#define SYNCED_SQL " and current_setting('synchronous_standby_names')<>''"

static const char *const append_sql[2][2] = {
        /* [there is a row before][replicated] */
        {ROW_SQL ALONE_SQL, ROW_SQL ALONE_SQL SYNCED_SQL},
        {ROW_SQL AFTER_SQL, ROW_SQL AFTER_SQL SYNCED_SQL},
};

/* The other pieces come along when the first one does. */
static const char piece_sql[] =
        INSERT_SQL "select $1::text,$2::bigint,$7::bigint::smallint,$3::bigint,$4::text,"
                   "$5::bigint::smallint,$6::bytea where exists(select 1 from weir_log where "
                   "space=$1::text and seq=$2::bigint and piece=0 and epoch=$3::bigint and "
                   "node=$4::text)";

static const char begin_sql[] = "begin", commit_sql[] = "commit";

static void put_row(const struct pg_ledger *p, struct pgsql_query *q, const char *sql,
                    const struct ledger_head *head, struct slice body)
{
        begin(p, q, sql);
        pgsql_query_i64(q, (int64_t)head->seq);
        pgsql_query_i64(q, (int64_t)head->epoch);
        pgsql_query_text(q, head->node);
        pgsql_query_i64(q, head->kind);
        pgsql_query_bytes(q, body);
}

struct batch {
        const struct ledger_head *head, *previous;
        struct slice body;
};

static void put_first(const struct pg_ledger *p, struct pgsql_query *q, const struct batch *b)
{
        bool has_previous = b->previous->seq != 0;
        put_row(p, q, append_sql[has_previous][is_replicated(p)], b->head,
                ledger_piece(b->body, 0));
        if (has_previous) {
                ASSERT(b->previous->seq + 1 == b->head->seq);
                pgsql_query_i64(q, (int64_t)b->previous->epoch);
                pgsql_query_text(q, b->previous->node);
        }
}

/* A bare statement in a pipeline. */
static int send(struct pg_ledger *p, const char *sql, const struct sql_wait *w,
                struct problem *problem)
{
        struct pgsql_query q;
        pgsql_query_init(&q, sql);
        return pgsql_pipe_send(p->conn, &q, w, problem);
}

/* ret: how many of the pieces were written. */
static int append_pieces(struct pg_ledger *p, const struct batch *b, const struct sql_wait *w,
                         uint64_t *ret, struct problem *problem)
{
        struct pgsql_query q;
        uint64_t affected[PGSQL_PIPE_MAX] = {0};
        size_t n = ledger_pieces(b->body);
        ASSERT(n + 2 <= PGSQL_PIPE_MAX);
        int r = pgsql_pipe_begin(p->conn, problem);
        if (r == OK)
                r = send(p, begin_sql, w, problem);
        for (size_t i = 0; r == OK && i < n; i++) {
                if (i == 0) {
                        put_first(p, &q, b);
                } else {
                        put_row(p, &q, piece_sql, b->head, ledger_piece(b->body, i));
                        pgsql_query_i64(&q, (int64_t)i);
                }
                r = pgsql_pipe_send(p->conn, &q, w, problem);
        }
        if (r == OK)
                r = send(p, commit_sql, w, problem);
        if (r == OK)
                r = pgsql_pipe_end(p->conn, w, affected, n + 1, problem);
        *ret = 0;
        for (size_t i = 0; i < n; i++)
                *ret += affected[1 + i];
        return r;
}

static int append_one(struct pg_ledger *p, const struct batch *b, const struct sql_wait *w,
                      uint64_t *ret, struct problem *problem)
{
        struct pgsql_query q;
        struct pgsql_result result = {0};
        put_first(p, &q, b);
        int r = pgsql_conn_run(p->conn, &q, w, &result, problem);
        *ret = result.affected;
        pgsql_result_release(&result);
        return r;
}

static enum ledger_outcome unknown(struct pg_ledger *p)
{
        pgsql_conn_disconnect(p->conn);
        return LEDGER_UNKNOWN;
}

/* Only what is certain is told as such; see the top. */
static enum ledger_outcome outcome_of_error(struct pg_ledger *p, int err, const struct sql_wait *w)
{
        switch (err) {
        case ERR_CONFLICT:
                return LEDGER_TAKEN;
        case ERR_LOCKED:
                if (strcmp(pgsql_conn_sqlstate(p->conn), "55P03") != 0)
                        return unknown(p);
                ledger_postgres_end_silent(p->conn, w);
                return LEDGER_BUSY;
        case ERR_NOSPACE:
                return LEDGER_FULL;
        case ERR_STATE:
                pgsql_conn_disconnect(p->conn); /* another one takes writes now */
                return LEDGER_FULL;
        default:
                return unknown(p);
        }
}

static enum ledger_outcome pg_append(struct ledger *l, const struct ledger_head *head,
                                     struct slice body, const struct ledger_head *previous,
                                     const struct sql_wait *w, struct problem *problem)
{
        struct pg_ledger *p = of(l);
        const struct batch b = {head, previous, body};
        size_t n = ledger_pieces(body);
        uint64_t written = 0;
        int r = n == 1 ? append_one(p, &b, w, &written, problem)
                       : append_pieces(p, &b, w, &written, problem);
        const char *warning = pgsql_conn_warning(p->conn);
        if (warning) {
                (void)problem_set(problem, ERR_IO, "%s warned at a commit: %s",
                                  pgsql_conn_where(p->conn), warning);
                return unknown(p);
        }
        if (r != OK)
                return outcome_of_error(p, r, w);
        if (written == n)
                return LEDGER_DURABLE;
        (void)problem_set(problem, ERR_CONFLICT,
                          "the row before %llu is not the one of epoch %llu%s",
                          (unsigned long long)head->seq, (unsigned long long)previous->epoch,
                          is_replicated(p) ? ", or synchronous_standby_names is empty" : "");
        return written == 0 ? LEDGER_REFUSED : unknown(p);
}

/* ---- what is there ---- */

#define COLUMNS_SQL "seq,piece,epoch,node,kind,body"

static const char has_sql[] = "select " COLUMNS_SQL " from weir_log where space=$1::text and "
                              "seq=$2::bigint order by piece";

static void row_from(const struct slice *cells, struct ledger_row *ret)
{
        *ret = (struct ledger_row){.seq = (uint64_t)pgsql_cell_i64(cells[0]),
                                   .piece = (unsigned)pgsql_cell_i64(cells[1]),
                                   .epoch = (uint64_t)pgsql_cell_i64(cells[2]),
                                   .node = cells[3],
                                   .kind = (uint64_t)pgsql_cell_i64(cells[4]),
                                   .body = cells[5]};
}

static int on_match(void *ctx, const struct slice *cells, size_t n)
{
        struct ledger_row row;
        ASSERT(n == 6);
        row_from(cells, &row);
        ledger_match_add(ctx, &row);
        return OK;
}

static int pg_has(struct ledger *l, const struct ledger_head *head, struct slice body,
                  const struct sql_wait *w, struct ledger_head *ret_seen, bool *ret,
                  struct problem *problem)
{
        struct pg_ledger *p = of(l);
        struct pgsql_query q;
        struct ledger_match m = {.head = head, .body = body};
        const struct pgsql_rows rows = {on_match, &m};
        begin(p, &q, has_sql);
        pgsql_query_i64(&q, (int64_t)head->seq);
        int r = pgsql_conn_each(p->conn, &q, w, &rows, problem);
        if (r != OK)
                return r;
        *ret_seen = m.seen;
        *ret = ledger_match_end(&m);
        return OK;
}

/* A commit that writes something; asking for a transaction's number alone would not wait. */
static const char barrier_sql[] = "select pg_logical_emit_message(true,'weir','')::text,"
                                  "current_setting('synchronous_standby_names')";

static int pg_barrier(struct ledger *l, const struct sql_wait *w, struct problem *problem)
{
        struct pg_ledger *p = of(l);
        struct pgsql_query q;
        struct pgsql_result result = {0};
        struct slice cells[2] = {SLICE_NONE, SLICE_NONE};
        pgsql_query_init(&q, barrier_sql);
        int r = pgsql_conn_run(p->conn, &q, w, &result, problem);
        (void)pgsql_result_next(&result, cells, ARRAY_LEN(cells)); /* none after an error */
        bool has_names = cells[1].len != 0;
        pgsql_result_release(&result);
        const char *warning = pgsql_conn_warning(p->conn);
        if (warning) {
                r = problem_set(problem, ERR_IO, "%s warned at a commit: %s",
                                pgsql_conn_where(p->conn), warning);
                pgsql_conn_disconnect(p->conn);
        } else if (r == OK && is_replicated(p) && !has_names) {
                return problem_set(problem, ERR_STATE,
                                   "%s is not safe: synchronous_standby_names is empty",
                                   pgsql_conn_where(p->conn));
        }
        return r;
}

static const char last_sql[] = "select seq,piece,epoch,node,kind,''::bytea from weir_log where "
                               "space=$1::text and piece=0 order by seq desc limit 1";
static const char first_sql[] = "select seq from weir_log where space=$1::text and kind<>1 and "
                                "seq>=$2::bigint order by seq limit 1";

/* The first number that it gives; 0: it gives none. */
static int ask_number(struct pg_ledger *p, const struct pgsql_query *q, const struct sql_wait *w,
                      uint64_t *ret, struct problem *problem)
{
        struct pgsql_result result = {0};
        struct slice cell = SLICE_NONE;
        int r = pgsql_conn_run(p->conn, q, w, &result, problem);
        (void)pgsql_result_next(&result, &cell, 1); /* none: 0 */
        *ret = (uint64_t)pgsql_cell_i64(cell);
        pgsql_result_release(&result);
        return r;
}

/* The oldest batch from there on; 0: there is none. */
static int find_first(struct pg_ledger *p, uint64_t from, const struct sql_wait *w, uint64_t *ret,
                      struct problem *problem)
{
        struct pgsql_query q;
        begin(p, &q, first_sql);
        pgsql_query_i64(&q, (int64_t)from);
        return ask_number(p, &q, w, ret, problem);
}

static int pg_tail(struct ledger *l, const struct sql_wait *w, struct ledger_head *ret_last,
                   uint64_t *ret_first, struct problem *problem)
{
        struct pg_ledger *p = of(l);
        struct pgsql_query q;
        struct pgsql_result result = {0};
        struct slice cells[6];
        struct ledger_row row;
        struct ledger_head last = {0};
        uint64_t first;
        begin(p, &q, last_sql);
        int r = pgsql_conn_run(p->conn, &q, w, &result, problem);
        if (pgsql_result_next(&result, cells, ARRAY_LEN(cells))) {
                row_from(cells, &row);
                ledger_head_from(&row, &last);
        }
        pgsql_result_release(&result);
        if (r == OK)
                r = find_first(p, 0, w, &first, problem);
        if (r != OK)
                return r;
        *ret_last = last;
        *ret_first = first ? first : last.seq + 1;
        return OK;
}

/* Whole batches up to the one with which there are enough bytes, of the next LEDGER_READ_ROWS rows.
 * The length of a body is told without reading it. */
static const char read_sql[] =
        "select " COLUMNS_SQL " from weir_log where space=$1::text and seq>=$2::bigint and seq<=("
        "select max(seq) from (select seq,sum(size) over (order by seq)-size as ahead from ("
        "select seq,sum(bytes) as size from (select seq,octet_length(body) as bytes from weir_log "
        "where space=$1::text and seq>=$2::bigint order by seq,piece limit $4::bigint) as a "
        "group by seq) as b) as c where ahead<$3::bigint) order by seq,piece";

struct reading {
        struct ledger_reader reader;
        struct problem *problem;
};

static int on_row(void *ctx, const struct slice *cells, size_t n)
{
        struct reading *reading = ctx;
        struct ledger_row row;
        ASSERT(n == 6);
        row_from(cells, &row);
        return ledger_reader_add(&reading->reader, &row, reading->problem);
}

static int pg_read(struct ledger *l, uint64_t from, uint64_t bytes, const struct sql_wait *w,
                   void (*fn)(void *ctx, const struct ledger_head *head, struct slice body),
                   void *ctx, struct problem *problem)
{
        struct pg_ledger *p = of(l);
        struct pgsql_query q;
        struct reading reading = {.reader = {.from = from, .fn = fn, .ctx = ctx},
                                  .problem = problem};
        const struct pgsql_rows rows = {on_row, &reading};
        begin(p, &q, read_sql);
        pgsql_query_i64(&q, (int64_t)from);
        pgsql_query_i64(&q, bytes ? (int64_t)bytes : 1);
        pgsql_query_i64(&q, LEDGER_READ_ROWS);
        int r = pgsql_conn_each(p->conn, &q, w, &rows, problem);
        if (r == OK)
                return ledger_reader_end(&reading.reader, problem);
        buf_release(&reading.reader.body);
        return r;
}

/* ---- what does not wait for the standby ---- */

static const char local_sql[] = "set local synchronous_commit=local";

static int run_local(struct pg_ledger *p, const struct pgsql_query *q, const struct sql_wait *w,
                     uint64_t *ret, struct problem *problem)
{
        uint64_t affected[3] = {0};
        int r = pgsql_pipe_begin(p->conn, problem);
        if (r == OK)
                r = send(p, begin_sql, w, problem);
        if (r == OK)
                r = send(p, local_sql, w, problem);
        if (r == OK)
                r = pgsql_pipe_send(p->conn, q, w, problem);
        if (r == OK)
                r = send(p, commit_sql, w, problem);
        if (r == OK)
                r = pgsql_pipe_end(p->conn, w, affected, ARRAY_LEN(affected), problem);
        *ret = affected[2];
        return r;
}

static const char newest_sql[] =
        "select seq from weir_log where space=$1::text order by seq desc limit 1";
static const char trim_sql[] = "delete from weir_log where space=$1::text and seq>=$2::bigint and "
                               "seq<$3::bigint and kind<>1";

/* The newest row is kept, or the log would forget its number; and *from stays there, or that row
 * would be left behind. */
static int pg_trim(struct ledger *l, uint64_t *from, uint64_t before, const struct sql_wait *w,
                   struct problem *problem)
{
        struct pg_ledger *p = of(l);
        struct pgsql_query q;
        uint64_t newest, removed;
        begin(p, &q, newest_sql);
        int r = ask_number(p, &q, w, &newest, problem);
        if (r != OK)
                return r;
        uint64_t stop = before < newest ? before : newest;
        if (*from >= stop)
                return OK;
        uint64_t end = stop - *from > LEDGER_TRIM_ROWS ? *from + LEDGER_TRIM_ROWS : stop;
        begin(p, &q, trim_sql);
        pgsql_query_i64(&q, (int64_t)*from);
        pgsql_query_i64(&q, (int64_t)end);
        r = run_local(p, &q, w, &removed, problem);
        if (r == OK && !removed && end < stop) {
                /* Nobody knows where the rows begin after a start: not a step for each 500. */
                uint64_t next;
                r = find_first(p, end, w, &next, problem);
                if (r == OK)
                        end = next && next < stop ? next : stop;
        }
        if (r == OK)
                *from = end;
        return r;
}

#define SOON_SQL "clock_timestamp()+$3::bigint*interval '1 millisecond'"
static const char take_sql[] =
        "insert into weir_lease as l(space,node,until) values($1::text,$2::text," SOON_SQL
        ") on conflict(space) do update set node=excluded.node,until=" SOON_SQL
        " where l.node=excluded.node or l.node='' or l.until<clock_timestamp() or "
        "l.until>clock_timestamp()+$4::bigint*interval '1 millisecond'";
static const char give_sql[] = "update weir_lease set node=$4::text,until=" SOON_SQL
                               " where space=$1::text and node=$2::text";
static const char lease_sql[] =
        "select node,floor(extract(epoch from until-clock_timestamp())*1000)::bigint "
        "from weir_lease where space=$1::text";

static int change_lease(struct pg_ledger *p, const struct pgsql_query *q, const struct sql_wait *w,
                        bool *ret, struct problem *problem)
{
        uint64_t changed;
        int r = run_local(p, q, w, &changed, problem);
        if (r == ERR_LOCKED) { /* somebody else is at it */
                ledger_postgres_end_silent(p->conn, w);
                *ret = false;
                return OK;
        }
        if (r == OK)
                *ret = changed == 1;
        return r;
}

static int pg_lease_take(struct ledger *l, const char *node, int64_t ms, const struct sql_wait *w,
                         bool *ret_is_mine, struct problem *problem)
{
        struct pgsql_query q;
        begin(of(l), &q, take_sql);
        pgsql_query_text(&q, node);
        pgsql_query_i64(&q, ms);
        pgsql_query_i64(&q, ms * LEDGER_LEASE_FAR);
        return change_lease(of(l), &q, w, ret_is_mine, problem);
}

static int pg_lease_give(struct ledger *l, const char *node, const char *to, int64_t ms,
                         const struct sql_wait *w, bool *ret_done, struct problem *problem)
{
        struct pgsql_query q;
        begin(of(l), &q, give_sql);
        pgsql_query_text(&q, node);
        pgsql_query_i64(&q, ms);
        pgsql_query_text(&q, to);
        return change_lease(of(l), &q, w, ret_done, problem);
}

static int pg_lease_look(struct ledger *l, const struct sql_wait *w, struct ledger_lease *ret,
                         struct problem *problem)
{
        struct pg_ledger *p = of(l);
        struct pgsql_query q;
        struct pgsql_result result = {0};
        struct slice cells[2];
        struct ledger_lease lease = {0};
        begin(p, &q, lease_sql);
        int r = pgsql_conn_run(p->conn, &q, w, &result, problem);
        if (pgsql_result_next(&result, cells, ARRAY_LEN(cells))) {
                ledger_text(lease.node, sizeof(lease.node), cells[0]);
                lease.left_ms = pgsql_cell_i64(cells[1]);
        }
        pgsql_result_release(&result);
        if (r == OK)
                *ret = lease;
        return r;
}

static int64_t pg_lease_ms(const struct ledger *l)
{
        (void)l;
        return LEDGER_LEASE_MS;
}

/* ---- members ---- */

static const char meet_sql[] =
        "insert into weir_member(space,name,node,address,priority,epoch,seq,digest_seq,digest,seen)"
        " values($1::text,$2::text,$3::text,$4::text,$5::bigint,$6::bigint,$7::bigint,$8::bigint,"
        "$9::bigint,clock_timestamp()) on conflict(space,name) do update set node=excluded.node,"
        "address=excluded.address,priority=excluded.priority,epoch=excluded.epoch,seq=excluded.seq,"
        "digest_seq=excluded.digest_seq,digest=excluded.digest,seen=excluded.seen";
static const char members_sql[] =
        "select m.name,m.address,m.priority,m.epoch,m.seq,m.digest_seq,m.digest,"
        "floor(extract(epoch from clock_timestamp()-m.seen)*1000)::bigint,"
        "case when l.node=m.node and l.until>clock_timestamp() then 1 else 0 end "
        "from weir_member m left join weir_lease l on l.space=m.space where m.space=$1::text and "
        "m.seen>clock_timestamp()-interval '1 day' order by m.name limit $2::bigint";

static void member_from(const struct slice *cells, const struct log_member *self,
                        struct log_member *ret)
{
        *ret = (struct log_member){.priority = (int)pgsql_cell_i64(cells[2]),
                                   .epoch = (uint64_t)pgsql_cell_i64(cells[3]),
                                   .seq = (uint64_t)pgsql_cell_i64(cells[4]),
                                   .digest_seq = (uint64_t)pgsql_cell_i64(cells[5]),
                                   .digest = (uint64_t)pgsql_cell_i64(cells[6]),
                                   .seen_ms = pgsql_cell_i64(cells[7]),
                                   .is_leader = pgsql_cell_i64(cells[8]) != 0};
        ledger_text(ret->node, sizeof(ret->node), cells[0]);
        ledger_text(ret->address, sizeof(ret->address), cells[1]);
        ret->is_self = self && strcmp(ret->node, self->node) == 0;
}

static int say_member(struct pg_ledger *p, const struct log_member *self, const char *node,
                      const struct sql_wait *w, struct problem *problem)
{
        struct pgsql_query q;
        uint64_t unused;
        begin(p, &q, meet_sql);
        pgsql_query_text(&q, self->node);
        pgsql_query_text(&q, node);
        pgsql_query_text(&q, self->address);
        pgsql_query_i64(&q, self->priority);
        pgsql_query_i64(&q, (int64_t)self->epoch);
        pgsql_query_i64(&q, (int64_t)self->seq);
        pgsql_query_i64(&q, (int64_t)self->digest_seq);
        pgsql_query_i64(&q, (int64_t)self->digest);
        return run_local(p, &q, w, &unused, problem);
}

static int pg_meet(struct ledger *l, const struct log_member *self, const char *node,
                   const struct sql_wait *w, struct log_member *ret, size_t max, size_t *ret_n,
                   struct problem *problem)
{
        struct pg_ledger *p = of(l);
        struct pgsql_query q;
        struct pgsql_result result = {0};
        struct slice cells[9];
        size_t n = 0;
        int r = self ? say_member(p, self, node, w, problem) : OK;
        if (r != OK)
                return r;
        begin(p, &q, members_sql);
        pgsql_query_i64(&q, (int64_t)max);
        r = pgsql_conn_run(p->conn, &q, w, &result, problem);
        while (n < max && pgsql_result_next(&result, cells, ARRAY_LEN(cells)))
                member_from(cells, self, &ret[n++]);
        pgsql_result_release(&result);
        if (r == OK)
                *ret_n = n;
        return r;
}

/* ---- new and free ---- */

static struct ledger *pg_free(struct ledger *l)
{
        if (!l)
                return NULL;
        struct pg_ledger *p = of(l);
        p->conn = pgsql_conn_free(p->conn);
        free(p);
        return NULL;
}

static const struct ledger_ops ops = {
        .connect = pg_connect,
        .disconnect = pg_disconnect,
        .is_open = pg_is_open,
        .where = pg_where,
        .append = pg_append,
        .has = pg_has,
        .barrier = pg_barrier,
        .tail = pg_tail,
        .read = pg_read,
        .trim = pg_trim,
        .lease_take = pg_lease_take,
        .lease_look = pg_lease_look,
        .lease_give = pg_lease_give,
        .lease_ms = pg_lease_ms,
        .meet = pg_meet,
        .verify = pg_verify,
        .free = pg_free,
};

struct pgsql_conn *ledger_postgres_conn(struct ledger *l)
{
        return of(l)->conn;
}

struct ledger *ledger_postgres_new(const struct ledger_options *options)
{
        struct pg_ledger *p = xcalloc(1, sizeof(*p));
        p->base.ops = &ops;
        p->options = options;
        p->conn = pgsql_conn_new(LEDGER_POSTGRES_SESSION);
        p->search = (struct ledger_search){.options = options, .attempt = attempt, .self = p};
        return &p->base;
}

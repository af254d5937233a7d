/* The ledger in MariaDB: a Galera cluster, a semi-synchronous pair, or one server.
 *
 * An append is one INSERT that commits by itself, guarded by the row before it; a large one is a
 * transaction of pieces.  What its end is worth:
 *
 * - Galera: OK means that the others have it.  1062 and 1213 mean that another write won.  Of 1180
 *   ("not connected to Primary") and of a lost connection nothing is known: the others may have
 *   taken the row.
 * - A pair: OK is also said when the wait for the replica was cut short, by KILL or by its timeout.
 *   Only a counter of the server tells, Rpl_semi_sync_master_no_tx: it is asked for after each
 *   commit.
 *
 * After an error within a transaction nothing more is sent but ROLLBACK: Galera says OK to the
 * COMMIT of a transaction that it has emptied. */
#include <stdio.h>
#include <stdlib.h>

#include "cluster/ledger_mariadb_int.h"
#include "sql/mysql.h"

/* Read row by row, so that it bounds nothing but a server out of its mind: the largest batch, and
 * what read() is asked for besides. */
#define ANSWER_BYTES (512 * MIB)

/* Errors of the server. */
enum {
        E_DISK_FULL = 1021,
        E_NOT_READY = 1047, /* of Galera: this node is not in the primary component */
        E_DUPLICATE = 1062,
        E_TABLE_FULL = 1114,
        E_COMMIT = 1180,
        E_LOCK_TIMEOUT = 1205,
        E_DEADLOCK = 1213,
        E_READ_ONLY = 1290,
        E_READ_ONLY_TRANSACTION = 1792,
};

static struct maria *of(const struct ledger *l)
{
        return CONTAINER_OF(l, struct maria, base);
}

static void hang_up(struct maria *m)
{
        if (m->conn)
                mysql_conn_disconnect(m->conn);
}

const char *maria_where(const struct maria *m)
{
        return m->conn ? mysql_conn_where(m->conn) : "";
}

uint64_t maria_number(struct slice cell)
{
        uint64_t value;
        return slice_to_u64(cell, &value) ? value : 0;
}

/* ---- statements ---- */

/* A node that has lost the others answers nothing more: another is to be found. */
static int settle(struct maria *m, int err)
{
        unsigned error = mysql_conn_errno(m->conn);
        if (err == OK || (error != E_NOT_READY && error != E_COMMIT))
                return err;
        hang_up(m);
        return ERR_IO;
}

static int no_connection(struct problem *problem)
{
        return problem_set(problem, ERR_IO, "there is no connection to the database");
}

int maria_run(struct maria *m, const struct sql_wait *w, struct mysql_result *ret,
              struct problem *problem)
{
        if (!m->conn)
                return no_connection(problem);
        return settle(m, mysql_conn_run(m->conn, buf_slice(&m->sql), w, ret, problem));
}

static int each(struct maria *m, const struct sql_wait *w, const struct mysql_rows *rows,
                struct problem *problem)
{
        if (!m->conn)
                return no_connection(problem);
        return settle(m, mysql_conn_each(m->conn, buf_slice(&m->sql), w, rows, problem));
}

/* A statement without rows; ret: how many it changed. */
static int change(struct maria *m, const struct sql_wait *w, uint64_t *ret, struct problem *problem)
{
        struct mysql_result result = {0};
        int r = maria_run(m, w, &result, problem);
        *ret = result.affected;
        mysql_result_release(&result);
        return r;
}

static int command(struct maria *m, const char *sql, const struct sql_wait *w,
                   struct problem *problem)
{
        uint64_t unused;
        buf_clear(&m->sql);
        buf_put_str(&m->sql, sql);
        return change(m, w, &unused, problem);
}

int maria_ask_number(struct maria *m, const struct sql_wait *w, uint64_t *ret,
                     struct problem *problem)
{
        struct mysql_result result = {0};
        struct slice cell = SLICE_NONE;
        int r = maria_run(m, w, &result, problem);
        (void)mysql_result_next(&result, &cell, 1); /* none: 0 */
        *ret = maria_number(cell);
        mysql_result_release(&result);
        return r;
}

/* ---- connecting ---- */

static int my_verify(struct ledger *l, const struct sql_wait *w, struct problem *problem)
{
        int r = maria_verify(of(l), false, w, problem);
        if (r != ERR_LOCKED)
                return r;
        hang_up(of(l)); /* another one takes writes now */
        return ERR_IO;
}

/* Reads take no locks (READ COMMITTED): trimming and appending do not meet.  For what is idle see
 * LEDGER_POSTGRES_SESSION. */
static int set_session(struct maria *m, const struct sql_wait *w, struct problem *problem)
{
        bool is_mariadb;
        (void)mysql_conn_version(m->conn, &is_mariadb); /* only which of the two */
        if (!is_mariadb)
                return problem_set(problem, ERR_STATE, "%s is not MariaDB", maria_where(m));
        int r = command(m,
                        "set session sql_mode='STRICT_ALL_TABLES',innodb_lock_wait_timeout=1,"
                        "lock_wait_timeout=2,idle_transaction_timeout=5",
                        w, problem);
        if (r == OK)
                r = command(m, "set session transaction isolation level read committed", w,
                            problem);
        return r;
}

static int set_up(struct maria *m, const struct sql_wait *w, struct problem *problem)
{
        int r = set_session(m, w, problem);
        if (r != OK)
                return r;
        int judged = maria_verify(m, true, w, problem);
        bool is_replica_away = judged == ERR_UNAVAIL && !mysql_conn_errno(m->conn);
        if (judged != OK && !is_replica_away) /* it may come back; verify() tells */
                return judged;
        if (m->site == SITE_GALERA) /* what another node has committed is seen here */
                r = command(m, "set session wsrep_sync_wait=1", w, problem);
        return r == OK ? maria_check_tables(m, w, problem) : r;
}

static int attempt(void *self, const struct sql_login *login, const struct sql_wait *w,
                   struct problem *problem)
{
        struct maria *m = self;
        m->conn = mysql_conn_free(m->conn);
        m->conn = mysql_conn_new(login);
        mysql_conn_allow(m->conn, ANSWER_BYTES);
        int r = mysql_conn_connect(m->conn, w, problem);
        if (r == OK)
                r = set_up(m, w, problem);
        if (r != OK)
                hang_up(m);
        return r;
}

static int my_connect(struct ledger *l, const struct sql_wait *w, struct problem *problem)
{
        return ledger_search(&of(l)->search, w, problem);
}

static void my_disconnect(struct ledger *l)
{
        hang_up(of(l));
}

static bool my_is_open(const struct ledger *l)
{
        return of(l)->conn && mysql_conn_is_open(of(l)->conn);
}

static const char *my_where(const struct ledger *l)
{
        return maria_where(of(l));
}

static int64_t my_lease_ms(const struct ledger *l)
{
        return of(l)->lease_ms;
}

/* ---- appending ---- */

#define INSERT_SQL "insert into weir_log(space,seq,piece,epoch,node,kind,body) "
#define ROW_SQL    INSERT_SQL "select ?,?,0,?,?,?,? from dual where "
static const char after_sql[] =
        ROW_SQL "exists(select 1 from weir_log where space=? and seq=? and piece=0 and epoch=? "
                "and node=?) and not exists(select 1 from weir_log where space=? and seq>?)";
static const char alone_sql[] = ROW_SQL "not exists(select 1 from weir_log where space=?)";
static const char piece_sql[] = INSERT_SQL "values(?,?,?,?,?,?,?)";

struct batch {
        const struct ledger_head *head, *previous;
        struct slice body;
};

static int execute(struct maria *m, const struct mysql_statement *s, const struct sql_wait *w,
                   uint64_t *ret, struct problem *problem)
{
        if (!m->conn)
                return no_connection(problem);
        return mysql_conn_execute(m->conn, s, w, ret, problem);
}

static int append_first(struct maria *m, const struct batch *b, const struct sql_wait *w,
                        uint64_t *ret, struct problem *problem)
{
        struct mysql_statement s;
        const struct ledger_head *previous = b->previous;
        mysql_statement_init(&s, previous->seq ? after_sql : alone_sql);
        mysql_statement_text(&s, m->options->space);
        mysql_statement_u64(&s, b->head->seq);
        mysql_statement_u64(&s, b->head->epoch);
        mysql_statement_text(&s, b->head->node);
        mysql_statement_u64(&s, b->head->kind);
        mysql_statement_bytes(&s, ledger_piece(b->body, 0));
        mysql_statement_text(&s, m->options->space);
        if (previous->seq) {
                ASSERT(previous->seq + 1 == b->head->seq);
                mysql_statement_u64(&s, previous->seq);
                mysql_statement_u64(&s, previous->epoch);
                mysql_statement_text(&s, previous->node);
                mysql_statement_text(&s, m->options->space);
                mysql_statement_u64(&s, b->head->seq);
        }
        return execute(m, &s, w, ret, problem);
}

static int append_piece(struct maria *m, const struct batch *b, size_t piece,
                        const struct sql_wait *w, struct problem *problem)
{
        struct mysql_statement s;
        uint64_t unused;
        mysql_statement_init(&s, piece_sql);
        mysql_statement_text(&s, m->options->space);
        mysql_statement_u64(&s, b->head->seq);
        mysql_statement_u64(&s, piece);
        mysql_statement_u64(&s, b->head->epoch);
        mysql_statement_text(&s, b->head->node);
        mysql_statement_u64(&s, b->head->kind);
        mysql_statement_bytes(&s, ledger_piece(b->body, piece));
        return execute(m, &s, w, &unused, problem);
}

/* ret: 1 when all was written, 0 when the guard did not hold. */
static int append_pieces(struct maria *m, const struct batch *b, const struct sql_wait *w,
                         uint64_t *ret, struct problem *problem)
{
        size_t n = ledger_pieces(b->body);
        int r = command(m, "start transaction", w, problem);
        *ret = 0;
        if (r == OK)
                r = append_first(m, b, w, ret, problem);
        for (size_t i = 1; r == OK && *ret == 1 && i < n; i++)
                r = append_piece(m, b, i, w, problem);
        if (r == OK)
                r = command(m, "commit", w, problem);
        return r;
}

static enum ledger_outcome unknown(struct maria *m)
{
        hang_up(m);
        return LEDGER_UNKNOWN;
}

/* Only what is certain is told as such; see the top. */
static enum ledger_outcome outcome_of_error(struct maria *m, unsigned error)
{
        switch (error) {
        case E_DUPLICATE:
                return LEDGER_TAKEN;
        case E_DEADLOCK:
        case E_LOCK_TIMEOUT:
                return LEDGER_BUSY;
        case E_DISK_FULL:
        case E_TABLE_FULL:
                return LEDGER_FULL;
        case E_READ_ONLY:
        case E_READ_ONLY_TRANSACTION:
                hang_up(m); /* another one takes writes now */
                return LEDGER_FULL;
        default:
                return unknown(m);
        }
}

static enum ledger_outcome my_append(struct ledger *l, const struct ledger_head *head,
                                     struct slice body, const struct ledger_head *previous,
                                     const struct sql_wait *w, struct problem *problem)
{
        struct maria *m = of(l);
        const struct batch b = {head, previous, body};
        bool is_one = ledger_pieces(body) == 1;
        uint64_t written = 0;
        if (!my_is_open(l)) {
                (void)no_connection(problem);
                return LEDGER_UNKNOWN;
        }
        int r = is_one ? append_first(m, &b, w, &written, problem)
                       : append_pieces(m, &b, w, &written, problem);
        if (r != OK) {
                struct problem ignored;
                unsigned error = mysql_conn_errno(m->conn);
                if (!is_one && my_is_open(l) && command(m, "rollback", w, &ignored) != OK)
                        hang_up(m); /* which rolls back as well */
                return outcome_of_error(m, error);
        }
        if (!written) {
                (void)problem_set(
                        problem, ERR_CONFLICT, "the row before %llu is not the one of epoch %llu",
                        (unsigned long long)head->seq, (unsigned long long)previous->epoch);
                return LEDGER_REFUSED;
        }
        if (ledger_mariadb_confirm(l, w, problem) != OK)
                return unknown(m);
        return LEDGER_DURABLE;
}

int ledger_mariadb_confirm(struct ledger *l, const struct sql_wait *w, struct problem *problem)
{
        struct maria *m = of(l);
        struct mysql_result result = {0};
        struct slice cells[2] = {SLICE_NONE, SLICE_NONE};
        if (m->site != SITE_PAIR || !maria_is_replicated(m))
                return OK;
        MARIA_SQL(m, "show global status like 'Rpl\\_semi\\_sync\\_master\\_no\\_tx'");
        int r = maria_run(m, w, &result, problem);
        (void)mysql_result_next(&result, cells, ARRAY_LEN(cells)); /* none after an error */
        bool is_same = cells[1].len && maria_number(cells[1]) == m->no_tx;
        mysql_result_release(&result);
        if (r == OK && !is_same) {
                r = problem_set(problem, ERR_IO,
                                "%s committed without its replica: Rpl_semi_sync_master_no_tx grew",
                                maria_where(m));
                hang_up(m);
        }
        return r;
}

/* ---- what is there ---- */

#define COLUMNS_SQL "seq,piece,epoch,node,kind,body"

static void row_from(const struct slice *cells, struct ledger_row *ret)
{
        *ret = (struct ledger_row){.seq = maria_number(cells[0]),
                                   .piece = (unsigned)maria_number(cells[1]),
                                   .epoch = maria_number(cells[2]),
                                   .node = cells[3],
                                   .kind = maria_number(cells[4]),
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

static int my_has(struct ledger *l, const struct ledger_head *head, struct slice body,
                  const struct sql_wait *w, struct ledger_head *ret_seen, bool *ret,
                  struct problem *problem)
{
        struct maria *m = of(l);
        struct ledger_match match = {.head = head, .body = body};
        const struct mysql_rows rows = {on_match, &match};
        MARIA_SQL(m,
                  "select " COLUMNS_SQL " from weir_log where space=%s and seq=%llu order by piece",
                  MARIA_SPACE(m), (unsigned long long)head->seq);
        int r = each(m, w, &rows, problem);
        if (r != OK)
                return r;
        *ret_seen = match.seen;
        *ret = ledger_match_end(&match);
        return OK;
}

/* Galera: a read that waits for all that the cluster has ordered, on a node that is in it. */
static int galera_barrier(struct maria *m, const struct sql_wait *w, struct problem *problem)
{
        uint64_t unused;
        bool is_primary;
        MARIA_SQL(m, "select max(seq) from weir_log where space=%s", MARIA_SPACE(m));
        int r = maria_ask_number(m, w, &unused, problem);
        if (r == OK)
                r = maria_is_primary(m, w, &is_primary, problem);
        if (r == OK && !is_primary) {
                r = problem_set(problem, ERR_IO, "%s has lost the other nodes", maria_where(m));
                hang_up(m);
        }
        return r;
}

static int my_barrier(struct ledger *l, const struct sql_wait *w, struct problem *problem)
{
        struct maria *m = of(l);
        uint64_t changed;
        if (m->site == SITE_GALERA)
                return galera_barrier(m, w, problem);
        MARIA_SQL(m, "update weir_lease set turn=turn+1 where space=%s", MARIA_SPACE(m));
        int r = change(m, w, &changed, problem);
        if (r == OK && changed != 1)
                return problem_set(problem, ERR_STATE,
                                   "weir_lease has lost its row on %s; run `weir cluster init`",
                                   maria_where(m));
        return r == OK ? ledger_mariadb_confirm(l, w, problem) : r;
}

/* The oldest batch from there on; 0: there is none. */
static int find_first(struct maria *m, uint64_t from, const struct sql_wait *w, uint64_t *ret,
                      struct problem *problem)
{
        MARIA_SQL(m,
                  "select seq from weir_log where space=%s and kind<>1 and seq>=%llu order by seq "
                  "limit 1",
                  MARIA_SPACE(m), (unsigned long long)from);
        return maria_ask_number(m, w, ret, problem);
}

static int my_tail(struct ledger *l, const struct sql_wait *w, struct ledger_head *ret_last,
                   uint64_t *ret_first, struct problem *problem)
{
        struct maria *m = of(l);
        struct mysql_result result = {0};
        struct slice cells[6];
        struct ledger_row row;
        struct ledger_head last = {0};
        uint64_t first;
        MARIA_SQL(m,
                  "select seq,piece,epoch,node,kind,'' from weir_log where space=%s and piece=0 "
                  "order by "
                  "seq desc limit 1",
                  MARIA_SPACE(m));
        int r = maria_run(m, w, &result, problem);
        if (mysql_result_next(&result, cells, ARRAY_LEN(cells))) {
                row_from(cells, &row);
                ledger_head_from(&row, &last);
        }
        mysql_result_release(&result);
        if (r == OK)
                r = find_first(m, 0, w, &first, problem);
        if (r != OK)
                return r;
        *ret_last = last;
        *ret_first = first ? first : last.seq + 1;
        return OK;
}

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

/* Whole batches up to the one with which there are enough bytes, of the next LEDGER_READ_ROWS. */
static int my_read(struct ledger *l, uint64_t from, uint64_t bytes, const struct sql_wait *w,
                   void (*fn)(void *ctx, const struct ledger_head *head, struct slice body),
                   void *ctx, struct problem *problem)
{
        struct maria *m = of(l);
        struct reading reading = {.reader = {.from = from, .fn = fn, .ctx = ctx},
                                  .problem = problem};
        const struct mysql_rows rows = {on_row, &reading};
        MARIA_SQL(m,
                  "select " COLUMNS_SQL " from weir_log where space=%s and seq>=%llu and seq<=("
                  "select max(seq) from (select seq,sum(size) over (order by seq)-size as ahead "
                  "from ("
                  "select seq,sum(bytes) as size from (select seq,length(body) as bytes from "
                  "weir_log "
                  "where space=%s and seq>=%llu order by seq,piece limit %d) as a group by seq) as "
                  "b) "
                  "as c where ahead<%llu) order by seq,piece",
                  MARIA_SPACE(m), (unsigned long long)from, MARIA_SPACE(m),
                  (unsigned long long)from, LEDGER_READ_ROWS,
                  (unsigned long long)(bytes ? bytes : 1));
        int r = each(m, w, &rows, problem);
        if (r == OK)
                return ledger_reader_end(&reading.reader, problem);
        buf_release(&reading.reader.body);
        return r;
}

/* The newest row is kept, or the log would forget its number; and *from stays there, or that row
 * would be left behind. */
static int my_trim(struct ledger *l, uint64_t *from, uint64_t before, const struct sql_wait *w,
                   struct problem *problem)
{
        struct maria *m = of(l);
        uint64_t newest, removed = 0;
        MARIA_SQL(m, "select seq from weir_log where space=%s order by seq desc limit 1",
                  MARIA_SPACE(m));
        int r = maria_ask_number(m, w, &newest, problem);
        if (r != OK)
                return r;
        uint64_t stop = before < newest ? before : newest;
        if (*from >= stop)
                return OK;
        uint64_t end = stop - *from > LEDGER_TRIM_ROWS ? *from + LEDGER_TRIM_ROWS : stop;
        MARIA_SQL(m, "delete from weir_log where space=%s and seq>=%llu and seq<%llu and kind<>1",
                  MARIA_SPACE(m), (unsigned long long)*from, (unsigned long long)end);
        r = change(m, w, &removed, problem);
        if (r == OK && !removed && end < stop) {
                /* Nobody knows where the rows begin after a start: not a step for each 500. */
                uint64_t next;
                r = find_first(m, end, w, &next, problem);
                if (r == OK)
                        end = next && next < stop ? next : stop;
        }
        if (r == OK)
                *from = end;
        return r;
}

/* ---- the lease ---- */

/* turn makes every match a change: the server counts those alone. */
#define HOLD_SQL "until=utc_timestamp(6)+interval %lld microsecond,turn=turn+1"

static int change_lease(struct maria *m, const struct sql_wait *w, bool *ret,
                        struct problem *problem)
{
        uint64_t changed;
        int r = change(m, w, &changed, problem);
        if (r == ERR_LOCKED) { /* somebody else is at it */
                *ret = false;
                return OK;
        }
        if (r == OK)
                *ret = changed == 1;
        return r;
}

static int my_lease_take(struct ledger *l, const char *node, int64_t ms, const struct sql_wait *w,
                         bool *ret_is_mine, struct problem *problem)
{
        struct maria *m = of(l);
        MARIA_SQL(m, "update weir_lease set " HOLD_SQL ",node=", (long long)ms * 1000);
        mysql_put_text(&m->sql, slice_str(node));
        buf_printf(&m->sql,
                   " where space=%s and (node='' or until<utc_timestamp(6) or "
                   "until>utc_timestamp(6)+interval %lld microsecond or node=",
                   MARIA_SPACE(m), (long long)ms * 1000 * LEDGER_LEASE_FAR);
        mysql_put_text(&m->sql, slice_str(node));
        buf_put_byte(&m->sql, ')');
        return change_lease(m, w, ret_is_mine, problem);
}

static int my_lease_give(struct ledger *l, const char *node, const char *to, int64_t ms,
                         const struct sql_wait *w, bool *ret_done, struct problem *problem)
{
        struct maria *m = of(l);
        MARIA_SQL(m, "update weir_lease set " HOLD_SQL ",node=", (long long)ms * 1000);
        mysql_put_text(&m->sql, slice_str(to));
        buf_printf(&m->sql, " where space=%s and node=", MARIA_SPACE(m));
        mysql_put_text(&m->sql, slice_str(node));
        return change_lease(m, w, ret_done, problem);
}

static int64_t signed_number(struct slice cell)
{
        int64_t value;
        return slice_to_i64(cell, &value) ? value : 0;
}

static int my_lease_look(struct ledger *l, const struct sql_wait *w, struct ledger_lease *ret,
                         struct problem *problem)
{
        struct maria *m = of(l);
        struct mysql_result result = {0};
        struct slice cells[2];
        struct ledger_lease lease = {0};
        MARIA_SQL(m,
                  "select node,timestampdiff(microsecond,utc_timestamp(6),until) div 1000 from "
                  "weir_lease where space=%s",
                  MARIA_SPACE(m));
        int r = maria_run(m, w, &result, problem);
        if (mysql_result_next(&result, cells, ARRAY_LEN(cells))) {
                ledger_text(lease.node, sizeof(lease.node), cells[0]);
                lease.left_ms = signed_number(cells[1]);
        }
        mysql_result_release(&result);
        if (r == OK)
                *ret = lease;
        return r;
}

/* ---- members ---- */

static const char meet_sql[] =
        "insert into weir_member(space,name,node,address,priority,epoch,seq,digest_seq,digest,seen)"
        " values(?,?,?,?,cast(? as signed),?,?,?,?,utc_timestamp(6)) on duplicate key update "
        "node=values(node),address=values(address),priority=values(priority),epoch=values(epoch),"
        "seq=values(seq),digest_seq=values(digest_seq),digest=values(digest),seen=values(seen)";

static int say_member(struct maria *m, const struct log_member *self, const char *node,
                      const struct sql_wait *w, struct problem *problem)
{
        struct mysql_statement s;
        uint64_t unused;
        mysql_statement_init(&s, meet_sql);
        mysql_statement_text(&s, m->options->space);
        mysql_statement_text(&s, self->node);
        mysql_statement_text(&s, node);
        mysql_statement_text(&s, self->address);
        mysql_statement_u64(&s, (uint64_t)(int64_t)self->priority);
        mysql_statement_u64(&s, self->epoch);
        mysql_statement_u64(&s, self->seq);
        mysql_statement_u64(&s, self->digest_seq);
        mysql_statement_u64(&s, self->digest);
        if (!m->conn)
                return no_connection(problem);
        return settle(m, mysql_conn_execute(m->conn, &s, w, &unused, problem));
}

static void member_from(const struct slice *cells, const struct log_member *self,
                        struct log_member *ret)
{
        *ret = (struct log_member){.priority = (int)signed_number(cells[2]),
                                   .epoch = maria_number(cells[3]),
                                   .seq = maria_number(cells[4]),
                                   .digest_seq = maria_number(cells[5]),
                                   .digest = maria_number(cells[6]),
                                   .seen_ms = signed_number(cells[7]),
                                   .is_leader = maria_number(cells[8]) != 0};
        ledger_text(ret->node, sizeof(ret->node), cells[0]);
        ledger_text(ret->address, sizeof(ret->address), cells[1]);
        ret->is_self = self && strcmp(ret->node, self->node) == 0;
}

static int my_meet(struct ledger *l, const struct log_member *self, const char *node,
                   const struct sql_wait *w, struct log_member *ret, size_t max, size_t *ret_n,
                   struct problem *problem)
{
        struct maria *m = of(l);
        struct mysql_result result = {0};
        struct slice cells[9];
        size_t n = 0;
        int r = self ? say_member(m, self, node, w, problem) : OK;
        if (r != OK)
                return r;
        MARIA_SQL(m,
                  "select m.name,m.address,m.priority,m.epoch,m.seq,m.digest_seq,m.digest,"
                  "timestampdiff(microsecond,m.seen,utc_timestamp(6)) div 1000,"
                  "coalesce(l.node=m.node and l.until>utc_timestamp(6),0) from weir_member m left "
                  "join "
                  "weir_lease l on l.space=m.space where m.space=%s and "
                  "m.seen>utc_timestamp(6)-interval 1 day order by m.name limit %zu",
                  MARIA_SPACE(m), max);
        r = maria_run(m, w, &result, problem);
        while (n < max && mysql_result_next(&result, cells, ARRAY_LEN(cells)))
                member_from(cells, self, &ret[n++]);
        mysql_result_release(&result);
        if (r == OK)
                *ret_n = n;
        return r;
}

/* ---- new and free ---- */

static struct ledger *my_free(struct ledger *l)
{
        if (!l)
                return NULL;
        struct maria *m = of(l);
        m->conn = mysql_conn_free(m->conn);
        buf_release(&m->sql);
        buf_release(&m->space);
        free(m);
        return NULL;
}

static const struct ledger_ops ops = {
        .connect = my_connect,
        .disconnect = my_disconnect,
        .is_open = my_is_open,
        .where = my_where,
        .append = my_append,
        .has = my_has,
        .barrier = my_barrier,
        .tail = my_tail,
        .read = my_read,
        .trim = my_trim,
        .lease_take = my_lease_take,
        .lease_look = my_lease_look,
        .lease_give = my_lease_give,
        .lease_ms = my_lease_ms,
        .meet = my_meet,
        .verify = my_verify,
        .free = my_free,
};

struct mysql_conn *ledger_mariadb_conn(struct ledger *l)
{
        return of(l)->conn;
}

struct ledger *ledger_mariadb_new(const struct ledger_options *options)
{
        struct maria *m = xcalloc(1, sizeof(*m));
        m->base.ops = &ops;
        m->options = options;
        m->lease_ms = LEDGER_LEASE_MS;
        m->search = (struct ledger_search){.options = options, .attempt = attempt, .self = m};
        mysql_put_text(&m->space, slice_str(options->space));
        return &m->base;
}

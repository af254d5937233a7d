/* Statements over one connection to PostgreSQL, through libpq's non-blocking calls, so that every
 * wait has our deadline and can be ended.
 *
 * Each statement is prepared when it is first run on a connection: planning an insert costs as much
 * as running it.  Preparing goes by the address of its text, which is a constant of the program.
 *
 * After an error that leaves part of an answer unread the connection is closed at once: what came
 * later would be taken for the answer to the next statement. */
#include "sql/postgres.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "sql/postgres_connect.h"
#include "sql/tls.h"

#define PREPARED_MAX 48 /* statements of one user; a constant of the program */
#define SQLSTATE_LEN 5
#define WARNING_MAX  200
#define COLUMNS_MAX  32 /* of pgsql_conn_each() */
#define NAME_MAX_LEN 24
#define NOT_PREPARED SIZE_MAX

struct pgsql_conn {
        const char *session;
        const struct sql_login *login; /* NULL before the first connect */
        PGconn *db;                    /* NULL: not connected */
        char where[WHERE_MAX];

        const char *prepared[PREPARED_MAX]; /* on this connection: weir_0, weir_1, ... */
        size_t n_prepared;

        /* Of the last statement or pipeline. */
        char sqlstate[SQLSTATE_LEN + 1];
        bool is_warned;
        char warning[WARNING_MAX];

        /* What the pipeline asks for: a statement, or that one is prepared. */
        struct {
                const char *prepares; /* NULL: it is a statement */
        } items[2 * PGSQL_PIPE_MAX];
        size_t n_items;
};

/* ---- values and results ---- */

void pgsql_query_init(struct pgsql_query *q, const char *sql)
{
        q->sql = sql;
        q->n = 0;
}

void pgsql_query_i64(struct pgsql_query *q, int64_t value)
{
        ASSERT(q->n < PGSQL_VALUES_MAX);
        unsigned char *bytes = q->numbers[q->n];
        uint64_t left = (uint64_t)value;
        for (size_t i = sizeof(q->numbers[0]); i-- > 0; left >>= 8)
                bytes[i] = (unsigned char)left;
        q->values[q->n++] = slice_make(bytes, sizeof(q->numbers[0]));
}

void pgsql_query_bytes(struct pgsql_query *q, struct slice value)
{
        ASSERT(q->n < PGSQL_VALUES_MAX);
        q->values[q->n++] = value.ptr ? value : SLICE_LIT("");
}

void pgsql_query_text(struct pgsql_query *q, const char *value)
{
        ASSERT(q->n < PGSQL_VALUES_MAX);
        q->values[q->n++] = slice_str(value);
}

void pgsql_result_release(struct pgsql_result *r)
{
        PQclear(r->rows);
        *r = (struct pgsql_result){0};
}

static struct slice cell_of(const PGresult *rows, int row, int column)
{
        if (PQgetisnull(rows, row, column)) /* one that is not there, too */
                return SLICE_NONE;
        return slice_make(PQgetvalue(rows, row, column), (size_t)PQgetlength(rows, row, column));
}

bool pgsql_result_next(struct pgsql_result *r, struct slice *cells, size_t n)
{
        if (r->next >= r->n_rows)
                return false;
        for (size_t i = 0; i < n; i++)
                cells[i] = (int)i < r->n_columns ? cell_of(r->rows, r->next, (int)i) : SLICE_NONE;
        r->next++;
        return true;
}

int64_t pgsql_cell_i64(struct slice cell)
{
        if (!cell.len)
                return 0;
        uint64_t value = (unsigned char)cell.ptr[0] & 0x80 ? UINT64_MAX : 0;
        for (size_t i = 0; i < cell.len; i++)
                value = value << 8 | (unsigned char)cell.ptr[i];
        return (int64_t)value;
}

/* ---- waiting ---- */

static bool is_dead(int err)
{
        return err == ERR_IO || err == ERR_TIMEOUT || err == ERR_STOPPING;
}

/* Sends what is to be sent; and until there is an answer, when that is wanted. */
static int exchange(struct pgsql_conn *c, bool is_answer_wanted, const struct sql_wait *w)
{
        for (;;) {
                short got = 0;
                int left = PQflush(c->db);
                if (left < 0)
                        return ERR_IO;
                if (!left && !(is_answer_wanted && PQisBusy(c->db)))
                        return OK;
                int r = wait_for(w, PQsocket(c->db), left ? POLLIN | POLLOUT : POLLIN, &got);
                if (r != OK)
                        return r;
                if ((got & ~POLLOUT) && !PQconsumeInput(c->db))
                        return ERR_IO;
        }
}

/* The sentence for what exchange() returned; the connection is closed. */
static int lose(struct pgsql_conn *c, const struct sql_wait *w, int err, struct problem *problem)
{
        if (err == ERR_IO)
                (void)pgsql_say(problem, err, "the connection was lost: ", PQerrorMessage(c->db));
        else
                (void)wait_problem(w, err, problem);
        pgsql_conn_disconnect(c);
        return err;
}

static int next_result(struct pgsql_conn *c, const struct sql_wait *w, PGresult **ret,
                       struct problem *problem)
{
        int r = exchange(c, true, w);
        *ret = NULL;
        if (r != OK)
                return lose(c, w, r, problem);
        *ret = PQgetResult(c->db);
        return OK;
}

/* ---- what went wrong ---- */

static const struct {
        const char *state; /* or how it begins */
        int err;
        const char *before;
} refusals[] = {
        {"42501", ERR_FORBIDDEN, "a privilege is missing: "},
        {"42P01", ERR_NOTFOUND, ""}, /* table */
        {"42703", ERR_NOTFOUND, ""}, /* column */
        {"42883", ERR_NOTFOUND, ""}, /* function */
        {"3F000", ERR_NOTFOUND, ""}, /* schema */
        {"55P03", ERR_LOCKED, ""},   /* lock_timeout */
        {"40P01", ERR_LOCKED, ""},   /* deadlock */
        {"40001", ERR_LOCKED, ""},   /* serialization */
        {"23505", ERR_CONFLICT, ""},
        {"53100", ERR_NOSPACE, ""},
        {"25006", ERR_STATE, ""},
        {"57014", ERR_UNAVAIL, ""},
        {"57P", ERR_IO, "the connection was lost: "},
};

static int result_problem(struct pgsql_conn *c, const PGresult *result, struct problem *problem)
{
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        if (!text)
                text = result ? PQresultErrorMessage(result) : PQerrorMessage(c->db);
        (void)snprintf(c->sqlstate, sizeof(c->sqlstate), "%s", state ? state : "");
        if (PQstatus(c->db) == CONNECTION_BAD)
                return pgsql_say(problem, ERR_IO, "the connection was lost: ", text);
        for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
                if (strncmp(c->sqlstate, refusals[i].state, strlen(refusals[i].state)) == 0)
                        return pgsql_say(problem, refusals[i].err, refusals[i].before, text);
        return pgsql_say(problem, ERR_BADARG, "", text);
}

/* A transaction in which something failed is rolled back by COMMIT, which says so only here. */
static bool is_failed_commit(const char *sql, PGresult *result)
{
        return strncasecmp(sql, "commit", 6) == 0 && strcmp(PQcmdStatus(result), "ROLLBACK") == 0;
}

static int judge(struct pgsql_conn *c, const char *sql, PGresult *result, struct problem *problem)
{
        ExecStatusType status = PQresultStatus(result); /* of NULL it is a failure */
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_SINGLE_TUPLE)
                return result_problem(c, result, problem);
        if (is_failed_commit(sql, result))
                return problem_set(problem, ERR_BADARG, "the transaction was rolled back");
        return OK;
}

/* ---- one statement ---- */

static int begin_statement(struct pgsql_conn *c, struct problem *problem)
{
        c->sqlstate[0] = '\0';
        c->is_warned = false;
        if (!c->db)
                return problem_set(problem, ERR_IO, "there is no connection to %s", c->where);
        return OK;
}

static uint64_t affected_of(PGresult *result)
{
        return strtoull(PQcmdTuples(result), NULL, 10); /* "" when it is no such statement */
}

/* The answer to what was sent. */
static int take(struct pgsql_conn *c, const char *sql, const struct sql_wait *w,
                struct pgsql_result *ret, struct problem *problem)
{
        PGresult *last = NULL, *next;
        int r, err = OK;
        for (;;) {
                r = next_result(c, w, &next, problem);
                if (r != OK || !next)
                        break;
                PQclear(last);
                last = next;
                if (err == OK)
                        err = judge(c, sql, next, problem);
        }
        if (r == OK && !last)
                err = judge(c, sql, NULL, problem);
        if (r == OK && err == OK && ret)
                *ret = (struct pgsql_result){.rows = last,
                                             .n_rows = PQntuples(last),
                                             .n_columns = PQnfields(last),
                                             .affected = affected_of(last)};
        else
                PQclear(last);
        if (is_dead(err))
                pgsql_conn_disconnect(c);
        return r != OK ? r : err;
}

static const char *name_of(size_t index, char ret[NAME_MAX_LEN])
{
        (void)snprintf(ret, NAME_MAX_LEN, "weir_%zu", index);
        return ret;
}

static size_t find_prepared(const struct pgsql_conn *c, const char *sql)
{
        for (size_t i = 0; i < c->n_prepared; i++)
                if (c->prepared[i] == sql)
                        return i;
        return NOT_PREPARED;
}

static bool send_prepare(struct pgsql_conn *c, const char *sql, size_t index)
{
        char name[NAME_MAX_LEN];
        ASSERT(index < PREPARED_MAX);
        return PQsendPrepare(c->db, name_of(index, name), sql, 0, NULL);
}

static bool send_query(struct pgsql_conn *c, const struct pgsql_query *q, size_t index)
{
        char name[NAME_MAX_LEN];
        const char *values[PGSQL_VALUES_MAX];
        int lengths[PGSQL_VALUES_MAX], formats[PGSQL_VALUES_MAX];
        for (size_t i = 0; i < q->n; i++) {
                ASSERT(q->values[i].len <= INT32_MAX);
                values[i] = q->values[i].ptr;
                lengths[i] = (int)q->values[i].len;
                formats[i] = 1;
        }
        return PQsendQueryPrepared(c->db, name_of(index, name), (int)q->n, values, lengths, formats,
                                   1);
}

/* Sends the statement; it is prepared first, when that has not been done. */
static int ask(struct pgsql_conn *c, const struct pgsql_query *q, const struct sql_wait *w,
               struct problem *problem)
{
        int r = begin_statement(c, problem);
        if (r != OK)
                return r;
        size_t index = find_prepared(c, q->sql);
        if (index == NOT_PREPARED) {
                index = c->n_prepared;
                if (!send_prepare(c, q->sql, index))
                        return lose(c, w, ERR_IO, problem);
                r = take(c, q->sql, w, NULL, problem);
                if (r != OK)
                        return r;
                c->prepared[c->n_prepared++] = q->sql;
        }
        return send_query(c, q, index) ? OK : lose(c, w, ERR_IO, problem);
}

int pgsql_conn_run(struct pgsql_conn *c, const struct pgsql_query *q, const struct sql_wait *w,
                   struct pgsql_result *ret, struct problem *problem)
{
        if (ret)
                pgsql_result_release(ret);
        int r = ask(c, q, w, problem);
        return r == OK ? take(c, q->sql, w, ret, problem) : r;
}

int pgsql_conn_command(struct pgsql_conn *c, const char *sql, const struct sql_wait *w,
                       struct pgsql_result *ret, struct problem *problem)
{
        if (ret)
                pgsql_result_release(ret);
        int r = begin_statement(c, problem);
        if (r != OK)
                return r;
        /* Not PQsendQuery(): its rows would come as text. */
        if (!PQsendQueryParams(c->db, sql, 0, NULL, NULL, NULL, NULL, 1))
                return lose(c, w, ERR_IO, problem);
        return take(c, sql, w, ret, problem);
}

/* ---- row by row ---- */

static int give_row(const PGresult *result, const struct pgsql_rows *rows)
{
        struct slice cells[COLUMNS_MAX];
        size_t n = (size_t)PQnfields(result);
        ASSERT(n <= COLUMNS_MAX);
        for (size_t i = 0; i < n; i++)
                cells[i] = cell_of(result, 0, (int)i);
        return rows->fn(rows->ctx, cells, n);
}

int pgsql_conn_each(struct pgsql_conn *c, const struct pgsql_query *q, const struct sql_wait *w,
                    const struct pgsql_rows *rows, struct problem *problem)
{
        int given = OK, err = OK, r = ask(c, q, w, problem);
        if (r != OK)
                return r;
        int is_set = PQsetSingleRowMode(c->db);
        ASSERT(is_set); /* it was just sent */
        for (;;) {
                PGresult *result;
                r = next_result(c, w, &result, problem);
                if (r != OK)
                        return r;
                if (!result)
                        break;
                if (err == OK)
                        err = judge(c, q->sql, result, problem);
                if (err == OK && given == OK && PQresultStatus(result) == PGRES_SINGLE_TUPLE)
                        given = give_row(result, rows);
                PQclear(result);
        }
        if (is_dead(err))
                pgsql_conn_disconnect(c);
        return err != OK ? err : given;
}

/* ---- pipelines ---- */

int pgsql_pipe_begin(struct pgsql_conn *c, struct problem *problem)
{
        int r = begin_statement(c, problem);
        if (r != OK)
                return r;
        int is_on = PQenterPipelineMode(c->db);
        ASSERT(is_on); /* nothing is under way */
        c->n_items = 0;
        return OK;
}

/* That prepared, or is to be prepared in this pipeline, before the statement. */
static size_t find_in_pipe(const struct pgsql_conn *c, const char *sql)
{
        size_t index = c->n_prepared;
        for (size_t i = 0; i < c->n_items; i++) {
                if (c->items[i].prepares == sql)
                        return index;
                index += c->items[i].prepares != NULL;
        }
        return find_prepared(c, sql);
}

static size_t prepared_with_pipe(const struct pgsql_conn *c)
{
        size_t n = c->n_prepared;
        for (size_t i = 0; i < c->n_items; i++)
                n += c->items[i].prepares != NULL;
        return n;
}

int pgsql_pipe_send(struct pgsql_conn *c, const struct pgsql_query *q, const struct sql_wait *w,
                    struct problem *problem)
{
        if (!c->db)
                return problem_set(problem, ERR_IO, "there is no connection to %s", c->where);
        ASSERT(c->n_items + 2 <= ARRAY_LEN(c->items));
        size_t index = find_in_pipe(c, q->sql);
        if (index == NOT_PREPARED) {
                index = prepared_with_pipe(c);
                if (!send_prepare(c, q->sql, index))
                        return lose(c, w, ERR_IO, problem);
                c->items[c->n_items++].prepares = q->sql;
        }
        if (!send_query(c, q, index))
                return lose(c, w, ERR_IO, problem);
        c->items[c->n_items++].prepares = NULL;
        int r = exchange(c, false, w); /* so that only one statement is in memory */
        return r == OK ? OK : lose(c, w, r, problem);
}

/* What the statements gave, in their order. */
struct pipe_answers {
        uint64_t *affected;
        size_t n;
        size_t next_item, next_statement;
        int err; /* the first */
};

static void note_item(struct pgsql_conn *c, PGresult *result, struct pipe_answers *a,
                      struct problem *problem)
{
        ASSERT(a->next_item < c->n_items);
        const char *prepares = c->items[a->next_item++].prepares;
        bool is_skipped = PQresultStatus(result) == PGRES_PIPELINE_ABORTED;
        if (!is_skipped && a->err == OK)
                a->err = judge(c, prepares ? prepares : "", result, problem);
        /* A name that the server does not know is given again: those after it were skipped. */
        if (prepares && !is_skipped && a->err == OK)
                c->prepared[c->n_prepared++] = prepares;
        if (prepares)
                return;
        if (a->next_statement < a->n)
                a->affected[a->next_statement] =
                        is_skipped || a->err != OK ? 0 : affected_of(result);
        a->next_statement++;
}

/* Up to the answer to the sync, which every pipeline ends with. */
static int read_pipe(struct pgsql_conn *c, const struct sql_wait *w, struct pipe_answers *a,
                     struct problem *problem)
{
        for (;;) {
                PGresult *result;
                int r = next_result(c, w, &result, problem);
                if (r != OK)
                        return r;
                if (!result && PQstatus(c->db) == CONNECTION_BAD)
                        return lose(c, w, ERR_IO, problem);
                if (!result) /* stands after each */
                        continue;
                bool is_end = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
                if (!is_end)
                        note_item(c, result, a, problem);
                PQclear(result);
                if (is_end)
                        return OK;
                if (PQstatus(c->db) == CONNECTION_BAD)
                        return lose(c, w, ERR_IO, problem);
        }
}

static int roll_back(struct pgsql_conn *c, const struct sql_wait *w, struct problem *problem)
{
        if (PQtransactionStatus(c->db) == PQTRANS_IDLE)
                return OK;
        if (!PQsendQuery(c->db, "rollback"))
                return lose(c, w, ERR_IO, problem);
        return take(c, "rollback", w, NULL, problem);
}

int pgsql_pipe_end(struct pgsql_conn *c, const struct sql_wait *w, uint64_t *ret_affected, size_t n,
                   struct problem *problem)
{
        struct pipe_answers a = {.affected = ret_affected, .n = n};
        struct problem ignored;
        if (!c->db)
                return problem_set(problem, ERR_IO, "there is no connection to %s", c->where);
        if (!PQpipelineSync(c->db))
                return lose(c, w, ERR_IO, problem);
        int r = read_pipe(c, w, &a, problem);
        if (r != OK)
                return r;
        int is_off = PQexitPipelineMode(c->db);
        ASSERT(is_off); /* all has been read */
        if (a.err != OK && roll_back(c, w, &ignored) != OK)
                pgsql_conn_disconnect(c); /* the error that is told stays the first */
        return a.err;
}

/* ---- connecting ---- */

static void on_notice(void *ctx, const PGresult *result)
{
        struct pgsql_conn *c = ctx;
        const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
        const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        if (c->is_warned || !severity || strcmp(severity, "WARNING") != 0)
                return;
        c->is_warned = true;
        (void)snprintf(c->warning, sizeof(c->warning), "%s", text ? text : "");
}

const char *pgsql_conn_sqlstate(const struct pgsql_conn *c)
{
        return c->sqlstate;
}

const char *pgsql_conn_warning(const struct pgsql_conn *c)
{
        return c->is_warned ? c->warning : NULL;
}

void pgsql_conn_disconnect(struct pgsql_conn *c)
{
        PQfinish(c->db); /* NULL is fine; the socket does not block */
        c->db = NULL;
        c->n_prepared = 0;
}

bool pgsql_conn_is_open(const struct pgsql_conn *c)
{
        return c->db != NULL;
}

const char *pgsql_conn_where(const struct pgsql_conn *c)
{
        return c->where;
}

const char *pgsql_conn_tls(const struct pgsql_conn *c)
{
        return c->db && PQsslInUse(c->db) ? PQsslAttribute(c->db, "protocol") : NULL;
}

int pgsql_conn_version(const struct pgsql_conn *c)
{
        ASSERT(c->db);
        return PQserverVersion(c->db);
}

static int attempt(void *self, const char *address, const struct sql_wait *w,
                   struct problem *problem)
{
        struct pgsql_conn *c = self;
        const struct pgsql_dial dial = {c->login, c->session, c->where};
        return pgsql_dial(&dial, address, w, &c->db, problem);
}

int pgsql_conn_connect(struct pgsql_conn *c, const struct sql_login *login,
                       const struct sql_wait *w, struct problem *problem)
{
        pgsql_conn_disconnect(c);
        c->login = login;
        (void)server_where(&login->server, c->where); /* it returns what it was given */
        int r = server_attempt(&login->server, w, attempt, c, problem);
        if (r == OK)
                (void)PQsetNoticeReceiver(c->db, on_notice, c); /* the one before says nothing */
        return r;
}

struct pgsql_conn *pgsql_conn_new(const char *session)
{
        struct pgsql_conn *c = xcalloc(1, sizeof(*c));
        tls_setup();
        c->session = session;
        return c;
}

struct pgsql_conn *pgsql_conn_free(struct pgsql_conn *c)
{
        if (c)
                pgsql_conn_disconnect(c);
        free(c);
        return NULL;
}

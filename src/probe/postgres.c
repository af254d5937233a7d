/* PostgreSQL, through libpq's non-blocking calls: every wait has our deadline and can be ended,
 * also those of its TLS.
 *
 * A metric is one query of one row: the value, or NULL and a sentence in the second column why
 * there is none.  The built-in ones look at other people's sessions; without pg_monitor the server
 * would show them as empty and the count as 0, so they ask for the role first.
 *
 * The session is read-only, and the server ends a statement a little before our own deadline: a
 * query that hangs costs its own metric, which then rests. */
#include "probe/probe_int.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/shown.h"
#include "sql/postgres_relay.h"
#include "sql/tls.h"

#define SQL_PREFIX "sql:"
#define AS_MONITOR(value)                                                                          \
        "SELECT CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN (" value ") END, "        \
        "'a privilege is missing: GRANT pg_monitor TO ' || current_user"

/* Sessions other than ours. */
#define OTHERS        "pid <> pg_backend_pid() AND backend_type = 'client backend'"

#define MAY_SEE       "pg_has_role('pg_read_all_stats', 'USAGE')"
#define STREAMS       "EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')"
#define AS_BYTES(lsn) "pg_wal_lsn_diff(" lsn ", '0/0')"

/* Of a replica: how long ago the last transaction was made that it has replayed, which is at least
 * its lag; -1 = unknown. */
#define REPLICA_AGE                                                                                \
        "COALESCE(EXTRACT(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), -1)"
/* Where the log of the primary ends as far as the server knows, and where the replica is; see
 * behind_ns(). */
#define REPLICA_END                                                                                \
        "(SELECT GREATEST(latest_end_lsn, pg_last_wal_receive_lsn()) FROM pg_stat_wal_receiver)"
#define NO_PRIVILEGE                                                                               \
        "WHEN NOT " MAY_SEE " THEN 'a privilege is missing: GRANT pg_monitor TO ' || "             \
        "current_user "

/* Of a server that may be either.  Of a primary: the slowest of those that are connected to it, of
 * which the worst %u do not count.  It also gives a lag in seconds (replay_lag), but that stands
 * still while a replica is stuck. */
static const char lag_sql[] =
        "SELECT CASE WHEN NOT " MAY_SEE " THEN NULL "
        "WHEN pg_is_in_recovery() THEN CASE WHEN " STREAMS " THEN " REPLICA_AGE " END "
        "WHEN replay_lsn IS NULL THEN NULL ELSE -1 END, "
        "CASE " NO_PRIVILEGE
        "WHEN pg_is_in_recovery() THEN 'replication is stopped: it receives nothing' "
        "ELSE 'no replica is connected to it' END, "
        "CASE WHEN pg_is_in_recovery() THEN " AS_BYTES(REPLICA_END) " ELSE " AS_BYTES(
                "pg_current_wal_lsn()") " END, " AS_BYTES("CASE WHEN pg_is_in_recovery() THEN "
                                                          "pg_last_wal_replay_lsn() ELSE "
                                                          "replay_lsn END") " FROM (SELECT 1) AS "
                                                                            "one LEFT JOIN (SELECT "
                                                                            "replay_lsn FROM "
                                                                            "pg_stat_replication "
                                                                            "ORDER BY replay_lsn "
                                                                            "NULLS FIRST OFFSET %u "
                                                                            "LIMIT 1) AS worst ON "
                                                                            "true";

/* Asked of a configured replica: a server that is not a replica is a mistake. */
static const char replica_sql[] =
        "SELECT CASE WHEN " MAY_SEE " AND pg_is_in_recovery() AND " STREAMS " THEN " REPLICA_AGE
        " END, CASE " NO_PRIVILEGE "WHEN NOT pg_is_in_recovery() THEN 'it is not a replica' "
        "ELSE 'replication is stopped: it receives nothing' END, " AS_BYTES(
                REPLICA_END) ", " AS_BYTES("pg_last_wal_replay_lsn()");

static const struct {
        const char *metric, *sql;
} metrics[] = {
        {"active_backends", AS_MONITOR("SELECT count(*) FROM pg_stat_activity WHERE state = "
                                       "'active' AND " OTHERS)},
        {"connections_percent",
         "SELECT 100.0 * count(*) / current_setting('max_connections')::int FROM pg_stat_activity "
         "WHERE datid IS NOT NULL"},
        {"lock_waits", "SELECT count(*) FROM pg_locks WHERE NOT granted"},
        {"oldest_xmin_age_s",
         AS_MONITOR("SELECT COALESCE(EXTRACT(epoch FROM clock_timestamp() - min(began)), 0) FROM "
                    "(SELECT xact_start AS began FROM pg_stat_activity WHERE backend_xmin IS NOT "
                    "NULL AND pid <> pg_backend_pid() UNION ALL SELECT prepared FROM "
                    "pg_prepared_xacts) AS holders")},
};

/* Where the log ended, and when that was seen. */
struct seen {
        int64_t at_ns;
        double end;
};
#define SEEN_MAX 64

struct plan {
        char *sql;
        bool is_prepared; /* on this connection */
        bool is_outdated; /* and what it was prepared for is no longer so */
        bool is_lag;
        struct seen seen[SEEN_MAX]; /* oldest first */
        size_t n_seen;
        struct rest rest;
        struct reading why; /* it rests */
};

struct pg {
        const struct probe_options *options;
        const struct sql_server *server;
        bool is_replica;
        PGconn *db;
        struct pg_relay *relay; /* of that connection */
        struct plan plans[PROBE_METRICS_MAX];
        char where[WHERE_MAX];
};

/* ---- one query ---- */

/* libpq's messages have several lines; the first says it. */
static int say(struct problem *problem, int err, const char *before, const char *text)
{
        return problem_set(problem, err, "%s%.*s", before, (int)strcspn(text, "\n"), text);
}

static int wait_answer(struct pg *p, const struct sql_wait *w)
{
        int left;
        while ((left = PQflush(p->db)) > 0 || (left == 0 && PQisBusy(p->db))) {
                int r = pg_relay_wait(p->relay, w);
                if (r != OK)
                        return r;
                if (!PQconsumeInput(p->db))
                        return ERR_IO;
        }
        return left < 0 ? ERR_IO : OK;
}

static int result_problem(const PGresult *result, const struct sql_wait *w, struct problem *problem)
{
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        if (!text)
                text = PQresultErrorMessage(result);
        if (state && strcmp(state, "57014") == 0) { /* statement_timeout */
                (void)wait_problem(w, ERR_TIMEOUT, problem);
                return ERR_UNAVAIL;
        }
        if (state && strcmp(state, "42501") == 0)
                return say(problem, ERR_FORBIDDEN, "a privilege is missing: ", text);
        if (state && strcmp(state, "0A000") == 0) /* a table is no longer what was prepared for */
                return say(problem, ERR_STATE, "", text);
        if (state && strncmp(state, "57P", 3) == 0)
                return say(problem, ERR_IO, "the connection was lost: ", text);
        return say(problem, ERR_BADARG, "", text);
}

/* The last result of what was sent, and what became of it; the caller clears it. */
static int take_result(struct pg *p, const struct sql_wait *w, PGresult **ret,
                       struct problem *problem)
{
        PGresult *result;
        *ret = NULL;
        do {
                int r = wait_answer(p, w);
                if (r == ERR_IO)
                        return say(problem, ERR_IO,
                                   "the connection was lost: ", PQerrorMessage(p->db));
                if (r == ERR_TOOBIG)
                        return answer_too_long(problem);
                if (r != OK)
                        return wait_problem(w, r, problem);
                result = PQgetResult(p->db);
                if (result) {
                        PQclear(*ret);
                        *ret = result;
                }
        } while (result);
        ExecStatusType status = PQresultStatus(*ret); /* of NULL it is a failure */
        if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
                return OK;
        int r = result_problem(*ret, w, problem);
        return PQstatus(p->db) == CONNECTION_BAD ? ERR_IO : r;
}

static int lost(struct pg *p, struct problem *problem)
{
        return say(problem, ERR_IO, "the connection was lost: ", PQerrorMessage(p->db));
}

/* Else it would stay with the server for as long as the connection does. */
static int forget(struct pg *p, struct plan *plan, const char *name, const struct sql_wait *w,
                  struct problem *problem)
{
        char sql[64];
        PGresult *result;
        (void)snprintf(sql, sizeof(sql), "DEALLOCATE %s", name);
        plan->is_prepared = plan->is_outdated = false;
        if (!PQsendQuery(p->db, sql))
                return lost(p, problem);
        int r = take_result(p, w, &result, problem);
        PQclear(result);
        return r;
}

/* Prepared once per connection: planning a look at the views of the server costs more than the
 * look. */
static int run(struct pg *p, struct plan *plan, const struct sql_wait *w, PGresult **ret,
               struct problem *problem)
{
        char name[40];
        *ret = NULL;
        int r = pg_relay_question(p->relay);
        if (r != OK)
                return problem_set(problem, r, "the connection was old");
        (void)snprintf(name, sizeof(name), "weir_%zu", (size_t)(plan - p->plans));
        if (plan->is_outdated)
                r = forget(p, plan, name, w, problem);
        if (r != OK)
                return r;
        if (!plan->is_prepared) {
                if (!PQsendPrepare(p->db, name, plan->sql, 0, NULL))
                        return lost(p, problem);
                r = take_result(p, w, ret, problem);
                if (r != OK)
                        return r;
                PQclear(*ret);
                *ret = NULL;
                plan->is_prepared = true;
        }
        if (!PQsendQueryPrepared(p->db, name, 0, NULL, NULL, NULL, 0))
                return lost(p, problem);
        return take_result(p, w, ret, problem);
}

/* ---- lag ---- */

/* When there are too many, every other one goes: it is needed over seconds at first and over hours
 * when a replica is stuck.  A log that ends earlier than it did is that of another server, or of
 * one that was restored: the ends it has not come to yet are none of its own. */
static void remember(struct plan *plan, double end, int64_t now_ns)
{
        while (plan->n_seen && plan->seen[plan->n_seen - 1].end > end)
                plan->n_seen--;
        if (plan->n_seen == SEEN_MAX) {
                for (size_t i = 0; i < SEEN_MAX / 2; i++)
                        plan->seen[i] = plan->seen[2 * i];
                plan->n_seen = SEEN_MAX / 2;
        }
        plan->seen[plan->n_seen++] = (struct seen){now_ns, end};
}

/* Since when the log has been longer than the replica has come.  The age of its last transaction
 * would do while transactions keep coming; after a quiet hour it would be an hour for a moment, at
 * each.  INT64_MAX: it was behind before we came. */
static int64_t behind_ns(const struct plan *plan, double place, int64_t now_ns)
{
        size_t i = 0;
        while (i < plan->n_seen && plan->seen[i].end <= place)
                i++;
        return i == 0 ? INT64_MAX : now_ns - plan->seen[i].at_ns;
}

/* In seconds; age_s is that of the last transaction, below 0 = unknown. */
static double lag_of(struct plan *plan, double age_s, double end, double place, int64_t now_ns)
{
        remember(plan, end, now_ns);
        if (place >= end)
                return 0;
        int64_t behind = behind_ns(plan, place, now_ns);
        if (behind == INT64_MAX && age_s < 0) /* then this is all that is known */
                behind = now_ns - plan->seen[0].at_ns;
        double behind_s = (double)behind / (double)NS_PER_S;
        return age_s < 0 || behind_s < age_s ? behind_s : age_s;
}

/* The result holds the age of the last transaction; ret becomes the lag. */
static void read_lag(struct plan *plan, const PGresult *result, struct reading *ret)
{
        struct reading end, place;
        if (ret->is_error || PQnfields(result) != 4 || PQgetisnull(result, 0, 2) ||
            PQgetisnull(result, 0, 3))
                return;
        reading_set_text(&end, PQgetvalue(result, 0, 2), strlen(PQgetvalue(result, 0, 2)));
        reading_set_text(&place, PQgetvalue(result, 0, 3), strlen(PQgetvalue(result, 0, 3)));
        if (!end.is_error && !place.is_error)
                ret->value = lag_of(plan, ret->value, end.value, place.value, clock_boot_ns());
}

static void read_result(const struct pg *p, const PGresult *result, bool is_own,
                        struct reading *ret)
{
        int rows = PQntuples(result), columns = PQnfields(result);
        if (rows == 0)
                reading_fail(ret, "the query gives no row");
        else if (rows > 1 || (is_own && columns != 1))
                reading_fail(ret, "the query gives %s, not one value",
                             rows > 1 ? "more than one row" : "not exactly one column");
        else if (!PQgetisnull(result, 0, 0))
                reading_set_text(ret, PQgetvalue(result, 0, 0), strlen(PQgetvalue(result, 0, 0)));
        else if (columns > 1)
                reading_fail(ret, "%s: %s", p->where, PQgetvalue(result, 0, 1));
        else
                reading_fail(ret, "the value is NULL, not a number");
}

/* ERR_UNAVAIL: the server ended it for its time; what is left of the tick is too little for
 * another.  Any other error means that the connection cannot be used any more. */
static int ask(struct pg *p, struct plan *plan, bool is_own, const struct sql_wait *w,
               struct reading *ret)
{
        PGresult *result = NULL;
        struct problem problem = {0};
        if (!rest_is_over(&plan->rest, clock_boot_ns())) {
                *ret = plan->why;
                return OK;
        }
        int r = run(p, plan, w, &result, &problem);
        if (r == OK) {
                read_result(p, result, is_own, ret);
        } else {
                reading_fail(ret, "%s: %s", p->where, problem.detail);
                ret->is_silent = is_silence(r) || r == ERR_UNAVAIL;
        }
        plan->is_outdated = r == ERR_STATE && plan->is_prepared;
        if (r == OK && plan->is_lag)
                read_lag(plan, result, ret);
        PQclear(result);
        if (plan->is_lag && !ret->is_error && ret->value < 0)
                ret->value = 0; /* its clock is behind that of the primary */
        if (r == ERR_UNAVAIL || r == ERR_TIMEOUT || r == ERR_TOOBIG) {
                plan->why = *ret;
                rest_begin(&plan->rest, clock_boot_ns());
        } else {
                plan->rest = (struct rest){0};
        }
        return is_silence(r) || r == ERR_TOOBIG || r == ERR_UNAVAIL ? r : OK;
}

enum { PASS_BUILT_IN, PASS_OWN, PASS_SLOW, PASSES };

static bool is_own(const struct pg *p, size_t metric)
{
        const char *source = metric_source(&p->options->metrics[metric]);
        return strncmp(source, SQL_PREFIX, strlen(SQL_PREFIX)) == 0;
}

static int pass_of(const struct pg *p, size_t metric)
{
        if (rest_is_on(&p->plans[metric].rest))
                return PASS_SLOW;
        return is_own(p, metric) ? PASS_OWN : PASS_BUILT_IN;
}

/* The built-in ones first: they are quick, and a query that is not must not use up their time.
 * Those that took too long when they were last asked come last, for the same reason. */
static int ask_all(struct pg *p, const struct sql_wait *w, struct reading *ret,
                   const struct reading **ret_last)
{
        const struct probe_options *o = p->options;
        for (int pass = 0; pass < PASSES; pass++) {
                for (size_t i = 0; i < o->n_metrics; i++) {
                        if (pass_of(p, i) != pass || (p->plans[i].is_lag && o->n_replicas))
                                continue;
                        int r = ask(p, &p->plans[i], is_own(p, i), w, &ret[i]);
                        *ret_last = &ret[i];
                        if (r != OK)
                                return r;
                }
        }
        return OK;
}

static int pg_sample(void *self, const struct sql_wait *w, struct reading *ret)
{
        struct pg *p = self;
        const struct reading *last = NULL;
        int r = p->is_replica ? ask(p, &p->plans[0], false, w, &ret[0]) : ask_all(p, w, ret, &last);
        if (r == ERR_UNAVAIL)
                return OK; /* the others are asked at the next tick */
        for (size_t i = 0; r != OK && last && i < p->options->n_metrics; i++)
                if (ret[i].is_skipped)
                        ret[i] = *last;
        return r;
}

/* ---- connecting ---- */

static void pg_disconnect(void *self)
{
        struct pg *p = self;
        PQfinish(p->db);
        p->db = NULL;
        p->relay = pg_relay_end(p->relay);
}

/* The sentence for a TLS that failed; OK when it was something else. */
static int tls_problem(const struct pg *p, struct problem *problem)
{
        const char *text = PQerrorMessage(p->db);
        if (strstr(text, "server does not support SSL"))
                return tls_no_server(problem, p->where);
        if (strstr(text, "does not match host name"))
                return tls_wrong_name(problem, p->where, p->server);
        if (strstr(text, "certificate verify failed") && tls_last_code())
                return tls_bad_certificate(problem, p->where, tls_last_code());
        return OK;
}

/* libpq tells only in words why there is no connection.  These are no answer of a server. */
static bool is_no_answer(const char *text)
{
        static const char *const words[] = {
                "server closed the connection", "No route to host",         "is unreachable",
                "Connection timed out",         "Connection reset by peer", "Host is down",
        };
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                if (strstr(text, words[i]))
                        return true;
        return false;
}

/* 'connection to server at "10.0.0.2", port 5432 failed: Connection refused': the rest is ours. */
static int connect_problem(const struct pg *p, struct problem *problem)
{
        int r = tls_problem(p, problem);
        if (r != OK)
                return r;
        const char *text = PQerrorMessage(p->db), *failed = strstr(text, " failed: ");
        bool is_refused = strstr(text, "authentication failed") ||
                          strstr(text, "no password supplied") || strstr(text, "does not exist") ||
                          strstr(text, "pg_hba.conf");
        char before[WHERE_MAX + 40];
        if (failed)
                text = failed + strlen(" failed: ");
        (void)snprintf(before, sizeof(before),
                       is_refused ? "%s refuses this user or password: " : "cannot connect to %s: ",
                       p->where);
        int err = is_refused ? ERR_FORBIDDEN : is_no_answer(text) ? ERR_IO : ERR_UNAVAIL;
        return say(problem, err, before, text);
}

/* What waiting for a connection ended with. */
static int wait_connect_problem(const struct pg *p, const struct sql_wait *w, int err,
                                struct problem *problem)
{
        struct problem why;
        if (err == ERR_FORBIDDEN)
                return problem_set(problem, err,
                                   "cannot connect to %s: the server asks for the password in "
                                   "clear text, without TLS, and is not given it",
                                   p->where);
        if (err == ERR_TOOBIG)
                (void)answer_too_long(&why);
        else if (err == ERR_BADARG)
                (void)problem_set(&why, err, "what answers does not speak as PostgreSQL does");
        else if (err == ERR_IO)
                (void)problem_set(&why, err, "no descriptor is left");
        else
                (void)wait_problem(w, err, &why);
        return problem_set(problem, err, "cannot connect to %s: %s", p->where, why.detail);
}

/* libpq has sent its first bytes when it wants to read for the first time, and read none. */
static int step_connect(struct pg *p, PostgresPollingStatusType step, bool is_open,
                        const struct sql_wait *w)
{
        if (!p->relay && step == PGRES_POLLING_READING) {
                p->relay = pg_relay_begin(PQsocket(p->db), is_open);
                if (!p->relay)
                        return ERR_IO;
        }
        if (p->relay)
                return step == PGRES_POLLING_READING ? pg_relay_wait(p->relay, w) : OK;
        return wait_for(w, PQsocket(p->db), POLLOUT, NULL);
}

static int finish_connect(struct pg *p, bool is_open, const struct sql_wait *w,
                          struct problem *problem)
{
        PostgresPollingStatusType step = PGRES_POLLING_WRITING;
        while (step != PGRES_POLLING_OK) {
                if (step == PGRES_POLLING_FAILED || PQstatus(p->db) == CONNECTION_BAD)
                        return connect_problem(p, problem);
                int r = step_connect(p, step, is_open, w);
                if (r != OK)
                        return wait_connect_problem(p, w, r, problem);
                step = PQconnectPoll(p->db);
        }
        pg_relay_logged_in(p->relay);
        return PQsetnonblocking(p->db, 1) == 0 ? OK : connect_problem(p, problem);
}

/* Not libpq's "prefer": it would make a second connection by itself, past the relay. */
static const char *const sslmodes[SQL_TLS_MODES] = {
        [SQL_TLS_OFF] = "disable",
        [SQL_TLS_PREFER] = "require",
        [SQL_TLS_REQUIRE] = "require",
        [SQL_TLS_VERIFY] = "verify-full",
};

/* What a server says unasked goes nowhere; libpq would print it. */
static void on_notice(void *unused, const PGresult *result)
{
        (void)unused;
        (void)result;
}

static PGconn *start_connect(const struct pg *p, const char *address, enum sql_tls_mode mode)
{
        const struct probe_options *o = p->options;
        bool is_socket = server_is_socket(p->server);
        char port[16], options[128];
        (void)snprintf(port, sizeof(port), "%d", p->server->port);
        (void)snprintf(options, sizeof(options),
                       "-c statement_timeout=%lld -c default_transaction_read_only=on",
                       (long long)(o->timeout_ms * 9 / 10));
        const struct {
                const char *key, *value;
        } settings[] = {
                {"host", is_socket ? address : server_tls_name(p->server)},
                {"hostaddr", is_socket ? NULL : address},
                {"port", port},
                {"user", o->user},
                {"password", o->password},
                {"dbname", o->database ? o->database : "postgres"},
                {"options", options},
                {"application_name", "weir"},
                {"client_encoding", "UTF8"},
                {"gssencmode", "disable"},
                {"sslmode", sslmodes[mode]},
                {"sslrootcert", o->tls.ca},
                {"sslcert", o->tls.cert},
                {"sslkey", o->tls.key},
        };
        const char *keys[ARRAY_LEN(settings) + 1] = {0}, *values[ARRAY_LEN(settings) + 1] = {0};
        for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
                keys[i] = settings[i].key;
                values[i] = settings[i].value;
        }
        return PQconnectStartParams(keys, values, 0);
}

/* ERR_STATE: there is a server, and TLS did not come about, or this user may come only without. */
static int dial(struct pg *p, const char *address, enum sql_tls_mode mode, const struct sql_wait *w,
                struct problem *problem)
{
        bool is_plain = mode == SQL_TLS_OFF;
        tls_forget();
        p->db = start_connect(p, address, mode);
        ASSERT(p->db);
        (void)PQsetNoticeReceiver(p->db, on_notice, NULL); /* the one before is none of ours */
        int r = finish_connect(p, is_plain && !server_is_socket(p->server), w, problem);
        if (r == OK)
                return OK;
        bool is_login = r == ERR_FORBIDDEN && !strstr(PQerrorMessage(p->db), "pg_hba.conf");
        if (!is_plain && p->relay && !is_silence(r) && !is_login)
                r = ERR_STATE;
        pg_disconnect(p);
        return r;
}

static int attempt(void *self, const char *address, const struct sql_wait *w,
                   struct problem *problem)
{
        struct pg *p = self;
        enum sql_tls_mode mode = server_tls_mode(p->server, &p->options->tls);
        int r = dial(p, address, mode, w, problem);
        if (r == ERR_STATE && mode == SQL_TLS_PREFER)
                r = dial(p, address, SQL_TLS_OFF, w, problem);
        return r;
}

static int pg_connect(void *self, const struct sql_wait *w, struct problem *problem)
{
        struct pg *p = self;
        for (size_t i = 0; i < PROBE_METRICS_MAX; i++)
                p->plans[i].is_prepared = p->plans[i].is_outdated = false;
        return server_attempt(p->server, w, attempt, p, problem);
}

/* ---- open and close ---- */

static int pg_check(const char *source, struct problem *problem)
{
        if (strcmp(source, "replication_lag") == 0)
                return OK;
        for (size_t i = 0; i < ARRAY_LEN(metrics); i++)
                if (strcmp(source, metrics[i].metric) == 0)
                        return OK;
        if (strncmp(source, SQL_PREFIX, strlen(SQL_PREFIX)) == 0 &&
            sql_is_query(source + strlen(SQL_PREFIX)))
                return OK;
        return problem_set(problem, ERR_BADARG,
                           "postgres has active_backends, connections_percent, replication_lag, "
                           "lock_waits, oldest_xmin_age_s and sql:SELECT ..., not '%s'",
                           SHOWN_MAX(slice_str(source), 60));
}

/* Two rows are enough to see that there is more than one. */
static void plan_own(struct plan *plan, const char *sql)
{
        struct buf b;
        buf_init(&b, 0);
        buf_printf(&b, "SELECT * FROM (%s) AS weir_value LIMIT 2", sql);
        plan->sql = xstrdup(buf_cstr(&b));
        buf_release(&b);
}

static void make_plan(struct pg *p, size_t i)
{
        const char *source = metric_source(&p->options->metrics[i]);
        struct plan *plan = &p->plans[i];
        if (strncmp(source, SQL_PREFIX, strlen(SQL_PREFIX)) == 0) {
                plan_own(plan, source + strlen(SQL_PREFIX));
                return;
        }
        for (size_t k = 0; k < ARRAY_LEN(metrics); k++)
                if (strcmp(source, metrics[k].metric) == 0)
                        plan->sql = xstrdup(metrics[k].sql);
        if (!plan->sql) {
                struct buf b;
                buf_init(&b, 0);
                buf_printf(&b, lag_sql, p->options->ignore_replicas);
                plan->sql = xstrdup(buf_cstr(&b));
                plan->is_lag = true;
                buf_release(&b);
        }
}

static const char *pg_tls(void *self)
{
        const struct pg *p = self;
        return PQsslInUse(p->db) ? PQsslAttribute(p->db, "protocol") : NULL;
}

static void *pg_open(const struct probe_options *o, const struct sql_server *server,
                     bool is_replica)
{
        struct pg *p = xcalloc(1, sizeof(*p));
        p->options = o;
        p->server = server;
        p->is_replica = is_replica;
        (void)server_where(server, p->where);
        if (is_replica)
                p->plans[0] = (struct plan){.sql = xstrdup(replica_sql), .is_lag = true};
        for (size_t i = 0; !is_replica && i < o->n_metrics; i++)
                make_plan(p, i);
        return p;
}

static void pg_close(void *self)
{
        struct pg *p = self;
        pg_disconnect(p);
        for (size_t i = 0; i < PROBE_METRICS_MAX; i++)
                free(p->plans[i].sql);
        free(p);
}

const struct prober_ops postgres_prober = {
        .check = pg_check,
        .open = pg_open,
        .close = pg_close,
        .connect = pg_connect,
        .disconnect = pg_disconnect,
        .tls = pg_tls,
        .sample = pg_sample,
};

/* Connecting to PostgreSQL, with TLS or without, through libpq's non-blocking calls.
 *
 * libpq (15) gives the password in clear text to any server that asks for it so, also without TLS.
 * So a login over plain TCP goes through a relay (sql/postgres_relay.h), which lets no such request
 * pass, and leaves when the login is done.  Over TLS there is nobody to listen, and nothing for the
 * relay to see. */
#include "sql/postgres_connect.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "sql/postgres_relay.h"
#include "sql/tls.h"

struct attempt {
        const struct pgsql_dial *dial;
        const char *address;
        enum sql_tls_mode mode;
        PGconn *db;
        struct pg_relay *relay; /* only of a login over plain TCP */
        bool is_reached;        /* somebody has taken the connection */
};

int pgsql_say(struct problem *problem, int err, const char *before, const char *text)
{
        return problem_set(problem, err, "%s%.*s", before, (int)strcspn(text, "\n"), text);
}

/* ---- what went wrong ---- */

/* The sentence for a TLS that failed; OK when it was something else. */
static int tls_problem(const struct attempt *a, struct problem *problem)
{
        const char *text = PQerrorMessage(a->db);
        if (strstr(text, "server does not support SSL"))
                return tls_no_server(problem, a->dial->where);
        if (strstr(text, "does not match host name"))
                return tls_wrong_name(problem, a->dial->where, &a->dial->login->server);
        if (strstr(text, "certificate verify failed") && tls_last_code())
                return tls_bad_certificate(problem, a->dial->where, tls_last_code());
        return OK;
}

static bool has_one_of(const char *text, const char *const *words, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (strstr(text, words[i]))
                        return true;
        return false;
}

/* 'connection to server at "10.0.0.2", port 5432 failed: Connection refused': the rest is ours.
 * libpq tells only in words why there is no connection. */
static int connect_problem(const struct attempt *a, struct problem *problem)
{
        static const char *const refusals[] = {"authentication failed", "no password supplied",
                                               "does not exist", "pg_hba.conf"};
        static const char *const silences[] = {
                "server closed the connection", "No route to host",         "is unreachable",
                "Connection timed out",         "Connection reset by peer", "Host is down",
        };
        char before[WHERE_MAX + 40];
        const char *text = PQerrorMessage(a->db), *failed = strstr(text, " failed: ");
        int r = tls_problem(a, problem), err = ERR_UNAVAIL;
        if (r != OK)
                return r;
        if (has_one_of(text, refusals, ARRAY_LEN(refusals)))
                err = ERR_FORBIDDEN;
        else if (has_one_of(text, silences, ARRAY_LEN(silences)))
                err = ERR_IO;
        (void)snprintf(before, sizeof(before),
                       err == ERR_FORBIDDEN ? "%s refuses this user or password: "
                                            : "cannot connect to %s: ",
                       a->dial->where);
        return pgsql_say(problem, err, before, failed ? failed + strlen(" failed: ") : text);
}

/* What waiting for a connection ended with. */
static int wait_connect_problem(const struct attempt *a, const struct sql_wait *w, int err,
                                struct problem *problem)
{
        struct problem why;
        if (err == ERR_FORBIDDEN)
                return problem_set(problem, err,
                                   "cannot connect to %s: the server asks for the password in "
                                   "clear text, without TLS, and is not given it",
                                   a->dial->where);
        if (err == ERR_TOOBIG)
                (void)answer_too_long(&why);
        else if (err == ERR_BADARG)
                (void)problem_set(&why, err, "what answers does not speak as PostgreSQL does");
        else if (err == ERR_IO)
                (void)problem_set(&why, err, "no descriptor is left");
        else
                (void)wait_problem(w, err, &why);
        return problem_set(problem, err, "cannot connect to %s: %s", a->dial->where, why.detail);
}

/* ---- one try ---- */

/* Not libpq's "prefer": it would make a second connection by itself, past the relay. */
static const char *const sslmodes[SQL_TLS_MODES] = {
        [SQL_TLS_OFF] = "disable",
        [SQL_TLS_PREFER] = "require",
        [SQL_TLS_REQUIRE] = "require",
        [SQL_TLS_VERIFY] = "verify-full",
};

static PGconn *start(const struct attempt *a)
{
        const struct sql_login *l = a->dial->login;
        bool is_socket = server_is_socket(&l->server);
        char port[16];
        (void)snprintf(port, sizeof(port), "%d", l->server.port);
        const struct {
                const char *key, *value;
        } settings[] = {
                {"host", is_socket ? a->address : server_tls_name(&l->server)},
                {"hostaddr", is_socket ? NULL : a->address},
                {"port", port},
                {"user", l->user},
                {"password", l->password},
                {"dbname", l->database ? l->database : "postgres"},
                {"options", a->dial->session},
                {"application_name", "weir"},
                {"client_encoding", "UTF8"},
                {"gssencmode", "disable"},
                {"sslmode", sslmodes[a->mode]},
                {"sslrootcert", l->tls.ca},
                {"sslcert", l->tls.cert},
                {"sslkey", l->tls.key},
        };
        const char *keys[ARRAY_LEN(settings) + 1] = {0}, *values[ARRAY_LEN(settings) + 1] = {0};
        for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
                keys[i] = settings[i].key;
                values[i] = settings[i].value;
        }
        return PQconnectStartParams(keys, values, 0);
}

/* libpq has sent its first bytes when it wants to read for the first time, and read none. */
static int step(struct attempt *a, PostgresPollingStatusType wanted, const struct sql_wait *w)
{
        bool is_open = a->mode == SQL_TLS_OFF && !server_is_socket(&a->dial->login->server);
        bool is_reading = wanted == PGRES_POLLING_READING;
        if (is_open && is_reading && !a->relay) {
                a->relay = pg_relay_begin(PQsocket(a->db), true);
                if (!a->relay)
                        return ERR_IO;
        }
        a->is_reached = a->is_reached || is_reading;
        if (a->relay)
                return is_reading ? pg_relay_wait(a->relay, w) : OK;
        return wait_for(w, PQsocket(a->db), is_reading ? POLLIN : POLLOUT, NULL);
}

static int finish(struct attempt *a, const struct sql_wait *w, struct problem *problem)
{
        PostgresPollingStatusType wanted = PGRES_POLLING_WRITING;
        while (wanted != PGRES_POLLING_OK) {
                if (wanted == PGRES_POLLING_FAILED || PQstatus(a->db) == CONNECTION_BAD)
                        return connect_problem(a, problem);
                int r = step(a, wanted, w);
                if (r != OK)
                        return wait_connect_problem(a, w, r, problem);
                wanted = PQconnectPoll(a->db);
        }
        if (a->relay && !pg_relay_leave(&a->relay))
                return wait_connect_problem(a, w, ERR_BADARG, problem);
        return PQsetnonblocking(a->db, 1) == 0 ? OK : connect_problem(a, problem);
}

/* What a server says while it is logged in to goes nowhere; libpq would print it. */
static void on_notice(void *unused, const PGresult *result)
{
        (void)unused;
        (void)result;
}

/* ERR_STATE: there is a server, and TLS did not come about, or this user may come only without. */
static int dial(struct attempt a, const struct sql_wait *w, PGconn **ret, struct problem *problem)
{
        tls_forget();
        a.db = start(&a);
        ASSERT(a.db);                                     /* NULL for want of memory alone */
        (void)PQsetNoticeReceiver(a.db, on_notice, NULL); /* the one before is none of ours */
        int r = finish(&a, w, problem);
        if (r == OK) {
                *ret = a.db;
                return OK;
        }
        bool is_login = r == ERR_FORBIDDEN && !strstr(PQerrorMessage(a.db), "pg_hba.conf");
        bool is_silent = r == ERR_IO || r == ERR_TIMEOUT || r == ERR_STOPPING;
        if (a.mode == SQL_TLS_PREFER && a.is_reached && !is_silent && !is_login)
                r = ERR_STATE;
        PQfinish(a.db);
        (void)pg_relay_end(a.relay); /* NULL */
        return r;
}

int pgsql_dial(const struct pgsql_dial *d, const char *address, const struct sql_wait *w,
               PGconn **ret, struct problem *problem)
{
        struct attempt a = {.dial = d,
                            .address = address,
                            .mode = server_tls_mode(&d->login->server, &d->login->tls)};
        int r = dial(a, w, ret, problem);
        if (r != ERR_STATE)
                return r;
        a.mode = SQL_TLS_OFF;
        return dial(a, w, ret, problem);
}

/* Connecting to MySQL and MariaDB, with TLS or without.
 *
 * Three things about libmariadb's TLS (3.3) shape this file:
 *
 * 1. Its handshake waits for the server by itself, inside a call that otherwise never blocks, and
 *    for as long as the server likes.  So a cutoff cuts the socket off when our time is over.
 * 2. It leaves the socket blocking and reads plain data with a flag for that, encrypted data with
 *    none.  So the socket is told not to block, once the cutoff has gone.
 * 3. The certificate is compared with the `host` we give, and we give an address, because a name
 *    would be looked up, which blocks.  The library reads `host` where we keep it: once for the
 *    address, before its first pause, and again when the server has greeted.  So the name is put
 *    in its place between the two.  A library that copied it early would refuse the certificate.
 *
 * With `verify` it ends by itself where the server has no TLS; with `require` the watch of
 * mysql_auth.c does that, in either case before the login.  `require` keeps out only who listens,
 * not who answers in place of the server. */
#include "sql/mysql_connect.h"

#include <errmsg.h>
#include <fcntl.h>
#include <mysql.h>
#include <mysqld_error.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/banned.h" /* late: see the Makefile */
#include "sql/tls.h"

int my_wait(MYSQL *db, int status, const struct sql_wait *w, int *ret)
{
        short events = 0, got = 0;
        if (status & MYSQL_WAIT_READ)
                events |= POLLIN;
        if (status & MYSQL_WAIT_WRITE)
                events |= POLLOUT;
        if (status & MYSQL_WAIT_EXCEPT)
                events |= POLLPRI;
        int r = wait_for(w, (int)mysql_get_socket(db), events, &got);
        *ret = 0;
        if (got & (POLLIN | POLLHUP | POLLERR))
                *ret |= MYSQL_WAIT_READ;
        if (got & (POLLOUT | POLLHUP | POLLERR))
                *ret |= MYSQL_WAIT_WRITE;
        if (got & POLLPRI)
                *ret |= MYSQL_WAIT_EXCEPT;
        *ret &= status; /* only what was waited for */
        return r;
}

MYSQL *my_hang_up(MYSQL *db)
{
        if (!db)
                return NULL;
        /* Nothing that closing wants to send may wait: the server may be out of reach. */
        if (mysql_get_socket(db) != MARIADB_INVALID_SOCKET)
                (void)shutdown((int)mysql_get_socket(db), SHUT_RDWR); /* fine when it is lost */
        mysql_close(db);
        return NULL;
}

/* ---- what went wrong ---- */

/* "TLS/SSL error: unsupported protocol" */
static int tls_problem(const struct my_dial *d, const char *text, enum sql_tls_mode mode,
                       struct problem *problem)
{
        const char *colon = strstr(text, ": ");
        const char *why = colon ? colon + 2 : text;
        if (strstr(why, "SSL is required"))
                return tls_no_server(problem, d->where);
        if (strstr(why, "Validation of SSL server certificate failed"))
                return tls_wrong_name(problem, d->where, &d->login->server);
        if (mode == SQL_TLS_VERIFY && tls_last_code())
                return tls_bad_certificate(problem, d->where, tls_last_code());
        return problem_set(problem, ERR_UNAVAIL, "cannot connect to %s: TLS failed: %s", d->where,
                           why);
}

static int connect_problem(const struct my_dial *d, MYSQL *db, bool is_plain,
                           struct problem *problem)
{
        static const char unsure[] = "cannot be verified: "; /* said before TLS was there */
        const char *text = mysql_error(db), *at = strrchr(text, '(');
        unsigned number = mysql_errno(db);
        long error = at ? strtol(at + 1, NULL, 10) : 0;
        const char *after = strstr(text, unsure);
        if (after)
                return problem_set(problem, ERR_UNAVAIL, "cannot connect to %s: %s", d->where,
                                   after + strlen(unsure));
        /* "Can't connect to server on '127.0.0.1' (111)": people do not know error numbers by
         * heart. */
        if ((number == CR_CONN_HOST_ERROR || number == CR_CONNECTION_ERROR) && error > 0)
                return problem_set(problem, is_nobody_there((int)error) ? ERR_UNAVAIL : ERR_IO,
                                   "cannot connect to %s: %s", d->where, strerror((int)error));
        if (number == CR_PLUGIN_NOT_ALLOWED || number == CR_AUTH_PLUGIN_CANNOT_LOAD)
                return problem_set(problem, ERR_FORBIDDEN,
                                   "cannot connect to %s: the server asks for a login that may "
                                   "not be used: only native, ed25519 and caching_sha2 are",
                                   d->where);
        if (number == CR_AUTH_PLUGIN_ERR)
                return problem_set(problem, ERR_FORBIDDEN, "cannot connect to %s: %s", d->where,
                                   text);
        if (number == ER_ACCESS_DENIED_ERROR || number == ER_ACCESS_DENIED_NO_PASSWORD_ERROR)
                /* MariaDB says no more than this to who must use TLS and does not. */
                return problem_set(problem, ERR_FORBIDDEN, "%s refuses this user or password: %s%s",
                                   d->where, text, is_plain ? ", without TLS" : "");
        return problem_set(problem, number == CR_SERVER_LOST ? ERR_IO : ERR_UNAVAIL,
                           "cannot connect to %s: %s", d->where, text);
}

static int not_in_time(const struct my_dial *d, const struct sql_wait *w, int err,
                       struct problem *problem)
{
        struct problem why;
        (void)wait_problem(w, err, &why);
        return problem_set(problem, err, "cannot connect to %s: %s", d->where, why.detail);
}

static int watch_problem(const struct my_dial *d, int err, struct problem *problem)
{
        struct problem why;
        if (err == ERR_STATE)
                return tls_no_server(problem, d->where);
        if (err == ERR_TOOBIG)
                (void)answer_too_long(&why);
        else
                (void)problem_set(&why, err, "what answers does not speak as MySQL does");
        return problem_set(problem, ERR_UNAVAIL, "cannot connect to %s: %s", d->where, why.detail);
}

/* ---- one try ---- */

#define PACKET_MAX (1024 * MIB - 1) /* of the library */

static void set_options(MYSQL *db, bool is_socket, uint64_t answer_max)
{
        unsigned protocol = is_socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
        unsigned long packet = answer_max < PACKET_MAX ? answer_max : PACKET_MAX;
        unsigned infile = 0;
        /* None of these fails but for want of memory. */
        (void)mysql_options(db, MYSQL_OPT_NONBLOCK, NULL);
        (void)mysql_options(db, MYSQL_OPT_PROTOCOL, &protocol);
        (void)mysql_options(db, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet);
        (void)mysql_options(db, MYSQL_OPT_LOCAL_INFILE, &infile);
        my_auth_restrict(db);
        (void)mysql_options(db, MYSQL_SET_CHARSET_NAME, "utf8mb4");
        (void)mysql_options4(db, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "weir");
}

/* Both switches are set in either case: versions of the library differ in what they do unasked. */
static void set_tls(MYSQL *db, const struct sql_tls *tls, enum sql_tls_mode mode)
{
        my_bool is_on = mode != SQL_TLS_OFF, is_verified = mode == SQL_TLS_VERIFY;
        /* None of these fails but for want of memory. */
        (void)mysql_options(db, MYSQL_OPT_SSL_ENFORCE, &is_on);
        (void)mysql_options(db, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &is_verified);
        if (is_on)
                (void)mysql_ssl_set(db, tls->key, tls->cert, is_verified ? tls->ca : NULL, NULL,
                                    NULL);
}

struct attempt {
        const struct my_dial *dial;
        const char *address;
        enum sql_tls_mode mode;
        MYSQL *db;
        char *host; /* the library's: the address, then the name */
};

/* What to wait for; 0: it has failed at once. */
static int start(struct attempt *a, MYSQL **ret_done)
{
        const struct sql_login *l = a->dial->login;
        const struct sql_server *s = &l->server;
        bool is_socket = server_is_socket(s);
        const char *name = server_tls_name(s);
        size_t size = strlen(a->address) + strlen(name) + 1;
        a->host = xmalloc(size);
        (void)snprintf(a->host, size, "%s", a->address);
        set_options(a->db, is_socket, a->dial->answer_max);
        set_tls(a->db, &l->tls, a->mode);
        int status = mysql_real_connect_start(ret_done, a->db, is_socket ? NULL : a->host, l->user,
                                              l->password, l->database, (unsigned)s->port,
                                              is_socket ? a->address : NULL, 0);
        if (status && a->mode == SQL_TLS_VERIFY)
                (void)snprintf(a->host, size, "%s", name);
        return status;
}

static int finish(const struct attempt *a, int status, const struct sql_wait *w, MYSQL **ret_done)
{
        int ready;
        while (status) {
                int r = my_wait(a->db, status, w, &ready);
                if (r != OK)
                        return r;
                status = mysql_real_connect_cont(ret_done, a->db, ready);
        }
        return OK;
}

/* ERR_STATE: TLS did not come about. */
static int judge(const struct attempt *a, bool is_done, struct problem *problem)
{
        bool is_plain = a->mode == SQL_TLS_OFF && !server_is_socket(&a->dial->login->server);
        if (!is_done && mysql_errno(a->db) == CR_SSL_CONNECTION_ERROR) {
                (void)tls_problem(a->dial, mysql_error(a->db), a->mode, problem);
                return ERR_STATE;
        }
        if (!is_done)
                return connect_problem(a->dial, a->db, is_plain, problem);
        ASSERT(a->mode < SQL_TLS_REQUIRE || mysql_get_ssl_cipher(a->db));
        int fd = (int)mysql_get_socket(a->db); /* a valid one: neither call fails */
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
        return OK;
}

static int run(struct attempt *a, const struct sql_wait *w, struct problem *problem)
{
        MYSQL *done = NULL;
        struct cutoff *cutoff = NULL;
        tls_forget();
        my_watch_begin(w, false, a->mode >= SQL_TLS_REQUIRE);
        int status = start(a, &done), cut = OK;
        if (status && a->mode != SQL_TLS_OFF) {
                cutoff = cutoff_begin(w, (int)mysql_get_socket(a->db));
                if (!cutoff) {
                        (void)my_watch_end();
                        return problem_set(
                                problem, ERR_IO,
                                "cannot connect to %s: no thread is left to watch over it",
                                a->dial->where);
                }
        }
        int r = finish(a, status, w, &done), watched = my_watch_end();
        if (cutoff)
                cut = cutoff_end(cutoff);
        if (watched != OK && watched != ERR_TIMEOUT)
                return watch_problem(a->dial, watched, problem);
        if (cut == OK && r == OK)
                r = watched;
        if (cut != OK || r != OK)
                return not_in_time(a->dial, w, cut != OK ? cut : r, problem);
        return judge(a, done, problem);
}

static int dial(struct attempt a, const struct sql_wait *w, MYSQL **ret, struct problem *problem)
{
        a.db = mysql_init(NULL);
        ASSERT(a.db);
        int r = run(&a, w, problem);
        *ret = r == OK ? a.db : my_hang_up(a.db);
        free(a.host);
        return r;
}

int my_dial(const struct my_dial *d, const char *address, const struct sql_wait *w, MYSQL **ret,
            struct problem *problem)
{
        struct attempt a = {.dial = d,
                            .address = address,
                            .mode = server_tls_mode(&d->login->server, &d->login->tls)};
        int r = dial(a, w, ret, problem);
        if (r != ERR_STATE || a.mode != SQL_TLS_PREFER)
                return r;
        a.mode = SQL_TLS_OFF;
        return dial(a, w, ret, problem);
}

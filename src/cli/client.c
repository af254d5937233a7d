/* The blocking client of the command line.
 *
 * Sockets are non-blocking underneath and waited for with poll(), so that every step has a
 * deadline: a server that is stopped, or that is no weir at all, must not hang a cron job.  All
 * the addresses of a name are tried in turn.
 *
 * The token goes first (AUTH), then HELLO 3, in one write: two round trips become one.
 *
 * With TLS, c->out and c->in stay plain: send_all() and take_input() are the only places that know.
 */
#include "cli/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

#define SEND_BYTES      (64 * KIB)   /* small requests are collected up to this */
#define REPLY_MAX_BYTES (2048 * MIB) /* 1,000 listed jobs of 1 MiB args and 1 MiB result */
#define TAKE_BYTES      (16 * KIB)   /* a whole record of TLS */

void client_init(struct client *c, const struct server_url *url)
{
        *c = (struct client){.fd = -1, .url = url};
        buf_init(&c->out, 0);
        buf_init(&c->in, REPLY_MAX_BYTES);
        arena_init(&c->arena, REPLY_MAX_BYTES);
}

/* What TLS still has to tell the server: goodbye, or why its certificate is refused.  As far as the
 * socket takes it at once; a server that does not hear it sees the end of the connection. */
static void send_last_words(struct client *c)
{
        tls_client_end(c->tls);
        const struct buf *out = tls_client_out(c->tls);
        if (out->len)
                (void)send(c->fd, out->ptr, out->len, MSG_NOSIGNAL);
}

void client_hang_up(struct client *c)
{
        if (c->tls)
                send_last_words(c);
        c->tls = tls_client_free(c->tls);
        if (c->fd >= 0)
                (void)close(c->fd);
        c->fd = -1;
        buf_clear(&c->in);
        c->in_used = 0;
}

void client_release(struct client *c)
{
        client_hang_up(c);
        buf_release(&c->out);
        buf_release(&c->in);
        arena_release(&c->arena);
}

static int connect_problem(const struct server_url *url, int error, struct problem *p)
{
        if (url->is_unix && error == ENOENT)
                return problem_set(p, ERR_UNAVAIL,
                                   "there is no socket %s: is weir running with --resp %s? Or name "
                                   "another with --url",
                                   url->text, url->text);
        if (error == ECONNREFUSED)
                return problem_set(p, ERR_UNAVAIL,
                                   "nothing answers on %s: is it running? start it with 'weir "
                                   "serve', or name another with --url",
                                   url->text);
        if (error == EACCES || error == EPERM)
                return problem_set(p, ERR_FORBIDDEN,
                                   "no permission to use %s: run as a user who may", url->text);
        if (error == ETIMEDOUT)
                return problem_set(p, ERR_TIMEOUT,
                                   "%s does not answer: is the address right, and no firewall in "
                                   "between?",
                                   url->text);
        return problem_set(p, ERR_UNAVAIL, "cannot connect to %s: %s", url->text, strerror(error));
}

/* 0, or an errno; ETIMEDOUT when the deadline passed. */
static int wait_for(int fd, short events, int64_t deadline_ns)
{
        for (;;) {
                int64_t left_ns = deadline_ns - clock_boot_ns();
                if (left_ns <= 0)
                        return ETIMEDOUT;
                struct pollfd pfd = {.fd = fd, .events = events};
                int n = poll(&pfd, 1, (int)(left_ns / NS_PER_MS) + 1);
                if (n > 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return errno;
        }
}

/* A connected socket, or a negative errno. */
static int dial(const struct sockaddr *addr, socklen_t len)
{
        int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        int error = connect(fd, addr, len) == 0 ? 0 : errno;
        if (error == EINPROGRESS) {
                socklen_t size = sizeof(error);
                error = wait_for(fd, POLLOUT, clock_boot_ns() + CLIENT_CONNECT_MS * NS_PER_MS);
                if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
                        error = errno;
        }
        if (error) {
                (void)close(fd);
                return -error;
        }
        if (addr->sa_family != AF_UNIX) {
                int on = 1;
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        }
        return fd;
}

/* Connects to the socket path, or to the first address of the host that answers. */
static int dial_url(struct client *c, struct problem *p)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        char port[8];
        if (c->url->is_unix) {
                _Static_assert(sizeof(addr.sun_path) >= sizeof(c->url->path), "a path fits");
                memcpy(addr.sun_path, c->url->path, sizeof(c->url->path));
                c->fd = dial((const struct sockaddr *)&addr, sizeof(addr));
                return c->fd >= 0 ? OK : connect_problem(c->url, -c->fd, p);
        }
        (void)snprintf(port, sizeof(port), "%u", (unsigned)c->url->port);
        int r = getaddrinfo(c->url->host, port, &hints, &all);
        if (r != 0)
                return problem_set(p, ERR_UNAVAIL, "cannot find the host '%s': %s", c->url->host,
                                   gai_strerror(r));
        c->fd = -EADDRNOTAVAIL;
        for (struct addrinfo *a = all; a && c->fd < 0; a = a->ai_next)
                c->fd = dial(a->ai_addr, a->ai_addrlen);
        freeaddrinfo(all);
        return c->fd >= 0 ? OK : connect_problem(c->url, -c->fd, p);
}

static int lost_problem(const struct client *c, int error, struct problem *p)
{
        bool is_cut = error == 0 || error == EPIPE || error == ECONNRESET;
        if (c->tls && !tls_client_is_up(c->tls) && (is_cut || error == ETIMEDOUT))
                return is_cut ? tls_client_cut(c->tls, p) : tls_client_silent(c->tls, p);
        if (error == ETIMEDOUT)
                return problem_set(p, ERR_TIMEOUT, "%s took the connection but gives no answer",
                                   c->url->text);
        if (is_cut && c->is_greeting && !c->tls && !c->url->is_unix)
                return problem_set(p, ERR_UNAVAIL,
                                   "%s closed the connection before it answered: if it is a TLS "
                                   "port, use rediss://%s",
                                   c->url->text, c->url->text);
        if (is_cut)
                return problem_set(p, ERR_UNAVAIL,
                                   "%s closed the connection before it answered; whether it did "
                                   "what was asked is not known",
                                   c->url->text);
        return problem_set(p, ERR_IO, "connection to %s: %s", c->url->text, strerror(error));
}

static void forget_last_reply(struct client *c)
{
        buf_drop_front(&c->in, c->in_used);
        c->in_used = 0;
}

/* Moves the bytes that have come, if any, to c->in; an error at the end of the connection.
 * *ret_is_more: there were some. */
static int take_input(struct client *c, bool *ret_is_more, struct problem *p)
{
        char room[TAKE_BYTES];
        *ret_is_more = false;
        if (!buf_reserve(&c->in, TAKE_BYTES))
                return problem_set(p, ERR_TOOBIG, "the answer is larger than %llu MiB",
                                   (unsigned long long)(REPLY_MAX_BYTES / MIB));
        ssize_t n = c->tls ? recv(c->fd, room, sizeof(room), 0)
                           : recv(c->fd, c->in.ptr + c->in.len, c->in.cap - c->in.len, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                return lost_problem(c, n == 0 ? 0 : errno, p);
        if (n < 0)
                return OK;
        *ret_is_more = true;
        if (c->tls)
                return tls_client_take(c->tls, slice_make(room, (size_t)n), &c->in, p);
        c->in.len += (size_t)n;
        return OK;
}

/* Sends c->out, and empties it.  Replies are taken in meanwhile: a server with too much
 * unsent output stops reading, and both sides would wait for ever.  A server that closes while
 * something is sent to it may have said why. */
static int send_all(struct client *c, int64_t deadline_ns, struct problem *p)
{
        struct buf *out = c->tls ? tls_client_out(c->tls) : &c->out;
        size_t at = 0;
        if (c->out.failed)
                return problem_set(p, ERR_NOMEM, "no memory for the request");
        forget_last_reply(c);
        int r = c->tls && c->out.len ? tls_client_put(c->tls, buf_slice(&c->out), p) : OK;
        while (r == OK && at < out->len) {
                ssize_t n = send(c->fd, out->ptr + at, out->len - at, MSG_NOSIGNAL);
                int error = n < 0 ? errno : 0;
                bool is_more = true;
                if (n > 0)
                        at += (size_t)n;
                if (error == EAGAIN) {
                        error = wait_for(c->fd, POLLOUT | POLLIN, deadline_ns);
                        r = error ? OK : take_input(c, &is_more, p);
                } else if (c->tls && (error == EPIPE || error == ECONNRESET)) {
                        while (r == OK && is_more)
                                r = take_input(c, &is_more, p);
                }
                if (r == OK && error && error != EINTR)
                        r = lost_problem(c, error, p);
        }
        buf_clear(out);
        buf_clear(&c->out);
        return r;
}

static int foreign_problem(const struct client *c, struct problem *p)
{
        if (c->in.len >= 5 && memcmp(c->in.ptr, "HTTP/", 5) == 0)
                return problem_set(p, ERR_SYNTAX,
                                   "%s speaks HTTP: name the RESP address, usually port %d",
                                   c->url->text, SERVER_PORT_DEFAULT);
        if (c->in.len >= 2 && !c->tls && memcmp(c->in.ptr, "\x15\x03", 2) == 0) /* an alert */
                return problem_set(p, ERR_SYNTAX, "%s speaks TLS: use rediss://%s", c->url->text,
                                   c->url->text);
        return problem_set(p, ERR_SYNTAX, "what answers on %s is no weir", c->url->text);
}

static int receive_value(struct client *c, int64_t deadline_ns, const struct value **ret,
                         struct problem *p)
{
        struct value_scan scan;
        struct value *v = NULL;
        value_scan_init(&scan);
        for (;;) {
                int r = value_scan(&scan, buf_slice(&c->in));
                if (r < 0)
                        return foreign_problem(c, p);
                if (r == 1)
                        break;
                if (c->tls && tls_client_is_ended(c->tls))
                        return lost_problem(c, 0, p);
                bool is_more;
                r = take_input(c, &is_more, p);
                int error = r == OK && !is_more ? wait_for(c->fd, POLLIN, deadline_ns) : 0;
                if (r != OK || error)
                        return r != OK ? r : lost_problem(c, error, p);
        }
        c->in_used = scan.at;
        arena_clear(&c->arena);
        int r = value_parse(slice_make(c->in.ptr, scan.at), &c->arena, &v);
        if (r != OK)
                return problem_set(p, r, "the answer of %s cannot be read: %s", c->url->text,
                                   err_text(r));
        *ret = v;
        return v->type == VALUE_ERROR ? value_problem(v, p) : OK;
}

static int secure(struct client *c, struct problem *p)
{
        int64_t deadline_ns = clock_boot_ns() + CLIENT_CONNECT_MS * NS_PER_MS;
        int r = tls_client_new(c->url, &c->tls, p);
        buf_clear(&c->out);
        if (r == OK)
                r = send_all(c, deadline_ns, p);
        while (r == OK && !tls_client_is_up(c->tls)) {
                int error = wait_for(c->fd, POLLIN, deadline_ns);
                bool is_more;
                r = error ? lost_problem(c, error, p) : take_input(c, &is_more, p);
                if (r == OK)
                        r = send_all(c, deadline_ns, p);
        }
        return r;
}

static int greet(struct client *c, struct problem *p)
{
        const struct slice hello[] = {SLICE_LIT("HELLO"), SLICE_LIT("3")};
        int64_t deadline_ns = clock_boot_ns() + CLIENT_CONNECT_MS * NS_PER_MS;
        struct slice auth[SERVER_AUTH_WORDS];
        size_t n_auth = server_url_auth(c->url, auth);
        bool has_token = n_auth > 0;
        const struct value *v;
        buf_clear(&c->out);
        if (has_token)
                value_put_command(&c->out, auth, n_auth);
        value_put_command(&c->out, hello, 2);
        int r = send_all(c, deadline_ns, p);
        buf_clear(&c->out);
        for (int i = has_token ? 0 : 1; i < 2 && r == OK; i++) {
                forget_last_reply(c);
                r = receive_value(c, deadline_ns, &v, p);
                if (i == 0 && r == ERR_BADARG) /* a token is not needed there: fine */
                        r = OK;
        }
        if (r == ERR_NOAUTH)
                return problem_set(p, r, "%s wants a token: set WEIR_TOKEN or use --token @FILE",
                                   c->url->text);
        return r;
}

int client_connect(struct client *c, struct problem *p)
{
        int r = dial_url(c, p);
        if (r == OK && c->url->is_tls)
                r = secure(c, p);
        c->is_greeting = true;
        if (r == OK)
                r = greet(c, p);
        c->is_greeting = false;
        if (r != OK)
                client_hang_up(c);
        return r;
}

int client_send(struct client *c, const struct slice *argv, size_t argc, struct problem *p)
{
        ASSERT(c->fd >= 0);
        value_put_command(&c->out, argv, argc);
        return c->out.len < SEND_BYTES
                       ? OK
                       : send_all(c, clock_boot_ns() + CLIENT_REPLY_MS * NS_PER_MS, p);
}

int client_receive(struct client *c, const struct value **ret, struct problem *p)
{
        int r = send_all(c, clock_boot_ns() + CLIENT_REPLY_MS * NS_PER_MS, p);
        if (r != OK)
                return r;
        return receive_value(c, clock_boot_ns() + CLIENT_REPLY_MS * NS_PER_MS, ret, p);
}

int client_call_within(struct client *c, const struct slice *argv, size_t argc, int64_t reply_ms,
                       const struct value **ret, struct problem *p)
{
        int64_t deadline_ns = clock_boot_ns() + reply_ms * NS_PER_MS;
        ASSERT(c->fd >= 0);
        buf_clear(&c->out);
        value_put_command(&c->out, argv, argc);
        int r = send_all(c, deadline_ns, p);
        buf_clear(&c->out); /* after an error too */
        return r == OK ? receive_value(c, deadline_ns, ret, p) : r;
}

int client_call(struct client *c, const struct slice *argv, size_t argc, const struct value **ret,
                struct problem *p)
{
        return client_call_within(c, argv, argc, CLIENT_REPLY_MS, ret, p);
}

/* The blocking client of the command line.
 *
 * Sockets are non-blocking underneath and waited for with poll(), so that every step has a
 * deadline: a server that is stopped, or that is no weir at all, must not hang a cron job.  All
 * the addresses of a name are tried in turn.
 *
 * The token goes first (AUTH), then HELLO 3, in one write: two round trips become one. */
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

void client_init(struct client *c, const struct server_url *url)
{
        *c = (struct client){.fd = -1, .url = url};
        buf_init(&c->out, 0);
        buf_init(&c->in, REPLY_MAX_BYTES);
        arena_init(&c->arena, REPLY_MAX_BYTES);
}

void client_hang_up(struct client *c)
{
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
        if (error == ETIMEDOUT)
                return problem_set(p, ERR_TIMEOUT, "%s took the connection but gives no answer",
                                   c->url->text);
        if (error == 0 || error == EPIPE || error == ECONNRESET)
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

/* Moves the bytes that have come, if any, to c->in; an error at the end of the connection. */
static int take_input(struct client *c, struct problem *p)
{
        if (!buf_reserve(&c->in, 16384))
                return problem_set(p, ERR_TOOBIG, "the answer is larger than %llu MiB",
                                   (unsigned long long)(REPLY_MAX_BYTES / MIB));
        ssize_t n = recv(c->fd, c->in.ptr + c->in.len, c->in.cap - c->in.len, 0);
        if (n > 0)
                c->in.len += (size_t)n;
        bool is_lost = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
        return is_lost ? lost_problem(c, n == 0 ? 0 : errno, p) : OK;
}

/* Sends c->out, and empties it on success.  Replies are taken in meanwhile: a server with too much
 * unsent output stops reading, and both sides would wait for ever. */
static int send_all(struct client *c, int64_t deadline_ns, struct problem *p)
{
        size_t at = 0;
        if (c->out.failed)
                return problem_set(p, ERR_NOMEM, "no memory for the request");
        forget_last_reply(c);
        while (at < c->out.len) {
                ssize_t n = send(c->fd, c->out.ptr + at, c->out.len - at, MSG_NOSIGNAL);
                int error = n < 0 ? errno : 0;
                if (n > 0)
                        at += (size_t)n;
                if (error == EAGAIN) {
                        error = wait_for(c->fd, POLLOUT | POLLIN, deadline_ns);
                        int r = error ? OK : take_input(c, p);
                        if (r != OK)
                                return r;
                }
                if (error && error != EINTR)
                        return lost_problem(c, error, p);
        }
        buf_clear(&c->out);
        return OK;
}

static int foreign_problem(const struct client *c, struct problem *p)
{
        if (c->in.len >= 5 && memcmp(c->in.ptr, "HTTP/", 5) == 0)
                return problem_set(p, ERR_SYNTAX,
                                   "%s speaks HTTP: name the RESP address, usually port %d",
                                   c->url->text, SERVER_PORT_DEFAULT);
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
                size_t had = c->in.len;
                r = take_input(c, p);
                int error = r == OK && c->in.len == had ? wait_for(c->fd, POLLIN, deadline_ns) : 0;
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

static int greet(struct client *c, struct problem *p)
{
        const struct slice auth[] = {SLICE_LIT("AUTH"), slice_str(c->url->token)};
        const struct slice hello[] = {SLICE_LIT("HELLO"), SLICE_LIT("3")};
        int64_t deadline_ns = clock_boot_ns() + CLIENT_CONNECT_MS * NS_PER_MS;
        bool has_token = c->url->token[0] != '\0';
        const struct value *v;
        buf_clear(&c->out);
        if (has_token)
                value_put_command(&c->out, auth, 2);
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
        if (r == OK)
                r = greet(c, p);
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

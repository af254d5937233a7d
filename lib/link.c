/* A socket that cannot hang.
 *
 * It is non-blocking, and ppoll() waits for it against a deadline on CLOCK_BOOTTIME: a machine
 * that slept through the deadline finds it passed.  MSG_NOSIGNAL keeps SIGPIPE away without
 * touching the program's signals.
 *
 * The first question on a connection carries AUTH in front of it, in the same write: one round
 * trip, not two.  RESP2 is enough for a CHECK, so there is no HELLO.
 *
 * Before a question is sent on a connection that has lain idle, one recv() looks whether the other
 * side has hung up or said something unasked.  Bytes from before the question must never be taken
 * for its answer, and a daemon that was restarted costs no failed question.
 *
 * With TLS, l->out and l->in stay plain; send_all() and receive_some() are the only places that
 * know. A close says no goodbye: after fork() the child must not end the connection of its parent.
 *
 * What is not bounded here: getaddrinfo(), which has the resolver's own timeout.  Where that
 * matters, give an address or a unix socket. */
#include "link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A CHECK's answer has at most a few hundred bytes, an error line 64 KiB. */
#define REPLY_MAX_BYTES (128 * KIB)
#define RECEIVE_BYTES   2048

int64_t link_now_ns(void)
{
        struct timespec ts = {0};

        if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0) /* a kernel before 2.6.39 */
                (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

void link_init(struct link *l)
{
        *l = (struct link){.fd = -1};
        buf_init(&l->out, REPLY_MAX_BYTES);
        buf_init(&l->in, REPLY_MAX_BYTES);
        arena_init(&l->arena, 0); /* what is read is bounded, and so is what is made of it */
}

void link_close(struct link *l)
{
        if (l->fd >= 0)
                (void)close(l->fd);
        l->fd = -1;
        l->tls = tls_client_free(l->tls);
        buf_clear(&l->in);
        l->in_at = 0;
}

void link_release(struct link *l)
{
        link_close(l);
        buf_release(&l->out);
        buf_release(&l->in);
        arena_release(&l->arena);
        explicit_bzero(l->url.token, sizeof(l->url.token));
}

/* 0 or an errno: ETIMEDOUT when the deadline passed, EINTR only if is_interruptible. */
static int wait_for(int fd, short events, int64_t deadline_ns, bool is_interruptible)
{
        for (;;) {
                int64_t left_ns = deadline_ns - link_now_ns();
                if (left_ns <= 0)
                        return ETIMEDOUT;
                struct pollfd pfd = {.fd = fd, .events = events};
                struct timespec left = {left_ns / NS_PER_S, left_ns % NS_PER_S};
                int n = ppoll(&pfd, fd >= 0, &left, NULL);
                if (n > 0)
                        return 0;
                if (n < 0 && (errno != EINTR || is_interruptible))
                        return errno;
        }
}

int link_sleep(const struct link *l, int64_t until_ns)
{
        return wait_for(-1, 0, until_ns, l->is_interruptible) == EINTR ? WEIR_EINTR : WEIR_OK;
}

/* strerror() may share its buffer between threads; this is GNU's strerror_r, which returns the
 * text. */
#define ERRNO_TEXT(error) strerror_r((error), (char[128]){0}, 128)

static int connect_trouble(struct link *l, int error)
{
        const char *where = l->url.text;

        if (error == EINTR)
                return problem_set(&l->trouble, WEIR_EINTR, "a signal came before %s answered",
                                   where);
        if (error == ETIMEDOUT)
                return problem_set(&l->trouble, WEIR_ETIMEDOUT,
                                   "%s does not take the connection: is the address right?", where);
        if (error == ECONNREFUSED || error == ENOENT)
                return problem_set(&l->trouble, WEIR_EAWAY,
                                   "nothing answers on %s: is weir running?", where);
        return problem_set(&l->trouble, WEIR_EAWAY, "cannot connect to %s: %s", where,
                           ERRNO_TEXT(error));
}

/* Takes over the connected socket; 0 or an errno. */
static int dial(struct link *l, const struct sockaddr *addr, socklen_t len, int64_t deadline_ns)
{
        int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return errno;
        int error = connect(fd, addr, len) == 0 ? 0 : errno;
        if (error == EINPROGRESS || error == EINTR) {
                socklen_t size = sizeof(error);
                error = wait_for(fd, POLLOUT, deadline_ns, l->is_interruptible);
                if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
                        error = errno;
        }
        if (error) {
                (void)close(fd);
                return error;
        }
        if (addr->sa_family != AF_UNIX) {
                int on = 1;
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        }
        l->fd = fd;
        l->is_fresh = true;
        return 0;
}

/* All the addresses of a name share the deadline: together they are one attempt.  Each has its part
 * of what is left, so that a machine that is mute does not keep the attempt from the next one. */
static int dial_tcp(struct link *l, int64_t deadline_ns, int *ret_errno)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
        char port[8];

        (void)snprintf(port, sizeof(port), "%u", (unsigned)l->url.port);
        int r = getaddrinfo(l->url.host, port, &hints, &all);
        if (r != 0)
                return problem_set(&l->trouble, WEIR_EAWAY, "cannot find the host '%s': %s",
                                   l->url.host, gai_strerror(r));
        *ret_errno = EADDRNOTAVAIL;
        int64_t n_left = 0;
        for (const struct addrinfo *a = all; a; a = a->ai_next)
                n_left++;
        for (struct addrinfo *a = all; a && *ret_errno != 0 && *ret_errno != EINTR;
             a = a->ai_next) {
                int64_t now_ns = link_now_ns();
                *ret_errno = dial(l, a->ai_addr, a->ai_addrlen,
                                  now_ns + (deadline_ns - now_ns) / n_left--);
        }
        freeaddrinfo(all);
        return WEIR_OK;
}

/* What TLS failed by, as an error of the library. */
static int tls_trouble(struct link *l, int err)
{
        l->trouble.err = err == ERR_NOMEM ? WEIR_ENOMEM : WEIR_ETLS;
        return l->trouble.err;
}

static int lost_trouble(struct link *l, int error)
{
        const char *where = l->url.text;
        bool is_cut = error == 0 || error == EPIPE || error == ECONNRESET;

        if (l->tls && !tls_client_is_up(l->tls) && (is_cut || error == ETIMEDOUT)) {
                (void)(is_cut ? tls_client_cut : tls_client_silent)(l->tls, &l->trouble);
                l->trouble.err = is_cut ? WEIR_EAWAY : WEIR_ETIMEDOUT;
                return l->trouble.err;
        }
        if (error == EINTR)
                return problem_set(&l->trouble, WEIR_EINTR, "a signal came before %s answered",
                                   where);
        if (error == ETIMEDOUT)
                return problem_set(&l->trouble, WEIR_ETIMEDOUT,
                                   "%s took the connection but gives no answer in time", where);
        if (is_cut && l->is_fresh && !l->tls && !l->url.is_unix)
                return problem_set(&l->trouble, WEIR_EAWAY,
                                   "%s closed the connection before it answered; if it is a TLS "
                                   "port, use rediss://%s",
                                   where, where);
        if (is_cut)
                return problem_set(&l->trouble, WEIR_EAWAY,
                                   "%s closed the connection before it answered", where);
        return problem_set(&l->trouble, WEIR_EAWAY, "connection to %s: %s", where,
                           ERRNO_TEXT(error));
}

static int no_memory(struct link *l)
{
        return problem_set(&l->trouble, WEIR_ENOMEM, "no memory to ask %s", l->url.text);
}

static int no_weir(struct link *l)
{
        if (l->in.len >= 5 && memcmp(l->in.ptr, "HTTP/", 5) == 0)
                return problem_set(&l->trouble, WEIR_EPROTO,
                                   "%s speaks HTTP: name the RESP address, usually port %d",
                                   l->url.text, SERVER_PORT_DEFAULT);
        if (l->in.len >= 2 && !l->tls && memcmp(l->in.ptr, "\x15\x03", 2) == 0) /* an alert */
                return problem_set(&l->trouble, WEIR_EPROTO, "%s speaks TLS: use rediss://%s",
                                   l->url.text, l->url.text);
        return problem_set(&l->trouble, WEIR_EPROTO, "what answers on %s is no weir", l->url.text);
}

/* What recv() returned for bytes that are now in l->in, deciphered: 0 is the end, and less than 0
 * an errno. *ret_trouble: TLS failed. */
static ssize_t receive_some(struct link *l, int *ret_trouble)
{
        char room[RECEIVE_BYTES];
        char *to = l->tls ? room : l->in.ptr + l->in.len;

        *ret_trouble = WEIR_OK;
        if (l->tls && tls_client_is_ended(l->tls))
                return 0;
        ssize_t n = recv(l->fd, to, RECEIVE_BYTES, MSG_DONTWAIT);
        if (n <= 0)
                return n < 0 ? -errno : 0;
        if (!l->tls) {
                l->in.len += (size_t)n;
                return n;
        }
        int r = tls_client_take(l->tls, slice_make(room, (size_t)n), &l->in, &l->trouble);
        if (r != OK)
                *ret_trouble = r == ERR_TOOBIG ? no_weir(l) : tls_trouble(l, r);
        return n;
}

/* More bytes into l->in; with TLS there may be none yet when it returns. */
static int receive(struct link *l, int64_t deadline_ns)
{
        for (;;) {
                int trouble;
                if (l->in.len + RECEIVE_BYTES > REPLY_MAX_BYTES)
                        return no_weir(l);
                if (!buf_reserve(&l->in, RECEIVE_BYTES))
                        return no_memory(l);
                ssize_t n = receive_some(l, &trouble);
                if (trouble != WEIR_OK || n > 0)
                        return trouble;
                int error = (int)-n;
                if (error == EAGAIN)
                        error = wait_for(l->fd, POLLIN, deadline_ns, l->is_interruptible);
                else if (error != EINTR || l->is_interruptible)
                        return lost_trouble(l, error);
                if (error && (error != EINTR || l->is_interruptible))
                        return lost_trouble(l, error);
        }
}

/* A server that closes while something is sent to it over TLS may have said why. */
static int send_trouble(struct link *l, int error)
{
        int trouble = WEIR_OK;

        while (l->tls && (error == EPIPE || error == ECONNRESET) && trouble == WEIR_OK &&
               receive_some(l, &trouble) > 0)
                ;
        return trouble != WEIR_OK ? trouble : lost_trouble(l, error);
}

static int send_bytes(struct link *l, struct slice bytes, int64_t deadline_ns)
{
        while (bytes.len > 0) {
                ssize_t n = send(l->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
                int error = n < 0 ? errno : 0;
                if (error == EAGAIN)
                        error = wait_for(l->fd, POLLOUT, deadline_ns, l->is_interruptible);
                else if (n > 0)
                        bytes = slice_make(bytes.ptr + n, bytes.len - (size_t)n);
                else if (error == EINTR && !l->is_interruptible)
                        error = 0;
                if (error)
                        return send_trouble(l, error);
        }
        return WEIR_OK;
}

static int send_all(struct link *l, struct slice plain, int64_t deadline_ns)
{
        if (!l->tls)
                return send_bytes(l, plain, deadline_ns);
        int r = tls_client_put(l->tls, plain, &l->trouble);
        if (r != OK)
                return tls_trouble(l, r);
        r = send_bytes(l, buf_slice(tls_client_out(l->tls)), deadline_ns);
        buf_clear(tls_client_out(l->tls));
        return r;
}

static int secure(struct link *l, int64_t deadline_ns)
{
        int err = tls_client_new(&l->url, &l->tls, &l->trouble);
        int r = err == OK ? WEIR_OK : tls_trouble(l, err);

        while (r == WEIR_OK) {
                struct buf *out = tls_client_out(l->tls);
                r = send_bytes(l, buf_slice(out), deadline_ns);
                buf_clear(out);
                if (r != WEIR_OK || tls_client_is_up(l->tls))
                        break;
                r = receive(l, deadline_ns);
        }
        if (r == WEIR_ETLS && l->tls) { /* the alert, if the socket takes it at once */
                const struct buf *out = tls_client_out(l->tls);
                (void)send(l->fd, out->ptr, out->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        return r;
}

int link_connect(struct link *l, int64_t deadline_ns)
{
        int error = 0;

        link_close(l);
        if (l->url.is_unix) {
                struct sockaddr_un addr = {.sun_family = AF_UNIX};
                _Static_assert(sizeof(addr.sun_path) >= sizeof(l->url.path), "a parsed path fits");
                memcpy(addr.sun_path, l->url.path, sizeof(l->url.path));
                error = dial(l, (const struct sockaddr *)&addr, sizeof(addr), deadline_ns);
        } else {
                int r = dial_tcp(l, deadline_ns, &error);
                if (r != WEIR_OK)
                        return r;
        }
        if (error)
                return connect_trouble(l, error);
        int r = l->url.is_tls ? secure(l, deadline_ns) : WEIR_OK;
        if (r != WEIR_OK)
                link_close(l);
        return r;
}

/* With TLS the server may send what is no answer: a ticket, a new key. */
void link_look(struct link *l)
{
        char byte;
        int trouble = WEIR_OK;
        ssize_t n;

        if (l->fd < 0)
                return;
        if (l->tls) {
                buf_clear(&l->in);
                do {
                        n = receive_some(l, &trouble);
                } while (n > 0 && trouble == WEIR_OK && l->in.len == 0);
        } else {
                n = recv(l->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
                n = n < 0 ? -errno : n;
        }
        if (trouble != WEIR_OK || (n != -EAGAIN && n != -EINTR))
                link_close(l);
}

static int receive_value(struct link *l, int64_t deadline_ns, const struct value **ret)
{
        struct value_scan scan;
        struct value *v = NULL;
        struct slice rest = SLICE_NONE;

        value_scan_init(&scan);
        for (;;) {
                int r = 0;
                if (l->in.len > l->in_at) {
                        rest = slice_make(l->in.ptr + l->in_at, l->in.len - l->in_at);
                        r = value_scan(&scan, rest);
                }
                if (r < 0)
                        return no_weir(l);
                if (r == 1)
                        break;
                r = receive(l, deadline_ns);
                if (r != WEIR_OK)
                        return r;
        }
        l->in_at += scan.at;
        arena_clear(&l->arena);
        int r = value_parse(slice_make(rest.ptr, scan.at), &l->arena, &v);
        if (r != OK)
                return r == ERR_NOMEM ? no_memory(l) : no_weir(l);
        *ret = v;
        return WEIR_OK;
}

static int receive_greeting(struct link *l, int64_t deadline_ns)
{
        const struct value *v;
        struct problem said;

        int r = receive_value(l, deadline_ns, &v);
        if (r != WEIR_OK || v->type != VALUE_ERROR)
                return r;
        if (value_problem(v, &said) == ERR_BADARG) /* no token is wanted there: fine */
                return WEIR_OK;
        return problem_set(&l->trouble, WEIR_EDENIED, "%s does not take the token: %s", l->url.text,
                           said.detail);
}

static int exchange(struct link *l, int64_t deadline_ns, const struct value **ret)
{
        struct slice auth[SERVER_AUTH_WORDS];
        size_t n_auth = l->is_fresh ? server_url_auth(&l->url, auth) : 0;
        bool has_greeting = n_auth > 0;
        int r = WEIR_OK;

        buf_clear(&l->in);
        l->in_at = 0;
        if (has_greeting) {
                struct buf greeting;
                buf_init(&greeting, 0);
                value_put_command(&greeting, auth, n_auth);
                buf_put_slice(&greeting, buf_slice(&l->out));
                r = greeting.failed ? no_memory(l) : send_all(l, buf_slice(&greeting), deadline_ns);
                if (greeting.ptr)
                        explicit_bzero(greeting.ptr, greeting.len);
                buf_release(&greeting);
        } else {
                r = send_all(l, buf_slice(&l->out), deadline_ns);
        }
        if (r == WEIR_OK && has_greeting)
                r = receive_greeting(l, deadline_ns);
        if (r == WEIR_OK)
                r = receive_value(l, deadline_ns, ret);
        if (r == WEIR_OK && l->in_at != l->in.len) /* more than was asked for */
                r = no_weir(l);
        return r;
}

int link_ask(struct link *l, int64_t deadline_ns, const struct value **ret)
{
        if (l->out.failed)
                return no_memory(l);
        int r = exchange(l, deadline_ns, ret);
        if (r == WEIR_OK)
                l->is_fresh = false;
        else
                link_close(l);
        return r;
}

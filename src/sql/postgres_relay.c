/* Between libpq and a PostgreSQL server.
 *
 * libpq (15) sends the password in clear text to any server that asks for it so, also without TLS;
 * only later versions can be told not to.  And it reads all that a server sends, as long as there
 * is something to read.  So it does not read from the server at all: its socket is put in our hands
 * when the first bytes have been sent and none have been read, and it gets one end of a pair in
 * place of it.  What comes is passed on here, by the thread that waits for libpq:
 *
 *      libpq <-- pair --> relay <-- TCP or a Unix socket --> server
 *
 * - Up to the end of a login without TLS only whole messages are passed on, and never a request for
 *   the password in clear text.  Over TLS there is nothing to be seen, nor anything to hide.
 * - No more than ANSWER_MAX is passed on for one question, and nothing after the deadline.
 * - libpq keeps some of what a server tells unasked; so a connection that has carried CARRIED_MAX
 *   is lost, and made again at once.
 *
 * Where the server is trusted once it has been logged in to, libpq gets its socket back then. */
#include "sql/postgres_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define CHUNK        (16 * KIB)
#define CARRIED_MAX  (64 * (int64_t)MIB)
#define HEAD_LEN     5 /* kind, length in four bytes that counts itself */
#define AUTH_REQUEST 'R'
#define AUTH_CLEAR   3

struct stream {
        unsigned char bytes[CHUNK];
        size_t len;
        bool is_ended;
};

struct pg_relay {
        int server_fd, near_fd; /* near: our end of the pair */
        int pq_fd;              /* the other one, which is libpq's own */
        struct stream up, down;
        bool is_login; /* in the open: messages are looked at */
        int64_t left, carried;
};

/* ---- the pair ---- */

/* A second name of the descriptor; see cutoff_begin() for why not by fcntl. */
static int copy_fd(int fd)
{
        int copy = eventfd(0, EFD_CLOEXEC); /* only for its number */
        if (copy >= 0 && dup3(fd, copy, O_CLOEXEC) < 0) {
                (void)close(copy);
                return -1;
        }
        return copy;
}

struct pg_relay *pg_relay_begin(int fd, bool is_open_login)
{
        int pair[2];
        struct pg_relay *r = xcalloc(1, sizeof(*r));
        r->is_login = is_open_login;
        r->left = ANSWER_MAX;
        r->server_fd = copy_fd(fd);
        if (r->server_fd < 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
                if (r->server_fd >= 0)
                        (void)close(r->server_fd);
                free(r);
                return NULL;
        }
        r->near_fd = pair[0];
        r->pq_fd = fd;
        int put = dup3(pair[1], fd, O_CLOEXEC);
        ASSERT(put == fd); /* both are valid, and no other thread opens or closes them */
        (void)close(pair[1]);
        return r;
}

void pg_relay_logged_in(struct pg_relay *r)
{
        r->is_login = false;
}

int pg_relay_question(struct pg_relay *r)
{
        r->left = ANSWER_MAX;
        return r->carried > CARRIED_MAX ? ERR_IO : OK;
}

/* ---- messages of a login ---- */

/* How much of the stream may be passed on: whole messages.  ERR_FORBIDDEN: one of them asks for
 * what is not given; ERR_BADARG: one is longer than any of a login, so it is none. */
static int judge_login(const struct stream *s, size_t *ret)
{
        size_t at = 0;
        *ret = 0;
        while (s->len - at >= HEAD_LEN) {
                const unsigned char *m = s->bytes + at;
                uint32_t size = (uint32_t)m[1] << 24 | (uint32_t)m[2] << 16 | (uint32_t)m[3] << 8 |
                                (uint32_t)m[4];
                if (size < 4 || size > CHUNK - 1)
                        return ERR_BADARG;
                if (s->len - at < 1 + (size_t)size)
                        break;
                /* What asks is a number of four bytes; its first three are zero. */
                if (m[0] == AUTH_REQUEST && size >= 8 && m[8] == AUTH_CLEAR)
                        return ERR_FORBIDDEN;
                at += 1 + (size_t)size;
                *ret = at;
        }
        return OK;
}

/* ---- passing on ---- */

/* Bytes that came; 0: nothing now.  At the end is_ended is set. */
static size_t take(struct stream *s, int fd, size_t room)
{
        if (s->is_ended || !room)
                return 0;
        ssize_t n = recv(fd, s->bytes + s->len, room, MSG_DONTWAIT);
        if (n > 0) {
                s->len += (size_t)n;
                return (size_t)n;
        }
        s->is_ended = n == 0 || (errno != EAGAIN && errno != EINTR);
        return 0;
}

/* Passes on up to `end`; what is left moves to the front. */
static void give(struct stream *s, int fd, size_t end)
{
        if (!end)
                return;
        ssize_t n = send(fd, s->bytes, end, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
                s->is_ended = true;
        if (n <= 0)
                return;
        memmove(s->bytes, s->bytes + n, s->len - (size_t)n);
        s->len -= (size_t)n;
}

static int pass_down(struct pg_relay *r)
{
        struct stream *s = &r->down;
        size_t came = take(s, r->server_fd, sizeof(s->bytes) - s->len), end = s->len;
        r->left -= (int64_t)came;
        r->carried += (int64_t)came;
        if (r->left < 0)
                return ERR_TOOBIG;
        int err = r->is_login ? judge_login(s, &end) : OK;
        if (err != OK)
                return err;
        give(s, r->near_fd, end);
        if (s->is_ended && (!s->len || !end))
                (void)shutdown(r->near_fd, SHUT_WR); /* libpq reads the end, too */
        return OK;
}

static void pass_up(struct pg_relay *r)
{
        struct stream *s = &r->up;
        size_t came;
        do {
                came = take(s, r->near_fd, sizeof(s->bytes) - s->len);
                give(s, r->server_fd, s->len);
        } while (came);
}

static bool is_readable(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        return poll(&p, 1, 0) > 0;
}

int pg_relay_wait(struct pg_relay *r, const struct sql_wait *w)
{
        for (;;) {
                pass_up(r);
                int err = pass_down(r);
                if (err != OK)
                        return err;
                if (clock_boot_ns() >= w->deadline_ns)
                        return ERR_TIMEOUT;
                if (is_readable(r->pq_fd) || r->up.is_ended)
                        return OK;
                /* libpq writes only when it is called: so the server is all to wait for. */
                err = wait_for(w, r->server_fd, r->up.len ? POLLIN | POLLOUT : POLLIN, NULL);
                if (err != OK)
                        return err;
        }
}

struct pg_relay *pg_relay_end(struct pg_relay *r)
{
        if (!r)
                return NULL;
        pass_up(r); /* that it ends, which libpq has just said */
        (void)close(r->server_fd);
        (void)close(r->near_fd);
        free(r);
        return NULL;
}

bool pg_relay_leave(struct pg_relay **r)
{
        struct pg_relay *relay = *r;
        if (relay->down.len || relay->up.len || is_readable(relay->pq_fd))
                return false;
        int put = dup3(relay->server_fd, relay->pq_fd, O_CLOEXEC);
        ASSERT(put == relay->pq_fd); /* both are valid */
        (void)close(relay->server_fd);
        (void)close(relay->near_fd);
        free(relay);
        *r = NULL;
        return true;
}

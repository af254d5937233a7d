/* The clients.  One thread and one poll set: all replies are seen by one pair of eyes, so that the
 * model needs no lock and its notion of "before" is simple.
 *
 * Each connection is a producer and a worker at once.  It keeps up to PIPELINE requests under way
 * (a new target is diced every time it runs dry, so that depths from 1 to 32 occur) and a list of
 * the jobs it holds.  A request is remembered in a ring until its answer comes; answers come in
 * order.  What is in the rings when the server dies is exactly what is in doubt. */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ops.h"

struct conn conns[LOAD_CONNECTIONS];
uint64_t n_open;
struct side side = {.is_known = true};
static struct reply_tree tree;
static uint64_t early_end; /* connections that ended while we still wanted to talk */

int load_connect(const char *host, int port)
{
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
                return -1;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
                close(fd);
                return -1;
        }
        return fd;
}

bool load_open(const char *host, int port)
{
        bool is_ok = true;
        early_end = 0;
        for (int i = 0; i < LOAD_CONNECTIONS; i++) {
                struct conn *c = &conns[i];
                c->fd = load_connect(host, port);
                c->in.len = c->out.len = 0;
                c->head = c->len = 0;
                c->target = 1 + dice_below(PIPELINE);
                if (c->fd < 0)
                        is_ok = false;
                else
                        (void)fcntl(c->fd, F_SETFL, O_NONBLOCK);
        }
        return is_ok;
}

void load_set_open_jobs(uint64_t n)
{
        n_open = n;
}

void load_see_side(bool is_paused)
{
        if (side.is_known && side.is_paused != is_paused)
                complain(LOST, "queue %s is %s, but %s was acknowledged", queue_names[QUEUE_SIDE],
                         is_paused ? "paused" : "running", side.is_paused ? "PAUSE" : "RESUME");
        side.is_paused = is_paused;
        side.is_known = true;
        side.is_busy = false;
}

void conn_hold(struct conn *c, uint64_t nonce)
{
        if (c->n_held == HELD_MAX)
                return; /* Forgotten: its lease will end by itself. */
        struct held *h = &c->held[c->n_held++];
        *h = (struct held){.nonce = nonce, .fence = jobs[nonce].fence};
        memcpy(h->token, jobs[nonce].token, TOKEN_CHARS);
}

void load_hold(uint64_t nonce)
{
        jobs[nonce].is_given_up = false;
        for (int i = 0; i < LOAD_CONNECTIONS; i++) {
                for (unsigned k = 0; k < conns[i].n_held; k++) {
                        if (conns[i].held[k].nonce == nonce &&
                            conns[i].held[k].fence == jobs[nonce].fence)
                                return;
                }
        }
        conn_hold(&conns[nonce % LOAD_CONNECTIONS], nonce);
}

static void conn_end(struct conn *c)
{
        close(c->fd);
        c->fd = -1;
        early_end++;
}

static void conn_read(struct conn *c)
{
        char chunk[65536];
        ssize_t n = recv(c->fd, chunk, sizeof(chunk), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                conn_end(c);
                return;
        }
        bytes_put(&c->in, chunk, (size_t)n);
        size_t at = 0;
        while (c->len) {
                long used = reply_parse(c->in.ptr + at, c->in.len - at, &tree);
                if (used < 0) {
                        complain(WRONG, "the server does not speak RESP: %.*s",
                                 (int)(c->in.len - at < 60 ? c->in.len - at : 60), c->in.ptr + at);
                        conn_end(c);
                        return;
                }
                if (used == 0)
                        break;
                struct op op = c->ops[c->head];
                c->head = (c->head + 1) % PIPELINE;
                c->len--;
                answer_take(c, &op, &tree);
                at += (size_t)used;
        }
        bytes_drop(&c->in, at);
}

static void conn_write(struct conn *c)
{
        ssize_t n = send(c->fd, c->out.ptr, c->out.len, MSG_NOSIGNAL);
        if (n > 0)
                bytes_drop(&c->out, (size_t)n);
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
                c->out.len = 0; /* Gone; reading will see the end after what was still sent. */
}

static int pump(bool wants_more, int patience_ms)
{
        struct pollfd polls[LOAD_CONNECTIONS];
        int alive = 0;
        for (int i = 0; i < LOAD_CONNECTIONS; i++) {
                struct conn *c = &conns[i];
                if (c->fd >= 0 && wants_more) {
                        if (c->len == 0)
                                c->target = 1 + dice_below(PIPELINE);
                        if (c->len <= c->target / 2) {
                                for (int k = 0; k < 2 * PIPELINE && c->len < c->target; k++)
                                        ask_something(c);
                        }
                }
                if (c->fd >= 0 && c->out.len)
                        conn_write(c);
                alive += c->fd >= 0;
                polls[i] = (struct pollfd){.fd = c->fd,
                                           .events = (short)(POLLIN | (c->out.len ? POLLOUT : 0))};
        }
        if (!alive)
                return 0;
        (void)poll(polls, LOAD_CONNECTIONS, patience_ms);
        for (int i = 0; i < LOAD_CONNECTIONS; i++) {
                if (polls[i].revents & (POLLIN | POLLHUP | POLLERR))
                        conn_read(&conns[i]);
        }
        return alive;
}

bool load_run(int64_t until_us)
{
        while (steady_us() < until_us) {
                if (pump(true, 5) == 0 || early_end)
                        return false;
        }
        return true;
}

void load_finish(int64_t patience_us)
{
        int64_t deadline = steady_us() + patience_us;
        while (steady_us() < deadline && pump(false, 20) > 0)
                ;
}

void load_close(void)
{
        for (int i = 0; i < LOAD_CONNECTIONS; i++) {
                struct conn *c = &conns[i];
                for (unsigned k = 0; k < c->len; k++) {
                        const struct op *op = &c->ops[(c->head + k) % PIPELINE];
                        if (op->type == OP_CLAIM || op->type == OP_COMPLETE_CLAIM) {
                                claims[op->claim].fate = CLAIM_IN_DOUBT;
                                claims[op->claim].lost_us = steady_us();
                        }
                        if (op->type == OP_PAUSE || op->type == OP_RESUME)
                                side.is_known = false;
                }
                if (c->fd >= 0)
                        close(c->fd);
                c->fd = -1;
                c->len = 0;
        }
}

/* A client and its own connection to the server, from the greeting to the end. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include "door/address.h"
#include "proxy/proxy_int.h"

/* ---- life ---- */

/* False: it is a unix socket. */
static bool read_end(const struct sockaddr_storage *a, struct proxy_end *ret)
{
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
        if (a->ss_family == AF_INET) {
                ret->ip = ip_from_v4(&v4->sin_addr);
                ret->port = ntohs(v4->sin_port);
        } else if (a->ss_family == AF_INET6) {
                memcpy(ret->ip.bytes, &v6->sin6_addr, IP_BYTES);
                ret->port = ntohs(v6->sin6_port);
        }
        return a->ss_family == AF_INET || a->ss_family == AF_INET6;
}

static void set_ends(struct pair *c, const struct proxy_header *ends)
{
        const struct ip *ip = &ends->from.ip;
        bool is_v4 = ip_is_v4(ip);
        c->ends = *ends;
        if (!ends->is_told ||
            !inet_ntop(is_v4 ? AF_INET : AF_INET6, ip->bytes + (is_v4 ? IP_V4_AT : 0), c->address,
                       sizeof(c->address)))
                (void)snprintf(c->address, sizeof(c->address), "local");
}

/* Who connected, as the sockets tell. */
static struct proxy_header ends_of(int fd, const struct sockaddr_storage *peer)
{
        struct sockaddr_storage own = {0};
        socklen_t len = sizeof(own);
        struct proxy_header ends = {0};
        (void)getsockname(fd, (struct sockaddr *)&own, &len); /* on an error it is of no family */
        ends.is_told = read_end(peer, &ends.from) && read_end(&own, &ends.to);
        return ends;
}

/* Options that a socket does without where it does not know them. */
static void socket_prepare(int fd, const struct sockaddr *peer)
{
        int one = 1;
        if (peer->sa_family == AF_UNIX)
                return;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
        if (sockaddr_is_loopback(peer))
                address_stop_pacing(fd);
}

struct pair *pair_new(struct door *d, int fd, const struct sockaddr_storage *peer)
{
        struct pair *c = xcalloc(1, sizeof(*c));
        c->door = d;
        c->client.source.kind = SOURCE_CLIENT;
        c->server.source.kind = SOURCE_SERVER;
        c->client.stream.fd = fd;
        c->server.stream.fd = -1;
        socket_prepare(fd, (const struct sockaddr *)peer);
        struct proxy_header ends = ends_of(fd, peer);
        set_ends(c, &ends);
        c->class_of[0] = c->class_of[1] = -1;
        c->last_class = UINT32_MAX;
        c->ticket.owner = c;
        list_init(&c->mail);
        (void)pthread_mutex_lock(&d->lock);
        c->setup = setup_ref(d->setup);
        (void)pthread_mutex_unlock(&d->lock);
        return c;
}

/* A ticket is given back exactly once; what was decided meanwhile is forgotten. */
static void give_up_ticket(struct pair *c)
{
        struct door *d = c->door;
        (void)pthread_mutex_lock(&d->lock);
        if (c->ticket.state != TICKET_NONE) {
                d->n_waiting -= c->ticket.state == TICKET_WAITING;
                admission_leave(d->admission, &c->ticket, &c->use, c->worker->now_ns);
                door_turn(d, c->worker->now_ns);
        }
        (void)pthread_mutex_unlock(&d->lock);
        (void)pthread_mutex_lock(&c->worker->mail_lock);
        if (c->decision)
                list_remove(&c->mail);
        free(c->decision);
        c->decision = NULL;
        (void)pthread_mutex_unlock(&c->worker->mail_lock);
}

static void unwatch_side(const struct pair *c, struct side *s)
{
        if (s->events)
                (void)epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_DEL, s->stream.fd, NULL);
        s->events = 0;
}

/* Closing is not enough: until a program that weir starts has replaced the copy of this process, it
 * holds the socket too, and the kernel would report events for a pair that is freed. */
static void close_side(struct pair *c, struct side *s)
{
        unwatch_side(c, s);
        stream_close(&s->stream);
}

static void tear_down(struct pair *c)
{
        struct door *d = c->door;
        ASSERT(!c->is_torn_down);
        c->is_torn_down = true;
        give_up_ticket(c);
        close_side(c, &c->client);
        close_side(c, &c->server);
        (void)pthread_mutex_lock(&d->lock);
        d->n_connections--;
        if (c->is_user_counted)
                door_remove_user(d, c->user);
        (void)pthread_mutex_unlock(&d->lock);
        list_remove(&c->link);
        list_push_back(&c->worker->dead, &c->link);
        if (atomic_fetch_sub(&c->worker->n_conns, 1) == 1 && atomic_load(&d->proxy->is_stopping))
                loop_post(d->proxy->loop, &d->proxy->mail); /* it waits for the last one */
}

void pair_close(struct pair *c)
{
        pair_end(c);
        tear_down(c);
}

void pair_free(struct pair *c)
{
        session_forget(c);
        setup_unref(c->setup);
        buf_release(&c->in);
        buf_release(&c->client.out);
        buf_release(&c->server.out);
        free(c);
}

/* ---- epoll ---- */

static void watch_side(struct pair *c, struct side *s, uint32_t events)
{
        struct epoll_event e = {.events = events, .data.ptr = &s->source};
        if (s->stream.fd < 0 || s->events == events)
                return;
        int op = s->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
        int r = epoll_ctl(c->worker->epoll_fd, op, s->stream.fd, &e);
        ASSERT(r == 0);
        s->events = events;
}

static bool wants_client(const struct pair *c)
{
        if (c->is_held || c->server.out.len)
                return false;
        switch (c->phase) {
        case PAIR_HEADER:
        case PAIR_LOGIN:
        case PAIR_READY:
                return !c->is_replying_late && c->in.len < COLLECT_BYTES + MYSQL_HEADER;
        case PAIR_BLIND:
                return true;
        case PAIR_CONNECTING:
        case PAIR_GREETING:
        case PAIR_CLOSED:
                break;
        }
        return false;
}

/* EPOLLRDHUP is always wanted of the client: one that has gone while its command is held must be
 * noticed.  Once noticed it would ring for ever. */
static void update(struct pair *c)
{
        uint32_t client = c->is_client_gone ? 0 : EPOLLRDHUP, server = 0;
        const struct stream *from = &c->client.stream, *to = &c->server.stream;
        if (wants_client(c) || from->write_waits_to_read)
                client |= EPOLLIN;
        if ((c->client.out.len && !from->write_waits_to_read) || from->read_waits_to_send)
                client |= EPOLLOUT;
        if ((c->phase != PAIR_CONNECTING && !c->client.out.len) || to->write_waits_to_read)
                server |= EPOLLIN;
        if (c->phase == PAIR_CONNECTING || (c->server.out.len && !to->write_waits_to_read) ||
            to->read_waits_to_send)
                server |= EPOLLOUT;
        watch_side(c, &c->client, client | EPOLLERR);
        if (c->has_server_hung_up && c->client.out.len)
                unwatch_side(c, &c->server);
        else
                watch_side(c, &c->server, server | EPOLLERR);
}

static bool is_leaving(const struct pair *c)
{
        return atomic_load(&c->door->proxy->is_stopping) ||
               (atomic_load(&c->door->is_draining) && c->phase != PAIR_BLIND);
}

/* It can end without harm: nothing is open, nothing is under way. */
static bool is_quiet(const struct pair *c)
{
        return !c->is_in_transaction && !pair_has_locks(c) && !c->n_expected && !c->is_held &&
               !c->client.out.len && !c->server.out.len;
}

/* After each event.  A busy client is quiet only here, between a reply and its next command. */
static void finish(struct pair *c)
{
        while (wants_client(c) && stream_has_more(&c->client.stream))
                relay_from_client(c);
        if (c->phase == PAIR_READY && is_leaving(c) && is_quiet(c))
                pair_end(c);
        if (c->phase == PAIR_CLOSED)
                tear_down(c);
        else
                update(c);
}

/* ---- the server ---- */

static void server_away(struct pair *c, int error)
{
        door_server_problem(c->door, "%s: %s", c->setup->server, strerror(error));
        pair_fail(c, 0, 2003, NULL, "weir: the server %s is away: %s", c->setup->server,
                  strerror(error));
}

static bool find_server(struct pair *c, struct server_address *ret, char *problem, size_t size)
{
        struct door *d = c->door;
        (void)pthread_mutex_lock(&d->lock);
        *ret = d->server;
        (void)snprintf(problem, size, "%s", d->problem);
        (void)pthread_mutex_unlock(&d->lock);
        return ret->len > 0;
}

static void server_connected(struct pair *c)
{
        struct buf header CLEANUP(buf_release) = {0};
        pair_set_phase(c, PAIR_GREETING);
        buf_clear(&c->in);
        if (!c->setup->sends_proxy)
                return;
        proxy_header_put(&header, &c->ends);
        pair_send(c, &c->server, (const uint8_t *)header.ptr, header.len);
}

static void connect_server(struct pair *c)
{
        struct server_address to;
        char problem[TRAFFIC_TEXT];
        if (!find_server(c, &to, problem, sizeof(problem))) {
                pair_fail(c, 0, 2003, NULL, "weir: the server %s is away: %s", c->setup->server,
                          problem[0] ? problem : "its name is not looked up yet");
                return;
        }
        int fd = socket(to.any.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        c->server.stream.fd = fd;
        if (fd < 0) {
                server_away(c, errno);
                return;
        }
        socket_prepare(fd, (const struct sockaddr *)&to.any);
        pair_set_phase(c, PAIR_CONNECTING);
        int r = connect(fd, (const struct sockaddr *)&to.any, to.len);
        if (r == 0)
                server_connected(c);
        else if (errno != EINPROGRESS)
                server_away(c, errno);
}

static void finish_connect(struct pair *c)
{
        int error = 0;
        socklen_t len = sizeof(error);
        (void)getsockopt(c->server.stream.fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error)
                server_away(c, error);
        else
                server_connected(c);
}

/* ---- the PROXY header ---- */

static void refuse_header(struct pair *c, const char *why)
{
        (void)pthread_mutex_lock(&c->door->lock);
        c->door->refused++;
        (void)pthread_mutex_unlock(&c->door->lock);
        pair_fail(c, 0, 1043, NULL, "weir: %s; addresses of proxy_protocol_from must send one",
                  why);
}

/* After it the client waits for the greeting: nothing may follow. */
static void read_header(struct pair *c)
{
        uint8_t *bytes = c->worker->bytes;
        struct proxy_header header;
        struct problem problem;
        size_t len;
        ssize_t n = stream_read(&c->client.stream, bytes, PROXY_HEADER_MAX);
        if (n == STREAM_AGAIN)
                return;
        if (n <= 0) {
                pair_end(c);
                return;
        }
        buf_put(&c->in, bytes, (size_t)n);
        int r = proxy_header_parse(buf_slice(&c->in), &header, &len, &problem);
        if (r == OK && !len)
                return;
        if (r != OK || len < c->in.len) {
                refuse_header(c, r != OK ? problem.detail : "bytes follow the PROXY header");
                return;
        }
        if (header.is_told)
                set_ends(c, &header);
        connect_server(c);
}

void pair_begin(struct worker *w, struct pair *c)
{
        c->worker = w;
        c->began_ns = c->state_ns = c->phase_ns = w->now_ns;
        list_push_back(&w->conns, &c->link);
        if (setup_trusts(c->setup, c->ends.is_told ? &c->ends.from.ip : NULL))
                pair_set_phase(c, PAIR_HEADER);
        else
                connect_server(c);
        finish(c);
}

/* ---- events ---- */

/* False: the connection is closed. */
static bool flush_side(struct pair *c, struct side *s)
{
        while (s->out.len) {
                ssize_t n = stream_write(&s->stream, s->out.ptr + s->out_sent,
                                         s->out.len - s->out_sent);
                if (n == STREAM_AGAIN)
                        return true;
                if (n == STREAM_GONE) {
                        pair_lost(c, s);
                        return false;
                }
                s->out_sent += (size_t)n;
                if (s->out_sent == s->out.len) {
                        buf_release(&s->out);
                        s->out_sent = 0;
                }
        }
        return true;
}

/* The client closed its side.  Bytes that it sent before are still taken, unless it waits here: who
 * has gone must not have its command run. */
static void client_hung_up(struct pair *c)
{
        c->is_client_gone = true;
        if (c->is_held || c->phase <= PAIR_GREETING)
                pair_end(c);
}

static void client_ready(struct pair *c, uint32_t events)
{
        if (events & EPOLLERR || (events & EPOLLHUP && !wants_client(c))) {
                pair_end(c);
                return;
        }
        if (events & (EPOLLRDHUP | EPOLLHUP))
                client_hung_up(c);
        if (c->phase != PAIR_CLOSED && !flush_side(c, &c->client))
                return;
        if (c->phase == PAIR_CLOSED || !wants_client(c))
                return;
        if (c->phase == PAIR_HEADER)
                read_header(c);
        else if (events & EPOLLIN || c->client.stream.read_waits_to_send)
                relay_from_client(c);
}

static void server_ready(struct pair *c, uint32_t events)
{
        if (c->phase == PAIR_CONNECTING) {
                if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
                        finish_connect(c);
                return;
        }
        if (c->server.out.len) {
                if (!flush_side(c, &c->server))
                        return;
                if (!c->server.out.len)
                        relay_go_on(c);
        }
        if (c->phase == PAIR_CLOSED)
                return;
        if (events & EPOLLHUP && !(events & EPOLLERR) && c->client.out.len) {
                c->has_server_hung_up = true; /* its last bytes are read when the client has room */
                c->server_gone_ns = c->worker->now_ns;
                return;
        }
        if (events & (EPOLLIN | EPOLLERR | EPOLLHUP) || c->server.stream.read_waits_to_send)
                relay_from_server(c);
}

void pair_ready(struct pair *c, struct side *s, uint32_t events)
{
        if (c->is_torn_down) /* by an earlier event of this batch */
                return;
        if (s == &c->client)
                client_ready(c, events);
        else
                server_ready(c, events);
        finish(c);
}

/* ---- decisions ---- */

void pair_decide(struct pair *c, const struct admit_answer *answer)
{
        if (!c->is_held || c->is_torn_down)
                return;
        c->is_held = false;
        c->why[0] = '\0';
        c->state_ns = c->worker->now_ns;
        statements_held(pair_statements(c), c->held_digest, answer->waited_ns);
        if (answer->verdict == ADMIT_RUN)
                c->is_admitted = true;
        else
                command_refused(c, answer);
        relay_go_on(c);
        finish(c);
}

/* What is held gets an error instead of its turn; sqlstate has five characters. */
static void refuse_held(struct pair *c, uint16_t error, const char *sqlstate, const char *why)
{
        give_up_ticket(c);
        c->is_held = false;
        c->is_refused = true;
        c->refused_error = error;
        memcpy(c->refused_state, sqlstate, sizeof(c->refused_state));
        (void)snprintf(c->why, sizeof(c->why), "%s", why);
        relay_go_on(c);
}

void pair_killed(struct pair *c)
{
        if (!c->is_held)
                return;
        refuse_held(c, 1317, "70100", "weir: killed while it waited: it has not run");
        finish(c);
}

/* ---- once a second ---- */

/* Whoever is to speak has not done so in time. */
static bool is_late(const struct pair *c)
{
        bool waits_for_server = c->phase == PAIR_CONNECTING || c->phase == PAIR_GREETING;
        int64_t most_ns = waits_for_server ? c->setup->connect_timeout_ns : LOGIN_MS * NS_PER_MS;
        if (c->has_server_hung_up) /* its timeouts do not end a client that takes nothing any more
                                    */
                return c->worker->now_ns - c->server_gone_ns > LAST_BYTES_MS * NS_PER_MS;
        return c->phase < PAIR_READY && !c->is_held && c->worker->now_ns - c->phase_ns > most_ns;
}

void pair_look(struct pair *c)
{
        bool is_closing =
                atomic_load(&c->door->proxy->is_stopping) || atomic_load(&c->door->is_gone);
        if (is_closing && c->is_held) { /* no one gives turns any more */
                refuse_held(c, 1053, "08S01", "weir: this door closes: the statement has not run");
                finish(c);
                return;
        }
        bool is_slow = is_late(c);
        if (is_slow && c->phase == PAIR_HEADER)
                refuse_header(c, "no PROXY header has come");
        else if (is_slow && c->phase < PAIR_LOGIN)
                server_away(c, ETIMEDOUT);
        else if (is_slow || (is_leaving(c) && (c->phase < PAIR_READY || is_quiet(c))))
                pair_end(c);
        if (c->phase == PAIR_CLOSED)
                tear_down(c);
}

enum traffic_state pair_state(const struct pair *c)
{
        if (c->phase == PAIR_BLIND)
                return TRAFFIC_BLIND;
        if (c->is_held) /* in its login, if it is to pass unread */
                return TRAFFIC_HELD;
        if (c->phase != PAIR_READY)
                return TRAFFIC_LOGIN;
        if (c->n_expected)
                return TRAFFIC_RUNNING;
        return c->is_in_transaction ? TRAFFIC_OPEN : TRAFFIC_IDLE;
}

/* See relay.h.
 *
 * A libuv handle cannot be connected twice, so each attempt is a struct line, which outlives the
 * relay's interest in it until libuv has let go of the handle. */
#include "door/relay.h"

#include <stdlib.h>

#include "base/say.h"
#include "door/conn_int.h"
#include "wire/relay_header.h"
#include "wire/tls_client.h"

#define RETRY_MS      200
#define KEEPALIVE_S   15
#define REFUSAL_BYTES (PROBLEM_DETAIL_MAX + 64U)
#define PLAIN_MAX     (SERVER_READ_BYTES + 64 * KIB)

enum relay_state { RELAY_WAITING, RELAY_DIALING, RELAY_GREETING, RELAY_OPEN };

/* A connection to the leader. */
struct line {
        struct relay *relay; /* NULL: given up, and the handle is closing */
        struct server *server;
        uv_tcp_t tcp;
        uv_connect_t connect;
        uv_shutdown_t shutdown;
        struct tls_client *tls; /* NULL: the bytes are plain */
        struct buf plain;       /* with TLS: what was deciphered */
        uint32_t writing;       /* bytes handed to libuv because the socket was full */
        uint32_t read_turn;     /* number of the turn in which it was read last */
        bool is_reading;
        bool is_shut;                    /* our half */
        char answer[RELAY_ANSWER_BYTES]; /* by which the leader accepts */
        char got[REFUSAL_BYTES];         /* its answer so far */
        size_t n_got;
};

struct relay {
        struct conn *conn;
        struct list link; /* relays.all */
        enum relay_state state;
        struct line *line; /* NULL while WAITING */
};

struct line_write {
        uv_write_t req;
        struct line *line;
        size_t len;
        char bytes[];
};

/* --- what is wrong -------------------------------------------------------------------------- */

static int tell_trouble(const struct server *s, struct problem *p)
{
        const struct relays *all = &s->relays;
        if (!all->leader)
                return problem_set(p, ERR_UNAVAIL,
                                   "no weir of this cluster leads now; try again later");
        if (all->trouble.err == OK)
                return problem_set(p, ERR_UNAVAIL, "the leader %s gives no answer", all->leader);
        return problem_set(p, ERR_UNAVAIL, "%s", all->trouble.detail);
}

static void note_trouble(struct server *s, const struct problem *p)
{
        struct relays *all = &s->relays;
        all->trouble = *p;
        all->is_reached = false;
        s->counter[DOOR_RELAY_FAILURES]++;
        uint64_t n = muffle_count(&all->said, s->loop->now.steady_ns);
        if (n)
                say_warn("door", "cannot relay connections to the leader, retrying", "leader",
                         all->leader ? all->leader : "", "why", p->detail, "failures", SAY_I64(n));
}

/* --- a line ---------------------------------------------------------------------------------- */

static void on_line_closed(uv_handle_t *handle)
{
        struct line *l = handle->data;
        buf_release(&l->plain);
        free(l);
}

static void line_drop(struct line *l)
{
        l->relay->line = NULL;
        l->relay = NULL;
        l->tls = tls_client_free(l->tls);
        uv_close((uv_handle_t *)&l->tcp, on_line_closed);
}

static void on_line_written(uv_write_t *req, int status)
{
        struct line_write *w = CONTAINER_OF(req, struct line_write, req);
        struct line *l = w->line;
        size_t n = w->len;
        free(w);
        if (!l->relay)
                return;
        loop_turn_begin(l->server->loop);
        l->writing -= (uint32_t)n;
        if (status == 0) /* else it is read from, and hears the same */
                conn_resume(l->relay->conn);
}

/* False: it is broken. */
static bool send_raw(struct line *l, char *bytes, size_t n)
{
        uv_stream_t *stream = (uv_stream_t *)&l->tcp;
        uv_buf_t b = uv_buf_init(bytes, (unsigned)n);
        int took = l->writing ? UV_EAGAIN : uv_try_write(stream, &b, 1);
        if (took == UV_EAGAIN)
                took = 0;
        if (took < 0 || (size_t)took == n)
                return took >= 0;
        size_t rest = n - (size_t)took;
        struct line_write *w = malloc(sizeof(*w) + rest);
        if (!w)
                return false;
        memcpy(w->bytes, bytes + took, rest);
        w->len = rest;
        w->line = l;
        b = uv_buf_init(w->bytes, (unsigned)rest);
        if (uv_write(&w->req, stream, &b, 1, on_line_written) < 0) {
                free(w);
                return false;
        }
        l->writing += (uint32_t)rest;
        return true;
}

static bool send_tls_out(struct line *l)
{
        struct buf *out = tls_client_out(l->tls);
        bool is_sent = !out->failed && (!out->len || send_raw(l, out->ptr, out->len));
        buf_clear(out);
        return is_sent;
}

static bool line_send(struct line *l, char *bytes, size_t n)
{
        if (!l->tls)
                return send_raw(l, bytes, n);
        return tls_client_put(l->tls, slice_make(bytes, n), NULL) == OK && send_tls_out(l);
}

/* --- attempts -------------------------------------------------------------------------------- */

static void wake(struct server *s);

static void try_again(struct server *s)
{
        if (!s->relays.is_closed && !s->loop->is_stopping)
                loop_timer_hasten(&s->relays.timer, RETRY_MS);
}

static void leave_attempt(struct relay *r)
{
        struct relays *all = &r->conn->server->relays;
        if (r->line)
                line_drop(r->line);
        r->state = RELAY_WAITING;
        if (all->trying == r)
                all->trying = NULL;
}

static void attempt_failed(struct relay *r, const struct problem *p)
{
        struct server *s = r->conn->server;
        leave_attempt(r);
        note_trouble(s, p);
        s->relays.next_at++;
        try_again(s);
}

static void fail_with(struct relay *r, const char *what, const char *why)
{
        struct problem p;
        (void)problem_set(&p, ERR_UNAVAIL, "the leader %s %s%s%s", r->conn->server->relays.leader,
                          what, why ? ": " : "", why ? why : "");
        attempt_failed(r, &p);
}

static void relay_end(struct conn *c);

/* The client's connection ends after what the leader has said. */
static void relay_over(struct conn *c)
{
        relay_end(c);
        conn_finish(c, true);
}

static void open_relay(struct relay *r)
{
        struct server *s = r->conn->server;
        r->state = RELAY_OPEN;
        s->relays.is_reached = true;
        s->relays.trouble.err = OK;
        if (s->relays.trying == r)
                s->relays.trying = NULL;
        s->counter[DOOR_RELAYS]++;
        conn_hand_over(r->conn);
        wake(s);
}

/* The answer of the leader to our header.  Returns how many bytes of it there are. */
static size_t take_answer(struct line *l, const char *bytes, size_t n)
{
        const char *end = memchr(bytes, '\n', n);
        size_t len = end ? (size_t)(end - bytes) + 1 : n;
        if (len > sizeof(l->got) - l->n_got - 1) {
                fail_with(l->relay, "does not speak as a weir", NULL);
                return n;
        }
        memcpy(l->got + l->n_got, bytes, len);
        l->n_got += len;
        if (!end)
                return len;
        l->got[l->n_got] = '\0';
        l->got[strcspn(l->got, "\r\n")] = '\0';
        if (l->n_got == sizeof(l->answer) && memcmp(l->got, l->answer, sizeof(l->answer) - 2) == 0)
                open_relay(l->relay);
        else if (l->got[0] == '-')
                fail_with(l->relay, "refuses this node", l->got + 1);
        else
                fail_with(l->relay, "is not of this cluster: it does not know the secret", NULL);
        return len;
}

static void tell_client(struct conn *c, struct slice bytes)
{
        if (!bytes.len || c->is_closing)
                return;
        buf_put_slice(conn_out(c), bytes);
        conn_replied(c, 0);
}

static void set_line_reading(struct line *l, bool is_reading);

/* Plain bytes of the leader. */
static void take_plain(struct line *l, const char *bytes, size_t n)
{
        size_t used = 0;
        if (l->relay->state == RELAY_GREETING)
                used = take_answer(l, bytes, n);
        if (!l->relay || used == n)
                return;
        struct conn *c = l->relay->conn;
        tell_client(c, slice_make(bytes + used, n - used));
        if (conn_unsent(c) >= server_output_max(c->server))
                set_line_reading(l, false);
}

static void on_line_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
        struct line *l = handle->data;
        struct loop *loop = l->server->loop;
        (void)suggested;
        loop_turn_begin(loop);
        size_t n = loop->share.read_bytes < SERVER_READ_BYTES ? loop->share.read_bytes
                                                              : SERVER_READ_BYTES;
        if (l->read_turn == loop->share.turn)
                n = 0; /* one read a turn, as in conn.c */
        l->read_turn = loop->share.turn;
        *ret = uv_buf_init(l->server->read_buf, (unsigned)n);
}

static void line_ended(struct line *l, int status)
{
        struct relay *r = l->relay;
        struct problem p;
        if (r->state == RELAY_OPEN)
                relay_over(r->conn);
        else if (l->tls && !tls_client_is_up(l->tls) && tls_client_cut(l->tls, &p) != OK)
                attempt_failed(r, &p);
        else
                fail_with(r, "closed the connection before it took it",
                          status == UV_EOF ? NULL : uv_strerror(status));
}

static void greet(struct line *l);

static void take_cipher(struct line *l, struct slice bytes)
{
        struct problem p;
        bool was_up = tls_client_is_up(l->tls);
        buf_clear(&l->plain);
        int r = tls_client_take(l->tls, bytes, &l->plain, &p);
        bool is_sent = send_tls_out(l);
        if (r != OK && l->relay->state != RELAY_OPEN) {
                attempt_failed(l->relay, &p);
                return;
        }
        if (r != OK || !is_sent) {
                line_ended(l, UV_ECONNRESET);
                return;
        }
        if (!was_up && tls_client_is_up(l->tls))
                greet(l);
        if (l->relay && l->plain.len)
                take_plain(l, l->plain.ptr, l->plain.len);
        if (l->relay && tls_client_is_ended(l->tls))
                line_ended(l, UV_EOF);
}

static void on_line_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
        struct line *l = stream->data;
        if (n == 0 || n == UV_ENOBUFS || !l->relay)
                return;
        loop_turn_begin(l->server->loop);
        if (n < 0)
                line_ended(l, (int)n);
        else if (l->tls)
                take_cipher(l, slice_make(b->base, (size_t)n));
        else
                take_plain(l, b->base, (size_t)n);
}

static void set_line_reading(struct line *l, bool is_reading)
{
        if (l->is_reading == is_reading)
                return;
        l->is_reading = is_reading;
        if (!is_reading)
                (void)uv_read_stop((uv_stream_t *)&l->tcp); /* never fails */
        else if (uv_read_start((uv_stream_t *)&l->tcp, on_line_alloc, on_line_read) < 0)
                line_ended(l, UV_ECONNRESET);
}

/* What the leader is told of the client. */
static void describe(const struct conn *c, struct relay_header *ret)
{
        const struct grant *certified = who_is_certified(c), *grant = c->session.grant;
        struct ip ip = {0};
        bool has_address = ip_parse(slice_str(c->session.address), &ip);
        *ret = (struct relay_header){
                .has_address = has_address,
                .ip = ip,
                .is_local = c->is_local,
                .is_near = c->is_near,
                .is_tls = c->tls != NULL,
                .node = slice_str(c->server->node),
                .sent_ms = c->server->loop->now.wall_ms,
        };
        c->door->tell(c, ret);
        if (c->door->is_http)
                grant = certified; /* each request shows the rest itself */
        if (grant && (certified || c->session.is_authenticated)) {
                ret->token = grant->name;
                ret->is_certified = grant == certified;
        }
}

static void greet(struct line *l)
{
        struct relay *r = l->relay;
        struct server *s = l->server;
        struct relay_header h;
        struct buf bytes CLEANUP(buf_release) = {0};
        describe(r->conn, &h);
        rng_fill(&s->login.rng, h.nonce, sizeof(h.nonce));
        r->state = RELAY_GREETING;
        if (!relay_header_put(&bytes, &h, s->secret) ||
            !relay_answer_make(s->secret, h.nonce, l->answer))
                fail_with(r, "cannot be greeted", err_text(ERR_NOMEM));
        else if (!line_send(l, bytes.ptr, bytes.len))
                fail_with(r, "broke the connection", NULL);
}

static void on_connected(uv_connect_t *req, int status)
{
        struct line *l = req->data;
        struct problem p;
        if (!l->relay)
                return;
        loop_turn_begin(l->server->loop);
        if (status < 0) {
                fail_with(l->relay, "cannot be reached", uv_strerror(status));
                return;
        }
        (void)uv_tcp_nodelay(&l->tcp, 1); /* slower without it, but not wrong */
        (void)uv_tcp_keepalive(&l->tcp, 1, KEEPALIVE_S);
        set_line_reading(l, true);
        if (!l->relay)
                return;
        if (!l->server->relays.url.is_tls)
                greet(l);
        else if (tls_client_new(&l->server->relays.url, &l->tls, &p) != OK)
                attempt_failed(l->relay, &p);
        else if (!send_tls_out(l))
                fail_with(l->relay, "broke the connection", NULL);
}

static void dial(struct relay *r)
{
        struct server *s = r->conn->server;
        struct relays *all = &s->relays;
        struct line *l = xcalloc(1, sizeof(*l));
        const struct sockaddr *to = (const struct sockaddr *)&all->at[all->next_at % all->n_at];
        l->relay = r;
        l->server = s;
        l->connect.data = l;
        buf_init(&l->plain, PLAIN_MAX);
        (void)uv_tcp_init(&s->loop->uv, &l->tcp); /* never fails: it makes no socket yet */
        l->tcp.data = l;
        r->line = l;
        r->state = RELAY_DIALING;
        if (!all->is_reached)
                all->trying = r;
        int err = uv_tcp_connect(&l->connect, &l->tcp, to, on_connected);
        if (err < 0)
                fail_with(r, "cannot be reached", uv_strerror(err));
}

/* --- where the leader is --------------------------------------------------------------------- */

static void look_up(struct server *s);

static void take_addresses(struct relays *all, const struct addrinfo *found)
{
        all->n_at = all->next_at = 0;
        for (; found && all->n_at < RELAY_ADDRESSES; found = found->ai_next)
                if (found->ai_addrlen <= sizeof(all->at[0]))
                        memcpy(&all->at[all->n_at++], found->ai_addr, found->ai_addrlen);
}

static void on_looked_up(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
        struct server *s = req->data;
        struct relays *all = &s->relays;
        struct problem p;
        bool is_stale = all->is_stale;
        all->is_looking_up = all->is_stale = false;
        if (!all->is_closed) {
                loop_turn_begin(s->loop);
                if (!is_stale && status == 0)
                        take_addresses(all, found);
                if (!all->leader) {
                        /* nobody is looked for any more */
                } else if (is_stale) {
                        look_up(s);
                } else if (all->n_at) {
                        wake(s);
                } else {
                        (void)problem_set(&p, ERR_UNAVAIL,
                                          "the host of the leader %s is unknown%s%s", all->leader,
                                          status ? ": " : "", status ? uv_strerror(status) : "");
                        note_trouble(s, &p);
                        try_again(s);
                }
        }
        uv_freeaddrinfo(found);
}

static void look_up(struct server *s)
{
        struct relays *all = &s->relays;
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        char port[8];
        if (all->is_looking_up)
                return;
        (void)snprintf(port, sizeof(port), "%u", (unsigned)all->url.port);
        all->lookup.data = s;
        int err = uv_getaddrinfo(&s->loop->uv, &all->lookup, on_looked_up, all->url.host, port,
                                 &hints);
        all->is_looking_up = err == 0;
        if (err < 0)
                try_again(s);
}

/* Those that wait go to the leader: all, when it took the last one, else one to see. */
static void wake(struct server *s)
{
        struct relays *all = &s->relays;
        if (!all->leader || all->is_closed)
                return;
        if (!all->n_at) {
                look_up(s);
                return;
        }
        LIST_FOREACH(&all->all, it)
        {
                struct relay *r = CONTAINER_OF(it, struct relay, link);
                if (all->trying && !all->is_reached)
                        return;
                if (r->state == RELAY_WAITING)
                        dial(r);
                if (!all->is_reached && !all->trying)
                        return; /* it failed at once */
        }
}

/* A name may stand for another machine by now. */
static void on_timer(void *ctx)
{
        struct server *s = ctx;
        struct relays *all = &s->relays;
        if (!all->leader || list_is_empty(&all->all))
                return;
        if (!all->is_reached && !all->trying && all->next_at >= all->n_at)
                look_up(s); /* and wakes */
        else
                wake(s);
}

/* --- life ------------------------------------------------------------------------------------ */

void relays_close(struct server *s)
{
        s->relays.is_closed = true;
        if (s->relays.is_looking_up)
                (void)uv_cancel((uv_req_t *)&s->relays.lookup); /* or it ends by itself */
}

void relays_release(struct server *s)
{
        ASSERT(list_is_empty(&s->relays.all));
        free(s->relays.leader);
        s->relays.leader = NULL;
}

bool relays_are_ready(const struct server *s)
{
        return s->relays.leader && s->relays.trouble.err == OK;
}

void relays_set_leader(struct server *s, const char *leader)
{
        struct relays *all = &s->relays;
        struct problem p;
        LIST_FOREACH(&all->all, it)
        {
                struct relay *r = CONTAINER_OF(it, struct relay, link);
                if (r->state == RELAY_OPEN)
                        conn_hang_up(r->conn, true);
                else
                        leave_attempt(r);
        }
        free(all->leader);
        all->leader = leader ? xstrdup(leader) : NULL;
        all->n_at = all->next_at = 0;
        all->is_reached = true; /* until it is seen that it is not */
        all->is_stale = all->is_looking_up;
        all->trouble.err = OK;
        if (!leader)
                return;
        if (server_url_parse(leader, &all->url, &p) == OK && !all->url.is_unix) {
                look_up(s);
                return;
        }
        (void)problem_set(&p, ERR_UNAVAIL, "'%s' is no address of a leader; it is host:port",
                          leader);
        note_trouble(s, &p);
        free(all->leader);
        all->leader = NULL;
}

static void relay_begin(struct conn *c)
{
        struct relays *all = &c->server->relays;
        struct relay *r = xcalloc(1, sizeof(*r));
        r->conn = c;
        c->cluster.relay = r;
        c->need = 0;
        list_push_back(&all->all, &r->link);
        conn_wait_for_leader(c, true);
        if (!all->leader)
                return;
        if (all->n_at && (all->is_reached || !all->trying))
                dial(r);
        else if (!all->n_at && all->is_reached)
                look_up(c->server);
        else
                try_again(c->server);
}

enum relay_way relay_way(struct conn *c, struct problem *p)
{
        struct server *s = c->server;
        if (!s->is_gated)
                return RELAY_HERE;
        if (!s->is_following) {
                c->is_stalled = true;
                return RELAY_AWAY;
        }
        if (c->is_unserved) {
                (void)tell_trouble(s, p);
                return RELAY_REFUSED;
        }
        relay_begin(c);
        return RELAY_AWAY;
}

static void relay_end(struct conn *c)
{
        struct relay *r = conn_relay(c);
        if (!r)
                return;
        struct relays *all = &c->server->relays;
        bool was_trying = all->trying == r;
        if (r->state == RELAY_OPEN)
                c->server->counter[DOOR_RELAYS]--;
        leave_attempt(r);
        list_remove(&r->link);
        c->cluster.relay = NULL;
        free(r);
        if (was_trying)
                try_again(c->server); /* the next one */
}

void relay_cancel(struct conn *c)
{
        relay_end(c);
        conn_wait_for_leader(c, false);
        conn_resume(c);
}

static void relay_give_up(struct conn *c)
{
        relay_cancel(c);
        c->is_unserved = true;
}

/* --- bytes ----------------------------------------------------------------------------------- */

bool relay_is_waiting(const struct conn *c)
{
        return c->cluster.relay->state != RELAY_OPEN;
}

static bool relay_can_take(const struct conn *c)
{
        const struct line *l = c->cluster.relay->line;
        return c->cluster.relay->state == RELAY_OPEN && !l->writing && !l->is_shut;
}

static size_t relay_bytes(const struct conn *c)
{
        const struct relay *r = conn_relay(c);
        return r && r->line ? r->line->writing : 0;
}

static size_t relay_input(struct conn *c, char *bytes, size_t n)
{
        struct line *l = c->cluster.relay->line;
        size_t at = 0;
        while (at < n && !l->writing) {
                size_t part = n - at < CONN_WRITE_CHUNK ? n - at : CONN_WRITE_CHUNK;
                if (!line_send(l, bytes + at, part)) {
                        relay_over(c);
                        return n;
                }
                at += part;
        }
        c->spent_bytes += (uint32_t)at;
        return at;
}

static void relay_end_input(struct conn *c)
{
        struct line *l = c->cluster.relay->line;
        if (l->writing || l->is_shut)
                return;
        l->is_shut = true;
        if (l->tls) {
                tls_client_end(l->tls);
                (void)send_tls_out(l); /* if it is broken, the read says so */
        }
        if (uv_shutdown(&l->shutdown, (uv_stream_t *)&l->tcp, NULL) < 0)
                relay_over(c);
}

static void relay_flushed(struct conn *c)
{
        struct line *l = c->cluster.relay->line;
        if (l && c->cluster.relay->state == RELAY_OPEN && !c->is_closing &&
            conn_unsent(c) < server_output_max(c->server))
                set_line_reading(l, true);
}

void relays_init(struct server *s)
{
        static const struct relay_ops ops = {
                .is_waiting = relay_is_waiting,
                .can_take = relay_can_take,
                .input = relay_input,
                .end_input = relay_end_input,
                .flushed = relay_flushed,
                .give_up = relay_give_up,
                .end = relay_end,
                .bytes = relay_bytes,
        };
        s->relays.ops = &ops;
        list_init(&s->relays.all);
        loop_timer_init(s->loop, &s->relays.timer, on_timer, s);
}

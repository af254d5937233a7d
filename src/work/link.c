/* The worker's connection.
 *
 *      state        entered by                    leaves by
 *        WAITING    link_drop, link_dial_next     retry timer -> DIALING
 *        DIALING    link_dial                     connected -> SECURING or GREETING, else
 *                                                 link_dial_next, after the last address link_drop
 *        SECURING   on_connected, with TLS        handshake over -> GREETING, else link_drop
 *        GREETING   link_greet                    HELLO answered -> UP, refused -> link_drop
 *        UP         on_greeted                    end, error, silence -> link_drop
 *        FINISHED   link_finish, end of input     link_close
 *
 * A libuv handle cannot be connected twice, so each attempt is a struct conn of its own that
 * outlives the link's interest in it until libuv has let go of handle and lookup.
 *
 * A name may have several addresses, of machines of a cluster for example.  An attempt tries all of
 * them, and begins after the one that was used last: that one was lost.
 *
 * Waits between attempts double from 100 ms to 5 s, each shortened by up to a half at random, so
 * that a hundred workers do not come back in the same moment. */
#include "work/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "wire/tls_client.h"

#define DIAL_MS        5000
#define RETRY_FIRST_MS 100
#define RETRY_LAST_MS  5000
#define WATCH_MS       1000
#define REPLY_MAX      (2048 * MIB) /* a CLAIM of many jobs with large arguments */

enum link_state {
        LINK_WAITING,
        LINK_DIALING,
        LINK_SECURING,
        LINK_GREETING,
        LINK_UP,
        LINK_FINISHED
};

struct conn {
        struct link *link; /* NULL when the link has given it up */
        union {
                uv_handle_t handle;
                uv_stream_t stream;
                uv_tcp_t tcp;
                uv_pipe_t pipe;
        } u;
        uv_connect_t connect;
        uv_shutdown_t shutdown;
        uv_getaddrinfo_t lookup;
        bool has_handle, is_looking_up;
        struct tls_client *tls; /* NULL: the bytes are plain */
        struct buf cipher;      /* with TLS: room for the socket's bytes */
        struct buf in;          /* plain bytes */
        struct value_scan scan;
        struct list asks; /* struct ask, oldest first */
};

struct ask {
        struct list node;
        struct link_answer answer;
        int64_t deadline_ns;
};

struct link {
        uv_loop_t *loop;
        const struct server_url *url;
        const char *name;
        struct rng *rng;
        struct link_owner owner;
        enum link_state state;
        struct conn *conn;
        uv_timer_t retry, watch;
        unsigned n_timers; /* not yet closed; the last one frees the link */
        unsigned attempt;  /* since the last success */
        unsigned address;  /* which one of the name's is next, modulo their number */
        unsigned n_left;   /* addresses that this attempt has not tried yet */
        bool is_counted;   /* n_left is that of this attempt */
        int64_t dial_deadline_ns;
        bool is_finishing;
        struct arena arena;
};

static void link_dial(struct link *l);
static void link_greet(struct link *l);

static void conn_try_free(struct conn *c)
{
        if (c->has_handle || c->is_looking_up || c->link)
                return;
        (void)tls_client_free(c->tls);
        buf_release(&c->cipher);
        buf_release(&c->in);
        free(c);
}

static void on_conn_closed(uv_handle_t *h)
{
        struct conn *c = h->data;
        c->has_handle = false;
        conn_try_free(c);
}

/* Lets go of the connection; the asks are moved to *ret_asks. */
static void conn_abandon(struct conn *c, struct list *ret_asks)
{
        list_init(ret_asks);
        LIST_FOREACH(&c->asks, node)
        {
                list_remove(node);
                list_push_back(ret_asks, node);
        }
        c->link = NULL;
        if (c->is_looking_up)
                (void)uv_cancel((uv_req_t *)&c->lookup);
        if (c->has_handle)
                uv_close(&c->u.handle, on_conn_closed);
        conn_try_free(c);
}

static int64_t retry_wait_ms(struct link *l)
{
        int64_t ms = RETRY_LAST_MS;
        if (l->attempt < 6)
                ms = (int64_t)RETRY_FIRST_MS << l->attempt;
        if (ms > RETRY_LAST_MS)
                ms = RETRY_LAST_MS;
        l->attempt++;
        return ms - (int64_t)rng_below(l->rng, (uint64_t)ms / 2);
}

static void on_retry(uv_timer_t *timer)
{
        link_dial(timer->data);
}

/* The connection is over: answers everybody with "not known", tells the owner, tries again. */
static void link_drop(struct link *l, const struct problem *why)
{
        struct list asks;
        conn_abandon(TAKE_PTR(l->conn), &asks);
        l->is_counted = false;
        int64_t wait_ms = 0;
        if (l->is_finishing) {
                l->state = LINK_FINISHED;
        } else {
                l->state = LINK_WAITING;
                wait_ms = retry_wait_ms(l);
                (void)uv_timer_start(&l->retry, on_retry, (uint64_t)wait_ms, 0);
        }
        LIST_FOREACH(&asks, node)
        {
                struct ask *ask = CONTAINER_OF(node, struct ask, node);
                list_remove(node);
                ask->answer.fn(ask->answer.ctx, why->err, NULL, why);
                free(ask);
        }
        l->owner.down(l->owner.ctx, why, wait_ms);
}

/* This address took no connection.  False: it was the last one. */
static bool link_dial_next(struct link *l)
{
        struct list none; /* nothing was asked yet */
        if (l->state != LINK_DIALING || !l->is_counted || !l->n_left || l->is_finishing)
                return false;
        l->n_left--;
        conn_abandon(TAKE_PTR(l->conn), &none);
        l->state = LINK_WAITING;
        (void)uv_timer_start(&l->retry, on_retry, 0, 0);
        return true;
}

static void link_drop_uv(struct link *l, const char *what, int r)
{
        struct problem p;
        if (link_dial_next(l))
                return;
        bool is_cut = r == UV_EOF || r == UV_ECONNRESET;
        if (r == UV_ECONNREFUSED || r == UV_ENOENT)
                (void)problem_set(&p, ERR_UNAVAIL,
                                  "nothing answers on %s: is it running? start it with 'weir "
                                  "serve', or name another with --url",
                                  l->url->text);
        else if (is_cut && l->state == LINK_SECURING)
                (void)tls_client_cut(l->conn->tls, &p);
        else if (is_cut && l->state == LINK_GREETING && !l->url->is_tls && !l->url->is_unix)
                (void)problem_set(&p, ERR_UNAVAIL,
                                  "%s closed the connection: if it is a TLS port, use rediss://%s",
                                  l->url->text, l->url->text);
        else if (r == UV_EOF)
                (void)problem_set(&p, ERR_UNAVAIL, "%s closed the connection", l->url->text);
        else
                (void)problem_set(&p, ERR_UNAVAIL, "%s %s: %s", what, l->url->text, uv_strerror(r));
        link_drop(l, &p);
}

static void link_drop_foreign(struct link *l)
{
        struct problem p;
        const struct buf *in = &l->conn->in;
        if (in->len >= 2 && !l->url->is_tls && memcmp(in->ptr, "\x15\x03", 2) == 0) /* an alert */
                (void)problem_set(&p, ERR_SYNTAX, "%s speaks TLS: use rediss://%s", l->url->text,
                                  l->url->text);
        else
                (void)problem_set(&p, ERR_SYNTAX, "what answers on %s does not speak RESP",
                                  l->url->text);
        link_drop(l, &p);
}

/* ---- bytes ---- */

struct write {
        uv_write_t req;
        struct buf bytes;
};

static void on_written(uv_write_t *req, int status)
{
        struct write *w = CONTAINER_OF(req, struct write, req);
        (void)status; /* the read side hears of a broken connection too */
        buf_release(&w->bytes);
        free(w);
}

/* Takes the bytes over and leaves the buffer empty. */
static void conn_write(struct conn *c, struct buf *bytes)
{
        struct write *w = xcalloc(1, sizeof(*w));
        w->bytes = *bytes;
        *bytes = (struct buf){.max = bytes->max};
        uv_buf_t b = uv_buf_init(w->bytes.ptr, (unsigned)w->bytes.len);
        if (uv_write(&w->req, &c->u.stream, &b, 1, on_written) != 0)
                on_written(&w->req, 0);
}

/* Sends what TLS has ready. */
static void conn_flush(struct conn *c)
{
        struct buf *out = tls_client_out(c->tls);
        if (out->len)
                conn_write(c, out);
}

static int conn_shutdown(struct conn *c)
{
        if (c->tls) {
                tls_client_end(c->tls);
                conn_flush(c);
        }
        return uv_shutdown(&c->shutdown, &c->u.stream, NULL);
}

/* Bytes of the socket into c->in: false when the connection is gone afterwards. */
static bool conn_decipher(struct conn *c, struct slice bytes)
{
        struct link *l = c->link;
        struct problem p;
        int r = tls_client_take(c->tls, bytes, &c->in, &p);
        conn_flush(c);
        if (r != OK) {
                link_drop(l, &p);
                return false;
        }
        if (l->state == LINK_SECURING && tls_client_is_up(c->tls))
                link_greet(l);
        return true;
}

/* ---- replies ---- */

/* One whole reply at the front of c->in: false when the connection is gone afterwards. */
static bool conn_reply(struct conn *c)
{
        struct link *l = c->link;
        struct list *node = list_peek_front(&c->asks);
        struct value *v = NULL;
        arena_clear(&l->arena);
        if (!node || value_parse(slice_make(c->in.ptr, c->scan.at), &l->arena, &v) != OK) {
                link_drop_foreign(l);
                return false;
        }
        struct ask *ask = CONTAINER_OF(node, struct ask, node);
        struct problem p = {0};
        int err = v->type == VALUE_ERROR ? value_problem(v, &p) : OK;
        list_remove(node);
        ask->answer.fn(ask->answer.ctx, err, v, &p);
        free(ask);
        return c->link != NULL;
}

static void on_conn_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
        struct conn *c = h->data;
        struct buf *room = c->tls ? &c->cipher : &c->in;
        (void)suggested;
        if (buf_reserve(room, 65536))
                *ret = uv_buf_init(room->ptr + room->len, (unsigned)65536);
        else
                *ret = uv_buf_init(NULL, 0); /* read_cb gets UV_ENOBUFS */
}

static void on_conn_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
        struct conn *c = stream->data;
        if (!c->link || n == 0)
                return;
        if (n < 0) {
                link_drop_uv(c->link, "connection to", (int)n);
                return;
        }
        if (!c->tls)
                c->in.len += (size_t)n;
        else if (!conn_decipher(c, slice_make(buf->base, (size_t)n)))
                return;
        while (c->in.len > 0) {
                int r = value_scan(&c->scan, buf_slice(&c->in));
                if (r == 0)
                        break;
                if (r < 0) {
                        link_drop_foreign(c->link);
                        return;
                }
                if (!conn_reply(c))
                        return;
                buf_drop_front(&c->in, c->scan.at);
                value_scan_init(&c->scan);
        }
        if (c->tls && tls_client_is_ended(c->tls))
                link_drop_uv(c->link, "connection to", UV_EOF);
}

static void conn_ask(struct conn *c, const struct slice *argv, size_t argc,
                     struct link_answer answer)
{
        struct ask *ask = xcalloc(1, sizeof(*ask));
        struct buf bytes CLEANUP(buf_release) = {0};
        ask->answer = answer;
        ask->deadline_ns = clock_boot_ns() + answer.ms * NS_PER_MS;
        list_push_back(&c->asks, &ask->node);
        value_put_command(&bytes, argv, argc);
        ASSERT(!bytes.failed);
        if (!c->tls)
                conn_write(c, &bytes);
        else if (tls_client_put(c->tls, buf_slice(&bytes), NULL) == OK)
                conn_flush(c); /* else there is no memory, and the answer will be missed */
}

/* AUTH may be answered that no token is needed, and the name is only for people: both pass. */
static void on_courtesy(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct link *l = ctx;
        if (v && err != OK && err != ERR_BADARG && l->state == LINK_GREETING) {
                struct problem why = *p;
                link_drop(l, &why);
        }
}

static void on_greeted(void *ctx, int err, const struct value *v, const struct problem *p)
{
        struct link *l = ctx;
        if (!v || l->state != LINK_GREETING) /* lost: link_drop has it in hand */
                return;
        if (err != OK) {
                struct problem why = *p;
                link_drop(l, &why);
                return;
        }
        l->state = LINK_UP;
        l->attempt = 0;
        l->owner.up(l->owner.ctx);
}

static void link_greet(struct link *l)
{
        struct conn *c = l->conn;
        struct slice auth[SERVER_AUTH_WORDS];
        size_t n_auth = server_url_auth(l->url, auth);
        const struct slice hello[] = {SLICE_LIT("HELLO"), SLICE_LIT("3")};
        const struct slice name[] = {SLICE_LIT("CLIENT"), SLICE_LIT("SETNAME"), slice_str(l->name)};
        l->state = LINK_GREETING;
        if (n_auth)
                conn_ask(c, auth, n_auth, (struct link_answer){on_courtesy, l, DIAL_MS});
        conn_ask(c, name, 3, (struct link_answer){on_courtesy, l, DIAL_MS});
        conn_ask(c, hello, 2, (struct link_answer){on_greeted, l, DIAL_MS});
}

static void on_connected(uv_connect_t *req, int status)
{
        struct conn *c = req->data;
        struct link *l = c->link;
        struct problem p;
        if (!l)
                return;
        if (status == 0)
                status = uv_read_start(&c->u.stream, on_conn_alloc, on_conn_read);
        if (status < 0) {
                link_drop_uv(l, "cannot connect to", status);
                return;
        }
        if (!l->url->is_tls) {
                link_greet(l);
        } else if (tls_client_new(l->url, &c->tls, &p) != OK) {
                link_drop(l, &p);
        } else {
                l->state = LINK_SECURING;
                conn_flush(c);
        }
}

static struct addrinfo *choose_address(struct link *l, struct addrinfo *all)
{
        unsigned n = 1;
        for (struct addrinfo *a = all->ai_next; a; a = a->ai_next)
                n++;
        if (!l->is_counted)
                l->n_left = n - 1;
        l->is_counted = true;
        for (unsigned i = l->address++ % n; i > 0; i--)
                all = all->ai_next;
        return all;
}

static void on_looked_up(uv_getaddrinfo_t *req, int status, struct addrinfo *all)
{
        struct conn *c = req->data;
        struct link *l = c->link;
        c->is_looking_up = false;
        if (!l) {
                uv_freeaddrinfo(all);
                conn_try_free(c);
                return;
        }
        if (status < 0 || !all) {
                link_drop_uv(l, "cannot find the host of", status < 0 ? status : UV_EAI_NONAME);
                return;
        }
        struct addrinfo *chosen = choose_address(l, all);
        (void)uv_tcp_init(l->loop, &c->u.tcp);
        c->u.handle.data = c;
        c->has_handle = true;
        (void)uv_tcp_nodelay(&c->u.tcp, 1);
        (void)uv_tcp_keepalive(&c->u.tcp, 1, 30);
        int r = uv_tcp_connect(&c->connect, &c->u.tcp, chosen->ai_addr, on_connected);
        uv_freeaddrinfo(all);
        if (r != 0)
                link_drop_uv(l, "cannot connect to", r);
}

static void link_dial(struct link *l)
{
        struct conn *c = xcalloc(1, sizeof(*c));
        c->link = l;
        c->connect.data = c->lookup.data = c->shutdown.data = c;
        buf_init(&c->in, REPLY_MAX);
        list_init(&c->asks);
        value_scan_init(&c->scan);
        l->conn = c;
        l->state = LINK_DIALING;
        l->dial_deadline_ns = clock_boot_ns() + DIAL_MS * NS_PER_MS;
        if (l->url->is_unix) {
                (void)uv_pipe_init(l->loop, &c->u.pipe, 0);
                c->u.handle.data = c;
                c->has_handle = true;
                uv_pipe_connect(&c->connect, &c->u.pipe, l->url->path, on_connected);
                return;
        }
        char port[8];
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        (void)snprintf(port, sizeof(port), "%u", (unsigned)l->url->port);
        int r = uv_getaddrinfo(l->loop, &c->lookup, on_looked_up, l->url->host, port, &hints);
        c->is_looking_up = r == 0;
        if (r != 0)
                link_drop_uv(l, "cannot find the host of", r);
}

/* Silence is a fault as well: a frozen server, a firewall that forgot the connection. */
static void on_watch(uv_timer_t *timer)
{
        struct link *l = timer->data;
        int64_t now_ns = clock_boot_ns();
        if (!l->conn)
                return;
        struct list *node = list_peek_front(&l->conn->asks);
        int64_t deadline_ns = INT64_MAX;
        if (l->state == LINK_DIALING || l->state == LINK_SECURING)
                deadline_ns = l->dial_deadline_ns;
        else if (node)
                deadline_ns = CONTAINER_OF(node, struct ask, node)->deadline_ns;
        if (now_ns < deadline_ns || link_dial_next(l))
                return;
        struct problem p;
        if (l->state == LINK_SECURING)
                (void)tls_client_silent(l->conn->tls, &p);
        else
                (void)problem_set(&p, ERR_TIMEOUT, "%s gives no answer", l->url->text);
        link_drop(l, &p);
}

struct link *link_new(uv_loop_t *loop, const struct server_url *url, const char *name,
                      struct rng *rng, const struct link_owner *owner)
{
        struct link *l = xcalloc(1, sizeof(*l));
        *l = (struct link){.loop = loop, .url = url, .name = name, .rng = rng, .owner = *owner};
        arena_init(&l->arena, REPLY_MAX);
        (void)uv_timer_init(loop, &l->retry);
        (void)uv_timer_init(loop, &l->watch);
        l->retry.data = l->watch.data = l;
        l->n_timers = 2;
        (void)uv_timer_start(&l->watch, on_watch, WATCH_MS, WATCH_MS);
        /* Through the timer, so that no callback comes before the caller has the link. */
        l->state = LINK_WAITING;
        (void)uv_timer_start(&l->retry, on_retry, 0, 0);
        return l;
}

bool link_is_up(const struct link *l)
{
        return l->state == LINK_UP && !l->is_finishing;
}

bool link_is_finished(const struct link *l)
{
        return l->state == LINK_FINISHED;
}

void link_send(struct link *l, const struct slice *argv, size_t argc, struct link_answer answer)
{
        ASSERT(link_is_up(l));
        conn_ask(l->conn, argv, argc, answer);
}

void link_finish(struct link *l)
{
        if (l->is_finishing)
                return;
        l->is_finishing = true;
        (void)uv_timer_stop(&l->retry);
        if (l->state == LINK_WAITING) {
                l->state = LINK_FINISHED;
        } else if (l->state != LINK_UP || conn_shutdown(l->conn) != 0) {
                struct problem p;
                (void)problem_set(&p, ERR_UNAVAIL, "not connected to %s", l->url->text);
                link_drop(l, &p);
        } else {
                /* A server that does not take the hint is not waited for longer than this. */
                LIST_FOREACH(&l->conn->asks, node)
                CONTAINER_OF(node, struct ask, node)->deadline_ns =
                        clock_boot_ns() + DIAL_MS * NS_PER_MS;
        }
}

static void on_timer_closed(uv_handle_t *h)
{
        struct link *l = h->data;
        if (--l->n_timers > 0)
                return;
        arena_release(&l->arena);
        free(l);
}

void link_close(struct link *l)
{
        if (l->conn) {
                struct list asks;
                conn_abandon(TAKE_PTR(l->conn), &asks);
                LIST_FOREACH(&asks, node)
                {
                        list_remove(node);
                        free(CONTAINER_OF(node, struct ask, node));
                }
        }
        uv_close((uv_handle_t *)&l->retry, on_timer_closed);
        uv_close((uv_handle_t *)&l->watch, on_timer_closed);
}

/* TLS of a connection: between its socket and its input and output.
 *
 * Input: what was read into the server's one buffer is decrypted, all of it, into another one that
 * all connections share, and goes on from there as plain input does.  What does not fit into the
 * connection's share of the turn is kept as plain bytes by conn.c, so nothing is forgotten in here.
 *
 * Output is encrypted only when it may leave and the socket has room: what the socket does not take
 * is at most CONN_WRITE_CHUNK, handed to libuv as a copy and counted like that of a plain one.
 *
 * Until the handshake is done a connection is a stranger, with its deadline and its bounds, and its
 * door does not see it.  Nothing is ever written in the clear but one answer to a peer that began
 * in the clear. */
#include "door/conn_int.h"

#include "base/say.h"

/* What TLS may have to say itself while the peer does not read: key updates, at most. */
#define OWN_OUTPUT_MAX (4 * CONN_WRITE_CHUNK)
/* Pieces that are encrypted for one connection in one go. */
#define GO_CHUNKS 4

static void count(struct conn *c, enum door_counter which, uint64_t n)
{
        c->server->counter[which] += n;
}

bool conn_tls_begin(struct conn *c)
{
        struct server *s = c->server;
        c->tls = tls_new(tls_store_peek(s->tls), c->door->is_http);
        if (c->tls)
                count(c, DOOR_TLS_CONNECTIONS, 1);
        return c->tls;
}

void conn_tls_release(struct conn *c)
{
        c->tls = tls_free(c->tls);
        c->server->counter[DOOR_TLS_CONNECTIONS]--;
}

bool conn_is_shaking(const struct conn *c)
{
        return !tls_is_open(c->tls);
}

/* What TLS made.  The connection may be closed afterwards. */
static void send_out(struct conn *c)
{
        struct buf *out = &c->server->tls_out;
        uv_buf_t b = uv_buf_init(out->ptr, (unsigned)out->len);
        if (out->len == 0)
                return;
        int n = c->writing ? UV_EAGAIN : uv_try_write(&c->uv.stream, &b, 1);
        if (n == UV_EAGAIN)
                n = 0;
        size_t rest = out->len - (n < 0 ? 0 : (size_t)n);
        if (n < 0 || out->failed || c->writing + rest > OWN_OUTPUT_MAX) {
                conn_close(c);
        } else {
                count(c, DOOR_BYTES_OUT, (uint64_t)n);
                if (rest)
                        conn_write_later(c, out->ptr + n, rest);
        }
        buf_clear(out);
}

static void say_failure(struct conn *c, const char *reason)
{
        struct server *s = c->server;
        count(c, DOOR_TLS_FAILURES, 1);
        uint64_t n = muffle_count(&s->tls_said, s->loop->now.steady_ns);
        if (n)
                say_warn("door", "TLS failed", "address", c->session.address, "door", c->door->name,
                         "why", reason, "failures", SAY_I64(n));
}

/* The peer can read the alert, as it reads an error: nothing else is sent, and what still comes is
 * thrown away. */
static void fail(struct conn *c)
{
        bool was_shaking = conn_is_shaking(c);
        say_failure(c, tls_reason(c->tls));
        send_out(c);
        if (c->is_closed)
                return;
        if (was_shaking) {
                conn_tls_release(c);
                conn_finish(c, true);
        } else {
                conn_close(c);
        }
}

/* A person or a program that forgot the TLS gets to know it. */
static void refuse_plain(struct conn *c)
{
        struct problem p;
        say_failure(c, tls_reason(c->tls));
        conn_tls_release(c);
        (void)problem_set(&p, ERR_SYNTAX, "this port speaks TLS; connect with %s",
                          c->door->is_http ? "https://" : "TLS (redis-cli --tls)");
        c->door->refuse(c, &p);
        conn_finish(c, true);
}

static void on_open(struct conn *c)
{
        count(c, DOOR_TLS_HANDSHAKES, 1);
        conn_secured(c);
        if (tls_has_peer(c->tls))
                conn_certified(c);
}

static void check_handshake(struct conn *c, size_t n)
{
        c->preauth_bytes += (uint32_t)n;
        if (c->preauth_bytes <= LIMIT_TLS_HANDSHAKE_BYTES)
                return;
        say_failure(c, "the handshake is too long");
        conn_close(c);
}

void conn_tls_read(struct conn *c, const char *bytes, size_t n)
{
        struct server *s = c->server;
        size_t got = 0;
        bool was_shaking = conn_is_shaking(c);
        enum tls_outcome outcome =
                tls_take(c->tls, slice_make(bytes, n), s->tls_plain, &got, &s->tls_out);
        if (outcome == TLS_PLAIN) {
                refuse_plain(c);
                return;
        }
        if (was_shaking)
                share_look(&s->loop->share, uv_hrtime());
        if (outcome == TLS_FAILED) {
                fail(c);
                return;
        }
        send_out(c);
        if (c->is_closed)
                return;
        if (c->writing)
                conn_make_dirty(c); /* to be counted */
        if (conn_is_shaking(c))
                check_handshake(c, n);
        else if (was_shaking)
                on_open(c);
        if (got && !c->is_closed && !c->is_closing)
                conn_take(c, s->tls_plain, got);
        if (outcome == TLS_ENDED && !c->is_closed)
                conn_end_input(c, true);
}

void conn_tls_write(struct conn *c)
{
        for (unsigned i = 0; c->sent < c->ready && !c->writing && !c->is_closed; i++) {
                size_t n = c->ready - c->sent;
                if (n > CONN_WRITE_CHUNK)
                        n = CONN_WRITE_CHUNK;
                struct buf *out = &c->server->tls_out;
                if (!tls_put(c->tls, slice_make(c->out.ptr + c->sent, n), out)) {
                        buf_clear(out);
                        conn_close(c);
                        return;
                }
                c->sent += (uint32_t)n;
                if (i < GO_CHUNKS) {
                        send_out(c);
                } else { /* others want to write too: libuv comes back when this has left */
                        conn_write_later(c, out->ptr, out->len);
                        buf_clear(out);
                }
        }
}

void conn_tls_say_goodbye(struct conn *c)
{
        struct buf *out = &c->server->tls_out;
        tls_say_goodbye(c->tls, out);
        uv_buf_t b = uv_buf_init(out->ptr, (unsigned)out->len);
        if (out->len)
                (void)uv_try_write(&c->uv.stream, &b, 1); /* a full socket goes without it */
        buf_clear(out);
}

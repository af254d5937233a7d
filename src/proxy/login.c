/* The beginning of a session: the server's greeting with some capabilities changed, TLS with either
 * side, and the client's login, which tells who it is.  Everything else of a login passes as it is.
 *
 * A request for TLS is a packet of its own, before the login.  Where only one of the sides has TLS,
 * the packets of the login have one number more, or less, for the server than for the client. */
#include <string.h>

#include "proxy/proxy_int.h"

#define TLS_REQUEST 32U /* bytes of its payload: those that a login begins with */

/* ---- the greeting ---- */

static bool has_plain_server(const struct setup *s)
{
        return !s->server_host; /* a unix socket is never encrypted, and need not be */
}

static void pass_greeting(struct pair *c, enum pair_phase phase)
{
        pair_set_phase(c, phase);
        pair_send(c, &c->client, (const uint8_t *)c->in.ptr, c->in.len);
        buf_release(&c->in);
}

/* An error in the place of the greeting is passed on, and the server hangs up after it. */
static void take_greeting(struct pair *c)
{
        enum proxy_tls_mode tls = c->setup->tls;
        uint64_t clear = MYSQL_UNREADABLE | (tls == PROXY_TLS_OFF ? MYSQL_SSL : 0);
        uint8_t *payload = (uint8_t *)c->in.ptr + MYSQL_HEADER;
        size_t len = c->in.len - MYSQL_HEADER;
        struct mysql_greeting greeting;
        struct problem problem;
        int r = mysql_greeting_edit(payload, len, clear, &greeting, &problem);
        if (r != OK) {
                pass_greeting(c, PAIR_BLIND);
                return;
        }
        door_server_fine(c->door);
        c->thread_id = greeting.thread_id;
        c->server_caps = greeting.caps & ~clear;
        if (tls == PROXY_TLS_TERMINATE && has_plain_server(c->setup)) {
                mysql_greeting_offer_tls(payload, len);
                c->server_caps |= MYSQL_SSL;
        }
        c->has_server_tls = greeting.caps & MYSQL_SSL;
        c->status = greeting.status;
        pass_greeting(c, PAIR_LOGIN);
}

/* c->in is free to collect it: the client has not been read yet. */
void login_greeting(struct pair *c, const uint8_t *bytes, size_t n)
{
        buf_put(&c->in, bytes, n);
        if (c->in.len < MYSQL_HEADER)
                return;
        size_t len = MYSQL_HEADER + mysql_length((const uint8_t *)c->in.ptr);
        if (len > LOGIN_BYTES || c->in.len > len)
                pass_greeting(c, PAIR_BLIND);
        else if (c->in.len == len)
                take_greeting(c);
}

/* ---- TLS ---- */

/* The handshake follows a request for TLS at once, and is OpenSSL's to read. */
size_t login_read_bytes(const struct pair *c)
{
        bool may_ask = c->phase == PAIR_LOGIN && !c->is_login_sent &&
                       c->setup->tls == PROXY_TLS_TERMINATE && !c->client.stream.tls;
        return may_ask && c->in.len < MYSQL_HEADER + TLS_REQUEST
                       ? MYSQL_HEADER + TLS_REQUEST - c->in.len
                       : READ_BYTES;
}

/* What a login begins with, as a packet that asks the server for TLS. */
static bool ask_server(struct pair *c, const uint8_t *packet)
{
        const struct setup *s = c->setup;
        uint8_t request[MYSQL_HEADER + TLS_REQUEST];
        if (!c->has_server_tls) {
                pair_fail(c, (uint8_t)(packet[3] + 1), 2026, "HY000",
                          "weir: the server %s has no TLS", s->server);
                return false;
        }
        memcpy(request, packet, sizeof(request));
        request[0] = TLS_REQUEST;
        request[1] = request[2] = 0;
        request[MYSQL_HEADER + 1] |= (uint8_t)(MYSQL_SSL >> 8);
        pair_send(c, &c->server, request, sizeof(request));
        char *name = s->server_tls == PROXY_SERVER_VERIFY ? s->server_name : NULL;
        /* A new socket takes 36 bytes; the handshake must not come before them. */
        if (c->phase != PAIR_CLOSED && !c->server.out.len &&
            stream_connect_tls(&c->server.stream, s->server_tls_ctx, name))
                return true;
        pair_end(c);
        return false;
}

/* Who cannot be read later is asked for now. */
static enum taken take_blind(struct pair *c)
{
        enum judgement j = command_judge_blind(c);
        if (j == JUDGE_FORWARD) {
                pair_set_phase(c, PAIR_BLIND);
                return TAKEN_FORWARD;
        }
        if (j != JUDGE_REFUSE)
                return TAKEN_NOTHING;
        pair_fail(c, c->client_sequence, c->refused_error, c->refused_state, "%s", c->why);
        return TAKEN_DROP;
}

static enum taken take_tls_request(struct pair *c, const uint8_t *packet, size_t *ret)
{
        const struct setup *s = c->setup;
        *ret = MYSQL_HEADER + TLS_REQUEST;
        c->client_sequence = (uint8_t)(packet[3] + 1);
        if (s->tls == PROXY_TLS_BLIND)
                return take_blind(c);
        if (s->tls == PROXY_TLS_OFF || c->client.stream.tls ||
            !stream_accept_tls(&c->client.stream, s->client_tls_ctx)) {
                pair_fail(c, c->client_sequence, 1043, "08S01",
                          "weir: this door has no TLS, and did not offer it");
                return TAKEN_DROP;
        }
        if (has_plain_server(s))
                c->sequence_shift = -1;
        else
                (void)ask_server(c, packet); /* it ends the pair when it fails */
        return TAKEN_DROP;
}

/* Packets of the server to a client that counts otherwise. */
void login_shift(struct pair *c, uint8_t *bytes, size_t n)
{
        size_t at = MYSQL_HEADER - 1 - (size_t)c->reply.n_header;
        if (c->reply.n_header < MYSQL_HEADER && at < n)
                bytes[at] = (uint8_t)(bytes[at] - c->sequence_shift);
}

/* ---- the login ---- */

static bool is_user_welcome(struct pair *c)
{
        struct door *d = c->door;
        (void)pthread_mutex_lock(&d->lock);
        c->is_user_counted = door_add_user(d, c->setup, c->user);
        (void)pthread_mutex_unlock(&d->lock);
        if (c->is_user_counted)
                return true;
        pair_fail(c, c->client_sequence, 1203, "42000",
                  "weir: User '%s' has exceeded max_user_connections of this door (%u)", c->user,
                  c->setup->max_user_connections);
        return false;
}

static bool lacks_server_tls(const struct pair *c)
{
        const struct setup *s = c->setup;
        return s->server_tls != PROXY_SERVER_AS_CLIENT && !has_plain_server(s) &&
               !c->server.stream.tls;
}

/* As it is, unless the two sides differ in TLS: then it says so to the server. */
static enum taken send_login(struct pair *c, const uint8_t *packet, size_t len)
{
        struct buf copy CLEANUP(buf_release) = {0};
        if (lacks_server_tls(c)) {
                if (!ask_server(c, packet))
                        return TAKEN_DROP;
                c->sequence_shift = 1;
        }
        if (!c->sequence_shift)
                return TAKEN_FORWARD;
        buf_put(&copy, packet, len);
        copy.ptr[3] = (char)(packet[3] + c->sequence_shift);
        if (c->sequence_shift > 0)
                copy.ptr[MYSQL_HEADER + 1] |= (char)(MYSQL_SSL >> 8);
        else
                copy.ptr[MYSQL_HEADER + 1] &= (char)~(MYSQL_SSL >> 8);
        pair_send(c, &c->server, (const uint8_t *)copy.ptr, copy.len);
        return TAKEN_DROP;
}

/* It passes as it is, unless that would need a change, or would be less secret than it must be. */
static enum taken pass_unread(struct pair *c, const uint8_t *packet)
{
        if (lacks_server_tls(c) || c->sequence_shift) {
                pair_fail(c, (uint8_t)(packet[3] + 1), 1043, "08S01",
                          "weir: this login is longer than 64 KiB, or cannot be read");
                return TAKEN_DROP;
        }
        c->client_sequence = (uint8_t)(packet[3] + 1);
        return take_blind(c);
}

enum taken login_take(struct pair *c, const uint8_t *bytes, size_t n, size_t *ret)
{
        struct mysql_login login;
        struct problem problem;
        if (n < MYSQL_HEADER)
                return TAKEN_NOTHING;
        size_t len = mysql_length(bytes);
        if (len <= LOGIN_BYTES && n - MYSQL_HEADER < len)
                return TAKEN_NOTHING;
        *ret = n;
        struct slice payload = {(const char *)bytes + MYSQL_HEADER, len};
        if (len > LOGIN_BYTES || mysql_login_parse(payload, c->server_caps, &login, &problem) != OK)
                return pass_unread(c, bytes);
        if (login.is_tls_request)
                return take_tls_request(c, bytes, ret);
        *ret = MYSQL_HEADER + len;
        c->client_sequence = (uint8_t)(bytes[3] + 1);
        pair_take_login(c, &login);
        if (!is_user_welcome(c))
                return TAKEN_DROP;
        c->caps = login.caps & c->server_caps;
        c->is_login_sent = true;
        (void)pair_expect(c, MYSQL_EXPECT_LOGIN, 0);
        return send_login(c, bytes, MYSQL_HEADER + len);
}

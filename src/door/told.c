#include "door/told.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "base/say.h"
#include "door/conn_int.h"
#include "wire/relay_header.h"

struct nonce {
        struct hash_node node;
        char bytes[RELAY_NONCE_BYTES];
};

static void forget(struct hash *nonces)
{
        HASH_DRAIN(nonces, node)
        {
                hash_remove(nonces, node);
                free(CONTAINER_OF(node, struct nonce, node));
        }
        hash_release(nonces);
}

void told_init(struct server *s)
{
        hash_init(&s->nonces.now, rng_u64(&s->login.rng));
        hash_init(&s->nonces.before, s->nonces.now.seed);
}

void told_free(struct server *s)
{
        forget(&s->nonces.now);
        forget(&s->nonces.before);
}

/* False: it was there before. */
static bool remember(struct told_nonces *all, const uint8_t *bytes, int64_t now_ms)
{
        struct slice key = slice_make(bytes, RELAY_NONCE_BYTES);
        if (now_ms - all->since_ms >= RELAY_NONCE_MS || now_ms < all->since_ms) {
                uint64_t seed = all->now.seed;
                forget(&all->before);
                all->before = all->now;
                hash_init(&all->now, seed);
                all->since_ms = now_ms;
        }
        if (hash_find(&all->now, key) || hash_find(&all->before, key))
                return false;
        struct nonce *n = xcalloc(1, sizeof(*n));
        memcpy(n->bytes, bytes, sizeof(n->bytes));
        hash_insert(&all->now, &n->node, slice_make(n->bytes, sizeof(n->bytes)));
        return true;
}

static int check(struct server *s, const struct relay_header *h, struct problem *p)
{
        if (!remember(&s->nonces, h->nonce, s->loop->now.wall_ms))
                return problem_set(p, ERR_FORBIDDEN, "this header was used before");
        if (s->is_following)
                return problem_set(p, ERR_UNAVAIL, "this weir does not lead");
        return OK;
}

static void refuse(struct conn *c, const struct problem *p)
{
        struct server *s = c->server;
        uint64_t n = 0;
        if (p->err != ERR_UNAVAIL) /* which is no fault in a change of the leader */
                n = muffle_count(&s->nonces.said, s->loop->now.steady_ns);
        if (n)
                say_warn("door", "refused a relayed connection", "address", c->session.address,
                         "why", p->detail, "refused", SAY_I64(n));
        s->counter[DOOR_RELAYED_REFUSED]++;
        c->door->refuse(c, p);
        conn_finish(c, true);
}

static const char *address_of(const struct relay_header *h, char ret[INET6_ADDRSTRLEN])
{
        bool is_v4 = ip_is_v4(&h->ip);
        if (!h->has_address ||
            !inet_ntop(is_v4 ? AF_INET : AF_INET6, h->ip.bytes + (is_v4 ? IP_V4_AT : 0), ret,
                       INET6_ADDRSTRLEN))
                ret[0] = '\0';
        return ret;
}

/* What its weir has found out about it.  False: it was refused. */
static bool introduce(struct conn *c, const struct relay_header *h)
{
        struct server *s = c->server;
        struct slice certified = h->is_certified ? h->token : SLICE_NONE;
        struct grant *grant = NULL;
        struct told *told = xcalloc(1, sizeof(*told) + certified.len + 1);
        told->is_tls = h->is_tls;
        if (certified.len)
                memcpy(told->certified, certified.ptr, certified.len);
        c->is_told = true;
        c->cluster.told = told;
        c->door->hear(c, h);
        if (!h->token.len || !s->needs_token)
                return true;
        int r = OK;
        grant = tokens_find_named(s->core, h->token, c->session.address);
        if (!grant)
                r = problem_set(&s->problem, ERR_BADTOKEN, "%s", err_text(ERR_BADTOKEN));
        else
                r = use_admits(c, grant, &s->problem);
        if (r == OK) {
                conn_authenticated(c, grant);
                return true;
        }
        c->door->refuse(c, &s->problem);
        conn_finish(c, true);
        return false;
}

static void accept_client(struct conn *c, const struct relay_header *h,
                          const char answer[RELAY_ANSWER_BYTES])
{
        char address[INET6_ADDRSTRLEN];
        const struct conn_origin origin = {
                .door = h->door == RELAY_HTTP ? c->server->http : c->door,
                .address = address_of(h, address),
                .is_local = h->is_local,
                .is_near = h->is_near,
        };
        c->server->counter[DOOR_RELAYED]++;
        buf_put(conn_out(c), answer, RELAY_ANSWER_BYTES);
        conn_replied_late(c, 0);
        if (conn_become(c, &origin))
                (void)introduce(c, h); /* one that it refuses is told, and closing */
}

size_t told_take(struct conn *c, const char *bytes, size_t n)
{
        struct server *s = c->server;
        struct relay_header h;
        char answer[RELAY_ANSWER_BYTES];
        size_t len;
        int r = relay_header_read(slice_make(bytes, n), s->secret, s->loop->now.wall_ms, &h, &len,
                                  &s->problem);
        if (r == OK && !len) {
                c->need = (uint32_t)n + 1;
                return 0;
        }
        if (r == OK)
                r = check(s, &h, &s->problem);
        if (r == OK && !relay_answer_make(s->secret, h.nonce, answer))
                r = problem_set(&s->problem, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
        if (r != OK) {
                refuse(c, &s->problem);
                return n;
        }
        accept_client(c, &h, answer);
        return len;
}

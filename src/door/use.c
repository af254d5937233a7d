/* See use.h.
 *
 * Commands: each moves a clock on by its share of a second.  When the clock is BURST_NS ahead of
 * the time, the connections of that address or token are not read from until it is not: TCP tells
 * the client, and nothing is refused.  So a limit costs an addition and a comparison a command. */
#include "door/use.h"

#include "door/door_int.h"

#define BURST_NS (100 * NS_PER_MS)
#define SLOW_MS  20 /* how often those that wait are looked at */

static void on_slow(void *ctx)
{
        struct server *s = ctx;
        while (!list_is_empty(&s->slowed)) {
                struct list *first = s->slowed.next;
                list_remove(first);
                list_push_back(&s->resumed, first);
        }
}

void use_init(struct server *s)
{
        list_init(&s->slowed);
        loop_timer_init(s->loop, &s->slow_timer, on_slow, s);
}

void use_become(struct conn *c, struct grant *grant)
{
        struct grant *old = c->session.grant;
        if (old == grant)
                return;
        if (old) {
                old->use.connections--;
                old->use.bytes -= c->held_bytes;
        }
        if (grant) {
                grant->use.connections++;
                grant->use.bytes += c->held_bytes;
        }
        session_set_grant(&c->session, grant);
}

int use_admits(const struct conn *c, const struct grant *grant, struct problem *p)
{
        const uint64_t usual =
                LIMIT_CONNECTIONS - LIMIT_RESERVED_CONNECTIONS - LIMIT_OPERATOR_CONNECTIONS;
        struct server *s = c->server;
        if (grant == c->session.grant)
                return OK;
        if (grant->use.connections >= grant->limits.connections) {
                s->counter[DOOR_REFUSED_USE]++;
                return problem_set(p, ERR_LIMIT,
                                   "the token '%.*s' has %u connections open, which is its limit",
                                   (int)grant->name.len, grant->name.ptr,
                                   grant->limits.connections);
        }
        if (!c->is_near && !(grant->held & ROLE_BIT(ROLE_OPERATOR)) &&
            s->counter[DOOR_CONNECTIONS] > usual) {
                s->counter[DOOR_REFUSED_USE]++;
                return problem_set(p, ERR_LIMIT,
                                   "%llu connections are open; the rest is kept for operators",
                                   (unsigned long long)usual);
        }
        return OK;
}

/* --- memory --------------------------------------------------------------------------------- */

static bool is_heavy(const struct conn *c)
{
        const struct grant *g = c->session.grant;
        return (g && g->use.bytes > g->limits.bytes) ||
               (c->peer && !c->is_near && c->peer->use.bytes > LIMIT_ADDRESS_BYTES);
}

void use_count_bytes(struct conn *c, uint64_t more)
{
        if (c->session.grant)
                c->session.grant->use.bytes += more;
        if (c->peer)
                c->peer->use.bytes += more;
        c->server->is_over |= is_heavy(c);
}

void use_cut(struct server *s)
{
        struct problem p;
        struct conn *worst;
        (void)problem_set(&p, ERR_LIMIT,
                          "this address or token holds more memory than it may, and this request "
                          "is the largest");
        do {
                worst = NULL;
                LIST_FOREACH(&s->conns, it)
                {
                        struct conn *c = CONTAINER_OF(it, struct conn, link);
                        if (c->held_bytes && is_heavy(c) &&
                            (!worst || c->held_bytes > worst->held_bytes))
                                worst = c;
                }
                if (worst) {
                        s->counter[DOOR_CUT_USE]++;
                        conn_cut_for(worst, &p);
                }
        } while (worst);
        s->is_over = false;
}

/* --- commands ------------------------------------------------------------------------------- */

static void spend(struct use *u, uint32_t a_second, int64_t now_ns)
{
        u->commands++;
        if (u->next_ns < now_ns)
                u->next_ns = now_ns;
        u->next_ns += NS_PER_S / a_second;
}

void use_count_command(struct conn *c)
{
        struct grant *g = c->session.grant;
        int64_t now_ns = c->server->loop->boot_ns;
        if (g)
                spend(&g->use, g->limits.commands, now_ns);
        if (c->peer && !c->is_near)
                spend(&c->peer->use, LIMIT_ADDRESS_COMMANDS, now_ns);
}

bool use_is_over(const struct conn *c)
{
        const struct grant *g = c->session.grant;
        int64_t until_ns = c->server->loop->boot_ns + BURST_NS;
        return (g && g->use.next_ns > until_ns) ||
               (c->peer && !c->is_near && c->peer->use.next_ns > until_ns);
}

void use_wait(struct conn *c)
{
        struct server *s = c->server;
        s->counter[DOOR_SLOWED]++;
        list_push_back(&s->slowed, &c->run_link);
        if (!loop_timer_is_on(&s->slow_timer))
                loop_timer_start(&s->slow_timer, SLOW_MS, 0);
}

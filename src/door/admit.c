/* Too many connections: who is let in, and who has to go.
 *
 * A connection is turned away when all places are taken, or those of its address, or when
 * descriptors are out.  It is told why and closed at once, so that its descriptor is free for the
 * next one.
 *
 * Strangers, which have not shown the token, are a bounded number, of each address and of all. They
 * are never turned away for the sake of older ones, or those could keep everybody out: the oldest
 * goes.  It is found by a walk over the lists of deadlines, which hold the strangers in order of
 * age; the walk is bounded by the limits and made only when one of them is passed. */
#include "door/admit.h"

#include "base/say.h"
#include "door/door_int.h"

/* Descriptors that connections leave to the log, history and probes, and to answer those that are
 * turned away; clients on this machine may use half of them. */
#define SPARE_FILES      32
#define SPARE_FILES_NEAR 16

/* Of this peer, or with NULL of all on other machines.  Those that showed a wrong token go first.
 */
static struct conn *oldest_stranger(struct server *s, const struct peer *peer)
{
        static const enum conn_deadline kinds[] = {CONN_DEADLINE_TOKEN, CONN_DEADLINE_LINGER,
                                                   CONN_DEADLINE_RELAY, CONN_DEADLINE_PREAUTH};
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                LIST_FOREACH(&s->deadlines[kinds[i]], it)
                {
                        struct conn *c = CONTAINER_OF(it, struct conn, time_link);
                        if (!c->is_authed && (peer ? c->peer == peer : !c->is_near))
                                return c;
                }
        }
        return NULL;
}

/* Tells the peer and closes at once: its descriptor may be needed for the next one that is accepted
 * in this turn. */
static void dismiss(struct conn *c, const struct problem *p)
{
        c->door->refuse(c, p);
        conn_flush(c);
        conn_close(c);
}

static void cut_stranger(struct conn *c)
{
        struct server *s = c->server;
        struct problem p;
        uint64_t n = muffle_count(&s->strangers_said, s->loop->now.steady_ns);
        s->counter[DOOR_CUT_STRANGERS]++;
        if (n)
                say_warn("door", "too many connections without the token, cutting the oldest",
                         "address", c->session.address, "of_this_address",
                         SAY_I64(c->peer->strangers), "of_other_machines", SAY_I64(s->strangers),
                         "cut", SAY_I64(n));
        (void)problem_set(&p, ERR_LIMIT,
                          "too many connections have not shown the token, and this one is the "
                          "oldest");
        if (c->is_closing)
                conn_close(c);
        else
                dismiss(c, &p);
}

/* A stranger is never turned away for the sake of older ones: then they could keep everybody out.
 */
static void make_room(struct conn *c)
{
        struct server *s = c->server;
        struct conn *oldest = NULL;
        if (c->peer->strangers > LIMIT_PREAUTH_ADDRESS)
                oldest = oldest_stranger(s, c->peer);
        else if (!c->is_near && s->strangers > LIMIT_PREAUTH_CONNECTIONS)
                oldest = oldest_stranger(s, NULL);
        if (oldest)
                cut_stranger(oldest);
}

/* The kernel hands out the lowest free descriptor, so a high one says how few are left. */
static bool is_out_of_files(const struct conn *c)
{
        int fd, spare = c->is_near ? SPARE_FILES_NEAR : SPARE_FILES;
        return uv_fileno(&c->uv.handle, &fd) == 0 && fd >= c->server->files_max - spare;
}

static int check_surplus(const struct conn *c, struct problem *p)
{
        const struct server *s = c->server;
        unsigned max = LIMIT_CONNECTIONS - (c->is_near ? 0 : LIMIT_RESERVED_CONNECTIONS);
        if (s->counter[DOOR_CONNECTIONS] > max)
                return problem_set(p, ERR_LIMIT, "%u connections are open, which is the limit",
                                   max);
        if (!c->is_near && c->peer->conns > LIMIT_ADDRESS_CONNECTIONS)
                return problem_set(p, ERR_LIMIT,
                                   "%d connections are open from this address, which is the limit",
                                   LIMIT_ADDRESS_CONNECTIONS);
        if (is_out_of_files(c))
                return problem_set(p, ERR_LIMIT,
                                   "no further connection: the server may have %d files open",
                                   s->files_max);
        return OK;
}

static void turn_away(struct conn *c, const struct problem *p)
{
        struct server *s = c->server;
        uint64_t n = muffle_count(&s->refused_said, s->loop->now.steady_ns);
        s->counter[DOOR_REFUSED]++;
        if (n)
                say_warn("door", "connection refused", "address", c->session.address, "door",
                         c->door->name, "why", p->detail, "refused", SAY_I64(n));
        dismiss(c, p);
}

bool admit_conn(struct conn *c)
{
        struct problem p;
        if (check_surplus(c, &p) != OK) {
                turn_away(c, &p);
                return false;
        }
        if (!c->is_authed)
                make_room(c);
        return true;
}

/* A lock taken and given back, over and over, without contention: a thousand names, each of which
 * belongs to one connection.
 *
 * weir-lock    take   LOCK name 30000                      [token, fence, ...]
 *              give   UNLOCK name token                    +OK
 * redis-lock   take   SET name token NX PX 30000           +OK
 *              give   EVALSHA of compare-and-delete        :1
 *
 * Redis' token is the client's, of the same length as weir's; the script is loaded once and called
 * by its hash, which is the cheapest safe form: a bare DEL would give back another's lock.  In the
 * words of the engine a lock is claimed and finished; anything but a grant and an accepted
 * release ends the program, and so does a fence of weir's that does not grow. */
#include "gen.h"
#include "resp.h"

#include <inttypes.h>
#include <stdio.h>

#define NAMES  1000
#define NAME_Z "$9\r\nlock:%04u\r\n"
#define TTL_Z  "$5\r\n30000\r\n"
#define TOKEN  32
#define SHA    40
/* Beside token and fence, generously. */
#define FIELDS_MAX 16

static int64_t fences[NAMES]; /* the last one of each name */
static char script_sha[SHA + 1];

/* The connection's own names in turn, so that a name rests as long as it can. */
static unsigned next_name(struct conn *c)
{
        unsigned n_conns = c->run->n_conns, mine = (NAMES - 1 - c->index) / n_conns + 1;
        return c->index + c->next_lock++ % mine * n_conns;
}

static void check_names(struct conn *c)
{
        if (c->run->n_conns * c->run->depth > NAMES)
                die("%u x %u locks at once, and %d names", c->run->n_conns, c->run->depth, NAMES);
}

/* What was asked for is kept beforehand; the reply makes it count. */
static struct held *ask(struct conn *c, size_t i)
{
        struct held *h = &c->held[i];
        h->number = next_name(c);
        return h;
}

static void granted(struct conn *c)
{
        c->n_held++;
        c->run->count.puts++;
        c->run->count.claims++;
}

static size_t finish(struct conn *c, const struct resp *r, const char *start)
{
        if (r->state == RESP_WRONG)
                conn_wrong(c, "unexpected reply");
        return r->state == RESP_OK ? (size_t)(r->p - start) : 0;
}

/* --- weir ----------------------------------------------------------------------------------- */

static size_t weir_take(struct conn *c, size_t n, unsigned wait_ms)
{
        (void)wait_ms;
        c->reqs_len = 0;
        for (size_t i = 0; i < n; i++)
                conn_addf(c, "*3\r\n$4\r\nLOCK\r\n" NAME_Z TTL_Z, ask(c, i)->number);
        conn_use_reqs(c);
        return n;
}

static size_t weir_give(struct conn *c)
{
        size_t n = c->n_held;
        c->reqs_len = 0;
        for (size_t i = 0; i < n; i++)
                conn_addf(c, "*3\r\n$6\r\nUNLOCK\r\n" NAME_Z "$32\r\n%.32s\r\n", c->held[i].number,
                          c->held[i].token);
        c->n_held = 0;
        conn_use_reqs(c);
        return n;
}

static void read_lock(struct conn *c, struct resp *r)
{
        size_t token_len;
        int64_t fields = resp_number(r, '*');
        if (r->state == RESP_OK && (fields < 2 || fields > FIELDS_MAX))
                r->state = RESP_WRONG;
        const char *token = resp_bulk(r, &token_len);
        int64_t fence = resp_number(r, ':');
        for (int64_t i = 2; i < fields; i++)
                resp_skip(r);
        if (r->state != RESP_OK)
                return;
        struct held *h = &c->held[c->n_held];
        if (token_len != TOKEN)
                conn_wrong(c, "a token of %zu bytes", token_len);
        if (fence <= fences[h->number])
                conn_wrong(c, "fence %" PRId64 " after %" PRId64, fence, fences[h->number]);
        fences[h->number] = fence;
        memcpy(h->token, token, TOKEN);
        granted(c);
}

static size_t weir_lock_reply(struct conn *c, const char *p, const char *end)
{
        struct resp r = {p, end, RESP_OK};
        if (c->stage == STAGE_CLAIM)
                read_lock(c, &r);
        else
                resp_literal(&r, "+OK\r\n", 5);
        return finish(c, &r, p);
}

/* --- Redis ---------------------------------------------------------------------------------- */

#define SCRIPT                                                                                     \
        "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) "             \
        "else return 0 end"

/* The first connection loads the script; its hash is the reply. */
static void redis_prepare(struct conn *c)
{
        check_names(c);
        if (c->index > 0)
                return;
        char load[256];
        int len = snprintf(load, sizeof(load), "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
                           sizeof(SCRIPT) - 1, SCRIPT);
        conn_call(c, load, (size_t)len, '$');
        memcpy(script_sha, c->in + sizeof("$40\r\n") - 1, SHA);
}

static size_t redis_take(struct conn *c, size_t n, unsigned wait_ms)
{
        (void)wait_ms;
        c->reqs_len = 0;
        for (size_t i = 0; i < n; i++) {
                struct held *h = ask(c, i);
                char token[TOKEN + 1];
                snprintf(token, sizeof(token), "%08x%08x%016" PRIx64, c->index, h->number,
                         c->run->count.puts);
                memcpy(h->token, token, TOKEN);
                conn_addf(c,
                          "*6\r\n$3\r\nSET\r\n" NAME_Z
                          "$32\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n" TTL_Z,
                          h->number, token);
        }
        conn_use_reqs(c);
        return n;
}

static size_t redis_give(struct conn *c)
{
        size_t n = c->n_held;
        c->reqs_len = 0;
        for (size_t i = 0; i < n; i++)
                conn_addf(c,
                          "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n" NAME_Z
                          "$32\r\n%.32s\r\n",
                          script_sha, c->held[i].number, c->held[i].token);
        c->n_held = 0;
        conn_use_reqs(c);
        return n;
}

static size_t redis_lock_reply(struct conn *c, const char *p, const char *end)
{
        struct resp r = {p, end, RESP_OK};
        if (c->stage == STAGE_CLAIM) {
                resp_literal(&r, "+OK\r\n", 5);
                if (r.state == RESP_OK)
                        granted(c);
        } else {
                resp_literal(&r, ":1\r\n", 4);
        }
        return finish(c, &r, p);
}

const struct proto proto_weir_lock = {
        .name = "weir-lock",
        .prepare = check_names,
        .claim = weir_take,
        .ack = weir_give,
        .reply = weir_lock_reply,
};

const struct proto proto_redis_lock = {
        .name = "redis-lock",
        .prepare = redis_prepare,
        .claim = redis_take,
        .ack = redis_give,
        .reply = redis_lock_reply,
};

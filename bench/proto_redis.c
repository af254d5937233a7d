/* Redis, in the two patterns that keep a job until it is done.
 *
 * list     put    LPUSH bench <payload>                  (--many: one LPUSH with all payloads)
 *          claim  LMOVE bench processing:<n> RIGHT LEFT, one per job
 *          ack    LREM processing:<n> -1 <payload>, one per job; each worker has a processing list
 *                 of its own and finishes its oldest job first, so LREM finds it at once
 *                 (--batch: one DEL of the worker's processing list when the whole batch is done)
 *          There is no safe batch claim: LMPOP takes jobs off without keeping them anywhere.
 * stream   put    XADD bench * p <payload>, one per job
 *          claim  XREADGROUP GROUP g w<n> COUNT n STREAMS bench >
 *          ack    XACK and XDEL with all ids of the batch, two requests in one write
 *
 * Everything here is the cheapest form that is still safe, to be fair to the peer. */
#include "gen.h"
#include "resp.h"

#include <stdio.h>

#define KEY "$5\r\nbench\r\n"

static size_t lpush_prefix(char *to, size_t size, size_t n)
{
        return (size_t)snprintf(to, size, "*%zu\r\n$5\r\nLPUSH\r\n" KEY, 2 + n);
}

static void list_prepare(struct conn *c)
{
        char head[128];
        size_t at = c->run->is_many ? 0 : lpush_prefix(head, sizeof(head), 1);
        snprintf(head + at, sizeof(head) - at, "$%u\r\n", c->run->payload);
        conn_make_puts(c, head, "\r\n");
}

static size_t list_put(struct conn *c, size_t n)
{
        conn_number_puts(c, n);
        if (!c->run->is_many)
                return n;
        char head[64];
        c->reqs_len = 0;
        conn_add(c, head, lpush_prefix(head, sizeof(head), n));
        conn_add(c, c->puts, n * c->put_stride);
        conn_use_reqs(c);
        return 1;
}

static size_t list_claim(struct conn *c, size_t n, unsigned wait_ms)
{
        char key[32], one[160];
        int key_len = snprintf(key, sizeof(key), "processing:%u", c->index);
        int len =
                snprintf(one, sizeof(one),
                         "*%d\r\n$%d\r\n%s\r\n" KEY "$%d\r\n%s\r\n$5\r\nRIGHT\r\n$4\r\nLEFT\r\n%s",
                         wait_ms ? 6 : 5, wait_ms ? 6 : 5, wait_ms ? "BLMOVE" : "LMOVE", key_len,
                         key, wait_ms ? "$2\r\n10\r\n" : "");
        c->reqs_len = 0;
        c->n_held = 0;
        for (size_t i = 0; i < n; i++)
                conn_add(c, one, (size_t)len);
        conn_use_reqs(c);
        return n;
}

static size_t list_ack(struct conn *c)
{
        char key[32], head[128];
        int key_len = snprintf(key, sizeof(key), "processing:%u", c->index);
        size_t n = c->n_held, payload = c->run->payload;
        c->reqs_len = 0;
        c->n_held = 0;
        if (c->run->is_batch) {
                conn_addf(c, "*2\r\n$3\r\nDEL\r\n$%d\r\n%s\r\n", key_len, key);
                conn_use_reqs(c);
                return 1;
        }
        int head_len = snprintf(head, sizeof(head),
                                "*4\r\n$4\r\nLREM\r\n$%d\r\n%s\r\n$2\r\n-1\r\n$%zu\r\n", key_len,
                                key, payload);
        for (size_t i = 0; i < n; i++) {
                char *p = conn_more(c, (size_t)head_len + payload + 2);
                memcpy(p, head, (size_t)head_len);
                p += head_len;
                memcpy(p, c->run->template, payload);
                number_write(p + NUMBER_OFFSET, c->held[i].number);
                memcpy(p + payload, "\r\n", 2);
                c->reqs_len += (size_t)head_len + payload + 2;
        }
        conn_use_reqs(c);
        return n;
}

static void list_read_claim(struct conn *c, struct resp *r)
{
        size_t len;
        const char *payload = resp_bulk(r, &len);
        if (r->state != RESP_OK)
                return;
        if (payload)
                conn_hold(c, payload, len);
        else
                c->run->count.empty++;
}

static size_t finish(struct conn *c, const struct resp *r, const char *start)
{
        if (r->state == RESP_WRONG)
                conn_wrong(c, "unexpected reply");
        return r->state == RESP_OK ? (size_t)(r->p - start) : 0;
}

static size_t list_reply(struct conn *c, const char *p, const char *end)
{
        struct resp r = {p, end, RESP_OK};
        if (c->stage == STAGE_CLAIM) {
                list_read_claim(c, &r);
        } else {
                int64_t n = resp_number(&r, ':');
                if (r.state == RESP_OK && (n < 1 || (c->stage == STAGE_ACK && n != 1)))
                        r.state = RESP_WRONG;
        }
        return finish(c, &r, p);
}

/* The group is made by the first connection; it is there already for the others. */
static void stream_prepare(struct conn *c)
{
        static const char create[] = "XGROUP CREATE bench g 0 MKSTREAM\r\n";
        if (c->index == 0)
                conn_call(c, create, sizeof(create) - 1, '+');
        char head[128];
        snprintf(head, sizeof(head), "*5\r\n$4\r\nXADD\r\n" KEY "$1\r\n*\r\n$1\r\np\r\n$%u\r\n",
                 c->run->payload);
        conn_make_puts(c, head, "\r\n");
}

static size_t stream_claim(struct conn *c, size_t n, unsigned wait_ms)
{
        char worker[16], count[16];
        int worker_len = snprintf(worker, sizeof(worker), "w%u", c->index);
        int count_len = snprintf(count, sizeof(count), "%zu", n);
        c->reqs_len = 0;
        c->n_held = 0;
        conn_addf(c,
                  "*%d\r\n$10\r\nXREADGROUP\r\n$5\r\nGROUP\r\n$1\r\ng\r\n$%d\r\n%s\r\n"
                  "$5\r\nCOUNT\r\n$%d\r\n%s\r\n%s$7\r\nSTREAMS\r\n" KEY "$1\r\n>\r\n",
                  wait_ms ? 11 : 9, worker_len, worker, count_len, count,
                  wait_ms ? "$5\r\nBLOCK\r\n$5\r\n10000\r\n" : "");
        conn_use_reqs(c);
        return 1;
}

static void add_ids(struct conn *c)
{
        for (size_t i = 0; i < c->n_held; i++) {
                conn_addf(c, "$%u\r\n", c->held[i].id_len);
                conn_add(c, c->held[i].id, c->held[i].id_len);
                conn_add(c, "\r\n", 2);
        }
}

static size_t stream_ack(struct conn *c)
{
        c->reqs_len = 0;
        conn_addf(c, "*%zu\r\n$4\r\nXACK\r\n" KEY "$1\r\ng\r\n", 3 + c->n_held);
        add_ids(c);
        conn_addf(c, "*%zu\r\n$4\r\nXDEL\r\n" KEY, 2 + c->n_held);
        add_ids(c);
        c->n_held = 0;
        conn_use_reqs(c);
        return 2;
}

struct raw_entry {
        const char *id, *payload;
        size_t id_len, payload_len;
};

static void read_entry(struct resp *r, struct raw_entry *ret)
{
        resp_literal(r, "*2\r\n", 4);
        ret->id = resp_bulk(r, &ret->id_len);
        resp_literal(r, "*2\r\n", 4);
        resp_skip(r);
        ret->payload = resp_bulk(r, &ret->payload_len);
        if (r->state == RESP_OK && (!ret->id || !ret->payload || ret->id_len > 32))
                r->state = RESP_WRONG;
}

/* [[bench, [[id, [p, payload]], ...]]], or null.  All or nothing, as it may be read again. */
static void stream_read_claim(struct conn *c, struct resp *r)
{
        static struct raw_entry entries[DEPTH_MAX];
        int64_t streams = resp_number(r, '*');
        if (r->state == RESP_OK && streams == -1) {
                c->run->count.empty++;
                return;
        }
        resp_literal(r, "*2\r\n", 4);
        resp_skip(r);
        int64_t n = resp_number(r, '*');
        if (r->state == RESP_OK && (n < 1 || n > DEPTH_MAX))
                r->state = RESP_WRONG;
        for (int64_t i = 0; i < n && r->state == RESP_OK; i++)
                read_entry(r, &entries[i]);
        if (r->state != RESP_OK)
                return;
        for (int64_t i = 0; i < n; i++) {
                struct held *h = conn_hold(c, entries[i].payload, entries[i].payload_len);
                memcpy(h->id, entries[i].id, entries[i].id_len);
                h->id_len = (uint8_t)entries[i].id_len;
        }
}

static size_t stream_reply(struct conn *c, const char *p, const char *end)
{
        struct resp r = {p, end, RESP_OK};
        if (c->stage == STAGE_PUT) {
                size_t len;
                if (!resp_bulk(&r, &len) && r.state == RESP_OK)
                        r.state = RESP_WRONG;
        } else if (c->stage == STAGE_CLAIM) {
                stream_read_claim(c, &r);
        } else {
                int64_t n = resp_number(&r, ':');
                if (r.state == RESP_OK && n != (int64_t)c->batch)
                        r.state = RESP_WRONG;
        }
        return finish(c, &r, p);
}

const struct proto proto_list = {
        .name = "list",
        .prepare = list_prepare,
        .put = list_put,
        .claim = list_claim,
        .ack = list_ack,
        .reply = list_reply,
};

const struct proto proto_stream = {
        .name = "stream",
        .prepare = stream_prepare,
        .put = conn_number_puts,
        .claim = stream_claim,
        .ack = stream_ack,
        .reply = stream_reply,
};

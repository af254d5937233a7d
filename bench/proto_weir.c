/* weir over RESP.
 *
 *   put    ENQUEUE bench <payload> QUEUE bench            (--many: one ENQUEUEMANY for the batch)
 *   claim  CLAIM w<n> MAX 1 QUEUES bench, one per job     (--batch: one CLAIM MAX n)
 *   ack    COMPLETE id token, one per job                 (--single: and wait after each)
 *   next   COMPLETE id token CLAIM w<n> MAX 1 QUEUES bench, one per job: what a busy worker sends
 *          (--batch: only the last COMPLETE of the batch claims, MAX n)
 *
 * A claimed job is [id, token, hook, args, ...]; what follows args is skipped unread. */
#include "gen.h"
#include "resp.h"

#include <stdio.h>

#define QUEUE_Z    "$5\r\nbench\r\n"
#define TOKEN      32
#define FIELDS_MAX 64 /* of a claimed job, generously */

static void weir_prepare(struct conn *c)
{
        char head[128];
        if (c->run->is_many) {
                snprintf(head, sizeof(head), "$5\r\nbench\r\n$%u\r\n", c->run->payload);
                conn_make_puts(c, head, "\r\n");
                return;
        }
        snprintf(head, sizeof(head), "*5\r\n$7\r\nENQUEUE\r\n$5\r\nbench\r\n$%u\r\n",
                 c->run->payload);
        conn_make_puts(c, head, "\r\n$5\r\nQUEUE\r\n" QUEUE_Z);
}

static size_t weir_put(struct conn *c, size_t n)
{
        conn_number_puts(c, n);
        if (!c->run->is_many)
                return n;
        c->reqs_len = 0;
        conn_addf(c, "*%zu\r\n$11\r\nENQUEUEMANY\r\n$5\r\nQUEUE\r\n" QUEUE_Z "$4\r\nJOBS\r\n",
                  4 + 2 * n);
        conn_add(c, c->puts, n * c->put_stride);
        conn_use_reqs(c);
        return 1;
}

/* "CLAIM w3 MAX n [WAIT ms] QUEUES bench" without the array header. */
static void add_claim(struct conn *c, size_t n, unsigned wait_ms)
{
        char worker[16], max[16], wait[16];
        int worker_len = snprintf(worker, sizeof(worker), "w%u", c->index);
        int max_len = snprintf(max, sizeof(max), "%zu", n);
        int wait_len = snprintf(wait, sizeof(wait), "%u", wait_ms);
        conn_addf(c, "$5\r\nCLAIM\r\n$%d\r\n%s\r\n$3\r\nMAX\r\n$%d\r\n%s\r\n", worker_len, worker,
                  max_len, max);
        if (wait_ms)
                conn_addf(c, "$4\r\nWAIT\r\n$%d\r\n%s\r\n", wait_len, wait);
        conn_addf(c, "$6\r\nQUEUES\r\n" QUEUE_Z);
}

static size_t weir_claim(struct conn *c, size_t n, unsigned wait_ms)
{
        c->reqs_len = 0;
        c->n_held = 0;
        const char *head = wait_ms ? "*8\r\n" : "*6\r\n";
        size_t start = c->reqs_len;
        conn_add(c, head, 4);
        add_claim(c, c->run->is_batch ? n : 1, wait_ms);
        size_t len = c->reqs_len - start, replies = c->run->is_batch ? 1 : n;
        for (size_t i = 1; i < replies; i++) {
                char *to = conn_more(c, len);
                memcpy(to, c->reqs + start, len);
                c->reqs_len += len;
        }
        conn_use_reqs(c);
        return replies;
}

static void add_complete(struct conn *c, const struct held *h, const char *head, size_t head_len)
{
        char *start = conn_more(c, head_len + 128), *p = start;
        memcpy(p, head, head_len);
        p += head_len;
        *p++ = '$';
        if (h->id_len >= 10)
                *p++ = (char)('0' + h->id_len / 10);
        *p++ = (char)('0' + h->id_len % 10);
        memcpy(p, "\r\n", 2);
        memcpy(p + 2, h->id, h->id_len);
        p += 2 + h->id_len;
        memcpy(p, "\r\n$32\r\n", 7);
        memcpy(p + 7, h->token, TOKEN);
        p += 7 + TOKEN;
        memcpy(p, "\r\n", 2);
        c->reqs_len += (size_t)(p + 2 - start);
}

#define COMPLETE_PLAIN "*3\r\n$8\r\nCOMPLETE\r\n"
#define COMPLETE_CLAIM "*9\r\n$8\r\nCOMPLETE\r\n"

static size_t weir_ack(struct conn *c)
{
        size_t n = c->batch, rest = c->n_held - n;
        c->reqs_len = 0;
        for (size_t i = 0; i < n; i++)
                add_complete(c, &c->held[rest + i], COMPLETE_PLAIN, sizeof(COMPLETE_PLAIN) - 1);
        c->n_held = rest;
        conn_use_reqs(c);
        return n;
}

static size_t weir_next(struct conn *c, size_t n)
{
        size_t n_held = c->n_held, claiming = n < n_held ? n : n_held;
        if (c->run->is_batch)
                claiming = 1;
        c->claiming = claiming;
        c->reqs_len = 0;
        for (size_t i = 0; i < n_held; i++) {
                if (i + claiming < n_held) {
                        add_complete(c, &c->held[i], COMPLETE_PLAIN, sizeof(COMPLETE_PLAIN) - 1);
                        continue;
                }
                add_complete(c, &c->held[i], COMPLETE_CLAIM, sizeof(COMPLETE_CLAIM) - 1);
                add_claim(c, c->run->is_batch ? n : 1, 0);
        }
        c->n_held = 0;
        conn_use_reqs(c);
        return n_held;
}

/* A job as it lies in the input buffer. */
struct raw_job {
        const char *id, *token, *args;
        size_t id_len, args_len;
};

static void read_job(struct resp *r, struct raw_job *ret)
{
        int64_t fields = resp_number(r, '*');
        if (r->state == RESP_OK && (fields < 4 || fields > FIELDS_MAX))
                r->state = RESP_WRONG;
        /* The digits of the id are kept as text: that is how they are sent back. */
        ret->id = r->p + 1;
        int64_t id = resp_number(r, ':');
        ret->id_len = r->state == RESP_OK ? (size_t)(r->p - 2 - ret->id) : 0;
        size_t token_len;
        ret->token = resp_bulk(r, &token_len);
        resp_skip(r); /* hook */
        ret->args = resp_bulk(r, &ret->args_len);
        if (r->state == RESP_OK && (id <= 0 || token_len != TOKEN || !ret->args))
                r->state = RESP_WRONG;
        for (int64_t i = 4; i < fields; i++)
                resp_skip(r);
}

/* All or nothing: a list that is not whole yet leaves no trace, as it will be read again. */
static void read_claim(struct conn *c, struct resp *r)
{
        static struct raw_job jobs[DEPTH_MAX];
        int64_t n = resp_number(r, '*');
        if (r->state == RESP_OK && n > DEPTH_MAX)
                r->state = RESP_WRONG;
        for (int64_t i = 0; i < n && r->state == RESP_OK; i++)
                read_job(r, &jobs[i]);
        if (r->state != RESP_OK)
                return;
        for (int64_t i = 0; i < n; i++) {
                struct held *h = conn_hold(c, jobs[i].args, jobs[i].args_len);
                memcpy(h->id, jobs[i].id, jobs[i].id_len);
                h->id_len = (uint8_t)jobs[i].id_len;
                memcpy(h->token, jobs[i].token, TOKEN);
        }
        c->run->count.empty += n <= 0;
}

static void read_put(struct conn *c, struct resp *r)
{
        if (!c->run->is_many) {
                int64_t id = resp_number(r, ':');
                if (r->state == RESP_OK)
                        conn_check_id(c, id);
                return;
        }
        int64_t n = resp_number(r, '*');
        int64_t first = c->last_id;
        for (int64_t i = 0; i < n; i++) {
                int64_t id = resp_number(r, ':');
                if (r->state == RESP_OK)
                        conn_check_id(c, id);
        }
        if (r->state == RESP_SHORT)
                c->last_id = first;
        else if (n != (int64_t)c->batch)
                r->state = RESP_WRONG;
}

static size_t weir_reply(struct conn *c, const char *p, const char *end)
{
        struct resp r = {p, end, RESP_OK};
        bool is_plain_ack =
                c->stage == STAGE_ACK || (c->stage == STAGE_NEXT && c->awaited > c->claiming);
        if (c->stage == STAGE_PUT)
                read_put(c, &r);
        else if (is_plain_ack)
                resp_literal(&r, "+OK\r\n", 5);
        else
                read_claim(c, &r);
        if (r.state == RESP_WRONG)
                conn_wrong(c, "unexpected reply");
        return r.state == RESP_OK ? (size_t)(r.p - p) : 0;
}

const struct proto proto_weir = {
        .name = "weir",
        .prepare = weir_prepare,
        .put = weir_put,
        .claim = weir_claim,
        .ack = weir_ack,
        .next = weir_next,
        .reply = weir_reply,
};

/* weir over RESP.
 *
 *   put    ENQUEUE bench <payload> QUEUE bench            (--many: one ENQUEUEMANY for the batch)
 *   claim  CLAIM w<n> MAX 1 QUEUES bench, one per job     (--batch: one CLAIM MAX n)
 *   ack    COMPLETE id token, one per job                 (--single: and wait after each)
 *   next   COMPLETE id token CLAIM w<n> MAX 1 QUEUES bench, one per job: what a busy worker sends
 *          (--batch: only the last COMPLETE of the batch claims, MAX n)
 *
 * With --json some jobs have a result, COMPLETE id token result, and some fail: FAIL id token error
 * NORETRY.  FAIL cannot claim, so failed jobs are reported first, and where only failed ones are
 * held, a CLAIM of its own follows in the same write.
 *
 * A claimed job is [id, token, hook, args, ...]; what follows args is skipped unread. */
#include "gen.h"
#include "resp.h"

#include <stdio.h>

#define QUEUE_Z    "$5\r\nbench\r\n"
#define TOKEN      32
#define BULK_MAX   999 /* bytes; three digits */
#define FIELDS_MAX 64  /* of a claimed job, generously */

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

/* A bulk string of at most BULK_MAX bytes; returns its end. */
static char *write_bulk(char *to, const char *bytes, size_t len)
{
        *to++ = '$';
        if (len >= 100)
                *to++ = (char)('0' + len / 100);
        if (len >= 10)
                *to++ = (char)('0' + len / 10 % 10);
        *to++ = (char)('0' + len % 10);
        memcpy(to, "\r\n", 2);
        memcpy(to + 2, bytes, len);
        memcpy(to + 2 + len, "\r\n", 2);
        return to + len + 4;
}

static void add_bulk(struct conn *c, const char *bytes, size_t len)
{
        _Static_assert(JSON_MAX <= BULK_MAX, "three digits are enough");
        char *to = conn_more(c, len + 16);
        c->reqs_len += (size_t)(write_bulk(to, bytes, len) - to);
}

static size_t put_json(struct conn *c, size_t n)
{
        static const char head[] = "*7\r\n$7\r\nENQUEUE\r\n";
        static const char tail[] = "$5\r\nQUEUE\r\n" QUEUE_Z "$5\r\nGROUP\r\n";
        c->reqs_len = 0;
        for (size_t i = 0; i < n; i++) {
                uint32_t number = c->run->next_number++;
                char args[JSON_MAX];
                size_t args_len = json_args(number, args);
                const char *hook = json_hook_name(json_hook(number));
                unsigned shop = json_shop(number);
                char group[] = "shop-000";
                for (char *p = group + sizeof(group) - 2; shop; shop /= 10)
                        *p-- = (char)('0' + shop % 10);
                conn_add(c, head, sizeof(head) - 1);
                add_bulk(c, hook, strlen(hook));
                add_bulk(c, args, args_len);
                conn_add(c, tail, sizeof(tail) - 1);
                add_bulk(c, group, sizeof(group) - 1);
        }
        conn_use_reqs(c);
        return n;
}

static size_t weir_put(struct conn *c, size_t n)
{
        if (c->run->is_json)
                return put_json(c, n);
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

/* How a job ends.  The claim that may follow is not part of it. */
static void add_end(struct conn *c, const struct held *h, bool is_claiming)
{
        static const char *const complete[2][2] = {
                {"*3\r\n$8\r\nCOMPLETE\r\n", "*9\r\n$8\r\nCOMPLETE\r\n"},
                {"*4\r\n$8\r\nCOMPLETE\r\n", "*10\r\n$8\r\nCOMPLETE\r\n"},
        };
        enum json_end end = c->run->is_json ? json_end(h->number) : JSON_PLAIN;
        const char *head = end == JSON_FAILED ? "*5\r\n$4\r\nFAIL\r\n"
                                              : complete[end == JSON_RESULT][is_claiming];
        char *start = conn_more(c, JSON_MAX + 256), *p = start;
        size_t head_len = strlen(head);
        memcpy(p, head, head_len);
        p = write_bulk(p + head_len, h->id, h->id_len);
        p = write_bulk(p, h->token, TOKEN);
        if (end != JSON_PLAIN) {
                char outcome[JSON_MAX];
                p = write_bulk(p, outcome, json_outcome(h->number, outcome));
        }
        if (end == JSON_FAILED)
                p = write_bulk(p, "NORETRY", 7);
        c->reqs_len += (size_t)(p - start);
}

/* Moves the jobs that fail before the others; there are so many. */
static size_t failed_first(const struct conn *c, struct held *jobs, size_t n)
{
        size_t failing = 0;
        for (size_t i = 0; i < n && c->run->is_json; i++) {
                if (json_end(jobs[i].number) != JSON_FAILED)
                        continue;
                struct held swap = jobs[failing];
                jobs[failing++] = jobs[i];
                jobs[i] = swap;
        }
        return failing;
}

static size_t weir_ack(struct conn *c)
{
        size_t n = c->batch, rest = c->n_held - n;
        c->reqs_len = 0;
        c->failing = failed_first(c, c->held + rest, n);
        for (size_t i = 0; i < n; i++)
                add_end(c, &c->held[rest + i], false);
        c->n_held = rest;
        conn_use_reqs(c);
        return n;
}

static size_t weir_next(struct conn *c, size_t n)
{
        size_t n_held = c->n_held, each = c->run->is_batch ? n : 1;
        c->claiming = n < n_held ? n : n_held;
        if (c->run->is_batch)
                c->claiming = 1;
        c->failing = failed_first(c, c->held, n_held);
        size_t good = n_held - c->failing;
        size_t combined = c->claiming < good ? c->claiming : good;
        c->reqs_len = 0;
        for (size_t i = 0; i < n_held; i++) {
                bool is_claiming = i + combined >= n_held;
                add_end(c, &c->held[i], is_claiming);
                if (is_claiming)
                        add_claim(c, each, 0);
        }
        for (size_t i = combined; i < c->claiming; i++) {
                conn_add(c, "*6\r\n", 4);
                add_claim(c, each, 0);
        }
        c->n_held = 0;
        conn_use_reqs(c);
        return n_held + c->claiming - combined;
}

/* A job as it lies in the input buffer. */
struct raw_job {
        const char *id, *token, *args;
        size_t id_len, args_len;
        int64_t id_value;
};

static void read_job(struct resp *r, struct raw_job *ret)
{
        int64_t fields = resp_number(r, '*');
        if (r->state == RESP_OK && (fields < 4 || fields > FIELDS_MAX))
                r->state = RESP_WRONG;
        /* The digits of the id are kept as text: that is how they are sent back. */
        ret->id = r->p + 1;
        ret->id_value = resp_number(r, ':');
        ret->id_len = r->state == RESP_OK ? (size_t)(r->p - 2 - ret->id) : 0;
        size_t token_len;
        ret->token = resp_bulk(r, &token_len);
        resp_skip(r); /* hook */
        ret->args = resp_bulk(r, &ret->args_len);
        if (r->state == RESP_OK && (ret->id_value <= 0 || token_len != TOKEN || !ret->args))
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
                if (c->run->record)
                        record_job(c->run->record, (uint64_t)jobs[i].id_value, h->number, c->index);
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

static void read_ack(struct conn *c, struct resp *r)
{
        if (c->failing == 0) {
                resp_literal(r, "+OK\r\n", 5);
                return;
        }
        resp_literal(r, "$6\r\nfailed\r\n", 12);
        if (r->state == RESP_OK) {
                c->failing--;
                c->run->count.fails++;
        }
}

static size_t weir_reply(struct conn *c, const char *p, const char *end)
{
        struct resp r = {p, end, RESP_OK};
        bool is_plain_ack =
                c->stage == STAGE_ACK || (c->stage == STAGE_NEXT && c->awaited > c->claiming);
        if (c->stage == STAGE_PUT)
                read_put(c, &r);
        else if (is_plain_ack)
                read_ack(c, &r);
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

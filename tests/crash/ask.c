/* What the clients ask for: a mixture of a producer's and a worker's life.
 *
 * Whatever is sent widens what may be true of the job at once, before any answer: from then on the
 * server may die at any moment with the request done or not done. */
#include "ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t n_bulks;

static struct op *op_add(struct conn *c, enum op_type type, uint64_t nonce)
{
        struct op *op = &c->ops[(c->head + c->len++) % PIPELINE];
        *op = (struct op){.type = type, .nonce = nonce, .sent_us = steady_us()};
        if (nonce) {
                op->fence = jobs[nonce].fence;
                op->may_before = jobs[nonce].may;
                job_touch(nonce);
        }
        return op;
}

/* Hook, args and options of a new job, as words of a request already begun. */
static void put_job_options(struct bytes *b, const struct told_job *j)
{
        request_str(b, "QUEUE");
        request_str(b, queue_names[j->queue]);
        request_str(b, "PRIORITY");
        request_num(b, j->priority);
        request_str(b, "ATTEMPTS");
        request_num(b, j->attempts);
        request_str(b, "BACKOFF"); /* a failed job comes back within the drain's patience */
        request_str(b, "none");
}

static void put_job_body(struct bytes *b, uint64_t nonce)
{
        static char payload[PAYLOAD_MAX];
        char hook[16];
        (void)snprintf(hook, sizeof(hook), "hook%u", (unsigned)(nonce % 7));
        request_str(b, hook);
        request_word(b, payload, payload_make(nonce, payload));
}

static void send_enqueue(struct conn *c)
{
        bool is_far = dice_below(40) == 0;
        uint64_t nonce = job_new((uint8_t)dice_below(QUEUE_COUNT), (uint8_t)(1 + dice_below(5)),
                                 (uint8_t)dice_below(256), is_far);
        bool is_soon = !is_far && dice_below(10) == 0;
        request_begin(&c->out, 11 + (is_far || is_soon ? 2 : 0));
        request_str(&c->out, "ENQUEUE");
        put_job_body(&c->out, nonce);
        put_job_options(&c->out, &jobs[nonce]);
        if (is_far || is_soon) {
                request_str(&c->out, "IN");
                request_num(&c->out, is_far ? 3600000 : dice_below(80));
        }
        op_add(c, OP_ENQUEUE, nonce);
}

static void send_enqueue_many(struct conn *c)
{
        uint32_t n = 2 + dice_below(BULK_MAX - 1);
        uint8_t queue = (uint8_t)dice_below(QUEUE_COUNT), priority = (uint8_t)dice_below(256);
        uint8_t attempts = (uint8_t)(1 + dice_below(5));
        uint64_t first = n_jobs;
        n_bulks++;
        for (uint32_t i = 0; i < n; i++) {
                uint64_t nonce = job_new(queue, attempts, priority, false);
                jobs[nonce].bulk = n_bulks;
        }
        request_begin(&c->out, 10 + 2 * (size_t)n);
        request_str(&c->out, "ENQUEUEMANY");
        put_job_options(&c->out, &jobs[first]);
        request_str(&c->out, "JOBS");
        for (uint32_t i = 0; i < n; i++)
                put_job_body(&c->out, first + i);
        op_add(c, OP_ENQUEUE_MANY, first)->n = n;
}

/* "worker MAX n LEASE ms [WAIT ms] QUEUES q..." and how many words that is.  The worker's name is
 * the number of the claim: that is how a grant is recognised whose answer never came. */
static uint32_t put_claim(struct bytes *ret_words, size_t *ret_n)
{
        uint8_t set = (uint8_t)(1 + dice_below((1 << QUEUE_COUNT) - 1));
        uint16_t max = (uint16_t)(1 + dice_below(12));
        uint32_t lease_ms = dice_below(10) == 0 ? 100 + dice_below(200) : 1500 + dice_below(4000);
        uint32_t claim = claim_new(set, max, lease_ms);
        claims[claim].side_is_paused = side.is_known && side.is_paused && !side.is_busy;
        size_t n = 0;
        char worker[16];
        (void)snprintf(worker, sizeof(worker), "c%" PRIu32, claim);
        request_str(ret_words, worker);
        request_str(ret_words, "MAX");
        request_num(ret_words, max);
        request_str(ret_words, "LEASE");
        request_num(ret_words, lease_ms);
        n += 5;
        if (dice_below(4) == 0) {
                request_str(ret_words, "WAIT");
                request_num(ret_words, 1 + dice_below(30));
                n += 2;
        }
        request_str(ret_words, "QUEUES");
        n++;
        for (int q = 0; q < QUEUE_COUNT; q++) {
                if (set & (1 << q)) {
                        request_str(ret_words, queue_names[q]);
                        n++;
                }
        }
        *ret_n = n;
        return claim;
}

static void send_claim(struct conn *c)
{
        struct bytes words = {0};
        size_t n;
        uint32_t claim = put_claim(&words, &n);
        request_begin(&c->out, n + 1);
        request_str(&c->out, "CLAIM");
        bytes_put(&c->out, words.ptr, words.len);
        bytes_free(&words);
        op_add(c, OP_CLAIM, 0)->claim = claim;
}

static void put_holder(struct conn *c, const char *name, uint64_t nonce, size_t n_words)
{
        request_begin(&c->out, n_words);
        request_str(&c->out, name);
        request_num(&c->out, jobs[nonce].id);
        request_word(&c->out, jobs[nonce].token, TOKEN_CHARS);
}

static void put_result(struct bytes *b, uint64_t nonce)
{
        char result[32];
        int n = snprintf(result, sizeof(result), "{\"r\":%" PRIu64 "}", nonce);
        request_word(b, result, (size_t)n);
}

static void send_complete(struct conn *c, uint64_t nonce, bool wants_more)
{
        struct bytes words = {0};
        size_t n = 0;
        uint32_t claim = 0;
        if (wants_more)
                claim = put_claim(&words, &n);
        put_holder(c, "COMPLETE", nonce, 4 + (wants_more ? n + 1 : 0));
        put_result(&c->out, nonce);
        if (wants_more) {
                request_str(&c->out, "CLAIM");
                bytes_put(&c->out, words.ptr, words.len);
        }
        bytes_free(&words);
        op_add(c, wants_more ? OP_COMPLETE_CLAIM : OP_COMPLETE, nonce)->claim = claim;
        jobs[nonce].is_given_up = true;
        jobs[nonce].may |= MAY_COMPLETE;
}

uint8_t may_after_fail(const struct told_job *j)
{
        return j->attempt >= j->attempts ? MAY_FAIL : MAY_PENDING;
}

static void send_fail(struct conn *c, uint64_t nonce)
{
        bool has_delay = dice_below(2);
        put_holder(c, "FAIL", nonce, has_delay ? 6 : 4);
        request_str(&c->out, "it did not work");
        if (has_delay) {
                request_str(&c->out, "RETRYIN");
                request_num(&c->out, dice_below(60));
        }
        op_add(c, OP_FAIL, nonce);
        jobs[nonce].is_given_up = true;
        jobs[nonce].may |= may_after_fail(&jobs[nonce]);
}

static void send_release(struct conn *c, uint64_t nonce)
{
        bool has_delay = dice_below(2);
        put_holder(c, "RELEASE", nonce, has_delay ? 5 : 3);
        if (has_delay) {
                request_str(&c->out, "IN");
                request_num(&c->out, dice_below(60));
        }
        op_add(c, OP_RELEASE, nonce);
        jobs[nonce].is_given_up = true;
        jobs[nonce].may |= MAY_PENDING;
}

static void send_extend(struct conn *c, uint64_t nonce)
{
        struct told_job *j = &jobs[nonce];
        uint32_t ms = 1000 + dice_below(4000);
        put_holder(c, "EXTEND", nonce, 4);
        request_num(&c->out, ms);
        struct op *op = op_add(c, OP_EXTEND, nonce);
        op->n = ms;
        if (op->sent_us + ms * 1000LL < j->lease_end_us)
                j->lease_end_us = op->sent_us + ms * 1000LL;
}

static void send_progress(struct conn *c, uint64_t nonce)
{
        put_holder(c, "PROGRESS", nonce, 4);
        request_str(&c->out, "half way");
        op_add(c, OP_PROGRESS, nonce);
}

/* The worker does not know that its lease ended long ago. */
static void send_stale(struct conn *c, const struct held *h)
{
        request_begin(&c->out, 3);
        request_str(&c->out, "COMPLETE");
        request_num(&c->out, jobs[h->nonce].id);
        request_word(&c->out, h->token, TOKEN_CHARS);
        op_add(c, OP_STALE, h->nonce);
}

static void send_held(struct conn *c)
{
        unsigned i = dice_below(c->n_held);
        uint64_t nonce = c->held[i].nonce;
        uint32_t roll = dice_below(100);
        if (c->held[i].fence != jobs[nonce].fence) {
                send_stale(c, &c->held[i]);
                c->held[i] = c->held[--c->n_held];
                return;
        }
        if (roll >= 90) {
                if (roll < 95)
                        send_extend(c, nonce);
                else
                        send_progress(c, nonce);
                return;
        }
        c->held[i] = c->held[--c->n_held];
        if (roll < 2)
                return; /* Forgotten: its lease will end by itself. */
        if (roll < 50)
                send_complete(c, nonce, false);
        else if (roll < 72)
                send_complete(c, nonce, true);
        else if (roll < 82)
                send_fail(c, nonce);
        else
                send_release(c, nonce);
}

static void send_cancel(struct conn *c)
{
        for (int tries = 0; tries < 20; tries++) {
                uint64_t back = dice_below(n_jobs < 3000 ? (uint32_t)n_jobs : 3000);
                uint64_t nonce = n_jobs - 1 - back;
                struct told_job *j = &jobs[nonce];
                if (nonce == 0 || !j->id || j->over_us || j->is_cancel_sent)
                        continue;
                if (!j->is_far && dice_below(3))
                        continue;
                request_line(&c->out, "CANCEL %" PRIu64, j->id);
                op_add(c, OP_CANCEL, nonce);
                j->is_cancel_sent = true;
                j->may |= MAY_CANCEL;
                return;
        }
}

static void send_job(struct conn *c)
{
        uint64_t nonce = 1 + dice() % n_jobs;
        if (nonce >= n_jobs || !jobs[nonce].done_fence)
                return;
        request_line(&c->out, "JOB %" PRIu64, jobs[nonce].id);
        op_add(c, OP_JOB, nonce);
}

/* Only one connection pauses and resumes, so that its own order is the server's. */
static void send_side(struct conn *c)
{
        if (c != &conns[0] || side.is_busy)
                return;
        bool is_pause = !side.is_paused;
        request_line(&c->out, "%s %s", is_pause ? "PAUSE" : "RESUME", queue_names[QUEUE_SIDE]);
        struct op *op = op_add(c, is_pause ? OP_PAUSE : OP_RESUME, 0);
        side.is_busy = true;
        if (!is_pause)
                side.resume_us = op->sent_us;
}

void ask_something(struct conn *c)
{
        uint32_t roll = dice_below(100);
        if (c->n_held && (roll < 45 || c->n_held > HELD_MAX / 2))
                send_held(c);
        else if (roll < 65 || n_open > OPEN_MAX)
                send_claim(c);
        else if (roll < 89)
                send_enqueue(c);
        else if (roll < 93)
                send_enqueue_many(c);
        else if (roll < 96)
                send_cancel(c);
        else if (roll < 99)
                send_job(c);
        else
                send_side(c);
}

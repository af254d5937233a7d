/* See answer.h.  Set once, read by name, gone by its alarm: the tape is one allocation, and the
 * sum of all of them is kept in the state, so that the core can refuse a key before it runs what
 * came with it. */
#include "state/answer.h"

#include <stdlib.h>

#include "state/state.h"

/* Where is_whole stands in a body. */
#define WHOLE_AT 1

static struct answer *of(struct thing *t)
{
        return CONTAINER_OF(t, struct answer, thing);
}

void answer_claim(struct thing *t, const uint8_t *print)
{
        ASSERT(!thing_is_durable(t));
        memcpy(of(t)->print, print, ANSWER_PRINT_BYTES);
}

void answer_put_head(struct buf *body, int64_t expires_ns, const uint8_t *print, bool is_whole)
{
        char expires[8];
        store_u64(expires, (uint64_t)expires_ns);
        buf_put_byte(body, ANSWER_VERSION);
        buf_put_byte(body, (char)is_whole);
        buf_put(body, expires, sizeof(expires));
        buf_put(body, print, ANSWER_PRINT_BYTES);
}

void answer_drop_tape(struct buf *body)
{
        ASSERT(body->len >= ANSWER_HEAD_BYTES);
        body->len = ANSWER_HEAD_BYTES;
        body->failed = false;
        body->ptr[WHOLE_AT] = 0;
}

static void drop(struct state *s, struct answer *a)
{
        ASSERT(s->answer_bytes >= a->counted);
        s->answer_bytes -= a->counted;
        a->counted = 0;
        free(a->tape);
        a->tape = NULL;
        a->tape_len = 0;
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct answer *a = of(t);
        struct reader r = reader_make(body);
        uint8_t version = reader_u8(&r), is_whole = reader_u8(&r);
        int64_t expires_ns = (int64_t)reader_u64(&r);
        struct slice print = reader_bytes(&r, ANSWER_PRINT_BYTES);
        struct slice tape = reader_bytes(&r, reader_left(&r));
        if (r.failed || version != ANSWER_VERSION || is_whole > 1 || expires_ns < 0 ||
            tape.len > UINT32_MAX - thing_name(t).len || (!is_whole && tape.len))
                return false;
        drop(s, a);
        if (tape.len) {
                a->tape = xmalloc(tape.len);
                memcpy(a->tape, tape.ptr, tape.len);
                a->tape_len = (uint32_t)tape.len;
        }
        memcpy(a->print, print.ptr, sizeof(a->print));
        a->is_whole = is_whole;
        a->expires_ns = expires_ns;
        a->counted = (uint32_t)(thing_name(t).len + tape.len);
        s->answer_bytes += a->counted;
        thing_alarm(s, t, expires_ns);
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        const struct answer *a = answer_of(t);
        answer_put_head(body, a->expires_ns, a->print, a->is_whole);
        buf_put_slice(body, answer_tape(a));
}

static void release(struct state *s, struct thing *t)
{
        drop(s, of(t));
}

static void check(const struct thing *t)
{
        const struct answer *a = answer_of(t);
        ASSERT(a->is_whole || !a->tape_len);
        ASSERT((a->tape != NULL) == (a->tape_len > 0));
        ASSERT(a->counted == (thing_is_durable(t) ? thing_name(t).len + a->tape_len : 0));
}

const struct thing_ops answer_ops = {
        .text = "The kept reply to a request with an idempotency key.",
        .body = "u8 version, u8 whole or not, `expires_ns` u64, fingerprint of the request, then "
                "the reply (state/answer.h)",
        .size = sizeof(struct answer),
        .set = set,
        .put = put,
        .release = release,
        .check = check,
};

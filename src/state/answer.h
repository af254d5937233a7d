/* A kept answer: what the first request with an idempotency key was told, for the next ones.
 *
 * Its name is the key.  The body of its SET:
 *
 *      version u8      1
 *      is_whole u8     0: the answer was too large to be kept, and there is no tape
 *      expires_ns u64  steady time from which the key is free again
 *      print           ANSWER_PRINT_BYTES: fingerprint of the request
 *      tape            the rest: the answer as core/answer_tape.c wrote it; opaque here
 *
 * It never changes and has no NOTE. */
#ifndef WEIR_STATE_ANSWER_H
#define WEIR_STATE_ANSWER_H

#include "state/thing.h"

#define ANSWER_PRINT_BYTES 16
#define ANSWER_VERSION     1
/* Of a body, before the tape. */
#define ANSWER_HEAD_BYTES (2 + 8 + ANSWER_PRINT_BYTES)

struct answer {
        struct thing thing;
        int64_t expires_ns;
        char *tape; /* owned; NULL when empty */
        uint32_t tape_len;
        uint32_t counted; /* its share of state->answer_bytes */
        bool is_whole;
        uint8_t print[ANSWER_PRINT_BYTES];
};

/* One that the log does not know yet: its request is being carried out. */
void answer_claim(struct thing *t, const uint8_t *print);

/* The first ANSWER_HEAD_BYTES of a body; is_whole may still be taken back, see below. */
void answer_put_head(struct buf *body, int64_t expires_ns, const uint8_t *print, bool is_whole);
/* Cuts a body that has at least its head: nothing of the answer is kept. */
void answer_drop_tape(struct buf *body);

static inline const struct answer *answer_of(const struct thing *t)
{
        return CONTAINER_OF(t, const struct answer, thing);
}
static inline struct slice answer_tape(const struct answer *a)
{
        return slice_make(a->tape, a->tape_len);
}

#endif

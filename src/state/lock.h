/* A lock: a name that at most `count` holders have at a time, each until a deadline.
 *
 * Bodies in the log (integers are varints unless said otherwise):
 *
 *      SET     count, n, n x holder        holders by fence, which is the order of their grants
 *      NOTE    'T' holder                  one more (TAKE)
 *              'R' fence, deadline_ns, ttl_ms      (RENEW)
 *              'D' fence                           (DROP)
 *      holder  token (16 bytes), fence, since_ns, deadline_ns, ttl_ms, owner (length, bytes)
 *
 * A mutex is SET when it is taken or handed on, so its whole story is in full records; only a
 * semaphore, whose full record may be long, grows and shrinks by notes.  A note of a thing that is
 * not seen is skipped in replay, and with it the fence in it: whoever emits a TAKE therefore emits
 * a META_FULL as well (things/lock.c), or a restart could give a fence twice.
 *
 * Deadlines are steady time, which stands still while weir is down, so no holder loses time by a
 * restart.  The thing's alarm is the earliest deadline.
 *
 * Invariants, checked by the kind's check():
 *   (1) n_holders <= count, and fences rise strictly
 *   (2) whoever waits, waits for a lock without a free place
 *
 * Costs: holders are found by looking at all of them.  `count` is at most LIMIT_LOCK_PLACES. */
#ifndef WEIR_STATE_LOCK_H
#define WEIR_STATE_LOCK_H

#include "state/thing.h"

#define LOCK_TOKEN_BYTES 16
#define LOCK_OWNER_BYTES 255
/* What a body may say; commands allow less (api/limits.h). */
#define LOCK_COUNT_MAX 65535

struct lock_holder {
        uint8_t token[LOCK_TOKEN_BYTES];
        uint64_t fence;
        int64_t since_ns, deadline_ns; /* steady */
        uint32_t ttl_ms;
        struct slice owner; /* owned by the lock when it is in lock->holders, else borrowed */
};

struct lock {
        struct thing thing;
        uint32_t count; /* places; 0 while nobody holds one */
        uint32_t n_holders, cap;
        struct lock_holder *holders; /* &one, or an array of its own */
        struct lock_holder one;      /* a mutex needs no more */
        struct list waiters;         /* struct lock_wait of things/lock.c, first come first */
        uint32_t n_waiting;
};

static inline struct lock *lock_of(struct thing *t)
{
        return CONTAINER_OF(t, struct lock, thing);
}

static inline bool lock_is_full(const struct lock *l)
{
        return l->n_holders > 0 && l->n_holders >= l->count;
}

/* The holder with that token; NULL when none has it. */
const struct lock_holder *lock_holder(const struct lock *l, const uint8_t *token);
/* Sets the alarm to the earliest deadline: for a lock whose alarm rang in vain. */
void lock_rearm(struct state *s, struct lock *l);

/* Bodies. */
void lock_put_set(struct buf *b, uint32_t count, const struct lock_holder *holders, size_t n);
void lock_put_take(struct buf *b, const struct lock_holder *h);
void lock_put_renew(struct buf *b, const struct lock_holder *h); /* fence, deadline_ns, ttl_ms */
void lock_put_drop(struct buf *b, uint64_t fence);

#endif

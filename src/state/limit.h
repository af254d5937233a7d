/* A rate limit as a thing: a bucket (state/bucket.h) with a name, and who waits for it.
 *
 * Names: `queue:NAME` and `hook:NAME` hold for every start of a job of that queue or hook; any
 * other name for the jobs that carry it and for clients that take from it.
 *
 * The body of its SET: flags u8 (1 = passing), then the packed bucket.  Its NOTEs: an op u8, then
 *      TAKE   varint n: n were taken at the time of the batch's CLOCK.  That it was allowed has
 *             been decided before, so it is counted whether it fits or not.
 *      RESET  forgets what was taken.
 *
 * Invariants, checked by its check():
 *   (1) the bucket passes bucket_check
 *   (2) front_cost is 0 if and only if nobody asks */
#ifndef WEIR_STATE_LIMIT_H
#define WEIR_STATE_LIMIT_H

#include "state/bucket.h"
#include "state/thing.h"

#define LIMIT_QUEUE_PREFIX "queue:"
#define LIMIT_HOOK_PREFIX  "hook:"

/* Jobs that were let go and have not started: after this long others may try. */
#define LIMIT_LET_NS NS_PER_S

/* Numbers in the log. */
enum limit_op { LIMIT_OP_TAKE = 1, LIMIT_OP_RESET = 2 };
enum limit_scope { LIMIT_NAMED, LIMIT_OF_QUEUE, LIMIT_OF_HOOK };

struct rate_limit {
        struct thing thing;
        struct bucket bucket;
        bool is_passing; /* made by a TAKE: forgotten again when it is idle */
        uint8_t scope;   /* enum limit_scope, from the name */

        /* Not durable: who waits. */
        struct list asks;    /* core's waiting TAKEs, first come first served */
        uint64_t front_cost; /* of the first of them; 0 = none waits */
        bool is_wanted;      /* a job or a queue is put aside until the next start is possible */
        uint64_t n_let;      /* jobs given back to their queues that have not started yet */
};

static inline struct rate_limit *limit_of(struct thing *t)
{
        return CONTAINER_OF(t, struct rate_limit, thing);
}

/* A name that applies by itself. */
enum limit_scope limit_scope_of(struct slice name);

void limit_put(bool is_passing, const struct bucket *bucket, struct buf *body);
void limit_put_take(struct buf *body, uint64_t n);
void limit_put_reset(struct buf *body);

/* Sets the alarm for what comes next: a start or a take that becomes possible, or being idle. */
void limit_arm(struct state *s, struct rate_limit *l, int64_t now_ns);

#endif

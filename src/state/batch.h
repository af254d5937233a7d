/* A batch: jobs counted together, and callbacks for when all of them have ended.
 *
 *      open --BATCH_CLOSED--> closed --last end--> (BATCH_CALLED_*) --BATCH_FINISHED--> finished
 *        \--BATCH_CANCELING--> closed, and what has not ended is canceled
 *
 * Jobs name it with their option `batch`.  Which of the live jobs are its own follows from them,
 * as with all links between jobs (links.c): `left` has those that have not ended, `ended` those
 * that have and are not history yet.  The counts cannot follow from jobs, since those go to
 * history: they are in the record, and each change of them is a note in the log's batch of what
 * caused it.
 *
 * A name may be used again when its batch is gone.  `first_id` tells the jobs of the old one, which
 * have smaller ids, from those of the new.  A job that runs again (options.run) counts no more.
 *
 * Invariants, checked by the kind's check():
 *   (1) total == complete + failed + canceled + the jobs on `left`, once the log knows of it
 *   (2) a finished batch is closed and has no job on `left` */
#ifndef WEIR_STATE_BATCH_H
#define WEIR_STATE_BATCH_H

#include "state/state.h"

/* A finished batch is forgotten after this time. */
#define BATCH_KEPT_NS (7LL * 24 * 3600 * NS_PER_S)
/* Callbacks that could not be made are tried again after this time. */
#define BATCH_RETRY_NS NS_PER_S

enum batch_event { BATCH_ON_SUCCESS, BATCH_ON_DONE, BATCH_EVENTS };

struct batch_callback {
        struct slice hook; /* empty: none is wanted */
        struct slice args, signature;
};

/* What is said when it is made, and never changes. */
struct batch_terms {
        uint64_t first_id; /* jobs with smaller ids are those of another batch of that name */
        int64_t created_ms;
        struct slice title, queue; /* of the callbacks, as is the priority */
        uint8_t priority;
        struct batch_callback callbacks[BATCH_EVENTS];
};

struct batch {
        struct thing thing;
        struct batch_terms terms; /* texts are in `packed` */
        struct buf packed;
        uint64_t total, complete, failed, canceled;
        uint64_t callback_ids[BATCH_EVENTS]; /* jobs made for the callbacks; 0: not yet, or none */
        int64_t finished_ms;                 /* wall; 0 until it is finished */
        int64_t forget_ns;                   /* steady */
        uint8_t flags;                       /* BATCH_IS_* */
        bool is_late;                        /* not in the log: that a callback is late was told */
        struct list left, ended;             /* struct job_extra, by batch_link */
        size_t n_left;
};

#define BATCH_IS_CLOSED    1
#define BATCH_IS_CANCELING 2
#define BATCH_IS_FINISHED  4
#define BATCH_FLAGS_ALL    7

/* Notes: what u8, value varint.  Numbers in the log: append at the end, never reuse one. */
enum batch_change {
        BATCH_ADDED = 1, /* value: how many jobs */
        BATCH_COMPLETE,  /* value: how many, as in the next two */
        BATCH_FAILED,
        BATCH_CANCELED,
        BATCH_LATE, /* so many that had failed are complete after all */
        BATCH_CLOSED,
        BATCH_CANCELING,
        BATCH_CALLED_SUCCESS, /* value: id of the callback's job */
        BATCH_CALLED_DONE,
        BATCH_FINISHED,
};

static inline struct batch *batch_of(struct thing *t)
{
        return CONTAINER_OF(t, struct batch, thing);
}
static inline uint64_t batch_left(const struct batch *b)
{
        return b->total - b->complete - b->failed - b->canceled;
}
/* All have ended and no more can come, but the callbacks are not made. */
static inline bool batch_is_due(const struct batch *b)
{
        return (b->flags & BATCH_IS_CLOSED) && !(b->flags & BATCH_IS_FINISHED) && !batch_left(b);
}

/* Jobs that ended before it was made: it was moved here, and they count as its own. */
struct batch_past {
        uint64_t complete, failed, canceled;
};

/* The body of a new one. */
void batch_put_new(struct buf *body, const struct batch_terms *terms,
                   const struct batch_past *past);

/* For a log with holes: makes the counts true again of the jobs that are there.  One whose end is
 * counted and that has not ended after all adds to the total; one that is lost has failed.  False
 * when they were true. */
bool batch_recount(struct state *s, struct batch *b);

#endif

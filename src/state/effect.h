/* Effects: what became true, as the log keeps it and as the state takes it.
 *
 * A record says the outcome and not the command, so replay needs no clock, no dice and no policy.
 * CLOCK tells the time of all that follows it in the batch.  Fields not named by a row are not
 * written.  A new field means a new version of that row's record (EFFECT_VERSION).
 *
 *      type          body
 *      CLOCK         steady_ns, wall_ms
 *      JOB_NEW       id, due_ms, priority u8, flags u8, attempts, timeout_ms, queue_id, queue,
 *                    hook, group, args, options
 *      JOB_START     id, fence, token[16], deadline_ns, lease_ms, worker, other_id (claim)
 *      JOB_DONE      id, marks, queue_id, text (result); final: it had failed for good before
 *      JOB_FAIL      id, marks, queue_id, due_ms, text (error)
 *      JOB_TIMEOUT   id, marks, queue_id, deadline_ns (end of the grace, when final)
 *      JOB_RELEASE   id, due_ms
 *      JOB_EXTEND    id, deadline_ns, lease_ms
 *      JOB_PROGRESS  id, text
 *      JOB_CANCEL    id, marks, queue_id, text (why)
 *      ARCHIVED      ids, as count and differences
 *      QUEUE_SET     queue_id, queue, is_paused u8, options (settings)
 *      QUEUE_GONE    queue
 *      META_FULL     next_id, fence, next_queue_id
 *      QUEUE_FULL    queue_id, queue, is_paused u8, enqueued, completed, failed, canceled, options
 *      JOB_FULL      everything a job is
 *      GRACE_END     id: failed for good, no late completion is accepted any more
 *      THING_SET     kind u8, name, body (state/thing.h)
 *      THING_NOTE    kind u8, name, body
 *      THING_GONE    kind u8, name
 *      JOB_BACK      as JOB_FULL: a job of history is live again
 *      JOB_AFTER     id, other_id (0: all): it waits for that job no longer
 *      JOB_DUE       id, due_ms, text (why): a pending job is due then; 0 = now
 *      JOB_ARGS      id, args: a pending job has other args
 *      JOB_TIER      id, text (why), priority u8 (1 + tier; 0: as its hook is registered), flags u8
 *                    (1 + the tier under which it waits for the gate from now on; 0: it does not)
 *      JOB_PARK      id, due_ms, priority u8 (tier), deadline_ns (delay), text (why): as JOB_GATE
 *                    does; not written any more.  Without a delay only the tier changes
 *      JOB_GATE      as JOB_PARK, then flags u8: what the gate does with it (enum park_step), and
 *                    PARKED_* bits from PARK_HOW_SHIFT on
 *
 * marks u8: 1 = keep, 2 = final.  The queue is named wherever its totals change, because in
 * replay the job itself may be gone already while its queue is not.
 *
 * Numbers are varints (due_ms and deadline_ns are never negative), texts are varint length and
 * bytes. */
#ifndef WEIR_STATE_EFFECT_H
#define WEIR_STATE_EFFECT_H

#include "log/record.h"
#include "state/job.h"
#include "state/queue.h"

/* Version 2 added options (packed) at the end of JOB_NEW, JOB_FULL, QUEUE_SET and QUEUE_FULL, and
 * the number of the claim at the end of JOB_START and JOB_FULL. */
#define EFFECT_VERSION 2

#define EFFECT_MAP(X)                                                                              \
        X(CLOCK)                                                                                   \
        X(JOB_NEW)                                                                                 \
        X(JOB_START)                                                                               \
        X(JOB_DONE)                                                                                \
        X(JOB_FAIL)                                                                                \
        X(JOB_TIMEOUT)                                                                             \
        X(JOB_RELEASE)                                                                             \
        X(JOB_EXTEND)                                                                              \
        X(JOB_PROGRESS)                                                                            \
        X(JOB_CANCEL)                                                                              \
        X(ARCHIVED)                                                                                \
        X(QUEUE_SET)                                                                               \
        X(QUEUE_GONE)                                                                              \
        X(META_FULL)                                                                               \
        X(QUEUE_FULL)                                                                              \
        X(JOB_FULL)                                                                                \
        X(GRACE_END)                                                                               \
        X(THING_SET)                                                                               \
        X(THING_NOTE)                                                                              \
        X(THING_GONE)                                                                              \
        X(JOB_BACK)                                                                                \
        X(JOB_AFTER)                                                                               \
        X(JOB_DUE)                                                                                 \
        X(JOB_ARGS)                                                                                \
        X(JOB_PARK)                                                                                \
        X(JOB_TIER)                                                                                \
        X(JOB_GATE)

/* What the gate does with a pending job.  Numbers in the log. */
enum park_step {
        PARK_BEGINS,  /* a wait begins */
        PARK_MOVES,   /* the wait goes on, under another tier or until another time */
        PARK_RETURNS, /* the job is let go, and due then */
        PARK_STEPS
};
#define PARK_STEP_MASK 7
#define PARK_HOW_SHIFT 3

/* Numbers in the log: append new rows at the end, never reuse one. */
enum effect_type {
        EFFECT_NONE,
#define X(name) EFFECT_##name,
        EFFECT_MAP(X)
#undef X
                EFFECT_COUNT
};

/* One shape for all: each type uses the fields its row names.  Borrowed throughout. */
struct effect {
        enum effect_type type;
        uint8_t version; /* of the record it was read from */
        bool keep;       /* the ended job goes to the archive; else it is gone at once */
        bool is_final;   /* no further attempt */
        bool is_paused;
        uint8_t priority, flags;
        uint16_t attempts;
        uint32_t timeout_ms, lease_ms;
        uint64_t id, other_id, fence, queue_id;
        int64_t due_ms, deadline_ns, steady_ns, wall_ms;
        uint8_t token[JOB_TOKEN_BYTES];
        struct slice queue, hook, group, args, worker, text;
        struct slice options; /* packed: of a job (option.h), of a queue (queue.h) */
        uint64_t next_id, next_queue_id;
        uint64_t enqueued, completed, failed, canceled;
        const uint64_t *ids; /* ARCHIVED when written; packed in `text` when read */
        size_t n_ids;
        /* JOB_FULL: borrowed from a live job when written, from the record when read. */
        struct job_view view;
        uint8_t kind; /* THING_*: enum thing_kind */
        bool is_copy; /* THING_SET: the cleaner wrote it again; not in the record */
        struct slice name, body;
        uint8_t state, outcome;
        uint16_t events_kept;
        bool is_lease_open, has_more;
};

const char *effect_name(enum effect_type type);

void effect_write(struct buf *batch, const struct effect *e);
int effect_read(const struct record *r, struct effect *ret, struct problem *problem) MUST_CHECK;

/* Walks the ids of an ARCHIVED effect that was read; start with *at = 0. */
bool effect_next_id(struct slice *rest, uint64_t *at);

void effect_of_job(const struct job *job, struct effect *ret);
void effect_of_queue(const struct queue *queue, struct effect *ret);

/* One JSON object on one line, for `weir log dump`. */
void effect_to_json(const struct effect *e, uint64_t seq, struct buf *b);

#endif

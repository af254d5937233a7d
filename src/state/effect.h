/* Effects: what became true, as the log keeps it and as the state takes it.
 *
 * A record says the outcome and not the command, so replay needs no clock, no dice and no policy.
 * effect_map.h has the rows: what each effect means and which fields its record holds. */
#ifndef WEIR_STATE_EFFECT_H
#define WEIR_STATE_EFFECT_H

#include "log/record.h"
#include "state/effect_map.h"
#include "state/job.h"
#include "state/queue.h"

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
#define X(NAME, name, subject, text) EFFECT_##NAME,
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
        uint64_t from, bytes; /* DIGEST */
        const uint64_t *ids;  /* ARCHIVED when written; packed in `text` when read */
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

/* When a field is in its record, by the words of effect_map.h. */
enum { WHEN_ALWAYS, WHEN_V2, WHEN_MORE };

const char *effect_name(enum effect_type type);
const char *effect_text(enum effect_type type); /* what it means, as a sentence */
const struct field *effect_fields(enum effect_type type, size_t *ret_n);

void effect_write(struct buf *batch, const struct effect *e);
int effect_read(const struct record *r, struct effect *ret, struct problem *problem) MUST_CHECK;

/* Walks the ids of an ARCHIVED effect that was read; start with *at = 0. */
bool effect_next_id(struct slice *rest, uint64_t *at);

void effect_of_job(const struct job *job, struct effect *ret);
void effect_of_queue(const struct queue *queue, struct effect *ret);

/* One JSON object on one line, for `weir log dump`. */
void effect_to_json(const struct effect *e, uint64_t seq, struct buf *b);

#endif

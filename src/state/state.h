/* The live state: every queue and every job that is not yet history.
 *
 * state_apply() is the only way anything here changes, live and in replay alike; that is what
 * makes a restart arrive at the same state.  Lists and counters are moved together by one
 * function (set_state in state.c), so they cannot drift.
 *
 * Invariants, checked by state_check():
 *   (1) every job passes job_check and is in `jobs` under its id, which is < next_id
 *   (2) the counters of each queue equal the jobs found on the lists
 *   (3) the live list is sorted by seq and holds meta, every queue the log knows, every job
 *   (4) live_bytes is the sum of the weights
 *   (5) no job has a fence above `fence`
 */
#ifndef WEIR_STATE_STATE_H
#define WEIR_STATE_STATE_H

#include "base/idmap.h"
#include "state/effect.h"

struct state {
        struct live meta; /* next_id and fence have a full record of their own */
        uint64_t next_id;
        uint64_t fence;             /* the highest given out */
        int64_t steady_ns, wall_ms; /* of the last CLOCK */

        struct idmap jobs;
        struct name_table names;
        struct hash queues;
        struct idmap queues_by_id;
        uint64_t next_queue_id;
        struct heap delayed; /* SCHEDULED by delay: key is due_ms on the steady wall */
        struct heap timed;   /* SCHEDULED by AT: key is due_ms on the real wall */
        struct heap running; /* by deadline_ns */
        struct heap grace;   /* FINISHED, still open to a late completion; by deadline_ns */
        struct list live;
        uint64_t live_bytes;
        uint64_t n_finished;

        /* Jobs that ended and are to be handed to the archive: the core takes them. */
        struct job **ended;
        size_t n_ended, cap_ended;

        /* Called when a queue got a ready job (the core serves waiting workers); may be NULL. */
        void (*on_ready)(void *ctx, struct queue *queue);
        void *ctx;

        struct idmap skipped; /* replay: ids of effects whose job was not seen yet */
        bool is_replaying;
};

void state_init(struct state *s, uint64_t hash_seed);
void state_release(struct state *s);

/* `seq` is the batch the effect is in.  ERR_CORRUPT when it cannot be: in replay that stops the
 * start, live it is our own mistake. */
int state_apply(struct state *s, const struct effect *e, uint64_t seq,
                struct problem *problem) MUST_CHECK;
/* After the last batch: every object must have been seen. */
int state_replay_end(struct state *s, struct problem *problem) MUST_CHECK;

struct job *state_job(const struct state *s, uint64_t id);
struct queue *state_queue_find(const struct state *s, struct slice name);
struct queue *state_queue_get(struct state *s, struct slice name); /* made when missing */
size_t state_n_queues(const struct state *s);

/* Moves what has fallen due from SCHEDULED to READY, at most `max` jobs.  Not an effect: it is
 * what the clock says.  steady_wall_ms: wall time that never jumps (see core.c). */
size_t state_promote(struct state *s, int64_t steady_wall_ms, int64_t wall_ms, size_t max);

void state_check(const struct state *s);
/* A digest of everything durable, for "replay equals live". */
uint64_t state_digest(const struct state *s);

#endif

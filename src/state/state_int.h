/* What the files of state/ share and nobody else sees. */
#ifndef WEIR_STATE_STATE_INT_H
#define WEIR_STATE_STATE_INT_H

#include "state/state.h"

/* Off its list, out of the counters; and onto the list of its state, into the counters.  deadline
 * and due must be set before it enters. */
void state_leave(struct state *s, struct job *job);
void state_enter(struct state *s, struct job *job, enum job_state state);
void state_move(struct state *s, struct job *job, enum job_state state);
/* Back to the queue: at once when due_ms is 0, else at that time. */
void state_pending(struct state *s, struct job *job, int64_t due_ms);
void state_push_ended(struct state *s, struct job *job);
void state_drop_job(struct state *s, struct job *job);
/* Adds its weight to what is live (by: 1), or takes it off (by: -1) before it changes or goes. */
void state_weigh(struct state *s, struct job *job, int by);

size_t state_queue_weight(const struct queue *q);
void state_drop_queue(struct state *s, struct queue *q);
/* The queue of an effect; the log knows of it from this batch on.  NULL: the id is another's. */
struct queue *state_durable_queue(struct state *s, const struct effect *e, uint64_t seq);

/* state/links.c: what links a job to others.  Begin once its options are set, update after each
 * change of its state, end before it is freed. */
void links_begin(struct state *s, struct job *job);
void links_update(struct state *s, struct job *job);
void links_end(struct state *s, struct job *job);
/* It comes after that job no longer (0: after none). */
void links_resolve(struct state *s, struct job *job, uint64_t other_id);
void links_release(struct state *s);
void links_check(const struct state *s); /* asserts every invariant; visits every link */

#endif

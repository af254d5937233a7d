/* Circuit breakers in the core: what a claim asks, what an end tells, and the places of the
 * commands' parameters. */
#ifndef WEIR_THINGS_BREAKER_H
#define WEIR_THINGS_BREAKER_H

#include "core/kernel.h"

/* How an attempt ended, as a breaker sees it.  A handler that failed still shows that workers
 * work, so it is a success to the breaker of a queue unless that was set with HANDLERS. */
enum breaker_outcome { BREAKER_OK, BREAKER_HANDLER_FAILED, BREAKER_TIMED_OUT, BREAKER_RELEASED };

/* The breaker that keeps the whole queue waiting now, or NULL.  When it no longer does, waiting
 * claims of the queue are served. */
struct thing *breaker_of_queue(struct core *core, const struct queue *queue);
/* The breaker of its target when that keeps this job from starting now, or NULL. */
struct thing *breaker_block(struct core *core, const struct job *job);
/* The job is being started: call it right before its JOB_START, whose fence (the next one) is the
 * ask.  Takes the pass or the probe.  The two above have just returned NULL. */
void breaker_start(struct core *core, const struct job *job);
/* The attempt ended: call it before the effect that ends it.  RELEASED also when it was canceled.
 * A late completion after TIMED_OUT is a second note of the same ask: good news while the breaker
 * is closed, and nothing otherwise. */
void breaker_end(struct core *core, const struct job *job, enum breaker_outcome outcome);
/* Somebody is put on t->waiting: wakes them when it is time. */
void breaker_want(struct core *core, struct thing *t);
/* How long until a start may be possible, for people; CIRCUIT_NEVER when held open. */
int64_t breaker_wait_ns(const struct core *core, struct thing *t);

#endif

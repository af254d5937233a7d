/* Rate limits in the core: what a claim asks, and the places of the commands' parameters. */
#ifndef WEIR_THINGS_LIMIT_H
#define WEIR_THINGS_LIMIT_H

#include "core/kernel.h"

/* The limit that keeps the whole queue waiting now, or NULL.  Waiting claims of the queue are
 * served when it no longer does. */
struct thing *limit_of_queue(struct core *core, const struct queue *queue);
/* The first limit of its own (hook, option) that keeps this job from starting now, or NULL. */
struct thing *limit_block(struct core *core, const struct job *job);
/* The job is being started: takes from all its limits.  The two above have just returned NULL. */
void limit_start(struct core *core, const struct job *job);
/* Somebody is put on t->waiting, or passed over because of it: wakes them when it is time. */
void limit_want(struct core *core, struct thing *t);
/* How long until a start may be possible, for people. */
int64_t limit_wait_ns(const struct core *core, struct thing *t);

#endif

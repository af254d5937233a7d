/* Queues: how many there may be, and what holds for their jobs. */
#ifndef WEIR_JOBS_QUEUES_H
#define WEIR_JOBS_QUEUES_H

#include "core/kernel.h"

/* May there be so many more queues?  When the limit needs their place, idle ones are forgotten: a
 * queue that was found before may be gone afterwards. */
int queues_admit(struct core *core, size_t n_new, struct problem *problem) MUST_CHECK;
/* The same for one name; a queue that has it stays. */
int queue_admit(struct core *core, struct slice name, struct problem *problem) MUST_CHECK;
/* How long a failed job of this queue waits that has no backoff of its own. */
struct backoff queue_backoff(const struct core *core, const struct queue *q);

#endif

/* Making one job: for ENQUEUE, and for all that make jobs by themselves (schedules, batches). */
#ifndef WEIR_JOBS_ENQUEUE_H
#define WEIR_JOBS_ENQUEUE_H

#include "core/kernel.h"

/* The id of the new job, or of the one that holds its unique key already.  The caller has asked
 * core_admit().  An error: nothing was changed. */
int enqueue_one(struct core *core, const struct job_spec *spec, uint64_t *ret,
                struct problem *problem) MUST_CHECK;

#endif

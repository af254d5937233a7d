/* The end of a job, and what follows from it for others. */
#ifndef WEIR_JOBS_JOB_END_H
#define WEIR_JOBS_JOB_END_H

#include "core/kernel.h"

/* Call before the effect that ends a job: its unique key, its batch and its schedule are told in
 * the same batch of the log, and so are the jobs that come after it, or what is left of them is in
 * it (dependents.h).  was_failed: it had failed for good and is now complete after all. */
void job_ending(struct core *core, const struct job *job, enum job_status outcome, bool was_failed);

/* Ends a job that is not running, or cancels one that is. */
void job_cancel(struct core *core, struct job *job, struct slice why);
void job_fail_unstarted(struct core *core, struct job *job, struct slice why);

/* Refuses a command about a job that is not live: it is history, or there is none. */
int job_not_live(const struct core *core, uint64_t id, struct problem *problem);

/* Is its signature right, where signatures are wanted?  If not it is failed and false returned. */
bool job_is_trusted(struct core *core, struct job *job);

#endif

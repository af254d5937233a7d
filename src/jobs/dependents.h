/* What follows from the end of a job for those that come after it. */
#ifndef WEIR_JOBS_DEPENDENTS_H
#define WEIR_JOBS_DEPENDENTS_H

#include "core/kernel.h"

/* The job ends so: whoever comes after it is told in this batch of the log, or in later ones. */
void dependents_begin(struct core *core, uint64_t job_id, enum job_status outcome);
/* Are there some that come after it and were not told yet? */
bool dependents_are_left(const struct core *core, uint64_t job_id);

void dependents_work(struct core *core); /* tells some; before each commit */

/* The ids a new job comes after: those that have ended already are told of too. */
void dependents_look_up(struct core *core, const struct job *job);

extern const struct feature dependents_feature;

#endif

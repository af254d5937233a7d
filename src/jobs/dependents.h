/* What follows from the end of a job for those that come after it. */
#ifndef WEIR_JOBS_DEPENDENTS_H
#define WEIR_JOBS_DEPENDENTS_H

#include "core/kernel.h"

/* The job ends so: whoever comes after it is told in this batch of the log, or in later ones. */
void sequel_begin(struct core *core, uint64_t job_id, enum job_status outcome);
/* Are there some that come after it and were not told yet? */
bool sequel_is_left(const struct core *core, uint64_t job_id);

void sequels_turn(struct core *core); /* a new turn: what is waited for and may have ended */
void sequels_work(struct core *core); /* tells some; before each commit */
void sequels_keep(struct core *core); /* the batch is closed: what is left is to be in it */
int64_t sequels_next_ns(const struct core *core);

/* The ids a new job comes after: those that have ended already are told of too. */
void sequel_look_up(struct core *core, const struct job *job);
void sequels_release(struct core *core);

#endif

/* The end of a job, and what follows from it for others. */
#ifndef WEIR_CORE_ENDS_H
#define WEIR_CORE_ENDS_H

#include "core/inside.h"

/* Call before the effect that ends a job: its unique key, its batch, its schedule and the jobs
 * that come after it are told, all in one batch of the log.  was_failed: it had failed for good
 * and is now complete after all. */
void job_ending(struct core *core, const struct job *job, enum job_status outcome, bool was_failed);

/* Ends a job that is not running, or cancels one that is. */
void job_cancel(struct core *core, struct job *job, struct slice why);
void job_fail_unstarted(struct core *core, struct job *job, struct slice why);

/* Jobs that came after what has ended: released, canceled or failed.  Before each commit. */
void ends_settle(struct core *core);
/* The ids a new job comes after: those that have ended already are settled too. */
void ends_look_up(struct core *core, const struct job *job);
/* All that are waited for, at core->look_up_ns. */
void ends_look_up_due(struct core *core);
void ends_expire(struct core *core); /* jobs whose time to start is over */
void ends_release(struct core *core);

/* Is its signature right, where signatures are wanted?  If not it is failed and false returned. */
bool job_is_trusted(struct core *core, struct job *job);

#endif

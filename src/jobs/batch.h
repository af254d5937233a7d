/* Batches in the core: jobs counted together, with callbacks when they have ended. */
#ifndef WEIR_JOBS_BATCH_H
#define WEIR_JOBS_BATCH_H

#include "core/kernel.h"

/* May n jobs be added to this batch?  ERR_NOTFOUND, ERR_STATE when it is closed, ERR_LIMIT. */
int batch_check(struct core *core, struct slice name, size_t n, struct problem *problem) MUST_CHECK;
void batch_add(struct core *core, struct slice name, uint64_t n); /* so many jobs were added */
/* One of its jobs ends.  was_failed: it counted as failed before and is complete after all. */
void batch_note(struct core *core, struct slice name, enum job_status outcome, bool was_failed);

#endif

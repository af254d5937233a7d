/* Another tier for a job that has not ended. */
#ifndef WEIR_JOBS_BULK_TIER_H
#define WEIR_JOBS_BULK_TIER_H

#include "core/kernel.h"

/* 1 + enum tier; 0: as its hook is registered.  *ret_changed is false when it had that already. */
int job_retier(struct core *core, struct job *job, unsigned tier, const char *who,
               bool *ret_changed, struct problem *problem) MUST_CHECK;

#endif

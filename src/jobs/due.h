/* Jobs whose time has come: leases and graces that end, jobs that expire or become ready. */
#ifndef WEIR_JOBS_DUE_H
#define WEIR_JOBS_DUE_H

#include "core/kernel.h"

/* A late completion of a job that timed out for good is accepted for as long as its lease was,
 * but not longer than this. */
#define DUE_GRACE_MAX_MS 300000

extern const struct feature due_feature;

#endif

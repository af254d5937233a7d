/* Who works: every name that claimed within the last hour, and what it has in hand.
 *
 * Nothing of it is in the log.  After a restart the running jobs still say whose they are; where
 * those are and which queues they take is known again with their next claim. */
#ifndef WEIR_JOBS_WORKERS_H
#define WEIR_JOBS_WORKERS_H

#include "core/kernel.h"

#define WORKERS_MAX  1000
#define WORKERS_JOBS 20 /* ids told of one */

struct workers;

extern const struct feature workers_feature;

/* Somebody claims. */
void workers_claim(struct core *core, const struct session *session, const struct claim_spec *spec);

#endif

/* Commands that change many jobs: by their ids, or by a filter as JOBS takes it.
 *
 * The answer comes when all is done, and says how many jobs matched and how many were changed.
 * Until then a bulk command does a little in each turn (find_walk.h), so what it changes becomes
 * true and durable bit by bit: one that is stopped half-way (its peer is gone, weir stops or
 * crashes) has changed some jobs and not others, each of them whole. */
#ifndef WEIR_JOBS_BULK_H
#define WEIR_JOBS_BULK_H

#include "core/kernel.h"

extern const struct feature bulk_feature;

/* RETRYMANY DRYRUN: how many could be retried. */
int bulk_count_retries(struct core *core, struct session *session, const struct command *cmd,
                       struct problem *problem) MUST_CHECK;

#endif

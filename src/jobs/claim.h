/* Claims: workers take jobs, at once or when some are ready. */
#ifndef WEIR_JOBS_CLAIM_H
#define WEIR_JOBS_CLAIM_H

#include "core/kernel.h"

/* Those who wait for jobs are served at the end of the turn, where there are some. */
void claim_wake_all(struct core *core);
/* Every claim that waits for jobs, by the name of its worker. */
void claim_each_waiting(const struct core *core, void (*fn)(void *ctx, struct slice worker),
                        void *ctx);
/* claim_check() first, and before anything is changed: afterwards there is no refusal. */
int claim_run(struct core *core, struct session *session, const struct claim_spec *spec,
              struct reply *reply) MUST_CHECK;
int claim_check(struct core *core, const struct claim_spec *spec,
                struct problem *problem) MUST_CHECK;

extern const struct feature claims_feature;

#endif

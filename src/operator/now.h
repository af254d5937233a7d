/* What an operator looks at first: the gate, the jobs and the checks at this moment, and what was
 * made to wait or refused last. */
#ifndef WEIR_OPERATOR_NOW_H
#define WEIR_OPERATOR_NOW_H

#include "api/limits.h"
#include "checks/check_int.h"
#include "core/kernel.h"

struct throttled;

struct throttled *throttled_new(uint64_t hash_seed);
struct throttled *throttled_free(struct throttled *t);

/* The gate makes a job wait, or would; target may be "". */
void throttled_deferral(struct core *core, const struct job *job, enum tier tier,
                        const struct gate_answer *answer, const char *target, const char *text);
/* A check was refused, or would have been. */
void throttled_refusal(struct core *core, const struct asking *asking,
                       const struct check_answer *answer);
void throttled_check(const struct throttled *t);

#endif

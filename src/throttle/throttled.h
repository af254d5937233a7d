/* What was made to wait or refused last: jobs by the gate, checks by their verdict (THROTTLED). */
#ifndef WEIR_THROTTLE_THROTTLED_H
#define WEIR_THROTTLE_THROTTLED_H

#include "core/kernel.h"
#include "gate/check.h"

#define THROTTLED_KEPT 200

struct throttled;

struct throttled *throttled_new(uint64_t hash_seed);
struct throttled *throttled_free(struct throttled *t);

/* The gate makes a job wait, or would; target may be "". */
void throttled_deferral(struct core *core, const struct job *job, enum tier tier,
                        const struct gate_answer *answer, const char *target, const char *text);

/* A check was refused, or would have been. */
struct throttled_check {
        struct slice who; /* identity */
        bool is_granted;  /* it only would have been */
        enum check_reason reason;
        int target;
        uint64_t more; /* beside this one, of the same moment */
};
/* True: it is counted, or there are too many in this second.  False: throttled_add() it. */
bool throttled_is_counted(struct core *core, const struct throttled_check *c) MUST_CHECK;
void throttled_add(struct core *core, const struct throttled_check *c, enum tier tier,
                   struct slice target, const char *text);

void throttled_check(const struct throttled *t);

#endif

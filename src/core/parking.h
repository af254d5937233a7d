/* Jobs that the gate makes wait: parked, judged again when a tier or the matrix changes, let go.
 *
 * A change of the registry, of the matrix or of the configuration may concern every parked job.
 * They are judged again by a walk over the lists of parked jobs, CORE_TURN_STEPS jobs a turn.  The
 * walk is not in the log: a restart judges all of them. */
#ifndef WEIR_CORE_PARKING_H
#define WEIR_CORE_PARKING_H

#include "core/inside.h"
#include "gate/gate.h"

/* The walk.  state->parked_next is the job it looks at next. */
struct parking {
        bool is_judging;
        bool is_again; /* something changed while it went on: it begins anew when it is over */
        size_t list;   /* which list it is on: those of the parked jobs, then of the returning */
};

/* The gate makes it wait so long, from now on. */
void parking_park(struct core *core, const struct job *job, enum tier tier, uint32_t delay_ms,
                  const char *why);

/* A tier may have changed: parked jobs are judged again, the first of them at once. */
void parking_judge(struct core *core);
void parking_judge_later(struct core *core); /* the same, beginning with the next turn */
/* The same for one job, whose tier was just changed. */
void parking_judge_one(struct core *core, struct job *job);
bool parking_is_judging(const struct core *core);
/* Do both make every job wait equally long at every level? */
bool parking_is_same(const struct policy *a, const struct policy *b);
/* Goes on with the walk.  Once a turn. */
void parking_turn(struct core *core);

/* What counts against max_deferral when the gate is asked for this job. */
uint64_t parking_deferred_ms(const struct core *core, const struct job *job);

#endif

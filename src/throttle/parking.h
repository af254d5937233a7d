/* Jobs that the gate makes wait: parked, judged again when a tier or the matrix changes, let go.
 *
 * A change of the registry, of the matrix or of the configuration may concern every parked job.
 * They are judged again by a walk over the lists of parked jobs, CORE_TURN_STEPS jobs a turn.  The
 * walk is not in the log: a restart judges all of them. */
#ifndef WEIR_THROTTLE_PARKING_H
#define WEIR_THROTTLE_PARKING_H

#include "core/kernel.h"
#include "gate/gate.h"

struct parking {
        /* The walk; state->parked_next is the job it looks at next. */
        bool is_judging;
        bool is_again; /* something changed while it went on: it begins anew when it is over */
        size_t list;   /* which list it is on: those of the parked jobs, then of the returning */
        /* Of the last step of the ramp: when it was, and how many are still to be let go. */
        int64_t step_ns;
        size_t n_owed[TIERS];
};

/* A step of the ramp (gate/ramp.h): so many jobs are let go, CORE_TURN_STEPS a turn.  And the end
 * of it, when a level rises. */
void parking_return(struct core *core, const size_t release[TIERS]);
void parking_stop_return(struct core *core);
/* Do older jobs of its hook and tier return by the ramp, so that it must not start before them? */
bool parking_has_jobs_of(const struct name *hook); /* without any there are none */
bool parking_is_behind(const struct core *core, const struct job *job, enum tier tier);
/* Parks it behind them; `ret_why` (THROTTLE_TEXT bytes) says so. */
void parking_line_up(struct core *core, const struct job *job, enum tier tier, char *ret_why);
/* How long it takes at most until the ramp brings it back; 0: the ramp does not. */
int64_t parking_returns_in_ms(const struct core *core, const struct job *job);

/* The gate makes it wait, from now on. */
void parking_park(struct core *core, const struct job *job, enum tier tier,
                  const struct gate_answer *a, const char *why);

/* A tier may have changed: parked jobs are judged again, the first of them at once. */
void parking_judge(struct core *core);
void parking_judge_later(struct core *core); /* the same, beginning with the next turn */
/* The same for one job, whose tier was just changed. */
void parking_judge_one(struct core *core, struct job *job);
bool parking_is_judging(const struct core *core);
bool parking_is_busy(const struct core *core); /* there is something for the next turn */
/* Do both make every job wait equally long at every level? */
bool parking_is_same(const struct policy *a, const struct policy *b);
/* Goes on with the walk and the ramp.  Once a turn. */
void parking_turn(struct core *core);

/* What the gate is asked for this job, beside its level and its hook.  Of a parked job: as of the
 * beginning of its wait. */
struct gate_ask parking_ask(const struct core *core, const struct job *job, enum tier tier);

#endif

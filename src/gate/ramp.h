/* The way back: when the level falls, parked jobs return over some cycles and not all at once.
 *
 * With n cycles, the first gives back a share of 1/n of what is parked, the next 1/(n-1) of what is
 * parked then, and the last all of it; so what was parked meanwhile, or woke by itself, is counted
 * as it is.  The first cycle begins at once and the whole takes cycles x cycle.  Within a cycle the
 * jobs are spread evenly, each at a random moment of its own slot: the order stays (most important,
 * then oldest first) and there is no burst at the start of a cycle.
 *
 * A rise of the level stops it: the caller calls ramp_stop().  Pure: no clock, no allocation. */
#ifndef WEIR_GATE_RAMP_H
#define WEIR_GATE_RAMP_H

#include "base/rand.h"
#include "gate/gate.h"

#define RAMP_CYCLES   3
#define RAMP_CYCLE_NS (60 * NS_PER_S)

struct ramp {
        unsigned cycles;
        int64_t cycle_ns;
        bool is_running;
        unsigned cycle;   /* that is going on, from 1; 0: the first has not begun */
        int64_t next_ns;  /* the next cycle begins, or the last one ends */
        uint64_t n_given; /* jobs of this cycle, and how many of them have got their moment */
        uint64_t n_placed;
        uint64_t released; /* since ramp_begin */
        int64_t last_ns;   /* when its last cycle began, and it was not stopped since; else 0 */
};

void ramp_init(struct ramp *r, unsigned cycles, int64_t cycle_ns); /* 0: the defaults above */
/* From the first cycle, also when one is going on. */
void ramp_begin(struct ramp *r, int64_t now_ns);
void ramp_stop(struct ramp *r);

/* How many parked jobs of each tier return now; all 0 when it is not time.  To be called at
 * ramp_next_ns(); a late call moves what comes after it, two cycles are never made up for at once.
 * Ends the ramp when nothing is parked any more or the last cycle is over.  Tiers that wait at the
 * present level are given as 0: they would only be parked again. */
void ramp_step(struct ramp *r, int64_t now_ns, const size_t n_parked[TIERS],
               size_t ret_release[TIERS]);
/* For each job of the last step, in the order of their return: how long after that step.  Below the
 * length of a cycle, and never before the one asked for last. */
int64_t ramp_jitter_ms(struct ramp *r, struct rng *dice);

/* By when the last job of a ramp that runs is due. */
int64_t ramp_end_ns(const struct ramp *r);
/* How long a new job waits so that it does not overtake older ones that return; 0: it need not.
 * Before the last cycle the caller parks it, and a later cycle brings it back; this is then only
 * the longest it can take.  In the last cycle, ramp_is_last(), all of them have their moments
 * already.  Then new jobs line up behind the end of the cycle, at twice the rate at which they
 * come: one cycle later the line has ended by itself, without a burst. */
int64_t ramp_behind_ns(const struct ramp *r, int64_t now_ns);
bool ramp_is_last(const struct ramp *r);

int64_t ramp_next_ns(const struct ramp *r); /* INT64_MAX: not running */
bool ramp_is_running(const struct ramp *r);
unsigned ramp_cycles(const struct ramp *r);

#endif

/* How many further steps an asker may take without asking again, and how fast it should go.
 *
 * A pool of credits per target and second, after Breakwater.  The pressure u is value / threshold
 * of the worst checked metric; 1 is the limit, where the checks refuse.  An answer gives an even
 * share of what the pool allows in a quarter of a second or some more, to be used within the
 * credits' time, and the pause says when to ask again.  The pool begins small and grows while u is
 * below `aim`; above it shrinks by the overshoot, once per turn, C x max(1 - decrease x (u - aim) /
 * aim, 0.5).  Of it is given out what there is room for, 1 - u, from the next answer on.  When
 * the pressure is unknown, no credits are given and no client is paced.
 *
 * When a sample says stop, what still runs on credits is at most half a second of the pool, and no
 * longer than the credits' time. */
#ifndef WEIR_GATE_CREDIT_H
#define WEIR_GATE_CREDIT_H

#include "base/err.h"

struct credit_rule {
        double aim;      /* pressure it steers to; 0.4 */
        double increase; /* steps a second; half of the pool it begins with; 5 */
        double decrease; /* 0.4 */
        uint32_t max;    /* of one answer; 1000.  0: no credits, no pacing */
        uint32_t ms;     /* how long they may be used; 1000 */
};

/* All but the first two are the law's own. */
struct credit_pool {
        double credits;   /* steps of cost 1 a second for all askers together, as of now */
        double pressure;  /* of the last tick; NAN: unknown */
        double base;      /* the pool before the room is taken into account */
        double before;    /* pressure at the last turn; NAN: unknown */
        double unit;      /* cost of a step, on average; what is small is measured by it */
        double calm;      /* turns without pressure, up to now */
        uint64_t asks;    /* since tick_ns: grants */
        int64_t tick_ns;  /* the last turn */
        int64_t asked_ns; /* the last turn that saw a grant */
        double taken;     /* what the target takes, estimated; 0: no pressure was seen yet */
        bool is_turned;   /* tick_ns is set */
        bool is_begun;    /* a client was granted something */
        bool is_wanted;   /* since tick_ns: a client would have taken more */
};

/* What a granted ask is told besides. */
struct credit_grant {
        uint32_t steps; /* further steps of this cost */
        uint32_t ms;    /* how long they may be used, from the answer on; 0 when there are none */
        uint32_t pause_ms; /* the next ask should not come sooner than this after the answer */
};

void credit_rule_init(struct credit_rule *r);
/* ERR_BADARG and what is wrong: 0 < aim < 1, 0 < increase, 0 < decrease <= 1, max up to a million,
 * 10 ms to a minute. */
int credit_rule_check(const struct credit_rule *r, struct problem *problem) MUST_CHECK;
void credit_init(struct credit_pool *p);
/* A sample came, or a second passed.  `askers` were active within the last seconds. */
void credit_tick(struct credit_pool *p, const struct credit_rule *r, double pressure, size_t askers,
                 int64_t now_ns);
/* For a granted ask for a step of `cost` (at least 1) by one of `askers`; counts it.  It comes
 * `late_ns` after the pause of its last grant ended: INT64_MAX when there was none, below 0 when it
 * did not pause. */
struct credit_grant credit_give(struct credit_pool *p, const struct credit_rule *r, size_t askers,
                                uint32_t cost, int64_t late_ns);

#endif

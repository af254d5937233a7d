/* How many further steps an asker may take without asking again, and how fast it should go.
 *
 * Breakwater's law at the pace of samples: a pool of credits per target and second.  The pressure
 * u is value / threshold of the worst checked metric; 1 is the limit, where the checks refuse.
 *
 *      free        u is below `aim`: nobody is slowed down, and credits only save asks.  The pool
 *                  grows by `increase` per active asker and second, and at least to half of what
 *                  they asked for within the last one, for as long as they come back before their
 *                  credits' time is over.
 *      paced       from u >= aim on.  The pool begins with what the askers really took, and from
 *                  then on it is a rate: an even share of it is what an asker may do in the
 *                  credits' time, and the pause says when it may ask again.  Once a second, and
 *                  only while the pressure does not already move the right way, the pool shrinks
 *                  by the overshoot, C x max(1 - decrease x (u - aim) / aim, 0.5), or grows by an
 *                  eighth, at least by 1.  Of it is given out what there is room for: all
 *                  at `aim`, nothing at 1 and above or when nobody knows.  That is not put off.
 *                  It ends when the pool has grown back to what the askers once took.
 *
 * When a sample says stop, what still runs on credits is at most the pool, and no longer than the
 * credits' time. */
#ifndef WEIR_GATE_CREDIT_H
#define WEIR_GATE_CREDIT_H

#include "base/err.h"

struct credit_rule {
        double aim;      /* pressure it steers to; 0.5 */
        double increase; /* credits per asker and second, while free; 5 */
        double decrease; /* 0.4 */
        uint32_t max;    /* of one answer; 1000.  0: no credits are given and nobody is paced */
        uint32_t ms;     /* how long they may be used; 1000 */
};

/* All but the first three are the law's own. */
struct credit_pool {
        double credits;  /* steps of cost 1 a second for all askers together, as of now */
        double pressure; /* of the last tick; NAN: unknown */
        double demand;   /* paced: what the askers took when it began; 0: free */
        double base;     /* the pool before the room is taken into account */
        double before;   /* pressure at the last turn of the second; NAN: unknown */
        double rate;     /* cost taken per second within the last one */
        double taken;    /* since tick_ns: cost of the steps that were granted, with credits */
        double asked;    /* the same without the credits */
        uint64_t asks;   /* since tick_ns: grants */
        int64_t tick_ns; /* the last turn */
        unsigned idle;   /* turns since somebody was granted something */
        bool is_turned;  /* tick_ns is set */
        bool is_counted; /* credit_give is used: taken and asks mean something */
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
/* For a granted ask for a step of `cost` (at least 1) by one of `askers`; counts it. */
struct credit_grant credit_give(struct credit_pool *p, const struct credit_rule *r, size_t askers,
                                uint32_t cost);
/* The same steps, but not counted.  A pool of which nothing was ever counted follows the pressure
 * alone and paces nobody. */
uint32_t credit_share(const struct credit_pool *p, const struct credit_rule *r, size_t askers,
                      uint32_t cost);

#endif

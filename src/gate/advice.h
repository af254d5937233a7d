/* Thresholds that follow from what is usual.
 *
 * Pure: values in, thresholds and minutes out.  Who has the values is another matter
 * (numbers/learning.h). */
#ifndef WEIR_GATE_ADVICE_H
#define WEIR_GATE_ADVICE_H

#include "gate/level.h"

#define ADVICE_DAYS     7    /* that teach */
#define ADVICE_TENS     1008 /* ten minutes in them */
#define ADVICE_LEAST    144  /* ten minutes with values, without which nothing is proposed: a day */
#define ADVICE_MINUTES  1440 /* of the day that thresholds are tried on */
#define ADVICE_HOURS    24
#define ADVICE_PER_HOUR 6

struct advice_usual {
        double hour[ADVICE_HOURS]; /* by hour of the day, UTC; NAN: nothing was learned of it */
        double most;               /* the largest of them; NAN: nothing was learned */
        size_t n;                  /* ten minutes that had values */
        bool is_whole;             /* all values were whole numbers */
};

/* The largest value of each ten minutes, one behind the other, at most ADVICE_TENS; NAN: none.
 * `first` is the number of ten minutes between midnight UTC and the first of them. */
void advice_learn(const float *tens, size_t n, size_t first, struct advice_usual *ret);

/* What a metric can be, and what it never falls below. */
struct advice_bounds {
        double most;              /* its largest possible value; INFINITY: unbounded */
        struct level_rule lowest; /* thresholds are not proposed below these; NAN: no such bound */
};

enum advice {
        ADVICE_GIVEN,
        ADVICE_LITTLE, /* too little was learned */
        ADVICE_FULL,   /* it is usually at its largest possible value, about */
};
/* Sets the thresholds of *ret when they are given, and nothing else of it. */
enum advice advice_propose(const struct advice_usual *u, const struct advice_bounds *bounds,
                           struct level_rule *ret);

struct advice_effect {
        unsigned elevated, critical; /* minutes */
        unsigned entered;            /* times that the level rose above normal */
};
/* What these thresholds do to the largest values of consecutive minutes; NAN: none.  Such a minute
 * is not counted, and the level stays as it is. */
struct advice_effect advice_replay(const float *minutes, size_t n, const struct level_rule *rule,
                                   int64_t dwell_ns);

#endif

/* What is usual for a kind of work, learned while its database is well: how many transactions
 * execute at once, how long the server takes for one, and what a metric of the server shows.
 *
 *      executing       the time spent with so many at once, for each hour; its 99th percentile is
 *                      the figure of the hour; the 90th percentile of the figures of 7 days is the
 *                      usual.  After a day of learning it rises by a quarter a day at most: what
 *                      grows slowly is growth, what jumps is trouble.  It falls at once.
 *      time            the mean logarithm of the server time, over about 20 minutes in which
 *                      transactions end; ten times slower while the database is not well, because a
 *                      mean that learns quickly forgets that there is trouble
 *      slow            what one transaction of fifty takes longer than, against the mean.  A server
 *                      that is short of processors runs short statements at once and lets a few
 *                      wait for long: their mean hardly moves, but many are slow
 *      metric          the 99th percentile of its values of about 7 days
 *
 * Learned means: ten minutes and 1,000 transactions.  Too low does little harm (what is beyond the
 * usual goes through a window), too high lets a burst in; so in doubt the lower figure counts.
 *
 * `pace` is the other side: how long the server takes now, against the usual.
 *
 * No clock: durations and times are passed in, steady ns. */
#ifndef WEIR_GATE_USUAL_H
#define WEIR_GATE_USUAL_H

#include "base/defs.h"

/* Counts in buckets: 0 to 15 have one each, then four for each octave. */
#define USUAL_EXACT        16
#define USUAL_BUCKETS      (USUAL_EXACT + 4 * 10)
#define USUAL_HOURS        168
#define USUAL_LEAST_S      600  /* of learning, */
#define USUAL_ENDS         1000 /* and transactions, before it counts */

#define USUAL_LOG_TIME_MAX 60 /* ln(ns): more than a human life */

unsigned usual_bucket(double count);
uint32_t usual_bucket_most(unsigned bucket); /* the largest count of the bucket */

/* What is kept over a restart. */
struct usual_memory {
        uint64_t ends;              /* transactions learned from */
        double seconds;             /* that the database was well meanwhile */
        double executing;           /* the usual; 0: nothing was learned yet */
        double log_time;            /* mean of ln(ns) */
        double slow;                /* ln(time / mean) that 2 % exceed; 0: not known */
        uint16_t n_hours;           /* of which there are figures, */
        uint16_t next_hour;         /* a ring: the next one overwrites this */
        uint8_t hours[USUAL_HOURS]; /* buckets */
};

#define USUAL_RATIOS 32 /* buckets of ln(time / mean) */

struct usual {
        struct usual_memory memory;
        float ratio_n[USUAL_RATIOS];       /* transactions; older ones weigh less */
        uint32_t look_ratio[USUAL_RATIOS]; /* since the last look */
        int64_t spent_ns[USUAL_BUCKETS];   /* of this hour, while the database was well */
        int64_t spent_sum_ns, hour_ns;     /* hour_ns also counts what was not well */
        double look_sum;                   /* logarithms since the last look, */
        uint32_t look_n;                   /* of so many */
};

/* So long so many executed, and the database was well. */
void usual_spend(struct usual *u, uint32_t executing, int64_t ns);
/* A transaction ended; ln of its server time in ns. */
void usual_end(struct usual *u, double log_time);
/* So much time has passed since the last look. */
void usual_look(struct usual *u, int64_t ns, bool is_well);
/* Works out the figure anew, after so much time. */
void usual_settle(struct usual *u, int64_t ns);
/* Is one with that time slow? */
static inline bool usual_is_slow(const struct usual *u, double log_time)
{
        return u->memory.slow > 0 && log_time - u->memory.log_time > u->memory.slow;
}
static inline bool usual_is_learned(const struct usual *u)
{
        return u->memory.executing >= 1 && u->memory.ends >= USUAL_ENDS;
}
/* Takes over what was kept; false: it makes no sense, and nothing has changed. */
bool usual_restore(struct usual *u, const struct usual_memory *memory);

/* ---- metrics ---- */

struct usual_metric {
        double n[USUAL_BUCKETS]; /* values; older ones weigh less */
        double seconds;          /* of learning */
        double most;             /* the 99th percentile; NAN: not learned yet */
        double unsettled_s;      /* since it was last worked out */
};
void usual_metric_init(struct usual_metric *m);
/* A sample, so long after the one before, while the database was well. */
void usual_metric_add(struct usual_metric *m, double value, int64_t since_ns);
bool usual_metric_restore(struct usual_metric *m, const double n[USUAL_BUCKETS], double seconds);

/* ---- pace ---- */

#define PACE_SLOTS   10
#define PACE_SLOT_NS (500 * NS_PER_MS) /* so it is of the last 4.5 to 5 s */
#define PACE_LEAST   20                /* transactions that say something */

struct pace {
        int64_t slot;          /* the newest, since the clock began */
        float sum[PACE_SLOTS]; /* ln(time / usual) */
        uint32_t n[PACE_SLOTS], slow[PACE_SLOTS];
};
void pace_add(struct pace *p, double log_ratio, bool is_slow, int64_t now_ns);
/* Those of the last seconds. */
struct pace_sum {
        double log_ratio;
        uint32_t n, slow;
};
struct pace_sum pace_sum(const struct pace *p, int64_t now_ns);

#endif

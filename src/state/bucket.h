/* A rate limit: how much may be taken, and how long to wait when it may not.
 *
 *   BUCKET_WINDOW  at most `amount` in any window [t, t + period), wherever it begins: the strict
 *                  promise, never over by one.  Time is cut into quanta of period/255 (at least
 *                  1 ms), and a take counts until the last instant of its quantum has left the
 *                  window.  So it errs on the safe side only: what was taken comes back up to one
 *                  quantum late (0.4 % of the period, or 1 ms), never early.
 *   BUCKET_TOKENS  a bucket of `burst` tokens, filled at `amount` per `period`, evenly.  In any
 *                  window of length w at most burst + w * amount / period are granted.  With the
 *                  default burst (= amount) that is up to 2 * amount in one unlucky period;
 *                  burst 1 spaces takes evenly, amount + 1 at most in a period.  Whoever needs
 *                  "never more than amount" takes BUCKET_WINDOW.
 *
 * The per-minute limit of other job systems is bucket_per_minute(n): BUCKET_WINDOW, n per 60 s.
 * Theirs counts by calendar minute, which lets 2 * n through at the turn of one; this does not.
 *
 * Time: steady ns, passed in; a time before the last one counts as the last one.  Threads: none of
 * its own, the owner's only.  Ownership: embedded; the ring of BUCKET_WINDOW comes with the first
 * take (8 bytes for each quantum in use, 2 KiB at most) and leaves with bucket_release(). */
#ifndef WEIR_STATE_BUCKET_H
#define WEIR_STATE_BUCKET_H

#include "base/buf.h"
#include "base/err.h"

#define BUCKET_AMOUNT_MAX    1000000000ULL
#define BUCKET_PERIOD_MAX_MS (31LL * 24 * 3600 * MS_PER_S)
#define BUCKET_NEVER         INT64_MAX

enum bucket_kind { BUCKET_WINDOW = 1, BUCKET_TOKENS = 2 }; /* numbers are in the log */

struct bucket_rule {
        enum bucket_kind kind;
        uint64_t amount;   /* 1..BUCKET_AMOUNT_MAX */
        int64_t period_ms; /* 1..BUCKET_PERIOD_MAX_MS */
        uint64_t burst;    /* BUCKET_TOKENS: 1..BUCKET_AMOUNT_MAX, 0 = amount; else unused */
};

struct bucket_quantum;

struct bucket {
        struct bucket_rule rule;
        int64_t at_ns; /* the latest time seen by a call that changed something */
        /* BUCKET_TOKENS: what is missing to a full bucket, in tokens * period_ns: 128 bits, since
         * 10^9 tokens * 31 days do not fit 64.  More than the burst after a stricter rule came. */
        uint64_t debt_lo, debt_hi;
        /* BUCKET_WINDOW: quanta with takes in them, the oldest at `first`. */
        struct bucket_quantum *ring;
        uint64_t newest;           /* number of the newest quantum, time / quantum */
        uint32_t used;             /* sum of the ring's counts */
        uint16_t first, len, size; /* size: of the allocation; a power of two, or 0 */
};

static inline struct bucket_rule bucket_per_minute(uint64_t amount)
{
        return (struct bucket_rule){BUCKET_WINDOW, amount, 60 * MS_PER_S, 0};
}

/* ERR_BADARG and what is allowed; a rule from outside passes here before it goes anywhere else. */
int bucket_rule_check(const struct bucket_rule *rule, struct problem *problem) MUST_CHECK;

void bucket_init(struct bucket *b, const struct bucket_rule *rule); /* unused, nothing allocated */
void bucket_release(struct bucket *b);

/* 0: granted, and counted.  Otherwise nothing changed, and the result is the ns until n could be
 * granted if nobody takes meanwhile; BUCKET_NEVER when n is more than the capacity.  Nothing (n =
 * 0) is always granted. */
int64_t bucket_take(struct bucket *b, uint64_t n, int64_t now_ns) MUST_CHECK;
int64_t bucket_wait(const struct bucket *b, uint64_t n, int64_t now_ns); /* the same, not taking */
/* Counts n whether it is allowed or not, for what has happened already (replay of a log that
 * keeps takes, work let through by hand).  What is above BUCKET_AMOUNT_MAX in all is not counted.
 */
void bucket_force(struct bucket *b, uint64_t n, int64_t now_ns);

uint64_t bucket_capacity(const struct bucket *b); /* amount of a window, burst of tokens */
uint64_t bucket_used(const struct bucket *b, int64_t now_ns); /* may be above the capacity after
                                                               * a stricter rule came */
uint64_t bucket_left(const struct bucket *b, int64_t now_ns); /* the largest n granted now */
void bucket_reset(struct bucket *b);                          /* forgets what was taken */
/* Nothing is counted any more: a new one of the same rule would answer the same. */
bool bucket_is_idle(const struct bucket *b, int64_t now_ns);
/* The ns until it is idle if nobody takes meanwhile; 0 when it is.  For a timer that forgets. */
int64_t bucket_idle_wait(const struct bucket *b, int64_t now_ns);

/* A new rule, keeping the usage, so that no grant after it brings a window over the new limit.
 *   window -> window  takes older than the old period are forgotten already; every younger one
 *                     counts under the new rule, at most one old and one new quantum too long.
 *   tokens -> tokens  the debt stays: a window over the change has at most the new burst plus what
 *                     each of the two rates gives in its part of it.
 *   other kind        what is counted becomes one take of this moment. */
void bucket_set_rule(struct bucket *b, const struct bucket_rule *rule, int64_t now_ns);

/* Everything, rule and usage, in varints; about 12 bytes when idle and 3 more for each quantum in
 * use.  Unpacking reads from the front of *s and moves it on; b is a fresh or released one.  False
 * when the bytes are no bucket: b is then empty, and *s untouched. */
void bucket_pack(const struct bucket *b, struct buf *to);
bool bucket_unpack(struct bucket *b, struct slice *s) MUST_CHECK;

void bucket_check(const struct bucket *b); /* asserts every invariant; O(quanta) */

#endif

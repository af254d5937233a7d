/* How long a failed job waits before its next attempt.
 *
 *   none                      at once
 *   fixed:5s                  always 5 s
 *   exp:5s,2,5m,15%           5 s, 10 s, 20 s, ... at most 5 min, each 15 % shorter or longer
 *                             (base, factor, cap, jitter; what is left out at the end is
 *                             5s, 2, 5m, 15%; `exp` alone is all four)
 *   list:1s,30s,5m            1 s, 30 s, then always 5 min; up to 16 delays
 *
 * Durations as in base/duration.h, at most BACKOFF_DELAY_MAX_MS.  The factor is 1 to 100 with at
 * most two decimals.  The cap holds after the jitter too: near it, delays spread below it, they do
 * not gather on it.  A plain value, no allocation. */
#ifndef WEIR_STATE_BACKOFF_H
#define WEIR_STATE_BACKOFF_H

#include "base/buf.h"
#include "base/err.h"
#include "base/rand.h"

#define BACKOFF_LIST_MAX     16
#define BACKOFF_DELAY_MAX_MS (366LL * 24 * 3600 * MS_PER_S)
#define BACKOFF_FACTOR_UNIT  100LL /* factors are kept in hundredths */
#define BACKOFF_FACTOR_MAX   10000LL

/* Numbers are in the log. */
enum backoff_kind { BACKOFF_NONE, BACKOFF_FIXED, BACKOFF_EXPONENTIAL, BACKOFF_LIST };

struct backoff {
        enum backoff_kind kind;
        uint8_t n;       /* delays in use: FIXED 1, LIST 1..BACKOFF_LIST_MAX, else 0 */
        uint8_t jitter;  /* EXPONENTIAL: percent, 0..100 */
        uint16_t factor; /* EXPONENTIAL: hundredths, 100..BACKOFF_FACTOR_MAX */
        int64_t base_ms; /* EXPONENTIAL: 0..cap_ms */
        int64_t cap_ms;  /* EXPONENTIAL: base_ms..BACKOFF_DELAY_MAX_MS */
        int64_t delays_ms[BACKOFF_LIST_MAX]; /* zero past n */
};

struct backoff backoff_default(void); /* exp:5s,2,5m,15% */

/* ERR_BADARG and what is allowed; *ret only on success. */
int backoff_parse(struct slice text, struct backoff *ret, struct problem *problem) MUST_CHECK;
void backoff_to_text(const struct backoff *b, struct buf *to); /* reads back the same */
bool backoff_eq(const struct backoff *a, const struct backoff *b);

/* The delay after the attempt-th start failed; attempt >= 1 (0 counts as 1).  Rolls the dice only
 * where there is jitter; dice may be NULL to get the middle. */
int64_t backoff_delay_ms(const struct backoff *b, unsigned attempt, struct rng *dice);

/* NONE takes 1 byte, the others 3 to 10 and a few for each delay.  Unpacking reads from the front
 * of *s and moves it on; false, with both untouched, when the bytes are no backoff. */
void backoff_pack(const struct backoff *b, struct buf *to);
bool backoff_unpack(struct backoff *b, struct slice *s) MUST_CHECK;

#endif

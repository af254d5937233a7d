/* Durations as people write them: "500" (milliseconds), "90s", "1h30m", "250ms", "2d"; and as they
 * say them: "1 min 30 s".
 *
 * What is written: a number alone is milliseconds.  With units, each of d, h, m (or min), s, ms may
 * stand once, the larger before the smaller, and every number is a plain decimal without sign,
 * space or fraction. */
#ifndef WEIR_BASE_DURATION_H
#define WEIR_BASE_DURATION_H

#include "base/buf.h"

#define MS_PER_MIN  (60 * MS_PER_S)
#define MS_PER_HOUR (60 * MS_PER_MIN)
#define MS_PER_DAY  (24 * MS_PER_HOUR)

/* "106751991167d7h12m55s807ms" and its NUL; what is said is shorter. */
#define DURATION_TEXT_MAX 32

/* False when it is no duration or does not fit; *ret is then untouched. */
bool slice_to_duration_ms(struct slice s, int64_t *ret);
/* The shortest text that reads back the same, with units: 5400000 is "1h30m", 0 is "0s".
 * ms >= 0.  Returns ret, which holds DURATION_TEXT_MAX bytes. */
const char *duration_text(int64_t ms, char *ret);

/* For people, to whom the rest does not matter: "250 ms", "1.5 s", "59 min 59 s", "2 d 2 h"; two
 * units at most.  Returns ret, which holds DURATION_TEXT_MAX bytes. */
const char *duration_words(int64_t ms, char *ret);
void duration_put(struct buf *b, int64_t ms); /* the same */
/* The time until something: begun seconds count, so that an hour that has just begun is "1 h". */
const char *duration_words_left(int64_t ms, char *ret);
void duration_put_left(struct buf *b, int64_t ms);

#endif

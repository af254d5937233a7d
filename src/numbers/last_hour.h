/* How many jobs failed within the last hour, over a restart too.
 *
 * What failed since the start is counted in memory (series.h).  What failed before it is in
 * history, which is asked once, when somebody first wants to know. */
#ifndef WEIR_NUMBERS_LAST_HOUR_H
#define WEIR_NUMBERS_LAST_HOUR_H

#include "core/kernel.h"

struct last_hour;

struct last_hour *last_hour_new(void);
void last_hour_release(struct core *core);

/* In the first turn, before anything ends. */
void last_hour_begin(struct core *core);
/* So many more ended jobs are in history. */
void last_hour_stored(struct core *core, size_t n);

/* *ret_from_ms is the Unix time from which it counts: an hour ago, or the start while history has
 * not answered or cannot answer. */
uint64_t last_hour_failed(struct core *core, int64_t *ret_from_ms);

#endif

/* How many jobs failed within the last hour, over a restart too.
 *
 * What failed since the start is counted in memory (series.h).  What failed before it is in
 * history, which is asked once, when somebody first wants to know. */
#ifndef WEIR_NUMBERS_LAST_HOUR_H
#define WEIR_NUMBERS_LAST_HOUR_H

#include "core/kernel.h"

extern const struct feature last_hour_feature;

/* *ret_from_ms is the Unix time from which it counts: an hour ago, or the start while history has
 * not answered or cannot answer. */
uint64_t last_hour_failed(struct core *core, int64_t *ret_from_ms);

#endif

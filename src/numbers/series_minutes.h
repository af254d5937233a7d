/* SERIES in steps of whole minutes, from rollups: up to 30 days back, over restarts, and by name.
 */
#ifndef WEIR_NUMBERS_SERIES_MINUTES_H
#define WEIR_NUMBERS_SERIES_MINUTES_H

#include "core/kernel.h"
#include "numbers/series.h"

/* Is it asked for in whole minutes, for more than the last hour, or for one name? */
bool series_is_by_minutes(const struct command *cmd);
/* OK, or CORE_LATER when the archive is asked.  TARGET, if given, is there. */
int series_minutes(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem) MUST_CHECK;

/* Metrics as rollups name them: of that target, or of all when it is empty, at most SERIES_METRICS;
 * copied into `arena`. */
size_t series_name_metrics(const struct core *core, struct slice target, struct arena *arena,
                           struct slice ret[SERIES_METRICS]);
/* The place of a metric among these names; n: it is not there. */
size_t series_find_metric(const struct slice *names, size_t n, const struct target *g,
                          size_t metric);

#endif

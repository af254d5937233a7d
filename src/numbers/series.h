/* The last hour, second by second: what happened to jobs and checks.
 *
 * Counts are told per step, gauges and metrics as the largest value within one.  Nothing of it is
 * in the log: a restart begins anew, and what was before it is told as null.  Steps of whole
 * minutes are told from rollups instead (series_minutes.h), which survive a restart. */
#ifndef WEIR_NUMBERS_SERIES_H
#define WEIR_NUMBERS_SERIES_H

#include "api/limits.h"
#include "api/replies.h"
#include "core/kernel.h"

#define SERIES_STEP    5
#define SERIES_POINTS  720 /* of one series in one answer */
#define SERIES_METRICS 64  /* metrics in one answer; TARGET asks for others */

/* Counts, then gauges: those are as they were when a second ended.  Numbers in the history file
 * (core/rollup.h). */
enum series_id {
        SERIES_ENQUEUED,
        SERIES_STARTED,
        SERIES_COMPLETED,
        SERIES_FAILED,
        SERIES_GRANTED,
        SERIES_REFUSED,
        SERIES_DEFERRED_CRITICAL, /* by tier, in its order */
        SERIES_DEFERRED_HIGH,
        SERIES_DEFERRED_NORMAL,
        SERIES_DEFERRED_DEFERRABLE,
        SERIES_PARKED,
        SERIES_READY,
        SERIES_IDS
};
#define SERIES_COUNTS SERIES_PARKED /* the first gauge */

struct series;

extern const struct feature series_feature;

/* What was counted within the last whole seconds, at most SERIES_SECONDS of them. */
uint64_t series_sum(const struct core *core, enum series_id id, unsigned seconds);
/* Of the last so many whole seconds, those that were counted: the others were before the start. */
unsigned series_known(const struct core *core, unsigned seconds);
/* What was counted since the last of them ended. */
uint64_t series_rest(const struct core *core, enum series_id id);
/* A gauge at the end of the last whole second; 0 before the first. */
uint32_t series_gauge(const struct core *core, enum series_id id);
/* What was counted since the start. */
void series_totals(const struct core *core, uint64_t ret[SERIES_COUNTS]);

/* An answer of SERIES, from whatever it was made. */
struct series_told {
        int64_t from_ms, step_ms;
        size_t n;
        struct reply_items points[SERIES_IDS], metrics;
};
void series_tell(struct reply *reply, const struct series_told *told);
/* A metric with its thresholds, and these values. */
struct target;
void series_tell_metric(struct reply *reply, const struct target *g, size_t metric,
                        struct reply_items values);
/* Those of one target, or of all: -1; at most SERIES_METRICS. */
size_t series_count_metrics(const struct core *core, int target);

#endif

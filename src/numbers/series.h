/* The last hour, second by second: what happened to jobs and checks.
 *
 * Counts are told per step, gauges and metrics as the largest value within one.  Nothing of it is
 * in the log: a restart begins anew, and what was before it is told as null. */
#ifndef WEIR_NUMBERS_SERIES_H
#define WEIR_NUMBERS_SERIES_H

#include "api/limits.h"
#include "core/kernel.h"

#define SERIES_STEP    5
#define SERIES_POINTS  720 /* of one series in one answer */
#define SERIES_METRICS 64  /* metrics in one answer; TARGET asks for others */

/* Counts, then gauges: those are as they were when a second ended. */
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

#endif

/* Rows of the command table for who looks on: included by command.c alone. */
#ifndef WEIR_API_ROWS_NOW_H
#define WEIR_API_ROWS_NOW_H

#include "jobs/workers.h"
#include "numbers/series.h"
#include "operator/now.h"

/* clang-format off */
/* Their places are P_... in numbers/series.c. */
static const struct param_def series_params[] = {
        {"seconds", PARAM_INT, QUERY, 1, SERIES_SECONDS, "3600", "how far back"},
        {"step", PARAM_INT, QUERY, 1, SERIES_STEP_S, "5", "seconds of one point; at most 720 points"},
        {"target", PARAM_NAME, QUERY, 1, NAME_MAX_BYTES, "all", "metrics of this target only"},
};
static const struct param_def throttled_params[] = {
        {"count", PARAM_INT, QUERY, 1, THROTTLED_KEPT, "20", "at most this many actions"},
};

#define NOW_ROWS                                                                                   \
        ROW0("NOW", "now", COMMAND_FREE, "GET", "/v1/now",                                         \
             "Tells the state of everything in one look: levels, jobs, rates, the ramp, checks.",  \
             "The state; rates are per second, over the last 5 whole seconds.", exec_now),         \
        ROW("SERIES", "now", COMMAND_FREE, "GET", "/v1/series",                                    \
            "Tells the last hour in steps: metrics with their thresholds, jobs and checks.",       \
            "Counts are sums of a step; metrics, parked and ready the largest value in it.",       \
            exec_series, series_params),                                                           \
        ROW("THROTTLED", "now", 0, "GET", "/v1/throttled",                                         \
            "Lists what was made to wait or refused last, or would have been.",                    \
            "The actions, newest first; checks of one kind within a second are one, with times.",  \
            exec_throttled, throttled_params),                                                     \
        ROW0("WORKERS", "workers", 0, "GET", "/v1/workers",                                        \
             "Lists who claims, and what each has in hand.",                                       \
             "The workers, those with jobs first; of all running jobs, how many were counted.",    \
             exec_workers),
/* clang-format on */

#endif

/* Rows of the command table for many jobs at once, and for counting them: included by command.c
 * alone. */
#ifndef WEIR_API_ROWS_BULK_H
#define WEIR_API_ROWS_BULK_H

#include "jobs/bulk.h"

/* clang-format off */
/* In the order of P_FILTER_* and P_BULK_* (params.h). */
#define BULK_PARAMS                                                                                \
        JOB_FILTER(KEY),                                                                           \
        {"ids", PARAM_IDS, KEY, 1, LIMIT_LIST_JOBS, "none", "these jobs, instead of a filter"},    \
        {"dryrun", PARAM_FLAG, KEY, 0, 1, "off", "change nothing, only count"}

static const struct param_def bulk_params[] = {BULK_PARAMS};

#define TIER_CHOICES "critical|high|normal|deferrable|registered: "

static const struct param_def retiermany_params[] = {
        BULK_PARAMS,
        {"set", PARAM_CHOICE, REQ | KEY, 0, 0, NULL,
         TIER_CHOICES "the tier they get, or again that of their hook"},
};

static const struct param_def retier_params[] = {
        {"id", PARAM_ID, PATH, 1, INT64_MAX, NULL, "id of the job"},
        {"tier", PARAM_CHOICE, REQ, 0, 0, NULL,
         TIER_CHOICES "the tier it gets, or again that of its hook"},
};

static const struct param_def jobcounts_params[] = {
        {"queue", PARAM_NAME, QUERY, 1, NAME_MAX_BYTES, "all", "only of this queue"},
};

#define BULK_RETURNS                                                                               \
        "When all is done: how many jobs matched, and how many of them were changed."

#define BULK_ROWS                                                                                  \
        ROW("JOBCOUNTS", "jobs", 0, "GET", "/v1/jobs/counts",                                      \
            "Counts jobs by status, and the pending ones by what they wait for.",                  \
            "Numbers. Of complete, failed and canceled ones: how many there were since the queue " \
            "began, kept in history or not.",                                                      \
            exec_jobcounts, jobcounts_params),                                                     \
        ROW("CANCELMANY", "jobs", W | B, "POST", "/v1/jobs/cancel",                                \
            "Cancels all pending and running jobs that a filter matches, or that are named.",      \
            BULK_RETURNS, exec_cancelmany, bulk_params),                                           \
        ROW("RUNMANY", "jobs", W | B, "POST", "/v1/jobs/run",                                      \
            "Makes all pending jobs that a filter matches, or that are named, due now.",           \
            BULK_RETURNS, exec_runmany, bulk_params),                                              \
        ROW("RETIERMANY", "jobs", W | B, "POST", "/v1/jobs/tier",                                  \
            "Gives all pending and running jobs that a filter matches, or that are named, "        \
            "another tier.",                                                                       \
            BULK_RETURNS, exec_retiermany, retiermany_params),                                     \
        ROW("DELETEMANY", "jobs", W | B, "POST", "/v1/jobs/delete",                                \
            "Deletes all ended jobs that a filter matches, or that are named, from history.",      \
            BULK_RETURNS, exec_deletemany, bulk_params),                                           \
        ROW("RETIER", "jobs", W, "POST", "/v1/jobs/{id}/tier",                                     \
            "Gives a job that has not ended another tier.", "OK.", exec_retier, retier_params),
/* clang-format on */

#endif

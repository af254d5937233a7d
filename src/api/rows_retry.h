/* Rows of the command table for running a job again, or now: included by command.c alone. */
#ifndef WEIR_API_ROWS_RETRY_H
#define WEIR_API_ROWS_RETRY_H

#include "jobs/retry.h"

static const struct param_def retry_params[] = {
        {"id", PARAM_ID, PATH, 1, INT64_MAX, NULL, "id of the job"},
        {"force", PARAM_FLAG, KEY, 0, 1, "off", "also when it is complete"},
};

static const struct param_def retrymany_params[] = {
        {"status", PARAM_CHOICE, KEY, 0, 1, "failed", "failed|canceled: which jobs"},
        JOB_FILTER_REST(KEY),
        {"limit", PARAM_INT, KEY, 1, LIMIT_LIST_JOBS, "100", "at most this many jobs"},
        {"cursor", PARAM_TEXT, KEY, 0, 20, "the newest job",
         "where the last page ended, from its answer"},
        {"ids", PARAM_IDS, KEY, 1, LIMIT_LIST_JOBS, "none", "these jobs, instead of a filter"},
        {"dryrun", PARAM_FLAG, KEY, 0, 1, "off", "only count them, all of them and not a page"},
};

static const struct param_def run_params[] = {
        {"id", PARAM_ID, PATH, 1, INT64_MAX, NULL, "id of the job"},
};

/* clang-format off */
#define RETRY_ROWS                                                                                 \
        ROW("RETRY", "jobs", W | B, "POST", "/v1/jobs/{id}/retry",                                 \
            "Runs a failed or canceled job again, under its id and with all its attempts. A "      \
            "pending job does not wait for its time any longer.",                                  \
            "The status the job has now: pending.", exec_retry, retry_params),                     \
        ROW("RETRYMANY", "jobs", W | B, "POST", "/v1/jobs/retry",                                  \
            "Runs many failed or canceled jobs again, newest first, a page at a time.",            \
            "How many were retried, how many could not be, and the cursor to go on with; an "      \
            "empty cursor is the end.",                                                            \
            exec_retrymany, retrymany_params),                                                     \
        ROW("RUN", "jobs", W, "POST", "/v1/jobs/{id}/run",                                         \
            "Makes a pending job due now, whatever time it was to wait for.",                      \
            "The status of the job: pending.", exec_run, run_params),
/* clang-format on */

#endif

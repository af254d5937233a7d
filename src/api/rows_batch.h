/* Rows of the command table for batches: included by command.c alone. */
#ifndef WEIR_API_ROWS_BATCH_H
#define WEIR_API_ROWS_BATCH_H

#include "jobs/batch.h"

/* Their places are P_... in jobs/batch.c. */
static const struct param_def batch_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the batch"},
        {"title", PARAM_TEXT, KEY, 0, NAME_MAX_BYTES, "none", "what it is, for people"},
        {"onsuccess", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "none",
         "hook of a job to make when all jobs of the batch are complete"},
        {"successargs", PARAM_BYTES, KEY, 0, LIMIT_BATCH_ARGS_BYTES, "none", "payload of that job"},
        {"ondone", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "none",
         "hook of a job to make when all jobs of the batch have ended, however they did"},
        {"doneargs", PARAM_BYTES, KEY, 0, LIMIT_BATCH_ARGS_BYTES, "none", "payload of that job"},
        {"queue", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "default", "queue of both jobs"},
        {"priority", PARAM_INT, KEY, 0, 255, "100", "priority of both jobs"},
        {"successsignature", PARAM_TEXT, KEY, 1, 128, "none", "signature of the job of ONSUCCESS"},
        {"donesignature", PARAM_TEXT, KEY, 1, 128, "none", "signature of the job of ONDONE"},
        {"complete", PARAM_INT, KEY, 0, LIMIT_BATCH_JOBS, "0",
         "jobs of it that ended elsewhere, before it was moved here: so many are complete"},
        {"failed", PARAM_INT, KEY, 0, LIMIT_BATCH_JOBS, "0", "... so many have failed"},
        {"canceled", PARAM_INT, KEY, 0, LIMIT_BATCH_JOBS, "0", "... so many were canceled"},
};

static const struct param_def batch_name_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the batch"},
};

static const struct param_def batches_params[] = {
        {"limit", PARAM_INT, QUERY, 1, LIMIT_LIST_BATCHES, "50", "at most this many batches"},
        {"cursor", PARAM_TEXT, QUERY, 0, NAME_MAX_BYTES, "the first name",
         "where the last listing ended, from its answer"},
};

#define BATCH_ROWS                                                                                 \
        ROW("BATCH", "batches", W, "POST", "/v1/batches/{name}",                                   \
            "Makes a batch that jobs can be added to, with callbacks for its end.", "OK.",         \
            exec_batch, batch_params),                                                             \
                ROW("CLOSEBATCH", "batches", W, "POST", "/v1/batches/{name}/close",                \
                    "Takes no more jobs into a batch. It is finished when the last of them has "   \
                    "ended, and not before it is closed.",                                         \
                    "The status of the batch: closed, or finished when all have ended already.",   \
                    exec_closebatch, batch_name_params),                                           \
                ROW("BATCHSTATE", "batches", 0, "GET", "/v1/batches/{name}", "Shows a batch.",     \
                    "Its fields.", exec_batchstate, batch_name_params),                            \
                ROW("BATCHES", "batches", 0, "GET", "/v1/batches", "Lists the batches by name.",   \
                    "The batches, and the cursor to go on with; an empty cursor is the end.",      \
                    exec_batches, batches_params),                                                 \
                ROW("CANCELBATCH", "batches", W, "POST", "/v1/batches/{name}/cancel",              \
                    "Closes a batch and cancels its jobs that have not ended, running ones too.",  \
                    "How many jobs that were.", exec_cancelbatch, batch_name_params),              \
                ROW("UNBATCH", "batches", W, "DELETE", "/v1/batches/{name}",                       \
                    "Forgets a batch that has no jobs or is finished. Its jobs stay history.",     \
                    "OK.", exec_unbatch, batch_name_params),

#endif

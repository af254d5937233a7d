/* Rows of the command table for limits: included by command.c alone. */
#ifndef WEIR_API_ROWS_LIMIT_H
#define WEIR_API_ROWS_LIMIT_H

#include "state/bucket.h"
#include "things/limit.h"

#define LIMIT_KINDS "window|tokens: never over in any window, or a bucket that fills evenly"
#define LIMIT_BURST "tokens only: how many the bucket holds, so how many may be taken at one moment"

static const struct param_def limit_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL,
         "name of the limit; queue:NAME and hook:NAME hold for all starts of a queue or hook"},
        {"amount", PARAM_INT, REQ, 1, BUCKET_AMOUNT_MAX, NULL, "how many in each period"},
        {"period", PARAM_INT, REQ, 1, BUCKET_PERIOD_MAX_MS, NULL, "the period in milliseconds"},
        {"kind", PARAM_CHOICE, KEY, 0, 0, "window", LIMIT_KINDS},
        {"burst", PARAM_INT, KEY, 1, BUCKET_AMOUNT_MAX, "the amount", LIMIT_BURST},
};

static const struct param_def take_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the limit"},
        {"cost", PARAM_INT, KEY, 1, BUCKET_AMOUNT_MAX, "1", "how many to take"},
        {"wait", PARAM_INT, KEY, 0, LIMIT_WAIT_MS, "0",
         "milliseconds to wait in line until it can be granted"},
        {"amount", PARAM_INT, KEY, 1, BUCKET_AMOUNT_MAX, "that of the limit",
         "makes the limit when there is none: how many in each period"},
        {"period", PARAM_INT, KEY, 1, BUCKET_PERIOD_MAX_MS, "that of the limit",
         "its period in milliseconds; goes with amount"},
        {"kind", PARAM_CHOICE, KEY, 0, 0, "window", LIMIT_KINDS},
        {"burst", PARAM_INT, KEY, 1, BUCKET_AMOUNT_MAX, "the amount", LIMIT_BURST},
};

static const struct param_def limit_name_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the limit"},
};

#define LIMIT_ROWS                                                                                 \
        ROW("LIMIT", "limits", W, "POST", "/v1/limits/{name}",                                     \
            "Sets a rate limit: so many in each period. What was taken before still counts.",      \
            "OK.", exec_limit, limit_params),                                                      \
                ROW("UNLIMIT", "limits", W, "DELETE", "/v1/limits/{name}",                         \
                    "Removes a rate limit. Who waits for it is told so; jobs go on.", "OK.",       \
                    exec_unlimit, limit_name_params),                                              \
                ROW0("LIMITS", "limits", 0, "GET", "/v1/limits",                                   \
                     "Lists the rate limits with their usage.", "What USAGE tells, by name.",      \
                     exec_limits),                                                                 \
                ROW("USAGE", "limits", 0, "GET", "/v1/limits/{name}",                              \
                    "Tells how much of a rate limit is used.",                                     \
                    "Rule, used, left, retry_ms until one more, reset_ms until nothing counts.",   \
                    exec_usage, limit_name_params),                                                \
                ROW("TAKE", "limits", W | B, "POST", "/v1/limits/{name}/take",                     \
                    "Takes from a rate limit, if it allows it now or within WAIT.",                \
                    "granted (1 or 0), left, retry_ms until it could be granted. A grant is on "   \
                    "disk when this answer comes.",                                                \
                    exec_take, take_params),                                                       \
                ROW("RESETLIMIT", "limits", W, "POST", "/v1/limits/{name}/reset",                  \
                    "Forgets what was taken from a rate limit.", "OK.", exec_resetlimit,           \
                    limit_name_params),

#endif

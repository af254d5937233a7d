/* Rows of the command table for queues, their settings and caps: included by command.c alone. */
#ifndef WEIR_API_ROWS_QUEUE_H
#define WEIR_API_ROWS_QUEUE_H

#include "things/cap.h"

/* clang-format off */
static const struct param_def queueset_params[] = {
        {"queue", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the queue"},
        {"cap", PARAM_INT, KEY, 0, LIMIT_KEYMAX, "as it is",
         "jobs of the queue that may run at once; 0: any number"},
        {"claimsize", PARAM_INT, KEY, 0, LIMIT_CLAIM_JOBS, "as it is",
         "jobs one claim may take; 0: as many as it asks for"},
        {"claims", PARAM_INT, KEY, 0, LIMIT_KEYMAX, "as it is",
         "claims that may have running jobs at once; 0: any number"},
        {"lease", PARAM_INT, KEY, 0, LIMIT_LEASE_MAX_MS, "as it is",
         "milliseconds of lease for jobs and claims that name none; 0: 300000"},
        {"fair", PARAM_CHOICE, KEY, 0, 0, "as it is", "off|on: turns between groups, by weight"},
        {"backoff", PARAM_TEXT, KEY, 1, NAME_MAX_BYTES, "as it is",
         "of jobs without their own: default (exp:5s,2,5m,15%), none, fixed:5s, exp:... or "
         "list:1s,30s,5m"},
        {"history", PARAM_CHOICE, KEY, 0, 0, "as it is",
         "default|full|failures|none: which finished jobs are kept"},
        {"existing", PARAM_FLAG, KEY, 0, 0, "no", "only a queue that exists, else NOTFOUND"},
};

static const struct param_def cap_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "key:NAME or group:NAME"},
        {"max", PARAM_INT, REQ, 0, LIMIT_KEYMAX, NULL, "how many may run at once; 0: any number "
         "(group) or as the jobs say (key)"},
        {"weight", PARAM_INT, KEY, 1, 1000, "1", "of a group, for its turns in fair queues"},
};
static const struct param_def uncap_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "key:NAME or group:NAME"},
};

#define QUEUE_ROWS  \
        ROW("QUEUE", "queues", 0, "GET", "/v1/queues/{queue}",                                     \
            "Shows one queue with its settings.", "Its counts and settings.", exec_queue,          \
            queue_params),                                                                         \
        ROW("QUEUESET", "queues", W, "POST", "/v1/queues/{queue}",                                 \
            "Changes settings of a queue while it runs; what is not named stays as it is.",        \
            "OK.", exec_queueset, queueset_params),                                                \
        ROW("UNQUEUE", "queues", W, "DELETE", "/v1/queues/{queue}",                                \
            "Removes a queue without jobs: its settings, its pause and its counts. History keeps " \
            "the jobs that ended, and the next job that names the queue makes it anew.",           \
            "OK.", exec_unqueue, queue_params),                                                    \
        ROW("CAP", "queues", W, "POST", "/v1/caps/{name}",                                         \
            "Sets how many jobs of one key or group may run at once, and a group's weight.",       \
            "OK.", exec_cap, cap_params),                                                          \
        ROW("UNCAP", "queues", W, "DELETE", "/v1/caps/{name}", "Takes a cap back.", "OK.",         \
            exec_uncap, uncap_params),                                                             \
        ROW0("CAPS", "queues", 0, "GET", "/v1/caps",                                               \
             "Lists the caps that are set or keep somebody waiting.", "The caps.", exec_caps),     \
        ROW("WHY", "jobs", B, "GET", "/v1/jobs/{id}/why",                                          \
            "Says why a job is not running: every blocker in order, with figures.",                \
            "Its status, the blockers, before when it cannot start, how many are ahead.", exec_why, id_params),
/* clang-format on */

#endif

/* Parameters that say what a job is: of ENQUEUE and, where they make sense, of others that make
 * jobs.  Included by command.c alone.  clang-format would make a page of each row. */
#ifndef WEIR_API_ROWS_JOB_H
#define WEIR_API_ROWS_JOB_H

/* clang-format off */
#define JOB_PLACE                                                                                  \
        {"queue", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "default", "queue to wait in"},              \
        {"group", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "none", "tenant or batch it belongs to"},    \
        {"priority", PARAM_INT, KEY, 0, 255, "100", "lower runs first"}

#define JOB_WHEN                                                                                   \
        {"in", PARAM_INT, KEY | PARAM_EXCLUSIVE, 0, LIMIT_DELAY_MS, "0",                           \
         "milliseconds from now until it may run"},                                                \
        {"at", PARAM_INT, KEY | PARAM_EXCLUSIVE, 0, YEAR_3000_MS, "now",                           \
         "Unix time in milliseconds from when it may run"}

#define JOB_TRIES                                                                                  \
        {"timeout", PARAM_INT, KEY, LIMIT_LEASE_MIN_MS, LIMIT_LEASE_MAX_MS,                        \
         "the claim's LEASE, or 300000", "milliseconds a worker may hold it without extending"},   \
        {"attempts", PARAM_INT, KEY, 1, LIMIT_ATTEMPTS, "3",                                       \
         "how often it may be started before it is failed"},                                       \
        {"backoff", PARAM_TEXT, KEY, 1, NAME_MAX_BYTES, "that of the queue",                        \
         "wait before the next attempt: none, fixed:5s, exp:5s,2,5m,15% or list:1s,30s,5m"},       \
        {"maxrun", PARAM_INT, KEY, LIMIT_LEASE_MIN_MS, LIMIT_DELAY_MS, "no limit",                 \
         "milliseconds an attempt may run, however often its lease is extended"}

#define JOB_UNIQUE                                                                                 \
        {"unique", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "none",                                     \
         "a key that one job may hold; * makes it from hook, group and args (JSON by value)"},     \
        {"scope", PARAM_CHOICE, KEY, 0, 0, "pending",                                              \
         "pending|running|after: the key is held while pending, while running too, or for "        \
         "UNIQUEFOR after the end as well"},                                                       \
        {"uniquefor", PARAM_INT, KEY, 1, LIMIT_DELAY_MS, "none",                                   \
         "milliseconds after the end, with SCOPE after"},                                          \
        {"conflict", PARAM_CHOICE, KEY, 0, 0, "first",                                             \
         "first|replace|reject: answer with the id of the holder, give the holder these args, "    \
         "or refuse"}

#define JOB_SHARES                                                                                 \
        {"key", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "none",                                        \
         "at most KEYMAX jobs with this name run at once, over all queues"},                       \
        {"keymax", PARAM_INT, KEY, 1, LIMIT_KEYMAX, "1", "how many may hold KEY at once"},         \
        {"limit", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "none", "rate limit each start takes from"}, \
        {"target", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "none",                                     \
         "circuit breaker of what it calls"}

#define JOB_TIES                                                                                   \
        {"batch", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "none", "batch it counts for"},              \
        {"after", PARAM_IDS, KEY, 1, LIMIT_AFTER, "none", "jobs that must end before it starts"},  \
        {"when", PARAM_CHOICE, KEY, 0, 0, "complete",                                              \
         "complete|failed|ended: how those must end"},                                             \
        {"otherwise", PARAM_CHOICE, KEY, 0, 0, "cancel",                                           \
         "cancel|fail: what becomes of it when they end otherwise"}

#define JOB_ENDS                                                                                   \
        {"expires", PARAM_INT, KEY, 1, LIMIT_DELAY_MS, "never",                                    \
         "milliseconds from now after which it is not started any more but canceled"},             \
        {"resultfor", PARAM_INT, KEY, 1, LIMIT_DELAY_MS, "as long as the job",                     \
         "milliseconds the result is kept after the end"},                                         \
        {"signature", PARAM_TEXT, KEY, 1, 128, "none", "keyid:hex over what decides what runs"}

#define JOB_TIER                                                                                   \
        {"tier", PARAM_CHOICE, KEY, 0, 0, "as its hook is registered",                             \
         "critical|high|normal|deferrable: how important it is to the gate"}

/* Which jobs a command means, in the order of P_FILTER_* (params.h).  `at` is QUERY or KEY. */
#define JOB_FILTER_REST(at)                                                                        \
        {"hook", PARAM_NAME, at, 1, NAME_MAX_BYTES, "any", "exactly this hook"},                   \
        {"queue", PARAM_NAME, at, 1, NAME_MAX_BYTES, "any", "exactly this queue"},                 \
        {"group", PARAM_NAME, at, 1, NAME_MAX_BYTES, "any", "exactly this group"},                 \
        {"tier", PARAM_CHOICE, at, 0, 0, "any",                                                    \
         "critical|high|normal|deferrable: of this tier, its own or that of its hook"},            \
        {"worker", PARAM_NAME, at, 1, NAME_MAX_BYTES, "any",                                       \
         "run by this worker, now or last"},                                                       \
        {"since", PARAM_INT, at, 0, YEAR_3000_MS, "any",                                           \
         "created at this Unix time in milliseconds or later"},                                    \
        {"until", PARAM_INT, at, 0, YEAR_3000_MS, "any",                                           \
         "created before this Unix time in milliseconds"},                                         \
        {"match", PARAM_TEXT, at, 1, NAME_MAX_BYTES, "any",                                        \
         "a text that hook, args, result or error holds"}
#define JOB_FILTER(at)                                                                             \
        {"status", PARAM_STATUS, at, 0, 0, "any",                                                  \
         "pending, in-progress, complete, failed or canceled"},                                    \
        JOB_FILTER_REST(at)
/* clang-format on */

#endif

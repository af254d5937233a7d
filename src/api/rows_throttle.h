/* Rows of the command table for the gate: included by command.c alone. */
#ifndef WEIR_API_ROWS_THROTTLE_H
#define WEIR_API_ROWS_THROTTLE_H

#include "throttle/throttle.h"

/* clang-format off */
static const struct param_def throttle_params[] = {
        {"action", PARAM_CHOICE, REQ, 0, 0, NULL,
         "status|pause|resume|history|mode|checkmode: what to do"},
        {"for", PARAM_INT, KEY | PARAM_EXCLUSIVE, 1000, LIMIT_PAUSE_MS, "3600000",
         "pause: milliseconds until it ends by itself"},
        {"untilresumed", PARAM_FLAG, KEY | PARAM_EXCLUSIVE, 0, 0, "no",
         "pause: it does not end by itself"},
        {"set", PARAM_CHOICE, KEY | PARAM_BARE_WORD, 0, 0, "none",
         "off|test_observe|observe|enforce: mode to change to, with the actions mode and checkmode"},
        {"count", PARAM_INT, KEY, 1, THROTTLE_EVENTS, "50", "history: at most this many events"},
        {"before", PARAM_INT, KEY, 1, INT64_MAX, "none", "history: events with smaller numbers"},
};
static const struct param_def throttlehistory_params[] = {
        {"count", PARAM_INT, QUERY, 1, THROTTLE_EVENTS, "50", "at most this many events"},
        {"before", PARAM_INT, QUERY, 1, INT64_MAX, "none",
         "events with smaller numbers: what an answer says in `older` is the next page"},
};
static const struct param_def registryset_params[] = {
        {"pattern", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "hooks: * any text, ? one byte"},
        {"tier", PARAM_CHOICE, REQ, 0, 0, NULL,
         "critical|high|normal|deferrable: how important they are"},
};
static const struct param_def registryunset_params[] = {
        {"pattern", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "a pattern that was set"},
};
static const struct param_def tier_params[] = {
        {"hook", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of a hook"},
};

#define THROTTLE_ROWS                                                                              \
        ROW("THROTTLE", "throttle", W, "POST", "/v1/throttle",                                     \
            "Tells and steers the gate: THROTTLE STATUS, PAUSE, RESUME, HISTORY, MODE, CHECKMODE.",           \
            "STATUS: as THROTTLESTATUS; HISTORY: as THROTTLEHISTORY; MODE, CHECKMODE: the mode; else OK.",    \
            exec_throttle, throttle_params),                                                       \
        ROW0("THROTTLESTATUS", "throttle", 0, "GET", "/v1/throttle",                               \
             "Tells the level of each target and why, what is parked, and what the ramp does.",    \
             "The state of the gate.", exec_throttlestatus),                                       \
        ROW("THROTTLEHISTORY", "throttle", 0, "GET", "/v1/throttle/history",                       \
            "Tells what the gate and its operators did, over restarts, and what was deferred.",    \
            "The events and the groups of deferrals, newest first.", exec_throttlehistory,         \
            throttlehistory_params),                                                               \
        ROW0("REGISTRY", "throttle", 0, "GET", "/v1/registry",                                     \
             "Lists the patterns of hooks and their tiers.", "The patterns.", exec_registry),      \
        ROW("REGISTRYSET", "throttle", W, "POST", "/v1/registry/{pattern}",                        \
            "Gives the hooks of a pattern a tier; parked jobs are judged again.", "OK.",                \
            exec_registryset, registryset_params),                                                 \
        ROW("REGISTRYUNSET", "throttle", W, "DELETE", "/v1/registry/{pattern}",                    \
            "Takes back a pattern that was set.", "OK.", exec_registryunset,                       \
            registryunset_params),                                                                 \
        ROW("TIER", "throttle", 0, "GET", "/v1/tiers/{hook}",                                      \
            "Says which tier a hook has, and which pattern decides.", "The tier and the pattern.", \
            exec_tier, tier_params),
/* clang-format on */

#endif

/* Rows of the command table for the check door: included by command.c alone. */
#ifndef WEIR_API_ROWS_CHECK_H
#define WEIR_API_ROWS_CHECK_H

#include "checks/check_int.h"

/* clang-format off */
/* Their places are P_... in checks/check_wait.c. */
static const struct param_def check_params[] = {
        {"identity", PARAM_TEXT, REQ, 1, LIMIT_NAME_BYTES, NULL,
         "who asks: 1 to 8 parts between colons, specific to general"},
        {"target", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "the first target", "what it would burden"},
        {"priority", PARAM_CHOICE, KEY, 0, 0, "as the registry says, else normal",
         "critical|high|normal|deferrable: how important it is"},
        {"cost", PARAM_INT, KEY, 1, LIMIT_CHECK_COST, "1", "size of the step, for credits"},
        {"wait", PARAM_INT, KEY, 0, LIMIT_CHECK_WAIT_MS, "0",
         "milliseconds to wait until it may go; identities take turns"},
        {"metrics", PARAM_NAMES, KEY, 1, LIMIT_CHECK_METRICS,
         "by rule, else those of the target", "metrics to check"},
};

#define CHECK_ROWS                                                                                 \
        ROW("CHECK", "checks", B | COMMAND_FREE, "POST", "/v1/check",                              \
            "Asks whether a step of heavy work may go now.",                                       \
            "Verdict (granted or refused), reason, metric, value, threshold, age_ms, rule, "       \
            "wait_ms (do not ask again before), credits (further steps that need not ask), credit_ms "   \
            "(for how long), would (what enforce would have said), target.",                       \
            exec_check, check_params),
/* clang-format on */

#endif

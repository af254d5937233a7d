/* Rows of the command table for skipped hosts: included by command.c alone. */
#ifndef WEIR_API_ROWS_HOST_H
#define WEIR_API_ROWS_HOST_H

#include "throttle/host.h"

/* clang-format off */
static const struct param_def skiphost_params[] = {
        {"host", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL,
         "name of a replica, its host, or host:port"},
        {"for", PARAM_INT, KEY, 1000, LIMIT_RULE_MS, "3600000",
         "milliseconds until it counts again by itself; at most what rule_max allows"},
};
static const struct param_def recoverhost_params[] = {
        {"host", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "a host as it was skipped"},
};

#define HOST_ROWS                                                                                  \
        ROW("SKIPHOST", "throttle", W, "POST", "/v1/hosts/{host}/skip",                            \
            "Leaves a replica out of the lag of its target for a while.", "OK.", exec_skiphost,    \
            skiphost_params),                                                                      \
        ROW("RECOVERHOST", "throttle", W, "POST", "/v1/hosts/{host}/recover",                      \
            "Counts a skipped host again.", "OK.", exec_recoverhost, recoverhost_params),          \
        ROW0("SKIPPEDHOSTS", "throttle", 0, "GET", "/v1/hosts/skipped",                            \
             "Lists the hosts that are skipped, and until when.", "The hosts.",                    \
             exec_skippedhosts),
/* clang-format on */

#endif

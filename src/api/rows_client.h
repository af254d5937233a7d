/* Rows of the command table for those who ask: included by command.c alone. */
#ifndef WEIR_API_ROWS_CLIENT_H
#define WEIR_API_ROWS_CLIENT_H

#include "checks/client.h"

/* clang-format off */
static const struct param_def clients_params[] = {
        {"match", PARAM_TEXT, QUERY, 1, NAME_MAX_BYTES, "any", "a text that the name holds"},
        {"kind", PARAM_CHOICE, QUERY, 0, 0, "both",
         "identity|part: those who ask, or the parts of their names"},
        {"order", PARAM_CHOICE, QUERY, 0, 0, "name",
         "name|asks|refused: by name, or those with most asks or refusals first, which has no cursor"},
        {"limit", PARAM_INT, QUERY, 1, LIMIT_LIST_CLIENTS, "50", "at most this many clients"},
        {"cursor", PARAM_TEXT, QUERY, 0, NAME_MAX_BYTES, "the first name",
         "where the last listing ended, from its answer"},
};
static const struct param_def clientshow_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "an identity, or a part of one"},
        {"minutes", PARAM_INT, QUERY, 0, CLIENT_MINUTES, "60",
         "at most this many of the last minutes in which it asked"},
};

#define CLIENT_ROWS                                                                                \
        ROW("CLIENTS", "checks", 0, "GET", "/v1/clients",                                          \
            "Lists who asked: identities and the parts of them, with what they were told.",        \
            "The clients, the cursor to go on with (empty at the end), and the asks of those that "\
            "are not kept any more.",                                                              \
            exec_clients, clients_params),                                                         \
        ROW("CLIENTSHOW", "checks", 0, "GET", "/v1/clients/{name}",                                \
            "Shows one of them: totals, reasons, addresses, the last minutes, and when it was "    \
            "mostly refused within a day and why.",                                                \
            "Its fields; story has the sentences.", exec_clientshow, clientshow_params),           \
        ROW0("STARVED", "checks", 0, "GET", "/v1/starved",                                         \
             "Lists who goes on asking and is not granted, and who is granted meanwhile.",         \
             "The starved, those that have waited longest first; since_ms is for how long.",       \
             exec_starved),
/* clang-format on */

#endif

/* Rows of the command table for breakers: included by command.c alone. */
#ifndef WEIR_API_ROWS_BREAKER_H
#define WEIR_API_ROWS_BREAKER_H

#include "state/circuit.h"
#include "things/breaker.h"

#define BREAKER_NAME                                                                               \
        {                                                                                          \
                "name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "name of the breaker"           \
        }

static const struct param_def breaker_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL,
         "name of the breaker; queue:NAME stands before all starts of that queue"},
        {"threshold", PARAM_INT, KEY, 0, CIRCUIT_COUNT_MAX, "5",
         "failures in a row that open it; 0 = never for that"},
        {"rate", PARAM_INT, KEY, 1, 100, "none", "percent of failures in the window that open it"},
        {"window", PARAM_INT, KEY, CIRCUIT_SLOTS, CIRCUIT_MS_MAX, "60000",
         "milliseconds over which the rate is counted"},
        {"volume", PARAM_INT, KEY, 1, CIRCUIT_COUNT_MAX, "10",
         "outcomes in the window below which the rate does not count"},
        {"cooldown", PARAM_INT, KEY, 1, CIRCUIT_MS_MAX, "60000",
         "milliseconds it stays open before a probe; each failed probe doubles it"},
        {"cooldownmax", PARAM_INT, KEY, 1, CIRCUIT_MS_MAX, "900000, or the cooldown",
         "milliseconds the doubled cooldown stops at"},
        {"probe", PARAM_INT, KEY, 1, CIRCUIT_MS_MAX, "30000",
         "milliseconds a client's probe may take; a job's has its lease"},
        {"handlers", PARAM_FLAG, KEY, 0, 0, "false",
         "queue:NAME only: failures of handlers count too, not only lost leases"},
};

static const struct param_def breaker_name_params[] = {BREAKER_NAME};

static const struct param_def report_params[] = {
        BREAKER_NAME,
        {"token", PARAM_TOKEN, REQ, 32, 32, NULL, "token of the ask, from ASK"},
        {"outcome", PARAM_CHOICE, REQ, 0, 0, NULL, "ok|fail: how it ended"},
};

static const struct param_def trip_params[] = {
        BREAKER_NAME,
        {"reason", PARAM_TEXT, KEY, 0, LIMIT_PROGRESS_BYTES, "none", "why, for people"},
        {"hold", PARAM_FLAG, KEY, 0, 0, "false",
         "stays open until it is closed by hand, without probes"},
};

#define BREAKER_ROWS                                                                               \
        ROW("BREAKER", "breakers", W, "POST", "/v1/breakers/{name}",                               \
            "Sets a circuit breaker; what is not given is the default. Its state stays.", "OK.",   \
            exec_breaker, breaker_params),                                                         \
                ROW("UNBREAKER", "breakers", W, "DELETE", "/v1/breakers/{name}",                   \
                    "Removes a circuit breaker. Jobs that waited for it go on.", "OK.",            \
                    exec_unbreaker, breaker_name_params),                                          \
                ROW0("BREAKERS", "breakers", 0, "GET", "/v1/breakers",                             \
                     "Lists the circuit breakers.", "What BREAKERSTATE tells, by name.",           \
                     exec_breakers),                                                               \
                ROW("BREAKERSTATE", "breakers", 0, "GET", "/v1/breakers/{name}",                   \
                    "Tells the state of a circuit breaker.",                                       \
                    "State, since when, failures, retry_ms until an ask may pass, and its rule.",  \
                    exec_breakerstate, breaker_name_params),                                       \
                ROW("ASK", "breakers", W, "POST", "/v1/breakers/{name}/ask",                       \
                    "Asks whether to try. A breaker that is not there is made with defaults.",     \
                    "verdict (pass, probe or refused), token for REPORT, retry_ms. A probe must "  \
                    "report in time: everybody else waits for it.",                                \
                    exec_ask, breaker_name_params),                                                \
                ROW("REPORT", "breakers", W, "POST", "/v1/breakers/{name}/report",                 \
                    "Reports how it ended. Once is enough; the same again changes nothing.",       \
                    "The state the breaker has now.", exec_report, report_params),                 \
                ROW("TRIP", "breakers", W, "POST", "/v1/breakers/{name}/trip",                     \
                    "Opens a circuit breaker by hand.", "OK.", exec_trip, trip_params),            \
                ROW("CLOSEBREAKER", "breakers", W, "POST", "/v1/breakers/{name}/close",            \
                    "Closes a circuit breaker by hand; nothing counts any more.", "OK.",           \
                    exec_closebreaker, breaker_name_params),

#endif

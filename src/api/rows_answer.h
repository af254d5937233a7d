/* Rows of the command table for answers: included by command.c alone.
 *
 * IDEMPOTENT is not a command of its own but a word before one, which the RESP door takes off;
 * over HTTP it is the header Idempotency-Key. */
#ifndef WEIR_API_ROWS_ANSWER_H
#define WEIR_API_ROWS_ANSWER_H

static const struct param_def idempotent_params[] = {
        {"key", PARAM_TEXT, REQ, 1, LIMIT_ANSWER_KEY_BYTES, NULL,
         "any bytes the client chooses; new for each thing it wants done"},
        {"command", PARAM_TEXT, REQ, 1, LIMIT_NAME_BYTES, NULL,
         "name of a command that changes something"},
        {"arguments", PARAM_TEXT, 0, 0, INT64_MAX, "none", "what that command takes"},
};

#define ANSWER_ROWS                                                                                \
        ROW("IDEMPOTENT", "connection", COMMAND_DOOR, NULL, NULL,                                  \
            "Carries out a command once: sent again with the same key within 24 h, it changes "    \
            "nothing and gets its first answer. Over HTTP: the header Idempotency-Key.",           \
            "What the command answers.", NULL, idempotent_params),

#endif

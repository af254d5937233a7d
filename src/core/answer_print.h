/* The fingerprint of a command: the same for the same request over any door, today and after a
 * restart or an upgrade. */
#ifndef WEIR_CORE_ANSWER_PRINT_H
#define WEIR_CORE_ANSWER_PRINT_H

#include "api/command.h"
#include "state/answer.h"

/* False: no memory. */
bool answer_print(const struct command *cmd, uint8_t ret[ANSWER_PRINT_BYTES]) MUST_CHECK;

#endif

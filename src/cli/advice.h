/* weir throttle advise: the proposed thresholds, and how to apply them. */
#ifndef WEIR_CLI_ADVICE_H
#define WEIR_CLI_ADVICE_H

#include "cli/command.h"

/* Shows an answer of THROTTLEADVISE. */
void advice_show(struct cli *cli, const struct value *v);

#endif

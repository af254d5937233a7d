/* weir job add --file: its options are in cli/add.c. */
#ifndef WEIR_CLI_ADD_FILE_H
#define WEIR_CLI_ADD_FILE_H

#include "cli/command.h"

/* `defaults`: keyword, value, ... for lines that do not say otherwise. */
int add_file(struct cli *cli, const struct slice *defaults, size_t n_defaults,
             struct problem *p) MUST_CHECK;

#endif

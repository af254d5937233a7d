/* weir job add; its row is in cli/job.c. */
#ifndef WEIR_CLI_ADD_H
#define WEIR_CLI_ADD_H

#include "cli/command.h"

extern const struct option_def add_options[];

int cli_job_add(struct cli *cli, struct problem *p) MUST_CHECK;

#endif

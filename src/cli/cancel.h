/* weir job cancel; its row is in cli/job.c. */
#ifndef WEIR_CLI_CANCEL_H
#define WEIR_CLI_CANCEL_H

#include "cli/command.h"

extern const struct option_def cancel_options[];

int cli_job_cancel(struct cli *cli, struct problem *p) MUST_CHECK;

#endif

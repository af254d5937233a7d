/* weir job retry and weir job run; their rows are in cli/job.c. */
#ifndef WEIR_CLI_RETRY_H
#define WEIR_CLI_RETRY_H

#include "cli/command.h"

extern const struct option_def retry_options[];

int cli_job_retry(struct cli *cli, struct problem *p) MUST_CHECK;
int cli_job_run(struct cli *cli, struct problem *p) MUST_CHECK;

#endif

/* The part of `weir work` that runs Action Scheduler's runners of a WordPress site. */
#ifndef WEIR_CLI_WORK_SITE_H
#define WEIR_CLI_WORK_SITE_H

#include "cli/command.h"

/* What is wrong about --wordpress and the options beside it; OK without any of them. */
int work_site_check(const struct args *args, struct problem *p) MUST_CHECK;
/* With --wordpress: works until told to stop. */
int work_site(struct cli *cli, const char *name, struct problem *p) MUST_CHECK;

#endif

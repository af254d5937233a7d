/* --watch and --filter: the same for every command that lists or shows. */
#ifndef WEIR_CLI_WATCH_H
#define WEIR_CLI_WATCH_H

#include "cli/command.h"

/* Runs the command once, filtered if that was asked for. */
int watch_run_once(struct cli *cli, struct problem *p) MUST_CHECK;
/* Again and again until it is interrupted; returns only with an error that trying again does not
 * mend. */
int watch_run(struct cli *cli, struct problem *p) MUST_CHECK;

#endif

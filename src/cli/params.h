/* Options and requests from the server's rows.
 *
 * The command line is part of the program that has the server's table of commands, so a command
 * that is one request names its row (cli_command.command) and repeats nothing of it: a parameter
 * with a keyword is an option, its sentence the help, its type how the value is read.  Positional
 * parameters are words.  A row of the command's own options (cli_command.options) with the same
 * name, dashes aside, replaces what a parameter says of itself. */
#ifndef WEIR_CLI_PARAMS_H
#define WEIR_CLI_PARAMS_H

#include "cli/request.h"

/* All options that a command does not share with others, ended by a row without a name. */
const struct option_def *cli_command_options(const struct cli_command *c,
                                             struct param_options *ret);

/* The whole request: command, words, options.  CURSOR is left to the listing. */
int cli_request_of_row(struct cli_request *r, const struct cli *cli, struct problem *p) MUST_CHECK;
/* An option that is a moment, or how long ago. */
int cli_request_add_past(struct cli_request *req, const struct args *args, const char *option,
                         const char *keyword, struct problem *p) MUST_CHECK;
/* The options alone, with their keywords. */
int cli_request_add_params(struct cli_request *r, const struct cli *cli,
                           struct problem *p) MUST_CHECK;

#endif

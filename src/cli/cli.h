/* The command line's client side: everything of `weir` that talks to a running one.
 *
 * main() keeps serve, log and version to itself and passes the rest here. */
#ifndef WEIR_CLI_CLI_H
#define WEIR_CLI_CLI_H

#include "cli/options.h"

/* What `weir serve` takes: its --help is printed here, the options are read in serve/. */
extern const struct option_def cli_serve_options[];
extern const struct option_def cli_backup_options[]; /* likewise */
extern const struct option_def cli_move_options[];   /* likewise */
extern const struct option_def cli_tls_options[];
extern const struct option_def cli_cluster_init_options[];
extern const struct option_def cli_doctor_options[];
extern const struct option_def cli_history_sql_options[];
extern const struct option_def cli_wordpress_check_options[];
extern const struct option_def cli_import_actions_options[];
extern const struct option_def cli_export_actions_options[];

/* argv[0] is the first word after `weir` (a group such as "job", or an option such as --url);
 * argc may be 0.  Returns the exit code. */
int cli_main(int argc, char **argv);

/* The help of a group ("job", "serve"), of one command of it ("add"), or of everything (NULL);
 * on standard output.  Returns the exit code: 2 when there is no such thing. */
int cli_help(const char *group, const char *name);

#endif

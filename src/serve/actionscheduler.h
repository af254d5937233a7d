/* `weir import actionscheduler` and `weir export actionscheduler`: actions of a WordPress site
 * become jobs and schedules of a running weir, and these become actions.
 *
 * Nothing runs twice and nothing is lost, whatever is killed: see guard/transfer.h.  What was on
 * its way is finished by the next run. */
#ifndef WEIR_SERVE_ACTIONSCHEDULER_H
#define WEIR_SERVE_ACTIONSCHEDULER_H

/* argv[0] is "actionscheduler".  Both return the exit code: 1 when something was left. */
int actionscheduler_import_main(int argc, char **argv);
int actionscheduler_export_main(int argc, char **argv);

#endif

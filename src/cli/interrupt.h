/* Ctrl-C, SIGTERM and SIGHUP for what should stop at a good place and say how far it came.
 *
 * The first signal is noted, and ends interrupt_wait(); the second one ends the process as usual.
 * interrupt_end(), when everything has been said, ends it by the signal that was noted, so that a
 * shell sees it and stops its script too.  A signal that was ignored when we started stays so.
 * One for the process. */
#ifndef WEIR_CLI_INTERRUPT_H
#define WEIR_CLI_INTERRUPT_H

#include "base/err.h"

void interrupt_catch(void);
/* Until fd can be read, or is at its end.  ERR_STOPPING, "interrupted": a signal has come. */
int interrupt_wait(int fd, struct problem *p) MUST_CHECK;
void interrupt_end(void); /* nothing when none was seen */

#endif

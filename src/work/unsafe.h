/* Placeholders in a command through which a job's author could do more than name something.
 *
 * Hook, queue and group are text that the client which adds a job chooses.  At the start of an
 * argument such a value can become an option of the program, inside a script for a shell it is
 * code, and as the program's name it picks any program of PATH.  The job's variables (WEIR_HOOK,
 * ...) carry the same values without any of that.  Numbers ({id}, {attempt}, {fence}) are safe
 * everywhere. */
#ifndef WEIR_WORK_UNSAFE_H
#define WEIR_WORK_UNSAFE_H

#include "base/err.h"
#include "work/words.h"

/* OK, or ERR_BADARG with the word and why.  `name` is what the command was given as; `permit` is
 * what the operator writes to use it anyway: both are for the sentence. */
int unsafe_check(const struct words *command, const char *name, const char *permit,
                 struct problem *p) MUST_CHECK;

#endif

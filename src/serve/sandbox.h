/* The system calls that a running server may make, enforced by the kernel (seccomp).
 *
 * A mistake in a parser must not become a shell: after the start weir needs files, sockets, memory,
 * threads and clocks, and gives the rest away for good, for all its threads. */
#ifndef WEIR_SERVE_SANDBOX_H
#define WEIR_SERVE_SANDBOX_H

#include "base/err.h"
#include "serve/config.h"

/* The choices of the setting `seccomp`, in their order there. */
enum sandbox_mode { SANDBOX_ON, SANDBOX_KILL, SANDBOX_LOG, SANDBOX_OFF };

/* Whether a target of the configuration is a program that weir starts. */
bool sandbox_has_programs(const struct config *c);

/* From now on no program that is started gains privileges; before the first thread. */
void sandbox_begin(void);

/* Closes the sandbox around the whole process; once, when everything is open.  With SANDBOX_ON a
 * kernel that cannot do it is a warning; with SANDBOX_KILL an error. */
int sandbox_enter(enum sandbox_mode mode, bool has_programs, struct problem *problem) MUST_CHECK;

/* An error when a configuration that is read while weir runs needs more than the sandbox leaves. */
int sandbox_check(const struct config *c, struct problem *problem) MUST_CHECK;

#endif

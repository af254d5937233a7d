/* Starting a program with limits: fork and exec, and nothing of ours left in it. */
#ifndef WEIR_WORK_SPAWN_H
#define WEIR_WORK_SPAWN_H

#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "work/account.h"

struct spawn {
        char **argv; /* borrowed, like the rest */
        char **env;
        const char *dir; /* NULL = ours */
        int stdio[3];
        const struct rlimit *files; /* open files; NULL = ours */
        uint64_t memory_bytes;      /* 0 = as it comes, like the next */
        int64_t cpu_s;
        int nice;
        int umask;                     /* -1 = ours */
        const struct account *account; /* NULL = ours */
};

/* Leads a session and process group of its own; gets TERM when the worker dies.  A program
 * without a slash is looked for in the PATH of its own environment; one with a slash counts from
 * its folder.  ERR_NOTFOUND when it cannot be run at all, ERR_UNAVAIL when the system has no room
 * for a process. */
int spawn_start(const struct spawn *s, pid_t *ret, struct problem *p) MUST_CHECK;

/* What would keep a program from being run, before there is a job: argv[0] alone counts of the
 * words, and NULL is a name that only the job completes.  With an account it is tried in a child,
 * which starts nothing.  Before any thread is started. */
int spawn_check(const struct spawn *s, struct problem *p) MUST_CHECK;

#endif

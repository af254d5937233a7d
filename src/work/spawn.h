/* Starting a program with limits: fork and exec, and nothing of ours left in it. */
#ifndef WEIR_WORK_SPAWN_H
#define WEIR_WORK_SPAWN_H

#include <sys/types.h>

#include "base/err.h"

struct spawn {
        char **argv; /* borrowed, like the rest */
        char **env;
        const char *dir; /* NULL = ours */
        int stdio[3];
        uint64_t memory_bytes; /* 0 = as it comes, like the next */
        int64_t cpu_s;
        int nice;
};

/* Leads a session and process group of its own; gets TERM when the worker dies.  A program
 * without a slash is looked for in the PATH of its own environment; one with a slash counts from
 * its folder.  ERR_NOTFOUND when it cannot be run at all, ERR_UNAVAIL when the system has no room
 * for a process. */
int spawn_start(const struct spawn *s, pid_t *ret, struct problem *p) MUST_CHECK;

/* Whether there is such a program; `path` is a PATH, `dir` as above. */
bool spawn_finds(const char *program, const char *path, const char *dir);

#endif

/* A command that runs while a lock is held: `weir lock run`. */
#ifndef WEIR_CLI_LOCK_RUN_H
#define WEIR_CLI_LOCK_RUN_H

#include "base/err.h"
#include "wire/server_url.h"

struct lock_run {
        const struct server_url *url;
        const char *name, *owner;
        char **argv; /* ends with NULL */
        int64_t ttl_ms, wait_ms, count;
        int conflict_exit; /* when another holds the lock */
        bool is_verbose;
};

/* OK with the exit code to end with, or an error when nothing was run. */
int lock_run(const struct lock_run *options, int *ret_exit, struct problem *p) MUST_CHECK;

#endif

/* Runs Action Scheduler's own runners of one WordPress site, or of all blogs of its network: as
 * many at once as the gate allows, while something is due. */
#ifndef WEIR_WORK_SITE_RUNNER_H
#define WEIR_WORK_SITE_RUNNER_H

#include "wire/server_url.h"
#include "work/site_places.h"

#define SITE_RESERVED_MAX 32

struct site_runner_options {
        const struct server_url *url;
        const char *name;                    /* of this worker, for people */
        const char *site;                    /* of the server's configuration */
        const struct site_command *command;  /* of one runner; borrowed, like all here */
        const struct site_command *reserved; /* of the reserved runner; NULL: there is none */
        const char *blog_url;                /* of the one blog that is run; NULL: of a network all,
                                                with the addresses that the server tells */
        const struct words *env;             /* besides PATH, LANG and HOME */
        const char *dir;                     /* NULL = ours */
        size_t runners;                      /* at most so many at once; 0: only the reserved one */
        size_t n_reserved; /* blogs that have a reserved runner at once, when there are any */
        int64_t grace_ms;  /* from TERM to KILL */
        int64_t away_ms;   /* server away: start one runner so often; 0 = never */
        bool passes_errors;
};

/* Until told to stop (SIGTERM, SIGINT).  OK, or why it could not work. */
int site_runner_run(const struct site_runner_options *options, struct problem *p) MUST_CHECK;

#endif

/* The worker: claims jobs and runs a command for each. */
#ifndef WEIR_WORK_WORK_H
#define WEIR_WORK_WORK_H

#include "wire/server_url.h"
#include "work/words.h"

#define WORK_QUEUES_MAX 64   /* the server's limit of one CLAIM */
#define WORK_SLOTS_MAX  1000 /* likewise */

struct work_options {
        const struct server_url *url;
        struct words command; /* borrowed */
        const char *name;     /* of this worker, for people */
        const char *queues[WORK_QUEUES_MAX];
        size_t n_queues;
        size_t slots;        /* commands at the same time */
        int64_t lease_ms;    /* 0 = the server's default; a job's own timeout wins */
        int64_t timeout_ms;  /* a command that runs longer is killed and failed; 0 = never */
        int64_t retry_in_ms; /* wait before the next attempt of a failed job */
        size_t output_max;   /* bytes of standard output kept as the result */
        uint64_t max_jobs;   /* end after this many; 0 = never */
        bool is_once;        /* end when nothing is ready */
        bool passes_errors;  /* copy the commands' standard error to ours */
};

/* Works until told to stop (SIGTERM, SIGINT), max_jobs or, with is_once, until nothing is left.
 * OK, or why it could not work; says on standard error what happens meanwhile. */
int work_run(const struct work_options *options, struct problem *p) MUST_CHECK;

#endif

/* The worker: claims jobs and runs the handler of each. */
#ifndef WEIR_WORK_WORK_H
#define WEIR_WORK_WORK_H

#include "wire/server_url.h"
#include "work/handler.h"

#define WORK_QUEUES_MAX 64   /* the server's limit of one CLAIM */
#define WORK_SLOTS_MAX  1000 /* likewise; as many again may be taken ahead */

struct work_options {
        const struct server_url *url;
        const struct handlers *handlers; /* borrowed */
        const char *name;                /* of this worker, for people */
        const char *queues[WORK_QUEUES_MAX];
        size_t n_queues;
        size_t slots;            /* jobs at the same time */
        size_t prefetch;         /* jobs held ready besides those */
        int64_t lease_ms;        /* 0 = the server's default; a job's own timeout wins */
        uint64_t max_jobs;       /* end after this many; 0 = never */
        uint64_t max_memory;     /* bytes of ours in memory that end the worker; 0 = never */
        const char *health_path; /* NULL = none */
        bool is_once;            /* end when nothing is ready */
};

/* Works until told to stop (SIGTERM, SIGINT), max_jobs or, with is_once, until nothing is left.
 * OK, or why it could not work; says on standard error what happens meanwhile. */
int work_run(const struct work_options *options, struct problem *p) MUST_CHECK;

#endif

/* A job as others see it: live or from history, one shape.  Everything is borrowed. */
#ifndef WEIR_STATE_JOB_VIEW_H
#define WEIR_STATE_JOB_VIEW_H

#include "base/slice.h"

/* The names users see, as in Action Scheduler. */
#define JOB_STATUS_MAP(X)                                                                          \
        X(PENDING, "pending")                                                                      \
        X(RUNNING, "in-progress")                                                                  \
        X(COMPLETE, "complete")                                                                    \
        X(FAILED, "failed")                                                                        \
        X(CANCELED, "canceled")

enum job_status {
#define X(name, text) JOB_##name,
        JOB_STATUS_MAP(X)
#undef X
                JOB_STATUS_COUNT
};

const char *job_status_name(enum job_status status);
int job_status_from_name(struct slice name); /* -1 when there is no such status */

struct job_view {
        uint64_t id;
        struct slice hook, args, queue, group;
        enum job_status status;
        uint8_t priority;
        uint16_t attempt, attempts_max;  /* starts so far, and how many are allowed */
        uint32_t timeout_ms;             /* 0 = default */
        int64_t created_ms, due_ms;      /* Unix ms */
        int64_t started_ms, finished_ms; /* last start and the end; 0 = not yet */
        struct slice worker;             /* last holder; empty = none yet */
        uint64_t fence;                  /* of the last lease; 0 = none yet */
        int64_t lease_until_ms;          /* Unix ms, an estimate for display; 0 = not running */
        struct slice progress, result, error;
        struct slice events;  /* packed; state/event.h reads it */
        struct slice options; /* packed; state/option.h reads it */
        /* The row of history is damaged: only id and status are set, the status may be wrong, and
         * `error` says so.  Such a job is shown and never run. */
        bool is_damaged;
        /* How long the job's present wait at the gate has lasted; its options do not count it yet.
         */
        uint64_t deferring_ms;
};

#endif

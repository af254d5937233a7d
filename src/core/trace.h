/* Traces of jobs: the ids of their spans, what a worker is handed, and what is told of an attempt
 * that ended.
 *
 *      the client's span                     from TRACEPARENT; none when weir begins the trace
 *        enqueue                             told with the end of the first attempt
 *          wait                              of each attempt: from due to its start
 *          run                               of each attempt; the worker's spans hang below it
 *
 * No id is stored.  They are hashes of what a job keeps anyway: its id, when it was created, and
 * for an attempt its fence, which no other attempt has, not even the next one of a job that was
 * released.  So whoever hands the job out and whoever tells of its end, after a restart too, name
 * the same span.
 *
 * Without a tracer nobody is told, and workers are handed the trace as it came: their spans hang
 * below the client's.  Loop thread only. */
#ifndef WEIR_CORE_TRACE_H
#define WEIR_CORE_TRACE_H

#include "core/attempt.h"
#include "core/kernel.h"

/* What the worker of a running job is handed; false: it is in no trace. */
bool trace_of_run(const struct core *core, const struct job *job, char ret[TRACEPARENT_BYTES]);

void trace_tell(struct core *core, const struct job *job, enum attempt_end end, struct slice error);
/* Before the effect that ends the attempt of a running job. */
static inline void trace_end(struct core *core, const struct job *job, enum attempt_end end,
                             struct slice error)
{
        if (core->tracer)
                trace_tell(core, job, end, error);
}

#endif

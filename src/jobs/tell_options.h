/* The options of a job (state/option.h), as JOB and JOBS tell them. */
#ifndef WEIR_JOBS_TELL_OPTIONS_H
#define WEIR_JOBS_TELL_OPTIONS_H

#include "api/replies.h"
#include "base/buf.h"
#include "state/option.h"

/* What the reply borrows from. */
struct options_room {
        struct job_options options;
        struct buf backoff;
};

/* Only those that the job has, under the names of ENQUEUE.  The caller releases the room. */
struct options_reply options_of(struct slice packed, uint64_t deferring_ms,
                                struct options_room *room);
void options_room_release(struct options_room *room);

#endif

/* A sequel: a job has ended and jobs that come after it are still to be told.
 *
 * Few followers are told in the batch of the log that holds the end, and then the log never hears
 * of a sequel.  What is left of a crowd when that batch is closed becomes durable with it, with
 * the outcome: the job itself may be gone by then, and history need not hold it.  So a restart goes
 * on where the last batch ended, by the same outcome. */
#ifndef WEIR_STATE_SEQUEL_H
#define WEIR_STATE_SEQUEL_H

#include "state/state.h"

struct sequel {
        struct thing thing; /* named by the id of the job */
        struct list link;   /* on state->sequels, the newest first */
        uint64_t job_id;
        uint8_t outcome; /* enum job_status */
};

#define SEQUEL_NAME_BYTES 20 /* of any 64-bit number */

static inline struct sequel *sequel_of(struct thing *t)
{
        return CONTAINER_OF(t, struct sequel, thing);
}

struct sequel *sequel_find(const struct state *s, uint64_t job_id); /* NULL: there is none */
/* The sequel of that job, made when it is missing: not durable until a SET says so. */
struct sequel *sequel_get(struct state *s, uint64_t job_id, enum job_status outcome);

#endif

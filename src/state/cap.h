/* A cap: how many jobs may run at once that share a name.
 *
 * "key:NAME" is the cap of the jobs with that key (single instance: 1); "group:NAME" that of a
 * group over all queues.  A key's cap exists while a live job names it; either is durable when an
 * operator has set it.
 *
 * Invariant, checked by the kind's check():
 *   (1) of the live jobs that name a key, no more run than there are */
#ifndef WEIR_STATE_CAP_H
#define WEIR_STATE_CAP_H

#include "state/state.h"

struct cap {
        struct thing thing;
        uint64_t max;       /* as set by an operator; 0: the jobs say */
        uint64_t weight;    /* of a group, for turns in fair queues; 0: 1 */
        uint64_t n_running; /* follows from the live jobs */
        uint64_t n_jobs;    /* live jobs that name it (keys only) */
};

/* A free place that nobody took for so long wakes more of those who wait. */
#define CAP_RETRY_NS NS_PER_S

#define CAP_KEY      "key:"
#define CAP_GROUP    "group:"

/* A job that counts for these starts or stops running. */
void caps_count(struct state *s, struct job *job, int by);
/* A job that was woken for a free place will not take it: wakes another. */
void caps_wake(struct state *s, const struct job *job);
/* The cap of the job's group, when one is set. */
struct thing *cap_of_group(const struct state *s, const struct job *job);
uint64_t group_weight(const struct state *s, const struct job *job);
/* How many may run, for this job. */
uint64_t cap_max(const struct thing *t, const struct job *job);

#endif

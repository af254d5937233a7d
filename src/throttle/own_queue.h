/* Weir's own queues as a target: how deep they are, and for how long the oldest due job has waited.
 *
 * A deep queue alone is no load: a burst of jobs on an idle database is what a queue is for.  So
 * while no other target that counts is above normal, the depth counts as queue_level at most
 * (elevated), and only once the oldest due job is older than queue_age: then the workers do not
 * keep up.  As soon as another target is elevated or critical the thresholds of the depth hold as
 * they are configured: there is load, and more of it stands in the queue.  Both bounds are part of
 * the policy. */
#ifndef WEIR_THROTTLE_OWN_QUEUE_H
#define WEIR_THROTTLE_OWN_QUEUE_H

#include "throttle/throttle_state.h"

/* Samples the metrics of the target that is our own.  Once a second. */
void own_queue_sample(struct core *core, size_t target);
/* The rules that hold for this target now: its own, or for our own queues those that are bounded,
 * in `room`, which holds LEVEL_METRICS_MAX of them. */
const struct level_rule *own_queue_rules(const struct core *core, const struct target *g,
                                         struct level_rule *room);

#endif

/* Targets that are set up again: what belonged to one of them goes to the one of the same name.
 *
 * Everybody who remembers a target or a metric remembers its number, and after a reload the numbers
 * are those of the new file.  The map says which number became which, and is worked off by each of
 * them in the same step, so that nobody ever sees an old number. */
#ifndef WEIR_THROTTLE_RETARGET_H
#define WEIR_THROTTLE_RETARGET_H

#include "throttle/throttle_state.h"

struct retarget {
        size_t n_old, n_new;
        bool is_same; /* every number of before means the same */
        struct {
                int target;                    /* its number now; -1: it is gone */
                int metric[LEVEL_METRICS_MAX]; /* and those of its metrics */
        } * old;                               /* n_old of them */
};

struct retarget *retarget_new(const struct target *old, size_t n_old, const struct target *now,
                              size_t n_now);
struct retarget *retarget_free(struct retarget *r);

/* The numbers now of what had these numbers; -1: none.  -1 stays -1. */
int retarget_target(const struct retarget *r, int target);
int retarget_metric(const struct retarget *r, int target, int metric);

/* Samples, their history and the level of each target that stays; `old` is only good for being
 * freed afterwards.  Names of targets whose deciding metric is gone are told. */
void retarget_levels(struct core *core, const struct retarget *r, struct target *old);

#endif

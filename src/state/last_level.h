/* The level a target was last known to have: one small thing per target, named as the target.
 *
 * Written when the level changes, not with each sample, so that a restart finds what held before
 * it (throttle/last_level.c).
 *
 * Invariants, checked by the kind's check():
 *   (1) the level is one of the three that are known
 *   (2) `values.metric` is what `metric` holds */
#ifndef WEIR_STATE_LAST_LEVEL_H
#define WEIR_STATE_LAST_LEVEL_H

#include "state/state.h"

/* enum level: normal 0, elevated 1, critical 2.  Unknown is never written: it is no level that was
 * known.  throttle/last_level.c asserts the numbers. */
#define LAST_LEVEL_MAX 2

struct last_level_values {
        uint8_t level;
        int64_t at_ms;           /* wall; when the level was entered */
        double value, threshold; /* of the metric, then; 0 for level normal */
        struct slice metric;     /* empty for level normal */
};

struct last_level {
        struct thing thing;
        struct last_level_values values; /* its slice borrows from: */
        struct buf metric;
};

void last_level_put(const struct last_level_values *v, struct buf *body);
/* NULL: none was ever known. */
const struct last_level *last_level_find(const struct state *s, struct slice target);

#endif

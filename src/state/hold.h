/* A hold: a unique key that stays taken for a while after its job has ended.
 *
 * Invariant, checked by the kind's check():
 *   (1) the log knows of it, and its end is not negative */
#ifndef WEIR_STATE_HOLD_H
#define WEIR_STATE_HOLD_H

#include "state/state.h"

struct hold {
        struct thing thing; /* named by the key */
        int64_t until_ns;   /* steady */
        uint64_t job_id;
};

#endif

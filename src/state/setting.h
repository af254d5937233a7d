/* A setting that was changed while weir runs: a name and bytes.  Whoever owns the name reads them;
 * state->settings_version tells that something changed.
 *
 * Invariant, checked by the kind's check():
 *   (1) only a setting with an end has an alarm */
#ifndef WEIR_STATE_SETTING_H
#define WEIR_STATE_SETTING_H

#include "state/state.h"

struct setting {
        struct thing thing;
        int64_t until_ns; /* it ends by itself then; 0: never */
        struct buf bytes;
};

#endif

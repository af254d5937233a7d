/* A setting that was changed while weir runs: a name and bytes.  Whoever owns the name reads them;
 * state->settings_version tells that something changed.
 *
 *      body: until_ns varint (steady; 0: for ever), then the bytes */
#ifndef WEIR_STATE_SETTING_H
#define WEIR_STATE_SETTING_H

#include "state/state.h"

struct setting {
        struct thing thing;
        int64_t until_ns; /* it ends by itself then; 0: never */
        struct buf bytes;
};

#endif

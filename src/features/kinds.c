/* The kinds of named things.  The state is given this table, so that a kind calls the state and is
 * not called by name: it may stand in any room of the core. */
#include "state/thing.h"

const struct thing_ops *const thing_kinds[THING_KINDS] = {
#define X(name, text) [THING_##name] = &text##_ops,
        THING_MAP(X)
#undef X
};

/* The kinds of named things: the one place of state/ that knows them all.  Everybody else finds the
 * operations of a kind through the state, so that a kind may call the state and not be called by
 * name.
 */
#include "state/thing.h"

const struct thing_ops *const thing_kinds[THING_KINDS] = {
#define X(name, text) [THING_##name] = &text##_ops,
        THING_MAP(X)
#undef X
};

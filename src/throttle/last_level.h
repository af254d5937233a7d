/* The last known level of each target, over a restart.
 *
 * It is kept in the log (state/last_level.h), written when the level changes, and taken up again
 * when targets are set up.  From then on it holds until the target is measured (gate/level.h), and
 * for each tier what applies meanwhile is the worse of it and unknown. */
#ifndef WEIR_THROTTLE_LAST_LEVEL_H
#define WEIR_THROTTLE_LAST_LEVEL_H

#include "throttle/throttle_state.h"

/* Gives targets that were just set up what is known of them, and forgets what is known of targets
 * that are not configured any more.  Once after core_set_throttle(), when the time is known. */
void last_levels_restore(struct core *core);
/* Writes the level of this target when it changed: with a sample, and for all once a turn. */
void last_level_keep(struct core *core, const struct target *g);
void last_levels_keep(struct core *core);

/* Was the target never measured since the start or since it was added? */
bool target_is_unmeasured(const struct target *g);
/* "last known: critical by threads_running, 12 s before the restart, not measured yet"; "not
 * measured yet" when nothing was ever known; "" when it was measured.  Returns ret, which holds
 * THROTTLE_TEXT bytes. */
const char *last_level_words(const struct target *g, char *ret);

#endif

/* SERIES in steps of whole minutes, from rollups: up to 30 days back, over restarts, and by name.
 */
#ifndef WEIR_NUMBERS_SERIES_MINUTES_H
#define WEIR_NUMBERS_SERIES_MINUTES_H

#include "core/kernel.h"

/* Is it asked for in whole minutes, for more than the last hour, or for one name? */
bool series_is_by_minutes(const struct command *cmd);
/* OK, or CORE_LATER when the archive is asked.  TARGET, if given, is there. */
int series_minutes(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem) MUST_CHECK;

#endif

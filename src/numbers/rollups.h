/* Minutes that are over: packed, given to the archive, and asked for again.
 *
 * A minute ends when a turn finds that the wall clock has left it: there is no timer, and an idle
 * weir is not woken to write zeros.  The last hour stays in memory as well, so that what ended just
 * now can be told without asking, and so that there is an hour without an archive. */
#ifndef WEIR_NUMBERS_ROLLUPS_H
#define WEIR_NUMBERS_ROLLUPS_H

#include "core/kernel.h"

#define ROLLUPS_IN_MEMORY 64 /* minutes */

extern const struct feature rollups_feature;

/* The minute that is going on: Unix time / 60 s. */
int64_t rollups_minute(const struct core *core);
/* Fills q->view: from memory at once, and from the archive what is older.  True: q->done will be
 * called; false: that was all.  q->span, view, done and ctx are set. */
bool rollups_ask(struct core *core, struct archive_rollups *q);

#endif

/* The table `minute` of the history file: rollups by minute, by ten minutes and by hour.
 *
 *      step   minutes of the row: 1, 10, 60
 *      at     its first minute, Unix time / 60 s
 *      body   core/rollup.h, with a checksum of its own
 *
 * A minute that comes is added to its rows of all three steps in one transaction.  So each longer
 * row always is the sum of its minutes, and there is no merging that a crash could leave half done;
 * a minute that comes late (the wall was set back, weir was restarted within it) is just added.
 * That writes three rows of some 20 KB a minute, with 500 busy hooks.
 *
 * The table has rowids: without them a body of 17 KB has a page of 16 KB for itself and most of
 * another one, and a month of 500 busy hooks takes 130 MB instead of 109.
 *
 * Kept: minutes for 2 days, tens for 10, hours for 30.  No threads in here: history.c decides who
 * calls what. */
#ifndef WEIR_HISTORY_ROLLUPS_H
#define WEIR_HISTORY_ROLLUPS_H

#include <sqlite3.h>

#include "base/err.h"
#include "core/archive.h"
#include "history/mirrored.h"

#define ROLLUPS_WAITING_MAX                                                                        \
        120                  /* minutes that wait to be written; the oldest are dropped beyond     \
                              */
#define ROLLUPS_DROP_ROWS 60 /* old rows of a step that one transaction deletes */

/* One that waits to be written. */
struct rollup_note {
        struct rollup_note *next;
        size_t len;
        char bytes[];
};

struct rollup_note *rollup_note_new(struct slice minute);
void rollup_notes_free(struct rollup_note *first);

/* All of them in one transaction, durable on return, or none; and some of the rows that are past
 * their time at `now_ms` go.  *ret_damaged: rows that were damaged, and begin anew. */
int rollups_add(struct mirrored *m, const struct rollup_note *first, int64_t now_ms,
                size_t *ret_damaged, struct problem *p) MUST_CHECK;
/* Takes over a row of a mirror, within a transaction: its key is at << 8 | step.  Returns a code of
 * SQLite. */
int rollups_apply(sqlite3 *db, const struct mirror_row *row) MUST_CHECK;
/* Fills in the answer; q->err says how it went. */
void rollups_find(sqlite3 *db, struct archive_rollups *q);

#endif

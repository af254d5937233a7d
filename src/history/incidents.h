/* The table `incident` of the history file: what the gate did and what operators did to it.
 *
 * Small and rarely written, so nothing here is kept prepared.  Numbers are given by the core and
 * only grow; a number that is there already stays as it is.  No threads in here: history.c decides
 * who calls what. */
#ifndef WEIR_HISTORY_INCIDENTS_H
#define WEIR_HISTORY_INCIDENTS_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/archive.h"
#include "history/mirrored.h"

#define INCIDENTS_MAX         100000 /* rows; the oldest go beyond, whatever their age */
#define INCIDENTS_EXPIRE_ROWS 10000  /* in one step of retention */

/* One that waits to be written; `row` borrows from `bytes`. */
struct incident_note {
        struct incident_note *next;
        struct archive_incident row;
        char bytes[];
};

struct incident_note *incident_note_new(const struct archive_incident *row);
void incident_notes_free(struct incident_note *first);

/* All of them in one transaction, durable on return, or none. */
int incidents_add(struct mirrored *m, const struct incident_note *first,
                  struct problem *p) MUST_CHECK;
/* Deletes some of those of `until_ms` and before, and of the oldest beyond INCIDENTS_MAX;
 * *ret_more: there are others. */
int incidents_expire(struct mirrored *m, int64_t until_ms, bool *ret_more,
                     struct problem *p) MUST_CHECK;
/* The body of its row in a mirror: the time as a varint, both texts with their lengths. */
void incidents_put_body(const struct archive_incident *row, struct buf *ret);
/* Takes over a row of a mirror, within a transaction: its key is the number.  One that cannot be
 * read is left out.  Returns a code of SQLite. */
int incidents_apply(sqlite3 *db, const struct mirror_row *row) MUST_CHECK;
/* The largest number there is; 0: none. */
int incidents_last(sqlite3 *db, const char *path, uint64_t *ret, struct problem *p) MUST_CHECK;
/* Fills in the answer; q->err says how it went. */
void incidents_find(sqlite3 *db, struct archive_incidents *q);

#endif

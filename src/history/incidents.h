/* The table `incident` of the history file: what the gate did and what operators did to it.
 *
 * Small and rarely written, so nothing here is kept prepared.  Numbers are given by the core and
 * only grow; a number that is there already stays as it is.  No threads in here: history.c decides
 * who calls what. */
#ifndef WEIR_HISTORY_INCIDENTS_H
#define WEIR_HISTORY_INCIDENTS_H

#include <sqlite3.h>

#include "base/err.h"
#include "core/archive.h"

#define INCIDENTS_MAX 100000 /* rows; the oldest go beyond, whatever their age */

/* One that waits to be written; `row` borrows from `bytes`. */
struct incident_note {
        struct incident_note *next;
        struct archive_incident row;
        char bytes[];
};

struct incident_note *incident_note_new(const struct archive_incident *row);
void incident_notes_free(struct incident_note *first);

/* All of them in one transaction, durable on return, or none. */
int incidents_add(sqlite3 *db, const char *path, const struct incident_note *first,
                  struct problem *p) MUST_CHECK;
/* Deletes those of `until_ms` and before, and the oldest beyond INCIDENTS_MAX. */
int incidents_expire(sqlite3 *db, const char *path, int64_t until_ms, struct problem *p) MUST_CHECK;
/* The largest number there is; 0: none. */
int incidents_last(sqlite3 *db, const char *path, uint64_t *ret, struct problem *p) MUST_CHECK;
/* Fills in the answer; q->err says how it went. */
void incidents_find(sqlite3 *db, struct archive_incidents *q);

#endif

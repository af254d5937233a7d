/* The table `audit` of the history file: the audit trail (core/audit.h).
 *
 * A row is written once, by its number; one that is there already stays as it is.  Each has a
 * checksum: CRC32C over its columns as the log has them (state/audit.h), number first.  No threads
 * in here: history.c decides who calls what. */
#ifndef WEIR_HISTORY_AUDITS_H
#define WEIR_HISTORY_AUDITS_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/archive.h"
#include "history/archive_file.h"
#include "history/mirrored.h"

/* One that waits to be written; `row` borrows from `bytes`. */
struct audit_note {
        struct audit_note *next;
        struct audit_entry row;
        char bytes[];
};

struct audit_note *audit_note_new(const struct audit_entry *row);
void audit_notes_free(struct audit_note *first);

/* All of them in one transaction, durable on return, or none. */
int audits_add(struct mirrored *m, const struct audit_note *first, struct problem *p) MUST_CHECK;
/* Deletes those of `until_ms` and before, a bounded number; *ret_more: there are others. */
int audits_expire(struct mirrored *m, int64_t until_ms, bool *ret_more,
                  struct problem *p) MUST_CHECK;
/* The body of its row in a mirror: the times as varints, the texts with their lengths. */
void audits_put_body(const struct audit_entry *row, struct buf *ret);
/* Takes over a row of a mirror, within a transaction: its key is the number.  One that cannot be
 * read is left out.  Returns a code of SQLite. */
int audits_apply(sqlite3 *db, const struct mirror_row *row) MUST_CHECK;
/* The largest number there is; 0: none. */
int audits_last(sqlite3 *db, const char *path, uint64_t *ret, struct problem *p) MUST_CHECK;
/* Fills in the answer; q->err says how it went. */
void audits_find(sqlite3 *db, struct archive_audits *q);
/* Tells each damaged row.  An SQLite code. */
int audits_verify(sqlite3 *db, archive_damage_fn tell, void *ctx, struct archive_report *report);

#endif

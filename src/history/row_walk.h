/* A walk over the rows of the history file in the order of their ids, one step at a time, so that
 * a listing can merge it with what else it walks over.
 *
 * It reads only the columns that the filter needs, which come first in a row, at 0.2-0.3 us for one
 * that does not match.  Only failed and canceled jobs have an index.
 *
 * What keeps a filter that matches little from walking for ever are the spans: for each run of
 * 4,096 ids that has rows the file knows when their jobs were created and, as a set of marks, which
 * statuses, queues, groups, hooks and workers are among them (span_mark.h).  A span that cannot
 * hold a match is passed over for some 2 us.  So a name that is rare is found at once, and one that
 * is not there is known not to be there after a look at 2 KiB for each 4,096 jobs.  A page of 50
 * that has one match in each span is the worst case of one name: 50 spans, about 50 ms.  Ids
 * without rows cost nothing. */
#ifndef WEIR_HISTORY_ROW_WALK_H
#define WEIR_HISTORY_ROW_WALK_H

#include <sqlite3.h>

#include "base/err.h"
#include "base/needle.h"
#include "core/archive.h"
#include "history/id_range.h"

/* A connection to the history file and what is prepared on it. */
struct row_file {
        sqlite3 *db;
        const char *path; /* borrowed */
        sqlite3_stmt *spans_down, *spans_up;
};

int row_file_prepare(struct row_file *f, struct problem *p) MUST_CHECK; /* db and path are set */
void row_file_release(struct row_file *f); /* the statements; all zeros is fine */

struct row_walk {
        struct row_file *file;
        const struct archive_query *query; /* filter, order, is_brief; borrowed */
        sqlite3_stmt *look;                /* its own; NULL before begin */
        sqlite3_stmt *spans;               /* NULL: spans can tell nothing about this filter */
        struct needle needle;
        uint64_t marks[5]; /* that a span must have */
        size_t n_marks;
        struct id_range left; /* at first all that is asked for, which the caller sets */
        struct id_range span; /* that is being looked through, if any */
        bool is_in_span;
        bool is_at_row; /* of the id that is next in `left` */
};

/* `left` is set and not beyond ID_RANGE_MAX; end it in any case. */
int row_walk_begin(struct row_walk *w, struct row_file *f, const struct archive_query *q,
                   struct problem *p) MUST_CHECK;
void row_walk_end(struct row_walk *w); /* never begun is fine when it is all zeros */

/* Goes on by one row or one span; not when it is at a row.  Afterwards it is at a row, or it is
 * not and `left` is smaller or empty. */
int row_walk_step(struct row_walk *w, struct problem *p) MUST_CHECK;
/* The rest is for a walk that is at a row. */
bool row_walk_matches(const struct row_walk *w);
struct archive_ref row_walk_ref(const struct row_walk *w); /* when the query is brief */
size_t row_walk_text_bytes(const struct row_walk *w);      /* that a text was searched for in */
void row_walk_pass(struct row_walk *w);                    /* it has been looked at */

/* Text or blob, the bytes as they were handed over.  Valid until the next step. */
static inline struct slice row_bytes_of(sqlite3_stmt *row, int which)
{
        const void *ptr = sqlite3_column_blob(row, which);
        return slice_make(ptr, (size_t)sqlite3_column_bytes(row, which));
}

static inline int64_t row_number_of(sqlite3_stmt *row, int which)
{
        return sqlite3_column_int64(row, which);
}

#endif

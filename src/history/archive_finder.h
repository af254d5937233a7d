/* Reading the history file: one job, or a listing.  No threads in here: history.c runs it on the
 * reader thread. */
#ifndef WEIR_HISTORY_ARCHIVE_FINDER_H
#define WEIR_HISTORY_ARCHIVE_FINDER_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/archive.h"

/* What one query may take before it hands back what it has (is_cut). */
#define ARCHIVE_FIND_ROWS  1000000
#define ARCHIVE_FIND_MS    150
#define ARCHIVE_FIND_BYTES (32 * MIB) /* of rows, when the asker's arena allows more */

struct archive_finder {
        sqlite3 *db;
        const char *path; /* borrowed */
        sqlite3_stmt *one, *spans_down, *spans_up;
        struct buf scratch;
        size_t rows_max; /* ARCHIVE_FIND_ROWS; smaller in tests */
        int64_t ms_max;  /* ARCHIVE_FIND_MS */
        bool is_checksum_required;
        uint64_t damaged_id; /* the last damaged row that the log was told of */
};

int archive_finder_open(struct archive_finder *f, const char *path, struct problem *p) MUST_CHECK;
void archive_finder_close(struct archive_finder *f); /* never opened is fine */

/* Fills in the answer; q->err says how it went.  before_id 0 means from the newest. */
void archive_finder_run(struct archive_finder *f, struct archive_query *q);

#endif

/* Reading history: one job, or a listing.  Jobs are in rows of the history file and in blocks
 * beside it; to the asker both are one list.  No threads in here: history.c runs it on the reader
 * thread. */
#ifndef WEIR_HISTORY_ARCHIVE_FINDER_H
#define WEIR_HISTORY_ARCHIVE_FINDER_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/archive.h"
#include "history/block_walk.h"
#include "history/row_walk.h"

/* What one query may take before it hands back what it has (is_cut). */
#define ARCHIVE_FIND_ROWS  1000000
#define ARCHIVE_FIND_MS    150
#define ARCHIVE_FIND_BYTES (32 * MIB) /* of rows, when the asker's arena allows more */

struct archive_finder {
        struct row_file file;
        sqlite3_stmt *begin, *end, *one;
        struct block_shelf shelf;
        struct block_walk walk; /* its memory stays from one listing to the next */
        struct buf scratch;
        size_t rows_max; /* ARCHIVE_FIND_ROWS; smaller in tests */
        int64_t ms_max;  /* ARCHIVE_FIND_MS */
        bool is_checksum_required;
        uint64_t damaged_id;    /* the last damaged row that the log was told of */
        struct problem problem; /* why the last query failed, when its err alone does not tell */
};

/* `path` and `blocks` are borrowed; blocks NULL: there are rows alone. */
int archive_finder_open(struct archive_finder *f, const char *path, struct blocks *blocks,
                        struct problem *p) MUST_CHECK;
/* On a connection that is open already; it is the finder's from now on, after an error too. */
int archive_finder_use(struct archive_finder *f, sqlite3 *db, const char *path,
                       struct blocks *blocks, struct problem *p) MUST_CHECK;
void archive_finder_close(struct archive_finder *f); /* never opened is fine */

/* Fills in the answer; q->err says how it went.  before_id 0 means from the newest.  Takes
 * blocks_lock() for as long as it runs, and a transaction unless the connection is in one. */
void archive_finder_run(struct archive_finder *f, struct archive_query *q);

#endif

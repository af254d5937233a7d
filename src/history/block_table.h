/* The table `block` of a history file: what its rows hold, and a walk over it for tools that look
 * at the file from outside.
 *
 * The walk takes a row at a time, each in a transaction of its own: a server that writes to the
 * file is not held up, and what it has changed meanwhile is seen.  New blocks have larger numbers,
 * so a walk over the numbers meets every block that stays. */
#ifndef WEIR_HISTORY_BLOCK_TABLE_H
#define WEIR_HISTORY_BLOCK_TABLE_H

#include <sqlite3.h>

#include "base/err.h"
#include "history/block_mark.h"
#include "history/segment.h"

/* ---- rows ---- */

#define BLOCK_COLUMNS "number, segment, offset, bytes, mark, dead"

enum block_row { BLOCK_ROW_GOOD, BLOCK_ROW_NO_MARK, BLOCK_ROW_BAD };

/* Reads the BLOCK_COLUMNS of a row.  BLOCK_ROW_NO_MARK: its mark is damaged and the rest is not;
 * the mark can be made from the block.  When it is not good, `n` is 0 and nothing is to be released
 * but `dead`, by block_mark_release(). */
enum block_row block_row_read(sqlite3_stmt *row, struct block_mark *ret);

/* The column `dead`: a bit for each job, and a checksum over them and the number of the block. */
#define BLOCK_DEAD_BYTES (MARK_DEAD_BYTES + 4)
void block_dead_pack(uint64_t number, const uint8_t dead[MARK_DEAD_BYTES],
                     char ret[BLOCK_DEAD_BYTES]);

/* Takes `dead` and `n_dead` of a mark that has its number from it, empty or not; false: it is
 * damaged. */
bool block_dead_read(struct slice packed, struct block_mark *m);

/* The id of the store, which is also in its segment files. */
int block_store_id(sqlite3 *db, const char *path, uint8_t ret[SEGMENT_ID_BYTES],
                   struct problem *p) MUST_CHECK;

/* ---- the walk ---- */

struct block_table {
        sqlite3 *db;      /* borrowed */
        const char *path; /* of the history file; borrowed */
        sqlite3_stmt *next, *one;
        uint8_t id[SEGMENT_ID_BYTES]; /* of the store */
        struct segments *segments;
};

/* ERR_NOTFOUND: the file is of a version without blocks. */
int block_table_open(struct block_table *t, sqlite3 *db, const char *path,
                     struct problem *p) MUST_CHECK;
void block_table_close(struct block_table *t); /* all zeros is fine */

/* For each block, until fn fails.  One whose mark is damaged has a number, a place and nothing
 * else: its `n` is 0. */
typedef int (*block_table_fn)(void *ctx, const struct block_mark *m, struct problem *p);
int block_table_walk(struct block_table *t, block_table_fn fn, void *ctx,
                     struct problem *p) MUST_CHECK;
/* Is it still there, in the same place? */
int block_table_has(struct block_table *t, const struct block_mark *m, bool *ret,
                    struct problem *p) MUST_CHECK;

/* Reads and opens the block; `bytes` are those that were read, also when they are damaged.  p says
 * what is wrong with the block ("its checksum is wrong"), and nothing is to be released then:
 * ERR_CORRUPT, ERR_IO, ERR_NOMEM. */
int block_table_read(struct block_table *t, const struct block_mark *m, struct buf *bytes,
                     struct block *ret, struct problem *p) MUST_CHECK;

#endif

/* Copying the blocks of a history file whose tables were copied already, for `weir backup`.
 *
 * The copy of the tables is of one moment, and names blocks.  Their bytes are copied into files of
 * the same names and to the same places beside it; what no block uses is a hole there.  A server
 * may drop blocks meanwhile, when their time is over or when it puts their jobs into other blocks.
 * Then the tables must be copied again.  Blocks that were copied are not read a second time, so the
 * next round has little to do. */
#ifndef WEIR_HISTORY_BLOCKS_COPY_H
#define WEIR_HISTORY_BLOCKS_COPY_H

#include <sqlite3.h>

#include "base/err.h"

struct blocks_copy;

/* The history files, both borrowed. */
struct blocks_copy *blocks_copy_new(const char *from_path, const char *to_path);
struct blocks_copy *blocks_copy_free(struct blocks_copy *c); /* NULL is fine; returns NULL */

/* All blocks that the table in `to` names, synced.  ERR_CONFLICT: the server dropped one; copy the
 * tables again and come back.  A damaged block is copied as it is, as a damaged row would be; one
 * that cannot be read at all ends it. */
int blocks_copy_run(struct blocks_copy *c, sqlite3 *from, sqlite3 *to,
                    struct problem *p) MUST_CHECK;

/* What is to go from a copy. */
struct blocks_judge {
        /* May there be one among these ids? */
        bool (*is_asked)(void *ctx, uint64_t first, uint64_t last);
        bool (*is_to_go)(void *ctx, uint64_t id, uint64_t run);
        void *ctx;
};
/* Within a transaction on the copy: marks such jobs as deleted, and deletes the rows of blocks that
 * have no others.  A block that cannot be read stays as it is. */
int blocks_take_back(sqlite3 *db, const char *path, const struct blocks_judge *judge,
                     struct problem *p) MUST_CHECK;
/* The jobs in all blocks, without those that were deleted. */
int blocks_count(sqlite3 *db, const char *path, uint64_t *ret, struct problem *p) MUST_CHECK;

#endif

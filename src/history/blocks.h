/* The blocks of a history: their marks in memory and in the table `block` of the history file, and
 * their bytes in segment files beside it (segment.h).
 *
 * This is the one place that knows where blocks are kept.  Five things can be done: put a block,
 * read one, walk over the marks, bury some of its jobs, drop it.  To replace blocks is to put the
 * new and to drop the old ones in one transaction.
 *
 * A transaction is SQLite's, begun and ended by the writer on the connection that was given to
 * blocks_open().  Within it put, bury and drop change the table at once and the marks in memory
 * when it has ended:
 *
 *      BEGIN; blocks_put(), blocks_bury(), blocks_drop() ...
 *      blocks_sync()                           the bytes are on the disk
 *      blocks_lock(); COMMIT; blocks_publish() or, if it failed, blocks_abandon(); blocks_unlock()
 *
 * A reader holds the lock for the whole of a query, from before its own SQLite transaction begins.
 * So rows and marks are of the same moment, and the bytes of a dropped block stay until nobody
 * reads them.
 *
 * Threads: open, close and all that changes something from the writer thread alone; with the lock,
 * looking at marks and blocks_read() from any. */
#ifndef WEIR_HISTORY_BLOCKS_H
#define WEIR_HISTORY_BLOCKS_H

#include <sqlite3.h>

#include "base/err.h"
#include "history/block_mark.h"
#include "history/mirrored.h"

struct blocks;

/* Reads all marks.  `path` is that of the history file, borrowed.  is_reader: of another process's
 * store, which is only looked at; nothing but marks and blocks_read() may then be used.  A damaged
 * mark is made anew from its block; a block whose row is damaged beyond that is left out. */
int blocks_open(sqlite3 *db, const char *path, bool is_reader, struct blocks **ret,
                struct problem *p) MUST_CHECK;
struct blocks *blocks_close(struct blocks *b); /* NULL is fine; returns NULL */
/* From now on all that changes goes to the mirror as well; borrowed. */
void blocks_set_mirrored(struct blocks *b, struct mirrored *m);

void blocks_lock(struct blocks *b);
void blocks_unlock(struct blocks *b);

/* ---- looking, with the lock ---- */

/* Marks by window, and in a window by the last id; within the bounds of the next publish. */
size_t blocks_len(const struct blocks *b);
const struct block_mark *blocks_at(const struct blocks *b, size_t i);
/* The first mark of that window or of one after it; blocks_len() if there is none. */
size_t blocks_from(const struct blocks *b, uint64_t window);
uint64_t blocks_live(const struct blocks *b);    /* jobs in all of them, without the buried */
uint64_t blocks_last_id(const struct blocks *b); /* the largest; 0: there are none */
uint64_t blocks_damaged(const struct blocks *b); /* that were left out */
uint64_t blocks_bytes(const struct blocks *b);   /* of segment files on the disk */
uint64_t blocks_room(const struct blocks *b);    /* reserved in them and not used */

/* Reads, checks and opens the block.  ERR_CORRUPT, ERR_IO, ERR_NOMEM. */
int blocks_read(struct blocks *b, const struct block_mark *m, struct block *ret,
                struct problem *p) MUST_CHECK;

/* The place of a job that is in a block and not buried: *ret_mark NULL if it is in none.  *cache
 * keeps the last block that was opened, with its number; begin with zeros, end with
 * block_release(&cache->block).  ERR_CORRUPT: a block that may hold it cannot be read. */
struct block_cache {
        uint64_t number; /* 0: none */
        struct block block;
};
int blocks_find(struct blocks *b, uint64_t id, struct block_cache *cache,
                const struct block_mark **ret_mark, size_t *ret_at, struct problem *p) MUST_CHECK;

/* ---- changing, on the writer thread, within a transaction ---- */

/* Adds a block; its ids must be of one window and its jobs of one family. */
int blocks_put(struct blocks *b, struct slice bytes, enum block_family family,
               struct problem *p) MUST_CHECK;
/* Marks the jobs at these places as deleted; a block without any left is dropped.  finished_first:
 * the earliest end of those that are left, or the old value. */
int blocks_bury(struct blocks *b, const struct block_mark *m, const uint16_t *at, size_t n,
                int64_t finished_first, struct problem *p) MUST_CHECK;
int blocks_drop(struct blocks *b, const struct block_mark *m, struct problem *p) MUST_CHECK;
/* Makes the block what that row of the mirror says; *ret is the block, to be released by the
 * caller. ERR_CORRUPT: the row cannot be read, and nothing was changed. */
int blocks_apply(struct blocks *b, const struct mirror_row *row, struct block *ret,
                 struct problem *p) MUST_CHECK;
/* Is it deleted, or will it be by this transaction? */
bool blocks_is_buried(const struct blocks *b, const struct block_mark *m, size_t at);

int blocks_sync(struct blocks *b, struct problem *p) MUST_CHECK;
void blocks_publish(struct blocks *b); /* with the lock */
void blocks_abandon(struct blocks *b); /* the same, after a rollback */
/* Are the segment files that are in use still in their places? */
int blocks_check_place(struct blocks *b, struct problem *p) MUST_CHECK;

#endif

/* The blocks that a reader has open.
 *
 * A query keeps those that it works on, since blocks that overlap are read in turn, and leaves the
 * last few to the next one: the newest block is asked for again and again, and a page of a listing
 * ends within a block.  What is on the shelf is bounded; a block that had to make room is read
 * again.
 *
 * Threads: that of the reader, which holds blocks_lock() around each call. */
#ifndef WEIR_HISTORY_BLOCK_SHELF_H
#define WEIR_HISTORY_BLOCK_SHELF_H

#include "history/blocks.h"

#define SHELF_BYTES      (64 * MIB) /* within a query, unless one block alone takes more */
#define SHELF_KEPT       8          /* blocks after it */
#define SHELF_KEPT_BYTES (16 * MIB)
#define SHELF_TOLD       64

struct shelf_slot {
        uint64_t number; /* of the block, which is never used for another */
        uint64_t used;   /* the larger, the later */
        uint64_t bytes;  /* of memory, about */
        struct block block;
};

struct block_shelf {
        struct blocks *blocks; /* borrowed */
        struct shelf_slot *slots;
        size_t n, room;
        uint64_t bytes;            /* of all */
        uint64_t n_gets, n_reads;  /* so far: blocks asked for, and blocks read */
        uint64_t told[SHELF_TOLD]; /* numbers of damaged blocks that the log was told of */
        size_t n_told;
};

void block_shelf_init(struct block_shelf *s, struct blocks *blocks);
void block_shelf_release(struct block_shelf *s); /* all zeros is fine */

/* The block, good until the next call.  *hint is where it may be: any number, set to where it is.
 * ERR_CORRUPT: it is damaged; the log has been told. */
int block_shelf_get(struct block_shelf *s, const struct block_mark *m, size_t *hint,
                    struct block **ret, struct problem *p) MUST_CHECK;

/* Where a job is that is not buried. */
struct shelf_place {
        const struct block_mark *mark; /* NULL: in no block */
        struct block *block;           /* NULL: the block of this mark is damaged and may hold it */
        size_t at;
};
int block_shelf_find(struct block_shelf *s, uint64_t id, struct shelf_place *ret,
                     struct problem *p) MUST_CHECK;

/* At the end of a query: lets go of all but the last few. */
void block_shelf_trim(struct block_shelf *s);

#endif

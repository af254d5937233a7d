/* A walk over the jobs of all blocks in the order of their ids, one step at a time, so that a
 * listing can merge it with the rows of the history file.
 *
 * The walk goes window by window (block_mark.h).  Of each it takes the blocks whose marks allow a
 * match, and opens one when a job of it could be the next: so the newest 50 of ten million jobs
 * open one block, and a window without candidates costs a look at its marks.  Blocks of a window
 * mostly lie one behind the other; those that overlap are open together.  What stays of an open
 * block is the list of its jobs that match by their columns; its bytes are the shelf's
 * (block_shelf.h), which has to read it again when too many overlap.
 *
 * A damaged block cannot tell its jobs: the walk stops at it once, at the last id of its mark (or
 * at the first when it goes up), and passes over it. */
#ifndef WEIR_HISTORY_BLOCK_WALK_H
#define WEIR_HISTORY_BLOCK_WALK_H

#include "history/block_filter.h"
#include "history/block_shelf.h"

/* A block that was opened, and its jobs that are left, in the order of the walk. */
struct opened_block {
        const struct block_mark *mark;
        size_t hint; /* where it is on the shelf */
        size_t n, next;
        uint16_t at[BLOCK_JOBS];
        uint64_t id[BLOCK_JOBS];
        uint8_t *tiers; /* block_filter_texts(); NULL: not needed; owned */
};

enum block_place { BLOCKS_BETWEEN, BLOCKS_AT_JOB, BLOCKS_AT_DAMAGE };

/* All zeros is one that is not begun.  Its memory stays for the next walk. */
struct block_walk {
        struct block_shelf *shelf; /* borrowed; NULL: there are no blocks */
        struct block_filter filter;
        bool is_oldest;
        struct id_range asked, left;
        enum block_place place;           /* at the id that is next in `left` */
        const struct block_mark *damaged; /* when it is there */
        size_t current;                   /* of `opened`, when it is at a job */
        /* The marks that were not looked at yet are before (when it goes up, from) this one. */
        size_t mark;
        const struct block_mark **waiting; /* of this window, that may hold a match, in order */
        size_t n_waiting, next_waiting, waiting_room;
        struct opened_block *opened;
        size_t n_opened, opened_room;
};

/* `q` must stay until the end; `range` is what is asked for. */
void block_walk_begin(struct block_walk *w, struct block_shelf *shelf,
                      const struct archive_query *q, const struct id_range *range);
void block_walk_end(struct block_walk *w);
void block_walk_release(struct block_walk *w);

/* Goes on by one window or one block, or to the next job; only when it is in between and something
 * is left. */
int block_walk_step(struct block_walk *w, struct problem *p) MUST_CHECK;

/* The job that it is at, in a block that is good until the next call; ERR_CORRUPT: its block cannot
 * be read again, and the walk is now at this damage. */
int block_walk_job(struct block_walk *w, struct block **ret, size_t *ret_at,
                   struct problem *p) MUST_CHECK;
/* Do the texts of this job match? */
int block_walk_texts(struct block_walk *w, struct block *b, size_t at, bool *ret) MUST_CHECK;
/* The job, or the damage, has been looked at. */
void block_walk_pass(struct block_walk *w);

#endif

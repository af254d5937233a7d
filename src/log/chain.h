/* The segments of a folder as one chain, and where it ends.  Reads only.
 *
 *      sealed ... sealed  head  spare ... spare        by number, without a gap
 *
 * Everything that lead() decides about the bytes it finds is decided here; file.c then acts.
 *
 * Invariants of a chain that leads, checked by chain_check():
 *   (1) the numbers have no gap
 *   (2) every segment before the head has a frame, no segment behind it has one
 *   (3) the first sequence numbers grow */
#ifndef WEIR_LOG_CHAIN_H
#define WEIR_LOG_CHAIN_H

#include "log/segment.h"

/* Names of files that are on their way to become a spare.  CREATE holds nothing; RECYCLE was a
 * segment that is not needed any more, and holds space that a full disk might not give again. */
#define CHAIN_NAME_CREATE  "create.tmp"
#define CHAIN_NAME_RECYCLE "recycle.tmp"

struct segment {
        struct segment_header header;
        uint64_t base_seq; /* of its first frame; 0 when it has none */
        int fd;            /* open for the head and spares while the log leads, else -1 */
};

struct chain {
        struct segment *segs;
        size_t n, cap;
        bool has_create_tmp, has_recycle_tmp;
};

void chain_release(struct chain *c);
void chain_push(struct chain *c, const struct segment *s);
void chain_check(const struct chain *c, size_t head); /* asserts every invariant */

/* Lists the folder: names only, sorted by number. */
int chain_list(struct disk *disk, struct chain *ret, struct problem *p) MUST_CHECK;
/* Lists, and reads the first two blocks of each file: every header must be sound, the numbers
 * without a gap, the first sequence numbers growing, spares only at the end. */
int chain_load(struct disk *disk, struct chain *ret, struct problem *p) MUST_CHECK;

struct chain_tail {
        size_t head;       /* segment the next frame goes into; == n when the folder is empty */
        uint64_t at;       /* and its offset there */
        uint64_t last_seq; /* 0: no batch yet */
        uint32_t last_crc; /* what the next frame's `prev` must be */
        /* The last frame: what recovery writes again. */
        size_t last_seg;
        uint64_t last_from, last_to; /* equal when there is no frame */
        uint64_t cut_batches, cut_bytes;
};

/* ERR_CORRUPT when anything but the very last, never acknowledged batch is not sound, as far as
 * the head and the segment before it tell; the others are checked when they are read. */
int chain_find_tail(struct disk *disk, const struct chain *c, struct chain_tail *ret,
                    struct problem *p) MUST_CHECK;

/* The frames of a segment end at t->at, because of `why`, behind batch t->last_seq.  OK when that
 * is the end of the log or a torn batch (which is counted), ERR_CORRUPT when more was there. */
int chain_judge_end(struct segment_reader *r, const char *why, struct chain_tail *t,
                    struct problem *p) MUST_CHECK;

/* "<file> at byte <offset>: <why>" */
int chain_corrupt(struct problem *p, uint64_t number, uint64_t at, const char *why, ...)
        PRINTF(4, 5);

int chain_open_segment(struct disk *disk, uint64_t number, int *ret_fd,
                       struct problem *p) MUST_CHECK;

#endif

/* Puts frames at the end of one segment, a whole number of blocks at a time.
 *
 * Not thread-safe: it belongs to whoever commits.  Embedded; owns its buffer, borrows the disk and
 * the handle.
 *
 * Invariants, checked by writer_check():
 *   (1) `at` is a multiple of 8 between the header and the footer
 *   (2) `cap` is a whole number of blocks */
#ifndef WEIR_LOG_WRITER_H
#define WEIR_LOG_WRITER_H

#include "log/segment.h"

struct writer {
        struct disk *disk;
        int fd;
        struct segment_header header;
        uint64_t at;   /* of the next frame */
        uint32_t prev; /* `crc` of the last frame */
        char *buf;     /* begins with what the block of `at` holds before it */
        size_t cap;    /* of buf: whole blocks */
        char *footer;  /* one block */
};

/* `largest`: no frame is larger; saves memory where segments are small. */
int writer_init(struct writer *w, struct disk *disk, uint64_t largest,
                struct problem *p) MUST_CHECK;
void writer_release(struct writer *w);
void writer_check(const struct writer *w); /* asserts every invariant, of one with a segment */

/* Begins a fresh segment. */
void writer_turn_to(struct writer *w, int fd, const struct segment_header *h);
/* Goes on at `at`, behind frames that are there: writes `from` to `at` again, clears what follows
 * and syncs (README, steps 6 and 7 of recovery). */
int writer_resume(struct writer *w, uint64_t from, uint64_t at, struct problem *p) MUST_CHECK;
/* Writes a range again just as it is, and syncs. */
int writer_repeat(struct writer *w, uint64_t from, uint64_t to, struct problem *p) MUST_CHECK;

bool writer_fits(const struct writer *w, size_t body_len);
bool writer_is_empty(const struct writer *w); /* no frame in this segment yet */

/* One write (one per MiB when it is larger).  Nothing is durable before writer_sync. */
int writer_put_batch(struct writer *w, uint64_t seq, struct slice batch,
                     struct problem *p) MUST_CHECK;
/* Says in the footer that everything so far is durable (it must be), and syncs. */
int writer_put_footer(struct writer *w, enum footer_kind kind, uint64_t last_seq,
                      struct problem *p) MUST_CHECK;
int writer_sync(struct writer *w, struct problem *p) MUST_CHECK;

#endif

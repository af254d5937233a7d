/* The mark of a block: what is known of it without reading it.  Marks of all blocks stay in memory
 * (some 100 bytes and two to four for each name in the block), so that a filter opens only blocks
 * that can hold a match.
 *
 * The names in a block (hooks, queues, groups, workers, and hooks of jobs that did not complete)
 * are a set that may hold more than it was given and never less: a Bloom filter of
 * at least MARK_BITS_A_NAME bits for each name and four hashes, wrong once in 400 times or less.
 * The empty name is among them like any other. */
#ifndef WEIR_HISTORY_BLOCK_MARK_H
#define WEIR_HISTORY_BLOCK_MARK_H

#include "base/buf.h"
#include "history/block.h"
#include "history/span_mark.h"

/* Blocks stay within a window of ids, so a walk over ids is one over windows. */
#define WINDOW_SHIFT     15
#define WINDOW_IDS       (1ULL << WINDOW_SHIFT)

#define MARK_BITS_A_NAME 16

/* Jobs that are kept for different times are in different blocks. */
enum block_family { FAMILY_DONE, FAMILY_FAILED, FAMILIES };

struct block_mark {
        uint64_t number;         /* of the block, in the table `block` */
        uint32_t segment, bytes; /* where it is */
        uint64_t offset;
        uint64_t first_id, last_id;
        int64_t created_first, created_last;
        int64_t finished_first, finished_last; /* finished_first: of those not buried, or earlier */
        uint16_t n, n_dead;
        uint16_t n_status[JOB_STATUS_COUNT]; /* as it was made: n_dead of them are buried */
        uint8_t family;
        uint32_t n_bits; /* of the filter; a power of two */
        uint8_t *filter; /* n_bits / 8 bytes; owned */
        uint8_t *dead;   /* a bit for each job that was deleted; NULL: none; owned */
};

#define MARK_DEAD_BYTES (BLOCK_JOBS / 8)

static inline uint64_t window_of(uint64_t id)
{
        return id >> WINDOW_SHIFT;
}

static inline enum block_family family_of(enum job_status status)
{
        return status == JOB_FAILED ? FAMILY_FAILED : FAMILY_DONE;
}

static inline bool block_mark_is_dead(const struct block_mark *m, size_t i)
{
        return m->dead && (m->dead[i / 8] >> i % 8 & 1);
}

/* `hash` is span_mark_hash(); MARK_BAD_HOOK is the hook of a job that did not complete. */
#define MARK_BAD_HOOK ((enum span_mark_kind)6)
bool block_mark_has(const struct block_mark *m, uint64_t hash);

/* From a block that was just made; number and place are the caller's. */
void block_mark_make(struct block_mark *m, const struct block *b, enum block_family family);
void block_mark_release(struct block_mark *m);
/* Takes over what the block does not say of itself: number, place and deleted jobs. */
static inline void block_mark_settle(struct block_mark *m, const struct block_mark *from)
{
        m->number = from->number;
        m->segment = from->segment;
        m->offset = from->offset;
        m->bytes = from->bytes;
        m->dead = from->dead;
        m->n_dead = from->n_dead;
}

/* For the table `block`: what the block says of itself, with a checksum.  Unpacking sets the others
 * to 0, and *ret only on success. */
void block_mark_pack(const struct block_mark *m, struct buf *ret);
int block_mark_unpack(struct slice packed, struct block_mark *ret) MUST_CHECK; /* ERR_CORRUPT */

#endif

/* A block: up to BLOCK_JOBS finished jobs as one string of bytes.
 *
 *      magic "wblk" | version u8 | flags u8 | n u16
 *      | raw and packed size of the head, of the body: 4 x u32
 *      | packed head | packed body | CRC32C of all before it u32
 *
 * The head has what filters and retention look at, column by column: ids and ends as differences,
 * names as indices into a table of the block's own, numbers that are mostly the same as a constant
 * and its exceptions, and the lengths of the texts.  The body has the texts, also by columns: args,
 * results, errors, progress, options, events.  Both are LZ4; a half that LZ4 does not make smaller
 * is kept as it is (flags).  Plain events (events_json.h) are not stored but derived.
 *
 * The ids within a block ascend, and no id is in it twice.
 *
 * No threads, no files: bytes in and out.  Whatever the bytes are, reading is safe: the checksum
 * is checked first, then every length.  The bytes are in files out there: a change of the layout
 * needs another version byte, and a block of each version among the tests. */
#ifndef WEIR_HISTORY_BLOCK_H
#define WEIR_HISTORY_BLOCK_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "state/job_view.h"

#define BLOCK_JOBS      512
#define BLOCK_RAW_BYTES (64 * MIB) /* of head and body together, before packing */

/* ---- making one ---- */

struct block_maker;

struct block_maker *block_maker_new(void);
struct block_maker *block_maker_free(struct block_maker *m); /* NULL is fine; returns NULL */

/* What the bytes of all added jobs come to, before packing, or some more; 0 after
 * block_maker_end(). */
size_t block_maker_raw_bytes(const struct block_maker *m);
size_t block_maker_len(const struct block_maker *m); /* jobs added */
/* The view is copied; what it borrows must stay until block_maker_end() or block_maker_clear(), and
 * not change.  The job has ended and is not damaged (is_damaged).  Ids ascend.  At most BLOCK_JOBS;
 * the caller looks at block_maker_raw_bytes() so as not to exceed BLOCK_RAW_BYTES. */
void block_maker_add(struct block_maker *m, const struct job_view *v, uint64_t run);
/* The block of all that was added, at least one job; the next add begins another.  *ret is valid
 * until then.  ERR_NOMEM: everything is still there, or may be given up by block_maker_clear(). */
int block_maker_end(struct block_maker *m, struct slice *ret) MUST_CHECK;
void block_maker_clear(struct block_maker *m);

/* ---- reading one ---- */

/* The columns of the head, for all jobs at once. */
struct block {
        size_t n;
        /* Arrays of n; valid until block_release(). */
        const uint64_t *id, *run, *fence;
        const int64_t *created_ms, *due_ms, *started_ms, *finished_ms;
        const uint8_t *status, *priority;
        const uint16_t *attempt, *attempts_max;
        const uint32_t *timeout_ms;
        /* Indices into `names`; 0 is the empty name. */
        const uint16_t *hook, *queue, *group, *worker;
        const struct slice *names;
        size_t n_names;
        struct block_bytes *bytes; /* its own: packed and unpacked halves */
};

/* Copies the bytes, checks them, unpacks the head.  ERR_CORRUPT: the checksum or anything else is
 * wrong; nothing is to be released then.  ERR_NOMEM. */
int block_open(struct block *b, struct slice bytes) MUST_CHECK;
void block_release(struct block *b); /* all zeros is fine */

/* The place of an id, or -1. */
int block_find(const struct block *b, uint64_t id);

/* The texts of one job, borrowed from the block; unpacks the body at the first call.  So only one
 * thread at a time may use a block. */
struct block_texts {
        struct slice args, result, error, progress, options;
        struct slice events; /* packed; empty and is_plain when they are to be derived */
        bool is_plain;
};
/* ERR_CORRUPT: the texts are not as the head says, which no damage of a file makes; ERR_NOMEM. */
int block_texts(struct block *b, size_t i, struct block_texts *ret) MUST_CHECK;

/* All of one job but its texts, copied into the arena.  ERR_NOMEM. */
int block_columns(const struct block *b, size_t i, struct arena *arena,
                  struct job_view *ret) MUST_CHECK;

/* The whole of one job, copied into the arena; events are derived when they are plain.  `scratch`
 * is emptied and used.  ERR_CORRUPT as above; ERR_NOMEM, also when the arena is full. */
int block_view(struct block *b, size_t i, struct arena *arena, struct buf *scratch,
               struct job_view *ret) MUST_CHECK;

#endif

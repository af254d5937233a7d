/* Marks: a small set of what is among the rows of a span, which may hold more than it was given and
 * never less (a Bloom filter of 16,384 bits and two hashes, 2 KiB for up to 4,096 rows).
 *
 * With a hundred hooks, queues and workers it is wrong once in 5,000 times, with 4,096 groups one
 * time in six: then a span is looked at for nothing.  The bits are in files out there: neither the
 * hash nor the kinds may change without a new format version. */
#ifndef WEIR_HISTORY_SPAN_MARK_H
#define WEIR_HISTORY_SPAN_MARK_H

#include "base/slice.h"

#define SPAN_MARK_BYTES 2048
#define SPAN_MARK_BITS  (SPAN_MARK_BYTES * 8)

enum span_mark_kind { MARK_STATUS = 1, MARK_QUEUE, MARK_GROUP, MARK_HOOK, MARK_WORKER };

/* FNV-1a of the kind and the bytes, its halves mixed. */
static inline uint64_t span_mark_hash(enum span_mark_kind kind, struct slice text)
{
        uint64_t h = (14695981039346656037ULL ^ (uint64_t)kind) * 1099511628211ULL;
        for (size_t i = 0; i < text.len; i++)
                h = (h ^ (unsigned char)text.ptr[i]) * 1099511628211ULL;
        h ^= h >> 32;
        return h * 0x9e3779b97f4a7c15ULL;
}

static inline void span_mark_add(uint8_t *marks, uint64_t hash)
{
        uint32_t a = (uint32_t)(hash >> 50), b = (uint32_t)(hash >> 36) % SPAN_MARK_BITS;
        marks[a / 8] |= (uint8_t)(1U << a % 8);
        marks[b / 8] |= (uint8_t)(1U << b % 8);
}

static inline bool span_mark_has(const uint8_t *marks, uint64_t hash)
{
        uint32_t a = (uint32_t)(hash >> 50), b = (uint32_t)(hash >> 36) % SPAN_MARK_BITS;
        return (marks[a / 8] >> a % 8 & 1) && (marks[b / 8] >> b % 8 & 1);
}

static inline uint64_t span_mark_status(int status)
{
        char c = (char)('0' + status);
        return span_mark_hash(MARK_STATUS, slice_make(&c, 1));
}

#endif

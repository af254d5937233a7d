/* The inner layout of a block, for block_maker.c, which writes it, and block.c, which reads it.
 * block.h draws the outer one.
 *
 * The head, before packing:
 *
 *      first id, created_ms and fence: 3 varints
 *      number of names, a column of their lengths, their bytes (the empty name is not stored)
 *      the columns of enum column, in that order
 *
 * A column is a byte that says how it is kept, then one number for each job:
 *
 *      CONSTANT   one varint for all
 *      SPARSE     the common varint, how many differ, for each of them: how many jobs to pass
 *                 over, and its varint
 *      BYTES      n bytes: no number is above 255
 *      VARINTS    n varints
 *
 * Times and fences are differences, zigzag, modulo 2^64, so that any value comes back:
 *
 *      id         distance from the job before, less one
 *      created    from the job before: ids are given in the order of creation
 *      due        from `created`: mostly 0
 *      started    from the last job that was started: jobs start nearly in order
 *      finished   from `started`, or from `created` when the job never started
 *      fence      from the last job that was started; as it is when the job never started
 *
 * The body is the texts, all args first, then all results and so on; the lengths in the head say
 * where each begins. */
#ifndef WEIR_HISTORY_BLOCK_INT_H
#define WEIR_HISTORY_BLOCK_INT_H

#include "base/bytes.h"
#include "history/block.h"

#define BLOCK_MAGIC   0x6b6c6277U /* "wblk" */
#define BLOCK_VERSION 1
#define HEADER_BYTES  24
#define CRC_BYTES     4

enum { FLAG_RAW_HEAD = 1, FLAG_RAW_BODY = 2, FLAGS_KNOWN = 3 };

enum column {
        HEAD_STATE, /* the status and bits of STATE_ */
        HEAD_ID,
        HEAD_RUN,
        HEAD_CREATED,
        HEAD_DUE,
        HEAD_STARTED,
        HEAD_FINISHED,
        HEAD_FENCE,
        HEAD_PRIORITY,
        HEAD_ATTEMPT,
        HEAD_ATTEMPTS_MAX,
        HEAD_TIMEOUT,
        HEAD_HOOK,
        HEAD_QUEUE,
        HEAD_GROUP,
        HEAD_WORKER,
        HEAD_TEXTS, /* and the other lengths: a column for each of enum text */
};

enum text { TEXT_ARGS, TEXT_RESULT, TEXT_ERROR, TEXT_PROGRESS, TEXT_OPTIONS, TEXT_EVENTS, TEXTS };

enum { STATE_STATUS = 7, STATE_PLAIN = 8, STATE_STARTED = 16, STATE_KNOWN = 31 };
enum { KIND_HOOK, KIND_QUEUE, KIND_GROUP, KIND_WORKER, KINDS };
enum { MODE_CONSTANT, MODE_SPARSE, MODE_BYTES, MODE_VARINTS };

#define COLUMNS   (HEAD_TEXTS + TEXTS)
#define NAMES_MAX (KINDS * BLOCK_JOBS + 1)

static inline uint64_t zigzag(uint64_t distance)
{
        return distance << 1 ^ (distance >> 63 ? UINT64_MAX : 0);
}

static inline uint64_t unzigzag(uint64_t z)
{
        return z >> 1 ^ (~(z & 1) + 1);
}

#endif

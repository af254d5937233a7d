/* The durable log: four calls between the core and whatever keeps its bytes.
 *
 *   lead    become the one writer, recover the tail; nothing may be appended before
 *   append  hand over batch `seq` (the next number, no gaps); asynchronous, completes in order
 *   read    walk the batches from `from`, or the oldest that is kept, to the end, in order
 *   trim    batches before `before` are not needed any more; their space may be reused
 *
 * A batch is the unit of durability: after a crash it is there whole or not at all.  It is a
 * string of records (log/record.h).  There is at most one batch in flight: the caller waits for
 * `durable` before the next append, and collects meanwhile.
 *
 * A failed write or sync is final: `failed` is called once (on the log's thread), no later call
 * succeeds, and the process must end without answering anybody.
 *
 * Threads: all calls from the loop thread; the two callbacks come from the log's own thread (or
 * from inside log_append when the log was opened without one). */
#ifndef WEIR_LOG_LOG_H
#define WEIR_LOG_LOG_H

#include "base/err.h"
#include "base/slice.h"

struct log;

struct log_tail {
        uint64_t first_seq;   /* oldest batch that can be read; last_seq + 1 when there is none */
        uint64_t last_seq;    /* newest durable batch; 0 when there has never been one */
        uint64_t cut_batches; /* torn batches cut off at the end (0 or 1) */
        uint64_t cut_bytes;
};

struct log_stat {
        uint64_t retained_bytes; /* from the start of the oldest kept segment to the head */
        uint64_t room_bytes;     /* can surely be appended without asking the disk for space */
        uint64_t head_seq;       /* batches before this lie in parts that trim() could give back */
        bool is_disk_full;       /* more room was wanted (log_want_room) and refused */
        uint64_t appended_bytes; /* since start: batches with their framing */
        uint64_t appended_batches;
        uint64_t sync_ns_last; /* write + sync time of the last batch */
};

typedef int (*log_read_fn)(void *ctx, uint64_t seq, struct slice batch); /* not OK stops the walk */

struct log_ops {
        int (*lead)(struct log *log, struct log_tail *ret, struct problem *problem);
        int (*append)(struct log *log, uint64_t seq, struct slice batch);
        int (*read)(struct log *log, uint64_t from, log_read_fn fn, void *ctx,
                    struct problem *problem);
        int (*trim)(struct log *log, uint64_t before);
        /* append, and durable before it returns: for a small batch, where waking another thread and
         * being woken by it would cost a third of the time.  May be NULL; may choose to be an
         * append. */
        int (*append_now)(struct log *log, uint64_t seq, struct slice batch);
        /* Not part of the four, but every keeper of bytes has to answer them: */
        void (*want_room)(struct log *log, uint64_t bytes); /* keep at least this much room */
        /* Take no more of the disk than leaves so much free to others, unless the room gets short.
         * May be NULL. */
        void (*leave_free)(struct log *log, uint64_t bytes);
        void (*stat)(const struct log *log, struct log_stat *ret);
        /* While it is set, the loop gives answers that wait for no disk: the log's thread is not to
         * take the processor from it.  May be NULL. */
        void (*give_way)(struct log *log, bool is_giving_way);
        struct log *(*close)(struct log *log); /* waits for what is in flight; returns NULL */
};

struct log {
        const struct log_ops *ops;
        /* Set by the owner before lead(). */
        void (*durable)(void *ctx, uint64_t seq);
        void (*failed)(void *ctx, const struct problem *problem);
        void *ctx;
};

/* The largest batch append() takes.  Segments are larger, so any batch fits in a fresh one. */
#define LOG_BATCH_MAX (56 * MIB)

#endif

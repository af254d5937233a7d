/* The durable log: four calls between the core and whatever keeps its bytes.
 *
 *   lead    become the one writer, recover the tail; nothing may be appended before.  A log of one
 *           machine leads when it returns; one of several machines leads later, or never
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
 * A log of several machines has poll() besides.  From the start it follows: whatever the leader, on
 * this machine or another, made durable *arrives*, in order and without a gap.  What arrived may
 * turn out not to hold (a database that failed over forgets what was not replicated): then the log
 * is *restarted*, and everything arrives once more from the oldest batch on.  After lead() it takes
 * the lead when nobody else has it; when it is told so (*led*), all that came before has arrived,
 * and the next append is the next number.  The lead can be *lost* at any time: what was appended
 * and not told durable may or may not be there, nothing more becomes durable, and the log follows
 * again, from the oldest batch on.
 *
 * Threads: all calls from the loop thread; `durable`, `failed` and `notify` come from the log's own
 * threads (or from inside log_append when the log was opened without one), the others from poll().
 */
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
        uint64_t epoch; /* of the lead that begins; 0 in a log of one machine */
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

/* A machine of a cluster. */
#define LOG_MEMBERS_MAX 16
#define LOG_NAME_MAX    64
#define LOG_ADDRESS_MAX 256
struct log_member {
        char node[LOG_NAME_MAX + 1];
        char address[LOG_ADDRESS_MAX + 1]; /* where it serves clients, "weir1:7379" */
        bool is_self, is_leader;
        int priority;                /* the higher, the rather it leads */
        int64_t seen_ms;             /* so long ago, by the database's clock */
        uint64_t epoch;              /* the newest it knows */
        uint64_t seq;                /* the last batch it has */
        uint64_t digest_seq, digest; /* of its state, ended in that batch; 0: not told */
};

typedef int (*log_read_fn)(void *ctx, uint64_t seq, struct slice batch); /* not OK stops the walk */

struct log_ops {
        /* OK: it leads.  ERR_UNAVAIL: not yet; `led` tells. */
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

        /* Of a log of several machines; NULL in one of a single machine. */

        /* Tells what happened since, `bytes` of batches and one more at most; true when there is
         * more.  Call it after `notify`, and until it returns false. */
        bool (*poll)(struct log *log, uint64_t bytes);
        /* Until then (CLOCK_BOOTTIME) nobody else can lead: what is in memory may be told. */
        int64_t (*leads_until_ns)(const struct log *log);
        /* Lets `node` lead next ("" : anybody else), as soon as nothing is in flight; `lost` comes
         * when it does.  is_trial: only says whether it would.  ERR_NOTFOUND: there is no such
         * node; ERR_STATE: it does not lead itself, or the other is not ready; ERR_BADARG: it is
         * the one that leads. */
        int (*hand_over)(struct log *log, struct slice node, bool is_trial,
                         struct problem *problem);
        /* For the others to see: the digest of this machine's state that ended in batch `seq`; 0:
         * it has none. */
        void (*tell)(struct log *log, uint64_t seq, uint64_t digest);
        /* The machines as they were last seen, at most every second; returns how many. */
        size_t (*members)(struct log *log, struct log_member *ret, size_t max);
};

struct log {
        const struct log_ops *ops;
        /* Set by the owner before lead(). */
        void (*durable)(void *ctx, uint64_t seq);
        void (*failed)(void *ctx, const struct problem *problem);
        /* A log of several machines: poll() has something to tell.  Any thread. */
        void (*notify)(void *ctx);
        /* From poll(). */
        void (*arrived)(void *ctx, uint64_t seq, struct slice batch);
        void (*restarted)(void *ctx);
        void (*led)(void *ctx, const struct log_tail *tail);
        void (*lost)(void *ctx, const struct problem *problem);
        void *ctx;
};

/* The largest batch append() takes.  Segments are larger, so any batch fits in a fresh one. */
#define LOG_BATCH_MAX (56 * MIB)

#endif

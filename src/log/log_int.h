/* What file.c and keeper.c share and nobody else sees: the log in files itself.
 *
 * Two threads at most besides the loop.  The committer writes and syncs batches and does nothing
 * else, so that nothing stands between a batch and its sync.  The keeper makes, recycles and
 * removes segments, which takes up to a second and must not hold a batch up.  Without threads the
 * same functions run inside the calls.
 *
 *      field           who
 *      writer          committer; lead and close while there is none
 *      batch, its seq  written by append, read by the committer while is_given
 *      chain, head,    under `mu`.  The committer moves `head` on; the keeper takes from the front
 *      and the rest    and adds and takes at the back, never the head or the one behind it
 *
 * Invariants under `mu`, checked by file_log_check() in keeper.c after each batch and each change
 * of the chain: (1) chain_check() holds (2) the head's next frame begins between the header and the
 * footer (3) the head begins no later than with the batch after the last durable one */
#ifndef WEIR_LOG_LOG_INT_H
#define WEIR_LOG_LOG_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "log/chain.h"
#include "log/file.h"
#include "log/writer.h"

/* A frame never spans two segments, so the end of each may be lost to the next batch.  Counted as
 * lost when room is told: a quarter, which is as large as a batch gets that is not itself one
 * giant command. */
#define ROOM_LOST(segment_bytes) ((segment_bytes) / 4)
/* While room is wanted and refused, the disk is asked again this often. */
#define RETRY_NS NS_PER_S

struct file_log {
        struct log log;
        struct disk *disk;
        struct file_log_options options;
        struct writer writer;
        pthread_t committer, keeper;

        uint64_t batch_seq; /* in flight, when is_given */
        struct slice batch; /* the caller's bytes */

        _Atomic bool has_failed;
        _Atomic bool is_giving_way;
        bool is_leading;
        bool has_threads;
        bool is_disk_borrowed; /* salvage: the caller releases it */
        bool is_lazy;          /* salvage: synced at the end of a segment, not at each batch */

        /* Under mu, down to the next empty line. */
        bool is_given;      /* a batch was handed over and is not durable yet */
        bool is_refused;    /* the disk gave no more space when last asked */
        bool may_ask_again; /* by trim, want_room and the clock */
        bool is_stopping;
        pthread_mutex_t mu;
        pthread_cond_t for_committer, for_keeper;
        struct chain chain;
        size_t head;
        uint64_t head_at;     /* as writer.at, after the last durable batch */
        uint64_t trim_before; /* batches below are not needed */
        uint64_t want_room;
        uint64_t leave_free; /* to others, while the room is not short */
        int64_t ask_at_ns;   /* CLOCK_MONOTONIC: when the clock lets it ask again */

        /* Written by committer and keeper, read by stat on any thread. */
        _Atomic uint64_t last_seq; /* durable */
        _Atomic uint64_t retained_bytes, room_bytes, appended_bytes, appended_batches, sync_ns_last;
        _Atomic uint64_t head_seq; /* first batch of the head segment */
        _Atomic bool is_disk_full;
};

/* Tells the owner, once; from here on nothing succeeds. */
void file_log_fail(struct file_log *f, const struct problem *p);

static inline size_t file_log_spares(const struct file_log *f) /* mu held */
{
        return f->chain.n - f->head - 1;
}

/* keeper.c.  All with mu held; those that work let it go meanwhile. */
void keeper_account(struct file_log *f); /* after any change: what stat() will tell */
bool keeper_step(struct file_log *f);    /* one piece of work; false when there is none */
void keeper_run_inline(struct file_log *f);
void *keeper_main(void *file_log);
/* At the start, before anything else runs: the folder's loose ends, and a first segment. */
int keeper_tidy(struct file_log *f, struct problem *p) MUST_CHECK;

#endif

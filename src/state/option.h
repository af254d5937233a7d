/* Options of a job: what it may carry beside its fixed fields.  Most jobs carry none, so they are
 * packed (state/field.h), in the log and in history alike.
 *
 * A new option is one row here: struct, bytes and docs/log-records.md follow. */
#ifndef WEIR_STATE_OPTION_H
#define WEIR_STATE_OPTION_H

#include "state/field.h"

/* Tags in the log: append new rows at the end, never reuse one. */
#define OPTION_MAP(TEXT, NUM)                                                                      \
        TEXT(1, backoff,                                                                           \
             "how long a failed job waits for its next attempt; packed (state/backoff.h)")         \
        TEXT(2, unique, "a key that only one job may hold")                                        \
        NUM(3, unique_scope,                                                                       \
            "for how long it holds the key: 0 until it starts, 1 until it ends, 2 also after")     \
        NUM(4, unique_ms, "with scope 2: how long after its end")                                  \
        TEXT(5, key, "at most key_max running jobs may have this key")                             \
        NUM(6, key_max, "absent = 1")                                                              \
        TEXT(7, limit, "rate limit that each start takes from")                                    \
        TEXT(8, target, "circuit breaker that is asked before each start and told of each end")    \
        TEXT(9, batch, "batch that it counts for")                                                 \
        TEXT(10, after,                                                                            \
             "ids of jobs that must end first, as varints; those that have ended are removed")     \
        NUM(11, when, "how those must end: 0 complete, 1 failed, 2 in any way")                    \
        NUM(12, otherwise, "what happens when one ends differently: 0 cancel, 1 fail")             \
        NUM(13, expires_ms, "no start after this time, on the steady wall clock")                  \
        NUM(14, result_ms, "how long history keeps the result; absent = as long as the job")       \
        TEXT(15, signature, "signature that the worker verifies")                                  \
        TEXT(16, schedule, "schedule that created it")                                             \
        NUM(17, slot_ms, "time of that schedule for which it was created")                         \
        NUM(18, run, "how often it was taken back from history to run again")                      \
        NUM(19, tier, "1 + the tier given at enqueue; absent = as its hook is registered")         \
        NUM(20, deferred_ms, "how long the throttler made it wait, without the present wait")      \
        NUM(21, parked, "1 + the tier under which it waits now")                                   \
        NUM(22, parked_ns,                                                                         \
            "start of the present wait, steady clock; absent in older logs: deferred_ms has it "   \
            "all")                                                                                 \
        NUM(23, parked_ms, "planned length of the present wait")                                   \
        NUM(24, parked_how, "1: the ramp returns it; 2: it waits until just before it expires")    \
        NUM(25, parked_due, "when it was due before it was parked: its place in its queue")        \
        NUM(26, maxrun_ms, "how long an attempt may run, whatever its lease; absent = no limit")   \
        NUM(27, run_until_ns, "end of that time for the running attempt, steady clock")            \
        TEXT(28, traceparent, "trace and span that it was enqueued in (wire/traceparent.h)")

enum unique_scope { UNIQUE_PENDING, UNIQUE_RUNNING, UNIQUE_AFTER };
enum after_when { AFTER_COMPLETE, AFTER_FAILED, AFTER_ENDED };
enum after_otherwise { OTHERWISE_CANCEL, OTHERWISE_FAIL };

/* Bits in the log. */
enum parked_how {
        PARKED_RETURNS = 1, /* the ramp has let it go: it waits for its moment, not for the level */
        PARKED_LAST = 2,    /* until just before it expires: then it starts at any level */
};
#define PARKED_HOW_ALL 3

struct job_options {
        OPTION_MAP(MEMBER_TEXT, MEMBER_NUM)
};

void options_pack(const struct job_options *o, struct buf *b); /* appends nothing when all absent */
/* The texts borrow from `packed`.  False: no such bytes can be. */
bool options_unpack(struct slice packed, struct job_options *ret);

#endif

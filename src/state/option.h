/* What a job may carry beside its fixed fields: most jobs carry none of it, so it is packed.
 *
 * In the log and in history an option is: tag u8, then a varint (numbers) or a varint length and
 * bytes (texts); absent ones are not written.  Numbers of 0 and empty texts are absent.
 *
 *      unique        the key that only one job may hold; unique_scope says for how long
 *      key           at most key_max running jobs (1 when absent) may hold this name
 *      limit         a rate limit that each start takes from
 *      target        a circuit breaker that is asked before each start and told of each end
 *      after         ids of jobs that must end first, as varints; resolved ones are taken out
 *      expires_ms    not to be started after this time, on the steady wall (core.c)
 *      result_ms     how long history keeps the result; absent: as long as the job
 *      tier          1 + the tier that its enqueue gave it; absent: as its hook is registered
 *      deferred_ms   how long the gate has made it wait, without the wait that is going on
 *      parked        1 + the tier under which it waits for the gate now
 *      parked_ns     when that wait began, in steady ns; absent in older logs, whose
 *                    deferred_ms includes the planned time of that wait
 *      parked_ms     how long that wait is to last from then on
 *      parked_how    PARKED_* bits
 *      parked_due    when it was due before the gate made it wait: its place in its queue
 *      maxrun_ms     how long an attempt may run, whatever its lease; absent: no limit
 *      run_until_ns  steady ns: the end of that time for the attempt that runs
 *      run           how often it was taken back from history to be run again
 */
#ifndef WEIR_STATE_OPTION_H
#define WEIR_STATE_OPTION_H

#include "base/bytes.h"

/* Tags in the log: append new rows at the end, never reuse one. */
#define OPTION_MAP(TEXT, NUM)                                                                      \
        TEXT(1, backoff)                                                                           \
        TEXT(2, unique)                                                                            \
        NUM(3, unique_scope)                                                                       \
        NUM(4, unique_ms)                                                                          \
        TEXT(5, key)                                                                               \
        NUM(6, key_max)                                                                            \
        TEXT(7, limit)                                                                             \
        TEXT(8, target)                                                                            \
        TEXT(9, batch)                                                                             \
        TEXT(10, after)                                                                            \
        NUM(11, when)                                                                              \
        NUM(12, otherwise)                                                                         \
        NUM(13, expires_ms)                                                                        \
        NUM(14, result_ms)                                                                         \
        TEXT(15, signature)                                                                        \
        TEXT(16, schedule)                                                                         \
        NUM(17, slot_ms)                                                                           \
        NUM(18, run)                                                                               \
        NUM(19, tier)                                                                              \
        NUM(20, deferred_ms)                                                                       \
        NUM(21, parked)                                                                            \
        NUM(22, parked_ns)                                                                         \
        NUM(23, parked_ms)                                                                         \
        NUM(24, parked_how)                                                                        \
        NUM(25, parked_due)                                                                        \
        NUM(26, maxrun_ms)                                                                         \
        NUM(27, run_until_ns)

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
#define TEXT(tag, name) struct slice name;
#define NUM(tag, name)  uint64_t name;
        OPTION_MAP(TEXT, NUM)
#undef TEXT
#undef NUM
};

void options_pack(const struct job_options *o, struct buf *b); /* appends nothing when all absent */
/* The texts borrow from `packed`.  False: no such bytes can be. */
bool options_unpack(struct slice packed, struct job_options *ret);

#endif

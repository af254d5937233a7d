/* The minute that is going on: what happened to jobs by hook and by queue, to asks by client and by
 * target, and what metrics were.
 *
 * Rooms call one function where they count the event in totals anyway.  numbers/rollups.c takes the
 * minute out when it is over (tally_take); core/rollup.h is what becomes of it.
 *
 * A kind has at most TALLY_NAMES names and TALLY_NAME_BYTES of them, the rest count as `other`, and
 * so does a name that is the word "other".  A name keeps its place from minute to minute; when the
 * table is full, names that were idle for a whole minute make room.
 *
 * Cost, measured with 500 hooks of one queue: 24-30 ns for a start and an end together, each by
 * hook and by queue, 4 of them for the lives below.  At 300,000 jobs/s that is 0.9 % of a core.  No
 * allocation once a name is known.  Loop thread only. */
#ifndef WEIR_CORE_TALLY_H
#define WEIR_CORE_TALLY_H

#include "base/octaves.h"
#include "base/slice.h"
#include "gate/check.h"
#include "gate/gate.h"

#define TALLY_NAMES      500
#define TALLY_NAME_BYTES 16384

/* Numbers in the file: append only.  A metric is named by its target, a NUL, and its own name;
 * clients refer to metrics, so those come first. */
enum tally_kind { TALLY_METRIC, TALLY_HOOK, TALLY_QUEUE, TALLY_CLIENT, TALLY_TARGET, TALLY_KINDS };

/* Of a hook or a queue.  Started is the total of `wait`. */
struct tally_jobs {
        uint32_t completed, failed, deferred;
        /* ms from due to start.  Due, not created: a delay is what the job was made with.  For one
         * that the gate parked, when it was due before: the gate's delay is waiting. */
        struct octaves wait;
        struct octaves run; /* ms from start to the end of each attempt, however it ended */
};

/* Of a client or a target. */
struct tally_asks {
        uint32_t granted;
        uint32_t refused;
        uint32_t observed; /* granted, but would have been refused */
        uint64_t waited_ms;
        uint32_t by_reason[CHECK_REASONS]; /* of the refused and the observed */
        uint8_t levels;                    /* of a target: bit i for each enum level it had */
        struct slice cause; /* of a client: the metric of the last refusal that had one */
};

/* Of a metric. */
struct tally_values {
        uint32_t n;
        float min, max;
        double sum;
};

union tally_cell {
        struct tally_jobs jobs;
        struct tally_asks asks;
        struct tally_values values;
};

struct job;
struct rollup;
struct tally;

struct tally *tally_new(uint64_t seed);
struct tally *tally_free(struct tally *t);

/* Before the effect that starts it. */
void tally_start(struct tally *t, const struct job *job, int64_t wall_ms);
/* An attempt ended, before its effect; the job itself may have completed or failed with it. */
enum tally_end { TALLY_ATTEMPT, TALLY_COMPLETED, TALLY_FAILED };
void tally_end(struct tally *t, const struct job *job, enum tally_end end, int64_t wall_ms);
/* The job failed without an attempt, or was completed after its attempt had ended. */
void tally_ended(struct tally *t, const struct job *job, enum tally_end end);
void tally_deferred(struct tally *t, const struct job *job);

/* n asks that were answered alike; waited_ms is of all of them. */
struct tally_ask {
        bool is_granted, would_refuse;
        enum check_reason reason; /* of the refusal, also of one that was only observed */
        uint32_t n;
        uint64_t waited_ms;
        struct slice target, metric; /* of a refusal that has a metric; else empty */
};
/* Whose asks: a TALLY_CLIENT or a TALLY_TARGET.  `place` is kept in the object `owner`, 0 at first:
 * where its name has its cell. */
struct tally_who {
        enum tally_kind kind;
        struct slice name;
        const void *owner;
        uint16_t *place;
};
void tally_asked(struct tally *t, const struct tally_who *who, const struct tally_ask *ask);
void tally_sampled(struct tally *t, struct slice target, struct slice metric, double value);
void tally_level(struct tally *t, struct slice target, enum level level);

/* The name of a metric in its table, made in `room`: SLICE_NONE when it is too long. */
#define TALLY_METRIC_BYTES 512
struct slice tally_metric_name(struct slice target, struct slice metric, char *room);

/* Fills the tables of `ret`, which borrows the names until the next call, and begins anew. */
void tally_take(struct tally *t, struct rollup *ret);

/* The times of all jobs of a queue or a hook since the start, for /metrics, where totals must not
 * fall.  The first TALLY_LIVES of each kind that start a job have one each, the rest "other"
 * together: a histogram is 16 lines of /metrics. */
#define TALLY_LIVES 100
struct tally_life {
        struct slice name;
        uint64_t wait[OCTAVES], run[OCTAVES];
        uint64_t wait_ms, run_ms; /* sums */
};
/* kind: TALLY_HOOK or TALLY_QUEUE. */
void tally_each_life(const struct tally *t, enum tally_kind kind,
                     void (*fn)(void *ctx, const struct tally_life *l), void *ctx);

void tally_check(const struct tally *t);

#endif

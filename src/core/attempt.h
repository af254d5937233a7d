/* What is told of an attempt that ended, and to whom: core/trace.h says how the spans hang
 * together.
 */
#ifndef WEIR_CORE_ATTEMPT_H
#define WEIR_CORE_ATTEMPT_H

#include "wire/traceparent.h"

enum attempt_end {
        ATTEMPT_COMPLETE,
        ATTEMPT_FAILED,
        ATTEMPT_TIMED_OUT,
        ATTEMPT_CANCELED,
        ATTEMPT_RELEASED,
        ATTEMPT_ENDS
};

/* An attempt that ended.  The texts are borrowed. */
struct attempt {
        uint8_t trace[TRACE_BYTES];
        uint8_t client[SPAN_BYTES]; /* the span that enqueued it; all zeros: none */
        uint8_t enqueue[SPAN_BYTES], wait[SPAN_BYTES], run[SPAN_BYTES];
        bool has_enqueue; /* that span is to be told now */
        uint8_t end;      /* enum attempt_end */
        uint16_t number, of;
        uint64_t job, runs; /* runs: how often it was taken back from history */
        int64_t created_ms, due_ms, started_ms, ended_ms; /* Unix ms, none before the one before */
        struct slice queue, hook, group, worker, error;
};

/* Who is told; all of it by whoever sets it (core_set_tracer). */
struct tracer {
        void (*ended)(void *ctx, const struct attempt *a);
        void *ctx;
        uint64_t seed; /* of this weir, the same after each restart */
        double sample; /* share of the jobs without a traceparent that get a trace, 0 to 1 */
        /* Of its own threads. */
        _Atomic uint64_t exported, dropped; /* spans */
};

#endif

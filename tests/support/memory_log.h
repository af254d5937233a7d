/* A log that keeps its batches in memory and syncs when told: for tests of what is above it. */
#ifndef WEIR_TESTS_MEMORY_LOG_H
#define WEIR_TESTS_MEMORY_LOG_H

#include "base/buf.h"
#include "log/log.h"

#define MEMORY_LOG_BATCHES 100000

struct memory_log {
        struct log base;
        struct buf *batches; /* batch of seq n at n - 1 */
        uint64_t last_seq;
        uint64_t trimmed_before;
        bool is_manual; /* durable() is called by memory_log_sync(), not by append */
        uint64_t in_flight;
        struct log_stat stat;
        uint64_t digest_seq, digest; /* as they were told last */
};

void memory_log_init(struct memory_log *m);
void memory_log_release(struct memory_log *m);
void memory_log_sync(struct memory_log *m);

#endif

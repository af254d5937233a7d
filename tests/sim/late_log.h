/* The file log, as asynchronous as with its thread: the write and the sync of a batch are put off
 * until late_log_step(), while the next one is collected. */
#ifndef WEIR_TESTS_SIM_LATE_LOG_H
#define WEIR_TESTS_SIM_LATE_LOG_H

#include "log/log.h"

struct late_log {
        struct log base;
        struct log *inner; /* put there, and closed, by whoever has this one */
        uint64_t seq;      /* in flight; 0 = none */
        struct slice batch;
};

void late_log_init(struct late_log *l);
void late_log_step(struct late_log *l);

#endif

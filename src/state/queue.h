/* A queue: the ready jobs of one name in the order they are to be run, and its counters.
 *
 * A queue is born with its first job, its first pause or its first waiting worker, and is let go
 * when it is idle and the limit of queues needs the place. */
#ifndef WEIR_STATE_QUEUE_H
#define WEIR_STATE_QUEUE_H

#include "base/heap.h"
#include "base/list.h"
#include "state/live.h"
#include "state/name.h"

struct queue {
        struct live live; /* linked once the log knows of it */
        struct hash_node node;
        struct name *name;
        uint64_t id; /* never reused: effects that count for a queue name it by this */
        struct heap ready;
        struct list waiters; /* core's blocked claims, first come first served */
        struct list news;    /* on the core's list of queues to serve waiters of */
        bool is_paused;
        /* Gauges, kept by state.c's one moving function. */
        uint64_t n_scheduled, n_running, n_finished;
        /* Totals since the queue was born, durable. */
        uint64_t enqueued, completed, failed, canceled;
};

static inline uint64_t queue_n_jobs(const struct queue *q)
{
        return q->ready.len + q->n_scheduled + q->n_running + q->n_finished;
}

#endif

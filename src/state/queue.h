/* A queue: the ready jobs of one name in the order they are to be run, its settings and counters.
 *
 * A queue is born with its first job, its first setting or its first waiting worker, and is let go
 * when it is idle and the limit of queues needs the place.
 *
 * Ready jobs are on one heap: priority, attempts, due, id.  A queue with the setting `fair` keeps
 * them in one lane per group instead, and takes turns: among the groups whose first job has the
 * best priority, the one that was served least, counted by its weight, comes next.  Turns are
 * start-time fair queueing: each start moves a lane's virtual time on by 1/weight, and a lane that
 * was idle begins at the time of the queue, so nobody can save up turns.  Virtual time is not in
 * the log: after a restart everybody begins anew. */
#ifndef WEIR_STATE_QUEUE_H
#define WEIR_STATE_QUEUE_H

#include "base/heap.h"
#include "base/idmap.h"
#include "base/list.h"
#include "state/field.h"
#include "state/live.h"
#include "state/name.h"

/* Settings of a queue, packed (state/field.h).  Tags in the log: append new rows at the end, never
 * reuse one. */
#define QUEUE_SETTING_MAP(TEXT, NUM)                                                               \
        NUM(1, cap, "how many of its jobs may run at once")                                        \
        NUM(2, claim_size, "how many jobs one claim may take")                                     \
        NUM(3, claims, "how many claims may have running jobs at once")                            \
        NUM(4, lease_ms, "lease of jobs and claims that name none")                                \
        NUM(5, fair, "1 = groups take turns")                                                      \
        TEXT(6, backoff, "for jobs that have none of their own; packed (state/backoff.h)")         \
        NUM(7, history, "1 + enum history_policy; absent = as configured")

struct queue_settings {
        QUEUE_SETTING_MAP(MEMBER_TEXT, MEMBER_NUM)
};

struct job;

struct queue {
        struct live live; /* linked once the log knows of it */
        struct hash_node node;
        struct name *name;
        uint64_t id;       /* never reused: effects that count for a queue name it by this */
        struct heap ready; /* when it is not fair; see queue_first() */
        struct hash lanes; /* when it is: one per group with ready jobs, or whose turn is yet to
                              be remembered */
        struct heap turns; /* lanes with ready jobs */
        uint64_t virtual_time;
        size_t n_ready;
        struct list waiters;  /* core's blocked claims, first come first served */
        struct list to_serve; /* on the core's list of queues to serve waiters of */
        bool is_paused;
        uint16_t tally_place; /* core/tally.h's; 0 at first */
        /* Not durable: enum history_policy in force, for the archive's thread (jobs/keeping.h). */
        _Atomic uint8_t history_now;
        uint64_t job_bytes; /* its share of state->live_bytes: the weights of its jobs */
        struct queue_settings settings; /* texts are in `packed` */
        struct buf packed;
        struct idmap claims; /* claim -> number of its running jobs, as a pointer */
        /* Gauges, kept by state.c's one moving function. */
        uint64_t n_scheduled, n_waiting, n_running, n_finished;
        /* Of the scheduled ones, those that wait for the gate, and those that the ramp let go. */
        uint64_t n_parked, n_returning;
        uint64_t n_first_tier; /* of the running ones, those of the most important tier */
        /* Totals since the queue was born, durable. */
        uint64_t enqueued, completed, failed, canceled;
};

void queue_init(struct queue *q);
void queue_release(struct queue *q); /* nothing is ready in it */

/* The ready job that is to run next; NULL when there is none. */
struct job *queue_first(const struct queue *q);
/* Ready jobs that come before this ready one, counted no further than `max`.  In a fair queue those
 * of its own group: what the other groups get by their turns is not known. */
size_t queue_ahead(const struct queue *q, const struct job *job, size_t max);
/* When the ready job that has been due longest was due; INT64_MAX when there is none.  Looks at no
 * more jobs than *budget, which is lowered by those looked at; then one may be missed that many
 * better ones stand before. */
int64_t queue_oldest_due_ms(const struct queue *q, size_t *budget);
void queue_push(struct queue *q, struct job *job);
void queue_take(struct queue *q, struct job *job);
/* A job was started: its group has had a turn of that weight. */
void queue_charge(struct queue *q, const struct job *job, uint64_t weight);

/* False: no such settings can be.  Sorts the ready jobs anew when `fair` changed. */
bool queue_set(struct queue *q, struct slice packed);
void queue_settings_pack(const struct queue_settings *o, struct buf *b);
bool queue_settings_unpack(struct slice packed, struct queue_settings *ret);

/* A claim has one more, or one fewer, running job here.  Only counted with the setting `claims`:
 * who sets it counts the running ones. */
void queue_count_claim(struct queue *q, uint64_t claim, int by);

void queue_check(const struct queue *q);

static inline uint64_t queue_n_jobs(const struct queue *q)
{
        return q->n_ready + q->n_scheduled + q->n_waiting + q->n_running + q->n_finished;
}

#endif

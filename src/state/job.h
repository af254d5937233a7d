/* A job: what to run, where it waits, and once it has run, its story.
 *
 * State       list it is on                        entered by (effect)      leaves by
 *   SCHEDULED state->delayed or state->timed       NEW, FAIL, RELEASE, ...  state_promote, CANCEL
 *   READY     queue->ready                         the same when due        START, CANCEL
 *   RUNNING   state->running (by lease deadline)   START                    DONE FAIL TIMEOUT
 *                                                                           RELEASE CANCEL
 *   FINISHED  state->grace (timed out for good,    DONE FAIL TIMEOUT        ARCHIVED
 *             a late completion may still come)    CANCEL
 *             or none: with the archive
 *
 *   WAITING   thing->waiting of what keeps it      state_block              state_unblock
 *   HELD      none: jobs it comes after have not   NEW                      AFTER, CANCEL
 *             ended (state->after knows it)
 *
 * Invariants, checked by job_check():
 *   (1) a RUNNING job has a lease: more != NULL, a fence > 0, and is on state->running
 *   (2) a SCHEDULED or READY job is on a heap; a FINISHED job has an outcome
 *   (3) attempt <= attempts_max
 *   (4) a job that was never started and has no more than its creation to tell has more == NULL
 *
 * Memory: one allocation with the args at its end; `more` only once it was started, canceled or
 * has something to tell.  A pending job costs 112 bytes here, 16 in a heap, about 10 in the id
 * map and 8-16 of the allocator; `extra` only with options. */
#ifndef WEIR_STATE_JOB_H
#define WEIR_STATE_JOB_H

#include "base/heap.h"
#include "state/event.h"
#include "state/job_view.h"
#include "state/live.h"
#include "state/name.h"
#include "state/option.h"

#define JOB_TOKEN_BYTES 16
#define JOB_EVENTS_KEPT 100 /* LIMIT_EVENTS_KEPT; api/limits.c holds them together */

/* Numbers in the log.  WAITING is written as READY there: what keeps it follows from the rest. */
enum job_state { JOB_SCHEDULED, JOB_READY, JOB_LEASED, JOB_FINISHED, JOB_WAITING, JOB_HELD };

struct queue;
struct thing;

/* A string the job owns; NULL and 0 when there is none. */
struct job_text {
        char *ptr;
        uint32_t len;
};

struct job_more {
        uint8_t token[JOB_TOKEN_BYTES]; /* of the last lease */
        uint64_t fence;                 /* of the last lease; 0 = never leased */
        uint64_t claim;                 /* fence of the first job of the claim it was taken with */
        int64_t deadline_ns;            /* steady; of the lease, or the end of the grace */
        int64_t started_ms, finished_ms;
        struct name *worker;
        struct job_text progress, result, error;
        struct buf events;
        uint32_t lease_ms;
        uint16_t events_kept;
        bool is_lease_open; /* the last holder may still complete: nobody else was granted it */
        /* Not durable: it was handed to the archive, which may forget it instead (bulk.c). */
        _Atomic bool is_unwanted;
};

/* One of the jobs that a HELD job waits for. */
struct job_after {
        struct list link; /* on the state's list of all that wait for `id` */
        uint64_t id;
        struct job *job;
};

/* For jobs with options, and for those that were blocked once. */
struct job_extra {
        struct job_options options; /* texts are in `packed` */
        struct buf packed;
        struct job *job;
        struct thing *blocker;   /* of a WAITING job: it is on blocker->waiting */
        struct thing *cap;       /* of options.key */
        struct thing *schedule;  /* of options.schedule */
        struct list sibling;     /* on that schedule's jobs until it has ended */
        struct heap_node expiry; /* on state->expiring while it is pending and has an end */
        struct list unique;      /* among the jobs that want its unique key (links.c) */
        struct list parked;      /* on state->parked[] or ->returning[] while it waits there */
        struct job_after *after; /* n_after of them, all linked */
        size_t n_after;
        uint8_t parked_tier;    /* of the list it is on */
        bool is_returning;      /* that list is one of state->returning[] */
        struct thing *batch;    /* the one it counts for; NULL: none, or none any more */
        struct list batch_link; /* on its list of jobs that have not ended, or that have: */
        bool is_batch_ended;
};

struct job {
        struct live live;
        struct heap_node node; /* .id is the job's id; on at most one heap */
        struct queue *queue;
        struct name *hook;
        struct name *group; /* NULL = none */
        struct job_more *more;
        struct job_extra *extra;
        int64_t created_ms;
        int64_t due_ms;
        uint32_t args_len;
        uint32_t timeout_ms; /* 0 = the default lease */
        uint16_t attempt, attempts_max;
        uint8_t priority;
        uint8_t state;   /* enum job_state */
        uint8_t outcome; /* enum job_status, when FINISHED */
        uint8_t flags;   /* JOB_FLAG_* */
        char args[];
};

#define JOB_FLAG_TIMED 1 /* due at a wall-clock time (AT): on state->timed, not ->delayed */
#define JOB_FLAGS_ALL  1
/* Not durable: which tier a running job was started as, for the counts of the gate. */
#define JOB_FLAG_TIERED     0x80
#define JOB_FLAG_TIER_SHIFT 5
#define JOB_FLAG_TIER       (3 << JOB_FLAG_TIER_SHIFT)

/* NULL without memory: the args are as long as a client made them. */
struct job *job_new(uint64_t id, struct slice args);
void job_free(struct job *job, struct name_table *names);

struct job_more *job_more(struct job *job);   /* made when missing */
struct job_extra *job_extra(struct job *job); /* made when missing */
/* Replaces all options by these; they are copied. */
void job_set_options(struct job *job, const struct job_options *options);
/* A job with other args takes over everything else of `old`, which is then only fit to be freed.
 * Neither is on a heap; the caller moves the live link. */
void job_replace(struct job *job, struct job *old);
void job_text_set(struct job_text *t, struct slice s);
void job_tell(struct job *job, enum event_type type, int64_t wall_ms, struct slice message);

/* The gate makes it wait, or the ramp has let it go and it waits for its moment. */
bool job_is_parked(const struct job *job);
bool job_is_returning(const struct job *job);
/* How long the gate has made it wait in all, with the wait that is going on. */
uint64_t job_deferred_ms(const struct job *job, int64_t steady_ns);
/* That wait is over: its time counts. */
void job_leave_gate(struct job *job, int64_t steady_ns);

enum job_status job_status(const struct job *job);
/* Safe on another thread while the job is FINISHED and with the archive. */
void job_view(const struct job *job, struct job_view *ret);
/* Bytes of its full record, about: what keeping it costs in the log. */
size_t job_weight(const struct job *job);
void job_check(const struct job *job);

static inline uint64_t job_id(const struct job *job)
{
        return job->node.id;
}

/* Order in a queue: priority, then attempts used, then due, then id (the heap's tie-break).
 * 8 + 10 + 46 bits: 46 bits of ms reach the year 4199.  A job that comes back from the gate has the
 * place it had before: newer ones do not overtake it. */
static inline uint64_t job_ready_key(const struct job *job)
{
        uint64_t due = (uint64_t)job->due_ms;
        if (job->extra && job->extra->options.parked_due)
                due = job->extra->options.parked_due;
        due &= (1ULL << 46) - 1;
        return (uint64_t)job->priority << 56 | (uint64_t)job->attempt << 46 | due;
}
static inline uint64_t job_due_of_key(uint64_t ready_key)
{
        return ready_key & ((1ULL << 46) - 1);
}

#endif

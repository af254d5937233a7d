/* A circuit breaker as a thing: a circuit (state/circuit.h) with a name.
 *
 * Names: `queue:NAME` stands before every start of a job of that queue; any other name before the
 * jobs that carry it as their target, and before clients that ask.
 *
 * Ask ids are fence numbers: they grow for ever, over all breakers and jobs.  A job's ask is the
 * fence of its lease.  A client's ask takes a fence of its own, and is a SET and not a NOTE, since
 * a NOTE may be skipped in replay and the number would be given out twice.
 *
 * The body of its SET: flags u8 (1 = passing, 2 = handler failures count), salt u64, probe_job,
 * reason, number of reports and their ask ids (oldest first), then the packed circuit.
 * Its NOTEs: an op u8, then, at the time of the batch's CLOCK,
 *      ASK      id, job id: the job starts
 *      END      id, outcome u8, is_report u8: how the ask ended
 *      EXPIRE   one step of what is due
 *      PROBE    deadline_ns: the job that is the probe lives on, as long as its lease
 *      FORCE    what u8, reason
 *
 * Invariants, checked by its check():
 *   (1) the circuit passes circuit_check
 *   (2) probe_job is 0 unless a probe lives */
#ifndef WEIR_STATE_BREAKER_H
#define WEIR_STATE_BREAKER_H

#include "state/circuit.h"
#include "state/thing.h"

#define BREAKER_QUEUE_PREFIX "queue:"
/* The last reports that are known again when a client repeats them. */
#define BREAKER_REPORTS 32
/* A breaker made by an ask is forgotten after this long without use: */
#define BREAKER_QUIET_NS (3600 * NS_PER_S)  /* closed, and no failure counts */
#define BREAKER_STALE_NS (86400 * NS_PER_S) /* otherwise */
/* A job let go as the probe that has not started: after this long another may try. */
#define BREAKER_LET_NS NS_PER_S

/* Numbers in the log. */
enum breaker_op {
        BREAKER_OP_ASK = 1,
        BREAKER_OP_END = 2,
        BREAKER_OP_EXPIRE = 3,
        BREAKER_OP_PROBE = 4,
        BREAKER_OP_FORCE = 5,
};
enum ask_end { ASK_GOOD, ASK_BAD, ASK_CANCELED };

struct breaker {
        struct thing thing;
        struct circuit circuit;
        bool is_passing;      /* made by an ask: forgotten again when nobody uses it */
        bool counts_handlers; /* of a queue: failures of handlers count too */
        bool is_of_queue;     /* from the name */
        uint64_t salt;        /* of its tokens */
        uint64_t probe_job;   /* the job that is the living probe; 0 = a client, or none */
        uint64_t reported[BREAKER_REPORTS]; /* ask ids, the oldest first */
        uint32_t n_reported;
        struct buf reason; /* what the operator said when it was last forced */
};

static inline struct breaker *breaker_of(struct thing *t)
{
        return CONTAINER_OF(t, struct breaker, thing);
}

/* What a SET holds: some fields taken from here, the rest from `from`, which may be NULL. */
struct breaker_body {
        const struct breaker *from;
        const struct circuit *circuit;
        uint64_t salt;
        uint64_t probe_job;
        bool is_passing, counts_handlers;
};
void breaker_put(const struct breaker_body *b, struct buf *body);

bool breaker_is_reported(const struct breaker *b, uint64_t ask_id);
/* When a passing one is to be forgotten, if nobody uses it; INT64_MAX: never. */
int64_t breaker_forget_ns(const struct breaker *b);
/* Sets the alarm for what comes next. */
void breaker_arm(struct state *s, struct breaker *b, int64_t now_ns);

#endif

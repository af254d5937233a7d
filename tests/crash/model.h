/* What the clients were told, and what therefore may be true.
 *
 * Every job has a set of statuses it may be in (a mask).  An answer narrows the set to one; an
 * operation sent and never answered widens it; the passing of a lease's earliest end widens it as
 * well.  After a restart the server's own account must lie within the set, and narrows it.
 *
 * Order between connections: replies of two connections may be read in another order than the
 * server made them, so nothing is concluded from reading order.  Two facts are used instead: the
 * fence of a grant (it grows with every grant), and "sent after the other was answered". */
#ifndef CRASH_MODEL_H
#define CRASH_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum may_be {
        MAY_PENDING = 1,
        MAY_RUN = 2,
        MAY_COMPLETE = 4,
        MAY_FAIL = 8,
        MAY_CANCEL = 16,
        MAY_NOT_EXIST = 32,
};
#define MAY_BE_OVER (MAY_COMPLETE | MAY_FAIL | MAY_CANCEL | MAY_NOT_EXIST)

#define QUEUE_COUNT 4
#define QUEUE_SIDE  3 /* the one that is paused and resumed */
extern const char *const queue_names[QUEUE_COUNT];

#define TOKEN_CHARS 32
#define PAYLOAD_MAX 20000

struct told_job {
        uint64_t id;          /* 0 until known */
        uint64_t fence;       /* of the newest grant anybody knows of */
        uint64_t done_fence;  /* of the lease under which COMPLETE was answered; 0 = none */
        int64_t lease_end_us; /* the newest lease lasts at least until here (our steady time) */
        int64_t over_us;      /* when it was known to be over; 0 = not */
        uint32_t claim;       /* which CLAIM holds or held it last; 0 = none */
        uint32_t bulk;        /* which ENQUEUEMANY brought it; 0 = none */
        uint16_t attempt;     /* starts so far, as last heard */
        uint8_t may, attempts, queue, priority;
        bool is_acked;    /* the enqueue was answered */
        bool is_given_up; /* COMPLETE, FAIL or RELEASE was sent under the newest lease */
        bool is_cancel_sent;
        bool is_far;     /* delayed by an hour: only ever canceled */
        bool is_touched; /* on the list of this cycle */
        bool has_token;  /* we know the token of the newest lease */
        char token[TOKEN_CHARS];
};

enum claim_fate { CLAIM_SENT, CLAIM_ANSWERED, CLAIM_IN_DOUBT };
struct told_claim {
        int64_t sent_us;
        int64_t lost_us; /* in doubt: the server was dead by then; it granted nothing later */
        uint32_t lease_ms;
        uint16_t max, seen; /* seen: jobs found under a claim in doubt */
        uint8_t fate;
        uint8_t queues;      /* bit set */
        bool side_is_paused; /* PAUSE of the side queue was answered before this was sent */
};

struct tally {
        uint64_t acked;   /* acknowledged operations, one per job changed */
        uint64_t checked; /* comparisons of a job against the server's account */
        uint64_t lost, doubled, invented, wrong;
        uint64_t in_doubt, found, not_found; /* enqueues never answered, and how they ended */
};
extern struct tally tally;

struct model;
extern struct told_job *jobs; /* by nonce; jobs[0] is unused */
extern uint64_t n_jobs;       /* highest nonce + 1 */
extern struct told_claim *claims;
extern uint32_t n_claims;
extern uint64_t max_id, max_fence; /* ever heard of */
extern uint64_t fence_floor;       /* every grant of this cycle must be above */

int64_t steady_us(void);

/* Dice, seeded once. */
void dice_seed(uint64_t seed);
uint64_t dice(void);
uint32_t dice_below(uint32_t n);

enum fault { LOST, DOUBLED, INVENTED, WRONG };
void complain(enum fault fault, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool is_all_well(void);

uint64_t job_new(uint8_t queue, uint8_t attempts, uint8_t priority, bool is_far);
uint32_t claim_new(uint8_t queues, uint16_t max, uint32_t lease_ms);
void job_touch(uint64_t nonce);
size_t touched_take(uint64_t **ret); /* the list of this cycle; the caller frees it */

/* The payload of a nonce: always the same bytes. */
size_t payload_make(uint64_t nonce, char *ret);
uint64_t payload_nonce(const char *ptr, size_t len); /* 0 when these are not exactly such bytes */

void job_set_id(uint64_t nonce, uint64_t id);
uint64_t job_by_id(uint64_t id);   /* nonce or 0 */
bool fence_is_new(uint64_t fence); /* remembers it */

/* Statuses that are possible now, the passing of leases counted in. */
uint8_t job_may(const struct told_job *j, int64_t now_us);
void job_settle(uint64_t nonce, uint8_t may);

#endif

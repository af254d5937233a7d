/* What is shared by asking (ask.c), hearing the answer (answer.c) and the sockets (load.c). */
#ifndef CRASH_OPS_H
#define CRASH_OPS_H

#include "model.h"
#include "resp.h"

#define LOAD_CONNECTIONS 8
#define PIPELINE         32
#define HELD_MAX         64
#define OPEN_MAX         4000 /* enough for order and depth to matter, few enough to check often */
#define BULK_MAX         20

enum op_type {
        OP_ENQUEUE,
        OP_ENQUEUE_MANY,
        OP_CLAIM,
        OP_COMPLETE,
        OP_COMPLETE_CLAIM,
        OP_FAIL,
        OP_RELEASE,
        OP_EXTEND,
        OP_PROGRESS,
        OP_CANCEL,
        OP_STALE, /* COMPLETE under a lease that somebody else was granted since */
        OP_JOB,
        OP_PAUSE,
        OP_RESUME,
};

struct op {
        enum op_type type;
        uint64_t nonce; /* the job, or the first of a bulk */
        uint64_t fence; /* of the lease it was sent under */
        uint32_t claim;
        uint32_t n; /* bulk: jobs; extend: ms */
        int64_t sent_us;
        uint8_t may_before;
};

/* A lease as its holder remembers it; a newer grant of the job makes it stale. */
struct held {
        uint64_t nonce, fence;
        char token[TOKEN_CHARS];
};

struct conn {
        int fd;
        struct bytes in, out;
        struct op ops[PIPELINE];
        unsigned head, len, target;
        struct held held[HELD_MAX];
        unsigned n_held;
};

extern struct conn conns[LOAD_CONNECTIONS];
extern uint64_t n_open; /* jobs not over, about */

/* The side queue: what the last answer said, whether that can be relied on, whether a request
 * about it is under way, and when RESUME was last sent. */
struct side {
        bool is_paused, is_known, is_busy;
        int64_t resume_us;
};
extern struct side side;

/* The lease of the job, as known now, goes on the connection's list. */
void conn_hold(struct conn *c, uint64_t nonce);

/* Something a client might want now; may add no request at all. */
void ask_something(struct conn *c);
/* The answer to `op`, which is the whole of `tree`. */
void answer_take(struct conn *c, const struct op *op, const struct reply_tree *tree);

/* One row of a CLAIM's answer at index `at`; the job, or 0 when it is none of ours or a newer
 * grant of it is known. */
uint64_t answer_grant(const struct reply_tree *tree, size_t at, uint32_t claim);
void answer_complete(const struct op *op, const struct node *answer);
/* What a FAIL by the holder makes of the job. */
uint8_t may_after_fail(const struct told_job *j);

#endif

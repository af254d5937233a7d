/* What clients were told, and so may count on: every reply is a saying, which becomes a promise
 * when its batch is durable. */
#ifndef WEIR_TESTS_SIM_MODEL_H
#define WEIR_TESTS_SIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOBS_MAX     9000
#define SAID_MAX     512
#define ARGS_UNKNOWN SIZE_MAX       /* some of the payload */
#define ARGS_OTHER   (SIZE_MAX - 1) /* none of it */

enum told { T_NOTHING, T_ENQUEUED, T_ENDED };

struct promise {
        enum told told;
        int status; /* enum job_status when T_ENDED */
        size_t args_len;
        char token[33];        /* of the last lease that was told */
        bool is_held;          /* by the client, as far as it knows */
        int64_t held_until_ns; /* steady */
};

/* What a reply says, to be believed when its batch is durable. */
struct saying {
        enum { S_ENQUEUED, S_GRANTED, S_ENDED, S_RETURNED, S_EXTENDED } what;
        uint64_t id, fence;
        int status;
        char token[33];
        int64_t until_ns;
};

struct model {
        struct promise jobs[JOBS_MAX + 1]; /* by id */
        struct saying said[SAID_MAX];
        size_t n_said, n_flying; /* of the batch in flight: the first n_flying */
        uint64_t fence;          /* the largest that was told */
        uint64_t n_told;
};

struct saying *model_say(struct model *m);
/* All that was said so far is in the batch that goes to the disk now. */
void model_fly(struct model *m);
/* That batch is durable. */
void model_believe(struct model *m);
/* The process ends, and with it whatever was said and is not durable. */
void model_die(struct model *m);
/* By what its client was told, or will be. */
bool model_is_held(const struct model *m, uint64_t id, int64_t now_ns);

#endif

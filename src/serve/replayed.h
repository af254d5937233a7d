/* A log as a state, read from outside: what a start from it would find. */
#ifndef WEIR_SERVE_REPLAYED_H
#define WEIR_SERVE_REPLAYED_H

#include "base/err.h"
#include "state/state.h"

struct replayed {
        struct state state;
        uint64_t last_seq; /* of the last batch */
        uint64_t jobs;     /* that live; after the end */
        struct problem *problem;
};

void replayed_init(struct replayed *r, struct problem *problem);
void replayed_release(struct replayed *r);                            /* all zeros is fine */
int replayed_batch(void *replayed, uint64_t seq, struct slice batch); /* a log_read_fn */
int replayed_end(struct replayed *r) MUST_CHECK;

#endif

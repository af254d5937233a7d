/* Randomness as a value: the system's for the daemon, a seeded one for simulations.
 * Not thread-safe: one per thread. */
#ifndef WEIR_BASE_RAND_H
#define WEIR_BASE_RAND_H

#include "base/defs.h"

#define RNG_POOL_BYTES 4096

struct rng {
        bool is_seeded;
        uint64_t s[4];  /* xoshiro256**, when seeded */
        size_t pool_at; /* bytes of the pool already given out, when not */
        uint8_t pool[RNG_POOL_BYTES];
};

void rng_init_system(struct rng *r);              /* getrandom(2), a pool at a time */
void rng_init_seed(struct rng *r, uint64_t seed); /* repeatable; for tests and simulation */
void rng_fill(struct rng *r, void *ret, size_t n);
uint64_t rng_u64(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* uniform in [0, n), n > 0 */
double rng_unit(struct rng *r);                /* uniform in [0, 1) */

#endif

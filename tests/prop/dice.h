/* What the property tests share: a seed that is printed and can be given, and how long to run.  A
 * run that is told nothing is always the same one; the outer ring gives new seeds and more rounds.
 *
 *      WEIR_SEED=7 build/asan/tests/prop/prop_heap     repeats the run of seed 7
 *      WEIR_ROUNDS=100 ...                             runs 100 times as long */
#ifndef WEIR_TESTS_PROP_DICE_H
#define WEIR_TESTS_PROP_DICE_H

#include <stdio.h>
#include <stdlib.h>

#include "base/rand.h"
#include "base/slice.h"

static inline uint64_t dice_env(const char *name, uint64_t fallback)
{
        const char *text = getenv(name);
        uint64_t v;

        return text && slice_to_u64(slice_str(text), &v) ? v : fallback;
}

/* Seeds the dice, says so, and returns the seed. */
static inline uint64_t dice_init(struct rng *r, const char *test)
{
        uint64_t seed = dice_env("WEIR_SEED", 1);

        (void)printf("# %s: WEIR_SEED=%llu\n", test, (unsigned long long)seed);
        (void)fflush(stdout);
        rng_init_seed(r, seed);
        return seed;
}

/* n, or as many times n as WEIR_ROUNDS says. */
static inline uint64_t dice_rounds(uint64_t n)
{
        return n * dice_env("WEIR_ROUNDS", 1);
}

/* Plays that many rounds, each from a seed of its own that is printed before; WEIR_SEED is the
 * first one, else 1. */
static inline void dice_play(uint64_t n, void (*play)(uint64_t seed))
{
        uint64_t seed = dice_env("WEIR_SEED", 1), rounds = dice_rounds(n);

        for (uint64_t i = 0; i < rounds; i++) {
                (void)printf("seed %llu\n", (unsigned long long)(seed + i));
                (void)fflush(stdout); /* a round may end the process */
                play(seed + i);
        }
}

#endif

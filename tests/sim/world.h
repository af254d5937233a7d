/* One weir in virtual time: core and log on a disk that forgets, from one start to the next, and
 * what its clients were told. */
#ifndef WEIR_TESTS_SIM_WORLD_H
#define WEIR_TESTS_SIM_WORLD_H

#include "base/rand.h"
#include "core/kernel.h"
#include "sim/late_log.h"
#include "sim/model.h"
#include "support/memory_archive.h"
#include "support/sim_disk.h"
#include "support/text_reply.h"

struct world {
        struct late_log log;
        struct sim_disk disk;
        struct memory_archive archive;
        struct rng dice, rng;
        struct core *core;
        struct arena arena;
        struct session session, bulk; /* the second one is for commands that take many turns */
        struct text_reply reply;
        struct now now;
        struct model model;
        uint64_t n_grants, n_cut;
        uint64_t digest_durable, digest_flying, digest_born;
        bool has_failed;
        char payload[4096];
};

void world_init(struct world *w, uint64_t seed);
void world_release(struct world *w);
/* A start from what the disk has. */
void world_be_born(struct world *w);
void world_die(struct world *w);
/* Closes the batch unless one is in flight. */
void world_commit(struct world *w);

static inline uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

#endif

/* What must hold after each start; sim_core.c numbers it. */
#ifndef WEIR_TESTS_SIM_CHECKS_H
#define WEIR_TESTS_SIM_CHECKS_H

#include "sim/world.h"

void check_after_start(const struct world *w);
/* (4), of a job that is being granted. */
void check_free(const struct world *w, uint64_t id);

#endif

/* What must hold after each start; sim_core.c numbers it. */
#ifndef WEIR_TESTS_SIM_CHECKS_H
#define WEIR_TESTS_SIM_CHECKS_H

#include "sim/world.h"

void check_after_start(const struct world *w);
/* No job of a crowd may run: what it comes after was canceled, or is still there. */
void check_crowd(const struct world *w);
/* Time has passed and nobody ended anything: who still waits for another waits for a live one. */
void check_followers(const struct world *w);
/* (4), of a job that is being granted. */
void check_free(const struct world *w, uint64_t id);

#endif

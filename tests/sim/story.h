/* What clients do: random commands, the passing of time, the archive at work. */
#ifndef WEIR_TESTS_SIM_STORY_H
#define WEIR_TESTS_SIM_STORY_H

#include "sim/world.h"

void story_step(struct world *w);
void story_time(struct world *w);

#endif

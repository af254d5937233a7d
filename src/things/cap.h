/* Caps in the core: how many jobs of one key or group may run at once (state/cap.h). */
#ifndef WEIR_THINGS_CAP_H
#define WEIR_THINGS_CAP_H

#include "core/kernel.h"

/* The cap that keeps this job from being started now, or NULL. */
struct thing *cap_block(const struct core *core, const struct job *job);

#endif

/* Threads that give way to the loop.
 *
 * The loop answers clients, and much of what it answers waits for no other thread.  When the
 * machine has no free core, a thread that wakes up takes the processor from the loop for as long as
 * its work takes: measured on one core with four writers, checks waited 120-170 us for the log's
 * thread instead of 35. */
#ifndef WEIR_BASE_BACKGROUND_H
#define WEIR_BASE_BACKGROUND_H

#include "base/defs.h"

/* The calling thread does not take the processor from a thread that runs when it is woken
 * (SCHED_BATCH); false: it does, as threads do. */
void background_set(bool is_background);

/* The calling thread also gets a smaller share when all cores are busy, about a third of the
 * loop's, so that its long work cuts no turn of the loop in two.  For good. */
void background_lower(void);

#endif

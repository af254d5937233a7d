/* How long turns hold the loop, without the waits for the disk.
 *
 * Embedded; all zeros are a start.  The time is passed in, ns of a steady clock. */
#ifndef WEIR_LOOP_TURN_WATCH_H
#define WEIR_LOOP_TURN_WATCH_H

#include "base/defs.h"

#define TURN_SLOTS   7 /* the running one and a minute before it */
#define TURN_SLOT_NS (10ULL * NS_PER_S)
#define TURN_SLOW_NS (5ULL * NS_PER_MS)

struct turn_watch {
        uint64_t began_ns, waited_ns; /* of the turn under way */
        uint64_t slot;                /* number of the running one, since the start of the clock */
        uint64_t slot_end_ns;
        uint64_t max_ns[TURN_SLOTS]; /* the longest turn of each slot, by its number */
        uint64_t slow;               /* turns longer than TURN_SLOW_NS */
};

static inline void turn_watch_begin(struct turn_watch *t, uint64_t now_ns)
{
        t->began_ns = now_ns;
        t->waited_ns = 0;
}

/* Begins the slot of now_ns; slots in between had no turn. */
void turn_watch_next_slot(struct turn_watch *t, uint64_t now_ns);

static inline void turn_watch_end(struct turn_watch *t, uint64_t now_ns)
{
        uint64_t ns = now_ns - t->began_ns - t->waited_ns;
        if (now_ns >= t->slot_end_ns)
                turn_watch_next_slot(t, now_ns);
        if (ns > t->max_ns[t->slot % TURN_SLOTS])
                t->max_ns[t->slot % TURN_SLOTS] = ns;
        t->slow += ns > TURN_SLOW_NS;
}

/* The longest turn of the last minute. */
uint64_t turn_watch_max_ns(const struct turn_watch *t, uint64_t now_ns);

#endif

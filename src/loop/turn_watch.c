#include "loop/turn_watch.h"

void turn_watch_next_slot(struct turn_watch *t, uint64_t now_ns)
{
        uint64_t slot = now_ns / TURN_SLOT_NS;
        for (size_t n = 0; t->slot < slot && n < TURN_SLOTS; n++)
                t->max_ns[++t->slot % TURN_SLOTS] = 0;
        t->slot = slot;
        t->slot_end_ns = (slot + 1) * TURN_SLOT_NS;
}

uint64_t turn_watch_max_ns(const struct turn_watch *t, uint64_t now_ns)
{
        struct turn_watch copy = *t;
        uint64_t max = 0;
        turn_watch_next_slot(&copy, now_ns);
        for (size_t i = 0; i < TURN_SLOTS; i++)
                max = copy.max_ns[i] > max ? copy.max_ns[i] : max;
        return max;
}

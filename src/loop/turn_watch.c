#include "loop/turn_watch.h"

static void forget_old_turns(struct turn_watch *t, uint64_t now_ns)
{
        uint64_t slot = now_ns / TURN_SLOT_NS;
        for (size_t n = 0; t->slot < slot && n < TURN_SLOTS; n++)
                t->max_ns[++t->slot % TURN_SLOTS] = 0;
        t->slot = slot;
}

void turn_watch_end(struct turn_watch *t, uint64_t now_ns)
{
        uint64_t ns = now_ns - t->began_ns - t->waited_ns;
        forget_old_turns(t, now_ns);
        if (ns > t->max_ns[t->slot % TURN_SLOTS])
                t->max_ns[t->slot % TURN_SLOTS] = ns;
        t->slow += ns > TURN_SLOW_NS;
}

uint64_t turn_watch_max_ns(const struct turn_watch *t, uint64_t now_ns)
{
        struct turn_watch copy = *t;
        uint64_t max = 0;
        forget_old_turns(&copy, now_ns);
        for (size_t i = 0; i < TURN_SLOTS; i++)
                max = copy.max_ns[i] > max ? copy.max_ns[i] : max;
        return max;
}

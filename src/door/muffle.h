/* Lines of the log that a peer can cause: one a minute, with a count of those left out.
 *
 * Embedded; all zeros have said nothing yet.  The time is passed in. */
#ifndef WEIR_DOOR_MUFFLE_H
#define WEIR_DOOR_MUFFLE_H

#include "base/defs.h"

#define MUFFLE_NS (60 * NS_PER_S)

struct muffle {
        int64_t said_ns; /* steady; 0 = never */
        uint64_t n;      /* times since then */
};

/* It happened once more.  How often since the last line, when it is time for another; 0: say
 * nothing. */
static inline uint64_t muffle_count(struct muffle *m, int64_t now_ns)
{
        uint64_t n = ++m->n;
        if (m->said_ns && now_ns - m->said_ns < MUFFLE_NS)
                return 0;
        m->said_ns = now_ns ? now_ns : 1;
        m->n = 0;
        return n;
}

#endif

/* When freed memory is given back to the system.
 *
 * malloc keeps what was freed, so after a drain the process stays as large as it ever was.
 * malloc_trim() gives whole free pages back, for about 0.1 ms a megabyte, and the loop waits for
 * it: so it is called while memory falls, for some megabytes at a time, and not for what comes and
 * goes.
 *
 * Embedded; all zeros are a start.  The time is passed in, steady ns. */
#ifndef WEIR_LOOP_TRIM_H
#define WEIR_LOOP_TRIM_H

#include "base/defs.h"

#define TRIM_LOOK_MS 1000            /* between two looks, while memory has fallen */
#define TRIM_BYTES   (16 * MIB)      /* freed since the last time: worth it at once, */
#define TRIM_SHARE   8               /* when it is also this part of what is in use */
#define TRIM_LEAST   MIB             /* and this is worth it after */
#define TRIM_LATE_NS (30 * NS_PER_S) /* so long */

struct trim {
        uint64_t high_bytes; /* the most in use since the last trim */
        int64_t fell_ns; /* when it was first seen that there is something to give; 0: nothing */
};

/* So much is in use now.  True: look again in TRIM_LOOK_MS. */
static inline bool trim_note(struct trim *t, uint64_t bytes)
{
        if (bytes > t->high_bytes)
                t->high_bytes = bytes;
        return t->high_bytes - bytes >= TRIM_LEAST;
}

/* A look.  True: give back what was freed. */
bool trim_look(struct trim *t, uint64_t bytes, int64_t now_ns);

#endif

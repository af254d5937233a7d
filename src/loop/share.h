/* What one connection may do before the others have their go.
 *
 * A turn has a bounded amount of work, in commands and in bytes, and it is shared equally by the
 * connections that had something to do in the turn before; when it ended before all of them had a
 * go, by as many as before.  One that has used its share goes to the end of the round.  A turn also
 * ends after SHARE_NS of reading and as much of running, so that input of others is looked at.
 *
 * Loop thread only; the time is passed in, in ns of a steady clock. */
#ifndef WEIR_LOOP_SHARE_H
#define WEIR_LOOP_SHARE_H

#include "base/defs.h"

/* A client alone runs all that one read brings; hundreds have a few dozen commands each, so that a
 * round of them takes milliseconds.  A share below the least costs more to begin than to run. */
#define SHARE_TURN_COMMANDS  8192
#define SHARE_LEAST_COMMANDS 16
#define SHARE_TURN_BYTES     (8 * MIB)
#define SHARE_MOST_BYTES     MIB
#define SHARE_LEAST_BYTES    (8 * KIB)
#define SHARE_NS             2000000ULL
/* The clock is looked at after so many commands, or so many bytes. */
#define SHARE_LOOK_COMMANDS 32
#define SHARE_LOOK_BYTES    (64 * KIB)

struct share {
        uint32_t turn;       /* its number */
        unsigned n_active;   /* connections that had something to do in it, */
        unsigned n_sharing;  /* and those that the shares were made for */
        uint32_t commands;   /* a connection's share: requests it may run, */
        uint32_t bytes;      /* bytes of input and of output, */
        uint32_t read_bytes; /* and bytes that are read from it */
        uint64_t until_ns;
        bool is_over;                       /* no further request is run; set by share_look() */
        uint32_t look_commands, look_bytes; /* since the clock was looked at */
};

void share_begin(struct share *s, uint64_t now_ns);  /* a turn: reading */
void share_extend(struct share *s, uint64_t now_ns); /* its second part: running */
void share_look(struct share *s, uint64_t now_ns);

/* The connection has something to do; *seen is its own, 0 at first.  True the first time in a turn.
 */
static inline bool share_enter(struct share *s, uint32_t *seen)
{
        if (*seen == s->turn)
                return false;
        *seen = s->turn;
        s->n_active++;
        return true;
}

/* A request was run, with so many bytes in and out.  True: look at the clock. */
static inline bool share_spend(struct share *s, size_t bytes)
{
        s->look_commands++;
        s->look_bytes += (uint32_t)(bytes < SHARE_LOOK_BYTES ? bytes : SHARE_LOOK_BYTES);
        return s->look_commands >= SHARE_LOOK_COMMANDS || s->look_bytes >= SHARE_LOOK_BYTES;
}

#endif

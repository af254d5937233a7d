/* A reply as bytes, to be given again: the recorder writes down what a command says while it says
 * it, and the player says it to any other reply, whatever its encoding.
 *
 *      struct tape tape;
 *      tape_init(&tape, reply, &bytes);        bytes.max bounds it
 *      exec(..., &tape.reply, ...)             reaches `reply` as well
 *      if (!bytes.failed && !tape.is_error) keep(bytes);
 *      ...
 *      tape_play(kept, other_reply);
 */
#ifndef WEIR_CORE_ANSWER_TAPE_H
#define WEIR_CORE_ANSWER_TAPE_H

#include "api/reply.h"
#include "base/buf.h"

struct tape {
        struct reply reply; /* what the command talks to */
        struct reply *to;   /* and who hears it at once */
        struct buf *bytes;  /* not owned; appended to */
        bool is_error;      /* the reply was an error, which is not on the tape: */
        struct problem problem;
};

void tape_init(struct tape *t, struct reply *to, struct buf *bytes);

/* False, with nothing said: these bytes are no tape.  Keys and names given to `to` are borrowed
 * from the bytes. */
bool tape_play(struct slice bytes, struct reply *to) MUST_CHECK;

#endif

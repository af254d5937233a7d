/* What the core knows of a connection: who it is and whether it waits.
 *
 * Embedded in a door's connection.  While session_is_waiting() the door must not execute another
 * command of this connection.  When the answer is there, the core calls ops->reply_begin (the
 * door hands out its encoder), writes the reply, and calls ops->reply_end.  A door that closes
 * calls session_release(), which ends a wait without an answer. */
#ifndef WEIR_API_SESSION_H
#define WEIR_API_SESSION_H

#include "api/reply.h"
#include "base/list.h"

struct core;
struct session;
struct session_wait; /* a blocked CLAIM or a query of the archive; owned by the core */

struct session_ops {
        struct reply *(*reply_begin)(struct session *s);
        void (*reply_end)(struct session *s);
};

struct session {
        const struct session_ops *ops;
        char address[46];          /* of the peer, without its port; "" for a unix socket */
        bool is_authenticated;     /* it has shown the token */
        struct session_wait *wait; /* NULL when not waiting */
        bool is_free; /* the late reply depends on nothing in the log: it may leave at once */
};

void session_init(struct session *s, const struct session_ops *ops);
void session_release(struct core *core, struct session *s);

static inline bool session_is_waiting(const struct session *s)
{
        return s->wait != NULL;
}

#endif

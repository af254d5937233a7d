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
struct grant;
struct session;
struct session_audit; /* core/audit_exec.c */
struct session_wait;  /* a blocked CLAIM or a query of the archive; owned by the core */

struct session_ops {
        struct reply *(*reply_begin)(struct session *s);
        void (*reply_end)(struct session *s);
};

/* How a client came in; the first is weir itself. */
enum session_door { SESSION_OWN, SESSION_RESP, SESSION_HTTP, SESSION_PAGE };

struct session {
        const struct session_ops *ops;
        char address[46];          /* of the peer, without its port; "" for a unix socket */
        bool is_authenticated : 1; /* it has shown a token */
        bool is_free : 1; /* the late reply depends on nothing in the log: it may leave at once */
        bool is_partial : 1; /* the error that it is told next comes after a part was done */
        uint8_t door;        /* enum session_door */
        struct grant *grant; /* what that token allows; NULL: everything */
        struct session_audit *audit; /* what a late answer is to be written into; else NULL */
        struct session_wait *wait;   /* NULL when not waiting */
};

void session_init(struct session *s, const struct session_ops *ops);
void session_release(struct core *core, struct session *s);
/* Takes a reference of its own; NULL: none. */
void session_set_grant(struct session *s, struct grant *grant);

static inline const char *session_door_name(const struct session *s)
{
        static const char *const names[] = {"", "resp", "http", "page"};
        return names[s->door];
}

static inline bool session_is_waiting(const struct session *s)
{
        return s->wait != NULL;
}

#endif

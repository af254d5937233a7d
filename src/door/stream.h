/* GET /v1/live: what weir does, second by second, sent to every listener (server-sent events).
 *
 * Invariants, checked by stream_check():
 *   (1) n is the number of listeners, at most LIMIT_LIVE
 *   (2) the timer is on exactly while there are listeners
 *   (3) told <= core_n_events() */
#ifndef WEIR_DOOR_STREAM_H
#define WEIR_DOOR_STREAM_H

#include "api/session.h"
#include "base/buf.h"
#include "base/list.h"
#include "loop/loop.h"

struct server;
struct conn;
struct login_session;

#define STREAM_BEAT_MS    1000
#define STREAM_HELLO      15 /* beats between two comments, which keep a proxy from closing */
#define STREAM_UNSENT_MAX (256 * KIB) /* output of a listener that it has not read */

struct stream {
        struct list listeners;
        size_t n;
        struct loop_timer timer; /* on while there are listeners */
        unsigned beats;          /* of the timer */
        uint64_t told;           /* events of the gate that the listeners know */
        struct session session;
        struct buf frame; /* what all are about to get */
};

void stream_init(struct server *s);
void stream_release(struct server *s);
void stream_check(const struct server *s);

/* The head of the answer was written to the connection; from here on it gets the stream.
 * last_id: what it had already, the value of Last-Event-ID; may be empty.  login: the session that
 * let it in, and with which it goes; may be NULL.  At most LIMIT_LIVE. */
void stream_join(struct server *s, struct conn *c, struct slice last_id,
                 const struct login_session *login);
void stream_leave(struct server *s, const struct conn *c); /* it listens and is being closed */

#endif

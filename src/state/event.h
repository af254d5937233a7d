/* The story of a job: what happened, when, by whom, and what was said.
 *
 * Packed, oldest first, so that a waiting job costs nothing for it:
 *
 *      type u8 | wall_ms - created_ms as zigzag varint | worker lv | message lv
 *
 * "created" is not stored: it is the job's created_ms.  At most LIMIT_EVENTS_KEPT stay; when
 * more come, the oldest are dropped and a "dropped" event in front counts them in its message. */
#ifndef WEIR_STATE_EVENT_H
#define WEIR_STATE_EVENT_H

#include "base/bytes.h"

#define EVENT_MAP(X)                                                                               \
        X(CREATED, "created")                                                                      \
        X(STARTED, "started")                                                                      \
        X(COMPLETED, "completed")                                                                  \
        X(FAILED, "failed")                                                                        \
        X(TIMED_OUT, "timed out")                                                                  \
        X(RELEASED, "released")                                                                    \
        X(CANCELED, "canceled")                                                                    \
        X(DEFERRED, "deferred")                                                                    \
        X(RETRIED, "retried")                                                                      \
        X(DROPPED, "dropped")                                                                      \
        X(RETIERED, "retiered")                                                                    \
        X(GIVEN_UP, "given up")                                                                    \
        X(RETURNING, "returning")                                                                  \
        X(MADE_DUE, "made due")

enum event_type {
#define X(name, text) EVENT_##name,
        EVENT_MAP(X)
#undef X
                EVENT_COUNT
};

struct event {
        enum event_type type;
        int64_t wall_ms;
        struct slice worker, message;
};

const char *event_name(enum event_type type);
int event_from_name(struct slice name); /* -1 when there is no such event */

void event_pack(struct buf *b, const struct event *e, int64_t created_ms);
/* Takes the next event off *rest; false at the end or on bytes that are no event. */
bool event_next(struct slice *rest, int64_t created_ms, struct event *ret);
/* Takes e off the front of *rest when the bytes there are exactly those that event_pack() writes;
 * else false, and *rest is anywhere. */
bool event_skip(struct slice *rest, const struct event *e, int64_t created_ms);
size_t event_count(struct slice packed);

#endif

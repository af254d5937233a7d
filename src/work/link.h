/* A connection to weir that comes back by itself.
 *
 * Requests are answered in order.  Whatever was asked and not answered when the connection is
 * lost is answered with v == NULL: whether the server did it is not known, and asking again is
 * the asker's decision.  Loop thread only. */
#ifndef WEIR_WORK_LINK_H
#define WEIR_WORK_LINK_H

#include <uv.h>

#include "base/rand.h"
#include "base/say.h"
#include "wire/resp_reply.h"
#include "wire/server_url.h"

struct link;

/* err is OK, or the server's error with v the error line; v is NULL when the link was lost.
 * Everything is borrowed until the function returns. */
typedef void (*link_reply_fn)(void *ctx, int err, const struct value *v, const struct problem *p);

/* How a request is answered.  No answer within `ms` means the connection is lost. */
struct link_answer {
        link_reply_fn fn;
        void *ctx;
        int64_t ms;
};

/* A number as a word of a request.  The digits live until the end of the block. */
#define LINK_INT(n) slice_str(say_i64((char[24]){0}, (n)))

struct link_owner {
        void *ctx;
        void (*up)(void *ctx); /* greeted: requests may be sent */
        /* Not or no longer connected; it will be tried again in wait_ms. */
        void (*down)(void *ctx, const struct problem *why, int64_t wait_ms);
};

/* url, name and rng are borrowed for the link's life.  Dials at once. */
struct link *link_new(uv_loop_t *loop, const struct server_url *url, const char *name,
                      struct rng *rng, const struct link_owner *owner);
bool link_is_up(const struct link *l);
/* Only while the link is up. */
void link_send(struct link *l, const struct slice *argv, size_t argc, struct link_answer answer);
/* Says that nothing more will be asked, takes the answers still coming, and ends: an answer that
 * was on its way is not lost, as it would be with link_close(). */
void link_finish(struct link *l);
bool link_is_finished(const struct link *l);
/* Ends at once; asked requests are not answered any more.  The link is gone for the caller. */
void link_close(struct link *l);

#endif

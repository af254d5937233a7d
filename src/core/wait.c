/* Waiting answers: a session that is to be answered later holds one session_wait.
 *
 * A wait is ended exactly once: by its answer, by its time, or by the peer going away.  The
 * classic mistake of blocked clients is a second owner; here the session points to the wait, the
 * wait to the session, and both pointers are cleared together in wait_end(). */
#include <stdlib.h>

#include "api/access.h"
#include "core/kernel.h"

void session_init(struct session *s, const struct session_ops *ops)
{
        *s = (struct session){.ops = ops};
}

void session_release(struct core *core, struct session *s)
{
        struct session_wait *w = s->wait;
        if (w) {
                w->ops->cancel(core, w);
                answer_cancel(s);
                audit_cancel(s);
        }
        ASSERT(!s->wait);
        s->grant = grant_unref(s->grant);
}

void session_set_grant(struct session *s, struct grant *grant)
{
        struct grant *old = s->grant;
        s->grant = grant_ref(grant);
        (void)grant_unref(old); /* NULL */
}

void wait_begin(struct core *core, struct session_wait *w, const struct wait_ops *ops,
                struct session *s)
{
        ASSERT(!s->wait);
        w->timer = (struct heap_node){.id = core->next_wait_id++, .pos = HEAP_NOWHERE};
        w->ops = ops;
        w->session = s;
        w->core = core;
        s->wait = w;
        core->n_waits++;
}

void wait_end(struct core *core, struct session_wait *w)
{
        if (heap_has(&w->timer))
                heap_remove(&core->waits, &w->timer);
        if (!w->session)
                return;
        ASSERT(w->session->wait == w);
        w->session->wait = NULL;
        w->session = NULL;
        core->n_waits--;
}

void wait_until(struct core *core, struct session_wait *w, int64_t steady_ns)
{
        heap_push(&core->waits, &w->timer, heap_key_i64(steady_ns));
}

/* Timers of the loop: libuv's, with the turn begun before the callback. */
#include "loop/loop_int.h"

static void on_timer(uv_timer_t *timer)
{
        struct loop_timer *t = timer->data;
        loop_turn_begin(t->loop);
        t->fn(t->ctx);
}

void loop_timer_init(struct loop *l, struct loop_timer *t, void (*fn)(void *ctx), void *ctx)
{
        t->loop = l;
        t->fn = fn;
        t->ctx = ctx;
        t->uv.data = t;
        (void)uv_timer_init(&l->uv, &t->uv); /* never fails */
}

void loop_timer_start(struct loop_timer *t, int64_t ms, int64_t repeat_ms)
{
        ASSERT(ms >= 0 && repeat_ms >= 0);
        /* Fails only on a handle that is closing. */
        (void)uv_timer_start(&t->uv, on_timer, (uint64_t)ms, (uint64_t)repeat_ms);
}

void loop_timer_hasten(struct loop_timer *t, int64_t ms)
{
        if (!loop_timer_is_on(t) || uv_timer_get_due_in(&t->uv) > (uint64_t)ms)
                loop_timer_start(t, ms, 0);
}

void loop_timer_stop(struct loop_timer *t)
{
        (void)uv_timer_stop(&t->uv); /* never fails */
}

bool loop_timer_is_on(const struct loop_timer *t)
{
        return uv_is_active((const uv_handle_t *)&t->uv);
}

/* Effects of named things, and their alarms: see state/thing.h. */
#include "core/kernel.h"

int thing_try_set(struct core *core, enum thing_kind kind, struct slice name, struct slice body,
                  struct problem *problem)
{
        struct effect e = {
                .type = EFFECT_THING_SET, .kind = (uint8_t)kind, .name = name, .body = body};
        return core_try_emit(core, &e, problem);
}

void thing_set(struct core *core, enum thing_kind kind, struct slice name, struct slice body)
{
        struct effect e = {
                .type = EFFECT_THING_SET, .kind = (uint8_t)kind, .name = name, .body = body};
        core_emit(core, &e);
}

void thing_note(struct core *core, struct thing *t, struct slice body)
{
        struct effect e = {
                .type = EFFECT_THING_NOTE, .kind = t->kind, .name = thing_name(t), .body = body};
        core_emit(core, &e);
}

void thing_gone(struct core *core, struct thing *t)
{
        struct effect e = {.type = EFFECT_THING_GONE, .kind = t->kind, .name = thing_name(t)};
        core_emit(core, &e);
}

static void ring(struct core *core, struct heap *alarms, int64_t now)
{
        for (int n = 0; core_may_go_on(core, n) && alarms->len; n++) {
                if (heap_key_to_i64(heap_peek_key(alarms)) > now)
                        return;
                struct thing *t = CONTAINER_OF(heap_pop(alarms), struct thing, alarm);
                core->options.parts->thing_due[t->kind](core, t);
        }
}

static void things_ring(struct core *core)
{
        ring(core, &core->state.alarms, core->now.steady_ns);
        ring(core, &core->state.wall_alarms, core->now.wall_ms);
}

static int64_t things_next_ns(const struct core *core)
{
        const struct state *s = &core->state;
        int64_t next = INT64_MAX;
        if (s->alarms.len)
                next = heap_key_to_i64(heap_peek_key(&s->alarms));
        if (!s->wall_alarms.len)
                return next;
        /* A wall clock may jump: look again at least once a second. */
        int64_t in_ms = heap_key_to_i64(heap_peek_key(&s->wall_alarms)) - core->now.wall_ms;
        if (in_ms > 1000)
                in_ms = 1000;
        int64_t at = core->now.steady_ns + (in_ms > 0 ? in_ms : 0) * NS_PER_MS;
        return at < next ? at : next;
}

const struct feature things_feature = {
        .name = "named things", .turn = things_ring, .next_ns = things_next_ns};

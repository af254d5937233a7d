/* See last_level.h. */
#include "state/last_level.h"

#include <math.h>

#define BODY_VERSION 1

static struct last_level *last_level_of(struct thing *t)
{
        return CONTAINER_OF(t, struct last_level, thing);
}

#define LEVEL_FIELDS(F)                                                                            \
        F(U8, level, ALWAYS, "level", "0 normal, 1 elevated, 2 critical")                          \
        F(TIME, at_ms, ALWAYS, "at_ms", "when the level was entered, Unix time")                   \
        F(DOUBLE, value, ALWAYS, "value", "of the metric; 0 for level normal")                     \
        F(DOUBLE, threshold, ALWAYS, "threshold", "of the metric; 0 for level normal")             \
        F(TEXT, metric, ALWAYS, "metric", "its name; empty for level normal")

static const struct field level_fields[] = {LEVEL_FIELDS(DOC_FIELD)};

void last_level_put(const struct last_level_values *v, struct buf *body)
{
        const struct last_level_values *o = v;
        struct buf *b = body;
        buf_put_byte(b, BODY_VERSION);
        LEVEL_FIELDS(PUT_FIELD)
}

const struct last_level *last_level_find(const struct state *s, struct slice target)
{
        const struct thing *t = thing_find(s, THING_LAST_LEVEL, target);
        return t ? CONTAINER_OF(t, const struct last_level, thing) : NULL;
}

static void init(struct state *s, struct thing *t)
{
        (void)s; /* nothing else knows of it */
        buf_init(&last_level_of(t)->metric, 0);
}

static bool read_values(struct slice body, struct last_level_values *o)
{
        struct reader reader = reader_make(body), *r = &reader;
        uint8_t version = reader_u8(r);
        *o = (struct last_level_values){0};
        LEVEL_FIELDS(GET_FIELD)
        return !r->failed && reader_left(r) == 0 && version == BODY_VERSION &&
               o->level <= LAST_LEVEL_MAX && isfinite(o->value) && isfinite(o->threshold);
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        (void)s; /* it has no alarm */
        struct last_level *l = last_level_of(t);
        struct last_level_values v;
        if (!read_values(body, &v))
                return false;
        buf_clear(&l->metric);
        buf_put_slice(&l->metric, v.metric);
        v.metric = buf_slice(&l->metric);
        l->values = v;
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        last_level_put(&CONTAINER_OF(t, const struct last_level, thing)->values, body);
}

static void release(struct state *s, struct thing *t)
{
        (void)s; /* nothing else knows of it */
        buf_release(&last_level_of(t)->metric);
}

static void check(const struct thing *t)
{
        const struct last_level *l = CONTAINER_OF(t, const struct last_level, thing);
        ASSERT(l->values.level <= LAST_LEVEL_MAX);     /* (1) */
        ASSERT(l->values.metric.len == l->metric.len); /* (2) */
        ASSERT(!heap_has(&t->alarm));
}

const struct thing_ops last_level_ops = {
        .text = "The last load level of a target.",
        .body = "u8 version 1, then:",
        .fields = level_fields,
        .n_fields = ARRAY_LEN(level_fields),
        .size = sizeof(struct last_level),
        .init = init,
        .set = set,
        .put = put,
        .release = release,
        .check = check,
};

/* See last_level.h. */
#include "state/last_level.h"

#include <math.h>

#define BODY_VERSION 1

static struct last_level *last_level_of(struct thing *t)
{
        return CONTAINER_OF(t, struct last_level, thing);
}

static void put_double(struct buf *b, double v)
{
        char bytes[sizeof(v)];
        memcpy(bytes, &v, sizeof(v));
        buf_put_slice(b, slice_make(bytes, sizeof(bytes)));
}

static double read_double(struct reader *r)
{
        uint64_t bits = reader_u64(r);
        double v;
        memcpy(&v, &bits, sizeof(v));
        return v;
}

void last_level_put(const struct last_level_values *v, struct buf *body)
{
        buf_put_byte(body, BODY_VERSION);
        buf_put_byte(body, (char)v->level);
        buf_put_varint(body, (uint64_t)v->at_ms);
        put_double(body, v->value);
        put_double(body, v->threshold);
        buf_put_lv(body, v->metric);
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

static bool read_values(struct slice body, struct last_level_values *ret)
{
        struct reader r = reader_make(body);
        uint8_t version = reader_u8(&r);
        ret->level = reader_u8(&r);
        uint64_t at_ms = reader_varint(&r);
        ret->at_ms = (int64_t)at_ms;
        ret->value = read_double(&r);
        ret->threshold = read_double(&r);
        ret->metric = reader_lv(&r);
        return !r.failed && reader_left(&r) == 0 && version == BODY_VERSION &&
               ret->level <= LAST_LEVEL_MAX && at_ms <= INT64_MAX && isfinite(ret->value) &&
               isfinite(ret->threshold);
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

const struct thing_ops last_level_ops = {
        .name = "last_level",
        .text = "The last load level of a target.",
        .size = sizeof(struct last_level),
        .init = init,
        .set = set,
        .put = put,
        .release = release,
};

/* See setting.h. */
#include "state/setting.h"

static struct setting *setting_of(struct thing *t)
{
        return CONTAINER_OF(t, struct setting, thing);
}

static void init(struct state *s, struct thing *t)
{
        (void)s;
        buf_init(&setting_of(t)->bytes, 0);
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct setting *set = setting_of(t);
        struct reader r = reader_make(body);
        int64_t until_ns = (int64_t)get_max(&r, INT64_MAX);
        if (r.failed)
                return false;
        set->until_ns = until_ns;
        buf_clear(&set->bytes);
        buf_put_slice(&set->bytes, reader_bytes(&r, reader_left(&r)));
        thing_alarm(s, t, set->until_ns ? set->until_ns : INT64_MAX);
        s->settings_version++;
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        const struct setting *set = CONTAINER_OF(t, const struct setting, thing);
        buf_put_varint(body, (uint64_t)set->until_ns);
        buf_put_slice(body, buf_slice(&set->bytes));
}

static void release(struct state *s, struct thing *t)
{
        s->settings_version++;
        buf_release(&setting_of(t)->bytes);
}

static void check(const struct thing *t)
{
        const struct setting *set = CONTAINER_OF(t, const struct setting, thing);
        ASSERT(thing_is_durable(t) && set->until_ns >= 0);
        ASSERT(!heap_has(&t->alarm) || set->until_ns > 0); /* (1) */
}

const struct thing_ops setting_ops = {
        .text = "A setting that was changed while weir runs.",
        .body = "`until_ns` varint on the steady clock (0 = never), then the value",
        .size = sizeof(struct setting),
        .init = init,
        .set = set,
        .put = put,
        .release = release,
        .check = check,
};

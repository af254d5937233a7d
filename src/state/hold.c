/* A hold: a unique key that stays taken for a while after its job has ended.
 *
 *      body: until_ns varint (steady), job id varint */
#include "state/hold.h"

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct hold *h = CONTAINER_OF(t, struct hold, thing);
        struct reader r = reader_make(body);
        int64_t until_ns = (int64_t)get_max(&r, INT64_MAX);
        uint64_t job_id = reader_varint(&r);
        if (r.failed || reader_left(&r))
                return false;
        h->until_ns = until_ns;
        h->job_id = job_id;
        thing_alarm(s, t, h->until_ns);
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        const struct hold *h = CONTAINER_OF(t, const struct hold, thing);
        buf_put_varint(body, (uint64_t)h->until_ns);
        buf_put_varint(body, h->job_id);
}

static void check(const struct thing *t)
{
        const struct hold *h = CONTAINER_OF(t, const struct hold, thing);
        ASSERT(thing_is_durable(t) && h->until_ns >= 0); /* (1) */
}

const struct thing_ops hold_ops = {
        .text = "A unique key that is held after the end of its job.",
        .body = "`until_ns` varint on the steady clock, job id varint",
        .size = sizeof(struct hold),
        .set = set,
        .put = put,
        .check = check,
};

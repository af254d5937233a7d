/* See the header. */
#include "sim/late_log.h"

#include "unit/check.h"

static struct late_log *late_of(struct log *log)
{
        return CONTAINER_OF(log, struct late_log, base);
}

static int late_append(struct log *log, uint64_t seq, struct slice batch)
{
        struct late_log *l = late_of(log);
        assert_int_equal(l->seq, 0);
        l->seq = seq;
        l->batch = batch;
        return OK;
}

void late_log_step(struct late_log *l)
{
        uint64_t seq = l->seq;
        l->seq = 0;
        if (seq)
                (void)l->inner->ops->append(l->inner, seq, l->batch); /* told by on_failed */
}

static int late_read(struct log *log, uint64_t from, log_read_fn fn, void *ctx, struct problem *p)
{
        struct log *inner = late_of(log)->inner;
        return inner->ops->read(inner, from, fn, ctx, p);
}

static int late_trim(struct log *log, uint64_t before)
{
        struct log *inner = late_of(log)->inner;
        return inner->ops->trim(inner, before);
}

static void late_want_room(struct log *log, uint64_t bytes)
{
        struct log *inner = late_of(log)->inner;
        inner->ops->want_room(inner, bytes);
}

static void late_stat(const struct log *log, struct log_stat *ret)
{
        const struct log *inner = CONTAINER_OF(log, const struct late_log, base)->inner;
        inner->ops->stat(inner, ret);
}

static const struct log_ops late_ops = {
        .append = late_append,
        .read = late_read,
        .trim = late_trim,
        .want_room = late_want_room,
        .stat = late_stat,
};

void late_log_init(struct late_log *l)
{
        *l = (struct late_log){.base = {.ops = &late_ops}};
}

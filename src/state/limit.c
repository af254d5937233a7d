/* Rate limits as things.
 *
 * The log holds the rule and the usage in one SET, and each take as a NOTE of a few bytes.  A take
 * is decided with the very time that the CLOCK of its batch records, so that a restart counts it in
 * the same quantum as the client was told.  Steady time stands still while weir is down: what was
 * taken then still counts afterwards, longer than needed and never shorter.
 *
 * One alarm serves three waits: the first asking client, the jobs on `waiting`, and the end of a
 * limit made in passing.  It is derived from the rest, by limit_arm() alone. */
#include "state/limit.h"

#include "state/state.h"

#define FLAG_PASSING 1

static bool has_prefix(struct slice name, struct slice prefix)
{
        return name.len > prefix.len && memcmp(name.ptr, prefix.ptr, prefix.len) == 0;
}

enum limit_scope limit_scope_of(struct slice name)
{
        if (has_prefix(name, SLICE_LIT(LIMIT_QUEUE_PREFIX)))
                return LIMIT_OF_QUEUE;
        return has_prefix(name, SLICE_LIT(LIMIT_HOOK_PREFIX)) ? LIMIT_OF_HOOK : LIMIT_NAMED;
}

static void count_scope(struct state *s, const struct rate_limit *l, size_t by)
{
        if (l->scope == LIMIT_OF_QUEUE)
                s->n_queue_limits += by;
        else if (l->scope == LIMIT_OF_HOOK)
                s->n_hook_limits += by;
}

static void limit_init(struct state *s, struct thing *t)
{
        const struct bucket_rule rule = bucket_per_minute(1); /* until its body comes */
        struct rate_limit *l = limit_of(t);
        bucket_init(&l->bucket, &rule);
        list_init(&l->asks);
        l->scope = (uint8_t)limit_scope_of(thing_name(t));
        count_scope(s, l, 1);
}

static void limit_release(struct state *s, struct thing *t)
{
        struct rate_limit *l = limit_of(t);
        ASSERT(list_is_empty(&l->asks));
        count_scope(s, l, (size_t)-1);
        bucket_release(&l->bucket);
}

static int64_t later(int64_t now_ns, int64_t wait_ns)
{
        return wait_ns < INT64_MAX - now_ns ? now_ns + wait_ns : INT64_MAX;
}

static int64_t next_start_ns(const struct rate_limit *l, int64_t now_ns)
{
        uint64_t left = bucket_left(&l->bucket, now_ns);
        if (left == 0)
                return later(now_ns, bucket_wait(&l->bucket, 1, now_ns));
        /* More may go: not in this turn, which lets go a bounded number of them. */
        return now_ns + (l->n_let < left ? 1 : LIMIT_LET_NS);
}

void limit_arm(struct state *s, struct rate_limit *l, int64_t now_ns)
{
        int64_t at = INT64_MAX, next = INT64_MAX;
        if (l->front_cost) /* jobs and queues come after those who ask */
                at = later(now_ns, bucket_wait(&l->bucket, l->front_cost, now_ns));
        else if (l->thing.waiting.len)
                at = next_start_ns(l, now_ns);
        if (l->is_wanted && !l->front_cost)
                next = later(now_ns, bucket_wait(&l->bucket, 1, now_ns));
        if (next < at)
                at = next;
        if (l->is_passing && !l->front_cost && !l->thing.waiting.len) {
                next = later(now_ns, bucket_idle_wait(&l->bucket, now_ns));
                if (next < at)
                        at = next;
        }
        thing_alarm(s, &l->thing, at);
}

void limit_put(bool is_passing, const struct bucket *bucket, struct buf *body)
{
        buf_put_byte(body, is_passing ? FLAG_PASSING : 0);
        bucket_pack(bucket, body);
}

static void put(const struct thing *t, struct buf *body)
{
        const struct rate_limit *l = CONTAINER_OF(t, const struct rate_limit, thing);
        limit_put(l->is_passing, &l->bucket, body);
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct rate_limit *l = limit_of(t);
        struct bucket bucket;
        if (!body.len || (uint8_t)body.ptr[0] > FLAG_PASSING)
                return false;
        struct slice rest = slice_make(body.ptr + 1, body.len - 1);
        if (!bucket_unpack(&bucket, &rest))
                return false;
        if (rest.len) {
                bucket_release(&bucket);
                return false;
        }
        bucket_release(&l->bucket);
        l->bucket = bucket;
        l->is_passing = body.ptr[0] == FLAG_PASSING;
        limit_arm(s, l, s->steady_ns);
        return true;
}

void limit_put_take(struct buf *body, uint64_t n)
{
        buf_put_byte(body, LIMIT_OP_TAKE);
        buf_put_varint(body, n);
}

void limit_put_reset(struct buf *body)
{
        buf_put_byte(body, LIMIT_OP_RESET);
}

static bool note(struct state *s, struct thing *t, struct slice body)
{
        struct rate_limit *l = limit_of(t);
        struct reader r = reader_make(body);
        uint8_t op = reader_u8(&r);
        uint64_t n = op == LIMIT_OP_TAKE ? reader_varint(&r) : 0;
        if (r.failed || reader_left(&r) || n > BUCKET_AMOUNT_MAX)
                return false;
        if (op == LIMIT_OP_TAKE)
                bucket_force(&l->bucket, n, s->steady_ns);
        else if (op == LIMIT_OP_RESET)
                bucket_reset(&l->bucket);
        else
                return false;
        limit_arm(s, l, s->steady_ns);
        return true;
}

static void check(const struct thing *t)
{
        const struct rate_limit *l = CONTAINER_OF(t, const struct rate_limit, thing);
        bucket_check(&l->bucket);
        ASSERT((l->front_cost == 0) == list_is_empty(&l->asks));
        ASSERT(l->scope == limit_scope_of(thing_name(t)));
}

const struct thing_ops limit_ops = {
        .text = "A rate limit: its rule and what was taken.",
        .body = "u8 flags (1: passes everything), then the packed bucket (state/bucket.c)",
        .size = sizeof(struct rate_limit),
        .init = limit_init,
        .set = set,
        .put = put,
        .note = note,
        .release = limit_release,
        .check = check,
};

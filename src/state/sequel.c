/* See sequel.h.
 *
 *      name: the id of the job in decimal
 *      body: outcome u8 (enum job_status) */
#include "state/sequel.h"

#include <stdio.h>

static struct slice name_of(uint64_t job_id, char room[SEQUEL_NAME_BYTES + 1])
{
        int n = snprintf(room, SEQUEL_NAME_BYTES + 1, "%llu", (unsigned long long)job_id);
        return slice_make(room, (size_t)n);
}

static bool is_outcome(uint8_t outcome)
{
        return outcome == JOB_COMPLETE || outcome == JOB_FAILED || outcome == JOB_CANCELED;
}

static void link_first(struct state *s, struct sequel *q)
{
        if (!list_is_linked(&q->link))
                list_insert_before(s->sequels.next, &q->link);
}

struct sequel *sequel_find(const struct state *s, uint64_t job_id)
{
        char room[SEQUEL_NAME_BYTES + 1];
        struct thing *t = thing_find(s, THING_SEQUEL, name_of(job_id, room));
        return t ? sequel_of(t) : NULL;
}

struct sequel *sequel_get(struct state *s, uint64_t job_id, enum job_status outcome)
{
        char room[SEQUEL_NAME_BYTES + 1];
        struct sequel *q = sequel_of(thing_get(s, THING_SEQUEL, name_of(job_id, room)));
        q->job_id = job_id;
        q->outcome = (uint8_t)outcome;
        link_first(s, q);
        return q;
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct sequel *q = sequel_of(t);
        struct reader r = reader_make(body);
        q->outcome = reader_u8(&r);
        if (!slice_to_u64(thing_name(t), &q->job_id) || !q->job_id)
                return false;
        if (r.failed || reader_left(&r) || !is_outcome(q->outcome))
                return false;
        link_first(s, q);
        return true;
}

static void put(const struct thing *t, struct buf *body)
{
        buf_put_byte(body, (char)CONTAINER_OF(t, const struct sequel, thing)->outcome);
}

static void release(struct state *s, struct thing *t)
{
        struct sequel *q = sequel_of(t);
        (void)s; /* the link knows its list */
        if (list_is_linked(&q->link))
                list_remove(&q->link);
}

static void check(const struct thing *t)
{
        const struct sequel *q = CONTAINER_OF(t, const struct sequel, thing);
        ASSERT(q->job_id && is_outcome(q->outcome) && list_is_linked(&q->link));
}

const struct thing_ops sequel_ops = {
        .text = "The end of a job whose dependents are yet to be told.",
        .body = "u8 outcome; the name is the id of the job",
        .size = sizeof(struct sequel),
        .set = set,
        .put = put,
        .release = release,
        .check = check,
};

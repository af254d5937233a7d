/* See cap.h.  The count of running jobs is kept by state_enter and state_leave; when a cap of a
 * group is set, the jobs of that group that run already are counted once. */
#include "state/cap.h"

#include "state/state_int.h"

static struct cap *cap_of(struct thing *t)
{
        return CONTAINER_OF(t, struct cap, thing);
}

static struct slice full_name(const char *prefix, struct slice name, char *room, size_t size)
{
        size_t n = strlen(prefix);
        ASSERT(n + name.len <= size);
        memcpy(room, prefix, n);
        memcpy(room + n, name.ptr, name.len);
        return slice_make(room, n + name.len);
}

static void join(struct state *s, struct job *job)
{
        char room[320];
        struct job_extra *x = job->extra;
        if (!x->options.key.len)
                return;
        x->cap = thing_get(s, THING_CAP, full_name(CAP_KEY, x->options.key, room, sizeof(room)));
        cap_of(x->cap)->n_jobs++;
}

static bool is_needed(const struct thing *t)
{
        return CONTAINER_OF(t, const struct cap, thing)->n_jobs > 0;
}

static void part(struct state *s, struct job *job)
{
        struct thing *t = job->extra->cap;
        if (!t)
                return;
        job->extra->cap = NULL;
        ASSERT(cap_of(t)->n_jobs > 0);
        cap_of(t)->n_jobs--;
        if (!is_needed(t) && !thing_is_durable(t))
                thing_drop(s, t);
}

struct thing *cap_of_group(const struct state *s, const struct job *job)
{
        if (!s->n_group_caps || !job->group)
                return NULL;
        char room[320]; /* behind the return: the compiler zeroes it */
        return thing_find(s, THING_CAP,
                          full_name(CAP_GROUP, name_slice(job->group), room, sizeof(room)));
}

uint64_t group_weight(const struct state *s, const struct job *job)
{
        const struct thing *t = cap_of_group(s, job);
        const struct cap *cap = t ? CONTAINER_OF(t, const struct cap, thing) : NULL;
        return cap && cap->weight ? cap->weight : 1;
}

uint64_t cap_max(const struct thing *t, const struct job *job)
{
        const struct cap *cap = CONTAINER_OF(t, const struct cap, thing);
        if (cap->max)
                return cap->max;
        return job->extra && job->extra->options.key_max ? job->extra->options.key_max : 1;
}

static void count(struct state *s, struct thing *t, int by)
{
        struct cap *cap = cap_of(t);
        ASSERT(by > 0 || cap->n_running > 0);
        cap->n_running += (uint64_t)(int64_t)by;
        if (by > 0 || !t->waiting.len)
                return;
        (void)state_unblock(s, t, 1);
        thing_alarm(s, t, t->waiting.len ? s->steady_ns + CAP_RETRY_NS : INT64_MAX);
}

void caps_count(struct state *s, struct job *job, int by)
{
        if (job->extra && job->extra->cap)
                count(s, job->extra->cap, by);
        struct thing *group = cap_of_group(s, job);
        if (group)
                count(s, group, by);
}

static void wake(struct state *s, struct thing *t)
{
        if (t && t->waiting.len)
                (void)state_unblock(s, t, 1);
}

void caps_wake(struct state *s, const struct job *job)
{
        if (job->extra)
                wake(s, job->extra->cap);
        wake(s, cap_of_group(s, job));
}

static bool is_group(const struct thing *t)
{
        const size_t n = sizeof(CAP_GROUP) - 1;
        struct slice name = thing_name(t);
        return name.len > n && memcmp(name.ptr, CAP_GROUP, n) == 0;
}

static void count_group(struct state *s, struct cap *cap)
{
        uint64_t id = 0;
        struct slice name = thing_name(&cap->thing);
        size_t skip = sizeof(CAP_GROUP) - 1;
        name = slice_make(name.ptr + skip, name.len - skip);
        cap->n_running = 0;
        for (struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++)
                cap->n_running +=
                        job->state == JOB_LEASED && slice_eq(name_slice(job->group), name);
}

static void init(struct state *s, struct thing *t)
{
        if (!is_group(t))
                return;
        s->n_group_caps++;
        count_group(s, cap_of(t));
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct reader r = reader_make(body);
        cap_of(t)->max = body.len ? reader_varint(&r) : 0;
        cap_of(t)->weight = body.len ? reader_varint(&r) : 0;
        if (t->waiting.len) /* more of them may run now, or fewer: let them ask again */
                (void)state_unblock(s, t, SIZE_MAX);
        return !r.failed && !reader_left(&r);
}

static void put(const struct thing *t, struct buf *body)
{
        const struct cap *cap = CONTAINER_OF(t, const struct cap, thing);
        buf_put_varint(body, cap->max);
        buf_put_varint(body, cap->weight);
}

static void release(struct state *s, struct thing *t)
{
        s->n_group_caps -= is_group(t);
}

static void check(const struct thing *t)
{
        const struct cap *cap = CONTAINER_OF(t, const struct cap, thing);
        ASSERT(!cap->n_jobs || cap->n_running <= cap->n_jobs); /* (1) */
}

const struct thing_ops cap_ops = {
        .text = "How many jobs of a group or key may run at once, and the weight of a group.",
        .body = "`max` varint, `weight` varint",
        .size = sizeof(struct cap),
        .init = init,
        .set = set,
        .put = put,
        .release = release,
        .is_needed = is_needed,
        .join = join,
        .part = part,
        .check = check,
};

/* See job.h.  Jobs are allocated one by one with their args: sizes differ too much for a slab,
 * and glibc's allocator costs 8 bytes and about 20 ns for each. */
#include "state/job.h"

#include <stdlib.h>

#include "state/queue.h"

_Static_assert(sizeof(struct job) == 112, "a pending job is counted in bytes: say so in job.h");

struct job *job_new(uint64_t id, struct slice args)
{
        struct job *job = malloc(sizeof(*job) + args.len);
        if (!job)
                return NULL;
        *job = (struct job){
                .live = {.kind = LIVE_JOB},
                .node = {.id = id, .pos = HEAP_NOWHERE},
                .args_len = (uint32_t)args.len,
        };
        if (args.len)
                memcpy(job->args, args.ptr, args.len);
        return job;
}

void job_free(struct job *job, struct name_table *names)
{
        ASSERT(!heap_has(&job->node));
        ASSERT(!list_is_linked(&job->live.link));
        if (job->more) {
                name_unref(names, job->more->worker);
                free(job->more->progress.ptr);
                free(job->more->result.ptr);
                free(job->more->error.ptr);
                buf_release(&job->more->events);
                free(job->more);
        }
        if (job->extra) {
                ASSERT(!heap_has(&job->extra->expiry) && !list_is_linked(&job->extra->unique));
                ASSERT(!job->extra->cap && !job->extra->n_after);
                buf_release(&job->extra->packed);
                free(job->extra);
        }
        name_unref(names, job->hook);
        name_unref(names, job->group);
        free(job);
}

struct job_more *job_more(struct job *job)
{
        if (!job->more) {
                job->more = xmalloc(sizeof(*job->more));
                *job->more = (struct job_more){0};
                buf_init(&job->more->events, 0);
        }
        return job->more;
}

struct job_extra *job_extra(struct job *job)
{
        if (!job->extra) {
                job->extra = xcalloc(1, sizeof(*job->extra));
                job->extra->job = job;
                job->extra->expiry.pos = HEAP_NOWHERE;
                buf_init(&job->extra->packed, 0);
        }
        return job->extra;
}

void job_set_options(struct job *job, const struct job_options *options)
{
        struct job_extra *x = job_extra(job);
        struct buf packed;
        buf_init(&packed, 0);
        options_pack(options, &packed);
        bool is_read = options_unpack(buf_slice(&packed), &x->options);
        ASSERT(!packed.failed && is_read);
        buf_release(&x->packed);
        x->packed = packed;
}

void job_replace(struct job *job, struct job *old)
{
        uint32_t args_len = job->args_len;
        struct live live = job->live;
        ASSERT(!heap_has(&old->node));
        *job = *old; /* not the args: they are behind it */
        job->args_len = args_len;
        job->live = live;
        if (!job->extra)
                return;
        job->extra->job = job;
        for (size_t i = 0; i < job->extra->n_after; i++)
                job->extra->after[i].job = job;
}

void job_text_set(struct job_text *t, struct slice s)
{
        free(t->ptr);
        *t = (struct job_text){0};
        if (!s.len)
                return;
        t->ptr = xmalloc(s.len);
        t->len = (uint32_t)s.len;
        memcpy(t->ptr, s.ptr, s.len);
}

static struct slice text_slice(const struct job_text *t)
{
        return slice_make(t->ptr, t->len);
}

/* Drops the oldest event that is told, and counts it in a DROPPED event at the front. */
static void forget_oldest(struct job *job)
{
        struct job_more *more = job->more;
        struct slice rest = buf_slice(&more->events);
        struct event first;
        uint64_t dropped = 0;
        ASSERT(event_next(&rest, job->created_ms, &first));
        if (first.type == EVENT_DROPPED) {
                ASSERT(slice_to_u64(first.message, &dropped));
                ASSERT(event_next(&rest, job->created_ms, &first));
                more->events_kept--;
        }
        struct buf kept;
        struct buf count;
        buf_init(&kept, 0);
        buf_init(&count, 0);
        buf_put_u64(&count, dropped + 1);
        first = (struct event){EVENT_DROPPED, first.wall_ms, SLICE_NONE, buf_slice(&count)};
        event_pack(&kept, &first, job->created_ms);
        buf_put_slice(&kept, rest);
        buf_release(&count);
        buf_release(&more->events);
        more->events = kept;
}

void job_tell(struct job *job, enum event_type type, int64_t wall_ms, struct slice message)
{
        struct job_more *more = job_more(job);
        while (more->events_kept >= JOB_EVENTS_KEPT)
                forget_oldest(job);
        struct event e = {type, wall_ms, name_slice(more->worker), message};
        event_pack(&more->events, &e, job->created_ms);
        more->events_kept++;
}

/* ---- the gate ---- */

bool job_is_parked(const struct job *job)
{
        const struct job_extra *x = job->extra;
        return x && list_is_linked(&x->parked) && !x->is_returning;
}

bool job_is_returning(const struct job *job)
{
        const struct job_extra *x = job->extra;
        return x && list_is_linked(&x->parked) && x->is_returning;
}

/* Once it is due it waits for a worker, and that is not the gate's doing. */
uint64_t job_deferred_ms(const struct job *job, int64_t steady_ns)
{
        const struct job_options *o = job->extra ? &job->extra->options : NULL;
        if (!o)
                return 0;
        if (!o->parked || !o->parked_ns || (uint64_t)steady_ns <= o->parked_ns)
                return o->deferred_ms;
        uint64_t ms = ((uint64_t)steady_ns - o->parked_ns) / NS_PER_MS;
        return o->deferred_ms + (ms < o->parked_ms ? ms : o->parked_ms);
}

void job_leave_gate(struct job *job, int64_t steady_ns)
{
        if (!job->extra || !job->extra->options.parked)
                return;
        struct job_options options = job->extra->options;
        options.deferred_ms = job_deferred_ms(job, steady_ns);
        options.parked = options.parked_ns = options.parked_ms = options.parked_how = 0;
        options.parked_due = 0;
        job_set_options(job, &options);
}

enum job_status job_status(const struct job *job)
{
        switch ((enum job_state)job->state) {
        case JOB_SCHEDULED:
        case JOB_READY:
        case JOB_WAITING:
        case JOB_HELD:
                return JOB_PENDING;
        case JOB_LEASED:
                return JOB_RUNNING;
        case JOB_FINISHED:
                return (enum job_status)job->outcome;
        }
        ASSERT(!"a job has a state");
        return JOB_PENDING;
}

void job_view(const struct job *job, struct job_view *ret)
{
        *ret = (struct job_view){
                .id = job_id(job),
                .hook = name_slice(job->hook),
                .args = slice_make(job->args, job->args_len),
                .queue = name_slice(job->queue->name),
                .group = name_slice(job->group),
                .status = job_status(job),
                .priority = job->priority,
                .attempt = job->attempt,
                .attempts_max = job->attempts_max,
                .timeout_ms = job->timeout_ms,
                .created_ms = job->created_ms,
                .due_ms = job->due_ms,
        };
        if (job->extra)
                ret->options = buf_slice(&job->extra->packed);
        const struct job_more *more = job->more;
        if (!more)
                return;
        ret->started_ms = more->started_ms;
        ret->finished_ms = more->finished_ms;
        ret->worker = name_slice(more->worker);
        ret->fence = more->fence;
        ret->progress = text_slice(&more->progress);
        ret->result = text_slice(&more->result);
        ret->error = text_slice(&more->error);
        ret->events = buf_slice(&more->events);
}

size_t job_weight(const struct job *job)
{
        /* Fixed fields, record header and names: close enough, and never zero. */
        size_t n = 128 + job->args_len;
        if (job->extra)
                n += job->extra->packed.len;
        if (job->more)
                n += 64 + job->more->progress.len + job->more->result.len + job->more->error.len +
                     job->more->events.len;
        return n;
}

void job_check(const struct job *job)
{
        ASSERT(job->queue && job->hook);
        ASSERT(job->attempt <= job->attempts_max);
        ASSERT(list_is_linked(&job->live.link));
        switch ((enum job_state)job->state) {
        case JOB_SCHEDULED:
        case JOB_READY:
                ASSERT(heap_has(&job->node));
                break;
        case JOB_WAITING:
                ASSERT(heap_has(&job->node) && job->extra && job->extra->blocker);
                break;
        case JOB_HELD:
                ASSERT(!heap_has(&job->node) && job->extra && job->extra->n_after);
                break;
        case JOB_LEASED:
                ASSERT(heap_has(&job->node));
                ASSERT(job->more && job->more->fence > 0 && job->more->is_lease_open);
                break;
        case JOB_FINISHED:
                ASSERT(job->outcome == JOB_COMPLETE || job->outcome == JOB_FAILED ||
                       job->outcome == JOB_CANCELED);
                ASSERT(job->more && job->more->finished_ms >= 0);
                break;
        }
}

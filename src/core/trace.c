/* See trace.h. */
#include "core/trace.h"

#include "base/hash.h"
#include "state/job.h"
#include "state/queue.h"

/* What a hash is for. */
enum id_kind { ID_TRACE, ID_TRACE_REST, ID_ENQUEUE, ID_WAIT, ID_RUN, ID_DICE };

static uint64_t hash_of(const struct tracer *t, const struct job *job, enum id_kind kind)
{
        bool is_of_attempt = kind == ID_WAIT || kind == ID_RUN;
        const uint64_t parts[] = {kind, job_id(job), (uint64_t)job->created_ms,
                                  is_of_attempt ? job->more->fence : 0};
        return hash_bytes(t->seed, slice_make((const char *)parts, sizeof(parts)));
}

/* All zeros is no id. */
static void put_id(uint8_t ret[SPAN_BYTES], uint64_t hash)
{
        hash = hash ? hash : 1;
        memcpy(ret, &hash, SPAN_BYTES);
}

/* Hashes are spread evenly over 64 bits, so a share of them is below that share of 2^64. */
static bool is_chosen(const struct tracer *t, const struct job *job)
{
        return t->sample >= 1 ||
               (t->sample > 0 && (double)hash_of(t, job, ID_DICE) < t->sample * 0x1p64);
}

/* The trace of a job; false: nobody is told of it. */
static bool find_trace(const struct tracer *t, const struct job *job, struct traceparent *ret)
{
        struct slice given = job->extra ? job->extra->options.traceparent : SLICE_NONE;
        if (given.len)
                return traceparent_parse(given, ret) && ret->flags & TRACE_SAMPLED;
        if (!is_chosen(t, job))
                return false;
        *ret = (struct traceparent){.flags = TRACE_SAMPLED};
        put_id(ret->trace, hash_of(t, job, ID_TRACE));
        put_id(ret->trace + SPAN_BYTES, hash_of(t, job, ID_TRACE_REST));
        return true;
}

bool trace_of_run(const struct core *core, const struct job *job, char ret[TRACEPARENT_BYTES])
{
        struct slice given = job->extra ? job->extra->options.traceparent : SLICE_NONE;
        struct traceparent t;
        if (core->tracer && find_trace(core->tracer, job, &t)) {
                put_id(t.span, hash_of(core->tracer, job, ID_RUN));
                t.flags &= TRACE_FLAGS_KNOWN;
                traceparent_text(&t, ret);
                return true;
        }
        if (given.len != TRACEPARENT_BYTES)
                return false;
        memcpy(ret, given.ptr, TRACEPARENT_BYTES);
        return true;
}

static int64_t later(int64_t a, int64_t b)
{
        return a > b ? a : b;
}

/* When its wait began: the gate moved the due time of a job that it parked.  Of later attempts it
 * is not known which of them the gate delayed. */
static int64_t due_of(const struct job *job, bool is_first)
{
        const struct job_options *o = job->extra ? &job->extra->options : NULL;
        int64_t deferred_ms = o && is_first ? (int64_t)o->deferred_ms : 0;
        int64_t from = job->due_ms < job->more->started_ms ? job->due_ms : job->more->started_ms;
        return later(from - deferred_ms, job->created_ms);
}

void trace_tell(struct core *core, const struct job *job, enum attempt_end end, struct slice error)
{
        struct tracer *t = core->tracer;
        struct traceparent trace;
        if (!find_trace(t, job, &trace))
                return;
        uint64_t runs = job->extra ? job->extra->options.run : 0;
        bool is_first = job->attempt == 1 && !runs;
        struct attempt a = {
                /* A released attempt counts as none: the next one is the first again. */
                .has_enqueue = is_first && end != ATTEMPT_RELEASED,
                .end = (uint8_t)end,
                .number = job->attempt,
                .of = job->attempts_max,
                .job = job_id(job),
                .runs = runs,
                .created_ms = job->created_ms,
                .due_ms = due_of(job, is_first),
                .queue = name_slice(job->queue->name),
                .hook = name_slice(job->hook),
                .group = name_slice(job->group),
                .worker = name_slice(job->more->worker),
                .error = error,
        };
        a.started_ms = later(job->more->started_ms, a.due_ms);
        a.ended_ms = later(core->now.wall_ms, a.started_ms);
        memcpy(a.trace, trace.trace, sizeof(a.trace));
        memcpy(a.client, trace.span, sizeof(a.client));
        put_id(a.enqueue, hash_of(t, job, ID_ENQUEUE));
        put_id(a.wait, hash_of(t, job, ID_WAIT));
        put_id(a.run, hash_of(t, job, ID_RUN));
        t->ended(t->ctx, &a);
}

void core_set_tracer(struct core *core, struct tracer *tracer)
{
        core->tracer = tracer;
}

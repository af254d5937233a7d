/* Claims: the next jobs for a worker, at once or when there are some.
 *
 * Of the queues a worker names, the best job over all of them is taken first (priority, attempts,
 * due, id); paused queues are passed over.  A claim that finds nothing and may wait is put on the
 * list of each of its queues, and served in the order of arrival when a job becomes ready.
 * Serving happens at the end of a turn, so a job enqueued and handed to a waiting worker in one
 * turn costs a single sync.
 *
 * A claim is one atomic change: its grants are in one batch. */
#include "jobs/claim.h"

#include <stdlib.h>

#include "api/exec.h"
#include "api/replies.h"
#include "base/say.h"
#include "core/trace.h"
#include "jobs/dependents.h"
#include "jobs/job_end.h"
#include "jobs/queues.h"
#include "jobs/workers.h"
#include "things/breaker.h"
#include "things/cap.h"
#include "things/limit.h"
#include "throttle/throttle.h"

/* Args in one answer, about: a claim for more gets fewer jobs than it asked for. */
#define CLAIM_BYTES (16 * MIB)
/* Jobs that the gate or their signature keeps and that one claim meets before it ends, so that a
 * turn stays short.  Fewer of those that were put aside come back for it: each claim gets further.
 */
#define CLAIM_REFUSED_MAX    1000
#define CLAIM_TAKEN_BACK_MAX (CLAIM_REFUSED_MAX / 2)

struct claim_link {
        struct list link; /* on queue->waiters */
        struct queue *queue;
        struct claim_wait *wait;
};

struct claim_wait {
        struct session_wait base;
        struct claim_spec spec; /* worker text at the end of this allocation */
        size_t n_links;
        struct claim_link links[];
};

static const struct wait_ops claim_wait_ops;

static struct claim_wait *claim_of(struct session_wait *w)
{
        return CONTAINER_OF(w, struct claim_wait, base);
}

/* A claim in the making: which queues may still give, and what they gave. */
struct claim_ctx {
        struct core *core;
        const struct claim_spec *spec;
        struct queue *queues[LIMIT_CLAIM_QUEUES]; /* NULL: not there, or gives no more */
        uint32_t given[LIMIT_CLAIM_QUEUES];
        uint32_t capped[LIMIT_CLAIM_QUEUES]; /* of those, the ones that caps count */
        size_t n_queues;
        struct job *jobs[LIMIT_CLAIM_JOBS];
        struct level_caps caps; /* of the level in force */
        size_t n_jobs, bytes, n_refused;
        uint64_t number; /* fence of the first job: what the claim is called */
};

static void claiming_init(struct claim_ctx *c, struct core *core, const struct claim_spec *spec,
                          size_t n_queues)
{
        c->core = core;
        c->spec = spec;
        c->n_queues = n_queues;
        c->n_jobs = c->bytes = c->n_refused = 0;
        c->number = 0;
        c->caps = throttle_caps(core);
        for (size_t i = 0; i < n_queues; i++)
                c->given[i] = c->capped[i] = 0;
}

/* The caps of the level, and the adaptive limit, hold for all but the critical tier. */
static bool is_capped(const struct claim_ctx *c, size_t i, const struct job *job)
{
        const struct queue *q = c->queues[i];
        const struct level_caps *caps = &c->caps;
        if (throttle_is_full(c->core, job))
                return true;
        if (!caps->claim_size || throttle_tier(c->core, job) == TIER_CRITICAL)
                return false;
        uint64_t running = q->n_running - q->n_first_tier - c->capped[i]; /* of other claims */
        return c->capped[i] >= caps->claim_size ||
               (caps->claims && running >= (uint64_t)caps->claims * caps->claim_size);
}

/* May this queue give a job to this claim now? */
static bool may_give(struct claim_ctx *c, size_t i)
{
        struct queue *q = c->queues[i];
        const struct queue_settings *set = &q->settings;
        if (q->is_paused || !q->n_ready || (set->claim_size && c->given[i] >= set->claim_size))
                return false;
        if (set->cap && q->n_running >= set->cap)
                return false;
        if (set->claims && q->claims.len >= set->claims && !idmap_get(&q->claims, c->number))
                return false;
        struct thing *by = limit_of_queue(c->core, q);
        if (by) {
                limit_want(c->core, by);
                return false;
        }
        by = breaker_of_queue(c->core, q);
        if (by)
                breaker_want(c->core, by);
        return !by;
}

/* The place of the queue whose first job is the best; -1 when none gives any more. */
static int best_queue(const struct claim_ctx *c)
{
        int best = -1;
        uint64_t best_key = 0, best_id = 0;
        for (size_t i = 0; i < c->n_queues; i++) {
                const struct queue *q = c->queues[i];
                if (!q)
                        continue;
                const struct job *job = queue_first(q);
                uint64_t key = job_ready_key(job), id = job_id(job);
                if (best >= 0 && (key > best_key || (key == best_key && id > best_id)))
                        continue;
                best = (int)i;
                best_key = key;
                best_id = id;
        }
        return best;
}

/* By the job, the claim or the queue, in this order; never longer than the job may run. */
static uint32_t lease_ms_of(const struct job *job, const struct claim_spec *spec)
{
        uint64_t maxrun_ms = job->extra ? job->extra->options.maxrun_ms : 0;
        uint32_t ms = job->timeout_ms ? job->timeout_ms : spec->lease_ms;
        if (!ms)
                ms = (uint32_t)job->queue->settings.lease_ms;
        if (!ms)
                ms = JOB_LEASE_DEFAULT_MS;
        return maxrun_ms && maxrun_ms < ms ? (uint32_t)maxrun_ms : ms;
}

static void grant(struct claim_ctx *c, struct job *job, size_t queue)
{
        struct core *core = c->core;
        uint32_t lease_ms = lease_ms_of(job, c->spec);
        struct effect e = {
                .type = EFFECT_JOB_START,
                .id = job_id(job),
                .fence = core->state.fence + 1,
                .deadline_ns = core->now.steady_ns + lease_ms * NS_PER_MS,
                .lease_ms = lease_ms,
                .worker = c->spec->worker,
        };
        if (!c->number)
                c->number = e.fence;
        e.other_id = c->number;
        enum tier tier = throttle_tier(core, job);
        job->flags |= (uint8_t)(JOB_FLAG_TIERED | tier << JOB_FLAG_TIER_SHIFT);
        c->capped[queue] += tier != TIER_CRITICAL;
        limit_start(core, job);
        breaker_start(core, job);
        rng_fill(core->options.rng, e.token, sizeof(e.token));
        core->totals.started++;
        tally_start(core->tally, job, core->now.wall_ms);
        core_emit(core, &e);
        c->given[queue]++;
        c->jobs[c->n_jobs++] = job;
        c->bytes += job->args_len;
}

/* What keeps this job from being started now; NULL: nothing. */
static struct thing *block_of(struct core *core, const struct job *job)
{
        struct thing *by = cap_block(core, job);
        if (by)
                return by;
        by = limit_block(core, job);
        if (by) {
                limit_want(core, by);
                return by;
        }
        by = breaker_block(core, job);
        if (by)
                breaker_want(core, by);
        return by;
}

/* False: it was parked, put aside or failed. */
static bool may_start(struct claim_ctx *c, size_t i, struct job *job)
{
        if (!throttle_admit(c->core, job))
                return false;
        if (!is_capped(c, i, job))
                return job_is_trusted(c->core, job);
        throttle_put_aside(c->core, job); /* critical ones may stand behind it */
        return false;
}

static void pass_over_unwilling(struct claim_ctx *c, size_t from, size_t to)
{
        for (size_t i = from; i < to; i++)
                if (c->queues[i] && !may_give(c, i))
                        c->queues[i] = NULL;
}

/* Takes the first job of a queue: granted, or put aside because something keeps it. */
static void take_first(struct claim_ctx *c, size_t i)
{
        struct job *job = queue_first(c->queues[i]);
        struct thing *by = block_of(c->core, job);
        /* They may be those of another queue. */
        const struct job_options *o = job->extra ? &job->extra->options : NULL;
        bool takes_elsewhere = o && (o->limit.len || o->target.len);
        if (by)
                state_block(&c->core->state, job, by);
        else if (!may_start(c, i, job))
                c->n_refused++;
        else
                grant(c, job, i);
        pass_over_unwilling(c, takes_elsewhere ? 0 : i, takes_elsewhere ? c->n_queues : i + 1);
}

/* Clients of RESP pair the fields with names of their own: maxrun_ms comes only where it was asked
 * for, or where a traceparent follows it. */
static int64_t maxrun_of(const struct reply *reply, const struct job *job, struct slice trace)
{
        uint64_t ms = job->extra ? job->extra->options.maxrun_ms : 0;
        bool holds_place = trace.len && !reply->ops->has_names;
        return ms || holds_place ? (int64_t)ms : REPLY_NONE;
}

static void tell_granted(struct reply *reply, const struct reply_items *items)
{
        struct job *const *jobs = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct job *job = jobs[i];
                char token[2 * JOB_TOKEN_BYTES], trace_text[TRACEPARENT_BYTES];
                struct slice trace = SLICE_NONE;
                if ((job->extra || items->core->tracer) &&
                    trace_of_run(items->core, job, trace_text))
                        trace = slice_make(trace_text, sizeof(trace_text));
                hex_from_bytes(job->more->token, JOB_TOKEN_BYTES, token);
                const struct claimed_reply told = {
                        .id = (int64_t)job_id(job),
                        .token = slice_make(token, sizeof(token)),
                        .hook = name_slice(job->hook),
                        .args = slice_make(job->args, job->args_len),
                        .attempt = job->attempt,
                        .queue = name_slice(job->queue->name),
                        .group = name_slice(job->group),
                        .priority = job->priority,
                        .attempts = job->attempts_max,
                        .fence = (int64_t)job->more->fence,
                        .lease_ms = job->more->lease_ms,
                        .created_ms = job->created_ms,
                        .maxrun_ms = maxrun_of(reply, job, trace),
                        .traceparent = trace,
                };
                reply_claimed(reply, &told);
        }
}

/* The archive is behind: until it catches up no new work is handed out. */
static bool is_slowed(struct core *core)
{
        bool is_slow = core->state.n_finished >= core->options.finished_max;
        if (is_slow && !core->is_slowed)
                say_warn("core", "history is behind, handing out work more slowly", "finished",
                         SAY_I64(core->state.n_finished));
        core->is_slowed = is_slow;
        return is_slow;
}

/* Grants as many jobs as the claim wants and its queues give; fewer when their args together
 * would make a reply without bounds. */
static void claim_jobs(struct claim_ctx *c)
{
        if (c->core->is_stopping)
                return;
        throttle_ask(c->core);
        if (c->core->is_everything_paused)
                return;
        if (is_slowed(c->core)) {
                c->core->totals.slowed_claims++;
                return;
        }
        for (size_t i = 0; i < c->n_queues; i++)
                for (size_t j = 0; j < i && c->queues[i]; j++)
                        if (c->queues[j] == c->queues[i])
                                c->queues[i] = NULL; /* named twice */
        pass_over_unwilling(c, 0, c->n_queues);
        while (c->n_jobs < c->spec->max && c->bytes < CLAIM_BYTES &&
               c->n_refused < CLAIM_REFUSED_MAX) {
                int i = best_queue(c);
                if (i < 0)
                        return;
                take_first(c, (size_t)i);
        }
}

/* On a list of queues to serve, unless it is on one. */
static void serve_later(struct list *queues, struct queue *q)
{
        if (!list_is_linked(&q->to_serve))
                list_push_back(queues, &q->to_serve);
}

static void tell_jobs(const struct claim_ctx *c, struct reply *reply)
{
        const struct claim_reply told = {{c->n_jobs, tell_granted, c->core, c->jobs}};
        reply_claim(reply, &told);
}

/* It ended before it had seen all: the next turn goes on. */
static bool is_cut(const struct claim_ctx *c)
{
        return !c->n_jobs && c->n_refused >= CLAIM_REFUSED_MAX;
}

static int wait_for_jobs(struct core *core, struct session *session, const struct claim_spec *spec)
{
        size_t n = spec->n_queues;
        struct claim_wait *w = xmalloc(sizeof(*w) + n * sizeof(w->links[0]) + spec->worker.len);
        char *worker = (char *)&w->links[n];
        memcpy(worker, spec->worker.ptr, spec->worker.len);
        w->spec = *spec;
        w->spec.worker.ptr = worker;
        w->spec.queues = NULL;
        w->n_links = n;
        wait_begin(core, &w->base, &claim_wait_ops, session);
        for (size_t i = 0; i < n; i++) {
                struct queue *q = state_queue_get(&core->state, spec->queues[i]);
                w->links[i] = (struct claim_link){.queue = q, .wait = w};
                list_push_back(&q->waiters, &w->links[i].link);
                if (is_cut(core->claiming))
                        serve_later(&core->queues_to_serve, q);
        }
        wait_until(core, &w->base, core->now.steady_ns + spec->wait_ms * NS_PER_MS);
        return CORE_LATER;
}

/* A claim that waits makes the queues it names: they must fit the limit first. */
int claim_check(struct core *core, const struct claim_spec *spec, struct problem *problem)
{
        size_t missing = 0;
        for (size_t i = 0; spec->wait_ms && i < spec->n_queues; i++)
                missing += !state_queue_find(&core->state, spec->queues[i]);
        return queues_admit(core, missing, problem);
}

int claim_run(struct core *core, struct session *session, const struct claim_spec *spec,
              struct reply *reply)
{
        struct claim_ctx *c = core->claiming;
        workers_claim(core, session, spec);
        /* Not for claims that wait: what one of them takes back would wake the next for ever. */
        throttle_take_back(core,
                           spec->max < CLAIM_TAKEN_BACK_MAX ? spec->max : CLAIM_TAKEN_BACK_MAX);
        claiming_init(c, core, spec, spec->n_queues);
        for (size_t i = 0; i < spec->n_queues; i++)
                c->queues[i] = state_queue_find(&core->state, spec->queues[i]);
        claim_jobs(c);
        if (!c->n_jobs && spec->wait_ms && !core->is_stopping)
                return wait_for_jobs(core, session, spec);
        tell_jobs(c, reply);
        return OK;
}

int exec_claim(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        int r = claim_check(core, &cmd->claim, problem);
        return r == OK ? claim_run(core, session, &cmd->claim, reply) : r;
}

static void leave_queues(struct core *core, struct claim_wait *w)
{
        for (size_t i = 0; i < w->n_links; i++)
                list_remove(&w->links[i].link);
        wait_end(core, &w->base);
}

static void claim_cancel(struct core *core, struct session_wait *base)
{
        leave_queues(core, claim_of(base));
        free(claim_of(base));
}

/* Answers a waiting claim with what was granted; with nothing when its time is over. */
static void answer(struct core *core, struct claim_wait *w, const struct claim_ctx *c)
{
        struct session *session = w->base.session;
        leave_queues(core, w);
        tell_jobs(c, session->ops->reply_begin(session));
        free(w);
        session->ops->reply_end(session);
}

static void claim_answer_empty(struct core *core, struct session_wait *base)
{
        struct claim_wait *w = claim_of(base);
        struct claim_ctx *c = core->claiming;
        claiming_init(c, core, &w->spec, 0);
        answer(core, w, c);
}

static const struct wait_ops claim_wait_ops = {claim_answer_empty, claim_cancel};

/* Puts the queue on `unseen` when there is more in it than one turn looks at. */
static bool serve_first(struct core *core, struct queue *q, struct list *unseen)
{
        struct list *first = list_peek_front(&q->waiters);
        if (!first || q->is_paused || !q->n_ready)
                return false;
        struct claim_wait *w = CONTAINER_OF(first, struct claim_link, link)->wait;
        struct claim_ctx *c = core->claiming;
        claiming_init(c, core, &w->spec, w->n_links);
        for (size_t i = 0; i < w->n_links; i++)
                c->queues[i] = w->links[i].queue;
        claim_jobs(c);
        if (is_cut(c))
                serve_later(unseen, q);
        if (!c->n_jobs)
                return false;
        answer(core, w, c);
        return true;
}

void claim_wake_all(struct core *core)
{
        for (struct hash_node *n = NULL; (n = hash_next(&core->state.queues, n));) {
                struct queue *q = CONTAINER_OF(n, struct queue, node);
                if (q->n_ready && !list_is_empty(&q->waiters))
                        serve_later(&core->queues_to_serve, q);
        }
}

/* The archive has caught up: claims that waited because of it are served. */
static void claim_wake_slowed(struct core *core, size_t n_stored)
{
        (void)n_stored;
        if (core->is_slowed && !is_slowed(core))
                claim_wake_all(core);
}

void claim_each_waiting(const struct core *core, void (*fn)(void *ctx, struct slice worker),
                        void *ctx)
{
        for (size_t i = 0; i < core->waits.len; i++) {
                struct session_wait *w =
                        CONTAINER_OF(core->waits.entries[i].node, struct session_wait, timer);
                if (w->ops == &claim_wait_ops)
                        fn(ctx, claim_of(w)->spec.worker);
        }
}

static void claim_serve(struct core *core)
{
        struct list unseen, *it;
        list_init(&unseen);
        while ((it = list_peek_front(&core->queues_to_serve)) && !core_is_congested(core)) {
                struct queue *q = CONTAINER_OF(it, struct queue, to_serve);
                list_remove(&q->to_serve);
                while (serve_first(core, q, &unseen)) {
                        if (!core_is_congested(core))
                                continue;
                        serve_later(&unseen, q); /* more of it next turn */
                        break;
                }
        }
        while ((it = list_peek_front(&unseen))) {
                list_remove(it);
                list_push_back(&core->queues_to_serve, it);
        }
}

/* A claim may end jobs, those without a right signature: their dependents are told once more. */
static void claims_settle(struct core *core)
{
        claim_serve(core);
        dependents_work(core);
}

static int64_t claims_next_ns(const struct core *core)
{
        return list_is_empty(&core->queues_to_serve) ? INT64_MAX : core->now.steady_ns;
}

static void on_ready(void *ctx, struct queue *queue)
{
        struct core *core = ctx;
        if (!list_is_empty(&queue->waiters))
                serve_later(&core->queues_to_serve, queue);
}

static void claims_init(struct core *core)
{
        core->claiming = xcalloc(1, sizeof(*core->claiming));
        core->state.on_ready = on_ready;
        list_init(&core->queues_to_serve);
}

static void claims_release(struct core *core)
{
        free(core->claiming);
}

/* Invariant: a queue that is to be served has a ready job or a worker that waits, or had one when
 * it was put on the list; it is on no other list. */
static void claims_check(const struct core *core)
{
        LIST_FOREACH(&core->queues_to_serve, it)
        {
                const struct queue *q = CONTAINER_OF(it, struct queue, to_serve);
                ASSERT(list_is_linked(&q->to_serve));
                ASSERT(hash_find(&core->state.queues, name_slice(q->name)) == &q->node);
        }
}

const struct feature claims_feature = {.name = "claims",
                                       .init = claims_init,
                                       .release = claims_release,
                                       .turn = claim_serve,
                                       .next_ns = claims_next_ns,
                                       .settle = claims_settle,
                                       .stored = claim_wake_slowed,
                                       .check = claims_check};

/* Claims: the next jobs for a worker, at once or when there are some.
 *
 * Of the queues a worker names, the best job over all of them is taken first (priority, attempts,
 * due, id); paused queues are passed over.  A claim that finds nothing and may wait is put on the
 * list of each of its queues, and served in the order of arrival when a job becomes ready.
 * Serving happens at the end of a turn, so a job enqueued and handed to a waiting worker in one
 * turn costs a single sync.
 *
 * A claim is one atomic change: its grants are in one batch. */
#include <stdlib.h>

#include "base/say.h"
#include "core/inside.h"

/* Args in one answer, about: a claim for more gets fewer jobs than it asked for. */
#define CLAIM_BYTES (16 * MIB)

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

static struct claim_wait *claim_of(struct session_wait *w)
{
        ASSERT(w->kind == WAIT_CLAIM);
        return CONTAINER_OF(w, struct claim_wait, base);
}

/* The queue whose first job is the best; NULL when all are empty or paused. */
static struct queue *best_queue(struct queue *const *queues, size_t n)
{
        struct queue *best = NULL;
        for (size_t i = 0; i < n; i++) {
                struct queue *q = queues[i];
                if (!q || q->is_paused || !q->ready.len)
                        continue;
                if (!best) {
                        best = q;
                        continue;
                }
                uint64_t a = heap_peek_key(&q->ready), b = heap_peek_key(&best->ready);
                if (a < b || (a == b && heap_peek(&q->ready)->id < heap_peek(&best->ready)->id))
                        best = q;
        }
        return best;
}

static uint32_t lease_ms_of(const struct job *job, const struct claim_spec *spec)
{
        if (job->timeout_ms)
                return job->timeout_ms;
        return spec->lease_ms ? spec->lease_ms : JOB_LEASE_DEFAULT_MS;
}

static void grant(struct core *core, struct job *job, const struct claim_spec *spec)
{
        uint32_t lease_ms = lease_ms_of(job, spec);
        struct effect e = {
                .type = EFFECT_JOB_START,
                .id = job_id(job),
                .fence = core->state.fence + 1,
                .deadline_ns = core->now.steady_ns + lease_ms * NS_PER_MS,
                .lease_ms = lease_ms,
                .worker = spec->worker,
        };
        rng_fill(core->options.rng, e.token, sizeof(e.token));
        core->totals.started++;
        core_emit(core, &e);
}

static void emit_granted(struct reply *reply, const struct job *job)
{
        char token[2 * JOB_TOKEN_BYTES];
        hex_from_bytes(job->more->token, JOB_TOKEN_BYTES, token);
        reply_record(reply, 12);
        reply_key(reply, "id");
        reply_int(reply, (int64_t)job_id(job));
        reply_key(reply, "token");
        reply_text(reply, slice_make(token, sizeof(token)));
        reply_key(reply, "hook");
        reply_text(reply, name_slice(job->hook));
        reply_key(reply, "args");
        reply_payload(reply, slice_make(job->args, job->args_len));
        reply_key(reply, "attempt");
        reply_int(reply, job->attempt);
        reply_key(reply, "queue");
        reply_text(reply, name_slice(job->queue->name));
        reply_key(reply, "group");
        reply_text(reply, name_slice(job->group));
        reply_key(reply, "priority");
        reply_int(reply, job->priority);
        reply_key(reply, "attempts");
        reply_int(reply, job->attempts_max);
        reply_key(reply, "fence");
        reply_int(reply, (int64_t)job->more->fence);
        reply_key(reply, "lease_ms");
        reply_int(reply, job->more->lease_ms);
        reply_key(reply, "created_ms");
        reply_int(reply, job->created_ms);
        reply_end(reply);
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

/* How many jobs a claim gets now. */
static size_t count_grants(struct core *core, struct queue *const *queues, size_t n, uint32_t max)
{
        size_t found = 0;
        if (core->is_stopping)
                return 0;
        if (is_slowed(core)) {
                core->totals.slowed_claims++;
                return 0;
        }
        for (size_t i = 0; i < n; i++) {
                bool is_again = false; /* a queue named twice counts once */
                for (size_t j = 0; j < i; j++)
                        is_again |= queues[j] == queues[i];
                if (queues[i] && !queues[i]->is_paused && !is_again)
                        found += queues[i]->ready.len;
        }
        return found < max ? found : max;
}

/* Grants up to n jobs, fewer when their args together would make a reply without bounds. */
static void grant_and_tell(struct core *core, struct queue *const *queues, size_t n_queues,
                           const struct claim_spec *spec, size_t n, struct reply *reply)
{
        struct job *jobs[LIMIT_CLAIM_JOBS];
        size_t granted = 0, bytes = 0;
        while (granted < n && bytes < CLAIM_BYTES) {
                struct queue *q = best_queue(queues, n_queues);
                struct job *job = CONTAINER_OF(heap_peek(&q->ready), struct job, node);
                grant(core, job, spec);
                jobs[granted++] = job;
                bytes += job->args_len;
        }
        reply_wrap(reply, "jobs");
        reply_list(reply, granted);
        for (size_t i = 0; i < granted; i++)
                emit_granted(reply, jobs[i]);
        reply_end(reply);
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
        wait_begin(core, &w->base, WAIT_CLAIM, session);
        for (size_t i = 0; i < n; i++) {
                struct queue *q = state_queue_get(&core->state, spec->queues[i]);
                w->links[i] = (struct claim_link){.queue = q, .wait = w};
                list_push_back(&q->waiters, &w->links[i].link);
        }
        heap_push(&core->waits, &w->base.timer,
                  heap_key_i64(core->now.steady_ns + spec->wait_ms * NS_PER_MS));
        return CORE_LATER;
}

/* Names of queues that are not there yet must fit the limit before anybody waits on them. */
int claim_check(struct core *core, const struct claim_spec *spec, struct problem *problem)
{
        size_t missing = 0;
        for (size_t i = 0; spec->wait_ms && i < spec->n_queues; i++)
                missing += !state_queue_find(&core->state, spec->queues[i]);
        if (state_n_queues(&core->state) + missing > LIMIT_QUEUES)
                return problem_set(problem, ERR_LIMIT, "there are %d queues already", LIMIT_QUEUES);
        return OK;
}

int claim_run(struct core *core, struct session *session, const struct claim_spec *spec,
              struct reply *reply, struct problem *problem)
{
        struct queue *queues[LIMIT_CLAIM_QUEUES] = {NULL};
        int r = claim_check(core, spec, problem);
        if (r != OK)
                return r;
        for (size_t i = 0; i < spec->n_queues; i++)
                queues[i] = state_queue_find(&core->state, spec->queues[i]);
        size_t n = count_grants(core, queues, spec->n_queues, spec->max);
        if (n == 0 && spec->wait_ms && !core->is_stopping)
                return wait_for_jobs(core, session, spec);
        grant_and_tell(core, queues, spec->n_queues, spec, n, reply);
        return OK;
}

EXEC(exec_claim)
{
        return claim_run(core, session, &cmd->claim, reply, problem);
}

void claim_cancel(struct core *core, struct session_wait *base)
{
        struct claim_wait *w = claim_of(base);
        for (size_t i = 0; i < w->n_links; i++)
                list_remove(&w->links[i].link);
        wait_end(core, base);
        free(w);
}

/* Answers a waiting claim with n jobs (0: its time is over). */
static void answer(struct core *core, struct claim_wait *w, size_t n)
{
        struct queue *queues[LIMIT_CLAIM_QUEUES] = {NULL};
        struct session *session = w->base.session;
        for (size_t i = 0; i < w->n_links; i++) {
                queues[i] = w->links[i].queue;
                list_remove(&w->links[i].link);
        }
        wait_end(core, &w->base);
        struct reply *reply = session->ops->reply_begin(session);
        grant_and_tell(core, queues, w->n_links, &w->spec, n, reply);
        free(w);
        session->ops->reply_end(session);
}

void claim_answer_empty(struct core *core, struct session_wait *base)
{
        answer(core, claim_of(base), 0);
}

static bool serve_first(struct core *core, struct queue *q)
{
        struct list *first = list_peek_front(&q->waiters);
        if (!first || q->is_paused || !q->ready.len)
                return false;
        struct claim_wait *w = CONTAINER_OF(first, struct claim_link, link)->wait;
        struct queue *queues[LIMIT_CLAIM_QUEUES] = {NULL};
        for (size_t i = 0; i < w->n_links; i++)
                queues[i] = w->links[i].queue;
        size_t n = count_grants(core, queues, w->n_links, w->spec.max);
        if (n == 0)
                return false;
        answer(core, w, n);
        return true;
}

/* The archive has caught up: whoever waited because of it is served like after news. */
void claim_wake_slowed(struct core *core)
{
        if (!core->is_slowed || is_slowed(core))
                return;
        for (struct hash_node *n = NULL; (n = hash_next(&core->state.queues, n));) {
                struct queue *q = CONTAINER_OF(n, struct queue, node);
                if (q->ready.len && !list_is_empty(&q->waiters) && !list_is_linked(&q->news))
                        list_push_back(&core->news, &q->news);
        }
}

void claim_serve(struct core *core)
{
        for (struct list *it; (it = list_peek_front(&core->news));) {
                struct queue *q = CONTAINER_OF(it, struct queue, news);
                list_remove(&q->news);
                while (serve_first(core, q))
                        ;
        }
}

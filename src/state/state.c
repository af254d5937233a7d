/* The live state.  See state.h for what holds; the effects are applied here, one small function
 * each, from a table.
 *
 * Live and in replay the same functions run.  The one difference: in replay an effect may name a
 * job whose full record comes later in the log (see live.h); it is skipped and remembered, and
 * state_replay_end() insists that every remembered one was seen or ended. */
#include "state/state.h"

#include <stdlib.h>

void state_init(struct state *s, uint64_t hash_seed)
{
        *s = (struct state){.next_id = 1, .next_queue_id = 1, .meta = {.kind = LIVE_META}};
        idmap_init(&s->jobs);
        idmap_init(&s->skipped);
        idmap_init(&s->queues_by_id);
        name_table_init(&s->names, hash_seed);
        hash_init(&s->queues, hash_seed);
        heap_init(&s->delayed);
        heap_init(&s->timed);
        heap_init(&s->running);
        heap_init(&s->grace);
        list_init(&s->live);
        list_push_back(&s->live, &s->meta.link);
}

static struct heap *heap_of(struct state *s, struct job *job)
{
        switch ((enum job_state)job->state) {
        case JOB_SCHEDULED:
                return job->flags & JOB_FLAG_TIMED ? &s->timed : &s->delayed;
        case JOB_READY:
                return &job->queue->ready;
        case JOB_LEASED:
                return &s->running;
        case JOB_FINISHED:
                return &s->grace;
        }
        ASSERT(!"a job has a state");
        return NULL;
}

/* Off its list, out of the counters. */
static void leave(struct state *s, struct job *job)
{
        if (heap_has(&job->node))
                heap_remove(heap_of(s, job), &job->node);
        switch ((enum job_state)job->state) {
        case JOB_SCHEDULED:
                job->queue->n_scheduled--;
                break;
        case JOB_READY:
                break;
        case JOB_LEASED:
                job->queue->n_running--;
                break;
        case JOB_FINISHED:
                job->queue->n_finished--;
                s->n_finished--;
                break;
        }
}

/* In replay the job may still be let go further on: state_replay_end() collects what is left. */
static void push_ended(struct state *s, struct job *job)
{
        if (s->is_replaying)
                return;
        if (s->n_ended == s->cap_ended) {
                s->cap_ended = s->cap_ended ? s->cap_ended * 2 : 64;
                s->ended = xrealloc(s->ended, s->cap_ended * sizeof(struct job *));
        }
        s->ended[s->n_ended++] = job;
}

/* Onto the list of its state, into the counters.  deadline and due are set already. */
static void enter(struct state *s, struct job *job, enum job_state state)
{
        job->state = (uint8_t)state;
        switch (state) {
        case JOB_SCHEDULED:
                heap_push(heap_of(s, job), &job->node, heap_key_i64(job->due_ms));
                job->queue->n_scheduled++;
                break;
        case JOB_READY:
                heap_push(&job->queue->ready, &job->node, job_ready_key(job));
                if (s->on_ready)
                        s->on_ready(s->ctx, job->queue);
                break;
        case JOB_LEASED:
                heap_push(&s->running, &job->node, heap_key_i64(job->more->deadline_ns));
                job->queue->n_running++;
                break;
        case JOB_FINISHED:
                if (job->more->is_lease_open)
                        heap_push(&s->grace, &job->node, heap_key_i64(job->more->deadline_ns));
                else
                        push_ended(s, job);
                job->queue->n_finished++;
                s->n_finished++;
                break;
        }
}

static void set_state(struct state *s, struct job *job, enum job_state state)
{
        leave(s, job);
        enter(s, job, state);
}

/* Back to the queue: at once when due_ms is 0, else at that time. */
static void set_pending(struct state *s, struct job *job, int64_t due_ms)
{
        leave(s, job);
        job->flags &= (uint8_t)~JOB_FLAG_TIMED;
        job->due_ms = due_ms ? due_ms : s->wall_ms;
        enter(s, job, due_ms ? JOB_SCHEDULED : JOB_READY);
}

/* A full record of this object was written in batch `seq`: it is now the youngest. */
static void mark_full(struct state *s, struct live *live, uint64_t seq)
{
        if (list_is_linked(&live->link))
                list_remove(&live->link);
        live->seq = seq;
        list_push_back(&s->live, &live->link);
}

static void drop_job(struct state *s, struct job *job)
{
        leave(s, job);
        list_remove(&job->live.link);
        (void)idmap_take(&s->jobs, job_id(job)); /* it is `job` itself */
        job_free(job, &s->names);
}

static size_t queue_weight(const struct queue *q)
{
        return 64 + q->name->len;
}

static void drop_queue(struct state *s, struct queue *q)
{
        ASSERT(queue_n_jobs(q) == 0 && list_is_empty(&q->waiters));
        if (list_is_linked(&q->live.link)) {
                s->live_bytes -= queue_weight(q);
                list_remove(&q->live.link);
        }
        if (list_is_linked(&q->news))
                list_remove(&q->news);
        hash_remove(&s->queues, &q->node);
        (void)idmap_take(&s->queues_by_id, q->id); /* it is `q` itself */
        heap_release(&q->ready);
        name_unref(&s->names, q->name);
        free(q);
}

void state_release(struct state *s)
{
        uint64_t id = 0;
        for (struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++)
                drop_job(s, job);
        for (struct hash_node *n; (n = hash_next(&s->queues, NULL));)
                drop_queue(s, CONTAINER_OF(n, struct queue, node));
        idmap_release(&s->jobs);
        idmap_release(&s->skipped);
        idmap_release(&s->queues_by_id);
        hash_release(&s->queues);
        name_table_release(&s->names);
        heap_release(&s->delayed);
        heap_release(&s->timed);
        heap_release(&s->running);
        heap_release(&s->grace);
        free(s->ended);
}

struct job *state_job(const struct state *s, uint64_t id)
{
        return idmap_get(&s->jobs, id);
}

struct queue *state_queue_find(const struct state *s, struct slice name)
{
        struct hash_node *n = hash_find(&s->queues, name);
        return n ? CONTAINER_OF(n, struct queue, node) : NULL;
}

static struct queue *new_queue(struct state *s, struct slice name, uint64_t id)
{
        struct queue *q = xcalloc(1, sizeof(*q));
        q->live.kind = LIVE_QUEUE;
        q->name = name_get(&s->names, name);
        q->id = id;
        heap_init(&q->ready);
        list_init(&q->waiters);
        hash_insert(&s->queues, &q->node, name_slice(q->name));
        idmap_put(&s->queues_by_id, id, q);
        if (id >= s->next_queue_id)
                s->next_queue_id = id + 1;
        return q;
}

struct queue *state_queue_get(struct state *s, struct slice name)
{
        struct queue *q = state_queue_find(s, name);
        return q ? q : new_queue(s, name, s->next_queue_id);
}

/* The queue of an effect; the log knows of it from this batch on.  NULL: the id is another's. */
static struct queue *durable_queue(struct state *s, const struct effect *e, uint64_t seq)
{
        struct queue *q = state_queue_find(s, e->queue);
        if (q ? q->id != e->queue_id : !e->queue_id || idmap_get(&s->queues_by_id, e->queue_id))
                return NULL;
        if (!q)
                q = new_queue(s, e->queue, e->queue_id);
        if (!list_is_linked(&q->live.link)) {
                mark_full(s, &q->live, seq);
                s->live_bytes += queue_weight(q);
        }
        return q;
}

size_t state_n_queues(const struct state *s)
{
        return s->queues.len;
}

size_t state_promote(struct state *s, int64_t steady_wall_ms, int64_t wall_ms, size_t max)
{
        struct {
                struct heap *heap;
                int64_t now_ms;
        } clocks[] = {{&s->delayed, steady_wall_ms}, {&s->timed, wall_ms}};
        size_t n = 0;
        for (size_t i = 0; i < ARRAY_LEN(clocks); i++) {
                struct heap *h = clocks[i].heap;
                for (; n < max && h->len; n++) {
                        if (heap_key_to_i64(heap_peek_key(h)) > clocks[i].now_ms)
                                break;
                        set_state(s, CONTAINER_OF(heap_peek(h), struct job, node), JOB_READY);
                }
        }
        return n;
}

/* ---- effects ---- */

struct application {
        struct state *s;
        const struct effect *e;
        struct job *job; /* of e->id; NULL for effects that name none */
        uint64_t seq;
        struct problem *problem;
};

static int cannot_be(const struct application *a, const char *why)
{
        return problem_set(a->problem, ERR_CORRUPT, "%s of job %llu in batch %llu: %s",
                           effect_name(a->e->type), (unsigned long long)a->e->id,
                           (unsigned long long)a->seq, why);
}

static int apply_clock(const struct application *a)
{
        a->s->steady_ns = a->e->steady_ns;
        a->s->wall_ms = a->e->wall_ms;
        return OK;
}

static void fill_job(struct state *s, struct job *job, const struct effect *e, uint64_t seq)
{
        job->hook = name_get(&s->names, e->hook);
        job->group = e->group.len ? name_get(&s->names, e->group) : NULL;
        job->priority = e->priority;
        job->flags = e->flags & JOB_FLAGS_ALL;
        job->attempts_max = e->attempts;
        job->timeout_ms = e->timeout_ms;
        idmap_put(&s->jobs, job_id(job), job);
        mark_full(s, &job->live, seq);
        if (job_id(job) >= s->next_id)
                s->next_id = job_id(job) + 1;
}

/* NULL with *a->problem set when there is no memory or no such queue can be. */
static struct job *make_job(const struct application *a)
{
        const struct effect *e = a->e;
        struct queue *queue = durable_queue(a->s, e, a->seq);
        if (!queue) {
                (void)cannot_be(a, "its queue has another number");
                return NULL;
        }
        struct job *job = job_new(e->id, e->args);
        if (!job) {
                (void)problem_set(a->problem, ERR_NOMEM, "no memory for %zu bytes of args",
                                  e->args.len);
                return NULL;
        }
        job->queue = queue;
        fill_job(a->s, job, e, a->seq);
        return job;
}

static int apply_job_new(const struct application *a)
{
        struct state *s = a->s;
        const struct effect *e = a->e;
        if (a->job || e->id == 0)
                return cannot_be(a, "the id is taken");
        struct job *job = make_job(a);
        if (!job)
                return a->problem->err;
        job->created_ms = s->wall_ms;
        job->due_ms = e->due_ms ? e->due_ms : s->wall_ms;
        job->queue->enqueued++;
        s->live_bytes += job_weight(job);
        enter(s, job, e->due_ms ? JOB_SCHEDULED : JOB_READY);
        return OK;
}

static int apply_job_start(const struct application *a)
{
        struct job *job = a->job;
        const struct effect *e = a->e;
        /* In replay a job may still wait for a time that had come when it was started. */
        if (job->state != JOB_READY && !(a->s->is_replaying && job->state == JOB_SCHEDULED))
                return cannot_be(a, "it was not ready");
        if (job->attempt >= job->attempts_max)
                return cannot_be(a, "its attempts are used up");
        if (e->fence <= a->s->fence && !a->s->is_replaying)
                return cannot_be(a, "its fence did not grow");
        leave(a->s, job);
        struct job_more *more = job_more(job);
        memcpy(more->token, e->token, JOB_TOKEN_BYTES);
        more->fence = e->fence;
        more->deadline_ns = e->deadline_ns;
        more->lease_ms = e->lease_ms;
        more->is_lease_open = true;
        more->started_ms = a->s->wall_ms;
        name_unref(&a->s->names, more->worker);
        more->worker = name_get(&a->s->names, e->worker);
        job_text_set(&more->progress, SLICE_NONE);
        job->attempt++;
        if (e->fence > a->s->fence)
                a->s->fence = e->fence;
        job_tell(job, EVENT_STARTED, a->s->wall_ms, SLICE_NONE);
        enter(a->s, job, JOB_LEASED);
        return OK;
}

/* The end of a job, whatever its outcome: to the archive, or gone at once. */
static int end_job(const struct application *a, enum job_status outcome)
{
        struct state *s = a->s;
        struct job *job = a->job;
        if (outcome == JOB_COMPLETE)
                job->queue->completed++;
        else if (outcome == JOB_FAILED)
                job->queue->failed++;
        else
                job->queue->canceled++;
        if (!a->e->keep) {
                drop_job(s, job);
                return OK;
        }
        leave(s, job);
        job->outcome = (uint8_t)outcome;
        job_more(job)->finished_ms = s->wall_ms;
        enter(s, job, JOB_FINISHED);
        return OK;
}

/* A lease that the holder may still answer for: running, or run out and granted to nobody since. */
static bool has_open_lease(const struct job *job)
{
        return job->more && job->more->is_lease_open;
}

static int apply_job_done(const struct application *a)
{
        struct job *job = a->job;
        if (!has_open_lease(job))
                return cannot_be(a, "it has no open lease");
        if (job->state == JOB_FINISHED)
                job->queue->failed--; /* timed out for good, and now completed after all */
        job->more->is_lease_open = false;
        job_text_set(&job->more->result, a->e->text);
        job_text_set(&job->more->error, SLICE_NONE);
        job_tell(job, EVENT_COMPLETED, a->s->wall_ms, SLICE_NONE);
        return end_job(a, JOB_COMPLETE);
}

static int apply_job_fail(const struct application *a)
{
        struct job *job = a->job;
        if (job->state != JOB_LEASED)
                return cannot_be(a, "it is not running");
        job->more->is_lease_open = false;
        job_text_set(&job->more->error, a->e->text);
        job_tell(job, EVENT_FAILED, a->s->wall_ms, a->e->text);
        if (a->e->is_final)
                return end_job(a, JOB_FAILED);
        set_pending(a->s, job, a->e->due_ms);
        job_tell(job, EVENT_RETRIED, a->s->wall_ms, SLICE_NONE);
        return OK;
}

static int apply_job_timeout(const struct application *a)
{
        struct job *job = a->job;
        if (job->state != JOB_LEASED)
                return cannot_be(a, "it is not running");
        job_text_set(&job->more->error, SLICE_LIT("timed out"));
        job_tell(job, EVENT_TIMED_OUT, a->s->wall_ms, SLICE_NONE);
        if (a->e->is_final) {
                leave(a->s, job);
                job->more->deadline_ns = a->e->deadline_ns;
                job->outcome = JOB_FAILED;
                job->more->finished_ms = a->s->wall_ms;
                job->queue->failed++;
                enter(a->s, job, JOB_FINISHED);
                return OK;
        }
        set_pending(a->s, job, 0);
        job_tell(job, EVENT_RETRIED, a->s->wall_ms, SLICE_NONE);
        return OK;
}

static int apply_job_release(const struct application *a)
{
        struct job *job = a->job;
        if (job->state != JOB_LEASED || job->attempt == 0)
                return cannot_be(a, "it is not running");
        job->more->is_lease_open = false;
        job_tell(job, EVENT_RELEASED, a->s->wall_ms, SLICE_NONE);
        leave(a->s, job);
        job->attempt--; /* a release uses no attempt */
        enter(a->s, job, JOB_LEASED);
        set_pending(a->s, job, a->e->due_ms);
        return OK;
}

static int apply_job_extend(const struct application *a)
{
        struct job *job = a->job;
        if (job->state != JOB_LEASED)
                return cannot_be(a, "it is not running");
        job->more->deadline_ns = a->e->deadline_ns;
        job->more->lease_ms = a->e->lease_ms;
        heap_update(&a->s->running, &job->node, heap_key_i64(a->e->deadline_ns));
        return OK;
}

static int apply_job_progress(const struct application *a)
{
        if (a->job->state != JOB_LEASED)
                return cannot_be(a, "it is not running");
        job_text_set(&a->job->more->progress, a->e->text);
        return OK;
}

static int apply_job_cancel(const struct application *a)
{
        struct job *job = a->job;
        if (job->state == JOB_FINISHED)
                return cannot_be(a, "it has ended");
        job_more(job)->is_lease_open = false;
        job_tell(job, EVENT_CANCELED, a->s->wall_ms, a->e->text);
        return end_job(a, JOB_CANCELED);
}

static int apply_grace_end(const struct application *a)
{
        struct job *job = a->job;
        if (job->state != JOB_FINISHED || !has_open_lease(job))
                return cannot_be(a, "there is no late completion to wait for");
        leave(a->s, job);
        job->more->is_lease_open = false;
        enter(a->s, job, JOB_FINISHED);
        return OK;
}

static int archive_one(const struct application *a, uint64_t id)
{
        struct state *s = a->s;
        struct job *job = state_job(s, id);
        if (!job && s->is_replaying) {
                (void)idmap_take(&s->skipped, id); /* ended before it was seen: all is well */
                return OK;
        }
        if (!job || job->state != JOB_FINISHED)
                return problem_set(a->problem, ERR_CORRUPT,
                                   "archived in batch %llu: job %llu has not ended",
                                   (unsigned long long)a->seq, (unsigned long long)id);
        s->live_bytes -= job_weight(job);
        drop_job(s, job);
        return OK;
}

static int apply_archived(const struct application *a)
{
        int r = OK;
        if (a->e->ids) {
                for (size_t i = 0; i < a->e->n_ids && r == OK; i++)
                        r = archive_one(a, a->e->ids[i]);
                return r;
        }
        struct slice rest = a->e->text;
        uint64_t id = 0;
        while (r == OK && effect_next_id(&rest, &id))
                r = archive_one(a, id);
        return r;
}

static int apply_queue_set(const struct application *a)
{
        struct queue *q = durable_queue(a->s, a->e, a->seq);
        if (!q)
                return cannot_be(a, "the queue has another number");
        q->is_paused = a->e->is_paused;
        if (!q->is_paused && q->ready.len && a->s->on_ready)
                a->s->on_ready(a->s->ctx, q);
        return OK;
}

static int apply_queue_gone(const struct application *a)
{
        struct queue *q = state_queue_find(a->s, a->e->queue);
        if (!q && a->s->is_replaying)
                return OK;
        if (!q || queue_n_jobs(q))
                return problem_set(a->problem, ERR_CORRUPT, "queue_gone: the queue has jobs");
        drop_queue(a->s, q);
        return OK;
}

static int apply_meta_full(const struct application *a)
{
        if (a->e->next_id > a->s->next_id)
                a->s->next_id = a->e->next_id;
        if (a->e->fence > a->s->fence)
                a->s->fence = a->e->fence;
        if (a->e->next_queue_id > a->s->next_queue_id)
                a->s->next_queue_id = a->e->next_queue_id;
        mark_full(a->s, &a->s->meta, a->seq);
        return OK;
}

static int apply_queue_full(const struct application *a)
{
        struct queue *q = durable_queue(a->s, a->e, a->seq);
        if (!q)
                return cannot_be(a, "the queue has another number");
        mark_full(a->s, &q->live, a->seq);
        q->is_paused = a->e->is_paused;
        q->enqueued = a->e->enqueued;
        q->completed = a->e->completed;
        q->failed = a->e->failed;
        q->canceled = a->e->canceled;
        return OK;
}

static void fill_more(struct state *s, struct job *job, const struct effect *e)
{
        const struct job_view *v = &e->view;
        struct job_more *more = job_more(job);
        memcpy(more->token, e->token, JOB_TOKEN_BYTES);
        more->fence = v->fence;
        more->deadline_ns = e->deadline_ns;
        more->lease_ms = e->lease_ms;
        more->started_ms = v->started_ms;
        more->finished_ms = v->finished_ms;
        more->is_lease_open = e->is_lease_open;
        more->worker = v->worker.len ? name_get(&s->names, v->worker) : NULL;
        job_text_set(&more->progress, v->progress);
        job_text_set(&more->result, v->result);
        job_text_set(&more->error, v->error);
        more->events_kept = e->events_kept;
        buf_put_slice(&more->events, v->events);
        if (v->fence > s->fence)
                s->fence = v->fence;
}

/* Live: the cleaner wrote the job again, nothing changes but its place.  In replay the job is
 * made if it was not seen, and is as it already is if it was. */
static int apply_job_full(const struct application *a)
{
        struct state *s = a->s;
        const struct effect *e = a->e;
        if (a->job) {
                mark_full(s, &a->job->live, a->seq);
                return OK;
        }
        if (!s->is_replaying || e->id == 0)
                return cannot_be(a, "there is no such job");
        struct job *job = make_job(a);
        if (!job)
                return a->problem->err;
        job->created_ms = e->view.created_ms;
        job->due_ms = e->due_ms;
        job->attempt = e->view.attempt;
        job->outcome = e->outcome;
        if (e->has_more)
                fill_more(s, job, e);
        s->live_bytes += job_weight(job);
        enter(s, job, (enum job_state)e->state);
        (void)idmap_take(&s->skipped, e->id); /* seen now */
        return OK;
}

enum { NAMES_JOB = 1 };

static const struct {
        int (*apply)(const struct application *a);
        unsigned flags;
} applications[EFFECT_COUNT] = {
        [EFFECT_CLOCK] = {apply_clock, 0},
        [EFFECT_JOB_NEW] = {apply_job_new, 0},
        [EFFECT_JOB_START] = {apply_job_start, NAMES_JOB},
        [EFFECT_JOB_DONE] = {apply_job_done, NAMES_JOB},
        [EFFECT_JOB_FAIL] = {apply_job_fail, NAMES_JOB},
        [EFFECT_JOB_TIMEOUT] = {apply_job_timeout, NAMES_JOB},
        [EFFECT_JOB_RELEASE] = {apply_job_release, NAMES_JOB},
        [EFFECT_JOB_EXTEND] = {apply_job_extend, NAMES_JOB},
        [EFFECT_JOB_PROGRESS] = {apply_job_progress, NAMES_JOB},
        [EFFECT_JOB_CANCEL] = {apply_job_cancel, NAMES_JOB},
        [EFFECT_ARCHIVED] = {apply_archived, 0},
        [EFFECT_QUEUE_SET] = {apply_queue_set, 0},
        [EFFECT_QUEUE_GONE] = {apply_queue_gone, 0},
        [EFFECT_META_FULL] = {apply_meta_full, 0},
        [EFFECT_QUEUE_FULL] = {apply_queue_full, 0},
        [EFFECT_JOB_FULL] = {apply_job_full, 0},
        [EFFECT_GRACE_END] = {apply_grace_end, NAMES_JOB},
};

/* The totals of the queue change even when the job is not seen. */
static void count_unseen(struct state *s, const struct effect *e)
{
        struct queue *q = e->queue_id ? idmap_get(&s->queues_by_id, e->queue_id) : NULL;
        if (!q)
                return; /* its own full record comes later and has it all */
        if (e->type == EFFECT_JOB_DONE) {
                q->completed++;
                q->failed -= e->is_final;
        } else if (e->type == EFFECT_JOB_CANCEL) {
                q->canceled++;
        } else if (e->is_final) {
                q->failed++;
        }
}

/* An effect on a job whose full record comes later, or never if the job ends before: remembered,
 * unless it ends the job without a trace. */
static void skip_unseen(struct state *s, const struct effect *e)
{
        bool is_end = e->type == EFFECT_JOB_DONE || e->type == EFFECT_JOB_CANCEL ||
                      (e->type == EFFECT_JOB_FAIL && e->is_final);
        count_unseen(s, e);
        if (is_end && !e->keep)
                (void)idmap_take(&s->skipped, e->id); /* may not be there: its first effect */
        else if (!idmap_get(&s->skipped, e->id))
                idmap_put(&s->skipped, e->id, s);
        if (e->type == EFFECT_JOB_START && e->fence > s->fence)
                s->fence = e->fence;
}

int state_apply(struct state *s, const struct effect *e, uint64_t seq, struct problem *problem)
{
        ASSERT(e->type > EFFECT_NONE && e->type < EFFECT_COUNT);
        struct application a = {s, e, NULL, seq, problem};
        bool names_job = applications[e->type].flags & NAMES_JOB;
        if (e->id)
                a.job = state_job(s, e->id);
        if (!names_job)
                return applications[e->type].apply(&a);
        if (!a.job && s->is_replaying) {
                skip_unseen(s, e);
                return OK;
        }
        if (!a.job)
                return cannot_be(&a, "there is no such job");
        s->live_bytes -= job_weight(a.job);
        int r = applications[e->type].apply(&a);
        if (state_job(s, e->id))
                s->live_bytes += job_weight(a.job);
        return r;
}

int state_replay_end(struct state *s, struct problem *problem)
{
        uint64_t id;
        s->is_replaying = false;
        if (idmap_next(&s->skipped, 0, &id)) /* nothing is handed on from a log with holes */
                return problem_set(problem, ERR_CORRUPT,
                                   "the log changes job %llu (and %zu more) but does not hold it",
                                   (unsigned long long)id, s->skipped.len - 1);
        id = 0;
        for (struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++)
                if (job->state == JOB_FINISHED && !job->more->is_lease_open)
                        push_ended(s, job);
        return OK;
}

/* ---- checks ---- */

static void check_queue(const struct queue *q, const struct queue *found)
{
        heap_check(&q->ready);
        ASSERT(q->ready.len == found->ready.len);
        ASSERT(q->n_scheduled == found->n_scheduled);
        ASSERT(q->n_running == found->n_running);
        ASSERT(q->n_finished == found->n_finished);
}

static void count_job(const struct job *job, struct queue *found)
{
        switch ((enum job_state)job->state) {
        case JOB_SCHEDULED:
                found->n_scheduled++;
                break;
        case JOB_READY:
                found->ready.len++;
                break;
        case JOB_LEASED:
                found->n_running++;
                break;
        case JOB_FINISHED:
                found->n_finished++;
                break;
        }
}

void state_check(const struct state *s)
{
        uint64_t weight = 0, last_seq = 0, id = 0;
        size_t n_live = 0, n_expected = 1 + s->jobs.len;
        for (const struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++) {
                job_check(job);
                ASSERT(job_id(job) == id && id < s->next_id);
                ASSERT(!job->more || job->more->fence <= s->fence);
                weight += job_weight(job);
        }
        for (struct hash_node *n = NULL; (n = hash_next(&s->queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                struct queue found = {0};
                id = 0;
                for (const struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++)
                        if (job->queue == q)
                                count_job(job, &found);
                check_queue(q, &found);
                if (list_is_linked(&q->live.link)) {
                        weight += queue_weight(q);
                        n_expected++;
                }
        }
        LIST_FOREACH(&s->live, it)
        {
                const struct live *live = CONTAINER_OF(it, struct live, link);
                ASSERT(live->seq >= last_seq);
                last_seq = live->seq;
                n_live++;
        }
        ASSERT(n_live == n_expected);
        ASSERT(weight == s->live_bytes);
        heap_check(&s->delayed);
        heap_check(&s->timed);
        heap_check(&s->running);
        heap_check(&s->grace);
}

/* SCHEDULED and READY differ only by what the clock says, so both count as pending here. */
static uint64_t digest_job(const struct job *job, struct buf *b)
{
        struct effect e;
        effect_of_job(job, &e);
        if (e.state == JOB_SCHEDULED)
                e.state = JOB_READY;
        buf_clear(b);
        effect_write(b, &e);
        return hash_bytes(1, buf_slice(b));
}

uint64_t state_digest(const struct state *s)
{
        struct buf b;
        buf_init(&b, 0);
        uint64_t sum = s->next_id * 31 + s->fence, id = 0;
        for (const struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++)
                sum = sum * 1099511628211ULL + digest_job(job, &b);
        for (struct hash_node *n = NULL; (n = hash_next(&s->queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                if (!list_is_linked(&q->live.link))
                        continue;
                struct effect e;
                effect_of_queue(q, &e);
                buf_clear(&b);
                effect_write(&b, &e);
                sum += hash_bytes(2, buf_slice(&b)); /* queues have no order */
        }
        buf_release(&b);
        return sum;
}

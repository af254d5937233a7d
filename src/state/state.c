/* The live state: where every job is, and the one function that moves it.  See state.h for what
 * holds, apply.c for the effects, links.c for what links a job to others. */
#include "state/state.h"

#include <stdlib.h>

#include "state/cap.h"
#include "state/state_int.h"

void state_init(struct state *s, uint64_t hash_seed, const struct thing_ops *const *kinds)
{
        *s = (struct state){.kinds = kinds,
                            .next_id = 1,
                            .next_queue_id = 1,
                            .meta = {.kind = LIVE_META},
                            .digest = {.mark = {.kind = LIVE_MARK}}};
        idmap_init(&s->jobs);
        idmap_init(&s->skipped);
        idmap_init(&s->queues_by_id);
        name_table_init(&s->names, hash_seed);
        hash_init(&s->queues, hash_seed);
        heap_init(&s->delayed);
        heap_init(&s->timed);
        heap_init(&s->running);
        heap_init(&s->grace);
        idmap_init(&s->after);
        hash_init(&s->unique, hash_seed);
        heap_init(&s->expiring);
        list_init(&s->audits);
        list_init(&s->sequels);
        for (size_t i = 0; i < STATE_TIERS; i++) {
                list_init(&s->parked[i]);
                list_init(&s->returning[i]);
        }
        things_init(s, hash_seed);
        list_init(&s->live);
        list_push_back(&s->live, &s->meta.link);
}

static struct heap *heap_of(struct state *s, struct job *job)
{
        switch ((enum job_state)job->state) {
        case JOB_SCHEDULED:
                return job->flags & JOB_FLAG_TIMED ? &s->timed : &s->delayed;
        case JOB_READY: /* queue_push() and queue_take() know where */
                break;
        case JOB_WAITING:
                return &job->extra->blocker->waiting;
        case JOB_HELD:
                break;
        case JOB_LEASED:
                return &s->running;
        case JOB_FINISHED:
                return &s->grace;
        }
        ASSERT(!"a job has a state");
        return NULL;
}

static void count_tier(struct state *s, struct job *job, int by)
{
        if (!(job->flags & JOB_FLAG_TIERED))
                return;
        size_t tier = (job->flags & JOB_FLAG_TIER) >> JOB_FLAG_TIER_SHIFT;
        s->n_running_tier[tier] += (size_t)by;
        if (tier == 0)
                job->queue->n_first_tier += (uint64_t)(int64_t)by;
        if (by < 0) /* it stops running */
                job->flags &= (uint8_t) ~(JOB_FLAG_TIERED | JOB_FLAG_TIER);
}

/* Off its list, out of the counters. */
void state_leave(struct state *s, struct job *job)
{
        if (job->state == JOB_READY)
                queue_take(job->queue, job);
        else if (heap_has(&job->node))
                heap_remove(heap_of(s, job), &job->node);
        switch ((enum job_state)job->state) {
        case JOB_SCHEDULED:
                job->queue->n_scheduled--;
                break;
        case JOB_READY:
                break;
        case JOB_WAITING:
        case JOB_HELD:
                job->queue->n_waiting--;
                break;
        case JOB_LEASED:
                job->queue->n_running--;
                count_tier(s, job, -1);
                queue_count_claim(job->queue, job->more->claim, -1);
                caps_count(s, job, -1);
                /* A place of the queue may be free now. */
                if (job->queue->n_ready && s->on_ready)
                        s->on_ready(s->ctx, job->queue);
                break;
        case JOB_FINISHED:
                job->queue->n_finished--;
                s->n_finished--;
                break;
        }
}

/* In replay the job may still be let go further on: state_replay_end() collects what is left. */
void state_push_ended(struct state *s, struct job *job)
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
void state_enter(struct state *s, struct job *job, enum job_state state)
{
        job->state = (uint8_t)state;
        switch (state) {
        case JOB_SCHEDULED:
                heap_push(heap_of(s, job), &job->node, heap_key_i64(job->due_ms));
                job->queue->n_scheduled++;
                break;
        case JOB_READY:
                queue_push(job->queue, job);
                if (s->on_ready)
                        s->on_ready(s->ctx, job->queue);
                break;
        case JOB_WAITING:
                heap_push(heap_of(s, job), &job->node, job_ready_key(job));
                job->queue->n_waiting++;
                break;
        case JOB_HELD:
                job->queue->n_waiting++;
                break;
        case JOB_LEASED:
                heap_push(&s->running, &job->node, heap_key_i64(job->more->deadline_ns));
                job->queue->n_running++;
                count_tier(s, job, 1);
                queue_count_claim(job->queue, job->more->claim, 1);
                caps_count(s, job, 1);
                break;
        case JOB_FINISHED:
                if (job->more->is_lease_open)
                        heap_push(&s->grace, &job->node, heap_key_i64(job->more->deadline_ns));
                else
                        state_push_ended(s, job);
                job->queue->n_finished++;
                s->n_finished++;
                break;
        }
        if (job->extra)
                links_update(s, job);
}

void state_move(struct state *s, struct job *job, enum job_state state)
{
        state_leave(s, job);
        state_enter(s, job, state);
}

/* Back to the queue: at once when due_ms is 0, else at that time. */
void state_pending(struct state *s, struct job *job, int64_t due_ms)
{
        state_leave(s, job);
        job_leave_gate(job, s->steady_ns); /* what it waits for now is not the gate */
        job->flags &= (uint8_t)~JOB_FLAG_TIMED;
        job->due_ms = due_ms ? due_ms : s->wall_ms;
        state_enter(s, job, due_ms ? JOB_SCHEDULED : JOB_READY);
}

void state_drop_job(struct state *s, struct job *job)
{
        state_leave(s, job);
        if (job->extra)
                links_end(s, job);
        list_remove(&job->live.link);
        (void)idmap_take(&s->jobs, job_id(job)); /* it is `job` itself */
        job_free(job, &s->names);
}

void state_weigh(struct state *s, struct job *job, int by)
{
        uint64_t weight = job_weight(job);
        s->live_bytes += by < 0 ? -weight : weight;
        job->queue->job_bytes += by < 0 ? -weight : weight;
        if (job->extra)
                s->option_bytes += by < 0 ? -job->extra->packed.len : job->extra->packed.len;
}

size_t state_queue_weight(const struct queue *q)
{
        return 64 + q->name->len + q->packed.len;
}

void state_drop_queue(struct state *s, struct queue *q)
{
        ASSERT(queue_n_jobs(q) == 0 && list_is_empty(&q->waiters));
        if (list_is_linked(&q->live.link)) {
                s->live_bytes -= state_queue_weight(q);
                list_remove(&q->live.link);
        }
        if (list_is_linked(&q->to_serve))
                list_remove(&q->to_serve);
        hash_remove(&s->queues, &q->node);
        (void)idmap_take(&s->queues_by_id, q->id); /* it is `q` itself */
        queue_release(q);
        name_unref(&s->names, q->name);
        free(q);
}

void state_release(struct state *s)
{
        uint64_t id = 0;
        for (struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++)
                state_drop_job(s, job);
        HASH_DRAIN(&s->queues, n)
        state_drop_queue(s, CONTAINER_OF(n, struct queue, node));
        links_release(s);
        things_release(s);
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
        queue_init(q);
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
struct queue *state_durable_queue(struct state *s, const struct effect *e, uint64_t seq)
{
        struct queue *q = state_queue_find(s, e->queue);
        if (q ? q->id != e->queue_id : !e->queue_id || idmap_get(&s->queues_by_id, e->queue_id))
                return NULL;
        if (!q)
                q = new_queue(s, e->queue, e->queue_id);
        if (!list_is_linked(&q->live.link)) {
                live_mark(&s->live, &q->live, seq);
                s->live_bytes += state_queue_weight(q);
        }
        return q;
}

const struct live *state_oldest(const struct state *s)
{
        const struct list *it = s->live.next;
        if (it == &s->digest.mark.link)
                it = it->next;
        ASSERT(it != &s->live); /* meta is always there */
        return CONTAINER_OF(it, const struct live, link);
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
                        state_move(s, CONTAINER_OF(heap_peek(h), struct job, node), JOB_READY);
                }
        }
        return n;
}

void state_block(struct state *s, struct job *job, struct thing *by)
{
        ASSERT(job->state == JOB_READY);
        state_leave(s, job);
        job_extra(job)->blocker = by;
        state_enter(s, job, JOB_WAITING);
}

size_t state_unblock(struct state *s, struct thing *by, size_t max)
{
        size_t n = 0;
        for (; n < max && by->waiting.len; n++)
                state_move(s, CONTAINER_OF(heap_peek(&by->waiting), struct job, node), JOB_READY);
        return n;
}

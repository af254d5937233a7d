/* Taking new work: one job or many, all or none. */
#include "core/inside.h"

/* About what the record takes beside args and names. */
#define NEW_RECORD_BYTES 64

/* Forgets queues that nothing uses, when the limit needs their place. */
static void reap_idle_queues(struct core *core)
{
        struct state *s = &core->state;
        for (struct hash_node *n = hash_next(&s->queues, NULL), *next; n; n = next) {
                next = hash_next(&s->queues, n);
                struct queue *q = CONTAINER_OF(n, struct queue, node);
                if (queue_n_jobs(q) || q->is_paused || !list_is_empty(&q->waiters))
                        continue;
                struct effect e = {.type = EFFECT_QUEUE_GONE, .queue = name_slice(q->name)};
                core_emit(core, &e);
        }
}

static int check_queues(struct core *core, const struct command *cmd, struct problem *problem)
{
        struct state *s = &core->state;
        if (state_n_queues(s) + cmd->n_specs <= LIMIT_QUEUES)
                return OK;
        size_t missing = 0;
        for (size_t i = 0; i < cmd->n_specs; i++)
                missing += !state_queue_find(s, cmd->specs[i].queue);
        if (state_n_queues(s) + missing <= LIMIT_QUEUES)
                return OK;
        reap_idle_queues(core);
        if (state_n_queues(s) + missing <= LIMIT_QUEUES)
                return OK;
        return problem_set(problem, ERR_LIMIT, "there are %d queues with work already",
                           LIMIT_QUEUES);
}

static int enqueue_one(struct core *core, const struct job_spec *spec, struct problem *problem)
{
        struct effect e = {
                .type = EFFECT_JOB_NEW,
                .id = core->state.next_id,
                .priority = spec->priority,
                .flags = spec->at_ms ? JOB_FLAG_TIMED : 0,
                .attempts = spec->attempts,
                .timeout_ms = spec->timeout_ms,
                .queue = spec->queue,
                .queue_id = state_queue_get(&core->state, spec->queue)->id,
                .hook = spec->hook,
                .group = spec->group,
                .args = spec->args,
                .due_ms = core_due_in(core, spec->in_ms),
        };
        if (spec->at_ms)
                e.due_ms = spec->at_ms > core->now.wall_ms ? spec->at_ms : 0;
        return core_try_emit(core, &e, problem);
}

/* Takes back the first n jobs of a request that could not be met whole: nothing was promised. */
static void undo(struct core *core, uint64_t first_id, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct effect e = {
                        .type = EFFECT_JOB_CANCEL,
                        .id = first_id + i,
                        .queue_id = state_job(&core->state, first_id + i)->queue->id,
                };
                core_emit(core, &e);
        }
}

EXEC(exec_enqueue)
{
        (void)session; /* whoever asks may add work */
        uint64_t bytes = 0;
        for (size_t i = 0; i < cmd->n_specs; i++)
                bytes += cmd->specs[i].args.len + NEW_RECORD_BYTES;
        int r = core_admit(core, bytes, cmd->n_specs, problem);
        if (r == OK)
                r = check_queues(core, cmd, problem);
        if (r != OK)
                return r;

        uint64_t first_id = core->state.next_id;
        for (size_t i = 0; i < cmd->n_specs; i++) {
                r = enqueue_one(core, &cmd->specs[i], problem);
                if (r != OK) {
                        undo(core, first_id, i);
                        return r;
                }
        }
        core->totals.enqueued += cmd->n_specs;
        if (!cmd->is_many) {
                reply_wrap(reply, "id");
                reply_int(reply, (int64_t)first_id);
                return OK;
        }
        reply_wrap(reply, "ids");
        reply_list(reply, cmd->n_specs);
        for (size_t i = 0; i < cmd->n_specs; i++)
                reply_int(reply, (int64_t)(first_id + i));
        reply_end(reply);
        return OK;
}

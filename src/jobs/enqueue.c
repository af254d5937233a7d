/* Taking new work: one job or many, all or none. */
#include "jobs/enqueue.h"

#include <stdlib.h>

#include "api/exec.h"
#include "api/replies.h"
#include "jobs/batch.h"
#include "jobs/dependents.h"
#include "jobs/keeping.h"
#include "jobs/queues.h"
#include "state/backoff.h"
#include "state/hold.h"
#include "wire/digest.h"
#include "wire/json_canon.h"

/* About what the record takes beside args and names. */
#define NEW_RECORD_BYTES 64
#define OPTIONS_BYTES    1024

static int check_queues(struct core *core, const struct command *cmd, struct problem *problem)
{
        struct state *s = &core->state;
        if (state_n_queues(s) + cmd->n_specs <= LIMIT_QUEUES)
                return OK;
        /* Neighbours mostly share a queue, and a new one must not count ten thousand times. */
        size_t missing = 0;
        for (size_t i = 0; i < cmd->n_specs; i++)
                if (i == 0 || !slice_eq(cmd->specs[i].queue, cmd->specs[i - 1].queue))
                        missing += !state_queue_find(s, cmd->specs[i].queue);
        return queues_admit(core, missing, problem);
}

/* ---- options ---- */

/* A job may only come after jobs that exist before the request. */
static int check_after(const struct core *core, const struct command *cmd, struct problem *problem)
{
        for (size_t i = 0; i < cmd->n_specs; i++) {
                struct slice text = cmd->specs[i].after;
                uint64_t id;
                while (ids_next(&text, &id))
                        if (id >= core->state.next_id)
                                return problem_set(
                                        problem, ERR_NOTFOUND,
                                        "after: there is no job %llu; a job comes after jobs "
                                        "that exist, so it can never wait for itself",
                                        (unsigned long long)id);
        }
        return OK;
}

/* "*" stands for hook, group and args.  Args that are JSON count by their value: clients write the
 * same members in any order and with any space. */
static struct slice unique_key(const struct job_spec *spec, char room[DIGEST_TEXT])
{
        struct buf canon CLEANUP(buf_release) = {0};
        if (!slice_eq(spec->options.unique, SLICE_LIT("*")))
                return spec->options.unique;
        bool is_json = json_canon(spec->args, &canon);
        const struct slice parts[] = {spec->hook, spec->group,
                                      is_json ? buf_slice(&canon) : spec->args};
        digest_text(parts, ARRAY_LEN(parts), room);
        return slice_make(room, DIGEST_TEXT);
}

/* The options as they are kept, with this unique key, packed into core->packed. */
static int pack_options(struct core *core, const struct job_spec *spec, struct slice unique,
                        struct problem *problem)
{
        struct job_options o = spec->options;
        struct backoff backoff;
        struct buf packed_backoff, after;
        int r = OK;
        buf_init(&packed_backoff, 0);
        buf_init(&after, 0);
        o.unique = unique;
        if (spec->expires_in)
                o.expires_ms = (uint64_t)core_due_in(core, (int64_t)spec->expires_in);
        if (o.backoff.len) {
                r = backoff_parse(o.backoff, &backoff, problem);
                if (r == OK)
                        backoff_pack(&backoff, &packed_backoff);
                o.backoff = buf_slice(&packed_backoff);
        }
        struct slice ids = spec->after;
        for (uint64_t id; ids_next(&ids, &id);)
                buf_put_varint(&after, id);
        o.after = buf_slice(&after);
        buf_clear(&core->packed);
        options_pack(&o, &core->packed);
        buf_release(&packed_backoff);
        buf_release(&after);
        return r;
}

/* ---- unique keys ---- */

/* The job that has this key now, live or by a hold; 0: nobody. */
static uint64_t key_holder(const struct core *core, struct slice key)
{
        const struct job *job = state_unique_holder(&core->state, key);
        if (job)
                return job_id(job);
        struct thing *t = thing_find(&core->state, THING_HOLD, key);
        return t ? CONTAINER_OF(t, struct hold, thing)->job_id : 0;
}

/* Somebody has the key.  The holder gets the args if it may, and its id is the answer. */
static int meet_conflict(struct core *core, const struct job_spec *spec, uint64_t holder,
                         struct problem *problem)
{
        const struct job *job = state_job(&core->state, holder);
        if (spec->conflict == CONFLICT_REJECT)
                return problem_set(problem, ERR_CONFLICT, "job %llu holds that unique key",
                                   (unsigned long long)holder);
        bool is_pending = job && job->state != JOB_LEASED && job->state != JOB_FINISHED;
        if (spec->conflict != CONFLICT_REPLACE || !is_pending)
                return OK;
        struct effect e = {.type = EFFECT_JOB_ARGS, .id = holder, .args = spec->args};
        return core_try_emit(core, &e, problem);
}

/* Before anything is changed: would a job of this request be refused because of its key, also by
 * one before it in the same request? */
static int check_rejects(struct core *core, const struct command *cmd, struct problem *problem)
{
        struct hash seen;
        int r = OK;
        bool is_asked = false;
        for (size_t i = 0; i < cmd->n_specs; i++)
                is_asked |= cmd->specs[i].conflict == CONFLICT_REJECT;
        if (!is_asked)
                return OK;
        hash_init(&seen, 1);
        struct unique_mark {
                struct hash_node node;
                char room[DIGEST_TEXT];
        } *marks = xcalloc(cmd->n_specs, sizeof(*marks));
        for (size_t i = 0; i < cmd->n_specs && r == OK; i++) {
                const struct job_spec *spec = &cmd->specs[i];
                if (!spec->options.unique.len)
                        continue;
                struct slice key = unique_key(spec, marks[i].room);
                uint64_t holder = key_holder(core, key);
                bool is_seen = hash_find(&seen, key) != NULL;
                if (spec->conflict == CONFLICT_REJECT && holder)
                        r = meet_conflict(core, spec, holder, problem);
                else if (spec->conflict == CONFLICT_REJECT && is_seen)
                        r = problem_set(problem, ERR_CONFLICT,
                                        "job %zu of this request has the unique key of one before",
                                        i);
                if (!is_seen)
                        hash_insert(&seen, &marks[i].node, key);
        }
        hash_release(&seen);
        free(marks);
        return r;
}

/* ---- one job ---- */

static int enqueue_new(struct core *core, const struct job_spec *spec, struct slice options,
                       struct problem *problem)
{
        struct effect e = {
                .type = EFFECT_JOB_NEW,
                .id = core->state.next_id,
                .priority = (uint8_t)spec->priority,
                .flags = spec->at_ms ? JOB_FLAG_TIMED : 0,
                .attempts = (uint16_t)spec->attempts,
                .timeout_ms = (uint32_t)spec->timeout_ms,
                .queue = spec->queue,
                .queue_id = state_queue_get(&core->state, spec->queue)->id,
                .hook = spec->hook,
                .group = spec->group,
                .args = spec->args,
                .options = options,
                .due_ms = core_due_in(core, spec->in_ms),
        };
        if (spec->at_ms)
                e.due_ms = spec->at_ms > core->now.wall_ms ? spec->at_ms : 0;
        return core_try_emit(core, &e, problem);
}

int enqueue_one(struct core *core, const struct job_spec *spec, uint64_t *ret,
                struct problem *problem)
{
        struct slice options = SLICE_NONE;
        *ret = core->state.next_id;
        if (spec->has_options) {
                char room[DIGEST_TEXT];
                struct slice unique = unique_key(spec, room);
                int r = pack_options(core, spec, unique, problem);
                if (r != OK)
                        return r;
                uint64_t holder = unique.len ? key_holder(core, unique) : 0;
                if (holder) {
                        *ret = holder;
                        return meet_conflict(core, spec, holder, problem);
                }
                options = buf_slice(&core->packed);
        }
        int r = enqueue_new(core, spec, options, problem);
        if (r != OK)
                return r;
        core->totals.enqueued++;
        const struct job *job = state_job(&core->state, *ret);
        if (job->state == JOB_HELD)
                dependents_look_up(core, job);
        return OK;
}

/* Takes back the jobs of a request that could not be met whole: nothing was promised, so nobody is
 * told of an end. */
static void undo(struct core *core, uint64_t first_id)
{
        for (uint64_t id = first_id; id < core->state.next_id; id++) {
                const struct job *job = state_job(&core->state, id);
                struct effect e = {.type = EFFECT_JOB_CANCEL, .id = id, .queue_id = job->queue->id};
                core_emit(core, &e);
        }
}

/* The jobs of a request that was met whole are counted by their batches; those of before, which
 * hold a unique key of the request, are not.  Neighbours of one batch share a record. */
static void add_to_batches(struct core *core, uint64_t first_id)
{
        const struct thing *batch = NULL;
        uint64_t n = 0;
        for (uint64_t id = first_id; id < core->state.next_id; id++) {
                const struct job *job = state_job(&core->state, id);
                const struct thing *of = job->extra ? job->extra->batch : NULL;
                if (of != batch && n)
                        batch_add(core, thing_name(batch), n);
                if (of != batch)
                        n = 0;
                batch = of;
                n += batch != NULL;
        }
        if (n)
                batch_add(core, thing_name(batch), n);
}

static int check_batches(struct core *core, const struct command *cmd, struct problem *problem)
{
        int r = OK;
        for (size_t i = 0; i < cmd->n_specs && r == OK; i++)
                if (cmd->specs[i].options.batch.len)
                        r = batch_check(core, cmd->specs[i].options.batch, cmd->n_specs, problem);
        return r;
}

/* Will history take them, where it is to?  Neighbours mostly share a queue. */
static int check_keeping(struct core *core, const struct command *cmd, uint64_t bytes,
                         struct problem *problem)
{
        int r = OK;
        if (keeping_has_room(core, bytes, cmd->n_specs))
                return OK;
        for (size_t i = 0; i < cmd->n_specs && r == OK; i++)
                if (i == 0 || !slice_eq(cmd->specs[i].queue, cmd->specs[i - 1].queue))
                        r = keeping_admit(core, cmd->specs[i].queue, bytes, cmd->n_specs, problem);
        return r;
}

/* All that can be known before the first change. */
static int check_request(struct core *core, const struct command *cmd, struct problem *problem)
{
        uint64_t bytes = cmd->n_specs * NEW_RECORD_BYTES;
        for (size_t i = 0; i < cmd->n_specs; i++)
                bytes += cmd->specs[i].args.len + (cmd->specs[i].has_options ? OPTIONS_BYTES : 0);
        int r = core_admit(core, bytes, cmd->n_specs, problem);
        if (r == OK)
                r = check_keeping(core, cmd, bytes, problem);
        if (r == OK)
                r = check_after(core, cmd, problem);
        if (r == OK)
                r = check_batches(core, cmd, problem);
        if (r == OK)
                r = check_rejects(core, cmd, problem);
        return r == OK ? check_queues(core, cmd, problem) : r; /* last: it may forget some */
}

static void tell_ids(struct reply *reply, const struct reply_items *items)
{
        const uint64_t *ids = items->of;
        for (size_t i = 0; i < items->n; i++)
                reply_int(reply, (int64_t)ids[i]);
}

int exec_enqueue(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may add work */
        int r = check_request(core, cmd, problem);
        uint64_t first_id = core->state.next_id, one = 0;
        uint64_t *ids = cmd->n_specs > 1 ? xcalloc(cmd->n_specs, sizeof(*ids)) : &one;
        for (size_t i = 0; i < cmd->n_specs && r == OK; i++)
                r = enqueue_one(core, &cmd->specs[i], &ids[i], problem);
        if (r == OK)
                add_to_batches(core, first_id);
        if (r != OK) {
                undo(core, first_id);
        } else if (!cmd->is_many) {
                reply_enqueued(reply, &(struct enqueued_reply){(int64_t)ids[0]});
        } else {
                const struct enqueued_many_reply told = {{cmd->n_specs, tell_ids, core, ids}};
                reply_enqueued_many(reply, &told);
        }
        if (ids != &one)
                free(ids);
        return r;
}

int exec_enqueuemany(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        return exec_enqueue(core, session, cmd, reply, problem); /* one job is a list of one */
}

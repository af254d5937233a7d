/* Applies effects to the state: one function for each row of effect_map.h.
 *
 * The same functions run live and in replay, with one difference.  In replay an effect may name a
 * job whose full record comes later in the log (see live.h).  Such an effect is skipped and its job
 * remembered; state_replay_end() fails when a remembered job was neither seen nor ended. */
#include <stdio.h>
#include <stdlib.h>

#include "state/cap.h"
#include "state/schedule.h"
#include "state/state_int.h"

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

/* A job of an effect, on the live list and with its links, but in no state yet.  NULL with
 * *a->problem set when there is no memory or the effect cannot be true. */
static struct job *make_job(const struct application *a)
{
        struct state *s = a->s;
        const struct effect *e = a->e;
        struct job_options options;
        struct queue *queue = state_durable_queue(s, e, a->seq);
        if (!queue) {
                (void)cannot_be(a, "its queue has another number");
                return NULL;
        }
        if (e->options.len && !options_unpack(e->options, &options)) {
                (void)cannot_be(a, "its options are not well formed");
                return NULL;
        }
        struct job *job = job_new(e->id, e->args);
        if (!job) {
                (void)problem_set(a->problem, ERR_NOMEM, "no memory for %zu bytes of args",
                                  e->args.len);
                return NULL;
        }
        job->queue = queue;
        job->hook = name_get(&s->names, e->hook);
        job->group = e->group.len ? name_get(&s->names, e->group) : NULL;
        job->priority = e->priority;
        job->flags = e->flags & JOB_FLAGS_ALL;
        job->attempts_max = e->attempts;
        job->timeout_ms = e->timeout_ms;
        idmap_put(&s->jobs, e->id, job);
        live_mark(&s->live, &job->live, a->seq);
        if (e->id >= s->next_id)
                s->next_id = e->id + 1;
        if (e->options.len) {
                job_set_options(job, &options);
                links_begin(s, job);
        }
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
        state_weigh(s, job, 1);
        if (job->extra && job->extra->n_after)
                state_enter(s, job, JOB_HELD);
        else
                state_enter(s, job, e->due_ms ? JOB_SCHEDULED : JOB_READY);
        if (job->extra && job->extra->options.schedule.len)
                schedule_fired(s, job);
        return OK;
}

/* An attempt that may run only for some time begins. */
static void begin_run(const struct state *s, struct job *job)
{
        if (!job->extra || !job->extra->options.maxrun_ms)
                return;
        struct job_options options = job->extra->options;
        options.run_until_ns = (uint64_t)s->steady_ns + options.maxrun_ms * NS_PER_MS;
        job_set_options(job, &options);
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
        state_leave(a->s, job);
        job_leave_gate(job, a->s->steady_ns);
        queue_charge(job->queue, job, group_weight(a->s, job));
        struct job_more *more = job_more(job);
        memcpy(more->token, e->token, JOB_TOKEN_BYTES);
        more->fence = e->fence;
        more->deadline_ns = e->deadline_ns;
        more->lease_ms = e->lease_ms;
        more->claim = e->other_id;
        more->is_lease_open = true;
        more->started_ms = a->s->wall_ms;
        name_unref(&a->s->names, more->worker);
        more->worker = name_get(&a->s->names, e->worker);
        job_text_set(&more->progress, SLICE_NONE);
        begin_run(a->s, job);
        job->attempt++;
        if (e->fence > a->s->fence)
                a->s->fence = e->fence;
        job_tell(job, EVENT_STARTED, a->s->wall_ms, SLICE_NONE);
        state_enter(a->s, job, JOB_LEASED);
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
        if (job->state == JOB_READY)
                caps_wake(s, job);
        if (!a->e->keep) {
                state_drop_job(s, job);
                return OK;
        }
        state_leave(s, job);
        job_leave_gate(job, s->steady_ns);
        job->outcome = (uint8_t)outcome;
        job_more(job)->finished_ms = s->wall_ms;
        state_enter(s, job, JOB_FINISHED);
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

/* Attempts are left, and the worker said that they are of no use. */
static void tell_given_up(const struct application *a)
{
        char text[96];
        (void)snprintf(text, sizeof(text), "at attempt %u of %u: its worker said not to try again",
                       a->job->attempt, a->job->attempts_max);
        job_tell(a->job, EVENT_GIVEN_UP, a->s->wall_ms, slice_str(text));
}

static int apply_job_fail(const struct application *a)
{
        struct job *job = a->job;
        bool is_never_started = a->e->is_final && job->state != JOB_FINISHED;
        if (job->state != JOB_LEASED && !is_never_started)
                return cannot_be(a, "it is not running");
        bool is_given_up =
                a->e->is_final && job->state == JOB_LEASED && job->attempt < job->attempts_max;
        job_more(job)->is_lease_open = false;
        job_text_set(&job->more->error, a->e->text);
        job_tell(job, EVENT_FAILED, a->s->wall_ms, a->e->text);
        if (is_given_up)
                tell_given_up(a);
        if (a->e->is_final)
                return end_job(a, JOB_FAILED);
        state_pending(a->s, job, a->e->due_ms);
        job_tell(job, EVENT_RETRIED, a->s->wall_ms, SLICE_NONE);
        return OK;
}

/* Did the lease end because the attempt may not run any longer? */
static bool has_run_too_long(const struct job *job)
{
        return job->extra && job->extra->options.maxrun_ms &&
               (uint64_t)job->more->deadline_ns >= job->extra->options.run_until_ns;
}

static int apply_job_timeout(const struct application *a)
{
        struct job *job = a->job;
        if (job->state != JOB_LEASED)
                return cannot_be(a, "it is not running");
        bool is_too_long = has_run_too_long(job);
        job_text_set(&job->more->error, is_too_long ? SLICE_LIT("timed out: it ran as long as its "
                                                                "MAXRUN allows")
                                                    : SLICE_LIT("timed out"));
        job_tell(job, EVENT_TIMED_OUT, a->s->wall_ms,
                 is_too_long ? SLICE_LIT("it ran as long as its MAXRUN allows") : SLICE_NONE);
        if (a->e->is_final) {
                state_leave(a->s, job);
                job->more->deadline_ns = a->e->deadline_ns;
                job->outcome = JOB_FAILED;
                job->more->finished_ms = a->s->wall_ms;
                job->queue->failed++;
                state_enter(a->s, job, JOB_FINISHED);
                return OK;
        }
        state_pending(a->s, job, 0);
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
        state_leave(a->s, job);
        job->attempt--; /* a release uses no attempt */
        state_enter(a->s, job, JOB_LEASED);
        state_pending(a->s, job, a->e->due_ms);
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
        state_leave(a->s, job);
        job->more->is_lease_open = false;
        state_enter(a->s, job, JOB_FINISHED);
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
        state_weigh(s, job, -1);
        state_drop_job(s, job);
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

static void count_claims(struct state *s, struct queue *q)
{
        for (uint32_t i = 0; i < s->running.len; i++) {
                const struct job *job = CONTAINER_OF(s->running.entries[i].node, struct job, node);
                if (job->queue == q)
                        queue_count_claim(q, job->more->claim, 1);
        }
}

static bool set_queue(const struct application *a, struct queue *q)
{
        bool was_counted = q->settings.claims;
        a->s->live_bytes -= state_queue_weight(q);
        bool is_set = queue_set(q, a->e->options);
        a->s->live_bytes += state_queue_weight(q);
        if (q->settings.claims && !was_counted)
                count_claims(a->s, q);
        else if (was_counted && !q->settings.claims)
                idmap_release(&q->claims);
        return is_set;
}

static int apply_queue_set(const struct application *a)
{
        struct queue *q = state_durable_queue(a->s, a->e, a->seq);
        if (!q)
                return cannot_be(a, "the queue has another number");
        q->is_paused = a->e->is_paused;
        if (!set_queue(a, q))
                return cannot_be(a, "its settings are not well formed");
        if (!q->is_paused && q->n_ready && a->s->on_ready)
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
        state_drop_queue(a->s, q);
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
        live_mark(&a->s->live, &a->s->meta, a->seq);
        return OK;
}

static int apply_queue_full(const struct application *a)
{
        struct queue *q = state_durable_queue(a->s, a->e, a->seq);
        if (!q)
                return cannot_be(a, "the queue has another number");
        live_mark(&a->s->live, &q->live, a->seq);
        q->is_paused = a->e->is_paused;
        if (!set_queue(a, q))
                return cannot_be(a, "its settings are not well formed");
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
        more->claim = e->other_id;
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
                live_mark(&s->live, &a->job->live, a->seq);
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
        state_weigh(s, job, 1);
        state_enter(s, job, (enum job_state)e->state);
        (void)idmap_take(&s->skipped, e->id); /* seen now */
        return OK;
}

static int apply_job_back(const struct application *a)
{
        struct state *s = a->s;
        if (a->job)
                return cannot_be(a, "it is live already");
        bool is_replaying = s->is_replaying;
        s->is_replaying = true; /* it is made as replay makes it from a full record */
        int r = apply_job_full(a);
        s->is_replaying = is_replaying;
        struct job *job = state_job(s, a->e->id);
        if (r != OK)
                return r;
        state_weigh(s, job, -1);
        job_tell(job, EVENT_RETRIED, s->wall_ms, SLICE_NONE);
        state_weigh(s, job, 1);
        return OK;
}

static int apply_job_after(const struct application *a)
{
        struct job *job = a->job;
        if (job->state != JOB_HELD)
                return cannot_be(a, "it waits for no other");
        links_resolve(a->s, job, a->e->other_id);
        if (job->extra->n_after)
                return OK;
        state_leave(a->s, job);
        state_enter(a->s, job, job->due_ms > a->s->wall_ms ? JOB_SCHEDULED : JOB_READY);
        return OK;
}

static bool is_movable(const struct job *job)
{
        return job->state == JOB_SCHEDULED || job->state == JOB_READY || job->state == JOB_WAITING;
}

static int apply_job_due(const struct application *a)
{
        if (!is_movable(a->job))
                return cannot_be(a, "it is not pending");
        if (a->job->state == JOB_READY)
                caps_wake(a->s, a->job);
        state_pending(a->s, a->job, a->e->due_ms);
        /* Only older logs have a time here: the ramp let the job go. */
        if (a->e->text.len)
                job_tell(a->job, a->e->due_ms ? EVENT_RETURNING : EVENT_MADE_DUE, a->s->wall_ms,
                         a->e->text);
        return OK;
}

/* The due time that gives a job its place in its queue: the gate does not change it. */
static uint64_t place_of(const struct job *job)
{
        uint64_t due_ms = job->extra ? job->extra->options.parked_due : 0;
        return due_ms ? due_ms : (uint64_t)job->due_ms;
}

/* The wait begins now, or goes on until another time. */
static void set_wait(struct job *job, const struct state *s, const struct effect *e, unsigned step,
                     uint64_t place_ms)
{
        struct job_options options = job_extra(job)->options;
        uint64_t now_ns = s->steady_ns > 0 ? (uint64_t)s->steady_ns : 1; /* 0 is not written */
        uint64_t delay_ms = (uint64_t)e->deadline_ns / NS_PER_MS;
        options.parked = 1 + (uint64_t)e->priority;
        if (step == PARK_BEGINS)
                options.parked_ns = now_ns;
        if (options.parked_ns && (delay_ms || step == PARK_RETURNS))
                options.parked_ms = (now_ns - options.parked_ns) / NS_PER_MS + delay_ms;
        options.parked_how = e->flags >> PARK_HOW_SHIFT;
        options.parked_due = place_ms;
        job_set_options(job, &options);
}

static int apply_gate(const struct application *a, unsigned step)
{
        static const enum event_type events[PARK_STEPS] = {[PARK_BEGINS] = EVENT_DEFERRED,
                                                           [PARK_MOVES] = EVENT_RETIERED,
                                                           [PARK_RETURNS] = EVENT_RETURNING};
        struct state *s = a->s;
        struct job *job = a->job;
        const struct effect *e = a->e;
        if (!is_movable(job))
                return cannot_be(a, "it is not pending");
        if (e->priority >= STATE_TIERS)
                return cannot_be(a, "there is no such tier");
        if (job->state == JOB_READY)
                caps_wake(s, job);
        state_leave(s, job);
        uint64_t place_ms = place_of(job);
        if (step == PARK_BEGINS)
                job_leave_gate(job, s->steady_ns);
        set_wait(job, s, e, step, place_ms);
        job->flags &= (uint8_t)~JOB_FLAG_TIMED;
        job->due_ms = e->due_ms ? e->due_ms : s->wall_ms;
        if (e->text.len)
                job_tell(job, events[step], s->wall_ms, e->text);
        state_enter(s, job, e->due_ms ? JOB_SCHEDULED : JOB_READY);
        return OK;
}

static int apply_job_park(const struct application *a)
{
        return apply_gate(a, a->e->deadline_ns ? PARK_BEGINS : PARK_MOVES);
}

static int apply_job_gate(const struct application *a)
{
        return apply_gate(a, a->e->flags & PARK_STEP_MASK);
}

/* What kept it may not keep one of that tier: it tries again. */
static int apply_job_tier(const struct application *a)
{
        struct job *job = a->job;
        const struct effect *e = a->e;
        if (job->state == JOB_FINISHED)
                return cannot_be(a, "it has ended");
        if (e->priority > STATE_TIERS || e->flags > STATE_TIERS)
                return cannot_be(a, "there is no such tier");
        struct job_options options = job_extra(job)->options;
        options.tier = e->priority;
        if (options.parked && e->flags)
                options.parked = e->flags;
        if (job->state == JOB_WAITING)
                state_move(a->s, job, JOB_READY);
        job_set_options(job, &options);
        job_tell(job, EVENT_RETIERED, a->s->wall_ms, e->text);
        links_update(a->s, job);
        return OK;
}

/* The args are part of the job's own memory: it moves, and all that points to it follows. */
static int apply_job_args(const struct application *a)
{
        struct state *s = a->s;
        struct job *old = a->job;
        if (!is_movable(old) && old->state != JOB_HELD)
                return cannot_be(a, "it is not pending");
        struct job *job = job_new(a->e->id, a->e->args);
        if (!job)
                return problem_set(a->problem, ERR_NOMEM, "no memory for %zu bytes of args",
                                   a->e->args.len);
        enum job_state state = (enum job_state)old->state;
        state_leave(s, old);
        uint64_t seq = old->live.seq;
        job_replace(job, old);
        list_insert_before(&old->live.link, &job->live.link);
        list_remove(&old->live.link);
        job->live.seq = seq;
        (void)idmap_take(&s->jobs, a->e->id); /* it is `old` itself */
        idmap_put(&s->jobs, a->e->id, job);
        free(old);
        state_enter(s, job, state);
        return OK;
}

static int apply_thing_set(const struct application *a)
{
        return thing_apply_set(a->s, a->e, a->seq, a->problem);
}

static int apply_thing_note(const struct application *a)
{
        return thing_apply_note(a->s, a->e, a->seq, a->problem);
}

static int apply_thing_gone(const struct application *a)
{
        return thing_apply_gone(a->s, a->e, a->seq, a->problem);
}

static int apply_digest(const struct application *a)
{
        state_digest_step(a->s, a->e->from, a->e->bytes, a->seq);
        return OK;
}

/* The subjects of effect_map.h. */
enum { NAMES_OTHER, NAMES_JOB };

static const struct {
        int (*apply)(const struct application *a);
        bool names_job;
} applications[EFFECT_COUNT] = {
#define X(NAME, name, subject, text) [EFFECT_##NAME] = {apply_##name, NAMES_##subject},
        EFFECT_MAP(X)
#undef X
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
        if (e->id)
                a.job = state_job(s, e->id);
        if (!applications[e->type].names_job)
                return applications[e->type].apply(&a);
        if (!a.job && s->is_replaying) {
                skip_unseen(s, e);
                return OK;
        }
        if (!a.job)
                return cannot_be(&a, "there is no such job");
        state_weigh(s, a.job, -1);
        int r = applications[e->type].apply(&a);
        struct job *job = state_job(s, e->id); /* it may have moved, or be gone */
        if (job)
                state_weigh(s, job, 1);
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
        int r = thing_replay_end(s, problem);
        if (r != OK)
                return r;
        id = 0;
        for (struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++)
                if (job->state == JOB_FINISHED && !job->more->is_lease_open)
                        state_push_ended(s, job);
        return OK;
}

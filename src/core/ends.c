/* See ends.h.
 *
 * A job that ends may release, cancel or fail others, and those may do the same: a chain as long
 * as clients make it.  So ends are put on a list (core->settled) and worked off before the batch is
 * closed, not by recursion; all that follows from an end is durable with it or not at all.
 *
 * A job may come after one that history already holds.  The archive is asked, and its answer is put
 * on the same list; until then the job waits.  One that history does not know any more counts as
 * complete.  While history cannot be read, it is asked again every AGAIN_NS. */
#include "core/ends.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/say.h"
#include "core/archive.h"
#include "core/batch.h"
#include "core/breaker.h"
#include "core/schedule.h"
#include "wire/sign.h"

#define AGAIN_NS NS_PER_S
/* A damaged row tells no outcome until a person mends or deletes it. */
#define DAMAGED_NS (60 * NS_PER_S)

struct settled {
        uint64_t id;
        enum job_status outcome;
};

struct lookup {
        struct list link; /* on core->lookups */
        struct core *core;
        struct archive_query query;
};

static void push_settled(struct core *core, uint64_t id, enum job_status outcome)
{
        if (core->n_settled == core->cap_settled) {
                core->cap_settled = core->cap_settled ? core->cap_settled * 2 : 16;
                core->settled = xrealloc(core->settled, core->cap_settled * sizeof(*core->settled));
        }
        core->settled[core->n_settled++] = (struct settled){id, outcome};
}

/* The key stays taken for a while after the end. */
static void hold_key(struct core *core, const struct job *job, const struct job_options *o)
{
        if (o->unique_scope != UNIQUE_AFTER || state_unique_holder(&core->state, o->unique) != job)
                return;
        buf_clear(&core->body);
        buf_put_varint(&core->body,
                       (uint64_t)(core->now.steady_ns + (int64_t)o->unique_ms * NS_PER_MS));
        buf_put_varint(&core->body, job_id(job));
        thing_set(core, THING_HOLD, o->unique, buf_slice(&core->body));
}

void job_ending(struct core *core, const struct job *job, enum job_status outcome, bool was_failed)
{
        if (idmap_get(&core->state.after, job_id(job)))
                push_settled(core, job_id(job), outcome);
        if (!job->extra)
                return;
        const struct job_options *o = &job->extra->options;
        hold_key(core, job, o);
        if (job->extra->batch) /* not when it runs again, or the batch is forgotten */
                batch_note(core, o->batch, outcome, was_failed);
        if (o->schedule.len && !o->run)
                schedule_note(core, o->schedule, job, outcome, was_failed);
}

void job_cancel(struct core *core, struct job *job, struct slice why)
{
        struct effect e = {
                .type = EFFECT_JOB_CANCEL,
                .id = job_id(job),
                .queue_id = job->queue->id,
                .text = why,
                .keep = core_keeps(core, job->queue, JOB_CANCELED),
        };
        core->totals.canceled++;
        if (job->state == JOB_LEASED)
                breaker_end(core, job, BREAKER_RELEASED);
        job_ending(core, job, JOB_CANCELED, false);
        core_emit(core, &e);
}

void job_fail_unstarted(struct core *core, struct job *job, struct slice why)
{
        struct effect e = {
                .type = EFFECT_JOB_FAIL,
                .id = job_id(job),
                .queue_id = job->queue->id,
                .text = why,
                .is_final = true,
                .keep = core_keeps(core, job->queue, JOB_FAILED),
        };
        core->totals.failed++;
        job_ending(core, job, JOB_FAILED, false);
        core_emit(core, &e);
}

/* ---- jobs that come after it ---- */

static void resolve(struct core *core, const struct job *job, uint64_t other_id)
{
        struct effect e = {.type = EFFECT_JOB_AFTER, .id = job_id(job), .other_id = other_id};
        core_emit(core, &e);
}

static void end_unmet(struct core *core, struct job *job, const struct settled *other)
{
        char text[96];
        int n = snprintf(text, sizeof(text), "job %llu, which it comes after, is %s",
                         (unsigned long long)other->id, job_status_name(other->outcome));
        struct slice why = slice_make(text, (size_t)n);
        if (job->extra->options.otherwise == OTHERWISE_FAIL)
                job_fail_unstarted(core, job, why);
        else
                job_cancel(core, job, why);
}

/* What this end means for one of the jobs that come after it. */
static void settle_one(struct core *core, struct job *job, const struct settled *other)
{
        switch ((enum after_when)job->extra->options.when) {
        case AFTER_COMPLETE:
                if (other->outcome != JOB_COMPLETE) {
                        end_unmet(core, job, other);
                        return;
                }
                break;
        case AFTER_FAILED:
                if (other->outcome == JOB_FAILED) {
                        resolve(core, job, 0); /* one is enough */
                        return;
                }
                if (job->extra->n_after == 1) {
                        end_unmet(core, job, other);
                        return;
                }
                break;
        case AFTER_ENDED:
                break;
        }
        resolve(core, job, other->id);
}

void ends_settle(struct core *core)
{
        for (size_t i = 0; i < core->n_settled; i++) {
                struct settled now = core->settled[i]; /* the list may move */
                for (struct job *job; state_next_after(&core->state, now.id, &job);)
                        settle_one(core, job, &now);
        }
        core->n_settled = 0;
}

/* Said once until history answers again. */
static void look_up_again(struct core *core, uint64_t id)
{
        if (!core->is_history_unread)
                say_error("core", "history could not be read for a dependency and is asked again",
                          "job", SAY_I64(id));
        core->is_history_unread = true;
        core->look_up_ns = core->now.steady_ns + AGAIN_NS;
}

static void look_up_done(struct archive_query *q)
{
        struct lookup *l = q->ctx;
        bool is_damaged = q->err == OK && q->n_rows && q->rows[0].is_damaged;
        if (l->core && q->err == OK && !is_damaged) {
                l->core->is_history_unread = false;
                push_settled(l->core, q->id, q->n_rows ? q->rows[0].status : JOB_COMPLETE);
        } else if (l->core && is_damaged) {
                int64_t at = l->core->now.steady_ns + DAMAGED_NS;
                if (at < l->core->look_up_ns)
                        l->core->look_up_ns = at;
        } else if (l->core) {
                look_up_again(l->core, q->id);
        }
        if (l->core)
                list_remove(&l->link);
        arena_release(&q->arena);
        free(l);
}

static void look_up(struct core *core, uint64_t id)
{
        const struct job *job = state_job(&core->state, id);
        if (job && job->state == JOB_FINISHED)
                push_settled(core, id, (enum job_status)job->outcome);
        if (job)
                return;
        struct archive *archive = core->options.archive;
        if (!archive) {
                push_settled(core, id, JOB_COMPLETE);
                return;
        }
        struct lookup *l = xcalloc(1, sizeof(*l));
        l->core = core;
        l->query.id = id;
        l->query.done = look_up_done;
        l->query.ctx = l;
        arena_init(&l->query.arena, 8 * MIB);
        list_push_back(&core->lookups, &l->link);
        archive->ops->query(archive, &l->query);
}

void ends_look_up(struct core *core, const struct job *job)
{
        for (size_t i = 0; i < job->extra->n_after; i++)
                look_up(core, job->extra->after[i].id);
}

void ends_look_up_due(struct core *core)
{
        uint64_t id = 0;
        if (core->look_up_ns > core->now.steady_ns)
                return;
        core->look_up_ns = INT64_MAX;
        while (idmap_next(&core->state.after, id, &id))
                look_up(core, id++);
}

void ends_release(struct core *core)
{
        LIST_FOREACH(&core->lookups, it)
        CONTAINER_OF(it, struct lookup, link)->core = NULL; /* the archive still has them */
        free(core->settled);
}

/* ---- time and trust ---- */

void ends_expire(struct core *core)
{
        struct heap *h = &core->state.expiring;
        for (int n = 0; n < CORE_TURN_STEPS && h->len; n++) {
                if (heap_key_to_i64(heap_peek_key(h)) > core_steady_wall_ms(core))
                        return;
                struct job_extra *x = CONTAINER_OF(heap_peek(h), struct job_extra, expiry);
                job_cancel(core, x->job, SLICE_LIT("expired before it was started"));
        }
}

bool job_is_trusted(struct core *core, struct job *job)
{
        const struct sign_keys *keys = core->options.sign_keys;
        struct problem problem;
        if (!keys || !keys->len)
                return true;
        struct sign_fields f = {
                .hook = name_slice(job->hook),
                .args = slice_make(job->args, job->args_len),
                .queue = name_slice(job->queue->name),
                .group = name_slice(job->group),
                .priority = job->priority,
                .attempts = job->attempts_max,
                .timeout_ms = job->timeout_ms,
        };
        struct slice signature = SLICE_NONE;
        if (job->extra) {
                f.single = job->extra->options.key;
                signature = job->extra->options.signature;
        }
        if (sign_check(keys, &f, signature, &problem) == OK)
                return true;
        core->totals.unsigned_jobs++;
        say_warn("core", "a job is not run because of its signature", "job", SAY_I64(job_id(job)),
                 "why", problem.detail);
        job_fail_unstarted(core, job, slice_str(problem.detail));
        return false;
}

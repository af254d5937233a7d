/* See job_end.h; what follows from an end for jobs that come after it is in dependents.c. */
#include "jobs/job_end.h"

#include "base/say.h"
#include "core/trace.h"
#include "jobs/batch.h"
#include "jobs/dependents.h"
#include "jobs/keeping.h"
#include "jobs/schedule.h"
#include "things/breaker.h"
#include "wire/sign.h"

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
        dependents_begin(core, job_id(job), outcome);
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
                .keep = keeping_keeps(core, job->queue, JOB_CANCELED),
        };
        core->totals.canceled++;
        if (job->state == JOB_LEASED) {
                trace_end(core, job, ATTEMPT_CANCELED, why);
                breaker_end(core, job, BREAKER_RELEASED);
        }
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
                .keep = keeping_keeps(core, job->queue, JOB_FAILED),
        };
        core->totals.failed++;
        tally_ended(core->tally, job, TALLY_FAILED);
        job_ending(core, job, JOB_FAILED, false);
        core_emit(core, &e);
}

int job_not_live(const struct core *core, uint64_t id, struct problem *problem)
{
        if (id < core->state.next_id)
                return problem_set(problem, ERR_STATE,
                                   "job %llu has ended and is history: JOB %llu shows it",
                                   (unsigned long long)id, (unsigned long long)id);
        return problem_set(problem, ERR_NOTFOUND, "there is no job %llu", (unsigned long long)id);
}

/* ---- trust ---- */

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

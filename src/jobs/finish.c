/* What the holder of a lease may say: done, failed, take it back, give me longer, this far.
 * And what anybody may say: cancel.
 *
 * Every one of them names the token of the lease; a late word never touches the next holder.  A
 * completion is accepted after the lease ran out as long as nobody was granted the job since. */
#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "core/trace.h"
#include "jobs/claim.h"
#include "jobs/job_end.h"
#include "jobs/keeping.h"
#include "jobs/queues.h"
#include "state/backoff.h"
#include "things/breaker.h"

static int find_live(struct core *core, const struct command *cmd, struct job **ret,
                     struct problem *problem)
{
        uint64_t id = (uint64_t)cmd->arg[P_COMPLETE_ID].num;
        *ret = state_job(&core->state, id);
        return *ret ? OK : job_not_live(core, id, problem);
}

/* Constant time is not needed to find a lease, but costs nothing either. */
static bool is_token(const struct job *job, const uint8_t *token)
{
        unsigned diff = 0;
        for (size_t i = 0; i < JOB_TOKEN_BYTES; i++)
                diff |= (unsigned)(job->more->token[i] ^ token[i]);
        return diff == 0;
}

/* The job, if the token is that of its lease; a lease that ran out counts when is_late_fine. */
static int find_held(struct core *core, const struct command *cmd, bool is_late_fine,
                     struct job **ret, struct problem *problem)
{
        struct job *job;
        int r = find_live(core, cmd, &job, problem);
        if (r != OK)
                return r;
        unsigned long long id = job_id(job);
        const char *status = job_status_name(job_status(job));
        bool is_mine =
                job->more && job->more->fence && is_token(job, cmd->arg[P_COMPLETE_TOKEN].token);
        if (!is_mine && job->state == JOB_LEASED && job->more) /* (1) of job.h */
                return problem_set(problem, ERR_NOTOWNER,
                                   "job %llu is held under another token, by worker '%.*s'", id,
                                   (int)job->more->worker->len, job->more->worker->text);
        if (!is_mine)
                return problem_set(problem, ERR_NOTOWNER,
                                   "job %llu is %s and that token holds no lease of it", id,
                                   status);
        if (job->state == JOB_FINISHED && job->outcome == JOB_CANCELED)
                return problem_set(problem, ERR_CANCELED, "job %llu was canceled: stop it", id);
        if (job->state != JOB_LEASED && !(is_late_fine && job->more->is_lease_open))
                return problem_set(problem, ERR_STATE, "job %llu is %s%s: the lease is over", id,
                                   status, job->more->is_lease_open ? " again (timed out)" : "");
        *ret = job;
        return OK;
}

int exec_complete(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        struct job *job;
        const struct arg *result = &cmd->arg[P_COMPLETE_RESULT];
        int r = find_held(core, cmd, true, &job, problem);
        if (r == OK)
                r = keeping_admit_text(core, result->text.len, problem);
        if (r == OK && cmd->has_claim)
                r = claim_check(core, &cmd->claim, problem);
        if (r != OK)
                return r;
        struct effect e = {
                .type = EFFECT_JOB_DONE,
                .id = job_id(job),
                .queue_id = job->queue->id,
                .text = result->text,
                .is_final = job->state == JOB_FINISHED, /* timed out for good, and done after all */
                .keep = keeping_keeps(core, job->queue, JOB_COMPLETE),
        };
        core->totals.completed++;
        core->totals.late_completions += job->state != JOB_LEASED;
        if (job->state == JOB_LEASED) { /* else its time-out has been told already */
                tally_end(core->tally, job, TALLY_COMPLETED, core->now.wall_ms);
                trace_end(core, job, ATTEMPT_COMPLETE, SLICE_NONE);
                breaker_end(core, job, BREAKER_OK);
        } else {
                tally_ended(core->tally, job, TALLY_COMPLETED);
        }
        job_ending(core, job, JOB_COMPLETE, job->state == JOB_FINISHED);
        core_emit(core, &e);
        if (cmd->has_claim)
                return claim_run(core, session, &cmd->claim, reply);
        reply_ok(reply);
        return OK;
}

/* How long a failed job waits: as the worker says, or the job, or its queue. */
static int64_t retry_in(struct core *core, const struct job *job, const struct command *cmd)
{
        struct backoff backoff;
        if (cmd->arg[P_FAIL_RETRYIN].is_set)
                return cmd->arg[P_FAIL_RETRYIN].num;
        struct slice own = job->extra ? job->extra->options.backoff : SLICE_NONE;
        if (!own.len || !backoff_unpack(&backoff, &own))
                backoff = queue_backoff(core, job->queue);
        return backoff_delay_ms(&backoff, job->attempt, core->options.rng);
}

int exec_fail(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem)
{
        (void)session; /* the token is who asks */
        struct job *job;
        int r = find_held(core, cmd, false, &job, problem);
        if (r == OK)
                r = keeping_admit_text(core, cmd->arg[P_FAIL_ERROR].text.len, problem);
        if (r != OK)
                return r;
        bool is_final = job->attempt >= job->attempts_max || cmd->arg[P_FAIL_NORETRY].num;
        struct effect e = {
                .type = EFFECT_JOB_FAIL,
                .id = job_id(job),
                .queue_id = job->queue->id,
                .text = cmd->arg[P_FAIL_ERROR].text,
                .is_final = is_final,
                .keep = keeping_keeps(core, job->queue, JOB_FAILED),
                .due_ms = is_final ? 0 : core_due_in(core, retry_in(core, job, cmd)),
        };
        if (is_final)
                core->totals.failed++;
        else
                core->totals.retried++;
        tally_end(core->tally, job, is_final ? TALLY_FAILED : TALLY_ATTEMPT, core->now.wall_ms);
        trace_end(core, job, ATTEMPT_FAILED, cmd->arg[P_FAIL_ERROR].text);
        breaker_end(core, job, BREAKER_HANDLER_FAILED);
        if (is_final)
                job_ending(core, job, JOB_FAILED, false);
        core_emit(core, &e);
        const struct status_reply told = {job_status_name(is_final ? JOB_FAILED : JOB_PENDING)};
        reply_status(reply, &told);
        return OK;
}

int exec_release(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* the token is who asks */
        struct job *job;
        int r = find_held(core, cmd, false, &job, problem);
        if (r != OK)
                return r;
        struct effect e = {
                .type = EFFECT_JOB_RELEASE,
                .id = job_id(job),
                .due_ms = core_due_in(core, cmd->arg[P_RELEASE_IN].num),
        };
        core->totals.released++;
        trace_end(core, job, ATTEMPT_RELEASED, SLICE_NONE);
        breaker_end(core, job, BREAKER_RELEASED);
        core_emit(core, &e);
        reply_ok(reply);
        return OK;
}

int exec_extend(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session; /* the token is who asks */
        struct job *job;
        int r = find_held(core, cmd, false, &job, problem);
        if (r != OK)
                return r;
        int64_t ms = cmd->arg[P_EXTEND_MS].num;
        struct effect e = {
                .type = EFFECT_JOB_EXTEND,
                .id = job_id(job),
                .deadline_ns = core->now.steady_ns + ms * NS_PER_MS,
                .lease_ms = (uint32_t)ms,
        };
        const struct job_options *o = job->extra ? &job->extra->options : NULL;
        if (o && o->maxrun_ms && e.deadline_ns > (int64_t)o->run_until_ns)
                e.deadline_ns = (int64_t)o->run_until_ns;
        core_emit(core, &e);
        reply_ok(reply);
        return OK;
}

int exec_progress(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* the token is who asks */
        struct job *job;
        int r = find_held(core, cmd, false, &job, problem);
        if (r == OK)
                r = keeping_admit_text(core, cmd->arg[P_PROGRESS_TEXT].text.len, problem);
        if (r != OK)
                return r;
        struct effect e = {
                .type = EFFECT_JOB_PROGRESS,
                .id = job_id(job),
                .text = cmd->arg[P_PROGRESS_TEXT].text,
        };
        core_emit(core, &e);
        reply_ok(reply);
        return OK;
}

int exec_cancel(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may cancel */
        struct job *job;
        int r = find_live(core, cmd, &job, problem);
        if (r != OK)
                return r;
        if (job->state == JOB_FINISHED)
                return problem_set(problem, ERR_STATE, "job %llu is %s already",
                                   (unsigned long long)job_id(job),
                                   job_status_name(job_status(job)));
        bool is_running = job->state == JOB_LEASED;
        if (is_running && cmd->arg[P_CANCEL_PENDING].num)
                return problem_set(problem, ERR_STATE, "job %llu is running",
                                   (unsigned long long)job_id(job));
        struct slice reason = cmd->arg[P_CANCEL_REASON].text;
        if (!reason.len && is_running)
                reason = SLICE_LIT("while it was running");
        job_cancel(core, job, reason);
        reply_ok(reply);
        return OK;
}

/* The tier of one job: its own, or again that of its hook.
 *
 * A job that the gate makes wait is on the list of a tier, so that the ramp finds it; it moves to
 * that of its new one and is judged again (throttle/parking.h). */
#include "jobs/bulk_tier.h"

#include <stdio.h>

#include "api/exec.h"
#include "api/params.h"
#include "jobs/bulk.h"
#include "throttle/throttle_state.h"

#define RECORD_BYTES 192 /* about what it takes in the log */

int job_retier(struct core *core, struct job *job, unsigned tier, const char *who,
               bool *ret_changed, struct problem *problem)
{
        char why[96];
        *ret_changed = false;
        if (job->state == JOB_FINISHED)
                return problem_set(problem, ERR_STATE, "job %llu is %s",
                                   (unsigned long long)job_id(job),
                                   job_status_name(job_status(job)));
        if ((job->extra ? job->extra->options.tier : 0) == tier)
                return OK;
        int r = core_admit(core, RECORD_BYTES, 0, problem);
        if (r != OK)
                return r;
        throttle_refresh(core);
        bool waits = job_is_parked(job) || job_is_returning(job);
        enum tier now = tier ? (enum tier)(tier - 1)
                             : registry_tier(core->throttle->registry, name_slice(job->hook));
        (void)snprintf(why, sizeof(why), "%s%s%s", tier_name(now), tier ? "" : ", as registered",
                       who);
        struct effect e = {
                .type = EFFECT_JOB_TIER,
                .id = job_id(job),
                .priority = (uint8_t)tier,
                .flags = waits ? (uint8_t)(1 + now) : 0,
                .text = slice_str(why),
        };
        core_emit(core, &e);
        if (waits)
                parking_judge_one(core, job);
        *ret_changed = true;
        return OK;
}

int exec_retier(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may */
        uint64_t id = (uint64_t)cmd->arg[P_RETIER_ID].num;
        int64_t choice = cmd->arg[P_RETIER_TIER].num;
        struct job *job = state_job(&core->state, id);
        bool is_changed;
        if (!job)
                return id < core->state.next_id
                               ? problem_set(problem, ERR_STATE, "job %llu has ended",
                                             (unsigned long long)id)
                               : problem_set(problem, ERR_NOTFOUND, "there is no job %llu",
                                             (unsigned long long)id);
        int r = job_retier(core, job, choice < TIERS ? 1 + (unsigned)choice : 0, "", &is_changed,
                           problem);
        if (r == OK)
                reply_ok(reply);
        return r;
}

/* See replayed.h. */
#include "serve/replayed.h"

#include "base/clock.h"
#include "log/record.h"
#include "state/job.h"

void replayed_init(struct replayed *r, struct problem *problem)
{
        *r = (struct replayed){.problem = problem};
        state_init(&r->state, (uint64_t)clock_boot_ns(), thing_kinds);
        r->state.is_replaying = true;
}

void replayed_release(struct replayed *r)
{
        if (r->problem)
                state_release(&r->state);
        *r = (struct replayed){0};
}

int replayed_batch(void *replayed, uint64_t seq, struct slice batch)
{
        struct replayed *r = replayed;
        struct record record;
        struct effect effect;
        int err;
        while ((err = record_next(&batch, &record)) == OK) {
                err = effect_read(&record, &effect, r->problem);
                if (err == OK)
                        err = state_apply(&r->state, &effect, seq, r->problem);
                if (err != OK)
                        return err;
        }
        r->last_seq = seq;
        return err == ERR_NOTFOUND
                       ? OK
                       : problem_set(r->problem, ERR_CORRUPT, "batch %llu holds a bad record",
                                     (unsigned long long)seq);
}

int replayed_end(struct replayed *r)
{
        int err = state_replay_end(&r->state, r->problem);
        r->state.is_replaying = false;
        uint64_t id = 0;
        for (const struct job *job; (job = idmap_next(&r->state.jobs, id, &id)); id++)
                r->jobs += job->state != JOB_FINISHED;
        return err;
}

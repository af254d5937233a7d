/* See the header. */
#include "sim/checks.h"

#include "unit/check.h"

static void check_promise(const struct world *w, uint64_t id)
{
        const struct promise *p = &w->model.jobs[id];
        if (p->told == T_NOTHING)
                return;
        const struct job *job = state_job(&w->core->state, id);
        const struct job_view *old = memory_archive_find(&w->archive, id);
        struct job_view live;
        if (job)
                job_view(job, &live);
        if (!job && !old)
                fail_msg("job %llu is lost", (unsigned long long)id);
        const struct job_view *v = job ? &live : old;
        if (p->args_len < ARGS_OTHER)
                assert_int_equal(v->args.len, p->args_len);
        if (p->args_len != ARGS_OTHER)
                assert_memory_equal(v->args.ptr, w->payload, v->args.len);
        if (p->told == T_ENDED)
                assert_int_equal(v->status, p->status);
        if (job && old) { /* archived, and not yet let go: (6) as it ended */
                assert_int_equal(live.status, old->status);
                assert_int_equal(live.attempt, old->attempt);
        }
}

void check_crowd(const struct world *w)
{
        const struct queue *q = state_queue_find(&w->core->state, SLICE_LIT("crowd"));
        if (q && (q->n_ready || q->n_running || q->n_scheduled))
                fail_msg("a job may run although what it comes after was canceled");
}

void check_followers(const struct world *w)
{
        uint64_t id = 0;
        for (; idmap_next(&w->core->state.after, id, &id); id++) {
                const struct job *job = state_job(&w->core->state, id);
                if (!job || job->state == JOB_FINISHED)
                        fail_msg("jobs still wait for job %llu, which has ended",
                                 (unsigned long long)id);
        }
}

void check_after_start(const struct world *w)
{
        uint64_t digest = w->digest_born;
        if (digest != w->digest_durable && digest != w->digest_flying)
                fail_msg("the state after a start is neither of the two it may be");
        assert_true(w->core->state.fence >= w->model.fence);
        core_invariants(w->core);
        check_crowd(w);
        for (uint64_t id = 1; id <= JOBS_MAX; id++)
                check_promise(w, id);
}

void check_free(const struct world *w, uint64_t id)
{
        if (model_is_held(&w->model, id, w->now.steady_ns))
                fail_msg("job %llu granted while it is held", (unsigned long long)id);
}

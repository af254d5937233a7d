/* See due.h. */
#include "jobs/due.h"

#include "core/trace.h"
#include "jobs/job_end.h"
#include "jobs/keeping.h"
#include "things/breaker.h"

static void end_lease(struct core *core, struct job *job)
{
        bool is_final = job->attempt >= job->attempts_max;
        int64_t grace_ms = job->more->lease_ms;
        if (grace_ms > DUE_GRACE_MAX_MS)
                grace_ms = DUE_GRACE_MAX_MS;
        struct effect e = {
                .type = EFFECT_JOB_TIMEOUT,
                .id = job_id(job),
                .queue_id = job->queue->id,
                .is_final = is_final,
                .keep = keeping_keeps(core, job->queue, JOB_FAILED),
                .deadline_ns = is_final ? core->now.steady_ns + grace_ms * NS_PER_MS : 0,
        };
        core->totals.timed_out++;
        if (is_final)
                core->totals.failed++;
        else
                core->totals.retried++;
        tally_end(core->tally, job, is_final ? TALLY_FAILED : TALLY_ATTEMPT, core->now.wall_ms);
        trace_end(core, job, ATTEMPT_TIMED_OUT, SLICE_LIT("timed out"));
        breaker_end(core, job, BREAKER_TIMED_OUT);
        if (is_final)
                job_ending(core, job, JOB_FAILED, false);
        core_emit(core, &e);
}

static void end_leases(struct core *core)
{
        struct heap *h = &core->state.running;
        for (int n = 0; core_may_go_on(core, n) && h->len; n++) {
                if (heap_key_to_i64(heap_peek_key(h)) > core->now.steady_ns)
                        return;
                end_lease(core, CONTAINER_OF(heap_peek(h), struct job, node));
        }
}

/* An effect, because a restart sets steady time back to the last one logged: the archive must
 * not hold a failure that could still be completed then. */
static void end_graces(struct core *core)
{
        struct heap *h = &core->state.grace;
        for (int n = 0; core_may_go_on(core, n) && h->len; n++) {
                if (heap_key_to_i64(heap_peek_key(h)) > core->now.steady_ns)
                        return;
                struct job *job = CONTAINER_OF(heap_peek(h), struct job, node);
                uint64_t id = job_id(job);
                struct effect e = {.type = EFFECT_GRACE_END, .id = id};
                if (keeping_keeps(core, job->queue, JOB_FAILED))
                        core_emit(core, &e);
                else
                        core_let_go(core, &id, 1);
        }
}

static void end_expired(struct core *core)
{
        struct heap *h = &core->state.expiring;
        for (int n = 0; core_may_go_on(core, n) && h->len; n++) {
                if (heap_key_to_i64(heap_peek_key(h)) > core_steady_wall_ms(core))
                        return;
                struct job_extra *x = CONTAINER_OF(heap_peek(h), struct job_extra, expiry);
                job_cancel(core, x->job, SLICE_LIT("expired before it was started"));
        }
}

static void due_turn(struct core *core)
{
        end_leases(core);
        end_graces(core);
        end_expired(core);
        (void)state_promote(&core->state, core_steady_wall_ms(core), core->now.wall_ms,
                            CORE_TURN_STEPS);
}

/* When the first of the heap is due, if that is before `next`; its keys are steady ns. */
static inline int64_t sooner(const struct heap *h, int64_t next)
{
        if (!h->len)
                return next;
        int64_t at = heap_key_to_i64(heap_peek_key(h));
        return at < next ? at : next;
}

/* The same for keys of Unix ms by a clock that shows now_ms; looks again after max_ms. */
static int64_t sooner_by_wall(const struct core *core, const struct heap *h, int64_t now_ms,
                              int64_t max_ms, int64_t next)
{
        int64_t in_ms = heap_key_to_i64(heap_peek_key(h)) - now_ms;
        if (in_ms > max_ms)
                in_ms = max_ms;
        int64_t at = core->now.steady_ns + (in_ms > 0 ? in_ms : 0) * NS_PER_MS;
        return at < next ? at : next;
}

static int64_t due_next_ns(const struct core *core)
{
        const struct state *s = &core->state;
        int64_t next = sooner(&s->grace, sooner(&s->running, INT64_MAX));
        if (s->delayed.len)
                next = sooner_by_wall(core, &s->delayed, core_steady_wall_ms(core), INT64_MAX,
                                      next);
        if (s->expiring.len)
                next = sooner_by_wall(core, &s->expiring, core_steady_wall_ms(core), INT64_MAX,
                                      next);
        if (s->timed.len) /* the wall clock may jump: look again each second */
                next = sooner_by_wall(core, &s->timed, core->now.wall_ms, 1000, next);
        return next;
}

const struct feature due_feature = {
        .name = "jobs that are due", .turn = due_turn, .next_ns = due_next_ns};

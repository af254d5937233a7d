/* See due.h. */
#include "jobs/due.h"

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

static int64_t due_next_ns(const struct core *core)
{
        const struct state *s = &core->state;
        int64_t now_ns = core->now.steady_ns, wall_ms = core_steady_wall_ms(core);
        const struct {
                const struct heap *heap;
                bool is_wall;   /* its keys are Unix ms; else steady ns */
                int64_t now_ms; /* by the clock of its keys */
                int64_t max_ms; /* look again at least so often */
        } heaps[] = {{&s->running, false, 0, 0},
                     {&s->grace, false, 0, 0},
                     {&s->delayed, true, wall_ms, INT64_MAX},
                     {&s->expiring, true, wall_ms, INT64_MAX},
                     {&s->timed, true, core->now.wall_ms, 1000}}; /* a wall clock may jump */
        int64_t next = INT64_MAX;
        for (size_t i = 0; i < ARRAY_LEN(heaps); i++) {
                if (!heaps[i].heap->len)
                        continue;
                int64_t at = heap_key_to_i64(heap_peek_key(heaps[i].heap));
                if (heaps[i].is_wall) {
                        int64_t in_ms = at - heaps[i].now_ms;
                        if (in_ms > heaps[i].max_ms)
                                in_ms = heaps[i].max_ms;
                        at = now_ns + (in_ms > 0 ? in_ms : 0) * NS_PER_MS;
                }
                if (at < next)
                        next = at;
        }
        return next;
}

const struct feature due_feature = {
        .name = "jobs that are due", .turn = due_turn, .next_ns = due_next_ns};

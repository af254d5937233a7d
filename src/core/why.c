/* WHY: every blocker of a job, in the order in which they are met, with figures.
 *
 * The order: it has ended; it runs; it waits for other jobs; it is not due; its queue is paused or
 * full; a limit, a breaker, a cap keeps it; no worker asks for its queue; and if nothing of that
 * holds, how many are before it.  Each blocker has a code for programs and a sentence for people.
 * `expected_ms` is when the first thing changes that is known to change by itself; 0: nobody
 * knows. */
#include <stdarg.h>
#include <stdio.h>

#include "core/breaker.h"
#include "core/cap.h"
#include "core/ends.h"
#include "core/limit.h"
#include "core/params.h"
#include "core/throttle.h"
#include "state/cap.h"

#define BLOCKERS_MAX  16
#define SENTENCE_SIZE 240

struct blocker {
        const char *code;
        char sentence[SENTENCE_SIZE];
};

struct why {
        struct core *core;
        const struct job *job;
        struct blocker blockers[BLOCKERS_MAX];
        size_t n;
        int64_t expected_ms; /* Unix time; 0: not known */
};

static void add(struct why *w, const char *code, const char *fmt, ...) PRINTF(3, 4);
static void add(struct why *w, const char *code, const char *fmt, ...)
{
        va_list args;
        if (w->n == BLOCKERS_MAX)
                return;
        struct blocker *b = &w->blockers[w->n++];
        b->code = code;
        va_start(args, fmt);
        (void)vsnprintf(b->sentence, sizeof(b->sentence), fmt, args);
        va_end(args);
}

static void expect(struct why *w, int64_t at_ms)
{
        if (at_ms > w->expected_ms)
                w->expected_ms = at_ms;
}

static int64_t seconds(int64_t ms)
{
        return ms > 0 ? (ms + 999) / 1000 : 0;
}

static void say_due(struct why *w)
{
        const struct job *job = w->job;
        int64_t now =
                job->flags & JOB_FLAG_TIMED ? w->core->now.wall_ms : core_steady_wall_ms(w->core);
        if ((job->state != JOB_SCHEDULED && job->state != JOB_HELD) || job->due_ms <= now)
                return;
        int64_t in_ms = job->due_ms - now;
        add(w, job->attempt ? "backoff" : "schedule", "%s in %lld s",
            job->attempt ? "waits before its next attempt, which is due" : "is due",
            (long long)seconds(in_ms));
        expect(w, w->core->now.wall_ms + in_ms);
}

static void say_after(struct why *w)
{
        const struct job_extra *x = w->job->extra;
        for (size_t i = 0; x && i < x->n_after; i++) {
                const struct job *other = state_job(&w->core->state, x->after[i].id);
                add(w, "dependency", "comes after job %llu, which %s%s",
                    (unsigned long long)x->after[i].id,
                    other ? "is " : "is being looked up in history",
                    other ? job_status_name(job_status(other)) : "");
        }
}

static void say_queue(struct why *w)
{
        const struct queue *q = w->job->queue;
        const struct queue_settings *s = &q->settings;
        const char *name = q->name->text;
        if (q->is_paused)
                add(w, "pause", "queue '%.*s' is paused: RESUME it", (int)q->name->len, name);
        if (s->cap && q->n_running >= s->cap)
                add(w, "queue_cap", "queue '%.*s' runs %llu jobs and its cap is %llu",
                    (int)q->name->len, name, (unsigned long long)q->n_running,
                    (unsigned long long)s->cap);
        if (s->claims && q->claims.len >= s->claims)
                add(w, "claims", "queue '%.*s' has %zu claims with running jobs of %llu allowed",
                    (int)q->name->len, name, q->claims.len, (unsigned long long)s->claims);
}

static void say_limit(struct why *w, struct thing *t)
{
        if (!t)
                return;
        int64_t ms = limit_wait_ns(w->core, t) / NS_PER_MS;
        add(w, "limit", "rate limit '%.*s' is used up: the next start in %lld ms",
            (int)thing_name(t).len, t->name, (long long)ms);
        expect(w, w->core->now.wall_ms + ms);
}

static void say_breaker(struct why *w, struct thing *t)
{
        if (t)
                add(w, "breaker", "circuit breaker '%.*s' is open: BREAKERSTATE shows since when",
                    (int)thing_name(t).len, t->name);
}

static void say_cap(struct why *w)
{
        const struct thing *t = cap_block(w->core, w->job);
        if (!t)
                return;
        const struct cap *cap = CONTAINER_OF(t, const struct cap, thing);
        add(w, "single_instance",
            "%llu running jobs hold '%.*s', which allows %llu; %u wait for it",
            (unsigned long long)cap->n_running, (int)thing_name(t).len, t->name,
            (unsigned long long)cap_max(t, w->job), t->waiting.len);
}

static void say_gate(struct why *w)
{
        enum tier tier;
        struct gate_answer a = throttle_look(w->core, w->job, &tier);
        const struct job_extra *x = w->job->extra;
        if (x && list_is_linked(&x->parked))
                add(w, "gate",
                    "deferred by the gate, %llu s in all so far: THROTTLE STATUS says why",
                    (unsigned long long)(x->options.deferred_ms / 1000));
        else if (x && w->job->state == JOB_WAITING && x->blocker->kind == THING_CAP &&
                 slice_eq(thing_name(x->blocker), SLICE_LIT("gate:")))
                add(w, "gate", "as many jobs run as the level of the load allows");
        else if (a.would_wait && a.reason == GATE_PAUSED)
                add(w, "gate", "the throttle is paused, and tier %s waits meanwhile",
                    tier_name(tier));
        else if (a.would_wait)
                add(w, "gate", "tier %s %s %u s at level %s", tier_name(tier),
                    a.is_wait ? "waits" : "would wait (observe)", a.delay_ms / 1000,
                    level_name(a.level));
}

static void say_workers(struct why *w)
{
        const struct queue *q = w->job->queue;
        if (w->n)
                return;
        if (list_is_empty(&q->waiters))
                add(w, "worker",
                    "ready since %lld s, and no worker waits for queue '%.*s'; %llu jobs of it "
                    "run, "
                    "%zu are ready",
                    (long long)seconds(w->core->now.wall_ms - w->job->due_ms), (int)q->name->len,
                    q->name->text, (unsigned long long)q->n_running, q->n_ready);
        if (w->core->is_slowed)
                add(w, "history", "history is behind and work is handed out more slowly");
}

static void find_blockers(struct why *w)
{
        const struct job *job = w->job;
        if (job->state == JOB_LEASED) {
                add(w, "running", "it runs: worker '%.*s' has it for %lld s more",
                    (int)job->more->worker->len, job->more->worker->text,
                    (long long)seconds((job->more->deadline_ns - w->core->now.steady_ns) /
                                       NS_PER_MS));
                return;
        }
        if (job->state == JOB_FINISHED) {
                add(w, "ended", "it has ended: %s", job_status_name(job_status(job)));
                return;
        }
        say_due(w);
        say_after(w);
        say_queue(w);
        say_limit(w, limit_of_queue(w->core, job->queue));
        say_limit(w, limit_block(w->core, job));
        say_breaker(w, breaker_of_queue(w->core, job->queue));
        say_breaker(w, breaker_block(w->core, job));
        say_cap(w);
        say_gate(w);
        say_workers(w);
}

EXEC(exec_why)
{
        uint64_t id = (uint64_t)cmd->arg[P_ID].num;
        const struct job *job = state_job(&core->state, id);
        (void)session; /* anybody may ask */
        if (!job && id < core->state.next_id)
                return problem_set(problem, ERR_STATE,
                                   "job %llu has ended and is history: JOB %llu shows it",
                                   (unsigned long long)id, (unsigned long long)id);
        if (!job)
                return problem_set(problem, ERR_NOTFOUND, "there is no job %llu",
                                   (unsigned long long)id);
        struct why w = {.core = core, .job = job};
        find_blockers(&w);
        reply_map(reply, 4);
        reply_key(reply, "id");
        reply_int(reply, (int64_t)id);
        reply_key(reply, "status");
        reply_str(reply, job_status_name(job_status(job)));
        reply_key(reply, "blockers");
        reply_list(reply, w.n);
        for (size_t i = 0; i < w.n; i++) {
                reply_map(reply, 2);
                reply_key(reply, "code");
                reply_str(reply, w.blockers[i].code);
                reply_key(reply, "message");
                reply_str(reply, w.blockers[i].sentence);
                reply_end(reply);
        }
        reply_end(reply);
        reply_key(reply, "expected_ms");
        reply_int(reply, w.expected_ms);
        reply_end(reply);
        return OK;
}

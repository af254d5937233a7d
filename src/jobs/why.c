/* WHY: every blocker of a job, in the order in which they are met, with figures.
 *
 * The order: it has ended; it runs; it waits for other jobs; it is not due; its queue is paused or
 * full; a limit, a breaker, a cap keeps it; no worker asks for its queue; and if nothing of that
 * holds, how many are before it.  Each blocker has a code for programs and a sentence for people.
 *
 * When a job will start is never known: workers, other jobs and people decide that too.  So two
 * things are told that are.  `not_before_ms` is the latest of the times before which it cannot
 * start unless somebody changes something; 0 when there is none.  `ahead` is how many jobs come
 * before it where it waits; null when that is no line. */
#include <stdarg.h>
#include <stdio.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/duration.h"
#include "base/plural.h"
#include "base/shown.h"
#include "jobs/job_end.h"
#include "state/breaker.h"
#include "state/cap.h"
#include "state/event.h"
#include "things/breaker.h"
#include "things/cap.h"
#include "things/limit.h"
#include "throttle/parking.h"
#include "throttle/throttle.h"

#define BLOCKERS_MAX  16
#define SENTENCE_SIZE 480
/* Jobs ahead are counted no further: about 0.1 ms. */
#define AHEAD_MAX 10000
#define UNKNOWN   (-1)

struct blocker {
        const char *code;
        char sentence[SENTENCE_SIZE];
};

struct why {
        struct core *core;
        const struct job *job;
        struct blocker blockers[BLOCKERS_MAX];
        size_t n;
        int64_t not_before_ms; /* Unix time; 0: not known */
        int64_t ahead;         /* at most AHEAD_MAX; or UNKNOWN */
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
        shown_vprintf(b->sentence, sizeof(b->sentence), fmt, args);
        va_end(args);
}

static void not_before(struct why *w, int64_t at_ms)
{
        if (at_ms > w->not_before_ms)
                w->not_before_ms = at_ms;
}

/* "; 3 jobs are ahead of it"; nothing when none is, or when it is not known. */
static const char *ahead_text(const struct why *w, int64_t ahead, char ret[96])
{
        const char *of_group =
                w->job->state == JOB_READY && w->job->queue->settings.fair ? " of its group" : "";
        const char *more = ahead == AHEAD_MAX ? " or more" : "";
        ret[0] = '\0';
        if (ahead > 0)
                (void)snprintf(ret, 96, "; %lld%s %s%s %s ahead of it", (long long)ahead, more,
                               plural((uint64_t)ahead, "job", "jobs"), of_group,
                               plural((uint64_t)ahead, "is", "are"));
        return ret;
}

/* How many come before it at that thing; NULL: in its queue.  What is known is kept for the answer.
 */
static int64_t ahead_at(struct why *w, const struct thing *t)
{
        const struct job *job = w->job;
        int64_t n = UNKNOWN;
        if (!t && job->state == JOB_READY)
                n = (int64_t)queue_ahead(job->queue, job, AHEAD_MAX);
        if (t && job->state == JOB_WAITING && job->extra->blocker == t)
                n = (int64_t)heap_count_before(&t->waiting, &job->node, AHEAD_MAX);
        if (n != UNKNOWN)
                w->ahead = n;
        return n;
}

/* Until it is due; 0 when that is now. */
static int64_t due_in_ms(const struct why *w)
{
        const struct job *job = w->job;
        int64_t now =
                job->flags & JOB_FLAG_TIMED ? w->core->now.wall_ms : core_steady_wall_ms(w->core);
        bool is_timed = job->state == JOB_SCHEDULED || job->state == JOB_HELD;
        return is_timed && job->due_ms > now ? job->due_ms - now : 0;
}

/* The newest event about the gate: why it lets the job go, or makes it wait. */
static struct slice gate_event(const struct job *job, enum event_type *ret_type)
{
        struct slice rest = job->more ? buf_slice(&job->more->events) : SLICE_NONE;
        struct slice message = SLICE_NONE;
        struct event e;
        *ret_type = EVENT_RETURNING;
        while (event_next(&rest, 0, &e)) {
                if (e.type != EVENT_DEFERRED && e.type != EVENT_RETURNING)
                        continue;
                message = e.message;
                *ret_type = e.type;
        }
        return message;
}

static void say_returning(struct why *w, int64_t in_ms)
{
        enum event_type last;
        struct slice message = gate_event(w->job, &last);
        char text[DURATION_TEXT_MAX];
        not_before(w, w->core->now.wall_ms + in_ms);
        if (last == EVENT_DEFERRED) /* it stands in line behind those that return */
                add(w, "ramp", "%.*s: it is due in %s", (int)message.len, message.ptr,
                    duration_words_left(in_ms, text));
        else
                add(w, "ramp", "the ramp has let it go: it is due in %s",
                    duration_words_left(in_ms, text));
}

static void say_due(struct why *w)
{
        int64_t in_ms = due_in_ms(w);
        char text[DURATION_TEXT_MAX];
        if (!in_ms)
                return;
        if (job_is_parked(w->job))
                return; /* say_gate() tells it; a level that falls brings it back earlier */
        if (job_is_returning(w->job)) {
                say_returning(w, in_ms);
                return;
        }
        not_before(w, w->core->now.wall_ms + in_ms);
        add(w, w->job->attempt ? "backoff" : "schedule", "%s in %s",
            w->job->attempt ? "waits before its next attempt, which is due" : "is due",
            duration_words_left(in_ms, text));
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
        if (w->core->is_everything_paused)
                add(w, "pause",
                    "everything is paused: 'weir resume', or SETTINGUNSET queues.paused");
        if (q->is_paused)
                add(w, "pause", "queue '%.*s' is paused: RESUME it", (int)q->name->len, name);
        if (s->cap && q->n_running >= s->cap)
                add(w, "queue_cap", "queue '%.*s' runs %llu %s and its cap is %llu",
                    (int)q->name->len, name, (unsigned long long)q->n_running,
                    plural(q->n_running, "job", "jobs"), (unsigned long long)s->cap);
        if (s->claims && q->claims.len >= s->claims)
                add(w, "claims", "queue '%.*s' has %zu %s with running jobs, and %llu %s allowed",
                    (int)q->name->len, name, q->claims.len,
                    plural(q->claims.len, "claim", "claims"), (unsigned long long)s->claims,
                    plural(s->claims, "is", "are"));
}

/* The limit of its queue keeps the whole queue: the jobs ahead are those of the queue. */
static void say_limit(struct why *w, struct thing *t, bool is_of_queue)
{
        if (!t)
                return;
        int64_t ms = limit_wait_ns(w->core, t) / NS_PER_MS;
        char text[DURATION_TEXT_MAX], ahead[96];
        int64_t n = ahead_at(w, is_of_queue ? NULL : t);
        add(w, "limit", "rate limit '%.*s' is used up: no job starts for %s%s",
            (int)thing_name(t).len, t->name, duration_words_left(ms, text),
            ahead_text(w, n, ahead));
        not_before(w, w->core->now.wall_ms + ms);
}

/* What the breaker waits for: a hand, the one that tries it, or the end of its cool-down. */
static void put_until(struct why *w, struct thing *t, char *ret, size_t size)
{
        const struct breaker *b = breaker_of(t);
        char text[DURATION_TEXT_MAX];
        int64_t wait_ms = breaker_wait_ns(w->core, t) / NS_PER_MS;
        if (b->circuit.is_held) {
                (void)snprintf(ret, size, "held open until it is closed");
        } else if (b->circuit.state == CIRCUIT_HALF_OPEN && b->probe_job) {
                (void)snprintf(ret, size, "job %llu tries it now",
                               (unsigned long long)b->probe_job);
        } else if (b->circuit.state == CIRCUIT_HALF_OPEN) {
                (void)snprintf(ret, size, "a client tries it now");
        } else {
                not_before(w, w->core->now.wall_ms + wait_ms);
                (void)snprintf(ret, size, "no job tries it for %s",
                               duration_words_left(wait_ms, text));
        }
}

static void say_breaker(struct why *w, struct thing *t, bool is_of_queue)
{
        if (!t)
                return;
        const struct breaker *b = breaker_of(t);
        char since[DURATION_TEXT_MAX], until[128], ahead[96];
        int64_t since_ms = (w->core->now.steady_ns - b->circuit.since_ns) / NS_PER_MS;
        bool has_reason = b->reason.len > 0;
        put_until(w, t, until, sizeof(until));
        int64_t n = ahead_at(w, is_of_queue ? NULL : t);
        add(w, "breaker", "circuit breaker '%.*s' has been %s for %s%s%.*s%s: %s%s",
            (int)thing_name(t).len, t->name, circuit_state_name(b->circuit.state),
            duration_words(since_ms, since), has_reason ? " (" : "", (int)b->reason.len,
            has_reason ? b->reason.ptr : "", has_reason ? ")" : "", until, ahead_text(w, n, ahead));
}

static void say_cap(struct why *w)
{
        const struct thing *t = cap_block(w->core, w->job);
        if (!t)
                return;
        const struct cap *cap = CONTAINER_OF(t, const struct cap, thing);
        (void)ahead_at(w, t);
        add(w, "single_instance", "%llu running %s '%.*s', which allows %llu; %u %s for it",
            (unsigned long long)cap->n_running, plural(cap->n_running, "job holds", "jobs hold"),
            (int)thing_name(t).len, t->name, (unsigned long long)cap_max(t, w->job), t->waiting.len,
            plural(t->waiting.len, "waits", "wait"));
}

/* What its story says of the last time it was parked, and how often it was. */
static struct slice parked_reason(const struct job *job, size_t *ret_times)
{
        struct slice rest = job->more ? buf_slice(&job->more->events) : SLICE_NONE;
        struct slice reason = SLICE_LIT("deferred by the gate");
        struct event e;
        *ret_times = 0;
        while (event_next(&rest, 0, &e)) {
                if (e.type != EVENT_DEFERRED)
                        continue;
                reason = e.message;
                ++*ret_times;
        }
        return reason;
}

/* What holds now lets it run.  Only a ramp that runs is promised. */
static void put_change(const struct why *w, const struct gate_answer *now, char *ret, size_t size)
{
        int64_t in_ms = parking_returns_in_ms(w->core, w->job);
        char left[DURATION_TEXT_MAX];
        const char *off = "the throttle is switched off (throttle.enabled)";
        if (!in_ms && parking_is_judging(w->core)) { /* the walk has not come to it yet */
                (void)snprintf(ret, size, "; tier %s runs now: weir lets it go",
                               tier_name(throttle_tier(w->core, w->job)));
                return;
        }
        int n = throttle_is_off(w->core)
                        ? snprintf(ret, size, "; %s", off)
                        : snprintf(ret, size, "; the level is %s now", level_name(now->level));
        if (in_ms && n > 0 && (size_t)n < size)
                (void)snprintf(ret + n, size - (size_t)n, ", and the ramp brings it back within %s",
                               duration_words_left(in_ms, left));
}

/* The reason is that of the time when it was parked.  The level may be lower by now. */
static void say_parked(struct why *w, const struct gate_answer *now)
{
        size_t times;
        struct slice reason = parked_reason(w->job, &times);
        char left[DURATION_TEXT_MAX], all[DURATION_TEXT_MAX], total[64] = "", change[160] = "";
        int64_t deferred_ms = (int64_t)job_deferred_ms(w->job, w->core->now.steady_ns);
        if (times > 1)
                (void)snprintf(total, sizeof(total), "; deferred for %s in all",
                               duration_words(deferred_ms, all));
        if (!now->is_wait)
                put_change(w, now, change, sizeof(change));
        add(w, "gate", "parked for %s more: %.*s%s%s", duration_words_left(due_in_ms(w), left),
            (int)reason.len, reason.ptr, total, change);
}

static void say_pause(struct why *w, enum tier tier, const struct gate_answer *a)
{
        int64_t until_ns = throttle_pause_ns(w->core);
        char left[DURATION_TEXT_MAX], delay[DURATION_TEXT_MAX];
        bool is_endless = until_ns == INT64_MAX;
        int64_t left_ms = is_endless ? 0 : (until_ns - w->core->now.steady_ns) / NS_PER_MS;
        add(w, "gate", "paused by the operator %s%s%s; tier %s waits %s when it is claimed",
            is_endless ? "until resumed" : "for ",
            is_endless ? "" : duration_words_left(left_ms, left), is_endless ? "" : " more",
            tier_name(tier), duration_words(a->delay_ms, delay));
}

static void say_gate(struct why *w)
{
        enum tier tier;
        struct gate_answer a = throttle_look(w->core, w->job, &tier);
        const struct job_extra *x = w->job->extra;
        char text[THROTTLE_TEXT];
        if (job_is_parked(w->job)) {
                say_parked(w, &a);
        } else if (x && w->job->state == JOB_WAITING && x->blocker->kind == THING_CAP &&
                   slice_eq(thing_name(x->blocker), SLICE_LIT("gate:"))) {
                add(w, "gate", "as many jobs run as the level of the load allows");
        } else if (a.would_wait && a.reason == GATE_PAUSED) {
                say_pause(w, tier, &a);
        } else if (a.would_wait) {
                throttle_put_reason(w->core, &a, tier, text);
                add(w, "gate", "%s", text);
        }
}

static void say_workers(struct why *w)
{
        const struct queue *q = w->job->queue;
        if (w->n)
                return;
        char text[DURATION_TEXT_MAX], ahead[96];
        int64_t ready_ms = w->core->now.wall_ms - w->job->due_ms;
        if (list_is_empty(&q->waiters))
                add(w, "worker",
                    "ready for %s, and no worker waits for queue '%.*s'; %llu %s, %zu %s "
                    "ready%s",
                    duration_words(ready_ms > 0 ? ready_ms : 0, text), (int)q->name->len,
                    q->name->text, (unsigned long long)q->n_running,
                    plural(q->n_running, "job of it runs", "jobs of it run"), q->n_ready,
                    plural(q->n_ready, "is", "are"), ahead_text(w, w->ahead, ahead));
        if (w->core->is_slowed)
                add(w, "history", "history is behind and work is handed out more slowly");
}

/* A job that failed with attempts left says so with its last event. */
static void say_ended(struct why *w)
{
        const struct job *job = w->job;
        struct slice rest = job->more ? buf_slice(&job->more->events) : SLICE_NONE;
        struct event last = {.type = EVENT_CREATED};
        while (event_next(&rest, 0, &last))
                ;
        const char *status = job_status_name(job_status(job));
        if (last.type == EVENT_GIVEN_UP)
                add(w, "ended", "it has ended: %s %.*s", status, (int)last.message.len,
                    last.message.ptr);
        else
                add(w, "ended", "it has ended: %s", status);
}

static void find_blockers(struct why *w)
{
        const struct job *job = w->job;
        if (job->state == JOB_LEASED) {
                char text[DURATION_TEXT_MAX];
                int64_t left_ms = (job->more->deadline_ns - w->core->now.steady_ns) / NS_PER_MS;
                add(w, "running", "it runs: worker '%.*s' has it for %s more",
                    (int)job->more->worker->len, job->more->worker->text,
                    duration_words_left(left_ms > 0 ? left_ms : 0, text));
                return;
        }
        if (job->state == JOB_FINISHED) {
                say_ended(w);
                return;
        }
        (void)ahead_at(w, NULL);
        say_due(w);
        say_after(w);
        say_queue(w);
        say_limit(w, limit_of_queue(w->core, job->queue), true);
        say_limit(w, limit_block(w->core, job), false);
        say_breaker(w, breaker_of_queue(w->core, job->queue), true);
        say_breaker(w, breaker_block(w->core, job), false);
        say_cap(w);
        say_gate(w);
        say_workers(w);
}

static void tell_blockers(struct reply *reply, const struct reply_items *items)
{
        const struct why *w = items->of;
        for (size_t i = 0; i < w->n; i++) {
                const struct blocker_reply told = {w->blockers[i].code, w->blockers[i].sentence};
                reply_blocker(reply, &told);
        }
}

int exec_why(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem)
{
        uint64_t id = (uint64_t)cmd->arg[P_WHY_ID].num;
        const struct job *job = state_job(&core->state, id);
        (void)session; /* anybody may ask */
        if (!job)
                return job_not_live(core, id, problem);
        struct why w = {.core = core, .job = job, .ahead = UNKNOWN};
        find_blockers(&w);
        const struct why_reply told = {
                .id = (int64_t)id,
                .status = job_status_name(job_status(job)),
                .blockers = {w.n, tell_blockers, core, &w},
                .not_before_ms = w.not_before_ms,
                .ahead = w.ahead == UNKNOWN ? REPLY_NONE : w.ahead,
        };
        reply_why(reply, &told);
        return OK;
}

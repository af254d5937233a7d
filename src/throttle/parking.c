/* See parking.h.
 *
 * What is judged again is judged as of the beginning of its wait: had the job had this tier then,
 * how long would it wait?  If that time is over, the job is let go and the next claim asks for it;
 * if it is shorter, the wait becomes shorter.  It never becomes longer: at its time the job is
 * asked for again, and waits for as long as its tier does then.
 *
 * A job that need not wait any more is let go at once, except when a ramp runs that brings its tier
 * back: then it stays with the ramp, unless its new tier is the critical one. */
#include "throttle/parking.h"

#include <stdio.h>

#include "base/plural.h"
#include "throttle/throttle_state.h"

#define WHY_BYTES 96

/* ---- what is done ---- */

/* How a wait at the gate begins, goes on or ends. */
struct gate_step {
        enum park_step step;
        unsigned how;  /* PARKED_ bits */
        int64_t in_ms; /* the job is due so much later; 0 or less: now */
        const char *why;
};

static void emit_step(struct core *core, const struct job *job, enum tier tier, struct gate_step s)
{
        struct effect e = {
                .type = EFFECT_JOB_GATE,
                .id = job_id(job),
                .priority = (uint8_t)tier,
                .flags = (uint8_t)(s.step | s.how << PARK_HOW_SHIFT),
                .text = slice_str(s.why),
        };
        if (s.in_ms > 0) {
                e.due_ms = core_due_in(core, s.in_ms);
                e.deadline_ns = s.in_ms * NS_PER_MS;
        }
        core_emit(core, &e);
}

static unsigned last_call(const struct gate_answer *a)
{
        return a->expiry == EXPIRY_STARTS ? PARKED_LAST : 0;
}

void parking_park(struct core *core, const struct job *job, enum tier tier,
                  const struct gate_answer *a, const char *why)
{
        emit_step(core, job, tier, (struct gate_step){PARK_BEGINS, last_call(a), a->delay_ms, why});
}

/* It is due now: the next claim asks for it. */
static void let_go(struct core *core, const struct job *job, enum tier tier, const char *why)
{
        emit_step(core, job, tier, (struct gate_step){PARK_RETURNS, PARKED_RETURNS, 0, why});
}

/* ---- judging again ---- */

/* How long its present wait has lasted; 0: it does not wait, or its log is older than that. */
static int64_t waited_ms(const struct core *core, const struct job *job)
{
        int64_t began_ns = job_is_parked(job) ? (int64_t)job->extra->options.parked_ns : 0;
        return began_ns ? (core->now.steady_ns - began_ns) / NS_PER_MS : 0;
}

/* Until it expires; 0: it does not. */
static int64_t expires_in_ms(const struct core *core, const struct job *job)
{
        uint64_t at_ms = job->extra ? job->extra->options.expires_ms : 0;
        int64_t ms = (int64_t)at_ms - core_steady_wall_ms(core);
        return at_ms ? (ms > 1 ? ms : 1) : 0;
}

struct gate_ask parking_ask(const struct core *core, const struct job *job, enum tier tier)
{
        const struct job_options *o = job->extra ? &job->extra->options : NULL;
        bool is_parked = o && job_is_parked(job);
        int64_t left_ms = expires_in_ms(core, job);
        return (struct gate_ask){
                .tier = tier,
                .deferred_ms =
                        is_parked ? o->deferred_ms : job_deferred_ms(job, core->now.steady_ns),
                .expires_in_ms = left_ms ? left_ms + waited_ms(core, job) : 0,
                .is_last_call = o && !is_parked && o->parked_how & PARKED_LAST,
        };
}

static int64_t left_ms(const struct core *core, const struct job *job)
{
        int64_t ms = job->due_ms - core_steady_wall_ms(core);
        return ms > 1 ? ms : 1;
}

static bool may_run(const struct throttle *t, enum tier tier)
{
        return !t->policy.delay_ms[throttle_level_for(t, tier)][tier];
}

static bool is_brought_back(const struct core *core, enum tier tier)
{
        const struct throttle *t = core->throttle;
        return ramp_is_running(&t->ramp) && may_run(t, tier);
}

/* How long it is still to wait by what holds now; at most as long as it waits already. */
static int64_t new_left_ms(const struct core *core, const struct job *job,
                           const struct gate_answer *a)
{
        int64_t left = left_ms(core, job);
        if (!job->extra->options.parked_ns)
                return left; /* from an older log */
        int64_t by_now = (int64_t)a->delay_ms - waited_ms(core, job);
        return by_now < left ? by_now : left;
}

/* May a job of that tier be let go, as far as is known?  Before the first samples nothing is. */
static bool is_known_to_run(const struct core *core, enum tier tier, const struct gate_answer *a)
{
        const struct throttle *t = core->throttle;
        bool is_known = t->policy.is_paused || !t->awaits_levels;
        return !a->is_wait && (is_known || tier == TIER_CRITICAL);
}

static void judge_parked(struct core *core, struct job *job, bool is_moved)
{
        char why[WHY_BYTES];
        enum tier was = (enum tier)job->extra->parked_tier, tier;
        struct gate_answer a = throttle_look(core, job, &tier);
        int64_t left = a.is_wait ? new_left_ms(core, job, &a) : 0;
        bool is_ramps = is_brought_back(core, was) && tier != TIER_CRITICAL && !is_moved;
        if (is_known_to_run(core, tier, &a) && !is_ramps) {
                (void)snprintf(why, sizeof(why), "tier %s need not wait", tier_name(tier));
                let_go(core, job, tier, why);
        } else if (a.is_wait && left <= 0) {
                (void)snprintf(why, sizeof(why), "tier %s waits no longer than it has waited",
                               tier_name(tier));
                let_go(core, job, tier, why);
        } else if (a.is_wait && left < left_ms(core, job)) {
                (void)snprintf(why, sizeof(why), "tier %s waits less", tier_name(tier));
                emit_step(core, job, tier,
                          (struct gate_step){PARK_MOVES, last_call(&a), left, why});
        } else if (tier != was) {
                (void)snprintf(why, sizeof(why), "%s, as registered", tier_name(tier));
                emit_step(core, job, tier,
                          (struct gate_step){PARK_MOVES, (unsigned)job->extra->options.parked_how,
                                             left_ms(core, job), why});
        }
}

/* Only the critical tier does not wait for the moment that the ramp gave it. */
static void judge_returning(struct core *core, struct job *job)
{
        enum tier tier;
        (void)throttle_look(core, job, &tier);
        if (tier == TIER_CRITICAL)
                let_go(core, job, tier, "tier critical need not wait");
        else if (tier != job->extra->parked_tier)
                emit_step(core, job, tier,
                          (struct gate_step){PARK_MOVES, (unsigned)job->extra->options.parked_how,
                                             left_ms(core, job), ""});
}

void parking_judge_one(struct core *core, struct job *job)
{
        if (job_is_parked(job))
                judge_parked(core, job, true);
        else if (job_is_returning(job))
                judge_returning(core, job);
}

/* ---- the ramp ---- */

/* So that no job expires only because of the ramp. */
static int64_t within_room(const struct core *core, const struct job *job, int64_t in_ms)
{
        int64_t expires_ms = expires_in_ms(core, job);
        int64_t room_ms = gate_room_ms(&core->throttle->policy, expires_ms);
        return expires_ms && in_ms > room_ms ? room_ms : in_ms;
}

/* Its moment counts from the step of the ramp, which may have been some turns ago.  A job whose own
 * time comes earlier does not wait for it. */
static void release_one(struct core *core, enum tier tier)
{
        struct throttle *t = core->throttle;
        struct list *first = list_peek_front(&core->state.parked[tier]);
        const struct job *job = CONTAINER_OF(first, struct job_extra, parked)->job;
        int64_t late_ms = (core->now.steady_ns - t->parking.step_ns) / NS_PER_MS;
        int64_t in_ms = ramp_jitter_ms(&t->ramp, core->options.rng) - late_ms;
        if (in_ms > left_ms(core, job))
                in_ms = left_ms(core, job);
        in_ms = within_room(core, job, in_ms);
        char why[WHY_BYTES];
        (void)snprintf(why, sizeof(why), "let go by the ramp; the level is %s",
                       level_name(t->effective));
        t->released[tier]++;
        emit_step(core, job, tier, (struct gate_step){PARK_RETURNS, PARKED_RETURNS, in_ms, why});
}

static void release_some(struct core *core)
{
        struct parking *p = &core->throttle->parking;
        size_t n = 0;
        for (size_t tier = 0; tier < TIERS; tier++) {
                for (; p->n_owed[tier] && core->state.n_parked[tier]; p->n_owed[tier]--) {
                        if (n++ == CORE_TURN_STEPS || core_is_congested(core))
                                return;
                        release_one(core, (enum tier)tier);
                }
                p->n_owed[tier] = 0; /* the rest left by itself */
        }
}

void parking_return(struct core *core, const size_t release[TIERS])
{
        struct parking *p = &core->throttle->parking;
        p->step_ns = core->now.steady_ns;
        for (size_t tier = 0; tier < TIERS; tier++)
                p->n_owed[tier] = release[tier];
}

void parking_stop_return(struct core *core)
{
        memset(core->throttle->parking.n_owed, 0, sizeof(core->throttle->parking.n_owed));
}

int64_t parking_returns_in_ms(const struct core *core, const struct job *job)
{
        const struct throttle *t = core->throttle;
        if (!job_is_parked(job) || !is_brought_back(core, (enum tier)job->extra->parked_tier))
                return 0;
        int64_t ms = (ramp_end_ns(&t->ramp) - core->now.steady_ns) / NS_PER_MS;
        return ms > 1 ? ms : 1;
}

bool parking_has_jobs_of(const struct name *hook)
{
        uint32_t n = 0;
        for (size_t tier = 0; tier < TIERS; tier++)
                n |= hook->n_parked[tier];
        return n != 0;
}

/* Only for what is new: a job that has waited at the gate, or was started before, goes on. */
bool parking_is_behind(const struct core *core, const struct job *job, enum tier tier)
{
        const struct throttle *t = core->throttle;
        if (!job->hook->n_parked[tier] || job->attempt || t->is_off)
                return false;
        if (job->extra && job->extra->options.parked)
                return false;
        return may_run(t, tier) && ramp_behind_ns(&t->ramp, core->now.steady_ns) > 0;
}

void parking_line_up(struct core *core, const struct job *job, enum tier tier, char *ret_why)
{
        const struct ramp *ramp = &core->throttle->ramp;
        int64_t behind_ns = ramp_behind_ns(ramp, core->now.steady_ns);
        int64_t in_ms = within_room(core, job, (behind_ns + NS_PER_MS - 1) / NS_PER_MS);
        uint32_t n = job->hook->n_parked[tier];
        (void)snprintf(ret_why, THROTTLE_TEXT, "%u %s of its hook %s before it", n,
                       plural(n, "job", "jobs"), plural(n, "returns", "return"));
        /* After the last cycle no step of the ramp would bring it back. */
        unsigned how = ramp_is_last(ramp) ? PARKED_RETURNS : 0;
        emit_step(core, job, tier, (struct gate_step){PARK_BEGINS, how, in_ms, ret_why});
}

/* ---- the walk ---- */

bool parking_is_same(const struct policy *a, const struct policy *b)
{
        return memcmp(a->delay_ms, b->delay_ms, sizeof(a->delay_ms)) == 0 &&
               a->max_deferral_ms == b->max_deferral_ms &&
               a->deferrals_per_hour == b->deferrals_per_hour &&
               a->expiry_margin_ms == b->expiry_margin_ms &&
               memcmp(a->lets_expire, b->lets_expire, sizeof(a->lets_expire)) == 0;
}

static struct list *list_at(struct state *s, size_t i)
{
        return i < TIERS ? &s->parked[i] : &s->returning[i - TIERS];
}

static void begin(struct core *core)
{
        struct parking *p = &core->throttle->parking;
        p->is_judging = true;
        p->is_again = false;
        p->list = 0;
        core->state.parked_next = list_at(&core->state, 0)->next;
}

void parking_judge_later(struct core *core)
{
        struct parking *p = &core->throttle->parking;
        if (p->is_judging)
                p->is_again = true;
        else
                begin(core);
}

/* To the next list, and after the last one to the end. */
static void end_list(struct core *core)
{
        struct parking *p = &core->throttle->parking;
        if (++p->list < 2 * (size_t)TIERS) {
                core->state.parked_next = list_at(&core->state, p->list)->next;
                return;
        }
        core->state.parked_next = NULL;
        p->is_judging = false;
        if (p->is_again)
                begin(core);
}

static void judge_some(struct core *core)
{
        struct state *s = &core->state;
        struct parking *p = &core->throttle->parking;
        for (size_t n = 0; p->is_judging && n < CORE_TURN_STEPS && !core_is_congested(core); n++) {
                struct list *it = s->parked_next;
                ASSERT(it); /* as long as it judges */
                if (it == list_at(s, p->list)) {
                        end_list(core);
                        continue;
                }
                s->parked_next = it->next;
                struct job *job = CONTAINER_OF(it, struct job_extra, parked)->job;
                if (p->list < TIERS)
                        judge_parked(core, job, false);
                else
                        judge_returning(core, job);
        }
}

void parking_turn(struct core *core)
{
        judge_some(core);
        release_some(core);
}

bool parking_is_busy(const struct core *core)
{
        const struct parking *p = &core->throttle->parking;
        bool is_owed = false;
        for (size_t tier = 0; tier < TIERS; tier++)
                is_owed |= p->n_owed[tier] && core->state.n_parked[tier];
        return is_owed || p->is_judging;
}

void parking_judge(struct core *core)
{
        throttle_refresh(core);
        parking_judge_later(core);
        parking_turn(core);
}

bool parking_is_judging(const struct core *core)
{
        return core->throttle->parking.is_judging;
}

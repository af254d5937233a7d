/* The decision: a table look-up with a few reasons around it.
 *
 * Everything that takes time to find out (the tier of a hook, the level of a target, how long a job
 * has waited) is in the question, so that the answer is a handful of compares on one cache line of
 * the policy: some nanoseconds, no allocation, no clock.  Order:
 *
 *   1. a mode that does not decide: run
 *   2. the operator's pause puts the level at critical
 *   3. level x tier -> run, or wait so long
 *   4. what has waited long enough, or whose hook was deferred often enough, runs after all
 *   5. what would expire meanwhile waits for a shorter time, and then runs
 *
 * Steps 4 and 5 come last so that they can only turn a wait into a run or a shorter wait.  Two
 * rules are no policy and cannot be configured away: the critical tier always runs, and at level
 * normal all do.
 */
#include "gate/gate.h"

#define MINUTES_MS     60000U

#define NAME(id, name) name,
static const char *const tier_names[] = {TIER_MAP(NAME)};
static const char *const level_names[] = {LEVEL_MAP(NAME)};
static const char *const mode_names[] = {MODE_MAP(NAME)};
static const char *const reason_names[] = {GATE_REASON_MAP(NAME)};

static int find_name(const char *const *names, int n, struct slice name)
{
        for (int i = 0; i < n; i++)
                if (slice_eq_nocase(name, slice_str(names[i])))
                        return i;
        return -1;
}

const char *tier_name(enum tier tier)
{
        ASSERT((unsigned)tier < TIERS);
        return tier_names[tier];
}

int tier_from_name(struct slice name)
{
        return find_name(tier_names, TIERS, name);
}

const char *level_name(enum level level)
{
        ASSERT((unsigned)level < LEVELS);
        return level_names[level];
}

const char *mode_name(enum gate_mode mode)
{
        ASSERT((unsigned)mode < MODES);
        return mode_names[mode];
}

int mode_from_name(struct slice name)
{
        return find_name(mode_names, MODES, name);
}

const char *gate_reason_name(enum gate_reason reason)
{
        ASSERT((unsigned)reason < GATE_REASONS);
        return reason_names[reason];
}

void policy_init(struct policy *p)
{
        *p = (struct policy){
                .delay_ms =
                        {
                                [LEVEL_ELEVATED] = {0, 0, 5 * MINUTES_MS, 15 * MINUTES_MS},
                                [LEVEL_CRITICAL] = {0, 5 * MINUTES_MS, 15 * MINUTES_MS,
                                                    60 * MINUTES_MS},
                                [LEVEL_UNKNOWN] = {0, 0, 5 * MINUTES_MS, 15 * MINUTES_MS},
                        },
                .caps =
                        {
                                [LEVEL_ELEVATED] = {5, 1},
                                [LEVEL_CRITICAL] = {1, 1},
                        },
                .queue_age_ms = GATE_QUEUE_AGE_MS,
                .queue_level = LEVEL_ELEVATED,
                .expiry_margin_ms = GATE_MARGIN_MS,
        };
}

enum level policy_worse_level(const struct policy *p, enum level level, enum level other,
                              enum tier tier)
{
        return p->delay_ms[other][tier] > p->delay_ms[level][tier] ? other : level;
}

void level_caps_lower(struct level_caps *caps, const struct level_caps *other)
{
        if (other->claim_size && (!caps->claim_size || other->claim_size < caps->claim_size))
                caps->claim_size = other->claim_size;
        if (other->claims && (!caps->claims || other->claims < caps->claims))
                caps->claims = other->claims;
}

static int check_delay(const struct policy *p, enum level level, enum tier tier,
                       struct problem *problem)
{
        uint32_t delay_ms = p->delay_ms[level][tier];

        if (delay_ms && tier == TIER_CRITICAL)
                return problem_set(problem, ERR_BADARG,
                                   "the critical tier always runs; it has no delay at level %s",
                                   level_name(level));
        if (delay_ms && level == LEVEL_NORMAL)
                return problem_set(problem, ERR_BADARG,
                                   "every tier runs at level normal; %s has no delay there",
                                   tier_name(tier));
        if (delay_ms > GATE_DELAY_MAX_MS)
                return problem_set(problem, ERR_BADARG,
                                   "the delay of %s at level %s is longer than 7 days",
                                   tier_name(tier), level_name(level));
        return OK;
}

int policy_check(const struct policy *p, struct problem *problem)
{
        if ((unsigned)p->mode >= MODES)
                return problem_set(problem, ERR_BADARG,
                                   "the mode is off, test_observe, observe or enforce");
        if (p->queue_level != LEVEL_ELEVATED && p->queue_level != LEVEL_CRITICAL)
                return problem_set(problem, ERR_BADARG,
                                   "the level that a deep queue alone can make is elevated or "
                                   "critical");
        if (p->lets_expire[TIER_CRITICAL])
                return problem_set(problem, ERR_BADARG,
                                   "the critical tier always runs; it is not left to expire");
        for (int level = 0; level < LEVELS; level++) {
                for (int tier = 0; tier < TIERS; tier++) {
                        int r = check_delay(p, (enum level)level, (enum tier)tier, problem);
                        if (r != OK)
                                return r;
                }
        }
        return OK;
}

int64_t gate_room_ms(const struct policy *p, int64_t left_ms)
{
        int64_t margin_ms = left_ms / 10;
        if (margin_ms > p->expiry_margin_ms)
                margin_ms = p->expiry_margin_ms;
        return left_ms - (margin_ms > 0 ? margin_ms : 1);
}

/* Deferring must neither lose a job that expires nor let it through at once: it waits for as long
 * as it can.  The last call is remembered by the caller; without that each further wait would be
 * nine tenths of what is left, for ever. */
static void fit_expiry(const struct policy *p, const struct gate_ask *ask, uint32_t *delay_ms,
                       struct gate_answer *a)
{
        int64_t room_ms = gate_room_ms(p, ask->expires_in_ms);
        if (!ask->expires_in_ms || *delay_ms <= room_ms)
                return;
        if (p->lets_expire[ask->tier]) {
                a->expiry = *delay_ms >= ask->expires_in_ms ? EXPIRY_PASSES : EXPIRY_NONE;
                return;
        }
        if (ask->is_last_call || room_ms <= 0) {
                a->reason = GATE_EXPIRY;
                return;
        }
        a->expiry = EXPIRY_STARTS;
        a->margin_ms = ask->expires_in_ms - room_ms;
        *delay_ms = (uint32_t)room_ms;
}

struct gate_answer gate_decide(const struct policy *p, const struct gate_ask *ask)
{
        ASSERT((unsigned)ask->tier < TIERS && (unsigned)ask->level < LEVELS);
        struct gate_answer a = {.level = ask->level, .reason = GATE_OFF};

        if (p->mode <= MODE_TEST_OBSERVE)
                return a;
        if (p->is_paused)
                a.level = LEVEL_CRITICAL;
        a.reason = GATE_ALLOWED;
        uint32_t delay_ms = p->delay_ms[a.level][ask->tier];
        if (delay_ms == 0 || ask->tier == TIER_CRITICAL || a.level == LEVEL_NORMAL)
                return a;
        if (p->max_deferral_ms && ask->deferred_ms >= p->max_deferral_ms) {
                a.reason = GATE_DEFERRED_MAX;
                return a;
        }
        if (p->deferrals_per_hour && ask->hook_deferrals >= p->deferrals_per_hour) {
                a.reason = GATE_HOOK_MAX;
                return a;
        }
        /* What is left of its time may be less than the matrix says. */
        if (p->max_deferral_ms && p->max_deferral_ms - ask->deferred_ms < delay_ms)
                delay_ms = (uint32_t)(p->max_deferral_ms - ask->deferred_ms);
        fit_expiry(p, ask, &delay_ms, &a);
        if (a.reason == GATE_EXPIRY)
                return a;
        a.reason = p->is_paused               ? GATE_PAUSED
                   : a.level == LEVEL_UNKNOWN ? GATE_UNKNOWN
                                              : GATE_LEVEL;
        a.would_wait = true;
        a.is_wait = p->mode == MODE_ENFORCE;
        a.delay_ms = delay_ms;
        return a;
}

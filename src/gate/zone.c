/* See zone.h for the law.
 *
 * Why zones and not a proportional controller: the signal is coarse (a count of threads once a
 * second) and late (jobs that run are not stopped, so a smaller limit acts only as they end).  A
 * controller that answers each wiggle saws; a wide zone in which nothing is done does not, and the
 * two slow steps next to it (one at a time, then a rest) leave each change time to show.  Halving
 * is for the one case where being slow costs more than being wrong.
 *
 * Growth needs use: a limit that grows through a quiet night would be no limit in the morning.
 *
 * The peak is kept apart from the limit because the tiers' shares are of where the limit came from,
 * not of its maximum, which the operator may well have left at a number that is never reached. */
#include "gate/zone.h"

#include <math.h>

#define GROW_BELOW    0.4
#define SHRINK_FROM   0.7
#define HALVE_FROM    1.0
#define BLIND         0.55
#define PRESSURE_MAX  4.0   /* of one sample: a spike is forgotten after some ticks, not minutes */
#define PEAK_SINKS_BY 0.125 /* of its height over the limit, per fine tick: half after 26 s */

void zone_rule_init(struct zone_rule *r)
{
        *r = (struct zone_rule){
                .min = 1,
                .max = 1000,
                .start = 10,
                .tick_ns = 5 * NS_PER_S,
                .cool_ns = 15 * NS_PER_S,
                .weight = 0.3,
        };
}

int zone_rule_check(const struct zone_rule *r, struct problem *problem)
{
        if (r->min < 1 || r->min > r->max || r->max > ZONE_LIMIT_MAX)
                return problem_set(problem, ERR_BADARG,
                                   "the smallest and the largest limit are 1 to %u, in that order",
                                   ZONE_LIMIT_MAX);
        if (r->start < r->min || r->start > r->max)
                return problem_set(problem, ERR_BADARG, "the first limit is %u to %u", r->min,
                                   r->max);
        if (r->tick_ns < NS_PER_MS || r->cool_ns < 0)
                return problem_set(problem, ERR_BADARG,
                                   "the tick is at least 1 ms, the rest after a change at least 0");
        if (!(r->weight > 0 && r->weight <= 1))
                return problem_set(problem, ERR_BADARG, "the weight is above 0 and at most 1");
        return OK;
}

const char *zone_step_name(enum zone_step step)
{
        static const char *const names[ZONE_STEPS] = {
                [ZONE_HOLD] = "hold",
                [ZONE_GROW] = "grow",
                [ZONE_SHRINK] = "shrink",
                [ZONE_HALVE] = "halve",
        };

        ASSERT((unsigned)step < ZONE_STEPS);
        return names[step];
}

void zone_init(struct zone *z, const struct zone_rule *r, int64_t now_ns)
{
        ASSERT(zone_rule_check(r, NULL) == OK);
        *z = (struct zone){
                .rule = *r,
                .limit = r->start,
                .peak = r->start,
                .average = NAN,
                .next_ns = now_ns + r->tick_ns,
        };
}

static void average(struct zone *z, double pressure)
{
        z->is_blind = !isfinite(pressure);
        if (z->is_blind)
                pressure = BLIND;
        if (pressure < 0)
                pressure = 0;
        else if (pressure > PRESSURE_MAX)
                pressure = PRESSURE_MAX;
        if (isnan(z->average))
                z->average = pressure;
        else
                z->average += z->rule.weight * (pressure - z->average);
}

static enum zone_step decide(const struct zone *z, uint32_t running, int64_t now_ns)
{
        bool is_cool = z->last == ZONE_HOLD || now_ns - z->changed_ns >= z->rule.cool_ns;

        if (z->average >= HALVE_FROM)
                return is_cool || z->last != ZONE_HALVE ? ZONE_HALVE : ZONE_HOLD;
        if (!is_cool)
                return ZONE_HOLD;
        if (z->average >= SHRINK_FROM)
                return ZONE_SHRINK;
        /* In 64 bits: the caller's count is not bounded by ours. */
        if (z->average < GROW_BELOW && 2 * (uint64_t)running >= z->limit)
                return ZONE_GROW;
        return ZONE_HOLD;
}

static uint32_t stepped(const struct zone *z, enum zone_step step)
{
        uint32_t limit = z->limit;

        if (step == ZONE_GROW)
                limit++;
        else if (step == ZONE_SHRINK)
                limit--;
        else if (step == ZONE_HALVE)
                limit /= 2;
        if (limit < z->rule.min)
                return z->rule.min;
        return limit > z->rule.max ? z->rule.max : limit;
}

bool zone_tick(struct zone *z, double pressure, uint32_t running, int64_t now_ns)
{
        if (now_ns < z->next_ns)
                return false;
        z->next_ns = now_ns + z->rule.tick_ns;
        average(z, pressure);
        if (z->average < SHRINK_FROM)
                z->peak -= (z->peak - z->limit) * PEAK_SINKS_BY;
        enum zone_step step = decide(z, running, now_ns);
        uint32_t limit = stepped(z, step);
        if (limit == z->limit)
                return false;
        z->limit = limit;
        if (z->peak < limit)
                z->peak = limit;
        z->last = step;
        z->changed_ns = now_ns;
        return true;
}

int64_t zone_next_ns(const struct zone *z)
{
        return z->next_ns;
}

uint32_t zone_limit(const struct zone *z, enum tier tier)
{
        ASSERT((unsigned)tier < TIERS);
        if (tier == TIER_CRITICAL)
                return ZONE_UNLIMITED;
        double part = z->limit / z->peak, share = z->limit;
        for (int t = TIER_HIGH; t < (int)tier; t++)
                share *= part;
        uint32_t limit = (uint32_t)(share + 0.5);
        return limit > z->rule.min ? limit : z->rule.min;
}

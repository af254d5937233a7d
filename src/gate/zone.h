/* The adaptive limit: how many jobs may run at once against a target follows its measured pressure,
 * so that nobody has to guess a number of workers.
 *
 * Pressure is max(value / threshold of critical) (level_pressure()); 1 is at the limit.  Each tick
 * (5 s) its moving average (weight of the newest 0.3) decides:
 *
 *      below 0.4      one more, when at least half of the limit is in use
 *      0.4 to 0.7     as it is
 *      0.7 to 1       one less
 *      1 and more     half
 *
 * After a change there is none for `cool` (15 s), except that half may follow a change by one.  No
 * signal counts as 0.55: as it is, and neither good nor bad news for long.
 *
 * The least important tiers shrink first.  High work has the limit itself; below the peak from
 * which the limit came down, normal work has that part of it, and deferrable work that part of the
 * part: at half the peak 1/2, 1/4 and 1/8.  The peak sinks back to the limit while the pressure is
 * fine, so that a limit that stays lower is shared again.  The critical tier is not limited.
 *
 * Pure: no clock, no allocation. */
#ifndef WEIR_GATE_ZONE_H
#define WEIR_GATE_ZONE_H

#include "base/err.h"
#include "gate/gate.h"

#define ZONE_UNLIMITED UINT32_MAX
#define ZONE_LIMIT_MAX 1000000U

struct zone_rule {
        uint32_t min, max; /* of the limit; 1 <= min <= max <= ZONE_LIMIT_MAX */
        uint32_t start;    /* the limit at first; min..max */
        int64_t tick_ns;
        int64_t cool_ns;
        double weight; /* of the newest value in the average; above 0, at most 1 */
};

/* 1 to 1000 jobs, 10 at first, 5 s, 15 s, 0.3. */
void zone_rule_init(struct zone_rule *r);
int zone_rule_check(const struct zone_rule *r, struct problem *problem) MUST_CHECK;

enum zone_step { ZONE_HOLD, ZONE_GROW, ZONE_SHRINK, ZONE_HALVE, ZONE_STEPS };
const char *zone_step_name(enum zone_step step); /* "halve" */

struct zone {
        struct zone_rule rule;
        uint32_t limit;
        double peak;         /* limit <= peak <= max */
        double average;      /* of the pressure; NAN before the first tick */
        bool is_blind;       /* the last tick had no signal */
        enum zone_step last; /* what changed the limit last; ZONE_HOLD: nothing yet */
        int64_t changed_ns;  /* when; 0: never */
        int64_t next_ns;     /* the next tick */
};

/* The rule must pass zone_rule_check(). */
void zone_init(struct zone *z, const struct zone_rule *r, int64_t now_ns);
/* Does something once per tick, at zone_next_ns() or later.  pressure: NAN when unknown.  running:
 * jobs that run now.  True when the limit changed; z->last says how. */
bool zone_tick(struct zone *z, double pressure, uint32_t running, int64_t now_ns);
int64_t zone_next_ns(const struct zone *z);

/* How many jobs of that tier and the more important ones may run at once: a job of the tier may
 * start while fewer than that run.  Never below min; ZONE_UNLIMITED for the critical tier. */
uint32_t zone_limit(const struct zone *z, enum tier tier);

#endif

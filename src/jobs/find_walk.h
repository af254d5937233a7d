/* Walking all live jobs, a little in each turn.
 *
 * A turn has one budget for all listings and bulk commands together, so however many there are they
 * hold the loop for some 1 ms and not longer: what is not done by then goes on in the next turn. */
#ifndef WEIR_JOBS_FIND_WALK_H
#define WEIR_JOBS_FIND_WALK_H

#include "jobs/find_filter.h"

/* Something that goes on from turn to turn; on core->scans. */
struct scan {
        struct list link;
        /* Does what the budget allows, and takes itself off the list when it is done. */
        void (*step)(struct core *core, struct scan *scan);
};
void scan_begin(struct core *core, struct scan *scan, void (*step)(struct core *, struct scan *));
void scan_end(struct scan *scan); /* not begun is fine */
/* Is anything of this turn's budget left, after `units` (looks at a job) more are spent? */
bool scan_spend(struct core *core, int64_t units);

struct live_walk {
        uint64_t at;  /* the next id to look at; every one before it was seen */
        bool is_up;   /* towards larger ids */
        bool is_over; /* all were seen */
};
/* Towards smaller ids, from below before_id; or towards larger ones, from above after_id. */
struct live_walk live_walk_down(uint64_t before_id);
struct live_walk live_walk_up(uint64_t after_id);

/* Calls fn for live jobs that match, in order, until it returns false (at then is behind that job),
 * the turn's budget is spent, or all were seen.  fn must not end or free jobs.  True: it is not the
 * budget that stopped it. */
bool live_walk_step(struct core *core, struct live_walk *w, const struct job_filter *f,
                    bool (*fn)(void *ctx, struct job *job), void *ctx) MUST_CHECK;

extern const struct feature scans_feature;

#endif

/* What schedules have made, in a few words, and a clock that is set by hand. */
#ifndef WEIR_TESTS_UNIT_SCHEDULE_BOX_H
#define WEIR_TESTS_UNIT_SCHEDULE_BOX_H

#include "refusal.h"

#include <stdio.h>

#include "base/say.h"
#include "jobs/schedule.h"
#include "state/schedule.h"

#define START  1700000000000 /* of the rig: 2023-11-14 22:13:20 UTC, a Tuesday */
#define MINUTE 60000
#define HOUR   3600000
#define DAY    86400000LL

static inline struct schedule *find(struct rig *rig, const char *name)
{
        struct thing *t = thing_find(&rig->core->state, THING_SCHEDULE, slice_str(name));
        return t && thing_is_durable(t) ? schedule_of(t) : NULL;
}

static inline const struct schedule_past *past(struct rig *rig, const char *name)
{
        assert_non_null(find(rig, name));
        return &find(rig, name)->past;
}

/* The slots of the live jobs as "+60000 +120000", counted from the start; "run" has none. */
static inline const char *slots(struct rig *rig)
{
        static char text[4096];
        size_t at = 0;
        uint64_t id = 0;
        text[0] = '\0';
        for (struct job *job; (job = idmap_next(&rig->core->state.jobs, id, &id)); id++) {
                if (job->state == JOB_FINISHED || !job->extra || !job->extra->schedule)
                        continue;
                int64_t slot = (int64_t)job->extra->options.slot_ms;
                const char *space = at ? " " : "";
                int n = slot ? snprintf(text + at, sizeof(text) - at, "%s+%lld", space,
                                        (long long)(slot - START))
                             : snprintf(text + at, sizeof(text) - at, "%srun", space);
                at += (size_t)n;
                assert_true(at < sizeof(text));
        }
        return text;
}

static inline size_t n_live(const struct rig *rig)
{
        return rig->core->state.jobs.len - rig->core->state.n_finished;
}

static inline void restart(struct rig *rig)
{
        assert_true(rig_replays(rig));
        rig_turn(rig);
}

/* The wall clock is set; steady time passes a little. */
static inline void set_clock(struct rig *rig, int64_t wall_ms)
{
        rig->now.wall_ms = wall_ms;
        rig->now.steady_ns += NS_PER_MS;
        for (int i = 0; i < 5; i++)
                rig_turn(rig);
}

static inline void complete_one(struct rig *rig)
{
        assert_true(rig_complete_next(rig, "default") != 0);
}

#endif

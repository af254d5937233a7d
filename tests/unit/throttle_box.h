/* The gate over one database, "shop", that is as busy as a test says: its threads_running is
 * elevated from 5 on and critical from 15 on. */
#ifndef WEIR_TESTS_UNIT_THROTTLE_BOX_H
#define WEIR_TESTS_UNIT_THROTTLE_BOX_H

#include "check.h"

#include "support/rig.h"
#include "throttle/throttle.h"

static const struct core_metric threads_running = {.name = "threads_running",
                                                   .rule = {{5, 15}, {3, 10}, 5 * NS_PER_S, false},
                                                   .is_running = true};
static const struct core_target shop = {.name = "shop",
                                        .metrics = &threads_running,
                                        .n_metrics = 1,
                                        .dwell_ns = 30 * NS_PER_S,
                                        .mode = -1};

/* Of a core that has just begun. */
static inline void set_up(struct rig *rig, enum gate_mode mode)
{
        static const struct registry_entry own[] = {{SLICE_LIT("wcs_own"), TIER_DEFERRABLE}};
        struct core_throttle options = {
                .targets = &shop, .n_targets = 1, .registry = own, .n_registry = 1};
        policy_init(&options.policy);
        options.policy.mode = mode;
        core_set_throttle(rig->core, &options);
}

static inline void init(struct rig *rig, enum gate_mode mode)
{
        rig_init(rig);
        set_up(rig, mode);
        rig_turn(rig);
}

static inline void sample(struct rig *rig, double value)
{
        rig_sample(rig, 0, 0, value);
}

/* Seconds pass with the same value each. */
static inline void sample_for(struct rig *rig, double value, int seconds)
{
        for (int i = 0; i < seconds; i++) {
                rig_pass_ms(rig, 1000);
                sample(rig, value);
        }
        rig_turn(rig);
}

#endif

/* The `throttle { ... }` section of the configuration: mode, delays and caps per level, the ramp,
 * and how the check door answers. */
#ifndef WEIR_SERVE_CONFIG_THROTTLE_H
#define WEIR_SERVE_CONFIG_THROTTLE_H

#include <confuse.h>

#include "base/err.h"
#include "core/core.h"

struct config_throttle {
        struct policy policy;
        bool is_off; /* enabled = false */
        unsigned ramp_cycles;
        int64_t ramp_cycle_ns;
        enum gate_mode adaptive;
        struct zone_rule zone;
        struct registry_entry *registry; /* their patterns are in: */
        char **registry_texts;
        size_t n_registry;
        bool has_queue_depth; /* ready jobs of our own queues count as load */
        struct level_rule queue_depth;
        struct core_checks checks; /* all of it is filled in */
};

void config_throttle_init(struct config_throttle *c); /* policy_init() and the default ramp */
void config_throttle_release(struct config_throttle *c);
cfg_opt_t *config_throttle_opts(void); /* for CFG_SEC */
int config_throttle_take(struct config_throttle *c, cfg_t *cfg, struct problem *problem) MUST_CHECK;

#endif

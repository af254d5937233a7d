/* The `throttle { ... }` section of the configuration: mode, delays and caps per level, the ramp,
 * and how the check door answers. */
#ifndef WEIR_SERVE_CONFIG_THROTTLE_H
#define WEIR_SERVE_CONFIG_THROTTLE_H

#include <confuse.h>

#include "api/setting_table.h"
#include "base/err.h"
#include "core/core.h"

/* The members that rows of api/setting_table.def declare are described there. */
struct config_throttle {
#define SETTINGS_SECTION SETTINGS_THROTTLE
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
        struct policy policy;
        struct zone_rule zone;
        struct registry_entry *registry; /* their patterns are in: */
        char **registry_texts;
        size_t n_registry;
        bool has_queue_depth; /* ready jobs of our own queues count as load */
        struct level_rule queue_depth;
        struct core_checks checks; /* all of it is filled in */
};

void config_throttle_init(struct config_throttle *c); /* the defaults */
void config_throttle_release(struct config_throttle *c);
/* Takes a `throttle` section. */
int config_throttle_take(struct config_throttle *c, cfg_t *section,
                         struct problem *problem) MUST_CHECK;

#endif

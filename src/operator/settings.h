/* Settings an operator changes while weir runs: kept in the log, checked, with their defaults.
 *
 *      default  <  configuration  <  set while weir runs
 *
 * Names are texts with dots: throttle.delay.critical.normal, target.shop.threads_running.elevated.
 * Those of targets, sites and MySQL doors are there as long as these are; what was set for one that
 * is gone stays in the log, does nothing, and holds again when it is back. */
#ifndef WEIR_OPERATOR_SETTINGS_H
#define WEIR_OPERATOR_SETTINGS_H

#include "core/kernel.h"

extern const struct feature settings_feature;

/* What holds now, for whoever writes it down as configuration. */
struct core_effective {
        struct policy policy; /* not that of a pause */
        bool is_off;
        enum gate_mode check_mode;
        /* Was one of the throttle's set, or a pattern of the registry? */
        bool is_throttle_changed;
        bool are_locks_off, are_locks_changed;
};
void core_effective(struct core *core, struct core_effective *ret);
/* The same of a target.  The caller gives room for its metrics, in their order. */
struct core_target_effective {
        struct level_rule *rules;
        double *check_above;
        bool (*is_auto)[2]; /* elevated, critical: as learned */
        int64_t dwell_ns;
        bool is_changed; /* was a setting of the target set? */
};
/* False: there is no target of that name. */
bool core_effective_target(struct core *core, const char *name, struct core_target_effective *ret);
/* False: the mode of that site was not set. */
bool core_effective_site(const struct core *core, const char *name, enum gate_mode *ret);
/* Patterns that were set while weir runs. */
void core_each_pattern(const struct core *core,
                       void (*fn)(void *ctx, struct slice pattern, enum tier tier), void *ctx);

#endif

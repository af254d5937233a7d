/* Hosts whose values are left out for a while: a replica that is being repaired must not make
 * everybody wait.
 *
 * The core keeps the names and when each ends; it knows no hosts.  Whoever probes is told through
 * core_throttle.skips_changed, which throttle_refresh() calls whenever a setting changed, and reads
 * the list with core_each_skipped() (checks/check.h). */
#ifndef WEIR_THROTTLE_HOST_H
#define WEIR_THROTTLE_HOST_H

#include "core/kernel.h"

#define SETTING_SKIP        "skip:"
#define SKIP_FOR_DEFAULT_MS 3600000

/* The time of that setting is over; tells of it when it is a skipped host. */
void host_setting_ended(struct core *core, struct slice setting);

#endif

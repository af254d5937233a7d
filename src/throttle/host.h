/* Hosts whose values are left out for a while: a replica that is being repaired must not make
 * everybody wait.
 *
 * The core keeps the names and when each ends; it knows no hosts.  Whoever probes is told through
 * core_throttle.skips_changed, which throttle_refresh() calls whenever a setting changed, and reads
 * the list with core_each_skipped(). */
#ifndef WEIR_THROTTLE_HOST_H
#define WEIR_THROTTLE_HOST_H

#include "core/core.h"

#define SETTING_SKIP        "skip:"
#define SKIP_FOR_DEFAULT_MS 3600000

/* Hosts whose values are left out for a while (freno's skip-host).  Durable. */
bool core_is_host_name(struct slice name); /* one word: a replica, its host, host:port, a socket */
int core_skip_host(struct core *core, struct slice host, int64_t for_ms,
                   struct problem *problem) MUST_CHECK;
bool core_recover_host(struct core *core, struct slice host);
void core_each_skipped(struct core *core,
                       void (*fn)(void *ctx, struct slice host, int64_t until_wall_ms), void *ctx);

extern const struct feature hosts_feature;

#endif

/* The incident log: what the gate did and what operators did to it.
 *
 * What happens rarely (a level that changes, a pause, a setting, a rule, the registry, a ramp) is
 * numbered and kept: the newest in memory, all of it by the archive (core/archive.h), over restarts
 * and for a time of its own.  What comes by the thousand (deferrals, steps of the adaptive limit)
 * is told as groups, in memory alone: of which hook and tier, how many, from when to when.  So a
 * storm never pushes out what began it. */
#ifndef WEIR_THROTTLE_INCIDENT_H
#define WEIR_THROTTLE_INCIDENT_H

#include "throttle/throttle_state.h"

#define INCIDENT_GROUPS_MAX   200
#define INCIDENT_GROUP_GAP_MS 600000 /* a group ends when nothing came for so long */
#define INCIDENT_COUNT        50     /* told unless said otherwise */

struct incident_groups;
struct incident_groups *incident_groups_new(void);
struct incident_groups *incident_groups_free(struct incident_groups *g);

/* Does it come so often that it is told as a group? */
bool incident_is_frequent(const char *event);
/* Numbers it and gives it to the archive. */
void incident_keep(struct core *core, struct throttle_event *e);
/* One more of its group; tier -1 and no hook: of no job. */
void incident_count(struct core *core, const char *event, struct slice hook, int tier,
                    const char *text);

/* Answers THROTTLEHISTORY: at most `max` events with numbers below `before` (0: the newest), and
 * the newest groups.  OK, or CORE_LATER when the archive is asked. */
int incident_tell(struct core *core, struct session *session, struct reply *reply, size_t max,
                  uint64_t before);

#endif

/* The gate in the core: levels of the targets, the operator's hand, parked jobs and the ramp.
 *
 * serve/ says which targets there are and brings their samples; everything else is decided here,
 * from the policy (gate/gate.h), the registry (gate/registry.h) and the levels (gate/level.h). */
#ifndef WEIR_THROTTLE_THROTTLE_H
#define WEIR_THROTTLE_THROTTLE_H

#include "api/limits.h"
#include "core/kernel.h"
#include "gate/gate.h"
#include "gate/level.h"

#define THROTTLE_HISTORY_S 3600 /* values kept per metric, one a second */
#define THROTTLE_TEXT      256

struct throttle;

/* What the rooms above are told, and asked for.  Each may be NULL. */
struct retarget;
struct target;
struct throttle_listener {
        void (*sampled)(struct core *core, size_t target); /* a sample of it came */
        /* The targets were set up again (throttle/retarget.h); `old` is freed afterwards. */
        void (*retargeted)(struct core *core, const struct retarget *map, const struct target *old);
        /* Policy and targets are as configured again: puts on top what was set since. */
        void (*apply_settings)(struct core *core);
};
#define THROTTLE_LISTENERS_MAX 4
void throttle_listen(struct core *core, const struct throttle_listener *listener);

/* Somebody claims: the probes are to be awake. */
void throttle_ask(struct core *core);
/* May this job start now?  False: it was parked. */
bool throttle_admit(struct core *core, struct job *job);
/* What it would answer, without doing anything: for WHY. */
struct gate_answer throttle_look(struct core *core, const struct job *job, enum tier *ret_tier);
/* That answer, when it is to wait, in words: what makes it wait and for how long.  THROTTLE_TEXT
 * bytes. */
void throttle_put_reason(const struct core *core, const struct gate_answer *a, enum tier tier,
                         char *ret);
/* Where the operator's pause ends: steady ns, INT64_MAX until resumed, 0: no pause. */
int64_t throttle_pause_ns(const struct core *core);
/* The setting throttle.enabled: no job waits for a level or the adaptive limit, whatever the modes
 * say.  A pause holds all the same, and checks have a mode of their own. */
bool throttle_is_off(const struct core *core);
/* A ready job that a cap of the level or the adaptive limit keeps: out of the way of the critical
 * ones behind it, until a place is free. */
void throttle_put_aside(struct core *core, struct job *job);
void throttle_take_back(struct core *core, size_t max); /* the best of them may try again */
/* Are as many jobs running as the adaptive limit allows, for a job of this kind? */
bool throttle_is_full(struct core *core, const struct job *job);
enum tier throttle_tier(const struct core *core, const struct job *job);
/* How often work of that hook was deferred within the last hour, about; and n times more. */
uint32_t throttle_hook_deferrals(struct core *core, struct slice hook);
void throttle_count_deferrals(struct core *core, struct slice hook, uint32_t n);
/* Caps of the level in force, all 0 when there are none. */
struct level_caps throttle_caps(const struct core *core);

/* Index of the target of that name, -1 when there is none; an empty name is the first. */
int throttle_target(const struct core *core, struct slice name);
size_t throttle_targets(const struct core *core);
const char *throttle_target_name(const struct core *core, size_t target);
/* Sets the problem: there is no target of that name, and which there are.  Returns ERR_NOTFOUND. */
int throttle_no_target(const struct core *core, struct slice name, struct problem *problem);
/* Index of that metric of a target, -1 when it has none.  Vitess's names stand for ours ("lag" is
 * replication_lag), and a scope before a '/' (self, shard) is passed over. */
int throttle_metric(const struct core *core, size_t target, struct slice name);
const char *throttle_metric_name(const struct core *core, size_t target, size_t metric);
/* Says something to whoever reads THROTTLE HISTORY. */
void throttle_tell(struct core *core, const char *name, const char *fmt, ...) PRINTF(3, 4);

extern const struct feature throttle_feature;

#endif

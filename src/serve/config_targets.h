/* The `target "name" { ... }` sections of the configuration: what is probed, and from which values
 * on it counts as load.
 *
 * The struct owns everything in it; it must outlive the probes that were started with it. */
#ifndef WEIR_SERVE_CONFIG_TARGETS_H
#define WEIR_SERVE_CONFIG_TARGETS_H

#include "base/err.h"
#include "gate/level.h"
#include "probe/probe.h"

#define CONFIG_TARGETS_MAX 32

/* What the levels of a target need; rules[i] belongs to metric i of its probe_options. */
struct config_target {
        struct level_rule rules[LEVEL_METRICS_MAX];
        int64_t dwell_ns;
        int mode; /* enum gate_mode; -1: the global one */
};

struct config_targets {
        struct probe_options *probes; /* n of them, for probe_start() */
        struct config_target *levels; /* n of them, in the same order */
        size_t n;
};

struct cfg_t;
struct cfg_opt_t;

/* The options of a target section, for
 *      CFG_SEC("target", config_target_opts(), CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES) */
struct cfg_opt_t *config_target_opts(void);
/* Takes all `target` sections of a parsed file.  After an error the struct wants its release. */
int config_targets_take(struct config_targets *t, struct cfg_t *cfg,
                        struct problem *problem) MUST_CHECK;
void config_targets_release(struct config_targets *t); /* wipes the passwords */

#endif

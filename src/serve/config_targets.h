/* The `target "name" { ... }` sections of the configuration: what is probed, and from which values
 * on it counts as load.
 *
 * The struct owns everything in it; it must outlive the probes that were started with it. */
#ifndef WEIR_SERVE_CONFIG_TARGETS_H
#define WEIR_SERVE_CONFIG_TARGETS_H

#include "api/setting_table.h"
#include "base/err.h"
#include "gate/check.h"
#include "gate/level.h"
#include "probe/probe.h"

#define CONFIG_TARGETS_MAX 32

/* What the levels and the checks of a target need; index i is metric i of its probe_options.  Those
 * it is checked by come first, in the order of the file. */
struct config_target {
        struct level_rule rules[LEVEL_METRICS_MAX];
        double check_above[LEVEL_METRICS_MAX]; /* threshold of the check door; NAN: none */
        bool is_checked[LEVEL_METRICS_MAX];
        bool is_auto[LEVEL_METRICS_MAX][2]; /* elevated, critical: as learned; rules: until then */
        bool is_written[LEVEL_METRICS_MAX]; /* elevated is in the file */
        bool is_any_written[LEVEL_METRICS_MAX];   /* or critical */
        bool is_check_written[LEVEL_METRICS_MAX]; /* and threshold, of the check */
        struct unknown_rule unknown[TIERS];       /* what a check gets while a metric is unknown */
/* What rows of api/setting_table.def declare: dwell, the mode (-1: the global one), where the
 * password is from. */
#define SETTINGS_SECTION SETTINGS_TARGET
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
};

struct config_targets {
        struct probe_options *probes; /* n of them, for probe_start() */
        struct config_target *levels; /* n of them, in the same order */
        size_t n;
};

struct cfg_t;
struct config_at;

/* Takes all `target` sections of a parsed file.  After an error the struct wants its release. */
int config_targets_take(struct config_targets *t, struct cfg_t *cfg,
                        struct problem *problem) MUST_CHECK;
void config_targets_release(struct config_targets *t); /* wipes the passwords */
/* By default: open for the critical and high tiers, closed for the others. */
void config_unknown_init(struct unknown_rule ret[TIERS]);
/* The enter threshold of the lowest level it has; NAN: it has none. */
double config_check_above(const struct level_rule *rule);
/* Thresholds of a metric of that name that has none in the file; NAN: none. */
void config_default_thresholds(const char *metric, struct level_rule *rule);
/* Do the default thresholds of a metric follow the processors of its server? */
bool config_is_by_cores(enum probe_kind kind, const struct probe_metric *m);
int64_t config_default_stale_ms(const struct probe_options *o);
/* A target of which nothing was said yet. */
void config_target_init(struct probe_options *o, struct config_target *level);
/* Would a probe that was started with the one do for the other? */
bool config_probe_is_same(const struct probe_options *a, const struct probe_options *b);

/* ---- what sites and doors say as targets do ---- */

/* 1 to 64 bytes of UTF-8 without '/', because it stands in addresses (/check/app/mysql/NAME), and
 * without control characters. */
bool config_is_name(const char *name);
int config_usual_port(enum probe_kind kind);
/* Is it the name of one of them? */
int config_check_target(const struct config_at *at, const char *name,
                        const struct config_targets *targets) MUST_CHECK;
/* host or socket, and port. */
int config_server_take(const struct config_at *at, struct cfg_t *cfg, int usual_port,
                       struct sql_server *ret) MUST_CHECK;
void config_server_release(struct sql_server *s);
/* From a file or the environment; either may be NULL.  *ret is only set when there is one. */
int config_password_take(const struct config_at *at, const char *file, const char *env,
                         char **ret) MUST_CHECK;
void config_password_release(char **password);          /* wipes it */
bool config_text_is_same(const char *a, const char *b); /* NULL is the same as NULL only */
bool config_server_is_same(const struct sql_server *a, const struct sql_server *b);
bool config_tls_is_same(const struct sql_tls *a, const struct sql_tls *b);

#endif

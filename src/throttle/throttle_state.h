/* The state of the throttle: its own files change it, the rooms above may read it. */
#ifndef WEIR_THROTTLE_THROTTLE_STATE_H
#define WEIR_THROTTLE_THROTTLE_STATE_H

#include "api/replies.h"
#include "gate/ramp.h"
#include "gate/registry.h"
#include "throttle/parking.h"
#include "throttle/throttle.h"

/* A number as it was last told: until it changes, telling it again is a copy. */
struct told_number {
        double value;
        uint8_t len; /* 0: never told */
        char text[31];
};

enum threshold_set { THRESHOLD_UNSET, THRESHOLD_PAIR, THRESHOLD_AUTO };

struct metric {
        char *name;
        char error[THROTTLE_TEXT]; /* why the last try failed; "" when it did not */
        char note[THROTTLE_TEXT];  /* what was said of the last value; "" when it failed */
        float *history;            /* one value a second, THROTTLE_HISTORY_S of them; NAN: none */
        int64_t history_s;         /* steady second of the newest */
        double check_above;        /* as in core_metric */
        /* As in core_metric. */
        bool is_checked, is_running, is_written, is_percent, is_default, is_check_default;
        bool is_by_cores;
        struct level_rule shipped;
        bool is_auto[2];
        enum threshold_set set[2]; /* by settings, elevated and critical; a pair is in: */
        struct level_rule set_rule;
        /* numbers/relearn.c: what follows from the usual values, once enough is known of them. */
        bool has_learned;
        struct level_rule learned;
        unsigned learned_hours;
        int64_t learned_ns; /* steady, when it was last asked for; 0: never */
        /* As configured; what holds (rules, check_above) follows from it and from the settings. */
        struct level_rule configured;
        double check_configured;
        struct told_number told_value, told_threshold;
};

struct target {
        char *name;
        struct metric *metrics;
        struct level_rule *rules;
        struct level_sample *samples;
        size_t n_metrics;
        int64_t dwell_ns;
        int64_t dwell_configured_ns;
        int mode;
        bool is_own;
        unsigned cores; /* of its server; 0: not known */
        char *kind;     /* may be NULL */
        struct unknown_rule unknown[TIERS];
        struct leveler leveler;
        int8_t last_known;     /* enum level, of before the restart; -1: none was known */
        int64_t last_known_ms; /* so long before the restart it was entered */
        uint16_t tally_place;  /* core/tally.h's; 0 at first */
        bool is_restored;      /* what was known of it was looked for */
};

struct throttle_event {
        uint64_t number;
        uint64_t incident; /* its number in the incident log; 0: it is frequent and not kept */
        int64_t wall_ms;
        const char *name; /* "load_level_transition" */
        char text[THROTTLE_TEXT];
};

struct throttle_ring {
        struct throttle_event *events; /* THROTTLE_EVENTS of them */
        uint64_t n;
};

/* How often the jobs of a hook were deferred within the last hour, about: this hour and the share
 * of the last one that is still within 60 minutes. */
struct hook_count {
        struct hash_node node;
        int64_t hour;
        uint32_t now, before;
        char text[];
};

struct throttle {
        struct target *targets;
        size_t n_targets;
        struct policy configured; /* as set up */
        struct policy policy;     /* with what the operator changed since */
        struct registry *registry;
        uint64_t registry_version;  /* grows when it is built anew; from 1 on */
        struct registry_entry *own; /* of the configuration; their patterns are in: */
        struct buf own_texts;
        size_t n_own;
        uint64_t settings_seen; /* state->settings_version this was built from */
        enum gate_mode mode;    /* as said; the policy's is enforce while paused */
        bool is_off;            /* switched off: as if every mode were off */
        bool is_off_configured;
        struct list tries;    /* REGISTRYTRY: walks that go on next turn */
        enum level watched;   /* the worst of those that are measured and do not enforce */
        enum level decided;   /* the worst of those that decide: observe and enforce */
        enum level enforced;  /* the worst of those that enforce */
        enum level effective; /* what is done: enforced, or critical while paused */
        int deciding;         /* the target that has `enforced`; -1: none, it is normal */
        int watching;         /* the same for `watched` */
        int64_t level_since_ns;
        /* What `decided` and `enforced` mean for a tier (gate/level.h), and the caps of
         * `effective`; all of it until the time alone changes it. */
        enum level decided_for[TIERS], enforced_for[TIERS];
        struct level_caps caps;
        int64_t held_next_ns; /* INT64_MAX: it does not */
        bool are_targets_new; /* set up, and what was last known is not taken up yet */
        bool awaits_levels;   /* since the start: of a target the first samples are to come */
        struct ramp ramp;
        struct parking parking;
        struct hash hooks;
        struct throttle_ring rings[2]; /* what happens rarely, and what is frequent */
        struct incident_groups *groups;
        uint64_t last_incident; /* 0: none, or the archive was not asked yet */
        uint64_t n_events;
        uint64_t decisions[LEVELS][TIERS][2]; /* run, would wait */
        uint64_t deferred[TIERS], observed[TIERS], released[TIERS];
        int64_t last_said_ns;  /* a deferral was said to the operator */
        int64_t own_ns;        /* our own metrics were sampled */
        int64_t own_oldest_ms; /* then the oldest due job had been due for so long */
        enum gate_mode adaptive;
        struct zone zone;
        uint64_t zone_waits[2]; /* claims that found the limit reached: would wait, waited */
        uint32_t running_seen;  /* jobs that ran when those put aside were last woken */
        void (*asked)(void *ctx);
        void (*skips_changed)(void *ctx);
        void *asked_ctx; /* of both */
        int64_t asked_ns;
        const struct throttle_listener *listeners[THROTTLE_LISTENERS_MAX];
        size_t n_listeners;
};

/* The thresholds of a metric, and that of its check, where nothing was set. */
struct level_rule metric_unset_rule(const struct target *g, size_t metric);
double metric_unset_check(const struct target *g, size_t metric);
/* Works out g->rules of a metric.  False: what was set does not go with the rest, and is left out.
 */
bool metric_resolve(struct target *g, size_t metric);
/* Is that level (0 elevated, 1 critical) to follow what was learned? */
bool metric_is_auto(const struct metric *m, size_t level);
/* The default ones of such a metric at this server, whatever was written; NAN: none. */
struct level_rule metric_default_rule(const struct target *g, size_t metric);
/* Where its thresholds are from, in words; "" when it has none.  THROTTLE_TEXT bytes. */
const char *metric_origin(const struct target *g, size_t metric, char *ret);
/* Index of the metric of that name, -1 when the target has none. */
int target_metric(const struct target *g, struct slice name);
void throttle_forget_hooks(struct throttle *t); /* the counts of deferrals */
/* What core_set_throttle() made. */
void throttle_setup_release(struct throttle *t);
/* The registry as it would be with one more pattern set; NULL: as it is.  The caller's to free. */
struct registry *throttle_build_registry(const struct core *core,
                                         const struct registry_entry *more);
extern const struct feature registry_tries_feature; /* REGISTRYTRY: walks that go on */
/* What NOW and THROTTLE STATUS tell alike; the row borrows from `last`. */
struct target_row_reply throttle_target_row(const struct core *core, const struct target *g,
                                            char last[THROTTLE_TEXT]);
struct ramp_reply throttle_ramp(const struct core *core);
/* What would be done to each tier if the mode were enforce: targets with a mode of their own keep
 * it. */
void throttle_levels_if_enforced(const struct core *core, enum level ret[TIERS]);

/* Of the target, or that of all; off when the throttle is switched off. */
enum gate_mode throttle_mode_of(const struct throttle *t, const struct target *g);
/* The level that is applied to this tier now. */
enum level throttle_level_for(const struct throttle *t, enum tier tier);

/* Brings policy and registry in step with the settings. */
void throttle_refresh(struct core *core);

/* Adds key="value" for /metrics, escaped as its format wants, and the comma before it. */
void throttle_put_label(struct buf *labels, const char *key, const char *value);

#define SETTING_MODE     "throttle.mode"
#define SETTING_PAUSE    "throttle.pause"
#define SETTING_REGISTRY "registry:"

#endif

/* The state of the check door, and an ask on its way: the files of checks/ change them, the rooms
 * above may read them. */
#ifndef WEIR_CHECKS_CHECK_CTX_H
#define WEIR_CHECKS_CHECK_CTX_H

#include "checks/check.h"
#include "checks/client.h"
#include "checks/rule.h"
#include "gate/admission.h"
#include "throttle/throttle_state.h"

struct retarget;

#define CHECK_NO_TARGET 255
#define SETTING_CHECK   "check.mode"

/* An ask with everything looked up; its texts are the asker's. */
struct ask_ctx {
        struct identity who;
        struct client *client; /* valid until the core runs on */
        int target;            /* -1: there are none */
        enum tier tier;
        uint32_t cost;
        bool is_contract, is_low, is_read;
        bool is_frozen;     /* of a door that decides by itself: see check_freeze() */
        bool is_lost;       /* the target it named does not exist, and `target` is -1 */
        double threshold;   /* of the first metric; NAN: its own */
        const double *roll; /* as in struct check_case */
        uint8_t metrics[CHECK_METRICS_MAX];
        struct slice asked[CHECK_METRICS_MAX]; /* as they were asked for; ptr NULL: by default */
        size_t n_metrics;
        struct slice address;
        bool is_authenticated;
};

/* Beside each target of the throttle, and one for asks when there is none. */
struct check_state {
        struct credit_pool pool;
        int64_t refused_ns; /* the last refusal that makes low priority asks wait; 0: none */
        int64_t healthy_ms; /* Unix ms when its first checked metric was last below its threshold */
        struct list lanes;  /* identities with parked asks, whose turn is next first */
        size_t n_waiting;
        int64_t served_ns;
        int64_t due_ns; /* the first of their pauses ends; 0: none does */
        bool has_news;  /* a sample came since */
};

struct check_ctx {
        struct check_state *targets; /* of n_targets + 1; the last is for asks without a target */
        size_t n_targets;
        struct hash lanes; /* by target and identity */
        size_t n_waiting;
        int64_t pool_ns; /* the pools were last looked at */
        enum gate_mode mode;
        uint64_t mode_seen; /* settings_version it was read at */
        uint64_t granted, refused[CHECK_REASONS], observed, parked;
        /* Of the ask being decided: too large for the stack of every check. */
        struct check_value values[CHECK_METRICS_MAX];
        struct check_answer answer, trial;
};

/* The targets were set up: forget what belonged to others.  No ask is parked then. */
void checking_reset(struct core *core);
/* The same when some may be parked: at a target that stays they go on waiting, at one that is gone
 * (`old` has its name) they are answered with an error. */
void checking_retarget(struct core *core, const struct retarget *map, const struct target *old);
void checking_turn(struct core *core);
int64_t checking_next_ns(const struct core *core);

int check_look_up(struct core *core, const struct check_ask *ask, struct ask_ctx *ret,
                  struct problem *problem) MUST_CHECK;
/* Decides, without counting. */
void check_answer(struct core *core, const struct ask_ctx *a, struct check_answer *ret);
/* Counts the answer and does what follows from it. */
void check_settle(struct core *core, const struct ask_ctx *a, const struct check_answer *answer,
                  uint32_t waited_ms);
/* The exemption r let it through although the target is over its threshold; may end r. */
void check_spend_budget(struct core *core, const struct ask_ctx *a, struct rule *r);
/* Fills in the credits of a granted ask, after it was counted, and when it should ask again. */
void check_give_credits(struct core *core, const struct ask_ctx *a, struct check_answer *ret);
/* Until when an ask that waits is to be paced, steady ns; the past: not at all. */
int64_t check_paced_ns(const struct ask_ctx *a);
void checking_tick(struct core *core);
struct check_state *check_state_of(struct core *core, int target);
enum gate_mode check_mode(struct core *core);

/* What an answer says beside its reason: "threads_running 150 against 15"; may be "". */
void check_put_detail(const struct core *core, const struct ask_ctx *a,
                      const struct check_answer *answer, enum check_reason reason,
                      char ret[CHECK_TEXT]);
/* The tier of the most specific part that is registered, else normal. */
enum tier check_registered_tier(const struct core *core, const struct identity *who);

/* ---- freeze.c: for doors that decide by themselves, on a snapshot ---- */

struct check_subject {
        struct identity who;
        int target; /* -1: none */
        enum tier tier;
};
/* What the gate says of it now in mode enforce, whatever the dice; nothing is counted.  Unlike in a
 * check the matrix of levels and tiers always speaks: a door cannot ask again at each step. */
void check_freeze(struct core *core, const struct check_subject *s, struct class_verdicts *ret);

/* What became of its transactions since they were last told. */
struct check_tally {
        uint64_t granted, refused;
        uint64_t observed; /* of the granted, those that would have waited */
        int64_t waited_ms; /* of the granted, in all */
        struct slice from; /* where they came from, as an address */
};
/* Counts them as if each had been a check; `v` is what they were decided by. */
void check_count_frozen(struct core *core, const struct check_subject *s,
                        const struct class_verdicts *v, const struct check_tally *tally);

/* For /metrics. */
void checking_each_sample(const struct core *core,
                          void (*fn)(void *ctx, const char *name, const char *labels, double value),
                          void *ctx);

extern const struct feature checks_feature;

#endif

/* The gate: may this piece of work go now, given how important it is and how the database is?
 *
 * Pure: values in, values out, no clock, no allocation, no lock.  A policy is immutable and swapped
 * whole, so that any thread could decide on it.  See registry.h for how a hook gets its tier and
 * level.h for how metrics become a level. */
#ifndef WEIR_GATE_GATE_H
#define WEIR_GATE_GATE_H

#include "base/err.h"
#include "base/slice.h"

/* Numbers are in the log. */
#define TIER_MAP(X)                                                                                \
        X(TIER_CRITICAL, "critical")                                                               \
        X(TIER_HIGH, "high")                                                                       \
        X(TIER_NORMAL, "normal")                                                                   \
        X(TIER_DEFERRABLE, "deferrable")
#define LEVEL_MAP(X)                                                                               \
        X(LEVEL_NORMAL, "normal")                                                                  \
        X(LEVEL_ELEVATED, "elevated")                                                              \
        X(LEVEL_CRITICAL, "critical")                                                              \
        X(LEVEL_UNKNOWN, "unknown")
/* off: nothing is computed; test_observe: metrics and levels only; observe: decisions are made,
 * counted and told as would_defer, and the work runs; enforce: it waits. */
#define MODE_MAP(X)                                                                                \
        X(MODE_OFF, "off")                                                                         \
        X(MODE_TEST_OBSERVE, "test_observe")                                                       \
        X(MODE_OBSERVE, "observe")                                                                 \
        X(MODE_ENFORCE, "enforce")

#define GATE_ID(id, name) id,
enum tier { TIER_MAP(GATE_ID) TIERS };
enum level { LEVEL_MAP(GATE_ID) LEVELS };
enum gate_mode { MODE_MAP(GATE_ID) MODES };

const char *tier_name(enum tier tier);      /* "critical" */
int tier_from_name(struct slice name);      /* in any case; -1 when there is no such tier */
const char *level_name(enum level level);   /* "elevated" */
const char *mode_name(enum gate_mode mode); /* "test_observe" */
int mode_from_name(struct slice name);      /* as tier_from_name */

/* Queue-wide caps at a level; 0: none. */
struct level_caps {
        uint32_t claim_size; /* jobs of one claim */
        uint32_t claims;     /* claims of a queue at once */
};

struct policy {
        enum gate_mode mode;
        bool is_paused; /* the operator said so: behave as critical */
        /* How long a job of that tier waits at that level, in ms; 0: it runs. */
        uint32_t delay_ms[LEVELS][TIERS];
        struct level_caps caps[LEVELS];
        uint32_t deferrals_per_hour; /* of one hook; beyond it jobs run.  0: no bound */
        uint64_t max_deferral_ms;    /* of one job in all; then it runs, not later.  0: no bound */
        /* How the depth of weir's own queues counts while no other target is above normal: at most
         * as queue_level, and only once the oldest due job is this old.  0: at once. */
        uint32_t queue_age_ms;
        enum level queue_level; /* elevated or critical */
        /* A job that would expire while it waits starts this long before, or a tenth of the time
         * that is left before, whichever is less; */
        uint32_t expiry_margin_ms;
        bool lets_expire[TIERS]; /* unless its tier is left to expire. */
};

#define GATE_QUEUE_AGE_MS  60000
#define GATE_MARGIN_MS     60000U /* the default of expiry_margin_ms */
#define GATE_MARGIN_MAX_MS (24LL * 3600 * 1000)
#define GATE_DELAY_MAX_MS  (7U * 24 * 3600 * 1000) /* of one deferral: nothing is forgotten */

/* QueryGuard's: elevated: normal 5 min, deferrable 15; critical: high 5, normal 15, deferrable 60;
 * unknown: critical and high run, normal 5 min, deferrable 15.  Caps: elevated 5 jobs, 15 s, 1
 * claim; critical 1 job, 10 s, 1 claim.  Mode off, no pause, no bounds on deferrals. */
void policy_init(struct policy *p);
/* The worse of both levels for that tier: the one with the longer delay. */
enum level policy_worse_level(const struct policy *p, enum level level, enum level other,
                              enum tier tier);
/* The lower of both. */
void level_caps_lower(struct level_caps *caps, const struct level_caps *other);
/* ERR_BADARG and what is wrong: the critical tier runs at every level, every tier runs at level
 * normal, and no delay is longer than GATE_DELAY_MAX_MS.  gate_decide holds to the first two
 * whatever it is given. */
int policy_check(const struct policy *p, struct problem *problem) MUST_CHECK;

#define GATE_REASON_MAP(X)                                                                         \
        X(GATE_OFF, "off")         /* the mode does not decide */                                  \
        X(GATE_ALLOWED, "allowed") /* the matrix lets it run */                                    \
        X(GATE_LEVEL, "level")     /* the matrix makes it wait */                                  \
        X(GATE_PAUSED, "paused")   /* the operator's pause makes it wait */                        \
        X(GATE_UNKNOWN, "unknown") /* the load of the database is unknown, and its tier waits */   \
        X(GATE_DEFERRED_MAX, "max_deferral_reached") /* it has waited long enough: it runs */      \
        X(GATE_HOOK_MAX, "max_defers_reached") /* its hook was deferred often enough: it runs */   \
        X(GATE_EXPIRY, "expires") /* it waited until just before it expires: it runs */            \
        X(GATE_RAMP, "ramp")      /* older jobs of its hook return by the ramp: it waits */
enum gate_reason { GATE_REASON_MAP(GATE_ID) GATE_REASONS };
const char *gate_reason_name(enum gate_reason reason);

struct gate_ask {
        enum tier tier;
        enum level level;        /* of its target, now */
        uint64_t deferred_ms;    /* how long this job has been made to wait so far */
        uint32_t hook_deferrals; /* of its hook within the last hour */
        int64_t expires_in_ms;   /* 0: it does not expire */
        bool is_last_call;       /* it was made to wait until just before it expires */
};

/* What becomes of a job that would expire while it waits. */
enum gate_expiry {
        EXPIRY_NONE,   /* it does not */
        EXPIRY_STARTS, /* it waits for a shorter time, and then it is its last call */
        EXPIRY_PASSES, /* it is left to expire */
};

struct gate_answer {
        bool is_wait;      /* what is done: only with MODE_ENFORCE */
        bool would_wait;   /* what enforce would do */
        uint32_t delay_ms; /* when would_wait; never past the job's max_deferral_ms */
        enum level level;  /* what was decided on: critical while paused */
        enum gate_reason reason;
        enum gate_expiry expiry;
        int64_t margin_ms; /* with EXPIRY_STARTS: how long before its end that is */
};

/* How long a job that expires in `left_ms` can wait and still be started. */
int64_t gate_room_ms(const struct policy *p, int64_t left_ms);

struct gate_answer gate_decide(const struct policy *p, const struct gate_ask *ask);

#endif

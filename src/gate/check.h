/* May this step go now?  The question of the check door, decided from values alone.
 *
 * Order, each with its reason:
 *      paused          the operator's pause, for tiers that wait at level critical
 *      hold            the operator's hold, the most general one first: an emergency stop stops
 *      low_priority    a more important client was refused within the last second
 *      ratio           the rule of the most specific name; it rolls the dice, once per ask
 *      exempt          a rule lets it through, whatever the metrics say
 *      off             the mode does not decide
 *      threshold       value > threshold; of several the one furthest above
 *      unknown         a metric it is checked against is not known, and its tier waits then
 *      level           the level of the target makes its tier wait (our own contract only)
 *      granted
 * The operator's own hand (pause, rules) is no trial: it holds in every mode of the checks.
 * A rule or a mode that only observes changes `would_refuse` and its reason, never the verdict. */
#ifndef WEIR_GATE_CHECK_H
#define WEIR_GATE_CHECK_H

#include "base/rand.h"
#include "gate/gate.h"

#define CHECK_METRICS_MAX 32

/*      id            name            what people read */
#define CHECK_REASON_MAP(X)                                                                        \
        X(GRANTED, "granted", "nothing speaks against it")                                         \
        X(OFF, "off", "the mode does not decide")                                                  \
        X(EXEMPT, "exempt", "a rule exempts it")                                                   \
        X(PAUSED, "paused", "the operator paused")                                                 \
        X(LOW_PRIORITY, "low_priority", "somebody more important was refused just now")            \
        X(HOLD, "hold", "a rule holds it")                                                         \
        X(RATIO, "ratio", "a rule refuses a share of its asks")                                    \
        X(LEVEL, "level", "the load level makes its tier wait")                                    \
        X(UNKNOWN, "unknown", "a metric is not known")                                             \
        X(THRESHOLD, "threshold", "a metric is above its threshold")                               \
        X(LIMIT, "limit", "a limit of its class is reached") /* of the MySQL proxy only */

enum check_reason {
#define X(id, name, text) CHECK_##id,
        CHECK_REASON_MAP(X)
#undef X
                CHECK_REASONS
};
const char *check_reason_name(enum check_reason reason);
const char *check_reason_text(enum check_reason reason);
/* Is it about what was measured?  Then a metric, its value and its threshold say more. */
static inline bool check_reason_has_detail(enum check_reason reason)
{
        return reason == CHECK_LEVEL || reason == CHECK_UNKNOWN || reason == CHECK_THRESHOLD;
}

/* What an ask gets while a metric is unknown. */
enum unknown_policy { UNKNOWN_OPEN, UNKNOWN_CLOSED, UNKNOWN_WAIT };
struct unknown_rule {
        enum unknown_policy policy;
        uint32_t wait_ms; /* UNKNOWN_WAIT: refused so long after it became unknown, then open */
};
/* "open", "closed", "wait:30s".  ERR_BADARG says what is allowed. */
int unknown_rule_parse(struct slice text, struct unknown_rule *ret,
                       struct problem *problem) MUST_CHECK;

enum check_share { SHARE_NONE, SHARE_HOLD, SHARE_RATIO, SHARE_EXEMPT };
struct check_rule {
        enum check_share share;
        double ratio; /* SHARE_RATIO: 0..1, the part of its asks that is refused */
};

struct check_value {
        double value, threshold;
        bool is_known;
        int64_t unknown_ms; /* for how long it has not been known */
};

struct check_case {
        enum gate_mode mode;
        enum tier tier;
        bool is_paused;         /* and its tier waits then */
        bool is_low;            /* a low priority ask, shortly after a refusal of a normal one */
        struct check_rule rule; /* enforced */
        struct check_rule observed;
        bool has_level; /* the level makes its tier wait */
        struct unknown_rule unknown;
        const struct check_value *values;
        size_t n_values;
        const double *roll; /* the dice as they lie for this ask; NULL: they are rolled */
};

struct check_verdict {
        bool is_granted;
        bool would_refuse; /* had everything been enforced */
        enum check_reason reason;
        enum check_reason would_reason; /* when would_refuse */
        bool is_over;                   /* a metric is above its threshold, whatever was decided */
        int value;                      /* the metric that decided, or the one nearest its
                                           threshold when granted; -1: none */
        double roll;                    /* how the dice fell, 0 to 1, where a ratio wants them */
};

struct check_verdict check_decide(const struct check_case *c, struct rng *rng);

#endif

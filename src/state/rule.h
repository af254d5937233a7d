/* A rule of the operator for those who ask: hold, ratio, exempt, metrics, threshold.
 *
 * It is called "<slot>:<who>" or "<slot>:<who>/<target>": a name has one rule per slot and target.
 * hold, ratio and exempt share the slot "share": setting one replaces another.  `who` is a part of
 * an identity, a whole identity, or "all"; neither it nor a target holds a '/'.
 *
 * One that only observes stands beside the enforced one, so in the log "/observe" follows its name,
 * and where there is no target "//observe".  Earlier versions left that out; such a rule is read as
 * what it is, by its mode.
 *
 * It ends by itself: its alarm is until_ns.  state->rules_version changes with every change. */
#ifndef WEIR_STATE_RULE_H
#define WEIR_STATE_RULE_H

#include "state/state.h"

/* Numbers are in the log. */
enum rule_kind { RULE_HOLD, RULE_RATIO, RULE_EXEMPT, RULE_METRICS, RULE_THRESHOLD, RULE_KINDS };
enum rule_flags { RULE_ENDS_ITSELF = 1 }; /* exempt: past its budget it ends */

#define RULE_RATIO_ONE 1000000U

/* Not in the log: the seconds of the last minutes in which an exemption let somebody through
 * although the target was over its threshold; checks/exempt.c keeps it. */
struct rule_budget {
        uint8_t over[75]; /* 600 bits, one a second */
        int64_t second;   /* steady, of the newest bit */
        bool is_told;
};

struct rule {
        struct thing thing;
        enum rule_kind kind;
        uint8_t mode; /* enum gate_mode: observe or enforce */
        uint8_t flags;
        uint32_t ratio_ppm;
        int64_t until_ns; /* 0: it does not end by itself */
        int64_t set_ms;
        struct slice slot, who, target;       /* in thing.name; target empty: every target */
        struct slice called;                  /* "share:etl/shop", the same in both modes */
        struct slice author, reason, address; /* in texts */
        struct slice list;                    /* "replication_lag,threads_running", or
                                                 "replication_lag=10,threads_running=50" */
        struct buf texts;
        struct rule_budget budget;
        /* Not in the log: checks/rule.c's index.  The first rule of a `who` is in its table, the
         * others hang behind it in any order. */
        struct hash_node by_who;
        struct rule *next_of_who;
};

static inline struct rule *rule_of(struct thing *t)
{
        return CONTAINER_OF(t, struct rule, thing);
}

const char *rule_kind_name(enum rule_kind kind); /* "ratio" */
const char *rule_slot(enum rule_kind kind);      /* "share", "metrics", "threshold" */

#define RULE_TRIAL "/observe" /* in the log behind the target of one that observes */

/* The values of a rule that is to be set; texts are borrowed. */
struct rule_values {
        enum rule_kind kind;
        uint8_t mode, flags;
        uint32_t ratio_ppm;
        int64_t until_ns, set_ms;
        struct slice author, reason, address, list;
};
void rule_put(const struct rule_values *v, struct buf *body);
void rule_values_of(const struct rule *r, struct rule_values *ret);

#endif

/* The check door's question and its answer, for whoever speaks a contract of its own.
 *
 * core_check() answers at once and changes nothing durable: its reply need not wait for the log. */
#ifndef WEIR_CHECKS_CHECK_H
#define WEIR_CHECKS_CHECK_H

#include "core/core.h"
#include "gate/check.h"

#define CHECK_TEXT 192
#define CHECK_RULE 544 /* the longest name of a rule and its NUL */
#define CHECK_WHO  256 /* the longest identity and its NUL */

struct check_ask {
        struct slice identity;
        struct slice target; /* empty: the first one */
        struct slice kind;   /* empty, or the kind the target must have ("mysql"), else NOTFOUND */
        int tier;            /* enum tier; -1: as the registry says of its parts, else normal */
        const struct slice *metrics; /* may be scoped as Vitess does, "self/lag"; none: by rule,  */
        size_t n_metrics;            /* else those the target is checked by                       */
        double threshold;            /* of the first metric, instead of its own; NAN or 0: none */
        uint32_t cost;               /* size of the step; 0 is 1 */
        bool is_contract;    /* freno's or Vitess's: the level of the target does not decide, no
                                credits */
        bool is_low;         /* p=low */
        bool is_read;        /* its refusal does not make low priority asks wait */
        bool is_rules_first; /* freno's order: the pause and the rules for every target refuse an
                                ask on a target that does not exist, too */
        struct slice address;
        bool is_authenticated;
};

struct check_metric {
        const char *name;   /* as weir calls it; valid until core_set_throttle */
        struct slice asked; /* as it was asked for, scope and all; else the name */
        struct check_value v;
        uint8_t number;    /* among those of its target */
        int64_t age_ms;    /* of its sample; -1: never sampled */
        const char *error; /* why it is unknown; "" when it is known */
};

struct check_answer {
        struct check_verdict verdict;
        enum tier tier;
        struct slice target;
        char rule[CHECK_RULE]; /* name of the rule that decided, or "" */
        /* Whom the hold, ratio or exemption names that applies, whatever it decided: a part of the
         * identity, the whole, or "all"; "" without such a rule. */
        char matched[CHECK_WHO];
        uint32_t wait_ms; /* when refused: ask again then; at most a minute */
        uint32_t credits, credit_ms;
        struct check_metric metrics[CHECK_METRICS_MAX];
        size_t n_metrics;
        /* By which it would have been refused, when a list of metrics or thresholds that only
         * observes were enforced; name NULL: it would not. */
        struct check_metric would;
};

/* ERR_BADARG: the identity; ERR_NOTFOUND: no such target or metric (the problem says which there
 * are).  Else OK, whatever the verdict; counted. */
int core_check(struct core *core, const struct check_ask *ask, struct check_answer *ret,
               struct problem *problem) MUST_CHECK;

/* What the contracts tell of the targets. */
struct check_target {
        const char *name, *kind;   /* "mysql" */
        struct check_metric first; /* the first metric it is checked by; name NULL: none */
        int64_t healthy_ms; /* Unix ms when it was last at or below its threshold; 0: never */
};
void core_each_check_target(struct core *core, void (*fn)(void *ctx, const struct check_target *t),
                            void *ctx);

/* Exemptions that are enforced, and their budget: the share of the last 10 minutes in which one may
 * let somebody through although the target is over its threshold. */
struct core_exemptions {
        uint64_t n, n_over; /* all, and those past their budget */
        double used;        /* of its budget, by the one that used most: 1 is all of it */
};
void core_exemptions(const struct core *core, struct core_exemptions *ret);

/* Names that a contract denies without a rule (freno's abusing-app), until the operator removes
 * them.  Durable. */
bool core_has_builtin(const struct core *core, const char *name);
int core_remove_builtin(struct core *core, const char *name, struct problem *problem) MUST_CHECK;

#endif

/* Rules in the core: set and removed by commands, found by those who check. */
#ifndef WEIR_CHECKS_RULE_H
#define WEIR_CHECKS_RULE_H

#include "api/limits.h"
#include "core/kernel.h"
#include "gate/check.h"
#include "gate/identity.h"
#include "state/rule.h"

#define RULE_FOR_DEFAULT_MS 3600000
#define RULE_MAX_DEFAULT_MS 604800000 /* where the configuration says nothing: 7 days */
#define RULE_TEXT_BYTES     400       /* what the history says of a change; longer texts are cut */
#define RULE_RATIO_TEXT     12        /* "0.123456" and its NUL */

struct rule_index;
struct rule_index *rule_index_new(void);
struct rule_index *rule_index_free(struct rule_index *i);

/* The rules that apply to this identity on this target.
 *
 * A hold comes before every other rule, and of several holds the most general one decides: an
 * emergency stop stops.  Without a hold the most specific name decides (the whole, then its parts
 * from specific to general, then "all"), and of one name the rule of the target before the one for
 * every target. */
struct rule_match {
        struct rule *share;     /* hold, ratio or exempt, enforced; NULL: none */
        struct rule *observed;  /* the one that only observes and would decide if all of those were
                                   enforced; NULL: none would */
        struct rule *threshold; /* enforced */
        /* Vitess's way: the lists of all its parts together, else that of "all". */
        const struct rule *metrics[IDENTITY_PARTS + 1];
        size_t n_metrics;
};
/* Rules that are past their end do not count, though their alarm has not rung yet. */
void rule_match(struct core *core, const struct identity *who, struct slice target,
                struct rule_match *ret);
/* The lists as they would be if those that only observe were enforced, and the first of these;
 * NULL: none would count. */
const struct rule *rule_match_trial(struct core *core, const struct identity *who,
                                    struct slice target, struct rule_match *ret);
/* The next "name" of a list "a,b" or "a=1,b=2": false at the end.  *ret_value is NAN without '='.
 */
bool rule_list_next(struct slice *rest, struct slice *ret_name, double *ret_value);

struct rule_set {
        struct slice who, target; /* target empty: every target */
        struct rule_values values;
        int64_t for_ms; /* 0: the default; -1: endless */
};
/* Checks everything (who, target, metrics, ratio, length against what the operator allows) and
 * sets it, with an entry in the history.  For commands and for the contracts of the check door. */
int rule_set(struct core *core, const struct rule_set *set, struct problem *problem) MUST_CHECK;
/* All of them, or none: at most RULE_SET_MAX, each with a name of its own. */
#define RULE_SET_MAX 2
int rule_set_all(struct core *core, const struct rule_set *sets, size_t n,
                 struct problem *problem) MUST_CHECK;
/* How long a rule may be set for, as the operator allows it. */
int64_t rule_max_ms(const struct core *core);
/* UTF-8 of at most `max` bytes without control characters; `what` names it in the refusal. */
int rule_check_text(const char *what, struct slice text, size_t max,
                    struct problem *problem) MUST_CHECK;
/* "0.5" to millionths; ERR_BADARG says what is allowed.  And back, without zeros at the end. */
int rule_ratio_parse(struct slice text, uint32_t *ret_ppm, struct problem *problem) MUST_CHECK;
const char *rule_ratio_text(uint32_t ppm, char *ret); /* ret holds RULE_RATIO_TEXT bytes */
/* The place of a rule: setting one replaces the one that is there.  One that observes and one that
 * is enforced have places of their own, so that trying one out switches off nothing. */
struct rule_place {
        struct slice slot, who, target;
        bool is_trial; /* of one that observes */
};
/* The rule of that place; NULL when there is none. */
struct rule *rule_find(const struct core *core, const struct rule_place *place);
/* Removes the rule of that place; false when there was none. */
bool rule_unset(struct core *core, const struct rule_place *place, struct slice author,
                struct slice address);
/* Ends it: past its budget. */
void rule_end(struct core *core, struct rule *rule, struct slice why);
/* In order of names; valid until the core runs on. */
void rule_each(struct core *core, void (*fn)(void *ctx, const struct rule *r), void *ctx);

#endif

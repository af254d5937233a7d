/* Rows of the command table for rules: included by command.c alone. */
#ifndef WEIR_API_ROWS_RULE_H
#define WEIR_API_ROWS_RULE_H

#include "checks/rule.h"
#include "state/rulelog.h"

#define RULE_WHO    "whom it is for: a part of an identity, a whole one as a:b, or all"
#define RULE_TARGET "holds for asks on this target alone"
#define RULE_AUTHOR "who is behind it, for people"
#define RULE_FOR    "milliseconds until it ends by itself; the configuration says how long is allowed"

/* clang-format off */
static const struct param_def ruleset_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, RULE_WHO},
        {"kind", PARAM_CHOICE, REQ, 0, 0, NULL,
         "hold|ratio|exempt|metrics|threshold: refuse it, refuse a share of its asks, let it "
         "through, check it by these metrics, or by these thresholds"},
        {"ratio", PARAM_TEXT, KEY, 1, 32, "none",
         "ratio: the share of its asks that is refused, 0 to 1, as 0.5"},
        {"metrics", PARAM_TEXT, KEY, 1, RULE_LIST_BYTES, "none",
         "metrics: names between commas; those of all parts of an identity count together"},
        {"threshold", PARAM_TEXT, KEY, 1, RULE_LIST_BYTES, "none",
         "threshold: metric=number between commas"},
        {"target", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "every target", RULE_TARGET},
        {"for", PARAM_INT, KEY | PARAM_EXCLUSIVE, 1, LIMIT_RULE_MS, "3600000", RULE_FOR},
        {"endless", PARAM_FLAG, KEY | PARAM_EXCLUSIVE, 0, 0, "no",
         "it does not end by itself; refused unless the configuration allows it"},
        {"mode", PARAM_CHOICE, KEY, 0, 0, "enforce",
         "observe|enforce: only tell what it would do, or do it"},
        {"author", PARAM_TEXT, KEY, 0, RULE_AUTHOR_BYTES, "the address of the peer, or local",
         RULE_AUTHOR},
        {"reason", PARAM_TEXT, KEY, 0, RULE_REASON_BYTES, "none", "why, for people"},
        {"selfending", PARAM_FLAG, KEY, 0, 0, "no",
         "exempt: it ends when it is past its budget, before its time"},
};
static const struct param_def ruleunset_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, RULE_WHO},
        {"kind", PARAM_CHOICE, QUERY, 0, 0, "all of them",
         "hold|ratio|exempt|metrics|threshold: only a rule of this kind"},
        {"mode", PARAM_CHOICE, QUERY, 0, 0, "both",
         "observe|enforce: only a rule that is tried out, or only one that decides"},
        {"target", PARAM_NAME, QUERY, 1, NAME_MAX_BYTES, "the rule for every target",
         "only the rule of this target"},
        {"author", PARAM_TEXT, QUERY, 0, RULE_AUTHOR_BYTES, "the address of the peer, or local",
         RULE_AUTHOR},
};
static const struct param_def rules_params[] = {
        {"match", PARAM_TEXT, QUERY, 1, NAME_MAX_BYTES, "any",
         "a text that slot:name/target holds"},
        {"limit", PARAM_INT, QUERY, 1, RULE_PAGE_MAX, "50", "at most this many rules"},
        {"cursor", PARAM_TEXT, QUERY, 0, RULE_NAME_BYTES, "the first rule",
         "where the last listing ended, from its answer"},
};
static const struct param_def rulehistory_params[] = {
        {"count", PARAM_INT, QUERY, 1, RULELOG_KEPT, "20", "at most this many entries"},
};
static const struct param_def prioritize_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL,
         "who comes first: a part of an identity, or a whole one"},
        {"ratio", PARAM_TEXT, KEY, 1, 32, "0.9",
         "the share of the asks of everybody else that is refused, 0 to 1"},
        {"target", PARAM_NAME, KEY, 1, NAME_MAX_BYTES, "every target", RULE_TARGET},
        {"for", PARAM_INT, KEY, 1, LIMIT_RULE_MS, "3600000", RULE_FOR},
        {"author", PARAM_TEXT, KEY, 0, RULE_AUTHOR_BYTES, "the address of the peer, or local",
         RULE_AUTHOR},
        {"reason", PARAM_TEXT, KEY, 0, RULE_REASON_BYTES, "none", "why, for people"},
};
static const struct param_def unprioritize_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL,
         "who came first: the name that PRIORITIZE was given"},
        {"target", PARAM_NAME, QUERY, 1, NAME_MAX_BYTES, "every target",
         "the target that PRIORITIZE was given"},
        {"author", PARAM_TEXT, QUERY, 0, RULE_AUTHOR_BYTES, "the address of the peer, or local",
         RULE_AUTHOR},
};

#define RULE_ROWS                                                                                  \
        ROW("RULESET", "rules", W, "POST", "/v1/rules/{name}",                                     \
            "Sets a rule for those who check: hold, ratio, exempt, metrics or threshold. hold, "   \
            "ratio and exempt replace each other; one that observes stands beside the enforced "   \
            "one, which goes on deciding. Of several that match a hold decides, the most general " \
            "first, else the most specific.",                                                      \
            "OK; with a warning when clients ask, but none by that name within the last day.",     \
            exec_ruleset, ruleset_params),                                                         \
        ROW("RULEUNSET", "rules", W, "DELETE", "/v1/rules/{name}",                                 \
            "Removes the rules of a name, or those of a kind or a mode.", "OK.", exec_ruleunset,   \
            ruleunset_params),                                                                     \
        ROW("RULES", "rules", 0, "GET", "/v1/rules", "Lists the rules that hold.",                 \
            "The rules by slot and name, left_ms until each ends (-1: it does not), and the "      \
            "cursor to go on with; an empty cursor is the end.",                                   \
            exec_rules, rules_params),                                                             \
        ROW("RULEHISTORY", "rules", 0, "GET", "/v1/rules/history",                                 \
            "Tells who set which rule when, and how each ended.", "The entries, newest first.",    \
            exec_rulehistory, rulehistory_params),                                                 \
        ROW("PRIORITIZE", "rules", W, "POST", "/v1/prioritize/{name}",                             \
            "Puts one before all others: they get a ratio, it gets none, both for the same time.", \
            "OK; with a warning when clients ask, but none by that name within the last day.",     \
            exec_prioritize, prioritize_params),                                                   \
        ROW("UNPRIORITIZE", "rules", W, "DELETE", "/v1/prioritize/{name}",                         \
            "Takes PRIORITIZE back: removes the rule of the name, and the ratio of all others "    \
            "unless another name comes first too.",                                                \
            "OK.", exec_unprioritize, unprioritize_params),
/* clang-format on */

#endif

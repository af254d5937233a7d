/* The commands of rules: RULESET, RULEUNSET, RULES, RULEHISTORY, PRIORITIZE, UNPRIORITIZE.
 *
 * What a rule may be is checked in rule.c, for every door alike; here is only what belongs to the
 * words of a command: which go together, what holds when they are left out, who is asking. */
#include <stdio.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/duration.h"
#include "base/shown.h"
#include "checks/client.h"
#include "checks/rule.h"
#include "core/page.h"
#include "state/rulelog.h"

#define PAGE_DEFAULT      50
#define HISTORY_DEFAULT   20
#define WARNING_BYTES     400
#define PRIORITIZE_OTHERS 900000 /* millionths: of ten asks of everybody else nine are refused */

enum { CHOICE_OBSERVE, CHOICE_ENFORCE, MODE_CHOICES }; /* of MODE */

/* OK; and a warning when no client uses the name: perhaps it is misspelt, and steers nothing. */
static void reply_set(const struct core *core, struct reply *reply, struct slice who)
{
        char warning[WARNING_BYTES];
        bool is_new = core->now.wall_ms - core->start_ms < MS_PER_DAY;
        if (slice_eq(who, SLICE_LIT("all")) || !client_is_unused(core, who)) {
                reply_ok(reply);
                return;
        }
        (void)snprintf(warning, sizeof(warning), "no client has asked as '%s' %s", SHOWN(who),
                       is_new ? "since weir started" : "within the last day");
        const struct rule_set_reply told = {.ok = true, .warning = warning};
        reply_rule_set(reply, &told);
}

/* ---- set ---- */

/* The list of the kind that has one, and no word that belongs to another kind. */
static int read_kind(const struct arg *arg, struct rule_values *v, struct problem *problem)
{
        static const struct {
                size_t param;
                enum rule_kind kind;
                const char *word;
        } words[] = {{P_RULESET_RATIO, RULE_RATIO, "ratio"},
                     {P_RULESET_METRICS, RULE_METRICS, "metrics"},
                     {P_RULESET_THRESHOLD, RULE_THRESHOLD, "threshold"}};
        v->kind = (enum rule_kind)arg[P_RULESET_KIND].num;
        for (size_t i = 0; i < ARRAY_LEN(words); i++) {
                bool is_wanted = v->kind == words[i].kind;
                if (is_wanted == arg[words[i].param].is_set)
                        continue;
                return problem_set(problem, ERR_BADARG,
                                   is_wanted ? "the kind %s needs %s" : "the kind %s takes no %s",
                                   rule_kind_name(v->kind), words[i].word);
        }
        if (v->kind == RULE_RATIO)
                return rule_ratio_parse(arg[P_RULESET_RATIO].text, &v->ratio_ppm, problem);
        if (v->kind == RULE_METRICS)
                v->list = arg[P_RULESET_METRICS].text;
        if (v->kind == RULE_THRESHOLD)
                v->list = arg[P_RULESET_THRESHOLD].text;
        return OK;
}

int exec_ruleset(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        const struct arg *arg = cmd->arg;
        struct rule_set set = {
                .who = arg[P_RULESET_NAME].text,
                .target = arg[P_RULESET_TARGET].text,
                .for_ms = arg[P_RULESET_ENDLESS].num ? -1 : arg[P_RULESET_FOR].num,
                .values = {.mode = MODE_ENFORCE,
                           .flags = arg[P_RULESET_SELFENDING].num ? RULE_ENDS_ITSELF : 0,
                           .author = arg[P_RULESET_AUTHOR].text,
                           .reason = arg[P_RULESET_REASON].text,
                           .address = slice_str(session->address)},
        };
        if (arg[P_RULESET_MODE].is_set && arg[P_RULESET_MODE].num == CHOICE_OBSERVE)
                set.values.mode = MODE_OBSERVE;
        int r = read_kind(arg, &set.values, problem);
        if (r == OK)
                r = rule_set(core, &set, problem);
        if (r == OK)
                reply_set(core, reply, set.who);
        return r;
}

int exec_prioritize(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        const struct arg *arg = cmd->arg;
        struct rule_set first = {
                .who = arg[P_PRIORITIZE_NAME].text,
                .target = arg[P_PRIORITIZE_TARGET].text,
                .for_ms = arg[P_PRIORITIZE_FOR].num,
                .values = {.kind = RULE_RATIO,
                           .mode = MODE_ENFORCE,
                           .author = arg[P_PRIORITIZE_AUTHOR].text,
                           .reason = arg[P_PRIORITIZE_REASON].text,
                           .address = slice_str(session->address)},
        };
        struct rule_set sets[RULE_SET_MAX] = {first, first};
        sets[0].who = SLICE_LIT("all");
        sets[0].values.ratio_ppm = PRIORITIZE_OTHERS;
        int r = OK;
        if (slice_eq(first.who, sets[0].who))
                r = problem_set(problem, ERR_BADARG,
                                "'all' is everybody: name the one that comes first");
        if (r == OK && arg[P_PRIORITIZE_RATIO].is_set)
                r = rule_ratio_parse(arg[P_PRIORITIZE_RATIO].text, &sets[0].values.ratio_ppm,
                                     problem);
        if (r == OK)
                r = rule_set_all(core, sets, ARRAY_LEN(sets), problem);
        if (r == OK)
                reply_set(core, reply, first.who);
        return r;
}

/* ---- unset ---- */

/* "'etl' has no observed threshold for the target shop" */
static int no_rule(const struct arg *arg, struct problem *problem)
{
        static const char *const modes[MODE_CHOICES] = {"observed ", "enforced "};
        const struct arg *kind = &arg[P_RULEUNSET_KIND], *mode = &arg[P_RULEUNSET_MODE];
        struct slice who = arg[P_RULEUNSET_NAME].text, target = arg[P_RULEUNSET_TARGET].text;
        return problem_set(problem, ERR_NOTFOUND,
                           "'%.*s' has no %s%s for %s%.*s; RULES lists what there is", (int)who.len,
                           who.ptr, mode->is_set ? modes[mode->num] : "",
                           kind->is_set ? rule_kind_name((enum rule_kind)kind->num) : "rule",
                           target.len ? "the target " : "every target", (int)target.len,
                           target.len ? target.ptr : "");
}

int exec_ruleunset(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        /* One kind of each slot. */
        static const enum rule_kind slots[] = {RULE_HOLD, RULE_METRICS, RULE_THRESHOLD};
        const struct arg *arg = cmd->arg, *kind = &arg[P_RULEUNSET_KIND],
                         *mode = &arg[P_RULEUNSET_MODE];
        size_t n = 0;
        int r = rule_check_text("author", arg[P_RULEUNSET_AUTHOR].text, RULE_AUTHOR_BYTES, problem);
        if (r != OK)
                return r;
        for (size_t i = 0; i < ARRAY_LEN(slots) * MODE_CHOICES; i++) {
                int64_t choice = i % MODE_CHOICES ? CHOICE_OBSERVE : CHOICE_ENFORCE;
                struct rule_place place = {slice_str(rule_slot(slots[i / MODE_CHOICES])),
                                           arg[P_RULEUNSET_NAME].text, arg[P_RULEUNSET_TARGET].text,
                                           choice == CHOICE_OBSERVE};
                const struct rule *rule = rule_find(core, &place);
                /* Who takes back a hold does not mean the exemption that has replaced it. */
                if (!rule || (kind->is_set && kind->num != (int64_t)rule->kind) ||
                    (mode->is_set && mode->num != choice))
                        continue;
                n += rule_unset(core, &place, arg[P_RULEUNSET_AUTHOR].text,
                                slice_str(session->address));
        }
        if (!n)
                return no_rule(arg, problem);
        reply_ok(reply);
        return OK;
}

/* ---- one comes first no more ---- */

static struct rule_place share_of(struct slice who, struct slice target)
{
        return (struct rule_place){slice_str(rule_slot(RULE_RATIO)), who, target, false};
}

/* A ratio of 0 refuses nobody: it is there because its name comes first. */
static bool comes_first(const struct rule *r)
{
        return r && r->kind == RULE_RATIO && r->ratio_ppm == 0 && r->mode == MODE_ENFORCE &&
               !slice_eq(r->who, SLICE_LIT("all"));
}

struct firsts {
        struct slice target;
        size_t n;
};

static void count_first(void *ctx, const struct rule *r)
{
        struct firsts *f = ctx;
        f->n += comes_first(r) && slice_eq(r->target, f->target);
}

int exec_unprioritize(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        const struct arg *arg = cmd->arg;
        struct slice author = arg[P_UNPRIORITIZE_AUTHOR].text,
                     address = slice_str(session->address);
        struct rule_place first =
                share_of(arg[P_UNPRIORITIZE_NAME].text, arg[P_UNPRIORITIZE_TARGET].text);
        struct rule_place others = share_of(SLICE_LIT("all"), first.target);
        struct firsts firsts = {.target = first.target};
        int r = rule_check_text("author", author, RULE_AUTHOR_BYTES, problem);
        if (r != OK)
                return r;
        if (!comes_first(rule_find(core, &first)))
                return problem_set(problem, ERR_NOTFOUND,
                                   "'%s' does not come first; RULES lists what there is",
                                   SHOWN(first.who));
        (void)rule_unset(core, &first, author, address);
        rule_each(core, count_first, &firsts);
        const struct rule *all = rule_find(core, &others);
        if (!firsts.n && all && all->kind == RULE_RATIO)
                (void)rule_unset(core, &others, author, address);
        reply_ok(reply);
        return OK;
}

/* ---- looking ---- */

static void tell_rule(const struct core *core, struct reply *reply, const struct rule *r)
{
        char ratio[RULE_RATIO_TEXT];
        int64_t left_ms = -1;
        if (r->until_ns)
                left_ms = r->until_ns > core->now.steady_ns
                                  ? (r->until_ns - core->now.steady_ns) / NS_PER_MS
                                  : 0;
        const struct rule_reply told = {
                .name = r->who,
                .kind = rule_kind_name(r->kind),
                .slot = r->slot,
                .target = r->target,
                .ratio = r->kind == RULE_RATIO ? rule_ratio_text(r->ratio_ppm, ratio) : NULL,
                .list = r->list,
                .mode = mode_name((enum gate_mode)r->mode),
                .author = r->author,
                .address = r->address,
                .reason = r->reason,
                .set_ms = r->set_ms,
                .left_ms = left_ms,
                .self_ending = r->flags & RULE_ENDS_ITSELF,
        };
        reply_rule(reply, &told);
}

static void tell_rules(struct reply *reply, const struct reply_items *items)
{
        const struct page *p = items->of;
        for (size_t i = 0; i < p->n; i++)
                tell_rule(items->core, reply, CONTAINER_OF(p->things[i], const struct rule, thing));
}

int exec_rules(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)problem;
        const struct arg *limit = &cmd->arg[P_RULES_LIMIT];
        const struct thing *things[RULE_PAGE_MAX];
        struct page p = {.things = things,
                         .max = limit->is_set ? (size_t)limit->num : PAGE_DEFAULT,
                         .match = cmd->arg[P_RULES_MATCH].text};
        page_fill(&p, &core->state, THING_RULE, cmd->arg[P_RULES_CURSOR].text);
        const struct rules_reply told = {
                .rules = {p.n, tell_rules, core, &p},
                .cursor = page_cursor(&p),
        };
        reply_rules(reply, &told);
        return OK;
}

static void tell_entries(struct reply *reply, const struct reply_items *items)
{
        for (size_t i = 0; i < items->n; i++) {
                const struct rulelog_entry *e = rulelog_peek(items->of, i);
                const struct rule_entry_reply told = {
                        .at_ms = e->at_ms,
                        .action = rulelog_action_name(e->action),
                        .rule = e->name,
                        .author = e->author,
                        .address = e->address,
                        .text = e->text,
                };
                reply_rule_entry(reply, &told);
        }
}

int exec_rulehistory(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)problem;
        const struct arg *count = &cmd->arg[P_RULEHISTORY_COUNT];
        size_t max = count->is_set ? (size_t)count->num : HISTORY_DEFAULT;
        const struct thing *t = thing_find(&core->state, THING_RULELOG, SLICE_LIT(RULELOG_NAME));
        const struct rulelog *l = t ? CONTAINER_OF(t, const struct rulelog, thing) : NULL;
        size_t n = l ? l->n : 0;
        if (n > max)
                n = max;
        const struct rule_history_reply told = {{n, tell_entries, core, l}};
        reply_rule_history(reply, &told);
        return OK;
}

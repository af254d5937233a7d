/* weir rule: what operators say about those who ask.
 *
 * The value of a rule is one word after its kind ("ratio 0.5", "threshold replication_lag=10"),
 * because that is how people say it; on the wire each kind has a keyword of its own.  A kind and
 * its value are looked at here, since the help for a missing one is an example; everything else
 * the server knows better. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/shown.h"
#include "cli/listing.h"
#include "cli/text.h"

/* Kinds of rules.  Those of one slot replace each other; without a keyword it takes no value. */
static const struct kind {
        const char *name, *slot, *keyword, *example;
} kinds[] = {
        {"hold", "share", NULL, NULL},
        {"ratio", "share", "RATIO", "ratio 0.5"},
        {"exempt", "share", NULL, NULL},
        {"metrics", "metrics", "METRICS", "metrics replication_lag,threads_running"},
        {"threshold", "threshold", "THRESHOLD", "threshold replication_lag=10"},
};

/* ---- what the changes share ---- */

static const struct kind *kind_find(const char *name, struct problem *p)
{
        const char *names[ARRAY_LEN(kinds) + 1] = {NULL};
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                if (strcmp(kinds[i].name, name) == 0)
                        return &kinds[i];
                names[i] = kinds[i].name;
        }
        const char *near = nearest_name(name, names);
        if (near)
                (void)problem_set(p, ERR_BADARG, "there is no kind '%s'; did you mean '%s'?",
                                  SHOWN_STR(name), near);
        else
                (void)problem_set(p, ERR_BADARG,
                                  "there is no kind '%s': hold, ratio, exempt, metrics or "
                                  "threshold",
                                  SHOWN_STR(name));
        return NULL;
}

/* Who says so, without --author: the user at the keyboard. */
static void add_user(struct cli_request *req, const struct args *args)
{
        const char *user = getenv("USER"), *login = getenv("LOGNAME");
        const char *name = user && *user ? user : login;
        if (args_has(args, "author") || !name || !*name)
                return;
        cli_request_add_str(req, "AUTHOR");
        cli_request_add_str(req, name);
}

/* A flag of the command line that is a word of MODE. */
static void add_mode(struct cli_request *req, const struct args *args, const char *mode)
{
        if (!args_has(args, mode))
                return;
        cli_request_add_str(req, "MODE");
        cli_request_add_str(req, mode);
}

/* ---- rules as they are shown ---- */

/* What stands after its kind; empty for a hold. */
static struct slice value_of(const struct value *rule)
{
        struct slice ratio = field_text(rule, "ratio");
        return ratio.len ? ratio : field_text(rule, "list");
}

static bool is_observed(const struct value *rule)
{
        return field_is(rule, "mode", "observe");
}

static void put_left(struct buf *b, const struct value *rule, int64_t now_ms)
{
        int64_t left_ms = field_int(rule, "left_ms");
        (void)now_ms;
        if (left_ms < 0)
                buf_put_str(b, "endless");
        else
                duration_put_left(b, left_ms);
}

static void put_value(struct buf *b, const struct value *rule, int64_t now_ms)
{
        (void)now_ms;
        buf_put_slice(b, value_of(rule));
}

static void put_target(struct buf *b, const struct value *rule, int64_t now_ms)
{
        struct slice target = field_text(rule, "target");
        (void)now_ms;
        buf_put_slice(b, target.len ? target : SLICE_LIT("every"));
}

static enum tone tone_of(const struct value *rule)
{
        return is_observed(rule) ? TONE_DIM : TONE_PLAIN;
}

static const struct column columns[] = {
        {"NAME", .key = "name", .tone_of = tone_of, .may_shrink = true},
        {"KIND", .key = "kind", .tone_of = tone_of},
        {"VALUE", .put = put_value, .tone_of = tone_of, .may_shrink = true},
        {"TARGET", .put = put_target, .tone_of = tone_of, .may_shrink = true},
        {"MODE", .key = "mode", .tone_of = tone_of},
        {"LEFT", .put = put_left, .tone_of = tone_of, .is_right = true},
        {"AUTHOR", .key = "author", .tone_of = tone_of, .may_shrink = true},
        {"REASON", .key = "reason", .tone_of = tone_of, .may_shrink = true},
};

static const struct listing rules = {
        .key = "rules",
        .empty = "no rules: 'weir rule set' makes one\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

/* "daily-etl ratio 0.5 on shop until 2026-11-15 10:30:00 +0100 (30 min left)" */
static void put_rule(struct buf *b, const struct value *v)
{
        struct slice value = value_of(v), target = field_text(v, "target");
        int64_t left_ms = field_int(v, "left_ms");
        text_put_safe(b, field_text(v, "name"));
        buf_put_byte(b, ' ');
        text_put_safe(b, field_text(v, "kind"));
        buf_put_str(b, value.len ? " " : "");
        text_put_safe(b, value);
        buf_put_str(b, target.len ? " on " : "");
        text_put_safe(b, target);
        if (left_ms < 0) {
                buf_put_str(b, " until it is unset");
        } else {
                buf_put_str(b, " until ");
                moment_put(b, clock_wall_ms() + left_ms);
                buf_put_str(b, " (");
                put_left(b, v, 0);
                buf_put_str(b, " left)");
        }
        buf_put_str(b, is_observed(v) ? ", only observed\n" : "\n");
}

/* The rule of that name in that slot, for the target that was given; NULL when it is not found:
 * somebody may have unset it, or a thousand others are called nearly so. */
static const struct value *rule_find(struct cli *cli, const char *slot, const char *name,
                                     bool is_trial)
{
        struct cli_request req;
        const struct value *v;
        struct problem unseen; /* it is set: not being able to show it is no failure */
        const char *target = args_get(&cli->args, "target");
        struct buf match CLEANUP(buf_release) = {0};
        buf_printf(&match, "%s:%s", slot, name);
        cli_request_init(&req, "RULES");
        cli_request_add_str(&req, "MATCH");
        cli_request_add(&req, buf_slice(&match));
        cli_request_add_str(&req, "LIMIT");
        cli_request_add_int(&req, 1000);
        if (cli_request_call(cli, &req, &v, &unseen) != OK)
                return NULL;
        const struct value *found = value_get(v, "rules");
        for (size_t i = 0; found && i < found->n; i++) {
                const struct value *rule = &found->items[i];
                if (slice_eq(field_text(rule, "name"), slice_str(name)) &&
                    slice_eq(field_text(rule, "slot"), slice_str(slot)) &&
                    is_observed(rule) == is_trial &&
                    slice_eq(field_text(rule, "target"), slice_str(target ? target : "")))
                        return rule;
        }
        return NULL;
}

static void say_set(struct cli *cli, const char *slot, const char *name, bool is_trial)
{
        const struct value *rule = rule_find(cli, slot, name, is_trial);
        if (!rule) {
                buf_put_str(&cli->out, "set rule ");
                text_put_safe(&cli->out, slice_str(name));
                buf_put_byte(&cli->out, '\n');
                return;
        }
        buf_put_str(&cli->out, "set rule ");
        put_rule(&cli->out, rule);
}

/* Sends what answers OK, perhaps with a warning; programs get the answer, people the warning. */
static int send_request(struct cli *cli, const struct cli_request *req, struct problem *p)
{
        const struct value *v;
        int r = cli_request_call(cli, req, &v, p);
        if (r == OK && cli->is_json) {
                cli_put_json(cli, v);
        } else if (r == OK && field_text(v, "warning").len) {
                buf_put_str(&cli->notes, "weir: ");
                text_put_safe(&cli->notes, field_text(v, "warning"));
                buf_put_byte(&cli->notes, '\n');
        }
        return r;
}

/* ---- set ---- */

static int add_value(struct cli_request *req, const struct kind *kind, const struct args *args,
                     struct problem *p)
{
        bool has_value = args->n_positional > 2;
        if (kind->keyword && !has_value)
                return problem_set(p, ERR_SYNTAX, "%s of what? weir rule set %s %s", kind->name,
                                   SHOWN_STR(args->positional[0]), kind->example);
        if (!kind->keyword && has_value)
                return problem_set(p, ERR_SYNTAX, "%s takes no value: unexpected argument '%s'",
                                   kind->name, SHOWN_STR(args->positional[2]));
        if (kind->keyword) {
                cli_request_add_str(req, kind->keyword);
                cli_request_add_str(req, args->positional[2]);
        }
        return OK;
}

static int rule_set(struct cli *cli, struct problem *p)
{
        const struct args *args = &cli->args;
        const struct kind *kind = kind_find(args->positional[1], p);
        struct cli_request req;
        if (!kind)
                return p->err;
        if (args_has(args, "for") && args_has(args, "endless"))
                return problem_set(p, ERR_BADARG, "--for and --endless exclude each other");
        cli_request_init(&req, "RULESET");
        cli_request_add_str(&req, args->positional[0]);
        cli_request_add_str(&req, kind->name);
        int r = add_value(&req, kind, args, p);
        if (r == OK)
                r = cli_request_add_params(&req, cli, p);
        if (r != OK)
                return r;
        add_user(&req, args);
        add_mode(&req, args, "observe");
        r = send_request(cli, &req, p);
        if (r == OK && !cli->is_json)
                say_set(cli, kind->slot, args->positional[0], args_has(args, "observe"));
        return r;
}

/* ---- unset, prioritize, history ---- */

static int rule_unset(struct cli *cli, struct problem *p)
{
        const char *kind = args_get(&cli->args, "kind");
        struct cli_request req;
        if (kind && !kind_find(kind, p))
                return p->err;
        if (args_has(&cli->args, "observe") && args_has(&cli->args, "enforce"))
                return problem_set(p, ERR_BADARG, "--observe and --enforce exclude each other");
        int r = cli_request_of_row(&req, cli, p);
        if (r != OK)
                return r;
        add_mode(&req, &cli->args, "observe");
        add_mode(&req, &cli->args, "enforce");
        add_user(&req, &cli->args);
        return cli_change(cli, &req, "unset rule", p);
}

static int rule_prioritize(struct cli *cli, struct problem *p)
{
        const struct args *args = &cli->args;
        struct cli_request req;
        int r = cli_request_of_row(&req, cli, p);
        if (r != OK)
                return r;
        add_user(&req, args);
        r = send_request(cli, &req, p);
        if (r != OK || cli->is_json)
                return r;
        say_set(cli, "share", args->positional[0], false);
        say_set(cli, "share", "all", false);
        return OK;
}

static int rule_unprioritize(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        int r = cli_request_of_row(&req, cli, p);
        if (r != OK)
                return r;
        add_user(&req, &cli->args);
        r = send_request(cli, &req, p);
        if (r != OK || cli->is_json)
                return r;
        text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        buf_put_str(&cli->out, " does not come first any more\n");
        return OK;
}

static const struct column history_columns[] = {
        {"TIME", .key = "at_ms", .as = AS_MOMENT, .tone = TONE_DIM},
        {"ACTION", .key = "action"},
        {"RULE", .key = "rule", .may_shrink = true},
        {"AUTHOR", .key = "author", .may_shrink = true},
        {"FROM", .key = "address", .may_shrink = true},
        {"WHAT", .key = "text", .may_shrink = true},
};

static const struct listing history = {
        .empty = "no rule was ever set\n",
        .columns = history_columns,
        .n_columns = ARRAY_LEN(history_columns),
};

/* ---- rows ---- */

/* clang-format off */
#define AUTHOR_OPTION {"author", "NAME", "who is behind it, for people ($USER)"}
/* clang-format on */

static const struct option_def set_options[] = {
        {"observe", NULL, "only count and tell what it would do, beside the one that holds"},
        AUTHOR_OPTION,
        {NULL, NULL, NULL},
};

static const struct option_def unset_options[] = {
        {"observe", NULL, "only what is tried out; what holds goes on"},
        {"enforce", NULL, "only what holds"},
        AUTHOR_OPTION,
        {NULL, NULL, NULL},
};

static const struct option_def author_options[] = {AUTHOR_OPTION, {NULL, NULL, NULL}};

static const struct cli_command commands[] = {
        {"list", "", "List the rules that hold, with the time left.",
         "  weir rule list\n"
         "  weir rule list --match etl --json | jq -r '.rules[].name'\n",
         .command = "RULES", .listing = &rules},
        {"set", "NAME KIND [VALUE]", "Set a rule for whoever asks under a name.",
         "NAME is a part of an identity, a whole one, or all. KIND is one of\n\n"
         "  hold              refuse every ask\n"
         "  ratio X           refuse this share of the asks, 0 to 1\n"
         "  exempt            let it through, whatever the metrics say\n"
         "  metrics A,B       check it by these metrics\n"
         "  threshold A=X     check it against these thresholds\n\n"
         "The first three replace each other. A hold beats every other rule that matches,\n"
         "the most general one first; of the others the most specific name decides. With\n"
         "--observe it replaces nothing that holds: it is tried out beside it.\n\n"
         "  weir rule set daily-etl ratio 0.5 --for 30m --reason \"the replica is "
         "behind\"\n"
         "  weir rule set purge hold --for 1h\n"
         "  weir rule set etl threshold replication_lag=10 --target shop\n",
         .options = set_options, .command = "RULESET", .apart = "ratio metrics threshold mode",
         .run = rule_set},
        {"unset", "NAME", "Take back the rules of a name.",
         "  weir rule unset daily-etl\n"
         "  weir rule unset etl --kind threshold --target shop\n"
         "  weir rule unset etl --observe\n",
         .options = unset_options, .command = "RULEUNSET", .apart = "mode", .run = rule_unset},
        {"prioritize", "NAME", "Put one before all others: they get a ratio, it gets none.",
         "Both rules end at the same time; 'weir rule unprioritize NAME' ends them "
         "before.\n\n"
         "  weir rule prioritize checkout-fix --ratio 0.9 --for 1h\n",
         .options = author_options, .command = "PRIORITIZE", .run = rule_prioritize},
        {"unprioritize", "NAME", "Take prioritize back, both of its rules.",
         "The ratio of all others stays while another name comes first.\n\n"
         "  weir rule unprioritize checkout-fix\n",
         .options = author_options, .command = "UNPRIORITIZE", .run = rule_unprioritize},
        {"history", "[N]", "Tell who set which rule when, and how it ended (20).",
         "The last 500 changes are kept, over restarts too.\n\n"
         "  weir rule history 100\n",
         .command = "RULEHISTORY", .apart = "count", .word = "COUNT", .listing = &history},
};

const struct cli_group cli_group_rule = {"rule", "Steer those who ask: hold, ratio, exempt.",
                                         commands, ARRAY_LEN(commands)};

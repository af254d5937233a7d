/* weir limit: rate limits. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "cli/listing.h"
#include "cli/text.h"

/* One TAKE waits no longer than this, well within the time a reply may take; more are sent. */
#define TAKE_WAIT_MS 20000
#define WAIT_MAX_MS  86400000

static const struct column columns[] = {
        {"LIMIT", false, true}, {"KIND", false, false}, {"RULE", false, false},
        {"USED", true, false},  {"LEFT", true, false},  {"WAITING", true, false},
        {"NEXT", true, false},  {"RESET", true, false},
};

static void put_when(struct buf *b, int64_t ms)
{
        if (ms)
                duration_put_left(b, ms);
        else
                buf_put_str(b, "now");
}

static void add_when(struct table *t, int64_t ms)
{
        struct buf text CLEANUP(buf_release) = {0};
        put_when(&text, ms);
        table_add(t, buf_slice(&text), TONE_PLAIN);
}

static void put_rule(struct buf *b, const struct value *l)
{
        int64_t amount = field_int(l, "amount"), burst = field_int(l, "burst");
        buf_printf(b, "%lld per ", (long long)amount);
        duration_put(b, field_int(l, "period_ms"));
        if (burst && burst != amount)
                buf_printf(b, ", burst %lld", (long long)burst);
}

static void list_row(struct table *t, const struct value *l, int64_t now_ms)
{
        int64_t left = field_int(l, "left");
        struct buf rule CLEANUP(buf_release) = {0};
        (void)now_ms;
        put_rule(&rule, l);
        table_add(t, field_text(l, "name"), TONE_PLAIN);
        table_add(t, field_text(l, "kind"), TONE_PLAIN);
        table_add(t, buf_slice(&rule), TONE_PLAIN);
        table_add_int(t, field_int(l, "used"));
        table_add_int(t, left);
        table_add_int(t, field_int(l, "waiting_jobs") + field_int(l, "waiting_clients"));
        add_when(t, field_int(l, "retry_ms"));
        add_when(t, field_int(l, "reset_ms"));
}

static const struct listing listing = {
        .command = "LIMITS",
        .empty = "no rate limits: 'weir limit set' makes one\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
};

static int limit_list(struct cli *cli, struct problem *p)
{
        return listing_run(cli, &listing, p);
}

static void show_limit(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        bool is_passing = field_is_true(v, "passing");
        buf_put_str(b, "limit    ");
        text_put_safe(b, field_text(v, "name"));
        buf_put_str(b, is_passing ? "  (made by a take, forgotten when idle)\nrule     "
                                  : "\nrule     ");
        put_rule(b, v);
        buf_put_str(b, ", ");
        text_put_safe(b, field_text(v, "kind"));
        uint64_t jobs = (uint64_t)field_int(v, "waiting_jobs");
        uint64_t clients = (uint64_t)field_int(v, "waiting_clients");
        buf_printf(b, "\nused     %lld\nleft     %lld\nwaiting  %llu %s, %llu %s\nnext     ",
                   (long long)field_int(v, "used"), (long long)field_int(v, "left"),
                   (unsigned long long)jobs, plural(jobs, "job", "jobs"),
                   (unsigned long long)clients, plural(clients, "client", "clients"));
        put_when(b, field_int(v, "retry_ms"));
        buf_put_str(b, "\nreset    ");
        put_when(b, field_int(v, "reset_ms"));
        buf_put_byte(b, '\n');
}

static int limit_show(struct cli *cli, struct problem *p)
{
        return cli_show_named(cli, "USAGE", show_limit, p);
}

static int limit_set(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        int64_t period_ms = 0;
        int r = duration_parse("PERIOD", cli->args.positional[2], &period_ms, p);
        if (r != OK)
                return r;
        cli_request_init_named(&req, cli, "LIMIT");
        cli_request_add_str(&req, cli->args.positional[1]);
        cli_request_add_int(&req, period_ms);
        cli_request_add_option(&req, &cli->args, "kind", "KIND");
        cli_request_add_option(&req, &cli->args, "burst", "BURST");
        return cli_change(cli, &req, "set limit", p);
}

static int limit_reset(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "RESETLIMIT", "reset limit", p);
}

static int limit_remove(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "UNLIMIT", "removed limit", p);
}

/* ---- take ---- */

struct taken {
        int64_t granted, left, retry_ms;
};

static int take_once(struct cli *cli, int64_t wait_ms, int64_t per_ms, struct taken *ret,
                     struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init_named(&req, cli, "TAKE");
        cli_request_add_option(&req, &cli->args, "cost", "COST");
        cli_request_add_option(&req, &cli->args, "amount", "AMOUNT");
        cli_request_add_option(&req, &cli->args, "kind", "KIND");
        cli_request_add_option(&req, &cli->args, "burst", "BURST");
        if (per_ms) {
                cli_request_add_str(&req, "PERIOD");
                cli_request_add_int(&req, per_ms);
        }
        cli_request_add_str(&req, "WAIT");
        cli_request_add_int(&req, wait_ms < TAKE_WAIT_MS ? wait_ms : TAKE_WAIT_MS);
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (v->type != VALUE_LIST || v->n < 3)
                return problem_set(p, ERR_SYNTAX, "what answers on %s is no weir", cli->url.text);
        *ret = (struct taken){value_int(&v->items[0], 0), value_int(&v->items[1], 0),
                              value_int(&v->items[2], 0)};
        return OK;
}

static int limit_take(struct cli *cli, struct problem *p)
{
        const char *wait = args_get(&cli->args, "wait"), *per = args_get(&cli->args, "per");
        int64_t wait_ms = 0, per_ms = 0;
        char text[DURATION_TEXT_MAX];
        struct taken taken = {0};
        int r = wait ? duration_parse("--wait", wait, &wait_ms, p) : OK;
        if (r == OK && per)
                r = duration_parse("--per", per, &per_ms, p);
        if (r == OK && wait_ms > WAIT_MAX_MS)
                r = problem_set(p, ERR_BADARG, "--wait: at most 1d");
        int64_t until_ns = clock_boot_ns() + wait_ms * NS_PER_MS;
        do {
                if (r == OK)
                        r = take_once(cli, wait_ms, per_ms, &taken, p);
                if (r != OK)
                        return r;
                wait_ms = (until_ns - clock_boot_ns()) / NS_PER_MS;
        } while (!taken.granted && wait_ms > 0);
        if (cli->is_json) {
                buf_printf(&cli->out, "{\"granted\":%lld,\"left\":%lld,\"retry_ms\":%lld}\n",
                           (long long)taken.granted, (long long)taken.left,
                           (long long)taken.retry_ms);
                cli->exit_code = taken.granted ? 0 : err_exit(ERR_LIMIT);
                return OK;
        }
        if (!taken.granted)
                return problem_set(p, ERR_LIMIT, "not granted: %lld left, try again in %s",
                                   (long long)taken.left,
                                   duration_words_left(taken.retry_ms, text));
        buf_printf(&cli->out, "granted, %lld left\n", (long long)taken.left);
        return OK;
}

static const struct option_def set_options[] = {
        {"kind", "KIND", "window: never over in any period; tokens: fills evenly (window)"},
        {"burst", "N", "tokens: how many may be taken at one moment (the amount)"},
        {NULL, NULL, NULL},
};

static const struct option_def take_options[] = {
        {"cost", "N", "how many to take (1)"},
        {"wait", "TIME", "wait in line up to this long, such as 5s (not at all)"},
        {"amount", "N", "make the limit when there is none: so many in each --per"},
        {"per", "TIME", "its period, such as 1m"},
        {"kind", "KIND", "window or tokens (window)"},
        {"burst", "N", "tokens: how many may be taken at one moment (the amount)"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"list", "", "List rate limits with their usage.",
         "NEXT is when one more can be taken, RESET when nothing counts any more.\n", NULL, 0, 0,
         false, limit_list},
        {"show", "NAME", "Show one rate limit.", NULL, NULL, 1, 1, false, limit_show},
        {"set", "NAME AMOUNT PERIOD", "Make or change a rate limit; what was taken still counts.",
         "queue:NAME and hook:NAME hold for all starts of a queue or hook:\n\n"
         "  weir limit set queue:mail 100 1m\n",
         set_options, 3, 3, false, limit_set},
        {"take", "NAME", "Take from a rate limit; exits with 6 when it is not granted.",
         "  weir limit take api --wait 5s && curl https://api.example.com/\n", take_options, 1, 1,
         false, limit_take},
        {"reset", "NAME", "Forget what was taken.", NULL, NULL, 1, 1, false, limit_reset},
        {"remove", "NAME", "Remove a rate limit.", NULL, NULL, 1, 1, false, limit_remove},
};

const struct cli_group cli_group_limit = {"limit", "Show, set and take from rate limits.", commands,
                                          ARRAY_LEN(commands)};

/* weir limit: rate limits. */
#include "base/clock.h"
#include "base/plural.h"
#include "cli/listing.h"
#include "cli/text.h"

/* One TAKE waits no longer than this, well within the time a reply may take; more are sent. */
#define TAKE_WAIT_MS 20000
#define WAIT_MAX_MS  86400000

static void put_when(struct buf *b, int64_t ms)
{
        if (ms)
                duration_put_left(b, ms);
        else
                buf_put_str(b, "now");
}

static void put_rule(struct buf *b, const struct value *l, int64_t now_ms)
{
        int64_t amount = field_int(l, "amount"), burst = field_int(l, "burst");
        (void)now_ms;
        buf_printf(b, "%lld per ", (long long)amount);
        duration_put(b, field_int(l, "period_ms"));
        if (burst && burst != amount)
                buf_printf(b, ", burst %lld", (long long)burst);
}

static void put_waiting(struct buf *b, const struct value *l, int64_t now_ms)
{
        (void)now_ms;
        buf_put_i64(b, field_int(l, "waiting_jobs") + field_int(l, "waiting_clients"));
}

static const struct column columns[] = {
        {"LIMIT", .key = "name", .may_shrink = true},
        {"KIND", .key = "kind"},
        {"RULE", .put = put_rule},
        {"USED", .key = "used", .as = AS_INT},
        {"LEFT", .key = "left", .as = AS_INT},
        {"WAITING", .put = put_waiting, .is_right = true},
        {"NEXT", .key = "retry_ms", .as = AS_WAIT},
        {"RESET", .key = "reset_ms", .as = AS_WAIT},
};

static const struct listing listing = {
        .empty = "no rate limits: 'weir limit set' makes one\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

static void show_limit(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        bool is_passing = field_is_true(v, "passing");
        buf_put_str(b, "limit    ");
        text_put_safe(b, field_text(v, "name"));
        buf_put_str(b, is_passing ? "  (made by a take, forgotten when idle)\nrule     "
                                  : "\nrule     ");
        put_rule(b, v, 0);
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

/* ---- take ---- */

struct taken {
        int64_t granted, left, retry_ms;
};

static int take_once(struct cli *cli, int64_t wait_ms, int64_t per_ms, struct taken *ret,
                     struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        int r = cli_request_of_row(&req, cli, p);
        if (r != OK)
                return r;
        if (per_ms) {
                cli_request_add_str(&req, "PERIOD");
                cli_request_add_int(&req, per_ms);
        }
        cli_request_add_str(&req, "WAIT");
        cli_request_add_int(&req, wait_ms < TAKE_WAIT_MS ? wait_ms : TAKE_WAIT_MS);
        r = cli_request_call(cli, &req, &v, p);
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

static const struct option_def take_options[] = {
        {"wait", "DURATION", "wait in line up to this long, such as 5s (not at all)"},
        {"per", "DURATION", "its period, such as 1m; goes with --amount"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"list", "", "List rate limits with their usage.",
         "NEXT is when one more can be taken, RESET when nothing counts any more.\n",
         .command = "LIMITS", .listing = &listing},
        {"show", "NAME", "Show one rate limit.", NULL, .command = "USAGE", .show = show_limit},
        {"set", "NAME AMOUNT PERIOD", "Make or change a rate limit; what was taken still counts.",
         "queue:NAME and hook:NAME hold for all starts of a queue or hook:\n\n"
         "  weir limit set queue:mail 100 1m\n",
         .command = "LIMIT", .done = "set limit"},
        {"take", "NAME", "Take from a rate limit; exits with 6 when it is not granted.",
         "  weir limit take api --wait 5s && curl https://api.example.com/\n",
         .options = take_options, .command = "TAKE", .apart = "wait period", .run = limit_take},
        {"reset", "NAME", "Forget what was taken.", NULL, .command = "RESETLIMIT",
         .done = "reset limit"},
        {"remove", "NAME", "Remove a rate limit.", NULL, .command = "UNLIMIT",
         .done = "removed limit"},
};

const struct cli_group cli_group_limit = {"limit", "Show, set and take from rate limits.", commands,
                                          ARRAY_LEN(commands)};

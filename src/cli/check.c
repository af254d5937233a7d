/* weir check: ask before a step of heavy work, from a shell or in front of a command.
 *
 * The exit code is the answer: 0 go, 1 not now; so `while weir check purge:shop --wait 60s` is a
 * loop that keeps its distance from a struggling database.  With --wait the ask is parked on the
 * server, which answers the moment it may go; one ask is parked for ASK_WAIT_MS at most and then
 * asked again, so that a server that hangs is noticed.
 *
 * When weir is away, the caller's options decide.  The work either stops (closed: the database is
 * worth more), goes on (open: the work is worth more), or tries for a while and then goes on
 * (--fail-after).  Wrong tokens, names and options are never "away": they fail at once in every
 * mode, so that they are noticed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shown.h"
#include "cli/listing.h"
#include "cli/text.h"
#include "cli/verdict.h"

#define ASK_WAIT_MS   60000
#define ASK_REPLY_MS  5000 /* a check waits for no disk: silence for so long is being away */
#define METRICS_MAX   32   /* as the server has it */
#define RETRY_MIN_MS  100
#define RETRY_MAX_MS  1000
#define EXIT_REFUSED  1
#define EXIT_TEMPFAIL 75 /* sysexits.h: try later; 1 would look like the command's own failure */

struct ask_ctx {
        int64_t until_ns;      /* --wait: until then a refusal is not taken; INT64_MAX: for ever */
        bool is_open;          /* --fail open */
        int64_t fail_after_ms; /* --fail-after; -1: not given */
        int64_t away_ns;       /* since when weir has been away; 0: it is not */
        int64_t retry_ms;      /* pause before the next try while it is away */
};

/* ---- options ---- */

static int read_wait(const struct args *args, struct ask_ctx *ret, struct problem *p)
{
        const char *wait = args_get(args, "wait");
        int64_t now_ns = clock_boot_ns(), ms = 0;
        if (wait && strcmp(wait, "forever") == 0) {
                ret->until_ns = INT64_MAX;
                return OK;
        }
        int r = wait ? duration_parse("--wait", wait, &ms, p) : OK;
        ret->until_ns = ms < (INT64_MAX - now_ns) / NS_PER_MS ? now_ns + ms * NS_PER_MS : INT64_MAX;
        return r;
}

static int read_fail(const struct args *args, struct ask_ctx *ret, struct problem *p)
{
        const char *fail = args_get(args, "fail"), *after = args_get(args, "fail-after");
        ret->is_open = fail && strcmp(fail, "open") == 0;
        ret->fail_after_ms = -1;
        if (fail && !ret->is_open && strcmp(fail, "closed") != 0)
                return problem_set(p, ERR_BADARG, "--fail: open or closed, not '%s'",
                                   SHOWN_MAX(slice_str(fail), 40));
        if (fail && !ret->is_open && after)
                return problem_set(p, ERR_BADARG,
                                   "--fail-after goes on in the end: it excludes --fail closed");
        return after ? duration_parse("--fail-after", after, &ret->fail_after_ms, p) : OK;
}

static int add_metrics(struct cli_request *req, const struct args *args, struct problem *p)
{
        size_t at = 0, n = 0;
        for (const char *m = args_next(args, "metric", &at); m;
             m = args_next(args, "metric", &at)) {
                if (n == METRICS_MAX)
                        return problem_set(p, ERR_TOOBIG, "--metric: at most %d of them",
                                           METRICS_MAX);
                if (n++ == 0)
                        cli_request_add_str(req, "METRICS");
                cli_request_add_str(req, m);
        }
        return OK;
}

/* ---- asking ---- */

static int64_t left_ms(const struct ask_ctx *a)
{
        int64_t left_ns = a->until_ns - clock_boot_ns();
        return left_ns > 0 ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
}

static int ask(struct cli *cli, int64_t wait_ms, const struct value **ret, struct problem *p)
{
        const struct args *args = &cli->args;
        struct cli_request req;
        cli_request_init(&req, "CHECK");
        cli_request_add_str(&req, args->positional[0]);
        cli_request_add_option(&req, args, "target", "TARGET");
        cli_request_add_option(&req, args, "priority", "PRIORITY");
        cli_request_add_option(&req, args, "cost", "COST");
        cli_request_add_str(&req, "WAIT");
        cli_request_add_int(&req, wait_ms);
        int r = add_metrics(&req, args, p);
        if (r == OK && cli->client.fd < 0)
                r = client_connect(&cli->client, p);
        if (r == OK)
                r = client_call_within(&cli->client, req.argv, req.argc, wait_ms + ASK_REPLY_MS,
                                       ret, p);
        return r;
}

static bool is_away(int err)
{
        return err == ERR_UNAVAIL || err == ERR_TIMEOUT || err == ERR_IO || err == ERR_STOPPING;
}

static void pause_for(int64_t ms)
{
        struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};
        (void)nanosleep(&t, NULL); /* cut short by a signal: then the next try is earlier */
}

/* Weir is away: true, after a pause, when it is time for another try; false when time is over. */
static bool try_again(const struct cli *cli, struct ask_ctx *a, const struct problem *p)
{
        int64_t now_ns = clock_boot_ns(), until_ns = a->until_ns;
        if (a->is_open && a->fail_after_ms < 0)
                return false;
        if (!a->away_ns) {
                a->away_ns = now_ns;
                a->retry_ms = RETRY_MIN_MS;
        }
        if (a->fail_after_ms >= 0)
                until_ns = a->fail_after_ms < (INT64_MAX - a->away_ns) / NS_PER_MS
                                   ? a->away_ns + a->fail_after_ms * NS_PER_MS
                                   : INT64_MAX;
        if (now_ns >= until_ns)
                return false;
        if (a->away_ns == now_ns && !args_has(&cli->args, "quiet"))
                fprintf(stderr, "weir: %s; trying again\n", p->detail);
        int64_t rest_ms = (until_ns - now_ns) / NS_PER_MS + 1;
        pause_for(a->retry_ms < rest_ms ? a->retry_ms : rest_ms);
        a->retry_ms = a->retry_ms * 2 < RETRY_MAX_MS ? a->retry_ms * 2 : RETRY_MAX_MS;
        return true;
}

/* OK with an answer; an error that is_away() when weir was away for the whole time allowed. */
static int ask_until(struct cli *cli, struct ask_ctx *a, const struct value **ret,
                     struct verdict *ret_verdict, struct problem *p)
{
        for (;;) {
                int64_t asked_ns = clock_boot_ns(), rest_ms = left_ms(a);
                int64_t wait_ms = rest_ms < ASK_WAIT_MS ? rest_ms : ASK_WAIT_MS;
                int r = ask(cli, wait_ms, ret, p);
                if (is_away(r)) {
                        client_hang_up(&cli->client);
                        if (try_again(cli, a, p))
                                continue;
                }
                if (r != OK)
                        return r;
                a->away_ns = 0;
                if (!verdict_read(*ret, ret_verdict))
                        return problem_set(p, ERR_SYNTAX, "what answers on %s has no check door",
                                           cli->url.text);
                rest_ms = left_ms(a);
                if (ret_verdict->is_granted || rest_ms == 0)
                        return OK;
                /* The server usually parks an ask for all of wait_ms; one that stops does not. */
                int64_t parked_ms = (clock_boot_ns() - asked_ns) / NS_PER_MS;
                int64_t pause_ms =
                        ret_verdict->wait_ms > RETRY_MIN_MS ? ret_verdict->wait_ms : RETRY_MIN_MS;
                if (parked_ms < wait_ms)
                        pause_for(pause_ms < rest_ms ? pause_ms : rest_ms);
        }
}

/* ---- the command ---- */

/* Returns only when the command could not be started. */
static void run_rest(struct cli *cli)
{
        client_hang_up(&cli->client);
        fputs(buf_cstr(&cli->notes), stderr);
        buf_clear(&cli->notes);
        (void)execvp(cli->rest[0], cli->rest);
        cli->exit_code = errno == ENOENT ? EXIT_NOTFOUND : EXIT_NOEXEC;
        buf_printf(&cli->notes, "weir: cannot run %s: %s\n", cli->rest[0], strerror(errno));
}

static void say(struct cli *cli, const struct value *answer, const struct verdict *v)
{
        if (cli->is_json)
                verdict_put_json(&cli->out, answer);
        else
                verdict_put(&cli->out, v);
        buf_put_byte(&cli->out, '\n');
}

/* Work that goes on unasked leaves a trace, even with --quiet. */
static void go_unasked(struct cli *cli, const struct problem *p)
{
        buf_printf(&cli->notes, "weir: %s; going on without asking\n", p->detail);
        if (cli->is_json && !cli->rest)
                buf_put_str(&cli->out, "{\"verdict\":\"granted\",\"reason\":\"away\"}\n");
}

static int check(struct cli *cli, struct problem *p)
{
        struct ask_ctx a = {0};
        const struct value *answer;
        struct verdict v = {0};
        if (cli->rest && !cli->rest[0])
                return problem_set(p, ERR_SYNTAX, "what to run? it comes after two dashes: -- CMD");
        int r = read_wait(&cli->args, &a, p);
        if (r == OK)
                r = read_fail(&cli->args, &a, p);
        if (r == OK)
                r = ask_until(cli, &a, &answer, &v, p);
        bool is_unasked = is_away(r) && (a.is_open || a.fail_after_ms >= 0);
        if (is_away(r) && !is_unasked)
                p->err = ERR_UNAVAIL; /* one exit code for all ways of being away */
        if (r != OK && !is_unasked)
                return r;
        if (is_unasked)
                go_unasked(cli, p);
        else if (!args_has(&cli->args, "quiet") && !(v.is_granted && cli->rest))
                say(cli, answer, &v);
        else if (!args_has(&cli->args, "quiet") && verdict_is_blind(&v))
                buf_put_str(&cli->notes, "weir: " VERDICT_BLIND "\n");
        if (!is_unasked && !v.is_granted)
                cli->exit_code = cli->rest ? EXIT_TEMPFAIL : EXIT_REFUSED;
        else if (cli->rest)
                run_rest(cli);
        return OK;
}

static const struct option_def options[] = {
        {"target", "NAME", "the database it would burden (the first one configured)"},
        {"priority", "TIER", "critical, high, normal or deferrable (by the registry, else normal)"},
        {"metric", "NAME", "a metric to be checked by, instead of the usual ones; repeatable"},
        {"cost", "N", "size of the step (1)"},
        {"wait", "DURATION", "wait so long until it may go, or forever (not at all)"},
        {"fail", "HOW", "when weir is away: open (go) or closed (exit 7) (closed)"},
        {"fail-after", "DURATION", "when weir is away: try so long, then go"},
        {"quiet", NULL, "no sentence, only the exit code"},
        {NULL, NULL, NULL},
};

static const struct cli_command command = {
        .usage = "IDENTITY [options] [-- COMMAND [ARG...]]",
        .summary = "Ask whether a step of heavy work may go now.",
        .text = "IDENTITY is who asks, from specific to general: purge-orders:purge:nightly.\n"
                "Exits with 0 when it may go and with 1 when it may not; says why. With a "
                "command,\n"
                "runs it when it may go, and exits with its code; with 75 when it may not.\n\n"
                "  while weir check purge:shop --wait 60s --quiet; do purge_a_thousand; done\n"
                "  weir check report --target shop --priority deferrable --wait forever -- "
                "report.sh\n\n"
                "Without any target in the configuration nothing is measured: only rules refuse.\n"
                "When weir is away the answer is no (exit code 7), after trying as long as --wait\n"
                "says. --fail open goes on at once, --fail-after 30s after half a minute.\n",
        .options = options,
        .min_words = 1,
        .max_words = 1,
        .is_local = true,
        .run = check,
};

const struct cli_group cli_group_check = {"check", "Ask whether heavy work may go now.", &command,
                                          1};

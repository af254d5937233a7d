/* weir lock: run a command while a lock is held. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/lock_run.h"
#include "cli/text.h"

#define TTL_DEFAULT_MS 60000
#define TTL_MIN_MS     1000 /* renewed every third: less would be mostly renewing */
#define PLACES_MAX     1000

static int take_options(const struct args *args, struct lock_run *ret, struct problem *p)
{
        const char *ttl = args_get(args, "ttl"), *wait = args_get(args, "wait");
        int64_t n = ret->conflict_exit;
        int r = ttl ? seconds_parse("--ttl", ttl, TTL_MIN_MS, &ret->ttl_ms, p) : OK;
        if (r == OK && wait)
                r = seconds_parse("--wait", wait, 0, &ret->wait_ms, p);
        if (r == OK)
                r = args_number(args, "count", (struct range){1, PLACES_MAX}, &ret->count, p);
        if (r == OK)
                r = args_number(args, "conflict-exit-code", (struct range){0, 255}, &n, p);
        ret->conflict_exit = (int)n;
        ret->is_verbose = args_has(args, "verbose");
        return r;
}

static int run(struct cli *cli, struct problem *p)
{
        char host[128] = "localhost", made_owner[160];
        const char *owner = args_get(&cli->args, "owner");
        struct lock_run options = {
                .url = &cli->url,
                .name = cli->args.positional[0],
                .argv = cli->rest,
                .ttl_ms = TTL_DEFAULT_MS,
                .count = 1,
                .conflict_exit = 1,
        };
        if (!cli->rest || !cli->rest[0])
                return problem_set(p, ERR_SYNTAX, "what to run? it comes after two dashes: -- CMD");
        (void)gethostname(host, sizeof(host) - 1);
        (void)snprintf(made_owner, sizeof(made_owner), "%s-%ld", host, (long)getpid());
        options.owner = owner ? owner : made_owner;
        int r = take_options(&cli->args, &options, p);
        return r == OK ? lock_run(&options, &cli->exit_code, p) : r;
}

static const struct option_def run_options[] = {
        {"ttl", "SECONDS", "time the lock lives without a renewal, 1 to 86400 (60)"},
        {"wait", "SECONDS", "wait so long for the lock, first come first served (0)"},
        {"count", "N", "as many may hold it at a time (1)"},
        {"conflict-exit-code", "N", "exit code when another holds it, 0 to 255 (1)"},
        {"owner", "TEXT", "who holds it, for people (HOST-PID)"},
        {"verbose", NULL, "say who holds it"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {{
        .name = "run",
        .usage = "NAME [options] -- COMMAND [ARG...]",
        .summary = "Run a command while holding a lock.",
        .text = "Exits with the command's code; with 1 and without a word when another holds the\n"
                "lock, like flock -n. The lock is renewed while the command runs, and the command\n"
                "is ended (TERM, then KILL) before the lock can be lost; the exit code is then 5.\n"
                "Without a server, or with locks switched off, nothing is run and the code is 7.\n"
                "The command finds WEIR_LOCK_NAME, WEIR_LOCK_TOKEN and WEIR_FENCE in its\n"
                "environment. Times may also be written 500ms, 90s, 5m, 2h.\n\n"
                "  */5 * * * *  weir lock run report -- /usr/local/bin/report --daily\n",
        .options = run_options,
        .min_words = 1,
        .max_words = 1,
        .is_local = true,
        .run = run,
}};

const struct cli_group cli_group_lock = {"lock", "Run a command while holding a lock.", commands,
                                         ARRAY_LEN(commands)};

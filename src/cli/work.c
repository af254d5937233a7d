/* weir work: the options of the worker. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "cli/command.h"
#include "cli/text.h"
#include "work/work.h"

#define LEASE_MIN_MS   1000 /* renewed every third: less would be mostly renewing */
#define LEASE_MAX_MS   86400000
#define RESULT_MAX     MIB /* what the server takes */
#define RESULT_DEFAULT (64 * KIB)

static int take_durations(const struct args *args, struct work_options *ret, struct problem *p)
{
        const struct {
                const char *option, *what;
                int64_t *to;
        } rows[] = {
                {"lease", "--lease", &ret->lease_ms},
                {"timeout", "--timeout", &ret->timeout_ms},
                {"retry-in", "--retry-in", &ret->retry_in_ms},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const char *value = args_get(args, rows[i].option);
                int r = value ? duration_parse(rows[i].what, value, rows[i].to, p) : OK;
                if (r != OK)
                        return r;
        }
        if (ret->lease_ms && (ret->lease_ms < LEASE_MIN_MS || ret->lease_ms > LEASE_MAX_MS))
                return problem_set(p, ERR_BADARG, "--lease: from 1s to 1d");
        return OK;
}

static int take_numbers(const struct args *args, struct work_options *ret, struct problem *p)
{
        const char *slots = args_get(args, "slots"), *max = args_get(args, "max");
        const char *output = args_get(args, "output");
        int64_t n = 1;
        int r = slots ? number_parse("--slots", slots, 1, WORK_SLOTS_MAX, &n, p) : OK;
        ret->slots = (size_t)n;
        n = 0;
        if (r == OK && max)
                r = number_parse("--max", max, 1, INT64_MAX, &n, p);
        ret->max_jobs = (uint64_t)n;
        uint64_t size = RESULT_DEFAULT;
        if (r == OK && output)
                r = size_parse("--output", output, RESULT_MAX, &size, p);
        ret->output_max = (size_t)size;
        return r;
}

static int take_queues(const struct args *args, struct work_options *ret, struct problem *p)
{
        size_t at = 0;
        for (const char *q; (q = args_next(args, "queue", &at)) != NULL;) {
                if (ret->n_queues == WORK_QUEUES_MAX)
                        return problem_set(p, ERR_BADARG, "--queue: at most %d", WORK_QUEUES_MAX);
                if (*q == '\0')
                        return problem_set(p, ERR_BADARG, "--queue: the name is empty");
                ret->queues[ret->n_queues++] = q;
        }
        if (ret->n_queues == 0)
                return problem_set(p, ERR_SYNTAX, "--queue is missing: which queue to work on?");
        return OK;
}

static void default_name(char *ret, size_t size)
{
        char host[128] = "worker";
        (void)gethostname(host, sizeof(host) - 1);
        (void)snprintf(ret, size, "%s-%ld", host, (long)getpid());
}

static int work(struct cli *cli, struct problem *p)
{
        struct work_options options = {.url = &cli->url};
        const struct args *args = &cli->args;
        const char *command = args_get(args, "exec"), *name = args_get(args, "name");
        char made_name[160];
        if (!command)
                return problem_set(p, ERR_SYNTAX, "--exec is missing: what to run for a job?");
        int r = take_queues(args, &options, p);
        if (r == OK)
                r = take_durations(args, &options, p);
        if (r == OK)
                r = take_numbers(args, &options, p);
        if (r != OK)
                return r;
        default_name(made_name, sizeof(made_name));
        options.name = name ? name : made_name;
        options.is_once = args_has(args, "once");
        options.passes_errors = args_has(args, "stderr");
        say_setup(args_has(args, "quiet") ? SAY_WARN : SAY_INFO, cli->is_json);
        r = words_split(command, &options.command, p);
        if (r != OK)
                return r;
        r = work_run(&options, p);
        words_release(&options.command);
        return r;
}

static const struct option_def option_table[] = {
        {"exec", "COMMAND", "what to run for each job; split like a shell would, without one"},
        {"queue", "NAME", "a queue to take jobs from; may be given several times"},
        {"slots", "N", "commands at the same time (1)"},
        {"lease", "DURATION", "time without a renewal after which a job is free again (5m)"},
        {"timeout", "DURATION", "kill a command that runs longer, and fail its job (never)"},
        {"retry-in", "DURATION", "wait before the next attempt of a failed job (0s)"},
        {"output", "SIZE", "bytes of standard output kept as the result, up to 1m (64k)"},
        {"name", "NAME", "name of this worker in the jobs' stories (HOST-PID)"},
        {"once", NULL, "end when nothing is ready"},
        {"max", "N", "end after N jobs"},
        {"stderr", NULL, "copy the commands' standard error to this one"},
        {"quiet", NULL, "say only what went wrong"},
        {NULL, NULL, NULL},
};

static const struct cli_command command = {
        .usage = "--exec COMMAND --queue NAME",
        .summary = "Claim jobs and run a command for each.",
        .text = "The job's arguments are the command's standard input. Exit code 0 completes the\n"
                "job with its standard output as the result; anything else fails it with the\n"
                "end of its standard error. {id}, {hook} and {queue} in COMMAND are filled in;\n"
                "WEIR_JOB_ID, WEIR_HOOK, WEIR_ATTEMPT and more are in its environment.\n"
                "SIGTERM lets running commands finish; a second one gives their jobs back.\n\n"
                "  weir work --exec './resize.sh {id}' --queue media --slots 4\n",
        .options = option_table,
        .is_local = true,
        .run = work,
};

const struct cli_group cli_group_work = {"work", "Claim jobs and run a command for each.", &command,
                                         1};

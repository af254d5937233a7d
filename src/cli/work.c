/* weir work: the options of the worker. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "cli/command.h"
#include "cli/text.h"
#include "cli/work_file.h"
#include "cli/work_site.h"
#include "work/unsafe.h"
#include "work/work.h"

#define LEASE_MIN_MS 1000 /* renewed every third: less would be mostly renewing */
#define LEASE_MAX_MS 86400000
#define MEMORY_MAX   (MIB * MIB)

static int take_lease(const struct args *args, struct work_options *ret, struct problem *p)
{
        const char *lease = args_get(args, "lease");
        int r = lease ? duration_parse("--lease", lease, &ret->lease_ms, p) : OK;
        if (r == OK && ret->lease_ms &&
            (ret->lease_ms < LEASE_MIN_MS || ret->lease_ms > LEASE_MAX_MS))
                r = problem_set(p, ERR_BADARG, "--lease: from 1s to 1d");
        return r;
}

static int take_numbers(const struct args *args, struct work_options *ret, struct problem *p)
{
        const char *memory = args_get(args, "max-memory");
        int64_t slots = 1, prefetch = 0, max = 0;
        int r = args_number(args, "slots", (struct range){1, WORK_SLOTS_MAX}, &slots, p);
        if (r == OK)
                r = args_number(args, "prefetch", (struct range){0, WORK_SLOTS_MAX}, &prefetch, p);
        if (r == OK)
                r = args_number(args, "max", (struct range){1, INT64_MAX}, &max, p);
        if (r == OK && memory)
                r = size_parse("--max-memory", memory, MEMORY_MAX, &ret->max_memory, p);
        ret->slots = (size_t)slots;
        ret->prefetch = (size_t)prefetch;
        ret->max_jobs = (uint64_t)max;
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
                if (strchr(q, ','))
                        say_warn("work",
                                 "one queue, with a comma in its name; several are "
                                 "--queue A --queue B",
                                 "queue", q);
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

/* The settings of --exec, which are for nothing else. */
static const char *const exec_options[] = {"timeout", "retry-in", "no-retry",           "output",
                                           "grace",   "env",      "unsafe-placeholders"};

static int take_exec_options(const struct args *args, struct handler *h, struct problem *p)
{
        const struct {
                const char *option, *what;
                int64_t *to;
        } rows[] = {
                {"timeout", "--timeout", &h->timeout_ms},
                {"retry-in", "--retry-in", &h->retry_in_ms},
                {"grace", "--grace", &h->grace_ms},
        };
        int r = OK;
        for (size_t i = 0; i < ARRAY_LEN(rows) && r == OK; i++) {
                const char *value = args_get(args, rows[i].option);
                r = value ? duration_parse(rows[i].what, value, rows[i].to, p) : OK;
        }
        const char *output = args_get(args, "output");
        uint64_t size = h->output_max;
        if (r == OK && output)
                r = size_parse("--output", output, HANDLER_OUTPUT_MAX, &size, p);
        h->output_max = (size_t)size;
        size_t at = 0;
        for (const char *env; r == OK && (env = args_next(args, "env", &at)) != NULL;)
                r = work_env_add(&h->env, env, p);
        return r;
}

static int take_no_retry(const struct args *args, struct handler *h, struct problem *p)
{
        const char *texts[HANDLER_CODES_MAX + 1];
        size_t n = 0, at = 0;
        for (const char *text;
             n < ARRAY_LEN(texts) && (text = args_next(args, "no-retry", &at)) != NULL;)
                texts[n++] = text;
        return n ? work_no_retry_take(h, "--no-retry", texts, n, p) : OK;
}

/* --exec is one handler for every hook. */
static int make_handler(const struct args *args, const char *command, struct handlers *ret,
                        struct problem *p)
{
        struct handler h;
        handler_init(&h);
        h.pattern = xstrdup("*");
        h.origin = xstrdup("--timeout");
        h.kind = HANDLER_EXEC;
        ret->origin = xstrdup("--exec");
        int r = take_exec_options(args, &h, p);
        if (r == OK)
                r = take_no_retry(args, &h, p);
        if (r == OK)
                r = words_split(command, &h.command, p);
        if (r == OK)
                r = work_placeholders_check(&h.command, "--exec", p);
        if (r == OK && !args_has(args, "unsafe-placeholders"))
                r = unsafe_check(&h.command, "--exec", "--unsafe-placeholders", p);
        if (r == OK)
                r = handlers_add(ret, &h, p);
        handler_release(&h);
        return r;
}

static int take_handlers(const struct args *args, struct handlers *ret, struct problem *p)
{
        const char *command = args_get(args, "exec"), *path = args_get(args, "handlers");
        int r = OK;
        if (!command && !path)
                return problem_set(p, ERR_SYNTAX,
                                   "--exec is missing: what to run for a job? (or --handlers)");
        if (command && path)
                return problem_set(p, ERR_SYNTAX, "--exec or --handlers, not both");
        for (size_t i = 0; path && i < ARRAY_LEN(exec_options); i++)
                if (args_has(args, exec_options[i]))
                        return problem_set(p, ERR_SYNTAX,
                                           "--%s goes with --exec; with --handlers it is set in "
                                           "the file",
                                           exec_options[i]);
        r = path ? work_file_read(path, ret, p) : make_handler(args, command, ret, p);
        for (size_t i = 0; i < ret->n; i++)
                ret->all[i].passes_errors = args_has(args, "stderr");
        return r;
}

static int take_options(const struct args *args, struct work_options *ret, struct problem *p)
{
        int r = take_queues(args, ret, p);
        if (r == OK)
                r = take_lease(args, ret, p);
        if (r == OK)
                r = take_numbers(args, ret, p);
        ret->is_once = args_has(args, "once");
        ret->health_path = args_get(args, "health-file");
        return r;
}

static int work(struct cli *cli, struct problem *p)
{
        const struct args *args = &cli->args;
        struct handlers handlers = {0};
        struct work_options options = {.url = &cli->url, .handlers = &handlers};
        char made_name[160];
        default_name(made_name, sizeof(made_name));
        options.name = args_has(args, "name") ? args_get(args, "name") : made_name;
        say_setup(args_has(args, "quiet") ? SAY_WARN : SAY_INFO, cli->is_json);
        int r = work_site_check(args, p);
        if (r == OK && args_has(args, "wordpress"))
                return work_site(cli, options.name, p);
        if (r == OK)
                r = take_handlers(args, &handlers, p);
        if (r == OK)
                r = take_options(args, &options, p);
        if (r == OK)
                r = work_run(&options, p);
        handlers_release(&handlers);
        return r;
}

static const struct option_def option_table[] = {
        {"exec", "COMMAND", "what to run for each job; split like a shell would, without one"},
        {"handlers", "FILE", "what to do for which hook, instead of --exec; see docs/work.md"},
        {"queue", "NAME", "a queue to take jobs from; may be given several times"},
        {"slots", "N", "jobs at the same time (1)"},
        {"prefetch", "N", "jobs taken ahead and held ready besides those (0)"},
        {"lease", "DURATION", "time without a renewal after which a job is free again (5m)"},
        {"timeout", "DURATION", "end a command that runs longer, and fail its job (never)"},
        {"grace", "DURATION", "from the TERM to the KILL when a command must end (10s)"},
        {"retry-in", "DURATION", "wait before the next attempt (as the job or queue says)"},
        {"no-retry", "CODE", "an exit code that fails the job for good, or none; several (65)"},
        {"output", "SIZE", "bytes of standard output kept as the result, up to 1m (64k)"},
        {"unsafe-placeholders", NULL,
         "let {hook}, {queue} and {group} become options, code or programs"},
        {"env", "NAME[=VALUE]", "a variable for the command besides PATH, LANG and HOME"},
        {"name", "NAME", "name of this worker in the jobs' stories (HOST-PID)"},
        {"once", NULL, "end when nothing is ready"},
        {"max", "N", "end after N jobs"},
        {"max-memory", "SIZE", "end when the worker itself has more in memory"},
        {"health-file", "FILE", "keep a file of JSON up to date that says how it goes"},
        {"wordpress", "NAME",
         "run Action Scheduler's runners of this site, or network of blogs, not jobs"},
        {"path", "DIR", "with --wordpress: the folder of WordPress"},
        {"host", "HOST[/PATH]", "with --wordpress: the one blog to run (all, as the server says)"},
        {"runners", "N", "with --wordpress: at most so many at once; the gate may allow fewer (1)"},
        {"reserved", "N",
         "with --wordpress: so many blogs keep a runner for the critical tier (1)"},
        {"php", "PROGRAM", "with --wordpress: the PHP that runs a runner (WP-CLI, or php)"},
        {"when-away", "DURATION",
         "with --wordpress: start one so often while weir is away; 0s: never (1m)"},
        {"stderr", NULL, "copy the commands' standard error to this one"},
        {"quiet", NULL, "say only what went wrong"},
        {NULL, NULL, NULL},
};

static const struct cli_command command = {
        .usage = "--exec COMMAND | --handlers FILE --queue NAME | --wordpress NAME --path DIR",
        .summary = "Claim jobs and run a handler for each.",
        .text = "The job's arguments are the command's standard input. Exit code 0 completes the\n"
                "job with its standard output as the result; anything else fails the attempt with\n"
                "the end of its standard error, 65 the job as a whole. {id}, {hook}, {queue}, "
                "{group}, {attempt} and {fence}\n"
                "in COMMAND are filled in; WEIR_JOB_ID, WEIR_HOOK and more are in its "
                "environment.\n"
                "With --handlers each hook has its own command or HTTP address.\n"
                "SIGTERM lets running jobs finish; a second one gives them back.\n"
                "With --wordpress the commands are Action Scheduler's own runners of a site, or "
                "of\n"
                "all blogs of its network, as many at once as the gate allows while actions are "
                "due:\n"
                "WP-CLI, a small PHP file of weir, or --exec. One more, which stays, runs only "
                "hooks\n"
                "of the critical tier, at every level. SIGTERM stops them.\n\n"
                "  weir work --exec './resize.sh {id}' --queue media --slots 4\n"
                "  weir work --handlers /etc/weir/handlers.conf --queue default --slots 8\n"
                "  weir work --wordpress shop --path /var/www/html --runners 3\n",
        .options = option_table,
        .is_local = true,
        .run = work,
};

const struct cli_group cli_group_work = {"work", "Claim jobs and run a handler for each.", &command,
                                         1};

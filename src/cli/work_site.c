/* See work_site.h.
 *
 * What one runner is, the first that is there:
 *
 *      --exec          as it says
 *      --php           that PHP runs weir-runner.php
 *      wp in the PATH  wp action-scheduler run
 *      otherwise       php runs weir-runner.php
 *
 * The reserved runner is always weir-runner.php.  Without it the others still work, so it is only
 * told when there can be none, unless it was asked for. */
#include "cli/work_site.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/say.h"
#include "base/shown.h"
#include "cli/text.h"
#include "cli/work_file.h"
#include "work/site_runner.h"
#include "work/spawn.h"

#define GRACE_MS 10000
#define AWAY_MS  60000
#define DAY_MS   86400000

/* Options of jobs, which mean nothing here, and those that mean nothing without a site. */
static const char *const job_options[] = {
        "handlers", "queue",    "slots",      "prefetch",    "lease",
        "timeout",  "retry-in", "no-retry",   "output",      "unsafe-placeholders",
        "once",     "max",      "max-memory", "health-file",
};
static const char *const site_options[] = {"path", "host",     "runners",
                                           "php",  "reserved", "when-away"};

int work_site_check(const struct args *args, struct problem *p)
{
        bool has_site = args_has(args, "wordpress");
        for (size_t i = 0; has_site && i < ARRAY_LEN(job_options); i++)
                if (args_has(args, job_options[i]))
                        return problem_set(p, ERR_SYNTAX,
                                           "--%s is for jobs of weir; with --wordpress there are "
                                           "--path, --host, --runners, --reserved, --php, "
                                           "--exec, --env, --grace, --when-away, --name, "
                                           "--stderr and --quiet",
                                           job_options[i]);
        for (size_t i = 0; !has_site && i < ARRAY_LEN(site_options); i++)
                if (args_has(args, site_options[i]))
                        return problem_set(p, ERR_SYNTAX,
                                           "--%s goes with --wordpress NAME: of which site?",
                                           site_options[i]);
        if (has_site && !*args_get(args, "wordpress"))
                return problem_set(p, ERR_BADARG, "--wordpress: the name is empty");
        return OK;
}

/* ---- what a runner is ---- */

/* weir-runner.php, beside the installed program or in the source tree. */
static bool find_entry(char ret[PATH_MAX])
{
        static const char *const places[] = {
                "../share/weir/weir-runner.php",
                "../integrations/wordpress/weir-runner.php",
                "../../integrations/wordpress/weir-runner.php",
        };
        char program[PATH_MAX], file[2 * PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
        if (n <= 0)
                return false;
        program[n] = '\0';
        *strrchr(program, '/') = '\0';
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                (void)snprintf(file, sizeof(file), "%s/%s", program, places[i]);
                if (realpath(file, ret))
                        return true;
        }
        return false;
}

static bool has_program(const char *name)
{
        char word[PATH_MAX];
        struct words env;
        (void)snprintf(word, sizeof(word), "%s", name);
        char *argv[] = {word, NULL};
        env_make(&env, &(struct words){0});
        const struct spawn s = {.argv = argv, .env = env.argv, .umask = -1};
        bool is_there = spawn_check(&s, NULL) == OK;
        words_release(&env);
        return is_there;
}

/* The folder must be that of a WordPress, or every runner would fail. */
static int check_path(const char *path, char ret[PATH_MAX], struct problem *p)
{
        char file[PATH_MAX + 16];
        if (!path)
                return problem_set(p, ERR_SYNTAX,
                                   "--path is missing: the folder of WordPress, which has "
                                   "wp-load.php (or --exec: what a runner is)");
        if (!realpath(path, ret))
                return problem_set(p, ERR_BADARG, "--path: there is no folder '%s'",
                                   SHOWN_LONG(path));
        (void)snprintf(file, sizeof(file), "%s/wp-load.php", ret);
        if (access(file, R_OK) != 0)
                return problem_set(p, ERR_BADARG,
                                   "--path: '%s' is no folder of WordPress: there is no "
                                   "wp-load.php that can be read",
                                   SHOWN_LONG(path));
        return OK;
}

/* php weir-runner.php DIR [--reserved] */
static int make_entry(const char *php, const char *path, bool is_reserved, struct site_command *ret,
                      struct problem *p)
{
        char entry[PATH_MAX];
        if (!find_entry(entry))
                return problem_set(p, ERR_NOTFOUND,
                                   "weir-runner.php is not installed beside weir; install WP-CLI, "
                                   "or say --exec");
        words_add(&ret->words, php ? php : "php");
        words_add(&ret->words, entry);
        if (is_reserved)
                words_add(&ret->words, "--reserved");
        words_add(&ret->words, path);
        ret->url_option = "";
        return OK;
}

static void make_wp(const char *path, struct site_command *ret)
{
        char option[PATH_MAX + 16];
        (void)snprintf(option, sizeof(option), "--path=%s", path);
        words_add(&ret->words, "wp");
        words_add(&ret->words, "action-scheduler");
        words_add(&ret->words, "run");
        words_add(&ret->words, "--force"); /* Action Scheduler's own limit is one claim at a time */
        words_add(&ret->words, option);
        ret->url_option = "--url=";
        /* Else it goes on until nothing is due, and other blogs wait. */
        ret->turn_option = "--batches=5";
}

static int make_command(const struct args *args, const char *path, struct site_command *ret,
                        struct problem *p)
{
        const char *exec = args_get(args, "exec"), *php = args_get(args, "php");
        if (exec)
                return words_split(exec, &ret->words, p);
        if (php || !has_program("wp"))
                return make_entry(php, path, false, ret, p);
        make_wp(path, ret);
        return OK;
}

static int try_reserved(const struct args *args, const char *path, struct site_command *ret,
                        struct problem *p)
{
        const char *php = args_get(args, "php");
        if (!path[0])
                return problem_set(p, ERR_SYNTAX,
                                   "--path is missing: the reserved runner needs the folder of "
                                   "WordPress, whatever --exec is");
        if (!has_program(php ? php : "php"))
                return problem_set(p, ERR_NOTFOUND,
                                   "there is no program '%s' for the reserved runner",
                                   SHOWN_LONG(php ? php : "php"));
        return make_entry(php, path, true, ret, p);
}

/* *is_there: false when there is to be none, or can be none and was not asked for. */
static int make_reserved(const struct args *args, const char *path,
                         const struct site_runner_options *o, struct site_command *ret,
                         bool *is_there, struct problem *p)
{
        int r = OK;
        *is_there = false;
        if (!o->n_reserved && !o->runners)
                return problem_set(p, ERR_BADARG,
                                   "--runners 0 and --reserved 0 leave nothing to start");
        if (!o->n_reserved)
                return OK;
        r = try_reserved(args, path, ret, p);
        *is_there = r == OK;
        if (r == OK || !o->runners || args_has(args, "reserved"))
                return r;
        say_warn("work", "no reserved runner for critical hooks, going on without", "reason",
                 p->detail);
        *p = (struct problem){0};
        return OK;
}

/* ---- options ---- */

static int take_duration(const struct args *args, const char *option, int64_t *ret_ms,
                         struct problem *p)
{
        const char *text = args_get(args, option);
        char what[32];
        (void)snprintf(what, sizeof(what), "--%s", option);
        int r = text ? duration_parse(what, text, ret_ms, p) : OK;
        if (r == OK && *ret_ms > DAY_MS)
                r = problem_set(p, ERR_BADARG, "%s: at most 1d", what);
        return r;
}

static int take_env(const struct args *args, struct words *ret, struct problem *p)
{
        size_t at = 0;
        int r = OK;
        for (const char *env; r == OK && (env = args_next(args, "env", &at)) != NULL;)
                r = work_env_add(ret, env, p);
        return r;
}

/* HOST[:PORT][/PATH], or the same as an address. */
static int take_host(const struct args *args, const char **ret, struct problem *p)
{
        const char *host = args_get(args, "host");
        if (!host)
                return OK;
        if (args_has(args, "exec"))
                return problem_set(p, ERR_SYNTAX,
                                   "--host is for weir-runner.php and WP-CLI; say it in --exec, "
                                   "in the way of that command");
        if (!*host || *host == '-' || *host == '/' || strlen(host) >= SITE_BLOG_URL_BYTES ||
            host[strcspn(host, " \t\r\n\"'<>")])
                return problem_set(p, ERR_BADARG,
                                   "--host: '%s' is no address of a blog; allowed are HOST, "
                                   "HOST/PATH and https://HOST/PATH",
                                   SHOWN_LONG(host));
        *ret = host;
        return OK;
}

/* Numbers and durations. */
static int take_options(const struct args *args, struct site_runner_options *ret, struct problem *p)
{
        int64_t runners = 1, n_reserved = 1;
        int r = args_number(args, "runners", (struct range){0, SITE_RUNNERS_MAX}, &runners, p);
        if (r == OK)
                r = args_number(args, "reserved", (struct range){0, SITE_RESERVED_MAX}, &n_reserved,
                                p);
        ret->runners = (size_t)runners;
        ret->n_reserved = (size_t)n_reserved;
        if (r == OK)
                r = take_duration(args, "grace", &ret->grace_ms, p);
        if (r == OK)
                r = take_duration(args, "when-away", &ret->away_ms, p);
        if (r == OK && args_has(args, "exec") && args_has(args, "php"))
                r = problem_set(p, ERR_SYNTAX, "--exec or --php, not both");
        return r == OK ? take_host(args, &ret->blog_url, p) : r;
}

int work_site(struct cli *cli, const char *name, struct problem *p)
{
        const struct args *args = &cli->args;
        struct site_command command = {0}, reserved = {0};
        struct words env = {0};
        struct site_runner_options options = {
                .url = &cli->url,
                .name = name,
                .site = args_get(args, "wordpress"),
                .command = &command,
                .env = &env,
                .grace_ms = GRACE_MS,
                .away_ms = AWAY_MS,
                .passes_errors = args_has(args, "stderr"),
        };
        char path[PATH_MAX] = "";
        bool is_reserved = false;
        int r = take_options(args, &options, p);
        if (r == OK)
                r = take_env(args, &env, p);
        if (r == OK && (args_has(args, "path") || !args_has(args, "exec")))
                r = check_path(args_get(args, "path"), path, p);
        if (r == OK)
                r = make_command(args, path, &command, p);
        if (r == OK)
                r = make_reserved(args, path, &options, &reserved, &is_reserved, p);
        options.dir = path[0] ? path : NULL;
        options.reserved = is_reserved ? &reserved : NULL;
        if (r == OK)
                r = site_runner_run(&options, p);
        words_release(&command.words);
        words_release(&reserved.words);
        words_release(&env);
        return r;
}

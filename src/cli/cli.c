/* Dispatch and help of the command line.
 *
 * A command is a row (cli/command.h); a group is a folder of rows.  One path for all of them:
 * find the row, parse its options, connect, run, print.  A command fills a buffer and the buffer
 * is written at the end, so a half-printed table never mixes with an error, and a failed write
 * (a full disk behind a redirection) is noticed and makes the exit code.
 *
 * Data goes to standard output, messages about it to standard error. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/shown.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/params.h"
#include "cli/text.h"
#include "cli/watch.h"

/* Rows of commands that main() runs itself: help and completion read them. */
const struct option_def cli_serve_options[] = {
        {"config", "FILE", "read settings from FILE, see weir.conf(5); also -c"},
        {"data", "DIR", "folder of the log and of history (./data)"},
        {"resp", "ADDR", "listen for RESP on host:port or a socket path; repeatable"},
        {"http", "ADDR", "listen for HTTP on host:port or a socket path; repeatable"},
        {"resp-tls", "ADDR", "listen for RESP over TLS on host:port; repeatable"},
        {"http-tls", "ADDR", "listen for HTTPS on host:port; repeatable"},
        {"insecure", NULL, "other machines may connect without TLS"},
        {"token-file", "FILE", "clients must show the access token that this file holds"},
        {"log-level", "LEVEL", "debug, info, warn or error (info)"},
        {"log-json", NULL, "log lines as JSON"},
        {"seccomp", "on|kill|log|off", "what happens to system calls weir should not make (on)"},
        {"check", NULL, "check the settings and exit; also -t"},
        {"greet", NULL, "print what to try first"},
        {"help", NULL, "print this help"},
        {NULL, NULL, NULL},
};

static const struct cli_command main_serve[] = {{
        .usage = "[options]",
        .summary = "Run the server.",
        .text = "Prints one line 'ready http=... resp=...' when it takes requests, then\n"
                "http_tls=..., resp_tls=... and mysql=... if it listens there; port 0 picks a\n"
                "free one. Without options it listens on 127.0.0.1:7379 and 127.0.0.1:7380.\n"
                "SIGTERM stops it: what was accepted is kept, and it exits 0.\n",
        .options = cli_serve_options,
}};

static const struct cli_command main_log[] = {
        {.name = "verify", .usage = "DIR", .summary = "Read a whole log and report all damage."},
        {.name = "dump", .usage = "DIR", .summary = "Print the records of a log as JSON lines."},
        {.name = "salvage",
         .usage = "DIR NEWDIR",
         .summary = "Write what is sound of a damaged log into a new folder."},
};

const struct option_def cli_history_sql_options[] = {
        {"config", "FILE", "the configuration of the server, which names its data folder; also -c"},
        {"data", "DIR", "the data folder of the server (./data)"},
        {"csv", NULL, "print CSV"},
        {"json", NULL, "print a JSON array of objects"},
        {"help", NULL, "print this help"},
        {NULL, NULL, NULL},
};

static const struct cli_command main_history[] = {
        {.name = "verify",
         .usage = "DIR",
         .summary = "Read every finished job and report all damage."},
        {.name = "sql",
         .usage = "[DIR] [SQL] [options]",
         .summary = "Query the history with SQL.",
         .text = "The tables are jobs, events, minutes, incidents and audit; docs/history.md has\n"
                 "their columns and examples. Nothing can be changed. The server may be running.\n"
                 "Without SQL, statements are read from standard input; on a terminal there is a\n"
                 "prompt. Exits with 2 when a statement is wrong, with 9 when damage was met.\n\n"
                 "  weir history sql --data /var/lib/weir \"SELECT hook, count(*) FROM jobs\n"
                 "      WHERE status = 'failed' AND finished >= date('now') GROUP BY hook\"\n",
         .options = cli_history_sql_options},
};

static const struct cli_command main_probe[] = {{
        .usage = "-c FILE [--once | --watch] [--json] [TARGET]",
        .summary = "Ask the targets of a configuration and show what they answer.",
}};

const struct option_def cli_backup_options[] = {
        {"config", "FILE", "the configuration of the server, which names its data folder; also -c"},
        {"data", "DIR", "the data folder of the server (./data)"},
        {"json", NULL, "print JSON for programs"},
        {"help", NULL, "print this help"},
        {NULL, NULL, NULL},
};

static const struct cli_command main_backup[] = {{
        .usage = "DIR [options]",
        .summary = "Copy the data of a running server, consistently, into a new folder.",
        .text = "DIR is made. What was acknowledged before the copy began is in it, to the batch;\n"
                "'weir serve --data DIR' starts from it. Run it as the user of the server, on its\n"
                "machine; the server need not run, and does not notice. With the configuration of\n"
                "a cluster, and without --data, the data come from its database.\n\n"
                "  weir backup /backup/weir-$(date +%F) --data /var/lib/weir\n"
                "  weir backup /backup/weir-$(date +%F) -c /etc/weir/weir.conf\n",
        .options = cli_backup_options,
}};

const struct option_def cli_move_options[] = {
        {"to-cluster", NULL, "from the data folder of a lone weir into the cluster"},
        {"from-cluster", NULL, "from the cluster into a new data folder"},
        {"reopen", NULL, "use a cluster again whose data were moved out"},
        {"config", "FILE", "a configuration with the section cluster; also -c"},
        {"data", "DIR", "the data folder (as the configuration says)"},
        {"json", NULL, "print JSON for programs"},
        {"help", NULL, "print this help"},
        {NULL, NULL, NULL},
};

static const struct cli_command main_move[] = {{
        .usage = "--to-cluster | --from-cluster -c FILE [--data DIR] [options]",
        .summary = "Bring the data of a lone weir into a cluster, or back.",
        .text = "All of it: jobs, schedules, locks, limits, settings, tokens, history and the "
                "audit "
                "trail,\n"
                "with their ids and fences. Stop every weir first. What is moved stays where it "
                "was, and\n"
                "is marked: it does not start any more. A move that was interrupted can be done "
                "again.\n\n"
                "  weir move --to-cluster -c /etc/weir/weir.conf --data /var/lib/weir\n"
                "  weir move --from-cluster -c /etc/weir/weir.conf --data /var/lib/weir-alone\n",
        .options = cli_move_options,
}};

const struct option_def cli_tls_options[] = {
        {"dir", "DIR", "folder of the files; made when missing (./tls)"},
        {"name", "NAME", "a name or address of the server, besides localhost; repeatable"},
        {"days", "N", "how long they are valid (365)"},
        {"force", NULL, "replace files that are there"},
        {"help", NULL, "print this help"},
        {NULL, NULL, NULL},
};

static const struct cli_command main_tls[] = {{
        .name = "self-signed",
        .usage = "[options]",
        .summary = "Make a certificate for trying TLS.",
        .text = "Writes ca.crt, server.crt, server.key, client.crt and client.key, for their "
                "owner\n"
                "alone, and prints the lines for weir.conf. Clients trust ca.crt; its key is not\n"
                "kept. For production take certificates of your own authority, or of a public "
                "one.\n\n"
                "  weir tls self-signed --dir /etc/weir/tls --name queue.example.org\n",
        .options = cli_tls_options,
}};

const struct option_def cli_doctor_options[] = {
        {"config", "FILE", "the configuration to look at; also -c"},
        {"data", "DIR", "the data folder (as the configuration says, or ./data)"},
        {"url", "URL", "where the server listens (WEIR_URL, else as the configuration says)"},
        {"token", "TOKEN", "access token, or @FILE to read it from a file"},
        {"json", NULL, "print JSON for programs"},
        {"help", NULL, "print this help"},
        {NULL, NULL, NULL},
};

static const struct cli_command main_doctor[] = {{
        .usage = "[options]",
        .summary = "Check a set-up and say what to fix.",
        .text = "The data folder, how fast its disk syncs, free space, limits of the system, the\n"
                "clock, time zones, secrets, whether the server answers, and every target of the\n"
                "configuration with the real probe. Exits with 0, or 1 when something is wrong.\n\n"
                "  weir doctor -c /etc/weir/weir.conf\n",
        .options = cli_doctor_options,
}};

#define SITE_OPTIONS                                                                               \
        {"config", "FILE", "the configuration of weir, which has the site; also -c"},              \
                {"wordpress", "NAME", "the site: the name of its wordpress section"},              \
                {"hooks", "PATTERNS", "only these hooks, as 'mail_*,sync'; in their exact case"},  \
        {                                                                                          \
                "dry-run", NULL, "count what would be moved, by hook, and change nothing"          \
        }
#define SERVER_OPTIONS                                                                             \
        {"url", "URL", "where weir listens (WEIR_URL)"},                                           \
                {"token", "TOKEN", "access token, or @FILE to read it from a file"},               \
                {"json", NULL, "print JSON for programs"}, {"help", NULL, "print this help"},      \
        {                                                                                          \
                NULL, NULL, NULL                                                                   \
        }

const struct option_def cli_import_actions_options[] = {
        SITE_OPTIONS,
        {"queue", "NAME", "queue of the jobs (default)"},
        {"limit", "N", "move at most this many actions"},
        SERVER_OPTIONS,
};

const struct option_def cli_export_actions_options[] = {
        SITE_OPTIONS,
        {"queue", "NAME", "only jobs and schedules of this queue"},
        SERVER_OPTIONS,
};

/* The second word of `weir import` and `weir export` makes these of them; see cli_help(). */
static const struct cli_command main_import_actions[] = {{
        .usage = "-c FILE --wordpress NAME [options]",
        .summary = "Move pending actions of Action Scheduler into weir.",
        .text = "Pending actions that no runner has claimed become jobs, recurring ones "
                "schedules,\n"
                "with their hook, args, group, priority, date and unique key. In Action Scheduler\n"
                "they are canceled, with a line in their log. An import that was interrupted is\n"
                "finished by the next one; no action runs twice. What cannot be moved is "
                "reported,\n"
                "stays where it was, and makes the exit code 1.\n\n"
                "  weir import actionscheduler -c weir.conf --wordpress shop --dry-run\n"
                "  weir import actionscheduler -c weir.conf --wordpress shop --hooks 'mail_*'\n",
        .options = cli_import_actions_options,
}};

static const struct cli_command main_export_actions[] = {{
        .usage = "-c FILE --wordpress NAME [options]",
        .summary = "Move pending jobs and schedules of weir into Action Scheduler.",
        .text = "Pending jobs become actions, schedules with an interval recurring actions. In "
                "weir\n"
                "the jobs are canceled. An export that was interrupted is finished by the next "
                "one;\n"
                "no job runs twice. What cannot be moved is reported, stays where it was, and "
                "makes\n"
                "the exit code 1.\n\n"
                "  weir export actionscheduler -c weir.conf --wordpress shop --dry-run\n",
        .options = cli_export_actions_options,
}};

static const struct cli_command main_version[] = {{
        .usage = "",
        .summary = "Print the version.",
}};

static const struct cli_command help_command[] = {{
        .usage = "[COMMAND [SUBCOMMAND]]",
        .summary = "Explain a command.",
}};

static const struct cli_group group_serve = {"serve", "Run the server.", main_serve, 1};
static const struct cli_group group_log = {"log", "Verify, dump or salvage a log on disk.",
                                           main_log, ARRAY_LEN(main_log)};
static const struct cli_group group_history = {"history", "Verify or query the history on disk.",
                                               main_history, ARRAY_LEN(main_history)};
static const struct cli_group group_probe = {
        "probe", "Ask the databases and hosts of a configuration.", main_probe, 1};
static const struct cli_group group_backup = {"backup", "Copy the data of a running server.",
                                              main_backup, 1};
static const struct cli_group group_move = {"move", "Bring data into a cluster, or back.",
                                            main_move, 1};
static const struct cli_group group_tls = {"tls", "Make certificates for trying TLS.", main_tls, 1};
static const struct cli_group group_doctor = {"doctor", "Check a set-up and say what to fix.",
                                              main_doctor, 1};
static const struct cli_group groups_of_actions[] = {
        {"import actionscheduler", "Move actions into weir.", main_import_actions, 1},
        {"export actionscheduler", "Move jobs into Action Scheduler.", main_export_actions, 1},
};
static const struct cli_group group_version = {"version", "Print the version.", main_version, 1};
static const struct cli_group group_help = {"help", "Explain a command.", help_command, 1};

/* In the order people meet them. */
static const struct cli_group *const groups[] = {
        &group_serve,       &cli_group_job,        &cli_group_queue,    &cli_group_pause,
        &cli_group_resume,  &cli_group_schedule,   &cli_group_batch,    &cli_group_cap,
        &cli_group_work,    &cli_group_lock,       &cli_group_mutex,    &cli_group_limit,
        &cli_group_breaker, &cli_group_throttle,   &cli_group_registry, &cli_group_check,
        &cli_group_rule,    &cli_group_client,     &cli_group_host,     &cli_group_setting,
        &cli_group_token,   &cli_group_audit,      &cli_group_config,   &cli_group_ping,
        &cli_group_top,     &cli_group_export,     &cli_group_import,   &cli_group_wordpress,
        &cli_group_proxy,   &cli_group_cluster,    &group_backup,       &group_move,
        &group_tls,         &group_doctor,         &group_log,          &group_history,
        &group_probe,       &cli_group_completion, &group_version,      &group_help,
};

const struct cli_group *const *cli_groups(size_t *ret_n)
{
        *ret_n = ARRAY_LEN(groups);
        return groups;
}

static const struct cli_group *group_find(const char *name)
{
        for (size_t i = 0; i < ARRAY_LEN(groups); i++)
                if (strcmp(groups[i]->name, name) == 0)
                        return groups[i];
        return NULL;
}

bool cli_group_is_command(const struct cli_group *g)
{
        return g->n_commands == 1 && !g->commands[0].name;
}

static const struct cli_command *command_find(const struct cli_group *g, const char *name)
{
        for (size_t i = 0; i < g->n_commands; i++)
                if (g->commands[i].name && strcmp(g->commands[i].name, name) == 0)
                        return &g->commands[i];
        return NULL;
}

/* A sentence in the column after the names of options; is_below: on a new line, after a long name.
 */
static void print_wrapped(FILE *out, bool is_below, const char *text)
{
        const int first = 26, last = 100;
        int at = first;
        fprintf(out, is_below ? "\n%*s" : "%*s", is_below ? first : 2, "");
        while (*text) {
                int len = (int)strcspn(text, " ");
                bool is_start = at == first;
                if (!is_start && at + 1 + len > last) {
                        fprintf(out, "\n%*s", first, "");
                        at = first;
                        is_start = true;
                }
                fprintf(out, "%s%.*s", is_start ? "" : " ", len, text);
                at += len + !is_start;
                text += len + (text[len] == ' ');
        }
        fputc('\n', out);
}

static void print_options(FILE *out, const char *title, const struct option_def *options)
{
        fprintf(out, "\n%s:\n", title);
        for (const struct option_def *o = options; o->name; o++) {
                char left[80];
                (void)snprintf(left, sizeof(left), "--%s%s%s", o->name,
                               o->arg && o->arg[0] != '[' ? " " : "", o->arg ? o->arg : "");
                fprintf(out, "  %-22s", left);
                print_wrapped(out, strlen(left) > 22, o->text);
        }
}

/* "NAME -- COMMAND", "NAME [-- COMMAND]": we do not parse the words after the dashes. */
static bool takes_command(const struct cli_command *c)
{
        return strstr(c->usage, "-- ") != NULL;
}

static void print_command_help(FILE *out, const struct cli_group *g, const struct cli_command *c)
{
        struct param_options from_row;
        const struct option_def *options = cli_command_options(c, &from_row);
        fprintf(out, "usage: weir %s%s%s %s%s\n\n%s\n", g->name, c->name ? " " : "",
                c->name ? c->name : "", c->usage,
                options && !cli_command_is_main(c) && !takes_command(c) ? " [options]" : "",
                c->summary);
        if (c->text)
                fprintf(out, "\n%s", c->text);
        if (options)
                print_options(out, "options", options);
        if (cli_more_options(c))
                print_options(out, "options of every listing", cli_more_options(c));
        if (!cli_command_is_main(c))
                print_options(out, "common options", options_common);
}

static void print_group_help(FILE *out, const struct cli_group *g)
{
        if (cli_group_is_command(g)) {
                print_command_help(out, g, &g->commands[0]);
                return;
        }
        fprintf(out, "usage: weir %s COMMAND ...\n\n%s\n\ncommands:\n", g->name, g->summary);
        for (size_t i = 0; i < g->n_commands; i++)
                fprintf(out, "  %-10s  %s\n", g->commands[i].name, g->commands[i].summary);
        fprintf(out, "\n'weir %s COMMAND --help' explains one.\n", g->name);
}

static void print_all_help(FILE *out)
{
        fprintf(out, "usage: weir COMMAND ...\n\n"
                     "A durable job queue: what it accepted is on disk before it answers.\n\n"
                     "commands:\n");
        for (size_t i = 0; i < ARRAY_LEN(groups); i++)
                fprintf(out, "  %-10s  %s\n", groups[i]->name, groups[i]->summary);
        fprintf(out,
                "\n'weir COMMAND --help' explains one; weir(1) is the manual.\n"
                "The server is found through --url or WEIR_URL; default " SERVER_URL_DEFAULT ".\n"
                "rediss://host connects over TLS; WEIR_TLS_CA names the authority to trust.\n");
}

static int complain(const struct problem *p, const char *hint)
{
        fprintf(stderr, "weir: %s\n", p->detail);
        if (hint && *hint)
                fprintf(stderr, "try '%s'\n", hint);
        return err_exit(p->err);
}

/* `weir add job`, `weir list`: the group whose command the word is, that of the next word first.
 * NULL: there is none. */
static const struct cli_group *group_with(const char *word, const char *next)
{
        const struct cli_group *g = next ? group_find(next) : NULL;
        if (g && command_find(g, word))
                return g;
        for (size_t i = 0; i < ARRAY_LEN(groups); i++)
                if (command_find(groups[i], word))
                        return groups[i];
        return NULL;
}

/* `next` is the word behind it, or NULL. */
static int unknown_group(const char *word, const char *next)
{
        struct problem p;
        const char *names[ARRAY_LEN(groups) + 1] = {NULL};
        const struct cli_group *g = group_with(word, next);
        for (size_t i = 0; i < ARRAY_LEN(groups); i++)
                names[i] = groups[i]->name;
        const char *near = g ? g->name : nearest_name(word, names);
        if (near)
                (void)problem_set(&p, ERR_UNKNOWN,
                                  "there is no command '%s'; did you mean '%s%s%s'?",
                                  SHOWN_STR(word), near, g ? " " : "", g ? word : "");
        else
                (void)problem_set(&p, ERR_UNKNOWN, "there is no command '%s'", SHOWN_STR(word));
        return complain(&p, "weir help");
}

static int unknown_command(const struct cli_group *g, const char *word)
{
        struct problem p;
        const char *names[16] = {NULL};
        char hint[48];
        struct buf all CLEANUP(buf_release) = {0};
        for (size_t i = 0; i < g->n_commands && i + 1 < ARRAY_LEN(names); i++) {
                names[i] = g->commands[i].name;
                buf_printf(&all, "%s%s", i ? ", " : "", names[i]);
        }
        const char *near = nearest_name(word, names);
        (void)snprintf(hint, sizeof(hint), "weir %s --help", g->name);
        if (g == &cli_group_lock && command_find(&cli_group_mutex, word))
                (void)problem_set(&p, ERR_UNKNOWN,
                                  "there is no 'lock' command '%s'; did you mean 'mutex %s'?", word,
                                  word);
        else if (near)
                (void)problem_set(&p, ERR_UNKNOWN,
                                  "there is no '%s' command '%s'; did you mean '%s'?", g->name,
                                  SHOWN_STR(word), near);
        else
                (void)problem_set(&p, ERR_UNKNOWN, "there is no '%s' command '%s'; there %s: %s",
                                  g->name, SHOWN_STR(word), g->n_commands == 1 ? "is" : "are",
                                  buf_cstr(&all));
        return complain(&p, hint);
}

/* The help of `weir import actionscheduler`, which main() runs; NULL: it is none of these. */
static const struct cli_group *group_of_actions(const char *group, const char *name)
{
        char both[64];
        (void)snprintf(both, sizeof(both), "%s %s", group ? group : "", name ? name : "");
        for (size_t i = 0; i < ARRAY_LEN(groups_of_actions); i++)
                if (strcmp(groups_of_actions[i].name, both) == 0)
                        return &groups_of_actions[i];
        return NULL;
}

int cli_help(const char *group, const char *name)
{
        const struct cli_group *actions = group_of_actions(group, name);
        const struct cli_group *g = group ? group_find(group) : NULL;
        if (actions) {
                print_group_help(stdout, actions);
        } else if (!group) {
                print_all_help(stdout);
        } else if (!g) {
                return unknown_group(group, name);
        } else if (!name || cli_group_is_command(g)) {
                print_group_help(stdout, g);
        } else {
                const struct cli_command *c = command_find(g, name);
                if (!c)
                        return unknown_command(g, name);
                print_command_help(stdout, g, c);
        }
        return fflush(stdout) == 0 ? 0 : 1;
}

int cli_write_out(struct cli *cli, struct problem *p)
{
        if (cli->out.failed)
                return problem_set(p, ERR_NOMEM, "no memory for the output");
        size_t n = cli->out.len ? fwrite(cli->out.ptr, 1, cli->out.len, stdout) : 0;
        if (n != cli->out.len || fflush(stdout) != 0)
                return problem_set(p, ERR_IO, "cannot write the output: %s", strerror(errno));
        buf_clear(&cli->out);
        return OK;
}

/* How many words a usage such as "NAME HOOK [ARGS]" asks for: those in brackets may be left out. */
static void count_words(const char *usage, size_t *ret_min, size_t *ret_max)
{
        *ret_min = *ret_max = 0;
        for (const char *at = usage; *at; at += strspn(at, " ")) {
                size_t len = strcspn(at, " ");
                bool is_optional = at[0] == '[';
                if (strncmp(at + is_optional, "--", 2) == 0)
                        return;
                if (strncmp(at, "[options]", len) != 0) {
                        *ret_min += !is_optional;
                        *ret_max += 1;
                }
                at += len;
        }
}

static int run_command(struct cli *cli, struct problem *p)
{
        const struct cli_command *c = cli->command;
        size_t min = c->min_words, max = c->max_words;
        if (!max)
                count_words(c->usage, &min, &max);
        if (cli->args.n_positional < min)
                return problem_set(p, ERR_SYNTAX, "missing argument: %s", c->usage);
        if (cli->args.n_positional > max)
                return problem_set(p, ERR_SYNTAX, "unexpected argument '%s'",
                                   SHOWN_STR(cli->args.positional[max]));
        cli->is_json = args_has(&cli->args, "json");
        int r = cli_server(&cli->args, &cli->url, p);
        if (r != OK)
                return r;
        client_init(&cli->client, &cli->url);
        screen_init(&cli->screen);
        r = c->is_local ? OK : client_connect(&cli->client, p);
        if (r == OK)
                r = args_find_value(&cli->args, "watch") ? watch_run(cli, p)
                                                         : watch_run_once(cli, p);
        struct problem unwritten;
        int written = cli_write_out(cli, &unwritten);
        if (cli->notes.len)
                fputs(buf_cstr(&cli->notes), stderr);
        client_release(&cli->client);
        buf_release(&cli->out);
        buf_release(&cli->notes);
        if (r == OK && written != OK) {
                *p = unwritten;
                return written;
        }
        return r;
}

/* Returns how many words stand before "--"; cli->rest are those after it. */
static int split_rest(struct cli *cli, int argc, char **argv)
{
        for (int i = 0; i < argc; i++) {
                if (strcmp(argv[i], "--") == 0) {
                        cli->rest = argv + i + 1;
                        return i;
                }
        }
        return argc;
}

static int run_words(struct cli *cli, const struct cli_group *g, int argc, char **argv)
{
        struct problem p = {0};
        char hint[128];
        const struct cli_command *c = cli->command;
        if (cli_command_is_main(c)) { /* only reached when an option stands before it */
                (void)problem_set(&p, ERR_SYNTAX, "'%s' must come before its options", g->name);
                return complain(&p, "weir help");
        }
        if (takes_command(c))
                argc = split_rest(cli, argc, argv);
        bool is_unsplit = takes_command(c) && !cli->rest;
        (void)snprintf(hint, sizeof(hint), "weir %s%s%s %s", g->name, c->name ? " " : "",
                       c->name ? c->name : "", is_unsplit ? c->usage : "--help");
        cli->args.more = cli_more_options(c);
        const struct option_def *options = cli_command_options(c, &cli->options);
        int r = args_parse(&cli->args, options, argv, argc, &p);
        if (r == OK && args_has(&cli->args, "help")) {
                print_command_help(stdout, g, c);
                return fflush(stdout) == 0 ? 0 : 1;
        }
        if (r == OK && args_find_value(&cli->args, "backoff"))
                r = backoff_check(args_find_value(&cli->args, "backoff"), &p);
        if (r == OK)
                r = run_command(cli, &p);
        int code = r == OK ? cli->exit_code : complain(&p, r == ERR_SYNTAX ? hint : NULL);
        interrupt_end();
        return code;
}

/* How many words an option that a command of the group has, and that takes a value, is here: "--a
 * b" or "--a=b"; 0: it is none. */
static int leading_words(const struct cli_group *g, const char *word)
{
        size_t len = strcspn(word, "=");
        for (size_t i = 0; strncmp(word, "--", 2) == 0 && i < g->n_commands; i++)
                for (const struct option_def *o = g->commands[i].options; o && o->name; o++)
                        if (o->arg && strlen(o->name) == len - 2 &&
                            strncmp(o->name, word + 2, len - 2) == 0)
                                return word[len] == '=' ? 1 : 2;
        return 0;
}

/* "--wordpress shop list" becomes "list --wordpress shop".  False when no command follows. */
static bool bring_command_first(const struct cli_group *g, int argc, char **argv)
{
        int before = 0;
        for (int n; before < argc && (n = leading_words(g, argv[before])) > 0;)
                before += n;
        if (before >= argc)
                return false;
        char *command = argv[before];
        memmove(argv + 1, argv, (size_t)before * sizeof(*argv));
        argv[0] = command;
        return true;
}

/* Nothing, or options of a list alone: `weir proxy --json`. */
static bool lacks_command(int argc, char **argv)
{
        return argc == 0 ||
               (argv[0][0] == '-' && strcmp(argv[0], "--help") != 0 && strcmp(argv[0], "-h") != 0);
}

static int run_group(struct cli *cli, const struct cli_group *g, int argc, char **argv)
{
        if (cli_group_is_command(g)) {
                cli->command = &g->commands[0];
                return run_words(cli, g, argc, argv);
        }
        if (g == &cli_group_proxy && lacks_command(argc, argv)) {
                cli->command = command_find(g, "list");
                return run_words(cli, g, argc, argv);
        }
        if (!bring_command_first(g, argc, argv)) {
                print_group_help(stderr, g);
                return err_exit(ERR_SYNTAX);
        }
        if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
                return cli_help(g->name, NULL);
        if (strcmp(argv[0], "help") == 0)
                return cli_help(g->name, argc > 1 ? argv[1] : NULL);
        cli->command = command_find(g, argv[0]);
        if (!cli->command)
                return unknown_command(g, argv[0]);
        return run_words(cli, g, argc - 1, argv + 1);
}

int cli_main(int argc, char **argv)
{
        struct cli cli = {0};
        struct problem p = {0};
        int used = 0;
        /* `weir job list | head` ends quietly, even when the parent ignores SIGPIPE. */
        (void)signal(SIGPIPE, SIG_DFL);
        if (args_parse_leading(&cli.args, argv, argc, &used, &p) != OK)
                return complain(&p, "weir help");
        if (args_has(&cli.args, "help"))
                return cli_help(used < argc ? argv[used] : NULL, NULL);
        if (used == argc) {
                print_all_help(stderr);
                return err_exit(ERR_SYNTAX);
        }
        const char *word = argv[used];
        argc -= used + 1;
        argv += used + 1;
        if (strcmp(word, "help") == 0)
                return cli_help(argc > 0 ? argv[0] : NULL, argc > 1 ? argv[1] : NULL);
        const struct cli_group *g = group_find(word);
        return g ? run_group(&cli, g, argc, argv) : unknown_group(word, argc > 0 ? argv[0] : NULL);
}

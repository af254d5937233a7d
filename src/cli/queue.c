/* weir queue: list, show, set, pause, resume.
 *
 * Jobs make queues, so that the server takes any name.  A person who steers a queue means one that
 * exists: here a name that does not exist is an error, with the nearest one, unless --create is
 * given. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/listing.h"
#include "cli/queue_name.h"
#include "cli/text.h"

static const struct column columns[] = {
        {"QUEUE", false, true},     {"STATE", false, false},  {"READY", true, false},
        {"SCHEDULED", true, false}, {"WAITING", true, false}, {"RUNNING", true, false},
        {"COMPLETED", true, false}, {"FAILED", true, false},  {"CANCELED", true, false},
        {"OLDEST", false, false},
};

static void list_row(struct table *t, const struct value *q, int64_t now_ms)
{
        static const char *const numbers[] = {"ready",     "scheduled", "waiting", "running",
                                              "completed", "failed",    "canceled"};
        int64_t oldest_ms = field_int(q, "oldest_due_ms");
        bool is_paused = field_is_true(q, "paused");
        struct buf oldest CLEANUP(buf_release) = {0};
        if (oldest_ms > 0)
                duration_put(&oldest, now_ms > oldest_ms ? now_ms - oldest_ms : 0);
        table_add(t, field_text(q, "name"), TONE_PLAIN);
        table_add(t, slice_str(is_paused ? "paused" : "open"),
                  is_paused ? TONE_YELLOW : TONE_PLAIN);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                table_add_int(t, field_int(q, numbers[i]));
        table_add(t, buf_slice(&oldest), TONE_PLAIN);
}

static const struct listing listing = {
        .command = "QUEUES",
        .empty = "no queues yet: the first job makes one\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
};

static int queue_list(struct cli *cli, struct problem *p)
{
        const struct value *now;
        struct cli_request req;
        int r = listing_run(cli, &listing, p);
        if (r != OK || cli->is_json)
                return r;
        cli_request_init(&req, "NOW");
        r = cli_request_call(cli, &req, &now, p);
        if (r == OK && field_is_true(now, "everything_paused"))
                buf_put_str(&cli->notes, "everything is paused: no job starts before 'weir "
                                         "resume'\n");
        return r;
}

/* ---- a name that does not exist ---- */

/* Says more of ERR_NOTFOUND; anything else is passed on. */
static int explain(struct cli *cli, int r, bool can_create, struct problem *p)
{
        struct buf near CLEANUP(buf_release) = {0};
        const char *name = cli->args.positional[0];
        if (r != ERR_NOTFOUND)
                return r;
        (void)queue_name_look(cli, name, &near); /* that it does not exist is known */
        return problem_set(p, ERR_NOTFOUND, "there is no queue '%s'%s%s%s%s", SHOWN_STR(name),
                           near.len ? "; did you mean '" : "", SHOWN(buf_slice(&near)),
                           near.len ? "'?" : "", can_create ? " (--create makes a new one)" : "");
}

/* ---- show ---- */

static void show_label(struct cli *cli, const char *name)
{
        cli_put_label(cli, 12, name);
}

static void show_counts(struct cli *cli, const struct value *q)
{
        static const char *const counts[] = {"ready",    "scheduled", "waiting", "running",
                                             "enqueued", "completed", "failed",  "canceled"};
        int64_t oldest_ms = field_int(q, "oldest_due_ms");
        int64_t now_ms = clock_wall_ms();
        for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
                show_label(cli, counts[i]);
                buf_put_i64(&cli->out, field_int(q, counts[i]));
                buf_put_byte(&cli->out, '\n');
        }
        if (oldest_ms <= 0)
                return;
        show_label(cli, "oldest");
        duration_put(&cli->out, now_ms > oldest_ms ? now_ms - oldest_ms : 0);
        buf_put_byte(&cli->out, '\n');
}

/* A number, or what its 0 means. */
static void show_number(struct cli *cli, const char *name, int64_t n, const char *none)
{
        show_label(cli, name);
        if (n)
                buf_put_i64(&cli->out, n);
        else
                buf_put_str(&cli->out, none);
        buf_put_byte(&cli->out, '\n');
}

static void show_settings(struct cli *cli, const struct value *q)
{
        static const char *const texts[] = {"fair", "backoff", "history"};
        int64_t lease_ms = field_int(q, "lease");
        buf_put_str(&cli->out, "settings\n");
        show_number(cli, "cap", field_int(q, "cap"), "any number of jobs");
        show_number(cli, "claim size", field_int(q, "claimsize"), "as many as a claim asks for");
        show_number(cli, "claims", field_int(q, "claims"), "any number of claims");
        show_label(cli, "lease");
        if (lease_ms)
                duration_put(&cli->out, lease_ms);
        else
                buf_put_str(&cli->out, "5 min (the default)");
        buf_put_byte(&cli->out, '\n');
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                show_label(cli, texts[i]);
                text_put_safe(&cli->out, field_text(q, texts[i]));
                buf_put_byte(&cli->out, '\n');
        }
}

static void show_queue(struct cli *cli, const struct value *v)
{
        bool is_paused = field_is_true(v, "paused");
        buf_put_str(&cli->out, "queue ");
        text_put_safe(&cli->out, field_text(v, "name"));
        buf_put_str(&cli->out, "  ");
        screen_put_toned(&cli->screen, &cli->out, is_paused ? TONE_YELLOW : TONE_PLAIN,
                         slice_str(is_paused ? "paused" : "open"));
        buf_put_byte(&cli->out, '\n');
        show_counts(cli, v);
        show_settings(cli, v);
}

static int queue_show(struct cli *cli, struct problem *p)
{
        return explain(cli, cli_show_named(cli, "QUEUE", show_queue, p), false, p);
}

/* ---- changes ---- */

static int change_one(struct cli *cli, const char *command, const char *done, struct problem *p)
{
        struct cli_request req;
        bool is_pause = strcmp(command, "PAUSE") == 0;
        cli_request_init_named(&req, cli, command);
        if (is_pause && !args_has(&cli->args, "create"))
                cli_request_add_str(&req, "EXISTING");
        return explain(cli, cli_change(cli, &req, done, p), is_pause, p);
}

/* Those whose state differs.  The names are copied: each answer takes the place of the last. */
static int change_all(struct cli *cli, const char *command, const char *done, struct problem *p)
{
        struct buf names CLEANUP(buf_release) = {0};
        bool is_pause = strcmp(command, "PAUSE") == 0;
        const struct value *v;
        struct cli_request req;
        uint64_t n = 0;
        cli_request_init(&req, "QUEUES");
        int r = cli_request_call(cli, &req, &v, p);
        for (size_t i = 0; r == OK && i < list_len(v); i++) {
                if (field_is_true(&v->items[i], "paused") == is_pause)
                        continue;
                buf_put_slice(&names, field_text(&v->items[i], "name"));
                buf_put_byte(&names, '\0');
                n++;
        }
        for (size_t at = 0; r == OK && at < names.len; at += strlen(names.ptr + at) + 1) {
                cli_request_init(&req, command);
                cli_request_add_str(&req, names.ptr + at);
                r = cli_request_call(cli, &req, &v, p);
        }
        if (r != OK)
                return r;
        if (cli->is_json)
                buf_printf(&cli->out, "{\"%s\":%llu}\n", done, (unsigned long long)n);
        else
                buf_printf(&cli->out, "%s %llu %s\n", done, (unsigned long long)n,
                           plural(n, "queue", "queues"));
        return OK;
}

static int change_queues(struct cli *cli, const char *command, const char *done, struct problem *p)
{
        bool is_all = args_has(&cli->args, "all");
        char one[32];
        if (is_all == (cli->args.n_positional > 0))
                return problem_set(p, ERR_SYNTAX, "name a QUEUE, or say --all%s",
                                   is_all ? ", not both" : "");
        if (is_all && strcmp(command, "PAUSE") == 0 && args_has(&cli->args, "create"))
                return problem_set(p, ERR_SYNTAX, "--create goes with the name of a QUEUE");
        (void)snprintf(one, sizeof(one), "%s queue", done);
        return is_all ? change_all(cli, command, done, p) : change_one(cli, command, one, p);
}

static int queue_pause(struct cli *cli, struct problem *p)
{
        return change_queues(cli, "PAUSE", "paused", p);
}

static int queue_resume(struct cli *cli, struct problem *p)
{
        return change_queues(cli, "RESUME", "resumed", p);
}

static const char *const settings[][2] = {
        {"cap", "CAP"},   {"claim-size", "CLAIMSIZE"}, {"claims", "CLAIMS"},
        {"fair", "FAIR"}, {"backoff", "BACKOFF"},      {"history", "HISTORY"},
};

static int queue_set(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const char *lease = args_get(&cli->args, "lease");
        int64_t lease_ms;
        cli_request_init_named(&req, cli, "QUEUESET");
        size_t n_words = req.argc;
        for (size_t i = 0; i < ARRAY_LEN(settings); i++)
                cli_request_add_option(&req, &cli->args, settings[i][0], settings[i][1]);
        if (lease) {
                int r = duration_parse("--lease", lease, &lease_ms, p);
                if (r != OK)
                        return r;
                cli_request_add_str(&req, "LEASE");
                cli_request_add_int(&req, lease_ms);
        }
        if (req.argc == n_words)
                return problem_set(p, ERR_SYNTAX, "say what to set");
        if (!args_has(&cli->args, "create"))
                cli_request_add_str(&req, "EXISTING");
        return explain(cli, cli_change(cli, &req, "set queue", p), true, p);
}

static int queue_remove(struct cli *cli, struct problem *p)
{
        return explain(cli, cli_change_named(cli, "UNQUEUE", "removed queue", p), false, p);
}

/* clang-format off */
#define CREATE_OPTION {"create", NULL, "also when no job has named the queue yet"}
/* clang-format on */

static const struct option_def set_options[] = {
        {"cap", "N", "jobs of the queue that may run at once; 0: any number"},
        {"claim-size", "N", "jobs one claim may take; 0: as many as it asks for"},
        {"claims", "N", "claims that may have running jobs at once; 0: any number"},
        {"lease", "DURATION", "lease of jobs and claims that name none; 0s: 5m, the default"},
        {"fair", "on|off", "turns between the groups of its jobs, by their weights"},
        {"backoff", "RULE",
         "of jobs without one: default, none, fixed:5s, exp:5s,2,5m,15%, list:1s,30s"},
        {"history", "POLICY", "finished jobs to keep: default, full, failures or none"},
        CREATE_OPTION,
        {NULL, NULL, NULL},
};

static const struct option_def pause_options[] = {
        {"all", NULL, "every queue there is; 'weir pause' stops new ones too"},
        CREATE_OPTION,
        {NULL, NULL, NULL},
};

static const struct option_def resume_options[] = {
        {"all", NULL, "every queue that is paused"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"list", "", "List queues with their counts.",
         "WAITING jobs wait for another job, a key, a limit or a breaker: 'weir job why' says\n"
         "for which. OLDEST is how long the first ready job has been waiting.\n\n"
         "  weir queue list\n",
         NULL, 0, 0, false, queue_list},
        {"show", "QUEUE", "Show a queue with its settings.", "  weir queue show mail\n", NULL, 1, 1,
         false, queue_show},
        {"set", "QUEUE", "Change settings of a queue while it runs.",
         "What is not named stays as it is. As Action Scheduler would run it, 25 jobs a batch and\n"
         "one batch at a time:\n\n"
         "  weir queue set default --claim-size 25 --claims 1 --lease 5m\n",
         set_options, 1, 1, false, queue_set},
        {"pause", "QUEUE | --all", "Hand out no more jobs of a queue, or of all there are.",
         "Jobs are still taken in, and those that run may finish.\n\n"
         "  weir queue pause mail\n"
         "  weir queue pause --all\n",
         pause_options, 0, 1, false, queue_pause},
        {"resume", "QUEUE | --all", "Hand out the jobs of paused queues again.", NULL,
         resume_options, 0, 1, false, queue_resume},
        {"remove", "QUEUE", "Remove a queue that has no jobs, with its settings and its pause.",
         "History keeps the jobs that ended. The next job that names the queue makes it anew.\n\n"
         "  weir queue remove mial\n",
         NULL, 1, 1, false, queue_remove},
};

const struct cli_group cli_group_queue = {"queue",
                                          "List, show, set, pause, resume and remove queues.",
                                          commands, ARRAY_LEN(commands)};

/* weir queue: list, show, set, pause, resume. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/json.h"
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
        int64_t oldest_ms = value_int(value_get(q, "oldest_due_ms"), 0);
        bool is_paused = value_int(value_get(q, "paused"), 0) != 0;
        struct buf oldest CLEANUP(buf_release);
        buf_init(&oldest, 0);
        if (oldest_ms > 0)
                duration_put(&oldest, now_ms > oldest_ms ? now_ms - oldest_ms : 0);
        table_add(t, value_text(value_get(q, "name")), TONE_PLAIN);
        table_add(t, slice_str(is_paused ? "paused" : "open"),
                  is_paused ? TONE_YELLOW : TONE_PLAIN);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                table_add_int(t, value_int(value_get(q, numbers[i]), 0));
        table_add(t, buf_slice(&oldest), TONE_PLAIN);
}

static int queue_list(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, "QUEUES");
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                value_put_json(&cli->out, v);
                buf_put_byte(&cli->out, '\n');
                return OK;
        }
        if (v->n == 0) {
                buf_put_str(&cli->notes, "no queues yet: the first job makes one\n");
                return OK;
        }
        struct table t;
        table_init(&t, columns, ARRAY_LEN(columns));
        for (size_t i = 0; i < v->n; i++)
                list_row(&t, &v->items[i], clock_wall_ms());
        table_print(&t, &cli->screen, &cli->out);
        table_release(&t);
        return OK;
}

/* ---- show ---- */

static void show_label(struct cli *cli, const char *name)
{
        char label[24];
        int len = snprintf(label, sizeof(label), "  %-12s", name);
        screen_put_toned(&cli->screen, &cli->out, TONE_DIM, slice_make(label, (size_t)len));
}

static void show_counts(struct cli *cli, const struct value *q)
{
        static const char *const counts[] = {"ready",    "scheduled", "waiting", "running",
                                             "enqueued", "completed", "failed",  "canceled"};
        int64_t oldest_ms = value_int(value_get(q, "oldest_due_ms"), 0);
        int64_t now_ms = clock_wall_ms();
        for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
                show_label(cli, counts[i]);
                buf_put_i64(&cli->out, value_int(value_get(q, counts[i]), 0));
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
        int64_t lease_ms = value_int(value_get(q, "lease"), 0);
        buf_put_str(&cli->out, "settings\n");
        show_number(cli, "cap", value_int(value_get(q, "cap"), 0), "any number of jobs");
        show_number(cli, "claim size", value_int(value_get(q, "claimsize"), 0),
                    "as many as a claim asks for");
        show_number(cli, "claims", value_int(value_get(q, "claims"), 0), "any number of claims");
        show_label(cli, "lease");
        if (lease_ms)
                duration_put(&cli->out, lease_ms);
        else
                buf_put_str(&cli->out, "5 min (the default)");
        buf_put_byte(&cli->out, '\n');
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                show_label(cli, texts[i]);
                text_put_safe(&cli->out, value_text(value_get(q, texts[i])));
                buf_put_byte(&cli->out, '\n');
        }
}

static int queue_show(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, "QUEUE");
        cli_request_add_str(&req, cli->args.positional[0]);
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                value_put_json(&cli->out, v);
                buf_put_byte(&cli->out, '\n');
                return OK;
        }
        bool is_paused = value_int(value_get(v, "paused"), 0) != 0;
        buf_put_str(&cli->out, "queue ");
        text_put_safe(&cli->out, value_text(value_get(v, "name")));
        buf_put_str(&cli->out, "  ");
        screen_put_toned(&cli->screen, &cli->out, is_paused ? TONE_YELLOW : TONE_PLAIN,
                         slice_str(is_paused ? "paused" : "open"));
        buf_put_byte(&cli->out, '\n');
        show_counts(cli, v);
        show_settings(cli, v);
        return OK;
}

/* ---- changes ---- */

/* A command that answers OK; `done` is what was done, for people. */
static int call_ok(struct cli *cli, const struct cli_request *req, const char *done,
                   struct problem *p)
{
        const struct value *v;
        int r = cli_request_call(cli, req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                value_put_json(&cli->out, v);
        } else {
                buf_printf(&cli->out, "%s queue ", done);
                text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        }
        buf_put_byte(&cli->out, '\n');
        return OK;
}

static int change(struct cli *cli, const char *command, const char *done, struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, command);
        cli_request_add_str(&req, cli->args.positional[0]);
        return call_ok(cli, &req, done, p);
}

static int queue_pause(struct cli *cli, struct problem *p)
{
        return change(cli, "PAUSE", "paused", p);
}

static int queue_resume(struct cli *cli, struct problem *p)
{
        return change(cli, "RESUME", "resumed", p);
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
        cli_request_init(&req, "QUEUESET");
        cli_request_add_str(&req, cli->args.positional[0]);
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
        return call_ok(cli, &req, "set", p);
}

static const struct option_def set_options[] = {
        {"cap", "N", "jobs of the queue that may run at once; 0: any number"},
        {"claim-size", "N", "jobs one claim may take; 0: as many as it asks for"},
        {"claims", "N", "claims that may have running jobs at once; 0: any number"},
        {"lease", "DURATION", "lease of jobs and claims that name none; 0s: 5m, the default"},
        {"fair", "on|off", "turns between the groups of its jobs, by their weights"},
        {"backoff", "RULE", "of jobs without one: none, fixed:5s, exp:5s,2,5m,15%, list:1s,30s"},
        {"history", "POLICY", "finished jobs to keep: default, full, failures or none"},
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
        {"pause", "QUEUE", "Hand out no more jobs of a queue.",
         "Jobs are still taken in, and those that run may finish.\n", NULL, 1, 1, false,
         queue_pause},
        {"resume", "QUEUE", "Hand out the jobs of a paused queue again.", NULL, NULL, 1, 1, false,
         queue_resume},
};

const struct cli_group cli_group_queue = {"queue", "List, show, set, pause and resume queues.",
                                          commands, ARRAY_LEN(commands)};

/* weir queue: list, show, set, pause, resume. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/listing.h"
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
        return listing_run(cli, &listing, p);
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
        return cli_show_named(cli, "QUEUE", show_queue, p);
}

/* ---- changes ---- */

static int queue_pause(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "PAUSE", "paused queue", p);
}

static int queue_resume(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "RESUME", "resumed queue", p);
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
        return cli_change(cli, &req, "set queue", p);
}

static int queue_remove(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "UNQUEUE", "removed queue", p);
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
        {"remove", "QUEUE", "Remove a queue that has no jobs, with its settings and its pause.",
         "History keeps the jobs that ended. The next job that names the queue makes it anew.\n\n"
         "  weir queue remove mial\n",
         NULL, 1, 1, false, queue_remove},
};

const struct cli_group cli_group_queue = {"queue",
                                          "List, show, set, pause, resume and remove queues.",
                                          commands, ARRAY_LEN(commands)};

/* weir queue: list, pause, resume. */
#include "base/clock.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/text.h"

static const struct column columns[] = {
        {"QUEUE", false, true},     {"STATE", false, false},   {"READY", true, false},
        {"SCHEDULED", true, false}, {"RUNNING", true, false},  {"COMPLETED", true, false},
        {"FAILED", true, false},    {"CANCELED", true, false}, {"OLDEST", false, false},
};

static void list_row(struct table *t, const struct value *q, int64_t now_ms)
{
        static const char *const numbers[] = {"ready",     "scheduled", "running",
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

static int change(struct cli *cli, const char *command, const char *done, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, command);
        cli_request_add_str(&req, cli->args.positional[0]);
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json)
                value_put_json(&cli->out, v);
        else
                buf_printf(&cli->out, "%s queue %s", done, cli->args.positional[0]);
        buf_put_byte(&cli->out, '\n');
        return OK;
}

static int queue_pause(struct cli *cli, struct problem *p)
{
        return change(cli, "PAUSE", "paused", p);
}

static int queue_resume(struct cli *cli, struct problem *p)
{
        return change(cli, "RESUME", "resumed", p);
}

static const struct cli_command commands[] = {
        {"list", "", "List queues with their counts.",
         "OLDEST is how long the first ready job has been waiting.\n", NULL, 0, 0, false,
         queue_list},
        {"pause", "QUEUE", "Hand out no more jobs of a queue.",
         "Jobs are still taken in, and those that run may finish.\n", NULL, 1, 1, false,
         queue_pause},
        {"resume", "QUEUE", "Hand out the jobs of a paused queue again.", NULL, NULL, 1, 1, false,
         queue_resume},
};

const struct cli_group cli_group_queue = {"queue", "List, pause and resume queues.", commands,
                                          ARRAY_LEN(commands)};

/* weir schedule: add, list, show, pause, resume, run, next, remove. */
#include "base/clock.h"
#include "cli/json.h"
#include "cli/listing.h"
#include "cli/text.h"

static enum tone state_tone(const struct value *v)
{
        if (field_is(v, "state", "active"))
                return TONE_GREEN;
        if (field_is(v, "state", "stopped"))
                return TONE_RED;
        return field_is(v, "state", "paused") ? TONE_YELLOW : TONE_DIM;
}

/* "every 5 min", or the expression and its zone. */
static void put_times(struct buf *b, const struct value *v, int64_t now_ms)
{
        struct slice cron = field_text(v, "cron");
        (void)now_ms;
        if (!cron.len) {
                buf_put_str(b, "every ");
                duration_put(b, field_int(v, "every_ms"));
                return;
        }
        buf_put_slice(b, cron);
        buf_put_byte(b, ' ');
        buf_put_slice(b, field_text(v, "zone"));
}

/* ---- add ---- */

static void say_added(struct cli *cli, const struct value *v)
{
        /* A record: a list in RESP. */
        bool is_new = v->n > 0 && value_int(&v->items[0], 0);
        int64_t next_ms = v->n > 2 ? value_int(&v->items[2], 0) : 0;
        buf_printf(&cli->out, "%s schedule ", is_new ? "added" : "replaced");
        text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        if (next_ms > 0) {
                buf_put_str(&cli->out, ", next at ");
                moment_put(&cli->out, next_ms);
        } else if (v->n > 1) {
                buf_put_str(&cli->out, ", which is ");
                text_put_safe(&cli->out, value_text(&v->items[1]));
        }
        buf_put_byte(&cli->out, '\n');
}

static int schedule_add(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        struct buf payload CLEANUP(buf_release) = {0};
        int r = OK;
        if (cli->args.n_positional > 2)
                r = cli_read_args(cli->args.positional[2], &payload, p);
        if (r != OK)
                return r;
        cli_request_init_named(&req, cli, "SCHEDULE");
        cli_request_add_str(&req, cli->args.positional[1]);
        cli_request_add(&req, buf_slice(&payload));
        r = cli_request_add_params(&req, cli, p);
        if (r == OK)
                r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (!cli->is_json) {
                say_added(cli, v);
                return OK;
        }
        static const char *const keys[] = {"{\"created\":", ",\"state\":", ",\"next_ms\":"};
        for (size_t i = 0; i < ARRAY_LEN(keys) && i < v->n; i++) {
                buf_put_str(&cli->out, keys[i]);
                value_put_json(&cli->out, &v->items[i]);
        }
        buf_put_str(&cli->out, "}\n");
        return OK;
}

/* ---- list ---- */

static const struct column columns[] = {
        {"SCHEDULE", .key = "name", .may_shrink = true},
        {"STATE", .key = "state", .tone_of = state_tone},
        {"HOOK", .key = "hook", .may_shrink = true},
        {"QUEUE", .key = "queue", .may_shrink = true},
        {"TIMES", .put = put_times, .may_shrink = true},
        {"NEXT", .key = "next_ms", .as = AS_RELATIVE},
        {"LAST", .key = "last_slot_ms", .as = AS_RELATIVE},
        {"FAILED", .key = "failures", .as = AS_INT},
};

static const struct listing listing = {
        .key = "schedules",
        .empty = "no schedules\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

/* ---- show ---- */

#define LABEL_WIDTH 13

static const struct field_line lines[] = {
        {"reason", .key = "reason"},
        {"times", .put = put_times},
        {"first", .key = "first_ms", .as = AS_MOMENT},
        {"until", .key = "until_ms", .as = AS_MOMENT},
        {"jitter", .key = "jitter_ms", .as = AS_DURATION},
        {"missed", .key = "missed"},
        {"window", .key = "window_ms", .as = AS_DURATION},
        {"overlap", .key = "overlap"},
        {"stop after", .key = "stop_after", .as = AS_INT, .none = "0"},
        {"hook", .key = "hook"},
        {"args", .key = "args"},
        {"queue", .key = "queue"},
        {"group", .key = "group"},
        {"backoff", .key = "backoff"},
        {"key", .key = "key"},
        {"limit", .key = "limit"},
        {"target", .key = "target"},
        {"traceparent", .key = "traceparent"},
        {"priority", .key = "priority", .as = AS_INT, .none = "0"},
        {"attempts", .key = "attempts", .as = AS_INT, .none = "0"},
        {"timeout", .key = "timeout_ms", .as = AS_DURATION},
        {"max run", .key = "maxrun_ms", .as = AS_DURATION},
        {"key max", .key = "key_max", .as = AS_INT},
        {"expires", .key = "expires_ms", .as = AS_DURATION},
        {"result for", .key = "result_ms", .as = AS_DURATION},
        {"last slot", .key = "last_slot_ms", .as = AS_MOMENT},
        {"last job", .key = "last_job", .as = AS_INT},
        {"jobs", .key = "jobs", .as = AS_INT, .none = "0"},
        {"not ended", .key = "live_jobs", .as = AS_INT, .none = "0"},
        {"slots missed", .key = "missed_slots", .as = AS_INT, .none = "0"},
        {"overlapped", .key = "overlapped_slots", .as = AS_INT, .none = "0"},
        {"failures", .key = "failures", .as = AS_INT, .none = "0"},
        {.label = NULL},
};

static void show_schedule(struct cli *cli, const struct value *v)
{
        const struct value *next = value_get(v, "next");
        buf_put_str(&cli->out, "schedule ");
        text_put_safe(&cli->out, field_text(v, "name"));
        buf_put_str(&cli->out, "  ");
        screen_put_toned(&cli->screen, &cli->out, state_tone(v), field_text(v, "state"));
        buf_put_byte(&cli->out, '\n');
        put_field_lines(&cli->screen, &cli->out, LABEL_WIDTH, lines, v);
        for (size_t i = 0; field_int(v, "next_ms") && i < list_len(next); i++) {
                put_label(&cli->screen, &cli->out, LABEL_WIDTH, i ? "" : "next");
                put_moment_line(&cli->out, value_int(&next->items[i], 0), clock_wall_ms());
        }
}

/* ---- run, next ---- */

static void show_added(struct cli *cli, const struct value *v)
{
        buf_printf(&cli->out, "added job %lld\n", (long long)value_int(v, 0));
}

static bool has_times(const struct args *args)
{
        static const char *const options[] = {"cron", "every", "zone", "first", "until"};
        for (size_t i = 0; i < ARRAY_LEN(options); i++)
                if (args_has(args, options[i]))
                        return true;
        return false;
}

/* Of a schedule as it is, or of times that it would get; without a name, of times alone. */
static int ask_next(struct cli *cli, struct cli_request *req, struct problem *p)
{
        const char *name = cli->args.n_positional ? cli->args.positional[0] : NULL;
        if (!has_times(&cli->args)) {
                if (!name)
                        return problem_set(p, ERR_SYNTAX, "give NAME, --cron or --every");
                cli_request_init(req, "NEXTRUNS");
                cli_request_add_str(req, name);
                return OK;
        }
        if (!args_has(&cli->args, "cron") && !args_has(&cli->args, "every"))
                return problem_set(p, ERR_SYNTAX,
                                   "--zone, --first and --until go with --cron or "
                                   "--every");
        cli_request_init(req, "SCHEDULETRY");
        if (name) {
                cli_request_add_str(req, "NAME");
                cli_request_add_str(req, name);
        }
        return OK;
}

static void show_slots(struct cli *cli, const struct value *v)
{
        int64_t now_ms = clock_wall_ms();
        for (size_t i = 0; i < v->n; i++) {
                moment_put(&cli->out, value_int(&v->items[i], 0));
                buf_put_str(&cli->out, "  ");
                moment_put_relative(&cli->out, value_int(&v->items[i], 0), now_ms);
                buf_put_byte(&cli->out, '\n');
        }
        if (!v->n)
                buf_put_str(&cli->notes, "it has no more slots\n");
}

static int schedule_next(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        int r = ask_next(cli, &req, p);
        if (r == OK)
                r = cli_request_add_params(&req, cli, p);
        return r == OK ? cli_show(cli, &req, show_slots, p) : r;
}

static const struct cli_command commands[] = {
        {"add", "NAME HOOK [ARGS]", "Set a schedule, new or in place of the one with that name.",
         "The same times again leave it where it is, so it can be part of a deployment.\n"
         "ARGS is the text itself, @FILE, or - for standard input.\n\n"
         "  weir schedule add report nightly-report --cron '30 4 * * *' --zone "
         "Europe/Berlin\n"
         "  weir schedule add sync pull '{\"shop\":1}' --every 5m --overlap skip\n",
         .command = "SCHEDULE", .run = schedule_add},
        {"list", "", "List schedules by name.", "FAILED is how many jobs have failed in a row.\n",
         .command = "SCHEDULES", .listing = &listing},
        {"show", "NAME", "Show a schedule: what, when, and what came of it.", NULL,
         .command = "SCHEDULED", .show = show_schedule},
        {"pause", "NAME", "Make no more jobs of a schedule until it is resumed.",
         "Jobs it has made go on.\n", .command = "PAUSESCHEDULE", .done = "paused schedule"},
        {"resume", "NAME", "Let a paused or stopped schedule go on.",
         "It goes on with the next slot; those that went by are not made up for.\n",
         .command = "RESUMESCHEDULE", .done = "resumed schedule"},
        {"run", "NAME", "Make a job of a schedule now, outside its slots.", NULL,
         .command = "RUNSCHEDULE", .show = show_added},
        {"next", "[NAME]", "Tell the next slots of a schedule, or of times before they are set.",
         "With --cron or --every nothing is set: it tells what 'add' would make of them,\n"
         "for a new schedule or for NAME.\n\n"
         "  weir schedule next report --count 3\n"
         "  weir schedule next --cron '30 4 * * MON-FRI' --zone Europe/Berlin\n",
         .command = "SCHEDULETRY", .apart = "name", .run = schedule_next},
        {"remove", "NAME", "Remove a schedule. Jobs it has made stay.", NULL,
         .command = "UNSCHEDULE", .done = "removed schedule"},
};

const struct cli_group cli_group_schedule = {"schedule", "Run jobs at times, again and again.",
                                             commands, ARRAY_LEN(commands)};

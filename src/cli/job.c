/* weir job: list, show, why, events; add, cancel and retry have files of their own.
 *
 * `show` is the page an operator reads at night: every field that says something, what the job
 * was given and what it gave back, and then its story, one line an event. */
#include <stdio.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/add.h"
#include "cli/cancel.h"
#include "cli/json.h"
#include "cli/listing.h"
#include "cli/queue_name.h"
#include "cli/retry.h"
#include "cli/text.h"

#define LIST_ALL_STEP "1000" /* the server's most: few round trips for --all */

static enum tone status_tone(const struct value *job)
{
        static const struct {
                const char *status;
                enum tone tone;
        } tones[] = {
                {"pending", TONE_YELLOW}, {"in-progress", TONE_BLUE}, {"complete", TONE_GREEN},
                {"failed", TONE_RED},     {"canceled", TONE_DIM},
        };
        for (size_t i = 0; i < ARRAY_LEN(tones); i++)
                if (field_is(job, "status", tones[i].status))
                        return tones[i].tone;
        return TONE_PLAIN;
}

/* What matters about its time: when it will run, since when it runs, how long ago it ended. */
static void put_when(struct buf *b, const struct value *job, int64_t now_ms)
{
        int64_t due = field_int(job, "due_ms"), started = field_int(job, "started_ms");
        int64_t finished = field_int(job, "finished_ms");
        struct slice status = field_text(job, "status");
        if (finished > 0) {
                moment_put_relative(b, finished, now_ms);
        } else if (slice_eq(status, SLICE_LIT("in-progress")) && started > 0) {
                buf_put_str(b, "for ");
                duration_put(b, now_ms > started ? now_ms - started : 0);
        } else if (due > now_ms) {
                moment_put_relative(b, due, now_ms);
        } else {
                buf_put_str(b, "due for ");
                duration_put(b, now_ms - due);
        }
}

static void put_attempt(struct buf *b, const struct value *job, int64_t now_ms)
{
        (void)now_ms;
        buf_printf(b, "%lld/%lld", (long long)field_int(job, "attempt"),
                   (long long)field_int(job, "attempts"));
}

/* A listing shows the beginning only, also in a pipe: a row of a megabyte is of no use. */
static void put_detail(struct buf *b, const struct value *job, int64_t now_ms)
{
        struct slice error = field_text(job, "error"), progress = field_text(job, "progress");
        struct slice detail = field_text(job, "args");
        (void)now_ms;
        if (field_is(job, "status", "failed") && error.len)
                detail = error;
        else if (field_is(job, "status", "in-progress") && progress.len)
                detail = progress;
        buf_put(b, detail.ptr, shown_len(detail, 200));
}

static const struct column list_columns[] = {
        {"ID", .key = "id", .as = AS_INT},
        {"STATUS", .key = "status", .tone_of = status_tone},
        {"HOOK", .key = "hook", .may_shrink = true},
        {"QUEUE", .key = "queue", .may_shrink = true},
        {"GROUP", .key = "group", .may_shrink = true},
        {"ATTEMPT", .put = put_attempt, .is_right = true},
        {"WHEN", .put = put_when, .tone = TONE_DIM},
        {"DETAIL", .put = put_detail, .may_shrink = true},
};

static int list_prepare(struct cli *cli, struct cli_request *req, struct problem *p)
{
        if (args_has(&cli->args, "all") && !args_has(&cli->args, "limit")) {
                cli_request_add_str(req, "LIMIT");
                cli_request_add_str(req, LIST_ALL_STEP);
        }
        int r = cli_request_add_past(req, &cli->args, "since", "SINCE", p);
        return r == OK ? cli_request_add_past(req, &cli->args, "until", "UNTIL", p) : r;
}

static const struct listing listing = {
        .key = "jobs",
        .empty = "no jobs\n",
        .columns = list_columns,
        .n_columns = ARRAY_LEN(list_columns),
        .prepare = list_prepare,
        .tells_cursor = true,
};

static int job_list(struct cli *cli, struct problem *p)
{
        int r = listing_run(cli, &listing, p);
        if (r == OK && !cli->out.len)
                queue_name_note(cli);
        return r;
}

#define LABEL_WIDTH 11

static void put_attempt_of(struct buf *b, const struct value *job, int64_t now_ms)
{
        (void)now_ms;
        buf_printf(b, "%lld of %lld", (long long)field_int(job, "attempt"),
                   (long long)field_int(job, "attempts"));
}

static const struct field_line head_lines[] = {
        {"hook", .key = "hook"},
        {"queue", .key = "queue"},
        {"group", .key = "group"},
        {"priority", .key = "priority", .as = AS_INT, .none = "0"},
        {"attempt", .put = put_attempt_of},
        {"timeout", .key = "timeout", .as = AS_DURATION},
        {"fence", .key = "fence", .as = AS_INT},
        {"created", .key = "created_ms", .as = AS_MOMENT},
        {.label = NULL},
};

static const struct field_line due_line[] = {
        {"due", .key = "due_ms", .as = AS_MOMENT},
        {.label = NULL},
};

static const struct field_line run_lines[] = {
        {"started", .key = "started_ms", .as = AS_MOMENT},
        {"finished", .key = "finished_ms", .as = AS_MOMENT},
        {.label = NULL},
};

static const struct field_line lease_line[] = {
        {"lease ends", .key = "lease_until_ms", .as = AS_MOMENT},
        {.label = NULL},
};

static const struct field_line tail_lines[] = {
        {"worker", .key = "worker"}, {"args", .key = "args"},   {"progress", .key = "progress"},
        {"result", .key = "result"}, {"error", .key = "error"}, {.label = NULL},
};

static void show_lines(struct cli *cli, const struct field_line *lines, const struct value *v)
{
        put_field_lines(&cli->screen, &cli->out, LABEL_WIDTH, lines, v);
}

static void show_times(struct cli *cli, const struct value *job)
{
        int64_t started = field_int(job, "started_ms"), finished = field_int(job, "finished_ms");
        if (field_is(job, "status", "pending"))
                show_lines(cli, due_line, job);
        show_lines(cli, run_lines, job);
        if (started > 0 && finished >= started) {
                put_label(&cli->screen, &cli->out, LABEL_WIDTH, "took");
                duration_put(&cli->out, finished - started);
                buf_put_byte(&cli->out, '\n');
        }
        show_lines(cli, lease_line, job);
}

static enum tone event_tone(struct slice event)
{
        if (slice_eq(event, SLICE_LIT("completed")))
                return TONE_GREEN;
        if (slice_eq(event, SLICE_LIT("failed")) || slice_eq(event, SLICE_LIT("timed out")) ||
            slice_eq(event, SLICE_LIT("given up")))
                return TONE_RED;
        return TONE_BOLD;
}

/* One line an event: when, how long after the one before, what, by whom, what was said. */
static void put_events(struct cli *cli, const struct value *events)
{
        int64_t last_ms = 0;
        for (size_t i = 0; i < events->n; i++) {
                const struct value *e = &events->items[i];
                struct slice name = field_text(e, "event"), worker = field_text(e, "worker");
                struct slice message = field_text(e, "message");
                int64_t at_ms = field_int(e, "at_ms");
                struct buf since CLEANUP(buf_release) = {0};
                if (last_ms) {
                        buf_put_byte(&since, '+');
                        duration_put(&since, at_ms > last_ms ? at_ms - last_ms : 0);
                }
                buf_put_str(&cli->out, "  ");
                moment_put(&cli->out, at_ms);
                buf_printf(&cli->out, "  %-12s  ", buf_cstr(&since));
                screen_put_toned(&cli->screen, &cli->out, event_tone(name), name);
                if (worker.len) {
                        buf_put_str(&cli->out, " by ");
                        text_put_safe(&cli->out, worker);
                }
                if (message.len) {
                        buf_put_str(&cli->out, ": ");
                        text_put_safe(&cli->out, message);
                }
                buf_put_byte(&cli->out, '\n');
                last_ms = at_ms;
        }
}

static void put_head(struct cli *cli, const struct value *job)
{
        buf_printf(&cli->out, "job %lld  ", (long long)field_int(job, "id"));
        screen_put_toned(&cli->screen, &cli->out, status_tone(job), field_text(job, "status"));
        buf_put_byte(&cli->out, '\n');
}

/* How the options of a job are read by people; those not named here are shown as they are. */
static const struct field_line option_lines[] = {
        {"max run", .key = "maxrun", .as = AS_DURATION, .none = "0 ms"},
        {"unique for", .key = "uniquefor", .as = AS_DURATION, .none = "0 ms"},
        {"key max", .key = "keymax", .as = AS_INT, .none = "0"},
        {"expires", .key = "expires_ms", .as = AS_MOMENT},
        {"result for", .key = "resultfor", .as = AS_DURATION, .none = "0 ms"},
        {"slot", .key = "slot_ms", .as = AS_MOMENT},
        {"deferred", .key = "deferred_ms", .as = AS_DURATION, .none = "0 ms"},
};

static void put_plain(struct buf *b, const struct value *v)
{
        if (v->type == VALUE_TEXT)
                buf_put_slice(b, v->text);
        else if (v->type == VALUE_INT || v->type == VALUE_BOOL)
                buf_put_i64(b, v->num);
}

/* A text, a number, or a list of them. */
static void show_plain_option(struct cli *cli, const char *label, const struct value *v)
{
        struct buf text CLEANUP(buf_release) = {0};
        put_plain(&text, v);
        for (size_t i = 0; i < list_len(v); i++) {
                buf_put_str(&text, i ? ", " : "");
                put_plain(&text, &v->items[i]);
        }
        if (!text.len)
                return;
        put_label(&cli->screen, &cli->out, LABEL_WIDTH, label);
        text_put_safe_lines(&cli->out, buf_slice(&text), LABEL_WIDTH + 2);
        buf_put_byte(&cli->out, '\n');
}

/* In the order of the answer. */
static void show_options(struct cli *cli, const struct value *options)
{
        for (size_t i = 0; options && options->type == VALUE_MAP && i + 1 < options->n; i += 2) {
                struct slice key = value_text(&options->items[i]);
                struct field_line lines[2] = {{.label = NULL}};
                char name[16];
                for (size_t k = 0; k < ARRAY_LEN(option_lines); k++)
                        if (slice_eq(key, slice_str(option_lines[k].key)))
                                lines[0] = option_lines[k];
                (void)snprintf(name, sizeof(name), "%.*s", (int)key.len, key.ptr);
                if (lines[0].label)
                        show_lines(cli, lines, options);
                else
                        show_plain_option(cli, name, &options->items[i + 1]);
        }
}

static int job_show(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = cli_call_named(cli, "JOB", &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                value_put_json(&cli->out, v);
                if (cli->out.len && cli->out.ptr[cli->out.len - 1] == '}')
                        cli->out.len--; /* the events join the map */
        } else {
                put_head(cli, v);
                show_lines(cli, head_lines, v);
                show_times(cli, v);
                show_options(cli, value_get(v, "options"));
                show_lines(cli, tail_lines, v);
        }
        r = cli_call_named(cli, "EVENTS", &v, p);
        if (r != OK) {
                buf_clear(&cli->out);
                return r;
        }
        if (cli->is_json) {
                buf_put_str(&cli->out, ",\"events\":");
                value_put_json(&cli->out, v);
                buf_put_str(&cli->out, "}\n");
                return OK;
        }
        buf_put_str(&cli->out, "events\n");
        put_events(cli, v);
        return OK;
}

static void put_blocker(struct cli *cli, const struct value *blocker)
{
        char code[32];
        struct slice name = field_text(blocker, "code");
        int len = snprintf(code, sizeof(code), "%-16.*s ", (int)name.len, name.ptr);
        buf_put_str(&cli->out, "  ");
        screen_put_toned(&cli->screen, &cli->out, TONE_BOLD, slice_make(code, (size_t)len));
        text_put_safe(&cli->out, field_text(blocker, "message"));
        buf_put_byte(&cli->out, '\n');
}

static void show_why(struct cli *cli, const struct value *v)
{
        const struct value *blockers = value_get(v, "blockers");
        int64_t not_before_ms = field_int(v, "not_before_ms");
        uint64_t ahead = (uint64_t)field_int(v, "ahead"); /* null is 0 */
        put_head(cli, v);
        for (size_t i = 0; blockers && i < blockers->n; i++)
                put_blocker(cli, &blockers->items[i]);
        if (not_before_ms > 0) {
                buf_put_str(&cli->out, "not before ");
                put_moment_line(&cli->out, not_before_ms, clock_wall_ms());
        } else if (!slice_eq(field_text(v, "status"), SLICE_LIT("pending"))) {
                return;
        } else if (blockers && blockers->n) {
                buf_put_str(&cli->out, "when it starts is not known\n");
        } else {
                buf_printf(&cli->out, "ready: %llu %s ahead of it\n", (unsigned long long)ahead,
                           plural(ahead, "job is", "jobs are"));
        }
}

static const struct option_def list_option_table[] = {
        {"since", "TIME", "added then or later: 2h (ago), 10:00, 2026-11-15T10:00"},
        {"until", "TIME", "added before: as --since"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"add", "HOOK [ARGS | - | @FILE] | --file FILE", "Add a job to a queue, or many.",
         "HOOK says what is to be done, ARGS with what (often JSON; any bytes will do).\n"
         "'-' reads ARGS from standard input, '@FILE' from a file.\n\n"
         "  weir job add resize '{\"image\": 17}' --queue media\n"
         "  weir job add report --at 06:00 --attempts 5 --expires 1d\n"
         "  weir job add sync shop-7 --unique '*' --key sync:shop-7\n"
         "  weir job add mail.bill 17 --after 4,5 --otherwise fail\n"
         "  weir job add wipe disk-3 --sign /etc/weir/signing.keys\n"
         "  weir job add --file jobs.ndjson --queue import --skip-bad\n",
         .options = add_options, .max_words = 2, .command = "ENQUEUE", .apart = "after signature",
         .run = cli_job_add},
        {"list", "", "List jobs, newest first, waiting or finished.", NULL,
         .options = list_option_table, .command = "JOBS", .apart = "since until", .run = job_list},
        {"show", "ID", "Show a job and its whole story.",
         "Options it was given are shown by the names of 'weir job add'.\n\n"
         "  weir job show 17\n",
         .run = job_show},
        {"why", "ID", "Say why a job is not running.",
         "One line for each thing that keeps it, in the order in which they are met: a "
         "code for\n"
         "programs and a sentence; then when it is expected to run, if that is known.\n\n"
         "  weir job why 17\n",
         .command = "WHY", .show = show_why},
        {"cancel", "ID... | --all | FILTERS", "Cancel jobs that have not finished.",
         "A worker that runs one loses it. Filters take pending jobs only, page by "
         "page.\n\n"
         "  weir job cancel 17 18\n"
         "  weir job cancel --hook report --group shop-7\n",
         .options = cancel_options, .max_words = ARGS_MAX, .run = cli_job_cancel},
        {"events", "ID", "Show what happened to a job.", NULL, .command = "EVENTS",
         .show = put_events},
        {"retry", "ID... | --all | FILTERS", "Run failed or canceled jobs again.",
         "A job keeps its id and gets all its attempts anew. Without ids, all failed jobs "
         "that\n"
         "fit the filters are taken, newest first, a page at a time.\n\n"
         "  weir job retry 17 18\n"
         "  weir job retry --failed --hook mail.send --match timeout\n",
         .options = retry_options, .max_words = ARGS_MAX, .run = cli_job_retry},
        {"run", "ID", "Run a waiting job now, whatever time it was to wait for.", NULL,
         .run = cli_job_run},
};

const struct cli_group cli_group_job = {"job", "Add, list, show, cancel and retry jobs.", commands,
                                        ARRAY_LEN(commands)};

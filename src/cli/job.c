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

#define LIST_DEFAULT  "50"
#define LIST_ALL_STEP "1000"

static enum tone status_tone(struct slice status)
{
        static const struct {
                struct slice status;
                enum tone tone;
        } tones[] = {
                {SLICE_LIT("pending"), TONE_YELLOW}, {SLICE_LIT("in-progress"), TONE_BLUE},
                {SLICE_LIT("complete"), TONE_GREEN}, {SLICE_LIT("failed"), TONE_RED},
                {SLICE_LIT("canceled"), TONE_DIM},
        };
        for (size_t i = 0; i < ARRAY_LEN(tones); i++)
                if (slice_eq(tones[i].status, status))
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

static struct slice job_detail(const struct value *job)
{
        struct slice error = field_text(job, "error"), progress = field_text(job, "progress");
        struct slice status = field_text(job, "status");
        if (slice_eq(status, SLICE_LIT("failed")) && error.len)
                return error;
        if (slice_eq(status, SLICE_LIT("in-progress")) && progress.len)
                return progress;
        return field_text(job, "args");
}

static void list_row(struct table *t, const struct value *job, int64_t now_ms)
{
        struct buf when CLEANUP(buf_release) = {0};
        char attempt[32];
        put_when(&when, job, now_ms);
        (void)snprintf(attempt, sizeof(attempt), "%lld/%lld", (long long)field_int(job, "attempt"),
                       (long long)field_int(job, "attempts"));
        struct slice status = field_text(job, "status");
        table_add_int(t, field_int(job, "id"));
        table_add(t, status, status_tone(status));
        table_add(t, field_text(job, "hook"), TONE_PLAIN);
        table_add(t, field_text(job, "queue"), TONE_PLAIN);
        table_add(t, field_text(job, "group"), TONE_PLAIN);
        table_add(t, slice_str(attempt), TONE_PLAIN);
        table_add(t, buf_slice(&when), TONE_DIM);
        /* A listing shows the beginning; a megabyte in a row helps nobody, pipe or not. */
        struct slice detail = job_detail(job);
        detail.len = shown_len(detail, 200);
        table_add(t, detail, TONE_PLAIN);
}

struct job_list {
        struct table table;
        struct buf cursor; /* where the next page begins; empty at the end */
        uint64_t n;
        int64_t now_ms;
};

/* A moment, or how long ago. */
static int add_time(struct cli_request *req, const struct args *args, const char *option,
                    const char *keyword, struct problem *p)
{
        const char *text = args_get(args, option);
        struct problem ignored;
        char what[16];
        int64_t ms, now_ms = clock_wall_ms();
        if (!text)
                return OK;
        (void)snprintf(what, sizeof(what), "--%s", option);
        if (duration_parse(what, text, &ms, &ignored) == OK)
                ms = now_ms - ms;
        else if (moment_parse(what, text, now_ms, &ms, &ignored) != OK)
                return problem_set(p, ERR_BADARG,
                                   "%s: '%s' is no time: 2h (so long ago), 2026-11-15T10:00, "
                                   "2026-11-15T09:00Z, 10:00 or @1731661200",
                                   what, SHOWN_STR(text));
        cli_request_add_str(req, keyword);
        cli_request_add_int(req, ms);
        return OK;
}

static int list_page(struct cli *cli, struct job_list *l, struct problem *p)
{
        static const char *const filters[][2] = {
                {"status", "STATUS"}, {"hook", "HOOK"}, {"queue", "QUEUE"},   {"group", "GROUP"},
                {"match", "MATCH"},   {"tier", "TIER"}, {"worker", "WORKER"}, {"order", "ORDER"}};
        struct cli_request req;
        const struct value *v;
        const char *limit = args_get(&cli->args, "limit");
        bool is_all = args_has(&cli->args, "all");
        cli_request_init(&req, "JOBS");
        for (size_t i = 0; i < ARRAY_LEN(filters); i++)
                cli_request_add_option(&req, &cli->args, filters[i][0], filters[i][1]);
        int t = add_time(&req, &cli->args, "since", "SINCE", p);
        if (t == OK)
                t = add_time(&req, &cli->args, "until", "UNTIL", p);
        if (t != OK)
                return t;
        cli_request_add_page(&req, limit ? limit : (is_all ? LIST_ALL_STEP : LIST_DEFAULT),
                             buf_slice(&l->cursor));
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        const struct value *jobs = value_get(v, "jobs");
        for (size_t i = 0; jobs && i < jobs->n; i++, l->n++) {
                if (cli->is_json) {
                        buf_put_str(&cli->out, l->n ? "," : "");
                        value_put_json(&cli->out, &jobs->items[i]);
                } else {
                        list_row(&l->table, &jobs->items[i], l->now_ms);
                }
        }
        buf_clear(&l->cursor);
        buf_put_slice(&l->cursor, field_text(v, "cursor"));
        return OK;
}

static const struct column list_columns[] = {
        {"ID", true, false},    {"STATUS", false, false}, {"HOOK", false, true},
        {"QUEUE", false, true}, {"GROUP", false, true},   {"ATTEMPT", true, false},
        {"WHEN", false, false}, {"DETAIL", false, true},
};

static void list_finish(struct cli *cli, struct job_list *l)
{
        if (cli->is_json) {
                struct value cursor = {.type = VALUE_TEXT, .text = buf_slice(&l->cursor)};
                buf_put_str(&cli->out, "],\"cursor\":");
                value_put_json(&cli->out, &cursor);
                buf_put_str(&cli->out, "}\n");
                return;
        }
        if (l->n == 0) {
                buf_put_str(&cli->notes, "no jobs\n");
                queue_name_note(cli);
                return;
        }
        table_print(&l->table, &cli->screen, &cli->out);
        if (l->cursor.len)
                buf_printf(&cli->notes,
                           "there are more: --all shows them, --cursor %s the next page\n",
                           buf_cstr(&l->cursor));
}

static int job_list(struct cli *cli, struct problem *p)
{
        struct job_list l = {.now_ms = clock_wall_ms()};
        const char *cursor = args_get(&cli->args, "cursor");
        table_init(&l.table, list_columns, ARRAY_LEN(list_columns));
        buf_init(&l.cursor, 0);
        if (cursor)
                buf_put_str(&l.cursor, cursor);
        if (cli->is_json)
                buf_put_str(&cli->out, "{\"jobs\":[");
        int r;
        do {
                r = list_page(cli, &l, p);
        } while (r == OK && l.cursor.len && args_has(&cli->args, "all"));
        if (r == OK)
                list_finish(cli, &l);
        else
                buf_clear(&cli->out);
        table_release(&l.table);
        buf_release(&l.cursor);
        return r;
}

static void put_label(struct cli *cli, const char *name)
{
        cli_put_label(cli, 11, name);
}

static void show_text(struct cli *cli, const char *name, struct slice text)
{
        if (text.len == 0)
                return;
        put_label(cli, name);
        text_put_safe_lines(&cli->out, text, 13);
        buf_put_byte(&cli->out, '\n');
}

static void show_moment(struct cli *cli, const char *name, int64_t at_ms, int64_t now_ms)
{
        if (at_ms <= 0)
                return;
        put_label(cli, name);
        moment_put(&cli->out, at_ms);
        buf_put_str(&cli->out, " (");
        moment_put_relative(&cli->out, at_ms, now_ms);
        buf_put_str(&cli->out, ")\n");
}

static void show_numbers(struct cli *cli, const struct value *job)
{
        int64_t timeout = field_int(job, "timeout"), fence = field_int(job, "fence");
        put_label(cli, "priority");
        buf_printf(&cli->out, "%lld\n", (long long)field_int(job, "priority"));
        put_label(cli, "attempt");
        buf_printf(&cli->out, "%lld of %lld\n", (long long)field_int(job, "attempt"),
                   (long long)field_int(job, "attempts"));
        if (timeout > 0) {
                put_label(cli, "timeout");
                duration_put(&cli->out, timeout);
                buf_put_byte(&cli->out, '\n');
        }
        if (fence > 0) {
                put_label(cli, "fence");
                buf_printf(&cli->out, "%lld\n", (long long)fence);
        }
}

static void show_times(struct cli *cli, const struct value *job, int64_t now_ms)
{
        int64_t started = field_int(job, "started_ms"), finished = field_int(job, "finished_ms");
        bool is_pending = slice_eq(field_text(job, "status"), SLICE_LIT("pending"));
        show_moment(cli, "created", field_int(job, "created_ms"), now_ms);
        if (is_pending)
                show_moment(cli, "due", field_int(job, "due_ms"), now_ms);
        show_moment(cli, "started", started, now_ms);
        show_moment(cli, "finished", finished, now_ms);
        if (started > 0 && finished >= started) {
                put_label(cli, "took");
                duration_put(&cli->out, finished - started);
                buf_put_byte(&cli->out, '\n');
        }
        show_moment(cli, "lease ends", field_int(job, "lease_until_ms"), now_ms);
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
        struct slice status = field_text(job, "status");
        buf_printf(&cli->out, "job %lld  ", (long long)field_int(job, "id"));
        screen_put_toned(&cli->screen, &cli->out, status_tone(status), status);
        buf_put_byte(&cli->out, '\n');
}

/* How the options of a job are read by people; those not named here are shown as they are. */
static const struct {
        struct slice key;
        const char *label;
        enum { SHOW_TEXT, SHOW_DURATION, SHOW_MOMENT } as;
} option_labels[] = {
        {SLICE_LIT("maxrun"), "max run", SHOW_DURATION},
        {SLICE_LIT("uniquefor"), "unique for", SHOW_DURATION},
        {SLICE_LIT("keymax"), "key max", SHOW_TEXT},
        {SLICE_LIT("expires_ms"), "expires", SHOW_MOMENT},
        {SLICE_LIT("resultfor"), "result for", SHOW_DURATION},
        {SLICE_LIT("slot_ms"), "slot", SHOW_MOMENT},
        {SLICE_LIT("deferred_ms"), "deferred", SHOW_DURATION},
};

static void put_plain(struct buf *b, const struct value *v)
{
        if (v->type == VALUE_TEXT)
                buf_put_slice(b, v->text);
        else if (v->type == VALUE_INT || v->type == VALUE_BOOL)
                buf_put_i64(b, v->num);
}

/* A text, a number, or a list of them. */
static void show_option_text(struct cli *cli, const char *label, const struct value *v)
{
        struct buf text CLEANUP(buf_release) = {0};
        put_plain(&text, v);
        for (size_t i = 0; v->type == VALUE_LIST && i < v->n; i++) {
                buf_put_str(&text, i ? ", " : "");
                put_plain(&text, &v->items[i]);
        }
        show_text(cli, label, buf_slice(&text));
}

static void show_option(struct cli *cli, struct slice key, const struct value *v, int64_t now_ms)
{
        char name[16];
        (void)snprintf(name, sizeof(name), "%.*s", (int)key.len, key.ptr);
        for (size_t i = 0; i < ARRAY_LEN(option_labels); i++) {
                const char *label = option_labels[i].label;
                if (!slice_eq(key, option_labels[i].key))
                        continue;
                if (option_labels[i].as == SHOW_MOMENT) {
                        show_moment(cli, label, value_int(v, 0), now_ms);
                } else if (option_labels[i].as == SHOW_DURATION) {
                        put_label(cli, label);
                        duration_put(&cli->out, value_int(v, 0));
                        buf_put_byte(&cli->out, '\n');
                } else {
                        show_option_text(cli, label, v);
                }
                return;
        }
        show_option_text(cli, name, v);
}

static void show_options(struct cli *cli, const struct value *options, int64_t now_ms)
{
        for (size_t i = 0; options && options->type == VALUE_MAP && i + 1 < options->n; i += 2)
                show_option(cli, value_text(&options->items[i]), &options->items[i + 1], now_ms);
}

static void put_job(struct cli *cli, const struct value *job)
{
        int64_t now_ms = clock_wall_ms();
        put_head(cli, job);
        show_text(cli, "hook", field_text(job, "hook"));
        show_text(cli, "queue", field_text(job, "queue"));
        show_text(cli, "group", field_text(job, "group"));
        show_numbers(cli, job);
        show_times(cli, job, now_ms);
        show_options(cli, value_get(job, "options"), now_ms);
        show_text(cli, "worker", field_text(job, "worker"));
        show_text(cli, "args", field_text(job, "args"));
        show_text(cli, "progress", field_text(job, "progress"));
        show_text(cli, "result", field_text(job, "result"));
        show_text(cli, "error", field_text(job, "error"));
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
                put_job(cli, v);
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
                moment_put(&cli->out, not_before_ms);
                buf_put_str(&cli->out, " (");
                moment_put_relative(&cli->out, not_before_ms, clock_wall_ms());
                buf_put_str(&cli->out, ")\n");
        } else if (!slice_eq(field_text(v, "status"), SLICE_LIT("pending"))) {
                return;
        } else if (blockers && blockers->n) {
                buf_put_str(&cli->out, "when it starts is not known\n");
        } else {
                buf_printf(&cli->out, "ready: %llu %s ahead of it\n", (unsigned long long)ahead,
                           plural(ahead, "job is", "jobs are"));
        }
}

static int job_why(struct cli *cli, struct problem *p)
{
        return cli_show_named(cli, "WHY", show_why, p);
}

static int job_events(struct cli *cli, struct problem *p)
{
        return cli_show_named(cli, "EVENTS", put_events, p);
}

static const struct option_def list_option_table[] = {
        {"status", "STATUS", "pending, in-progress, complete, failed or canceled"},
        {"hook", "NAME", "jobs of this hook"},
        {"queue", "NAME", "jobs of this queue"},
        {"group", "NAME", "jobs of this group"},
        {"match", "TEXT", "jobs whose hook, args, result or error hold TEXT"},
        {"tier", "TIER", "jobs that were given this tier"},
        {"worker", "NAME", "jobs that this worker had last"},
        {"since", "TIME", "added then or later: 2h (ago), 10:00, 2026-11-15T10:00"},
        {"until", "TIME", "added before: as --since"},
        {"order", "newest|oldest", "which come first (newest)"},
        {"limit", "N", "at most this many, up to 1000 (50)"},
        {"cursor", "CURSOR", "continue where an earlier listing ended"},
        {"all", NULL, "all of them, page after page"},
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
         add_options, 0, 2, false, cli_job_add},
        {"list", "", "List jobs, newest first, waiting or finished.", NULL, list_option_table, 0, 0,
         false, job_list},
        {"show", "ID", "Show a job and its whole story.",
         "Options it was given are shown by the names of 'weir job add'.\n\n"
         "  weir job show 17\n",
         NULL, 1, 1, false, job_show},
        {"why", "ID", "Say why a job is not running.",
         "One line for each thing that keeps it, in the order in which they are met: a code for\n"
         "programs and a sentence; then when it is expected to run, if that is known.\n\n"
         "  weir job why 17\n",
         NULL, 1, 1, false, job_why},
        {"cancel", "ID... | --all | FILTERS", "Cancel jobs that have not finished.",
         "A worker that runs one loses it. Filters take pending jobs only, page by page.\n\n"
         "  weir job cancel 17 18\n"
         "  weir job cancel --hook report --group shop-7\n",
         cancel_options, 0, ARGS_MAX, false, cli_job_cancel},
        {"events", "ID", "Show what happened to a job.", NULL, NULL, 1, 1, false, job_events},
        {"retry", "ID... | --all | FILTERS", "Run failed or canceled jobs again.",
         "A job keeps its id and gets all its attempts anew. Without ids, all failed jobs that\n"
         "fit the filters are taken, newest first, a page at a time.\n\n"
         "  weir job retry 17 18\n"
         "  weir job retry --failed --hook mail.send --match timeout\n",
         retry_options, 0, ARGS_MAX, false, cli_job_retry},
        {"run", "ID", "Run a waiting job now, whatever time it was to wait for.", NULL, NULL, 1, 1,
         false, cli_job_run},
};

const struct cli_group cli_group_job = {"job", "Add, list, show, cancel and retry jobs.", commands,
                                        ARRAY_LEN(commands)};

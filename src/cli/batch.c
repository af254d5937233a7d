/* weir batch: make, list, show, close, cancel and remove batches of jobs. */
#include "base/clock.h"
#include "base/plural.h"
#include "cli/listing.h"
#include "cli/text.h"

static const struct column columns[] = {
        {"BATCH", false, true},    {"STATUS", false, false},  {"TOTAL", true, false},
        {"LEFT", true, false},     {"COMPLETE", true, false}, {"FAILED", true, false},
        {"CANCELED", true, false}, {"AGE", true, false},      {"TITLE", false, true},
};

static enum tone tone_of(const struct value *v, struct slice status)
{
        if (!slice_eq(status, SLICE_LIT("finished")))
                return slice_eq(status, SLICE_LIT("canceling")) ? TONE_YELLOW : TONE_PLAIN;
        return field_int(v, "failed") || field_int(v, "canceled") ? TONE_RED : TONE_GREEN;
}

static void list_row(struct table *t, const struct value *v, int64_t now_ms)
{
        static const char *const numbers[] = {"total", "left", "complete", "failed", "canceled"};
        struct slice status = field_text(v, "status");
        int64_t created_ms = field_int(v, "created_ms");
        struct buf age CLEANUP(buf_release) = {0};
        duration_put(&age, now_ms > created_ms ? now_ms - created_ms : 0);
        table_add(t, field_text(v, "name"), TONE_PLAIN);
        table_add(t, status, tone_of(v, status));
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                table_add_int(t, field_int(v, numbers[i]));
        table_add(t, buf_slice(&age), TONE_PLAIN);
        table_add(t, field_text(v, "title"), TONE_PLAIN);
}

/* "closed batch NAME, ..." */
static void put_done(struct cli *cli, const char *what)
{
        buf_printf(&cli->out, "%s batch ", what);
        text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
}

/* ---- add ---- */

static int batch_add(struct cli *cli, struct problem *p)
{
        static const char *const options[][2] = {
                {"title", "TITLE"},
                {"on-success", "ONSUCCESS"},
                {"success-args", "SUCCESSARGS"},
                {"on-done", "ONDONE"},
                {"done-args", "DONEARGS"},
                {"queue", "QUEUE"},
                {"priority", "PRIORITY"},
                {"success-signature", "SUCCESSSIGNATURE"},
                {"done-signature", "DONESIGNATURE"},
        };
        struct cli_request req;
        cli_request_init_named(&req, cli, "BATCH");
        for (size_t i = 0; i < ARRAY_LEN(options); i++)
                cli_request_add_option(&req, &cli->args, options[i][0], options[i][1]);
        return cli_change(cli, &req, "made batch", p);
}

/* ---- list ---- */

static const struct listing listing = {
        .command = "BATCHES",
        .key = "batches",
        .empty = "no batches\n",
        .options = listing_page_options,
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
};

static int batch_list(struct cli *cli, struct problem *p)
{
        return listing_run(cli, &listing, p);
}

/* ---- show ---- */

static void put_label(struct cli *cli, const char *label)
{
        buf_printf(&cli->out, "  %-10s  ", label);
}

static void show_moment(struct cli *cli, const char *label, int64_t at_ms)
{
        if (at_ms <= 0)
                return;
        put_label(cli, label);
        moment_put(&cli->out, at_ms);
        buf_put_str(&cli->out, " (");
        moment_put_relative(&cli->out, at_ms, clock_wall_ms());
        buf_put_str(&cli->out, ")\n");
}

static void show_callback(struct cli *cli, const char *label, const struct value *c)
{
        if (!c || c->type != VALUE_MAP)
                return;
        int64_t job = field_int(c, "job");
        put_label(cli, label);
        text_put_safe(&cli->out, field_text(c, "hook"));
        buf_put_byte(&cli->out, ' ');
        text_put_safe(&cli->out, field_text(c, "args"));
        if (job)
                buf_printf(&cli->out, " (job %lld)", (long long)job);
        buf_put_byte(&cli->out, '\n');
}

static void show_batch(struct cli *cli, const struct value *v)
{
        struct slice status = field_text(v, "status");
        struct slice title = field_text(v, "title");
        buf_put_str(&cli->out, "batch ");
        text_put_safe(&cli->out, field_text(v, "name"));
        buf_put_str(&cli->out, "  ");
        screen_put_toned(&cli->screen, &cli->out, tone_of(v, status), status);
        buf_put_byte(&cli->out, '\n');
        if (title.len) {
                put_label(cli, "title");
                text_put_safe(&cli->out, title);
                buf_put_byte(&cli->out, '\n');
        }
        put_label(cli, "jobs");
        buf_printf(&cli->out, "%lld: %lld left, %lld complete, %lld failed, %lld canceled\n",
                   (long long)field_int(v, "total"), (long long)field_int(v, "left"),
                   (long long)field_int(v, "complete"), (long long)field_int(v, "failed"),
                   (long long)field_int(v, "canceled"));
        show_moment(cli, "created", field_int(v, "created_ms"));
        show_moment(cli, "finished", field_int(v, "finished_ms"));
        show_callback(cli, "on success", value_get(v, "onsuccess"));
        show_callback(cli, "on done", value_get(v, "ondone"));
}

static int batch_show(struct cli *cli, struct problem *p)
{
        return cli_show_named(cli, "BATCHSTATE", show_batch, p);
}

/* ---- close, cancel, remove ---- */

static int batch_close(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = cli_call_named(cli, "CLOSEBATCH", &v, p);
        if (r != OK)
                return r;
        struct slice status = value_text(v);
        if (cli->is_json) {
                buf_printf(&cli->out, "{\"status\":\"%.*s\"}\n", (int)status.len, status.ptr);
                return OK;
        }
        put_done(cli, "closed");
        buf_put_str(&cli->out,
                    slice_eq(status, SLICE_LIT("finished")) ? ": it is finished\n" : "\n");
        return OK;
}

static int batch_cancel(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = cli_call_named(cli, "CANCELBATCH", &v, p);
        if (r != OK)
                return r;
        long long n = value_int(v, 0);
        if (cli->is_json) {
                buf_printf(&cli->out, "{\"canceled\":%lld}\n", n);
                return OK;
        }
        put_done(cli, "canceled");
        buf_printf(&cli->out, ": %lld %s\n", n, plural((uint64_t)n, "job", "jobs"));
        return OK;
}

static int batch_remove(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "UNBATCH", "removed batch", p);
}

static const struct option_def batch_add_options[] = {
        {"title", "TEXT", "what it is, for people"},
        {"on-success", "HOOK", "make a job of this hook when all jobs are complete"},
        {"success-args", "ARGS", "payload of that job"},
        {"on-done", "HOOK", "make a job of this hook when all jobs have ended, however"},
        {"done-args", "ARGS", "payload of that job"},
        {"queue", "NAME", "queue of both (default)"},
        {"priority", "N", "priority of both, 0 to 255 (100)"},
        {"success-signature", "TEXT", "signature of the job of --on-success"},
        {"done-signature", "TEXT", "signature of the job of --on-done"},
        {NULL, NULL, NULL},
};

static const struct option_def list_options[] = {
        LISTING_PAGE_OPTIONS,
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {.name = "add",
         .usage = "NAME",
         .summary = "Make a batch that jobs can be added to.",
         .text = "Jobs name it when they are added, and it is closed after the last of them:\n"
                 "  weir batch add import-7 --on-success import.report\n"
                 "  weir job add import.row '{\"row\":1}' --batch import-7\n"
                 "  weir batch close import-7\n",
         .options = batch_add_options,
         .min_words = 1,
         .max_words = 1,
         .run = batch_add},
        {.name = "list",
         .usage = "",
         .summary = "List the batches by name.",
         .text = "A finished batch is kept for 7 days.\n",
         .options = list_options,
         .run = batch_list},
        {.name = "show",
         .usage = "NAME",
         .summary = "Show a batch: its counts and its callbacks.",
         .min_words = 1,
         .max_words = 1,
         .run = batch_show},
        {.name = "close",
         .usage = "NAME",
         .summary = "Take no more jobs; it is finished when the last has ended.",
         .min_words = 1,
         .max_words = 1,
         .run = batch_close},
        {.name = "cancel",
         .usage = "NAME",
         .summary = "Close it and cancel its jobs that have not ended.",
         .text = "Running ones too: their workers are told at the next extension of the lease.\n",
         .min_words = 1,
         .max_words = 1,
         .run = batch_cancel},
        {.name = "remove",
         .usage = "NAME",
         .summary = "Forget a batch that is finished or has no jobs.",
         .min_words = 1,
         .max_words = 1,
         .run = batch_remove},
};

const struct cli_group cli_group_batch = {"batch", "Count jobs together and act on their end.",
                                          commands, ARRAY_LEN(commands)};

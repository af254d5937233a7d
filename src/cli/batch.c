/* weir batch: make, list, show, close, cancel and remove batches of jobs. */
#include "base/clock.h"
#include "base/plural.h"
#include "cli/listing.h"

static enum tone tone_of(const struct value *v)
{
        if (!field_is(v, "status", "finished"))
                return field_is(v, "status", "canceling") ? TONE_YELLOW : TONE_PLAIN;
        return field_int(v, "failed") || field_int(v, "canceled") ? TONE_RED : TONE_GREEN;
}

static const struct column columns[] = {
        {"BATCH", .key = "name", .may_shrink = true},
        {"STATUS", .key = "status", .tone_of = tone_of},
        {"TOTAL", .key = "total", .as = AS_INT},
        {"LEFT", .key = "left", .as = AS_INT},
        {"COMPLETE", .key = "complete", .as = AS_INT},
        {"FAILED", .key = "failed", .as = AS_INT},
        {"CANCELED", .key = "canceled", .as = AS_INT},
        {"AGE", .key = "created_ms", .as = AS_AGE},
        {"TITLE", .key = "title", .may_shrink = true},
};

static const struct listing listing = {
        .key = "batches",
        .empty = "no batches\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

/* ---- show ---- */

static void show_moment(struct cli *cli, const char *label, int64_t at_ms)
{
        if (at_ms <= 0)
                return;
        buf_printf(&cli->out, "  %-10s  ", label);
        put_moment_line(&cli->out, at_ms, clock_wall_ms());
}

static void show_callback(struct cli *cli, const char *label, const struct value *c)
{
        if (!c || c->type != VALUE_MAP)
                return;
        int64_t job = field_int(c, "job");
        buf_printf(&cli->out, "  %-10s  ", label);
        text_put_safe(&cli->out, field_text(c, "hook"));
        buf_put_byte(&cli->out, ' ');
        text_put_safe(&cli->out, field_text(c, "args"));
        if (job)
                buf_printf(&cli->out, " (job %lld)", (long long)job);
        buf_put_byte(&cli->out, '\n');
}

static void show_batch(struct cli *cli, const struct value *v)
{
        struct slice title = field_text(v, "title");
        buf_put_str(&cli->out, "batch ");
        text_put_safe(&cli->out, field_text(v, "name"));
        buf_put_str(&cli->out, "  ");
        screen_put_toned(&cli->screen, &cli->out, tone_of(v), field_text(v, "status"));
        buf_put_byte(&cli->out, '\n');
        if (title.len) {
                buf_put_str(&cli->out, "  title       ");
                text_put_safe(&cli->out, title);
                buf_put_byte(&cli->out, '\n');
        }
        buf_printf(&cli->out,
                   "  jobs        %lld: %lld left, %lld complete, %lld failed, %lld canceled\n",
                   (long long)field_int(v, "total"), (long long)field_int(v, "left"),
                   (long long)field_int(v, "complete"), (long long)field_int(v, "failed"),
                   (long long)field_int(v, "canceled"));
        show_moment(cli, "created", field_int(v, "created_ms"));
        show_moment(cli, "finished", field_int(v, "finished_ms"));
        show_callback(cli, "on success", value_get(v, "onsuccess"));
        show_callback(cli, "on done", value_get(v, "ondone"));
}

/* ---- close, cancel ---- */

static void show_closed(struct cli *cli, const struct value *v)
{
        buf_put_str(&cli->out, "closed batch ");
        text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        buf_put_str(&cli->out,
                    slice_eq(value_text(v), SLICE_LIT("finished")) ? ": it is finished\n" : "\n");
}

static void show_canceled(struct cli *cli, const struct value *v)
{
        long long n = value_int(v, 0);
        buf_put_str(&cli->out, "canceled batch ");
        text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        buf_printf(&cli->out, ": %lld %s\n", n, plural((uint64_t)n, "job", "jobs"));
}

static const struct cli_command commands[] = {
        {"add", "NAME", "Make a batch that jobs can be added to.",
         "Jobs name it when they are added, and it is closed after the last of them:\n"
         "  weir batch add import-7 --on-success import.report\n"
         "  weir job add import.row '{\"row\":1}' --batch import-7\n"
         "  weir batch close import-7\n",
         .command = "BATCH", .apart = "complete failed canceled", .done = "made batch"},
        {"list", "", "List the batches by name.", "A finished batch is kept for 7 days.\n",
         .command = "BATCHES", .listing = &listing},
        {"show", "NAME", "Show a batch: its counts and its callbacks.", NULL,
         .command = "BATCHSTATE", .show = show_batch},
        {"close", "NAME", "Take no more jobs; it is finished when the last has ended.", NULL,
         .command = "CLOSEBATCH", .show = show_closed},
        {"cancel", "NAME", "Close it and cancel its jobs that have not ended.",
         "Running ones too: their workers are told at the next extension of the lease.\n",
         .command = "CANCELBATCH", .show = show_canceled},
        {"remove", "NAME", "Forget a batch that is finished or has no jobs.", NULL,
         .command = "UNBATCH", .done = "removed batch"},
};

const struct cli_group cli_group_batch = {"batch", "Count jobs together and act on their end.",
                                          commands, ARRAY_LEN(commands)};

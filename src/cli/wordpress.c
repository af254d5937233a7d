/* weir wordpress: what weir knows of WordPress sites, and what it does with their actions.
 *
 * `check` reads a configuration instead of asking a server, and is main()'s (serve/). */
#include "base/clock.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/listing.h"
#include "cli/sites.h"
#include "cli/text.h"

#define LABEL_WIDTH 11

/* ---- cells that several tables have ---- */

static void put_tries(struct buf *b, const struct value *action, int64_t now_ms)
{
        (void)now_ms;
        buf_put_i64(b, field_int(action, "attempts"));
}

static void put_original(struct buf *b, const struct value *action, int64_t now_ms)
{
        if (field_is_true(action, "moved"))
                moment_put_relative(b, field_int(action, "original_ms"), now_ms);
        else
                buf_put_byte(b, '-');
}

static enum tone row_tone(const struct value *row)
{
        return level_tone(field_text(row, "level"));
}

/* "waits 5 min", or "runs": what the gate says now; only with enforce is it so. */
static void put_now(struct buf *b, const struct value *row, int64_t now_ms)
{
        int64_t delay_ms = field_int(row, "delay_ms");
        (void)now_ms;
        buf_put_str(b, delay_ms ? "waits " : "runs");
        if (delay_ms)
                duration_put(b, delay_ms);
}

/* ---- all sites ---- */

static const struct listing sites = {
        .empty = "no WordPress site is configured: a section wordpress \"NAME\" { ... } of the "
                 "configuration adds one, see weir.conf(5)\n",
        .columns = site_columns,
        .n_columns = SITE_COLUMNS,
};

/* ---- one site ---- */

static void put_age_line(struct cli *cli, const char *label, int64_t at_ms, const char *never)
{
        put_label(&cli->screen, &cli->out, LABEL_WIDTH, label);
        if (at_ms > 0)
                put_moment_line(&cli->out, at_ms, clock_wall_ms());
        else
                buf_printf(&cli->out, "%s\n", never);
}

static void put_counts(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        int64_t now_ms = clock_wall_ms(), oldest_ms = field_int(v, "oldest_due_ms");
        put_label(&cli->screen, b, LABEL_WIDTH, "due");
        site_put_due(b, v, now_ms);
        if (oldest_ms > 0) {
                buf_put_str(b, ", the oldest for ");
                duration_put(b, now_ms > oldest_ms ? now_ms - oldest_ms : 0);
        }
        buf_put_byte(b, '\n');
        put_label(&cli->screen, b, LABEL_WIDTH, "moved");
        buf_printf(b, "%lld%s\n", (long long)field_int(v, "moved"),
                   field_is_true(v, "returning") ? ", they are coming back" : "");
        if (!field_is(v, "mode", "enforce")) {
                put_label(&cli->screen, b, LABEL_WIDTH, "would move");
                buf_printf(b, "%lld with mode enforce\n", (long long)field_int(v, "would_move"));
        }
        put_label(&cli->screen, b, LABEL_WIDTH, "running");
        buf_printf(b, "%lld, %lld claimed\n", (long long)field_int(v, "running"),
                   (long long)field_int(v, "claimed"));
        put_label(&cli->screen, b, LABEL_WIDTH, "failed");
        buf_printf(b, "%lld\n", (long long)field_int(v, "failed"));
        put_label(&cli->screen, b, LABEL_WIDTH, "so far");
        buf_printf(b,
                   "%lld moved, %lld moved again, %lld given back, %lld put in front since the "
                   "start\n",
                   (long long)field_int(v, "total_moved"), (long long)field_int(v, "total_shifted"),
                   (long long)field_int(v, "total_returned"),
                   (long long)field_int(v, "total_fronted"));
}

static const struct field_line about_lines[] = {
        {"because", "reason", AS_TEXT, NULL, NULL}, {"target", "target", AS_TEXT, "none", NULL},
        {"server", "server", AS_TEXT, NULL, NULL},  {"store", "store", AS_TEXT, NULL, NULL},
        {"address", "url", AS_TEXT, NULL, NULL},    {NULL, NULL, AS_TEXT, NULL, NULL},
};

static void put_about(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        struct slice level = field_text(v, "level"), error = field_text(v, "error");
        buf_put_str(b, "site ");
        text_put_safe(b, field_text(v, "name"));
        buf_put_str(b, ": mode ");
        text_put_safe(b, field_text(v, "mode"));
        buf_put_str(b, ", level ");
        screen_put_toned(&cli->screen, b, level_tone(level), level);
        buf_put_byte(b, '\n');
        if (error.len) {
                put_label(&cli->screen, b, LABEL_WIDTH, "error");
                struct buf text CLEANUP(buf_release) = {0};
                text_put_safe_lines(&text, error, LABEL_WIDTH + 2);
                screen_put_toned(&cli->screen, b, TONE_RED, buf_slice(&text));
                buf_put_byte(b, '\n');
        }
        put_field_lines(&cli->screen, b, LABEL_WIDTH, about_lines, v);
        put_age_line(cli, "surveyed", field_int(v, "surveyed_ms"), "never");
        put_age_line(cli, "next due", field_int(v, "next_due_ms"), "not known, or nothing");
}

/* clang-format off */
#define COUNT_COLUMNS                                                                              \
        {"DUE", .key = "due", .as = AS_INT},                                                       \
        {"MOVED", .key = "moved", .as = AS_INT},                                                   \
        {"RUNNING", .key = "running", .as = AS_INT},                                               \
        {"OLDEST", .key = "oldest_due_ms", .as = AS_AGE}

static const struct column tier_columns[] = {
        {"TIER", .key = "tier"},
        {"NOW", .put = put_now},
        COUNT_COLUMNS,
};

static const struct column hook_columns[] = {
        {"HOOK", .key = "hook", .may_shrink = true},
        {"TIER", .key = "tier"},
        {"NOW", .put = put_now},
        COUNT_COLUMNS,
};
/* clang-format on */

static const struct column repair_columns[] = {
        {"REPAIR", .key = "repair"},
        {"MODE", .key = "mode"},
        {"FOUND", .key = "found", .as = AS_INT},
        {"MENDED", .key = "mended", .as = AS_INT},
        {"ACTIONS", .key = "text", .may_shrink = true},
};

static const struct column move_columns[] = {
        {"ID", .key = "id", .as = AS_INT},
        {"HOOK", .key = "hook", .may_shrink = true},
        {"TIER", .key = "tier"},
        {"LEVEL", .key = "level", .tone_of = row_tone},
        {"MOVED", .key = "at_ms", .as = AS_RELATIVE},
        {"FROM", .key = "original_ms", .as = AS_RELATIVE},
        {"TO", .key = "to_ms", .as = AS_RELATIVE},
};

static const struct {
        const char *key, *title;
        const struct column *columns;
        size_t n_columns;
} site_tables[] = {
        {"tiers", "by tier", tier_columns, ARRAY_LEN(tier_columns)},
        {"hooks", "by hook", hook_columns, ARRAY_LEN(hook_columns)},
        {"repairs", "repairs", repair_columns, ARRAY_LEN(repair_columns)},
        {"last", "last moves", move_columns, ARRAY_LEN(move_columns)},
};

static void put_heading(struct cli *cli, const char *title)
{
        buf_put_byte(&cli->out, '\n');
        screen_put_toned(&cli->screen, &cli->out, TONE_BOLD, slice_str(title));
        buf_put_byte(&cli->out, '\n');
}

static void put_advice(struct cli *cli, const struct value *v)
{
        const struct value *advice = value_get(v, "advice");
        if (list_len(advice))
                put_heading(cli, "advice");
        for (size_t i = 0; i < list_len(advice); i++) {
                buf_put_str(&cli->out, "  ");
                text_put_safe(&cli->out, value_text(&advice->items[i]));
                buf_put_byte(&cli->out, '\n');
        }
}

static void show_site(struct cli *cli, const struct value *v)
{
        put_about(cli, v);
        put_counts(cli, v);
        for (size_t i = 0; i < ARRAY_LEN(site_tables); i++) {
                const struct value *rows = value_get(v, site_tables[i].key);
                if (!list_len(rows))
                        continue;
                put_heading(cli, site_tables[i].title);
                table_print_rows(&cli->screen, &cli->out, site_tables[i].columns,
                                 site_tables[i].n_columns, rows);
        }
        put_advice(cli, v);
}

static int status(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        if (!cli->args.n_positional)
                return listing_run(cli, &sites, p);
        cli_request_init_named(&req, cli, "SITE");
        return cli_show(cli, &req, show_site, p);
}

/* ---- actions ---- */

static enum tone action_tone(const struct value *action)
{
        if (field_is(action, "status", "failed"))
                return TONE_RED;
        return field_is_true(action, "moved") ? TONE_YELLOW : TONE_PLAIN;
}

static void put_status(struct buf *b, const struct value *action, int64_t now_ms)
{
        (void)now_ms;
        buf_put_slice(b, field_text(action, "status"));
        buf_put_str(b, field_is_true(action, "moved") ? ", moved" : "");
}

static const struct column action_columns[] = {
        {"ID", .key = "id", .as = AS_INT},
        {"HOOK", .key = "hook", .may_shrink = true},
        {"STATUS", .put = put_status, .tone_of = action_tone},
        {"TIER", .key = "tier"},
        {"SCHEDULED", .key = "scheduled_ms", .as = AS_RELATIVE},
        {"ORIGINALLY", .put = put_original},
        {"TRIES", .put = put_tries, .is_right = true},
        {"GROUP", .key = "group", .as = AS_OR_DASH, .may_shrink = true},
};

static const struct listing actions = {
        .key = "actions",
        .empty = "no such actions\n",
        .columns = action_columns,
        .n_columns = ARRAY_LEN(action_columns),
};

/* ---- why ---- */

static void put_claim(struct buf *b, const struct value *v, int64_t now_ms)
{
        (void)now_ms;
        if (field_int(v, "claim"))
                buf_put_i64(b, field_int(v, "claim"));
        else
                buf_put_str(b, "none");
}

static const struct field_line why_lines[] = {
        {"tier", "tier", AS_TEXT, NULL, NULL},
        {"scheduled", "scheduled_ms", AS_MOMENT, "-", NULL},
        {"originally", "original_ms", AS_MOMENT, NULL, NULL},
        {"last try", "last_attempt_ms", AS_MOMENT, "never", NULL},
        {"tries", "attempts", AS_INT, "0", NULL},
        {"claim", NULL, AS_INT, NULL, put_claim},
        {"priority", "priority", AS_INT, "0", NULL},
        {"group", "group", AS_TEXT, NULL, NULL},
        {"schedule", "schedule", AS_TEXT, NULL, NULL},
        {"args", "arguments", AS_TEXT, NULL, NULL},
        {"WordPress", "url", AS_TEXT, NULL, NULL},
        {NULL, NULL, AS_TEXT, NULL, NULL},
};

static const struct column log_columns[] = {
        {"AT", .key = "at_ms", .as = AS_MOMENT},
        {"LOG", .key = "message"},
};

static void show_why(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        buf_printf(b, "action %lld ", (long long)field_int(v, "id"));
        text_put_safe(b, field_text(v, "hook"));
        buf_put_str(b, ": ");
        text_put_safe(b, field_text(v, "status"));
        buf_put_str(b, ": ");
        text_put_safe(b, field_text(v, "why"));
        buf_put_byte(b, '\n');
        put_field_lines(&cli->screen, b, LABEL_WIDTH, why_lines, v);
        if (list_len(value_get(v, "log")))
                buf_put_byte(b, '\n');
        table_print_rows(&cli->screen, b, log_columns, ARRAY_LEN(log_columns), value_get(v, "log"));
}

/* ---- the report ---- */

static void put_bytes(struct buf *b, int64_t bytes)
{
        if (bytes >= 10 * (int64_t)(1024 * MIB))
                buf_printf(b, "%lld GB", (long long)(bytes / (int64_t)(1024 * MIB)));
        else
                buf_printf(b, "%lld MB", (long long)((bytes + (int64_t)MIB - 1) / (int64_t)MIB));
}

static void put_table_bytes(struct buf *b, const struct value *row, int64_t now_ms)
{
        (void)now_ms;
        put_bytes(b, field_int(row, "bytes"));
}

static void put_figure(struct buf *b, const struct value *row, int64_t now_ms)
{
        (void)now_ms;
        buf_printf(b, "%s%lld", field_is_true(row, "estimate") ? "~" : "",
                   (long long)field_int(row, "count"));
}

static void put_seconds(struct buf *b, const struct value *row, int64_t now_ms)
{
        int64_t s = field_int(row, "seconds");
        (void)now_ms;
        if (s)
                duration_put(b, s * MS_PER_S);
        else
                buf_put_str(b, "under 1 s"); /* the log has whole seconds */
}

/* clang-format off */
#define FIGURE_COLUMN {"NUMBER", .put = put_figure, .is_right = true}

static const struct column table_size_columns[] = {
        {"TABLE", .key = "name"},
        {"ROWS (ABOUT)", .key = "rows", .as = AS_INT},
        {"SIZE", .put = put_table_bytes, .is_right = true},
};
static const struct column status_figure_columns[] = {{"STATUS", .key = "name"}, FIGURE_COLUMN};
static const struct column day_columns[] = {{"DAY", .key = "name"}, FIGURE_COLUMN};
static const struct column hook_figure_columns[] = {
        {"HOOK", .key = "name", .may_shrink = true}, FIGURE_COLUMN};
static const struct column late_columns[] = {
        {"HOOK", .key = "name", .may_shrink = true}, FIGURE_COLUMN, {"OLDEST", .put = put_seconds}};
static const struct column slow_columns[] = {
        {"HOOK", .key = "name", .may_shrink = true},
        {"RUNS", .key = "count", .as = AS_INT}, {"SLOWEST", .put = put_seconds}};
/* clang-format on */

static const struct {
        const char *key, *title;
        const struct column *columns;
        size_t n_columns;
} report_tables[] = {
        {"tables", "size", table_size_columns, ARRAY_LEN(table_size_columns)},
        {"statuses", "actions by status", status_figure_columns, ARRAY_LEN(status_figure_columns)},
        {"days", "completed by day (UTC)", day_columns, ARRAY_LEN(day_columns)},
        {"past_due", "past due", late_columns, ARRAY_LEN(late_columns)},
        {"failed", "failed", hook_figure_columns, ARRAY_LEN(hook_figure_columns)},
        {"slowest", "slowest of the last that ran", slow_columns, ARRAY_LEN(slow_columns)},
        {"pending", "pending", hook_figure_columns, ARRAY_LEN(hook_figure_columns)},
        {"created", "created in a day", hook_figure_columns, ARRAY_LEN(hook_figure_columns)},
};

static void put_retention(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        int64_t past = field_int(v, "past"), pace = field_int(v, "deleted_per_second");
        put_heading(cli, "retention");
        buf_printf(b, "  past their time: %s%lld finished actions, about %lld log lines, about ",
                   field_is_true(v, "past_estimate") ? "about " : "", (long long)past,
                   (long long)field_int(v, "past_lines"));
        put_bytes(b, field_int(v, "past_bytes"));
        buf_printf(b, "\n  finished in the last day: %lld\n",
                   (long long)field_int(v, "finished_per_day"));
        if (!pace)
                return;
        buf_printf(b, "  deleted of late: %lld a second; the rest takes about ", (long long)pace);
        duration_put(b, past / pace * MS_PER_S);
        buf_put_byte(b, '\n');
}

static void show_report(struct cli *cli, const struct value *v)
{
        for (size_t i = 0; i < ARRAY_LEN(report_tables); i++) {
                const struct value *rows = value_get(v, report_tables[i].key);
                if (!list_len(rows))
                        continue;
                put_heading(cli, report_tables[i].title);
                table_print_rows(&cli->screen, &cli->out, report_tables[i].columns,
                                 report_tables[i].n_columns, rows);
        }
        put_retention(cli, v);
        buf_printf(&cli->out, "  pending twice with the same arguments: %lld\n",
                   (long long)field_int(v, "duplicates"));
        put_advice(cli, v);
}

/* ---- the noun ---- */

const struct option_def cli_wordpress_check_options[] = {
        {"config", "FILE", "the configuration of weir; also -c"},
        {"json", NULL, "print JSON for programs"},
        {"help", NULL, "print this help"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {.name = "check",
         .usage = "-c FILE [NAME] [options]",
         .summary = "Connect to the sites of a configuration and say what is there.",
         .text = "For each site, or the one that is named: the server, Action Scheduler's tables,\n"
                 "due actions by tier, what each repair would find, what weir may do in the mode\n"
                 "of the site, and which privileges are missing, with the GRANT to run. Changes\n"
                 "nothing. Exits with 0, or 1 when a site lacks what its mode needs.\n\n"
                 "  weir wordpress check -c /etc/weir/weir.conf\n",
         .options = cli_wordpress_check_options},
        {"status", "[NAME]", "Show the WordPress sites, or everything about one.",
         "DUE with a plus: there are more than were counted. MOVED: actions that weir gave a\n"
         "later date, and in observe mode how many it would have moved.\n\n"
         "  weir wordpress status\n"
         "  weir wordpress status shop --watch\n",
         .command = "SITES", .run = status},
        {"actions", "NAME", "List actions of a site, as they are in its database now.",
         "SCHEDULED is the date in the database, ORIGINALLY the one before weir moved it.\n\n"
         "  weir wordpress actions shop --status moved\n",
         .command = "SITEACTIONS", .listing = &actions},
        {"report", "NAME", "Report on the tables of a site: sizes, hooks, lateness, retention.",
         "A ~ is an estimate: of the server, or because only the first 2,000 actions were looked\n"
         "at. Reads a bounded number of rows, however large the tables are.\n\n"
         "  weir wordpress report shop\n"
         "  weir wordpress report shop --json\n",
         .command = "SITEREPORT", .show = show_report},
        {"why", "NAME ID", "Explain one action: what it waits for, and its log.",
         "  weir wordpress why shop 1234\n", .command = "SITEWHY", .show = show_why},
};

const struct cli_group cli_group_wordpress = {
        "wordpress", "Look at WordPress sites and their actions.", commands, ARRAY_LEN(commands)};

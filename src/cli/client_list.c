/* weir client: who asks, and what they were told.
 *
 * The server tells when a name was mostly refused and why, with times in UTC; people look at the
 * clock on their wall, so the sentence is put together again here with local times and the
 * server's own reason. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/plural.h"
#include "cli/listing.h"
#include "cli/text.h"

#define MINUTES_SHOWN "15"
#define BAR_WIDTH     24

/* ---- list ---- */

static const struct column columns[] = {
        {"NAME", false, true},    {"KIND", false, false},        {"ASKS", true, false},
        {"GRANTED", true, false}, {"REFUSED", true, false},      {"WOULD REFUSE", true, false},
        {"LAST", false, false},   {"NO GRANT FOR", true, false},
};

static void list_row(struct table *t, const struct value *v, int64_t now_ms)
{
        int64_t waiting_ms = field_int(v, "waiting_ms");
        struct buf text CLEANUP(buf_release) = {0};
        table_add(t, field_text(v, "name"), TONE_PLAIN);
        table_add(t, field_text(v, "kind"), TONE_PLAIN);
        table_add_int(t, field_int(v, "asks"));
        table_add_int(t, field_int(v, "granted"));
        table_add_int(t, field_int(v, "refused"));
        table_add_int(t, field_int(v, "observed"));
        moment_put_relative(&text, field_int(v, "last_ms"), now_ms);
        table_add(t, buf_slice(&text), TONE_PLAIN);
        buf_clear(&text);
        if (waiting_ms > 0)
                duration_put(&text, waiting_ms);
        buf_put_str(&text, field_is_true(v, "starved") ? " (starved)" : "");
        table_add(t, buf_slice(&text), field_is_true(v, "starved") ? TONE_RED : TONE_PLAIN);
}

static const char *const list_passed[][2] = {
        {"match", "MATCH"}, {"kind", "KIND"}, {"order", "ORDER"}, {"limit", "LIMIT"}, {NULL, NULL},
};

static void put_other(struct buf *notes, const struct value *page)
{
        int64_t n = field_int(page, "other");
        buf_put_str(notes, "counted since ");
        moment_put(notes, field_int(page, "start_ms"));
        buf_put_str(notes, ", when the server started\n");
        if (n > 0)
                buf_printf(notes, "besides, %lld %s of clients that are not kept any more\n",
                           (long long)n, plural((uint64_t)n, "ask", "asks"));
}

static const struct listing listing = {
        .command = "CLIENTS",
        .key = "clients",
        .empty = "nobody has asked since the server started\n",
        .options = list_passed,
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
        .after = put_other,
};

static int client_list(struct cli *cli, struct problem *p)
{
        return listing_run(cli, &listing, p);
}

/* ---- show: the story ---- */

/* "07:00", with the day before it when that is not today. */
static void put_clock(struct buf *b, int64_t at_ms, int64_t now_ms)
{
        time_t at = (time_t)(at_ms / 1000), now = (time_t)(now_ms / 1000);
        struct tm tm, today;
        char text[32];
        if (!localtime_r(&at, &tm) || !localtime_r(&now, &today)) {
                buf_put_i64(b, at_ms);
                return;
        }
        bool is_today = tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year;
        size_t n = is_today ? strftime(text, sizeof(text), "%H:%M", &tm)
                            : strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm);
        buf_put_slice(b, slice_make(text, n));
}

/* The server's sentence from its "because" on; the whole of it when there is none. */
static struct slice because_of(struct slice text)
{
        static const char word[] = " UTC because ";
        const char *found = text.len ? memmem(text.ptr, text.len, word, sizeof(word) - 1) : NULL;
        if (!found)
                return text;
        found += sizeof(" UTC ") - 1;
        return slice_make(found, text.len - (size_t)(found - text.ptr));
}

static void put_story(struct buf *b, const struct value *v, int64_t now_ms)
{
        const struct value *story = value_get(v, "story");
        struct slice name = field_text(v, "name");
        for (size_t i = 0; i < list_len(story); i++) {
                const struct value *run = &story->items[i];
                text_put_safe(b, name);
                buf_put_str(b, " was mostly refused between ");
                put_clock(b, field_int(run, "from_ms"), now_ms);
                buf_put_str(b, " and ");
                put_clock(b, field_int(run, "to_ms"), now_ms);
                buf_put_byte(b, ' ');
                text_put_safe(b, because_of(field_text(run, "text")));
                buf_put_byte(b, '\n');
        }
        if (list_len(story))
                return;
        text_put_safe(b, name);
        buf_put_str(b, " was at no time mostly refused since ");
        put_clock(b, field_int(v, "minutes_from_ms"), now_ms);
        buf_put_byte(b, '\n');
}

/* ---- show: totals ---- */

static void put_label(struct cli *cli, const char *name)
{
        cli_put_label(cli, 13, name);
}

static void show_moment(struct cli *cli, const char *label, int64_t at_ms, int64_t now_ms)
{
        put_label(cli, label);
        if (at_ms <= 0) {
                buf_put_str(&cli->out, "never\n");
                return;
        }
        moment_put(&cli->out, at_ms);
        buf_put_str(&cli->out, " (");
        moment_put_relative(&cli->out, at_ms, now_ms);
        buf_put_str(&cli->out, ")\n");
}

static void show_counts(struct cli *cli, const struct value *v)
{
        const struct value *reasons = value_get(v, "reasons");
        int64_t asks = field_int(v, "asks"), refused = field_int(v, "refused");
        int64_t observed = field_int(v, "observed"), waited_ms = field_int(v, "waited_ms");
        put_label(cli, "asks");
        buf_printf(&cli->out, "%lld: %lld granted, %lld refused (%lld %%)", (long long)asks,
                   (long long)field_int(v, "granted"), (long long)refused,
                   (long long)(asks ? (refused * 100 + asks / 2) / asks : 0));
        if (observed)
                buf_printf(&cli->out, "; enforce would refuse %lld more", (long long)observed);
        buf_put_byte(&cli->out, '\n');
        if (reasons && reasons->type == VALUE_MAP && reasons->n) {
                put_label(cli, "reasons");
                for (size_t i = 0; i + 1 < reasons->n; i += 2) {
                        buf_put_str(&cli->out, i ? ", " : "");
                        text_put_safe(&cli->out, value_text(&reasons->items[i]));
                        buf_printf(&cli->out, " %lld",
                                   (long long)value_int(&reasons->items[i + 1], 0));
                }
                buf_put_byte(&cli->out, '\n');
        }
        if (waited_ms) {
                put_label(cli, "waited");
                duration_put(&cli->out, waited_ms);
                buf_put_str(&cli->out, " in all\n");
        }
}

static void show_times(struct cli *cli, const struct value *v, int64_t now_ms)
{
        int64_t waiting_ms = field_int(v, "waiting_ms");
        show_moment(cli, "counted since", field_int(v, "from_ms"), now_ms);
        show_moment(cli, "first ask", field_int(v, "first_ms"), now_ms);
        show_moment(cli, "last ask", field_int(v, "last_ms"), now_ms);
        show_moment(cli, "last grant", field_int(v, "granted_ms"), now_ms);
        show_moment(cli, "last refusal", field_int(v, "refused_ms"), now_ms);
        if (waiting_ms <= 0)
                return;
        put_label(cli, "no grant for");
        duration_put(&cli->out, waiting_ms);
        buf_put_str(&cli->out, field_is_true(v, "starved")
                                       ? ": it is starved, see 'weir throttle starved'\n"
                                       : "\n");
}

static void show_who(struct cli *cli, const struct value *v, int64_t now_ms)
{
        const struct value *addresses = value_get(v, "addresses"), *parts = value_get(v, "parts");
        int64_t identities = field_int(v, "identities");
        for (size_t i = 0; i < list_len(addresses); i++) {
                put_label(cli, i ? "" : "from");
                struct slice address = field_text(&addresses->items[i], "address");
                text_put_safe(&cli->out, address.len ? address : SLICE_LIT("a local socket"));
                buf_put_str(&cli->out, " (");
                moment_put_relative(&cli->out, field_int(&addresses->items[i], "last_ms"), now_ms);
                buf_put_str(&cli->out, ")\n");
        }
        if (list_len(parts) > 1) {
                put_label(cli, "parts");
                for (size_t i = 0; i < parts->n; i++) {
                        buf_put_str(&cli->out, i ? ", " : "");
                        text_put_safe(&cli->out, value_text(&parts->items[i]));
                }
                buf_put_byte(&cli->out, '\n');
        }
        if (identities > 0) {
                put_label(cli, "part of");
                buf_printf(&cli->out, "%lld %s\n", (long long)identities,
                           plural((uint64_t)identities, "identity", "identities"));
        }
}

/* ---- show: minutes ---- */

static const struct column minute_columns[] = {
        {"MINUTE", false, false}, {"ASKS", true, false},      {"GRANTED", true, false},
        {"REFUSED", true, false}, {"# REFUSED", false, true}, {"WHY", false, true},
};

/* As long as the minute was busy beside the busiest; what was refused is on its left. */
static void put_bar(struct buf *b, int64_t asks, int64_t refused, int64_t most)
{
        int64_t width = most > 0 ? (asks * BAR_WIDTH + most - 1) / most : 0;
        int64_t dark = asks > 0 ? (refused * width + asks - 1) / asks : 0;
        for (int64_t i = 0; i < width; i++)
                buf_put_byte(b, i < dark ? '#' : '.');
}

/* The most frequent reason; the metric is that of the last refusal that had one, which may have
 * been for another reason. */
static void put_why(struct buf *b, const struct value *m)
{
        struct slice reason = field_text(m, "reason"), metric = field_text(m, "metric");
        bool is_metric =
                slice_eq(reason, SLICE_LIT("threshold")) || slice_eq(reason, SLICE_LIT("unknown"));
        buf_put_slice(b, reason);
        if (!is_metric || !metric.len)
                return;
        buf_put_str(b, ": ");
        buf_put_slice(b, metric);
        buf_put_str(b, " on ");
        buf_put_slice(b, field_text(m, "target"));
}

static void minute_row(struct table *t, const struct value *m, int64_t most, int64_t now_ms)
{
        int64_t asks = field_int(m, "asks"), refused = field_int(m, "refused");
        struct buf text CLEANUP(buf_release) = {0};
        put_clock(&text, field_int(m, "at_ms"), now_ms);
        table_add(t, buf_slice(&text), TONE_DIM);
        table_add_int(t, asks);
        table_add_int(t, field_int(m, "granted"));
        table_add_int(t, refused);
        buf_clear(&text);
        put_bar(&text, asks, refused, most);
        table_add(t, buf_slice(&text), refused ? TONE_RED : TONE_GREEN);
        buf_clear(&text);
        put_why(&text, m);
        table_add(t, buf_slice(&text), TONE_PLAIN);
}

static void show_minutes(struct cli *cli, const struct value *v, int64_t now_ms)
{
        const struct value *minutes = value_get(v, "minutes");
        int64_t most = 0;
        struct table t;
        if (!list_len(minutes))
                return;
        for (size_t i = 0; i < minutes->n; i++) {
                int64_t asks = field_int(&minutes->items[i], "asks");
                most = asks > most ? asks : most;
        }
        table_init(&t, minute_columns, ARRAY_LEN(minute_columns));
        for (size_t i = 0; i < minutes->n; i++)
                minute_row(&t, &minutes->items[i], most, now_ms);
        buf_put_byte(&cli->out, '\n');
        table_print(&t, &cli->screen, &cli->out);
        table_release(&t);
}

static void show_client(struct cli *cli, const struct value *v)
{
        int64_t now_ms = clock_wall_ms();
        put_story(&cli->out, v, now_ms);
        buf_put_byte(&cli->out, '\n');
        show_counts(cli, v);
        show_times(cli, v, now_ms);
        show_who(cli, v, now_ms);
        show_minutes(cli, v, now_ms);
}

static int client_show(struct cli *cli, struct problem *p)
{
        const char *minutes = args_get(&cli->args, "minutes");
        struct cli_request req;
        cli_request_init_named(&req, cli, "CLIENTSHOW");
        cli_request_add_str(&req, "MINUTES");
        cli_request_add_str(&req, minutes ? minutes : MINUTES_SHOWN);
        return cli_show(cli, &req, show_client, p);
}

/* ---- rows ---- */

static const struct option_def list_options[] = {
        {"match", "TEXT", "only names that hold TEXT"},
        {"kind", "KIND", "identity: those who ask; part: the parts of their names (both)"},
        {"order", "ORDER", "name, or those with most first: asks, refused (name)"},
        LISTING_PAGE_OPTIONS,
        {NULL, NULL, NULL},
};

static const struct option_def show_options[] = {
        {"minutes", "N", "at most N of the last minutes in which it asked, 0 to 1440 (15)"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"list", "", "List who asked and what they were told.",
         "Counts since the server started, of identities and of each of their parts. NO GRANT FOR\n"
         "is how long one that goes on asking has been refused.\n\n"
         "  weir client list --order refused --limit 10\n",
         list_options, 0, 0, false, client_list},
        {"show", "NAME", "Tell when a client was refused, and why.",
         "NAME is an identity or a part of one. Times are local.\n\n"
         "  weir client show daily-etl --minutes 60\n",
         show_options, 1, 1, false, client_show},
};

const struct cli_group cli_group_client = {"client", "See who asks, and who was throttled when.",
                                           commands, ARRAY_LEN(commands)};

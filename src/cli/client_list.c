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

static void put_waiting(struct buf *b, const struct value *v, int64_t now_ms)
{
        int64_t waiting_ms = field_int(v, "waiting_ms");
        (void)now_ms;
        if (waiting_ms > 0)
                duration_put(b, waiting_ms);
        buf_put_str(b, field_is_true(v, "starved") ? " (starved)" : "");
}

static enum tone waiting_tone(const struct value *v)
{
        return field_is_true(v, "starved") ? TONE_RED : TONE_PLAIN;
}

static const struct column columns[] = {
        {"NAME", .key = "name", .may_shrink = true},
        {"KIND", .key = "kind"},
        {"ASKS", .key = "asks", .as = AS_INT},
        {"GRANTED", .key = "granted", .as = AS_INT},
        {"REFUSED", .key = "refused", .as = AS_INT},
        {"WOULD REFUSE", .key = "observed", .as = AS_INT},
        {"LAST", .key = "last_ms", .as = AS_RELATIVE},
        {"NO GRANT FOR", .put = put_waiting, .tone_of = waiting_tone, .is_right = true},
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
        .key = "clients",
        .empty = "nobody has asked since the server started\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .after = put_other,
};

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

#define LABEL_WIDTH 13

static void show_label(struct cli *cli, const char *name)
{
        put_label(&cli->screen, &cli->out, LABEL_WIDTH, name);
}

static void show_counts(struct cli *cli, const struct value *v)
{
        const struct value *reasons = value_get(v, "reasons");
        int64_t asks = field_int(v, "asks"), refused = field_int(v, "refused");
        int64_t observed = field_int(v, "observed"), waited_ms = field_int(v, "waited_ms");
        show_label(cli, "asks");
        buf_printf(&cli->out, "%lld: %lld granted, %lld refused (%lld %%)", (long long)asks,
                   (long long)field_int(v, "granted"), (long long)refused,
                   (long long)(asks ? (refused * 100 + asks / 2) / asks : 0));
        if (observed)
                buf_printf(&cli->out, "; enforce would refuse %lld more", (long long)observed);
        buf_put_byte(&cli->out, '\n');
        if (reasons && reasons->type == VALUE_MAP && reasons->n) {
                show_label(cli, "reasons");
                for (size_t i = 0; i + 1 < reasons->n; i += 2) {
                        buf_put_str(&cli->out, i ? ", " : "");
                        text_put_safe(&cli->out, value_text(&reasons->items[i]));
                        buf_printf(&cli->out, " %lld",
                                   (long long)value_int(&reasons->items[i + 1], 0));
                }
                buf_put_byte(&cli->out, '\n');
        }
        if (waited_ms) {
                show_label(cli, "waited");
                duration_put(&cli->out, waited_ms);
                buf_put_str(&cli->out, " in all\n");
        }
}

static const struct field_line times[] = {
        {"counted since", .key = "from_ms", .as = AS_MOMENT, .none = "never"},
        {"first ask", .key = "first_ms", .as = AS_MOMENT, .none = "never"},
        {"last ask", .key = "last_ms", .as = AS_MOMENT, .none = "never"},
        {"last grant", .key = "granted_ms", .as = AS_MOMENT, .none = "never"},
        {"last refusal", .key = "refused_ms", .as = AS_MOMENT, .none = "never"},
        {.label = NULL},
};

static void show_times(struct cli *cli, const struct value *v)
{
        int64_t waiting_ms = field_int(v, "waiting_ms");
        put_field_lines(&cli->screen, &cli->out, LABEL_WIDTH, times, v);
        if (waiting_ms <= 0)
                return;
        show_label(cli, "no grant for");
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
                show_label(cli, i ? "" : "from");
                struct slice address = field_text(&addresses->items[i], "address");
                text_put_safe(&cli->out, address.len ? address : SLICE_LIT("a local socket"));
                buf_put_str(&cli->out, " (");
                moment_put_relative(&cli->out, field_int(&addresses->items[i], "last_ms"), now_ms);
                buf_put_str(&cli->out, ")\n");
        }
        if (list_len(parts) > 1) {
                show_label(cli, "parts");
                for (size_t i = 0; i < parts->n; i++) {
                        buf_put_str(&cli->out, i ? ", " : "");
                        text_put_safe(&cli->out, value_text(&parts->items[i]));
                }
                buf_put_byte(&cli->out, '\n');
        }
        if (identities > 0) {
                show_label(cli, "part of");
                buf_printf(&cli->out, "%lld %s\n", (long long)identities,
                           plural((uint64_t)identities, "identity", "identities"));
        }
}

/* ---- show: minutes ---- */

static const struct column minute_columns[] = {
        {.title = "MINUTE"},
        {"ASKS", .is_right = true},
        {"GRANTED", .is_right = true},
        {"REFUSED", .is_right = true},
        {"# REFUSED", .may_shrink = true},
        {"WHY", .may_shrink = true},
};

/* Its length is the share of the busiest minute; its left part the share that was refused. */
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
        show_times(cli, v);
        show_who(cli, v, now_ms);
        show_minutes(cli, v, now_ms);
}

static const struct option_def show_options[] = {
        {"minutes", "N", "at most N of the last minutes in which it asked, 0 to 1440 (15)"},
        {NULL, NULL, NULL},
};

static int client_show(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        int r = cli_request_of_row(&req, cli, p);
        if (r != OK)
                return r;
        if (!args_has(&cli->args, "minutes")) {
                cli_request_add_str(&req, "MINUTES");
                cli_request_add_str(&req, MINUTES_SHOWN);
        }
        return cli_show(cli, &req, show_client, p);
}

static const struct cli_command commands[] = {
        {"list", "", "List who asked and what they were told.",
         "Counts since the server started, of identities and of each of their parts. NO "
         "GRANT FOR\n"
         "is how long one that goes on asking has been refused.\n\n"
         "  weir client list --order refused --limit 10\n",
         .command = "CLIENTS", .listing = &listing},
        {"show", "NAME", "Tell when a client was refused, and why.",
         "NAME is an identity or a part of one. Times are local.\n\n"
         "  weir client show daily-etl --minutes 60\n",
         .options = show_options, .command = "CLIENTSHOW", .run = client_show},
};

const struct cli_group cli_group_client = {"client", "See who asks, and who was throttled when.",
                                           commands, ARRAY_LEN(commands)};

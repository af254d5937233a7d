/* weir proxy: the doors of the MySQL proxy: what passes, what waits and why.
 *
 * Most servers have one door, so its name may be left out: then it is asked for first. */
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "base/shown.h"
#include "cli/listing.h"
#include "cli/text.h"

#define LABEL_WIDTH 11
#define NAME_ROOM   256

/* ---- which door ---- */

/* The name of the only door; several are named, so that one can be chosen. */
static int find_only(struct cli *cli, char ret[NAME_ROOM], struct problem *p)
{
        const struct value *doors;
        struct buf names CLEANUP(buf_release) = {0};
        struct cli_request req;
        cli_request_init(&req, "PROXIES");
        int r = cli_request_call(cli, &req, &doors, p);
        if (r != OK)
                return r;
        for (size_t i = 0; i < list_len(doors); i++) {
                buf_put_str(&names, i ? ", " : "");
                text_put_safe(&names, field_text(&doors->items[i], "name"));
        }
        if (list_len(doors) == 0)
                return problem_set(p, ERR_NOTFOUND, "no MySQL door is configured");
        if (list_len(doors) > 1)
                return problem_set(p, ERR_SYNTAX, "there are several doors; name one of them: %s",
                                   buf_cstr(&names));
        struct slice name = field_text(&doors->items[0], "name");
        (void)snprintf(ret, NAME_ROOM, "%.*s", (int)name.len, name.ptr);
        return OK;
}

/* Puts the name of the only door where the first word is missing. */
static int name_door(struct cli *cli, struct problem *p)
{
        static char only[NAME_ROOM]; /* the words of a run live as long as the process */
        if (cli->args.n_positional)
                return OK;
        int r = find_only(cli, only, p);
        if (r == OK)
                cli->args.positional[cli->args.n_positional++] = only;
        return r;
}

static int run_named(struct cli *cli, struct problem *p)
{
        int r = name_door(cli, p);
        return r == OK ? cli_run_row(cli, p) : r;
}

/* ---- cells ---- */

/* "850 us", "12.4 ms", "3.1 s" */
static void put_us(struct buf *b, int64_t us)
{
        if (us < 1000)
                buf_printf(b, "%lld us", (long long)us);
        else if (us < 1000000)
                buf_printf(b, "%.3g ms", (double)us / 1e3);
        else
                buf_printf(b, "%.3g s", (double)us / 1e6);
}

static void put_pair(struct buf *b, const struct value *row, const char *p50, const char *p99)
{
        if (!field_int(row, p99)) {
                buf_put_byte(b, '-');
                return;
        }
        put_us(b, field_int(row, p50));
        buf_put_str(b, ", ");
        put_us(b, field_int(row, p99));
}

static void put_wait(struct buf *b, const struct value *row, int64_t now_ms)
{
        (void)now_ms;
        put_pair(b, row, "wait_us_p50", "wait_us_p99");
}

static void put_service(struct buf *b, const struct value *row, int64_t now_ms)
{
        (void)now_ms;
        put_pair(b, row, "service_us_p50", "service_us_p99");
}

/* "3 of 100" */
static void put_connections(struct buf *b, const struct value *door, int64_t now_ms)
{
        (void)now_ms;
        buf_put_i64(b, field_int(door, "connections"));
        if (field_int(door, "connections_max"))
                buf_printf(b, " of %lld", (long long)field_int(door, "connections_max"));
}

/* Held ones, and in a mode that holds nothing "0 (120 would)". */
static void put_held(struct buf *b, const struct value *row, int64_t now_ms)
{
        (void)now_ms;
        buf_put_i64(b, field_int(row, "held"));
        if (field_int(row, "observed"))
                buf_printf(b, " (%lld would)", (long long)field_int(row, "observed"));
}

static void put_window(struct buf *b, const struct value *door, int64_t now_ms)
{
        (void)now_ms;
        buf_printf(b, "%lld of %lld", (long long)field_int(door, "excess"),
                   (long long)field_int(door, "window"));
}

/* "learning" until weir knows what is usual. */
static const char *load_word(const struct value *door)
{
        if (field_is_true(door, "over"))
                return "over";
        return field_is_true(door, "learned") ? "well" : "learning";
}

static void put_load(struct buf *b, const struct value *door, int64_t now_ms)
{
        (void)now_ms;
        buf_put_str(b, load_word(door));
}

static void put_load_why(struct buf *b, const struct value *door, int64_t now_ms)
{
        struct slice why = field_text(door, "why");
        if (field_is_true(door, "over"))
                buf_put_str(b, "over: ");
        if (why.len)
                buf_put_slice(b, why);
        else
                put_load(b, door, now_ms);
}

static void put_problem(struct buf *b, const struct value *door, int64_t now_ms)
{
        (void)now_ms;
        buf_put_slice(b, field_text(door, "problem"));
        if (field_is_true(door, "draining"))
                buf_put_str(b, field_text(door, "problem").len ? ", draining" : "draining");
}

static enum tone door_tone(const struct value *door)
{
        return field_is_true(door, "over") ? TONE_YELLOW : TONE_PLAIN;
}

/* "waits: a rule holds it", "would wait: ...", "runs" */
static void put_now(struct buf *b, const struct value *row, int64_t now_ms)
{
        struct slice why = field_text(row, "why");
        bool runs = field_is(row, "verdict", "run");
        (void)now_ms;
        buf_put_str(b, runs ? "runs" : field_is(row, "verdict", "wait") ? "waits" : "would wait");
        if (runs || !why.len)
                return;
        buf_put_str(b, ": ");
        buf_put_slice(b, why);
}

static enum tone verdict_tone(const struct value *row)
{
        return field_is(row, "verdict", "run") ? TONE_PLAIN : TONE_YELLOW;
}

/* ---- the doors ---- */

static const struct column door_columns[] = {
        {"DOOR", .key = "name", .may_shrink = true},
        {"MODE", .key = "mode"},
        {"LOAD", .put = put_load, .tone_of = door_tone},
        {"LISTENS", .key = "listens", .may_shrink = true},
        {"SERVER", .key = "server", .may_shrink = true},
        {"CLIENTS", .put = put_connections, .is_right = true},
        {"RUNNING", .key = "running", .as = AS_INT},
        {"WAITING", .key = "waiting", .as = AS_INT},
        {"WINDOW", .put = put_window, .is_right = true},
        {"TRANSACTIONS", .key = "transactions", .as = AS_INT},
        {"HELD", .put = put_held, .is_right = true},
        {"REFUSED", .key = "refused", .as = AS_INT},
        {"PROBLEM", .put = put_problem, .tone = TONE_RED, .may_shrink = true},
};

static const struct listing doors = {
        .empty = "no MySQL door is configured: a section mysql \"NAME\" { ... } of the "
                 "configuration adds one, see weir.conf(5)\n",
        .columns = door_columns,
        .n_columns = ARRAY_LEN(door_columns),
};

/* ---- classes ---- */

static const struct column class_columns[] = {
        {"CLASS", .key = "class", .may_shrink = true},
        {"TIER", .key = "tier"},
        {"MODE", .key = "mode"},
        {"RUNNING", .key = "running", .as = AS_INT},
        {"EXECUTING", .key = "executing", .as = AS_INT},
        {"USUAL", .key = "usual", .is_right = true},
        {"IN WINDOW", .key = "excess", .as = AS_INT},
        {"WAITING", .key = "waiting", .as = AS_INT},
        {"TRANS/S", .key = "transactions_per_s", .is_right = true},
        {"MS/S", .key = "busy_ms_per_s", .as = AS_INT},
        {"HELD", .put = put_held, .is_right = true},
        {"REFUSED", .key = "refused", .as = AS_INT},
        {"WAIT P50, P99", .put = put_wait, .is_right = true},
        {"SERVICE P50, P99", .put = put_service, .is_right = true},
        {"NOW", .put = put_now, .tone_of = verdict_tone, .may_shrink = true},
};

static const struct listing classes = {
        .empty = "no transaction has passed yet\n",
        .columns = class_columns,
        .n_columns = ARRAY_LEN(class_columns),
};

/* ---- one door ---- */

static const struct field_line show_lines[] = {
        {"target", "target", AS_TEXT, "none: only rules and limits count", NULL},
        {"listens", "listens", AS_TEXT, "nowhere", NULL},
        {"server", "server", AS_TEXT, NULL, NULL},
        {"problem", "problem", AS_TEXT, NULL, NULL},
        {"clients", NULL, AS_INT, NULL, put_connections},
        {"running", "running", AS_INT, "0", NULL},
        {"waiting", "waiting", AS_INT, "0", NULL},
        {"executing", "executing", AS_INT, "0", NULL},
        {"window", NULL, AS_INT, NULL, put_window},
        {"load", NULL, AS_INT, NULL, put_load_why},
        {"held", NULL, AS_INT, NULL, put_held},
        {"refused", "refused", AS_INT, "0", NULL},
        {"left", "left", AS_INT, NULL, NULL},
        {"done", "transactions", AS_INT, "0", NULL},
        {NULL, NULL, AS_TEXT, NULL, NULL},
};

static void show_door(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        buf_put_str(b, "door ");
        text_put_safe(b, field_text(v, "name"));
        buf_put_str(b, ": mode ");
        text_put_safe(b, field_text(v, "mode"));
        buf_put_str(b, field_is_true(v, "draining") ? ", draining\n" : "\n");
        put_field_lines(&cli->screen, b, LABEL_WIDTH, show_lines, v);
        if (list_len(value_get(v, "classes")))
                buf_put_byte(b, '\n');
        table_print_rows(&cli->screen, b, class_columns, ARRAY_LEN(class_columns),
                         value_get(v, "classes"));
}

/* ---- clients ---- */

static enum tone client_tone(const struct value *client)
{
        return field_is(client, "state", "held") ? TONE_YELLOW : TONE_PLAIN;
}

static void put_state(struct buf *b, const struct value *client, int64_t now_ms)
{
        (void)now_ms;
        buf_put_slice(b, field_text(client, "state"));
        buf_put_str(b, field_is_true(client, "has_locks") ? ", locks" : "");
}

static const struct column client_columns[] = {
        {"ID", .key = "id", .as = AS_INT},
        {"STATE", .put = put_state, .tone_of = client_tone},
        {"FOR", .key = "state_ms", .as = AS_DURATION},
        {"CLASS", .key = "class", .as = AS_OR_DASH, .may_shrink = true},
        {"USER", .key = "user", .as = AS_OR_DASH},
        {"DATABASE", .key = "database", .as = AS_OR_DASH},
        {"PROGRAM", .key = "program", .as = AS_OR_DASH, .may_shrink = true},
        {"ADDRESS", .key = "address", .as = AS_OR_DASH},
        {"TRANSACTIONS", .key = "transactions", .as = AS_INT},
        {"STATEMENT", .key = "text", .as = AS_OR_DASH, .may_shrink = true},
        {"WHY", .key = "why", .may_shrink = true},
};

static void tell_more(struct buf *notes, const struct value *page)
{
        if (field_is_true(page, "more"))
                buf_put_str(notes, "there are more: --limit shows up to 1000, --state and --class "
                                   "choose among them\n");
}

static const struct listing clients = {
        .key = "clients",
        .empty = "no such clients\n",
        .columns = client_columns,
        .n_columns = ARRAY_LEN(client_columns),
        .after = tell_more,
};

/* ---- statements ---- */

static void put_mean(struct buf *b, const struct value *s, int64_t now_ms)
{
        (void)now_ms;
        put_us(b, field_int(s, "mean_us"));
}

static void put_longest(struct buf *b, const struct value *s, int64_t now_ms)
{
        (void)now_ms;
        put_us(b, field_int(s, "max_us"));
}

static const struct column statement_columns[] = {
        {"DIGEST", .key = "digest"},
        {"COUNT", .key = "count", .as = AS_INT},
        {"TIME", .key = "busy_ms", .as = AS_DURATION},
        {"MEAN", .put = put_mean, .is_right = true},
        {"MAX", .put = put_longest, .is_right = true},
        {"ROWS", .key = "rows", .as = AS_INT},
        {"ERRORS", .key = "errors", .as = AS_INT},
        {"HELD", .key = "held", .as = AS_INT},
        {"CLASS", .key = "class", .as = AS_OR_DASH, .may_shrink = true},
        {"STATEMENT", .key = "text", .may_shrink = true},
};

static const struct listing statements = {
        .empty = "no statement has passed yet\n",
        .columns = statement_columns,
        .n_columns = ARRAY_LEN(statement_columns),
};

/* ---- explain ---- */

static void put_can_wait(struct buf *b, const struct value *v, int64_t now_ms)
{
        (void)now_ms;
        text_put_safe(b, field_text(v, "kind"));
        buf_put_str(b, field_is_true(v, "can_wait") ? "" : ", which never waits");
}

static void put_limits(struct buf *b, const struct value *v, int64_t now_ms)
{
        const char *comma = "";
        (void)now_ms;
        if (field_int(v, "concurrency")) {
                buf_printf(b, "%lld at once", (long long)field_int(v, "concurrency"));
                comma = ", ";
        }
        if (field_text(v, "rate").len) {
                buf_put_str(b, comma);
                text_put_safe(b, field_text(v, "rate"));
                buf_put_str(b, " starts a second");
                comma = ", ";
        }
        if (field_int(v, "time_budget_ms")) {
                buf_printf(b, "%s%lld ms of database time a second", comma,
                           (long long)field_int(v, "time_budget_ms"));
                comma = ", ";
        }
        buf_put_str(b, *comma ? comma : "none, ");
        buf_put_str(b, "waits for at most ");
        duration_put(b, field_int(v, "wait_ms"));
}

static const struct field_line explain_lines[] = {
        {"class", "class", AS_TEXT, "-", NULL},
        {"told by", "identity_from", AS_TEXT, "-", NULL},
        {"row", "row", AS_TEXT, "none", NULL},
        {"tier", "tier", AS_TEXT, NULL, NULL},
        {"mode", "mode", AS_TEXT, NULL, NULL},
        {"kind", NULL, AS_TEXT, NULL, put_can_wait},
        {"load", "load", AS_TEXT, NULL, NULL},
        {"limits", NULL, AS_TEXT, NULL, put_limits},
        {"rule", "rule", AS_TEXT, NULL, NULL},
        {"digest", "digest", AS_TEXT, NULL, NULL},
        {"statement", "digest_text", AS_TEXT, NULL, NULL},
        {NULL, NULL, AS_TEXT, NULL, NULL},
};

static void show_explained(struct cli *cli, const struct value *v)
{
        struct buf text CLEANUP(buf_release) = {0};
        put_now(&text, v, 0);
        buf_put_str(&cli->out, "it ");
        screen_put_toned(&cli->screen, &cli->out, verdict_tone(v), buf_slice(&text));
        buf_put_byte(&cli->out, '\n');
        put_field_lines(&cli->screen, &cli->out, LABEL_WIDTH, explain_lines, v);
}

static int explain(struct cli *cli, struct problem *p)
{
        static const char *const options[][2] = {{"user", "USER"},
                                                 {"db", "DATABASE"},
                                                 {"program", "PROGRAM"},
                                                 {"address", "ADDRESS"}};
        const char *name = args_get(&cli->args, "proxy");
        char only[NAME_ROOM];
        struct cli_request req;
        int r = name ? OK : find_only(cli, only, p);
        if (r != OK)
                return r;
        cli_request_init(&req, "PROXYEXPLAIN");
        cli_request_add_str(&req, name ? name : only);
        cli_request_add_str(&req, cli->args.positional[0]);
        for (size_t i = 0; i < ARRAY_LEN(options); i++)
                cli_request_add_option(&req, &cli->args, options[i][0], options[i][1]);
        return cli_show(cli, &req, show_explained, p);
}

/* ---- drain ---- */

static int drain(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        bool is_on = strcmp(cli->command->name, "drain") == 0;
        int r = name_door(cli, p);
        if (r != OK)
                return r;
        cli_request_init_named(&req, cli, "PROXYDRAIN");
        if (is_on)
                cli_request_add_str(&req, "ON");
        return cli_change(cli, &req, is_on ? "drains" : "accepts connections again:", p);
}

/* ---- the noun ---- */

static const struct option_def explain_options[] = {
        {"user", "NAME", "the user who sends it"},
        {"db", "NAME", "the database it is sent to"},
        {"program", "NAME", "the program_name of the connection"},
        {"address", "ADDR", "the address of the client"},
        {"proxy", "NAME", "the door, where there are several"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"list", "", "List the doors: connections, transactions, and what is held.",
         "WINDOW is how many transactions execute beyond what is usual, and how many may. HELD\n"
         "with \"would\" in brackets counts those that enforce would have held.\n\n"
         "  weir proxy\n",
         .command = "PROXIES", .listing = &doors},
        {"show", "[NAME]", "Show one door and its classes.", "  weir proxy show --watch\n",
         .command = "PROXY", .show = show_door, .run = run_named},
        {"classes", "[NAME]", "List the classes of a door: who sends transactions, and who waits.",
         "MS/S is database time per second; 1000 keeps one connection busy. Times are of the\n"
         "last two minutes. Rules steer a class by its name: weir rule set CLASS hold.\n\n"
         "  weir proxy classes --watch\n",
         .command = "PROXYCLASSES", .listing = &classes, .run = run_named},
        {"clients", "[NAME]", "List the connections of a door, and why some of them wait.",
         "ID is what KILL takes at the server.\n\n"
         "  weir proxy clients --state held\n",
         .command = "PROXYCLIENTS", .listing = &clients, .run = run_named},
        {"top", "[NAME]", "List the statements of a door that take most time, without literals.",
         "  weir proxy top --sort held --limit 10\n", .command = "PROXYTOP", .listing = &statements,
         .run = run_named},
        {"explain", "SQL", "Explain what would become of a statement; it is not run.",
         "  weir proxy explain 'DELETE FROM old_orders LIMIT 1000' --user etl --db shop\n",
         .options = explain_options, .run = explain},
        {"drain", "[NAME]", "Take no new connections, and end each one after its transaction.",
         "  weir proxy drain\n", .command = "PROXYDRAIN", .apart = "on", .run = drain},
        {"undrain", "[NAME]", "Take connections again.", "  weir proxy undrain\n",
         .command = "PROXYDRAIN", .apart = "on", .run = drain},
};

const struct cli_group cli_group_proxy = {"proxy", "Look at MySQL doors and their traffic.",
                                          commands, ARRAY_LEN(commands)};

/* weir audit: who changed what, and who was refused. */
#include "cli/listing.h"
#include "cli/text.h"

#define ALL_STEP "1000"

static void put_from(struct buf *b, const struct value *e, int64_t now_ms)
{
        struct slice address = field_text(e, "address"), door = field_text(e, "door");
        (void)now_ms;
        if (address.len)
                text_put_safe(b, address);
        else if (field_is(e, "door", "resp") || field_is(e, "door", "http"))
                buf_put_str(b, "local");
        if (door.len)
                buf_printf(b, "%s%.*s", b->len && address.len ? " " : "", (int)door.len, door.ptr);
}

static void put_what(struct buf *b, const struct value *e, int64_t now_ms)
{
        int64_t times = field_int(e, "times");
        (void)now_ms;
        text_put_safe(b, field_text(e, "what"));
        if (times > 1)
                buf_printf(b, " (%lld times)", (long long)times);
}

static void put_change(struct buf *b, const struct value *e, int64_t now_ms)
{
        struct slice before = field_text(e, "before"), after = field_text(e, "after");
        (void)now_ms;
        text_put_safe(b, before);
        if (before.len)
                buf_put_str(b, " -> ");
        text_put_safe(b, before.len && !after.len ? SLICE_LIT("nothing") : after);
}

static const struct column columns[] = {
        {"NUMBER", .key = "number", .as = AS_INT},
        {"TIME", .key = "at_ms", .as = AS_MOMENT},
        {"WHO", .key = "who"},
        {"ROLE", .key = "role", .as = AS_OR_DASH},
        {"FROM", .put = put_from},
        {"WHAT", .put = put_what, .may_shrink = true},
        {"CHANGE", .put = put_change, .may_shrink = true},
        {"REASON", .key = "reason", .may_shrink = true},
};

static int prepare(struct cli *cli, struct cli_request *req, struct problem *p)
{
        if (args_has(&cli->args, "all") && !args_has(&cli->args, "limit")) {
                cli_request_add_str(req, "LIMIT");
                cli_request_add_str(req, ALL_STEP);
        }
        int r = cli_request_add_past(req, &cli->args, "since", "SINCE", p);
        return r == OK ? cli_request_add_past(req, &cli->args, "until", "UNTIL", p) : r;
}

static void put_problem(struct buf *notes, const struct value *page)
{
        struct slice problem = field_text(page, "problem");
        if (problem.len)
                buf_printf(notes, "%.*s\n", (int)problem.len, problem.ptr);
}

static const struct listing listing = {
        .key = "entries",
        .empty = "no entries\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .prepare = prepare,
        .page = "BEFORE",
        .tells_cursor = true,
        .after = put_problem,
};

static const struct option_def options[] = {
        {"since", "TIME", "then or later: 2h (ago), 10:00, 2026-11-15T10:00"},
        {"until", "TIME", "before: as --since"},
        {"cursor", "NUMBER", "only entries with smaller numbers: the next page"},
        {"all", NULL, "all of them, page after page"},
        {NULL, NULL, NULL},
};

static const struct cli_command command = {
        .usage = "",
        .summary = "Show who changed what, and who was refused.",
        .text = "Commands of operators and admins, reloads, and wrong tokens and refused commands\n"
                "counted by the minute. It needs the role operator.\n\n"
                "  weir audit --since 2h\n"
                "  weir audit --who ci --since 2026-11-01 --all --json\n"
                "  weir audit --command AUTH\n",
        .options = options,
        .command = "AUDIT",
        .apart = "since until before",
        .listing = &listing,
};

const struct cli_group cli_group_audit = {"audit", "Show who changed what, and who was refused.",
                                          &command, 1};

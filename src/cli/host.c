/* weir host: leave a replica out of the lag of its target for a while. */
#include "base/clock.h"
#include "cli/listing.h"
#include "cli/text.h"

static const struct column columns[] = {
        {"HOST", false, true},
        {"LEFT", true, false},
        {"UNTIL", false, false},
};

static void list_row(struct table *t, const struct value *v, int64_t now_ms)
{
        struct buf text CLEANUP(buf_release) = {0};
        (void)now_ms;
        duration_put_left(&text, field_int(v, "left_ms"));
        table_add(t, field_text(v, "host"), TONE_PLAIN);
        table_add(t, buf_slice(&text), TONE_PLAIN);
        buf_clear(&text);
        moment_put(&text, field_int(v, "until_ms"));
        table_add(t, buf_slice(&text), TONE_PLAIN);
}

static const struct listing listing = {
        .command = "SKIPPEDHOSTS",
        .empty = "no host is skipped\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
};

static int host_skipped(struct cli *cli, struct problem *p)
{
        return listing_run(cli, &listing, p);
}

static int host_skip(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        cli_request_init_named(&req, cli, "SKIPHOST");
        int r = cli_request_add_duration(&req, &cli->args, "for", "FOR", p);
        return r == OK ? cli_change(cli, &req, "skipped host", p) : r;
}

static int host_recover(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "RECOVERHOST", "recovered host", p);
}

static const struct option_def skip_options[] = {
        {"for", "DURATION", "counts again by itself after this long (1h)"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"skip", "HOST", "Leave a replica out for a while; its lag does not count.",
         "HOST is the replica's name, its host, or host:port, as the configuration has it. For\n"
         "one that is rebuilt, or that nobody reads from.\n\n"
         "  weir host skip replica2 --for 2h\n",
         skip_options, 1, 1, false, host_skip},
        {"recover", "HOST", "Count a skipped replica again.", "  weir host recover replica2\n",
         NULL, 1, 1, false, host_recover},
        {"skipped", "", "List the hosts that are skipped, and until when.", "  weir host skipped\n",
         NULL, 0, 0, false, host_skipped},
};

const struct cli_group cli_group_host = {"host", "Leave lagging replicas out for a while.",
                                         commands, ARRAY_LEN(commands)};

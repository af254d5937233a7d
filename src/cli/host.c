/* weir host: leave a replica out of the lag of its target for a while. */
#include "cli/listing.h"

static const struct column columns[] = {
        {"HOST", .key = "host", .may_shrink = true},
        {"LEFT", .key = "left_ms", .as = AS_LEFT},
        {"UNTIL", .key = "until_ms", .as = AS_MOMENT},
};

static const struct listing listing = {
        .empty = "no host is skipped\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

static const struct cli_command commands[] = {
        {"skip", "HOST", "Leave a replica out for a while; its lag does not count.",
         "HOST is the replica's name, its host, or host:port, as the configuration has it. "
         "For\n"
         "one that is rebuilt, or that nobody reads from.\n\n"
         "  weir host skip replica2 --for 2h\n",
         .command = "SKIPHOST", .done = "skipped host"},
        {"recover", "HOST", "Count a skipped replica again.", "  weir host recover replica2\n",
         .command = "RECOVERHOST", .done = "recovered host"},
        {"skipped", "", "List the hosts that are skipped, and until when.", "  weir host skipped\n",
         .command = "SKIPPEDHOSTS", .listing = &listing},
};

const struct cli_group cli_group_host = {"host", "Leave lagging replicas out for a while.",
                                         commands, ARRAY_LEN(commands)};

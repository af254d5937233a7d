/* weir export and weir import. */
#include "cli/command.h"

static int not_yet(struct cli *cli, struct problem *p)
{
        return problem_set(p, ERR_UNAVAIL, "not there yet: %s", cli->command->summary);
}

static const struct cli_command export_command = {
        .usage = "", .summary = "Export.", .run = not_yet};
static const struct cli_command import_command = {
        .usage = "", .summary = "Import.", .run = not_yet};
const struct cli_group cli_group_export = {"export", "Write jobs and settings as lines of JSON.",
                                           &export_command, 1};
const struct cli_group cli_group_import = {"import", "Take in what an export wrote.",
                                           &import_command, 1};

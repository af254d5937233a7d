/* weir cap: how many jobs that share a key or a group may run at once. */
#include "cli/listing.h"

static const struct column columns[] = {
        {"CAP", false, true},     {"MAX", true, false},     {"WEIGHT", true, false},
        {"RUNNING", true, false}, {"WAITING", true, false},
};

static void list_row(struct table *t, const struct value *cap, int64_t now_ms)
{
        static const char *const numbers[] = {"weight", "running", "waiting"};
        int64_t max = field_int(cap, "max");
        (void)now_ms;
        table_add(t, field_text(cap, "name"), TONE_PLAIN);
        if (max)
                table_add_int(t, max);
        else
                table_add(t, SLICE_LIT("-"), TONE_DIM);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                table_add_int(t, field_int(cap, numbers[i]));
}

static const struct listing listing = {
        .command = "CAPS",
        .empty = "no caps are set, and no key keeps a job waiting\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
};

static int cap_list(struct cli *cli, struct problem *p)
{
        return listing_run(cli, &listing, p);
}

static int cap_set(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        cli_request_init_named(&req, cli, "CAP");
        cli_request_add_str(&req, cli->args.positional[1]);
        cli_request_add_option(&req, &cli->args, "weight", "WEIGHT");
        return cli_change(cli, &req, "set cap", p);
}

static int cap_remove(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "UNCAP", "removed cap", p);
}

static const struct option_def set_options[] = {
        {"weight", "N", "of a group: its share of the turns in fair queues, 1 to 1000 (1)"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"list", "", "List the caps that are set or keep a job waiting.",
         "MAX is '-' where none is set: a key then allows what its jobs say.\n\n"
         "  weir cap list\n",
         NULL, 0, 0, false, cap_list},
        {"set", "NAME MAX", "Set how many jobs of a key or a group may run at once.",
         "NAME is key:NAME or group:NAME. With a MAX of 0 a group has no cap, only its weight, "
         "and\n"
         "a key allows what its jobs say.\n\n"
         "  weir cap set group:acme 5 --weight 2\n"
         "  weir cap set key:erp-import 1\n",
         set_options, 2, 2, false, cap_set},
        {"remove", "NAME", "Take a cap back.", "  weir cap remove group:acme\n", NULL, 1, 1, false,
         cap_remove},
};

const struct cli_group cli_group_cap = {"cap", "Say how many jobs of a key or group run at once.",
                                        commands, ARRAY_LEN(commands)};

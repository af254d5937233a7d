/* weir cap: how many jobs that share a key or a group may run at once. */
#include "cli/command.h"
#include "cli/json.h"

static const struct column columns[] = {
        {"CAP", false, true},     {"MAX", true, false},     {"WEIGHT", true, false},
        {"RUNNING", true, false}, {"WAITING", true, false},
};

static void list_row(struct table *t, const struct value *cap)
{
        static const char *const numbers[] = {"weight", "running", "waiting"};
        int64_t max = value_int(value_get(cap, "max"), 0);
        table_add(t, value_text(value_get(cap, "name")), TONE_PLAIN);
        if (max)
                table_add_int(t, max);
        else
                table_add(t, SLICE_LIT("-"), TONE_DIM);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                table_add_int(t, value_int(value_get(cap, numbers[i]), 0));
}

static int cap_list(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, "CAPS");
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                value_put_json(&cli->out, v);
                buf_put_byte(&cli->out, '\n');
                return OK;
        }
        if (v->n == 0) {
                buf_put_str(&cli->notes, "no caps are set, and no key keeps a job waiting\n");
                return OK;
        }
        struct table t;
        table_init(&t, columns, ARRAY_LEN(columns));
        for (size_t i = 0; i < v->n; i++)
                list_row(&t, &v->items[i]);
        table_print(&t, &cli->screen, &cli->out);
        table_release(&t);
        return OK;
}

/* A command that answers OK; `done` is what was done, for people. */
static int call_ok(struct cli *cli, const struct cli_request *req, const char *done,
                   struct problem *p)
{
        const struct value *v;
        int r = cli_request_call(cli, req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                value_put_json(&cli->out, v);
        } else {
                buf_printf(&cli->out, "%s cap ", done);
                text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        }
        buf_put_byte(&cli->out, '\n');
        return OK;
}

static int cap_set(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, "CAP");
        cli_request_add_str(&req, cli->args.positional[0]);
        cli_request_add_str(&req, cli->args.positional[1]);
        cli_request_add_option(&req, &cli->args, "weight", "WEIGHT");
        return call_ok(cli, &req, "set", p);
}

static int cap_remove(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, "UNCAP");
        cli_request_add_str(&req, cli->args.positional[0]);
        return call_ok(cli, &req, "removed", p);
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

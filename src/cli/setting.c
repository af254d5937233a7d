/* weir setting: what the page's Settings screen does, for terminals and scripts. */
#include "cli/listing.h"

static const struct column columns[] = {
        {"NAME", false, false},
        {"VALUE", false, false},
        {"CONFIGURED", false, false},
        {"WHAT IT IS", false, true},
};

/* A value is text, or null where there is none. */
static void add_value(struct table *t, const struct value *v, const char *key, enum tone tone)
{
        struct slice text = field_text(v, key);
        table_add(t, text.len ? text : SLICE_LIT("-"), tone);
}

static void list_row(struct table *t, const struct value *v, int64_t now_ms)
{
        (void)now_ms; /* nothing here passes */
        bool is_changed = field_is_true(v, "is_changed");
        table_add(t, field_text(v, "name"), TONE_PLAIN);
        add_value(t, v, "value", is_changed ? TONE_YELLOW : TONE_PLAIN);
        add_value(t, v, "configured", TONE_DIM);
        table_add(t, field_text(v, "text"), TONE_DIM);
}

static const struct listing listing = {
        .command = "SETTINGS",
        .empty = "there are no settings\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
};

static int setting_list(struct cli *cli, struct problem *p)
{
        return listing_run(cli, &listing, p);
}

static int setting_set(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        cli_request_init_named(&req, cli, "SETTINGSET");
        cli_request_add_str(&req, cli->args.positional[1]);
        return cli_change(cli, &req, "set", p);
}

static int setting_unset(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "SETTINGUNSET", "as configured again:", p);
}

static const struct cli_command commands[] = {
        {"list", "", "List what can be changed while weir runs, and what was.",
         "VALUE is what holds; it differs from CONFIGURED where it was changed.\n\n"
         "  weir setting list --filter name=throttle.mode\n",
         NULL, 0, 0, false, setting_list},
        {"set", "NAME VALUE", "Change a setting at once and for good, until it is unset.",
         "It is kept in the log, over restarts and reloads. Pairs are enter,exit.\n\n"
         "  weir setting set throttle.delay.elevated.normal 5m\n"
         "  weir setting set target.shop.threads_running.critical 30,20\n"
         "  weir setting set locks.enabled false\n",
         NULL, 2, 2, false, setting_set},
        {"unset", "NAME", "Let what is configured hold again.",
         "  weir setting unset locks.enabled\n", NULL, 1, 1, false, setting_unset},
};

const struct cli_group cli_group_setting = {
        "setting", "List and change settings of a running weir.", commands, ARRAY_LEN(commands)};

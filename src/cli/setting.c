/* weir setting: what the page's Settings screen does, for terminals and scripts. */
#include "cli/listing.h"

static enum tone value_tone(const struct value *setting)
{
        return field_is_true(setting, "is_changed") ? TONE_YELLOW : TONE_PLAIN;
}

static const struct column columns[] = {
        {"NAME", .key = "name"},
        {"VALUE", .key = "value", .as = AS_OR_DASH, .tone_of = value_tone},
        {"CONFIGURED", .key = "configured", .as = AS_OR_DASH, .tone = TONE_DIM},
        {"WHAT IT IS", .key = "text", .tone = TONE_DIM, .may_shrink = true},
};

static const struct listing listing = {
        .empty = "there are no settings\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

static const struct cli_command commands[] = {
        {"list", "", "List what can be changed while weir runs, and what was.",
         "VALUE is what holds; it differs from CONFIGURED where it was changed.\n\n"
         "  weir setting list --filter name=throttle.mode\n",
         .command = "SETTINGS", .listing = &listing},
        {"set", "NAME VALUE", "Change a setting at once and for good, until it is unset.",
         "It is kept in the log, over restarts and reloads. Pairs are enter,exit, or auto.\n\n"
         "  weir setting set throttle.delay.elevated.normal 5m\n"
         "  weir setting set target.shop.threads_running.critical 30,20\n"
         "  weir setting set locks.enabled false\n",
         .command = "SETTINGSET", .done = "set"},
        {"unset", "NAME", "Let what is configured hold again.",
         "  weir setting unset locks.enabled\n", .command = "SETTINGUNSET",
         .done = "as configured again:"},
};

const struct cli_group cli_group_setting = {
        "setting", "List and change settings of a running weir.", commands, ARRAY_LEN(commands)};

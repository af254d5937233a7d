/* Rows of the command table for settings and configuration: included by command.c alone. */
#ifndef WEIR_API_ROWS_SETTINGS_H
#define WEIR_API_ROWS_SETTINGS_H

#include "operator/settings.h"

/* clang-format off */
static const struct param_def settingset_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "a name that SETTINGS lists"},
        {"value", PARAM_TEXT, REQ, 1, NAME_MAX_BYTES, NULL,
         "as SETTINGS writes it: off, true, 5m, 100, or 5,3 for enter and exit"},
};
static const struct param_def settingunset_params[] = {
        {"name", PARAM_NAME, PATH, 1, NAME_MAX_BYTES, NULL, "a setting that was changed"},
};
static const struct param_def registrytry_params[] = {
        {"pattern", PARAM_NAME, REQ | PARAM_IN_QUERY, 1, NAME_MAX_BYTES, NULL,
         "hooks: * any text, ? one byte"},
        {"tier", PARAM_CHOICE, REQ | PARAM_IN_QUERY, 0, 0, NULL,
         "critical|high|normal|deferrable: the tier they would have"},
};
static const struct param_def configreload_params[] = {
        {"dryrun", PARAM_FLAG, KEY, 0, 0, "no", "only say what would change"},
};
static const struct param_def configshow_params[] = {
        {"defaults", PARAM_FLAG, QUERY, 0, 0, "no", "show what is not configured as well"},
};

#define SETTINGS_ROWS                                                                              \
        ROW0("SETTINGS", "settings", 0, "GET", "/v1/settings",                                     \
             "Lists what can be changed while weir runs: value, default, what is configured.",     \
             "The settings, in groups.", exec_settings),                                           \
        ROW("SETTINGSET", "settings", W, "POST", "/v1/settings/{name}",                            \
            "Changes a setting at once and for good, until SETTINGUNSET.",                         \
            "OK. It is on disk when this answer comes.", exec_settingset, settingset_params),      \
        ROW("SETTINGUNSET", "settings", W, "DELETE", "/v1/settings/{name}",                        \
            "Takes back a change: what is configured holds again.", "OK.", exec_settingunset,      \
            settingunset_params),                                                                  \
        ROW0("SETTINGSTEXT", "settings", 0, "GET", "/v1/settings-text",                            \
             "Writes what was changed as sections of a configuration file.",                       \
             "Text that weir.conf takes; empty when nothing was changed.", exec_settingstext),     \
        ROW("REGISTRYTRY", "throttle", B, "GET", "/v1/registry-try",                               \
            "Counts the waiting jobs that a pattern would move to another tier, and sets nothing.", \
            "How many from which tier to which.", exec_registrytry, registrytry_params),           \
        ROW("CONFIGRELOAD", "settings", W, "POST", "/v1/config/reload",                            \
            "Reads the configuration file again. An error says where and changes nothing.",        \
            "What changed, and what needs a restart.", exec_configreload, configreload_params),    \
        ROW("CONFIGSHOW", "settings", 0, "GET", "/v1/config",                                      \
            "Shows the configuration that holds, without secrets.",                                \
            "Its text, the path of the file, when it was read, and which settings were given on "  \
            "the command line, which wins over the file.",                                         \
            exec_configshow, configshow_params),
/* clang-format on */

#endif

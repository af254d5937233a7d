/* The section `telemetry` of weir.conf. */
#ifndef WEIR_SERVE_CONFIG_TELEMETRY_H
#define WEIR_SERVE_CONFIG_TELEMETRY_H

#include <confuse.h>

#include "api/setting_table.h"
#include "base/err.h"

/* The members that rows of api/setting_table.def declare are described there. */
struct config_telemetry {
#define SETTINGS_SECTION SETTINGS_TELEMETRY
#define SETTING          SETTING_MEMBER
#include "api/setting_table.def"
        char *headers; /* what headers_file holds; NULL: none */
};

void config_telemetry_init(struct config_telemetry *t);
void config_telemetry_finish(struct config_telemetry *t); /* what is missing gets its default */
void config_telemetry_release(struct config_telemetry *t);
/* section: NULL when the file has none. */
int config_telemetry_take(struct config_telemetry *t, cfg_t *section,
                          struct problem *problem) MUST_CHECK;

#endif

/* Relative paths in a configuration file, made relative to its folder.
 *
 * A service has no working directory in mind, and the file may be read from any: by the server, on
 * a reload, by weir config and weir doctor.  So all of them must find the same files. */
#ifndef WEIR_SERVE_CONFIG_PATHS_H
#define WEIR_SERVE_CONFIG_PATHS_H

#include <confuse.h>

#include "base/err.h"

/* Every path of the parsed file begins with / afterwards: those of all sections whose rows in
 * api/setting_table.def say that they are one.  What takes the values, and each sentence about
 * them, then has the path that is opened. */
int config_paths_resolve(cfg_t *cfg, const char *file, struct problem *problem) MUST_CHECK;

#endif

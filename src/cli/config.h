/* Reading a configuration file belongs to the server's side; main() lends it to the command line.
 */
#ifndef WEIR_CLI_CONFIG_H
#define WEIR_CLI_CONFIG_H

#include "base/buf.h"
#include "base/err.h"

/* Reads and checks a file and writes it out as CONFIGSHOW does with the defaults. */
extern int (*cli_config_read)(const char *path, struct buf *ret, struct problem *problem);

#endif

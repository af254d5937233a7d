/* The functions of all commands, for core_options.execs. */
#ifndef WEIR_FEATURES_COMMANDS_H
#define WEIR_FEATURES_COMMANDS_H

#include "api/command.h"

extern const command_exec command_execs[N_COMMANDS]; /* NULL: the door answers it */

#endif

/* Which function runs which command: the one place that knows all rooms' commands. */
#include "features/features.h"

#include "api/exec.h"

const command_exec command_execs[N_COMMANDS] = {
#define COMMAND(c, exec, ...) [CMD_##c] = exec,
#include "api/commands.def"
};

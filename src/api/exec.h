/* The functions of the commands, one for each COMMAND row of commands.def: see command_exec.  api/
 * calls none of them; features/commands.c makes a table of them for the core. */
#ifndef WEIR_API_EXEC_H
#define WEIR_API_EXEC_H

#include "api/command.h"

#define COMMAND(c, exec, ...)                                                                      \
        int exec(struct core *core, struct session *session, const struct command *cmd,            \
                 struct reply *reply, struct problem *problem);
#include "api/commands.def"

#endif

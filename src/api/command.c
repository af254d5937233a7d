/* The command table, from the rows of commands.def. */
#include "api/command.h"

#include "api/limits.h"
#include "api/params.h"
#include "base/cron.h"
#include "base/tz.h"
#include "gate/identity.h"
#include "log/log.h"
#include "state/bucket.h"
#include "state/circuit.h"
#include "state/rulelog.h"

#define YEAR_3000_MS   32503680000000
#define NAME_MAX_BYTES LIMIT_NAME_BYTES

/* Flags of parameters and of commands, as the rows write them. */
#define REQUIRED PARAM_REQUIRED
#define KEYWORD  PARAM_KEYWORD
#define PATH     (PARAM_REQUIRED | PARAM_IN_PATH)
#define QUERY    (PARAM_KEYWORD | PARAM_IN_QUERY)
#define WRITES   COMMAND_WRITE
#define BLOCKS   COMMAND_BLOCKS
#define FREE     COMMAND_FREE
#define LOCAL    COMMAND_LOCAL
#define NOAUTH   COMMAND_NOAUTH
#define SECRET   COMMAND_SECRET

/* The parameters of all commands, one after the other. */
static const struct param_def params[] = {
#define PARAM(c, p, name, ...) {name, sizeof(name) - 1, __VA_ARGS__},
#include "api/commands.def"
};

/* FIRST_LOCK is where the parameters of LOCK begin in it.  BEFORE_LOCK takes one back, so that the
 * first parameter has the same value. */
enum {
#define COMMAND(c, ...)      FIRST_##c, BEFORE_##c = FIRST_##c - 1,
#define DOOR_COMMAND(c, ...) COMMAND(c)
#define PARAM(c, p, ...)     PLACE_##c##_##p,
#include "api/commands.def"
};

const struct command_def command_table[] = {
/* clang-format off */
#define ROW(c, group, role, flags, method, path, summary, returns, reply)                          \
        {CMD_##c, #c, sizeof(#c) - 1, group, ROLE_##role, flags, method, path, summary, returns,   \
         reply,                                                                                    \
         params + FIRST_##c, N_##c##_PARAMS},
/* clang-format on */
#define COMMAND(c, exec, ...) ROW(c, __VA_ARGS__)
#define DOOR_COMMAND(c, group, role, flags, summary, returns)                                      \
        ROW(c, group, role, COMMAND_DOOR | (flags), NULL, NULL, summary, returns, NULL)
#include "api/commands.def"
#undef ROW
};
const size_t command_table_len = ARRAY_LEN(command_table);
_Static_assert(ARRAY_LEN(command_table) == N_COMMANDS, "an id is an index of the table");

#define END(c) _Static_assert(N_##c##_PARAMS <= COMMAND_PARAMS_MAX, #c " has too many parameters");
#include "api/commands.def"

const struct command_def *command_find(struct slice name)
{
        for (const struct command_def *def = command_table; def < command_table + N_COMMANDS; def++)
                if (def->name_len == name.len && !((def->name[0] ^ name.ptr[0]) & ~0x20) &&
                    slice_eq_nocase(slice_make(def->name, name.len), name))
                        return def;
        return NULL;
}

/* Places of the parameters in struct command's arg[]: P_LOCK_NAME and the like, from commands.def.
 *
 * Commands that share a group of parameters have them in the same order; those of ENQUEUE's options
 * differ by where the group begins: P_ENQUEUE_QUEUE, P_ENQUEUEMANY_QUEUE, P_SCHEDULE_QUEUE. */
#ifndef WEIR_API_PARAMS_H
#define WEIR_API_PARAMS_H

#include "base/defs.h"

/* clang-format off */
#define COMMAND(c, ...)      enum {
#define DOOR_COMMAND(c, ...) enum {
#define PARAM(c, p, ...)     P_##c##_##p,
#define END(c)               N_##c##_PARAMS };
#include "api/commands.def"
/* clang-format on */

_Static_assert(P_JOBS_STATUS == 0 && P_CANCELMANY_STATUS == 0 && P_RETRYMANY_STATUS == 0 &&
                       (int)P_JOBS_MATCH == (int)P_CANCELMANY_MATCH &&
                       (int)P_JOBS_MATCH == (int)P_RETRYMANY_MATCH,
               "the filter comes first in all commands that take one");
_Static_assert(P_SCHEDULETRY_CRON == 0 && P_SCHEDULETRY_UNTIL == P_SCHEDULE_UNTIL - P_SCHEDULE_CRON,
               "SCHEDULETRY begins with the times of SCHEDULE");

#endif

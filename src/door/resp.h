/* The RESP door: a Redis client is a weir client. */
#ifndef WEIR_DOOR_RESP_H
#define WEIR_DOOR_RESP_H

#include "api/command.h"
#include "door/conn.h"

struct resp_conn {
        struct conn conn;
        struct reply reply;
        uint32_t maps; /* bit i: the open container at depth i has its keys written */
        uint8_t depth; /* open containers of the reply being written */
        uint8_t proto; /* 2 or 3 */
        bool is_begun; /* it does not begin with a PROXY header, or that is behind it */
        char *name;    /* CLIENT SETNAME; NULL = none */
};

/* Words of a request. */
struct words {
        const struct slice *argv;
        size_t argc;
};

void resp_error(struct resp_conn *rc, const struct problem *problem);

/* door/resp_command.c: the commands that concern the connection or the server, not the jobs
 * (COMMAND_DOOR).  The words are those after the name. */
void resp_command_run(struct resp_conn *rc, const struct command_def *def, struct words w);

#endif

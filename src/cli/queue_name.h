/* Names of queues that people type: whether one exists, and which one was meant. */
#ifndef WEIR_CLI_QUEUE_NAME_H
#define WEIR_CLI_QUEUE_NAME_H

#include "cli/command.h"

/* Asks the server.  False: there is no such queue, and *ret_nearest gets the name that is most like
 * it, or nothing.  True also when the server does not tell. */
bool queue_name_look(struct cli *cli, const char *name, struct buf *ret_nearest);

/* For a command with --queue that found no job: a note when no queue has that name. */
void queue_name_note(struct cli *cli);

#endif

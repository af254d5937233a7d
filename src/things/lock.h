/* What the table of commands and the settings take from things/lock.c. */
#ifndef WEIR_THINGS_LOCK_H
#define WEIR_THINGS_LOCK_H

#include "core/kernel.h"

/* locks.enabled became false: those who wait are told. */
void locks_switched_off(struct core *core);

int exec_lock(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem);
int exec_unlock(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem);
int exec_renew(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem);
int exec_locked(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem);
int exec_locks(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem);
int exec_forceunlock(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem);

#endif

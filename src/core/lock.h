/* What the table of commands and the settings take from core/lock.c. */
#ifndef WEIR_CORE_LOCK_H
#define WEIR_CORE_LOCK_H

#include "core/inside.h"

/* locks.enabled became false: those who wait are told. */
void locks_switched_off(struct core *core);

EXEC(exec_lock);
EXEC(exec_unlock);
EXEC(exec_renew);
EXEC(exec_locked);
EXEC(exec_locks);
EXEC(exec_forceunlock);

#endif

/* What the table of commands takes from core/lock.c. */
#ifndef WEIR_CORE_LOCK_H
#define WEIR_CORE_LOCK_H

#include "core/inside.h"

EXEC(exec_lock);
EXEC(exec_unlock);
EXEC(exec_renew);
EXEC(exec_locked);
EXEC(exec_locks);
EXEC(exec_forceunlock);

#endif

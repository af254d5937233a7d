/* What the table of commands and the settings take from things/lock.c. */
#ifndef WEIR_THINGS_LOCK_H
#define WEIR_THINGS_LOCK_H

#include "core/kernel.h"

/* locks.enabled became false: those who wait are told. */
void locks_switched_off(struct core *core);

#endif

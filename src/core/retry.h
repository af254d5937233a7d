/* Running jobs again: what the rest of the core calls. */
#ifndef WEIR_CORE_RETRY_H
#define WEIR_CORE_RETRY_H

#include "core/inside.h"

void retry_init(struct core *core);
void retry_release(struct core *core);
/* The archive has reported n jobs, which are let go of by now: whoever waits for them goes on. */
void retry_stored(struct core *core, size_t n);

EXEC(exec_retry);
EXEC(exec_retrymany);
EXEC(exec_run);

#endif

/* The options of a job (state/option.h), told as a map. */
#ifndef WEIR_JOBS_TELL_OPTIONS_H
#define WEIR_JOBS_TELL_OPTIONS_H

#include "api/reply.h"

void tell_options(struct reply *reply, struct slice packed, uint64_t deferring_ms);

#endif

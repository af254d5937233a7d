/* "1 job runs", "2 jobs run": printf("%llu %s", n, plural(n, "job runs", "jobs run")). */
#ifndef WEIR_BASE_PLURAL_H
#define WEIR_BASE_PLURAL_H

#include "base/defs.h"

static inline const char *plural(uint64_t n, const char *one, const char *many)
{
        return n == 1 ? one : many;
}

#endif

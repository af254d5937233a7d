/* The rows of limits.h as data, for INFO, the documentation and the tests. */
#include "api/limits.h"

#include "state/job.h"

_Static_assert(LIMIT_EVENTS_KEPT == JOB_EVENTS_KEPT, "state/ cannot see the table above it");
_Static_assert(LIMIT_ATTEMPTS < 1 << 10, "job_ready_key() has 10 bits for attempts");

const struct limit_row limit_table[] = {
#define X(name, value, unit, text) {#name, value, unit, text},
        LIMIT_MAP(X)
#undef X
};
const size_t limit_table_len = ARRAY_LEN(limit_table);

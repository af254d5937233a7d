/* The names of a job's status; the view itself is filled by state/job.c and by history/. */
#include "state/job_view.h"

static const char *const names[] = {
#define X(name, text) text,
        JOB_STATUS_MAP(X)
#undef X
};

const char *job_status_name(enum job_status status)
{
        ASSERT((unsigned)status < JOB_STATUS_COUNT);
        return names[status];
}

int job_status_from_name(struct slice name)
{
        for (int i = 0; i < JOB_STATUS_COUNT; i++)
                if (slice_eq(name, slice_str(names[i])))
                        return i;
        return -1;
}

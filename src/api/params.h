/* Places of the parameters in their rows of command.c, for the functions that read them. */
#ifndef WEIR_API_PARAMS_H
#define WEIR_API_PARAMS_H

/* ENQUEUE; ENQUEUEMANY has the same options from P_ENQUEUE_QUEUE on, shifted by two. */
enum {
        P_ENQUEUE_HOOK,
        P_ENQUEUE_ARGS,
        P_ENQUEUE_QUEUE,
        P_ENQUEUE_GROUP,
        P_ENQUEUE_PRIORITY,
        P_ENQUEUE_IN,
        P_ENQUEUE_AT,
        P_ENQUEUE_TIMEOUT,
        P_ENQUEUE_ATTEMPTS,
        P_ENQUEUE_BACKOFF,
        P_ENQUEUE_MAXRUN,
        P_ENQUEUE_UNIQUE,
        P_ENQUEUE_SCOPE,
        P_ENQUEUE_UNIQUEFOR,
        P_ENQUEUE_CONFLICT,
        P_ENQUEUE_KEY,
        P_ENQUEUE_KEYMAX,
        P_ENQUEUE_LIMIT,
        P_ENQUEUE_TARGET,
        P_ENQUEUE_BATCH,
        P_ENQUEUE_AFTER,
        P_ENQUEUE_WHEN,
        P_ENQUEUE_OTHERWISE,
        P_ENQUEUE_EXPIRES,
        P_ENQUEUE_RESULTFOR,
        P_ENQUEUE_SIGNATURE,
        P_ENQUEUE_TIER,
        P_ENQUEUE_COUNT,
};
#define P_MANY_SHIFT 2 /* ENQUEUEMANY's parameter p is ENQUEUE's p + P_MANY_SHIFT */

enum { P_CLAIM_WORKER, P_CLAIM_MAX, P_CLAIM_WAIT, P_CLAIM_LEASE, P_CLAIM_QUEUES };

/* COMPLETE, FAIL, RELEASE, EXTEND, PROGRESS; and CANCEL, JOB, EVENTS have P_ID alone. */
enum { P_ID, P_TOKEN };
enum { P_COMPLETE_RESULT = 2, P_COMPLETE_CLAIM };
enum { P_FAIL_ERROR = 2, P_FAIL_RETRYIN, P_FAIL_NORETRY };
enum { P_RELEASE_IN = 2 };
enum { P_EXTEND_MS = 2 };
enum { P_PROGRESS_TEXT = 2 };

/* The filter that JOBS and the bulk commands begin with (JOB_FILTER in rows_job.h). */
enum {
        P_FILTER_STATUS,
        P_FILTER_HOOK,
        P_FILTER_QUEUE,
        P_FILTER_GROUP,
        P_FILTER_TIER,
        P_FILTER_WORKER,
        P_FILTER_SINCE,
        P_FILTER_UNTIL,
        P_FILTER_MATCH,
        P_FILTER_COUNT,
};
enum {
        P_JOBS_STATUS = P_FILTER_STATUS,
        P_JOBS_HOOK = P_FILTER_HOOK,
        P_JOBS_ORDER = P_FILTER_COUNT,
        P_JOBS_LIMIT,
        P_JOBS_CURSOR,
};
enum { P_COUNTS_QUEUE };
enum { P_BULK_IDS = P_FILTER_COUNT, P_BULK_DRYRUN, P_BULK_SET };

enum { P_QUEUE_NAME, P_PAUSE_EXISTING };

#endif

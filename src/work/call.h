/* One request to an HTTP handler: the job's arguments in, the answer out.
 *
 * The address is filled in, the host held against the handler's list and every address a socket
 * would go to against its rules.  Redirects are answers like any other, and never followed.
 * Loop thread only. */
#ifndef WEIR_WORK_CALL_H
#define WEIR_WORK_CALL_H

#include "base/buf.h"
#include "work/curl_loop.h"
#include "work/handler.h"
#include "work/job.h"

struct call;

struct call_result {
        bool is_done;      /* 2xx */
        struct slice body; /* the result, at most output_max bytes */
        bool is_body_cut;
        struct slice error;  /* for people, when it is not done */
        int64_t retry_in_ms; /* as the answer asked for, or HANDLER_RETRY_... */
};

typedef void (*call_done_fn)(void *ctx, const struct call_result *result);

/* For curl_loop_new(): it must be this. */
void call_ended(void *ctx, CURLcode result);

struct call_spec {
        struct curl_loop *curl;
        const struct handler *handler; /* borrowed until the call has ended, like the job */
        const struct job *job;
        call_done_fn done;
        void *ctx;
};

/* An error is a reason to fail the job; `done` is not called then. */
int call_start(const struct call_spec *spec, struct call **ret, struct problem *p) MUST_CHECK;
void call_cancel(struct call *c); /* `done` is not called; the call is gone */

/* The address of a job: values are percent-encoded, in the host they may only be parts of names.
 * Refused: a host that is not allowed, and "." or ".." as a part of the path. */
int call_url(const struct handler *h, const struct job *job, struct buf *ret,
             struct problem *p) MUST_CHECK;
/* The path and the query of such an address, as the request line has them: "/" at least. */
void call_url_target(const char *url, struct buf *ret);
/* What may be said of a template before any job is there. */
int call_url_check(const struct handler *h, struct problem *p) MUST_CHECK;

#endif

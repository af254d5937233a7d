/* Every error weir can answer with, in one table: code, HTTP status, exit code of the command
 * line, and the sentence.  The RESP prefix and the `code` of a problem+json body are the name.
 *
 * Functions return OK or a negative enum err.  What was wrong in this very request travels in a
 * struct problem. */
#ifndef WEIR_BASE_ERR_H
#define WEIR_BASE_ERR_H

#include "base/defs.h"

/*      name         http exit  sentence */
#define ERR_MAP(X)                                                                                 \
        X(SYNTAX, 400, 2, "the request could not be understood")                                   \
        X(BADARG, 400, 2, "an argument is not what it must be")                                    \
        X(UNKNOWN, 404, 2, "no such command or address")                                           \
        X(NOAUTH, 401, 3, "authentication is required")                                            \
        X(BADTOKEN, 401, 3, "the access token is wrong")                                           \
        X(FORBIDDEN, 403, 3, "this is not allowed")                                                \
        X(NOTFOUND, 404, 4, "no such object")                                                      \
        X(METHOD, 405, 2, "this address does not take that method")                                \
        X(NOTOWNER, 409, 5, "the token is not that of the current lease")                          \
        X(STATE, 409, 5, "the job is not in a state that allows this")                             \
        X(CONFLICT, 409, 5, "another holds what must be unique")                                   \
        X(CANCELED, 409, 5, "the job was canceled")                                                \
        X(TOOBIG, 413, 2, "larger than the limit")                                                 \
        X(MEDIA, 415, 2, "the body must be application/json")                                      \
        X(HOST, 421, 2, "this Host name is not served here")                                       \
        X(LIMIT, 429, 6, "a configured limit was reached")                                         \
        X(INTERNAL, 500, 1, "weir failed at this; the log says more")                              \
        X(UNAVAIL, 503, 7, "weir cannot answer this now")                                          \
        X(DISABLED, 503, 7, "this is switched off by a setting")                                   \
        X(STOPPING, 503, 7, "weir is shutting down")                                               \
        X(NOSPACE, 507, 8, "no disk space is left for new work")                                   \
        X(NOMEM, 507, 8, "no memory is left for this")                                             \
        X(IO, 500, 1, "a file or connection failed")                                               \
        X(CORRUPT, 500, 9, "stored data is damaged")                                               \
        X(LOCKED, 409, 5, "another process holds this")                                            \
        X(TIMEOUT, 504, 7, "no answer in time")

enum err {
        OK = 0,
        ERR_NUMBER_BASE = -1000,
#define X(name, http, exit, text) ERR_##name,
        ERR_MAP(X)
#undef X
                ERR_END
};

const char *err_name(int err);                   /* "NOTFOUND"; "OK" for OK */
const char *err_text(int err);                   /* the sentence */
int err_http(int err);                           /* 200 for OK */
int err_exit(int err);                           /* 0 for OK */
int err_from_name(const char *name, size_t len); /* ERR_INTERNAL when unknown */

/* What was wrong this time, in a sentence for the person who sent it.  The detail is UTF-8 without
 * control characters, whatever problem_set was given, and valid as a RESP error line; it ends in
 * "..." when it was too long (base/shown.h). */
#define PROBLEM_DETAIL_MAX 320
struct problem {
        int err;
        char detail[PROBLEM_DETAIL_MAX];
};

/* Fills in and returns err, so that `return problem_set(p, ERR_BADARG, "...")` reads well.  A NULL
 * p is fine: nobody wants to know. */
int problem_set(struct problem *p, int err, const char *fmt, ...) PRINTF(3, 4);

#endif

/* What to do for a job: a table of handlers, chosen by the job's hook.
 *
 * A pattern is a hook as it is, or one with `*` (any text, also none) and `?` (one character).  Of
 * the patterns that match, a hook as it is wins, then the longest text before the first
 * wildcard, then the most text in all, then the one that was added first.
 *
 * Threads: read-only while the worker runs. */
#ifndef WEIR_WORK_HANDLER_H
#define WEIR_WORK_HANDLER_H

#include "base/err.h"
#include "work/account.h"
#include "work/address.h"
#include "work/sign.h"
#include "work/words.h"

#define HANDLERS_MAX         1000
#define HANDLER_OUTPUT_MAX   MIB /* what the server takes as a result */
#define HANDLER_OUTPUT       (64 * KIB)
#define HANDLER_GRACE_MS     10000
#define HANDLER_HTTP_MS      30000
#define HANDLER_CONNECT_MS   10000
#define HANDLER_RETRY_MAX_MS (7LL * 86400 * MS_PER_S) /* that a handler may ask for */
#define HANDLER_CODES_MAX    32

/* Instead of a delay before the next attempt. */
#define HANDLER_RETRY_DEFAULT (-1) /* as the server thinks */
#define HANDLER_RETRY_NEVER   (-2) /* the job is failed for good */

enum handler_kind { HANDLER_NONE, HANDLER_EXEC, HANDLER_HTTP };

struct handler {
        char *pattern;
        char *origin; /* "--timeout" or "FILE, handler "x"": where its limits were set */
        enum handler_kind kind;
        int64_t timeout_ms;  /* 0 = none */
        int64_t grace_ms;    /* from TERM to KILL */
        int64_t retry_in_ms; /* before the next attempt; 0 = as the server thinks */
        size_t output_max;   /* bytes kept as the result */
        bool has_no_retry;   /* the next two are set; else the codes of the kind hold */
        uint16_t no_retry[HANDLER_CODES_MAX]; /* exit codes, or HTTP statuses */
        size_t n_no_retry;

        /* exec */
        struct words command;
        bool has_unsafe_placeholders; /* its author answers for what jobs put into the command */
        struct words env;             /* NAME=VALUE */
        char *dir;                    /* NULL = the worker's */
        uint64_t memory_bytes;        /* of address space; 0 = as it comes, like the next */
        int64_t cpu_s;
        int nice;               /* added to ours */
        int umask;              /* -1 = ours */
        struct account account; /* the user it runs as */
        bool passes_errors;

        /* http */
        char *url;
        int64_t connect_ms;
        char *ca_file;        /* certificates to trust instead of the system's; NULL = those */
        struct words secrets; /* keys of the signature, the newest first */
        bool signs_with[SIGN_VERSIONS]; /* [0]: version 1 */
        struct words hosts; /* that may be asked: names, or *.domain; none = no such list */
        struct address_rules addresses;

        size_t order; /* in which they were added */
};

struct handlers {
        char *origin; /* where they come from: a file, or "--exec" */
        struct handler *all;
        size_t n;
};

void handler_init(struct handler *h);
void handler_release(struct handler *h);

/* Takes *h over in any case (it is empty afterwards).  ERR_BADARG: the pattern is taken, or there
 * are too many. */
int handlers_add(struct handlers *hs, struct handler *h, struct problem *p) MUST_CHECK;
void handlers_release(struct handlers *hs);
/* NULL when no pattern matches. */
const struct handler *handlers_find(const struct handlers *hs, const char *hook);

/* Whether an exit code, or a status, means that another attempt is of no use. */
bool handler_is_final(const struct handler *h, long code);

bool pattern_matches(const char *pattern, const char *text);
/* Names are compared without case; `*.shop.example` is every name below it. */
bool handler_allows_host(const struct handler *h, const char *host);

#endif

/* Moving actions out of Action Scheduler's tables into weir, and jobs of weir into them.
 *
 * An action on its way belongs to neither side.  In the tables it is a row with the status
 * `canceled` and the claim of the move: no runner runs it, no cleaner releases it (as it would a
 * claimed pending row after five minutes), the gate of the runners does not count it, and the next
 * move finds it by its claim and goes on.  last_attempt_gmt is set, because the cleaner deletes
 * canceled rows that were never attempted.
 *
 *      out of the tables:  pending -> [on its way] -> job in weir -> canceled, claim 0
 *      into the tables:    job pending -> [on its way] -> job canceled in weir -> pending, claim 0
 *
 * The claim of a direction is a row of the claims table that was made once; its id is kept in the
 * options, `weir_import_claim` or `weir_export_claim`.  A lock of the server (GET_LOCK), which ends
 * with its session, admits one move of a site at a time. */
#ifndef WEIR_GUARD_TRANSFER_H
#define WEIR_GUARD_TRANSFER_H

#include "guard/store.h"

#define TRANSFER_ROWS     25 /* of a batch: their args fit into one answer */
#define TRANSFER_CRON_MAX 256

enum transfer_kind {
        TRANSFER_ASYNC,
        TRANSFER_SIMPLE,
        TRANSFER_INTERVAL,
        TRANSFER_CRON,
};

/* Why an action cannot be moved. */
#define TRANSFER_WHY_MAP(X)                                                                        \
        X(NONE, "")                                                                                \
        X(CLASS, "a schedule of a class that weir does not know")                                  \
        X(CRON, "a cron expression that weir cannot read")                                         \
        X(YEAR, "a cron expression with a year")                                                   \
        X(ARGS, "args that are no JSON array or object")                                           \
        X(NO_ARGS, "args whose full text is missing")
enum transfer_why {
#define X(name, text) WHY_##name,
        TRANSFER_WHY_MAP(X)
#undef X
                WHY_COUNT
};
const char *transfer_why_text(enum transfer_why why);

/* An action as it is moved.  Texts borrow from the result it was read from. */
struct transfer_action {
        uint64_t id;
        struct slice hook, args, group, unique_key;
        int priority;
        enum transfer_kind kind;
        enum transfer_why why; /* not WHY_NONE: it cannot be moved */
        int64_t date_s;        /* before weir moved it; 0: it has none */
        int64_t every_s;       /* of an interval */
        int64_t taken_s;       /* seconds since it is on its way */
        char cron[TRANSFER_CRON_MAX];
};

struct transfer {
        struct store *store;
        uint64_t claim;
        int64_t offset_s; /* local time of the site less UTC */
};

/* Checks the privileges that a move needs, locks out other moves and finds the claim. */
int transfer_begin(struct transfer *t, struct store *s, bool is_export,
                   struct problem *problem) MUST_CHECK;

/* Pending, unclaimed actions with an id after *at, in the order of their ids: rows of id and hook.
 * Looks at a bounded number of rows.  *at moves on unless there are more in these, and then it is
 * for the caller to move it to the last id of the rows.  *ret_is_end: there are no more. */
int transfer_walk(struct store *s, uint64_t *at, struct mysql_result *rows, bool *ret_is_end,
                  struct problem *problem) MUST_CHECK;
/* The actions with these ids that are pending and unclaimed. */
int transfer_read(struct store *s, const uint64_t *ids, size_t n, struct mysql_result *rows,
                  struct problem *problem) MUST_CHECK;
/* Up to TRANSFER_ROWS that are on their way. */
int transfer_read_taken(const struct transfer *t, struct mysql_result *rows,
                        struct problem *problem) MUST_CHECK;
/* The next row of either. */
bool transfer_next(struct mysql_result *rows, struct transfer_action *ret);

/* Takes those of them that are still pending and unclaimed. */
int transfer_take(const struct transfer *t, const uint64_t *ids, size_t n,
                  struct problem *problem) MUST_CHECK;

/* How one action on its way ends: with a line in its log, or NULL. */
struct transfer_end {
        uint64_t id;
        bool is_back; /* pending, as if it had never been attempted; else it stays canceled */
        const char *line;
};
int transfer_finish(const struct transfer *t, const struct transfer_end *ends, size_t n,
                    struct problem *problem) MUST_CHECK;

/* A job or a schedule of weir that is to become an action. */
#define TRANSFER_HOOK_MAX     191 /* characters */
#define TRANSFER_ARGS_MAX     191 /* bytes; longer ones go to extended_args */
#define TRANSFER_EXTENDED_MAX 8000
struct transfer_new {
        struct slice hook, args, group, unique_key;
        struct slice source; /* "job 17" */
        int priority;
        enum transfer_kind kind; /* no cron */
        int64_t date_s, every_s;
        uint64_t id; /* of the action that was made */
};
/* Makes actions that are on their way, all or none.  ERR_BADARG: *ret_bad is the one that the
 * database refuses. */
int transfer_make(const struct transfer *t, struct transfer_new *rows, size_t n, size_t *ret_bad,
                  struct problem *problem) MUST_CHECK;
/* Gives an interval action on its way another date. */
int transfer_redate(const struct transfer *t, uint64_t id, int64_t date_s, int64_t every_s,
                    struct problem *problem) MUST_CHECK;
/* Up to TRANSFER_ROWS actions on their way that transfer_make() has made. */
int transfer_read_made(const struct transfer *t, struct mysql_result *rows,
                       struct problem *problem) MUST_CHECK;
/* The next of them: id, hook, date and source; texts borrow from the rows. */
bool transfer_next_made(struct mysql_result *rows, struct transfer_new *ret);

#endif

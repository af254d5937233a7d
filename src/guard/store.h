/* The SQL of one site: everything that weir reads and changes in a WordPress database.
 *
 * Each function runs on the site's own thread.  A statement has the site's timeout.  Errors are
 * those of mysql_conn_run(); after ERR_IO, ERR_TIMEOUT, ERR_TOOBIG and ERR_STOPPING the connection
 * is closed and the cycle ends.
 *
 * Promises, each with a test:
 *   (1) in observe nothing is written at all
 *   (2) no statement waits for a row lock: the session has innodb_lock_wait_timeout = 0 (MySQL: 1,
 *       its least), and ERR_LOCKED means a smaller batch, later
 *   (3) only pending, unclaimed rows are changed, by primary key with these conditions, and of
 *       their columns only the two dates, and the priority of the critical tier; repairs say what
 *       else they change
 *   (4) the serialized schedule is read and never written; no action is deleted (but by retention),
 *       cloned or claimed; a person who moves actions into weir takes them (transfer.h) */
#ifndef WEIR_GUARD_STORE_H
#define WEIR_GUARD_STORE_H

#include "base/rand.h"
#include "guard/purge_pace.h"
#include "sites/survey.h"
#include "sql/mysql.h"

/* Only the classes that are known not to recur; `of`: "", or the alias of the actions and a dot. */
#define STORE_RUNS_ONCE(of)                                                                        \
        "(" of "schedule LIKE 'O:%:\"ActionScheduler\\_SimpleSchedule\":%' OR " of                 \
        "schedule LIKE 'O:%:\"ActionScheduler\\_NullSchedule\":%')"

/* The date for which an action was made; 0: its schedule has none.  Taken out by the server,
 * because schedules are long. */
#define STORE_SCHEDULE_MARK "'scheduled_timestamp\";i:'"
#define STORE_SCHEDULE_DATE                                                                        \
        "IF(LOCATE(" STORE_SCHEDULE_MARK ", schedule) > 0, CAST(SUBSTRING_INDEX(SUBSTRING_INDEX("  \
        "SUBSTRING_INDEX(schedule, " STORE_SCHEDULE_MARK ", 2), " STORE_SCHEDULE_MARK              \
        ", -1), ';', 1) AS SIGNED), 0)"

/* The spelling of a hook as a column `h`, and how rows are grouped by it: bytes are compared, and
 * the length, because this collation of both servers does not see spaces at the end.  The server
 * keeps a column of CAST(... AS BINARY) as a BLOB, and each temporary table that has one on disk.
 */
#define STORE_SPELLING    "CONVERT(hook USING utf8mb4) COLLATE utf8mb4_bin AS h"
#define STORE_BY_SPELLING "GROUP BY h, LENGTH(h)"

/* Failed actions of these hooks run again. */
#define STORE_RETRIES_MAX      16
#define STORE_RETRY_TIMES_MAX  20
#define STORE_RETRY_WAIT_MAX_S 86400 /* of one retry, however often it doubled */
struct store_retry {
        struct slice pattern; /* of gate/registry.h */
        uint32_t times;
        int64_t wait_s; /* of the first retry; each further one waits twice as long */
};

struct store_options {
        const char *name; /* of the site */
        const char *prefix;
        struct sql_login login;
        int64_t timeout_ms;         /* of one statement */
        int64_t claim_timeout_s;    /* a claim this old is of a dead runner: 300 */
        int64_t retention_s;        /* finished actions are kept this long: 31 days; 0: for ever */
        int64_t retention_failed_s; /* failed ones; 0: for ever */
        struct store_retry retries[STORE_RETRIES_MAX]; /* the first that matches holds */
        size_t n_retries;
        bool is_network; /* blog 1 of a network: it reads which others there are (network.h) */
};

#define STORE_LOG_INDEX "action_id" /* of the logs, in every version */
#define STORE_NAME_MAX  200         /* bytes of a name of 64 characters, in backquotes */

/* What the site's database was found to be. */
struct store_facts {
        bool is_mariadb;
        bool has_priority;   /* schema 7 */
        bool has_unique_key; /* 4.2 */
        bool has_extended_args;
        bool has_no_tables; /* none of Action Scheduler's under this prefix: blog 1 needs none */
        bool is_migrated;   /* else actions may still be posts of the type scheduled-action */
        /* Indexes of the actions, found by their columns: (hook, status, scheduled_date_gmt),
         * (status, scheduled_date_gmt) and (claim_id, ...).  NULL while they are not known. */
        const char *hook_index, *status_index, *claim_index;
        char index_names[3][STORE_NAME_MAX]; /* what these point to */
        char lowest; /* of the printable characters but the space, as the column `hook` sorts */
        char schema[32], url[256], server[64];
        char account[STORE_NAME_MAX * 2]; /* of the session, for a GRANT: 'weir'@'10.0.0.%' */
};

/* A pass over an index in pages, one page at a look. */
struct store_walk {
        uint64_t at_id;   /* the last that was seen; 0: the pass begins */
        uint64_t of_id;   /* its action, where the index is by action */
        char at_date[24]; /* its date, where the index is by date */
        uint32_t seen;    /* faults of this pass so far */
        uint32_t found;   /* of the last whole pass */
};

/* Deleting finished actions, a slice at a time (purge.c). */
struct store_purge {
        struct purge_pace pace;
        size_t kind; /* what the pass is at */
        struct store_walk walk;
        uint64_t actions, lines; /* deleted since the start */
        uint64_t told;           /* of these actions: reported */
        int64_t told_ns;
        int64_t orphans_ns; /* end of the last pass over log lines without an action; 0: none */
};

/* What repairs know from earlier cycles, because dear looks take turns.  A connection that is made
 * again leaves it as it is. */
#define STORE_ADVICE_MAX   480
#define STORE_ADVICE_LINES 24
struct store_memory {
        uint32_t found[SITE_REPAIRS];
        struct store_walk lost, retries, claims, claim_rows, duplicates, strays;
        uint32_t retry_given_up; /* of this pass: all their retries failed */
        uint32_t given_up;       /* lost actions of this pass that weir set pending often enough */
        struct store_purge purge;
        uint32_t worst_n; /* the hook with the most duplicates, in this pass */
        char worst_hook[SITE_HOOK_MAX + 1];
        char advice[STORE_ADVICE_LINES][STORE_ADVICE_MAX]; /* "": nothing to say */
};

/* Who has the ledger of moved actions; take NULL: nobody can be asked, as in a check from outside.
 * Like sites_take_strays(): keeps the rows that are not in it, and with is_taken writes them into
 * it.  ERR_STOPPING: there is no answer. */
struct store_ledger {
        int (*take)(void *ctx, struct site_stray *rows, size_t *n, bool is_taken);
        void *ctx;
};

struct store {
        const struct store_options *options;
        struct store_ledger ledger;
        struct mysql_conn *conn;
        int stop_fd;
        struct store_facts facts;
        bool has_place;              /* on this connection; see store_take_place() */
        bool is_known;               /* facts are true of this connection */
        enum gate_mode checked_mode; /* the privileges that this mode needs are there */
        /* Names of its tables, in backquotes. */
        char actions[STORE_NAME_MAX], claims[STORE_NAME_MAX], groups[STORE_NAME_MAX],
                logs[STORE_NAME_MAX], wp_options[STORE_NAME_MAX];
        struct buf sql;        /* the statement being built */
        struct rng rng;        /* jitter */
        unsigned rows_at_once; /* of a move; halved by ERR_LOCKED, grows again to SITE_ROWS_MAX */
        int64_t longest_ns;    /* the longest statement of the last change: it holds row locks */
        /* Repairs that are looked at in turns. */
        size_t next_repair;
        struct store_memory memory;
        uint64_t n_statements;
};

void store_init(struct store *s, const struct store_options *options, int stop_fd);
void store_release(struct store *s);

/* store.c: connects when needed, sets up the session, recognises the site.  A missing table,
 * column or privilege is named, with the GRANT to run. */
int store_open(struct store *s, enum gate_mode mode, struct problem *problem) MUST_CHECK;
void store_close(struct store *s);
/* Runs s->sql and clears it.  ERR_FORBIDDEN comes with the GRANT to run. */
int store_run(struct store *s, struct mysql_result *ret, struct problem *problem) MUST_CHECK;
int store_now(struct store *s, int64_t *ret_now_s, struct problem *problem) MUST_CHECK;
/* Puts "'2026-05-01 12:00:00'", in UTC. */
void store_put_date(struct buf *sql, int64_t unix_s);
/* "GRANT SELECT ON `shop`.`wp_x` TO 'weir'@'%'"; the table is in backquotes. */
void store_put_grant(const struct store *s, const char *privileges, const char *table,
                     struct buf *ret);
/* The statements that give the site's user what the mode needs, repairs and locks included; one a
 * line. */
void store_put_grants(const struct store *s, enum gate_mode mode, struct buf *ret);
/* The same, only those that are missing. */
int store_put_missing(struct store *s, enum gate_mode mode, struct buf *ret,
                      struct problem *problem) MUST_CHECK;
/* What moving actions needs, into the site or out of it (transfer.h).  ERR_FORBIDDEN names the
 * first that is missing. */
int store_check_moving(struct store *s, bool is_export, struct problem *problem) MUST_CHECK;

/* survey.c: ret is zeroed by the caller and wants site_survey_release(), after an error as well.
 * horizon_s: what falls due within so many seconds counts as due. */
int store_survey(struct store *s, int64_t horizon_s, struct site_survey *ret,
                 struct problem *problem) MUST_CHECK;

/* move.c: up to `max` actions of the step's hook, and of no other spelling of it, that are due by
 * then and have a date from not_before_s on, oldest first.  The original is the date of the
 * serialized schedule; the row's own for async ones, and for those that were brought forward. */
int store_read_due(struct store *s, const struct site_step *step, int64_t due_by_s,
                   struct site_due_row *ret, size_t max, size_t *ret_n,
                   struct problem *problem) MUST_CHECK;
/* Claims of runners that have begun with the first of their actions and have some left. */
#define STORE_CLAIMS_MAX 50
struct store_claims {
        uint64_t ids[STORE_CLAIMS_MAX];
        size_t n;
};
int store_read_claims(struct store *s, struct store_claims *ret,
                      struct problem *problem) MUST_CHECK;
/* As store_read_due(), of what is left in these claims; at most SITE_ROWS_MAX. */
int store_read_claimed(struct store *s, const struct site_step *step,
                       const struct store_claims *claims, struct site_due_row *ret, size_t *ret_n,
                       struct problem *problem) MUST_CHECK;
/* Moves these rows to to_s, each only as long as it has its current date, and is in one of the
 * claims; NULL: in none.  *ret_moved: how many, after an error as well.  ERR_LOCKED: a part was
 * refused by locks for good, after a few tries with smaller batches and jitter. */
int store_move(struct store *s, const struct site_due_row *rows, size_t n, int64_t to_s,
               const struct store_claims *claims, uint64_t *ret_moved,
               struct problem *problem) MUST_CHECK;
/* Keeps of the ids those of pending actions that have that date now: for the log, after a move of
 * which a part was refused. */
int store_keep_dated(struct store *s, uint64_t *ids, size_t *n, int64_t date_s,
                     struct problem *problem) MUST_CHECK;
/* The same for rows that have one of the dates of the step: to a later date, or to their originals.
 */
int store_shift(struct store *s, const struct site_step *step, uint64_t *ret_moved,
                struct problem *problem) MUST_CHECK;
int store_return(struct store *s, const struct site_step *step, uint64_t *ret_moved,
                 struct problem *problem) MUST_CHECK;
/* Runs what `put` writes into s->sql for `n` rows from `at` on, in slices that get smaller while
 * other sessions hold locks.  ERR_LOCKED: some were refused for good. */
typedef void (*store_put)(struct store *s, const void *ctx, size_t at, size_t n);
int store_change(struct store *s, size_t n, store_put put, const void *ctx, uint64_t *ret_changed,
                 struct problem *problem) MUST_CHECK;
/* Waits a few milliseconds, by chance: after ERR_LOCKED. */
int store_pause(struct store *s, struct problem *problem) MUST_CHECK;
/* Local time of the site less UTC, in seconds. */
int store_read_offset(struct store *s, int64_t *ret, struct problem *problem) MUST_CHECK;
/* One line per action in Action Scheduler's own log, in bulk. */
int store_log(struct store *s, const uint64_t *ids, size_t n, const char *message,
              struct problem *problem) MUST_CHECK;
/* How the line of an action that was moved begins; the plugin's begins so, too. */
#define STORE_DEFERRED "weir: deferred to "
#define STORE_RETURNED "weir: returned to "
/* The same, only for those whose last line of the two kinds is of a move: the line of a move may be
 * missing, because moves do not wait for their lines. */
int store_log_returned(struct store *s, const uint64_t *ids, size_t n, const char *message,
                       struct problem *problem) MUST_CHECK;

/* front.c: an action of the critical tier. */
struct store_front_row {
        struct front_row row; /* with the priority that it has */
        size_t hook;          /* which of the hooks */
        int64_t date_s;
};
/* Those that are pending and due by then, the oldest of each hook first. */
int store_find_front(struct store *s, const struct slice *hooks, size_t n_hooks, int64_t due_by_s,
                     struct store_front_row *ret, size_t max, size_t *ret_n,
                     struct problem *problem) MUST_CHECK;
/* Priority 0, or their own again; rows by id.  ERR_LOCKED: not all of them. */
int store_put_front(struct store *s, const struct front_row *rows, size_t n, uint64_t *ret_changed,
                    struct problem *problem) MUST_CHECK;
int store_put_back(struct store *s, const struct front_row *rows, size_t n, uint64_t *ret_changed,
                   struct problem *problem) MUST_CHECK;
/* Which of these rows of the ledger wait or run with priority 0, and which actions of the hook do
 * so and recur.  *ret_all: none was left out. */
int store_see_front(struct store *s, struct slice hook, const struct front_row *rows, size_t n,
                    struct front_row *ret, size_t max, size_t *ret_n, bool *ret_all,
                    struct problem *problem) MUST_CHECK;
/* Where there are no priorities: puts the rows that are due before all others, by their dates. */
int store_date_front(struct store *s, const struct slice *hooks, size_t n_hooks,
                     const struct store_front_row *rows, size_t n, int64_t now_s,
                     uint64_t *ret_changed, struct problem *problem) MUST_CHECK;
/* Whether something waits but these hooks, and how many runners hold claims. */
int store_read_pace(struct store *s, const struct slice *hooks, size_t n_hooks,
                    struct site_pace *ret, struct problem *problem) MUST_CHECK;

/* repair.c: looks at one or more kinds of faults (cheap ones each cycle, dear ones in turns) and
 * mends those whose mode is enforce, in small steps; adds to faults[] and to the advice of the
 * survey. */
int store_repair(struct store *s, const struct site_plan *plan, struct site_survey *survey,
                 struct problem *problem) MUST_CHECK;

/* purge.c: deletes a slice of finished actions past their time, while the plan allows it; and when
 * the next slice may begin: INT64_MAX: never, by this plan. */
int store_purge(struct store *s, const struct site_plan *plan, int64_t now_s,
                struct problem *problem) MUST_CHECK;
int64_t store_purge_due_ns(const struct store *s, const struct site_plan *plan);
/* How many were deleted since it told last; at most once a minute it is more than 0. */
uint32_t store_purge_tell(struct store *s);

/* stray.c: shows other guards of this site that it is there, as long as the connection is open.  OK
 * also when all places are taken, or the server has none to give; it tries again when called again.
 */
int store_take_place(struct store *s, struct problem *problem) MUST_CHECK;
/* The date that an action gets back which stands at date_s; 0: it stays there.  schedule_s: of its
 * schedule, 0: none; runs_once: it does not recur; line_s: when the log said that it was moved. */
struct store_stray {
        int64_t date_s, schedule_s, line_s;
        bool runs_once;
};
int64_t store_stray_original_s(const struct store_stray *stray, int64_t now_s);

/* retry.c: how long the next retry waits, after so many. */
int64_t store_retry_wait_s(const struct store_retry *rule, uint32_t n_before);

/* report.c: q->report. */
int store_report(struct store *s, struct site_request *q) MUST_CHECK;

/* requests.c: fills in the answer, err and problem included. */
void store_answer(struct store *s, struct site_request *q);

#endif

/* What the loop and the thread of a site tell each other: surveys, plans, moves and requests.
 *
 * One cycle of a site:
 *
 *      thread: survey      what is due, by hook
 *      loop:   plan        which hooks wait, which moved actions go on waiting or come back
 *      thread: reads the actions of a hook that must wait
 *      loop:   writes their dates into the ledger, answers when that is durable
 *      thread: moves them, tells how many
 *
 * All times are Unix seconds by the clock of the database, because Action Scheduler stores seconds
 * and several machines must agree. */
#ifndef WEIR_SITES_SURVEY_H
#define WEIR_SITES_SURVEY_H

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "gate/gate.h"
#include "state/front.h"

#define SITE_PREFIX_MAX 40   /* bytes of "wp_" */
#define SITE_HOOKS_MAX  2000 /* of one site that a survey tells of */
#define SITE_HOOK_MAX   191  /* bytes: the column */
#define SITE_FIRST_MAX  200  /* hooks of the critical tier that are looked after */
#define SITE_COUNT_CAP  1000 /* due actions of one hook are counted up to this */

/* What a guard can mend or report. */
#define SITE_REPAIR_MAP(X)                                                                         \
        X(LOST, "lost", "failed by a deadlock before they ran")                                    \
        X(CLAIMS, "claims", "held by a runner that is gone")                                       \
        X(CLAIM_ROWS, "claim_rows", "old claims without actions")                                  \
        X(RETENTION, "retention", "finished actions past their time")                              \
        X(RETRIES, "retries", "failed, and named by a retry rule")                                 \
        X(RESTORED, "restored", "at the date of a move that weir does not know any more")          \
        X(PAST_DUE, "past_due", "due for more than a day; only reported")                          \
        X(DUPLICATES, "duplicates", "pending twice with the same arguments; only reported")
enum site_repair {
#define X(id, name, text) REPAIR_##id,
        SITE_REPAIR_MAP(X)
#undef X
                SITE_REPAIRS
};
const char *site_repair_name(enum site_repair repair);

/* ---- survey ---- */

struct site_hook {
        struct slice hook;
        uint32_t due;     /* pending, unclaimed and due within the horizon; at most due_cap + 1 */
        uint32_t running; /* in progress */
        int64_t oldest_due_s; /* 0: none is due */
};

/* What was seen, and what was done about it, of one kind of repair. */
struct site_fault {
        uint32_t found;  /* at the last look; capped as `due` */
        uint32_t mended; /* in this cycle */
};

struct site_survey {
        int64_t now_s;   /* the database's clock */
        int64_t took_us; /* of all statements of the survey */
        int64_t slow_ms; /* what a whole cycle takes these days, moves included */
        struct site_hook *hooks;
        size_t n_hooks;
        uint32_t due_cap;                  /* SITE_COUNT_CAP, and less when there are many hooks */
        bool are_hooks_cut;                /* there are more than SITE_HOOKS_MAX */
        uint32_t claimed, running, failed; /* actions; capped */
        int64_t next_due_s;                /* the first that is not due yet; 0: none */
        struct site_fault faults[SITE_REPAIRS];
        char server[64];    /* "MariaDB 10.11.19" */
        char store[64];     /* "schema 7.0", "schema 7.0, not migrated yet" */
        char url[256];      /* of its admin pages, "https://shop.example/wp-admin/"; may be "" */
        char *advice;       /* lines for people; may be NULL */
        struct arena arena; /* hooks, their names and the advice */
};

void site_survey_release(struct site_survey *v);

/* ---- plan ---- */

/* One that is due. */
struct site_due_row {
        struct site_row row;
        int64_t current_s; /* the date that it has now */
        bool is_async; /* its schedule has no date: the original is current_s, or in the ledger */
};

/* One that stands at the date of a move, by the last line of its log. */
struct site_stray {
        struct slice hook;
        struct site_row row; /* with the date that it gets back: earlier than date_s */
        int64_t date_s;      /* that it has now */
};

/* What happens at the site now, while moved actions may return. */
struct site_pace {
        bool is_idle;     /* nothing but the critical tier has been due for a second */
        uint32_t runners; /* that hold claims */
};

/* The ledger of one hook. */
struct site_front {
        struct slice hook;
        const struct front_row *rows;
        size_t n_rows;
};

#define SITE_NOTED_MAX 5

enum site_step_kind {
        STEP_MOVE,   /* actions of a hook that are due, to a later date */
        STEP_SHIFT,  /* a batch that was moved and is about to fall due: to a later date */
        STEP_RETURN, /* the first rows of a batch: to their original dates */
};

struct site_step {
        enum site_step_kind kind;
        struct slice hook;
        enum tier tier;
        uint64_t batch;    /* SHIFT, RETURN */
        int64_t to_s;      /* MOVE, SHIFT */
        int64_t from_s[2]; /* SHIFT, RETURN: the dates that its rows can have; others are not ours
                            */
        /* MOVE: actions whose original date is before this stay, they have waited long enough.  0:
         * none. */
        int64_t not_before_s;
        const struct site_row *rows; /* SHIFT, RETURN */
        size_t n_rows;
        /* MOVE: a few of its actions for the last moves that people see, so that those of several
         * hooks stand beside each other. */
        struct site_row noted[SITE_NOTED_MAX];
        size_t n_noted;
        bool is_resumed; /* SHIFT: it was cut off, and nobody knows which rows it has moved */
};

struct site_plan {
        enum gate_mode mode;
        enum gate_mode repairs[SITE_REPAIRS]; /* off, observe or enforce */
        bool is_lost_critical; /* lost actions of the critical tier are set pending in any case */
        int64_t horizon_s;     /* of the next survey: what falls due before then counts as due */
        int64_t reach_s;       /* no move goes further than this from now */
        const char *reason;    /* for the action's log: "the database is under load (critical)" */
        struct site_step *steps;
        size_t n_steps;
        bool is_calm;      /* level normal, and measured: retention may work */
        bool is_front;     /* actions of the critical tier are put in front */
        bool is_returning; /* some may come back: the guard looks whether something else waits */
        /* Priorities that weir changed: to look after, or to give back. */
        struct site_front *fronts;
        size_t n_fronts;
        /* Hooks of the critical tier that the survey found: exact names. */
        const struct slice *critical;
        size_t n_critical;
        struct arena arena;
};

/* ---- requests of clients, run by the site's thread ---- */

enum site_request_kind {
        REQUEST_ACTIONS,
        REQUEST_ACTION, /* one, with its log */
        REQUEST_LOCKS,
        REQUEST_LOCK,
        REQUEST_UNLOCK,
        REQUEST_REPORT,
};

/* One number of a report. */
struct site_figure {
        struct slice name; /* a hook, a status, a day */
        uint64_t count;
        bool is_estimate; /* the server's; else it was counted */
        int64_t seconds;  /* what the list is about: how late, how long; else 0 */
};

struct site_table_size {
        const char *name;     /* without the prefix */
        uint64_t rows, bytes; /* estimates of the server */
};

#define SITE_TABLES 4
enum site_list {
        SITE_STATUSES,
        SITE_DAYS,     /* what finished, by its date */
        SITE_PENDING,  /* by hook, of a sample of the next ones */
        SITE_CREATED,  /* a day, by hook, of a sample of the newest */
        SITE_FAILED,   /* by hook, of a sample of the newest */
        SITE_PAST_DUE, /* by hook, of the oldest, with how late the first is */
        SITE_SLOWEST,  /* by hook, of the last that ran, with how long the slowest took */
        SITE_LISTS
};
#define SITE_FIGURES 10 /* of one list */

struct site_report {
        struct site_table_size tables[SITE_TABLES];
        struct site_figure lists[SITE_LISTS][SITE_FIGURES];
        size_t n[SITE_LISTS];
        uint64_t past, past_lines, past_bytes; /* what retention would delete */
        bool is_past_estimate;
        uint64_t finished_per_day, deleted_per_s; /* the latter 0: not known */
};

struct site_action {
        uint64_t id;
        struct slice hook, status, group, args,
                schedule; /* schedule: "async", "single", "every 3600 s", "cron" */
        uint32_t attempts, priority;
        uint64_t claim;
        int64_t scheduled_s, original_s,
                last_attempt_s; /* original: 0 when the row does not tell */
};

struct site_log_line {
        int64_t at_s;
        struct slice message;
};

struct site_lock {
        struct slice key, token;
        uint64_t fence;
        int64_t expires_s; /* 0: free */
};

struct site_request {
        /* Set by the asker; slices live in the arena. */
        enum site_request_kind kind;
        struct slice status; /* ACTIONS: pending, due, in-progress, complete, failed, canceled;
                                empty: any */
        struct slice hook;   /* ACTIONS: exactly this one; empty: any */
        uint64_t id;         /* ACTION; ACTIONS: ids below this, 0: all */
        const uint64_t *ids; /* ACTIONS: of these; NULL: any */
        size_t n_ids;
        uint32_t limit;
        struct slice key,
                token; /* LOCK, UNLOCK; a LOCK without a token gets one from the asker always */
        int64_t ttl_s;
        bool is_forced;                       /* UNLOCK whatever the token */
        void (*done)(struct site_request *q); /* on the loop thread */
        void *ctx;
        /* Set by the guard. */
        int err;
        struct problem problem;
        struct site_action *actions;
        size_t n_actions;
        bool has_more;
        uint64_t next_id; /* where the next page begins, when there is more: its `id` */
        struct site_log_line *lines;
        size_t n_lines;
        struct site_lock *locks;
        size_t n_locks;
        struct site_report *report;
        bool is_granted; /* LOCK: locks[0] is the holder, us or another; UNLOCK: it was held and is
                            free */
        struct arena arena;
        struct site_request *next; /* the guard's own */
};

#endif

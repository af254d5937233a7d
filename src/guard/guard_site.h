/* What the files of the guard's thread share: guard.c has its life and its talk with the loop,
 * cycle.c what it does in each cycle, rest.c between them, second.c each second. */
#ifndef WEIR_GUARD_GUARD_SITE_H
#define WEIR_GUARD_GUARD_SITE_H

#include <pthread.h>

#include "base/list.h"
#include "guard/guard.h"

#define GUARD_ROWS_PER_CYCLE 10000
#define GUARD_FRONT_FIND     (2 * FRONT_ROWS_MAX) /* actions of the critical tier, each second */
#define GUARD_MISSED_MAX     500

enum talk_kind {
        TALK_MODE,
        TALK_FAILED,
        TALK_SURVEYED,
        TALK_PROPOSE,
        TALK_SHIFT,
        TALK_STEPPED,
        TALK_REPAIRED,
        TALK_FRONT,
        TALK_FRONTED,
        TALK_TOP_UP,
        TALK_BLOGS,
        TALK_STRAYS,
};

struct talk {
        enum talk_kind kind;
        enum { IDLE, ASKED, HANDLED } state;
        uint64_t durable_seq; /* HANDLED: answered when this batch is durable */
        int result;
        struct problem problem;
        enum gate_mode mode;
        struct site_survey *survey;
        struct site_plan *plan;
        struct site_step *step;
        struct site_due_row *rows;
        size_t n_rows;
        uint64_t n_changed;
        bool is_refused;
        struct slice hook;
        struct front_row *fronts;       /* n_rows of them */
        const struct site_front *asked; /* which they are the answer to */
        bool is_all;
        struct site_stray *strays; /* n_rows of them */
        bool is_taken;             /* into the ledger */
        struct site_pace pace;
        struct network_blogs *blogs; /* the loop takes it */
};

struct guard_site {
        struct list link;
        struct guard *guard;
        const struct store_options *options;
        int64_t interval_ms;
        pthread_t thread;
        int stop_fd, wake_fd;

        pthread_mutex_t lock;
        pthread_cond_t answered;
        /* Under the lock: */
        struct talk talk;
        struct site_request *asked, **asked_end; /* requests that the thread has to run */
        struct site_request *done;               /* and those that the loop has to answer */
        struct network_blogs *blogs;             /* that the loop has still to look at */
        bool wants_cycle, is_stopping;

        /* The thread's own: */
        struct store store;
        int64_t now_s, horizon_s; /* of the last survey and plan */
        int64_t now_ns;           /* when now_s was read */
        int64_t slow_ms;          /* the slowest of the last cycles; half as much with each */
        struct site_plan plan;    /* the last one: it tells what each second's work is */
        size_t move_rows;         /* of one page: fewer while the server is slow */
        bool has_more_to_move;    /* than this cycle did */
        int64_t retry_ms;
        int64_t tick_ns, pace_ns; /* when the work of a second, and a look for returns, is due */
        struct store_front_row *found;
        struct missed {
                uint64_t id; /* of the ledger's row */
                int64_t since_ns;
        } missed[GUARD_MISSED_MAX]; /* series of which no action is there now */
        size_t n_missed;
        char front_problem[STORE_ADVICE_MAX]; /* why nothing is put in front; "" */
        bool tries_front;                     /* again, once a cycle: it may have been granted */
        int64_t blogs_ns;                     /* of a network: when it is read again */
};

/* ---- guard.c ---- */

/* Asks and waits; the answer is in s->talk.  ERR_STOPPING: there is none. */
int guard_talk(struct guard_site *s, enum talk_kind kind);
void guard_tell_failed(struct guard_site *s, const struct problem *problem);
void guard_serve_requests(struct guard_site *s);
/* Something else is wanted of the thread than what it is doing. */
bool guard_is_interrupted(struct guard_site *s);
/* ---- cycle.c ---- */

/* *ret_rest_ms: 0: until the next interval. */
int guard_cycle(struct guard_site *s, enum gate_mode mode, int64_t *ret_rest_ms) MUST_CHECK;
/* For when actions of the critical tier wait: ends batches that runners have begun, if the rest of
 * them has to be deferred. */
int guard_cut_batches(struct guard_site *s) MUST_CHECK;
/* *budget: rows that may still be changed in this cycle. */
int guard_do_step(struct guard_site *s, const struct site_plan *plan, struct site_step *step,
                  size_t *budget) MUST_CHECK;

/* Of struct store_ledger; ctx: the site. */
int guard_take_strays(void *ctx, struct site_stray *rows, size_t *n, bool is_taken) MUST_CHECK;

/* Of a network, when it is due: reads its blogs and tells the loop. */
int guard_look_for_blogs(struct guard_site *s) MUST_CHECK;

/* ---- rest.c ---- */

/* Until the time is over, a cycle is wanted, or it is time to stop. */
void guard_rest(struct guard_site *s, int64_t ms);

/* ---- second.c ---- */

/* By the clock of the database. */
int64_t guard_now_s(const struct guard_site *s);
/* Does what is due each second; nothing when less has passed. */
int guard_tick(struct guard_site *s) MUST_CHECK;
/* Compares the ledger of a hook with the site, and gives back what is not wanted in front. */
int guard_look_after(struct guard_site *s, const struct site_front *front) MUST_CHECK;

#endif

/* The loop: the one thread that owns all state, and the turn that brings everything on it to the
 * core.
 *
 *      callbacks of libuv      input is read and run; timers and mail are delivered.  The first
 *                              one begins the turn: loop_turn_begin() tells the core the time
 *      run                     members run input that was left over
 *      commit                  one batch goes to the log, if none is in flight
 *      durable                 members hear that a batch is durable
 *      flush                   members write the output that may leave
 *
 * Members (doors) register a row of operations.  Other threads (log, history, probes) never touch
 * anything here: they post a mail, and the loop delivers it within a turn.
 *
 * Stopping: the core answers waits, members finish what they owe, and loop_run() returns when all
 * are done and the last batch is durable; after LOOP_STOP_MS the members cut what is left.
 *
 * Ownership: a member belongs to the loop from loop_join() on, and is freed by loop_free().
 * Threads: loop thread only, except loop_post() and loop_log_durable(), which any thread may call
 * while the loop exists.
 *
 * Invariants, checked by loop_check() between turns:
 *   (1) durable_seen <= durable_seq
 *   (2) answered <= committed <= n_requests
 *   (3) `gather` is active exactly when gather_until_ns is set
 *   (4) `busy` is active, and has_work set, exactly when a member has work left
 *   (5) core_timer is active exactly when core_timer_ns is set
 *   (6) is_stopped and is_stop_late only with is_stopping
 *   (7) hold_timer is active exactly when is_held */
#ifndef WEIR_LOOP_LOOP_H
#define WEIR_LOOP_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/clock.h"
#include "base/err.h"
#include "loop/share.h"
#include "loop/trim.h"
#include "loop/turn_watch.h"

struct core;
struct loop;

/* What the turn asks of a member.  All within a turn, unless noted. */
struct loop_ops {
        bool (*has_work)(const void *ctx); /* input that is left over; also between turns */
        void (*run)(void *ctx);            /* runs it, until loop->share.is_over */
        void (*durable)(void *ctx);        /* loop->durable_seen has grown */
        bool (*flush)(void *ctx);          /* writes what may leave; returns has_work() */
        /* From now on, or no longer: nothing leaves but answers of checks, and no other input is
         * run.  May be NULL: it has nothing that could be stale. */
        void (*hold)(void *ctx, bool is_held);
        void (*stop)(void *ctx);          /* takes no more, answers what it owes */
        void (*cut)(void *ctx);           /* stopping takes too long: closes everything */
        bool (*is_idle)(const void *ctx); /* nothing is open any more */
        void (*check)(const void *ctx);   /* asserts its invariants; bounded cost */
        void (*close)(void *ctx);         /* closes its handles; between turns */
        void (*free)(void *ctx);          /* its handles are closed */
};

struct loop_member {
        const struct loop_ops *ops;
        void *ctx;
        const uint64_t *bytes; /* memory of its clients */
};
#define LOOP_MEMBERS_MAX 4

/* A message from any thread.  The sender owns it, sets the first two fields once, and keeps it
 * until no thread posts it any more and the loop has stopped.  One that is posted again before it
 * was delivered is delivered once, so `deliver` must take everything there is to take. */
struct loop_mail {
        void (*deliver)(void *ctx); /* on the loop thread, within a turn */
        void *ctx;
        /* The mailbox's own. */
        struct loop_mail *next;
        atomic_bool is_posted;
};

/* A timer whose callback runs within a turn.  Closed by loop_free(). */
struct loop_timer {
        uv_timer_t uv;
        struct loop *loop;
        void (*fn)(void *ctx);
        void *ctx;
};

/* Members read what is above the line; only the loop changes it, except for n_requests. */
struct loop {
        uv_loop_t uv;
        struct core *core;
        int64_t steady_base_ns; /* steady time is clock_boot_ns() + this */
        int64_t log_base_ns;    /* the same, by the clock of the batch that came last */
        struct now now;         /* of the turn */
        int64_t boot_ns;        /* clock_boot_ns() of the turn.  Unlike steady time it does not go
                                 * back when this machine begins to lead: for limits and deadlines
                                 * of connections, which outlive that */
        uint64_t durable_seen;  /* batches up to this one are durable, and the core knows it */
        struct share share;     /* what a connection may do in this turn */
        uint64_t n_requests;    /* so far; members count them */
        bool is_stopping;
        bool is_stop_late; /* and LOOP_STOP_MS are over */
        bool is_stopped;
        bool is_held; /* another machine may lead by now: nothing may be told */
        struct turn_watch turns;
        /* ---- */
        struct loop_member members[LOOP_MEMBERS_MAX];
        size_t n_members;
        bool is_in_turn;
        uv_prepare_t prepare;
        uv_check_t check;
        bool has_work;  /* at the end of the last turn */
        uv_idle_t busy; /* active with it: polls do not sleep */

        /* The commit (loop/commit.c). */
        uv_idle_t gather;               /* active while the next commands are waited for, awake */
        struct loop_timer gather_timer; /* or on, asleep */
        uint64_t commit_ns;             /* that the log takes for a batch, a mean */
        uint64_t gather_until_ns;       /* uv_hrtime(); 0 = not waiting */
        uint64_t gather_from;           /* requests when the wait began */
        uint64_t gather_want;           /* requests; no need to wait for more */
        unsigned gather_missed; /* a log of several machines: waits in a row that brought few */
        unsigned gather_rest;   /* and so many batches are not waited after */
        uint64_t committed;     /* requests whose effects went to the log */
        uint64_t answered;      /* and are durable */
        int64_t checked_ns;     /* clock_boot_ns() of the last check; 0 = none */
        pthread_t thread;       /* that runs the loop */
        _Atomic uint64_t durable_seq;
        struct loop_mail durable_mail;

        uv_async_t mail_async;
        _Atomic(struct loop_mail *) mail; /* posted and not delivered, the newest first */

        struct loop_timer core_timer;
        int64_t core_timer_ns; /* what it is set to; INT64_MAX = not set */
        struct loop_timer stop_timer;
        struct trim trim; /* of clients' memory and of the core's live objects */
        struct loop_timer trim_timer;
        struct loop_timer hold_timer; /* on while is_held */
};

int loop_new(struct loop **ret, struct problem *problem) MUST_CHECK;
/* The core is recovered; it is not owned.  Steady time is clock_boot_ns() + steady_base_ns.  Before
 * the first member joins. */
void loop_set_core(struct loop *l, struct core *core, int64_t steady_base_ns);
/* Steady time goes on from here, unless it is later already: the core follows, and its leader's
 * clock came along with a batch. */
void loop_advance(struct loop *l, int64_t steady_ns);
/* The core was promoted: what it has taken is durable.  Steady time goes on from the batch that
 * came last, back if need be: this machine's own may run ahead of the last leader's, whose leases
 * would end too early by that. */
void loop_led(struct loop *l);
/* The loop owns the member from here on. */
void loop_join(struct loop *l, struct loop_member member);
/* Returns when loop_stop() has done its work.  ERR_TIMEOUT: something was still open when the time
 * for stopping ran out, and was cut. */
int loop_run(struct loop *l);
/* From a callback of the loop, or before loop_run(). */
#define LOOP_STOP_MS 1500
void loop_stop(struct loop *l);
struct loop *loop_free(struct loop *l); /* NULL is fine; returns NULL */

/* Every callback of libuv that is not a mail or a loop_timer begins with this; the time is read
 * once a turn. */
void loop_turn_begin(struct loop *l);
/* A client checks: until no check has come for a while, answers that need no disk come at once. */
void loop_note_check(struct loop *l);
void loop_check(const struct loop *l);

/* Any thread: has the mail delivered. */
void loop_post(struct loop *l, struct loop_mail *mail);
/* Any thread, for log->durable: all batches up to seq are durable. */
void loop_log_durable(struct loop *l, uint64_t seq);

void loop_timer_init(struct loop *l, struct loop_timer *t, void (*fn)(void *ctx), void *ctx);
/* Starts it anew; repeat_ms 0: it rings once. */
void loop_timer_start(struct loop_timer *t, int64_t ms, int64_t repeat_ms);
/* Has it ring once in `ms`, unless it rings sooner anyway. */
void loop_timer_hasten(struct loop_timer *t, int64_t ms);
void loop_timer_stop(struct loop_timer *t);
bool loop_timer_is_on(const struct loop_timer *t);

#endif

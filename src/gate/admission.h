/* Which transactions may go to a database server now, which wait, and which are refused: the law of
 * one SQL door.
 *
 * A transaction asks once, at its start, as a member of a class.  Four things speak:
 *
 *      the policy      what the core decided for its class (gate/check.h), frozen into a snapshot:
 *                      a pause, a hold and a ratio stop the class.  Thresholds, levels and unknown
 *                      metrics are for jobs and checks; the door judges load itself:
 *      load            what is usual always goes, what is unusual goes through a window
 *      the class       its concurrency, its rate, its budget of database time a second
 *      the door        its own concurrency, if it has one
 *
 * Load.  Each class has a learned usual number of transactions that execute at once (gate/usual.h).
 * Below it, a transaction never waits for load; a class of the tier high has twice as many, a
 * deferrable or new one none, and the critical tier never waits.  What executes beyond is the
 * excess.  A transaction of a tier may go while the excess of the tiers as or more important is
 * below the window, or while none of its tier executes.  So less important work never stands in the
 * way of more important work, and no tier ever stands still.  An open transaction that waits for
 * its client does not execute.
 *
 * The window is always there.  It begins at 4, grows by half a second after second while it is used
 * up and the database is well, and is halved when the database is over: it is slower than usual,
 * and more runs than usual.  See admission_look.c.  Until something was learned, no transaction
 * waits for load; where all that was learned is what usually runs at the server, only deferrable
 * ones do.
 *
 * Inside a class, a statement that usually takes 20 times as long as its class, and one that was
 * never seen before in a class that has few new ones, begin transactions without a usual: strays.
 *
 * A transaction that may not go stands in the queue of its class, for at most the wait of the
 * class, and is refused after it.  A place that becomes free goes to the class with the smallest
 * virtual time: each transaction advances it by what its class usually costs the database, divided
 * by the weight of its tier (8, 4, 2, 1).  So classes get shares by weight, a class that waits for
 * its own limit is in no other's way, and no transaction waits while there is a place for it.
 * Within a class the first comes first.
 *
 * In the modes off and observe nothing waits: the answer is ADMIT_RUN, and `would` says what
 * enforce would have done (it does not stand in queues, so it is an estimate: at the start only).
 *
 * No clock, no lock, no thread: times are passed in, steady ns; the owner serializes the calls. */
#ifndef WEIR_GATE_ADMISSION_H
#define WEIR_GATE_ADMISSION_H

#include "base/list.h"
#include "base/rand.h"
#include "gate/check.h"
#include "gate/digests.h"
#include "gate/usual.h"

#define ADMIT_CLASSES_MAX 1024 /* the last of them is "other" */
#define ADMIT_WHY         160

/*      id           name            what people read */
#define ADMIT_REASON_MAP(X)                                                                        \
        X(NONE, "none", "nothing kept it")                                                         \
        X(POLICY, "policy", "the gate") /* its check_reason says more */                           \
        X(LOAD, "load", "more than usual runs, and the window for that is full")                   \
        X(CONCURRENCY, "concurrency", "its class runs as many as it may")                          \
        X(RATE, "rate", "its class starts as many a second as it may")                             \
        X(BUDGET, "time_budget", "its class used up its database time")                            \
        X(DOOR, "door", "the door runs as many as it may")                                         \
        X(NEW, "new", "the gate has not decided about its class yet")
enum admit_reason {
#define X(id, name, text) ADMIT_BY_##id,
        ADMIT_REASON_MAP(X)
#undef X
                ADMIT_REASONS
};
const char *admit_reason_name(enum admit_reason reason);
const char *admit_reason_text(enum admit_reason reason);

/* ---- what the core says: immutable, shared by reference count ---- */

/* A class as the gate sees it now.  The dice of a transaction lie between two bounds: verdict[0]
 * below bound[0], verdict[1] from there below bound[1], verdict[2] else. */
struct class_verdicts {
        bool is_known; /* the core has decided about it */
        double bound[2];
        struct check_verdict verdict[3];
        enum tier tier;
        uint32_t retry_ms;    /* when refused: try again then */
        char why[ADMIT_WHY];  /* of a refusal, in words: "threads_running 150 against 15" */
        char rule[ADMIT_WHY]; /* the rule that decided, or "" */
};

struct door_policy {
        unsigned refs;       /* door_policy_ref, _unref: the owner serializes them */
        uint64_t n_samples;  /* grows with every sample of `running` */
        double running;      /* statements that run at the server; NAN: not known */
        double running_most; /* usually, as the operator wrote it; NAN: it is learned */
        /* Another metric is above its threshold, in words ("replication_lag 12 against 10"). */
        bool is_harmed;
        char harm[ADMIT_WHY];
        size_t n; /* classes by their number; those beyond are not known yet */
        struct class_verdicts classes[];
};
struct door_policy *door_policy_new(size_t n); /* one reference; all zeros */
struct door_policy *door_policy_ref(struct door_policy *p);
struct door_policy *door_policy_unref(struct door_policy *p); /* NULL is fine; returns NULL */

/* ---- what the file says ---- */

struct class_limits {
        enum gate_mode mode; /* the class's, else the door's */
        int64_t wait_ns;
        uint32_t concurrency; /* transactions at once; 0: no limit */
        double rate;          /* starts a second; 0: no limit */
        int64_t budget_ns;    /* database time a second; 0: no limit */
};

/* ---- transactions ---- */

enum admit_state { TICKET_NONE, TICKET_WAITING, TICKET_RUNNING };

/* One transaction.  Its owner keeps it, all zeros at first, until it is TICKET_NONE again. */
struct ticket {
        enum admit_state state;
        uint16_t class_number;
        bool is_idle;    /* running, and no statement of it is at the server */
        bool is_stray;   /* it has no usual, whatever its class has */
        bool is_held;    /* it is counted as held */
        uint64_t digest; /* of its first statement; 0: not known.  Set before admission_ask() */
        double roll;
        int64_t asked_ns, deadline_ns;
        int64_t waited_ns; /* before it was let through */
        int64_t since_ns;  /* since when it executes, unless it is idle */
        struct list place; /* waiting: in the queue of its class; executing: among those that do */
        void *owner;       /* the caller's */
};

enum admit_verdict { ADMIT_RUN, ADMIT_WAIT, ADMIT_REFUSE };

struct admit_answer {
        enum admit_verdict verdict;
        enum admit_reason reason;       /* of WAIT and REFUSE */
        enum check_reason check_reason; /* of ADMIT_BY_POLICY */
        bool would_wait;                /* had the mode been enforce */
        uint32_t retry_ms;              /* of REFUSE */
        int64_t waited_ns;
        char why[2 * ADMIT_WHY]; /* of WAIT, REFUSE and would_wait, in words */
};

/* Histograms of times: bucket i holds those up to 2^i * 16 us, the last one all others. */
#define ADMIT_BUCKETS 24
struct admit_times {
        uint64_t n[ADMIT_BUCKETS];
        uint64_t sum_ns;
};

struct class_counts {
        uint64_t transactions; /* let through */
        uint64_t statements, rows, errors;
        uint64_t held;                      /* that had to wait */
        uint64_t refused;                   /* with an error */
        uint64_t left;                      /* whose client went away while it waited: never run */
        uint64_t observed;                  /* let through that enforce would have held */
        uint64_t by_reason[ADMIT_REASONS];  /* of held and observed: why at the start */
        uint64_t busy_ns;                   /* database time */
        struct admit_times waits, services; /* of held ones; from the start to the end of each */
        int64_t last_ns;
};

/* The gate refuses a transaction for that, and the law of the door judges by itself instead. */
bool admission_ignores(enum check_reason reason);

struct admission;

/* Tells the outcome of a ticket that waited: RUN or REFUSE.  Called from within any of the calls
 * below that change something; it must not call back. */
typedef void (*admission_decided)(void *ctx, struct ticket *t, const struct admit_answer *answer);

struct admission *admission_new(uint64_t seed, admission_decided decided, void *ctx);
struct admission *admission_free(struct admission *a); /* no ticket is known to it any more */

/* Makes the class or changes its limits; `number` is below ADMIT_CLASSES_MAX. */
void admission_set_class(struct admission *a, size_t number, const struct class_limits *limits,
                         int64_t now_ns);
/* Of the door.  is_floor_off: a deferrable transaction may also wait while none executes. */
void admission_set_door(struct admission *a, uint32_t concurrency, bool is_floor_off,
                        int64_t now_ns);
/* Takes the reference. */
void admission_publish(struct admission *a, struct door_policy *policy, int64_t now_ns);

/* A transaction of that class is about to start.  WAIT: `decided` is called later, or the caller
 * says admission_leave().  A class whose wait is 0 is refused at once. */
void admission_ask(struct admission *a, struct ticket *t, size_t class_number, int64_t now_ns,
                   struct admit_answer *ret);
/* A running one waits for its client, or goes on. */
void admission_idle(struct admission *a, struct ticket *t, int64_t now_ns);
void admission_resume(struct admission *a, struct ticket *t, int64_t now_ns);
/* A running one has ended. */
struct ticket_use {
        uint64_t statements, rows, errors;
        int64_t busy_ns;
};
void admission_end(struct admission *a, struct ticket *t, const struct ticket_use *use,
                   int64_t now_ns);
/* The client of a waiting or running one has gone. */
void admission_leave(struct admission *a, struct ticket *t, const struct ticket_use *use,
                     int64_t now_ns);
/* Deadlines, rates, budgets, looks at the window.  Returns when it wants to be called next;
 * INT64_MAX: when something else happens.  Any other call can change that time, and a few hundred
 * tickets are decided at most by one call: call it after a WAIT, and after any other call
 * while tickets wait. */
int64_t admission_turn(struct admission *a, int64_t now_ns);

struct class_view {
        const struct class_counts *counts;
        uint32_t running, waiting;
        uint32_t executing;       /* of running */
        uint32_t excess;          /* of executing: beyond the usual */
        uint32_t free;            /* so many at once never wait for load; UINT32_MAX: any number */
        double usual;             /* executing at once; 0: not learned yet */
        double usual_ms;          /* time at the server; 0: not learned yet */
        double slowdown;          /* of the last seconds; 0: too few to tell */
        int64_t oldest_ns;        /* how long the oldest has waited; 0: none waits */
        struct admit_answer wait; /* what keeps that one now; its verdict is ADMIT_WAIT then */
        const struct class_verdicts *verdicts; /* NULL: the core has not decided yet */
        struct class_limits limits;
};
size_t admission_classes(const struct admission *a); /* one more than the largest number */
/* False: there is no class of that number. */
bool admission_view(const struct admission *a, size_t number, int64_t now_ns,
                    struct class_view *ret);

struct admission_state {
        uint32_t running, waiting, executing;
        uint32_t excess; /* of enforced classes: what the window is for */
        uint32_t window;
        uint32_t concurrency;
        bool is_learned;      /* of some class what is usual, */
        bool is_server_known; /* of the server; without both no transaction waits for load */
        bool is_over;
        bool is_enforced;    /* of some class the mode is enforce */
        double slowdown;     /* 0: too few to tell */
        double slow_share;   /* of the transactions, at least; NAN: too few to tell */
        double server;       /* statements at the server now, about; NAN: not known */
        double server_most;  /* usually; NAN: not known */
        char why[ADMIT_WHY]; /* of is_over, in words */
};
void admission_state(const struct admission *a, struct admission_state *ret);
/* What waits until more was learned, in words; NULL: enough was. */
const char *admission_state_learning(const struct admission_state *s);
void admission_check(const struct admission *a); /* asserts its invariants */

/* ---- what was learned ---- */

/* False: nothing was. */
bool admission_memory(const struct admission *a, size_t number, struct usual_memory *ret);
/* False: it makes no sense, and nothing has changed. */
bool admission_remember(struct admission *a, size_t number, const struct usual_memory *memory);
/* The statements of all classes; DIGESTS_MOST at most. */
size_t admission_digests(const struct admission *a, struct digest_row *ret);
/* Of one class that admission_remember() was told of, by that number.  False: it makes no sense. */
bool admission_remember_digest(struct admission *a, const struct digest_row *row);
const struct usual_metric *admission_metric(const struct admission *a);
bool admission_remember_metric(struct admission *a, const double n[USUAL_BUCKETS], double seconds);

#endif

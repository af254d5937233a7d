/* Which transactions may go to a database server now, which wait, and which are refused: the law of
 * one door of the MySQL proxy.
 *
 * A transaction asks once, at its start, as a member of a class.  Three things speak:
 *
 *      the policy      what the core decided for its class (gate/check.h), frozen into a snapshot.
 *                      Pause, hold, ratio and unknown stop the class.  Threshold and level press
 *                      it: pressed transactions share a window, which follows the samples of the
 *                      target: halved when one is over its threshold or the level is critical (to
 *                      0 at level critical, else to 1), one more when it is below.  When nothing
 *                      presses, it opens within seconds, and then there is none.  What runs of
 *                      pressed classes counts, whenever it started.
 *      the class       its concurrency, its rate, its budget of database time a second
 *      the door        its own concurrency, if it has one
 *
 * Whoever may not go stands in the queue of its class, for at most the wait of the class.  A place
 * that becomes free goes to the class with the smallest virtual time: each transaction advances it
 * by what its class usually costs the database, divided by the weight of its tier (8, 4, 2, 1).  So
 * classes get shares by weight, a class that waits for its own limit is in nobody's way, and nobody
 * waits while there is a free place.  Within a class the first comes first.
 *
 * CoDel watches the time that transactions stand here: when for 100 ms nobody of a tier came
 * through within 5 ms, the oldest of the least important tier below it is refused, then the next
 * after 100 ms / sqrt(2), and so on.  The critical tier is never pressed and never shed.
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

#define ADMIT_CLASSES_MAX 1024 /* the last of them is "other" */
#define ADMIT_WHY         160
#define ADMIT_TARGET_NS   (5 * NS_PER_MS)
#define ADMIT_INTERVAL_NS (100 * NS_PER_MS)

/*      id           name            what people read */
#define ADMIT_REASON_MAP(X)                                                                        \
        X(NONE, "none", "nothing kept it")                                                         \
        X(POLICY, "policy", "the gate")                  /* its check_reason says more */          \
        X(SHARE, "share", "others of waiting tiers run") /* the window is used up */               \
        X(CONCURRENCY, "concurrency", "its class runs as many as it may")                          \
        X(RATE, "rate", "its class starts as many a second as it may")                             \
        X(BUDGET, "time_budget", "its class used up its database time")                            \
        X(DOOR, "door", "the door runs as many as it may")                                         \
        X(OVERLOAD, "overload", "more important transactions stand in the queue")                  \
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
        unsigned refs; /* door_policy_ref, _unref: the owner serializes them */
        enum level level;
        bool is_over;       /* a metric is above its threshold, or none is known */
        uint64_t n_samples; /* grows with every sample of the target */
        size_t n;           /* classes by their number; those beyond are not known yet */
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
        bool is_pressed; /* its class was pressed when it started */
        int8_t tier;     /* that it asked with: it can only lower that of its class; -1: the same.
                            Set before admission_ask(), not changed while it waits */
        double roll;
        int64_t asked_ns, deadline_ns;
        int64_t waited_ns; /* before it was let through */
        struct list place; /* in the queue of its class */
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

/* The gate refuses a transaction of that tier, and the law lets it go nevertheless. */
bool admission_ignores(enum check_reason reason, enum tier tier);

struct admission;

/* Tells the outcome of a ticket that waited: RUN or REFUSE.  Called from admission_publish(),
 * admission_end(), admission_leave(), admission_turn(), admission_set_*(); it must not call back.
 */
typedef void (*admission_decided)(void *ctx, struct ticket *t, const struct admit_answer *answer);

struct admission *admission_new(uint64_t seed, admission_decided decided, void *ctx);
struct admission *admission_free(struct admission *a); /* no ticket is known to it any more */

/* Makes the class or changes its limits; `number` is below ADMIT_CLASSES_MAX. */
void admission_set_class(struct admission *a, size_t number, const struct class_limits *limits,
                         int64_t now_ns);
void admission_set_concurrency(struct admission *a, uint32_t concurrency, int64_t now_ns);
/* Takes the reference. */
void admission_publish(struct admission *a, struct door_policy *policy, int64_t now_ns);

/* A transaction of that class is about to start.  WAIT: `decided` is called later, or the caller
 * says admission_leave().  A class whose wait is 0 is refused at once. */
void admission_ask(struct admission *a, struct ticket *t, size_t class_number, int64_t now_ns,
                   struct admit_answer *ret);
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
/* Deadlines, rates, budgets, CoDel, the opening window.  Returns when it wants to be called next;
 * INT64_MAX: when something else happens.  Any other call can change that time, and a few hundred
 * tickets are decided at most by one call: call it after a WAIT, and after a publish, an end, a
 * leave or a set while tickets wait. */
int64_t admission_turn(struct admission *a, int64_t now_ns);

struct class_view {
        const struct class_counts *counts;
        uint32_t running, waiting;
        int64_t oldest_ns;                     /* how long the oldest has waited; 0: none waits */
        const struct class_verdicts *verdicts; /* NULL: the core has not decided yet */
        struct class_limits limits;
};
size_t admission_classes(const struct admission *a); /* one more than the largest number */
/* False: there is no class of that number. */
bool admission_view(const struct admission *a, size_t number, int64_t now_ns,
                    struct class_view *ret);

struct admission_state {
        uint32_t running, waiting, pressed; /* pressed: running ones that share the window */
        uint32_t window;                    /* UINT32_MAX: no limit */
        uint32_t concurrency;
        bool is_standing; /* CoDel: the queue stands */
        uint64_t shed;
        enum level level;
};
void admission_state(const struct admission *a, struct admission_state *ret);
void admission_check(const struct admission *a); /* asserts its invariants */

#endif

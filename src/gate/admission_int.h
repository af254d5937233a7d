/* What the files of the admission law share: admission.c (tickets, counts, words),
 * admission_queue.c (which ticket goes next), admission_window.c (the policy, the usual places and
 * the excess) and admission_look.c (is the database well; the size of the window). */
#ifndef WEIR_GATE_ADMISSION_INT_H
#define WEIR_GATE_ADMISSION_INT_H

#include "base/heap.h"
#include "gate/admission.h"

/* What a class may do by the policy. */
enum lane_kind {
        LANE_FREE,    /* load does not concern it */
        LANE_OPEN,    /* a place of its usual, or of the window */
        LANE_STOPPED, /* nothing, until another policy is published */
        LANE_NEW,     /* the core has not decided yet: nothing, for a short time */
};

/* The tickets of a class stand in lanes: one for each band of the dice, and the same for strays.
 * All tickets of a lane have the same kind and wait equally long at most, so only the first of each
 * matters. */
#define BANDS    4
#define BAND_NEW 3 /* of a class that the core has not decided about */
#define LANES    (2 * BANDS)

/* Classes that could start a ticket now but for the door, or for the window of their tier. */
enum line { LINE_DOOR, LINE_HIGH, LINE_NORMAL, LINE_DEFERRABLE, LINES };
/* A class stands in two of them at most. */
enum place { PLACE_DOOR, PLACE_WINDOW, PLACES };

#define NEW_WAIT_NS   NS_PER_S /* the core answers within a millisecond */
#define NEW_LEAST_NS  (100 * NS_PER_MS)
#define TURN_MAX      256  /* tickets decided by one call: the owner holds a lock meanwhile */
#define FIRST_COST_US 1000 /* what a class costs that has not ended anything yet */
#define LOOK_NS       (250 * NS_PER_MS)
#define FREE_ANY      UINT32_MAX

struct admit_class {
        struct class_limits limits;
        uint32_t running, waiting;
        enum tier tier;
        uint16_t number;
        bool is_enforced;
        bool is_free;      /* critical or exempt: load does not concern it */
        bool is_ruled_out; /* a metric that a rule names for it is too high: it has no usual */

        /* Load. */
        uint32_t executing, strays; /* of running; strays are among them */
        uint32_t free;              /* executing at once that never wait for load */
        uint32_t excess;            /* beyond that, and strays; the admission's sums have it */
        struct list executing_list; /* tickets, the longest first */
        int64_t settled_ns;         /* the usual was last worked out */
        int64_t spent_ns;           /* until then `executing` is in the usual */
        struct usual usual;
        struct pace pace;
        uint32_t digested;   /* transactions with a digest; stops at its largest value */
        float new_share;     /* of them lately: with one that was new */
        int64_t digested_ns; /* since the first */

        /* From the policy, per band. */
        double bound[2];
        uint8_t kind[BANDS];  /* enum lane_kind */
        uint8_t would[BANDS]; /* had everything been enforced */
        uint8_t reason[BANDS], would_reason[BANDS];

        /* The rate: the next start may happen at next_ns; each one moves it by interval_ns, from at
         * least now - slack_ns on. */
        int64_t next_ns, interval_ns, slack_ns;
        /* The budget: its balance is now - paid_ns, in ns of wall time, at most a second. */
        int64_t paid_ns;
        uint32_t cost_us; /* database time of a transaction, moving average */
        int32_t cost_of;  /* of so many; 0: none has ended yet */

        /* The queue. */
        uint32_t used; /* bit i: lanes[i] is not empty */
        struct list lanes[LANES];
        uint64_t vtime[PLACES]; /* that of PLACE_WINDOW counts from the shift of its line on */
        struct heap_node ready[PLACES], alarm;
        struct list due; /* of a turn */

        struct class_counts counts;
};

struct admission {
        int64_t now_ns; /* never goes back */
        uint32_t running, waiting;
        uint32_t concurrency;
        bool is_floor_off;
        uint32_t n_enforced;        /* classes */
        size_t n;                   /* one more than the largest number of a class */
        struct door_policy *policy; /* NULL: none was published */

        /* Load: sums over the classes, [is_enforced].  Without those that are free. */
        uint32_t excess[2][TIERS], executing_tier[2][TIERS];
        uint32_t executing; /* all classes */

        /* The window as a real number. */
        double width;
        double last_cut;    /* a width that was too much; 0: none is known */
        bool is_draining;   /* more runs than a cut allows: it is not cut again */
        bool is_used_up;    /* since the last look a ticket found it full */
        int64_t looked_ns;  /* 0: not yet */
        int64_t grown_ns;   /* it grew, or the database was not well */
        int64_t used_ns;    /* it was last used up, or made narrow */
        uint32_t used_most; /* in it at a look since then */

        /* The database. */
        uint64_t n_samples;
        int64_t sampled_ns;         /* 0: no sample came yet */
        uint32_t sampled_executing; /* of ours, when the last sample came */
        struct usual_metric metric;
        double slowdown, slow_share; /* NAN: too few to tell */
        double boost;                /* the usual counts so many times */
        bool is_learned, is_over;
        struct digests *digests;

        struct heap ready[LINES]; /* classes by virtual time */
        struct heap alarms;       /* classes by the time when something happens to them */
        uint64_t clock;           /* virtual time of the last start from a line */
        uint64_t shift[LINES];    /* clock - shift is the time of the line */
        bool is_behind;           /* TURN_MAX was reached: tickets that could go still wait */

        admission_decided decided;
        void *ctx;
        struct admit_class *classes[ADMIT_CLASSES_MAX];
        struct rng rng;
};

/* ---- admission.c ---- */

/* The ticket goes: counts it, and takes what its class pays for a start. */
void ticket_start(struct admission *a, struct admit_class *c, struct ticket *t, bool takes_rate);
/* The ticket has left its lane: tells its owner, who may free it. */
void ticket_run(struct admission *a, struct admit_class *c, struct ticket *t);
void ticket_refuse(struct admission *a, struct admit_class *c, struct ticket *t,
                   enum admit_reason reason);

/* ---- admission_window.c ---- */

/* Takes over what the policy says about the class, or that there is none. */
void class_adopt(struct admission *a, struct admit_class *c);
/* Works out its free places and its excess. */
void class_weigh(struct admission *a, struct admit_class *c);
void ticket_execute(struct admission *a, struct admit_class *c, struct ticket *t);
void ticket_rest(struct admission *a, struct admit_class *c, struct ticket *t);
/* Does a transaction that begins with this digest have no usual? */
bool class_strays(const struct admission *a, const struct admit_class *c, uint64_t digest);
/* More of the tier may execute beyond the usual. */
bool window_has_room(const struct admission *a, enum tier tier, bool is_enforced);
static inline uint32_t window_size(const struct admission *a)
{
        return (uint32_t)a->width;
}
uint32_t window_excess(const struct admission *a, enum tier tier, bool is_enforced);

/* ---- admission_look.c ---- */

void look_init(struct admission *a);
void look_if_due(struct admission *a);
void look_sample(struct admission *a); /* a policy was published */
/* The time since the last call counts as executed with as many as do now. */
void look_spend(const struct admission *a, struct admit_class *c);
void look_end(const struct admission *a, struct admit_class *c, const struct ticket *t,
              int64_t busy_ns);
/* How many times as long as usual its transactions take now, and which share of them at least is
 * slow; NAN: too few to tell. */
struct class_pace {
        double slowdown, slow_share;
};
struct class_pace look_pace(const struct admission *a, const struct admit_class *c);
/* Statements at the server now, about; NAN: not known. */
double look_server(const struct admission *a);
double look_server_most(const struct admission *a); /* usually */
bool look_knows_server(const struct admission *a);  /* what is usual there was learned */
/* Why it is over, in words. */
void look_say(const struct admission *a, char *ret, size_t size);

/* ---- admission_queue.c ---- */

static inline unsigned band_of(const struct admit_class *c, double roll)
{
        if (c->kind[0] == LANE_NEW)
                return BAND_NEW;
        if (roll < c->bound[0])
                return 0;
        return roll < c->bound[1] ? 1 : 2;
}

/* What its own limits say: CONCURRENCY, RATE, BUDGET or NONE. */
static inline enum admit_reason class_obstacle(const struct admission *a,
                                               const struct admit_class *c)
{
        if (c->limits.concurrency && c->running >= c->limits.concurrency)
                return ADMIT_BY_CONCURRENCY;
        if (c->interval_ns && a->now_ns < c->next_ns)
                return ADMIT_BY_RATE;
        if (c->limits.budget_ns && a->now_ns <= c->paid_ns)
                return ADMIT_BY_BUDGET;
        return ADMIT_BY_NONE;
}

static inline bool door_has_room(const struct admission *a)
{
        return !a->concurrency || a->running < a->concurrency;
}

/* Executing ones of the class that take a place of its usual. */
static inline uint32_t class_settled(const struct admit_class *c)
{
        return c->executing - c->strays;
}

/* A ticket of that kind needs a place of the window. */
static inline bool class_needs_window(const struct admit_class *c, enum lane_kind kind,
                                      bool is_stray)
{
        return kind == LANE_OPEN && (is_stray || class_settled(c) >= c->free);
}

/* What keeps a ticket of that kind from starting, queues aside. */
enum admit_reason lanes_obstacle(const struct admission *a, const struct admit_class *c,
                                 enum lane_kind kind, bool is_stray);
/* A ticket of the class that could start would overtake another one. */
bool lanes_is_ahead(const struct admission *a, const struct admit_class *c, enum lane_kind kind,
                    bool is_stray);

void lanes_init(struct admit_class *c);
void lanes_push(struct admission *a, struct admit_class *c, struct ticket *t);
void lanes_remove(struct admission *a, struct admit_class *c, struct ticket *t);
/* Sorts the waiting tickets of the class again: bands have changed. */
void lanes_relane(struct admit_class *c);
/* Takes the class out of the line of its tier, which may change; lanes_settle() puts it back. */
void lanes_unplace(struct admission *a, struct admit_class *c);
/* Puts the class into the lines and alarms where it belongs now. */
void lanes_settle(struct admission *a, struct admit_class *c);
void lanes_settle_all(struct admission *a);
void lanes_dispatch(struct admission *a);
void lanes_expire(struct admission *a);                   /* alarms, and a dispatch between */
struct ticket *lanes_oldest(const struct admit_class *c); /* NULL: none waits */
void lanes_check(const struct admission *a);

#endif

/* What the files of the admission law share: admission.c (tickets, counts, words),
 * admission_queue.c (who goes next) and admission_window.c (policy and window). */
#ifndef WEIR_GATE_ADMISSION_INT_H
#define WEIR_GATE_ADMISSION_INT_H

#include "base/heap.h"
#include "gate/admission.h"

/* What a class may do by the policy. */
enum lane_kind {
        LANE_GRANTED,
        LANE_PRESSED, /* while the window has room */
        LANE_STOPPED, /* nothing, until another policy is published */
        LANE_NEW,     /* the core has not decided yet: nothing, for a short time */
};

/* The tickets of a class stand in lanes: one for each band of the dice and each tier.  All tickets
 * of a lane have the same kind and wait equally long at most, so only the first of each matters. */
#define BANDS    4
#define BAND_NEW 3 /* of a class that the core has not decided about */
#define LANES    (BANDS * TIERS)

/* Classes that could start a ticket now but for the door and the window. */
enum line {
        LINE_FREE,   /* waits for the door */
        LINE_WINDOW, /* waits for the window and the door */
        LINES
};

#define NEW_WAIT_NS   NS_PER_S /* the core answers within a millisecond */
#define NEW_LEAST_NS  (100 * NS_PER_MS)
#define TURN_MAX      256 /* tickets decided by one call: the owner holds a lock meanwhile */
#define WINDOW_NONE   UINT32_MAX
#define FIRST_COST_US 1000 /* what a class costs that has not ended anything yet */

struct admit_class {
        struct class_limits limits;
        uint32_t running, waiting;
        enum tier tier;
        uint16_t number;
        bool is_enforced;
        bool is_pressed; /* by the policy, or until the window has opened after it was */

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
        uint64_t vtime[LINES]; /* that of LINE_WINDOW counts from admission.shift on */
        struct heap_node ready[LINES], alarm;
        struct list due; /* of a turn */

        struct class_counts counts;
};

struct codel {
        int64_t good_ns[TIERS]; /* last time when a ticket went within the target or none stood */
        int64_t scan_ns;        /* the next look, while a class is in line */
        int64_t shed_ns;        /* the next shedding */
        uint32_t count;         /* shed since the queue began to stand */
        bool is_standing;
        uint64_t shed;
};

struct admission {
        int64_t now_ns; /* never goes back */
        uint32_t running, waiting;
        uint32_t concurrency;
        uint32_t window;
        uint32_t pressed[2];        /* running ones of pressed classes, [is_enforced] */
        size_t n;                   /* one more than the largest number of a class */
        struct door_policy *policy; /* NULL: none was published */

        /* The window as a real number, and when that was true: it opens steadily. */
        double width;
        int64_t width_ns;
        bool is_opening;
        bool was_over;            /* at the last sample */
        double ceiling;           /* a width that was too much, */
        int64_t ceiling_until_ns; /* until then; 0: none is known */
        uint64_t n_samples;

        struct heap ready[LINES]; /* classes by virtual time */
        struct heap alarms;       /* classes by the time when something happens to them */
        uint64_t clock;           /* virtual time of the last start from a line */
        uint64_t shift;           /* clock - shift is the time of LINE_WINDOW */
        bool is_behind;           /* TURN_MAX was reached: tickets that could go still wait */
        struct codel codel;

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
void window_sample(struct admission *a); /* a policy was published */
void window_open(struct admission *a);   /* time has passed */
void window_finish(struct admission *a); /* an opening window that no ticket waits for goes */
/* Running ones of the class that count for the window. */
static inline uint32_t class_pressed(const struct admit_class *c)
{
        return c->is_pressed ? c->running : 0;
}

/* ---- admission_queue.c ---- */

static inline unsigned band_of(const struct admit_class *c, double roll)
{
        if (c->kind[0] == LANE_NEW)
                return BAND_NEW;
        if (roll < c->bound[0])
                return 0;
        return roll < c->bound[1] ? 1 : 2;
}

/* A ticket can only lower its tier. */
static inline enum tier tier_of(const struct admit_class *c, const struct ticket *t)
{
        return t->tier > (int)c->tier ? (enum tier)t->tier : c->tier;
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

/* Some class waits for the door or the window. */
static inline bool is_in_any_line(const struct admission *a)
{
        return a->ready[LINE_FREE].len || a->ready[LINE_WINDOW].len;
}

static inline bool window_has_room(const struct admission *a)
{
        return a->pressed[true] < a->window;
}

/* What keeps a ticket of that kind from starting, queues aside. */
enum admit_reason lanes_obstacle(const struct admission *a, const struct admit_class *c,
                                 enum lane_kind kind);
/* A ticket of the class that could start would overtake another one. */
bool lanes_is_ahead(const struct admission *a, const struct admit_class *c, enum lane_kind kind);

void lanes_init(struct admit_class *c);
void lanes_push(struct admission *a, struct admit_class *c, struct ticket *t);
void lanes_remove(struct admission *a, struct admit_class *c, struct ticket *t);
/* Sorts the waiting tickets of the class again: bands, tier or wait have changed. */
void lanes_relane(struct admit_class *c);
/* Puts the class into the lines and alarms where it belongs now. */
void lanes_settle(struct admission *a, struct admit_class *c);
void lanes_dispatch(struct admission *a);
void lanes_expire(struct admission *a); /* alarms, and a dispatch between */
void lanes_codel(struct admission *a);
struct ticket *lanes_oldest(const struct admit_class *c); /* NULL: none waits */
void lanes_check(const struct admission *a);

#endif

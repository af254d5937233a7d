/* The state of the traffic: the files of this room change it. */
#ifndef WEIR_TRAFFIC_TRAFFIC_STATE_H
#define WEIR_TRAFFIC_TRAFFIC_STATE_H

#include "checks/check_ctx.h"
#include "core/kernel.h"
#include "throttle/throttle_state.h"
#include "traffic/traffic.h"

#define TRAFFIC_SERIES_S 600 /* points of the series of a door, one a second */
#define TRAFFIC_RATE_S   5   /* seconds that "a second" is the mean of */

/* What is read of a class once a second. */
struct class_numbers {
        uint64_t transactions, refused, observed;
        uint64_t busy_ns, waited_ns;
};

/* A class of a door, under its number. */
struct known_class {
        struct traffic_class class;
        struct identity who;    /* its texts are those of `class` */
        uint64_t registry_seen; /* version of the registry that `registered` comes from */
        enum tier registered;
        struct class_verdicts verdicts;            /* as last published */
        struct class_numbers now;                  /* as of the last tick, */
        struct class_numbers told;                 /* as the clients were last told, */
        struct class_numbers ring[TRAFFIC_RATE_S]; /* and of the ticks before */
        bool has_samples;                          /* it has lines of its own in /metrics */
        int64_t last_ms; /* Unix ms, of about its last transaction; 0: none */
        /* Histograms as of the last two full minutes: people want to know how it is now. */
        struct admit_times waits[2], services[2];
};

/* One second of a door. */
struct traffic_point {
        uint32_t held_ms, waiting, running, transactions, busy_ms;
};

/* What a policy was made of, besides samples and classes: when it differs, a new one is due. */
#define TRAFFIC_KEY 9
struct policy_key {
        uint64_t words[TRAFFIC_KEY];
};

struct door {
        char name[TRAFFIC_NAME_MAX + 1], target[LIMIT_NAME_BYTES + 1]; /* target "": none */
        enum gate_mode configured_mode;
        int told_mode; /* enum gate_mode that the threads have; -1: not told yet */

        struct known_class **classes; /* by their numbers */
        size_t n_classes;
        bool are_classes_new; /* rows may have changed: all of them are read again */

        bool is_due;      /* a policy is to be published */
        bool is_fleeting; /* the last one has what changes with time alone */
        struct policy_key key;

        struct traffic_point series[TRAFFIC_SERIES_S];
        int64_t second; /* steady, of the newest point; 0: none yet */
        uint64_t n_ticks;
        bool is_told_over; /* "proxy_over" was told, and no "proxy_well" since */
        unsigned changed;  /* ticks in a row that say otherwise */
        int64_t minute_ns; /* the histograms were last taken */
};

struct traffic {
        struct door *doors;
        size_t n;
        struct traffic_threads threads;
        bool has_threads;
        int64_t ticked_ns;
};

static inline struct door *door_at(const struct core *core, size_t door)
{
        ASSERT(door < core->traffic->n);
        return &core->traffic->doors[door];
}
/* The target whose load decides; -1: none. */
int door_target(const struct core *core, const struct door *d);
enum level door_level(const struct core *core, const struct door *d);
/* Reads the classes that the threads made since. */
void door_read_classes(struct core *core, size_t door);
enum tier known_tier(const struct core *core, struct known_class *k);
/* Publishes the policies that are due. */
void traffic_publish(struct core *core);

/* A class as it is told: a copy of what the threads have. */
struct told_class {
        size_t number;
        struct traffic_class class;
        struct class_counts counts;
        struct class_limits limits;
        uint32_t running, waiting, executing, excess, free;
        double usual, usual_ms, slowdown; /* 0: not known */
        int64_t oldest_ns;
        enum admit_reason waits_for; /* ADMIT_BY_NONE: none waits */
        char why[2 * ADMIT_WHY];
        double busy_ms_per_s, transactions_per_s;
};

struct told_classes {
        struct told_class *classes; /* those that use most database time first */
        size_t n, max;
        struct class_counts sum; /* of all, histograms aside */
};
/* max 0: the sum only. */
void traffic_copy_classes(const struct core *core, size_t door, size_t max,
                          struct told_classes *ret);
void told_classes_release(struct told_classes *t);
/* Reasons and histograms aside. */
void counts_add(struct class_counts *to, const struct class_counts *n);

#endif

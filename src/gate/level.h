/* From metrics to a level, with hysteresis.
 *
 * Each metric has an enter and an exit threshold for elevated and for critical.  The level of a
 * target is that of its worst metric.  It rises at once and falls only when every metric has been
 * below the exit threshold of the level it had itself reached for `dwell`; so there is at most one
 * fall per dwell.  Falling from critical goes to elevated when a metric is at or above its elevated
 * enter threshold, else straight to normal.
 *
 * A metric without a fresh sample is unknown: it cannot hold a level up nor let it fall.  A try
 * that nobody answered leaves the last good sample valid for a moment; an answer that is an error
 * does not, since it is newer.  A value that is no number is no sample.
 *
 * The level of the target is unknown at once when no metric of it is known, or one that is
 * `required` is not; and after dwell when all that is known is normal but a metric that was last
 * seen higher is missing: to fall would free everyone in silence, to stay would block them for
 * ever.  It leaves unknown at once for the level it held before, or a higher one, when a known
 * metric is above normal, and for normal when all that is known has been calm for dwell.
 *
 * A target begins as unknown, or with the level it was last known to have (leveler_restore), and
 * that holds until it is measured: until a metric is there that has the level or a higher one, or
 * each metric was sampled or is overdue (stale_ns after leveler_init).  Then one that was not above
 * normal is normal at once, and one that was has to be calm for dwell first.  A last known level
 * above normal also outlasts samples that do not come: to know nothing is no reason to open.
 * A target without metrics is normal with its first update.
 *
 * Each transition says which metric, which value, which threshold. */
#ifndef WEIR_GATE_LEVEL_H
#define WEIR_GATE_LEVEL_H

#include "gate/gate.h"

#define LEVEL_METRICS_MAX 32
#define LEVEL_NUMBER_MAX  32 /* bytes of a threshold as text */
#define LEVEL_PAIR_MAX    64 /* of two, and a comma */
/* A metric that nobody answers for is unknown when its last value is older than this (or than
 * stale_ns, if that is less). */
#define LEVEL_SILENCE_NS (2500 * NS_PER_MS)

/* What became of the last try to read a metric. */
enum sample_state {
        SAMPLE_GOOD,
        SAMPLE_SILENT, /* no answer came */
        SAMPLE_FAILED, /* an answer came that is no value: refused, stopped, missing */
};

struct level_rule {
        double enter[2];  /* elevated, critical; NAN: this metric never makes that level */
        double exit[2];   /* below it the level is left; NAN: as enter */
        int64_t stale_ns; /* a sample older than this is none; 0: none is too old */
        bool is_required;
};

/* The default thresholds of running statements are made for so many processors. */
#define LEVEL_CORES 5
/* As the default thresholds are for a server with more of them; with fewer they stay. */
void level_rule_scale(struct level_rule *rule, unsigned cores);

/* A threshold as the shortest text that reads back the same. */
const char *level_number_text(double v, char ret[LEVEL_NUMBER_MAX]);
/* Enter and exit of a level as settings have them, "5,3"; "" when it is never entered. */
const char *level_pair_text(double enter, double exit, char ret[LEVEL_PAIR_MAX]);

struct level_sample {
        double value;
        int64_t at_ns;           /* steady; 0: never sampled */
        enum sample_state state; /* unless good, value and at_ns are those of the last good one */
};

struct leveler {
        enum level level;
        int64_t since_ns;
        int64_t calm_since_ns; /* all below exit since; 0: not */
        int metric; /* the one that decides; -1: when normal, or unknown before it was measured */
        /* Of the metric that decided, when it did.  For unknown: the age of its sample and the
         * oldest that counts, in s.  For a fall to normal: those of `cause`, which is below its
         * exit threshold.  Always numbers. */
        double value, threshold;
        int8_t metric_level[LEVEL_METRICS_MAX]; /* each metric's own level when last known */
        int8_t reached[LEVEL_METRICS_MAX];      /* the highest it had since the target last fell */
        int cause;                              /* metric of the last transition; -1: none yet */
        enum level held;       /* the level without the gaps in what is known; never unknown */
        int64_t began_ns;      /* leveler_init */
        uint32_t known_mask;   /* metrics that were known at the last update */
        uint32_t pending_mask; /* never sampled, and not yet to be missed */
        bool is_unmeasured;    /* `level` is what was last known, or unknown when nothing was */
};

void leveler_init(struct leveler *l, int64_t now_ns);
/* After leveler_init(): the level it was last known to have, never unknown, and the metric, value
 * and threshold that made it when it is above normal. */
void leveler_restore(struct leveler *l, enum level level, int metric, double value,
                     double threshold);
/* True when the level changed; *l says the rest. */
bool leveler_update(struct leveler *l, const struct level_rule *rules,
                    const struct level_sample *samples, size_t n, int64_t dwell_ns, int64_t now_ns);
/* When it must be called again although no sample comes (dwell, staleness); INT64_MAX: never.  As
 * of the last update: a time in the past means now. */
int64_t leveler_next_ns(const struct leveler *l, const struct level_rule *rules,
                        const struct level_sample *samples, size_t n, int64_t dwell_ns);
/* Steady: from then on the sample does not count any more, unless a newer one comes.  For one that
 * was taken and is not known. */
int64_t level_good_until_ns(const struct level_rule *rule, const struct level_sample *sample);
/* What the level means for a tier.
 *
 * An overloaded database is the one that does not answer.  So a target that became unknown goes on
 * holding each tier that the level before delayed, as that level did, and for as long as it delays
 * the tier; then unknown decides, so that a probe that stays broken blocks nothing for ever.  Caps
 * stay until the first of these tiers is let go.
 *
 * Of a target that is not measured only the last known level is known: as long as that is so, the
 * worse of it and unknown applies. */
enum level leveler_level_for(const struct leveler *l, const struct policy *p, enum tier tier,
                             int64_t now_ns);
struct level_caps leveler_caps(const struct leveler *l, const struct policy *p, int64_t now_ns);
/* Is the tier held by the level before?  As bits for all of them, and when the next of them is let
 * go although no sample comes; INT64_MAX: none is held. */
bool leveler_is_held(const struct leveler *l, const struct policy *p, enum tier tier,
                     int64_t now_ns);
unsigned leveler_held_tiers(const struct leveler *l, const struct policy *p, int64_t now_ns);
int64_t leveler_held_next_ns(const struct leveler *l, const struct policy *p, int64_t now_ns);

/* max(value / threshold of critical) over the fresh metrics: 1 is at the limit, never below 0. NAN:
 * no fresh metric has such a threshold above 0. */
double level_pressure(const struct level_rule *rules, const struct level_sample *samples, size_t n,
                      int64_t now_ns);

#endif

/* What metrics were, asked of the rollups: seven days by ten minutes to learn from, and the last
 * day by minutes to try thresholds on.
 *
 * The asker owns the struct until `done`; it may be part of a larger one.  Loop thread only. */
#ifndef WEIR_NUMBERS_LEARNING_H
#define WEIR_NUMBERS_LEARNING_H

#include "core/archive.h"
#include "core/kernel.h"
#include "core/rollup_view.h"
#include "gate/advice.h"
#include "numbers/series.h"

struct target;

struct learning {
        /* Set by the asker. */
        void (*done)(struct learning *l);
        void *ctx;
        /* Set here. */
        struct core *core; /* NULL: the asker has gone, and the core may be gone */
        int err;           /* the archive could not be read: only the last hour is known */
        struct slice names[SERIES_METRICS];
        struct arena arena; /* of the names */
        struct rollup_view tens, minutes;
        struct archive_rollups query;
};

/* Metrics of that target, or of all when it is empty, at most SERIES_METRICS.  True: `done` will be
 * called; false: it is complete now, without `done`. */
bool learning_ask(struct core *core, struct slice target, struct learning *l);
/* The asker has gone.  `done` still comes, perhaps after the core. */
void learning_forget(struct learning *l);
void learning_release(struct learning *l);

/* What a metric taught; nothing at all when it was not among those that were asked for. */
void learning_usual(const struct learning *l, const struct target *g, size_t metric,
                    struct advice_usual *ret);
/* The thresholds that follow; ret->stale_ns and is_required are those of the metric. */
enum advice learning_propose(const struct advice_usual *u, const struct target *g, size_t metric,
                             struct level_rule *ret);
/* What thresholds would have done to the last day. */
struct advice_effect learning_try(const struct learning *l, const struct target *g, size_t metric,
                                  const struct level_rule *rule);

#endif

/* Rollups as the points of a chart: what they say about one name, or about all, step by step.
 *
 * The asker makes a view; whoever has rollups adds them, in any order and from any thread that has
 * the view for itself: the archive those that are written, the core those in memory. */
#ifndef WEIR_CORE_ROLLUP_VIEW_H
#define WEIR_CORE_ROLLUP_VIEW_H

#include "core/rollup.h"

struct rollup_point {
        bool is_known; /* weir was there in some of its minutes */
        uint64_t totals[ROLLUP_TOTALS];
        union tally_cell cell; /* of the name */
};

struct rollup_view {
        int64_t from; /* Unix minutes */
        int64_t step; /* minutes of a point */
        size_t n;     /* points */
        int kind;     /* enum tally_kind; -1: totals and metrics */
        struct slice name;
        const struct slice *metrics; /* names as tally_metric_name() makes them; borrowed */
        size_t n_metrics;
        struct rollup_point *points;
        struct arena texts; /* of causes in cells; each has a NUL behind it */
        float *maxima;      /* of metric m in point i: maxima[m * n + i]; NAN: no sample */
};

/* from, step, n, kind, name and metrics are set; the rest is made here. */
void rollup_view_init(struct rollup_view *v);
void rollup_view_release(struct rollup_view *v);
/* ERR_CORRUPT: nothing was added. */
int rollup_view_add(struct rollup_view *v, struct slice body) MUST_CHECK;

#endif

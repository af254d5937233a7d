/* Whose turn it is: which blog of a network gets the next runner, and which the reserved one.
 *
 * Pure: no clock, no process.  Each blog is a row, and a decision is the index of one. */
#ifndef WEIR_WORK_SITE_TURNS_H
#define WEIR_WORK_SITE_TURNS_H

#include "base/defs.h"

#define TURNS_NONE SIZE_MAX

/* So many runners in a row go to blogs with critical actions while others wait, then one of those
 * has its turn. */
#define TURNS_CRITICAL_MAX 3
/* A reserved runner that has nothing to do stays so long, since WordPress takes a second to load;
 * one that has leaves after its turn, when another blog waits for it. */
#define TURNS_STAY_MS 2000
#define TURNS_FULL_MS 30000

struct turns {
        uint64_t n;          /* turns so far; the last one of a blog is one of these numbers */
        uint64_t n_critical; /* of those, in a row, that others waited for */
};

struct turn_blog {
        int64_t wants;    /* runners that may be started for it now */
        bool is_critical; /* it has due actions of the critical tier that no runner began with */
        uint64_t last;    /* its last turn; 0: it had none */
};

/* Critical ones first, and among equals the one whose last turn is the longest ago.  TURNS_NONE:
 * none wants a runner. */
size_t turns_next(struct turns *t, const struct turn_blog *blogs, size_t n);

struct turn_reserved {
        bool has_hooks;  /* else there is nothing to reserve a runner for */
        bool is_due;     /* critical actions are, or a claim of a dead runner is to be given back */
        bool is_there;   /* it has a reserved runner, */
        bool is_leaving; /* or one that ends and was not replaced */
        int64_t stayed_ms; /* since it came */
        uint64_t last;     /* its last turn; 0: it had none */
};

/* What to do next about at most `places` reserved runners: one blog gets one, or loses it so that
 * another can have it.  Both TURNS_NONE: nothing. */
struct turn_move {
        size_t come, leave;
};
struct turn_move turns_reserved(const struct turn_reserved *blogs, size_t n, size_t places);

#endif

/* The pace of work in the lowest class: how much of it is done at once, and how long the rest is.
 *
 * A slice is to take PACE_SLICE_NS at most, and a rest is at least PACE_REST times what the slice
 * took.  When a row takes longer than it did at the best of times, something else works there: the
 * rest grows by the same factor, so the rate falls with its square. */
#ifndef WEIR_GUARD_PURGE_PACE_H
#define WEIR_GUARD_PURGE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_ROWS_FIRST 20
#define PACE_ROWS_MAX   500 /* MariaDB makes a table of a list of 1,000 */
#define PACE_SLICE_NS   (50 * INT64_C(1000000))
#define PACE_REST       4
#define PACE_SLOW_MAX   8 /* a rest is never longer than so many times the usual one */

struct purge_pace {
        unsigned rows;    /* of the next slice; 0: none was done yet */
        int64_t due_ns;   /* it may begin then; 0: at once */
        int64_t best_ns;  /* of a row; forgets slowly; 0: not known */
        int64_t since_ns; /* begin of what is measured; 0: nothing is */
        uint64_t n_done;  /* since then */
        double per_s;     /* of the last time that was measured, rests included; 0: not known */
};

/* One slice. */
struct purge_slice {
        int64_t began_ns, ended_ns;
        unsigned asked;   /* rows it was for */
        uint64_t changed; /* rows of all tables */
        uint64_t done;    /* what per_s counts */
        bool is_refused;  /* by a lock, or by the server */
};

unsigned purge_pace_rows(const struct purge_pace *p);
void purge_pace_took(struct purge_pace *p, const struct purge_slice *slice);
/* There is nothing to do before then. */
void purge_pace_sleep(struct purge_pace *p, int64_t now_ns, int64_t until_ns);

#endif

/* Finished actions past their time: which they are, how many, and deleting them. */
#ifndef WEIR_GUARD_RETENTION_H
#define WEIR_GUARD_RETENTION_H

#include "guard/repair_look.h"

#define RETENTION_KINDS 3 /* complete, canceled, failed */

struct retention {
        const char *status;
        int64_t before_s; /* what ended before is past its time; 0: it is kept for ever */
};

/* What deleting would do. */
struct retention_forecast {
        uint64_t actions, lines, bytes; /* past their time; bytes of both tables */
        uint64_t per_day;               /* actions that finished in the last day */
        bool is_estimate;               /* actions; lines and bytes are always estimates */
        double per_s;                   /* the pace seen; 0: none was seen */
};

struct retention retention_of(const struct store_options *o, size_t kind, int64_t now_s);
/* "FROM (a page of it by date, behind the walk) AS page JOIN actions a": no scan. */
void retention_put_page(struct store *s, const struct retention *t, const struct store_walk *w,
                        unsigned rows);
/* When an action `a` ended; one that was canceled before any attempt has only its date. */
#define RETENTION_ENDED                                                                            \
        "IF(a.last_attempt_gmt > '0000-00-00 00:00:00', a.last_attempt_gmt, a.scheduled_date_gmt)"
/* Actions of a status with dates between the two: counted up to a cap, else estimated by the
 * server from its index. */
struct retention_range {
        const char *status;
        int64_t from_s, until_s;
};
int retention_count(struct store *s, const struct retention_range *r, uint64_t *ret,
                    bool *ret_is_estimate, struct problem *problem) MUST_CHECK;
int retention_forecast(struct store *s, int64_t now_s, struct retention_forecast *ret,
                       struct problem *problem) MUST_CHECK;

#endif

/* Minute by minute for a day: what one name asked and got.
 *
 * Minutes are those of the wall clock, because people read them.  The cells of an hour are one
 * piece of memory, made when the hour is first counted in; all pieces of all names together are
 * bounded by their pool, which takes back the one made longest ago.
 *
 * When the wall jumps:
 *      back     minutes that were counted already are counted into again: their cells hold both.
 *               Cells that are now in the future stay and are not shown until it is that time.
 *      forth    the minutes between are empty; what is older than a day is not shown.
 *      far      an hour takes the place of the one 25 h before or after it: the last counted stays.
 */
#ifndef WEIR_CHECKS_MINUTES_H
#define WEIR_CHECKS_MINUTES_H

#include "base/list.h"
#include "checks/client.h"

#define MINUTES_PER_HOUR 60
#define MINUTES_HOURS    25 /* a day that begins within an hour touches so many */
#define MINUTE_NOWHERE   255

struct minute_hour {
        struct list pool; /* in order of making */
        struct minutes *owner;
        int64_t hour; /* Unix time / 3600 s */
        struct client_minute cells[MINUTES_PER_HOUR];
};

struct minute_pool {
        struct list hours;
        size_t n, max;
        int64_t lost_hour; /* the newest that was taken back from a name; INT64_MIN: none */
};

/* The day of one name.  All zeros is an empty one; it must not move while it has cells. */
struct minutes {
        struct minute_hour *hours[MINUTES_HOURS];
        struct minute_hour *now; /* of the last count; NULL: none */
        int64_t now_hour;        /* its number, which saves a look at it */
};

void minute_pool_init(struct minute_pool *p, size_t max_bytes); /* at least one hour */
void minute_pool_check(const struct minute_pool *p);
void minutes_release(struct minute_pool *p, struct minutes *m); /* empty afterwards */
void minutes_turn(struct minute_pool *p, struct minutes *m, int64_t hour);

/* The cell of a minute (Unix time / 60 s, as hour and minute of it) to count in. */
static inline struct client_minute *minutes_at(struct minute_pool *p, struct minutes *m,
                                               int64_t hour, unsigned minute)
{
        if (!m->now || m->now_hour != hour)
                minutes_turn(p, m, hour);
        return &m->now->cells[minute];
}

/* NULL when nothing was counted in that minute. */
const struct client_minute *minutes_peek(const struct minutes *m, int64_t minute);

#endif

/* The last day of a name, minute by minute: since the start from memory (minutes.h), before it from
 * rollups of the archive (core/rollup.h), which have the 500 names that ask first in a minute.  A
 * clean stop writes the minute that it cuts short; a kill loses that minute. */
#ifndef WEIR_CHECKS_CLIENT_DAY_H
#define WEIR_CHECKS_CLIENT_DAY_H

#include "checks/client_int.h"
#include "core/rollup_view.h"

struct client_day {
        const struct core *core;
        const struct client *client;    /* NULL: it has not asked since the start */
        const struct rollup_view *past; /* minutes up to that of the start; NULL: not known */
};

/* A minute in which it asked. */
struct day_minute {
        uint64_t granted, refused, observed, waited_ms;
        uint64_t by_reason[CHECK_REASONS];
        const char *target, *metric; /* of the last refusal with a metric; "" without one */
};

/* The first and the last minute of the day that ends now: Unix time / 60 s. */
int64_t day_first(const struct core *core);
int64_t day_last(const struct core *core);
/* The first minute of this life; an earlier life may have been in it too. */
int64_t day_start(const struct core *core);
/* False: it did not ask in that minute. */
bool day_at(const struct client_day *d, int64_t minute, struct day_minute *ret);
/* All minutes of the past together; *ret_last: the last in which it asked, 0 when it did not. */
struct client_totals day_past(const struct client_day *d, int64_t *ret_first, int64_t *ret_last);

#endif

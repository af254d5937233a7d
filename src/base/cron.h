/* Cron expressions: parsing, and the next time one is due in a zone.
 *
 * Five fields, or six of which the FIRST is the second:
 *
 *      [second] minute hour day-of-month month day-of-week
 *       0-59     0-59   0-23    1-31     1-12      0-7 (0 and 7 are Sunday)
 *
 *      *  every      a,b  list        a-b  range       x/n  every n-th of x: star, a-b, or a to the
 * end JAN-DEC and SUN-SAT in any case.  Ranges of hours, months and days of the week may go round
 *      the end: 22-2, NOV-FEB, FRI-MON.
 *
 *      day of month    ?  the same as *        L  the last one         L-3  three days before it
 *                      15W  the weekday (Monday to Friday) nearest to the 15th, in the same month
 *                      LW  the last weekday
 *      day of week     ?  the same as *        FRIL, 5L  the last Friday of the month
 *                      MON#2, 1#2  the second Monday
 *
 *      @yearly @annually @monthly @weekly @daily @midnight @hourly
 *
 * Both day fields count: a day must match both when one of them begins with * or ? (so a plain *
 * does not limit, and a star with a step does); otherwise a day that matches either is taken:
 * "0 0 13 * FRI" is every 13th and every Friday, as in every crontab since 1987.  What can match no
 * day of any year, such as 30 February, is refused.
 *
 * When the clocks change:
 *
 *      A local time that is skipped runs once, at the first moment after the gap; so do several
 *      skipped ones of one expression together.
 *      A local time that is repeated runs once, the first time.  But when every hour is in the
 *      hour field, both are served, since an hourly job that pauses for two hours surprises. */
#ifndef WEIR_BASE_CRON_H
#define WEIR_BASE_CRON_H

#include "base/err.h"
#include "base/slice.h"

struct tz;

#define CRON_TEXT_MAX 512

/* A value: copy it as you like.  Bit n of a set stands for n. */
struct cron {
        uint64_t seconds, minutes;
        uint32_t hours;
        uint32_t months;            /* 1..12 */
        uint32_t days;              /* 1..31, of the month */
        uint32_t days_before_last;  /* 0..30: L-n */
        uint32_t days_near_weekday; /* 1..31: nW */
        uint8_t weekdays;           /* 0..6, 0 is Sunday */
        uint8_t nth[7];             /* per weekday: bits 1..5 its #n, bit 6 the last one */
        bool has_last_weekday;      /* LW */
        bool needs_both;            /* day of month and of week, not one of them */
};

/* ERR_BADARG with a sentence that names the field, what was found and what is allowed. */
int cron_parse(struct slice text, struct cron *ret, struct problem *p) MUST_CHECK;

/* The first time strictly after `after_ms`, in Unix ms; INT64_MAX when there is none within 100
 * years.  Costs 50 to 400 ns, and 2 us for a fifth Monday of February. */
int64_t cron_next(const struct cron *c, const struct tz *tz, int64_t after_ms);

#endif

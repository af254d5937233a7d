/* The two clocks, and a moment as text.
 *
 * CLOCK_BOOTTIME and not MONOTONIC: a lease goes on while the machine sleeps.  The calendar is
 * computed here (days to year, month, day in the proleptic Gregorian calendar, counted from 1
 * March so that the leap day is the last of its year): no locks, no time zones, a tenth of the
 * cost of gmtime_r and printf, and any 64-bit moment has an answer. */
#include "base/clock.h"

#include <string.h>
#include <time.h>

#define MS_PER_DAY      86400000LL
#define DAYS_PER_ERA    146097 /* 400 years */
#define DAYS_TO_0000_03 719468 /* from 0000-03-01 to 1970-01-01 */

int64_t clock_boot_ns(void)
{
        struct timespec ts;

        ASSERT(clock_gettime(CLOCK_BOOTTIME, &ts) == 0);
        return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t clock_wall_ms(void)
{
        struct timespec ts;

        ASSERT(clock_gettime(CLOCK_REALTIME, &ts) == 0);
        return (int64_t)ts.tv_sec * MS_PER_S + ts.tv_nsec / NS_PER_MS;
}

/* Exactly n digits of v, and the character after them. */
static char *put_digits(char *at, unsigned n, int64_t v, char after)
{
        for (unsigned i = n; i-- > 0; v /= 10)
                at[i] = (char)('0' + v % 10);
        at[n] = after;
        return at + n + 1;
}

const char *clock_text(int64_t wall_ms, char *ret)
{
        int64_t day = wall_ms / MS_PER_DAY, ms = wall_ms % MS_PER_DAY;
        char *at = ret;

        if (ms < 0) {
                ms += MS_PER_DAY;
                day--;
        }
        day += DAYS_TO_0000_03;
        int64_t era = (day >= 0 ? day : day - (DAYS_PER_ERA - 1)) / DAYS_PER_ERA;
        int64_t doe = day - era * DAYS_PER_ERA; /* day of era, 0..146096 */
        int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / (DAYS_PER_ERA - 1)) / 365;
        int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100); /* 0 = 1 March */
        int64_t mp = (5 * doy + 2) / 153;                      /* 0 = March */
        int64_t month = mp < 10 ? mp + 3 : mp - 9;
        int64_t year = yoe + era * 400 + (month <= 2);
        unsigned n = 4;

        if (year < 0) {
                *at++ = '-';
                year = -year;
        }
        for (int64_t limit = 10000; year >= limit; limit *= 10)
                n++;
        at = put_digits(at, n, year, '-');
        at = put_digits(at, 2, month, '-');
        at = put_digits(at, 2, doy - (153 * mp + 2) / 5 + 1, 'T');
        at = put_digits(at, 2, ms / 3600000, ':');
        at = put_digits(at, 2, ms / 60000 % 60, ':');
        at = put_digits(at, 2, ms / 1000 % 60, '.');
        at = put_digits(at, 3, ms % 1000, 'Z');
        *at = '\0';
        return ret;
}

/* Days and dates in the proleptic Gregorian calendar; no time zones here.
 *
 * A day is counted from 1970-01-01.  Years are counted from 1 March inside, so that the leap day
 * is the last of its year; any day of any 64-bit time in milliseconds has an answer. */
#ifndef WEIR_BASE_CIVIL_H
#define WEIR_BASE_CIVIL_H

#include "base/defs.h"

#define CIVIL_S_PER_DAY  86400
#define CIVIL_ERA_DAYS   146097 /* 400 years */
#define CIVIL_ZERO_MARCH 719468 /* days from 0000-03-01 to 1970-01-01 */

struct civil {
        int64_t year;
        int month; /* 1..12 */
        int day;   /* 1..31 */
};

/* Rounds towards minus infinity; b > 0. */
static inline int64_t floor_div(int64_t a, int64_t b)
{
        return a / b - (a % b < 0);
}

static inline int64_t floor_mod(int64_t a, int64_t b)
{
        return a - floor_div(a, b) * b;
}

static inline int64_t days_from_civil(int64_t year, int month, int day)
{
        int64_t y = month <= 2 ? year - 1 : year;
        int64_t era = floor_div(y, 400);
        int64_t in_era = y - era * 400;
        int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

        return era * CIVIL_ERA_DAYS + in_era * 365 + in_era / 4 - in_era / 100 + of_year -
               CIVIL_ZERO_MARCH;
}

static inline struct civil civil_from_days(int64_t days)
{
        int64_t z = days + CIVIL_ZERO_MARCH;
        int64_t era = floor_div(z, CIVIL_ERA_DAYS);
        int64_t of_era = z - era * CIVIL_ERA_DAYS;
        int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
        int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
        int m = (int)((5 * of_year + 2) / 153); /* 0 is March */
        int month = m < 10 ? m + 3 : m - 9;

        return (struct civil){y + era * 400 + (month <= 2), month,
                              (int)(of_year - (153 * m + 2) / 5 + 1)};
}

/* 0 is Sunday. */
static inline int weekday_from_days(int64_t days)
{
        return (int)floor_mod(days + 4, 7);
}

static inline bool year_is_leap(int64_t year)
{
        return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static inline int days_in_month(int64_t year, int month)
{
        if (month == 2)
                return year_is_leap(year) ? 29 : 28;
        return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

#endif

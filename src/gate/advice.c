/* See advice.h.
 *
 * A threshold is good when what is usual stays below it and what is not usual reaches it.  So the
 * usual is learned first, by hour of the day, from the largest value of each ten minutes of 7 days:
 * 42 values for an hour.  A mean would hide the peaks, and it is a peak that reaches a threshold.
 *
 * Not all of these days were usual.  An incident raises a metric for minutes or hours, often with
 * another metric as its cause, and thresholds that were learned from it would not see the next one.
 * Which metric was the cause is not known afterwards.  So the largest seventh of the values of an
 * hour does not count: as many as one day has of them.  What happened on a single day teaches
 * nothing, however long it lasted; what happens in the same hour of every day counts, even if it
 * lasts for ten minutes only.  The largest value, or the 99th percentile, which is the largest of
 * 42, would keep one bad hour for a week.  With less than 7 days fewer values are left out, and
 * with one day nearly none: the proposal is then too high rather than too low.
 *
 *      elevated   enters at 1.5 times the largest of the 24 usual values, at least that value + 1
 *                 leaves a quarter of the way from that value to there
 *      critical   enters at 3 times that value, at least that value + 3
 *                 leaves at two thirds of where it enters, but not below where elevated enters
 *
 * The factors are those between the default thresholds (15 and 5, 10 and 15), and half of the usual
 * load more than usual is more than its variation from day to day.  A level is left only below its
 * exit threshold: an exit exactly at a usual value would hold the level for as long as the value is
 * usual.  All figures are rounded up, to two digits, the second being 0 or 5 from 20 on; those of a
 * metric that only has whole numbers to such a number.
 *
 * No proposal is below the default thresholds of its metric.  On an idle server two running
 * statements are more than usual, but they are no load.
 *
 * A metric with a largest possible value (a percentage) has less room above it: half of the way to
 * that value at most for elevated, nine tenths for critical.
 *
 * The replay gives the leveler one sample a minute, the largest value of the minute.  A rise is
 * seen in its minute, and all of a minute that lies below the exit counts as calm, so a dwell of up
 * to a minute is over with it.  Times are therefore rounded up to whole minutes.
 *
 * Known weakness: what begins shortly before the full hour on some days and shortly after it on
 * others counts for neither hour.  Cost: 12 us to learn a metric, 15 us to try it; no allocation.
 */
#include "gate/advice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NS_PER_MIN (60 * NS_PER_S)

_Static_assert(ADVICE_TENS == ADVICE_DAYS * ADVICE_HOURS * ADVICE_PER_HOUR, "whole days");

/* ---- learning ---- */

static int order_values(const void *a, const void *b)
{
        float x = *(const float *)a, y = *(const float *)b;
        return (x > y) - (x < y);
}

static double usual_value(float *values, size_t n)
{
        if (!n)
                return NAN;
        qsort(values, n, sizeof(*values), order_values);
        return (double)values[n - 1 - n / ADVICE_DAYS];
}

void advice_learn(const float *tens, size_t n, size_t first, struct advice_usual *ret)
{
        float values[ADVICE_HOURS][ADVICE_DAYS * ADVICE_PER_HOUR];
        size_t n_values[ADVICE_HOURS] = {0};
        ASSERT(n <= ADVICE_TENS);
        *ret = (struct advice_usual){.most = NAN, .is_whole = true};
        for (size_t i = 0; i < n; i++) {
                size_t hour = (first + i) / ADVICE_PER_HOUR % ADVICE_HOURS;
                if (!isfinite(tens[i]))
                        continue;
                values[hour][n_values[hour]++] = tens[i];
                ret->is_whole &= tens[i] == truncf(tens[i]);
                ret->n++;
        }
        for (size_t hour = 0; hour < ADVICE_HOURS; hour++) {
                ret->hour[hour] = usual_value(values[hour], n_values[hour]);
                ret->most = fmax(ret->most, ret->hour[hour]); /* passes over NAN */
        }
}

/* ---- proposing ---- */

/* Up to a figure that a person would write. */
static double round_up(double v, bool is_whole)
{
        char text[32];
        if (v <= 0)
                return ceil(v);
        double unit = pow(10, floor(log10(v)));
        double step = v < 2 * unit ? unit / 10 : unit / 2;
        if (is_whole && step < 1)
                step = 1;
        /* What is off by the last bits is that figure; and the text has none of those bits. */
        (void)snprintf(text, sizeof(text), "%.2g", ceil(v / step - 1e-6) * step);
        return strtod(text, NULL);
}

static void raise_to_lowest(struct level_rule *r, const struct level_rule *lowest, double usual)
{
        for (size_t i = 0; i < ARRAY_LEN(r->enter); i++) {
                if (!(lowest->enter[i] > r->enter[i])) /* false with a NAN */
                        continue;
                r->enter[i] = lowest->enter[i];
                if (lowest->exit[i] > usual)
                        r->exit[i] = lowest->exit[i];
        }
        r->enter[1] = fmax(r->enter[0], r->enter[1]);
}

enum advice advice_propose(const struct advice_usual *u, const struct advice_bounds *bounds,
                           struct level_rule *ret)
{
        double usual = u->most, room = bounds->most - usual;
        if (u->n < ADVICE_LEAST)
                return ADVICE_LITTLE;
        struct level_rule r = *ret;
        double elevated = fmin(fmax(1.5 * usual, usual + 1), usual + room / 2);
        double critical = fmin(fmax(3 * usual, usual + 3), usual + room * 0.9);
        r.enter[0] = round_up(elevated, u->is_whole);
        r.enter[1] = fmin(round_up(critical, u->is_whole), bounds->most);
        r.exit[0] = round_up(usual + (r.enter[0] - usual) / 4, u->is_whole);
        r.exit[1] = fmax(round_up(r.enter[1] * 2 / 3, u->is_whole), r.enter[0]);
        if (!(r.enter[0] < bounds->most))
                return ADVICE_FULL;
        raise_to_lowest(&r, &bounds->lowest, usual);
        for (size_t i = 0; i < ARRAY_LEN(r.enter); i++) /* a value below 0 is rounded towards 0 */
                r.exit[i] = fmin(r.exit[i], r.enter[i]);
        *ret = r;
        return ADVICE_GIVEN;
}

/* ---- trying ---- */

struct advice_effect advice_replay(const float *minutes, size_t n, const struct level_rule *rule,
                                   int64_t dwell_ns)
{
        struct level_rule own = *rule;
        struct leveler l;
        struct advice_effect effect = {0};
        int64_t left_ns = dwell_ns > NS_PER_MIN ? dwell_ns - NS_PER_MIN : 0;
        own.stale_ns = 0;
        own.is_required = false;
        leveler_init(&l, 0);
        for (size_t i = 0; i < n; i++) {
                int64_t at_ns = ((int64_t)i + 1) * NS_PER_MIN;
                const struct level_sample sample = {.value = (double)minutes[i], .at_ns = at_ns};
                bool was_high = l.level == LEVEL_ELEVATED || l.level == LEVEL_CRITICAL;
                if (!isfinite(minutes[i]))
                        continue;
                (void)leveler_update(&l, &own, &sample, 1, left_ns, at_ns);
                effect.elevated += l.level == LEVEL_ELEVATED;
                effect.critical += l.level == LEVEL_CRITICAL;
                effect.entered +=
                        !was_high && (l.level == LEVEL_ELEVATED || l.level == LEVEL_CRITICAL);
        }
        return effect;
}

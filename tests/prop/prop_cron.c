/* Cron and zones under random schedules, zones and moments.
 *
 * What must hold whatever the schedule: the next time is later, asking again a moment before it or
 * anywhere on the way gives it again, its local time is one that the fields allow or lies behind a
 * gap that holds one, and no minute on the way was due.  Days are judged by a reading of the
 * calendar that shares nothing with the search: day by day, forwards and backwards. */
#include "../unit/check.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/civil.h"
#include "base/cron.h"
#include "base/tz.h"
#include "dice.h"

static const char *const zones[] = {
        "UTC",          "Europe/Berlin",       "America/New_York", "America/St_Johns",
        "Asia/Tehran",  "Australia/Lord_Howe", "Pacific/Apia",     "Africa/Casablanca",
        "Asia/Gaza",    "America/Santiago",    "Europe/Dublin",    "Antarctica/Troll",
        "Asia/Kolkata", "Pacific/Chatham",     "Africa/Monrovia",  "America/Scoresbysund",
};

static const struct tz *any_zone(struct rng *dice)
{
        const struct tz *tz = NULL;
        const char *name = zones[rng_below(dice, ARRAY_LEN(zones))];

        assert_int_equal(tz_open(slice_str(name), &tz, NULL), OK);
        return tz;
}

/* Often near a change of the clocks, where the mistakes are. */
static int64_t any_second(struct rng *dice, const struct tz *tz)
{
        int64_t s = (int64_t)rng_below(dice, 8000000000ULL) - 2000000000;
        struct tz_span span = tz_span_at(tz, s);

        if (rng_below(dice, 3) > 0 && span.until_s != INT64_MAX)
                s = span.until_s + (int64_t)rng_below(dice, 14400) - 7200;
        return rng_below(dice, 4) == 0 ? s - floor_mod(s, 1800) : s;
}

/* --- zones ----------------------------------------------------------------------------------- */

static void local_times_and_instants_fit_together(void **state)
{
        struct rng dice;

        (void)state;
        dice_init(&dice, "tz");
        for (uint64_t n = dice_rounds(100000); n > 0; n--) {
                const struct tz *tz = any_zone(&dice);
                int64_t at = any_second(&dice, tz), local = tz_to_local(tz, at);
                struct tz_span span = tz_span_at(tz, at);
                assert_true(span.from_s <= at && at < span.until_s);
                assert_int_equal(local, at + span.offset_s);
                enum tz_kind kind;
                int64_t back = tz_to_utc(tz, local, &kind);
                assert_true(kind == TZ_UNIQUE ? back == at : back <= at);
                assert_int_not_equal(kind, TZ_SKIPPED);
                assert_int_equal(tz_to_local(tz, back), local);

                local = at; /* any number is a local time, shown or not */
                back = tz_to_utc(tz, local, &kind);
                if (kind == TZ_SKIPPED) {
                        assert_true(tz_to_local(tz, back - 1) < local);
                        assert_true(tz_to_local(tz, back) > local);
                } else {
                        assert_int_equal(tz_to_local(tz, back), local);
                }
                assert_true(tz_to_utc(tz, local + (int64_t)rng_below(&dice, 7200), NULL) >= back);
        }
}

/* --- schedules ------------------------------------------------------------------------------- */

static void put_field(struct rng *dice, struct buf *b, int min, int max, bool is_day)
{
        static const char *const days[] = {"L", "LW", "15W", "1W", "31W", "L-2", "L-29"};
        int a = min + (int)rng_below(dice, (uint64_t)(max - min + 1));
        int z = a + (int)rng_below(dice, (uint64_t)(max - a + 1));

        switch (rng_below(dice, is_day ? 8 : 6)) {
        case 0:
        case 1:
                buf_put_byte(b, '*');
                break;
        case 2:
                buf_printf(b, "*/%d", 1 + (int)rng_below(dice, (uint64_t)(max - min)));
                break;
        case 3:
                buf_printf(b, "%d-%d", a, z);
                break;
        case 6:
                if (max == 31)
                        buf_put_str(b, days[rng_below(dice, ARRAY_LEN(days))]);
                else
                        buf_printf(b, "%dL", a);
                break;
        case 7:
                if (max == 31)
                        buf_put_byte(b, '?');
                else
                        buf_printf(b, "%d#%d", a, 1 + (int)rng_below(dice, 5));
                break;
        default:
                buf_printf(b, "%d,%d", a, z);
        }
        buf_put_byte(b, ' ');
}

static struct cron any_cron(struct rng *dice, struct buf *text)
{
        struct cron c;

        do {
                buf_clear(text);
                if (rng_below(dice, 4) == 0)
                        put_field(dice, text, 0, 59, false);
                put_field(dice, text, 0, 59, false);
                put_field(dice, text, 0, 23, false);
                put_field(dice, text, 1, 31, true);
                put_field(dice, text, 1, 12, false);
                put_field(dice, text, 0, 7, true);
        } while (cron_parse(buf_slice(text), &c, NULL));
        return c;
}

/* Whether the day of month field has the day, by counting days. */
static bool has_date(const struct cron *c, int64_t day)
{
        struct civil d = civil_from_days(day);
        int64_t last = day;

        while (civil_from_days(last + 1).month == d.month)
                last++;
        if (c->days >> d.day & 1 || c->days_before_last >> (last - day) & 1)
                return true;
        int weekday = weekday_from_days(day);
        if (weekday == 0 || weekday == 6)
                return false;
        if (c->has_last_weekday && (day == last || (weekday == 5 && last - day <= 2)))
                return true;
        /* What day would have to be named for this one to be the nearest weekday to it? */
        uint32_t named = 1U << d.day;
        if (weekday == 5 && day < last)
                named |= 1U << (d.day + 1);
        if (weekday == 5 && last - day == 2)
                named |= 1U << (d.day + 2);
        if (weekday == 1 && d.day > 1)
                named |= 1U << (d.day - 1);
        if (weekday == 1 && d.day == 3)
                named |= 1U << 1;
        return c->days_near_weekday & named;
}

static bool has_weekday(const struct cron *c, int64_t day)
{
        struct civil d = civil_from_days(day);
        int weekday = weekday_from_days(day);
        bool is_last = civil_from_days(day + 7).month != d.month;

        return c->weekdays >> weekday & 1 || c->nth[weekday] >> ((d.day + 6) / 7) & 1 ||
               (is_last && c->nth[weekday] >> 6 & 1);
}

static bool is_due(const struct cron *c, int64_t local_s)
{
        int64_t day = floor_div(local_s, CIVIL_S_PER_DAY), s = floor_mod(local_s, CIVIL_S_PER_DAY);

        if (!(c->hours >> s / 3600 & 1) || !(c->minutes >> s / 60 % 60 & 1) ||
            !(c->seconds >> s % 60 & 1) || !(c->months >> civil_from_days(day).month & 1))
                return false;
        return c->needs_both ? has_date(c, day) && has_weekday(c, day)
                             : has_date(c, day) || has_weekday(c, day);
}

/* Whether a due local time lies in the gap that ends at an instant. */
static bool is_end_of_due_gap(const struct cron *c, const struct tz *tz, int64_t at)
{
        for (int64_t l = tz_to_local(tz, at - 1) + 1; l < tz_to_local(tz, at); l++)
                if (is_due(c, l))
                        return true;
        return false;
}

static void check_next(struct rng *dice, const struct cron *c, const struct tz *tz, int64_t after)
{
        int64_t next_ms = cron_next(c, tz, after * 1000 + (int64_t)rng_below(dice, 1000));
        int64_t next = next_ms / 1000;

        assert_true(next > after && next_ms % 1000 == 0);
        assert_true(is_due(c, tz_to_local(tz, next)) || is_end_of_due_gap(c, tz, next));
        assert_true(cron_next(c, tz, next_ms - 1) == next_ms);
        int64_t between = after + (int64_t)rng_below(dice, (uint64_t)(next - after));
        assert_true(cron_next(c, tz, between * 1000) == next_ms);

        bool is_hourly = c->hours == 0xffffff;
        for (int64_t at = after + 1; at < next && at < after + 7200; at++) {
                int64_t local = tz_to_local(tz, at);
                if (!is_due(c, local))
                        continue;
                /* Passed over, so it was repeated, and this is the second time. */
                assert_false(is_hourly);
                assert_true(tz_to_utc(tz, local, NULL) < at);
        }
}

static void the_next_time_is_due_and_nothing_on_the_way_was(void **state)
{
        struct rng dice;
        struct buf text;

        (void)state;
        dice_init(&dice, "cron");
        buf_init(&text, 0);
        for (uint64_t n = dice_rounds(400); n > 0; n--) {
                struct cron c = any_cron(&dice, &text);
                const struct tz *tz = any_zone(&dice);
                check_next(&dice, &c, tz, any_second(&dice, tz));
        }
        buf_release(&text);
}

/* A good text with some bytes changed, taken out or put in. */
static void spoil(struct rng *dice, struct buf *text)
{
        static const char alphabet[] = "0123456789*/-,?LW#@ \tMONFRIJANmon\x80";

        for (uint64_t n = rng_below(dice, 4); n > 0; n--) {
                char c = alphabet[rng_below(dice, sizeof(alphabet))]; /* the NUL, too */
                size_t at = rng_below(dice, text->len);
                if (rng_below(dice, 3) > 0) {
                        text->ptr[at] = c;
                } else if (rng_below(dice, 2) && text->len > 1) {
                        memmove(text->ptr + at, text->ptr + at + 1, text->len - at - 1);
                        text->len--;
                } else {
                        buf_put_byte(text, c);
                }
        }
}

static void any_text_is_parsed_or_refused_with_a_reason(void **state)
{
        struct rng dice;
        struct buf text;
        uint64_t taken = 0, refused = 0;

        (void)state;
        dice_init(&dice, "cron text");
        buf_init(&text, 0);
        for (uint64_t n = dice_rounds(20000); n > 0; n--) {
                struct cron c = any_cron(&dice, &text);
                struct problem p = {0};
                spoil(&dice, &text);
                int err = cron_parse(buf_slice(&text), &c, &p);
                if (err == OK) {
                        taken++;
                        assert_true(cron_next(&c, tz_utc(), 0) != INT64_MAX);
                } else {
                        refused++;
                        assert_int_equal(err, ERR_BADARG);
                        assert_non_null(strstr(p.detail, "allowed: "));
                }
        }
        assert_true(taken > 1000 && refused > 1000);
        buf_release(&text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(local_times_and_instants_fit_together),
                cmocka_unit_test(the_next_time_is_due_and_nothing_on_the_way_was),
                cmocka_unit_test(any_text_is_parsed_or_refused_with_a_reason),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

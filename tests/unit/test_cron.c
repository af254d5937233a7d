/* Cron expressions: what is understood, what is refused and how, and when they are due. */
#include "check.h"

#include <stdio.h>
#include <time.h>

#include "base/civil.h"
#include "base/clock.h"
#include "base/cron.h"
#include "base/tz.h"

static struct cron parse(const char *text)
{
        struct cron c = {0};
        struct problem p = {0};

        if (cron_parse(slice_str(text), &c, &p))
                fail_msg("%s: %s", text, p.detail);
        return c;
}

/* "2026-03-29 01:00:00" in Unix ms. */
static int64_t ms(const char *text)
{
        int y, mon, d, h, m, s;

        assert_int_equal(sscanf(text, "%d-%d-%d %d:%d:%d", &y, &mon, &d, &h, &m, &s), 6);
        return (days_from_civil(y, mon, d) * CIVIL_S_PER_DAY + h * 3600 + m * 60 + s) * 1000;
}

/* From a moment on the next times are these, all UTC; the list ends with NULL. */
static void assert_due(const char *zone, const char *text, const char *from,
                       const char *const *wanted)
{
        struct cron c = parse(text);
        const struct tz *tz = NULL;
        int64_t at = ms(from);

        assert_int_equal(tz_open(slice_str(zone), &tz, NULL), OK);
        for (size_t i = 0; wanted[i]; i++) {
                char got[CLOCK_TEXT_SIZE];
                at = cron_next(&c, tz, at);
                if (at != ms(wanted[i]))
                        fail_msg("%s in %s, number %zu: %s and not %s", text, zone, i + 1,
                                 clock_text(at, got), wanted[i]);
        }
}

#define DUE(zone, text, from, ...)                                                                 \
        assert_due(zone, text, from, (const char *const[]){__VA_ARGS__, NULL})

static void assert_same(const char *a, const char *b)
{
        struct cron x = parse(a), y = parse(b);
        int64_t t = ms("2023-12-31 23:59:59"), u = t;

        for (int i = 0; i < 50; i++) {
                t = cron_next(&x, tz_utc(), t);
                u = cron_next(&y, tz_utc(), u);
                if (t != u)
                        fail_msg("%s is not %s, number %d", a, b, i + 1);
                if (t == INT64_MAX)
                        break;
        }
}

static void five_fields_are_due_at_second_zero_and_six_begin_with_the_second(void **state)
{
        (void)state;
        DUE("UTC", "5 4 * * *", "2026-01-01 04:04:59", "2026-01-01 04:05:00",
            "2026-01-02 04:05:00");
        DUE("UTC", "30 5 4 * * *", "2026-01-01 04:05:00", "2026-01-01 04:05:30",
            "2026-01-02 04:05:30");
        DUE("UTC", "*/20 59 23 31 12 *", "2026-01-01 00:00:00", "2026-12-31 23:59:00",
            "2026-12-31 23:59:20", "2026-12-31 23:59:40", "2027-12-31 23:59:00");
        assert_same("5 4 * * *", "0 5 4 * * *");
}

static void the_next_time_is_strictly_after(void **state)
{
        struct cron c = parse("* * * * *");

        (void)state;
        assert_int_equal(cron_next(&c, tz_utc(), -1), 0);
        assert_int_equal(cron_next(&c, tz_utc(), 0), 60000);
        assert_int_equal(cron_next(&c, tz_utc(), 59999), 60000);
        assert_int_equal(cron_next(&c, tz_utc(), 60000), 120000);
        assert_int_equal(cron_next(&c, tz_utc(), -60001), -60000);
        c = parse("* * * * * *");
        assert_int_equal(cron_next(&c, tz_utc(), 999), 1000);
        assert_int_equal(cron_next(&c, tz_utc(), 1000), 2000);
}

static void lists_ranges_steps_and_names_mean_what_they_say(void **state)
{
        static const char *const same[][2] = {
                {"*/15 * * * *", "0,15,30,45 * * * *"},
                {"5/20 * * * *", "5,25,45 * * * *"},
                {"10-30/10 * * * *", "10,20,30 * * * *"},
                {"0 22-2 * * *", "0 22,23,0,1,2 * * *"},
                {"0 22-4/3 * * *", "0 22,1,4 * * *"},
                {"0 */24 * * *", "0 0 * * *"},
                {"0 0 1 JAN *", "0 0 1 1 *"},
                {"0 0 1 nov-Feb *", "0 0 1 11,12,1,2 *"},
                {"0 0 1 11-2/2 *", "0 0 1 11,1 *"},
                {"0 0 * * FRI-MON", "0 0 * * 5,6,0,1"},
                {"0 0 * * sun", "0 0 * * 7"},
                {"0 0 * * 0", "0 0 * * 7"},
                {"0 0 * * 5-7", "0 0 * * FRI,SAT,SUN"},
                {"0 0 * * 7-2", "0 0 * * 0,1,2"},
                {"0 0 * * 0-7", "0 0 * * *"},
                {"0 0 * * 7/3", "0 0 * * 0,3,6"},
                {"0 0 * * */2", "0 0 * * 0,2,4,6"},
                {"0 0 ? * MON", "0 0 * * MON"},
                {"0 0 1 * ?", "0 0 1 * *"},
                {"00 007 01 * *", "0 7 1 * *"},
                {"  0\t0  1 * * ", "0 0 1 * *"},
                {"1-1 1 1 1-1 *", "1 1 1 1 *"},
                {"5,* * * * *", "* * * * *"},
                {"0 0 * * mon#1,1#1", "0 0 * * MON#1"},
                {"0 0 l * *", "0 0 L * *"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(same); i++)
                assert_same(same[i][0], same[i][1]);
}

static void shorthands_stand_for_their_five_fields(void **state)
{
        static const char *const same[][2] = {
                {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
                {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
                {"@hourly", "0 * * * *"}, {"@HOURLY", "0 * * * *"},   {" @daily ", "0 0 * * *"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(same); i++)
                assert_same(same[i][0], same[i][1]);
}

static void days_counted_from_the_end_of_the_month(void **state)
{
        (void)state;
        DUE("UTC", "0 0 L * *", "2028-01-01 00:00:00", "2028-01-31 00:00:00", "2028-02-29 00:00:00",
            "2028-03-31 00:00:00", "2028-04-30 00:00:00");
        DUE("UTC", "0 0 L-3 2 *", "2026-01-01 00:00:00", "2026-02-25 00:00:00",
            "2027-02-25 00:00:00", "2028-02-26 00:00:00");
        /* Only months of 31 days have a 30th day before the last. */
        DUE("UTC", "0 0 L-30 * *", "2026-01-02 00:00:00", "2026-03-01 00:00:00",
            "2026-05-01 00:00:00");
        DUE("UTC", "0 0 1,L * *", "2026-02-01 00:00:00", "2026-02-28 00:00:00",
            "2026-03-01 00:00:00");
}

static void the_weekday_nearest_to_a_day_stays_in_the_month(void **state)
{
        (void)state;
        /* 15 August 2026 is a Saturday, 15 November a Sunday, 15 October a Thursday. */
        DUE("UTC", "0 0 15W * *", "2026-08-01 00:00:00", "2026-08-14 00:00:00",
            "2026-09-15 00:00:00", "2026-10-15 00:00:00", "2026-11-16 00:00:00");
        /* 1 August 2026 is a Saturday: the Friday before it is in July. */
        DUE("UTC", "0 0 1W 8 *", "2026-01-01 00:00:00", "2026-08-03 00:00:00");
        /* 31 May 2026 is a Sunday, and so is 28 February 2027; 30 days have no 31W. */
        DUE("UTC", "0 0 31W * *", "2026-05-01 00:00:00", "2026-05-29 00:00:00",
            "2026-07-31 00:00:00");
        DUE("UTC", "0 0 LW * *", "2026-05-01 00:00:00", "2026-05-29 00:00:00",
            "2026-06-30 00:00:00");
        DUE("UTC", "0 0 lw 2 *", "2027-01-01 00:00:00", "2027-02-26 00:00:00");
}

static void the_last_and_the_nth_of_a_weekday(void **state)
{
        (void)state;
        DUE("UTC", "0 0 * * FRIL", "2026-01-01 00:00:00", "2026-01-30 00:00:00",
            "2026-02-27 00:00:00");
        assert_same("0 0 * * FRIL", "0 0 * * 5l");
        assert_same("0 0 * * 7L", "0 0 * * SUNL");
        DUE("UTC", "0 0 * * MON#2", "2026-01-01 00:00:00", "2026-01-12 00:00:00",
            "2026-02-09 00:00:00");
        /* Not every month has a fifth Friday. */
        DUE("UTC", "0 0 * * 5#5", "2026-01-01 00:00:00", "2026-01-30 00:00:00",
            "2026-05-29 00:00:00", "2026-07-31 00:00:00");
        DUE("UTC", "0 0 * * TUE#1,WED", "2026-01-01 00:00:00", "2026-01-06 00:00:00",
            "2026-01-07 00:00:00", "2026-01-14 00:00:00");
}

static void either_day_field_is_enough_unless_one_begins_with_a_star(void **state)
{
        (void)state;
        DUE("UTC", "0 0 13 * FRI", "2026-02-01 00:00:00", "2026-02-06 00:00:00",
            "2026-02-13 00:00:00", "2026-02-20 00:00:00", "2026-02-27 00:00:00",
            "2026-03-06 00:00:00", "2026-03-13 00:00:00");
        /* The odd days that are Fridays: both. */
        DUE("UTC", "0 0 */2 * FRI", "2026-02-01 00:00:00", "2026-02-13 00:00:00",
            "2026-02-27 00:00:00", "2026-03-13 00:00:00");
        DUE("UTC", "0 0 13 * */5", "2026-02-01 00:00:00", "2026-02-13 00:00:00",
            "2026-03-13 00:00:00", "2026-09-13 00:00:00");
        /* All days, but not by a star: either. */
        assert_same("0 0 1-31 * FRI", "0 0 * * *");
        /* One half can be impossible. */
        assert_same("0 0 31 2 MON", "0 0 * 2 MON");
}

static void what_is_wrong_is_said_with_field_finding_and_remedy(void **state)
{
        static const struct {
                const char *text, *field, *found, *allowed;
        } rows[] = {
                {"60 * * * *", "1 (minute)", "\"60\" is out of range", "0-59"},
                {"60 * * * * *", "1 (second)", "\"60\"", "0-59"},
                {"* 24 * * *", "2 (hour)", "\"24\"", "0-23"},
                {"* * 0 * *", "3 (day of month)", "\"0\"", "1-31"},
                {"* * 32 * *", "3 (day of month)", "\"32\"", "1-31"},
                {"* * * 0 *", "4 (month)", "\"0\"", "JAN-DEC"},
                {"* * * 13 *", "4 (month)", "\"13\"", "1-12"},
                {"* * * * 8", "5 (day of week)", "\"8\"", "0-7"},
                {"* * * * 99999999999999999999", "day of week", "99999", "0-7"},
                {"* * * * * 8", "6 (day of week)", "\"8\"", "SUN-SAT"},
                {"* * * FEBRUARY *", "month", "\"FEBRUARY\" is not understood", "JAN-DEC"},
                {"* * * MON *", "month", "\"MON\"", "JAN-DEC"},
                {"* * * * JAN", "day of week", "\"JAN\"", "SUN-SAT"},
                {"1,,2 * * * *", "minute", "empty", "lists"},
                {", * * * *", "minute", "empty", "lists"},
                {"1, * * * *", "minute", "empty", "lists"},
                {"1- * * * *", "minute", "\"1-\" has a value missing", "ranges"},
                {"-1 * * * *", "minute", "\"-1\"", "0-59"},
                {"5-60 * * * *", "minute", "\"5-60\"", "0-59"},
                {"1-2-3 * * * *", "minute", "\"1-2-3\"", "ranges"},
                {"50-10 * * * *", "minute", "ends before it begins", "ranges"},
                {"* * 20-10 * *", "day of month", "ends before it begins", "ranges"},
                {"*/0 * * * *", "minute", "step", "steps"},
                {"*/61 * * * *", "minute", "step", "steps"},
                {"* */25 * * *", "hour", "step", "steps"},
                {"* * * * */8", "day of week", "step", "steps"},
                {"*/ * * * *", "minute", "no number", "steps"},
                {"*/x * * * *", "minute", "no number", "steps"},
                {"*/-5 * * * *", "minute", "no number", "steps"},
                {"*/5/5 * * * *", "minute", "not understood", "steps"},
                {"*5 * * * *", "minute", "\"*5\"", "0-59"},
                {"*-5 * * * *", "minute", "\"*-5\"", "0-59"},
                {"? * * * *", "minute", "\"?\"", "0-59"},
                {"* * ?/2 * *", "day of month", "lone ?", "?"},
                {"L * * * *", "minute", "\"L\"", "0-59"},
                {"* * L-0 * *", "day of month", "L-1 to L-30", "L-3"},
                {"* * L-31 * *", "day of month", "L-1 to L-30", "L-3"},
                {"* * L- * *", "day of month", "L-1 to L-30", "L-3"},
                {"* * L3 * *", "day of month", "\"L3\"", "L-3"},
                {"* * LWW * *", "day of month", "\"LWW\"", "LW"},
                {"* * W * *", "day of month", "\"W\"", "15W"},
                {"* * 32W * *", "day of month", "\"32W\"", "15W"},
                {"* * 1-5W * *", "day of month", "\"1-5W\"", "15W"},
                {"* * 15W-16 * *", "day of month", "\"15W-16\"", "15W"},
                {"* * * * L", "day of week", "which day", "FRIL"},
                {"* * * * FRILL", "day of week", "\"FRILL\"", "FRIL"},
                {"* * * * MON#0", "day of week", "1 to 5", "MON#2"},
                {"* * * * MON#6", "day of week", "1 to 5", "MON#2"},
                {"* * * * MON#", "day of week", "1 to 5", "MON#2"},
                {"* * * * 8#1", "day of week", "\"8#1\"", "MON#2"},
                {"* * * * MONDAY", "day of week", "\"MONDAY\"", "SUN-SAT"},
                {"1.5 * * * *", "minute", "\"1.5\"", "0-59"},
                {"\x01 * * * *", "minute", "\"?\"", "0-59"},
                {"", "0 fields", "5", "6 with the second first"},
                {" \t ", "0 fields", "5", "6 with the second first"},
                {"* * * *", "4 fields", "5", "6 with the second first"},
                {"* * * * * * *", "7 fields", "5", "6 with the second first"},
                {"@reboot", "shorthand", "\"@reboot\"", "@hourly"},
                {"@", "shorthand", "\"@\"", "@hourly"},
                {"@daily 5", "shorthand", "1 more", "alone"},
                {"@every 5m", "@every", "not a cron expression", "interval"},
                {"0 0 31 2 *", "day of month", "\"31\"", "days that exist"},
                {"0 0 30 2 *", "day of month", "\"30\"", "days that exist"},
                {"0 0 30,31 FEB ?", "day of month", "\"30,31\"", "days that exist"},
                {"0 0 31 4,6,9,11 *", "day of month", "\"31\"", "days that exist"},
                {"0 0 30W 2 *", "day of month", "\"30W\"", "days that exist"},
                {"0 0 L-29 2 *", "day of month", "\"L-29\"", "days that exist"},
                {"0 0 */31 2 MON#5", "day of month", "\"*/31\"", "days that exist"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct cron c = {.seconds = 77};
                struct problem p = {0};
                if (cron_parse(slice_str(rows[i].text), &c, &p) != ERR_BADARG)
                        fail_msg("%s was taken", rows[i].text);
                assert_int_equal(p.err, ERR_BADARG);
                assert_int_equal(c.seconds, 77); /* nothing was given back */
                if (!strstr(p.detail, rows[i].field) || !strstr(p.detail, rows[i].found) ||
                    !strstr(p.detail, rows[i].allowed))
                        fail_msg("%s: %s", rows[i].text, p.detail);
                assert_int_equal(cron_parse(slice_str(rows[i].text), &c, NULL), ERR_BADARG);
        }
        struct cron c;
        assert_int_equal(cron_parse(SLICE_NONE, &c, NULL), ERR_BADARG);
}

static void an_expression_may_be_as_long_as_the_limit(void **state)
{
        char text[CRON_TEXT_MAX + 2];
        struct cron c;
        struct problem p;

        (void)state;
        memset(text, ' ', sizeof(text));
        memcpy(text, "1 2 3 4 5", 9);
        assert_int_equal(cron_parse(slice_make(text, CRON_TEXT_MAX - 1), &c, &p), OK);
        assert_int_equal(cron_parse(slice_make(text, CRON_TEXT_MAX), &c, &p), OK);
        assert_int_equal(cron_parse(slice_make(text, CRON_TEXT_MAX + 1), &c, &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "at most 512"));
}

static void what_only_some_years_have_is_found_however_far_it_is(void **state)
{
        (void)state;
        DUE("UTC", "0 0 29 2 *", "2096-03-01 00:00:00", "2104-02-29 00:00:00");
        /* The fifth Monday of February: once in 28 years, and 40 over the year 2100. */
        DUE("UTC", "0 0 * 2 MON#5", "2024-01-01 00:00:00", "2044-02-29 00:00:00",
            "2072-02-29 00:00:00", "2112-02-29 00:00:00");
        /* The 22nd is the last Friday only in a February of 28 days. */
        DUE("UTC", "0 0 */21 2 FRIL", "2024-01-01 00:00:00", "2030-02-22 00:00:00");
}

static void a_rare_schedule_costs_little(void **state)
{
        struct cron c = parse("0 0 * 2 MON#5");
        const struct tz *tz;
        struct timespec ts;

        (void)state;
        assert_int_equal(tz_open(SLICE_LIT("Europe/Berlin"), &tz, NULL), OK);
        for (int64_t i = 0; i < 1000; i++)
                assert_true(cron_next(&c, tz, ms("2072-03-01 00:00:00") + i) ==
                            ms("2112-02-28 23:00:00"));
        assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), 0);
        assert_true(ts.tv_sec < 10); /* 5 us each; a walk over minutes would take minutes */
}

static void a_skipped_local_time_runs_once_after_the_gap(void **state)
{
        (void)state;
        /* Berlin, 29 March 2026: 02:00 CET is 03:00 CEST, 01:00 UTC. */
        DUE("Europe/Berlin", "30 2 * * *", "2026-03-28 00:00:00", "2026-03-28 01:30:00",
            "2026-03-29 01:00:00", "2026-03-30 00:30:00");
        DUE("Europe/Berlin", "*/20 2 * * *", "2026-03-28 01:40:00", "2026-03-29 01:00:00",
            "2026-03-30 00:00:00");
        DUE("Europe/Berlin", "30 2,3 * * *", "2026-03-28 12:00:00", "2026-03-29 01:00:00",
            "2026-03-29 01:30:00", "2026-03-30 00:30:00");
        DUE("Europe/Berlin", "30 2 29 3 *", "2026-01-01 00:00:00", "2026-03-29 01:00:00",
            "2027-03-29 00:30:00");
        /* With the slot of the first moment after it, that is one run, not two. */
        DUE("Europe/Berlin", "0 2,3 * * *", "2026-03-28 12:00:00", "2026-03-29 01:00:00",
            "2026-03-30 00:00:00");
        DUE("Europe/Berlin", "0 * * * *", "2026-03-28 23:30:00", "2026-03-29 00:00:00",
            "2026-03-29 01:00:00", "2026-03-29 02:00:00");
        DUE("Europe/Berlin", "30 * * * *", "2026-03-28 23:45:00", "2026-03-29 00:30:00",
            "2026-03-29 01:00:00", "2026-03-29 01:30:00", "2026-03-29 02:30:00");
        /* The last moment before the gap is not too late to see it. */
        DUE("Europe/Berlin", "30 2 * * *", "2026-03-29 00:59:59", "2026-03-29 01:00:00");
        DUE("Europe/Berlin", "30 * * * *", "2026-03-29 00:59:59", "2026-03-29 01:00:00");
        /* Half an hour, and a whole day. */
        DUE("Australia/Lord_Howe", "15 2 * * *", "2026-10-03 00:00:00", "2026-10-03 15:30:00",
            "2026-10-04 15:15:00");
        DUE("Pacific/Apia", "0 12 * * *", "2011-12-29 00:00:00", "2011-12-29 22:00:00",
            "2011-12-30 10:00:00", "2011-12-30 22:00:00");
        DUE("Pacific/Apia", "0 12 30 12 *", "2011-01-01 00:00:00", "2011-12-30 10:00:00",
            "2012-12-29 22:00:00");
}

static void a_repeated_local_time_runs_once_the_first_time(void **state)
{
        (void)state;
        /* Berlin, 25 October 2026: 02:00-03:00 twice, from 00:00 and from 01:00 UTC. */
        DUE("Europe/Berlin", "30 2 * * *", "2026-10-24 00:00:00", "2026-10-24 00:30:00",
            "2026-10-25 00:30:00", "2026-10-26 01:30:00");
        DUE("Europe/Berlin", "*/30 1-3 * * *", "2026-10-24 22:30:00", "2026-10-24 23:00:00",
            "2026-10-24 23:30:00", "2026-10-25 00:00:00", "2026-10-25 00:30:00",
            "2026-10-25 02:00:00", "2026-10-25 02:30:00");
        /* Asked in the middle of the second time. */
        DUE("Europe/Berlin", "45 2 * * *", "2026-10-25 01:20:00", "2026-10-26 01:45:00");
        DUE("Europe/Berlin", "* 0-22 * * *", "2026-10-25 00:58:00", "2026-10-25 00:59:00",
            "2026-10-25 02:00:00");
        /* Back over midnight, at 00:01. */
        DUE("America/St_Johns", "30 23 * * *", "2006-10-28 12:00:00", "2006-10-29 02:00:00",
            "2006-10-30 03:00:00");
}

static void when_every_hour_is_asked_for_both_repeated_hours_are_served(void **state)
{
        (void)state;
        DUE("Europe/Berlin", "0 * * * *", "2026-10-24 23:30:00", "2026-10-25 00:00:00",
            "2026-10-25 01:00:00", "2026-10-25 02:00:00", "2026-10-25 03:00:00");
        DUE("Europe/Berlin", "*/30 0-23 * * *", "2026-10-25 00:00:00", "2026-10-25 00:30:00",
            "2026-10-25 01:00:00", "2026-10-25 01:30:00", "2026-10-25 02:00:00");
        DUE("Europe/Berlin", "50 * 25 * *", "2026-10-25 00:51:00", "2026-10-25 01:50:00",
            "2026-10-25 02:50:00");
        DUE("Australia/Lord_Howe", "45 * * * *", "2026-04-04 14:00:00", "2026-04-04 14:45:00",
            "2026-04-04 15:15:00", "2026-04-04 16:15:00");
}

static void at_the_end_of_time_there_is_no_next_one(void **state)
{
        struct cron c = parse("* * * * *"), rare = parse("0 0 29 2 *");

        (void)state;
        assert_true(cron_next(&c, tz_utc(), INT64_MAX) == INT64_MAX);
        assert_true(cron_next(&rare, tz_utc(), INT64_MAX - 1000) == INT64_MAX);
        assert_true(cron_next(&c, tz_utc(), INT64_MIN) < 0);
        assert_true(cron_next(&c, tz_utc(), INT64_MIN) > INT64_MIN);
        assert_true(cron_next(&rare, tz_utc(), INT64_MIN) > INT64_MIN);
        /* Such a value cannot be parsed, but it can be made: no day at all ends the search. */
        c.months = 0;
        assert_true(cron_next(&c, tz_utc(), 0) == INT64_MAX);
        c.hours = 1;
        assert_true(cron_next(&c, tz_utc(), 0) == INT64_MAX);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(five_fields_are_due_at_second_zero_and_six_begin_with_the_second),
                cmocka_unit_test(the_next_time_is_strictly_after),
                cmocka_unit_test(lists_ranges_steps_and_names_mean_what_they_say),
                cmocka_unit_test(shorthands_stand_for_their_five_fields),
                cmocka_unit_test(days_counted_from_the_end_of_the_month),
                cmocka_unit_test(the_weekday_nearest_to_a_day_stays_in_the_month),
                cmocka_unit_test(the_last_and_the_nth_of_a_weekday),
                cmocka_unit_test(either_day_field_is_enough_unless_one_begins_with_a_star),
                cmocka_unit_test(what_is_wrong_is_said_with_field_finding_and_remedy),
                cmocka_unit_test(an_expression_may_be_as_long_as_the_limit),
                cmocka_unit_test(what_only_some_years_have_is_found_however_far_it_is),
                cmocka_unit_test(a_rare_schedule_costs_little),
                cmocka_unit_test(a_skipped_local_time_runs_once_after_the_gap),
                cmocka_unit_test(a_repeated_local_time_runs_once_the_first_time),
                cmocka_unit_test(when_every_hour_is_asked_for_both_repeated_hours_are_served),
                cmocka_unit_test(at_the_end_of_time_there_is_no_next_one),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Zones: names, known moments, gaps and repeated hours, times behind the table, damaged files. */
#include "check.h"

#include <stdio.h>
#include <time.h>

#include "base/civil.h"
#include "base/tz.h"

/* Seconds of a date and time, as if it were UTC. */
static int64_t at(int64_t year, int month, int day, int hour, int minute)
{
        return days_from_civil(year, month, day) * CIVIL_S_PER_DAY + hour * 3600 + minute * 60;
}

static const struct tz *zone(const char *name)
{
        const struct tz *tz = NULL;
        struct problem p = {0};

        if (tz_open(slice_str(name), &tz, &p))
                fail_msg("%s", p.detail);
        return tz;
}

static void assert_utc(const char *name, int64_t local_s, enum tz_kind kind, int64_t utc_s)
{
        enum tz_kind got;

        assert_int_equal(tz_to_utc(zone(name), local_s, &got), utc_s);
        assert_int_equal(got, kind);
        assert_int_equal(tz_to_utc(zone(name), local_s, NULL), utc_s);
}

static void dates_and_days_agree_with_the_c_library(void **state)
{
        (void)state;
        for (int64_t day = -200000; day < 300000; day += 1 + (day % 7 == 0)) {
                time_t seconds = (time_t)(day * CIVIL_S_PER_DAY);
                struct tm tm;
                struct civil c = civil_from_days(day);
                assert_non_null(gmtime_r(&seconds, &tm));
                assert_int_equal(c.year, tm.tm_year + 1900);
                assert_int_equal(c.month, tm.tm_mon + 1);
                assert_int_equal(c.day, tm.tm_mday);
                assert_int_equal(weekday_from_days(day), tm.tm_wday);
                assert_int_equal(days_from_civil(c.year, c.month, c.day), day);
                assert_true(c.day <= days_in_month(c.year, c.month));
        }
        assert_int_equal(days_in_month(1900, 2), 28);
        assert_int_equal(days_in_month(2000, 2), 29);
        assert_int_equal(floor_div(-1, 7), -1);
        assert_int_equal(floor_mod(-1, 7), 6);
}

static void utc_needs_no_file_and_never_changes(void **state)
{
        struct tz_span span = tz_span_at(tz_utc(), 0);

        (void)state;
        assert_ptr_equal(zone("UTC"), tz_utc());
        assert_string_equal(tz_name(tz_utc()), "UTC");
        assert_true(span.from_s == INT64_MIN && span.until_s == INT64_MAX && span.offset_s == 0);
        assert_utc("UTC", 1234567890, TZ_UNIQUE, 1234567890);
}

static void a_zone_is_read_once(void **state)
{
        (void)state;
        assert_ptr_equal(zone("Europe/Berlin"), zone("Europe/Berlin"));
        assert_ptr_not_equal(zone("Europe/Berlin"), zone("Europe/Paris"));
        assert_string_equal(tz_name(zone("Europe/Berlin")), "Europe/Berlin");
}

static void what_is_no_name_of_a_zone_is_refused_with_an_example(void **state)
{
        static const char *const names[] = {
                "",
                "/",
                "/etc/localtime",
                "../zoneinfo/UTC",
                "Europe/../UTC",
                "Europe//",
                "Europe/",
                "/Europe/Berlin",
                "Europe//Berlin",
                "Europe/Berlin ",
                "zone.tab",
                "Europe\nB",
                "Europe",
                "Mars/Phobos",
                "europe/berlin",
                "tzdata.zi",
                "Zürich",
                "Europe/Berlin/X",
                "utc",
                "leapseconds",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                const struct tz *tz = NULL;
                struct problem p = {0};
                assert_int_equal(tz_open(slice_str(names[i]), &tz, &p), ERR_BADARG);
                assert_null(tz);
                assert_non_null(strstr(p.detail, "Europe/Berlin"));
                assert_int_equal(tz_open(slice_str(names[i]), &tz, NULL), ERR_BADARG);
        }
        const struct tz *tz = NULL;
        assert_int_equal(tz_open(SLICE_NONE, &tz, NULL), ERR_BADARG);
        assert_int_equal(tz_open(slice_make("UTC\0", 4), &tz, NULL), ERR_BADARG);
}

static void a_name_at_its_limit_is_looked_for_and_a_longer_one_is_not(void **state)
{
        char name[TZ_NAME_MAX + 2];

        (void)state;
        memset(name, 'a', sizeof(name));
        for (size_t n = TZ_NAME_MAX - 1; n <= TZ_NAME_MAX + 1; n++) {
                const struct tz *tz;
                struct problem p;
                assert_int_equal(tz_open(slice_make(name, n), &tz, &p), ERR_BADARG);
                assert_int_equal(strstr(p.detail, "is not known") != NULL, n <= TZ_NAME_MAX);
        }
}

static void a_zone_that_counts_leap_seconds_is_refused(void **state)
{
        const struct tz *tz;
        struct problem p;

        (void)state;
        if (access(TZ_FOLDER "/right/Europe/Berlin", F_OK) != 0)
                skip();
        assert_int_equal(tz_open(SLICE_LIT("right/Europe/Berlin"), &tz, &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "leap seconds"));
}

static void berlin_in_winter_and_in_summer(void **state)
{
        const struct tz *tz = zone("Europe/Berlin");

        (void)state;
        assert_int_equal(tz_to_local(tz, at(2026, 1, 15, 12, 0)), at(2026, 1, 15, 13, 0));
        assert_int_equal(tz_to_local(tz, at(2026, 7, 15, 12, 0)), at(2026, 7, 15, 14, 0));
        assert_int_equal(tz_to_local(tz, at(2026, 3, 29, 1, 0) - 1), at(2026, 3, 29, 2, 0) - 1);
        assert_int_equal(tz_to_local(tz, at(2026, 3, 29, 1, 0)), at(2026, 3, 29, 3, 0));
        struct tz_span span = tz_span_at(tz, at(2026, 7, 1, 0, 0));
        assert_int_equal(span.from_s, at(2026, 3, 29, 1, 0));
        assert_int_equal(span.until_s, at(2026, 10, 25, 1, 0));
        assert_int_equal(span.offset_s, 7200);
}

static void a_skipped_time_is_the_end_of_the_gap(void **state)
{
        (void)state;
        assert_utc("Europe/Berlin", at(2026, 3, 29, 2, 0) - 1, TZ_UNIQUE,
                   at(2026, 3, 29, 1, 0) - 1);
        assert_utc("Europe/Berlin", at(2026, 3, 29, 2, 0), TZ_SKIPPED, at(2026, 3, 29, 1, 0));
        assert_utc("Europe/Berlin", at(2026, 3, 29, 2, 59), TZ_SKIPPED, at(2026, 3, 29, 1, 0));
        assert_utc("Europe/Berlin", at(2026, 3, 29, 3, 0), TZ_UNIQUE, at(2026, 3, 29, 1, 0));
        assert_utc("Australia/Lord_Howe", at(2026, 10, 4, 2, 10), TZ_SKIPPED,
                   at(2026, 10, 3, 15, 30));
        /* Samoa went over the date line and had no 30 December. */
        assert_utc("Pacific/Apia", at(2011, 12, 29, 23, 59), TZ_UNIQUE, at(2011, 12, 30, 9, 59));
        assert_utc("Pacific/Apia", at(2011, 12, 30, 0, 0), TZ_SKIPPED, at(2011, 12, 30, 10, 0));
        assert_utc("Pacific/Apia", at(2011, 12, 30, 23, 59), TZ_SKIPPED, at(2011, 12, 30, 10, 0));
        assert_utc("Pacific/Apia", at(2011, 12, 31, 0, 0), TZ_UNIQUE, at(2011, 12, 30, 10, 0));
}

static void a_repeated_time_is_its_first_occurrence(void **state)
{
        (void)state;
        assert_utc("Europe/Berlin", at(2026, 10, 25, 2, 0) - 1, TZ_UNIQUE,
                   at(2026, 10, 25, 0, 0) - 1);
        assert_utc("Europe/Berlin", at(2026, 10, 25, 2, 0), TZ_REPEATED, at(2026, 10, 25, 0, 0));
        assert_utc("Europe/Berlin", at(2026, 10, 25, 2, 59), TZ_REPEATED, at(2026, 10, 25, 0, 59));
        assert_utc("Europe/Berlin", at(2026, 10, 25, 3, 0), TZ_UNIQUE, at(2026, 10, 25, 2, 0));
        /* Kwajalein went back over the date line. */
        assert_utc("Pacific/Kwajalein", at(1969, 9, 30, 23, 0), TZ_REPEATED,
                   at(1969, 9, 30, 12, 0));
}

static void the_rules_of_the_last_line_go_on_for_ever(void **state)
{
        (void)state;
        assert_utc("Europe/Berlin", at(2100, 7, 1, 12, 0), TZ_UNIQUE, at(2100, 7, 1, 10, 0));
        assert_utc("Europe/Berlin", at(2100, 3, 28, 2, 30), TZ_SKIPPED, at(2100, 3, 28, 1, 0));
        /* The last Sunday is the last day of March 2041. */
        assert_utc("Europe/Berlin", at(2041, 3, 31, 2, 30), TZ_SKIPPED, at(2041, 3, 31, 1, 0));
        assert_utc("Europe/Berlin", at(9000, 1, 1, 12, 0), TZ_UNIQUE, at(9000, 1, 1, 11, 0));
        assert_utc("America/New_York", at(2999, 11, 3, 1, 30), TZ_REPEATED, at(2999, 11, 3, 5, 30));
        assert_utc("Australia/Sydney", at(2100, 1, 1, 0, 0), TZ_UNIQUE, at(2099, 12, 31, 13, 0));
        assert_utc("Asia/Tokyo", at(2500, 6, 1, 9, 0), TZ_UNIQUE, at(2500, 6, 1, 0, 0));
        assert_utc("Etc/GMT+5", at(2500, 6, 1, 0, 0), TZ_UNIQUE, at(2500, 6, 1, 5, 0));
}

static void any_moment_has_an_answer(void **state)
{
        static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX};
        static const char *const names[] = {"UTC", "Europe/Berlin", "Africa/Casablanca"};

        (void)state;
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
                const struct tz *tz = zone(names[k]);
                for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
                        struct tz_span span = tz_span_at(tz, ends[i]);
                        assert_true(span.from_s < span.until_s);
                        if (i == 0)
                                continue;
                        assert_true(tz_to_utc(tz, ends[i - 1], NULL) <=
                                    tz_to_utc(tz, ends[i], NULL));
                        assert_true(tz_to_local(tz, ends[i - 1]) <= tz_to_local(tz, ends[i]));
                }
                assert_true(tz_to_local(tz, INT64_MIN) < 0 && tz_to_local(tz, INT64_MAX) > 0);
        }
}

/* --- files made by hand ---------------------------------------------------------------------- */

struct made {
        char bytes[1024];
        size_t len;
};

static void put(struct made *m, const char *bytes, size_t n)
{
        memcpy(m->bytes + m->len, bytes, n);
        m->len += n;
}

static void put_be(struct made *m, int64_t v, int n)
{
        for (int shift = 8 * (n - 1); shift >= 0; shift -= 8)
                m->bytes[m->len++] = (char)((uint64_t)v >> shift);
}

static void put_header(struct made *m, char version, int leaps, int times, int types)
{
        put(m, "TZif", 4);
        put_be(m, version, 1);
        put(m, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
        put_be(m, 0, 4);
        put_be(m, 0, 4);
        put_be(m, leaps, 4);
        put_be(m, times, 4);
        put_be(m, types, 4);
        put_be(m, 4, 4);
}

/* Two changes, at first_s and second_s, to offset_s and back to an hour. */
static struct made make(int64_t first_s, int64_t second_s, int64_t offset_s, const char *footer)
{
        struct made m = {.len = 0};

        put_header(&m, '2', 0, 0, 1);
        put_be(&m, 0, 6);
        put(&m, "XXX", 4);
        put_header(&m, '2', 0, 2, 2);
        put_be(&m, first_s, 8);
        put_be(&m, second_s, 8);
        put(&m, "\1\0", 2);
        put_be(&m, 3600, 4);
        put_be(&m, 0, 2);
        put_be(&m, offset_s, 4);
        put_be(&m, 0x100, 2);
        put(&m, "XXX", 4);
        put(&m, "\n", 1);
        put(&m, footer, strlen(footer));
        put(&m, "\n", 1);
        return m;
}

static int parse(const struct made *m, size_t len, struct tz **ret, struct problem *p)
{
        /* Exactly its size, so that a sanitizer sees a step too far. */
        char *copy = malloc(len ? len : 1);
        memcpy(copy, m->bytes, len);
        int err = tz_parse(SLICE_LIT("Made/Up"), slice_make(copy, len), ret, p);
        free(copy);
        return err;
}

static struct tz *parsed(const char *footer)
{
        struct made m = make(1000, 2000, 7200, footer);
        struct tz *tz = NULL;
        struct problem p;

        if (parse(&m, m.len, &tz, &p))
                fail_msg("%s: %s", footer, p.detail);
        return tz;
}

static void a_made_up_file_is_read_as_it_says(void **state)
{
        struct tz *tz = parsed("");

        (void)state;
        assert_string_equal(tz_name(tz), "Made/Up");
        assert_int_equal(tz_to_local(tz, 999), 999 + 3600);
        assert_int_equal(tz_to_local(tz, 1000), 1000 + 7200);
        assert_int_equal(tz_to_local(tz, 1999), 1999 + 7200);
        assert_int_equal(tz_to_local(tz, 2000), 2000 + 3600);
        assert_int_equal(tz_to_local(tz, at(2200, 7, 1, 0, 0)), at(2200, 7, 1, 1, 0));
        assert_null(tz_free(tz));
        assert_null(tz_free(NULL));
}

static void a_file_cut_anywhere_is_refused(void **state)
{
        struct made m = make(1000, 2000, 7200, "XXX-1YYY,M3.5.0,M10.5.0/3");

        (void)state;
        for (size_t len = 0; len < m.len; len++) {
                struct tz *tz = NULL;
                struct problem p;
                assert_int_equal(parse(&m, len, &tz, &p), ERR_CORRUPT);
                assert_null(tz);
                assert_non_null(strstr(p.detail, "Made/Up"));
        }
}

static void damaged_files_are_refused_with_the_reason(void **state)
{
        enum { SECOND_HEADER = 44 + 10, TYPES = SECOND_HEADER + 44 + 16 };
        const struct {
                struct made file;
                size_t at;
                char byte;
                int err;
                const char *reason;
        } rows[] = {
                {make(1000, 2000, 7200, ""), 0, 'X', ERR_CORRUPT, "not a TZif"},
                {make(1000, 2000, 7200, ""), 4, 0, ERR_CORRUPT, "not a TZif"},
                {make(1000, 2000, 7200, ""), 32, 127, ERR_CORRUPT, "not a TZif"},
                {make(1000, 2000, 7200, ""), SECOND_HEADER, 'X', ERR_CORRUPT, "second block"},
                {make(1000, 2000, 7200, ""), SECOND_HEADER + 39, 0, ERR_CORRUPT, "time type"},
                {make(1000, 2000, 7200, ""), TYPES, 2, ERR_CORRUPT, "changes"},
                {make(2000, 2000, 7200, ""), 0, 'T', ERR_CORRUPT, "changes"},
                {make(2001, 2000, 7200, ""), 0, 'T', ERR_CORRUPT, "changes"},
                {make(1000, 2000, 26 * 3600 + 1, ""), 0, 'T', ERR_CORRUPT, "changes"},
                {make(1000, 2000, -26 * 3600 - 1, ""), 0, 'T', ERR_CORRUPT, "changes"},
                {make(1000, 2000, 7200, "\n"), TYPES + 18, 'X', ERR_CORRUPT, "last line"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct made m = rows[i].file;
                struct tz *tz = NULL;
                struct problem p;
                m.bytes[rows[i].at] = rows[i].byte;
                assert_int_equal(parse(&m, m.len, &tz, &p), rows[i].err);
                if (!strstr(p.detail, rows[i].reason))
                        fail_msg("row %zu: %s", i, p.detail);
        }
        struct made bound = make(1000, 2000, -26 * 3600, "");
        struct tz *tz = NULL;
        assert_int_equal(parse(&bound, bound.len, &tz, NULL), OK);
        tz_free(tz);
}

static void footers_that_are_no_rules_are_refused(void **state)
{
        static const char *const footers[] = {
                "X",
                "XX3",
                "XXX",
                "XXX25",
                "XXX3:60",
                "XXX3:00:60",
                "<X3",
                "XXX3YYY",
                "XXX3YYY,",
                "XXX3YYY,M3.5.0",
                "XXX3YYY,M3.5.0,",
                "XXX3YYY,M13.1.0,M1.1.0",
                "XXX3YYY,M0.1.0,M1.1.0",
                "XXX3YYY,M1.6.0,M1.1.0",
                "XXX3YYY,M1.0.0,M1.1.0",
                "XXX3YYY,M1.1.7,M1.1.0",
                "XXX3YYY,J0,J1",
                "XXX3YYY,J366,J1",
                "XXX3YYY,366,1",
                "XXX3YYY,1/168,2",
                "XXX3YYY,1/-168,2",
                "XXX3YYY,1,2x",
                "XXX3YYY,M1.1,M1.1.0",
                "XXX3 ",
                "XXX99999999999999999999",
                "XXX3YYY,M1.1.1/,M1.1.0",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(footers); i++) {
                struct made m = make(1000, 2000, 7200, footers[i]);
                struct tz *tz = NULL;
                struct problem p;
                if (parse(&m, m.len, &tz, &p) != ERR_CORRUPT)
                        fail_msg("%s was taken", footers[i]);
                assert_non_null(strstr(p.detail, "not a rule"));
        }
}

static void every_form_of_rule_is_understood(void **state)
{
        /* The instant at which the summer of 2028 (a leap year) begins and ends. */
        const struct {
                const char *footer;
                int64_t begins_s, ends_s;
        } rows[] = {
                {"CET-1CEST,M3.5.0,M10.5.0/3", at(2028, 3, 26, 1, 0), at(2028, 10, 29, 1, 0)},
                {"<A1>5<B2>4:30,M3.2.0/-1:30,M11.1.0/25", at(2028, 3, 12, 3, 30),
                 at(2028, 11, 6, 5, 30)},
                {"XXX0YYY,J59/0,J60/0", at(2028, 2, 28, 0, 0), at(2028, 2, 29, 23, 0)},
                {"XXX0YYY,58/0,60/1:00:30", at(2028, 2, 28, 0, 0), at(2028, 3, 1, 0, 0) + 30},
                {"XXX0YYY,M3.4.4/50,M10.4.4/+50", at(2028, 3, 25, 2, 0), at(2028, 10, 28, 1, 0)},
                {"XXX-10:30YYY-11,M10.1.0,M4.1.0", at(2028, 9, 30, 15, 30), at(2029, 3, 31, 15, 0)},
                {"IST-1GMT0,M10.5.0,M3.5.0/1", at(2028, 10, 29, 1, 0), at(2029, 3, 25, 1, 0)},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct tz *tz = parsed(rows[i].footer);
                struct tz_span span = tz_span_at(tz, rows[i].begins_s);
                assert_int_equal(span.from_s, rows[i].begins_s);
                assert_int_equal(span.until_s, rows[i].ends_s);
                assert_int_equal(tz_span_at(tz, rows[i].ends_s).from_s, rows[i].ends_s);
                assert_int_equal(tz_span_at(tz, rows[i].begins_s - 1).until_s, rows[i].begins_s);
                tz_free(tz);
        }
}

static void summer_all_year_has_no_change_that_shows(void **state)
{
        struct tz *tz = parsed("XXX3EDT4,0/0,J365/23");

        (void)state;
        for (int64_t s = at(2030, 12, 31, 0, 0); s < at(2031, 1, 2, 0, 0); s += 60) {
                enum tz_kind kind;
                assert_int_equal(tz_to_local(tz, s), s - 4 * 3600);
                assert_int_equal(tz_to_utc(tz, s, &kind), s + 4 * 3600);
                assert_int_equal(kind, TZ_UNIQUE);
        }
        tz_free(tz);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(dates_and_days_agree_with_the_c_library),
                cmocka_unit_test(utc_needs_no_file_and_never_changes),
                cmocka_unit_test(a_zone_is_read_once),
                cmocka_unit_test(what_is_no_name_of_a_zone_is_refused_with_an_example),
                cmocka_unit_test(a_name_at_its_limit_is_looked_for_and_a_longer_one_is_not),
                cmocka_unit_test(a_zone_that_counts_leap_seconds_is_refused),
                cmocka_unit_test(berlin_in_winter_and_in_summer),
                cmocka_unit_test(a_skipped_time_is_the_end_of_the_gap),
                cmocka_unit_test(a_repeated_time_is_its_first_occurrence),
                cmocka_unit_test(the_rules_of_the_last_line_go_on_for_ever),
                cmocka_unit_test(any_moment_has_an_answer),
                cmocka_unit_test(a_made_up_file_is_read_as_it_says),
                cmocka_unit_test(a_file_cut_anywhere_is_refused),
                cmocka_unit_test(damaged_files_are_refused_with_the_reason),
                cmocka_unit_test(footers_that_are_no_rules_are_refused),
                cmocka_unit_test(every_form_of_rule_is_understood),
                cmocka_unit_test(summer_all_year_has_no_change_that_shows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The clocks run, and the calendar agrees with that of the C library. */
#include "check.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"

static void both_clocks_run_forward(void **state)
{
        int64_t boot = clock_boot_ns(), wall = clock_wall_ms();

        (void)state;
        for (int i = 0; i < 1000; i++) {
                int64_t next = clock_boot_ns();
                assert_true(next >= boot);
                boot = next;
        }
        assert_true(wall > 1700000000000LL); /* after November 2023 */
        for (int i = 0; i < 1000; i++) {
                struct timespec before, after;
                (void)clock_gettime(CLOCK_REALTIME, &before);
                int64_t ms = clock_wall_ms();
                (void)clock_gettime(CLOCK_REALTIME, &after);
                if (after.tv_sec != before.tv_sec)
                        continue; /* the second changed, or the clock was set */
                assert_true(ms / 1000 == before.tv_sec);
                assert_in_range(ms % 1000, before.tv_nsec / 1000000, after.tv_nsec / 1000000);
        }
}

static void known_moments_read_as_they_should(void **state)
{
        static const struct {
                int64_t ms;
                const char *text;
        } known[] = {
                {0, "1970-01-01T00:00:00.000Z"},
                {-1, "1969-12-31T23:59:59.999Z"},
                {951782400123, "2000-02-29T00:00:00.123Z"},
                {951868799999, "2000-02-29T23:59:59.999Z"},
                {4107542400000, "2100-03-01T00:00:00.000Z"},
                {1794732660123, "2026-11-15T08:51:00.123Z"},
                {253402300799999, "9999-12-31T23:59:59.999Z"},
                {253402300800000, "10000-01-01T00:00:00.000Z"},
                {-62167219200000, "0000-01-01T00:00:00.000Z"},
                {-62167219200001, "-0001-12-31T23:59:59.999Z"},
                {-62162035200000, "0000-03-01T00:00:00.000Z"},
                {-62162035200001, "0000-02-29T23:59:59.999Z"},
                {INT64_MAX, "292278994-08-17T07:12:55.807Z"},
                {INT64_MIN, "-292275055-05-16T16:47:04.192Z"},
        };
        char text[CLOCK_TEXT_SIZE];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
                assert_string_equal(clock_text(known[i].ms, text), known[i].text);
}

static void every_day_of_six_centuries_agrees_with_the_c_library(void **state)
{
        char text[CLOCK_TEXT_SIZE], want[64];

        (void)state;
        for (int64_t day = -100000; day < 120000; day++) {
                time_t seconds = (time_t)(day * 86400 + (day * 7919 % 86400 + 86400) % 86400);
                struct tm tm;
                assert_non_null(gmtime_r(&seconds, &tm));
                (void)snprintf(want, sizeof(want), "%04d-%02d-%02dT%02d:%02d:%02d.000Z",
                               tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
                               tm.tm_sec);
                assert_string_equal(clock_text((int64_t)seconds * 1000, text), want);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(both_clocks_run_forward),
                cmocka_unit_test(known_moments_read_as_they_should),
                cmocka_unit_test(every_day_of_six_centuries_agrees_with_the_c_library),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Durations, sizes and moments as people write them. */
#include "check.h"

#include <stdlib.h>
#include <time.h>

#include "cli/text.h"

static void durations_have_units_and_add_up(void **state)
{
        static const struct {
                const char *text;
                int64_t ms;
        } rows[] = {
                {"0s", 0},        {"500ms", 500},  {"30s", 30000},       {"5m", 300000},
                {"5min", 300000}, {"2h", 7200000}, {"1d", 86400000},     {"1h30m", 5400000},
                {"1s1ms", 1001},  {"90s", 90000},  {"2d12h", 216000000},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct problem p;
                int64_t ms = -1;
                assert_int_equal(duration_parse("--in", rows[i].text, &ms, &p), OK);
                assert_int_equal(ms, rows[i].ms);
        }
}

static void bad_durations_are_refused_with_what_is_allowed(void **state)
{
        static const char *const bad[] = {"",
                                          "s",
                                          "5",
                                          "5 m",
                                          "-5m",
                                          "5x",
                                          "1.5h",
                                          "m5",
                                          "5m3",
                                          "5mm",
                                          "1h ",
                                          "5s5s",
                                          "30m1h",
                                          "99999999999999999999s",
                                          "9223372036854775807d"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct problem p;
                int64_t ms = 77;
                assert_int_equal(duration_parse("--in", bad[i], &ms, &p), ERR_BADARG);
                assert_int_equal(ms, 77);
                assert_non_null(strstr(p.detail, "--in"));
                assert_non_null(strstr(p.detail, "ms"));
        }
}

static void a_number_alone_is_asked_for_its_unit(void **state)
{
        struct problem p;
        int64_t ms;
        (void)state;
        assert_int_equal(duration_parse("--in", "30", &ms, &p), ERR_BADARG);
        assert_non_null(strstr(p.detail, "30s"));
}

static void sizes_take_k_and_m_up_to_the_limit(void **state)
{
        struct problem p;
        uint64_t n = 0;
        (void)state;
        assert_int_equal(size_parse("--output", "4096", MIB, &n, &p), OK);
        assert_int_equal(n, 4096);
        assert_int_equal(size_parse("--output", "64k", MIB, &n, &p), OK);
        assert_int_equal(n, 65536);
        assert_int_equal(size_parse("--output", "1m", MIB, &n, &p), OK);
        assert_int_equal(n, MIB);
        assert_int_equal(size_parse("--output", "1048577", MIB, &n, &p), ERR_BADARG);
        assert_int_equal(size_parse("--output", "2m", MIB, &n, &p), ERR_BADARG);
        assert_int_equal(size_parse("--output", "99999999999999999k", MIB, &n, &p), ERR_BADARG);
        assert_int_equal(size_parse("--output", "k", MIB, &n, &p), ERR_BADARG);
        assert_int_equal(size_parse("--output", "1kb", MIB, &n, &p), ERR_BADARG);
}

static int64_t moment(const char *text, int64_t now_ms)
{
        struct problem p;
        int64_t ms = -1;
        if (moment_parse("--at", text, now_ms, &ms, &p) != OK)
                return -1;
        return ms;
}

static void moments_with_a_zone_do_not_depend_on_ours(void **state)
{
        (void)state;
        assert_int_equal(moment("2026-11-15T10:00:00Z", 0), 1794736800000);
        assert_int_equal(moment("2026-11-15 10:00Z", 0), 1794736800000);
        assert_int_equal(moment("2026-11-15T11:00:00+01:00", 0), 1794736800000);
        assert_int_equal(moment("2026-11-15T11:00:00 +0100", 0), 1794736800000);
        assert_int_equal(moment("2026-11-15T04:30:00-05:30", 0), 1794736800000);
        assert_int_equal(moment("2026-11-15T10:00:00.250Z", 0), 1794736800250);
        assert_int_equal(moment("2026-11-15T10:00:00.1239Z", 0), 1794736800123);
        assert_int_equal(moment("@1794736800", 0), 1794736800000);
}

static void moments_without_a_zone_are_local(void **state)
{
        (void)state;
        (void)setenv("TZ", "CET-1", 1);
        tzset();
        assert_int_equal(moment("2026-11-15T11:00", 0), 1794736800000);
        assert_int_equal(moment("2026-11-15", 0), 1794697200000);
        (void)setenv("TZ", "UTC", 1);
        tzset();
        assert_int_equal(moment("2026-11-15T10:00", 0), 1794736800000);
}

static void a_time_of_day_is_the_next_one(void **state)
{
        int64_t now = 1794736800000; /* 2026-11-15 10:00 UTC */
        (void)state;
        (void)setenv("TZ", "UTC", 1);
        tzset();
        assert_int_equal(moment("10:01", now), now + 60000);
        assert_int_equal(moment("10:00", now), now);
        assert_int_equal(moment("10:00:30", now), now + 30000);
        assert_int_equal(moment("09:59", now), now + 86400000 - 60000);
}

static void what_is_no_moment_is_refused(void **state)
{
        static const char *const bad[] = {"",
                                          "tomorrow",
                                          "2026-13-01",
                                          "2026-02-30",
                                          "2026-11-15T25:00",
                                          "2026-11-15T10:60",
                                          "2026-11-15T10",
                                          "2026-11-15T10:00x",
                                          "2026-11-15T10:00+1",
                                          "2026-11-15T10:00:00.Z",
                                          "10",
                                          "10:00pm",
                                          "@",
                                          "@-1",
                                          "1969-12-31T00:00Z"};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_int_equal(moment(bad[i], 1794736800000), -1);
}

static void times_read_like_people_say_them(void **state)
{
        static const struct {
                int64_t at_ms;
                const char *text;
        } rows[] = {
                {1000000000, "just now"},
                {1000000000 - 999, "just now"},
                {1000000000 - 1500, "1.5 s ago"},
                {1000000000 - 3000, "3 s ago"},
                {1000000000 - 59999, "59 s ago"},
                {1000000000 - 60000, "1 min ago"},
                {1000000000 - 90000, "1 min 30 s ago"},
                {1000000000 + 300000, "in 5 min"},
                {1000000000 + 250, "in 250 ms"},
                {1000000000 + 7500000, "in 2 h 5 min"},
                {1000000000 - 720000, "12 min ago"},
                {1000000000 - 180000000, "2 d 2 h ago"},
                {1000000000 - 3599000, "59 min 59 s ago"},
                {1000000000 - 1000000000, "11 d 13 h ago"},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct buf b;
                buf_init(&b, 0);
                moment_put_relative(&b, rows[i].at_ms, 1000000000);
                assert_string_equal(buf_cstr(&b), rows[i].text);
                buf_release(&b);
        }
}

static void a_moment_is_written_in_local_time_with_its_offset(void **state)
{
        struct buf b;
        (void)state;
        (void)setenv("TZ", "CET-1", 1);
        tzset();
        buf_init(&b, 0);
        moment_put(&b, 1794736800000);
        assert_string_equal(buf_cstr(&b), "2026-11-15 11:00:00 +0100");
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(durations_have_units_and_add_up),
                cmocka_unit_test(bad_durations_are_refused_with_what_is_allowed),
                cmocka_unit_test(a_number_alone_is_asked_for_its_unit),
                cmocka_unit_test(sizes_take_k_and_m_up_to_the_limit),
                cmocka_unit_test(moments_with_a_zone_do_not_depend_on_ours),
                cmocka_unit_test(moments_without_a_zone_are_local),
                cmocka_unit_test(a_time_of_day_is_the_next_one),
                cmocka_unit_test(what_is_no_moment_is_refused),
                cmocka_unit_test(times_read_like_people_say_them),
                cmocka_unit_test(a_moment_is_written_in_local_time_with_its_offset),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Durations: what is read, what is refused, and that what is printed reads back. */
#include "check.h"

#include "base/duration.h"

static void durations_are_read_as_people_write_them(void **state)
{
        static const struct {
                const char *text;
                int64_t ms;
        } rows[] = {
                {"0", 0},
                {"500", 500},
                {"9223372036854775807", INT64_MAX},
                {"250ms", 250},
                {"90s", 90000},
                {"5m", 300000},
                {"5min", 300000},
                {"1h5min10s", 3910000},
                {"1h30m", 5400000},
                {"1d2h3m4s5ms", 93784005},
                {"0s", 0},
                {"2d", 172800000},
                {"1d1ms", 86400001},
                {"106751991167d7h12m55s807ms", INT64_MAX},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int64_t ms = -1;
                assert_true(slice_to_duration_ms(slice_str(rows[i].text), &ms));
                assert_true(ms == rows[i].ms);
        }
}

static void what_could_mean_two_things_is_refused(void **state)
{
        static const char *const rows[] = {
                "",
                "s",
                "-5",
                "-5s",
                "+5s",
                "5 s",
                " 5s",
                "5s ",
                "1.5s",
                "5S",
                "5x",
                "5s5",
                "5s5s",
                "1m1h",
                "1m1min",
                "1minute",
                "5ms1s",
                "05s",
                "1h 5m",
                "1h5",
                "9223372036854775808",
                "9223372036854775807s",
                "106751991167d7h12m55s808ms",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                int64_t ms = -7;
                assert_false(slice_to_duration_ms(slice_str(rows[i]), &ms));
                assert_int_equal(ms, -7);
        }
        int64_t ms = -7;
        assert_false(slice_to_duration_ms(SLICE_NONE, &ms));
}

static void what_is_printed_reads_back(void **state)
{
        char text[DURATION_TEXT_MAX];
        int64_t ms = 1, got;

        (void)state;
        assert_string_equal(duration_text(0, text), "0s");
        assert_string_equal(duration_text(5400000, text), "1h30m");
        assert_string_equal(duration_text(1500, text), "1s500ms");
        assert_string_equal(duration_text(INT64_MAX, text), "106751991167d7h12m55s807ms");
        for (int i = 0; i < 40; i++, ms = ms * 3 - 1) {
                assert_true(slice_to_duration_ms(slice_str(duration_text(ms, text)), &got));
                assert_true(got == ms);
        }
}

static void what_is_said_is_short_and_has_two_units_at_most(void **state)
{
        static const struct {
                int64_t ms;
                const char *text;
        } rows[] = {
                {0, "0 ms"},
                {999, "999 ms"},
                {1000, "1 s"},
                {1099, "1 s"},
                {1500, "1.5 s"},
                {9999, "9.9 s"},
                {10500, "10 s"},
                {59999, "59 s"},
                {60000, "1 min"},
                {3599000, "59 min 59 s"},
                {3600000, "1 h"},
                {3601000, "1 h"},
                {3660000, "1 h 1 min"},
                {86399999, "23 h 59 min"},
                {90000000, "1 d 1 h"},
                {31LL * 86400000, "31 d"},
                {INT64_MAX, "106751991167 d 7 h"},
        };
        char text[DURATION_TEXT_MAX];
        struct buf b;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                assert_string_equal(duration_words(rows[i].ms, text), rows[i].text);
                buf_init(&b, 0);
                duration_put(&b, rows[i].ms);
                assert_string_equal(buf_cstr(&b), rows[i].text);
                buf_release(&b);
        }
}

static void what_is_left_counts_begun_seconds(void **state)
{
        static const struct {
                int64_t ms;
                const char *text;
        } rows[] = {
                {0, "0 ms"},      {250, "250 ms"},  {1000, "1 s"},
                {1001, "2 s"},    {3599001, "1 h"}, {3599000, "59 min 59 s"},
                {7199999, "2 h"}, {-5, "-5 ms"},    {INT64_MAX, "106751991167 d 7 h"},
        };
        char text[DURATION_TEXT_MAX];
        struct buf b;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                assert_string_equal(duration_words_left(rows[i].ms, text), rows[i].text);
                buf_init(&b, 0);
                duration_put_left(&b, rows[i].ms);
                assert_string_equal(buf_cstr(&b), rows[i].text);
                buf_release(&b);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(durations_are_read_as_people_write_them),
                cmocka_unit_test(what_could_mean_two_things_is_refused),
                cmocka_unit_test(what_is_printed_reads_back),
                cmocka_unit_test(what_is_said_is_short_and_has_two_units_at_most),
                cmocka_unit_test(what_is_left_counts_begun_seconds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(durations_are_read_as_people_write_them),
                cmocka_unit_test(what_could_mean_two_things_is_refused),
                cmocka_unit_test(what_is_printed_reads_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Backoff: the texts, the delays, and that both stay in their bounds. */
#include "check.h"

#include "base/bytes.h"
#include "base/duration.h"
#include "state/backoff.h"

static struct backoff parse(const char *text)
{
        struct problem p = {0};
        struct backoff b;

        if (backoff_parse(slice_str(text), &b, &p) != OK)
                fail_msg("%s: %s", text, p.detail);
        return b;
}

static void texts_read_and_print(void **state)
{
        static const char *const rows[][2] = {
                {"none", "none"},
                {"fixed:5s", "fixed:5s"},
                {"fixed:500", "fixed:500ms"},
                {"fixed:0", "fixed:0s"},
                {"exp", "exp:5s,2,5m,15%"},
                {"exp:1s", "exp:1s,2,5m,15%"},
                {"exp:1h", "exp:1h,2,1h,15%"}, /* a base above the usual cap lifts it */
                {"exp:1s,1.5", "exp:1s,1.5,5m,15%"},
                {"exp:1s,3,1h30m", "exp:1s,3,1h30m,15%"},
                {"exp:0,1,0,0%", "exp:0s,1,0s,0%"},
                {"exp:250ms,1.25,366d,100%", "exp:250ms,1.25,366d,100%"},
                {"exp:1s,1.05", "exp:1s,1.05,5m,15%"},
                {"exp:1s,100", "exp:1s,100,5m,15%"},
                {"list:1s", "list:1s"},
                {"list:1s,30s,5m", "list:1s,30s,5m"},
                {"list:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
                 "list:1ms,2ms,3ms,4ms,5ms,6ms,7ms,8ms,9ms,10ms,11ms,12ms,13ms,14ms,15ms,16ms"},
        };
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct backoff got = parse(rows[i][0]), again = parse(rows[i][1]);
                buf_clear(&b);
                backoff_to_text(&got, &b);
                assert_slice(buf_slice(&b), rows[i][1]);
                assert_true(backoff_eq(&got, &again));
        }
        struct backoff standard = backoff_default(), exp = parse("exp"), other = parse("exp:6s");
        assert_true(backoff_eq(&standard, &exp));
        assert_false(backoff_eq(&standard, &other));
        buf_release(&b);
}

static void wrong_texts_are_refused_with_a_reason(void **state)
{
        static const struct {
                const char *text, *reason;
        } rows[] = {
                {"", "backoff is none"},
                {"None", "backoff is none"},
                {"none:", "backoff is none"},
                {"fixed", "backoff is none"},
                {"list", "backoff is none"},
                {"linear:5s", "backoff is none"},
                {"fixed:", "no duration"},
                {"fixed:5x", "'5x' is no duration"},
                {"fixed:-1", "no duration"},
                {"fixed:1s,2s", "at most 1 delay"},
                {"fixed:367d", "at most 366 days"},
                {"exp:", "no duration"},
                {"exp:1s,", "factor"},
                {"exp:1s,0.99", "factor"},
                {"exp:1s,100.01", "factor"},
                {"exp:1s,1.255", "factor"},
                {"exp:1s,1.", "factor"},
                {"exp:1s,.5", "factor"},
                {"exp:1s,1.x", "factor"},
                {"exp:1s,-2", "factor"},
                {"exp:1s,2,", "no duration"},
                {"exp:10s,2,5s", "the cap is below the base"},
                {"exp:1s,2,5m,", "jitter"},
                {"exp:1s,2,5m,15", "jitter"},
                {"exp:1s,2,5m,101%", "jitter"},
                {"exp:1s,2,5m,%", "jitter"},
                {"exp:1s,2,5m,15%,", "no more"},
                {"list:", "no duration"},
                {"list:1s,", "no duration"},
                {"list:,1s", "no duration"},
                {"list:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "at most 16 delays"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct problem p = {0};
                struct backoff b = {.kind = BACKOFF_LIST, .n = 77};
                assert_int_equal(backoff_parse(slice_str(rows[i].text), &b, &p), ERR_BADARG);
                if (!strstr(p.detail, rows[i].reason))
                        fail_msg("%s: %s", rows[i].text, p.detail);
                assert_int_equal(b.n, 77);
        }
}

static void delays_without_jitter_are_exact(void **state)
{
        static const struct {
                const char *text;
                int64_t ms[6];
        } rows[] = {
                {"none", {0, 0, 0, 0, 0, 0}},
                {"fixed:7s", {7000, 7000, 7000, 7000, 7000, 7000}},
                {"exp:5s,2,1m,0%", {5000, 10000, 20000, 40000, 60000, 60000}},
                {"exp:1,1.5,1m,0%", {1, 1, 2, 3, 5, 7}}, /* 1 1.5 2.25 3.375 5.06 7.59 */
                {"exp:100,1,1m,0%", {100, 100, 100, 100, 100, 100}},
                {"exp:0,2,1m,0%", {0, 0, 0, 0, 0, 0}},
                {"list:1s,30s,5m", {1000, 30000, 300000, 300000, 300000, 300000}},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct backoff b = parse(rows[i].text);
                for (unsigned k = 0; k < 6; k++)
                        assert_true(backoff_delay_ms(&b, k + 1, NULL) == rows[i].ms[k]);
                assert_true(backoff_delay_ms(&b, 0, NULL) == rows[i].ms[0]);
        }
}

static void no_attempt_is_too_late_to_work_out(void **state)
{
        struct backoff wide = parse("exp:1,100,366d,0%"), narrow = parse("exp:1,1.01,366d,0%");
        struct backoff list = parse("list:1,2");

        (void)state;
        assert_true(backoff_delay_ms(&wide, UINT32_MAX, NULL) == BACKOFF_DELAY_MAX_MS);
        assert_true(backoff_delay_ms(&narrow, UINT32_MAX, NULL) == BACKOFF_DELAY_MAX_MS);
        assert_int_equal(backoff_delay_ms(&list, UINT32_MAX, NULL), 2);
        for (unsigned k = 1; k < 3000; k++)
                assert_true(backoff_delay_ms(&narrow, k, NULL) <=
                            backoff_delay_ms(&narrow, k + 1, NULL));
}

static void jitter_spreads_over_its_whole_range_and_not_beyond(void **state)
{
        struct backoff b = parse("exp:100,2,400,10%");
        static const int64_t low[] = {90, 180, 360, 360}, high[] = {110, 220, 400, 400};
        struct rng dice;

        (void)state;
        rng_init_seed(&dice, 1);
        for (unsigned k = 0; k < 4; k++) {
                unsigned n_low = 0, n_high = 0;
                for (int i = 0; i < 4000; i++) {
                        int64_t ms = backoff_delay_ms(&b, k + 1, &dice);
                        assert_in_range(ms, low[k], high[k]);
                        n_low += ms == low[k];
                        n_high += ms == high[k];
                }
                /* 20 to 41 values: about 100 of each, and the cap no favourite. */
                assert_in_range(n_low, 30, 400);
                assert_in_range(n_high, 30, 400);
        }
}

static void a_backoff_reads_back_and_damaged_bytes_make_no_impossible_one(void **state)
{
        static const char *const texts[] = {"none", "fixed:366d", "exp", "exp:0,100,366d,100%",
                                            "list:1s,30s,5m"};
        struct backoff got;
        struct rng dice;
        struct buf b;

        (void)state;
        rng_init_seed(&dice, 1);
        buf_init(&b, 0);
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                struct backoff made = parse(texts[i]);
                buf_clear(&b);
                backoff_pack(&made, &b);
                struct slice s = buf_slice(&b);
                assert_true(backoff_unpack(&got, &s));
                assert_int_equal(s.len, 0);
                assert_true(backoff_eq(&made, &got));
                for (size_t n = 0; n < b.len; n++) {
                        s = slice_make(b.ptr, n);
                        assert_false(backoff_unpack(&got, &s));
                        assert_int_equal(s.len, n);
                }
                for (size_t n = 0; n < b.len * 256; n++) {
                        char old = b.ptr[n / 256];
                        b.ptr[n / 256] = (char)(n % 256);
                        s = buf_slice(&b);
                        if (backoff_unpack(&got, &s))
                                assert_in_range(backoff_delay_ms(&got, 1 + n % 20, &dice), 0,
                                                BACKOFF_DELAY_MAX_MS);
                        b.ptr[n / 256] = old;
                }
        }
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(texts_read_and_print),
                cmocka_unit_test(wrong_texts_are_refused_with_a_reason),
                cmocka_unit_test(delays_without_jitter_are_exact),
                cmocka_unit_test(no_attempt_is_too_late_to_work_out),
                cmocka_unit_test(jitter_spreads_over_its_whole_range_and_not_beyond),
                cmocka_unit_test(a_backoff_reads_back_and_damaged_bytes_make_no_impossible_one),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

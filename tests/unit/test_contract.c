/* The foreign contracts' common part: which path is which route, how a request is taken apart, and
 * the spellings of Go. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rand.h"
#include "door/contract.h"
#include "door/freno.h"
#include "door/vitess.h"
#include "support/rig.h"

static struct contract_match match;

static const char *route_of(const char *path)
{
        return contract_find(slice_str(path), &match) ? match.route->path : "";
}

static void every_route_is_found_by_its_own_path(void **state)
{
        (void)state;
        for (size_t i = 0; i < freno_routes_len; i++) {
                assert_string_equal(route_of(freno_routes[i].path), freno_routes[i].path);
                assert_false(match.is_slash);
        }
        for (size_t i = 0; i < vitess_routes_len; i++)
                assert_string_equal(route_of(vitess_routes[i].path), vitess_routes[i].path);
}

static void a_path_gives_its_parameters_in_order(void **state)
{
        (void)state;
        assert_string_equal(route_of("/check-read/a%20b/mysql/main/1.5"),
                            "/check-read/:app/:storeType/:storeName/:threshold");
        assert_slice(match.param[0], "a%20b");
        assert_slice(match.param[1], "mysql");
        assert_slice(match.param[2], "main");
        assert_slice(match.param[3], "1.5");
        assert_string_equal(route_of("/throttle-app/x/ttl/5/ratio/0.5"),
                            "/throttle-app/:app/ttl/:ttlMinutes/ratio/:ratio");
        assert_slice(match.param[1], "5");
        assert_slice(match.param[2], "0.5");
}

static void what_is_no_route_is_not_taken_for_one(void **state)
{
        static const char *const others[] = {
                "",
                "/",
                "//",
                "check",
                "/check",
                "/check/a",
                "/check/a/b",
                "/check/a/b/c/d",
                "/checks/a/b/c",
                "/Check/a/b/c",
                "/throttler",
                "/throttler/",
                "/throttler/checks",
                "/v1/jobs",
                "/raft",
                "/throttle-app",
                "/throttle-app/x/ttl",
                "/throttle-app/x/ttll/5",
                "/config",
                "/metrics",
                "/check-read/a/mysql/m",
                "/skip-host",
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                assert_string_equal(route_of(others[i]), "");
}

static void a_slash_at_the_end_is_told_apart(void **state)
{
        (void)state;
        assert_string_equal(route_of("/check/a/mysql/m/"), "/check/:app/:storeType/:storeName");
        assert_true(match.is_slash);
        assert_string_equal(route_of("/lb-check/"), "/lb-check");
        assert_true(match.is_slash);
        assert_string_equal(route_of("/throttler/check/"), "/throttler/check");
        assert_true(match.is_slash);
        assert_string_equal(route_of("/lb-check//"), "");
        assert_string_equal(route_of("/check/a/mysql//"), "");
}

static void a_name_in_the_middle_may_be_empty_and_the_last_may_not(void **state)
{
        (void)state;
        assert_string_equal(route_of("/check//mysql/m"), "/check/:app/:storeType/:storeName");
        assert_slice(match.param[0], "");
        assert_string_equal(route_of("/check/a/mysql/"), "");
        assert_string_equal(route_of("/unthrottle-app/"), "");
}

static void only_what_changes_something_is_control(void **state)
{
        (void)state;
        size_t n = 0;
        for (size_t i = 0; i < freno_routes_len; i++)
                n += freno_routes[i].access == CONTRACT_CONTROL;
        assert_int_equal(n, 8);
        assert_true(contract_find(SLICE_LIT("/throttler/throttle-app"), &match));
        assert_int_equal(match.route->access, CONTRACT_CONTROL);
        assert_true(contract_find(SLICE_LIT("/throttler/check"), &match));
        assert_int_equal(match.route->access, CONTRACT_CHECK);
        assert_true(contract_find(SLICE_LIT("/throttled-apps"), &match));
        assert_int_equal(match.route->access, CONTRACT_READ);
}

static void query_values_are_found_decoded_and_in_order(void **state)
{
        struct arena arena;
        struct contract_call call = {.arena = &arena,
                                     .query = SLICE_LIT("m=a&x=1&m=b%2Fc&%6D=d+e&m&bad=%zz")};
        struct slice rest = call.query, v;
        (void)state;
        arena_init(&arena, MIB);
        assert_true(contract_query(&call, "x", &v));
        assert_slice(v, "1");
        assert_false(contract_query(&call, "y", &v));
        assert_false(contract_query(&call, "bad", &v));
        assert_true(contract_query_next(&call, &rest, "m", &v));
        assert_slice(v, "a");
        assert_true(contract_query_next(&call, &rest, "m", &v));
        assert_slice(v, "b/c");
        assert_true(contract_query_next(&call, &rest, "m", &v));
        assert_slice(v, "d e");
        assert_true(contract_query_next(&call, &rest, "m", &v));
        assert_int_equal(v.len, 0);
        assert_false(contract_query_next(&call, &rest, "m", &v));
        arena_release(&arena);
}

static void the_first_address_of_the_first_forwarding_line_counts(void **state)
{
        static const struct {
                const char *head, *address;
        } cases[] = {
                {"/ HTTP/1.1\r\nHost: a\r\n\r\n", ""},
                {"/ HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.1.2.3\r\n\r\n", "10.1.2.3"},
                {"/ HTTP/1.1\r\nx-forwarded-for:\t10.1.2.3 , 10.0.0.1\r\nHost: a\r\n\r\n",
                 "10.1.2.3"},
                {"/ HTTP/1.1\r\nX-Forwarded-For: a\r\nX-Forwarded-For: b\r\n\r\n", "a"},
                {"/ HTTP/1.1\r\nX-Forwarded-Form: a\r\nHost: b\r\n\r\n", ""},
                {"/ HTTP/1.1\r\nHost: a\r\n\r\nX-Forwarded-For: of the body\r\n", ""},
                {"/ HTTP/1.1\r\nX-Forwarded-For:\r\n\r\n", ""},
                {"/ HTTP/1.1\r\nX-Forwarded-For: [2001:db8::1]\r\n\r\n", "[2001:db8::1]"},
                {"/ HTTP/1.1\r\nX-Forwarded-For: <script>\r\n\r\n", ""},
                {"/ HTTP/1.1\r\nX-Forwarded-For: a\xff\r\n\r\n", ""},
                {"/ HTTP/1.1\r\nX-Forwarded-For: "
                 "012345678901234567890123456789012345678901234\r\n\r\n",
                 "012345678901234567890123456789012345678901234"},
                {"/ HTTP/1.1\r\nX-Forwarded-For: "
                 "0123456789012345678901234567890123456789012345\r\n\r\n",
                 ""},
                {"/ HTTP/1.1\r\nX-Forwarded-For: cut-off", ""},
                {"", ""},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                assert_slice(contract_forwarded(slice_str(cases[i].head)), cases[i].address);
}

/* --- Go -------------------------------------------------------------------------------------- */

static struct buf text;

static const char *go_float(double v)
{
        buf_clear(&text);
        put_go_float(&text, v);
        return buf_cstr(&text);
}

static const char *go_value(double v)
{
        buf_clear(&text);
        put_go_value(&text, v);
        return buf_cstr(&text);
}

static void floats_are_written_as_encoding_json_does(void **state)
{
        static const struct {
                double v;
                const char *text;
        } cases[] = {
                {0, "0"},
                {-0.0, "-0"},
                {1, "1"},
                {-1, "-1"},
                {0.430933, "0.430933"},
                {7.1, "7.1"},
                {0.1, "0.1"},
                {0.3, "0.3"},
                {0.1 + 0.2, "0.30000000000000004"},
                {100, "100"},
                {1e15, "1000000000000000"},
                {123456789012345678.0, "123456789012345680"},
                {1e20, "100000000000000000000"},
                {1e21, "1e+21"},
                {1.5e300, "1.5e+300"},
                {0.000001, "0.000001"},
                {0.0000015, "0.0000015"},
                {9.999e-7, "9.999e-7"},
                {1e-9, "1e-9"},
                {1.25e-10, "1.25e-10"},
                {-2.5e-7, "-2.5e-7"},
                {DBL_MAX, "1.7976931348623157e+308"},
                {5e-324, "5e-324"},
                {1.0 / 3, "0.3333333333333333"},
                {12345.678901, "12345.678901"},
                {0.000123456789, "0.000123456789"},
                {INFINITY, "0"},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                assert_string_equal(go_float(cases[i].v), cases[i].text);
        assert_string_equal(go_float(NAN), "0");
}

/* Digits that count: without the zeros at either end. */
static int n_digits(const char *p)
{
        int n = 0, zeros = 0;
        for (; *p && *p != 'e'; p++) {
                if (*p < '0' || *p > '9' || (!n && *p == '0'))
                        continue;
                zeros = *p == '0' ? zeros + 1 : 0;
                n++;
        }
        return n - zeros;
}

static void any_float_reads_back_the_same_and_none_shorter_does(void **state)
{
        struct rng rng;
        (void)state;
        rng_init_seed(&rng, 5);
        for (int i = 0; i < 200000; i++) {
                uint64_t bits = rng_u64(&rng);
                char shorter[64];
                double v;
                memcpy(&v, &bits, sizeof(v));
                if (i % 2) /* as metrics have them */
                        v = (double)(bits % 1000000000) / 1e6;
                if (!isfinite(v))
                        continue;
                assert_true(strtod(go_float(v), NULL) == v);
                int n = n_digits(text.ptr);
                if (n < 2)
                        continue;
                (void)snprintf(shorter, sizeof(shorter), "%.*e", n - 2, v);
                assert_true(strtod(shorter, NULL) != v);
        }
}

static void values_are_written_as_fmt_does(void **state)
{
        (void)state;
        assert_string_equal(go_value(1.5), "1.5");
        assert_string_equal(go_value(-1), "-1");
        assert_string_equal(go_value(0), "0");
        assert_string_equal(go_value(100000), "100000");
        assert_string_equal(go_value(1e6), "1e+06");
        assert_string_equal(go_value(1.25e-5), "1.25e-05");
        assert_string_equal(go_value(NAN), "NaN");
        assert_string_equal(go_value(INFINITY), "+Inf");
        assert_string_equal(go_value(-INFINITY), "-Inf");
}

static void times_are_rfc_3339_and_none_is_gos_zero(void **state)
{
        (void)state;
        buf_clear(&text);
        put_go_time(&text, 0);
        assert_string_equal(buf_cstr(&text), "\"0001-01-01T00:00:00Z\"");
        buf_clear(&text);
        put_go_time(&text, 1795000000000);
        assert_string_equal(buf_cstr(&text), "\"2026-11-18T11:06:40.000Z\"");
}

static void numbers_are_read_as_strconv_does(void **state)
{
        struct problem p;
        double d = 0;
        int64_t n = 0;
        (void)state;
        static const char *const good[] = {"1", "+1", "1.", "1e0", "01", "1.0E+0"};
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                assert_int_equal(go_to_float(slice_str(good[i]), &d, &p), OK);
                assert_true(d == 1);
        }
        assert_int_equal(go_to_float(SLICE_LIT(".5"), &d, &p), OK);
        assert_true(d == 0.5);
        assert_int_equal(go_to_float(SLICE_LIT("-Inf"), &d, &p), OK);
        assert_true(isinf(d));
        static const char *const bad[] = {"",   ".",   "x",    "1x",     " 1",  "1 ", "1e",
                                          "e5", "--1", "0x10", "nan(1)", "1,5", "+"};
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_int_equal(go_to_float(slice_str(bad[i]), &d, &p), ERR_BADARG);
        assert_int_equal(go_to_float(SLICE_LIT("abc"), &d, &p), ERR_BADARG);
        assert_string_equal(p.detail, "strconv.ParseFloat: parsing \"abc\": invalid syntax");
        assert_int_equal(go_to_float(SLICE_LIT("1e999"), &d, &p), ERR_BADARG);
        assert_string_equal(p.detail, "strconv.ParseFloat: parsing \"1e999\": value out of range");

        assert_int_equal(go_to_int(SLICE_LIT("-9223372036854775808"), &n, &p), OK);
        assert_true(n == INT64_MIN);
        assert_int_equal(go_to_int(SLICE_LIT("+9223372036854775807"), &n, &p), OK);
        assert_true(n == INT64_MAX);
        assert_int_equal(go_to_int(SLICE_LIT("007"), &n, &p), OK);
        assert_int_equal(n, 7);
        assert_int_equal(go_to_int(SLICE_LIT("9223372036854775808"), &n, &p), ERR_BADARG);
        assert_string_equal(
                p.detail, "strconv.ParseInt: parsing \"9223372036854775808\": value out of range");
        assert_int_equal(go_to_int(SLICE_LIT("99999999999999999999999"), &n, &p), ERR_BADARG);
        static const char *const none[] = {"", "-", "1.5", "x", "1x", "0x1", " 1"};
        for (size_t i = 0; i < ARRAY_LEN(none); i++)
                assert_int_equal(go_to_int(slice_str(none[i]), &n, &p), ERR_BADARG);
}

static void a_ratio_lies_between_0_and_1(void **state)
{
        struct problem p;
        double d = 5;
        (void)state;
        assert_int_equal(go_to_ratio(SLICE_LIT("0"), &d, &p), OK);
        assert_true(d == 0);
        assert_int_equal(go_to_ratio(SLICE_LIT("1"), &d, &p), OK);
        assert_int_equal(go_to_ratio(SLICE_LIT("1.5"), &d, &p), ERR_BADARG);
        assert_string_equal(p.detail, "ratio must be in [0..1] range; got 1.5");
        assert_int_equal(go_to_ratio(SLICE_LIT("-0.1"), &d, &p), ERR_BADARG);
        assert_string_equal(p.detail, "ratio must be in [0..1] range; got -0.1");
        assert_int_equal(go_to_ratio(SLICE_LIT("NaN"), &d, &p), ERR_BADARG);
        assert_string_equal(p.detail, "ratio must be in [0..1] range; got NaN");
        assert_true(d == 1);
}

static void durations_are_read_as_time_does(void **state)
{
        static const struct {
                const char *text;
                int64_t ns;
        } good[] = {
                {"0", 0},
                {"1h", 3600 * NS_PER_S},
                {"1h30m", 5400 * NS_PER_S},
                {"90s", 90 * NS_PER_S},
                {"1.5s", 1500 * NS_PER_MS},
                {".5m", 30 * NS_PER_S},
                {"5.s", 5 * NS_PER_S},
                {"-5ms", -5 * NS_PER_MS},
                {"+3us", 3000},
                {"2\xc2\xb5s", 2000},
                {"100ns", 100},
                {"1m1m", 120 * NS_PER_S},
        };
        static const struct {
                const char *text, *why;
        } bad[] = {
                {"", "time: invalid duration \"\""},
                {"-", "time: invalid duration \"-\""},
                {"x", "time: invalid duration \"x\""},
                {"5", "time: missing unit in duration \"5\""},
                {"5d", "time: unknown unit \"d\" in duration \"5d\""},
                {"1h5", "time: missing unit in duration \"1h5\""},
                {".s", "time: invalid duration \".s\""},
                {"9999999h", "time: invalid duration \"9999999h\""},
                {"99999999999999999999s", "time: invalid duration \"99999999999999999999s\""},
                {"2562047h2562047h", "time: invalid duration \"2562047h2562047h\""},
        };
        struct problem p;
        int64_t ns = 0;
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                assert_int_equal(go_to_duration_ns(slice_str(good[i].text), &ns, &p), OK);
                assert_true(ns == good[i].ns);
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                assert_int_equal(go_to_duration_ns(slice_str(bad[i].text), &ns, &p), ERR_BADARG);
                assert_string_equal(p.detail, bad[i].why);
        }
}

/* What a check of Vitess's contract says about those before it. */
static bool is_checked_recently(struct rig *rig, const char *query, int64_t *checked_ns)
{
        static struct check_answer answer;
        struct arena arena;
        arena_init(&arena, 0);
        buf_clear(&text);
        assert_true(contract_find(SLICE_LIT("/throttler/check"), &match));
        struct contract_call call = {.core = rig->core,
                                     .now = rig->now,
                                     .query = slice_str(query),
                                     .arena = &arena,
                                     .answer = &answer,
                                     .checked_ns = checked_ns,
                                     .body = &text};
        contract_run(&call, &match);
        arena_release(&arena);
        assert_int_equal(call.status, 200);
        bool is_recent = strstr(buf_cstr(&text), "\"RecentlyChecked\":true") != NULL;
        assert_true(is_recent || strstr(buf_cstr(&text), "\"RecentlyChecked\":false"));
        return is_recent;
}

static void recently_is_within_two_seconds_whatever_the_wall_clock_does(void **unused)
{
        (void)unused;
        static const int64_t steps_ms[] = {0, -5 * 3600000, 5 * 3600000};
        struct rig rig;
        rig_init(&rig);
        for (size_t i = 0; i < ARRAY_LEN(steps_ms); i++) {
                int64_t checked_ns = 0;
                assert_false(is_checked_recently(&rig, "", &checked_ns));
                assert_true(is_checked_recently(&rig, "app=etl", &checked_ns));
                rig.now.wall_ms += steps_ms[i];
                rig_pass_ms(&rig, 1999);
                assert_true(is_checked_recently(&rig, "", &checked_ns));
                rig_pass_ms(&rig, 1);
                assert_false(is_checked_recently(&rig, "", &checked_ns));
        }
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_route_is_found_by_its_own_path),
                cmocka_unit_test(a_path_gives_its_parameters_in_order),
                cmocka_unit_test(what_is_no_route_is_not_taken_for_one),
                cmocka_unit_test(a_slash_at_the_end_is_told_apart),
                cmocka_unit_test(a_name_in_the_middle_may_be_empty_and_the_last_may_not),
                cmocka_unit_test(only_what_changes_something_is_control),
                cmocka_unit_test(query_values_are_found_decoded_and_in_order),
                cmocka_unit_test(the_first_address_of_the_first_forwarding_line_counts),
                cmocka_unit_test(floats_are_written_as_encoding_json_does),
                cmocka_unit_test(any_float_reads_back_the_same_and_none_shorter_does),
                cmocka_unit_test(values_are_written_as_fmt_does),
                cmocka_unit_test(times_are_rfc_3339_and_none_is_gos_zero),
                cmocka_unit_test(numbers_are_read_as_strconv_does),
                cmocka_unit_test(a_ratio_lies_between_0_and_1),
                cmocka_unit_test(durations_are_read_as_time_does),
                cmocka_unit_test(recently_is_within_two_seconds_whatever_the_wall_clock_does),
        };
        buf_init(&text, 0);
        int r = cmocka_run_group_tests(tests, NULL, NULL);
        buf_release(&text);
        return r;
}

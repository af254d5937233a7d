/* One lag out of those of several replicas: which count, which are left out and named. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "probe/probe_int.h"

static struct lag_slot lag(const char *name, double value)
{
        return (struct lag_slot){
                .name = name, .is_known = true, .reading = {.value = value}, .at_ns = 5};
}

static struct lag_slot lost(const char *name)
{
        struct lag_slot s = {.name = name, .is_known = true, .at_ns = 5};
        reading_fail(&s.reading, "%s (h:1): gone", name);
        return s;
}

static void the_worst_replica_counts_and_those_left_out_are_named(void **unused)
{
        (void)unused;
        const struct {
                struct lag_slot slots[3];
                unsigned ignore;
                bool is_fine;
                double value; /* NAN: an error */
                const char *text;
        } cases[] = {
                {{lag("a", 1), lag("b", 7), lag("c", 3)}, 0, false, 7, ""},
                {{lag("a", 1), lag("b", 7), lag("c", 3)}, 1, false, 3, "left out: b: lag 7.0 s"},
                {{lag("a", 1), lag("b", 7), lag("c", 3)}, 2, false, 1, "lag 3.0 s"},
                {{lag("a", 4), lag("b", 4), lag("c", 4)}, 2, false, 4, "left out: a"},
                {{lag("a", 1), lost("b"), lag("c", 3)}, 0, false, NAN, "b (h:1): gone"},
                {{lag("a", 1), lost("b"), lag("c", 3)}, 1, false, 3, "left out: b (h:1): gone"},
                {{lag("a", 1), lost("b"), lag("c", 3)}, 0, true, 3, "left out: b (h:1): gone"},
                {{lag("a", 1), lost("b"), lag("c", 3)}, 1, true, 3, "left out: b (h:1): gone"},
                {{lag("a", 1), lost("b"), lost("c")}, 1, false, NAN, "c (h:1): gone"},
                {{lag("a", 1), lost("b"), lost("c")}, 2, false, 1, "left out: b"},
                {{lost("a"), lost("b"), lost("c")}, 0, true, NAN, "no replica answers: a"},
                {{lost("a"), lost("b"), lost("c")}, 2, true, NAN, "no replica answers: a"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct probe_options o = {.ignore_replicas = cases[i].ignore,
                                          .is_missing_replica_fine = cases[i].is_fine};
                struct reading got;
                int64_t at_ns;
                assert_true(lag_combine(cases[i].slots, 3, &o, &got, &at_ns));
                if (got.is_error != isnan(cases[i].value) ||
                    (!got.is_error && got.value != cases[i].value) ||
                    !strstr(got.text, cases[i].text) || (!cases[i].text[0] && got.text[0]))
                        fail_msg("case %zu: %g '%s'", i, got.value, got.text);
        }
}

static void a_remark_of_a_replica_that_counts_is_told(void **unused)
{
        (void)unused;
        struct lag_slot slots[] = {lag("a", 1), lag("b", 7), lag("c", 3)};
        struct probe_options o = {.ignore_replicas = 1};
        struct reading got;
        int64_t at_ns;
        reading_remark(&slots[2].reading, "c: is it the time zone?");
        assert_true(lag_combine(slots, 3, &o, &got, &at_ns));
        assert_false(got.is_error);
        assert_true(got.value == 3);
        assert_string_equal(got.text, "left out: b: lag 7.0 s; c: is it the time zone?");
}

static struct lag_slot silent(const char *name)
{
        struct lag_slot s = lost(name);
        s.reading.is_silent = true;
        return s;
}

static void silence_is_told_only_where_nobody_said_otherwise(void **unused)
{
        (void)unused;
        const struct {
                struct lag_slot slots[2];
                unsigned ignore;
                bool is_fine, is_silent;
                const char *text;
        } cases[] = {
                {{lag("a", 1), silent("b")}, 0, false, true, "b (h:1): gone"},
                {{lag("a", 1), lost("b")}, 0, false, false, "b (h:1): gone"},
                {{silent("a"), lost("b")}, 0, false, false, "b (h:1): gone"},
                {{lost("a"), silent("b")}, 0, false, false, "a (h:1): gone"},
                /* The last value may have been that of the silent one. */
                {{lost("a"), silent("b")}, 0, true, true, "no replica answers: a (h:1): gone"},
                {{lost("a"), lost("b")}, 0, true, false, "no replica answers: a (h:1): gone"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct probe_options o = {.ignore_replicas = cases[i].ignore,
                                          .is_missing_replica_fine = cases[i].is_fine};
                struct reading got;
                int64_t at_ns;
                assert_true(lag_combine(cases[i].slots, 2, &o, &got, &at_ns));
                if (!got.is_error || got.is_silent != cases[i].is_silent ||
                    strcmp(got.text, cases[i].text) != 0)
                        fail_msg("case %zu: %d '%s'", i, got.is_silent, got.text);
        }
}

static struct lag_slot skipped(struct lag_slot s)
{
        s.is_skipped = true;
        return s;
}

static void a_skipped_replica_is_as_good_as_not_there_and_is_named(void **unused)
{
        (void)unused;
        const struct {
                struct lag_slot slots[3];
                unsigned ignore;
                bool is_fine;
                double value; /* NAN: an error */
                const char *text;
        } cases[] = {
                {{lag("a", 1), skipped(lag("b", 7)), lag("c", 3)},
                 0,
                 false,
                 3,
                 "left out: b: skipped"},
                {{lag("a", 1), skipped(lost("b")), lag("c", 3)},
                 0,
                 false,
                 3,
                 "left out: b: skipped"},
                {{skipped(lag("a", 9)), skipped(lost("b")), lag("c", 3)},
                 0,
                 false,
                 3,
                 "left out: a: skipped; b: skipped"},
                /* It uses up no ignored place, and one of those that are left always counts. */
                {{lag("a", 1), skipped(lag("b", 7)), lag("c", 3)},
                 1,
                 false,
                 1,
                 "left out: b: skipped; c: lag 3.0 s"},
                {{lag("a", 1), skipped(lag("b", 7)), lag("c", 3)}, 2, false, 1, "c: lag 3.0 s"},
                {{lag("a", 6), skipped(lag("b", 7)), skipped(lag("c", 9))},
                 2,
                 false,
                 6,
                 "left out: b: skipped; c: skipped"},
                {{lost("a"), skipped(lag("b", 7)), skipped(lag("c", 9))},
                 2,
                 false,
                 NAN,
                 "a (h:1): gone"},
                {{skipped(lost("b")), lost("a"), skipped(lag("c", 9))},
                 0,
                 true,
                 NAN,
                 "no replica answers: a (h:1): gone"},
                /* Nobody has asked this one yet, and nobody has to. */
                {{lag("a", 1), skipped((struct lag_slot){.name = "b"}), lag("c", 3)},
                 0,
                 false,
                 3,
                 "left out: b: skipped"},
                {{skipped(lag("a", 0)), skipped(lag("b", 0)), skipped(lost("c"))},
                 0,
                 true,
                 NAN,
                 "all replicas are skipped"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct probe_options o = {.ignore_replicas = cases[i].ignore,
                                          .is_missing_replica_fine = cases[i].is_fine};
                struct reading got;
                int64_t at_ns;
                assert_true(lag_combine(cases[i].slots, 3, &o, &got, &at_ns));
                if (got.is_error != isnan(cases[i].value) ||
                    (!got.is_error && got.value != cases[i].value) ||
                    !strstr(got.text, cases[i].text))
                        fail_msg("case %zu: %g '%s'", i, got.value, got.text);
                assert_int_equal(at_ns, got.is_error ? 0 : 5);
        }
}

static void a_replica_is_called_by_its_name_its_host_or_host_and_port(void **unused)
{
        (void)unused;
        static char v4[] = "10.0.0.2", v6[] = "::1", sock[] = "/run/db.sock", name[] = "db2",
                    dns[] = "DB2.example";
        const struct {
                struct sql_server server;
                const char *called;
                bool is_so;
        } cases[] = {
                {{v4, 3306, name, NULL}, "db2", true},
                {{v4, 3306, name, NULL}, "DB2", true},
                {{v4, 3306, name, NULL}, "10.0.0.2", true},
                {{v4, 3306, name, NULL}, "10.0.0.2:3306", true},
                {{v4, 3306, name, NULL}, "10.0.0.2:3307", false},
                {{v4, 3306, name, NULL}, "10.0.0.20", false},
                {{v4, 3306, name, NULL}, "10.0.0.", false},
                {{v4, 3306, name, NULL}, "db2:3306", false},
                {{v4, 3306, name, NULL}, "db", false},
                {{v4, 3306, name, NULL}, "", false},
                {{v4, 3306, NULL, NULL}, "db2", false},
                {{v6, 3306, NULL, NULL}, "[::1]:3306", true},
                {{v6, 3306, NULL, NULL}, "::1", true},
                {{sock, 3306, name, NULL}, "/run/db.sock", true},
                {{sock, 3306, name, NULL}, "/run/db.sock:3306", false},
                {{dns, 3306, name, NULL}, "db2.EXAMPLE:3306", true},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                if (server_is_called(&cases[i].server, cases[i].called) != cases[i].is_so)
                        fail_msg("case %zu: '%s'", i, cases[i].called);
}

static void no_lag_is_told_before_every_replica_was_asked(void **unused)
{
        (void)unused;
        struct lag_slot slots[2] = {lag("a", 1), {.name = "b"}};
        struct probe_options o = {.is_missing_replica_fine = true};
        struct reading got;
        int64_t at_ns;
        assert_false(lag_combine(slots, 2, &o, &got, &at_ns));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_worst_replica_counts_and_those_left_out_are_named),
                cmocka_unit_test(no_lag_is_told_before_every_replica_was_asked),
                cmocka_unit_test(a_remark_of_a_replica_that_counts_is_told),
                cmocka_unit_test(silence_is_told_only_where_nobody_said_otherwise),
                cmocka_unit_test(a_skipped_replica_is_as_good_as_not_there_and_is_named),
                cmocka_unit_test(a_replica_is_called_by_its_name_its_host_or_host_and_port),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The lag of a PostgreSQL replica, from where the log ends and where the replica is. */
#include "check.h"

#include "../../src/probe/postgres.c" /* NOLINT(bugprone-suspicious-include) */

#define S       NS_PER_S
#define UNKNOWN (-1.0)

static void the_lag_is_for_how_long_the_log_has_been_longer(void **unused)
{
        (void)unused;
        struct plan plan = {0};
        assert_true(lag_of(&plan, UNKNOWN, 1000, 1000, 1 * S) == 0);
        assert_true(lag_of(&plan, UNKNOWN, 2000, 1000, 2 * S) == 0);
        assert_true(lag_of(&plan, UNKNOWN, 3000, 1000, 5 * S) == 3);
        assert_true(lag_of(&plan, UNKNOWN, 3000, 2000, 6 * S) == 1);
        assert_true(lag_of(&plan, UNKNOWN, 3000, 3000, 7 * S) == 0);
}

/* Restored from a backup, or another server behind the name. */
static void a_log_that_begins_anew_is_not_behind_that_of_before(void **unused)
{
        (void)unused;
        struct plan plan = {0};
        for (int i = 1; i <= 3600; i++)
                assert_true(lag_of(&plan, UNKNOWN, 1e9 + i, 1e9 + i, i * S) == 0);
        assert_true(lag_of(&plan, UNKNOWN, 500, 500, 3601 * S) == 0);
        assert_true(lag_of(&plan, UNKNOWN, 600, 500, 3602 * S) == 0);
        assert_true(lag_of(&plan, UNKNOWN, 700, 500, 3604 * S) == 2);
        assert_true(lag_of(&plan, 9999, 700, 600, 3605 * S) == 1);
}

/* The new primary had not all of the log of the old one. */
static void what_a_failover_lost_is_not_waited_for(void **unused)
{
        (void)unused;
        struct plan plan = {0};
        assert_true(lag_of(&plan, UNKNOWN, 1000, 1000, 1 * S) == 0);
        assert_true(lag_of(&plan, UNKNOWN, 5000, 5000, 2 * S) == 0);
        assert_true(lag_of(&plan, UNKNOWN, 1500, 1500, 100 * S) == 0);
        assert_true(lag_of(&plan, UNKNOWN, 1600, 1500, 101 * S) == 0);
        assert_true(lag_of(&plan, UNKNOWN, 6000, 1600, 102 * S) == 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_lag_is_for_how_long_the_log_has_been_longer),
                cmocka_unit_test(a_log_that_begins_anew_is_not_behind_that_of_before),
                cmocka_unit_test(what_a_failover_lost_is_not_waited_for),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

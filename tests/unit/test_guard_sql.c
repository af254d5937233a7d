/* The statements of the guard, as text; tests/integration/guard_store.py runs them. */
#include "check.h"

#include "../../src/guard/move.c"   /* NOLINT(bugprone-suspicious-include) */
#include "../../src/guard/store.c"  /* NOLINT(bugprone-suspicious-include) */
#include "../../src/guard/survey.c" /* NOLINT(bugprone-suspicious-include) */

static const struct store_options options = {
        .name = "shop",
        .prefix = "wp_2_",
        .login = {.server = {.host = (char[]){"127.0.0.1"}, .port = 3306},
                  .user = (char[]){"weir"},
                  .database = (char[]){"my`shop"}},
        .timeout_ms = 1000};

static void begin(struct store *s)
{
        store_init(s, &options, -1);
        s->facts.is_mariadb = true;
        s->facts.hook_index = "hook_status_scheduled_date_gmt";
}

static void assert_text(struct buf *b, const char *wanted)
{
        assert_string_equal(buf_cstr(b), wanted);
        buf_clear(b);
}

static void dates_are_utc_and_stay_within_what_a_column_holds(void **state)
{
        static const struct {
                int64_t unix_s;
                const char *text;
        } rows[] = {
                {0, "'1970-01-01 00:00:00'"},          {-5, "'1970-01-01 00:00:00'"},
                {951782399, "'2000-02-28 23:59:59'"},  {951868799, "'2000-02-29 23:59:59'"},
                {4102444800, "'2100-01-01 00:00:00'"}, {INT64_MAX, "'9999-12-31 23:59:59'"},
        };
        struct buf b CLEANUP(buf_release) = {0};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                store_put_date(&b, rows[i].unix_s);
                assert_text(&b, rows[i].text);
        }
}

static void a_hop_goes_on_behind_a_space_and_the_lowest_character(void **state)
{
        struct buf b CLEANUP(buf_release) = {0};
        char longest[SITE_HOOK_MAX + 1] = {0}, wanted[SITE_HOOK_MAX + 1] = {0};
        (void)state;
        put_successor(&b, SLICE_LIT("sync"), '`');
        assert_text(&b, "sync `");
        put_successor(&b, SLICE_LIT("s\xc3\xbfnc"), '!');
        assert_text(&b, "s\xc3\xbfnc !");
        memset(longest, 'x', SITE_HOOK_MAX);
        memset(wanted, 'x', HOP_CHARS);
        put_successor(&b, slice_str(wanted), '`');
        assert_int_equal(b.len, HOP_CHARS + 2);
        buf_clear(&b);
        put_successor(&b, slice_str(longest), '`');
        memcpy(wanted + HOP_CHARS, "zzz", 3);
        assert_text(&b, wanted);
}

static void a_move_changes_each_row_only_while_it_has_its_date(void **state)
{
        struct store s;
        struct change_row rows[] = {{.id = 7, .has_s = 60}, {.id = 9, .has_s = 120}};
        const struct change c = {.rows = rows, .n = 2, .to_s = 86400};
        (void)state;
        begin(&s);
        put_update(&s, &c, 0, 2);
        assert_text(&s.sql,
                    "UPDATE `wp_2_actionscheduler_actions` FORCE INDEX (PRIMARY) SET "
                    "scheduled_date_local = COALESCE(scheduled_date_local + INTERVAL "
                    "TIMESTAMPDIFF(SECOND, scheduled_date_gmt, '1970-01-02 00:00:00') SECOND, "
                    "scheduled_date_local), scheduled_date_gmt = '1970-01-02 00:00:00' WHERE "
                    "action_id IN (7,9) AND claim_id = 0 AND status = 'pending' AND "
                    "scheduled_date_gmt = ELT(INTERVAL(action_id,7,9),'1970-01-01 00:01:00',"
                    "'1970-01-01 00:02:00')");
        store_release(&s);
}

static void a_return_gives_each_row_its_own_date_from_either_date_of_the_batch(void **state)
{
        struct store s;
        struct change_row rows[] = {{.id = 7, .to_s = 60}};
        const int64_t from_s[2] = {0, 120};
        const struct change c = {.rows = rows, .n = 1, .from_s = from_s};
        (void)state;
        begin(&s);
        put_update(&s, &c, 0, 1);
        assert_text(&s.sql,
                    "UPDATE `wp_2_actionscheduler_actions` FORCE INDEX (PRIMARY) SET "
                    "scheduled_date_local = COALESCE(scheduled_date_local + INTERVAL "
                    "TIMESTAMPDIFF(SECOND, scheduled_date_gmt, ELT(INTERVAL(action_id,7),"
                    "'1970-01-01 00:01:00')) SECOND, scheduled_date_local), scheduled_date_gmt = "
                    "ELT(INTERVAL(action_id,7),'1970-01-01 00:01:00') WHERE action_id IN (7) AND "
                    "claim_id = 0 AND status = 'pending' AND scheduled_date_gmt IN "
                    "('1970-01-01 00:02:00','1970-01-01 00:02:00')");
        store_release(&s);
}

static void rows_of_a_change_are_sorted_for_the_binary_search(void **state)
{
        struct change_row rows[] = {{.id = 9}, {.id = UINT64_MAX}, {.id = 3}, {.id = 7}};
        (void)state;
        qsort(rows, ARRAY_LEN(rows), sizeof(rows[0]), order_by_id);
        assert_int_equal(rows[0].id, 3);
        assert_int_equal(rows[1].id, 7);
        assert_int_equal(rows[2].id, 9);
        assert_true(rows[3].id == UINT64_MAX);
}

static void a_row_without_a_readable_schedule_has_its_own_date(void **state)
{
        static const struct {
                const char *original;
                int64_t original_s;
                bool is_async;
        } rows[] = {{"900", 900, false}, {"0", 1000, true},     {"-4", 1000, true},
                    {"x", 1000, true},   {"5000", 1000, false}, {"1000", 1000, false}};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct slice cells[] = {SLICE_LIT("5"), SLICE_LIT("1000"),
                                              slice_str(rows[i].original), SLICE_LIT("1")};
                struct site_due_row row;
                assert_true(read_row(cells, &row));
                assert_int_equal(row.row.original_s, rows[i].original_s);
                assert_int_equal(row.is_async, rows[i].is_async);
        }
        const struct slice other[] = {SLICE_LIT("5"), SLICE_LIT("1000"), SLICE_LIT("0"),
                                      SLICE_LIT("0")};
        struct site_due_row row;
        assert_false(read_row(other, &row));
}

static void grants_name_what_a_mode_needs_and_no_more(void **state)
{
        struct store s;
        struct buf b CLEANUP(buf_release) = {0};
        (void)state;
        begin(&s);
        store_put_grants(&s, MODE_OBSERVE, &b);
        assert_non_null(strstr(buf_cstr(&b), "GRANT SELECT ON `my``shop`.`wp_2_options` TO "
                                             "'weir'@'%';\n"));
        assert_null(strstr(buf_cstr(&b), "UPDATE"));
        buf_clear(&b);
        store_put_grants(&s, MODE_ENFORCE, &b);
        assert_non_null(strstr(buf_cstr(&b),
                               "GRANT SELECT, UPDATE (scheduled_date_gmt, scheduled_date_local, "
                               "claim_id, status), UPDATE (priority), DELETE ON "));
        buf_clear(&b);
        store_put_grants(&s, MODE_OFF, &b);
        assert_int_equal(b.len, 0);
        store_release(&s);
}

static void a_refusal_of_either_server_becomes_the_grant_to_run(void **state)
{
        static const struct {
                const char *said, *wanted;
        } rows[] = {
                {"a privilege is missing: DELETE command denied to user 'w'@'h' for table "
                 "`my`.`wp_2_actionscheduler_claims`",
                 "a privilege is missing; run: GRANT DELETE ON "
                 "`my``shop`.`wp_2_actionscheduler_claims` TO 'weir'@'%'"},
                {"a privilege is missing: UPDATE command denied to user 'w'@'h' for column "
                 "'status' in table 'wp_2_actionscheduler_actions'",
                 "a privilege is missing; run: GRANT UPDATE (scheduled_date_gmt, "
                 "scheduled_date_local, claim_id, status) ON "
                 "`my``shop`.`wp_2_actionscheduler_actions` TO 'weir'@'%'"},
                {"a privilege is missing: UPDATE command denied to user 'w'@'h' for column "
                 "'priority' in table 'wp_2_actionscheduler_actions'",
                 "a privilege is missing; run: GRANT UPDATE (priority) ON "
                 "`my``shop`.`wp_2_actionscheduler_actions` TO 'weir'@'%'"},
                {"a privilege is missing: INSERT, UPDATE command denied to user 'w'@'h' for table "
                 "'wp_2_options'",
                 "a privilege is missing; run: GRANT INSERT, UPDATE ON "
                 "`my``shop`.`wp_2_options` TO 'weir'@'%'"},
                {"a privilege is missing: of another kind",
                 "a privilege is missing: of another kind"},
                {"a privilege is missing: SELECT command denied to user 'w'@'h' for table 'other'",
                 "a privilege is missing: SELECT command denied to user 'w'@'h' for table "
                 "'other'"}};
        struct store s;
        (void)state;
        begin(&s);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct problem p;
                (void)problem_set(&p, ERR_FORBIDDEN, "%s", rows[i].said);
                assert_int_equal(name_grant(&s, &p), ERR_FORBIDDEN);
                assert_string_equal(p.detail, rows[i].wanted);
        }
        store_release(&s);
}

/* A date is given back to an earlier one, and of a schedule to its own or to none. */
static void a_forgotten_move_goes_back_and_a_series_never_before_its_schedule(void **state)
{
        const int64_t now_s = 1000000, dates[] = {INT64_MIN, -1,      0,       1,       999000,
                                                  999999,    1000000, 1000001, 1003600, INT64_MAX};
        (void)state;
        for (size_t d = 0; d < ARRAY_LEN(dates); d++)
                for (size_t c = 0; c < ARRAY_LEN(dates); c++)
                        for (size_t l = 0; l < 2 * ARRAY_LEN(dates); l++) {
                                const struct store_stray s = {.date_s = dates[d],
                                                              .schedule_s = dates[c],
                                                              .line_s = dates[l / 2],
                                                              .runs_once = l % 2};
                                int64_t to_s = store_stray_original_s(&s, now_s);
                                assert_true(to_s >= 0);
                                assert_true(!to_s || to_s < s.date_s);
                                if (s.schedule_s > 0)
                                        assert_true(!to_s || to_s == s.schedule_s);
                                else
                                        assert_true(!to_s || (s.runs_once && to_s <= now_s));
                        }
        static const struct {
                struct store_stray stray;
                int64_t to_s;
        } rows[] = {
                {{1003600, 999000, 999500, true}, 999000},
                {{1003600, 999000, 999500, false}, 999000},
                {{1003600, 0, 999500, true}, 999500},
                {{1003600, 0, 999500, false}, 0},
                {{1003600, 0, 0, true}, 1000000},
                {{1003600, 0, 1000500, true}, 1000000},
                {{1003600, 1003600, 999500, true}, 0},
                {{1003600, 1009999, 999500, true}, 0},
                {{1003600, 1000300, 999500, false}, 1000300},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_int_equal(store_stray_original_s(&rows[i].stray, now_s), rows[i].to_s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(dates_are_utc_and_stay_within_what_a_column_holds),
                cmocka_unit_test(a_hop_goes_on_behind_a_space_and_the_lowest_character),
                cmocka_unit_test(a_move_changes_each_row_only_while_it_has_its_date),
                cmocka_unit_test(
                        a_return_gives_each_row_its_own_date_from_either_date_of_the_batch),
                cmocka_unit_test(rows_of_a_change_are_sorted_for_the_binary_search),
                cmocka_unit_test(a_row_without_a_readable_schedule_has_its_own_date),
                cmocka_unit_test(grants_name_what_a_mode_needs_and_no_more),
                cmocka_unit_test(a_refusal_of_either_server_becomes_the_grant_to_run),
                cmocka_unit_test(a_forgotten_move_goes_back_and_a_series_never_before_its_schedule),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

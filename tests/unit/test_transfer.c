/* Serialized schedules as strangers write them: each is read, and no part of one is read beyond its
 * end. */
#include "guard/transfer.c" // NOLINT(bugprone-suspicious-include): the readers are its own

#include <stdlib.h>

#include "check.h"

/* As PHP writes them; NULs are dots here. */
#define SIMPLE                                                                                     \
        "O:30:\"ActionScheduler_SimpleSchedule\":2:{s:22:\".*.scheduled_timestamp\";i:1714550400;" \
        "s:41:\".ActionScheduler_SimpleSchedule.timestamp\";i:1714550400;}"
#define CRON(n, parts)                                                                             \
        "O:28:\"ActionScheduler_CronSchedule\":5:{s:22:\".*.scheduled_timestamp\";i:1714550400;"   \
        "s:13:\".*.recurrence\";O:14:\"CronExpression\":2:{s:25:\".CronExpression.cronParts\";"    \
        "a:" n ":{" parts "}}}"
#define FIVE "i:0;s:3:\"*/5\";i:1;s:1:\"0\";i:2;s:1:\"*\";i:3;s:1:\"*\";i:4;s:3:\"1-5\";"

static struct transfer_action read_text(const char *text, size_t len)
{
        struct transfer_action a = {.date_s = 1800000000};
        char *exact = malloc(len ? len : 1); /* so that the sanitizer sees the end */
        for (size_t i = 0; i < len; i++)
                exact[i] = text[i] == '.' ? '\0' : text[i];
        read_schedule(slice_make(exact, len), &a);
        free(exact);
        return a;
}

static struct transfer_action read_str(const char *text)
{
        return read_text(text, strlen(text));
}

static void each_kind_of_schedule_is_read(void **unused)
{
        (void)unused;
        struct transfer_action a = read_str("O:28:\"ActionScheduler_NullSchedule\":0:{}");
        assert_true(a.kind == TRANSFER_ASYNC && a.why == WHY_NONE && a.date_s == 1800000000);
        a = read_str(SIMPLE);
        assert_true(a.kind == TRANSFER_SIMPLE && a.why == WHY_NONE && a.date_s == 1714550400);
        a = read_str("O:32:\"ActionScheduler_IntervalSchedule\":5:{s:22:\".*.scheduled_timestamp\";"
                     "i:1714550400;s:53:\".ActionScheduler_IntervalSchedule.interval_in_seconds\";"
                     "i:300;}");
        assert_true(a.kind == TRANSFER_INTERVAL && a.every_s == 300);
        a = read_str(CRON("5", FIVE));
        assert_true(a.kind == TRANSFER_CRON && a.why == WHY_NONE);
        assert_string_equal(a.cron, "*/5 0 * * 1-5");
}

static void a_year_is_refused_unless_it_is_any(void **unused)
{
        (void)unused;
        assert_true(read_str(CRON("6", FIVE "i:5;s:4:\"2030\";")).why == WHY_YEAR);
        assert_true(read_str(CRON("6", FIVE "i:5;s:1:\"*\";")).why == WHY_NONE);
}

static void strange_schedules_are_refused(void **unused)
{
        (void)unused;
        static const struct {
                const char *text;
                enum transfer_why why;
        } rows[] = {
                {"", WHY_CLASS},
                {"a:0:{}", WHY_CLASS},
                {"O:7:\"MyClass\":0:{}", WHY_CLASS},
                {CRON("4", FIVE), WHY_CRON},
                {CRON("7", FIVE), WHY_CRON},
                {CRON("5", "i:0;s:99:\"*\";"), WHY_CRON},
                {CRON("5", "i:1;s:1:\"*\";"), WHY_CRON},
                {CRON("5", "i:0;s:-1:\"*\";"), WHY_CRON},
                {CRON("5", FIVE "i:5;s:1:\"*\";"), WHY_CRON},
                {CRON("5", "i:0;i:5;"), WHY_CRON},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_int_equal(read_str(rows[i].text).why, rows[i].why);
}

static void a_schedule_that_breaks_off_is_not_read_beyond_its_end(void **unused)
{
        (void)unused;
        static const char *const texts[] = {SIMPLE, CRON("5", FIVE),
                                            CRON("6", FIVE "i:5;s:4:\"2030\";")};
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                for (size_t len = 0; len < strlen(texts[i]); len++)
                        (void)read_text(texts[i], len);
}

static void a_schedule_is_written_as_action_scheduler_does(void **unused)
{
        (void)unused;
        struct buf b CLEANUP(buf_release) = {0};
        put_schedule(&b, TRANSFER_SIMPLE, 1714550400, 0);
        for (size_t i = 0; i < b.len; i++)
                b.ptr[i] = b.ptr[i] ? b.ptr[i] : '.';
        assert_string_equal(buf_cstr(&b), SIMPLE);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_kind_of_schedule_is_read),
                cmocka_unit_test(a_year_is_refused_unless_it_is_any),
                cmocka_unit_test(strange_schedules_are_refused),
                cmocka_unit_test(a_schedule_that_breaks_off_is_not_read_beyond_its_end),
                cmocka_unit_test(a_schedule_is_written_as_action_scheduler_does),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

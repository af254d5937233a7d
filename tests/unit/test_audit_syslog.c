/* Entries of the audit trail as lines for syslog. */
#include "serve/audit_syslog.h"

#include "check.h"

static const struct audit_entry entry = {
        .number = 12,
        .at_ms = 1700000000123,
        .times = 3,
        .who = SLICE_LIT("ops"),
        .role = SLICE_LIT("operator"),
        .address = SLICE_LIT("10.1.2.3"),
        .door = SLICE_LIT("resp"),
        .command = SLICE_LIT("TRIP"),
        .what = SLICE_LIT("TRIP smtp REASON \"it is down\""),
        .before = SLICE_LIT("{\"state\":\"closed\"}"),
        .reason = SLICE_LIT("it is\n\xff"),
};

static void a_line_is_json(void **unused)
{
        struct buf b CLEANUP(buf_release) = {0};
        (void)unused;
        audit_syslog_put(&entry, &b);
        assert_string_equal(buf_cstr(&b),
                            "{\"number\":12,\"at\":\"2023-11-14T22:13:20.123Z\",\"who\":\"ops\","
                            "\"role\":\"operator\",\"address\":\"10.1.2.3\",\"door\":\"resp\","
                            "\"command\":\"TRIP\",\"what\":\"TRIP smtp REASON \\\"it is down\\\"\","
                            "\"before\":{\"state\":\"closed\"},\"after\":null,"
                            "\"reason\":\"it is\\n\xef\xbf\xbd\",\"times\":3}");
}

/* Whether a daemon listens here or not: nothing waits for it. */
static void what_is_left_is_sent_at_the_end(void **unused)
{
        (void)unused;
        struct audit_syslog *s = audit_syslog_new();
        assert_non_null(s);
        for (int i = 0; i < 10; i++)
                audit_syslog_send(s, &entry);
        assert_null(audit_syslog_free(s));
        assert_null(audit_syslog_free(NULL));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_line_is_json),
                cmocka_unit_test(what_is_left_is_sent_at_the_end),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

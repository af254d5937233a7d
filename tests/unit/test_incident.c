/* The incident log: what is kept over a restart, and that deferrals do not push it out. */
#include "throttle_box.h"

#include <stdio.h>

#include "base/say.h"
#include "throttle/incident.h"

static void restart(struct rig *rig)
{
        rig_turn(rig);
        rig_restart(rig);
        set_up(rig, MODE_ENFORCE);
        rig_turn(rig);
}

/* The answer, also when it comes from the archive. */
static const char *history(struct rig *rig, const char *count, const char *before)
{
        const char *text = before ? rig_do(rig, "THROTTLEHISTORY", "COUNT", count, "BEFORE", before)
                                  : rig_do(rig, "THROTTLEHISTORY", "COUNT", count);
        if (strcmp(text, "(waits)") != 0)
                return text;
        rig_turn(rig);
        assert_true(rig->me.is_answered);
        return text_reply_str(&rig->me.reply);
}

/* So many jobs of a hook are deferred, one a second. */
static void defer(struct rig *rig, const char *hook, int n)
{
        char token[RIG_TOKEN];
        for (int i = 0; i < n; i++) {
                rig_do(rig, "ENQUEUE", hook, "");
                assert_int_equal(rig_claim(rig, "w", "default", token), 0);
                sample_for(rig, 150, 1);
        }
}

static void six_hundred_deferrals_leave_the_transition(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        defer(&rig, "klaviyo_sync", 600);
        defer(&rig, "mail", 3);
        const char *text = history(&rig, "50", NULL);
        has(text, "shop: unknown -> critical by threads_running 150 against 15");
        has(text, "event:'as_action_deferred' hook:'klaviyo_sync' tier:'deferrable' count:600 "
                  "from_ms:1700000000000 to_ms:1700000599000");
        has(text, "hook:'mail' tier:'normal' count:3");
        has(text, "critical load on shop");
        assert_int_equal(times(text, "count:"), 2);
        rig_release(&rig);
}

static void it_is_kept_over_a_restart(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        rig_do(&rig, "THROTTLE", "PAUSE", "FOR", "60000");
        rig_do(&rig, "THROTTLE", "RESUME");
        rig_do(&rig, "THROTTLE", "MODE", "SET", "observe");
        rig_do(&rig, "SETTINGSET", "throttle.max_deferral", "2h");
        rig_do(&rig, "REGISTRYSET", "erp_*", "high");
        rig_do(&rig, "RULESET", "etl", "HOLD");
        restart(&rig);
        const char *text = history(&rig, "50", NULL);
        has(text, "unknown -> critical");
        has(text, "event:'throttle_paused' message:'for 1 min'");
        has(text, "event:'throttle_resumed' message:'by the operator'");
        has(text, "event:'throttle_mode' message:'observe'");
        has(text, "throttle.max_deferral: 0s -> 2h");
        has(text, "erp_* is high");
        has(text, "event:'rule_set'");
        has(text, "deferrals:[] older:0 problem:''");
        /* Numbers go on, and what is new comes first. */
        rig_do(&rig, "THROTTLE", "PAUSE", "UNTILRESUMED");
        text = history(&rig, "50", NULL);
        starts_with(text, "{events:[{number:8 ");
        has(text, "{number:1 ");
        assert_int_equal(times(text, "number:"), 8);
        rig_release(&rig);
}

static void a_pause_that_ends_by_itself_is_told(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        rig_do(&rig, "THROTTLE", "PAUSE", "FOR", "60000");
        rig_pass_ms(&rig, 60001);
        has(history(&rig, "50", NULL),
            "event:'throttle_resumed' message:'the pause ended by itself'");
        rig_release(&rig);
}

static void pages_meet_between_memory_and_history(void **unused)
{
        (void)unused;
        struct rig rig;
        char before[24];
        init(&rig, MODE_ENFORCE);
        for (int i = 0; i < 30; i++)
                rig_do(&rig, "THROTTLE", "PAUSE", "UNTILRESUMED");
        restart(&rig);
        for (int i = 0; i < 10; i++)
                rig_do(&rig, "THROTTLE", "PAUSE", "UNTILRESUMED");
        uint64_t next = 41, pages = 0;
        for (const char *text = history(&rig, "7", NULL);; text = history(&rig, "7", before)) {
                const char *at = text;
                while ((at = strstr(at, "number:"))) {
                        at += strlen("number:");
                        assert_int_equal(strtoull(at, NULL, 10), --next); /* no gap, none twice */
                }
                pages++;
                const char *older = strstr(text, "older:") + strlen("older:");
                if (*older == '0')
                        break;
                (void)snprintf(before, sizeof(before), "%d", atoi(older));
        }
        assert_int_equal(next, 1);
        assert_int_equal(pages, 6);
        has(history(&rig, "5", "1"), "events:[]");
        rig_release(&rig);
}

static void fifty_are_told_unless_said_otherwise(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        for (int i = 0; i < 60; i++)
                rig_do(&rig, "THROTTLE", "PAUSE", "UNTILRESUMED");
        assert_int_equal(times(rig_do(&rig, "THROTTLEHISTORY"), "number:"), 50);
        assert_int_equal(times(rig_do(&rig, "THROTTLE", "HISTORY"), "number:"), 50);
        assert_int_equal(times(rig_do(&rig, "THROTTLE", "HISTORY", "BEFORE", "11"), "number:"), 10);
        has(rig_do(&rig, "THROTTLEHISTORY", "COUNT", "501"), "1 to 500");
        has(rig_do(&rig, "THROTTLE", "RESUME", "BEFORE", "1"), "before goes with history");
        has(rig_do(&rig, "THROTTLEHISTORY", "BEFORE", "0"), "before must be 1 to");
        rig_release(&rig);
}

static void history_that_cannot_be_read_is_said(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        rig_do(&rig, "THROTTLE", "PAUSE", "UNTILRESUMED");
        restart(&rig);
        rig_do(&rig, "THROTTLE", "RESUME");
        rig.archive.is_broken = true;
        const char *text = history(&rig, "50", NULL);
        has(text, "event:'throttle_resumed'"); /* what memory holds */
        has_not(text, "throttle_paused");
        has(text, "problem:'history cannot be read: what is older is missing'");
        rig_release(&rig);
}

static void a_group_ends_after_ten_quiet_minutes_and_there_are_200(void **unused)
{
        (void)unused;
        struct rig rig;
        char hook[32];
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        incident_count(rig.core, "as_action_deferred", SLICE_LIT("mail"), TIER_NORMAL, "a");
        rig_pass_ms(&rig, INCIDENT_GROUP_GAP_MS);
        incident_count(rig.core, "as_action_deferred", SLICE_LIT("mail"), TIER_NORMAL, "b");
        has(history(&rig, "5", NULL), "hook:'mail' tier:'normal' count:2");
        rig_pass_ms(&rig, INCIDENT_GROUP_GAP_MS + 1);
        incident_count(rig.core, "as_action_deferred", SLICE_LIT("mail"), TIER_NORMAL, "c");
        has(history(&rig, "5", NULL), "hook:'mail' tier:'normal' count:1");
        has(history(&rig, "5", NULL), "hook:'mail' tier:'normal' count:2");
        for (int i = 0; i < 1000; i++) {
                (void)snprintf(hook, sizeof(hook), "hook_%d", i);
                incident_count(rig.core, "would_defer", slice_str(hook), TIER_HIGH, "why");
        }
        const char *text = history(&rig, "500", NULL);
        assert_int_equal(times(text, "count:"), INCIDENT_GROUPS_MAX);
        has(text, "deferrals:[{event:'would_defer' hook:'hook_999' tier:'high'");
        has_not(text, "hook:'mail'");
        assert_int_equal(times(history(&rig, "7", NULL), "count:"), 7);
        rig_release(&rig);
}

static void more_incidents_than_memory_holds_are_in_history(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        for (int i = 0; i < 700; i++)
                rig_do(&rig, "THROTTLE", "PAUSE", "UNTILRESUMED");
        const char *text = history(&rig, "500", "300");
        starts_with(text, "{events:[{number:299 ");
        assert_int_equal(times(text, "number:"), 299);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(six_hundred_deferrals_leave_the_transition),
                cmocka_unit_test(it_is_kept_over_a_restart),
                cmocka_unit_test(a_pause_that_ends_by_itself_is_told),
                cmocka_unit_test(pages_meet_between_memory_and_history),
                cmocka_unit_test(fifty_are_told_unless_said_otherwise),
                cmocka_unit_test(history_that_cannot_be_read_is_said),
                cmocka_unit_test(a_group_ends_after_ten_quiet_minutes_and_there_are_200),
                cmocka_unit_test(more_incidents_than_memory_holds_are_in_history),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

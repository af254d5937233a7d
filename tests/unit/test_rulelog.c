/* The history of the rules: who did what, how much is kept, and who is told of it. */
#include "rule_box.h"

#include "state/rulelog.h"

static void the_history_tells_who_did_what_newest_first(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session peer;
        init(&rig);
        rig_session_init(&peer);
        memcpy(peer.base.address, "10.1.2.3", sizeof("10.1.2.3"));
        same(rig_do(&rig, "RULEHISTORY"), "[]");
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "0.9", "TARGET", "shop", "AUTHOR", "nina",
           "REASON", "nightly purge");
        same(rig_do(&rig, "RULEHISTORY"),
             "[{at_ms:1700000000000 action:'set' rule:'share:etl/shop' author:'nina' address:'' "
             "text:'ratio 0.9 for 1h on shop: nightly purge']]");
        rig_pass_ms(&rig, 1000);
        same(rig_as(&rig, &peer, "RULESET", "all", "hold", "MODE", "observe", "FOR", "1500"), "OK");
        same(rig_as(&rig, &peer, "RULEUNSET", "etl", "TARGET", "shop", "AUTHOR", "otto"), "OK");
        ok(&rig, "RULESET", "b", "threshold", "THRESHOLD", "lag=2,threads_running=3");
        rig_pass_ms(&rig, 1500);
        restart(&rig);
        same(rig_do(&rig, "RULEHISTORY"),
             "[{at_ms:1700000002500 action:'expired' rule:'share:all' author:'weir' address:'' "
             "text:'observe hold'] "
             "{at_ms:1700000001000 action:'set' rule:'threshold:b' author:'local' address:'' "
             "text:'threshold lag=2,threads_running=3 for 1h'] "
             "{at_ms:1700000001000 action:'unset' rule:'share:etl/shop' author:'otto' "
             "address:'10.1.2.3' text:'ratio 0.9 on shop: nightly purge'] "
             "{at_ms:1700000001000 action:'set' rule:'share:all' author:'10.1.2.3' "
             "address:'10.1.2.3' text:'observe hold for 1s500ms'] "
             "{at_ms:1700000000000 action:'set' rule:'share:etl/shop' author:'nina' address:'' "
             "text:'ratio 0.9 for 1h on shop: nightly purge']]");
        has_not(rig_do(&rig, "RULEHISTORY", "COUNT", "1"), "action:'set'");
        rig_session_release(&rig, &peer);
        rig_release(&rig);
}

static void every_change_is_told_to_those_who_read_the_gate(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "exempt", "FOR", "1000", "SELFENDING");
        rig_pass_ms(&rig, 1000);
        ok(&rig, "RULESET", "etl", "exempt");
        rule_end(rig.core, match(&rig, "etl", "shop").share, SLICE_LIT("over for 130 of 600 s"));
        ok(&rig, "RULESET", "etl", "hold");
        ok(&rig, "RULEUNSET", "etl");
        const char *text = rig_do(&rig, "THROTTLE", "HISTORY");
        has(text, "event:'rule_set' message:'share:etl by local: exempt for 1s, ends past its "
                  "budget'");
        has(text, "event:'rule_expired' message:'share:etl by weir: exempt");
        has(text, "event:'rule_over_budget' message:'share:etl by weir: exempt: over for 130 of");
        has(text, "event:'rule_unset' message:'share:etl by local: hold'");
        has(rig_do(&rig, "RULEHISTORY"), "action:'over_budget'");
        restart(&rig);
        rig_release(&rig);
}

static void a_long_text_is_cut_between_characters(void **unused)
{
        (void)unused;
        struct rig rig;
        char reason[RULE_REASON_BYTES + 1] = "";
        init(&rig);
        for (size_t i = 0; i + 3 <= RULE_REASON_BYTES; i += 3)
                memcpy(reason + i, "\xe2\x82\xac", 4);
        static const char *const more[] = {"", "x", "xx"};
        for (size_t i = 0; i < ARRAY_LEN(more); i++) {
                ok(&rig, "RULESET", "etl", "hold", "REASON", reason, "AUTHOR",
                   *more[i] ? more[i] : "y");
                assert_true(slice_is_utf8(slice_str(rig_do(&rig, "THROTTLE", "HISTORY"))));
        }
        rig_release(&rig);
}

static void the_history_keeps_the_last_five_hundred(void **unused)
{
        (void)unused;
        struct rig rig;
        char text[64];
        init(&rig);
        for (int i = 0; i < RULELOG_KEPT + 20; i++) {
                (void)snprintf(text, sizeof(text), "n%d", i);
                ok(&rig, "RULESET", text, "hold", "FOR", "1000000");
        }
        uint64_t weight = rig.core->state.live_bytes;
        for (int turn = 0; turn < 2; turn++) {
                const struct thing *t =
                        thing_find(&rig.core->state, THING_RULELOG, SLICE_LIT(RULELOG_NAME));
                const struct rulelog *l = CONTAINER_OF(t, const struct rulelog, thing);
                assert_int_equal(l->first, 20);
                assert_int_equal(l->n, RULELOG_KEPT);
                assert_slice(rulelog_peek(l, 0)->name, "share:n519");
                assert_slice(rulelog_peek(l, RULELOG_KEPT - 1)->name, "share:n20");
                assert_null(rulelog_peek(l, RULELOG_KEPT));
                restart(&rig);
        }
        assert_int_equal(rig.core->state.live_bytes, weight);
        rig_release(&rig);
}

/* Once the cleaner wrote it again, its first record and the entries behind it may be trimmed in
 * any place: those that come before the copy are passed over. */
static void entries_before_the_first_kept_record_are_passed_over(void **unused)
{
        (void)unused;
        struct rig rig;
        char text[64];
        init(&rig);
        for (int i = 0; i < 40; i++) {
                (void)snprintf(text, sizeof(text), "n%d", i % 7);
                ok(&rig, "RULESET", text, i % 2 ? "hold" : "exempt");
                rig.log.stat.head_seq = rig.log.last_seq;
                rig.log.stat.retained_bytes = 1ULL << 30;
                rig_turn(&rig);
                restart(&rig);
        }
        assert_true(rig.log.trimmed_before > 1);
        has(rig_do(&rig, "RULEHISTORY", "COUNT", "500"), "rule:'share:n0' author:'local'");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_history_tells_who_did_what_newest_first),
                cmocka_unit_test(every_change_is_told_to_those_who_read_the_gate),
                cmocka_unit_test(a_long_text_is_cut_between_characters),
                cmocka_unit_test(the_history_keeps_the_last_five_hundred),
                cmocka_unit_test(entries_before_the_first_kept_record_are_passed_over),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

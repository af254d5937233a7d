/* Rules: who is matched by which, lists, removing, one before the others, pages. */
#include "rule_box.h"

#include <math.h>

/* ---- who is matched ---- */

static void the_most_specific_ratio_or_exemption_wins(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        same(decides(&rig, "a:b:c", "shop"), "");
        ok(&rig, "RULESET", "all", "ratio", "RATIO", "0.9");
        same(decides(&rig, "a:b:c", "shop"), "all ratio");
        ok(&rig, "RULESET", "c", "exempt");
        same(decides(&rig, "a:b:c", "shop"), "c exempt");
        same(decides(&rig, "c", "shop"), "c exempt");
        same(decides(&rig, "a:b", "shop"), "all ratio");
        ok(&rig, "RULESET", "a", "ratio", "RATIO", "1");
        ok(&rig, "RULESET", "b", "exempt");
        same(decides(&rig, "a:b:c", "shop"), "a ratio");
        same(decides(&rig, "x:b:c", "shop"), "b exempt");
        ok(&rig, "RULESET", "a:b:c", "exempt");
        same(decides(&rig, "a:b:c", "shop"), "a:b:c exempt");
        same(decides(&rig, "a:b", "shop"), "a ratio");
        same(decides(&rig, "b:c:a", "shop"), "b exempt");
        ok(&rig, "RULEUNSET", "a:b:c");
        same(decides(&rig, "a:b:c", "shop"), "a ratio");
        rig_release(&rig);
}

/* An emergency stop stops: a rule for one part cannot open what a hold has closed. */
static void a_hold_beats_every_other_rule_and_the_general_hold_decides(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "a", "ratio", "RATIO", "0.1");
        ok(&rig, "RULESET", "a:b:c", "exempt");
        ok(&rig, "RULESET", "b", "ratio", "RATIO", "0", "TARGET", "shop");
        ok(&rig, "RULESET", "c", "hold");
        same(decides(&rig, "a:b:c", "shop"), "c hold");
        same(decides(&rig, "b:c", "shop"), "c hold");
        same(decides(&rig, "a:b", "shop"), "a ratio");
        ok(&rig, "RULESET", "all", "hold");
        same(decides(&rig, "a:b:c", "shop"), "all hold");
        same(decides(&rig, "a:b", "files"), "all hold");
        same(decides(&rig, "other", ""), "all hold");
        restart(&rig);
        same(decides(&rig, "a:b:c", "shop"), "all hold");
        ok(&rig, "RULEUNSET", "all");
        same(decides(&rig, "a:b:c", "shop"), "c hold");
        ok(&rig, "RULEUNSET", "c");
        same(decides(&rig, "a:b:c", "shop"), "a:b:c exempt");
        rig_release(&rig);
}

static void a_hold_for_another_target_or_past_its_end_stops_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "exempt");
        ok(&rig, "RULESET", "all", "hold", "TARGET", "files", "FOR", "1000");
        same(decides(&rig, "etl", "shop"), "etl exempt");
        same(decides(&rig, "etl", "files"), "all hold");
        rig_pass_ms(&rig, 1000);
        same(decides(&rig, "etl", "files"), "etl exempt");
        /* One for every target holds on a target with a rule of its own. */
        ok(&rig, "RULESET", "etl", "exempt", "TARGET", "shop");
        ok(&rig, "RULESET", "etl", "hold");
        same(decides(&rig, "etl", "shop"), "etl hold");
        rig_release(&rig);
}

static void a_hold_that_only_observes_stops_nothing_and_is_told_first(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "job", "exempt");
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "0.5", "MODE", "observe");
        ok(&rig, "RULESET", "all", "hold", "MODE", "observe");
        struct rule_match m = match(&rig, "job:etl", "shop");
        assert_slice(m.share->who, "job");
        assert_slice(m.observed->who, "all");
        m = match(&rig, "etl", "shop");
        assert_null(m.share);
        assert_slice(m.observed->who, "all");
        rig_release(&rig);
}

static void the_rule_of_a_target_comes_before_the_one_for_all(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "1");
        ok(&rig, "RULESET", "etl", "exempt", "TARGET", "shop");
        same(decides(&rig, "etl", "shop"), "etl exempt");
        same(decides(&rig, "etl", "files"), "etl ratio");
        same(decides(&rig, "etl", ""), "etl ratio");
        /* A name is more than a target: that of a general name does not overrule it. */
        ok(&rig, "RULESET", "all", "exempt", "TARGET", "files");
        same(decides(&rig, "etl", "files"), "etl ratio");
        same(decides(&rig, "other", "files"), "all exempt");
        same(decides(&rig, "other", "shop"), "");
        ok(&rig, "RULEUNSET", "etl", "TARGET", "shop");
        same(decides(&rig, "etl", "shop"), "etl ratio");
        rig_release(&rig);
}

static void hold_ratio_and_exempt_replace_each_other(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold");
        ok(&rig, "RULESET", "etl", "metrics", "METRICS", "disk_used");
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "0.123456");
        assert_int_equal(n_rules(&rig), 2);
        assert_int_equal(match(&rig, "etl", "shop").share->ratio_ppm, 123456);
        ok(&rig, "RULESET", "etl", "exempt", "SELFENDING");
        assert_int_equal(n_rules(&rig), 2);
        has(rig_do(&rig, "RULES", "MATCH", "share:"),
            "kind:'exempt' slot:'share' target:'' ratio:null");
        has(rig_do(&rig, "RULES", "MATCH", "share:"), "self_ending:true");
        restart(&rig);
        rig_release(&rig);
}

static void a_rule_set_again_has_the_new_end_and_a_new_budget(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "exempt", "FOR", "10000");
        struct rule *r = match(&rig, "etl", "shop").share;
        r->budget.second = 7;
        r->budget.is_told = true;
        rig_pass_ms(&rig, 9000);
        ok(&rig, "RULESET", "etl", "exempt", "FOR", "10000");
        r = match(&rig, "etl", "shop").share;
        assert_int_equal(r->budget.second, 0);
        assert_false(r->budget.is_told);
        rig_pass_ms(&rig, 9999);
        assert_int_equal(n_rules(&rig), 1);
        ok(&rig, "RULESET", "etl", "exempt", "FOR", "1"); /* shorter is allowed, too */
        rig_pass_ms(&rig, 1);
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

static void one_that_observes_is_told_apart_from_one_that_decides(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "all", "ratio", "RATIO", "1");
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "0.5", "MODE", "observe");
        struct rule_match m = match(&rig, "etl", "shop");
        assert_slice(m.share->who, "all");
        assert_slice(m.observed->who, "etl");
        /* Were all enforced, "job" would decide: what is behind it would never be asked. */
        ok(&rig, "RULESET", "job", "exempt");
        m = match(&rig, "job:etl", "shop");
        assert_slice(m.share->who, "job");
        assert_null(m.observed);
        ok(&rig, "RULESET", "etl", "exempt", "TARGET", "shop");
        m = match(&rig, "etl", "shop");
        assert_slice(m.share->target, "shop");
        assert_null(m.observed);
        m = match(&rig, "etl", "files");
        assert_slice(m.observed->who, "etl");
        rig_release(&rig);
}

/* Observe before enforce: who tries out another rule must not switch off the one that holds. */
static void one_that_observes_stands_beside_the_enforced_one(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "0.5", "TARGET", "shop");
        ok(&rig, "RULESET", "etl", "hold", "TARGET", "shop", "MODE", "observe");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=9");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=2", "MODE", "observe");
        ok(&rig, "RULESET", "etl", "metrics", "METRICS", "lag");
        ok(&rig, "RULESET", "etl", "metrics", "METRICS", "disk_used", "MODE", "observe");
        assert_int_equal(n_rules(&rig), 6);
        restart(&rig);
        struct rule_match m = match(&rig, "etl", "shop");
        same(decides(&rig, "etl", "shop"), "etl ratio");
        assert_int_equal(m.observed->kind, RULE_HOLD);
        assert_slice(m.threshold->list, "lag=9");
        assert_int_equal(m.n_metrics, 1);
        assert_slice(m.metrics[0]->list, "lag");
        /* Setting one again replaces that of its own mode. */
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=3", "MODE", "observe");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=8");
        assert_int_equal(n_rules(&rig), 6);
        assert_slice(match(&rig, "etl", "shop").threshold->list, "lag=8");
        has(rig_do(&rig, "RULES", "MATCH", "threshold:etl"),
            "slot:'threshold' target:'' ratio:null list:'lag=8' mode:'enforce'");
        has(rig_do(&rig, "RULES", "MATCH", "threshold:etl"),
            "slot:'threshold' target:'' ratio:null list:'lag=3' mode:'observe'");
        rig_release(&rig);
}

static void each_of_the_two_goes_alone(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=9", "FOR", "2000");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=2", "MODE", "observe", "FOR",
           "1000");
        rig_pass_ms(&rig, 1000); /* the trial is over */
        assert_int_equal(n_rules(&rig), 1);
        assert_slice(match(&rig, "etl", "shop").threshold->list, "lag=9");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=2", "MODE", "observe");
        rig_pass_ms(&rig, 1000); /* and now the other one */
        assert_int_equal(n_rules(&rig), 1);
        assert_null(match(&rig, "etl", "shop").threshold);
        same(rig_do(&rig, "RULEUNSET", "etl", "MODE", "enforce"),
             "!NOTFOUND 'etl' has no enforced rule for every target; RULES lists what there is");
        same(rig_do(&rig, "RULEUNSET", "etl", "KIND", "hold", "MODE", "observe"),
             "!NOTFOUND 'etl' has no observed hold for every target; RULES lists what there is");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=9");
        ok(&rig, "RULEUNSET", "etl", "MODE", "observe", "KIND", "threshold");
        assert_int_equal(n_rules(&rig), 1);
        assert_slice(match(&rig, "etl", "shop").threshold->list, "lag=9");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=2", "MODE", "observe");
        ok(&rig, "RULEUNSET", "etl"); /* without a mode both */
        assert_int_equal(n_rules(&rig), 0);
        has(rig_do(&rig, "RULEHISTORY", "COUNT", "1"),
            "action:'unset' rule:'threshold:etl' author:'local' address:'' "
            "text:'observe threshold lag=2'");
        restart(&rig);
        rig_release(&rig);
}

/* Earlier versions kept both modes in one place; such a rule may still be in the log. */
static void one_that_an_earlier_version_observed_is_replaced_and_removed(void **unused)
{
        (void)unused;
        const struct rule_values old = {.kind = RULE_THRESHOLD,
                                        .mode = MODE_OBSERVE,
                                        .set_ms = 1,
                                        .author = SLICE_LIT("nina"),
                                        .list = SLICE_LIT("lag=4")};
        struct rig rig;
        init(&rig);
        for (int i = 0; i < 2; i++) {
                buf_clear(&rig.core->body);
                rule_put(&old, &rig.core->body);
                thing_set(rig.core, THING_RULE, SLICE_LIT("threshold:etl"),
                          buf_slice(&rig.core->body));
                restart(&rig);
                has(rig_do(&rig, "RULES"), "list:'lag=4' mode:'observe'");
                if (i == 0)
                        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=2", "MODE",
                           "observe");
                assert_int_equal(n_rules(&rig), 1);
                ok(&rig, "RULEUNSET", "etl", "MODE", "observe");
                assert_int_equal(n_rules(&rig), 0);
        }
        restart(&rig);
        rig_release(&rig);
}

static void the_lists_of_all_parts_count_together(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "all", "metrics", "METRICS", "disk_used");
        struct rule_match m = match(&rig, "a:b", "shop");
        assert_int_equal(m.n_metrics, 1);
        assert_slice(m.metrics[0]->list, "disk_used");
        ok(&rig, "RULESET", "a", "metrics", "METRICS", "replication_lag");
        ok(&rig, "RULESET", "b", "metrics", "METRICS", "threads_running,disk_used");
        ok(&rig, "RULESET", "b", "metrics", "METRICS", "threads_running", "TARGET", "shop");
        m = match(&rig, "a:b", "shop");
        assert_int_equal(m.n_metrics, 2); /* and not that of all */
        assert_slice(m.metrics[0]->list, "replication_lag");
        assert_slice(m.metrics[1]->list, "threads_running");
        m = match(&rig, "b:b:b", "files");
        assert_int_equal(m.n_metrics, 1);
        assert_slice(m.metrics[0]->list, "threads_running,disk_used");
        rig_release(&rig);
}

static void eight_parts_and_the_whole_may_each_have_a_list(void **unused)
{
        (void)unused;
        struct rig rig;
        char part[2] = "a";
        init(&rig);
        for (; part[0] <= 'h'; part[0]++)
                ok(&rig, "RULESET", part, "metrics", "METRICS", "disk_used");
        ok(&rig, "RULESET", "a:b:c:d:e:f:g:h", "metrics", "METRICS", "disk_used");
        assert_int_equal(match(&rig, "a:b:c:d:e:f:g:h", "shop").n_metrics, IDENTITY_PARTS + 1);
        rig_release(&rig);
}

static void a_threshold_is_that_of_the_most_specific(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "all", "threshold", "THRESHOLD", "replication_lag=60");
        ok(&rig, "RULESET", "b", "threshold", "THRESHOLD", "lag=2.5,threads_running=0", "TARGET",
           "shop");
        assert_slice(match(&rig, "a:b", "shop").threshold->list, "lag=2.5,threads_running=0");
        assert_slice(match(&rig, "a:b", "files").threshold->list, "replication_lag=60");
        rig_release(&rig);
}

/* ---- lists ---- */

static void a_list_is_read_name_by_name(void **unused)
{
        (void)unused;
        struct slice rest = SLICE_LIT("lag,x=2.5,y=,z=nan"), name;
        double value = 7;
        assert_true(rule_list_next(&rest, &name, &value));
        assert_slice(name, "lag");
        assert_true(isnan(value));
        assert_true(rule_list_next(&rest, &name, &value));
        assert_slice(name, "x");
        assert_true(value == 2.5);
        assert_true(rule_list_next(&rest, &name, &value) && isnan(value));
        assert_true(rule_list_next(&rest, &name, &value) && isnan(value));
        assert_slice(name, "z");
        assert_false(rule_list_next(&rest, &name, &value));
}

static void a_ratio_reads_back_as_it_was_written(void **unused)
{
        (void)unused;
        static const char *const texts[] = {"0", "1", "0.5", "0.9", "0.000001", "0.123456", "0.1"};
        char text[RULE_RATIO_TEXT];
        struct problem problem;
        uint32_t ppm;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                assert_int_equal(rule_ratio_parse(slice_str(texts[i]), &ppm, &problem), OK);
                same(rule_ratio_text(ppm, text), texts[i]);
        }
        assert_int_equal(rule_ratio_parse(SLICE_LIT("1.000"), &ppm, &problem), OK);
        same(rule_ratio_text(ppm, text), "1");
}

/* ---- removing ---- */

static void unset_takes_the_rules_of_that_name_and_target_alone(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold");
        ok(&rig, "RULESET", "etl", "metrics", "METRICS", "lag");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "lag=1");
        ok(&rig, "RULESET", "etl", "hold", "TARGET", "shop");
        ok(&rig, "RULESET", "etl:x", "hold");
        ok(&rig, "RULEUNSET", "etl", "KIND", "metrics");
        assert_int_equal(n_rules(&rig), 4);
        has(rig_do(&rig, "RULEUNSET", "etl", "KIND", "ratio"), "!NOTFOUND");
        ok(&rig, "RULEUNSET", "etl", "AUTHOR", "nina");
        assert_int_equal(n_rules(&rig), 2);
        has(rig_do(&rig, "RULEUNSET", "etl"), "!NOTFOUND");
        ok(&rig, "RULEUNSET", "etl", "TARGET", "shop", "KIND", "hold");
        same(decides(&rig, "etl", "shop"), "");
        same(decides(&rig, "etl:x", "shop"), "etl:x hold");
        restart(&rig);
        assert_int_equal(n_rules(&rig), 1);
        rig_release(&rig);
}

static void a_rule_of_a_target_that_is_gone_can_be_removed(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold", "TARGET", "files");
        struct core_throttle options = {.targets = targets, .n_targets = 1};
        policy_init(&options.policy);
        core_set_throttle(rig.core, &options);
        ok(&rig, "RULEUNSET", "etl", "TARGET", "files");
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

/* ---- one before the others ---- */

static void prioritize_gives_all_others_a_ratio_for_the_same_time(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "PRIORITIZE", "billing", "FOR", "5000", "REASON", "end of month");
        assert_int_equal(match(&rig, "other", "shop").share->ratio_ppm, 900000);
        assert_int_equal(match(&rig, "billing", "shop").share->ratio_ppm, 0);
        assert_int_equal(match(&rig, "x:billing", "files").share->ratio_ppm, 0);
        restart(&rig);
        rig_pass_ms(&rig, 4999);
        assert_int_equal(n_rules(&rig), 2);
        rig_pass_ms(&rig, 1);
        assert_int_equal(n_rules(&rig), 0);
        ok(&rig, "PRIORITIZE", "billing", "RATIO", "0.5", "TARGET", "shop");
        assert_int_equal(match(&rig, "other", "shop").share->ratio_ppm, 500000);
        assert_null(match(&rig, "other", "files").share);
        rig_release(&rig);
}

static void unprioritize_takes_both_rules_back(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "PRIORITIZE", "billing");
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "0.5");
        ok(&rig, "UNPRIORITIZE", "billing", "AUTHOR", "nina");
        assert_int_equal(n_rules(&rig), 1); /* that of etl */
        has(rig_do(&rig, "RULEHISTORY", "COUNT", "1"), "action:'unset' rule:'share:all'");
        has(rig_do(&rig, "RULEHISTORY", "COUNT", "1"), "author:'nina'");
        same(rig_do(&rig, "UNPRIORITIZE", "billing"),
             "!NOTFOUND 'billing' does not come first; RULES lists what there is");
        has(rig_do(&rig, "UNPRIORITIZE", "etl"), "!NOTFOUND 'etl' does not come first");
        /* Of nobody else anything is refused: that ratio goes, too, and "all" came never first. */
        ok(&rig, "PRIORITIZE", "billing", "RATIO", "0");
        has(rig_do(&rig, "UNPRIORITIZE", "all"), "!NOTFOUND 'all' does not come first");
        ok(&rig, "UNPRIORITIZE", "billing");
        assert_int_equal(n_rules(&rig), 1);
        /* Of one target, and only that. */
        ok(&rig, "PRIORITIZE", "billing", "TARGET", "shop");
        has(rig_do(&rig, "UNPRIORITIZE", "billing"), "!NOTFOUND");
        ok(&rig, "UNPRIORITIZE", "billing", "TARGET", "shop");
        assert_int_equal(n_rules(&rig), 1);
        restart(&rig);
        rig_release(&rig);
}

static void unprioritize_leaves_what_others_need(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "PRIORITIZE", "billing");
        ok(&rig, "PRIORITIZE", "checkout");
        ok(&rig, "PRIORITIZE", "stock", "TARGET", "files");
        ok(&rig, "UNPRIORITIZE", "billing");
        same(decides(&rig, "billing", "shop"), "all ratio"); /* one of all again */
        same(decides(&rig, "checkout", "shop"), "checkout ratio");
        ok(&rig, "RULESET", "all", "hold"); /* an emergency since then */
        ok(&rig, "UNPRIORITIZE", "checkout");
        same(decides(&rig, "checkout", "shop"), "all hold");
        ok(&rig, "RULEUNSET", "all");
        assert_int_equal(n_rules(&rig), 2); /* those of stock */
        rig_release(&rig);
}

static void asks_as(struct rig *rig, const char *who)
{
        (void)rig_do(rig, "CHECK", who);
}

static void a_rule_for_a_name_nobody_uses_says_so(void **unused)
{
        static const char *const started =
                "{ok:true warning:'no client has asked as 'prge' since weir started']";
        static const char *const day =
                "{ok:true warning:'no client has asked as 'prge' within the last day']";
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "prge", "hold"); /* nobody has asked yet: it may come */
        asks_as(&rig, "7:purge");
        same(rig_do(&rig, "RULESET", "prge", "hold"), started);
        same(rig_do(&rig, "PRIORITIZE", "prge"), started);
        assert_int_equal(n_rules(&rig), 2); /* they are set all the same */
        ok(&rig, "RULESET", "purge", "hold");
        ok(&rig, "RULESET", "7:purge", "exempt");
        ok(&rig, "RULESET", "7", "threshold", "THRESHOLD", "lag=9", "MODE", "observe");
        ok(&rig, "RULESET", "all", "hold");
        rig_pass_ms(&rig, DAY_MS);
        asks_as(&rig, "7:purge");
        same(rig_do(&rig, "RULESET", "prge", "hold"), day);
        asks_as(&rig, "prge");
        ok(&rig, "RULESET", "prge", "hold");
        rig_pass_ms(&rig, DAY_MS - 1000);
        asks_as(&rig, "7:purge");
        ok(&rig, "RULESET", "prge", "hold");
        rig_pass_ms(&rig, 1001);
        same(rig_do(&rig, "RULESET", "prge", "hold"), day);
        rig_pass_ms(&rig, DAY_MS + 1); /* nobody asks any more, by no name */
        ok(&rig, "RULESET", "prge", "hold");
        rig_release(&rig);
}

static void prioritize_sets_both_rules_or_none(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[24];
        init(&rig);
        rig_audit(&rig, false);
        for (int i = 0; i < LIMIT_RULES - 1; i++) {
                (void)snprintf(name, sizeof(name), "n%d", i);
                ok(&rig, "RULESET", name, "hold");
        }
        rig_audit(&rig, true);
        uint64_t before = state_digest(&rig.core->state);
        has(rig_do(&rig, "PRIORITIZE", "billing"), "!LIMIT there are 9999 rules already");
        assert_true(state_digest(&rig.core->state) == before);
        ok(&rig, "PRIORITIZE", "n7"); /* that one is there already */
        has(rig_do(&rig, "RULESET", "one_more", "hold"), "!LIMIT there are 10000 rules already");
        ok(&rig, "RULESET", "n8", "exempt"); /* in place of another */
        same(decides(&rig, "n8:x", "shop"), "n8 exempt");
        same(decides(&rig, "x:n9998", "shop"), "n9998 hold");
        rig_pass_ms(&rig, HOUR_MS); /* bounded steps a turn, all of them within a second */
        same(decides(&rig, "n9", "shop"), "");
        for (int i = 0; i < 20; i++)
                rig_pass_ms(&rig, 10);
        assert_int_equal(n_rules(&rig), 0);
        restart(&rig);
        rig_release(&rig);
}

/* ---- listing ---- */

static void rules_are_listed_page_by_page(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "b", "hold");
        ok(&rig, "RULESET", "a", "hold", "TARGET", "shop");
        ok(&rig, "RULESET", "c", "metrics", "METRICS", "lag,disk_used");
        const char *text = rig_do(&rig, "RULES", "LIMIT", "2");
        has(text, "{rules:[{name:'c' kind:'metrics' slot:'metrics'");
        has(text, "list:'lag,disk_used'");
        has(text, "{name:'a' kind:'hold' slot:'share' target:'shop'");
        has(text, "cursor:'share:a/shop'");
        text = rig_do(&rig, "RULES", "LIMIT", "2", "CURSOR", "share:a/shop");
        has(text, "{rules:[{name:'b'");
        has(text, "cursor:''");
        has_not(rig_do(&rig, "RULES", "MATCH", "shop"), "name:'b'");
        rig_release(&rig);
}

static void collect(void *ctx, const struct rule *r)
{
        buf_put_slice(ctx, thing_name(&r->thing));
        buf_put_byte(ctx, ' ');
}

static void each_comes_by_name_without_those_past_their_end(void **unused)
{
        (void)unused;
        struct rig rig;
        struct buf names;
        init(&rig);
        buf_init(&names, 0);
        ok(&rig, "RULESET", "b", "hold");
        ok(&rig, "RULESET", "old", "hold", "FOR", "10");
        ok(&rig, "RULESET", "a", "hold");
        ok(&rig, "RULESET", "a", "metrics", "METRICS", "lag");
        rig.core->now.steady_ns += 10 * NS_PER_MS;
        rule_each(rig.core, collect, &names);
        same(buf_cstr(&names), "metrics:a share:a share:b ");
        buf_release(&names);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_most_specific_ratio_or_exemption_wins),
                cmocka_unit_test(a_hold_beats_every_other_rule_and_the_general_hold_decides),
                cmocka_unit_test(a_hold_for_another_target_or_past_its_end_stops_nothing),
                cmocka_unit_test(a_hold_that_only_observes_stops_nothing_and_is_told_first),
                cmocka_unit_test(the_rule_of_a_target_comes_before_the_one_for_all),
                cmocka_unit_test(hold_ratio_and_exempt_replace_each_other),
                cmocka_unit_test(a_rule_set_again_has_the_new_end_and_a_new_budget),
                cmocka_unit_test(one_that_observes_is_told_apart_from_one_that_decides),
                cmocka_unit_test(one_that_observes_stands_beside_the_enforced_one),
                cmocka_unit_test(each_of_the_two_goes_alone),
                cmocka_unit_test(one_that_an_earlier_version_observed_is_replaced_and_removed),
                cmocka_unit_test(the_lists_of_all_parts_count_together),
                cmocka_unit_test(eight_parts_and_the_whole_may_each_have_a_list),
                cmocka_unit_test(a_threshold_is_that_of_the_most_specific),
                cmocka_unit_test(a_list_is_read_name_by_name),
                cmocka_unit_test(a_ratio_reads_back_as_it_was_written),
                cmocka_unit_test(unset_takes_the_rules_of_that_name_and_target_alone),
                cmocka_unit_test(a_rule_of_a_target_that_is_gone_can_be_removed),
                cmocka_unit_test(prioritize_gives_all_others_a_ratio_for_the_same_time),
                cmocka_unit_test(unprioritize_takes_both_rules_back),
                cmocka_unit_test(unprioritize_leaves_what_others_need),
                cmocka_unit_test(a_rule_for_a_name_nobody_uses_says_so),
                cmocka_unit_test(prioritize_sets_both_rules_or_none),
                cmocka_unit_test(rules_are_listed_page_by_page),
                cmocka_unit_test(each_comes_by_name_without_those_past_their_end),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

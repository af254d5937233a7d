/* Rules: who is matched by which, when they end, what is refused, what the history keeps. */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "base/say.h"
#include "core/inside.h"
#include "core/rule.h"
#include "state/rulelog.h"
#include "support/rig.h"

#define HOUR_MS 3600000LL
#define DAY_MS  (24 * HOUR_MS)

static void has(const char *text, const char *part)
{
        if (!strstr(text, part))
                fail_msg("'%s' does not hold '%s'", text, part);
}

static void has_not(const char *text, const char *part)
{
        if (strstr(text, part))
                fail_msg("'%s' holds '%s'", text, part);
}

#define same(got, want) assert_string_equal(got, want)
#define ok(rig, ...)    assert_string_equal(rig_do(rig, __VA_ARGS__), "OK")

static const struct core_metric shop_metrics[] = {
        {.name = "replication_lag", .rule = {{5, 15}, {3, 10}, NS_PER_S, false}},
        {.name = "threads_running", .rule = {{5, 15}, {3, 10}, NS_PER_S, false}},
};
static const struct core_metric disk_metrics[] = {
        {.name = "disk_used", .rule = {{5, 15}, {3, 10}, NS_PER_S, false}},
};
static const struct core_target targets[] = {
        {.name = "shop", .metrics = shop_metrics, .n_metrics = 2, .mode = -1},
        {.name = "files", .metrics = disk_metrics, .n_metrics = 1, .mode = -1},
};

static void configure(struct rig *rig, const struct core_checks *checks)
{
        struct core_throttle options = {.targets = targets, .n_targets = 2, .checks = *checks};
        policy_init(&options.policy);
        core_set_throttle(rig->core, &options);
}

static void set_up(struct rig *rig)
{
        const struct core_checks checks = {.mode = MODE_ENFORCE};
        configure(rig, &checks);
}

static void init(struct rig *rig)
{
        say_setup(SAY_ERROR, false); /* each change is said: no news here */
        rig_init(rig);
        set_up(rig);
}

/* Replay must arrive at what is true now. */
static void restart(struct rig *rig)
{
        rig_turn(rig);
        state_check(&rig->core->state);
        uint64_t before = state_digest(&rig->core->state);
        rig_restart(rig);
        state_check(&rig->core->state);
        assert_true(state_digest(&rig->core->state) == before);
        set_up(rig);
}

static void jump_ms(struct rig *rig, int64_t ms)
{
        rig->now.wall_ms += ms;
        rig_turn(rig);
}

static struct rule_match match(struct rig *rig, const char *who, const char *target)
{
        struct identity id;
        struct rule_match m;
        struct problem problem;
        assert_int_equal(identity_parse(slice_str(who), &id, &problem), OK);
        rule_match(rig->core, &id, slice_str(target), &m);
        return m;
}

/* Name and kind of the rule that decides, as "etl hold"; "" when there is none. */
static const char *decides(struct rig *rig, const char *who, const char *target)
{
        static char text[512];
        const struct rule *r = match(rig, who, target).share;
        if (!r)
                return "";
        (void)snprintf(text, sizeof(text), "%.*s %s", (int)r->who.len, r->who.ptr,
                       rule_kind_name(r->kind));
        return text;
}

static size_t n_rules(struct rig *rig)
{
        return rig->core->state.things[THING_RULE].len;
}

/* ---- when it ends ---- */

static void a_rule_ends_at_its_time_and_not_before(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold", "FOR", "60000");
        rig_pass_ms(&rig, 59999);
        same(decides(&rig, "etl", "shop"), "etl hold");
        has(rig_do(&rig, "RULES"), "left_ms:1 ");
        rig_pass_ms(&rig, 1);
        same(decides(&rig, "etl", "shop"), "");
        assert_int_equal(n_rules(&rig), 0);
        has(rig_do(&rig, "RULEHISTORY"), "action:'expired' rule:'share:etl'");
        restart(&rig);
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

static void a_rule_lasts_an_hour_unless_it_says_otherwise(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "exempt");
        has(rig_do(&rig, "RULES"), "left_ms:3600000 ");
        rig_pass_ms(&rig, HOUR_MS - 1);
        assert_int_equal(n_rules(&rig), 1);
        rig_pass_ms(&rig, 1);
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

static void an_alarm_that_is_late_does_not_lengthen_a_rule(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "all", "hold", "FOR", "1000");
        ok(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "disk_used=1", "FOR", "1000");
        ok(&rig, "RULESET", "etl", "metrics", "METRICS", "disk_used", "FOR", "1000");
        rig.core->now.steady_ns += NS_PER_S - 1; /* time passed, no turn was made */
        struct rule_match m = match(&rig, "etl", "files");
        assert_true(m.share && m.threshold && m.n_metrics == 1);
        rig.core->now.steady_ns += 1;
        m = match(&rig, "etl", "files");
        assert_false(m.share || m.threshold || m.n_metrics);
        assert_int_equal(n_rules(&rig), 3);
        rig_release(&rig);
}

static void jumps_of_the_wall_clock_do_not_move_the_end(void **unused)
{
        (void)unused;
        static const int64_t jumps[] = {DAY_MS, -DAY_MS, -DAY_MS, DAY_MS};
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold", "FOR", "8000");
        for (size_t i = 0; i < ARRAY_LEN(jumps); i++) {
                jump_ms(&rig, jumps[i]);
                rig_pass_ms(&rig, 1000);
                same(decides(&rig, "etl", "shop"), "etl hold");
                restart(&rig);
                jump_ms(&rig, jumps[i]);
                same(decides(&rig, "etl", "shop"), "etl hold");
        }
        rig_pass_ms(&rig, 3999);
        same(decides(&rig, "etl", "shop"), "etl hold");
        jump_ms(&rig, -DAY_MS);
        rig_pass_ms(&rig, 1);
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

static void a_rule_ends_at_its_time_over_a_recovery(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "0.25", "FOR", "10000", "TARGET", "shop",
           "AUTHOR", "nina", "REASON", "nightly purge", "MODE", "observe");
        rig_pass_ms(&rig, 4000);
        restart(&rig);
        has(rig_do(&rig, "RULES"),
            "{name:'etl' kind:'ratio' slot:'share' target:'shop' ratio:'0.25' list:'' "
            "mode:'observe' author:'nina' address:'' reason:'nightly purge' set_ms:1700000000000 "
            "left_ms:6000 self_ending:false]");
        rig_pass_ms(&rig, 5999);
        assert_int_equal(n_rules(&rig), 1);
        restart(&rig);
        rig_pass_ms(&rig, 1);
        assert_int_equal(n_rules(&rig), 0);
        rig_release(&rig);
}

/* Steady time goes on from the last one in the log: a weir that only answers checks must tell it
 * the time, or each restart would begin the hour again. */
static void a_restart_of_an_idle_weir_lengthens_a_rule_by_seconds_at_most(void **unused)
{
        (void)unused;
        struct rig rig;
        int64_t passed = 0;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold", "FOR", "3600000");
        for (int life = 0; life < 4; life++) {
                for (int s = 0; s < 600; s++, passed++)
                        rig_pass_ms(&rig, 1000);
                rig.now.steady_ns = core_steady_ns(rig.core); /* as a killed one begins again */
                restart(&rig);
        }
        const struct rule *r =
                rule_find(rig.core, SLICE_LIT("share"), SLICE_LIT("etl"), SLICE_NONE);
        int64_t left_s = (r->until_ns - rig.now.steady_ns) / NS_PER_S;
        assert_in_range(left_s, 3600 - passed, 3600 - passed + 4 * RULELOG_BEAT_NS / NS_PER_S);
        rig_release(&rig);
}

static void without_an_ending_rule_nothing_beats(void **unused)
{
        (void)unused;
        struct rig rig;
        const struct core_checks checks = {.mode = MODE_ENFORCE, .is_endless_allowed = true};
        init(&rig);
        configure(&rig, &checks);
        ok(&rig, "RULESET", "etl", "hold", "ENDLESS");
        has(rig_do(&rig, "RULES"), "left_ms:-1 ");
        rig_pass_ms(&rig, 20000);
        uint64_t last = rig.log.last_seq;
        for (int i = 0; i < 100; i++)
                rig_pass_ms(&rig, 20000);
        assert_int_equal(rig.log.last_seq, last);
        same(decides(&rig, "etl", "shop"), "etl hold");
        rig_release(&rig);
}

/* ---- who is matched ---- */

static void the_most_specific_name_wins(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        same(decides(&rig, "a:b:c", "shop"), "");
        ok(&rig, "RULESET", "all", "hold");
        same(decides(&rig, "a:b:c", "shop"), "all hold");
        ok(&rig, "RULESET", "c", "exempt");
        same(decides(&rig, "a:b:c", "shop"), "c exempt");
        same(decides(&rig, "c", "shop"), "c exempt");
        same(decides(&rig, "a:b", "shop"), "all hold");
        ok(&rig, "RULESET", "a", "ratio", "RATIO", "1");
        ok(&rig, "RULESET", "b", "hold");
        same(decides(&rig, "a:b:c", "shop"), "a ratio");
        same(decides(&rig, "x:b:c", "shop"), "b hold");
        ok(&rig, "RULESET", "a:b:c", "exempt");
        same(decides(&rig, "a:b:c", "shop"), "a:b:c exempt");
        same(decides(&rig, "a:b", "shop"), "a ratio");
        same(decides(&rig, "b:c:a", "shop"), "b hold");
        ok(&rig, "RULEUNSET", "a:b:c");
        same(decides(&rig, "a:b:c", "shop"), "a ratio");
        rig_release(&rig);
}

static void the_rule_of_a_target_comes_before_the_one_for_all(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "etl", "hold");
        ok(&rig, "RULESET", "etl", "exempt", "TARGET", "shop");
        same(decides(&rig, "etl", "shop"), "etl exempt");
        same(decides(&rig, "etl", "files"), "etl hold");
        same(decides(&rig, "etl", ""), "etl hold");
        /* A name is more than a target: that of a general name does not overrule it. */
        ok(&rig, "RULESET", "all", "ratio", "RATIO", "0.5", "TARGET", "files");
        same(decides(&rig, "etl", "files"), "etl hold");
        same(decides(&rig, "other", "files"), "all ratio");
        same(decides(&rig, "other", "shop"), "");
        ok(&rig, "RULEUNSET", "etl", "TARGET", "shop");
        same(decides(&rig, "etl", "shop"), "etl hold");
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
        assert_true(r->budget.began_ns == rig.now.steady_ns);
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
        ok(&rig, "RULESET", "all", "hold");
        ok(&rig, "RULESET", "etl", "ratio", "RATIO", "0.5", "MODE", "observe");
        struct rule_match m = match(&rig, "etl", "shop");
        assert_slice(m.share->who, "all");
        assert_slice(m.observed->who, "etl");
        /* Were all enforced, "job" would decide: what is behind it would never be asked. */
        ok(&rig, "RULESET", "job", "exempt");
        m = match(&rig, "job:etl", "shop");
        assert_slice(m.share->who, "job");
        assert_null(m.observed);
        ok(&rig, "RULESET", "etl", "hold", "TARGET", "shop");
        m = match(&rig, "etl", "shop");
        assert_slice(m.share->target, "shop");
        assert_null(m.observed);
        m = match(&rig, "etl", "files");
        assert_slice(m.observed->who, "etl");
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

/* ---- refusals ---- */

#define WORDS_MAX 16
static const struct refusal {
        const char *words[WORDS_MAX];
        const char *answer;
} refusals[] = {
        {{"RULESET", "etl", "ratio", "RATIO", "nan"}, "!BADARG ratio must be a number from 0 to 1"},
        {{"RULESET", "etl", "ratio", "RATIO", "-0.1"},
         "!BADARG ratio must be a number from 0 to 1"},
        {{"RULESET", "etl", "ratio", "RATIO", "1.01"},
         "!BADARG ratio must be a number from 0 to 1"},
        {{"RULESET", "etl", "ratio", "RATIO", "half"},
         "!BADARG ratio must be a number from 0 to 1"},
        {{"RULESET", "etl", "ratio", "RATIO", "inf"}, "such as 0.5, not 'inf'"},
        {{"RULESET", "etl", "ratio", "RATIO", "1e-1"}, "such as 0.5, not '1e-1'"},
        {{"RULESET", "etl", "ratio", "RATIO", "0x1"}, "such as 0.5, not '0x1'"},
        {{"RULESET", "etl", "ratio", "RATIO", " 1"}, "such as 0.5"},
        {{"RULESET", "etl", "ratio", "RATIO", "."}, "such as 0.5"},
        {{"RULESET", "etl", "ratio", "RATIO", "1.0.0"}, "such as 0.5"},
        {{"RULESET", "etl", "ratio", "RATIO", ""}, "!BADARG ratio"},
        {{"RULESET", "etl", "ratio"}, "!BADARG the kind ratio needs ratio"},
        {{"RULESET", "etl", "hold", "RATIO", "0.5"}, "!BADARG the kind hold takes no ratio"},
        {{"RULESET", "etl", "exempt", "METRICS", "lag"},
         "!BADARG the kind exempt takes no metrics"},
        {{"RULESET", "etl", "hold", "SELFENDING"}, "!BADARG selfending goes with the kind exempt"},
        {{"RULESET", "etl", "metrics"}, "!BADARG the kind metrics needs metrics"},
        {{"RULESET", "etl", "threshold", "METRICS", "lag"}, "!BADARG the kind threshold takes no"},
        {{"RULESET", "etl", "stop"}, "!BADARG kind must be one of hold|ratio|exempt"},
        {{"RULESET", "etl", "hold", "MODE", "off"}, "!BADARG mode must be one of observe|enforce"},
        {{"RULESET", "etl", "metrics", "METRICS", "lag", "MODE", "observe"},
         "!BADARG mode observe goes with hold, ratio and exempt"},
        {{"RULESET", "etl", "hold", "FOR", "604800001"},
         "!BADARG for must be 1 to 604800000 ms (7d) here, not 604800001"},
        {{"RULESET", "etl", "hold", "FOR", "0"}, "!BADARG for must be"},
        {{"RULESET", "etl", "hold", "FOR", "-5"}, "!BADARG for must be"},
        {{"RULESET", "etl", "hold", "FOR", "1h"}, "!BADARG for must be"},
        {{"RULESET", "etl", "hold", "ENDLESS"}, "!FORBIDDEN a rule without an end is not allowed"},
        {{"RULESET", "etl", "hold", "ENDLESS", "FOR", "1000"}, "!"},
        {{"RULESET", "etl", "hold", "TARGET", "db"},
         "!NOTFOUND there is no target 'db'; there are: shop, files"},
        {{"RULESET", "etl", "metrics", "METRICS", "disk_used", "TARGET", "shop"},
         "!NOTFOUND there is no metric 'disk_used' on shop; there are: replication_lag, "
         "threads_running"},
        {{"RULESET", "etl", "metrics", "METRICS", "lag,what"},
         "!NOTFOUND there is no metric 'what' on any target; there are: replication_lag, "
         "threads_running, disk_used"},
        {{"RULESET", "etl", "metrics", "METRICS", "disk_used,lag,disk_used"},
         "!BADARG the metric disk_used is given twice"},
        {{"RULESET", "etl", "threshold", "THRESHOLD", "lag=1,replication_lag=2"},
         "!BADARG the metric replication_lag is given twice"},
        {{"RULESET", "etl", "metrics", "METRICS", "lag,,disk_used"}, "!NOTFOUND"},
        {{"RULESET", "etl", "metrics", "METRICS", "lag,"}, "!BADARG metrics must be a list"},
        {{"RULESET", "etl", "metrics", "METRICS", "lag=1"}, "!BADARG metrics must be names"},
        {{"RULESET", "etl", "threshold", "THRESHOLD", "lag"}, "!BADARG threshold must be metric="},
        {{"RULESET", "etl", "threshold", "THRESHOLD", "lag="}, "!BADARG threshold must be metric="},
        {{"RULESET", "etl", "threshold", "THRESHOLD", "lag=-1"},
         "!BADARG threshold must be metric"},
        {{"RULESET", "etl", "threshold", "THRESHOLD", "lag=inf"},
         "numbers from 0 on, not 'lag=inf'"},
        {{"RULESET", "etl", "threshold", "THRESHOLD", "lag=1=2"},
         "!BADARG threshold must be metric"},
        {{"RULESET", "a:all", "hold"}, "!BADARG"},
        {{"RULESET", "a/shop", "hold"}, "!BADARG"},
        {{"RULESET", "a b", "hold"}, "!BADARG"},
        {{"RULESET", "a::b", "hold"}, "!BADARG"},
        {{"RULESET", "1:2:3:4:5:6:7:8:9", "hold"}, "!BADARG"},
        {{"RULESET", "etl", "hold", "AUTHOR", "a\nb"}, "!BADARG author must be UTF-8 without"},
        {{"RULESET", "etl", "hold", "REASON", "\xff"}, "!BADARG reason must be UTF-8 without"},
        {{"RULEUNSET", "etl"}, "!NOTFOUND 'etl' has no rule for every target; RULES lists"},
        {{"RULEUNSET", "there", "KIND", "exempt"}, "!NOTFOUND 'there' has no exempt for every"},
        {{"RULEUNSET", "there", "TARGET", "shop"}, "has no rule for the target shop"},
        {{"RULEUNSET", "there", "AUTHOR", "a\nb"}, "!BADARG author"},
        {{"RULEUNSET", "there/files"}, "!NOTFOUND"},
        {{"RULEUNSET", "there", "KIND", "pause"}, "!BADARG kind must be one of"},
        {{"PRIORITIZE", "all"}, "!BADARG 'all' is everybody: name the one that comes first"},
        {{"PRIORITIZE", "etl", "RATIO", "2"}, "!BADARG ratio must be a number from 0 to 1"},
        {{"PRIORITIZE", "etl", "TARGET", "db"}, "!NOTFOUND there is no target 'db'"},
        {{"PRIORITIZE", "etl", "FOR", "604800001"}, "!BADARG for must be 1 to 604800000"},
        {{"PRIORITIZE", "e/tl"}, "!BADARG"},
        {{"PRIORITIZE", "etl", "REASON", "\x01"}, "!BADARG reason"},
};

static void a_refusal_says_why_and_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        ok(&rig, "RULESET", "there", "hold");
        ok(&rig, "RULESET", "there", "exempt", "TARGET", "files");
        for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
                struct slice argv[WORDS_MAX];
                size_t argc = 0;
                uint64_t before = state_digest(&rig.core->state), seq = rig.log.last_seq;
                for (; argc < WORDS_MAX && refusals[i].words[argc]; argc++)
                        argv[argc] = slice_str(refusals[i].words[argc]);
                const char *text = rig_argv(&rig, &rig.me, argv, argc);
                assert_int_equal(text[0], '!');
                has(text, refusals[i].answer);
                assert_true(state_digest(&rig.core->state) == before);
                assert_int_equal(rig.log.last_seq, seq);
        }
        rig_release(&rig);
}

static void long_texts_are_refused_and_the_longest_allowed_are_kept(void **unused)
{
        (void)unused;
        struct rig rig;
        char text[10001], name[256];
        memset(text, 'x', sizeof(text));
        init(&rig);
        text[10000] = '\0';
        has(rig_do(&rig, "RULESET", text, "hold"), "!TOOBIG");
        has(rig_do(&rig, "RULEUNSET", text), "!TOOBIG");
        text[RULE_REASON_BYTES + 1] = '\0';
        has(rig_do(&rig, "RULESET", "etl", "hold", "REASON", text), "!");
        text[RULE_REASON_BYTES] = '\0';
        ok(&rig, "RULESET", "etl", "hold", "REASON", text);
        text[RULE_AUTHOR_BYTES + 1] = '\0';
        has(rig_do(&rig, "RULESET", "etl", "hold", "AUTHOR", text), "!");
        has(rig_do(&rig, "RULEUNSET", "etl", "AUTHOR", text), "!");
        text[RULE_AUTHOR_BYTES] = '\0';
        ok(&rig, "RULESET", "etl", "hold", "AUTHOR", text);
        for (size_t i = 0; i < sizeof(name); i++)
                name[i] = i % 65 == 64 ? ':' : 'n'; /* parts of 64 bytes */
        name[255] = '\0';
        ok(&rig, "RULESET", name, "threshold", "THRESHOLD", "lag=1", "TARGET", "shop");
        assert_non_null(match(&rig, name, "shop").threshold);
        restart(&rig);
        assert_non_null(match(&rig, name, "shop").threshold);
        rig_release(&rig);
}

/* A contract of the check door hands over what its own client wrote. */
static void rule_set_itself_checks_what_no_command_would_let_through(void **unused)
{
        (void)unused;
        struct rig rig;
        struct problem problem;
        init(&rig);
        const struct rule_set good = {.who = SLICE_LIT("etl"),
                                      .values = {.kind = RULE_RATIO, .mode = MODE_ENFORCE}};
        uint64_t before = state_digest(&rig.core->state);
        struct rule_set set = good;
        set.values.ratio_ppm = RULE_RATIO_ONE + 1;
        assert_int_equal(rule_set(rig.core, &set, &problem), ERR_BADARG);
        set = good;
        set.values.mode = MODE_OFF;
        assert_int_equal(rule_set(rig.core, &set, &problem), ERR_BADARG);
        set = good;
        set.values.kind = RULE_HOLD;
        set.values.ratio_ppm = 1;
        assert_int_equal(rule_set(rig.core, &set, &problem), ERR_BADARG);
        set = good;
        set.for_ms = -2;
        assert_int_equal(rule_set(rig.core, &set, &problem), ERR_BADARG);
        set = good;
        set.values.list = SLICE_LIT("lag");
        assert_int_equal(rule_set(rig.core, &set, &problem), ERR_BADARG);
        set = good;
        set.who = SLICE_NONE;
        assert_int_equal(rule_set(rig.core, &set, &problem), ERR_BADARG);
        assert_true(state_digest(&rig.core->state) == before);
        assert_int_equal(rule_set(rig.core, &good, &problem), OK);
        assert_true(rule_unset(rig.core, SLICE_LIT("share"), good.who, SLICE_NONE, SLICE_NONE,
                               SLICE_LIT("10.0.0.1")));
        assert_false(rule_unset(rig.core, SLICE_LIT("share"), good.who, SLICE_NONE, SLICE_NONE,
                                SLICE_NONE));
        has(rig_do(&rig, "RULEHISTORY"), "action:'unset' rule:'share:etl' author:'10.0.0.1'");
        rig_release(&rig);
}

static void the_operator_says_how_long_a_rule_may_be(void **unused)
{
        (void)unused;
        struct rig rig;
        const struct core_checks checks = {
                .mode = MODE_ENFORCE, .rule_max_ms = 60000, .is_endless_allowed = true};
        init(&rig);
        configure(&rig, &checks);
        has(rig_do(&rig, "RULESET", "etl", "hold", "FOR", "60001"), "1 to 60000 ms (1m) here");
        ok(&rig, "RULESET", "etl", "hold", "FOR", "60000");
        ok(&rig, "RULESET", "etl", "hold"); /* the usual hour would be too long */
        has(rig_do(&rig, "RULES"), "left_ms:60000 ");
        ok(&rig, "RULESET", "etl", "hold", "ENDLESS");
        rig_pass_ms(&rig, 2 * DAY_MS);
        assert_int_equal(n_rules(&rig), 1);
        restart(&rig);
        has(rig_do(&rig, "RULES"), "left_ms:-1 ");
        rig_release(&rig);
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

static void prioritize_sets_both_rules_or_none(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[24];
        init(&rig);
        for (int i = 0; i < LIMIT_RULES - 1; i++) {
                (void)snprintf(name, sizeof(name), "n%d", i);
                ok(&rig, "RULESET", name, "hold");
        }
        uint64_t before = state_digest(&rig.core->state);
        has(rig_do(&rig, "PRIORITIZE", "billing"), "!LIMIT there are 9999 rules already");
        assert_true(state_digest(&rig.core->state) == before);
        ok(&rig, "PRIORITIZE", "n7"); /* that one is there already */
        has(rig_do(&rig, "RULESET", "one_more", "hold"), "!LIMIT there are 10000 rules already");
        ok(&rig, "RULESET", "n8", "exempt"); /* in place of another */
        same(decides(&rig, "n8:n9", "shop"), "n8 exempt");
        same(decides(&rig, "x:n9998", "shop"), "n9998 hold");
        rig_pass_ms(&rig, HOUR_MS); /* bounded steps a turn, all of them within a second */
        same(decides(&rig, "n9", "shop"), "");
        for (int i = 0; i < 20; i++)
                rig_pass_ms(&rig, 10);
        assert_int_equal(n_rules(&rig), 0);
        restart(&rig);
        rig_release(&rig);
}

/* ---- history ---- */

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
                cmocka_unit_test(a_rule_ends_at_its_time_and_not_before),
                cmocka_unit_test(a_rule_lasts_an_hour_unless_it_says_otherwise),
                cmocka_unit_test(an_alarm_that_is_late_does_not_lengthen_a_rule),
                cmocka_unit_test(jumps_of_the_wall_clock_do_not_move_the_end),
                cmocka_unit_test(a_rule_ends_at_its_time_over_a_recovery),
                cmocka_unit_test(a_restart_of_an_idle_weir_lengthens_a_rule_by_seconds_at_most),
                cmocka_unit_test(without_an_ending_rule_nothing_beats),
                cmocka_unit_test(the_most_specific_name_wins),
                cmocka_unit_test(the_rule_of_a_target_comes_before_the_one_for_all),
                cmocka_unit_test(hold_ratio_and_exempt_replace_each_other),
                cmocka_unit_test(a_rule_set_again_has_the_new_end_and_a_new_budget),
                cmocka_unit_test(one_that_observes_is_told_apart_from_one_that_decides),
                cmocka_unit_test(the_lists_of_all_parts_count_together),
                cmocka_unit_test(eight_parts_and_the_whole_may_each_have_a_list),
                cmocka_unit_test(a_threshold_is_that_of_the_most_specific),
                cmocka_unit_test(a_list_is_read_name_by_name),
                cmocka_unit_test(a_ratio_reads_back_as_it_was_written),
                cmocka_unit_test(a_refusal_says_why_and_changes_nothing),
                cmocka_unit_test(long_texts_are_refused_and_the_longest_allowed_are_kept),
                cmocka_unit_test(rule_set_itself_checks_what_no_command_would_let_through),
                cmocka_unit_test(the_operator_says_how_long_a_rule_may_be),
                cmocka_unit_test(unset_takes_the_rules_of_that_name_and_target_alone),
                cmocka_unit_test(a_rule_of_a_target_that_is_gone_can_be_removed),
                cmocka_unit_test(prioritize_gives_all_others_a_ratio_for_the_same_time),
                cmocka_unit_test(prioritize_sets_both_rules_or_none),
                cmocka_unit_test(the_history_tells_who_did_what_newest_first),
                cmocka_unit_test(every_change_is_told_to_those_who_read_the_gate),
                cmocka_unit_test(a_long_text_is_cut_between_characters),
                cmocka_unit_test(the_history_keeps_the_last_five_hundred),
                cmocka_unit_test(entries_before_the_first_kept_record_are_passed_over),
                cmocka_unit_test(rules_are_listed_page_by_page),
                cmocka_unit_test(each_comes_by_name_without_those_past_their_end),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Rules that are refused, why, and that nothing is changed. */
#include "rule_box.h"

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
        {{"RULESET", "etl", "metrics", "METRICS", "lag", "MODE", "off"},
         "!BADARG mode must be one of observe|enforce"},
        {{"RULESET", "etl", "hold", "FOR", "604800001"},
         "!BADARG for must be 1 to 604800000 ms (7d) here, not 604800001"},
        {{"RULESET", "etl", "hold", "FOR", "0"}, "!BADARG for must be"},
        {{"RULESET", "etl", "hold", "FOR", "-5"}, "!BADARG for must be"},
        {{"RULESET", "etl", "hold", "FOR", "1h"}, "!BADARG for must be"},
        {{"RULESET", "etl", "hold", "ENDLESS"}, "!FORBIDDEN a rule without an end is not allowed"},
        {{"RULESET", "etl", "hold", "ENDLESS", "FOR", "1000"}, "!"},
        {{"RULESET", "etl", "hold", "TARGET", "db"},
         "!NOTFOUND there is no target 'db'; there are shop, files"},
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
        {{"RULEUNSET", "there", "MODE", "off"}, "!BADARG mode must be one of observe|enforce"},
        {{"RULEUNSET", "there", "MODE", "observe"}, "!NOTFOUND 'there' has no observed rule"},
        {{"RULEUNSET", "there", "TARGET", "/observe"}, "!NOTFOUND"},
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
        ok(&rig, "RULESET", name, "threshold", "THRESHOLD", "lag=1", "TARGET", "shop", "MODE",
           "observe");
        restart(&rig);
        assert_non_null(match(&rig, name, "shop").threshold);
        ok(&rig, "RULEUNSET", name, "TARGET", "shop", "MODE", "observe");
        assert_non_null(match(&rig, name, "shop").threshold);
        rig_release(&rig);
}

static void a_name_in_the_log_that_no_rule_has_is_damage(void **unused)
{
        (void)unused;
        static const struct {
                const char *name;
                enum gate_mode mode;
                int answer;
        } cases[] = {
                {"share:etl", MODE_ENFORCE, OK},
                {"share:etl/shop", MODE_ENFORCE, OK},
                {"share:etl//observe", MODE_OBSERVE, OK},
                {"share:etl/shop/observe", MODE_OBSERVE, OK},
                {"share:etl//observe", MODE_ENFORCE, ERR_CORRUPT},
                {"share:etl/shop/observe", MODE_ENFORCE, ERR_CORRUPT},
                {"share:etl/", MODE_OBSERVE, ERR_CORRUPT},
                {"share:etl/shop/", MODE_OBSERVE, ERR_CORRUPT},
                {"share:etl/shop/observed", MODE_OBSERVE, ERR_CORRUPT},
                {"share:etl/shop//observe", MODE_OBSERVE, ERR_CORRUPT},
                {"metrics:etl//observe", MODE_OBSERVE, ERR_CORRUPT},
                {"share:", MODE_ENFORCE, ERR_CORRUPT},
                {"share", MODE_ENFORCE, ERR_CORRUPT},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct rule_values v = {.kind = RULE_HOLD, .mode = (uint8_t)cases[i].mode};
                struct problem problem;
                struct state s;
                struct buf body;
                state_init(&s, 1, thing_kinds);
                buf_init(&body, 0);
                rule_put(&v, &body);
                struct effect e = {.type = EFFECT_THING_SET,
                                   .kind = THING_RULE,
                                   .name = slice_str(cases[i].name),
                                   .body = buf_slice(&body)};
                assert_int_equal(state_apply(&s, &e, 1, &problem), cases[i].answer);
                buf_release(&body);
                state_release(&s);
        }
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
        const struct rule_place place = {.slot = SLICE_LIT("share"), .who = good.who};
        assert_true(rule_unset(rig.core, &place, SLICE_NONE, SLICE_LIT("10.0.0.1")));
        assert_false(rule_unset(rig.core, &place, SLICE_NONE, SLICE_NONE));
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_refusal_says_why_and_changes_nothing),
                cmocka_unit_test(long_texts_are_refused_and_the_longest_allowed_are_kept),
                cmocka_unit_test(a_name_in_the_log_that_no_rule_has_is_damage),
                cmocka_unit_test(rule_set_itself_checks_what_no_command_would_let_through),
                cmocka_unit_test(the_operator_says_how_long_a_rule_may_be),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

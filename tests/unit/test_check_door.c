/* The check door in the core: verdicts, metrics, thresholds, rules, credits, waiting in turn. */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "checks/check_ctx.h"
#include "support/rig.h"

#define CLIENTS 256

enum { LAG, THREADS };

static const struct core_metric metrics[] = {
        {.name = "replication_lag",
         .rule = {{2, 10}, {1, 5}, 5 * NS_PER_S, false},
         .check_above = 2,
         .is_checked = true},
        {.name = "threads_running",
         .rule = {{5, 15}, {3, 10}, 5 * NS_PER_S, false},
         .check_above = 50},
};
static const struct core_target targets[] = {
        {.name = "shop",
         .metrics = metrics,
         .n_metrics = 2,
         .dwell_ns = 30 * NS_PER_S,
         .mode = -1,
         .kind = "mysql",
         .unknown = {{UNKNOWN_OPEN, 0},
                     {UNKNOWN_OPEN, 0},
                     {UNKNOWN_CLOSED, 0},
                     {UNKNOWN_WAIT, 30000}}},
        {.name = "stock", .metrics = metrics, .n_metrics = 1, .dwell_ns = NS_PER_S, .mode = -1},
};

static void set_up(struct rig *rig, enum gate_mode mode)
{
        rig_set_gate(rig, targets, ARRAY_LEN(targets), MODE_OFF, mode);
}

static void init(struct rig *rig)
{
        rig_init(rig);
        set_up(rig, MODE_ENFORCE);
        rig_turn(rig);
}

static void sample(struct rig *rig, size_t metric, double value)
{
        rig_sample(rig, 0, metric, value);
}

static void both(struct rig *rig, double lag, double threads)
{
        sample(rig, LAG, lag);
        sample(rig, THREADS, threads);
}

/* Seconds pass with the same lag each. */
static void lag_for(struct rig *rig, double lag, int seconds)
{
        for (int i = 0; i < seconds; i++) {
                rig_pass_ms(rig, 1000);
                both(rig, lag, 1);
        }
        rig_turn(rig);
}

static void an_ask_below_the_threshold_is_granted_and_above_it_refused(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 2, 1);
        const char *at = rig_do(&rig, "CHECK", "etl");
        has(at, "granted");
        has(at, "replication_lag");
        both(&rig, 2.5, 1);
        const char *above = rig_do(&rig, "CHECK", "etl");
        has(above, "refused");
        has(above, "threshold");
        has(above, "2.5");
        rig_release(&rig);
}

static void named_metrics_decide_instead_of_those_of_the_target(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 99, 1);
        has(rig_do(&rig, "CHECK", "etl"), "refused");
        sample(&rig, LAG, 0);
        lag_for(&rig, 0, 40);
        both(&rig, 0, 60);
        has(rig_do(&rig, "CHECK", "etl", "METRICS", "threads_running"), "refused");
        has(rig_do(&rig, "CHECK", "etl", "METRICS", "lag"), "level"); /* threads are critical */
        has(rig_do(&rig, "CHECK", "etl", "PRIORITY", "critical", "METRICS", "self/lag"), "granted");
        has(rig_do(&rig, "CHECK", "etl", "METRICS", "nonsense"), "it has replication_lag");
        has(rig_do(&rig, "CHECK", "etl", "TARGET", "nowhere"), "there are shop, stock");
        has(rig_do(&rig, "CHECK", "a::b"), "BADARG");
        rig_release(&rig);
}

static void an_unknown_metric_means_what_the_tier_says(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        rig_pass_ms(&rig, 6000); /* nothing was ever sampled */
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "critical"), "granted");
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "high"), "granted");
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "normal"), "unknown");
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "deferrable"), "refused");
        rig_pass_ms(&rig, 25000);
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "normal"), "refused");
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "deferrable"), "granted");
        rig_release(&rig);
}

/* A value counts until it is stale (5 s); only then the 30 s of "wait:30s" begin. */
static void waiting_for_an_unknown_metric_begins_when_its_value_is_too_old(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 0, 1);
        rig_pass_ms(&rig, 5000);
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "deferrable"), "granted");
        rig_pass_ms(&rig, 29999);
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "deferrable"), "refused");
        rig_pass_ms(&rig, 1);
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "deferrable"), "granted");
        rig_release(&rig);
}

static void lose(struct rig *rig, size_t metric)
{
        core_sample(rig->core, 0, metric, 0, rig->now.steady_ns, SAMPLE_FAILED,
                    SLICE_LIT("too many connections"));
        rig_turn(rig);
}

/* An overloaded database is the one that does not answer its probe. */
static void what_critical_refused_stays_refused_while_nobody_answers(void **state)
{
        (void)state;
        static const char *const by[] = {"replication_lag", "threads_running"};
        struct rig rig;
        init(&rig);
        both(&rig, 0, 60);
        lose(&rig, LAG);
        lose(&rig, THREADS);
        for (size_t i = 0; i < ARRAY_LEN(by); i++) {
                const char *high = rig_do(&rig, "CHECK", "a", "PRIORITY", "high", "METRICS", by[i]);
                has(high, "refused");
                has(high, "level");
                has(rig_do(&rig, "CHECK", "a", "PRIORITY", "critical", "METRICS", by[i]),
                    "granted");
        }
        rig_pass_ms(&rig, 29999);
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "deferrable"), "refused");
        rig_pass_ms(&rig, 1); /* wait:30s says itself for how long */
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "deferrable"), "granted");
        rig_pass_ms(&rig, 270 * MS_PER_S - 1);
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "high"), "refused");
        rig_pass_ms(&rig, 1); /* as long as critical delays the tier high */
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "high"), "granted");
        has(rig_do(&rig, "CHECK", "a", "PRIORITY", "normal"), "refused");
        rig_release(&rig);
}

static void low_priority_yields_for_a_second_after_a_refusal(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 3, 1);
        has(rig_do(&rig, "CHECK", "etl"), "threshold");
        both(&rig, 0, 1);
        has(rig_do(&rig, "CHECK", "purge", "PRIORITY", "deferrable"), "low_priority");
        rig_pass_ms(&rig, 999);
        both(&rig, 0, 1);
        has(rig_do(&rig, "CHECK", "purge", "PRIORITY", "deferrable"), "low_priority");
        rig_pass_ms(&rig, 1);
        has(rig_do(&rig, "CHECK", "purge", "PRIORITY", "deferrable"), "granted");
        rig_release(&rig);
}

static void rules_hold_share_and_exempt(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 0, 1);
        rig_do(&rig, "RULESET", "etl", "hold");
        has(rig_do(&rig, "CHECK", "nightly:etl"), "hold");
        has(rig_do(&rig, "CHECK", "nightly:purge"), "granted");
        rig_do(&rig, "RULESET", "nightly", "exempt"); /* more specific, and no match for a hold */
        both(&rig, 50, 1);
        has(rig_do(&rig, "CHECK", "nightly:etl"), "reason:'hold'");
        has(rig_do(&rig, "CHECK", "nightly:etl"), "rule:'share:etl'");
        rig_do(&rig, "RULESET", "etl", "ratio", "RATIO", "1");
        has(rig_do(&rig, "CHECK", "nightly:etl"), "exempt");
        has(rig_do(&rig, "CHECK", "nightly:etl"), "granted");
        has(rig_do(&rig, "CHECK", "weekly:purge"), "threshold");
        rig_do(&rig, "RULESET", "purge", "threshold", "THRESHOLD", "replication_lag=60");
        has(rig_do(&rig, "CHECK", "weekly:purge"), "granted");
        rig_do(&rig, "RULESET", "weekly", "metrics", "METRICS", "threads_running");
        sample(&rig, THREADS, 51);
        has(rig_do(&rig, "CHECK", "weekly:other"), "threads_running");
        rig_release(&rig);
}

static void a_hold_is_the_reason_even_of_a_low_priority_ask(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 50, 1);
        has(rig_do(&rig, "CHECK", "weekly"), "threshold"); /* low priority yields now */
        rig_do(&rig, "RULESET", "all", "hold");
        rig_do(&rig, "RULESET", "etl", "ratio", "RATIO", "0");
        has(rig_do(&rig, "CHECK", "etl", "PRIORITY", "deferrable"), "reason:'hold'");
        has(rig_do(&rig, "CHECK", "etl", "PRIORITY", "deferrable"), "rule:'share:all'");
        rig_release(&rig);
}

static void an_observing_rule_changes_nothing_but_what_is_told(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 0, 1);
        rig_do(&rig, "RULESET", "etl", "hold", "MODE", "observe");
        const char *told = rig_do(&rig, "CHECK", "etl");
        has(told, "granted");
        has(told, "hold");
        has(told, "share:etl");
        both(&rig, 9, 1); /* refused for another reason, and not by the rule */
        told = rig_do(&rig, "CHECK", "etl");
        has(told, "threshold");
        assert_null(strstr(told, "share:etl"));
        rig_release(&rig);
}

static void the_rule_that_decided_is_named_in_full_however_long(void **state)
{
        (void)state;
        struct rig rig;
        char name[IDENTITY_BYTES + 1], rule[IDENTITY_BYTES + 16];
        init(&rig);
        both(&rig, 0, 1);
        for (size_t i = 0; i < IDENTITY_BYTES; i++)
                name[i] = i % 64 == 63 ? ':' : 'x';
        name[IDENTITY_BYTES] = '\0';
        (void)snprintf(rule, sizeof(rule), "share:%s/shop", name);
        rig_do(&rig, "RULESET", name, "hold", "TARGET", "shop");
        has(rig_do(&rig, "CHECK", name), rule);
        rig_release(&rig);
}

static void a_list_that_observes_says_what_it_would_refuse(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 1.5, 4);
        assert_string_equal(rig_do(&rig, "RULESET", "etl", "threshold", "THRESHOLD",
                                   "replication_lag=1", "MODE", "observe"),
                            "OK");
        has(rig_do(&rig, "CHECK", "etl"), "verdict:'granted' reason:'granted' "
                                          "metric:'replication_lag' value:'1.5' threshold:'2'");
        has(rig_do(&rig, "CHECK", "etl"), "rule:'threshold:etl'");
        has(rig_do(&rig, "CHECK", "etl"), "would:'threshold' target:'shop'");
        assert_int_equal(rig.core->checking->observed, 3);
        has(rig_do(&rig, "THROTTLED"), "verdict:'would_refuse'");
        has(rig_do(&rig, "THROTTLED"), "replication_lag 1.5 against 1");
        has(rig_do(&rig, "CHECK", "other"), "would:'' target:'shop'");
        /* By a metric that it is not checked by otherwise, and by both together. */
        rig_do(&rig, "RULESET", "etl", "metrics", "METRICS", "threads_running", "MODE", "observe");
        has(rig_do(&rig, "CHECK", "etl"), "would:'' target:'shop'");
        rig_do(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "threads_running=3", "MODE",
               "observe");
        has(rig_do(&rig, "CHECK", "etl"), "would:'threshold' target:'shop'");
        rig_do(&rig, "RULEUNSET", "etl", "KIND", "threshold");
        both(&rig, 1.5, 99);
        has(rig_do(&rig, "CHECK", "etl", "PRIORITY", "critical"), "rule:'metrics:etl'");
        rig_release(&rig);
}

static void a_list_that_observes_says_nothing_where_it_would_not_decide(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 1.5, 1);
        rig_do(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "replication_lag=1", "MODE",
               "observe");
        /* A more specific one is enforced, an exemption, checks are off. */
        rig_do(&rig, "RULESET", "a", "threshold", "THRESHOLD", "replication_lag=4");
        has(rig_do(&rig, "CHECK", "a:etl"), "would:'' target:'shop'");
        rig_do(&rig, "RULESET", "vip", "exempt");
        has(rig_do(&rig, "CHECK", "vip:etl"), "would:'' target:'shop'");
        /* What it would let through is refused, by the threshold that holds. */
        both(&rig, 9, 1);
        rig_do(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "replication_lag=20", "MODE",
               "observe");
        const char *told = rig_do(&rig, "CHECK", "etl");
        has(told, "verdict:'refused' reason:'threshold' metric:'replication_lag' value:'9' "
                  "threshold:'2'");
        assert_null(strstr(told, "threshold:etl"));
        assert_int_equal(rig.core->checking->observed, 0);
        set_up(&rig, MODE_OFF);
        rig_do(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "replication_lag=1", "MODE",
               "observe");
        has(rig_do(&rig, "CHECK", "etl"), "would:'' target:'shop'");
        assert_int_equal(rig.core->checking->observed, 0);
        rig_release(&rig);
}

static void a_threshold_on_trial_leaves_the_enforced_one_in_force(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 3, 1); /* above the metric's own threshold of 2 */
        rig_do(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "replication_lag=6");
        rig_do(&rig, "RULESET", "etl", "threshold", "THRESHOLD", "replication_lag=4", "MODE",
               "observe");
        has(rig_do(&rig, "CHECK", "etl"), "would:'' target:'shop'");
        both(&rig, 5, 1); /* good for the one that holds, too much for the other */
        has(rig_do(&rig, "CHECK", "etl"), "verdict:'granted' reason:'granted' "
                                          "metric:'replication_lag' value:'5' threshold:'6'");
        has(rig_do(&rig, "CHECK", "etl"), "would:'threshold' target:'shop'");
        assert_int_equal(rig.core->checking->observed, 2);
        has(rig_do(&rig, "THROTTLED"), "replication_lag 5 against 4");
        both(&rig, 7, 1); /* too much for both: the enforced one refuses */
        has(rig_do(&rig, "CHECK", "etl"), "verdict:'refused' reason:'threshold' "
                                          "metric:'replication_lag' value:'7' threshold:'6'");
        assert_int_equal(rig.core->checking->observed, 2);
        rig_release(&rig);
}

static void a_hold_on_trial_leaves_the_enforced_rule_in_force(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 0, 1);
        rig_do(&rig, "RULESET", "etl", "ratio", "RATIO", "0");
        rig_do(&rig, "RULESET", "etl", "hold", "MODE", "observe");
        const char *told = rig_do(&rig, "CHECK", "etl");
        has(told, "verdict:'granted' reason:'granted'");
        has(told, "would:'hold'");
        rig_do(&rig, "RULESET", "etl", "hold");
        rig_do(&rig, "RULESET", "etl", "exempt", "MODE", "observe");
        has(rig_do(&rig, "CHECK", "etl"), "verdict:'refused' reason:'hold'");
        rig_release(&rig);
}

static void observed_checks_are_granted_and_say_what_would_be(void **state)
{
        (void)state;
        struct rig rig;
        rig_init(&rig);
        set_up(&rig, MODE_OBSERVE);
        rig_turn(&rig);
        both(&rig, 9, 1);
        const char *told = rig_do(&rig, "CHECK", "etl");
        has(told, "granted");
        has(told, "threshold");
        assert_int_equal(rig.core->checking->observed, 1);
        rig_release(&rig);
}

/* Else a trial would slow down those who keep to what they are told. */
static void observed_checks_are_not_paced(void **state)
{
        (void)state;
        struct rig rig;
        rig_init(&rig);
        set_up(&rig, MODE_OBSERVE);
        rig_turn(&rig);
        for (int i = 0; i < 30; i++) {
                lag_for(&rig, 9, 1);
                has(rig_do(&rig, "CHECK", "etl", "WAIT", "60000"), "wait_ms:0 ");
        }
        rig_release(&rig);
}

static void the_operators_pause_refuses_those_who_wait_at_critical(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        both(&rig, 0, 1);
        rig_do(&rig, "THROTTLE", "pause", "FOR", "60000");
        has(rig_do(&rig, "CHECK", "etl"), "paused");
        has(rig_do(&rig, "CHECK", "etl", "PRIORITY", "critical"), "granted");
        rig_pass_ms(&rig, 60001);
        both(&rig, 0, 1);
        has(rig_do(&rig, "CHECK", "etl"), "granted");
        rig_release(&rig);
}

static void credits_grow_while_it_is_calm_and_end_with_the_pressure(void **state)
{
        (void)state;
        struct rig rig;
        struct problem problem;
        struct check_answer *a = xcalloc(1, sizeof(*a));
        struct check_ask ask = {.identity = SLICE_LIT("etl"), .tier = -1, .threshold = NAN};
        init(&rig);
        for (int i = 0; i < 20; i++) { /* it comes back as soon as it may */
                for (int k = 0; k < 20; k++)
                        assert_int_equal(core_check(rig.core, &ask, a, &problem), OK);
                assert_true(i == 0 || (a->wait_ms > 0 && a->wait_ms <= 250));
                lag_for(&rig, 0.1, 1);
        }
        assert_int_equal(core_check(rig.core, &ask, a, &problem), OK);
        assert_true(a->verdict.is_granted && a->credits >= 10 && a->credit_ms > 0);
        ask.cost = 1000000;
        assert_int_equal(core_check(rig.core, &ask, a, &problem), OK);
        assert_int_equal(a->credits, 0);
        ask.cost = 1;
        lag_for(&rig, 2, 1); /* at the limit: granted, with nothing to spare */
        assert_int_equal(core_check(rig.core, &ask, a, &problem), OK);
        assert_true(a->verdict.is_granted && a->credits == 0);
        free(a);
        rig_release(&rig);
}

/* They are printed once and copied until they change. */
static void value_and_threshold_are_told_as_they_are_now(void **state)
{
        static const struct {
                double lag;
                const char *told;
        } cases[] = {
                {0.1, "0.1"},    {0.1, "0.1"},
                {1, "1"},        {1.0 / 3, "0.3333333333"},
                {0, "0"},        {1e-7, "1e-07"},
                {-0.0, "0"},     {3, "3"},
                {2e15, "2e+15"}, {123456.7891234, "123456.7891"},
        };
        (void)state;
        struct rig rig;
        init(&rig);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                lag_for(&rig, cases[i].lag, 1);
                for (int again = 0; again < 2; again++) {
                        char text[64];
                        (void)snprintf(text, sizeof(text), "value:'%s' threshold:'2' ",
                                       cases[i].told);
                        has(rig_do(&rig, "CHECK", "etl"), text);
                }
        }
        lag_for(&rig, 0.1, 1);
        rig_do(&rig, "RULESET", "purge", "threshold", "THRESHOLD", "replication_lag=2.5");
        has(rig_do(&rig, "CHECK", "purge"), "value:'0.1' threshold:'2.5' ");
        has(rig_do(&rig, "CHECK", "etl"), "value:'0.1' threshold:'2' ");
        has(rig_do(&rig, "CHECK", "purge"), "value:'0.1' threshold:'2.5' ");
        rig_release(&rig);
}

static void a_waiting_ask_goes_when_it_may(void **state)
{
        (void)state;
        struct rig rig;
        struct rig_session other;
        init(&rig);
        rig_session_init(&other);
        both(&rig, 9, 1);
        assert_string_equal(rig_as(&rig, &other, "CHECK", "etl", "WAIT", "60000", "METRICS", "lag"),
                            "(waits)");
        lag_for(&rig, 9, 3);
        assert_false(other.is_answered);
        lag_for(&rig, 0, 1);
        rig_pass_ms(&rig, 250);
        rig_turn(&rig);
        assert_true(other.is_answered);
        has(text_reply_str(&other.reply), "granted");
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

static void a_waiting_ask_is_refused_when_its_time_is_over(void **state)
{
        (void)state;
        struct rig rig;
        struct rig_session other;
        init(&rig);
        rig_session_init(&other);
        both(&rig, 9, 1);
        rig_as(&rig, &other, "CHECK", "etl", "WAIT", "2000");
        rig_pass_ms(&rig, 1999);
        rig_turn(&rig);
        assert_false(other.is_answered);
        rig_pass_ms(&rig, 1);
        rig_turn(&rig);
        assert_true(other.is_answered);
        has(text_reply_str(&other.reply), "refused");
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

/* The same identity waits for two metrics, and only the one it asked for last falls. */
static void a_waiting_ask_is_not_held_up_by_another_that_may_not_go(void **state)
{
        (void)state;
        struct rig rig;
        struct rig_session s[3];
        init(&rig);
        both(&rig, 9, 60);
        for (size_t i = 0; i < ARRAY_LEN(s); i++) {
                rig_session_init(&s[i]);
                const char *metric = i < 2 ? "replication_lag" : "threads_running";
                assert_string_equal(rig_as(&rig, &s[i], "CHECK", "etl", "WAIT", "600000",
                                           "PRIORITY", "critical", "METRICS", metric),
                                    "(waits)");
        }
        lag_for(&rig, 9, 4);
        assert_false(s[0].is_answered || s[1].is_answered);
        assert_true(s[2].is_answered);
        has(text_reply_str(&s[2].reply), "granted");
        for (size_t i = 0; i < ARRAY_LEN(s); i++)
                rig_session_release(&rig, &s[i]);
        rig_release(&rig);
}

/* Half of them are refused, as without waiting: the end of the wait is no second chance. */
static void the_end_of_a_wait_rolls_no_dice_again(void **state)
{
        (void)state;
        struct rig rig;
        struct rig_session s;
        char name[16];
        int granted = 0, n = 4000;
        init(&rig);
        rig_session_init(&s);
        rig_do(&rig, "RULESET", "etl", "ratio", "RATIO", "0.5");
        for (int i = 0; i < n; i++) {
                (void)snprintf(name, sizeof(name), "%d:etl", i);
                both(&rig, 0, 1);
                s.is_answered = false;
                const char *told = rig_as(&rig, &s, "CHECK", name, "WAIT", "10");
                if (strcmp(told, "(waits)") == 0) {
                        rig_pass_ms(&rig, 10);
                        rig_turn(&rig);
                        assert_true(s.is_answered);
                        told = text_reply_str(&s.reply);
                }
                granted += strstr(told, "refused") == NULL;
        }
        if (granted < n * 45 / 100 || granted > n * 55 / 100)
                fail_msg("%d of %d were granted", granted, n);
        rig_session_release(&rig, &s);
        rig_release(&rig);
}

/* 255 asks of one identity and one ask of another that came last: it is not behind all of them. */
static void identities_take_turns(void **state)
{
        (void)state;
        struct rig rig;
        static struct rig_session s[CLIENTS];
        init(&rig);
        both(&rig, 9, 1);
        for (size_t i = 0; i < CLIENTS; i++) {
                rig_session_init(&s[i]);
                rig_as(&rig, &s[i], "CHECK", i + 1 < CLIENTS ? "greedy" : "modest", "WAIT",
                       "600000");
        }
        size_t answered = 0;
        for (int round = 0; round < 4 && !s[CLIENTS - 1].is_answered; round++)
                lag_for(&rig, 0, 1);
        for (size_t i = 0; i < CLIENTS; i++)
                answered += s[i].is_answered;
        assert_true(s[CLIENTS - 1].is_answered);
        assert_true(answered < CLIENTS / 2);
        for (size_t i = 0; i < CLIENTS; i++)
                rig_session_release(&rig, &s[i]);
        rig_release(&rig);
}

/* 256 identities that ask again as soon as they may: nobody is two steps ahead of another. */
static void waiting_is_fair_between_256_clients(void **state)
{
        (void)state;
        struct rig rig;
        static struct rig_session s[CLIENTS];
        int grants[CLIENTS] = {0};
        init(&rig);
        both(&rig, 9, 1);
        for (size_t i = 0; i < CLIENTS; i++) {
                char name[16];
                rig_session_init(&s[i]);
                (void)snprintf(name, sizeof(name), "c%zu", i);
                assert_string_equal(rig_as(&rig, &s[i], "CHECK", name, "WAIT", "600000"),
                                    "(waits)");
        }
        for (int second = 0; second < 400; second++) {
                lag_for(&rig, second % 20 < 3 ? 0 : 9, 1); /* short calms */
                rig_pass_ms(&rig, 250);
                both(&rig, 9, 1);
                for (size_t i = 0; i < CLIENTS; i++) {
                        char name[16];
                        if (!s[i].is_answered)
                                continue;
                        grants[i]++;
                        s[i].is_answered = false;
                        (void)snprintf(name, sizeof(name), "c%zu", i);
                        rig_as(&rig, &s[i], "CHECK", name, "WAIT", "600000");
                }
        }
        int least = grants[0], most = grants[0];
        for (size_t i = 0; i < CLIENTS; i++) {
                least = grants[i] < least ? grants[i] : least;
                most = grants[i] > most ? grants[i] : most;
                rig_session_release(&rig, &s[i]);
        }
        if (most - least > 1 || most < 1)
                fail_msg("grants of a client: %d to %d", least, most);
        rig_release(&rig);
}

static void an_exemption_past_its_budget_is_told_and_can_end_itself(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        rig_do(&rig, "RULESET", "vip", "exempt", "SELFENDING");
        for (int i = 0; i < 120; i++) { /* a fifth of ten minutes, however young the rule is */
                lag_for(&rig, 9, 1);
                has(rig_do(&rig, "CHECK", "vip"), "exempt");
        }
        assert_null(strstr(rig_do(&rig, "THROTTLE", "history", "COUNT", "50"),
                           "exemption_over_budget"));
        lag_for(&rig, 9, 1);
        has(rig_do(&rig, "CHECK", "vip"), "exempt"); /* the last one: it ends the rule */
        has(rig_do(&rig, "THROTTLE", "history", "COUNT", "50"), "exemption_over_budget");
        has(rig_do(&rig, "CHECK", "vip"), "threshold");
        rig_release(&rig);
}

static void budgets(struct rig *rig, uint64_t n, uint64_t n_over, int percent)
{
        struct core_exemptions told;
        core_exemptions(rig->core, &told);
        assert_int_equal(told.n, n);
        assert_int_equal(told.n_over, n_over);
        assert_int_equal((int)(told.used * 100 + 0.5), percent);
}

static void how_much_of_its_budget_an_exemption_has_used_is_told(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        budgets(&rig, 0, 0, 0);
        rig_do(&rig, "RULESET", "vip", "exempt");
        rig_do(&rig, "RULESET", "other", "exempt");
        rig_do(&rig, "RULESET", "trial", "exempt", "MODE", "observe");
        rig_do(&rig, "RULESET", "held", "hold");
        budgets(&rig, 2, 0, 0);
        for (int i = 0; i < 60; i++) { /* 60 of the 120 seconds that are allowed */
                lag_for(&rig, 9, 1);
                has(rig_do(&rig, "CHECK", "vip"), "exempt");
        }
        budgets(&rig, 2, 0, 50);
        for (int i = 0; i < 90; i++) {
                lag_for(&rig, 9, 1);
                has(rig_do(&rig, "CHECK", "vip"), "exempt");
        }
        budgets(&rig, 2, 1, 125);
        lag_for(&rig, 1, 480); /* the first 30 of the 150 are older than ten minutes now */
        has(rig_do(&rig, "CHECK", "vip"), "granted");
        budgets(&rig, 2, 0, 100);
        lag_for(&rig, 1, 60);
        budgets(&rig, 2, 0, 50);
        lag_for(&rig, 1, 60);
        budgets(&rig, 2, 0, 0);
        rig_do(&rig, "RULEUNSET", "vip");
        budgets(&rig, 1, 0, 0);
        rig_release(&rig);
}

static void find_label(void *ctx, const char *name, const char *labels, double value)
{
        (void)name;
        (void)value;
        int *n = ctx;
        *n += strcmp(labels, "target=\"a\\\"b\\\\c\"") == 0;
        *n += strcmp(labels, "target=\"a\\\"b\\\\c\",metric=\"replication_lag\"") == 0;
}

static void names_of_targets_are_escaped_for_metrics(void **state)
{
        (void)state;
        struct rig rig;
        int n = 0;
        struct core_target odd = targets[1];
        odd.name = "a\"b\\c";
        struct core_throttle options = {.targets = &odd, .n_targets = 1};
        rig_init(&rig);
        policy_init(&options.policy);
        core_set_throttle(rig.core, &options);
        core_each_gate_sample(rig.core, find_label, &n);
        assert_int_equal(n, 5); /* level, credits, and value, age and error of its metric */
        rig_release(&rig);
}

static void without_targets_only_rules_decide(void **state)
{
        (void)state;
        struct rig rig;
        rig_init(&rig);
        rig_turn(&rig);
        has(rig_do(&rig, "CHECK", "etl"), "granted");
        rig_do(&rig, "RULESET", "all", "hold");
        has(rig_do(&rig, "CHECK", "etl"), "hold");
        has(rig_do(&rig, "CHECK", "etl", "METRICS", "x"), "none is configured");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_ask_below_the_threshold_is_granted_and_above_it_refused),
                cmocka_unit_test(named_metrics_decide_instead_of_those_of_the_target),
                cmocka_unit_test(an_unknown_metric_means_what_the_tier_says),
                cmocka_unit_test(waiting_for_an_unknown_metric_begins_when_its_value_is_too_old),
                cmocka_unit_test(what_critical_refused_stays_refused_while_nobody_answers),
                cmocka_unit_test(low_priority_yields_for_a_second_after_a_refusal),
                cmocka_unit_test(rules_hold_share_and_exempt),
                cmocka_unit_test(a_hold_is_the_reason_even_of_a_low_priority_ask),
                cmocka_unit_test(an_observing_rule_changes_nothing_but_what_is_told),
                cmocka_unit_test(the_rule_that_decided_is_named_in_full_however_long),
                cmocka_unit_test(a_list_that_observes_says_what_it_would_refuse),
                cmocka_unit_test(a_list_that_observes_says_nothing_where_it_would_not_decide),
                cmocka_unit_test(a_threshold_on_trial_leaves_the_enforced_one_in_force),
                cmocka_unit_test(a_hold_on_trial_leaves_the_enforced_rule_in_force),
                cmocka_unit_test(observed_checks_are_granted_and_say_what_would_be),
                cmocka_unit_test(observed_checks_are_not_paced),
                cmocka_unit_test(the_operators_pause_refuses_those_who_wait_at_critical),
                cmocka_unit_test(credits_grow_while_it_is_calm_and_end_with_the_pressure),
                cmocka_unit_test(value_and_threshold_are_told_as_they_are_now),
                cmocka_unit_test(a_waiting_ask_goes_when_it_may),
                cmocka_unit_test(a_waiting_ask_is_refused_when_its_time_is_over),
                cmocka_unit_test(a_waiting_ask_is_not_held_up_by_another_that_may_not_go),
                cmocka_unit_test(the_end_of_a_wait_rolls_no_dice_again),
                cmocka_unit_test(identities_take_turns),
                cmocka_unit_test(waiting_is_fair_between_256_clients),
                cmocka_unit_test(an_exemption_past_its_budget_is_told_and_can_end_itself),
                cmocka_unit_test(how_much_of_its_budget_an_exemption_has_used_is_told),
                cmocka_unit_test(names_of_targets_are_escaped_for_metrics),
                cmocka_unit_test(without_targets_only_rules_decide),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The last hour in steps: which second a count belongs to, gaps, steps, metrics, bounds. */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "api/replies.h"
#include "base/say.h"
#include "numbers/series.h"
#include "support/rig.h"

static const struct core_metric metrics[] = {
        {.name = "threads_running",
         .rule = {{5, 15}, {3, 10}, 5 * NS_PER_S, false},
         .check_above = 50,
         .is_checked = true},
        {.name = "history_list", .rule = {{1000.5, NAN}, {NAN, NAN}, 0, false}, .check_above = NAN},
};
static const struct core_target targets[] = {
        {.name = "shop", .metrics = metrics, .n_metrics = 2, .dwell_ns = NS_PER_S, .mode = -1},
        {.name = "stock", .metrics = metrics, .n_metrics = 1, .dwell_ns = NS_PER_S, .mode = -1},
};

static void set_up(struct rig *rig)
{
        rig_init(rig);
        rig_set_gate(rig, targets, ARRAY_LEN(targets), MODE_ENFORCE, MODE_ENFORCE);
        rig_turn(rig);
}

static void sample(struct rig *rig, size_t metric, double value)
{
        rig_sample(rig, 0, metric, value);
}

static void a_count_belongs_to_the_second_it_happened_in(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig); /* its clock begins at 1 s */
        rig_enqueue(&rig, 2);
        rig_pass_ms(&rig, 999);
        rig_enqueue(&rig, 1);
        rig_pass_ms(&rig, 1);
        rig_enqueue(&rig, 4);
        has(rig_do(&rig, "SERIES", "SECONDS", "3", "STEP", "1"), "enqueued:[null null 3]");
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "SERIES", "SECONDS", "3", "STEP", "1"), "enqueued:[null 3 4]");
        rig_release(&rig);
}

static void seconds_without_a_turn_are_empty_and_keep_their_gauges(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_enqueue(&rig, 2);
        rig_pass_ms(&rig, 5000);
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "6", "STEP", "1");
        has(text, "enqueued:[null 2 0 0 0 0]");
        has(text, "ready:[null 2 2 2 2 2]");
        rig_release(&rig);
}

/* What was before the start is not known, and no zero. */
static void after_a_restart_the_time_before_it_is_a_gap(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        for (int i = 0; i < 20; i++) {
                rig_enqueue(&rig, 1);
                rig_pass_ms(&rig, 1000);
        }
        rig_turn(&rig);
        rig_restart(&rig);
        rig_pass_ms(&rig, 1000);
        rig_enqueue(&rig, 3);
        rig_pass_ms(&rig, 3000);
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "6", "STEP", "1");
        has(text, "enqueued:[null null 0 3 0 0]");
        has(text, "ready:[null null 20 23 23 23]");
        has(text, "granted:[null null 0 0 0 0]");
        /* A step that is known in part is not known. */
        has(rig_do(&rig, "SERIES", "SECONDS", "10", "STEP", "5"), "enqueued:[null null]");
        rig_release(&rig);
}

static void a_silence_longer_than_all_that_is_kept_leaves_only_the_gauges(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_enqueue(&rig, 7);
        rig_pass_ms(&rig, 9999 * MS_PER_S);
        const char *text = rig_do(&rig, "SERIES");
        has(text, "enqueued:[0 0 0");
        has_not(text, "14");
        has(text, "ready:[7 7 7");
        assert_int_equal(series_sum(rig.core, SERIES_ENQUEUED, SERIES_SECONDS), 0);
        rig_enqueue(&rig, 3);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(series_sum(rig.core, SERIES_ENQUEUED, SERIES_SECONDS), 3);
        rig_release(&rig);
}

static void a_count_is_kept_for_the_hour_and_not_longer(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_enqueue(&rig, 7);
        rig_pass_ms(&rig, 3600 * MS_PER_S);
        assert_int_equal(series_sum(rig.core, SERIES_ENQUEUED, SERIES_SECONDS), 7);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(series_sum(rig.core, SERIES_ENQUEUED, SERIES_SECONDS), 0);
        rig_release(&rig);
}

static void the_ring_can_be_gone_round_second_by_second(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        for (int i = 0; i < 9000; i++) {
                rig_enqueue(&rig, i % 2);
                rig_pass_ms(&rig, 1000);
        }
        assert_int_equal(series_sum(rig.core, SERIES_ENQUEUED, SERIES_SECONDS), 1800);
        rig_release(&rig);
}

static void a_step_is_told_when_it_is_over_and_has_whole_sums(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_pass_ms(&rig, 9000); /* 10 s: a step of 5 begins */
        for (int i = 0; i < 9; i++) {
                rig_enqueue(&rig, 1);
                rig_pass_ms(&rig, 1000);
        }
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "10");
        has(text, "step_ms:5000 n:2");
        has(text, "enqueued:[0 5]");
        has(text, "ready:[0 5]"); /* at the end of each, not their sum */
        rig_enqueue(&rig, 1);
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "SERIES", "SECONDS", "10"), "enqueued:[5 5]");
        rig_release(&rig);
}

static void who_asks_again_within_a_step_gets_the_same_points(void **unused)
{
        (void)unused;
        struct rig rig;
        char first[4096];
        rig_init(&rig);
        rig_enqueue(&rig, 3);
        rig_pass_ms(&rig, 19200); /* 20.2 s */
        (void)snprintf(first, sizeof(first), "%s", rig_do(&rig, "SERIES", "SECONDS", "20"));
        /* The rig's wall was 1700000000000 at 1 s. */
        has(first, "from_ms:1699999999000 step_ms:5000 n:4");
        rig_pass_ms(&rig, 4700);
        assert_string_equal(rig_do(&rig, "SERIES", "SECONDS", "20"), first);
        rig_pass_ms(&rig, 100);
        has(rig_do(&rig, "SERIES", "SECONDS", "20"), "from_ms:1700000004000");
        rig_release(&rig);
}

static void points_follow_a_wall_that_jumps_and_not_one_that_trembles(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        has(rig_do(&rig, "SERIES", "SECONDS", "5"), "from_ms:1699999994000");
        rig.now.wall_ms += 3;
        rig_turn(&rig);
        has(rig_do(&rig, "SERIES", "SECONDS", "5"), "from_ms:1699999994000");
        rig.now.wall_ms -= 7200 * MS_PER_S;
        rig_turn(&rig);
        has(rig_do(&rig, "SERIES", "SECONDS", "5"), "from_ms:1699992794003");
        rig_release(&rig);
}

static void an_answer_has_at_most_720_points(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        has(rig_do(&rig, "SERIES"), "step_ms:5000 n:720");
        has(rig_do(&rig, "SERIES", "SECONDS", "720", "STEP", "1"), "n:720");
        has(rig_do(&rig, "SERIES", "SECONDS", "721", "STEP", "1"), "!BADARG");
        has(rig_do(&rig, "SERIES", "STEP", "4"), "at most 720");
        has(rig_do(&rig, "SERIES", "SECONDS", "1", "STEP", "300"), "step_ms:300000 n:1");
        has(rig_do(&rig, "SERIES", "SECONDS", "3601"), "step_ms:60000 n:61");
        has(rig_do(&rig, "SERIES", "SECONDS", "43200", "STEP", "60"), "n:720");
        has(rig_do(&rig, "SERIES", "SECONDS", "43201", "STEP", "60"), "at most 720");
        has(rig_do(&rig, "SERIES", "SECONDS", "2592000"), "step_ms:3600000 n:720");
        has(rig_do(&rig, "SERIES", "SECONDS", "2592001"), "!BADARG");
        has(rig_do(&rig, "SERIES", "STEP", "301"), "!BADARG");
        rig_release(&rig);
}

static void the_whole_life_of_a_job_is_counted(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_enqueue(&rig, 1);
        rig_do(&rig, "ENQUEUE", "mail", "", "ATTEMPTS", "1");
        (void)rig_claim(&rig, "w", "default", token);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        (void)rig_claim(&rig, "w", "default", token);
        rig_pass_ms(&rig, 1000);
        rig_do(&rig, "FAIL", "2", token, "no");
        rig_pass_ms(&rig, 1000);
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "2", "STEP", "1");
        has(text, "started:[2 0]");
        has(text, "completed:[1 0]");
        has(text, "failed:[0 1]");
        has(text, "enqueued:[2 0]");
        rig_release(&rig);
}

static void deferrals_are_told_by_tier_and_checks_by_verdict(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        set_up(&rig);
        sample(&rig, 0, 150);
        rig_do(&rig, "ENQUEUE", "klaviyo_sync", "");
        rig_enqueue(&rig, 2);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        for (int i = 0; i < 3; i++)
                has(rig_do(&rig, "CHECK", "etl"), "refused");
        has(rig_do(&rig, "CHECK", "etl", "TARGET", "stock", "PRIORITY", "critical"), "granted");
        rig_pass_ms(&rig, 1000);
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "2", "STEP", "1");
        has(text, "deferred:{critical:[null 0] high:[null 0] normal:[null 2] deferrable:[null 1]");
        has(text, "parked:[null 3]");
        has(text, "granted:[null 1] refused:[null 3]");
        rig_release(&rig);
}

static void a_metric_is_told_by_the_largest_value_of_a_step(void **unused)
{
        (void)unused;
        struct rig rig;
        set_up(&rig);
        rig_pass_ms(&rig, 9000); /* 10 s */
        for (int i = 0; i < 5; i++) {
                sample(&rig, 0, i == 2 ? 12.5 : 7);
                rig_pass_ms(&rig, 1000);
        }
        sample(&rig, 0, 999); /* in a step that is not over */
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "10");
        has(text, "{target:'shop' name:'threads_running' elevated:'5' critical:'15' check:'50' "
                  "values:[null '12.5']");
        has(text, "{target:'shop' name:'history_list' elevated:'1000.5' critical:null check:null "
                  "values:[null null]");
        has(text, "{target:'stock'");
        rig_release(&rig);
}

static void values_of_another_hour_do_not_come_back(void **unused)
{
        (void)unused;
        struct rig rig;
        set_up(&rig);
        for (int i = 0; i < 20; i++) {
                sample(&rig, 0, 77);
                rig_pass_ms(&rig, 1000);
        }
        rig_pass_ms(&rig, 7200 * MS_PER_S);
        sample(&rig, 0, 3);
        rig_pass_ms(&rig, 5000);
        const char *text = rig_do(&rig, "SERIES");
        has(text, "'3'");
        has_not(text, "'77'");
        rig_release(&rig);
}

/* The window begins before the hour that is kept of a metric: its places hold newer values. */
static void values_of_a_step_that_is_not_over_are_not_told_as_old_ones(void **unused)
{
        (void)unused;
        struct rig rig;
        set_up(&rig);
        rig_pass_ms(&rig, 7249 * MS_PER_S); /* 7250 s: a step of 290 begins */
        sample(&rig, 0, 77);
        rig_pass_ms(&rig, 288 * MS_PER_S);
        sample(&rig, 0, 77);
        has_not(rig_do(&rig, "SERIES", "STEP", "290"), "'77'");
        rig_pass_ms(&rig, 2 * MS_PER_S);
        has(rig_do(&rig, "SERIES", "STEP", "290"), "null '77']");
        rig_release(&rig);
}

static void one_target_may_be_asked_for(void **unused)
{
        (void)unused;
        struct rig rig;
        set_up(&rig);
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "5", "TARGET", "stock");
        has(text, "metrics:[{target:'stock'");
        has_not(text, "shop");
        has(rig_do(&rig, "SERIES", "TARGET", "moon"), "!NOTFOUND");
        rig_release(&rig);
}

static void of_many_metrics_only_so_many_are_told(void **unused)
{
        (void)unused;
        struct rig rig;
        struct core_metric many[LEVEL_METRICS_MAX];
        struct core_target all[3];
        for (size_t i = 0; i < LEVEL_METRICS_MAX; i++)
                many[i] = metrics[0];
        for (size_t i = 0; i < 3; i++) {
                all[i] = targets[0];
                all[i].metrics = many;
                all[i].n_metrics = LEVEL_METRICS_MAX;
        }
        rig_init(&rig);
        rig_set_gate(&rig, all, ARRAY_LEN(all), MODE_OFF, MODE_OFF);
        assert_int_equal(times(rig_do(&rig, "SERIES", "SECONDS", "5"), "values:"), SERIES_METRICS);
        rig_release(&rig);
}

static void nobody_is_woken_to_write_zeros(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        int64_t next = core_next_ns(rig.core);
        rig_do(&rig, "SERIES");
        rig_do(&rig, "NOW");
        assert_true(next == INT64_MAX && core_next_ns(rig.core) == INT64_MAX);
        rig_release(&rig);
}

static void a_restart_begins_anew(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_enqueue(&rig, 3);
        rig_pass_ms(&rig, 1000);
        rig_restart(&rig);
        rig_pass_ms(&rig, 1000);
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "3", "STEP", "1");
        has(text, "enqueued:[null null 0]");
        has(text, "ready:[null null 3]");
        rig_release(&rig);
}

static void numbers_are_told_as_short_as_they_are(void **unused)
{
        (void)unused;
        static const struct {
                double value;
                const char *text;
        } cases[] = {{0, "'0'"},         {-3, "'-3'"},   {12345678, "'12345678'"},
                     {0.1F, "'0.1'"},    {2.5, "'2.5'"}, {1e18, "'1e+18'"},
                     {-0.25, "'-0.25'"}, {NAN, "null"},  {INFINITY, "null"}};
        struct text_reply r;
        text_reply_init(&r);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                text_reply_clear(&r);
                reply_decimal(&r.base, cases[i].value, 7);
                assert_string_equal(text_reply_str(&r), cases[i].text);
        }
        text_reply_release(&r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_count_belongs_to_the_second_it_happened_in),
                cmocka_unit_test(seconds_without_a_turn_are_empty_and_keep_their_gauges),
                cmocka_unit_test(after_a_restart_the_time_before_it_is_a_gap),
                cmocka_unit_test(a_silence_longer_than_all_that_is_kept_leaves_only_the_gauges),
                cmocka_unit_test(a_count_is_kept_for_the_hour_and_not_longer),
                cmocka_unit_test(the_ring_can_be_gone_round_second_by_second),
                cmocka_unit_test(a_step_is_told_when_it_is_over_and_has_whole_sums),
                cmocka_unit_test(who_asks_again_within_a_step_gets_the_same_points),
                cmocka_unit_test(points_follow_a_wall_that_jumps_and_not_one_that_trembles),
                cmocka_unit_test(an_answer_has_at_most_720_points),
                cmocka_unit_test(the_whole_life_of_a_job_is_counted),
                cmocka_unit_test(deferrals_are_told_by_tier_and_checks_by_verdict),
                cmocka_unit_test(a_metric_is_told_by_the_largest_value_of_a_step),
                cmocka_unit_test(values_of_another_hour_do_not_come_back),
                cmocka_unit_test(values_of_a_step_that_is_not_over_are_not_told_as_old_ones),
                cmocka_unit_test(one_target_may_be_asked_for),
                cmocka_unit_test(of_many_metrics_only_so_many_are_told),
                cmocka_unit_test(nobody_is_woken_to_write_zeros),
                cmocka_unit_test(a_restart_begins_anew),
                cmocka_unit_test(numbers_are_told_as_short_as_they_are),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

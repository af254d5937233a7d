/* THROTTLEADVISE: from rollups of before to thresholds, and what it answers when there is little.
 */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "learned_box.h"

#define NO_RULE                                                                                    \
        {                                                                                          \
                {NAN, NAN}, {NAN, NAN}, 0, false                                                   \
        }

static const struct core_metric metrics[] = {
        {.name = "threads_running",
         .rule = {{5, 15}, {3, 10}, 0, false},
         .check_above = 5,
         .is_checked = true,
         .shipped = {{5, 15}, {3, 10}, 0, false}},
        {.name = "dirty",
         .rule = NO_RULE,
         .check_above = NAN,
         .is_percent = true,
         .shipped = NO_RULE},
};
static const struct core_target targets[] = {
        {.name = "shop", .metrics = metrics, .n_metrics = 2, .dwell_ns = NS_PER_S, .mode = -1},
        {.name = "stock", .metrics = metrics, .n_metrics = 1, .dwell_ns = NS_PER_S, .mode = -1},
};

static void begin(struct rig *rig)
{
        rig_init(rig);
        rig_set_gate(rig, targets, ARRAY_LEN(targets), MODE_OBSERVE, MODE_OBSERVE);
        rig_turn(rig);
}

static void a_week_gives_thresholds_and_what_they_do_to_the_last_day(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        roll_hours(&rig, 7 * 24, "threads_running", 8);
        roll(&rig, 125, "threads_running", 40); /* a minute of trouble today */
        const char *text = rig_do(&rig, "THROTTLEADVISE", "TARGET", "shop");
        has(text, "name:'threads_running' learned_hours:168 usual_most:'8' usual:['8' '8'");
        has(text, "present:{elevated:'5,3' critical:'15,10'");
        has(text, "proposed:{elevated:'12,9' critical:'25,17' "
                  "last_day:{elevated_minutes:0 critical_minutes:1 entered:1]] reason:''");
        rig_release(&rig);
}

static void present_thresholds_are_those_in_force(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        rig_do(&rig, "SETTINGSET", "target.shop.threads_running.elevated", "7,4");
        has(rig_do(&rig, "THROTTLEADVISE", "TARGET", "shop"), "present:{elevated:'7,4'");
        rig_release(&rig);
}

static void little_is_said_and_proposes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        roll_hours(&rig, 23, "threads_running", 8);
        const char *text = rig_do(&rig, "THROTTLEADVISE", "TARGET", "shop");
        has(text, "learned_hours:23 usual_most:'8'");
        has(text, "proposed:null reason:'too little was learned: values of 23 hours; at least 24 "
                  "are needed'");
        has(text, "name:'dirty' learned_hours:0 usual_most:null usual:[null null");
        has(text, "present:{elevated:null critical:null last_day:{elevated_minutes:0");
        roll_hours(&rig, 24, "threads_running", 8);
        has(rig_do(&rig, "THROTTLEADVISE", "TARGET", "shop"), "learned_hours:24");
        has(rig_do(&rig, "THROTTLEADVISE", "TARGET", "shop"), "elevated:'12,9'");
        rig_release(&rig);
}

static void a_full_percentage_says_why_nothing_is_proposed(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        roll_hours(&rig, 48, "dirty", 99);
        has(rig_do(&rig, "THROTTLEADVISE"),
            "reason:'the usual value, 99, is too near to the largest possible one'");
        rig_release(&rig);
}

static void all_targets_are_told_or_one(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        const char *text = rig_do(&rig, "THROTTLEADVISE");
        has(text, "name:'shop' own:false");
        has(text, "name:'stock' own:false");
        has_not(rig_do(&rig, "THROTTLEADVISE", "TARGET", "stock"), "name:'shop'");
        same(rig_do(&rig, "THROTTLEADVISE", "TARGET", "none"),
             "!NOTFOUND there is no target 'none'; there are shop, stock");
        rig_release(&rig);
}

static void more_than_64_metrics_are_cut(void **unused)
{
        (void)unused;
        struct core_metric many[LEVEL_METRICS_MAX];
        struct core_target three[3];
        char names[LEVEL_METRICS_MAX][8];
        static const char *const target_names[] = {"a", "b", "c"};
        struct rig rig;
        for (size_t i = 0; i < ARRAY_LEN(many); i++) {
                (void)snprintf(names[i], sizeof(names[i]), "m%zu", i);
                many[i] = metrics[1];
                many[i].name = names[i];
        }
        for (size_t i = 0; i < ARRAY_LEN(three); i++) {
                three[i] = targets[0];
                three[i].name = target_names[i];
                three[i].metrics = many;
                three[i].n_metrics = LEVEL_METRICS_MAX;
        }
        rig_init(&rig);
        rig_set_gate(&rig, three, ARRAY_LEN(three), MODE_OBSERVE, MODE_OBSERVE);
        const char *text = rig_do(&rig, "THROTTLEADVISE");
        assert_int_equal(times(text, "learned_hours:"), 64);
        has_not(text, "name:'c'");
        assert_int_equal(times(rig_do(&rig, "THROTTLEADVISE", "TARGET", "c"), "learned_hours:"),
                         LEVEL_METRICS_MAX);
        three[1].n_metrics = LEVEL_METRICS_MAX - 1;
        rig_set_gate(&rig, three, ARRAY_LEN(three), MODE_OBSERVE, MODE_OBSERVE);
        text = rig_do(&rig, "THROTTLEADVISE");
        assert_int_equal(times(text, "learned_hours:"), 64);
        has(text, "name:'c' own:false metrics:[{name:'m0'");
        rig_release(&rig);
}

static void a_history_that_cannot_be_read_is_said(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        rig.archive.is_broken = true;
        has(rig_do(&rig, "THROTTLEADVISE"),
            "problem:'history cannot be read: only the last hour is known'");
        rig_release(&rig);
}

static void who_is_gone_before_the_advice_is_not_told(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        begin(&rig);
        rig_session_init(&other);
        has(rig_as(&rig, &other, "THROTTLEADVISE"), "targets:");
        rig_session_release(&rig, &other);
        rig_turn(&rig);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_week_gives_thresholds_and_what_they_do_to_the_last_day),
                cmocka_unit_test(present_thresholds_are_those_in_force),
                cmocka_unit_test(little_is_said_and_proposes_nothing),
                cmocka_unit_test(a_full_percentage_says_why_nothing_is_proposed),
                cmocka_unit_test(all_targets_are_told_or_one),
                cmocka_unit_test(more_than_64_metrics_are_cut),
                cmocka_unit_test(a_history_that_cannot_be_read_is_said),
                cmocka_unit_test(who_is_gone_before_the_advice_is_not_told),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

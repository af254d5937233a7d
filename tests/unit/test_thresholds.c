/* Thresholds of a metric where nothing was set, by the processors of its server; and what settings
 * do to them. */
#include "check.h"

#include <stdio.h>

#include "operator/settings.h"
#include "support/rig.h"

#define DEFAULTS                                                                                   \
        {                                                                                          \
                {5, 15}, {3, 10}, 0, false                                                         \
        }
#define METRIC(...)                                                                                \
        {                                                                                          \
                .name = "threads_running", .rule = DEFAULTS, .check_above = 5, .is_checked = true, \
                .is_running = true, .shipped = DEFAULTS, __VA_ARGS__                               \
        }
#define TARGET(its_name, its_metric)                                                               \
        {                                                                                          \
                .name = its_name, .metrics = its_metric, .n_metrics = 1, .dwell_ns = NS_PER_S,     \
                .mode = -1                                                                         \
        }

static const struct core_metric by_cores[] = {
        METRIC(.is_default = true, .is_check_default = true, .is_by_cores = true)};
static const struct core_metric check_written[] = {METRIC(.is_default = true, .is_by_cores = true)};
static const struct core_metric written[] = {METRIC(.is_written = true, .is_by_cores = true)};
static const struct core_metric other[] = {METRIC(.is_default = true)};
static const struct core_target targets[] = {TARGET("shop", by_cores),
                                             TARGET("check", check_written),
                                             TARGET("file", written), TARGET("other", other)};

static void begin(struct rig *rig)
{
        rig_init(rig);
        rig_set_gate(rig, targets, ARRAY_LEN(targets), MODE_ENFORCE, MODE_ENFORCE);
        rig_turn(rig);
}

static void set_cores(struct rig *rig, unsigned cores)
{
        for (size_t i = 0; i < ARRAY_LEN(targets); i++)
                core_set_cores(rig->core, i, cores);
}

/* Levels, check and origin of the metric of a target. */
static void assert_thresholds(struct rig *rig, const char *target, const char *elevated,
                              const char *critical, const char *check)
{
        char line[256];
        const char *text = rig_do(rig, "SETTINGS");
        (void)snprintf(line, sizeof(line), "'target.%s.threads_running.elevated' value:'%s'",
                       target, elevated);
        has(text, line);
        (void)snprintf(line, sizeof(line), "'target.%s.threads_running.critical' value:'%s'",
                       target, critical);
        has(text, line);
        (void)snprintf(line, sizeof(line), "'target.%s.threads_running.check' value:'%s'", target,
                       check);
        has(text, line);
}

static void defaults_follow_the_cores_where_nothing_was_written(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        assert_thresholds(&rig, "shop", "5,3", "15,10", "5");
        set_cores(&rig, 16);
        assert_thresholds(&rig, "shop", "16,10", "48,32", "16");
        assert_thresholds(&rig, "check", "16,10", "48,32", "5");
        assert_thresholds(&rig, "file", "5,3", "15,10", "5");
        assert_thresholds(&rig, "other", "5,3", "15,10", "5");
        const char *text = rig_do(&rig, "THROTTLESTATUS");
        assert_int_equal(times(text, "elevated:'16' critical:'48' thresholds_from:'default for 16 "
                                     "cores'"),
                         2);
        assert_int_equal(times(text, "elevated:'5' critical:'15' thresholds_from:'file'"), 1);
        assert_int_equal(times(text, "elevated:'5' critical:'15' thresholds_from:'default'"), 1);
        rig_release(&rig);
}

static void few_cores_and_nonsense_change_nothing(void **unused)
{
        (void)unused;
        static const unsigned few[] = {1, 4, 5}, wrong[] = {0, 1025, UINT32_MAX};
        struct rig rig;
        begin(&rig);
        for (size_t i = 0; i < ARRAY_LEN(few); i++) {
                set_cores(&rig, few[i]);
                assert_thresholds(&rig, "shop", "5,3", "15,10", "5");
        }
        set_cores(&rig, 6);
        assert_thresholds(&rig, "shop", "6,4", "18,12", "6");
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                set_cores(&rig, wrong[i]);
        core_set_cores(rig.core, ARRAY_LEN(targets), 8);
        assert_thresholds(&rig, "shop", "6,4", "18,12", "6");
        set_cores(&rig, 1024);
        assert_thresholds(&rig, "shop", "1024,614", "3072,2048", "1024");
        rig_release(&rig);
}

static void a_level_follows_at_once_and_a_reload_keeps_the_cores(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        set_cores(&rig, 16);
        rig_sample(&rig, 0, 0, 12);
        has(rig_do(&rig, "THROTTLESTATUS"), "name:'shop' mode:'enforce' level:'normal'");
        rig_set_gate(&rig, targets, ARRAY_LEN(targets), MODE_ENFORCE, MODE_ENFORCE);
        has(rig_do(&rig, "THROTTLESTATUS"), "name:'shop' mode:'enforce' level:'normal'");
        assert_thresholds(&rig, "shop", "16,10", "48,32", "16");
        set_cores(&rig, 8); /* another server */
        has(rig_do(&rig, "THROTTLESTATUS"), "name:'shop' mode:'enforce' level:'elevated'");
        rig_release(&rig);
}

static void what_was_set_holds_and_the_other_default_gives_way(void **unused)
{
        (void)unused;
        static const char critical[] = "target.shop.threads_running.critical";
        struct rig rig;
        begin(&rig);
        same(rig_do(&rig, "SETTINGSET", critical, "20,15"), "OK");
        set_cores(&rig, 16);
        has(rig_do(&rig, "THROTTLESTATUS"),
            "elevated:'16' critical:'20' thresholds_from:'setting'");
        set_cores(&rig, 64); /* 64 for elevated would begin above what was set */
        has(rig_do(&rig, "THROTTLESTATUS"),
            "elevated:'20' critical:'20' thresholds_from:'setting'");
        same(rig_do(&rig, "SETTINGUNSET", critical), "OK");
        assert_thresholds(&rig, "shop", "64,38", "192,128", "64");
        same(rig_do(&rig, "SETTINGSET", "target.shop.threads_running.elevated", "7,4"), "OK");
        has(rig_do(&rig, "THROTTLESTATUS"),
            "elevated:'7' critical:'192' thresholds_from:'setting'");
        rig_release(&rig);
}

static void a_file_that_is_written_has_no_default(void **unused)
{
        (void)unused;
        struct rig rig;
        struct level_rule rules[1];
        double check[1];
        bool is_auto[1][2];
        struct core_target_effective now = {rules, check, is_auto, 0, false};
        begin(&rig);
        set_cores(&rig, 16);
        assert_true(core_effective_target(rig.core, "shop", &now));
        assert_true(rules[0].enter[0] == 5 && check[0] == 5 && !now.is_changed);
        rig_do(&rig, "SETTINGSET", "target.shop.threads_running.elevated", "7,4");
        assert_true(core_effective_target(rig.core, "shop", &now));
        assert_true(rules[0].enter[0] == 7 && rules[0].enter[1] == 48 && now.is_changed);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(defaults_follow_the_cores_where_nothing_was_written),
                cmocka_unit_test(few_cores_and_nonsense_change_nothing),
                cmocka_unit_test(a_level_follows_at_once_and_a_reload_keeps_the_cores),
                cmocka_unit_test(what_was_set_holds_and_the_other_default_gives_way),
                cmocka_unit_test(a_file_that_is_written_has_no_default),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

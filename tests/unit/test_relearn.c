/* Thresholds that are "auto": when they are learned, what holds until then, and what they give way
 * to. */
#include "check.h"

#include <math.h>

#include "learned_box.h"
#include "operator/settings.h"

#define HOUR_MS 3600000LL
#define DEFAULTS                                                                                   \
        {                                                                                          \
                {5, 15}, {3, 10}, 0, false                                                         \
        }
#define METRIC(...)                                                                                \
        {                                                                                          \
                .name = "threads_running", .rule = DEFAULTS, .check_above = 5, .is_checked = true, \
                .shipped = DEFAULTS, __VA_ARGS__                                                   \
        }
#define TARGET(its_metrics)                                                                        \
        {                                                                                          \
                .name = "shop", .metrics = its_metrics, .n_metrics = 1, .dwell_ns = NS_PER_S,      \
                .mode = -1                                                                         \
        }
#define ELEVATED "target.shop.threads_running.elevated"
#define CRITICAL "target.shop.threads_running.critical"

static const struct core_metric both[] = {
        METRIC(.is_auto = {true, true}, .is_default = true, .is_check_default = true)};
static const struct core_metric elevated_alone[] = {
        METRIC(.is_auto = {true, false}, .is_default = true)};
static const struct core_metric critical_written[] = {METRIC(.is_auto = {true, false})};
static const struct core_metric numbers[] = {METRIC(.is_written = true)};
static const struct core_metric nameless[] = {{.name = "threads_running",
                                               .rule = {{NAN, NAN}, {NAN, NAN}, 0, false},
                                               .check_above = NAN,
                                               .is_auto = {true, true},
                                               .is_default = true,
                                               .is_check_default = true,
                                               .shipped = {{NAN, NAN}, {NAN, NAN}, 0, false}}};
static const struct core_metric half[] = {{.name = "threads_running",
                                           .rule = {{NAN, 500}, {NAN, 250}, 0, false},
                                           .check_above = 500,
                                           .is_auto = {true, false},
                                           .shipped = {{NAN, NAN}, {NAN, NAN}, 0, false}}};
static const struct core_target both_target = TARGET(both), alone_target = TARGET(elevated_alone),
                                written_target = TARGET(critical_written),
                                numbers_target = TARGET(numbers), half_target = TARGET(half),
                                nameless_target = TARGET(nameless);

/* A weir whose archive has so many hours of that value before it begins. */
static void begin(struct rig *rig, const struct core_target *target, int hours, float value)
{
        rig_init(rig);
        roll_hours(rig, hours, "threads_running", value);
        rig_set_gate(rig, target, 1, MODE_ENFORCE, MODE_ENFORCE);
        rig_turn(rig);
        rig_archive_all(rig); /* the archive answers one query, then the other */
        rig_archive_all(rig);
}

static void holds(struct rig *rig, const char *line)
{
        has(rig_do(rig, "THROTTLESTATUS"), line);
}

static void auto_is_learned_at_the_start(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, &both_target, 7 * 24, 40);
        holds(&rig, "elevated:'60' critical:'120' thresholds_from:'learned from 168 h'");
        const char *text = rig_do(&rig, "SETTINGS");
        has(text, "'" ELEVATED "' value:'auto' default:null configured:'auto'");
        has(text, "'target.shop.threads_running.check' value:'60'"); /* it follows */
        has(rig_do(&rig, "THROTTLEADVISE"), "thresholds_from:'learned from 168 h' "
                                            "present:{elevated:'60,45' critical:'120,80'");
        rig_release(&rig);
}

static void until_enough_is_learned_the_default_holds_or_none(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, &both_target, 23, 40);
        holds(&rig, "elevated:'5' critical:'15' thresholds_from:'default until 24 h are learned'");
        rig_release(&rig);
        begin(&rig, &nameless_target, 23, 40);
        holds(&rig, "elevated:null critical:null thresholds_from:'none until 24 h are learned'");
        rig_release(&rig);
        begin(&rig, &half_target, 23, 40);
        holds(&rig, "elevated:null critical:'500' thresholds_from:'none until 24 h are learned'");
        rig_release(&rig);
        begin(&rig, &half_target, 24, 40);
        holds(&rig, "elevated:'60' critical:'500' thresholds_from:'learned from 24 h'");
        rig_release(&rig);
        begin(&rig, &nameless_target, 24, 40);
        holds(&rig, "elevated:'60' critical:'120' thresholds_from:'learned from 24 h'");
        rig_release(&rig);
}

static void it_is_learned_again_every_hour(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, &both_target, 23, 40);
        roll_hours(&rig, 48, "threads_running", 40);
        rig_pass_ms(&rig, HOUR_MS - 1000);
        rig_archive_all(&rig);
        rig_archive_all(&rig);
        holds(&rig, "thresholds_from:'default until");
        assert_true(core_next_ns(rig.core) <= rig.now.steady_ns + NS_PER_S);
        rig_pass_ms(&rig, 2000);
        rig_archive_all(&rig);
        rig_archive_all(&rig);
        holds(&rig, "elevated:'60' critical:'120'");
        rig_release(&rig);
}

static void a_history_that_cannot_be_read_is_asked_again_and_takes_nothing_back(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, &both_target, 48, 40);
        holds(&rig, "elevated:'60'");
        rig.archive.is_broken = true;
        rig_pass_ms(&rig, HOUR_MS + 1000);
        rig_archive_all(&rig);
        rig_archive_all(&rig);
        holds(&rig, "elevated:'60'");
        rig.archive.is_broken = false;
        roll_hours(&rig, 168, "threads_running", 80);
        rig_pass_ms(&rig, 61000);
        rig_archive_all(&rig);
        rig_archive_all(&rig);
        holds(&rig, "elevated:'120' critical:'250'"); /* 80 is the larger of both */
        rig_release(&rig);
}

static void an_unwritten_critical_goes_with_a_learned_elevated(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, &alone_target, 48, 40);
        holds(&rig, "elevated:'60' critical:'120' thresholds_from:'learned from 48 h'");
        rig_release(&rig);
        begin(&rig, &alone_target, 48, 6);
        holds(&rig, "elevated:'9' critical:'15' thresholds_from:'learned from 48 h'");
        rig_release(&rig);
}

static void what_is_written_or_set_holds_before_auto(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, &written_target, 48, 40);
        holds(&rig,
              "elevated:'15' critical:'15' thresholds_from:'learned from 48 h, limited by the "
              "other level'");
        same(rig_do(&rig, "SETTINGSET", CRITICAL, "200,100"), "OK");
        holds(&rig, "elevated:'60' critical:'200' thresholds_from:'learned from 48 h'");
        same(rig_do(&rig, "SETTINGSET", ELEVATED, "30,20"), "OK");
        holds(&rig, "elevated:'30' critical:'200' thresholds_from:'setting'");
        rig_release(&rig);
}

static void a_setting_may_be_auto_and_is_kept(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, &numbers_target, 48, 40);
        holds(&rig, "elevated:'5' critical:'15' thresholds_from:'file'");
        same(rig_do(&rig, "SETTINGSET", CRITICAL, "auto"), "OK");
        same(rig_do(&rig, "SETTINGSET", ELEVATED, "auto"), "OK");
        rig_turn(&rig);
        rig_archive_all(&rig);
        rig_archive_all(&rig);
        holds(&rig, "elevated:'60' critical:'120' thresholds_from:'learned from 48 h'");
        has(rig_do(&rig, "SETTINGS"), "'" ELEVATED "' value:'auto' default:null configured:'5,3'");
        assert_true(rig_replays(&rig));
        rig_set_gate(&rig, &numbers_target, 1, MODE_ENFORCE, MODE_ENFORCE);
        rig_turn(&rig);
        rig_archive_all(&rig);
        rig_archive_all(&rig);
        holds(&rig, "elevated:'60' critical:'120'");
        struct level_rule rules[1];
        double check[1];
        bool is_auto[1][2];
        struct core_target_effective now = {rules, check, is_auto, 0, false};
        assert_true(core_effective_target(rig.core, "shop", &now));
        assert_true(is_auto[0][0] && is_auto[0][1] && now.is_changed);
        same(rig_do(&rig, "SETTINGUNSET", ELEVATED), "OK");
        same(rig_do(&rig, "SETTINGUNSET", CRITICAL), "OK");
        holds(&rig, "elevated:'5' critical:'15' thresholds_from:'file'");
        rig_release(&rig);
}

static void a_wrong_value_is_refused_and_changes_nothing(void **unused)
{
        (void)unused;
        static const char *const wrong[] = {"automatic", "auto,3", "5,auto", "AUTO"};
        struct rig rig;
        begin(&rig, &numbers_target, 0, 0);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                has(rig_do(&rig, "SETTINGSET", ELEVATED, wrong[i]),
                    "!BADARG the value must be two numbers, enter and exit, as in 5,3, or auto");
        has(rig_do(&rig, "SETTINGSET", "target.shop.threads_running.check", "auto"), "!BADARG");
        holds(&rig, "elevated:'5' critical:'15' thresholds_from:'file'");
        rig_release(&rig);
}

static void a_reload_keeps_what_was_learned(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, &both_target, 48, 40);
        rig_sample(&rig, 0, 0, 40);
        rig_set_gate(&rig, &both_target, 1, MODE_ENFORCE, MODE_ENFORCE);
        holds(&rig, "name:'shop' mode:'enforce' level:'normal'");
        holds(&rig, "elevated:'60' critical:'120'");
        rig_release(&rig);
}

static void a_core_may_end_while_the_archive_is_asked(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_set_gate(&rig, &both_target, 1, MODE_ENFORCE, MODE_ENFORCE);
        core_turn(rig.core, rig.now); /* it asks, and nobody polls */
        rig_restart(&rig);
        holds(&rig, "targets:[]"); /* of a core that knows no target yet */
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(auto_is_learned_at_the_start),
                cmocka_unit_test(until_enough_is_learned_the_default_holds_or_none),
                cmocka_unit_test(it_is_learned_again_every_hour),
                cmocka_unit_test(
                        a_history_that_cannot_be_read_is_asked_again_and_takes_nothing_back),
                cmocka_unit_test(an_unwritten_critical_goes_with_a_learned_elevated),
                cmocka_unit_test(what_is_written_or_set_holds_before_auto),
                cmocka_unit_test(a_setting_may_be_auto_and_is_kept),
                cmocka_unit_test(a_wrong_value_is_refused_and_changes_nothing),
                cmocka_unit_test(a_reload_keeps_what_was_learned),
                cmocka_unit_test(a_core_may_end_while_the_archive_is_asked),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

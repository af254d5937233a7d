/* Settings that are changed while weir runs, targets that are set up again, and REGISTRYTRY. */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "checks/check_ctx.h"
#include "checks/client_int.h"
#include "operator/settings.h"
#include "sites/sites.h"
#include "support/rig.h"
#include "traffic/traffic.h"

enum { LAG, THREADS };

#define LAG_METRIC                                                                                 \
        {                                                                                          \
                .name = "replication_lag", .rule = {{2, 10}, {1, 5}, 5 * NS_PER_S, false},         \
                .check_above = 2, .is_checked = true                                               \
        }
#define THREADS_METRIC                                                                             \
        {                                                                                          \
                .name = "threads_running", .rule = {{5, 15}, {3, 10}, 5 * NS_PER_S, false},        \
                .check_above = 5                                                                   \
        }

static const struct core_metric both_metrics[] = {LAG_METRIC, THREADS_METRIC};
static const struct core_metric turned[] = {THREADS_METRIC, LAG_METRIC};
static const struct core_metric no_lag[] = {THREADS_METRIC};

#define TARGET(its_name, its_metrics)                                                              \
        {                                                                                          \
                .name = (its_name), .metrics = (its_metrics), .n_metrics = ARRAY_LEN(its_metrics), \
                .dwell_ns = 30 * NS_PER_S, .mode = -1                                              \
        }

static const struct core_target shop_and_stock[] = {TARGET("shop", both_metrics),
                                                    TARGET("stock", both_metrics)};
/* The same the other way round, with one more in front. */
static const struct core_target moved[] = {TARGET("new", both_metrics), TARGET("stock", turned),
                                           TARGET("shop", turned)};
static const struct core_target only_stock[] = {TARGET("stock", both_metrics)};
static const struct core_target shop_without_lag[] = {TARGET("shop", no_lag)};

static void set_targets(struct rig *rig, const struct core_target *targets, size_t n)
{
        rig_set_gate(rig, targets, n, MODE_ENFORCE, MODE_ENFORCE);
        clients_check(rig->core->clients);
}

static void init(struct rig *rig)
{
        rig_init(rig);
        set_targets(rig, shop_and_stock, 2);
        rig_turn(rig);
}

static void restart(struct rig *rig)
{
        rig_turn(rig);
        rig_restart(rig);
        set_targets(rig, shop_and_stock, 2);
        rig_turn(rig);
}

/* Calm everywhere, except for the threads of the shop. */
static void busy_shop(struct rig *rig, double threads)
{
        for (size_t target = 0; target < 2; target++)
                rig_sample(rig, target, LAG, 0);
        rig_sample(rig, 0, THREADS, threads);
        rig_sample(rig, 1, THREADS, 1);
}

static const struct target *target_of(struct rig *rig, const char *name)
{
        int i = throttle_target(rig->core, slice_str(name));
        assert_true(i >= 0);
        return &rig->core->throttle->targets[i];
}

/* What SETTINGS says of one. */
static const char *row_of(struct rig *rig, const char *name)
{
        static char row[600];
        char begin[200];
        const char *all = rig_do(rig, "SETTINGS");
        (void)snprintf(begin, sizeof(begin), "{name:'%s' ", name);
        const char *at = strstr(all, begin);
        if (!at)
                fail_msg("SETTINGS has no %s", name);
        const char *next = at ? strstr(at + 1, "{name:") : NULL;
        (void)snprintf(row, sizeof(row), "%.*s",
                       (int)(next ? (size_t)(next - at) : strlen(at ? at : "")), at);
        return row;
}

static void each_has_its_value_its_default_and_what_is_configured(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        has(row_of(&rig, "throttle.mode"),
            "value:'enforce' default:'off' configured:'enforce' type:'choice' "
            "choices:['off' 'test_observe' 'observe' 'enforce']");
        has(row_of(&rig, "throttle.enabled"), "value:'true' default:'true'");
        has(row_of(&rig, "locks.enabled"), "value:'true' default:'true' configured:'true'");
        has(row_of(&rig, "check.mode"), "value:'enforce'");
        has(row_of(&rig, "throttle.delay.critical.deferrable"),
            "value:'1h' default:'1h' configured:'1h' type:'duration' choices:[] min:'0s' "
            "max:'7d'");
        has(row_of(&rig, "throttle.cap.elevated.claim_size"), "value:'5'");
        has(row_of(&rig, "target.shop.dwell"), "value:'30s'");
        has(row_of(&rig, "target.stock.replication_lag.elevated"),
            "value:'2,1' default:null configured:'2,1' type:'pair'");
        has(row_of(&rig, "target.shop.threads_running.check"), "value:'5'");
        has_not(rig_do(&rig, "SETTINGS"), "is_changed:true");
        rig_release(&rig);
}

static void what_is_set_holds_at_once_and_after_a_restart(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        static const char *const sets[][3] = {
                {"throttle.delay.elevated.normal", "90000", "1m30s"},
                {"throttle.cap.critical.claims", "7", "7"},
                {"throttle.max_deferral", "2h", "2h"},
                {"throttle.deferrals_per_hour", "12", "12"},
                {"throttle.expiry_margin", "90s", "1m30s"},
                {"throttle.expiry.normal", "EXPIRE", "expire"},
                {"throttle.mode", "OBSERVE", "observe"},
                {"check.mode", "off", "off"},
                {"target.shop.dwell", "10s", "10s"},
                {"target.shop.threads_running.elevated", " 7.5 , 4 ", "7.5,4"},
                {"target.shop.threads_running.check", "6.25", "6.25"},
        };
        for (int round = 0; round < 2; round++) {
                for (size_t i = 0; !round && i < ARRAY_LEN(sets); i++)
                        assert_string_equal(rig_do(&rig, "SETTINGSET", sets[i][0], sets[i][1]),
                                            "OK");
                for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
                        char value[80];
                        (void)snprintf(value, sizeof(value), "value:'%s'", sets[i][2]);
                        has(row_of(&rig, sets[i][0]), value);
                        has(row_of(&rig, sets[i][0]), "is_changed:true");
                }
                const struct throttle *t = rig.core->throttle;
                assert_int_equal(t->policy.delay_ms[LEVEL_ELEVATED][TIER_NORMAL], 90000);
                assert_int_equal(t->policy.caps[LEVEL_CRITICAL].claims, 7);
                assert_int_equal(t->policy.max_deferral_ms, 7200000);
                assert_int_equal(t->mode, MODE_OBSERVE);
                assert_int_equal(check_mode(rig.core), MODE_OFF);
                assert_int_equal(t->targets[0].dwell_ns, 10 * NS_PER_S);
                assert_true(t->targets[0].rules[THREADS].enter[0] == 7.5);
                assert_true(t->targets[0].metrics[THREADS].check_above == 6.25);
                assert_true(t->targets[1].rules[THREADS].enter[0] == 5);
                restart(&rig);
        }
        for (size_t i = 0; i < ARRAY_LEN(sets); i++)
                assert_string_equal(rig_do(&rig, "SETTINGUNSET", sets[i][0]), "OK");
        has_not(rig_do(&rig, "SETTINGS"), "is_changed:true");
        assert_int_equal(rig.core->throttle->mode, MODE_ENFORCE);
        assert_true(rig.core->throttle->targets[0].rules[THREADS].enter[0] == 5);
        rig_release(&rig);
}

static void a_wrong_value_says_what_is_allowed_and_changes_nothing(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        static const char *const cases[][3] = {
                {"throttle.mode", "loud", "off, test_observe, observe or enforce"},
                {"throttle.enabled", "perhaps", "true or false"},
                {"locks.enabled", "2", "true or false"},
                {"throttle.delay.elevated.normal", "8d", "0s to 7d"},
                {"throttle.delay.elevated.normal", "-1", "0s to 7d"},
                {"throttle.cap.elevated.claims", "100001", "0 to 100000"},
                {"throttle.cap.elevated.claims", "1.5", "0 to 100000"},
                {"target.shop.dwell", "2h", "0s to 1h"},
                {"target.shop.threads_running.elevated", "5", "two numbers"},
                {"target.shop.threads_running.elevated", "5,nan", "two numbers"},
                {"target.shop.threads_running.elevated", "5,0x3", "two numbers"},
                {"target.shop.threads_running.elevated", "5,6", "must not be above"},
                {"target.shop.threads_running.elevated", "16,3", "below elevated"},
                {"target.shop.threads_running.critical", "4,3", "below elevated"},
                {"target.shop.threads_running.check", "", "value"},
                {"target.shop.threads_running.check", "inf", "a number"},
                {"throttle.delay.elevated.critical", "5m", "there is no setting"},
                {"throttle.pause", "1", "there is no setting"},
                {"registry:x", "high", "there is no setting"},
                {"target.nowhere.dwell", "1s", "there is no setting"},
        };
        uint64_t version = rig.core->state.settings_version;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                has(rig_do(&rig, "SETTINGSET", cases[i][0], cases[i][1]), cases[i][2]);
        assert_int_equal(rig.core->state.settings_version, version);
        has(rig_do(&rig, "SETTINGUNSET", "throttle.pause"), "there is no setting");
        has(rig_do(&rig, "SETTINGUNSET", "target.nowhere.dwell"), "there is no setting");
        has(rig_do(&rig, "SETTINGSTEXT"), "UNAVAIL");
        has(rig_do(&rig, "CONFIGRELOAD"), "UNAVAIL");
        rig_release(&rig);
}

static void a_lower_threshold_raises_the_level_at_once(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        busy_shop(&rig, 4);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'normal'");
        rig_do(&rig, "SETTINGSET", "target.shop.threads_running.elevated", "4,2");
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'elevated'");
        has(rig_do(&rig, "THROTTLE", "HISTORY"),
            "shop: normal -> elevated by threads_running 4 against 4");
        has(rig_do(&rig, "THROTTLE", "HISTORY"),
            "target.shop.threads_running.elevated: 5,3 -> 4,2");
        rig_release(&rig);
}

static void switched_off_everything_runs_and_the_mode_is_kept(void **state)
{
        (void)state;
        struct rig rig;
        char token[33];
        init(&rig);
        busy_shop(&rig, 50);
        rig_do(&rig, "ENQUEUE", "mail", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_do(&rig, "SETTINGSET", "throttle.enabled", "off");
        has(row_of(&rig, "throttle.enabled"), "value:'false'");
        rig_do(&rig, "ENQUEUE", "mail", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "ramp:{running:true"); /* the parked one returns */
        assert_int_equal(rig.core->throttle->mode, MODE_ENFORCE);
        rig_do(&rig, "THROTTLE", "PAUSE"); /* the operator's own hand still holds */
        rig_do(&rig, "ENQUEUE", "mail", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_do(&rig, "THROTTLE", "RESUME");
        rig_do(&rig, "SETTINGUNSET", "throttle.enabled");
        rig_do(&rig, "ENQUEUE", "mail", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_release(&rig);
}

static void switched_off_the_status_says_so_and_checks_are_judged_as_before(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        busy_shop(&rig, 50);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "{mode:'enforce' enabled:true ");
        has(rig_do(&rig, "THROTTLE", "STATUS"), " caps:{claim_size:1 claims:1] "); /* in force */
        rig_do(&rig, "SETTINGSET", "throttle.enabled", "off");
        has(rig_do(&rig, "THROTTLE", "STATUS"), "{mode:'enforce' enabled:false ");
        has(rig_do(&rig, "THROTTLE", "STATUS"), " caps:{claim_size:0 claims:0] ");
        has(rig_do(&rig, "CHECK", "etl", "METRICS", "threads_running"),
            "verdict:'refused' reason:'threshold'");
        rig_do(&rig, "SETTINGSET", "check.mode", "off");
        has(rig_do(&rig, "CHECK", "etl", "METRICS", "threads_running"),
            "verdict:'granted' reason:'off'");
        rig_release(&rig);
}

static void switched_off_no_job_waits_for_the_adaptive_limit(void **state)
{
        (void)state;
        struct rig rig;
        char token[33];
        init(&rig);
        struct core_throttle options = {
                .targets = shop_and_stock, .n_targets = 2, .adaptive = MODE_ENFORCE};
        policy_init(&options.policy);
        zone_rule_init(&options.zone);
        options.zone.start = 1;
        core_set_throttle(rig.core, &options);
        busy_shop(&rig, 1);
        for (int i = 0; i < 4; i++)
                rig_do(&rig, "ENQUEUE", "mail", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "WHY", "2"), "as many jobs run as the level of the load allows");
        rig_do(&rig, "SETTINGSET", "throttle.enabled", "off");
        has_not(rig_do(&rig, "WHY", "2"), "gate");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 3);
        rig_do(&rig, "SETTINGUNSET", "throttle.enabled");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_release(&rig);
}

/* ---- targets that are set up again ---- */

static void levels_and_values_follow_the_names(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        busy_shop(&rig, 50);
        rig_turn(&rig);
        uint64_t events = rig.core->throttle->n_events;
        int64_t since_ns = target_of(&rig, "shop")->leveler.since_ns;
        rig_pass_ms(&rig, 1000);
        set_targets(&rig, moved, 3);
        rig_turn(&rig);
        const struct target *shop = target_of(&rig, "shop");
        assert_int_equal(throttle_target(rig.core, SLICE_LIT("shop")), 2);
        assert_int_equal(shop->leveler.level, LEVEL_CRITICAL);
        assert_int_equal(shop->leveler.since_ns, since_ns);
        assert_int_equal(shop->leveler.metric, 0); /* threads are the first now */
        assert_true(shop->samples[0].value == 50 && shop->samples[1].value == 0);
        assert_int_equal(shop->metrics[0].history_s, since_ns / NS_PER_S);
        assert_int_equal(target_of(&rig, "stock")->leveler.level, LEVEL_NORMAL);
        assert_int_equal(target_of(&rig, "new")->leveler.level, LEVEL_UNKNOWN); /* as yet */
        assert_int_equal(rig.core->throttle->n_events, events); /* no transition of any kind */
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'critical' ");
        has(rig_do(&rig, "THROTTLE", "STATUS"), "target:'shop'");
        rig_release(&rig);
}

static void a_level_whose_metric_is_gone_begins_anew(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        busy_shop(&rig, 1);
        rig_sample(&rig, 0, LAG, 99);
        rig_turn(&rig);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'critical'");
        set_targets(&rig, shop_without_lag, 1);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'normal'");
        has(rig_do(&rig, "THROTTLE", "HISTORY"), "shop was critical by replication_lag");
        rig_release(&rig);
}

static void jobs_of_a_target_that_is_gone_come_back_by_the_ramp(void **state)
{
        (void)state;
        struct rig rig;
        char token[33];
        init(&rig);
        busy_shop(&rig, 50);
        rig_do(&rig, "ENQUEUE", "mail", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        set_targets(&rig, only_stock, 1);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "ramp:{running:true");
        for (int i = 0; i < 200; i++) {
                rig_pass_ms(&rig, 1000);
                rig_sample(&rig, 0, LAG, 0);
                rig_sample(&rig, 0, THREADS, 0);
        }
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        rig_release(&rig);
}

static void a_setting_comes_back_with_its_target(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        rig_do(&rig, "SETTINGSET", "target.shop.dwell", "1s");
        set_targets(&rig, only_stock, 1);
        has_not(rig_do(&rig, "SETTINGS"), "target.shop");
        set_targets(&rig, shop_and_stock, 2);
        has(row_of(&rig, "target.shop.dwell"), "value:'1s'");
        set_targets(&rig, only_stock, 1);
        assert_string_equal(rig_do(&rig, "SETTINGUNSET", "target.shop.dwell"), "OK");
        set_targets(&rig, shop_and_stock, 2);
        has(row_of(&rig, "target.shop.dwell"), "value:'30s'");
        rig_release(&rig);
}

/* A value that was fine with the old file and is not with the new one. */
static void thresholds_that_do_not_go_together_give_way_to_the_file(void **state)
{
        (void)state;
        static const struct core_metric low[] = {{.name = "threads_running",
                                                  .rule = {{2, 4}, {1, 3}, 5 * NS_PER_S, false},
                                                  .check_above = 2,
                                                  .is_checked = true}};
        static const struct core_target low_shop[] = {TARGET("shop", low)};
        struct rig rig;
        init(&rig);
        rig_do(&rig, "SETTINGSET", "target.shop.threads_running.elevated", "12,8");
        set_targets(&rig, low_shop, 1);
        assert_true(target_of(&rig, "shop")->rules[0].enter[0] == 2);
        set_targets(&rig, shop_and_stock, 2);
        assert_true(target_of(&rig, "shop")->rules[THREADS].enter[0] == 12);
        rig_release(&rig);
}

enum { ASKS = 4 };

static void set_sites(struct rig *rig, size_t n)
{
        static const struct site_options sites[] = {
                {.name = "shop.example",
                 .target = "shop",
                 .mode = MODE_OBSERVE,
                 .interval_ms = 5000},
                {.name = "blog", .mode = MODE_OFF, .interval_ms = 5000}};
        core_set_sites(rig->core, sites, n, NULL);
        rig_turn(rig);
}

static enum gate_mode mode_of(const struct rig *rig, const char *site)
{
        return sites_mode(rig->core, slice_str(site));
}

static void the_mode_of_a_site_is_set_and_holds_over_a_restart(void **state)
{
        (void)state;
        struct rig rig;
        enum gate_mode mode = MODE_OFF;
        init(&rig);
        set_sites(&rig, 2);
        has(row_of(&rig, "site.shop.example.mode"),
            "value:'observe' default:'observe' configured:'observe' type:'choice' "
            "choices:['off' 'test_observe' 'observe' 'enforce']");
        assert_false(core_effective_site(rig.core, "shop.example", &mode));
        assert_string_equal(rig_do(&rig, "SETTINGSET", "site.shop.example.mode", "enforce"), "OK");
        assert_int_equal(mode_of(&rig, "shop.example"), MODE_ENFORCE);
        restart(&rig);
        set_sites(&rig, 2);
        assert_int_equal(mode_of(&rig, "shop.example"), MODE_ENFORCE);
        assert_true(core_effective_site(rig.core, "shop.example", &mode));
        assert_int_equal(mode, MODE_ENFORCE);
        struct core_effective now;
        core_effective(rig.core, &now);
        assert_false(now.is_throttle_changed); /* it is said in a section of its own */
        has(rig_do(&rig, "SETTINGSET", "site.shop.example.mode", "on"),
            "the value must be off, test_observe, observe or enforce");
        assert_int_equal(mode_of(&rig, "shop.example"), MODE_ENFORCE);
        assert_string_equal(rig_do(&rig, "SETTINGUNSET", "site.shop.example.mode"), "OK");
        assert_int_equal(mode_of(&rig, "shop.example"), MODE_OBSERVE);
        rig_release(&rig);
}

static void set_door(struct rig *rig, size_t n)
{
        const struct traffic_options door = {"shop", NULL, MODE_OBSERVE};
        core_set_traffic(rig->core, &door, n, NULL);
        rig_turn(rig);
}

static void the_mode_of_a_mysql_door_is_set_and_holds_over_a_restart(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        set_sites(&rig, 2);
        set_door(&rig, 1);
        has(row_of(&rig, "mysql.shop.mode"),
            "value:'observe' default:'observe' configured:'observe' type:'choice' "
            "choices:['off' 'observe' 'enforce']");
        assert_string_equal(rig_do(&rig, "SETTINGSET", "mysql.shop.mode", "enforce"), "OK");
        assert_int_equal(traffic_mode(rig.core, 0), MODE_ENFORCE);
        assert_int_equal(traffic_configured_mode(rig.core, 0), MODE_OBSERVE);
        struct core_effective now;
        core_effective(rig.core, &now);
        assert_false(now.is_throttle_changed); /* it is said in a section of its own */
        restart(&rig);
        set_door(&rig, 1);
        assert_int_equal(traffic_mode(rig.core, 0), MODE_ENFORCE);
        has(rig_do(&rig, "SETTINGSET", "mysql.shop.mode", "test_observe"),
            "the value must be off, observe or enforce");
        assert_string_equal(rig_do(&rig, "SETTINGUNSET", "mysql.shop.mode"), "OK");
        assert_int_equal(traffic_mode(rig.core, 0), MODE_OBSERVE);
        rig_do(&rig, "SETTINGSET", "mysql.shop.mode", "off");
        set_door(&rig, 0); /* it is gone */
        has(rig_do(&rig, "SETTINGSET", "mysql.shop.mode", "off"), "there is no setting");
        assert_string_equal(rig_do(&rig, "SETTINGUNSET", "mysql.shop.mode"), "OK");
        rig_release(&rig);
}

static void a_site_without_a_target_stays_off(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        set_sites(&rig, 2);
        has(rig_do(&rig, "SETTINGSET", "site.blog.mode", "observe"),
            "the site has no target whose load it could follow, so it stays off: give it one in "
            "the configuration file");
        assert_int_equal(mode_of(&rig, "blog"), MODE_OFF);
        assert_string_equal(rig_do(&rig, "SETTINGSET", "site.blog.mode", "off"), "OK");
        set_sites(&rig, 1); /* it is gone */
        has(rig_do(&rig, "SETTINGSET", "site.blog.mode", "off"), "there is no setting");
        assert_string_equal(rig_do(&rig, "SETTINGUNSET", "site.blog.mode"), "OK");
        has(rig_do(&rig, "SETTINGUNSET", "site.blog.mode"), "there is no setting");
        rig_release(&rig);
}

static void parked_asks_wait_on_or_are_told(void **state)
{
        (void)state;
        struct rig rig;
        struct rig_session s[ASKS];
        init(&rig);
        for (size_t i = 0; i < ASKS; i++)
                rig_session_init(&s[i]);
        busy_shop(&rig, 1);
        rig_sample(&rig, 0, LAG, 9);
        rig_sample(&rig, 1, LAG, 9);
        rig_as(&rig, &s[0], "CHECK", "a:b", "WAIT", "60000", "METRICS", "lag");
        rig_as(&rig, &s[1], "CHECK", "a:b", "TARGET", "stock", "WAIT", "60000", "METRICS", "lag");
        rig_as(&rig, &s[2], "CHECK", "c", "TARGET", "shop", "WAIT", "60000");
        rig_as(&rig, &s[3], "CHECK", "c", "TARGET", "stock", "WAIT", "60000");
        set_targets(&rig, moved, 3);
        rig_turn(&rig);
        for (size_t i = 0; i < ASKS; i++)
                assert_false(s[i].is_answered);
        assert_int_equal(rig.core->checking->n_waiting, ASKS);
        set_targets(&rig, only_stock, 1);
        assert_true(s[0].is_answered && s[2].is_answered);
        has(text_reply_str(&s[0].reply), "NOTFOUND");
        has(text_reply_str(&s[0].reply), "target 'shop'");
        assert_false(s[1].is_answered || s[3].is_answered);
        rig_sample(&rig, 0, LAG, 0);
        for (int i = 0; i < 40; i++) {
                rig_pass_ms(&rig, 1000);
                rig_sample(&rig, 0, LAG, 0);
                rig_sample(&rig, 0, THREADS, 0);
        }
        assert_true(s[1].is_answered && s[3].is_answered);
        has(text_reply_str(&s[1].reply), "granted");
        for (size_t i = 0; i < ASKS; i++)
                rig_session_release(&rig, &s[i]);
        rig_release(&rig);
}

static void clients_remember_targets_by_name(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig);
        busy_shop(&rig, 1);
        rig_sample(&rig, 1, LAG, 9);
        rig_do(&rig, "CHECK", "etl", "TARGET", "stock");
        rig_do(&rig, "CHECK", "etl", "TARGET", "shop");
        has(rig_do(&rig, "CLIENTSHOW", "etl"), "metric:'replication_lag'");
        has(rig_do(&rig, "CLIENTSHOW", "etl"), "target:'stock'");
        set_targets(&rig, moved, 3);
        has(rig_do(&rig, "CLIENTSHOW", "etl"), "metric:'replication_lag'");
        has(rig_do(&rig, "CLIENTSHOW", "etl"), "target:'stock'");
        set_targets(&rig, shop_without_lag, 1);
        has_not(rig_do(&rig, "CLIENTSHOW", "etl"), "target:'stock'");
        rig_do(&rig, "CHECK", "etl");
        clients_check(rig.core->clients);
        rig_release(&rig);
}

/* ---- REGISTRYTRY ---- */

static void add_many(struct rig *rig, const char *hook, int n)
{
        for (int i = 0; i < n; i++)
                rig_do(rig, "ENQUEUE", hook, "", "IN", i % 2 ? "60000" : "0");
}

static void a_pattern_is_tried_without_setting_it(void **state)
{
        (void)state;
        struct rig rig;
        char token[33];
        init(&rig);
        add_many(&rig, "erp_export", 3);
        add_many(&rig, "erp_import", 2);
        add_many(&rig, "mail", 4);
        rig_do(&rig, "ENQUEUE", "erp_own", "", "TIER", "high");
        rig_do(&rig, "REGISTRYSET", "erp_import", "critical");
        assert_string_equal(rig_do(&rig, "REGISTRYTRY", "erp_*", "deferrable"),
                            "{total:3 moves:[{from:'normal' to:'deferrable' jobs:3]]]");
        assert_string_equal(rig_do(&rig, "REGISTRYTRY", "erp_import", "high"),
                            "{total:2 moves:[{from:'critical' to:'high' jobs:2]]]");
        assert_string_equal(rig_do(&rig, "REGISTRYTRY", "nothing", "high"), "{total:0 moves:[]]");
        assert_string_equal(rig_do(&rig, "REGISTRYTRY", "mail", "normal"), "{total:0 moves:[]]");
        assert_true(rig_claim(&rig, "w", "default", token) > 0); /* one that runs does not move */
        has(rig_do(&rig, "REGISTRYTRY", "*", "high"), "total:");
        has(rig_do(&rig, "TIER", "erp_export"), "tier:'normal'");
        rig_release(&rig);
}

static void a_long_walk_goes_on_over_turns(void **state)
{
        (void)state;
        enum { BULK = 45, EACH = 1000 };
        struct rig rig;
        struct rig_session gone;
        struct slice argv[4 + 2 * EACH] = {SLICE_LIT("ENQUEUEMANY"), SLICE_LIT("QUEUE"),
                                           SLICE_LIT("bulk"), SLICE_LIT("JOBS")};
        init(&rig);
        rig_session_init(&gone);
        for (size_t i = 0; i < EACH; i++) {
                argv[4 + 2 * i] = i % 2 ? SLICE_LIT("erp_a") : SLICE_LIT("mail");
                argv[5 + 2 * i] = SLICE_LIT("");
        }
        for (int i = 0; i < BULK; i++)
                (void)rig_argv(&rig, &rig.me, argv, ARRAY_LEN(argv)); /* ids */
        assert_string_equal(rig_as(&rig, &gone, "REGISTRYTRY", "erp_*", "high"), "(waits)");
        rig_session_release(&rig, &gone); /* nobody waits for it any more */
        assert_string_equal(rig_do(&rig, "REGISTRYTRY", "erp_*", "high"), "(waits)");
        for (int i = 0; i < 4 && !rig.me.is_answered; i++) {
                assert_int_equal(core_next_ns(rig.core), rig.core->now.steady_ns);
                rig_turn(&rig);
        }
        assert_true(rig.me.is_answered);
        assert_string_equal(text_reply_str(&rig.me.reply),
                            "{total:22500 moves:[{from:'normal' to:'high' jobs:22500]]]");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_has_its_value_its_default_and_what_is_configured),
                cmocka_unit_test(what_is_set_holds_at_once_and_after_a_restart),
                cmocka_unit_test(a_wrong_value_says_what_is_allowed_and_changes_nothing),
                cmocka_unit_test(a_lower_threshold_raises_the_level_at_once),
                cmocka_unit_test(switched_off_everything_runs_and_the_mode_is_kept),
                cmocka_unit_test(switched_off_the_status_says_so_and_checks_are_judged_as_before),
                cmocka_unit_test(switched_off_no_job_waits_for_the_adaptive_limit),
                cmocka_unit_test(levels_and_values_follow_the_names),
                cmocka_unit_test(a_level_whose_metric_is_gone_begins_anew),
                cmocka_unit_test(jobs_of_a_target_that_is_gone_come_back_by_the_ramp),
                cmocka_unit_test(a_setting_comes_back_with_its_target),
                cmocka_unit_test(thresholds_that_do_not_go_together_give_way_to_the_file),
                cmocka_unit_test(the_mode_of_a_site_is_set_and_holds_over_a_restart),
                cmocka_unit_test(the_mode_of_a_mysql_door_is_set_and_holds_over_a_restart),
                cmocka_unit_test(a_site_without_a_target_stays_off),
                cmocka_unit_test(parked_asks_wait_on_or_are_told),
                cmocka_unit_test(clients_remember_targets_by_name),
                cmocka_unit_test(a_pattern_is_tried_without_setting_it),
                cmocka_unit_test(a_long_walk_goes_on_over_turns),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

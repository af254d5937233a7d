/* What an operator sees first: NOW, its rates, and what was held back last (THROTTLED). */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "base/say.h"
#include "support/rig.h"
#include "throttle/throttled.h"

static const struct core_metric metrics[] = {
        {.name = "threads_running",
         .rule = {{5, 15}, {3, 10}, 5 * NS_PER_S, false},
         .check_above = 50,
         .is_checked = true},
};
static const struct core_target targets[] = {
        {.name = "shop",
         .metrics = metrics,
         .n_metrics = 1,
         .dwell_ns = 30 * NS_PER_S,
         .mode = -1,
         .unknown =
                 {{UNKNOWN_OPEN, 0}, {UNKNOWN_OPEN, 0}, {UNKNOWN_CLOSED, 0}, {UNKNOWN_CLOSED, 0}}},
        {.name = "stock", .metrics = metrics, .n_metrics = 1, .dwell_ns = NS_PER_S, .mode = 0},
};

static void init_as(struct rig *rig, enum gate_mode mode, enum gate_mode checks)
{
        rig_init(rig);
        rig_set_gate(rig, targets, ARRAY_LEN(targets), mode, checks);
        rig_turn(rig);
}

static void init(struct rig *rig)
{
        init_as(rig, MODE_ENFORCE, MODE_ENFORCE);
}

static void sample(struct rig *rig, double value)
{
        rig_sample(rig, 0, 0, value);
}

/* ---- NOW ---- */

static void a_calm_weir_says_so(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(
                rig_do(&rig, "NOW"),
                "{at_ms:1700000000000 start_ms:1700000000000 mode:'off' check_mode:'enforce' "
                "level:'normal' target:'' "
                "since_ms:1000 observed_level:'normal' observed_target:'' paused:false "
                "pause_left_ms:0 targets:[] "
                "jobs:{ready:0 scheduled:0 waiting:0 running:0 finished:0 failed_hour:0 "
                "failed_from_ms:1700000000000 parked:{critical:0 high:0 normal:0 deferrable:0] "
                "returning:{critical:0 high:0 normal:0 deferrable:0]] "
                "rates:{enqueued:null started:null completed:null failed:null deferred:null "
                "granted:null refused:null] "
                "ramp:{running:false cycle:0 cycles:3 next_in_ms:-1] "
                "checks:{waiting:0 rules:0 starved:0] "
                "history:{failing_since_ms:null problem:null waiting:0] throttle_enabled:true "
                "locks_enabled:true "
                "everything_paused:false events:0 doors_mode:'off']");
        rig_release(&rig);
}

/* The level is that of what enforces.  What is only observed makes nothing wait. */
static void a_level_that_is_only_observed_is_told_apart(void **unused)
{
        (void)unused;
        struct rig rig;
        static const struct core_target two[] = {
                {.name = "shop", .metrics = metrics, .n_metrics = 1, .dwell_ns = 1, .mode = -1},
                {.name = "stock",
                 .metrics = metrics,
                 .n_metrics = 1,
                 .dwell_ns = 1,
                 .mode = MODE_OBSERVE},
        };
        rig_init(&rig);
        rig_set_gate(&rig, two, ARRAY_LEN(two), MODE_ENFORCE, MODE_ENFORCE);
        rig_sample(&rig, 0, 0, 1);
        rig_sample(&rig, 1, 0, 99);
        rig_pass_ms(&rig, 1000);
        const char *now = rig_do(&rig, "NOW");
        has(now, "level:'normal' target:'' ");
        has(now, "observed_level:'critical' observed_target:'stock' ");
        const char *status = rig_do(&rig, "THROTTLE", "STATUS");
        has(status, "level:'normal' since_ms:");
        has(status, "target:'' observed_level:'critical' observed_target:'stock' ");
        has(status, "{tier:'deferrable' parked:0 deferred:0 would_defer:0 released:0 delay_ms:0 "
                    "returning:0 "
                    "enforce_delay_ms:0]");
        /* In observe nothing enforces, and what enforce would do is told. */
        rig_sample(&rig, 0, 0, 6);
        rig_do(&rig, "THROTTLE", "MODE", "SET", "observe");
        rig_turn(&rig);
        has(rig_do(&rig, "NOW"), "level:'normal' target:'' ");
        has(rig_do(&rig, "NOW"), "observed_level:'critical' observed_target:'stock' ");
        has(rig_do(&rig, "THROTTLE", "STATUS"),
            "released:0 delay_ms:0 returning:0 enforce_delay_ms:900000]");
        rig_release(&rig);
}

/* The level is kept while it dwells: what it was entered with, what is now, and when it falls. */
static void a_level_that_dwells_says_what_is_now_and_when_it_falls(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        sample(&rig, 25);
        has(rig_do(&rig, "NOW"), "value:'25' threshold:'15' now:'25' age_ms:0 falls_in_ms:-1 ");
        rig_pass_ms(&rig, 1000);
        sample(&rig, 0);
        rig_pass_ms(&rig, 2000);
        sample(&rig, 0);
        has(rig_do(&rig, "NOW"), "level:'critical' ");
        has(rig_do(&rig, "NOW"), "value:'25' threshold:'15' now:'0' age_ms:0 falls_in_ms:28000 ");
        rig_release(&rig);
}

static void the_level_is_told_with_the_metric_that_decides(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        sample(&rig, 16.5);
        rig_pass_ms(&rig, 2000);
        const char *now = rig_do(&rig, "NOW");
        has(now, "at_ms:1700000002000 start_ms:1700000000000 mode:'enforce' check_mode:'enforce' "
                 "level:'critical' "
                 "target:'shop' since_ms:2000");
        has(now, "{name:'shop' mode:'enforce' level:'critical' since_ms:2000 "
                 "metric:'threads_running' value:'16.5' threshold:'15' now:'16.5' "
                 "age_ms:2000 falls_in_ms:-1 error:'' measured:true last_known:'']");
        has(now, "{name:'stock' mode:'off'");
        has(now, "events:1 doors_mode:'off']");
        rig_release(&rig);
}

static void a_metric_that_cannot_be_read_says_why(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        core_sample(rig.core, 0, 0, 0, rig.now.steady_ns, SAMPLE_FAILED,
                    SLICE_LIT("access denied"));
        has(rig_do(&rig, "NOW"), "error:'access denied'");
        rig_release(&rig);
}

static void a_pause_is_told_with_its_end(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "THROTTLE", "PAUSE", "FOR", "60000");
        rig_pass_ms(&rig, 1500);
        has(rig_do(&rig, "NOW"), "paused:true pause_left_ms:58500");
        rig_do(&rig, "THROTTLE", "PAUSE", "UNTILRESUMED");
        has(rig_do(&rig, "NOW"), "paused:true pause_left_ms:-1");
        rig_do(&rig, "THROTTLE", "RESUME");
        has(rig_do(&rig, "NOW"), "paused:false pause_left_ms:0");
        rig_release(&rig);
}

static void what_is_switched_off_is_told(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        rig_do(&rig, "SETTINGSET", "throttle.enabled", "false");
        has(rig_do(&rig, "NOW"), "mode:'enforce'"); /* it is kept */
        has(rig_do(&rig, "NOW"), "throttle_enabled:false locks_enabled:true");
        rig_do(&rig, "SETTINGSET", "locks.enabled", "false");
        rig_do(&rig, "SETTINGUNSET", "throttle.enabled");
        has(rig_do(&rig, "NOW"), "throttle_enabled:true locks_enabled:false");
        rig_release(&rig);
}

static void jobs_are_counted_where_they_are(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig);
        sample(&rig, 1);
        rig_do(&rig, "ENQUEUE", "mail", "");
        rig_do(&rig, "ENQUEUE", "mail", "", "QUEUE", "other");
        rig_do(&rig, "ENQUEUE", "mail", "", "IN", "60000");
        rig_do(&rig, "ENQUEUE", "mail", "", "AFTER", "1");
        assert_int_equal(rig_claim(&rig, "w", "other", token), 2);
        has(rig_do(&rig, "NOW"), "ready:1 scheduled:1 waiting:1 running:1 finished:0");
        sample(&rig, 150);
        rig_do(&rig, "ENQUEUE", "klaviyo_sync", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "NOW"), "parked:{critical:0 high:0 normal:1 deferrable:1]");
        rig_release(&rig);
}

static void rates_are_those_of_the_last_five_seconds(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_pass_ms(&rig, 5000);
        rig_enqueue(&rig, 12);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        has(rig_do(&rig, "NOW"), "enqueued:'0'"); /* the second is not over */
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "NOW"), "rates:{enqueued:'2.4' started:'0.2' completed:'0.2' failed:'0'");
        rig_pass_ms(&rig, 4000);
        has(rig_do(&rig, "NOW"), "enqueued:'2.4'");
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "NOW"), "rates:{enqueued:'0' started:'0'");
        rig_release(&rig);
}

static void rates_of_what_is_held_back_count_all_tiers(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig);
        rig_pass_ms(&rig, 5000);
        sample(&rig, 150);
        rig_do(&rig, "ENQUEUE", "klaviyo_sync", "");
        rig_do(&rig, "ENQUEUE", "mail", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        for (int i = 0; i < 10; i++)
                rig_do(&rig, "CHECK", "etl");
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "NOW"), "deferred:'0.4' granted:'0' refused:'2'");
        rig_release(&rig);
}

static void failures_are_counted_for_an_hour(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        for (int i = 0; i < 2; i++) {
                rig_do(&rig, "ENQUEUE", "mail", "", "ATTEMPTS", "1");
                uint64_t id = rig_claim(&rig, "w", "default", token);
                rig_do(&rig, "FAIL", id == 1 ? "1" : "2", token, "no");
        }
        has(rig_do(&rig, "NOW"), "failed_hour:2"); /* at once */
        rig_pass_ms(&rig, 3600 * MS_PER_S);
        has(rig_do(&rig, "NOW"), "failed_hour:2");
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "NOW"), "failed_hour:0");
        rig_release(&rig);
}

static void fail_one(struct rig *rig)
{
        rig_do(rig, "ENQUEUE", "mail", "", "ATTEMPTS", "1");
        assert_int_not_equal(rig_fail_next(rig, "default", "no"), 0);
}

/* Memory knows nothing of the time before the start; history does. */
static void what_failed_before_a_restart_is_asked_of_history(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig); /* Unix time 1700000000 */
        fail_one(&rig);
        rig_pass_ms(&rig, 600 * MS_PER_S);
        rig_archive_all(&rig);
        fail_one(&rig);
        fail_one(&rig); /* these two are not in history yet */
        rig_pass_ms(&rig, 1);
        rig_restart(&rig);
        rig_turn(&rig);
        const char *now = rig_do(&rig, "NOW");
        has(now, "start_ms:1700000600001 ");
        has(now, "failed_hour:0 failed_from_ms:1700000600001");
        rig_archive_all(&rig);
        has(rig_do(&rig, "NOW"), "failed_hour:0 failed_from_ms:1700000600001"); /* it asks */
        core_archive_poll(rig.core);
        has(rig_do(&rig, "NOW"), "failed_hour:3 failed_from_ms:1699997000001");
        fail_one(&rig);
        has(rig_do(&rig, "NOW"), "failed_hour:4 ");
        /* They leave the hour in the minute of their end. */
        rig_pass_ms(&rig, 2999 * MS_PER_S);
        has(rig_do(&rig, "NOW"), "failed_hour:4 ");
        rig_pass_ms(&rig, 60 * MS_PER_S);
        has(rig_do(&rig, "NOW"), "failed_hour:3 ");
        rig_pass_ms(&rig, 3600 * MS_PER_S);
        has(rig_do(&rig, "NOW"), "failed_hour:0 ");
        rig_release(&rig);
}

static void history_that_cannot_know_is_not_asked(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        fail_one(&rig);
        rig_archive_all(&rig);
        rig_do(&rig, "QUEUESET", "dark", "HISTORY", "none");
        rig_pass_ms(&rig, 1000);
        rig_restart(&rig);
        rig_pass_ms(&rig, 5000);
        rig_do(&rig, "NOW");
        core_archive_poll(rig.core);
        has(rig_do(&rig, "NOW"), "failed_hour:0 failed_from_ms:1700000001000");
        /* And one that cannot be read is asked again later. */
        rig_do(&rig, "QUEUESET", "dark", "HISTORY", "full");
        rig.archive.is_broken = true;
        rig_do(&rig, "NOW");
        core_archive_poll(rig.core);
        rig.archive.is_broken = false;
        has(rig_do(&rig, "NOW"), "failed_hour:0 failed_from_ms:1700000001000");
        rig_pass_ms(&rig, 5000);
        rig_do(&rig, "NOW");
        core_archive_poll(rig.core);
        has(rig_do(&rig, "NOW"), "failed_hour:1 failed_from_ms:1699996411000");
        rig_release(&rig);
}

static void a_rate_counts_the_seconds_since_the_start(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "mail", "");
        rig_pass_ms(&rig, 2000);
        has(rig_do(&rig, "NOW"), "rates:{enqueued:'0.5' ");
        rig_release(&rig);
}

static void the_ramp_is_told_while_it_runs(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig);
        sample(&rig, 150);
        rig_enqueue(&rig, 3);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        for (int i = 0; i < 31; i++) {
                rig_pass_ms(&rig, 1000);
                sample(&rig, 1);
        }
        has(rig_do(&rig, "NOW"), "ramp:{running:true cycle:");
        rig_release(&rig);
}

/* ---- THROTTLED ---- */

static void a_deferred_job_is_told_with_its_reason(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig);
        sample(&rig, 150);
        rig_do(&rig, "ENQUEUE", "mail", "", "QUEUE", "slow", "GROUP", "shop-7");
        rig_do(&rig, "ENQUEUE", "klaviyo_sync", "");
        assert_int_equal(rig_claim(&rig, "w", "slow", token), 0);
        rig_pass_ms(&rig, 10);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        assert_string_equal(
                rig_do(&rig, "THROTTLED"),
                "[{at_ms:1700000000010 kind:'job' identity:'2:klaviyo_sync:default' "
                "tier:'deferrable' verdict:'deferred' reason:'level' target:'shop' "
                "text:'critical load on shop: threads_running 150 against 15; tier deferrable "
                "waits 1 h' job:2 times:1] "
                "{at_ms:1700000000000 kind:'job' identity:'1:mail:slow:shop-7' tier:'normal' "
                "verdict:'deferred' reason:'level' target:'shop' text:'critical load on shop: "
                "threads_running 150 against 15; tier normal waits 15 min' job:1 times:1]]");
        rig_release(&rig);
}

static void in_observe_mode_it_says_what_would_have_been(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init_as(&rig, MODE_OBSERVE, MODE_OBSERVE);
        sample(&rig, 150);
        rig_do(&rig, "ENQUEUE", "mail", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        has(rig_do(&rig, "CHECK", "etl"), "granted");
        const char *all = rig_do(&rig, "THROTTLED");
        has(all, "kind:'job' identity:'1:mail:default' tier:'normal' verdict:'would_defer'");
        has(all, "kind:'check' identity:'etl' tier:'normal' verdict:'would_refuse' "
                 "reason:'threshold'");
        rig_release(&rig);
}

static void a_pause_has_no_target(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig);
        rig_do(&rig, "THROTTLE", "PAUSE");
        rig_do(&rig, "ENQUEUE", "mail", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "THROTTLED"), "reason:'paused' target:'' text:'paused by the operator");
        rig_do(&rig, "CHECK", "etl");
        has(rig_do(&rig, "THROTTLED", "COUNT", "1"),
            "reason:'paused' target:'shop' text:'the operator paused' job:null times:1]]");
        rig_release(&rig);
}

static void a_refused_check_names_its_metric_or_its_rule(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        sample(&rig, 150);
        has(rig_do(&rig, "CHECK", "copy:etl"), "refused");
        has(rig_do(&rig, "THROTTLED"),
            "kind:'check' identity:'copy:etl' tier:'normal' verdict:'refused' reason:'threshold' "
            "target:'shop' text:'a metric is above its threshold: threads_running 150 against 50' "
            "job:null times:1]]");
        assert_string_equal(rig_do(&rig, "RULESET", "etl", "hold", "FOR", "60000"), "OK");
        has(rig_do(&rig, "CHECK", "copy:etl"), "refused");
        const char *all = rig_do(&rig, "THROTTLED", "COUNT", "1");
        has(all, "reason:'hold'");
        has(all, "a rule holds it: ");
        rig_release(&rig);
}

static void a_granted_check_is_not_told(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        sample(&rig, 1);
        has(rig_do(&rig, "CHECK", "etl"), "granted");
        assert_string_equal(rig_do(&rig, "THROTTLED"), "[]");
        rig_release(&rig);
}

static void checks_of_one_kind_within_a_second_are_one_entry(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig);
        sample(&rig, 150);
        for (int i = 0; i < 1000; i++) {
                rig_do(&rig, "CHECK", "a");
                rig_do(&rig, "CHECK", "b");
        }
        const char *all = rig_do(&rig, "THROTTLED");
        assert_int_equal(times(all, "kind:"), 2);
        assert_int_equal(times(all, "times:1000]"), 2);
        rig_do(&rig, "THROTTLE", "PAUSE"); /* another reason */
        rig_do(&rig, "CHECK", "a");
        assert_int_equal(times(rig_do(&rig, "THROTTLED"), "identity:'a'"), 2);
        rig_do(&rig, "THROTTLE", "RESUME");
        rig_pass_ms(&rig, 999);
        rig_do(&rig, "CHECK", "a");
        has(rig_do(&rig, "THROTTLED"), "times:1001]");
        rig_pass_ms(&rig, 1); /* another second */
        rig_do(&rig, "CHECK", "a");
        all = rig_do(&rig, "THROTTLED");
        assert_int_equal(times(all, "identity:'a'"), 3);
        has(all, "[{at_ms:1700000001000 kind:'check' identity:'a'");
        rig_release(&rig);
}

static void the_last_200_are_kept_newest_first(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN], last[64];
        init(&rig);
        sample(&rig, 150);
        rig_enqueue(&rig, 450);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        assert_int_equal(times(rig_do(&rig, "THROTTLED"), "kind:"), 20);
        const char *all = rig_do(&rig, "THROTTLED", "COUNT", "200");
        assert_int_equal(times(all, "kind:"), 200);
        (void)snprintf(last, sizeof(last), "[{at_ms:%lld kind:'job' identity:'450:mail:default'",
                       (long long)rig.now.wall_ms);
        has(all, last);
        has(all, "identity:'251:mail");
        has_not(all, "identity:'250:mail");
        has(rig_do(&rig, "THROTTLED", "COUNT", "201"), "!BADARG");
        rig_release(&rig);
}

/* Many askers in turn would push each other out of the ring, and nothing would be counted. */
static void a_thousand_askers_in_a_second_fill_the_ring_once(void **unused)
{
        (void)unused;
        struct rig rig;
        char who[32];
        init(&rig);
        sample(&rig, 150);
        for (int round = 0; round < 3; round++)
                for (int i = 0; i < 1000; i++) {
                        (void)snprintf(who, sizeof(who), "client-%d", i);
                        rig_do(&rig, "CHECK", who);
                }
        const char *all = rig_do(&rig, "THROTTLED", "COUNT", "200");
        assert_int_equal(times(all, "times:3]"), 200);
        throttled_check(rig.core->throttled);
        has(all, "identity:'client-199'");
        rig_pass_ms(&rig, 1000);
        sample(&rig, 150);
        rig_do(&rig, "CHECK", "client-999");
        has(rig_do(&rig, "THROTTLED", "COUNT", "1"), "identity:'client-999'");
        rig_release(&rig);
}

static void an_entry_that_was_pushed_out_is_not_counted_into(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig);
        sample(&rig, 150);
        rig_do(&rig, "CHECK", "etl");
        rig_enqueue(&rig, 200);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        assert_int_equal(times(rig_do(&rig, "THROTTLED", "COUNT", "200"), "kind:'check'"), 0);
        rig_do(&rig, "CHECK", "etl");
        has(rig_do(&rig, "THROTTLED", "COUNT", "1"), "kind:'check' identity:'etl'");
        throttled_check(rig.core->throttled);
        rig_release(&rig);
}

static void long_names_are_cut_between_characters(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN], hook[256];
        init(&rig);
        sample(&rig, 150);
        for (size_t i = 0; i + 2 <= 254; i += 2)
                memcpy(hook + i, "\xc3\xa4", 2);
        hook[254] = '\0';
        rig_do(&rig, "ENQUEUE", hook, "", "QUEUE", "slow");
        assert_int_equal(rig_claim(&rig, "w", "slow", token), 0);
        const char *all = rig_do(&rig, "THROTTLED");
        has(all, "identity:'1:\xc3\xa4");
        has(all, "\xc3\xa4' tier:"); /* not half of one */
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_calm_weir_says_so),
                cmocka_unit_test(a_level_that_is_only_observed_is_told_apart),
                cmocka_unit_test(a_level_that_dwells_says_what_is_now_and_when_it_falls),
                cmocka_unit_test(the_level_is_told_with_the_metric_that_decides),
                cmocka_unit_test(a_metric_that_cannot_be_read_says_why),
                cmocka_unit_test(a_pause_is_told_with_its_end),
                cmocka_unit_test(what_is_switched_off_is_told),
                cmocka_unit_test(jobs_are_counted_where_they_are),
                cmocka_unit_test(rates_are_those_of_the_last_five_seconds),
                cmocka_unit_test(rates_of_what_is_held_back_count_all_tiers),
                cmocka_unit_test(failures_are_counted_for_an_hour),
                cmocka_unit_test(what_failed_before_a_restart_is_asked_of_history),
                cmocka_unit_test(history_that_cannot_know_is_not_asked),
                cmocka_unit_test(a_rate_counts_the_seconds_since_the_start),
                cmocka_unit_test(the_ramp_is_told_while_it_runs),
                cmocka_unit_test(a_deferred_job_is_told_with_its_reason),
                cmocka_unit_test(in_observe_mode_it_says_what_would_have_been),
                cmocka_unit_test(a_pause_has_no_target),
                cmocka_unit_test(a_refused_check_names_its_metric_or_its_rule),
                cmocka_unit_test(a_granted_check_is_not_told),
                cmocka_unit_test(checks_of_one_kind_within_a_second_are_one_entry),
                cmocka_unit_test(the_last_200_are_kept_newest_first),
                cmocka_unit_test(a_thousand_askers_in_a_second_fill_the_ring_once),
                cmocka_unit_test(an_entry_that_was_pushed_out_is_not_counted_into),
                cmocka_unit_test(long_names_are_cut_between_characters),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

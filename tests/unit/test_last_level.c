/* The last known level of a target over a restart, and targets that were never measured. */
#include "throttle_box.h"

#include <stdio.h>

#include "base/say.h"
#include "core/kernel.h"
#include "state/last_level.h"

/* A restart as the program makes one: the targets come before the first turn. */
static void restart_with(struct rig *rig, const struct core_target *targets, size_t n)
{
        rig_turn(rig);
        assert_true(rig_replays(rig));
        rig->core->now = (struct now){0};
        rig_set_gate(rig, targets, n, MODE_ENFORCE, MODE_OFF);
        rig_turn(rig);
        state_check(&rig->core->state);
}

static void restart(struct rig *rig)
{
        restart_with(rig, &shop, 1);
}

static void begin(struct rig *rig)
{
        rig_init(rig);
        rig_set_gate(rig, &shop, 1, MODE_ENFORCE, MODE_OFF);
        rig_turn(rig);
}

static const char *status(struct rig *rig)
{
        return rig_do(rig, "THROTTLESTATUS");
}

/* Which of the four tiers may start a job now; each is asked with a job of its own, and of a hook
 * of its own: behind one that returns with the ramp, others of its hook wait. */
static const char *tiers_that_run(struct rig *rig)
{
        static int n_asked;
        char hook[16];
        static const char *const tiers[] = {"critical", "high", "normal", "deferrable"};
        static char ret[64];
        char token[RIG_TOKEN];
        ret[0] = '\0';
        (void)snprintf(hook, sizeof(hook), "x%d", n_asked++);
        for (size_t i = 0; i < ARRAY_LEN(tiers); i++) {
                rig_do(rig, "ENQUEUE", hook, "", "TIER", tiers[i], "QUEUE", tiers[i]);
                uint64_t id = rig_claim(rig, "w", tiers[i], token);
                if (!id)
                        continue;
                same(rig_do(rig, "COMPLETE", rig_number(id), token), "OK");
                (void)snprintf(ret + strlen(ret), sizeof(ret) - strlen(ret), "%s ", tiers[i]);
        }
        return ret;
}

static void a_target_that_was_never_measured_is_unknown(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        has(status(&rig), "level:'unknown'");
        has(status(&rig), "measured:false last_known:'not measured yet'");
        same(tiers_that_run(&rig), "critical high ");
        has(rig_do(&rig, "WHY", "4"),
            "load of shop not measured yet; tier deferrable waits 15 min");
        sample(&rig, 1);
        rig_turn(&rig);
        has(status(&rig), "level:'normal'");
        has(status(&rig), "measured:true last_known:''");
        same(tiers_that_run(&rig), "critical high normal deferrable ");
        rig_release(&rig);
}

static void a_critical_level_holds_over_a_restart_until_a_sample_comes(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        sample(&rig, 150);
        rig_pass_ms(&rig, 12000);
        restart(&rig);
        has(status(&rig), "level:'critical'");
        has(status(&rig), "metric:'threads_running' value:'150' threshold:'15'");
        has(status(&rig), "last_known:'last known: critical by threads_running, 12 s before the "
                          "restart, not measured yet'");
        same(tiers_that_run(&rig), "critical ");
        has(rig_do(&rig, "WHY", "4"), "load of shop last known: critical by threads_running");
        core_sample(rig.core, 0, 0, 0, rig.now.steady_ns, SAMPLE_SILENT, SLICE_LIT("it hangs"));
        rig_pass_ms(&rig, 60000); /* nothing comes */
        same(tiers_that_run(&rig), "critical ");
        sample_for(&rig, 1, 30); /* calm, and dwells as it would have without a restart */
        has(status(&rig), "level:'critical'");
        has(status(&rig), "measured:true last_known:''");
        sample_for(&rig, 1, 1);
        has(status(&rig), "level:'normal'");
        same(tiers_that_run(&rig), "critical high normal deferrable ");
        rig_release(&rig);
}

static void the_exit_threshold_counts_from_the_level_before_the_restart(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        sample(&rig, 150);
        restart(&rig);
        sample_for(&rig, 12, 100); /* between 10, where critical ends, and 15, where it begins */
        has(status(&rig), "level:'critical'");
        rig_release(&rig);
}

static void a_normal_level_is_unknown_after_a_restart_until_measured(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        sample_for(&rig, 1, 1);
        rig_pass_ms(&rig, 90000);
        restart(&rig);
        has(status(&rig), "level:'unknown'");
        has(status(&rig), "last known: normal, 1 min 30 s before the restart, not measured yet");
        same(tiers_that_run(&rig), "critical high ");
        sample(&rig, 1);
        same(tiers_that_run(&rig), "critical high normal deferrable ");
        rig_release(&rig);
}

static void what_was_unknown_has_the_level_known_before_that(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        sample(&rig, 150);
        rig_turn(&rig);
        rig_pass_ms(&rig, 6000);
        has(status(&rig), "level:'unknown'");
        restart(&rig);
        has(status(&rig), "level:'critical'");
        rig_release(&rig);
}

/* elevated stops deferrable jobs alone, unknown stops normal ones alone. */
static void for_each_tier_the_worse_of_the_last_level_and_unknown_applies(void **unused)
{
        (void)unused;
        struct rig rig;
        struct core_throttle options = {.targets = &shop, .n_targets = 1};
        begin(&rig);
        sample(&rig, 8);
        rig_turn(&rig);
        assert_true(rig_replays(&rig));
        policy_init(&options.policy);
        options.policy.mode = MODE_ENFORCE;
        options.policy.delay_ms[LEVEL_ELEVATED][TIER_NORMAL] = 0;
        options.policy.delay_ms[LEVEL_UNKNOWN][TIER_DEFERRABLE] = 0;
        core_set_throttle(rig.core, &options);
        rig_turn(&rig);
        has(status(&rig), "level:'elevated'");
        same(tiers_that_run(&rig), "critical high ");
        sample(&rig, 8); /* measured: elevated alone counts */
        same(tiers_that_run(&rig), "critical high normal ");
        rig_release(&rig);
}

static void one_record_is_written_for_a_transition_and_none_for_a_sample(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        sample(&rig, 150);
        rig_turn(&rig);
        uint64_t seq = last_level_find(&rig.core->state, SLICE_LIT("shop"))->thing.live.seq;
        sample_for(&rig, 160, 100);
        assert_int_equal(last_level_find(&rig.core->state, SLICE_LIT("shop"))->thing.live.seq, seq);
        sample_for(&rig, 1, 31);
        assert_true(last_level_find(&rig.core->state, SLICE_LIT("shop"))->thing.live.seq > seq);
        rig_release(&rig);
}

static void a_target_that_is_removed_is_forgotten(void **unused)
{
        (void)unused;
        struct rig rig;
        struct core_target renamed = shop;
        renamed.name = "store";
        begin(&rig);
        sample(&rig, 150);
        restart_with(&rig, &renamed, 1);
        has(status(&rig), "name:'store'");
        has(status(&rig), "last_known:'not measured yet'");
        assert_null(last_level_find(&rig.core->state, SLICE_LIT("shop")));
        restart(&rig); /* the name comes back, what was known of it does not */
        has(status(&rig), "last_known:'not measured yet'");
        rig_release(&rig);
}

static void a_metric_that_is_gone_holds_no_level(void **unused)
{
        (void)unused;
        struct rig rig;
        struct core_metric lag = threads_running;
        struct core_target other = shop;
        lag.name = "replication_lag";
        other.metrics = &lag;
        begin(&rig);
        sample(&rig, 150);
        restart_with(&rig, &other, 1);
        has(status(&rig), "level:'unknown'");
        has(status(&rig), "last_known:'not measured yet'");
        rig_release(&rig);
}

static void a_target_in_mode_off_holds_nobody_back(void **unused)
{
        (void)unused;
        struct rig rig;
        struct core_target off = shop;
        off.mode = MODE_OFF;
        begin(&rig);
        sample(&rig, 150);
        restart_with(&rig, &off, 1);
        same(tiers_that_run(&rig), "critical high normal deferrable ");
        rig_release(&rig);
}

static void a_target_that_a_reload_adds_is_unknown_until_measured(void **unused)
{
        (void)unused;
        struct rig rig;
        struct core_target both[] = {shop, shop};
        both[1].name = "store";
        begin(&rig);
        sample_for(&rig, 1, 1);
        same(tiers_that_run(&rig), "critical high normal deferrable ");
        rig_set_gate(&rig, both, 2, MODE_ENFORCE, MODE_OFF);
        has(status(&rig), "name:'shop' mode:'enforce' level:'normal'");
        has(status(&rig), "name:'store' mode:'enforce' level:'unknown'");
        same(tiers_that_run(&rig), "critical high ");
        rig_sample(&rig, 1, 0, 1);
        same(tiers_that_run(&rig), "critical high normal deferrable ");
        rig_release(&rig);
}

static void a_reload_before_the_first_sample_keeps_what_was_known(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig);
        sample(&rig, 150);
        rig_pass_ms(&rig, 12000);
        restart(&rig);
        rig_set_gate(&rig, &shop, 1, MODE_ENFORCE, MODE_OFF);
        rig_turn(&rig);
        has(status(&rig), "critical by threads_running, 12 s before the restart");
        same(tiers_that_run(&rig), "critical ");
        rig_release(&rig);
}

static void a_body_that_cannot_be_is_refused(void **unused)
{
        (void)unused;
        struct rig rig;
        struct buf body;
        struct problem p;
        const struct last_level_values values = {
                .level = LEVEL_CRITICAL, .at_ms = 5, .value = 1, .metric = SLICE_LIT("m")};
        begin(&rig);
        buf_init(&body, 0);
        last_level_put(&values, &body);
        for (size_t len = 0; len < body.len; len++)
                assert_int_not_equal(thing_try_set(rig.core, THING_LAST_LEVEL, SLICE_LIT("shop"),
                                                   slice_make(body.ptr, len), &p),
                                     OK);
        body.ptr[1] = LEVEL_UNKNOWN;
        assert_int_not_equal(
                thing_try_set(rig.core, THING_LAST_LEVEL, SLICE_LIT("shop"), buf_slice(&body), &p),
                OK);
        body.ptr[1] = LEVEL_CRITICAL;
        assert_int_equal(
                thing_try_set(rig.core, THING_LAST_LEVEL, SLICE_LIT("shop"), buf_slice(&body), &p),
                OK);
        buf_release(&body);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_target_that_was_never_measured_is_unknown),
                cmocka_unit_test(a_critical_level_holds_over_a_restart_until_a_sample_comes),
                cmocka_unit_test(the_exit_threshold_counts_from_the_level_before_the_restart),
                cmocka_unit_test(a_normal_level_is_unknown_after_a_restart_until_measured),
                cmocka_unit_test(what_was_unknown_has_the_level_known_before_that),
                cmocka_unit_test(for_each_tier_the_worse_of_the_last_level_and_unknown_applies),
                cmocka_unit_test(one_record_is_written_for_a_transition_and_none_for_a_sample),
                cmocka_unit_test(a_target_that_is_removed_is_forgotten),
                cmocka_unit_test(a_metric_that_is_gone_holds_no_level),
                cmocka_unit_test(a_target_in_mode_off_holds_nobody_back),
                cmocka_unit_test(a_target_that_a_reload_adds_is_unknown_until_measured),
                cmocka_unit_test(a_reload_before_the_first_sample_keeps_what_was_known),
                cmocka_unit_test(a_body_that_cannot_be_is_refused),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

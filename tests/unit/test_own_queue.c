/* Weir's own queues as a target: a deep queue alone, beside a busy database, and by configuration
 * as QueryGuard counts it. */
#include "throttle_box.h"

#include "base/say.h"
#include "state/queue.h"
#include "throttle/throttle_state.h"

static const struct core_metric queue_depth = {.name = "queue_depth",
                                               .rule = {{10, 20}, {5, 15}, 10 * NS_PER_S, false}};

/* The database "shop" and our own queues. */
static void begin(struct rig *rig, uint32_t age_ms, enum level most, enum gate_mode shop_mode)
{
        struct core_target targets[] = {shop,
                                        {.name = "queues",
                                         .metrics = &queue_depth,
                                         .n_metrics = 1,
                                         .dwell_ns = 30 * NS_PER_S,
                                         .mode = -1,
                                         .is_own = true}};
        struct core_throttle options = {.targets = targets, .n_targets = 2};
        targets[0].mode = (int)shop_mode;
        policy_init(&options.policy);
        options.policy.mode = MODE_ENFORCE;
        options.policy.queue_age_ms = age_ms;
        options.policy.queue_level = most;
        rig_init(rig);
        core_set_throttle(rig->core, &options);
        rig_turn(rig);
        sample_for(rig, 1, 1);
}

static void begin_usual(struct rig *rig)
{
        struct policy usual;
        policy_init(&usual);
        assert_int_equal(usual.queue_age_ms, 60000);
        begin(rig, usual.queue_age_ms, usual.queue_level, MODE_ENFORCE);
}

static void add(struct rig *rig, int n)
{
        for (int i = 0; i < n; i++)
                rig_do(rig, "ENQUEUE", "mail", "");
}

static const char *status(struct rig *rig)
{
        return rig_do(rig, "THROTTLESTATUS");
}

static void a_burst_on_an_idle_database_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        begin_usual(&rig);
        add(&rig, 100);
        sample_for(&rig, 1, 58);
        has(status(&rig), "name:'queues' mode:'enforce' level:'normal'");
        has(status(&rig), "value:'100'");
        has(status(&rig),
            "the other targets are calm and the oldest due job is 58 s old: the depth "
            "counts from 1 min on");
        assert_int_equal(rig_claim_many(&rig, "default"), 100);
        rig_release(&rig);
}

static void a_queue_that_stays_deep_is_elevated_and_not_more(void **unused)
{
        (void)unused;
        struct rig rig;
        begin_usual(&rig);
        add(&rig, 100);
        sample_for(&rig, 1, 62);
        has(status(&rig), "name:'queues' mode:'enforce' level:'elevated'");
        has(status(&rig), "the other targets are calm: the depth alone is elevated at most");
        assert_int_equal(rig_claim_many(&rig, "default"), 0); /* tier normal waits */
        sample_for(&rig, 1, 32);
        has(status(&rig), "name:'queues' mode:'enforce' level:'normal'"); /* they are parked */
        rig_release(&rig);
}

static void an_old_job_behind_better_ones_is_the_oldest(void **unused)
{
        (void)unused;
        struct rig rig;
        begin_usual(&rig);
        rig_do(&rig, "ENQUEUE", "mail", "", "PRIORITY", "200");
        sample_for(&rig, 1, 62);
        for (int i = 0; i < 30; i++)
                rig_do(&rig, "ENQUEUE", "mail", "", "PRIORITY", "1");
        sample_for(&rig, 1, 2);
        has(status(&rig), "name:'queues' mode:'enforce' level:'elevated'");
        rig_release(&rig);
}

static void beside_a_busy_database_the_depth_counts_at_once_and_in_full(void **unused)
{
        (void)unused;
        struct rig rig;
        begin_usual(&rig);
        sample(&rig, 8); /* elevated */
        for (int i = 0; i < 100; i++)
                rig_do(&rig, "ENQUEUE", "mail", "", "TIER", "high"); /* runs at elevated */
        rig_pass_ms(&rig, 1000);
        sample(&rig, 8);
        rig_turn(&rig);
        has(status(&rig), "name:'queues' mode:'enforce' level:'critical'");
        has_not(status(&rig), "the other targets are calm");
        sample_for(&rig, 1, 29); /* still elevated: it dwells */
        has(status(&rig), "name:'queues' mode:'enforce' level:'critical'");
        sample_for(&rig, 1, 32); /* calm, and after a dwell of its own the queue is, too */
        has(status(&rig), "name:'queues' mode:'enforce' level:'elevated'"); /* deep and old */
        rig_release(&rig);
}

static void a_busy_database_that_does_not_count_is_none(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, 60000, LEVEL_ELEVATED, MODE_OFF);
        sample(&rig, 99);
        add(&rig, 100);
        sample_for(&rig, 99, 3);
        has(status(&rig), "name:'queues' mode:'enforce' level:'normal'");
        rig_release(&rig);
}

static void as_queryguard_counts_it_the_depth_alone_is_critical_at_once(void **unused)
{
        (void)unused;
        struct rig rig;
        begin(&rig, 0, LEVEL_CRITICAL, MODE_ENFORCE);
        add(&rig, 100);
        sample_for(&rig, 1, 1);
        has(status(&rig), "name:'queues' mode:'enforce' level:'critical'");
        has_not(status(&rig), "the other targets are calm");
        rig_release(&rig);
}

static void both_bounds_can_be_set_while_weir_runs(void **unused)
{
        (void)unused;
        struct rig rig;
        begin_usual(&rig);
        add(&rig, 100);
        sample_for(&rig, 1, 2);
        has(rig_do(&rig, "SETTINGS"), "name:'throttle.queue_age' value:'1m' default:'1m'");
        has(rig_do(&rig, "SETTINGS"), "name:'throttle.queue_level' value:'elevated'");
        has(rig_do(&rig, "SETTINGSET", "throttle.queue_level", "high"),
            "the value must be elevated or critical");
        has(rig_do(&rig, "SETTINGSET", "throttle.queue_age", "2d"), "a duration of 0s to 1d");
        same(rig_do(&rig, "SETTINGSET", "throttle.queue_age", "1s"), "OK");
        has(status(&rig), "name:'queues' mode:'enforce' level:'elevated'");
        same(rig_do(&rig, "SETTINGSET", "throttle.queue_level", "critical"), "OK");
        has(status(&rig), "name:'queues' mode:'enforce' level:'critical'");
        rig_release(&rig);
}

static void the_adaptive_limit_does_not_fall_for_a_burst(void **unused)
{
        (void)unused;
        struct rig rig;
        begin_usual(&rig);
        struct throttle *t = rig.core->throttle;
        struct zone_rule rule;
        zone_rule_init(&rule);
        rule.start = 50;
        zone_init(&t->zone, &rule, rig.now.steady_ns);
        t->adaptive = MODE_OBSERVE;
        add(&rig, 100);
        sample_for(&rig, 1, 40);
        assert_true(t->zone.limit >= 50);
        rig_release(&rig);
}

static void the_oldest_due_is_found_in_lanes_and_within_a_budget(void **unused)
{
        (void)unused;
        struct rig rig;
        size_t budget = 2;
        begin_usual(&rig);
        rig_do(&rig, "QUEUESET", "default", "FAIR", "yes");
        int64_t first_ms = rig.now.wall_ms;
        rig_do(&rig, "ENQUEUE", "mail", "", "GROUP", "a");
        rig_pass_ms(&rig, 1000);
        rig_do(&rig, "ENQUEUE", "mail", "", "GROUP", "b");
        rig_do(&rig, "ENQUEUE", "mail", "", "GROUP", "b");
        const struct queue *q = CONTAINER_OF(
                hash_find(&rig.core->state.queues, SLICE_LIT("default")), const struct queue, node);
        (void)queue_oldest_due_ms(q, &budget);
        assert_int_equal(budget, 0);
        assert_int_equal(queue_oldest_due_ms(q, &budget), INT64_MAX);
        budget = 100;
        assert_int_equal(queue_oldest_due_ms(q, &budget), first_ms);
        assert_int_equal(budget, 97);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_burst_on_an_idle_database_changes_nothing),
                cmocka_unit_test(a_queue_that_stays_deep_is_elevated_and_not_more),
                cmocka_unit_test(an_old_job_behind_better_ones_is_the_oldest),
                cmocka_unit_test(beside_a_busy_database_the_depth_counts_at_once_and_in_full),
                cmocka_unit_test(a_busy_database_that_does_not_count_is_none),
                cmocka_unit_test(as_queryguard_counts_it_the_depth_alone_is_critical_at_once),
                cmocka_unit_test(both_bounds_can_be_set_while_weir_runs),
                cmocka_unit_test(the_adaptive_limit_does_not_fall_for_a_burst),
                cmocka_unit_test(the_oldest_due_is_found_in_lanes_and_within_a_budget),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

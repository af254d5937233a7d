/* A core that follows: what it may do, and that it can be emptied and begin again. */
#include "unit/check.h"

#include "core/kernel.h"
#include "support/rig.h"

static int arrive(void *ctx, uint64_t seq, struct slice batch)
{
        struct core *core = ctx;
        struct problem problem;
        if (seq > core_durable_seq(core))
                assert_int_equal(core_arrive(core, seq, batch, &problem), OK);
        return OK;
}

/* All that the leader has made durable arrives. */
static void catch_up(struct rig *follower, struct rig *leader)
{
        struct problem problem;
        struct log *log = &leader->log.base;
        assert_int_equal(log->ops->read(log, 0, arrive, follower->core, &problem), OK);
        core_turn(follower->core, follower->now);
}

/* It may have been anything before. */
static void begin_to_follow(struct rig *follower)
{
        session_release(follower->core, &follower->me.base);
        core_empty(follower->core);
        core_follow(follower->core);
        core_turn(follower->core, follower->now);
}

static struct rig leader, follower;

static int begin(void **unused)
{
        (void)unused;
        rig_init(&leader);
        rig_init(&follower);
        begin_to_follow(&follower);
        return 0;
}

static int end(void **unused)
{
        (void)unused;
        rig_release(&leader);
        rig_release(&follower);
        return 0;
}

static void a_follower_refuses_what_it_cannot_decide(void **unused)
{
        (void)unused;
        rig_enqueue(&leader, 3);
        catch_up(&follower, &leader);
        assert_string_equal(rig_do(&follower, "ENQUEUE", "mail", "{}"),
                            "!UNAVAIL another machine leads");
        assert_string_equal(rig_do(&follower, "QUEUES"), "!UNAVAIL another machine leads");
        assert_true(follower.core->state.jobs.len == 3);
        assert_false(core_commit(follower.core));
        assert_true(follower.log.last_seq == 0);
}

static void a_follower_checks_by_what_it_measures_and_by_rules_that_arrive(void **unused)
{
        (void)unused;
        static const struct core_metric metric = {.name = "threads",
                                                  .rule = {.enter = {10, 20}, .exit = {8, 18}},
                                                  .check_above = 10,
                                                  .is_checked = true};
        static const struct core_target target = {
                .name = "db", .metrics = &metric, .n_metrics = 1, .mode = -1};
        rig_set_gate(&follower, &target, 1, MODE_ENFORCE, MODE_ENFORCE);
        core_turn(follower.core, follower.now);
        rig_sample(&follower, 0, 0, 1);
        assert_non_null(strstr(rig_do(&follower, "CHECK", "reports:etl"), "granted"));
        assert_string_equal(rig_do(&leader, "RULESET", "reports:etl", "hold", "FOR", "60000"),
                            "OK");
        catch_up(&follower, &leader);
        assert_non_null(strstr(rig_do(&follower, "CHECK", "reports:etl"), "refused"));
        assert_non_null(strstr(rig_do(&follower, "CHECK", "shop:cart"), "granted"));
        rig_sample(&follower, 0, 0, 15);
        assert_non_null(strstr(rig_do(&follower, "CHECK", "shop:cart"), "refused"));
        assert_true(follower.log.last_seq == 0);
}

static void a_promoted_follower_goes_on_where_the_leader_was(void **unused)
{
        (void)unused;
        struct problem problem;
        char token[RIG_TOKEN];
        rig_enqueue(&leader, 2);
        assert_int_equal(rig_claim(&leader, "w1", "default", token), 1);
        catch_up(&follower, &leader);
        assert_int_equal(core_promote(follower.core, &problem), OK);
        assert_true(core_digest(follower.core) == core_digest(leader.core));
        assert_false(core_is_following(follower.core));
        follower.log.last_seq = leader.log.last_seq;
        follower.now = leader.now;
        assert_string_equal(rig_do(&follower, "COMPLETE", "1", token), "OK");
        assert_int_equal(rig_claim(&follower, "w2", "default", token), 2);
}

static void a_lease_ends_by_the_clock_of_the_log_not_of_who_followed(void **unused)
{
        (void)unused;
        struct problem problem;
        char token[RIG_TOKEN];
        follower.now.steady_ns += 3600 * NS_PER_S; /* it followed for longer than anybody led */
        rig_enqueue(&leader, 1);
        assert_int_equal(rig_claim(&leader, "w1", "default", token), 1);
        catch_up(&follower, &leader);
        assert_int_equal(core_promote(follower.core, &problem), OK);
        follower.log.last_seq = leader.log.last_seq;
        follower.now = leader.now;
        rig_turn(&follower);
        assert_true(follower.core->now.steady_ns == leader.now.steady_ns);
        assert_string_equal(rig_do(&follower, "COMPLETE", "1", token), "OK");
}

static void an_emptied_core_can_follow_again(void **unused)
{
        (void)unused;
        struct problem problem;
        rig_enqueue(&leader, 5);
        catch_up(&follower, &leader);
        begin_to_follow(&follower);
        assert_true(follower.core->state.jobs.len == 0);
        assert_true(core_durable_seq(follower.core) == 0);
        catch_up(&follower, &leader);
        assert_int_equal(core_promote(follower.core, &problem), OK);
        assert_true(core_digest(follower.core) == core_digest(leader.core));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_follower_refuses_what_it_cannot_decide, begin,
                                                end),
                cmocka_unit_test_setup_teardown(
                        a_follower_checks_by_what_it_measures_and_by_rules_that_arrive, begin, end),
                cmocka_unit_test_setup_teardown(a_promoted_follower_goes_on_where_the_leader_was,
                                                begin, end),
                cmocka_unit_test_setup_teardown(
                        a_lease_ends_by_the_clock_of_the_log_not_of_who_followed, begin, end),
                cmocka_unit_test_setup_teardown(an_emptied_core_can_follow_again, begin, end),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

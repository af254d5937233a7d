/* Digests of the state in steps: that all machines make the same, that a wrong one makes another,
 * and that one which cannot know takes no part. */
#include "unit/check.h"

#include <stdio.h>

#include "core/kernel.h"
#include "support/rig.h"

/* A step then visits about six jobs. */
#define SLACK (32 * KIB)

static struct rig leader, follower;

static void use_small_steps(struct rig *rig)
{
        rig->options.log_slack_bytes = SLACK;
        rig->core->options.log_slack_bytes = SLACK;
}

static void begin_to_follow(void)
{
        session_release(follower.core, &follower.me.base);
        core_empty(follower.core);
        core_follow(follower.core);
        core_turn(follower.core, follower.now);
}

static int begin(void **unused)
{
        (void)unused;
        rig_init(&leader);
        rig_init(&follower);
        use_small_steps(&leader);
        begin_to_follow();
        return 0;
}

static int end(void **unused)
{
        (void)unused;
        rig_release(&leader);
        rig_release(&follower);
        return 0;
}

static int arrive(void *ctx, uint64_t seq, struct slice batch)
{
        const uint64_t *from = ctx;
        struct problem problem;
        if (seq > core_durable_seq(follower.core) && seq >= *from)
                assert_int_equal(core_arrive(follower.core, seq, batch, &problem), OK);
        return OK;
}

/* What the leader made durable arrives, from that batch on. */
static void catch_up(uint64_t from)
{
        struct problem problem;
        struct log *log = &leader.log.base;
        assert_int_equal(log->ops->read(log, 0, arrive, &from, &problem), OK);
}

/* Returns how many batches it took. */
static uint64_t verify(void)
{
        uint64_t before = leader.log.last_seq;
        assert_true(core_verify(leader.core) == before + 1);
        rig_turn(&leader);
        while (core_is_verifying(leader.core))
                rig_turn(&leader);
        assert_true(leader.log.digest_seq == leader.log.last_seq);
        return leader.log.last_seq - before;
}

static void assert_same(void)
{
        assert_true(follower.log.digest_seq == leader.log.digest_seq);
        assert_true(follower.log.digest == leader.log.digest);
}

static void fill(void)
{
        char token[RIG_TOKEN];
        rig_enqueue(&leader, 60);
        assert_true(rig_claim(&leader, "w1", "default", token) == 1);
        assert_true(rig_complete_next(&leader, "default") == 2);
        rig_do(&leader, "LOCK", "nightly", "60000");
        rig_do(&leader, "LIMIT", "mails", "10", "1000");
        rig_do(&leader, "PAUSE", "other");
}

static void a_digest_is_made_in_steps_and_is_the_same_everywhere(void **unused)
{
        (void)unused;
        fill();
        assert_true(verify() > 5);
        catch_up(0);
        assert_same();
        assert_true(state_is_digesting(&follower.core->state) == false);
}

static void what_changes_between_two_steps_changes_everywhere(void **unused)
{
        (void)unused;
        fill();
        (void)core_verify(leader.core);
        rig_turn(&leader);
        for (int i = 0; core_is_verifying(leader.core); i++) {
                assert_true(i < 100); /* jobs go to the end of the list, and the walk gets there */
                rig_enqueue(&leader, 3);
                (void)rig_complete_next(&leader, "default");
                rig_archive_all(&leader);
                rig_do(&leader, "UNLOCK", "nightly", "x");
                rig_do(&leader, "LIMIT", "mails", rig_number((uint64_t)i + 11), "1000");
                rig_turn(&leader);
        }
        catch_up(0);
        assert_true(leader.log.digest_seq != 0);
        assert_same();
        core_invariants(leader.core);
}

static void one_bit_makes_another_digest(void **unused)
{
        (void)unused;
        fill();
        catch_up(0);
        state_job(&follower.core->state, 40)->created_ms ^= 1;
        (void)verify();
        catch_up(0);
        assert_true(follower.log.digest_seq == leader.log.digest_seq);
        assert_true(follower.log.digest != leader.log.digest);
        state_job(&follower.core->state, 40)->created_ms ^= 1;
        (void)verify();
        catch_up(0);
        assert_same();
}

static void each_kind_of_object_counts(void **unused)
{
        (void)unused;
        fill();
        catch_up(0);
        struct state *s = &follower.core->state;
        uint64_t *counts[] = {&s->fence, &s->next_queue_id,
                              &state_queue_find(s, SLICE_LIT("default"))->completed};
        for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
                ++*counts[i];
                (void)verify();
                catch_up(0);
                assert_true(follower.log.digest != leader.log.digest);
                --*counts[i];
        }
        (void)verify();
        catch_up(0);
        assert_same();
}

static void a_machine_that_cannot_know_all_takes_no_part(void **unused)
{
        (void)unused;
        fill();
        (void)verify();
        catch_up(leader.log.last_seq); /* its last step alone */
        assert_true(follower.log.digest_seq == 0);
        begin_to_follow();
        catch_up(3); /* without the first jobs */
        assert_true(follower.log.digest_seq == 0);
        assert_false(state_is_digesting(&follower.core->state));
        begin_to_follow();
        catch_up(0);
        assert_same();
}

/* The cleaner writes all objects again; a machine that begins behind the old records has all. */
static void a_machine_that_begins_with_the_oldest_record_takes_part(void **unused)
{
        (void)unused;
        fill();
        struct rng dice;
        rng_init_seed(&dice, 1);
        for (int i = 0; i < 100; i++) {
                rig_fall_behind(&leader, &dice);
                rig_turn(&leader);
        }
        leader.log.stat.retained_bytes = 0;
        rig_turn(&leader);
        uint64_t first = leader.log.trimmed_before;
        assert_true(first > 10);
        (void)verify();
        catch_up(first);
        assert_same();
}

static void a_new_leader_goes_on_with_a_digest(void **unused)
{
        (void)unused;
        struct problem problem;
        fill();
        (void)core_verify(leader.core);
        rig_turn(&leader);
        assert_true(core_is_verifying(leader.core));
        catch_up(0);
        assert_int_equal(core_promote(follower.core, &problem), OK);
        follower.log.last_seq = leader.log.last_seq;
        follower.now = leader.now;
        use_small_steps(&follower);
        while (core_is_verifying(follower.core))
                rig_turn(&follower);
        while (core_is_verifying(leader.core))
                rig_turn(&leader);
        assert_true(follower.log.digest_seq > 0);
}

static void an_emptied_core_takes_back_what_it_told(void **unused)
{
        (void)unused;
        fill();
        (void)verify();
        catch_up(0);
        assert_true(follower.log.digest_seq != 0);
        begin_to_follow();
        assert_true(follower.log.digest_seq == 0);
}

static void a_leader_tells_its_digest_when_it_is_durable(void **unused)
{
        (void)unused;
        rig_enqueue(&leader, 1);
        leader.log.is_manual = true;
        (void)core_verify(leader.core);
        rig_turn(&leader);
        assert_false(core_is_verifying(leader.core));
        assert_true(leader.core->state.digest.seq == leader.log.last_seq);
        assert_true(leader.log.digest_seq == 0);
        memory_log_sync(&leader.log);
        assert_true(leader.log.digest_seq == leader.log.last_seq);
        leader.log.is_manual = false;
}

static void a_leader_that_stops_or_hands_over_takes_no_further_step(void **unused)
{
        (void)unused;
        fill();
        (void)core_verify(leader.core);
        rig_turn(&leader);
        assert_true(core_is_verifying(leader.core));
        core_stop(leader.core);
        uint64_t before = leader.log.last_seq;
        rig_turn(&leader);
        assert_true(leader.log.last_seq == before);
        assert_true(core_is_settled(leader.core));
}

static void the_command_names_a_batch(void **unused)
{
        (void)unused;
        char expected[64];
        (void)snprintf(expected, sizeof(expected), "{seq:%llu]",
                       (unsigned long long)leader.log.last_seq + 1);
        assert_string_equal(rig_do(&leader, "CLUSTERVERIFY"), expected);
        assert_string_equal(rig_do(&follower, "CLUSTERVERIFY"), "!UNAVAIL another machine leads");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(a_digest_is_made_in_steps_and_is_the_same_everywhere),
                TEST(what_changes_between_two_steps_changes_everywhere),
                TEST(one_bit_makes_another_digest),
                TEST(each_kind_of_object_counts),
                TEST(a_machine_that_cannot_know_all_takes_no_part),
                TEST(a_machine_that_begins_with_the_oldest_record_takes_part),
                TEST(a_new_leader_goes_on_with_a_digest),
                TEST(an_emptied_core_takes_back_what_it_told),
                TEST(a_leader_tells_its_digest_when_it_is_durable),
                TEST(a_leader_that_stops_or_hands_over_takes_no_further_step),
                TEST(the_command_names_a_batch),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

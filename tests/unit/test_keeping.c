/* Room for history: new work is refused before what was accepted lacks it, and where history is
 * stuck nobody waits for it: what an operator does not want kept is let go of at once. */
#include "check.h"

#include <stdio.h>

#include "core/kernel.h"
#include "jobs/keeping.h"
#include "support/rig.h"

#define SPARE (16 * MIB) /* keeping.c keeps so much for itself */

/* A new count is due after a tenth of a second. */
static void look_again(struct rig *rig)
{
        rig_pass_ms(rig, 200);
}

static void set_room(struct rig *rig, uint64_t bytes)
{
        rig->archive.room = bytes;
        look_again(rig);
}

static void be_stuck(struct rig *rig, bool is_stuck)
{
        rig->archive.is_stuck = is_stuck;
        look_again(rig);
}

static size_t finished(const struct rig *rig)
{
        return rig->core->state.n_finished;
}

/* Turns until the archive has reported what it will. */
static void settle(struct rig *rig)
{
        for (int i = 0; i < 5; i++)
                rig_turn(rig);
}

/* Ended jobs that wait for an archive that is stuck: 1 to n complete in the queue a, one failed in
 * the queue b. */
static void make_waiting(struct rig *rig, int n)
{
        rig_init(rig);
        be_stuck(rig, true);
        for (int i = 0; i < n; i++) {
                rig_do(rig, "ENQUEUE", "h", "args", "QUEUE", "a");
                assert_int_equal(rig_complete_next(rig, "a"), i + 1);
        }
        rig_do(rig, "ENQUEUE", "h", "args", "QUEUE", "b", "ATTEMPTS", "1");
        assert_int_equal(rig_fail_next(rig, "b", "no"), n + 1);
        rig_archive_all(rig);
        assert_int_equal(finished(rig), n + 1);
}

static void work_is_refused_before_accepted_work_lacks_room(void **unused)
{
        (void)unused;
        struct rig rig;
        static char args[100001];
        memset(args, 'x', sizeof(args) - 1);
        rig_init(&rig);
        set_room(&rig, SPARE + MIB);
        int n = 0;
        while (strncmp(rig_do(&rig, "ENQUEUE", "h", args, "QUEUE", "a"), "!NOSPACE", 8) != 0)
                assert_true(++n < 20);
        assert_in_range(n, 5, 7); /* 1 MiB at one and a half of their size */
        has(rig_do(&rig, "ENQUEUE", "h", args, "QUEUE", "a"),
            "!NOSPACE the disk is full: the space left is kept for accepted jobs and their "
            "history");
        has(rig_do(&rig, "ENQUEUEMANY", "QUEUE", "a", "JOBS", "h", args, "h", ""), "!NOSPACE");
        rig_do(&rig, "QUEUESET", "none", "HISTORY", "none");
        has_not(rig_do(&rig, "ENQUEUE", "h", args, "QUEUE", "none"), "!");
        look_again(&rig); /* jobs that are not kept take no room from the others */
        for (int i = 0; i < n; i++)
                assert_int_equal(rig_complete_next(&rig, "a"), i + 1);
        rig_archive_all(&rig);
        look_again(&rig);
        has_not(rig_do(&rig, "ENQUEUE", "h", args, "QUEUE", "a"), "!");
        rig_release(&rig);
}

static void long_results_are_refused_where_history_lacks_room(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        static char text[100001];
        memset(text, 'x', sizeof(text) - 1);
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "a");
        assert_int_equal(rig_claim(&rig, "w", "a", token), 1);
        set_room(&rig, SPARE);
        has(rig_do(&rig, "COMPLETE", "1", token, text), "!NOSPACE");
        same(rig_do(&rig, "COMPLETE", "1", token, "short"), "OK");
        rig_release(&rig);
}

static void history_none_lets_go_of_what_waits(void **unused)
{
        (void)unused;
        struct rig rig;
        make_waiting(&rig, 30);
        same(rig_do(&rig, "QUEUESET", "a", "HISTORY", "failures"), "OK");
        settle(&rig);
        assert_int_equal(finished(&rig), 1);
        same(rig_do(&rig, "QUEUESET", "b", "HISTORY", "failures"), "OK");
        settle(&rig);
        assert_int_equal(finished(&rig), 1); /* that one failed */
        same(rig_do(&rig, "QUEUESET", "b", "HISTORY", "none"), "OK");
        settle(&rig);
        assert_int_equal(finished(&rig), 0);
        assert_true(rig_replays(&rig));
        has(rig_do(&rig, "JOB", "1"), "!NOTFOUND");
        rig_release(&rig);
}

/* ---- room in the log ---- */

#define ROOM (512 * KIB)

/* What is left of ROOM; the memory log never gives any back. */
static void tell_room(struct rig *rig, uint64_t before)
{
        uint64_t used = rig->log.stat.retained_bytes - before;
        assert_true(used <= ROOM);
        rig->log.stat.room_bytes = ROOM - used;
        rig_turn(rig);
}

/* Jobs with the longest names until they are refused; how many. */
static int enqueue_named(struct rig *rig, const char *name, uint64_t before)
{
        char key[LIMIT_NAME_BYTES + 1];
        for (int n = 0;; n++) {
                (void)snprintf(key, sizeof(key), "%0*d", LIMIT_NAME_BYTES, n);
                const char *text = rig_do(rig, "ENQUEUE", "h", "", "QUEUE", "a", "UNIQUE", key,
                                          "SCOPE", "after", "UNIQUEFOR", "1000", "BATCH", name,
                                          "LIMIT", name, "TARGET", name);
                if (strncmp(text, "!NOSPACE", 8) == 0)
                        return n;
                has_not(text, "!");
                tell_room(rig, before);
        }
}

static void accepted_work_ends_within_its_reserve_whatever_its_names(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[LIMIT_NAME_BYTES + 1] = "", token[RIG_TOKEN],
                                     result[CORE_TIGHT_TEXT_BYTES + 1] = "";
        memset(name, 'n', LIMIT_NAME_BYTES);
        memset(result, 'r', CORE_TIGHT_TEXT_BYTES);
        rig_init(&rig);
        rig.options.log_slack_bytes = 20 * KIB;
        rig_restart(&rig);
        rig_do(&rig, "BATCH", name);
        rig_do(&rig, "LIMIT", name, "1000000", "1000");
        rig_do(&rig, "BREAKER", name);
        uint64_t before = rig.log.stat.retained_bytes;
        rig.log.stat.is_disk_full = true;
        tell_room(&rig, before);
        int n = enqueue_named(&rig, name, before);
        assert_true(n > 50);
        for (int i = 0; i < n; i++) {
                assert_int_equal(rig_claim(&rig, name, "a", token), i + 1);
                same(rig_do(&rig, "COMPLETE", rig_number((uint64_t)i + 1), token, result), "OK");
                tell_room(&rig, before);
        }
        rig_archive_all(&rig);
        rig_pass_ms(&rig, 2000);
        tell_room(&rig, before);
        assert_int_equal(rig.core->state.jobs.len, 0);
        assert_int_equal(rig.core->state.things[THING_HOLD].len, 0);
        rig_release(&rig);
}

static enum history_policy keep_nothing(void *ctx, struct slice queue)
{
        (void)ctx;
        (void)queue;
        return HISTORY_NONE;
}

static void the_configuration_does_the_same(void **unused)
{
        (void)unused;
        struct rig rig;
        make_waiting(&rig, 30);
        rig.core->options.history_of = keep_nothing;
        core_history_changed(rig.core);
        settle(&rig);
        assert_int_equal(finished(&rig), 0);
        rig_release(&rig);
}

static void deletemany_takes_what_waits(void **unused)
{
        (void)unused;
        struct rig rig;
        make_waiting(&rig, 30);
        rig_do(&rig, "DELETEMANY", "STATUS", "complete", "DRYRUN");
        settle(&rig);
        same(text_reply_str(&rig.me.reply), "{matched:30 changed:0]");
        assert_int_equal(finished(&rig), 31);
        rig_do(&rig, "DELETEMANY", "STATUS", "complete");
        settle(&rig);
        assert_true(rig.me.is_answered);
        same(text_reply_str(&rig.me.reply), "{matched:30 changed:30]");
        assert_int_equal(finished(&rig), 1);
        rig_do(&rig, "DELETEMANY", "IDS", "31,5");
        settle(&rig);
        same(text_reply_str(&rig.me.reply), "{matched:1 changed:1]");
        assert_int_equal(finished(&rig), 0);
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

static void a_deletemany_that_waits_goes_on_when_history_gets_stuck(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "h", "args", "QUEUE", "a");
        assert_int_equal(rig_complete_next(&rig, "a"), 1);
        same(rig_do(&rig, "DELETEMANY", "QUEUE", "a"), "(waits)");
        settle(&rig);
        assert_false(rig.me.is_answered);
        be_stuck(&rig, true);
        settle(&rig);
        assert_true(rig.me.is_answered);
        same(text_reply_str(&rig.me.reply), "{matched:1 changed:1]");
        assert_int_equal(finished(&rig), 0);
        rig_release(&rig);
}

static void nobody_waits_for_a_history_that_is_stuck(void **unused)
{
        (void)unused;
        struct rig rig;
        make_waiting(&rig, 3);
        has(rig_do(&rig, "RETRY", "4"), "!UNAVAIL history cannot be written");
        has(rig_do(&rig, "RETRYMANY", "STATUS", "failed"), "!UNAVAIL history cannot be written");
        set_room(&rig, 1);
        has(rig_do(&rig, "RETRY", "4"), "!NOSPACE the disk is full");
        has(rig_do(&rig, "RETRYMANY", "STATUS", "failed"), "!NOSPACE the disk is full");
        set_room(&rig, 1ULL << 40);
        be_stuck(&rig, false);
        rig_archive_all(&rig);
        rig_do(&rig, "RETRY", "4");
        settle(&rig);
        same(text_reply_str(&rig.me.reply), "'pending'");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(work_is_refused_before_accepted_work_lacks_room),
                cmocka_unit_test(long_results_are_refused_where_history_lacks_room),
                cmocka_unit_test(accepted_work_ends_within_its_reserve_whatever_its_names),
                cmocka_unit_test(history_none_lets_go_of_what_waits),
                cmocka_unit_test(the_configuration_does_the_same),
                cmocka_unit_test(deletemany_takes_what_waits),
                cmocka_unit_test(a_deletemany_that_waits_goes_on_when_history_gets_stuck),
                cmocka_unit_test(nobody_waits_for_a_history_that_is_stuck),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

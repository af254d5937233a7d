/* Core and log together on a disk that forgets, with a virtual clock and seeded dice.
 *
 * The log is as asynchronous as with its thread: a batch is in flight for some turns, while the
 * next one is collected.  world.h is what lives and dies, story.h what is done to it, model.h what
 * was promised, checks.h what must hold.
 *
 * Clients send random commands; what they are told (a reply whose batch became durable) is kept
 * as a promise.  The disk dies in the middle of a chosen call, or one of its calls fails; then
 * unsynced sectors are kept, lost and mixed at random, and everything starts again from what is
 * left.  After each start:
 *
 *   (1) nothing acknowledged is lost: every promised job is there, live or archived, with its
 *       payload, and what was promised to be complete or canceled is
 *   (2) replay equals live state: the state is that of the last durable batch, or of the one
 *       that was in flight
 *   (3) fences only grow, over all lives
 *   (4) no job has two live leases: a second grant comes only after the first was ended, by its
 *       holder or by its deadline
 *   (5) counters equal lists (state_check)
 *   (6) the archive got each ended job once, as it ended
 *   (7) what follows from an end that takes several batches is done to the end, by the outcome of
 *       that end: no job runs whose parent was canceled, and nobody waits for one that has ended
 *
 * WEIR_SEED repeats a run, WEIR_ROUNDS makes that many times as many. */
#include "unit/check.h"

#include <stdlib.h>

#include "base/say.h"
#include "prop/dice.h"
#include "sim/checks.h"
#include "sim/story.h"
#include "sim/world.h"

#define LIVES 12

/* Nobody sends anything: time passes, the archive catches up, the log may stand still.  True
 * when the process is killed at the end of it. */
static bool be_quiet(struct world *w)
{
        for (uint64_t n = 5 + roll(w, 20); n && !w->disk.is_dead && !w->has_failed; n--) {
                late_log_step(&w->log);
                story_time(w);
                world_commit(w);
                memory_archive_commit(&w->archive, 1000);
                if (roll(w, 4) == 0)
                        core_archive_poll(w->core);
        }
        return roll(w, 3) == 0;
}

static void live(struct world *w)
{
        world_be_born(w);
        check_after_start(w);
        w->digest_durable = w->digest_flying = w->digest_born;
        if (roll(w, 3))
                w->disk.crash_at = w->disk.n_calls + 1 + roll(w, 120);
        else
                w->disk.fail_at = w->disk.n_calls + 1 + roll(w, 120);
        for (int turn = 0; turn < 400 && !w->disk.is_dead && !w->has_failed; turn++) {
                if (roll(w, 40) == 0 && be_quiet(w))
                        break;
                for (uint64_t n = 1 + roll(w, 5); n; n--)
                        story_step(w);
                world_commit(w);
                check_crowd(w);
                if (roll(w, 2))
                        late_log_step(&w->log);
        }
        bool is_power_loss = w->disk.is_dead || roll(w, 2);
        world_die(w);
        if (is_power_loss)
                sim_disk_power_loss(&w->disk);
        else
                sim_disk_process_end(&w->disk);
}

/* Nobody ends anything until all that follows from what has ended is done. */
static void settle_down(struct world *w)
{
        for (int i = 0; i < 500; i++) {
                late_log_step(&w->log);
                core_turn(w->core, w->now);
                world_commit(w);
                memory_archive_commit(&w->archive, 1000);
                core_archive_poll(w->core);
        }
        check_crowd(w);
        check_followers(w);
}

static void run_round(uint64_t seed)
{
        struct world *w = malloc(sizeof(*w));
        assert_non_null(w);
        world_init(w, seed);
        for (int i = 0; i < LIVES; i++)
                live(w);
        world_be_born(w);
        check_after_start(w);
        settle_down(w);
        world_die(w);
        print_message("told %llu, granted %llu, cut %llu\n", (unsigned long long)w->model.n_told,
                      (unsigned long long)w->n_grants, (unsigned long long)w->n_cut);
        world_release(w);
        free(w);
}

static void nothing_told_is_lost_whatever_the_disk_does(void **unused)
{
        (void)unused;
        dice_play(12, run_round);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_told_is_lost_whatever_the_disk_does),
        };
        say_setup(SAY_ERROR, false); /* what operators are told of is not news here */
        return cmocka_run_group_tests(tests, NULL, NULL);
}

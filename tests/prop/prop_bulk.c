/* Bulk commands with crashes at any point, against a model that knows of each job only what it was
 * told:
 *
 *   (1) a job that was deleted, with the answer given, is nowhere ever again
 *   (2) no job that is pending or running is ever deleted
 *   (3) every other job is somewhere, live or in history, and listed once, in both orders
 *   (4) what a dry run counts is what the command then changes
 *   (5) replay equals live
 */
#include "../unit/check.h"

#include <stdio.h>

#include "../support/rig.h"
#include "core/kernel.h"
#include "dice.h"

#define JOBS 40

struct world {
        struct rig rig;
        struct rng dice;
        bool may_be_gone[JOBS + 1]; /* a deletion that concerned it was asked for */
        bool is_gone[JOBS + 1];     /* and answered */
        uint64_t n;
};

static const char *const hooks[] = {"h0", "h1", "h2"};
static const char *const groups[] = {"g0", "g1"};
static const char *const tiers[] = {"critical", "high", "normal", "deferrable"};

#define PICK(w, list) (list)[rng_below(&(w)->dice, ARRAY_LEN(list))]

static void some_turns(struct world *w)
{
        for (uint64_t n = rng_below(&w->dice, 4); n > 0; n--) {
                if (rng_below(&w->dice, 2))
                        memory_archive_commit(&w->rig.archive, rng_below(&w->dice, 5));
                rig_turn(&w->rig);
        }
}

/* Until it is answered; everything on the way becomes durable. */
static const char *wait_for(struct world *w)
{
        for (int n = 0; !w->rig.me.is_answered; n++) {
                assert_true(n < 1000);
                memory_archive_commit(&w->rig.archive, SIZE_MAX);
                memory_log_sync(&w->rig.log);
                rig_turn(&w->rig);
        }
        return text_reply_str(&w->rig.me.reply);
}

static void add_job(struct world *w)
{
        if (w->n == JOBS)
                return;
        w->n++;
        (void)rig_do(&w->rig, "ENQUEUE", PICK(w, hooks), "{}", "GROUP", PICK(w, groups), "ATTEMPTS",
                     "1", "IN", rng_below(&w->dice, 2) ? "0" : "60000");
}

static void end_job(struct world *w)
{
        char token[33], id[24];
        uint64_t job = rig_claim(&w->rig, "w", "default", token);
        (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)job);
        if (job && rng_below(&w->dice, 3))
                (void)rig_do(&w->rig, rng_below(&w->dice, 2) ? "COMPLETE" : "FAIL", id, token, "x");
}

static bool has_ended(const struct world *w, uint64_t id)
{
        const struct job *job = state_job(&w->rig.core->state, id);
        return !job || job->state == JOB_FINISHED;
}

/* The hook of a job, wherever it is; empty: nowhere. */
static struct slice hook_of(const struct world *w, uint64_t id)
{
        const struct job *job = state_job(&w->rig.core->state, id);
        const struct job_view *row = memory_archive_find(&w->rig.archive, id);
        return job ? name_slice(job->hook) : row ? row->hook : SLICE_NONE;
}

static void delete_some(struct world *w, bool is_waited_for)
{
        const char *hook = PICK(w, hooks);
        bool concerns[JOBS + 1] = {false};
        for (uint64_t id = 1; id <= w->n; id++) {
                concerns[id] = has_ended(w, id) && slice_eq(hook_of(w, id), slice_str(hook));
                w->may_be_gone[id] |= concerns[id];
        }
        if (strcmp(rig_do(&w->rig, "DELETEMANY", "HOOK", hook), "(waits)") != 0)
                is_waited_for = true;
        if (!is_waited_for)
                return; /* a crash follows */
        unsigned long long matched, changed;
        assert_int_equal(sscanf(wait_for(w), "{matched:%llu changed:%llu]", &matched, &changed), 2);
        assert_true(matched == changed);
        for (uint64_t id = 1; id <= w->n; id++) {
                const struct job *job = state_job(&w->rig.core->state, id);
                w->is_gone[id] |= concerns[id] && !job; /* one in its grace time stays */
        }
}

static void change_some(struct world *w)
{
        static const char *const commands[] = {"CANCELMANY", "RUNMANY", "RETIERMANY"};
        const char *command = PICK(w, commands), *group = PICK(w, groups), *tier = PICK(w, tiers);
        bool is_tier = strcmp(command, "RETIERMANY") == 0;
        char dry[96];
        unsigned long long counted, matched, changed;
        (void)(is_tier ? rig_do(&w->rig, command, "GROUP", group, "SET", tier, "DRYRUN")
                       : rig_do(&w->rig, command, "GROUP", group, "DRYRUN"));
        (void)snprintf(dry, sizeof(dry), "%s", wait_for(w));
        (void)(is_tier ? rig_do(&w->rig, command, "GROUP", group, "SET", tier)
                       : rig_do(&w->rig, command, "GROUP", group));
        assert_int_equal(sscanf(dry, "{matched:%llu", &counted), 1);
        assert_int_equal(sscanf(wait_for(w), "{matched:%llu changed:%llu]", &matched, &changed), 2);
        assert_true(counted == matched && changed <= matched);
        assert_true(changed == matched || strcmp(command, "CANCELMANY") != 0);
}

static void retry_some(struct world *w)
{
        (void)rig_do(&w->rig, "RETRYMANY", "HOOK", PICK(w, hooks));
        (void)wait_for(w);
}

/* A batch that was not synced may be lost, and with it the one that was not even written. */
static void crash(struct world *w)
{
        struct memory_log *log = &w->rig.log;
        if (log->in_flight && rng_below(&w->dice, 2))
                buf_release(&log->batches[--log->last_seq]);
        memory_archive_crash(&w->rig.archive); /* whoever waited for it is told so */
        rig_restart(&w->rig);
        state_check(&w->rig.core->state);
        for (; w->n >= w->rig.core->state.next_id; w->n--) /* nobody was told of these */
                w->may_be_gone[w->n] = w->is_gone[w->n] = false;
}

static void check_listing(struct world *w, const char *order)
{
        size_t found[JOBS + 1] = {0};
        uint64_t last = 0;
        (void)rig_do(&w->rig, "JOBS", "LIMIT", "1000", "ORDER", order);
        const char *at = wait_for(w);
        while ((at = strstr(at, "{id:"))) {
                uint64_t id = strtoull(at += 4, NULL, 10);
                assert_in_range(id, 1, w->n);
                assert_true(!last || (order[0] == 'n' ? id < last : id > last));
                last = id;
                found[id]++;
        }
        for (uint64_t id = 1; id <= w->n; id++) {
                bool is_there = found[id] == 1;
                if (w->is_gone[id] && is_there)
                        fail_msg("job %llu was deleted and is back", (unsigned long long)id);
                if (!w->may_be_gone[id] && !is_there)
                        fail_msg("job %llu is lost", (unsigned long long)id);
                assert_true(found[id] <= 1);
        }
}

static void check_world(struct world *w)
{
        for (int i = 0; i < 4; i++) {
                memory_archive_commit(&w->rig.archive, SIZE_MAX);
                memory_log_sync(&w->rig.log);
                rig_turn(&w->rig);
        }
        check_listing(w, "newest");
        check_listing(w, "oldest");
        memory_log_sync(&w->rig.log);
        rig_turn(&w->rig);
        memory_log_sync(&w->rig.log);
        uint64_t before = state_digest(&w->rig.core->state);
        crash(w);
        assert_true(state_digest(&w->rig.core->state) == before);
}

static void what_was_deleted_stays_away_and_nothing_else_is_lost(void **state)
{
        (void)state;
        struct rng seeds;
        (void)dice_init(&seeds, "bulk");
        for (uint64_t round = dice_rounds(15); round > 0; round--) {
                struct world w = {.n = 0};
                rng_init_seed(&w.dice, rng_u64(&seeds));
                rig_init(&w.rig);
                for (int step = 0; step < 120; step++) {
                        switch (rng_below(&w.dice, 9)) {
                        case 0:
                                delete_some(&w, true);
                                break;
                        case 1:
                                delete_some(&w, false);
                                some_turns(&w);
                                crash(&w);
                                break;
                        case 2:
                                change_some(&w);
                                break;
                        case 3:
                                retry_some(&w);
                                break;
                        case 4:
                        case 5:
                                end_job(&w);
                                break;
                        default:
                                add_job(&w);
                        }
                        some_turns(&w);
                        w.rig.log.is_manual = rng_below(&w.dice, 2);
                        if (!w.rig.log.is_manual)
                                memory_log_sync(&w.rig.log);
                }
                w.rig.log.is_manual = false;
                check_world(&w);
                rig_release(&w.rig);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_was_deleted_stays_away_and_nothing_else_is_lost),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

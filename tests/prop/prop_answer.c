/* Idempotency keys under crashes: many requests under few keys, batches that become durable or are
 * lost, time that passes, restarts.
 *
 * The model keeps, for each key, what was carried out under it and in which batch.  A crash takes
 * back what was not durable.  Then, whatever happened:
 *      (1) an answer is that of the newest thing carried out under its key, if that is less than
 *          24 h ago, and a new one else
 *      (2) there are as many jobs as the model has, and state_check holds
 *      (3) a restart with nothing lost arrives at the same digest */
#include "unit/check.h"

#include "core/kernel.h"
#include "dice.h"
#include "support/rig.h"

#define KEYS 40

struct done {
        uint64_t id, seq;
        int64_t at_ns;
};

struct world {
        struct rig rig;
        struct rng dice;
        struct done done[KEYS];   /* the newest; id 0: none */
        struct done before[KEYS]; /* what it was when that is lost */
        uint64_t n_jobs, n_again, n_lost, n_free_again;
};

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_u64(&w->dice) % n;
}

/* ENQUEUE under key k; the id it answers. */
static uint64_t ask(struct world *w, unsigned k)
{
        struct rig *rig = &w->rig;
        char text[24];
        struct slice argv[2] = {SLICE_LIT("hook"), slice_make(text, 0)};
        struct problem problem = {0};
        struct command cmd;
        uint64_t id;
        argv[1].len = (size_t)snprintf(text, sizeof(text), "key %u", k);
        arena_clear(&rig->arena);
        text_reply_clear(&rig->me.reply);
        int r = command_bind_argv(command_find(SLICE_LIT("ENQUEUE")), argv, 2, &rig->arena, &cmd,
                                  &problem);
        if (r == OK)
                r = command_set_key(&cmd, argv[1], &problem);
        if (r == OK)
                r = core_exec(rig->core, &rig->me.base, &cmd, &rig->me.reply.base, &problem);
        if (r != OK)
                fail_msg("%s", problem.detail);
        assert_true(slice_to_u64(slice_str(text_reply_str(&rig->me.reply)), &id));
        return id;
}

static bool is_known(const struct world *w, unsigned k)
{
        return w->done[k].id &&
               w->rig.now.steady_ns < w->done[k].at_ns + LIMIT_ANSWER_MS * NS_PER_MS;
}

static void request(struct world *w)
{
        unsigned k = (unsigned)roll(w, KEYS);
        struct done *done = &w->done[k];
        bool was_known = is_known(w, k);
        uint64_t id = ask(w, k), durable = core_durable_seq(w->rig.core);
        if (was_known) {
                assert_int_equal(id, done->id);
                w->n_again++;
                return;
        }
        w->n_free_again += done->id != 0;
        assert_int_not_equal(id, done->id);
        if (done->seq <= durable) /* else what was before it is all a crash would leave */
                w->before[k] = *done;
        *done = (struct done){
                .id = id, .seq = core_reply_seq(w->rig.core), .at_ns = w->rig.now.steady_ns};
        w->n_jobs++;
}

static void make_durable(struct world *w)
{
        core_commit(w->rig.core);
        memory_log_sync(&w->rig.log);
}

static void check_jobs(const struct world *w)
{
        const struct state *s = &w->rig.core->state;
        size_t known = 0;
        for (unsigned k = 0; k < KEYS; k++)
                known += is_known(w, k);
        assert_int_equal(s->jobs.len, w->n_jobs);
        assert_int_equal(s->things[THING_ANSWER].len, known);
        state_check(s);
}

/* What is in flight is lost, or is on disk although nobody heard of it; what is open is lost. */
static void crash(struct world *w)
{
        struct memory_log *log = &w->rig.log;
        if (log->in_flight && roll(w, 2)) {
                log->last_seq--;
                buf_release(&log->batches[log->last_seq]);
        }
        for (unsigned k = 0; k < KEYS; k++) {
                if (w->done[k].seq <= log->last_seq)
                        continue;
                w->done[k] = w->before[k];
                w->n_jobs--;
                w->n_lost++;
        }
        rig_restart(&w->rig);
        rig_turn(&w->rig);
        memory_log_sync(log);
        check_jobs(w);
}

static void restart(struct world *w)
{
        make_durable(w);
        make_durable(w);
        assert_true(core_is_settled(w->rig.core));
        assert_true(rig_replays(&w->rig));
        check_jobs(w);
}

/* A day in which everything becomes durable first, so that a key is used once between two. */
static void pass(struct world *w, int64_t ms)
{
        make_durable(w);
        make_durable(w);
        w->rig.now.steady_ns += ms * NS_PER_MS;
        w->rig.now.wall_ms += ms;
        rig_turn(&w->rig);
        memory_log_sync(&w->rig.log);
}

static void step(struct world *w)
{
        uint64_t dice = roll(w, 100);
        if (dice < 70)
                request(w);
        else if (dice < 80)
                core_commit(w->rig.core);
        else if (dice < 90)
                memory_log_sync(&w->rig.log);
        else if (dice < 93)
                crash(w);
        else if (dice < 95)
                restart(w);
        else
                pass(w, (int64_t)roll(w, LIMIT_ANSWER_MS / 8));
}

static void a_request_under_a_key_is_carried_out_once_whatever_crashes(void **unused)
{
        (void)unused;
        struct world w = {0};
        (void)dice_init(&w.dice, "prop_answer");
        for (uint64_t round = 0; round < dice_rounds(10); round++) {
                struct rng dice = w.dice;
                w = (struct world){.dice = dice};
                rig_init(&w.rig);
                w.rig.log.is_manual = true;
                for (int i = 0; i < 600; i++)
                        step(&w);
                restart(&w);
                rig_release(&w.rig);
                assert_true(w.n_again > 0);
        }
        (void)printf("# the last round: %llu jobs, %llu repeated, %llu lost, %llu free again\n",
                     (unsigned long long)w.n_jobs, (unsigned long long)w.n_again,
                     (unsigned long long)w.n_lost, (unsigned long long)w.n_free_again);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_request_under_a_key_is_carried_out_once_whatever_crashes),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Random commands on batches and their jobs, against a model that looks at the jobs alone: the
 * counts of a batch must be what became of the jobs that named it, and its callbacks must be made
 * once and at the right moment.  Time outs, late completions, jobs that run again, names that are
 * used again, a full disk, restarts, a cleaner that always works and trims of the log are mixed in.
 *
 * WEIR_SEED repeats a run, WEIR_ROUNDS makes more of them.
 * weir-test: long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/say.h"
#include "core/kernel.h"
#include "prop/dice.h"
#include "state/batch.h"
#include "support/rig.h"

#define NAMES 3
#define STEPS 1000
#define JOBS  4000
#define MADE  600
#define HELD  12

static const char *const names[NAMES] = {"a", "b", "c"};

/* One batch that was made at some time; several may have had the same name. */
struct model_batch {
        bool is_there, is_closed, is_finished;
        bool may_lag; /* its callbacks may have to wait for room */
        bool has_success;
        uint64_t n_good, n_over; /* callbacks that were made */
};

struct model_job {
        size_t batch;           /* index into made[] */
        enum job_status status; /* PENDING: it has not ended */
        bool is_again;          /* it was run again and counts no more */
};

struct model_held {
        uint64_t id;
        char token[33];
};

struct world {
        struct rig rig;
        struct rng dice;
        struct rig_session other; /* for answers that come later */
        struct model_batch made[MADE];
        size_t n_made;
        size_t current[NAMES];       /* index into made[] + 1; 0: there is none */
        struct model_job jobs[JOBS]; /* by id; batch is SIZE_MAX when it has none */
        uint64_t n_seen;             /* ids below this have been looked at */
        struct model_held held[HELD];
        size_t n_held;
        bool is_full;
        uint64_t room;
};

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

static const char *number(char *ret, uint64_t v)
{
        (void)snprintf(ret, 24, "%llu", (unsigned long long)v);
        return ret;
}

static bool is_error(const char *text, const char *name)
{
        return text[0] == '!' && strncmp(text + 1, name, strlen(name)) == 0;
}

/* ---- what became of the jobs ---- */

/* A job is live or history; either says how it ended. */
static enum job_status status_of(struct world *w, uint64_t id)
{
        const struct job *job = state_job(&w->rig.core->state, id);
        const struct job_view *row = memory_archive_find(&w->rig.archive, id);
        if (job)
                return job->state == JOB_FINISHED ? job_status(job) : JOB_PENDING;
        assert_non_null(row);
        return row->status;
}

static void see_callback(struct world *w, const struct job *job)
{
        struct slice hook = name_slice(job->hook);
        bool is_good = slice_eq(hook, SLICE_LIT("good"));
        uint64_t made = 0;
        if (!is_good && !slice_eq(hook, SLICE_LIT("over")))
                return;
        assert_true(slice_to_u64(slice_make(job->args, job->args_len), &made));
        assert_true(made < w->n_made);
        *(is_good ? &w->made[made].n_good : &w->made[made].n_over) += 1;
}

/* Jobs made since the last look: ours are known by their option, callbacks by their hook. */
static void see_new_jobs(struct world *w)
{
        for (; w->n_seen < w->rig.core->state.next_id; w->n_seen++) {
                const struct job *job = state_job(&w->rig.core->state, w->n_seen);
                assert_true(w->n_seen < JOBS);
                struct model_job *m = &w->jobs[w->n_seen];
                *m = (struct model_job){.batch = SIZE_MAX};
                if (!job)
                        continue; /* of a request that was refused */
                see_callback(w, job);
                for (size_t i = 0; i < NAMES && job->extra; i++)
                        if (slice_eq(job->extra->options.batch, slice_str(names[i])))
                                m->batch = w->current[i] - 1;
        }
}

static void see_ends(struct world *w)
{
        for (uint64_t id = 1; id < w->n_seen; id++) {
                struct model_job *m = &w->jobs[id];
                if (m->batch == SIZE_MAX || m->is_again)
                        continue;
                if (m->status == JOB_PENDING || m->status == JOB_FAILED)
                        m->status = status_of(w, id);
        }
}

struct counts {
        uint64_t total, left, complete, failed, canceled;
};

static struct counts count(const struct world *w, size_t made)
{
        struct counts c = {0};
        for (uint64_t id = 1; id < w->n_seen; id++) {
                const struct model_job *m = &w->jobs[id];
                if (m->batch != made)
                        continue;
                c.total++;
                c.left += m->status == JOB_PENDING;
                c.complete += m->status == JOB_COMPLETE;
                c.failed += m->status == JOB_FAILED;
                c.canceled += m->status == JOB_CANCELED;
        }
        return c;
}

static void check_batch(struct world *w, size_t name)
{
        struct thing *t = thing_find(&w->rig.core->state, THING_BATCH, slice_str(names[name]));
        assert_int_equal(t && thing_is_durable(t), w->current[name] > 0);
        if (!w->current[name])
                return;
        struct model_batch *m = &w->made[w->current[name] - 1];
        const struct batch *b = batch_of(t);
        struct counts c = count(w, w->current[name] - 1);
        assert_true(b->total == c.total && b->complete == c.complete);
        assert_true(b->failed == c.failed && b->canceled == c.canceled);
        assert_true(batch_left(b) == c.left);
        bool is_due = m->is_closed && !c.left;
        bool is_finished = b->flags & BATCH_IS_FINISHED;
        assert_int_equal((b->flags & BATCH_IS_CLOSED) != 0, m->is_closed);
        assert_true(!is_finished || is_due);
        assert_true(is_finished || !is_due || m->may_lag || w->is_full);
        assert_true(is_finished || !m->is_finished);
        if (is_finished && !m->is_finished) {
                m->has_success = !c.failed && !c.canceled;
                m->is_finished = true;
        }
        m->may_lag |= w->is_full;
}

static void check(struct world *w)
{
        state_check(&w->rig.core->state);
        see_new_jobs(w);
        see_ends(w);
        for (size_t i = 0; i < NAMES; i++)
                check_batch(w, i);
        for (size_t i = 0; i < w->n_made; i++) {
                const struct model_batch *m = &w->made[i];
                assert_true(m->n_over <= 1 && m->n_good <= 1);
                if (m->is_finished) {
                        assert_int_equal(m->n_over, 1);
                        assert_int_equal(m->n_good, m->has_success);
                } else if (!m->may_lag) {
                        assert_int_equal(m->n_over + m->n_good, 0);
                }
        }
}

/* ---- steps ---- */

static void step_make(struct world *w)
{
        char args[24];
        size_t name = roll(w, NAMES);
        if (w->n_made == MADE)
                return;
        const char *reply = rig_do(&w->rig, "BATCH", names[name], "ONSUCCESS", "good",
                                   "SUCCESSARGS", number(args, w->n_made), "ONDONE", "over",
                                   "DONEARGS", args, "QUEUE", "calls");
        if (w->current[name]) {
                assert_true(is_error(reply, "CONFLICT"));
        } else if (strcmp(reply, "OK") == 0) {
                w->made[w->n_made++] = (struct model_batch){.is_there = true};
                w->current[name] = w->n_made;
        } else {
                assert_true(w->is_full && is_error(reply, "NOSPACE"));
        }
}

static void step_enqueue(struct world *w)
{
        char after[24];
        const char *name = names[roll(w, NAMES)];
        uint64_t next = w->rig.core->state.next_id;
        const char *attempts = roll(w, 2) ? "1" : "2";
        switch (roll(w, 6)) {
        case 0:
                rig_do(&w->rig, "ENQUEUEMANY", "BATCH", name, "ATTEMPTS", attempts, "JOBS", "h", "",
                       "h", "1", "h", "2");
                break;
        case 1:
                rig_do(&w->rig, "ENQUEUEMANY", "BATCH", name, "UNIQUE", "*", "SCOPE", "running",
                       "JOBS", "h", "u", "h", "v", "h", "u");
                break;
        case 2:
                if (next > 1)
                        rig_do(&w->rig, "ENQUEUE", "h", "", "BATCH", name, "AFTER",
                               number(after, 1 + roll(w, next - 1)), "OTHERWISE",
                               roll(w, 2) ? "fail" : "cancel");
                break;
        case 3:
                rig_do(&w->rig, "ENQUEUE", "h", "", "BATCH", name, "EXPIRES", "20000", "IN",
                       roll(w, 2) ? "1000" : "60000");
                break;
        default:
                rig_do(&w->rig, "ENQUEUE", "h", "", "BATCH", name, "ATTEMPTS", attempts, "TIMEOUT",
                       "10000");
                break;
        }
}

static void step_claim(struct world *w)
{
        if (w->n_held == HELD)
                return;
        struct model_held *h = &w->held[w->n_held];
        h->id = rig_claim(&w->rig, "w", "default", h->token);
        w->n_held += h->id > 0;
}

/* Also one whose lease is over: late, or refused. */
static void step_end(struct world *w)
{
        char id[24];
        if (!w->n_held)
                return;
        size_t i = roll(w, w->n_held);
        struct model_held h = w->held[i];
        w->held[i] = w->held[--w->n_held];
        number(id, h.id);
        if (roll(w, 3))
                rig_do(&w->rig, "COMPLETE", id, h.token);
        else
                rig_do(&w->rig, "FAIL", id, h.token, "no");
}

static void step_cancel(struct world *w)
{
        char id[24];
        if (w->rig.core->state.next_id > 1)
                rig_do(&w->rig, "CANCEL", number(id, 1 + roll(w, w->rig.core->state.next_id - 1)));
}

static struct model_batch *some_batch(struct world *w, size_t *ret_name)
{
        *ret_name = roll(w, NAMES);
        return w->current[*ret_name] ? &w->made[w->current[*ret_name] - 1] : NULL;
}

static void step_close(struct world *w)
{
        size_t name;
        if (roll(w, 3))
                return;
        struct model_batch *m = some_batch(w, &name);
        const char *reply = rig_do(&w->rig, "CLOSEBATCH", names[name]);
        if (m)
                m->is_closed = true;
        else
                assert_true(is_error(reply, "NOTFOUND"));
}

static void step_cancel_batch(struct world *w)
{
        size_t name;
        char wanted[24];
        if (roll(w, 8))
                return;
        struct model_batch *m = some_batch(w, &name);
        if (!m)
                return;
        number(wanted, count(w, w->current[name] - 1).left);
        assert_string_equal(rig_do(&w->rig, "CANCELBATCH", names[name]), wanted);
        m->is_closed = true;
}

static void step_remove(struct world *w)
{
        size_t name;
        struct model_batch *m = some_batch(w, &name);
        if (!m)
                return;
        const char *reply = rig_do(&w->rig, "UNBATCH", names[name]);
        if (count(w, w->current[name] - 1).left || (m->is_closed && !m->is_finished)) {
                assert_true(is_error(reply, "STATE"));
                return;
        }
        assert_string_equal(reply, "OK");
        m->is_there = false;
        w->current[name] = 0;
}

/* A job of history, or one that timed out for good, runs again. */
static void step_again(struct world *w)
{
        char text[24];
        if (w->n_seen < 2)
                return;
        uint64_t id = 1 + roll(w, w->n_seen - 1);
        struct model_job *m = &w->jobs[id];
        const struct job *job = state_job(&w->rig.core->state, id);
        if ((m->status != JOB_FAILED && m->status != JOB_CANCELED) || m->is_again ||
            (job && !job->more->is_lease_open))
                return;
        (void)rig_as(&w->rig, &w->other, "RETRY", number(text, id)); /* may come later */
        for (int i = 0; i < 5 && session_is_waiting(&w->other.base); i++)
                rig_turn(&w->rig);
        assert_false(session_is_waiting(&w->other.base));
        if (strcmp(text_reply_str(&w->other.reply), "'pending'") == 0)
                m->is_again = true;
}

static void step_time(struct world *w)
{
        rig_pass_ms(&w->rig, 1000 + (int64_t)roll(w, roll(w, 4) ? 3000 : 12000));
        if (!w->is_full)
                for (size_t i = 0; i < w->n_made; i++)
                        w->made[i].may_lag &= w->made[i].is_finished;
}

static void step_archive(struct world *w)
{
        memory_archive_commit(&w->rig.archive, 1 + roll(w, 20));
        rig_turn(&w->rig);
}

/* The first turn after a restart tries callbacks again that had to wait. */
static bool owes_callbacks(const struct world *w)
{
        for (size_t i = 0; i < w->n_made; i++)
                if (w->made[i].is_there && w->made[i].is_closed && !w->made[i].is_finished &&
                    !count(w, i).left)
                        return true;
        return false;
}

static void step_restart(struct world *w)
{
        if (roll(w, 4))
                return;
        session_release(w->rig.core, &w->other.base);
        rig_turn(&w->rig); /* what has come due by the last step */
        check(w);
        assert_true(rig_replays(&w->rig) || owes_callbacks(w));
}

static void step_clean(struct world *w)
{
        rig_fall_behind(&w->rig, &w->dice);
        rig_turn(&w->rig);
}

static void step_full(struct world *w)
{
        if (!w->is_full && roll(w, 8))
                return;
        w->is_full = !w->is_full;
        w->rig.log.stat.is_disk_full = w->is_full;
        w->rig.log.stat.room_bytes = w->is_full ? 1000 : w->room;
        rig_turn(&w->rig);
}

static void run_round(uint64_t seed)
{
        static void (*const steps[])(struct world *) = {
                step_make,    step_make,    step_enqueue,      step_enqueue, step_enqueue,
                step_enqueue, step_enqueue, step_enqueue,      step_claim,   step_claim,
                step_claim,   step_claim,   step_end,          step_end,     step_end,
                step_cancel,  step_close,   step_cancel_batch, step_remove,  step_again,
                step_time,    step_archive, step_restart,      step_clean,   step_full,
        };
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        rig_init(&w->rig);
        rig_session_init(&w->other);
        w->n_seen = 1;
        w->room = w->rig.log.stat.room_bytes;
        for (int i = 0; i < STEPS; i++) {
                steps[roll(w, ARRAY_LEN(steps))](w);
                check(w);
        }
        rig_session_release(&w->rig, &w->other);
        rig_release(&w->rig);
        free(w);
}

static void batches_count_what_became_of_their_jobs(void **unused)
{
        (void)unused;
        say_setup(SAY_ERROR, false); /* callbacks that wait are no news here */
        dice_play(60, run_round);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(batches_count_what_became_of_their_jobs),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

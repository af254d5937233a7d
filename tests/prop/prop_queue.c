/* Random commands against a model of a queue that fits on a page: jobs in an array, the best one
 * found by looking at all of them.  Restarts, a cleaner that always works and trims of the log
 * are mixed in, so what is replayed is what a trimmed log still holds.
 *
 * WEIR_SEED repeats a run, WEIR_ROUNDS makes more of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/kernel.h"
#include "prop/dice.h"
#include "support/rig.h"

#define JOBS_MAX 400
#define STEPS    600

static const char *const queue_names[] = {"a", "b", "c"};

enum model_state { M_PENDING, M_RUNNING, M_COMPLETE, M_FAILED, M_CANCELED };

struct model_job {
        int queue, priority, attempt, attempts_max;
        int64_t due_ms, deadline_ms, lease_ms, grace_until_ms;
        enum model_state state;
        bool is_open; /* its last holder may still complete it */
        char token[33];
};

struct world {
        struct rig rig;
        struct rng dice;
        struct model_job jobs[JOBS_MAX + 1];
        size_t n_jobs;
        bool is_paused[ARRAY_LEN(queue_names)];
        uint64_t last_fence;
};

static int64_t now_ms(const struct world *w)
{
        return w->rig.now.wall_ms;
}

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

static void number(char *ret, int64_t v)
{
        (void)snprintf(ret, 24, "%lld", (long long)v);
}

/* ---- the model ---- */

static bool is_ready(const struct world *w, const struct model_job *j)
{
        return j->state == M_PENDING && j->due_ms <= now_ms(w) && !w->is_paused[j->queue];
}

static int64_t compare(const struct model_job *a, const struct model_job *b)
{
        if (a->priority != b->priority)
                return a->priority - b->priority;
        if (a->attempt != b->attempt)
                return a->attempt - b->attempt;
        return a->due_ms - b->due_ms; /* then the id: the array is in order of it */
}

static size_t best(const struct world *w, unsigned queues)
{
        size_t found = 0;
        for (size_t id = 1; id <= w->n_jobs; id++) {
                if (!(queues & 1U << w->jobs[id].queue) || !is_ready(w, &w->jobs[id]))
                        continue;
                if (!found || compare(&w->jobs[id], &w->jobs[found]) < 0)
                        found = id;
        }
        return found;
}

static void model_expire(struct world *w)
{
        for (size_t id = 1; id <= w->n_jobs; id++) {
                struct model_job *j = &w->jobs[id];
                if (j->state == M_FAILED && j->is_open && j->grace_until_ms <= now_ms(w))
                        j->is_open = false;
                if (j->state != M_RUNNING || j->deadline_ms > now_ms(w))
                        continue;
                j->due_ms = now_ms(w);
                if (j->attempt < j->attempts_max) {
                        j->state = M_PENDING;
                } else {
                        j->state = M_FAILED;
                        j->grace_until_ms = now_ms(w) + j->lease_ms;
                }
        }
}

/* ---- steps ---- */

static void step_enqueue(struct world *w)
{
        if (w->n_jobs == JOBS_MAX)
                return;
        char priority[24], attempts[24], in[24], id[24];
        struct model_job *j = &w->jobs[w->n_jobs + 1];
        int64_t in_ms = roll(w, 3) ? 0 : (int64_t)roll(w, 100);
        *j = (struct model_job){
                .queue = (int)roll(w, ARRAY_LEN(queue_names)),
                .priority = (int)roll(w, 3),
                .attempts_max = 1 + (int)roll(w, 3),
                .due_ms = now_ms(w) + in_ms,
        };
        number(priority, j->priority);
        number(attempts, j->attempts_max);
        number(in, in_ms);
        number(id, (int64_t)++w->n_jobs);
        assert_string_equal(rig_do(&w->rig, "ENQUEUE", "hook", "payload", "QUEUE",
                                   queue_names[j->queue], "PRIORITY", priority, "ATTEMPTS",
                                   attempts, "IN", in),
                            id);
}

static const char *take_granted(struct world *w, const char *text, size_t expected,
                                int64_t lease_ms)
{
        unsigned long long id = 0, fence = 0;
        char token[33];
        const char *at = strstr(text, "{id:");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "{id:%llu token:'%32[0-9a-f]'", &id, token), 2);
        assert_int_equal(id, expected);
        at = strstr(at, "fence:");
        assert_int_equal(sscanf(at, "fence:%llu", &fence), 1);
        assert_true(fence > w->last_fence);
        w->last_fence = fence;
        struct model_job *j = &w->jobs[id];
        memcpy(j->token, token, sizeof(token));
        j->state = M_RUNNING;
        j->is_open = true;
        j->attempt++;
        j->lease_ms = lease_ms;
        j->deadline_ms = now_ms(w) + lease_ms;
        return at;
}

static void step_claim(struct world *w)
{
        unsigned queues = 1 + (unsigned)roll(w, 7);
        int64_t lease_ms = 100 + (int64_t)roll(w, 100);
        size_t max = 1 + roll(w, 3), argc = 0;
        char max_text[24], lease_text[24];
        struct slice argv[16];
        number(max_text, (int64_t)max);
        number(lease_text, lease_ms);
        const char *head[] = {"CLAIM", "w", "MAX", max_text, "LEASE", lease_text, "QUEUES"};
        for (size_t i = 0; i < ARRAY_LEN(head); i++)
                argv[argc++] = slice_str(head[i]);
        for (size_t q = 0; q < ARRAY_LEN(queue_names); q++)
                if (queues & 1U << q)
                        argv[argc++] = slice_str(queue_names[q]);
        const char *text = rig_argv(&w->rig, &w->rig.me, argv, argc);
        for (size_t n = 0; n < max; n++) {
                size_t expected = best(w, queues);
                if (!expected)
                        break;
                text = take_granted(w, text, expected, lease_ms);
        }
        assert_null(strstr(text, "{id:"));
}

static struct model_job *pick(struct world *w, char *ret_id)
{
        if (!w->n_jobs)
                return NULL;
        size_t id = 1 + roll(w, w->n_jobs);
        number(ret_id, (int64_t)id);
        return &w->jobs[id];
}

static void expect(const char *text, bool is_ok, const char *ok)
{
        if (is_ok)
                assert_string_equal(text, ok);
        else
                assert_int_equal(text[0], '!');
}

static void step_finish(struct world *w)
{
        char id[24];
        struct model_job *j = pick(w, id);
        if (!j || !j->token[0])
                return;
        bool is_running = j->state == M_RUNNING, is_given_up, is_again;
        switch (roll(w, 5)) {
        case 0:
                expect(rig_do(&w->rig, "COMPLETE", id, j->token, "r"), j->is_open, "OK");
                if (j->is_open)
                        j->state = M_COMPLETE;
                j->is_open = false;
                break;
        case 1:
                is_given_up = roll(w, 4) == 0;
                is_again = j->attempt < j->attempts_max && !is_given_up;
                expect(is_given_up ? rig_do(&w->rig, "FAIL", id, j->token, "e", "NORETRY")
                                   : rig_do(&w->rig, "FAIL", id, j->token, "e", "RETRYIN", "30"),
                       is_running, is_again ? "'pending'" : "'failed'");
                if (!is_running)
                        break;
                j->state = is_again ? M_PENDING : M_FAILED;
                j->due_ms = now_ms(w) + 30;
                j->is_open = false;
                break;
        case 2:
                expect(rig_do(&w->rig, "RELEASE", id, j->token), is_running, "OK");
                if (!is_running)
                        break;
                j->state = M_PENDING;
                j->attempt--;
                j->due_ms = now_ms(w);
                j->is_open = false;
                break;
        case 3:
                expect(rig_do(&w->rig, "EXTEND", id, j->token, "150"), is_running, "OK");
                if (is_running) {
                        j->deadline_ms = now_ms(w) + 150;
                        j->lease_ms = 150;
                }
                break;
        default:
                expect(rig_do(&w->rig, "COMPLETE", id, "00000000000000000000000000000000"), false,
                       NULL);
                break;
        }
}

static void step_cancel(struct world *w)
{
        char id[24];
        struct model_job *j = pick(w, id);
        if (!j || roll(w, 4))
                return;
        bool is_live = j->state == M_PENDING || j->state == M_RUNNING;
        expect(rig_do(&w->rig, "CANCEL", id), is_live, "OK");
        if (is_live) {
                j->state = M_CANCELED;
                j->is_open = false;
        }
}

static void step_pause(struct world *w)
{
        size_t q = roll(w, ARRAY_LEN(queue_names));
        bool is_paused = roll(w, 3) == 0;
        const char *text = rig_do(&w->rig, is_paused ? "PAUSE" : "RESUME", queue_names[q]);
        if (strcmp(text, "OK") == 0)
                w->is_paused[q] = is_paused;
}

static bool has_open_job(const struct world *w, size_t queue)
{
        for (size_t id = 1; id <= w->n_jobs; id++) {
                const struct model_job *j = &w->jobs[id];
                if (j->queue == (int)queue && j->state <= M_RUNNING)
                        return true;
        }
        return false;
}

static void step_remove(struct world *w)
{
        size_t q = roll(w, ARRAY_LEN(queue_names));
        const char *text = rig_do(&w->rig, "UNQUEUE", queue_names[q]);
        if (strcmp(text, "OK") != 0)
                return;
        assert_false(has_open_job(w, q));
        w->is_paused[q] = false;
}

static void step_time(struct world *w)
{
        int64_t ms = 1 + (int64_t)roll(w, 60);
        /* The model may not see a turn in the middle of the time that passes. */
        w->rig.now.steady_ns += ms * NS_PER_MS;
        w->rig.now.wall_ms += ms;
        model_expire(w);
        rig_turn(&w->rig);
}

static void step_archive(struct world *w)
{
        memory_archive_commit(&w->rig.archive, roll(w, 5));
        rig_turn(&w->rig);
}

static void step_restart(struct world *w)
{
        if (roll(w, 8))
                return;
        assert_true(rig_replays(&w->rig));
}

static void step_clean(struct world *w)
{
        rig_fall_behind(&w->rig, &w->dice);
        rig_turn(&w->rig);
}

static void check_job(const struct world *w, size_t id)
{
        static const enum job_status status_of[] = {JOB_PENDING, JOB_RUNNING, JOB_COMPLETE,
                                                    JOB_FAILED, JOB_CANCELED};
        const struct model_job *j = &w->jobs[id];
        const struct job *job = state_job(&w->rig.core->state, id);
        const struct job_view *old = memory_archive_find(&w->rig.archive, id);
        struct job_view live;
        if (job)
                job_view(job, &live);
        const struct job_view *v = job ? &live : old;
        assert_non_null(v);
        assert_int_equal(v->status, status_of[j->state]);
        assert_int_equal(v->attempt, j->attempt);
        assert_true(slice_eq(v->args, SLICE_LIT("payload")));
}

static void check(struct world *w)
{
        state_check(&w->rig.core->state);
        for (size_t id = 1; id <= w->n_jobs; id++)
                check_job(w, id);
}

static void run_round(uint64_t seed)
{
        static void (*const steps[])(struct world *) = {
                step_enqueue, step_enqueue, step_enqueue, step_claim,   step_claim,  step_claim,
                step_finish,  step_finish,  step_finish,  step_finish,  step_time,   step_cancel,
                step_pause,   step_archive, step_clean,   step_restart, step_remove,
        };
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        rig_init(&w->rig);
        for (int i = 0; i < STEPS; i++) {
                steps[roll(w, ARRAY_LEN(steps))](w);
                if (i % 8 == 0)
                        check(w);
        }
        check(w);
        rig_release(&w->rig);
        free(w);
}

static void a_queue_does_what_the_model_does(void **unused)
{
        (void)unused;
        dice_play(60, run_round);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_queue_does_what_the_model_does),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

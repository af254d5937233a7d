/* Minutes as they end: what belongs to which, idle time, clock jumps, restarts, and SERIES over
 * them: ranges, steps, names. */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "base/say.h"
#include "core/tally.h"
#include "numbers/rollups.h"
#include "support/rig.h"

#define MIN 60000LL

static const struct core_metric metrics[] = {
        {.name = "threads_running",
         .rule = {{5, 15}, {3, 10}, 0, false},
         .check_above = 50,
         .is_checked = true},
};
static const struct core_target targets[] = {
        {.name = "shop", .metrics = metrics, .n_metrics = 1, .dwell_ns = NS_PER_S, .mode = -1},
};

/* The rig's wall begins 20 s before a minute ends: to the beginning of the next one. */
static void to_next_minute(struct rig *rig)
{
        rig_pass_ms(rig, MIN - rig->now.wall_ms % MIN);
}

static void run_jobs(struct rig *rig, int n, int64_t run_ms)
{
        char token[RIG_TOKEN];
        rig_enqueue(rig, n);
        for (int i = 0; i < n; i++) {
                uint64_t id = rig_claim(rig, "w", "default", token);
                assert_int_not_equal(id, 0);
                rig->now.wall_ms += run_ms;
                rig->now.steady_ns += run_ms * NS_PER_MS;
                rig_turn(rig);
                same(rig_do(rig, "COMPLETE", rig_number(id), token), "OK");
        }
}

static void a_count_belongs_to_the_minute_it_happened_in(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        to_next_minute(&rig);
        rig_enqueue(&rig, 2);
        to_next_minute(&rig);
        rig_enqueue(&rig, 5);
        rig_pass_ms(&rig, MIN - 1);
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "180", "STEP", "60");
        has(text, "step_ms:60000 n:3");
        has(text, "enqueued:[null 0 2]"); /* weir began within the minute before */
        has(text, "ready:[null 0 2]");
        rig_pass_ms(&rig, 1);
        has(rig_do(&rig, "SERIES", "SECONDS", "180", "STEP", "60"), "enqueued:[0 2 5]");
        rig_release(&rig);
}

static void minutes_without_a_turn_are_empty_and_keep_their_gauges(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        to_next_minute(&rig);
        rig_enqueue(&rig, 4);
        rig_pass_ms(&rig, 5 * MIN);
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "360", "STEP", "60");
        has(text, "enqueued:[0 4 0 0 0 0]");
        has(text, "ready:[0 4 4 4 4 4]");
        rig_release(&rig);
}

static void a_wall_that_is_set_forward_leaves_a_gap(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        to_next_minute(&rig);
        rig_enqueue(&rig, 4);
        rig.now.wall_ms += 5 * MIN;
        rig_turn(&rig);
        to_next_minute(&rig);
        has(rig_do(&rig, "SERIES", "SECONDS", "420", "STEP", "60"),
            "enqueued:[0 4 null null null null 0]");
        rig_release(&rig);
}

static void a_wall_that_is_set_back_counts_into_the_same_minutes(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        to_next_minute(&rig);
        rig_enqueue(&rig, 4);
        to_next_minute(&rig);
        rig_enqueue(&rig, 1);
        rig.now.wall_ms -= MIN;
        rig_turn(&rig);
        rig_enqueue(&rig, 2);
        to_next_minute(&rig);
        to_next_minute(&rig);
        has(rig_do(&rig, "SERIES", "SECONDS", "180", "STEP", "60"), "enqueued:[0 6 1]");
        rig_release(&rig);
}

static void a_restart_keeps_minutes_and_a_kill_loses_the_one_going_on(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        to_next_minute(&rig);
        run_jobs(&rig, 3, 100);
        to_next_minute(&rig);
        rig_enqueue(&rig, 2);
        rig_restart(&rig); /* without an end: it was killed */
        rig_turn(&rig);
        rig_enqueue(&rig, 4);
        to_next_minute(&rig);
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "180", "STEP", "60");
        has(text, "completed:[0 3 0]");
        has(text, "enqueued:[0 3 4]");
        rig_enqueue(&rig, 2);
        core_end(rig.core);
        rig_restart(&rig);
        rig_turn(&rig);
        rig_enqueue(&rig, 5);
        to_next_minute(&rig);
        has(rig_do(&rig, "SERIES", "SECONDS", "180", "STEP", "60"), "enqueued:[3 4 7]");
        has(rig_do(&rig, "SERIES", "SECONDS", "180", "STEP", "60", "OF", "hook", "NAME", "mail"),
            "completed:[3 0 0]");
        rig_release(&rig);
}

/* More minutes than memory has: the rest is the archive's, and none is told twice. */
static void what_memory_lets_go_of_is_asked_for(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        to_next_minute(&rig);
        for (int i = 0; i < 100; i++) {
                rig_enqueue(&rig, 1);
                to_next_minute(&rig);
        }
        const char *text = rig_do(&rig, "SERIES", "SECONDS", "6000", "STEP", "60");
        assert_int_equal(times(text, "enqueued:[1 1 1"), 1);
        has(rig_do(&rig, "SERIES", "SECONDS", "3600", "STEP", "3600"), "n:1");
        rig.archive.is_broken = true; /* then the newest are told all the same */
        text = rig_do(&rig, "SERIES", "SECONDS", "6000", "STEP", "60");
        has(text, "enqueued:[null null");
        has(text, " 1 1 1] parked:");
        rig_release(&rig);
}

static void a_hook_and_a_queue_have_counts_and_times(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        to_next_minute(&rig);
        run_jobs(&rig, 4, 100); /* the last waits 300 ms */
        rig_do(&rig, "ENQUEUE", "sms", "", "ATTEMPTS", "1", "QUEUE", "q2");
        uint64_t id = rig_claim(&rig, "w", "q2", token);
        rig_pass_ms(&rig, 5000);
        rig_do(&rig, "FAIL", rig_number(id), token, "no");
        to_next_minute(&rig);
        const char *text = rig_do(&rig, "SERIES", "OF", "hook", "NAME", "mail", "SECONDS", "60");
        has(text, "of:'hook' name:'mail' started:[4] completed:[4] failed:[0] deferred:[0]");
        has(text, "run_ms:{p50:[91] p95:[124] p99:[127]"); /* all within 64 to 128 */
        has(text, "wait_ms:{p50:[128]");
        text = rig_do(&rig, "SERIES", "OF", "queue", "NAME", "q2", "SECONDS", "60");
        has(text, "of:'queue' name:'q2' started:[1] completed:[0] failed:[1] deferred:[0]");
        has(text, "wait_ms:{p50:[1] p95:[1] p99:[1]] run_ms:{p50:[5793]");
        text = rig_do(&rig, "SERIES", "OF", "hook", "NAME", "nothing", "SECONDS", "60");
        has(text, "started:[0]");
        has(text, "wait_ms:{p50:[null]");
        rig_release(&rig);
}

static void a_retried_attempt_has_run_and_a_parked_job_has_waited(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_set_gate(&rig, targets, ARRAY_LEN(targets), MODE_ENFORCE, MODE_ENFORCE);
        rig_sample(&rig, 0, 0, 1);
        to_next_minute(&rig);
        rig_enqueue(&rig, 1);
        rig_sample(&rig, 0, 0, 150);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0); /* parked */
        rig_pass_ms(&rig, 5000);
        rig_sample(&rig, 0, 0, 1);
        rig_pass_ms(&rig, 40 * MIN);
        rig_sample(&rig, 0, 0, 1);
        uint64_t id = rig_claim(&rig, "w", "default", token);
        assert_int_not_equal(id, 0);
        rig_do(&rig, "FAIL", rig_number(id), token, "no", "RETRYIN", "1");
        to_next_minute(&rig);
        const char *text = rig_do(&rig, "SERIES", "OF", "hook", "NAME", "mail", "SECONDS", "60");
        has(text, "started:[1] completed:[0] failed:[0] deferred:[0]");
        has(text, "wait_ms:{p50:[2965821]"); /* 35 to 70 min: not since it was due again */
        has_not(text, "run_ms:{p50:[null]");
        text = rig_do(&rig, "SERIES", "OF", "hook", "NAME", "mail", "SECONDS", "3600");
        has(text, "deferred:[");
        has(text, " 1 0 ");
        rig_release(&rig);
}

static void clients_targets_and_metrics_are_told_by_name(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_set_gate(&rig, targets, ARRAY_LEN(targets), MODE_ENFORCE, MODE_ENFORCE);
        to_next_minute(&rig);
        rig_sample(&rig, 0, 0, 60);
        has(rig_do(&rig, "CHECK", "etl:nightly"), "refused");
        has(rig_do(&rig, "CHECK", "etl:nightly"), "refused");
        rig_pass_ms(&rig, 2000);
        rig_sample(&rig, 0, 0, 2);
        rig_pass_ms(&rig, 2000);
        rig_sample(&rig, 0, 0, 4);
        has(rig_do(&rig, "CHECK", "etl"), "granted");
        to_next_minute(&rig);
        const char *text = rig_do(&rig, "SERIES", "OF", "client", "NAME", "etl", "SECONDS", "60");
        has(text, "granted:[1] refused:[2] observed:[0]"); /* as a part, and as a whole */
        has(text, "reasons:{threshold:[2]");
        text = rig_do(&rig, "SERIES", "OF", "target", "NAME", "shop", "SECONDS", "60");
        has(text, "granted:[1] refused:[2]");
        has(text, "levels:['critical']");
        text = rig_do(&rig, "SERIES", "OF", "metric", "TARGET", "shop", "NAME", "threads_running",
                      "SECONDS", "60");
        has(text, "min:['2'] mean:['22'] max:['60']");
        text = rig_do(&rig, "SERIES", "SECONDS", "60", "STEP", "60");
        has(text, "values:['60']");
        rig_release(&rig);
}

struct lives {
        size_t n;
        uint64_t first, other; /* started jobs of n0 and of other */
};

static void look_at_life(void *ctx, const struct tally_life *l)
{
        struct lives *lives = ctx;
        uint64_t started = 0;
        for (size_t i = 0; i < OCTAVES; i++)
                started += l->wait[i];
        lives->n++;
        if (slice_eq(l->name, SLICE_LIT("n0")))
                lives->first = started;
        if (slice_eq(l->name, SLICE_LIT("other")))
                lives->other = started;
}

static void a_hundred_queues_and_hooks_have_times_for_ever_and_the_rest_together(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[16], token[RIG_TOKEN];
        rig_init(&rig);
        for (int i = 0; i < TALLY_LIVES + 2; i++) {
                (void)snprintf(name, sizeof(name), "n%d", i);
                rig_do(&rig, "ENQUEUE", name, "", "QUEUE", name);
                assert_int_not_equal(rig_claim(&rig, "w", name, token), 0);
        }
        to_next_minute(&rig); /* minutes end, these do not */
        rig_do(&rig, "ENQUEUE", "n0", "", "QUEUE", "n0");
        assert_int_not_equal(rig_claim(&rig, "w", "n0", token), 0);
        for (int is_by_hook = 0; is_by_hook < 2; is_by_hook++) {
                struct lives lives = {0};
                core_each_life(rig.core, is_by_hook, look_at_life, &lives);
                assert_int_equal(lives.n, TALLY_LIVES + 1);
                assert_int_equal(lives.first, 2);
                assert_int_equal(lives.other, 2);
        }
        rig_release(&rig);
}

static void find_mail(void *ctx, const struct tally_life *l)
{
        if (slice_eq(l->name, SLICE_LIT("mail")))
                *(struct tally_life *)ctx = *l;
}

/* Two attempts of one hook in two queues: each is in the bucket of its time, by hook together. */
static void times_are_in_the_buckets_of_their_octave(void **unused)
{
        (void)unused;
        static const int64_t waits[] = {0, 5}, runs[] = {7, 3600000};
        struct rig rig;
        char token[RIG_TOKEN], queue[8];
        struct tally_life of_hook = {0};
        rig_init(&rig);
        for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
                (void)snprintf(queue, sizeof(queue), "q%zu", i);
                rig_do(&rig, "ENQUEUE", "mail", "", "QUEUE", queue, "TIMEOUT", "7200000");
                rig_pass_ms(&rig, waits[i]);
                uint64_t id = rig_claim(&rig, "w", queue, token);
                assert_int_not_equal(id, 0);
                rig_pass_ms(&rig, runs[i]);
                rig_do(&rig, "COMPLETE", rig_number(id), token);
        }
        core_each_life(rig.core, true, find_mail, &of_hook);
        for (unsigned i = 0; i < OCTAVES; i++) {
                assert_int_equal(of_hook.wait[i], i == octave_of(0) || i == octave_of(5));
                assert_int_equal(of_hook.run[i], i == octave_of(7) || i == octave_of(3600000));
        }
        assert_int_equal(octave_of(7), 3);        /* 4 to 7 ms */
        assert_int_equal(octave_of(3600000), 22); /* up to 4,194 s */
        assert_int_equal(of_hook.wait_ms, 5);
        assert_int_equal(of_hook.run_ms, 3600007);
        rig_release(&rig);
}

static void steps_must_be_those_that_are_kept(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        has(rig_do(&rig, "SERIES", "SECONDS", "7200", "STEP", "90"), "multiple of 60");
        has(rig_do(&rig, "SERIES", "SECONDS", "259200", "STEP", "420"), "multiple of 600");
        has(rig_do(&rig, "SERIES", "SECONDS", "259200"), "step_ms:600000 n:432");
        has(rig_do(&rig, "SERIES", "SECONDS", "172800"), "step_ms:300000 n:576");
        has(rig_do(&rig, "SERIES", "SECONDS", "1036800", "STEP", "6000"), "of 3600 beyond 10 days");
        has(rig_do(&rig, "SERIES", "SECONDS", "604800"), "step_ms:1800000 n:336");
        has(rig_do(&rig, "SERIES", "OF", "hook"), "!BADARG");
        has(rig_do(&rig, "SERIES", "NAME", "mail"), "!BADARG");
        has(rig_do(&rig, "SERIES", "OF", "metric", "NAME", "x"), "TARGET");
        rig_release(&rig);
}

static void who_is_gone_before_the_answer_is_not_told(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        rig_init(&rig);
        rig_session_init(&other);
        has(rig_as(&rig, &other, "SERIES", "SECONDS", "86400"), "n:");
        rig_session_release(&rig, &other);
        rig_turn(&rig);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_count_belongs_to_the_minute_it_happened_in),
                cmocka_unit_test(minutes_without_a_turn_are_empty_and_keep_their_gauges),
                cmocka_unit_test(a_wall_that_is_set_forward_leaves_a_gap),
                cmocka_unit_test(a_wall_that_is_set_back_counts_into_the_same_minutes),
                cmocka_unit_test(a_restart_keeps_minutes_and_a_kill_loses_the_one_going_on),
                cmocka_unit_test(what_memory_lets_go_of_is_asked_for),
                cmocka_unit_test(a_hook_and_a_queue_have_counts_and_times),
                cmocka_unit_test(a_retried_attempt_has_run_and_a_parked_job_has_waited),
                cmocka_unit_test(clients_targets_and_metrics_are_told_by_name),
                cmocka_unit_test(
                        a_hundred_queues_and_hooks_have_times_for_ever_and_the_rest_together),
                cmocka_unit_test(times_are_in_the_buckets_of_their_octave),
                cmocka_unit_test(steps_must_be_those_that_are_kept),
                cmocka_unit_test(who_is_gone_before_the_answer_is_not_told),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

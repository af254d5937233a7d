/* WHY in sentences: each names what keeps the job, with the figures, as a person would say them. */
#include "throttle_box.h"

#include "base/say.h"

/* ---- times ---- */

static void a_time_is_said_in_units_that_fit_it(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "a", "", "IN", "3600000");
        rig_do(&rig, "ENQUEUE", "b", "", "IN", "3599000");
        rig_do(&rig, "ENQUEUE", "c", "", "IN", "90061000");
        has(rig_do(&rig, "WHY", "1"), "'is due in 1 h'");
        has(rig_do(&rig, "WHY", "2"), "'is due in 59 min 59 s'");
        has(rig_do(&rig, "WHY", "3"), "'is due in 1 d 1 h'");
        rig_do(&rig, "ENQUEUE", "d", "", "TIMEOUT", "7200000", "BACKOFF", "fixed:5m");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 4);
        has(rig_do(&rig, "WHY", "4"), "'it runs: worker 'w' has it for 2 h more'");
        rig_do(&rig, "FAIL", "4", token, "no");
        has(rig_do(&rig, "WHY", "4"), "'waits before its next attempt, which is due in 5 min'");
        rig_release(&rig);
}

static void a_limit_says_how_long_no_job_starts_and_how_many_are_ahead(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "api", "1", "600000");
        for (int i = 0; i < 5; i++)
                rig_do(&rig, "ENQUEUE", "a", "", "LIMIT", "api");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        has(rig_do(&rig, "WHY", "5"), " ahead:3]"); /* in its queue: no claim has met it yet */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        const char *why = rig_do(&rig, "WHY", "2");
        has(why, "'rate limit 'api' is used up: no job starts for 10 min ");
        has(why, " ahead:0]");
        has_not(why, "ahead of it");
        has(rig_do(&rig, "WHY", "3"), "; 1 job is ahead of it'");
        why = rig_do(&rig, "WHY", "5");
        has(why, "; 3 jobs are ahead of it'");
        has(why, " ahead:3]");
        rig_release(&rig);
}

static void a_limit_of_a_queue_counts_the_jobs_ahead_and_those_that_wait(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "queue:mail", "3", "600000");
        for (int i = 0; i < 40; i++)
                rig_do(&rig, "ENQUEUE", "a", "", "QUEUE", "mail");
        has(rig_do(&rig, "USAGE", "queue:mail"), " waiting_jobs:0 "); /* they wait for a worker */
        assert_int_equal(rig_claim_many(&rig, "mail"), 3);
        has(rig_do(&rig, "USAGE", "queue:mail"), " waiting_jobs:37 ");
        const char *why = rig_do(&rig, "WHY", "40");
        has(why, "'rate limit 'queue:mail' is used up: no job starts for ");
        has(why, "; 36 jobs are ahead of it'");
        has(why, " ahead:36]");
        rig_do(&rig, "ENQUEUE", "a", "", "QUEUE", "mail", "PRIORITY", "0");
        has(rig_do(&rig, "WHY", "41"), " ahead:0]");
        has(rig_do(&rig, "WHY", "40"), " ahead:37]");
        /* In a fair queue the groups take turns: what is known is its own group. */
        rig_do(&rig, "QUEUESET", "mail", "FAIR", "on");
        has(rig_do(&rig, "WHY", "40"), "; 37 jobs of its group are ahead of it'");
        rig_release(&rig);
}

static void a_breaker_of_a_queue_counts_the_jobs_that_it_keeps(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "queue:mail");
        for (int i = 0; i < 4; i++)
                rig_do(&rig, "ENQUEUE", "a", "", "QUEUE", "mail");
        has(rig_do(&rig, "BREAKERSTATE", "queue:mail"), " waiting_jobs:0 ");
        rig_do(&rig, "TRIP", "queue:mail");
        has(rig_do(&rig, "BREAKERSTATE", "queue:mail"), " waiting_jobs:4 ");
        has(rig_do(&rig, "WHY", "4"), "; 3 jobs are ahead of it'");
        rig_release(&rig);
}

/* Of a crowd no more is counted than a turn has time for. */
static void a_long_way_to_the_front_is_counted_up_to_a_bound(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        for (int i = 0; i < 10002; i++)
                rig_do(&rig, "ENQUEUE", "a", "");
        has(rig_do(&rig, "WHY", "10000"), "; 9999 jobs are ahead of it'");
        has(rig_do(&rig, "WHY", "10002"), "; 10000 or more jobs are ahead of it'");
        has(rig_do(&rig, "WHY", "10002"), " ahead:10000]");
        rig_release(&rig);
}

/* A time that is said is one before which the job cannot start. */
static void no_time_is_promised_where_none_is_known(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "a", "", "QUEUE", "mail");
        rig_do(&rig, "PAUSE", "mail");
        const char *why = rig_do(&rig, "WHY", "1");
        has(why, "queue 'mail' is paused");
        has(why, "not_before_ms:0 ");
        rig_do(&rig, "BREAKER", "shop");
        rig_do(&rig, "TRIP", "shop", "HOLD");
        rig_do(&rig, "ENQUEUE", "a", "", "TARGET", "shop");
        has(rig_do(&rig, "WHY", "2"), "not_before_ms:0 ");
        /* The outcome of the one job that tries lets all others go, at any moment. */
        rig_do(&rig, "CLOSEBREAKER", "shop");
        rig_do(&rig, "TRIP", "shop");
        rig_do(&rig, "ENQUEUE", "a", "", "TARGET", "shop");
        has_not(rig_do(&rig, "WHY", "3"), "not_before_ms:0 ");
        rig_pass_ms(&rig, 60001);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 2);
        why = rig_do(&rig, "WHY", "3");
        has(why, "'circuit breaker 'shop' has been half-open for 1 ms: job 2 tries it now'");
        has(why, "not_before_ms:0 ");
        rig_release(&rig);
}

static void a_breaker_says_since_when_it_is_open_why_and_until_when(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "shop", "THRESHOLD", "3", "COOLDOWN", "120000");
        rig_do(&rig, "ENQUEUE", "a", "", "TARGET", "shop");
        rig_do(&rig, "TRIP", "shop");
        rig_pass_ms(&rig, 30000);
        has(rig_do(&rig, "WHY", "1"),
            "'circuit breaker 'shop' has been open for 30 s: no job tries it for 1 min 30 s'");
        rig_do(&rig, "TRIP", "shop", "REASON", "moving house", "HOLD");
        has(rig_do(&rig, "WHY", "1"),
            "'circuit breaker 'shop' has been open for 30 s (moving house): held open until it is "
            "closed'");
        rig_release(&rig);
}

/* ---- numbers ---- */

static void one_is_no_plural(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        for (int i = 0; i < 4; i++)
                rig_do(&rig, "ENQUEUE", "a", "", "KEY", "k");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        has(rig_do(&rig, "WHY", "2"), "'1 running job holds 'key:k', which allows 1; ");
        rig_do(&rig, "ENQUEUE", "b", "");
        rig_pass_ms(&rig, 5000);
        has(rig_do(&rig, "WHY", "5"),
            "'ready for 5 s, and no worker waits for queue 'default'; 1 job of it runs, ");
        rig_do(&rig, "QUEUESET", "default", "CAP", "1", "CLAIMS", "1");
        has(rig_do(&rig, "WHY", "5"), "'queue 'default' runs 1 job and its cap is 1'");
        has(rig_do(&rig, "WHY", "5"),
            "'queue 'default' has 1 claim with running jobs, and 1 is allowed'");
        rig_do(&rig, "QUEUESET", "default", "CAP", "0", "CLAIMS", "0");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 5);
        rig_do(&rig, "ENQUEUE", "c", "", "QUEUE", "other");
        has(rig_do(&rig, "WHY", "6"), "queue 'other'; 0 jobs of it run, 1 is ready'");
        rig_do(&rig, "ENQUEUE", "c", "", "QUEUE", "other");
        has(rig_do(&rig, "WHY", "6"), "queue 'other'; 0 jobs of it run, 2 are ready'");
        rig_release(&rig);
}

/* ---- the gate ---- */

/* A job is there, and the load is critical. */
static void init_busy(struct rig *rig)
{
        init(rig, MODE_ENFORCE);
        rig_do(rig, "ENQUEUE", "anything", "");
        sample_for(rig, 150, 1);
}

static void a_parked_job_says_what_parked_it_and_for_how_long(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init_busy(&rig);
        has(rig_do(&rig, "WHY", "1"),
            "[{code:'gate' message:'critical load on shop: threads_running 150 against 15; tier "
            "normal waits 15 min']]");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        sample_for(&rig, 99, 60);
        const char *why = rig_do(&rig, "WHY", "1");
        has(why, "[{code:'gate' message:'parked for 14 min more: critical load on shop: "
                 "threads_running 150 against 15; tier normal waits 15 min']]");
        has(why, "not_before_ms:0 "); /* a level that falls brings it back earlier */
        /* It is asked again, and told how long in all. */
        sample_for(&rig, 20, 841);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "WHY", "1"), "'parked for 15 min more: ");
        has(rig_do(&rig, "WHY", "1"), "tier normal waits 15 min; deferred for 15 min in all'");
        /* What holds now may be better than what parked it; after a restart it is known too. */
        rig_turn(&rig);
        rig_restart(&rig);
        set_up(&rig, MODE_ENFORCE);
        rig_turn(&rig);
        has(rig_do(&rig, "WHY", "1"), "; deferred for 15 min in all'"); /* not measured yet */
        same(rig_do(&rig, "SETTINGSET", "target.shop.dwell", "0s"), "OK");
        sample(&rig, 1);
        has(rig_do(&rig, "WHY", "1"),
            "; deferred for 15 min in all; the level is normal now, and the ramp brings it back "
            "within 3 min'");
        rig_release(&rig);
}

static void a_parked_job_says_that_the_throttle_is_switched_off_by_now(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init_busy(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_do(&rig, "SETTINGSET", "throttle.enabled", "false");
        has(rig_do(&rig, "WHY", "1"),
            "tier normal waits 15 min; the throttle is switched off "
            "(throttle.enabled), and the ramp brings it back within 3 min'");
        rig_do(&rig, "ENQUEUE", "anything", "");
        has_not(rig_do(&rig, "WHY", "2"), "gate");
        rig_release(&rig);
}

static void what_is_not_known_is_told_by_its_age(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        rig_do(&rig, "ENQUEUE", "anything", "");
        sample_for(&rig, 2, 1);
        for (int i = 0; i < 8; i++) {
                rig_pass_ms(&rig, 1000);
                rig_turn(&rig);
        }
        has(rig_do(&rig, "WHY", "1"),
            "'unknown load on shop: threads_running 8 s old, at most 5 s is allowed; tier "
            "normal waits 5 min'");
        rig_release(&rig);
}

/* The level was entered with 150, and is kept while it dwells. */
static void what_the_load_was_is_not_told_as_what_it_is(void **unused)
{
        (void)unused;
        struct rig rig;
        init_busy(&rig);
        rig_sample(&rig, 0, 0, 2);
        rig_turn(&rig);
        has(rig_do(&rig, "WHY", "1"),
            "'critical load on shop: threads_running 2, was 150 against 15; tier normal waits 15 "
            "min'");
        rig_release(&rig);
}

static void what_is_only_observed_would_wait(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_OBSERVE);
        rig_do(&rig, "ENQUEUE", "anything", "");
        sample_for(&rig, 150, 1);
        has(rig_do(&rig, "WHY", "1"),
            "'critical load on shop: threads_running 150 against 15; tier normal would wait 15 min "
            "(observe)'");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        has(rig_do(&rig, "THROTTLE", "HISTORY"), "tier normal would wait 15 min (observe)");
        rig_release(&rig);
}

static void a_pause_says_how_long_it_lasts(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_OBSERVE);
        rig_do(&rig, "ENQUEUE", "anything", "");
        rig_do(&rig, "THROTTLE", "PAUSE", "FOR", "7200000");
        has(rig_do(&rig, "WHY", "1"), "'paused by the operator for 2 h more; tier normal waits ");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "WHY", "1"),
            "'parked for 15 min more: paused by the operator; tier normal waits 15 min'");
        rig_do(&rig, "THROTTLE", "RESUME");
        rig_do(&rig, "THROTTLE", "PAUSE", "UNTILRESUMED");
        rig_do(&rig, "ENQUEUE", "anything", "");
        has(rig_do(&rig, "WHY", "2"), "'paused by the operator until resumed; tier normal waits ");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_time_is_said_in_units_that_fit_it),
                cmocka_unit_test(a_limit_says_how_long_no_job_starts_and_how_many_are_ahead),
                cmocka_unit_test(a_limit_of_a_queue_counts_the_jobs_ahead_and_those_that_wait),
                cmocka_unit_test(a_breaker_of_a_queue_counts_the_jobs_that_it_keeps),
                cmocka_unit_test(a_long_way_to_the_front_is_counted_up_to_a_bound),
                cmocka_unit_test(no_time_is_promised_where_none_is_known),
                cmocka_unit_test(a_breaker_says_since_when_it_is_open_why_and_until_when),
                cmocka_unit_test(one_is_no_plural),
                cmocka_unit_test(a_parked_job_says_what_parked_it_and_for_how_long),
                cmocka_unit_test(a_parked_job_says_that_the_throttle_is_switched_off_by_now),
                cmocka_unit_test(what_is_not_known_is_told_by_its_age),
                cmocka_unit_test(what_the_load_was_is_not_told_as_what_it_is),
                cmocka_unit_test(what_is_only_observed_would_wait),
                cmocka_unit_test(a_pause_says_how_long_it_lasts),
        };

        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

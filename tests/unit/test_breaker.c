/* Circuit breakers through their commands and through claims, with the clock moved by hand. */
#include "refusal.h"

#include <stdio.h>

#include "core/kernel.h"
#include "state/breaker.h"
#include "support/rig.h"
#include "things/breaker.h"

static struct breaker *breaker_named(struct rig *rig, const char *name)
{
        struct thing *t = thing_find(&rig->core->state, THING_BREAKER, slice_str(name));
        return t ? breaker_of(t) : NULL;
}

/* Asks; the token (33 bytes) is empty when it was refused.  Returns the verdict's first letter. */
static char ask(struct rig *rig, const char *name, char *ret_token)
{
        char verdict[16] = "";
        const char *text = rig_do(rig, "ASK", name);
        memset(ret_token, 0, 33);
        int n = sscanf(text, "{verdict:'%15[a-z]' token:'%32[0-9a-f]'", verdict, ret_token);
        if (n < 1)
                fail_msg("ASK answered '%s'", text);
        assert_int_equal(n == 2, verdict[0] != 'r');
        return strcmp(verdict, "probe") == 0 ? '?' : verdict[0];
}

#define PASS    'p'
#define PROBE   '?'
#define REFUSED 'r'

static const char *report(struct rig *rig, const char *name, const char *token, bool is_ok)
{
        return rig_do(rig, "REPORT", name, token, is_ok ? "ok" : "fail");
}

static void fail_times(struct rig *rig, const char *name, int n)
{
        char token[33];
        for (int i = 0; i < n; i++) {
                assert_int_equal(ask(rig, name, token), PASS);
                report(rig, name, token, false);
        }
}

/* ---- clients ---- */

static void it_opens_at_the_threshold_and_half_opens_after_the_cooldown(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33], other[33];
        rig_init(&rig);
        fail_times(&rig, "db", 4); /* made by asking, with defaults */
        assert_int_equal(ask(&rig, "db", token), PASS);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "failures:4");
        same(report(&rig, "db", token, false), "'open'");
        same(rig_do(&rig, "ASK", "db"), "{verdict:'refused' token:null retry_ms:60000]");
        rig_pass_ms(&rig, 59999);
        assert_int_equal(ask(&rig, "db", other), REFUSED);
        rig_pass_ms(&rig, 1);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'half-open'");
        assert_int_equal(ask(&rig, "db", token), PROBE);
        assert_int_equal(ask(&rig, "db", other), REFUSED); /* one probe at a time */
        same(report(&rig, "db", token, true), "'closed'");
        assert_int_equal(ask(&rig, "db", other), PASS);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "trips:1");
        rig_release(&rig);
}

static void a_success_between_failures_starts_the_count_again(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "db", "THRESHOLD", "2");
        fail_times(&rig, "db", 1);
        assert_int_equal(ask(&rig, "db", token), PASS);
        same(report(&rig, "db", token, true), "'closed'");
        fail_times(&rig, "db", 1);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'closed'");
        fail_times(&rig, "db", 1);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'open'");
        rig_release(&rig);
}

static void a_failed_or_dead_probe_doubles_the_cooldown_up_to_its_bound(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "db", "THRESHOLD", "1", "COOLDOWN", "1000", "COOLDOWNMAX", "3000",
               "PROBE", "500");
        fail_times(&rig, "db", 1);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(ask(&rig, "db", token), PROBE);
        same(report(&rig, "db", token, false), "'open'");
        rig_pass_ms(&rig, 1999);
        assert_int_equal(ask(&rig, "db", token), REFUSED);
        rig_pass_ms(&rig, 1);
        assert_int_equal(ask(&rig, "db", token), PROBE); /* this one says nothing any more */
        rig_pass_ms(&rig, 499);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "probing:true");
        rig_pass_ms(&rig, 1);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'open'");
        same(report(&rig, "db", token, true), "'open'"); /* too late to count */
        has(rig_do(&rig, "BREAKERSTATE", "db"), "retry_ms:3000");
        rig_pass_ms(&rig, 3000);
        assert_int_equal(ask(&rig, "db", token), PROBE);
        same(report(&rig, "db", token, true), "'closed'");
        fail_times(&rig, "db", 1);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "retry_ms:1000"); /* short again */
        rig_release(&rig);
}

static void a_rate_of_failures_opens_it_once_there_are_enough(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        same(rig_do(&rig, "BREAKER", "db", "THRESHOLD", "0", "RATE", "50", "WINDOW", "10000",
                    "VOLUME", "4"),
             "OK");
        fail_times(&rig, "db", 2);
        assert_int_equal(ask(&rig, "db", token), PASS);
        same(report(&rig, "db", token, true), "'closed'");
        has(rig_do(&rig, "BREAKERSTATE", "db"), "window_failures:2 window_outcomes:3");
        assert_true(rig_replays(&rig));
        fail_times(&rig, "db", 1);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'open'");
        rig_release(&rig);
}

static void a_report_counts_once_and_only_with_a_token_of_the_breaker(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33], foreign[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "db", "THRESHOLD", "2");
        rig_do(&rig, "BREAKER", "other", "THRESHOLD", "2");
        assert_int_equal(ask(&rig, "other", foreign), PASS);
        assert_int_equal(ask(&rig, "db", token), PASS);
        has(report(&rig, "db", foreign, false), "!NOTOWNER the token is not of an ask of");
        has(report(&rig, "db", "00000000000000000000000000000000", false), "!NOTOWNER");
        for (int i = 0; i < 5; i++)
                same(report(&rig, "db", token, false), "'closed'");
        assert_true(rig_replays(&rig));
        same(report(&rig, "db", token, false), "'closed'");
        has(rig_do(&rig, "BREAKERSTATE", "db"), "failures:1");
        rig_do(&rig, "UNBREAKER", "db");
        has(report(&rig, "db", token, false), "!NOTFOUND");
        rig_do(&rig, "BREAKER", "db");
        has(report(&rig, "db", token, false), "!NOTOWNER"); /* of the one before */
        rig_release(&rig);
}

static void what_was_let_through_before_it_opened_says_nothing_after(void **unused)
{
        (void)unused;
        struct rig rig;
        char old[33], token[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "db", "THRESHOLD", "1", "COOLDOWN", "1000");
        assert_int_equal(ask(&rig, "db", old), PASS);
        fail_times(&rig, "db", 1);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(ask(&rig, "db", token), PROBE);
        same(report(&rig, "db", token, true), "'closed'");
        same(report(&rig, "db", old, false), "'closed'");
        has(rig_do(&rig, "BREAKERSTATE", "db"), "failures:0");
        rig_release(&rig);
}

static void its_state_and_its_probe_are_kept_over_a_restart(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33], other[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "db", "THRESHOLD", "3", "COOLDOWN", "1000", "PROBE", "5000");
        fail_times(&rig, "db", 2);
        assert_true(rig_replays(&rig));
        fail_times(&rig, "db", 1);
        assert_true(rig_replays(&rig));
        assert_int_equal(ask(&rig, "db", token), REFUSED);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(ask(&rig, "db", token), PROBE);
        uint64_t fence = rig.core->state.fence;
        assert_true(rig_replays(&rig));
        assert_int_equal(rig.core->state.fence, fence);
        assert_int_equal(ask(&rig, "db", other), REFUSED);
        same(report(&rig, "db", token, true), "'closed'");
        assert_true(rig_replays(&rig));
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'closed'");
        rig_release(&rig);
}

static void a_probe_of_before_a_restart_dies_at_its_deadline(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "db", "THRESHOLD", "1", "COOLDOWN", "1000", "PROBE", "5000");
        fail_times(&rig, "db", 1);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(ask(&rig, "db", token), PROBE);
        assert_true(rig_replays(&rig));
        rig_pass_ms(&rig, 4999);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'half-open'");
        rig_pass_ms(&rig, 1);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'open'");
        rig_pass_ms(&rig, 2000);
        assert_int_equal(ask(&rig, "db", token), PROBE);
        rig_release(&rig);
}

static void it_is_tripped_held_and_closed_by_hand(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "db", "COOLDOWN", "1000");
        same(rig_do(&rig, "TRIP", "db", "REASON", "new hardware"), "OK");
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'open' reason:'new hardware'");
        assert_int_equal(ask(&rig, "db", token), REFUSED);
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'half-open'");
        same(rig_do(&rig, "TRIP", "db", "HOLD"), "OK");
        same(rig_do(&rig, "ASK", "db"), "{verdict:'refused' token:null retry_ms:-1]");
        rig_pass_ms(&rig, 3600000);
        assert_true(rig_replays(&rig));
        assert_int_equal(ask(&rig, "db", token), REFUSED);
        same(rig_do(&rig, "CLOSEBREAKER", "db"), "OK");
        assert_int_equal(ask(&rig, "db", token), PASS);
        has(rig_do(&rig, "BREAKERSTATE", "db"), "held:false");
        rig_release(&rig);
}

static void a_new_rule_keeps_the_state(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "db", "THRESHOLD", "1", "COOLDOWN", "5000");
        fail_times(&rig, "db", 1);
        rig_do(&rig, "BREAKER", "db", "THRESHOLD", "9");
        has(rig_do(&rig, "BREAKERSTATE", "db"), "state:'open'");
        has(rig_do(&rig, "BREAKERSTATE", "db"), "threshold:9");
        has(rig_do(&rig, "BREAKERSTATE", "db"), "cooldown_ms:60000"); /* not given: the default */
        rig_pass_ms(&rig, 5000);
        assert_int_equal(ask(&rig, "db", token), PROBE);
        rig_do(&rig, "BREAKER", "db", "THRESHOLD", "2");
        same(report(&rig, "db", token, true), "'closed'");
        rig_release(&rig);
}

static void one_made_by_asking_is_forgotten_when_nobody_uses_it(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        assert_int_equal(ask(&rig, "quiet", token), PASS);
        fail_times(&rig, "troubled", 1);
        rig_do(&rig, "BREAKER", "set");
        has(rig_do(&rig, "BREAKERSTATE", "quiet"), "passing:true");
        rig_pass_ms(&rig, 3599999);
        assert_non_null(breaker_named(&rig, "quiet"));
        assert_true(rig_replays(&rig));
        rig_pass_ms(&rig, 1);
        assert_null(breaker_named(&rig, "quiet"));
        assert_non_null(breaker_named(&rig, "troubled"));
        rig_pass_ms(&rig, 23 * 3600000);
        assert_null(breaker_named(&rig, "troubled"));
        assert_non_null(breaker_named(&rig, "set"));
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

/* ---- jobs ---- */

static void add_jobs(struct rig *rig, int n, const char *queue, const char *target)
{
        for (int i = 0; i < n; i++)
                rig_do(rig, "ENQUEUE", "h", "", "QUEUE", queue, "ATTEMPTS", "1",
                       target ? "TARGET" : (char *)NULL, target, (char *)NULL);
}

static void fail_jobs(struct rig *rig, const char *queue, int n)
{
        for (int i = 0; i < n; i++)
                assert_true(rig_fail_next(rig, queue, "x") > 0);
}

/* The breaker "smtp" is open for a second: of four jobs in "q" that have it the first failed. */
static void init_open(struct rig *rig)
{
        rig_init(rig);
        rig_do(rig, "BREAKER", "smtp", "THRESHOLD", "1", "COOLDOWN", "1000");
        add_jobs(rig, 4, "q", "smtp");
        fail_jobs(rig, "q", 1);
}

static void failing_jobs_open_the_breaker_of_their_target(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        add_jobs(&rig, 20, "q", "smtp");
        add_jobs(&rig, 1, "q", NULL);
        assert_null(breaker_named(&rig, "smtp"));
        fail_jobs(&rig, "q", 5);
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "state:'open'");
        assert_int_equal(rig_claim_many(&rig, "q"), 1); /* the one without a target */
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "waiting_jobs:15");
        assert_true(rig_replays(&rig));
        assert_int_equal(rig_claim_many(&rig, "q"), 0);
        rig_pass_ms(&rig, 60000);
        const char *id = rig_number(rig_claim(&rig, "w", "q", token));
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "probing:true");
        rig_pass_ms(&rig, 3000);
        assert_int_equal(rig_claim_many(&rig, "q"), 0); /* one probe at a time */
        same(rig_do(&rig, "COMPLETE", id, token), "OK");
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "state:'closed'");
        assert_int_equal(rig_claim_many(&rig, "q"), 14);
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void a_long_job_is_the_probe_as_long_as_its_lease(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "smtp", "THRESHOLD", "1", "COOLDOWN", "1000", "PROBE", "500");
        add_jobs(&rig, 3, "q", "smtp");
        fail_jobs(&rig, "q", 1);
        rig_pass_ms(&rig, 1000);
        uint64_t job = rig_claim(&rig, "w", "q", token);
        assert_true(job > 0);
        const char *id = rig_number(job);
        rig_pass_ms(&rig, 200000); /* far past PROBE, within the lease */
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "probing:true");
        same(rig_do(&rig, "EXTEND", id, token, "300000"), "OK");
        rig_pass_ms(&rig, 200000);
        assert_true(rig_replays(&rig));
        assert_int_equal(rig_claim_many(&rig, "q"), 0);
        same(rig_do(&rig, "COMPLETE", id, token), "OK");
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "state:'closed'");
        rig_release(&rig);
}

static void a_probe_whose_worker_dies_ends_with_its_lease(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "smtp", "THRESHOLD", "1", "COOLDOWN", "1000", "PROBE", "500");
        add_jobs(&rig, 4, "q", "smtp");
        fail_jobs(&rig, "q", 1);
        rig_pass_ms(&rig, 1000);
        assert_true(rig_claim(&rig, "w", "q", token) > 0);
        rig_pass_ms(&rig, 299999);
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "probing:true");
        rig_pass_ms(&rig, 1);
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "state:'open'");
        rig_pass_ms(&rig, 2000);
        assert_int_equal(rig_claim_many(&rig, "q"), 1);
        rig_release(&rig);
}

static void a_released_probe_gives_the_next_job_its_place(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        init_open(&rig);
        assert_int_equal(rig_claim_many(&rig, "q"), 0); /* all three wait for the breaker now */
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "waiting_jobs:2"); /* one was let go */
        const char *id = rig_number(rig_claim(&rig, "w", "q", token));
        same(rig_do(&rig, "RELEASE", id, token, "IN", "60000"), "OK");
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "state:'half-open'");
        assert_int_equal(rig_claim_many(&rig, "q"), 1);
        rig_release(&rig);
}

static void a_job_let_go_as_probe_and_canceled_does_not_keep_the_others(void **unused)
{
        (void)unused;
        struct rig rig;
        init_open(&rig);
        assert_int_equal(rig_claim_many(&rig, "q"), 0);
        rig_pass_ms(&rig, 1000);
        same(rig_do(&rig, "CANCEL", "2"), "OK");
        rig_pass_ms(&rig, 1000);
        assert_int_equal(rig_claim_many(&rig, "q"), 1);
        rig_release(&rig);
}

static void a_canceled_probe_gives_the_next_job_its_place(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        init_open(&rig);
        rig_pass_ms(&rig, 1000);
        const char *id = rig_number(rig_claim(&rig, "w", "q", token));
        rig_do(&rig, "CANCEL", id);
        rig_pass_ms(&rig, 300000); /* however a running job is told of it */
        rig_pass_ms(&rig, 60000);
        assert_int_equal(rig_claim_many(&rig, "q"), 1);
        rig_release(&rig);
}

static void lost_leases_open_the_breaker_of_a_queue_and_handlers_do_not(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "queue:q", "THRESHOLD", "2", "COOLDOWN", "1000");
        add_jobs(&rig, 10, "q", NULL);
        add_jobs(&rig, 1, "other", NULL);
        fail_jobs(&rig, "q", 5);
        has(rig_do(&rig, "BREAKERSTATE", "queue:q"), "state:'closed'");
        rig_do(&rig, "CLAIM", "w", "MAX", "2", "LEASE", "1000", "QUEUES", "q");
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "BREAKERSTATE", "queue:q"), "state:'open'");
        assert_int_equal(rig_claim_many(&rig, "q"), 0);
        assert_int_equal(rig_claim_many(&rig, "other"), 1);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(rig_claim_many(&rig, "q"), 1); /* the probe */
        assert_true(rig_replays(&rig));
        rig_do(&rig, "UNBREAKER", "queue:q");
        assert_int_equal(rig_claim_many(&rig, "q"), 2);
        rig_release(&rig);
}

static void a_failed_handler_shows_that_workers_work(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "queue:q", "THRESHOLD", "1", "COOLDOWN", "1000");
        add_jobs(&rig, 10, "q", NULL);
        rig_do(&rig, "CLAIM", "w", "LEASE", "1000", "QUEUES", "q");
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "BREAKERSTATE", "queue:q"), "state:'open'");
        rig_pass_ms(&rig, 1000);
        fail_jobs(&rig, "q", 1);
        has(rig_do(&rig, "BREAKERSTATE", "queue:q"), "state:'closed'");
        rig_release(&rig);
}

static void handlers_count_when_asked_and_waiting_claims_are_served_by_the_probe(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session w[2];
        rig_init(&rig);
        rig_session_init(&w[0]);
        rig_session_init(&w[1]);
        rig_do(&rig, "BREAKER", "queue:q", "THRESHOLD", "2", "COOLDOWN", "1000", "HANDLERS");
        has(rig_do(&rig, "BREAKERSTATE", "queue:q"), "handlers:true");
        add_jobs(&rig, 10, "q", NULL);
        fail_jobs(&rig, "q", 2);
        for (int i = 0; i < 2; i++)
                same(rig_as(&rig, &w[i], "CLAIM", "w", "WAIT", "60000", "QUEUES", "q"), "(waits)");
        rig_pass_ms(&rig, 999);
        assert_false(w[0].is_answered || w[1].is_answered);
        rig_pass_ms(&rig, 1);
        assert_true(w[0].is_answered && !w[1].is_answered);
        unsigned long long job = 0;
        char token[64] = "";
        assert_int_equal(
                sscanf(text_reply_str(&w[0].reply), "[{id:%llu token:'%32[0-9a-f]'", &job, token),
                2);
        same(rig_do(&rig, "COMPLETE", rig_number(job), token), "OK");
        assert_true(w[1].is_answered); /* it closed */
        rig_session_release(&rig, &w[0]);
        rig_session_release(&rig, &w[1]);
        rig_release(&rig);
}

static void a_queue_and_a_target_of_one_name_are_asked_once(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "queue:q", "THRESHOLD", "2", "COOLDOWN", "1000", "HANDLERS");
        add_jobs(&rig, 5, "q", "queue:q");
        fail_jobs(&rig, "q", 1);
        has(rig_do(&rig, "BREAKERSTATE", "queue:q"), "failures:1");
        fail_jobs(&rig, "q", 1);
        has(rig_do(&rig, "BREAKERSTATE", "queue:q"), "state:'open'");
        rig_pass_ms(&rig, 1000);
        assert_int_equal(rig_claim_many(&rig, "q"), 1); /* the probe, not twice the probe */
        rig_release(&rig);
}

static void many_jobs_are_let_go_in_steps_when_it_closes(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "smtp");
        rig_do(&rig, "TRIP", "smtp", "HOLD");
        add_jobs(&rig, 5000, "q", "smtp");
        assert_int_equal(rig_claim_many(&rig, "q"), 0);
        has(rig_do(&rig, "BREAKERSTATE", "smtp"), "waiting_jobs:5000");
        rig_do(&rig, "CLOSEBREAKER", "smtp");
        const char *const left[] = {"waiting_jobs:3000", "waiting_jobs:1000", "waiting_jobs:0"};
        for (size_t i = 0; i < ARRAY_LEN(left); i++) {
                has(rig_do(&rig, "BREAKERSTATE", "smtp"), left[i]);
                rig.now.steady_ns++; /* the next turn comes at once */
                assert_true(core_next_ns(rig.core) <= rig.now.steady_ns || i == 2);
                rig_turn(&rig);
        }
        rig_release(&rig);
}

/* ---- the rest ---- */

static void breakers_are_listed_by_name(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        same(rig_do(&rig, "BREAKERS"), "[]");
        rig_do(&rig, "BREAKER", "b");
        rig_do(&rig, "BREAKER", "a");
        const char *text = rig_do(&rig, "BREAKERS");
        const char *a = strstr(text, "name:'a'"), *b = strstr(text, "name:'b'");
        assert_true(a && b && a < b);
        rig_do(&rig, "UNBREAKER", "a");
        rig_do(&rig, "UNBREAKER", "b");
        same(rig_do(&rig, "BREAKERS"), "[]");
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

static void bad_input_gets_a_clear_error_and_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        const char *const bad[][REFUSAL_WORDS] = {
                {"BREAKER", "x", "THRESHOLD", "-1", "!BADARG threshold"},
                {"BREAKER", "x", "THRESHOLD", "1000001", "!BADARG threshold"},
                {"BREAKER", "x", "THRESHOLD", "0", "!BADARG a breaker needs failures in a row"},
                {"BREAKER", "x", "RATE", "0", "!BADARG rate"},
                {"BREAKER", "x", "RATE", "101", "!BADARG rate"},
                {"BREAKER", "x", "WINDOW", "60000", "!BADARG window and volume go with rate"},
                {"BREAKER", "x", "VOLUME", "5", "!BADARG window and volume go with rate"},
                {"BREAKER", "x", "RATE", "50", "WINDOW", "9", "!BADARG window"},
                {"BREAKER", "x", "RATE", "50", "WINDOW", "2678400001", "!BADARG window"},
                {"BREAKER", "x", "RATE", "50", "VOLUME", "0", "!BADARG volume"},
                {"BREAKER", "x", "COOLDOWN", "0", "!BADARG cooldown"},
                {"BREAKER", "x", "COOLDOWN", "2678400001", "!BADARG cooldown"},
                {"BREAKER", "x", "COOLDOWNMAX", "59999", "!BADARG the longest cool-down"},
                {"BREAKER", "x", "PROBE", "0", "!BADARG probe"},
                {"BREAKER", "x", "PROBE", "soon", "!BADARG probe"},
                {"BREAKER", "x", "HANDLERS", "!BADARG handlers is for queue:NAME"},
                {"BREAKER", "x", "NOSUCH", "1", "!SYNTAX"},
                {"BREAKER", "", "!BADARG name"},
                {"UNBREAKER", "x", "!NOTFOUND there is no circuit breaker 'x'"},
                {"BREAKERSTATE", "x", "!NOTFOUND there is no circuit breaker 'x'"},
                {"TRIP", "x", "!NOTFOUND there is no circuit breaker 'x'"},
                {"CLOSEBREAKER", "x", "!NOTFOUND there is no circuit breaker 'x'"},
                {"ASK", "queue:x", "!NOTFOUND there is no circuit breaker 'queue:x'"},
                {"ASK", "\n", "!BADARG name"},
                {"REPORT", "x", "00112233445566778899aabbccddeeff", "ok", "!NOTFOUND"},
                {"REPORT", "ok", "00112233445566778899aabbccddeeff", "ok", "!NOTOWNER"},
                {"REPORT", "ok", "zz", "ok", "!BADARG token"},
                {"REPORT", "ok", "00112233445566778899aabbccddeeff", "maybe", "!BADARG outcome"},
                {"REPORT", "ok", "00112233445566778899aabbccddeeff", "!SYNTAX"},
        };
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "ok");
        assert_rows_are_refused(&rig, bad, ARRAY_LEN(bad));
        assert_int_equal(rig.core->state.things[THING_BREAKER].len, 1);
        rig_release(&rig);
}

static void there_may_be_as_many_breakers_as_the_table_says(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[24], token[33];
        rig_init(&rig);
        for (int i = 0; i < LIMIT_BREAKERS; i++) {
                (void)snprintf(name, sizeof(name), "n%d", i);
                assert_int_equal(ask(&rig, name, token), PASS);
        }
        has(rig_do(&rig, "ASK", "more"), "!LIMIT there are 10000 circuit breakers already");
        has(rig_do(&rig, "BREAKER", "more"), "!LIMIT");
        same(rig_do(&rig, "BREAKER", "n5"), "OK");
        add_jobs(&rig, 2, "q", "more"); /* not watched, but they run */
        fail_jobs(&rig, "q", 2);
        assert_true(rig_replays(&rig));
        rig_pass_ms(&rig, 3600000);
        for (int i = 0; i < 5; i++)
                rig_turn(&rig);
        assert_int_equal(rig.core->state.things[THING_BREAKER].len, 1);
        rig_release(&rig);
}

static void a_full_disk_refuses_asks_and_takes_reports(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        assert_int_equal(ask(&rig, "db", token), PASS);
        rig.log.stat.is_disk_full = true;
        rig.log.stat.room_bytes = 0;
        rig_turn(&rig);
        has(rig_do(&rig, "ASK", "db"), "!NOSPACE");
        has(rig_do(&rig, "BREAKER", "more"), "!NOSPACE");
        same(report(&rig, "db", token, false), "'closed'");
        same(rig_do(&rig, "UNBREAKER", "db"), "OK");
        rig_release(&rig);
}

static void a_damaged_body_is_refused(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "BREAKER", "x", "RATE", "50", "VOLUME", "100");
        fail_times(&rig, "x", 3);
        assert_damage_is_refused(&rig, THING_BREAKER);
        const struct slice notes[] = {
                SLICE_NONE,
                SLICE_LIT("\0"),       /* no such op */
                SLICE_LIT("\1\0\1"),   /* ask 0 */
                SLICE_LIT("\1\1"),     /* whose? */
                SLICE_LIT("\2\1\3\0"), /* no such end */
                SLICE_LIT("\2\1\1"),   /* a report or not? */
                SLICE_LIT("\3\1"),     /* EXPIRE takes nothing */
                SLICE_LIT("\4\1"),     /* there is no probe */
                SLICE_LIT("\5\3\0"),   /* no such force */
                SLICE_LIT("\5\0\5x"),  /* a reason that is too short */
        };
        for (size_t i = 0; i < ARRAY_LEN(notes); i++)
                assert_false(applies(&rig, THING_BREAKER, EFFECT_THING_NOTE, notes[i]));
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(it_opens_at_the_threshold_and_half_opens_after_the_cooldown),
                cmocka_unit_test(a_success_between_failures_starts_the_count_again),
                cmocka_unit_test(a_failed_or_dead_probe_doubles_the_cooldown_up_to_its_bound),
                cmocka_unit_test(a_rate_of_failures_opens_it_once_there_are_enough),
                cmocka_unit_test(a_report_counts_once_and_only_with_a_token_of_the_breaker),
                cmocka_unit_test(what_was_let_through_before_it_opened_says_nothing_after),
                cmocka_unit_test(its_state_and_its_probe_are_kept_over_a_restart),
                cmocka_unit_test(a_probe_of_before_a_restart_dies_at_its_deadline),
                cmocka_unit_test(it_is_tripped_held_and_closed_by_hand),
                cmocka_unit_test(a_new_rule_keeps_the_state),
                cmocka_unit_test(one_made_by_asking_is_forgotten_when_nobody_uses_it),
                cmocka_unit_test(failing_jobs_open_the_breaker_of_their_target),
                cmocka_unit_test(a_long_job_is_the_probe_as_long_as_its_lease),
                cmocka_unit_test(a_probe_whose_worker_dies_ends_with_its_lease),
                cmocka_unit_test(a_released_probe_gives_the_next_job_its_place),
                cmocka_unit_test(a_job_let_go_as_probe_and_canceled_does_not_keep_the_others),
                cmocka_unit_test(a_canceled_probe_gives_the_next_job_its_place),
                cmocka_unit_test(lost_leases_open_the_breaker_of_a_queue_and_handlers_do_not),
                cmocka_unit_test(a_failed_handler_shows_that_workers_work),
                cmocka_unit_test(
                        handlers_count_when_asked_and_waiting_claims_are_served_by_the_probe),
                cmocka_unit_test(a_queue_and_a_target_of_one_name_are_asked_once),
                cmocka_unit_test(many_jobs_are_let_go_in_steps_when_it_closes),
                cmocka_unit_test(breakers_are_listed_by_name),
                cmocka_unit_test(bad_input_gets_a_clear_error_and_changes_nothing),
                cmocka_unit_test(there_may_be_as_many_breakers_as_the_table_says),
                cmocka_unit_test(a_full_disk_refuses_asks_and_takes_reports),
                cmocka_unit_test(a_damaged_body_is_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

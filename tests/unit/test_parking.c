/* Jobs that the gate makes wait: a change of tier, the time they really waited. */
#include "throttle_box.h"

#include <stdio.h>

#include "base/say.h"
#include "core/kernel.h"

/* Short enough for a test: all that is parked returns within a second. */
static void set_up_quick(struct rig *rig, enum gate_mode mode)
{
        struct core_throttle options = {
                .targets = &shop, .n_targets = 1, .ramp_cycles = 1, .ramp_cycle_ns = NS_PER_S};
        policy_init(&options.policy);
        options.policy.mode = mode;
        core_set_throttle(rig->core, &options);
}

static uint64_t claim(struct rig *rig)
{
        char token[RIG_TOKEN];
        return rig_claim(rig, "w", "default", token);
}

#define ok(rig, ...) assert_string_equal(rig_do(rig, __VA_ARGS__), "OK")

/* The log is read again, and nothing is different. */
static void restart(struct rig *rig)
{
        rig_turn(rig);
        assert_true(rig_replays(rig));
        set_up(rig, MODE_ENFORCE);
        state_check(&rig->core->state);
        rig_turn(rig);
}

static void park_one(struct rig *rig, const char *hook)
{
        init(rig, MODE_OFF);
        ok(rig, "THROTTLE", "PAUSE");
        rig_do(rig, "ENQUEUE", hook, "1");
        assert_int_equal(claim(rig), 0);
}

/* ---- a change of tier ---- */

static void a_hook_that_becomes_critical_runs_although_it_was_parked(void **unused)
{
        (void)unused;
        struct rig rig;
        park_one(&rig, "acme_pay");
        ok(&rig, "REGISTRYSET", "acme_*", "critical");
        rig_turn(&rig);
        has_not(rig_do(&rig, "WHY", "1"), "code:'gate'");
        assert_int_equal(claim(&rig), 1);
        has(rig_do(&rig, "EVENTS", "1"), "tier critical need not wait");
        has_not(rig_do(&rig, "EVENTS", "1"), "event:'deferred' worker:'' message:'tier critical");
        restart(&rig);
        rig_release(&rig);
}

static void a_tier_that_waits_less_shortens_the_wait(void **unused)
{
        (void)unused;
        struct rig rig;
        park_one(&rig, "klaviyo_sync"); /* deferrable: 60 min */
        rig_pass_ms(&rig, 60000);
        ok(&rig, "REGISTRYSET", "klaviyo_*", "high");
        rig_turn(&rig);
        has(rig_do(&rig, "WHY", "1"), "parked for 4 min more");
        has(rig_do(&rig, "THROTTLE", "STATUS"), "tier:'high' parked:1");
        /* One that waits longer does not make it wait longer than it was told. */
        ok(&rig, "REGISTRYSET", "klaviyo_*", "normal");
        rig_turn(&rig);
        has(rig_do(&rig, "WHY", "1"), "parked for 4 min more");
        has(rig_do(&rig, "THROTTLE", "STATUS"), "tier:'normal' parked:1");
        ok(&rig, "REGISTRYUNSET", "klaviyo_*");
        rig_turn(&rig);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "tier:'deferrable' parked:1");
        restart(&rig);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "tier:'deferrable' parked:1");
        rig_release(&rig);
}

static void a_wait_that_would_be_over_by_its_new_tier_is_over(void **unused)
{
        (void)unused;
        struct rig rig;
        park_one(&rig, "klaviyo_sync");
        rig_pass_ms(&rig, 10 * 60000);
        ok(&rig, "REGISTRYSET", "klaviyo_*", "high");
        rig_turn(&rig);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "tier:'high' parked:0");
        assert_int_equal(claim(&rig), 0); /* and it is asked again: the pause is still on */
        has(rig_do(&rig, "WHY", "1"), "parked for 5 min more");
        rig_release(&rig);
}

static void a_setting_of_the_matrix_judges_again(void **unused)
{
        (void)unused;
        struct rig rig;
        park_one(&rig, "anything");
        ok(&rig, "SETTINGSET", "throttle.delay.critical.normal", "60s");
        rig_turn(&rig);
        has(rig_do(&rig, "WHY", "1"), "parked for 1 min more");
        ok(&rig, "SETTINGSET", "throttle.delay.critical.normal", "0s");
        rig_turn(&rig);
        assert_int_equal(claim(&rig), 1);
        rig_release(&rig);
}

static void a_configuration_that_is_read_again_judges_again(void **unused)
{
        (void)unused;
        static const struct registry_entry own[] = {{SLICE_LIT("acme_*"), TIER_CRITICAL}};
        struct rig rig;
        park_one(&rig, "acme_pay");
        struct core_throttle options = {
                .targets = &shop, .n_targets = 1, .registry = own, .n_registry = 1};
        policy_init(&options.policy);
        core_set_throttle(rig.core, &options);
        rig_turn(&rig);
        assert_int_equal(claim(&rig), 1);
        rig_release(&rig);
}

/* The file may have been changed while weir was down. */
static void a_tier_that_changed_over_a_restart_judges_again(void **unused)
{
        (void)unused;
        static const struct registry_entry own[] = {{SLICE_LIT("acme_*"), TIER_CRITICAL}};
        struct rig rig;
        park_one(&rig, "acme_pay");
        rig_turn(&rig);
        rig_restart(&rig);
        struct core_throttle options = {
                .targets = &shop, .n_targets = 1, .registry = own, .n_registry = 1};
        policy_init(&options.policy);
        core_set_throttle(rig.core, &options);
        sample_for(&rig, 1, 1);
        assert_int_equal(claim(&rig), 1);
        rig_release(&rig);
}

static void many_parked_jobs_are_judged_in_steps(void **unused)
{
        (void)unused;
        enum { JOBS = 3 * CORE_TURN_STEPS + 7 };
        struct rig rig;
        init(&rig, MODE_OFF);
        ok(&rig, "THROTTLE", "PAUSE");
        for (int i = 0; i < JOBS; i++)
                rig_do(&rig, "ENQUEUE", i % 2 ? "acme_pay" : "other", "");
        while (rig.core->state.n_parked[TIER_NORMAL] < JOBS)
                assert_int_equal(claim(&rig), 0);
        ok(&rig, "REGISTRYSET", "acme_*", "critical");
        has(rig_do(&rig, "WHY", rig_number(JOBS - 1)),
            "; tier critical runs now: weir lets it go'");
        has_not(rig_do(&rig, "WHY", rig_number(JOBS - 1)), "ramp");
        /* A step may look at no more than it is allowed to. */
        size_t before = JOBS;
        for (int turns = 0; before > JOBS - JOBS / 2; turns++) {
                assert_true(turns < 8);
                rig_turn(&rig);
                size_t now = rig.core->state.n_parked[TIER_NORMAL];
                assert_true(before - now <= CORE_TURN_STEPS);
                before = now;
                if (turns == 1) /* in the middle of it: none is forgotten */
                        ok(&rig, "REGISTRYSET", "more_*", "critical");
                if (turns == 1) /* one that it stands on may end */
                        for (uint64_t id = 1; id < 200; id++)
                                rig_do(&rig, "CANCEL", rig_number(JOBS / 2 + id));
        }
        for (int i = 0; i < 10; i++)
                rig_turn(&rig);
        state_check(&rig.core->state);
        rig_do(&rig, "ENQUEUE", "more_pay", "");
        for (uint64_t id; (id = claim(&rig));)
                assert_true(id % 2 == 0 || id == JOBS + 1);
        assert_true(core_next_ns(rig.core) > rig.now.steady_ns); /* it is over */
        rig_release(&rig);
}

/* A change for one hook is no reason to send all that returns at once. */
static void what_a_ramp_brings_back_stays_with_it(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        for (int i = 0; i < 30; i++)
                rig_do(&rig, "ENQUEUE", i < 20 ? "klaviyo_sync" : "acme_pay", "");
        assert_int_equal(claim(&rig), 0);
        sample_for(&rig, 1, 31);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "ramp:{running:true");
        size_t parked = rig.core->state.n_parked[TIER_DEFERRABLE];
        ok(&rig, "REGISTRYSET", "other_*", "critical");
        ok(&rig, "REGISTRYSET", "klaviyo_*", "high");
        rig_turn(&rig);
        assert_int_equal(rig.core->state.n_parked[TIER_HIGH], parked);
        rig_release(&rig);
}

/* ---- how long a job really waited ---- */

static void only_time_that_really_passed_counts_as_waiting(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        set_up_quick(&rig, MODE_OFF);
        rig_turn(&rig);
        ok(&rig, "SETTINGSET", "throttle.delay.critical.normal", "60s");
        ok(&rig, "SETTINGSET", "throttle.max_deferral", "100s");
        rig_do(&rig, "ENQUEUE", "anything", "");
        int rounds = 0;
        for (; rounds < 60; rounds++) {
                ok(&rig, "THROTTLE", "PAUSE");
                if (claim(&rig))
                        break;
                ok(&rig, "THROTTLE", "RESUME");
                rig_turn(&rig);
                rig_pass_ms(&rig, 5000);
        }
        /* The ramp brings it back within a second, so each round is a wait of at most that. */
        assert_int_equal(rounds, 60);
        rig_release(&rig);
}

static void a_job_that_waited_long_enough_runs(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_OFF);
        ok(&rig, "SETTINGSET", "throttle.delay.critical.normal", "60s");
        ok(&rig, "SETTINGSET", "throttle.max_deferral", "100s");
        ok(&rig, "THROTTLE", "PAUSE");
        rig_do(&rig, "ENQUEUE", "anything", "");
        assert_int_equal(claim(&rig), 0);
        rig_pass_ms(&rig, 60001);
        restart(&rig);
        ok(&rig, "THROTTLE", "PAUSE");
        assert_int_equal(claim(&rig), 0);
        has(rig_do(&rig, "WHY", "1"), "parked for 40 s more");
        rig_pass_ms(&rig, 39000);
        assert_int_equal(claim(&rig), 0);
        rig_pass_ms(&rig, 1001);
        assert_int_equal(claim(&rig), 1);
        has(rig_do(&rig, "JOB", "1"), "deferred_ms:100000");
        rig_release(&rig);
}

/* Time in which it was due and no worker came is not the gate's. */
static void waiting_for_a_worker_does_not_count(void **unused)
{
        (void)unused;
        struct rig rig;
        park_one(&rig, "anything"); /* 15 min */
        rig_pass_ms(&rig, 40 * 60000);
        assert_int_equal(claim(&rig), 0);
        has(rig_do(&rig, "WHY", "1"), "deferred for 15 min in all");
        rig_release(&rig);
}

static void the_time_so_far_is_told_while_it_waits(void **unused)
{
        (void)unused;
        struct rig rig;
        park_one(&rig, "anything");
        rig_pass_ms(&rig, 120000);
        has(rig_do(&rig, "JOB", "1"), "deferred_ms:120000");
        ok(&rig, "CANCEL", "1");
        has(rig_do(&rig, "JOB", "1"), "deferred_ms:120000"); /* and it is what history gets */
        rig_release(&rig);
}

/* Steady time stands still while weir is down, for this as for everything. */
static void time_while_weir_is_down_does_not_count(void **unused)
{
        (void)unused;
        struct rig rig;
        park_one(&rig, "anything");
        rig_pass_ms(&rig, 60000);
        rig_do(&rig, "ENQUEUE", "other", ""); /* the log knows what time it is */
        rig_turn(&rig);
        rig.now.wall_ms += 3600000;
        restart(&rig);
        has(rig_do(&rig, "JOB", "1"), "deferred_ms:60000");
        assert_int_equal(claim(&rig), 0); /* its time is over, and the pause goes on */
        assert_int_equal(claim(&rig), 0);
        has(rig_do(&rig, "WHY", "1"), "deferred for 1 min in all");
        rig_release(&rig);
}

/* The cleaner writes the job again, with when its wait began. */
static void a_full_record_keeps_when_the_wait_began(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rng dice;
        rng_init_seed(&dice, 5);
        park_one(&rig, "anything");
        rig_pass_ms(&rig, 60000);
        for (int i = 0; i < 40; i++) {
                rig_fall_behind(&rig, &dice);
                rig_turn(&rig);
        }
        restart(&rig);
        has(rig_do(&rig, "JOB", "1"), "deferred_ms:60000");
        rig_release(&rig);
}

/* Older logs hold the planned total and no beginning of the wait: the total stays as it is. */
static void an_old_record_keeps_its_total(void **unused)
{
        (void)unused;
        struct rig rig;
        park_one(&rig, "anything");
        struct job *job = state_job(&rig.core->state, 1);
        struct job_options old = {.deferred_ms = 900000, .parked = 1 + TIER_NORMAL};
        size_t weight = job_weight(job), packed = job->extra->packed.len;
        job_set_options(job, &old);
        rig.core->state.live_bytes += job_weight(job) - weight;
        job->queue->job_bytes += job_weight(job) - weight;
        rig.core->state.option_bytes += job->extra->packed.len - packed;
        rig_pass_ms(&rig, 60000);
        has(rig_do(&rig, "JOB", "1"), "deferred_ms:900000");
        ok(&rig, "THROTTLE", "RESUME");
        rig_turn(&rig);
        rig_pass_ms(&rig, 60000);
        assert_int_equal(claim(&rig), 1);
        has(rig_do(&rig, "JOB", "1"), "deferred_ms:900000");
        rig_release(&rig);
}

/* ---- the ramp ---- */

/* The level has fallen, and the ramp has let the first third go. */
static void begin_to_return(struct rig *rig, int jobs, const char *hook)
{
        init(rig, MODE_ENFORCE);
        sample(rig, 150);
        for (int i = 0; i < jobs; i++)
                rig_do(rig, "ENQUEUE", hook, "");
        assert_int_equal(claim(rig), 0);
        sample_for(rig, 1, 31);
        has(rig_do(rig, "THROTTLE", "STATUS"), "ramp:{running:true cycle:1 ");
}

static void what_the_ramp_has_let_go_has_its_own_count(void **unused)
{
        (void)unused;
        struct rig rig;
        begin_to_return(&rig, 30, "anything");
        has(rig_do(&rig, "THROTTLE", "STATUS"), "tier:'normal' parked:20 deferred:30 would_defer:0 "
                                                "released:10 delay_ms:0 returning:10");
        has(rig_do(&rig, "NOW"), "returning:{critical:0 high:0 normal:10 deferrable:0]");
        has(rig_do(&rig, "JOBCOUNTS"), "parked:20 returning:10");
        restart(&rig);
        has(rig_do(&rig, "JOBCOUNTS"), "parked:20 returning:10");
        sample_for(&rig, 1, 62); /* due by now; a new ramp has begun with the rest */
        assert_true(rig.core->state.n_returning[TIER_NORMAL] <= 10);
        for (int i = 0; i < 200; i++) {
                sample_for(&rig, 1, 1);
                (void)claim(&rig); /* none is fine */
        }
        assert_int_equal(rig.core->state.n_returning[TIER_NORMAL], 0);
        rig_release(&rig);
}

static void why_tells_what_the_ramp_does_with_a_job(void **unused)
{
        (void)unused;
        struct rig rig;
        begin_to_return(&rig, 30, "anything");
        const char *why = rig_do(&rig, "WHY", "10");
        has(why, "code:'ramp' message:'the ramp has let it go: it is due in ");
        has_not(why, "schedule");
        has_not(why, "not_before_ms:0");
        has(rig_do(&rig, "EVENTS", "10"), "event:'returning'");
        has(rig_do(&rig, "EVENTS", "10"), "message:'let go by the ramp; the level is normal'");
        has_not(rig_do(&rig, "EVENTS", "10"), "message:'released by the ramp");
        has(rig_do(&rig, "WHY", "30"), "; the level is normal now, and the ramp brings it back "
                                       "within 3 min'");
        /* A level that rises stops the ramp, and nothing promises it any more. */
        sample(&rig, 150);
        has_not(rig_do(&rig, "WHY", "30"), "the ramp");
        has(rig_do(&rig, "WHY", "10"), "code:'gate' message:'critical load on shop");
        rig_release(&rig);
}

static void new_jobs_of_a_hook_do_not_overtake_those_that_return(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        uint64_t last = 0, started = 0;
        begin_to_return(&rig, 30, "anything");
        rig_do(&rig, "ENQUEUE", "another", ""); /* 31: another hook need not wait */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 31);
        ok(&rig, "COMPLETE", "31", token);
        rig_do(&rig, "ENQUEUE", "anything", "", "TIER", "high"); /* 32: nor another tier */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 32);
        ok(&rig, "COMPLETE", "32", token);
        rig_do(&rig, "ENQUEUE", "anything", ""); /* 33 */
        assert_int_equal(claim(&rig), 0);
        has(rig_do(&rig, "WHY", "33"), "jobs of its hook return before it");
        for (int s = 0; s < 400; s++) {
                if (s < 300) /* 34 ... and one more each second */
                        rig_do(&rig, "ENQUEUE", "anything", "");
                sample_for(&rig, 1, 1);
                for (uint64_t id; (id = rig_claim(&rig, "w", "default", token)); started++) {
                        assert_true(id > last);
                        last = id;
                        ok(&rig, "COMPLETE", rig_number(id), token);
                }
                /* The ramp takes 3 min; a minute after it nobody waits for it any more. */
                if (s > 242 && s < 300)
                        assert_int_equal(last, 33 + s + 1);
        }
        assert_int_equal(started, 30 + 1 + 300);
        rig_release(&rig);
}

static void a_long_ramp_is_worked_off_in_steps(void **unused)
{
        (void)unused;
        enum { JOBS = 4 * CORE_TURN_STEPS };
        struct rig rig;
        rig_init(&rig);
        set_up_quick(&rig, MODE_OFF);
        rig_turn(&rig);
        ok(&rig, "THROTTLE", "PAUSE");
        for (int i = 0; i < JOBS; i++)
                rig_do(&rig, "ENQUEUE", "anything", "");
        while (rig.core->state.n_parked[TIER_NORMAL] < JOBS)
                assert_int_equal(claim(&rig), 0);
        ok(&rig, "THROTTLE", "RESUME");
        for (size_t left = JOBS; left;) {
                assert_true(core_next_ns(rig.core) <= rig.now.steady_ns);
                rig_turn(&rig);
                size_t now = rig.core->state.n_parked[TIER_NORMAL];
                assert_true(now < left && left - now <= CORE_TURN_STEPS);
                left = now;
        }
        rig_pass_ms(&rig, 1000);
        for (int i = 0; i < 4; i++)
                rig_turn(&rig);
        assert_int_equal(rig.core->state.n_returning[TIER_NORMAL], 0);
        rig_release(&rig);
}

/* ---- jobs that expire ---- */

/* A deferrable job with this end, in a storm that goes on; the second at which it starts. */
static int starts_at_s(struct rig *rig, const char *expires, int seconds)
{
        char token[RIG_TOKEN];
        init(rig, MODE_ENFORCE);
        sample(rig, 150);
        rig_do(rig, "ENQUEUE", "klaviyo_sync", "", "EXPIRES", expires);
        for (int s = 0; s < seconds; s++) {
                if (rig_claim(rig, "w", "default", token) == 1)
                        return s;
                sample_for(rig, 150, 1);
        }
        return -1;
}

static void a_job_that_expires_waits_and_starts_just_before(void **unused)
{
        (void)unused;
        static const struct {
                const char *expires;
                int starts_s;
        } rows[] = {
                {"600000", 540},   /* 10 min: a tenth is a minute */
                {"1800000", 1740}, /* 30 min: a minute */
                {"3480000", 3420}, /* 58 min, and the delay is 60 */
                {"100000", 90},    /* a tenth */
                {"10000", 9},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct rig rig;
                assert_int_equal(starts_at_s(&rig, rows[i].expires, 3600), rows[i].starts_s);
                has(rig_do(&rig, "EVENTS", "1"), " and then starts, ");
                has(rig_do(&rig, "EVENTS", "1"), " before it expires");
                rig_release(&rig);
        }
}

static void a_job_that_expires_after_its_delay_waits_as_any_other(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        rig_do(&rig, "ENQUEUE", "klaviyo_sync", "", "EXPIRES", "7200000");
        assert_int_equal(claim(&rig), 0);
        has(rig_do(&rig, "WHY", "1"), "tier deferrable waits 1 h'");
        /* After it an hour is left, and so is the gate. */
        sample_for(&rig, 150, 3601);
        assert_int_equal(claim(&rig), 0);
        has(rig_do(&rig, "WHY", "1"), "waits 58 min 59 s and then starts, 1 min before it expires");
        restart(&rig);
        has(rig_do(&rig, "WHY", "1"), " and then starts, ");
        sample_for(&rig, 150, 3539);
        assert_int_equal(claim(&rig), 1);
        rig_release(&rig);
}

static void a_tier_may_be_left_to_expire(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        ok(&rig, "SETTINGSET", "throttle.expiry.deferrable", "expire");
        sample(&rig, 150);
        rig_do(&rig, "ENQUEUE", "klaviyo_sync", "", "EXPIRES", "600000");
        rig_do(&rig, "ENQUEUE", "anything", "", "EXPIRES", "600000");
        assert_int_equal(claim(&rig), 0);
        has(rig_do(&rig, "EVENTS", "1"), "tier deferrable waits 1 h; it expires before that");
        sample_for(&rig, 150, 541);
        assert_int_equal(claim(&rig), 2); /* normal: as without that setting */
        sample_for(&rig, 150, 60);
        has(rig_do(&rig, "JOB", "1"), "status:'canceled'");
        starts_with(rig_do(&rig, "SETTINGSET", "throttle.expiry.deferrable", "never"), "!BADARG");
        starts_with(rig_do(&rig, "SETTINGSET", "throttle.expiry.critical", "expire"), "!NOTFOUND");
        rig_release(&rig);
}

static void the_time_before_the_end_can_be_set(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        ok(&rig, "SETTINGSET", "throttle.expiry_margin", "10s");
        sample(&rig, 150);
        rig_do(&rig, "ENQUEUE", "klaviyo_sync", "", "EXPIRES", "600000");
        assert_int_equal(claim(&rig), 0);
        has(rig_do(&rig, "WHY", "1"), "waits 9 min 50 s and then starts, 10 s before it expires");
        starts_with(rig_do(&rig, "SETTINGSET", "throttle.expiry_margin", "0s"), "!BADARG");
        starts_with(rig_do(&rig, "SETTINGSET", "throttle.expiry_margin", "2d"), "!BADARG");
        rig_release(&rig);
}

static void the_ramp_does_not_make_a_job_expire(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        for (int i = 0; i < 60; i++) /* a third of these is spread over a minute */
                rig_do(&rig, "ENQUEUE", "anything", "", "EXPIRES", "41000");
        assert_int_equal(claim(&rig), 0);
        sample_for(&rig, 1, 31);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "ramp:{running:true cycle:1 ");
        size_t started = 0;
        for (int s = 0; s < 12; s++) {
                started += rig_claim_many(&rig, "default");
                sample_for(&rig, 1, 1);
        }
        assert_int_equal(started, 60);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_hook_that_becomes_critical_runs_although_it_was_parked),
                cmocka_unit_test(a_tier_that_waits_less_shortens_the_wait),
                cmocka_unit_test(a_wait_that_would_be_over_by_its_new_tier_is_over),
                cmocka_unit_test(a_setting_of_the_matrix_judges_again),
                cmocka_unit_test(a_configuration_that_is_read_again_judges_again),
                cmocka_unit_test(a_tier_that_changed_over_a_restart_judges_again),
                cmocka_unit_test(many_parked_jobs_are_judged_in_steps),
                cmocka_unit_test(what_a_ramp_brings_back_stays_with_it),
                cmocka_unit_test(only_time_that_really_passed_counts_as_waiting),
                cmocka_unit_test(a_job_that_waited_long_enough_runs),
                cmocka_unit_test(waiting_for_a_worker_does_not_count),
                cmocka_unit_test(the_time_so_far_is_told_while_it_waits),
                cmocka_unit_test(time_while_weir_is_down_does_not_count),
                cmocka_unit_test(a_full_record_keeps_when_the_wait_began),
                cmocka_unit_test(an_old_record_keeps_its_total),
                cmocka_unit_test(what_the_ramp_has_let_go_has_its_own_count),
                cmocka_unit_test(why_tells_what_the_ramp_does_with_a_job),
                cmocka_unit_test(new_jobs_of_a_hook_do_not_overtake_those_that_return),
                cmocka_unit_test(a_long_ramp_is_worked_off_in_steps),
                cmocka_unit_test(a_job_that_expires_waits_and_starts_just_before),
                cmocka_unit_test(a_job_that_expires_after_its_delay_waits_as_any_other),
                cmocka_unit_test(a_tier_may_be_left_to_expire),
                cmocka_unit_test(the_time_before_the_end_can_be_set),
                cmocka_unit_test(the_ramp_does_not_make_a_job_expire),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

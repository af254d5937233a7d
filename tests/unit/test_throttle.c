/* The gate in the core: levels from samples, deferral by tier, the ramp, pause, modes, restarts. */
#include "throttle_box.h"

#include <math.h>
#include <stdio.h>

#include "base/say.h"
#include "core/kernel.h"

static void restart(struct rig *rig, enum gate_mode mode)
{
        rig_turn(rig);
        assert_true(rig_replays(rig));
        set_up(rig, mode);
        state_check(&rig->core->state);
        rig_turn(rig);
}

static void add_all_tiers(struct rig *rig)
{
        rig_do(rig, "ENQUEUE", "klaviyo_sync", "");                /* 1 deferrable */
        rig_do(rig, "ENQUEUE", "anything", "");                    /* 2 normal */
        rig_do(rig, "ENQUEUE", "wcs_renew", "");                   /* 3 high */
        rig_do(rig, "ENQUEUE", "woocommerce_payment_webhook", ""); /* 4 critical */
}

static void complete(struct rig *rig, uint64_t id, const char *token)
{
        assert_string_equal(rig_do(rig, "COMPLETE", rig_number(id), token), "OK");
}

static void a_calm_database_defers_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        sample_for(&rig, 2, 3);
        add_all_tiers(&rig);
        for (uint64_t id = 1; id <= 4; id++)
                assert_int_equal(rig_claim(&rig, "w", "default", token), id);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'normal'");
        rig_release(&rig);
}

static void a_storm_lets_payments_through_and_parks_the_rest(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        add_all_tiers(&rig);
        sample(&rig, 150);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'critical'");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 4);
        complete(&rig, 4, token);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        const char *status = rig_do(&rig, "THROTTLE", "STATUS");
        has(status, "metric:'threads_running' value:'150' threshold:'15'");
        has(status, "tier:'deferrable' parked:1 deferred:1");
        has(status, "tier:'high' parked:1 deferred:1");
        has(rig_do(&rig, "WHY", "1"), "code:'gate'");
        has(rig_do(&rig, "EVENTS", "2"),
            "critical load on shop: threads_running 150 against 15; tier normal waits 15 min");
        has(rig_do(&rig, "JOB", "2"), "attempt:0 ");
        restart(&rig, MODE_ENFORCE);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "tier:'high' parked:1");
        rig_release(&rig);
}

static void parked_jobs_come_back_at_their_time(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        add_all_tiers(&rig);
        sample(&rig, 8); /* elevated: normal 5 min, deferrable 15 */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 3);
        complete(&rig, 3, token);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 4);
        complete(&rig, 4, token);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "WHY", "2"), "parked for 5 min more: elevated load on shop");
        has(rig_do(&rig, "WHY", "1"), "parked for 15 min more: elevated load on shop");
        /* Still elevated: asked again, and deferred again. */
        sample_for(&rig, 8, 301);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "JOB", "2"), "deferred_ms:300000");
        rig_release(&rig);
}

static void the_ramp_brings_them_back_when_the_level_falls(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        int started = 0, most = 0;
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        for (int i = 0; i < 90; i++)
                rig_do(&rig, "ENQUEUE", i % 3 ? "anything" : "klaviyo_sync", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        sample_for(&rig, 150, 60);
        sample_for(&rig, 1, 29);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'critical'"); /* it dwells */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        for (int s = 0; s < 240; s++) {
                int now = 0;
                sample_for(&rig, 1, 1);
                for (uint64_t id; (id = rig_claim(&rig, "w", "default", token)); now++)
                        complete(&rig, id, token);
                started += now;
                if (now > most)
                        most = now;
        }
        assert_int_equal(started, 90);
        assert_true(most <= 15); /* spread, no second spike */
        has(rig_do(&rig, "THROTTLE", "HISTORY"), "ramp_ended");
        rig_release(&rig);
}

static int start_all(struct rig *rig, double value, int seconds)
{
        char token[RIG_TOKEN];
        int started = 0;
        for (int s = 0; s < seconds; s++) {
                sample_for(rig, value, 1);
                for (uint64_t id; (id = rig_claim(rig, "w", "default", token)); started++)
                        complete(rig, id, token);
        }
        return started;
}

static void park_thirty(struct rig *rig)
{
        char token[RIG_TOKEN];
        init(rig, MODE_ENFORCE);
        sample(rig, 150);
        for (int i = 0; i < 30; i++)
                rig_do(rig, "ENQUEUE", "klaviyo_sync", "");
        assert_int_equal(rig_claim(rig, "w", "default", token), 0);
        has(rig_do(rig, "THROTTLE", "STATUS"), "tier:'deferrable' parked:30");
}

static void a_ramp_that_a_restart_ended_begins_again(void **unused)
{
        (void)unused;
        struct rig rig;
        park_thirty(&rig);
        sample_for(&rig, 1, 31);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "ramp:{running:true");
        restart(&rig, MODE_ENFORCE);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "ramp:{running:false"); /* nothing is known yet */
        assert_int_equal(start_all(&rig, 1, 240), 30);
        has(rig_do(&rig, "THROTTLE", "HISTORY"), "20 parked jobs return over 3 cycles");
        rig_release(&rig);
}

static void a_restart_in_a_storm_brings_nothing_back_before_it_is_over(void **unused)
{
        (void)unused;
        struct rig rig;
        park_thirty(&rig);
        restart(&rig, MODE_ENFORCE);
        assert_int_equal(start_all(&rig, 8, 10), 0); /* elevated: deferrable jobs wait */
        has_not(rig_do(&rig, "THROTTLE", "HISTORY"), "ramp_started");
        has(rig_do(&rig, "THROTTLE", "STATUS"), "tier:'deferrable' parked:30");
        assert_int_equal(start_all(&rig, 1, 240), 30);
        rig_release(&rig);
}

static void a_fall_to_a_level_where_all_that_is_parked_waits_too_is_no_ramp(void **unused)
{
        (void)unused;
        struct rig rig;
        park_thirty(&rig);
        sample_for(&rig, 8, 31);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'elevated'");
        has_not(rig_do(&rig, "THROTTLE", "HISTORY"), "ramp_");
        rig_release(&rig);
}

static void a_rise_stops_the_ramp(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        for (int i = 0; i < 30; i++)
                rig_do(&rig, "ENQUEUE", "klaviyo_sync", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        sample_for(&rig, 1, 32);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "ramp:{running:true");
        sample(&rig, 150);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "ramp:{running:false");
        has(rig_do(&rig, "THROTTLE", "HISTORY"), "ramp_stopped");
        rig_release(&rig);
}

/* The same inputs in both modes: enforce does exactly what observe had announced. */
/* Is an event told as it happens that says this? */
struct seen {
        const char *part;
        bool is_seen;
};

static void look_at(void *ctx, const struct core_event *e)
{
        struct seen *s = ctx;
        s->is_seen |= strstr(e->text, s->part) != NULL;
}

static void observe_announces_what_enforce_does(void **unused)
{
        (void)unused;
        static const double values[] = {2, 6, 20, 8, 2, 150, 1};
        char would[64 * 24] = "", did[64 * 24] = "";
        for (int round = 0; round < 2; round++) {
                struct rig rig;
                char token[RIG_TOKEN];
                char *out = round ? did : would;
                init(&rig, round ? MODE_ENFORCE : MODE_OBSERVE);
                for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                        size_t before = strlen(out);
                        sample(&rig, values[i]);
                        uint64_t first = rig.core->state.next_id;
                        add_all_tiers(&rig);
                        for (uint64_t id; (id = rig_claim(&rig, "w", "default", token));)
                                complete(&rig, id, token);
                        for (uint64_t id = first; id < first + 4; id++) {
                                char part[64];
                                (void)snprintf(part, sizeof(part), "job %llu ",
                                               (unsigned long long)id);
                                struct seen seen = {.part = part};
                                core_each_event(rig.core, 0, UINT64_MAX, look_at, &seen);
                                if (seen.is_seen)
                                        (void)snprintf(out + strlen(out), 24, "%llu,",
                                                       (unsigned long long)id);
                        }
                        assert_true(round || strlen(out) >= before);
                }
                has(rig_do(&rig, "THROTTLE", "STATUS"),
                    round ? "would_defer:0" : "deferred:0 would_defer:");
                rig_release(&rig);
        }
        assert_string_equal(would, did);
        assert_true(strlen(would) > 0);
}

static void an_unknown_load_has_its_own_meaning(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        sample(&rig, 2);
        rig_pass_ms(&rig, 6000); /* the sample is stale */
        core_sample(rig.core, 0, 0, 0, rig.now.steady_ns, SAMPLE_FAILED,
                    SLICE_LIT("connection refused"));
        add_all_tiers(&rig);
        const char *status = rig_do(&rig, "THROTTLE", "STATUS");
        has(status, "level:'unknown'");
        has(status, "error:'connection refused'");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 3);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 4);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_release(&rig);
}

static void fail_for(struct rig *rig, int seconds)
{
        for (int i = 0; i < seconds; i++) {
                rig_pass_ms(rig, 1000);
                core_sample(rig->core, 0, 0, 0, rig->now.steady_ns, SAMPLE_FAILED,
                            SLICE_LIT("too many connections"));
        }
        rig_turn(rig);
}

/* An overloaded database is the one that does not answer its probe. */
static void what_critical_held_stays_held_while_nobody_answers(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        sample(&rig, 20);
        rig_do(&rig, "ENQUEUE", "wcs_early", "", "QUEUE", "early");
        assert_int_equal(rig_claim(&rig, "w", "early", token), 0);
        fail_for(&rig, 20);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "level:'unknown'");
        add_all_tiers(&rig);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 5);
        complete(&rig, 5, token);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        const char *held = rig_do(&rig, "THROTTLED");
        has(held, "unknown load on shop, critical before: threads_running 20 s old");
        has(held, "tier high waits 5 min");
        has(held, "tier normal waits 15 min");
        has(held, "tier deferrable waits 1 h");
        const char *status = rig_do(&rig, "THROTTLE", "STATUS");
        has(status, "tier:'high' parked:2");
        has(status, "claim_size:1 claims:1");
        has_not(status, "ramp:(running:true");
        /* As long as critical delays the tier high. */
        int64_t left_ms = 300 * MS_PER_S - 19 * MS_PER_S;
        rig_pass_ms(&rig, left_ms - 1);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "claim_size:1 claims:1");
        assert_int_equal(throttle_feature.next_ns(rig.core), rig.now.steady_ns + NS_PER_MS);
        rig_pass_ms(&rig, 1);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "claim_size:0 claims:0");
        has(rig_do(&rig, "THROTTLE", "HISTORY"), "parked job returns over");
        rig_do(&rig, "ENQUEUE", "wcs_late", "", "QUEUE", "late");
        assert_int_equal(rig_claim(&rig, "w", "late", token), 6);
        rig_do(&rig, "ENQUEUE", "anything_late", "", "QUEUE", "normal");
        assert_int_equal(rig_claim(&rig, "w", "normal", token), 0);
        has(rig_do(&rig, "THROTTLED", "COUNT", "1"), "tier normal waits 15 min");
        rig_release(&rig);
}

static void another_target_that_answers_frees_nothing_that_critical_held(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        const struct core_target two[] = {shop,
                                          {.name = "other",
                                           .metrics = &threads_running,
                                           .n_metrics = 1,
                                           .dwell_ns = NS_PER_S,
                                           .mode = MODE_OBSERVE}};
        rig_init(&rig);
        rig_set_gate(&rig, two, ARRAY_LEN(two), MODE_ENFORCE, MODE_ENFORCE);
        rig_turn(&rig);
        rig_sample(&rig, 1, 0, 6);
        sample(&rig, 20);
        fail_for(&rig, 1);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "observed_level:'elevated'");
        rig_do(&rig, "ENQUEUE", "wcs_renew", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_release(&rig);
}

static void only_silence_leaves_the_last_value_good_for_a_moment(void **unused)
{
        static const struct {
                enum sample_state states[2];
                const char *level;
        } cases[] = {
                {{SAMPLE_SILENT, SAMPLE_SILENT}, "level:'normal'"},
                {{SAMPLE_FAILED, SAMPLE_FAILED}, "level:'unknown'"},
                {{SAMPLE_SILENT, SAMPLE_FAILED}, "level:'unknown'"},
                {{SAMPLE_FAILED, SAMPLE_SILENT}, "level:'unknown'"}, /* it takes nothing back */
                {{SAMPLE_FAILED, SAMPLE_GOOD}, "level:'unknown'"},   /* dwell is not over */
        };
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct rig rig;
                init(&rig, MODE_ENFORCE);
                sample(&rig, 2);
                for (size_t k = 0; k < 2; k++)
                        core_sample(rig.core, 0, 0, 2, rig.now.steady_ns, cases[i].states[k],
                                    SLICE_LIT("gone"));
                has(rig_do(&rig, "THROTTLESTATUS"), cases[i].level);
                rig_release(&rig);
        }
}

static void a_remark_to_a_good_sample_is_told_until_the_next_one(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        core_sample(rig.core, 0, 0, 2, rig.now.steady_ns, SAMPLE_GOOD,
                    SLICE_LIT("left out: db3: skipped"));
        const char *status = rig_do(&rig, "THROTTLESTATUS");
        has(status, "level:'normal'");
        has(status, "error:'' note:'left out: db3: skipped'");
        core_sample(rig.core, 0, 0, 0, rig.now.steady_ns, SAMPLE_FAILED,
                    SLICE_LIT("connection refused"));
        has(rig_do(&rig, "THROTTLESTATUS"), "error:'connection refused' note:''");
        sample(&rig, 2);
        has(rig_do(&rig, "THROTTLESTATUS"), "error:'' note:''");
        rig_release(&rig);
}

static void a_pause_behaves_as_critical_and_ends_by_itself(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_OFF);
        add_all_tiers(&rig);
        assert_string_equal(rig_do(&rig, "THROTTLE", "PAUSE", "FOR", "60000"), "OK");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 4);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "paused:true pause_left_ms:60000");
        restart(&rig, MODE_OFF);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "paused:true");
        rig_pass_ms(&rig, 60001);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "paused:false");
        rig_do(&rig, "ENQUEUE", "another", ""); /* of a hook that has no job to return */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 5);
        assert_string_equal(rig_do(&rig, "THROTTLE", "PAUSE", "UNTILRESUMED"), "OK");
        rig_pass_ms(&rig, 100000000);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "paused:true pause_left_ms:-1");
        assert_string_equal(rig_do(&rig, "THROTTLE", "RESUME"), "OK");
        has(rig_do(&rig, "THROTTLE", "STATUS"), "paused:false");
        starts_with(rig_do(&rig, "THROTTLE", "PAUSE", "FOR", "1"), "!BADARG");
        starts_with(rig_do(&rig, "THROTTLE", "STOP"), "!BADARG");
        rig_release(&rig);
}

static void the_mode_and_the_registry_survive_a_restart(void **unused)
{
        (void)unused;
        struct rig rig;
        init(&rig, MODE_OFF);
        assert_string_equal(rig_do(&rig, "THROTTLE", "MODE", "SET", "enforce"), "'enforce'");
        assert_string_equal(rig_do(&rig, "REGISTRYSET", "my_*", "critical"), "OK");
        assert_string_equal(rig_do(&rig, "REGISTRYSET", "my_slow_*", "deferrable"), "OK");
        restart(&rig, MODE_OFF);
        assert_string_equal(rig_do(&rig, "THROTTLE", "MODE"), "'enforce'");
        has(rig_do(&rig, "TIER", "my_fast"), "tier:'critical' pattern:'my_*'");
        has(rig_do(&rig, "TIER", "my_slow_one"), "tier:'deferrable' pattern:'my_slow_*'");
        has(rig_do(&rig, "TIER", "nofraud_check"), "tier:'critical' pattern:'nofraud_*'");
        has(rig_do(&rig, "TIER", "unheard_of"), "tier:'normal' pattern:''");
        has(rig_do(&rig, "TIER", "wcs_own"), "tier:'deferrable' pattern:'wcs_own'");
        assert_string_equal(rig_do(&rig, "REGISTRYUNSET", "my_*"), "OK");
        has(rig_do(&rig, "TIER", "my_fast"), "tier:'normal'");
        starts_with(rig_do(&rig, "REGISTRYUNSET", "my_*"), "!NOTFOUND");
        starts_with(rig_do(&rig, "REGISTRYSET", "x", "urgent"), "!BADARG");
        rig_release(&rig);
}

static void a_change_of_the_registry_moves_parked_jobs(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        rig_do(&rig, "ENQUEUE", "klaviyo_sync", "");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        assert_string_equal(rig_do(&rig, "REGISTRYSET", "klaviyo_*", "high"), "OK");
        const char *status = rig_do(&rig, "THROTTLE", "STATUS");
        has(status, "tier:'high' parked:1");
        has(status, "tier:'deferrable' parked:0");
        restart(&rig, MODE_ENFORCE);
        has(rig_do(&rig, "THROTTLE", "STATUS"), "tier:'high' parked:1");
        rig_release(&rig);
}

static void a_job_may_bring_its_own_tier(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        sample(&rig, 150);
        rig_do(&rig, "ENQUEUE", "klaviyo_sync", "", "TIER", "critical");
        rig_do(&rig, "ENQUEUE", "nofraud_check", "", "TIER", "deferrable");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        starts_with(rig_do(&rig, "ENQUEUE", "h", "", "TIER", "vip"), "!BADARG");
        rig_release(&rig);
}

static void caps_of_the_level_do_not_stand_before_payments(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session worker;
        char token[RIG_TOKEN];
        init(&rig, MODE_ENFORCE);
        sample(&rig, 8); /* elevated: high runs, five at once */
        for (int i = 0; i < 8; i++)
                rig_do(&rig, "ENQUEUE", "wcs_renew", "");
        rig_do(&rig, "ENQUEUE", "nofraud_check", "");
        for (uint64_t id = 1; id <= 5; id++)
                assert_int_equal(rig_claim(&rig, "w", "default", token), id);
        char payment[RIG_TOKEN];
        assert_int_equal(rig_claim(&rig, "w", "default", payment), 9);
        assert_int_equal(rig_claim(&rig, "w", "default", payment), 0);
        has(rig_do(&rig, "WHY", "6"), "as many jobs run as the level of the load allows");
        /* A worker that waits gets the next when one has ended. */
        rig_session_init(&worker);
        assert_string_equal(
                rig_as(&rig, &worker, "CLAIM", "v", "WAIT", "100000", "QUEUES", "default"),
                "(waits)");
        assert_string_equal(rig_do(&rig, "CANCEL", "1"), "OK");
        assert_string_equal(rig_do(&rig, "CANCEL", "2"), "OK");
        rig_turn(&rig);
        assert_true(worker.is_answered);
        rig_session_release(&rig, &worker);
        sample_for(&rig, 1, 40);
        assert_true(rig_claim(&rig, "w", "default", token) > 0);
        assert_true(rig_claim(&rig, "w", "default", token) > 0);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_release(&rig);
}

static void limits_of_the_gate_hold_at_their_edges(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[32];
        init(&rig, MODE_ENFORCE);
        assert_string_equal(rig_do(&rig, "THROTTLE", "PAUSE", "FOR", "604800000"), "OK");
        starts_with(rig_do(&rig, "THROTTLE", "PAUSE", "FOR", "604800001"), "!BADARG");
        assert_string_equal(rig_do(&rig, "THROTTLE", "RESUME"), "OK");
        struct buf body;
        buf_init(&body, 0);
        buf_put_varint(&body, 0);
        for (int i = 0; i < LIMIT_SETTINGS - 1; i++) { /* each REGISTRYSET builds the registry */
                (void)snprintf(name, sizeof(name), "other.%d", i);
                thing_set(rig.core, THING_SETTING, slice_str(name), buf_slice(&body));
        }
        buf_release(&body);
        rig_turn(&rig);
        assert_string_equal(rig_do(&rig, "REGISTRYSET", "a*", "high"), "OK");
        starts_with(rig_do(&rig, "REGISTRYSET", "b*", "high"), "!LIMIT");
        assert_string_equal(rig_do(&rig, "REGISTRYUNSET", "a*"), "OK");
        assert_string_equal(rig_do(&rig, "REGISTRYSET", "b*", "high"), "OK");
        rig_release(&rig);
}

static void the_adaptive_limit_follows_the_pressure(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        struct core_throttle options = {.targets = &shop, .n_targets = 1, .adaptive = MODE_ENFORCE};
        policy_init(&options.policy);
        zone_rule_init(&options.zone);
        options.zone.start = 4;
        core_set_throttle(rig.core, &options);
        for (int i = 0; i < 20; i++)
                rig_do(&rig, "ENQUEUE", "wcs_renew", "");
        sample_for(&rig, 1, 1);
        for (uint64_t id = 1; id <= 4; id++)
                assert_int_equal(rig_claim(&rig, "w", "default", token), id);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        sample_for(&rig, 1, 6); /* calm: one more */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 5);
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        sample_for(&rig, 20, 60); /* above the threshold: halved, and again */
        has(rig_do(&rig, "THROTTLE", "STATUS"), "adaptive:{mode:'enforce' limit:1 running:5");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 0);
        rig_do(&rig, "ENQUEUE", "nofraud_check", "", "PRIORITY", "1"); /* critical: not limited */
        assert_int_equal(rig_claim(&rig, "w", "default", token), 21);
        has(rig_do(&rig, "THROTTLE", "HISTORY"), "adaptive_limit");
        rig_release(&rig);
}

static void nothing_is_lost_through_a_storm(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        struct rng dice;
        uint64_t done = 0;
        rng_init_seed(&dice, 11);
        init(&rig, MODE_ENFORCE);
        for (int s = 0; s < 4000; s++) {
                double value = s % 1000 < 200 ? 4 + (double)rng_below(&dice, 30)
                                              : (double)rng_below(&dice, 3);
                if (s < 1500 && s % 5 == 0)
                        add_all_tiers(&rig);
                sample_for(&rig, value, 1);
                for (uint64_t id; (id = rig_claim(&rig, "w", "default", token)); done++)
                        complete(&rig, id, token);
                if (s % 700 == 0)
                        restart(&rig, MODE_ENFORCE);
                has_not(rig_do(&rig, "THROTTLE", "STATUS"), "parked:-");
        }
        assert_int_equal(done, 300 * 4);
        rig_release(&rig);
}

static void after_a_restart_a_target_is_unknown_until_it_is_measured(void **state)
{
        (void)state;
        struct rig rig;
        init(&rig, MODE_ENFORCE);
        sample_for(&rig, 1, 3600);           /* steady time is far from 0 */
        rig_do(&rig, "ENQUEUE", "mail", ""); /* and the log knows it */
        rig_turn(&rig);
        rig_restart(&rig);
        rig.core->now = (struct now){0}; /* as at a start: the targets come before the first turn */
        set_up(&rig, MODE_ENFORCE);
        rig_turn(&rig);
        has(rig_do(&rig, "THROTTLESTATUS"), "level:'unknown'");
        has(rig_do(&rig, "THROTTLESTATUS"), "metric:''"); /* its samples are not missed yet */
        rig_pass_ms(&rig, 6000);
        has(rig_do(&rig, "THROTTLESTATUS"), "metric:'threads_running'");
        has(rig_do(&rig, "THROTTLESTATUS"), "level:'unknown'");
        rig_release(&rig);
}

static void a_mode_is_set_without_the_word_set(void **unused)
{
        struct rig rig;
        (void)unused;
        rig_init(&rig);
        set_up(&rig, MODE_OFF);
        assert_string_equal(rig_do(&rig, "THROTTLE", "MODE", "enforce"), "'enforce'");
        assert_string_equal(rig_do(&rig, "THROTTLE", "MODE"), "'enforce'");
        assert_string_equal(rig_do(&rig, "THROTTLE", "mode", "SET", "Observe"), "'observe'");
        assert_string_equal(rig_do(&rig, "THROTTLE", "CHECKMODE", "off"), "'off'");
        has(rig_do(&rig, "THROTTLE", "MODE", "enforced"), "!SYNTAX not understood: 'enforced'");
        has(rig_do(&rig, "THROTTLE", "MODE", "enforce", "SET", "off"),
            "!BADARG set is given twice");
        has(rig_do(&rig, "THROTTLE", "PAUSE", "enforce"), "!BADARG a mode goes with mode and");
        has(rig_do(&rig, "THROTTLE", "MODE", "FOR", "5000"), "!BADARG for goes with pause");
        has(rig_do(&rig, "THROTTLE", "RESUME", "COUNT", "5"), "!BADARG count goes with history");
        assert_string_equal(rig_do(&rig, "THROTTLE", "MODE"), "'observe'");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_mode_is_set_without_the_word_set),
                cmocka_unit_test(after_a_restart_a_target_is_unknown_until_it_is_measured),
                cmocka_unit_test(a_calm_database_defers_nothing),
                cmocka_unit_test(a_storm_lets_payments_through_and_parks_the_rest),
                cmocka_unit_test(parked_jobs_come_back_at_their_time),
                cmocka_unit_test(the_ramp_brings_them_back_when_the_level_falls),
                cmocka_unit_test(a_rise_stops_the_ramp),
                cmocka_unit_test(a_ramp_that_a_restart_ended_begins_again),
                cmocka_unit_test(a_restart_in_a_storm_brings_nothing_back_before_it_is_over),
                cmocka_unit_test(a_fall_to_a_level_where_all_that_is_parked_waits_too_is_no_ramp),
                cmocka_unit_test(observe_announces_what_enforce_does),
                cmocka_unit_test(an_unknown_load_has_its_own_meaning),
                cmocka_unit_test(what_critical_held_stays_held_while_nobody_answers),
                cmocka_unit_test(another_target_that_answers_frees_nothing_that_critical_held),
                cmocka_unit_test(only_silence_leaves_the_last_value_good_for_a_moment),
                cmocka_unit_test(a_remark_to_a_good_sample_is_told_until_the_next_one),
                cmocka_unit_test(a_pause_behaves_as_critical_and_ends_by_itself),
                cmocka_unit_test(the_mode_and_the_registry_survive_a_restart),
                cmocka_unit_test(a_change_of_the_registry_moves_parked_jobs),
                cmocka_unit_test(a_job_may_bring_its_own_tier),
                cmocka_unit_test(caps_of_the_level_do_not_stand_before_payments),
                cmocka_unit_test(limits_of_the_gate_hold_at_their_edges),
                cmocka_unit_test(the_adaptive_limit_follows_the_pressure),
                cmocka_unit_test(nothing_is_lost_through_a_storm),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Doors of the MySQL proxy in the core: what is published when, and what is told.  The threads are
 * made up: they keep what they are given, and count what a test says. */
#include "throttle_box.h"

#include <math.h>
#include <stdio.h>

#include "checks/check_ctx.h"
#include "core/kernel.h"
#include "traffic/traffic.h"
#include "traffic/traffic_state.h"

#define ok(rig, ...) assert_string_equal(rig_do(rig, __VA_ARGS__), "OK")
#define DOORS        2

/* ---- the threads ---- */

static struct fake {
        struct traffic_class classes[ADMIT_CLASSES_MAX];
        struct class_counts counts[ADMIT_CLASSES_MAX];
        struct class_limits limits;
        uint32_t running, waiting;
        struct admit_answer wait; /* of the oldest of each class */
        bool is_enforced;
        size_t n;
        struct door_policy *policy;
        int n_published, n_seen, n_modes;
        int mode;
        bool is_draining;
        struct traffic_client clients[4];
        size_t n_clients;
        struct slice explained;
} fakes[DOORS];

static void publish(void *ctx, size_t door, struct door_policy *policy)
{
        struct fake *f = &((struct fake *)ctx)[door];
        door_policy_unref(f->policy);
        f->policy = policy;
        f->n_published++;
}

static void set_mode(void *ctx, size_t door, enum gate_mode mode)
{
        struct fake *f = &((struct fake *)ctx)[door];
        f->mode = (int)mode;
        f->limits.mode = mode;
        f->n_modes++;
}

static void drain(void *ctx, size_t door, bool is_on)
{
        ((struct fake *)ctx)[door].is_draining = is_on;
}

static void state(void *ctx, size_t door, struct traffic_door *ret)
{
        const struct fake *f = &((struct fake *)ctx)[door];
        *ret = (struct traffic_door){.connections = 7,
                                     .connections_max = 100,
                                     .accepted = 12,
                                     .is_draining = f->is_draining,
                                     .admission = {.running = f->running,
                                                   .waiting = f->waiting,
                                                   .window = 4,
                                                   .is_enforced = f->is_enforced}};
        (void)snprintf(ret->listens, sizeof(ret->listens), "127.0.0.1:3307");
        (void)snprintf(ret->server, sizeof(ret->server), "10.0.0.5:3306");
}

static size_t n_classes(void *ctx, size_t door)
{
        return ((struct fake *)ctx)[door].n;
}

static void each_class(void *ctx, size_t door,
                       void (*fn)(void *fn_ctx, size_t number, const struct traffic_class *c,
                                  const struct class_view *v),
                       void *fn_ctx)
{
        const struct fake *f = &((struct fake *)ctx)[door];
        for (size_t i = 0; i < f->n; i++) {
                const struct class_view v = {.counts = &f->counts[i],
                                             .limits = f->limits,
                                             .running = f->running,
                                             .waiting = f->waiting,
                                             .wait = f->wait};
                fn(fn_ctx, i, &f->classes[i], &v);
        }
}

static size_t clients(void *ctx, size_t door, struct traffic_client *ret, size_t max,
                      bool *ret_more)
{
        const struct fake *f = &((struct fake *)ctx)[door];
        size_t n = f->n_clients < max ? f->n_clients : max;
        memcpy(ret, f->clients, n * sizeof(*ret));
        *ret_more = f->n_clients > max;
        return n;
}

static size_t statements(void *ctx, size_t door, enum traffic_order order,
                         struct traffic_statement *ret, size_t max)
{
        (void)ctx;
        (void)door;
        *ret = (struct traffic_statement){.digest = 0xabc,
                                          .text = "SELECT ?",
                                          .class_number = 0,
                                          .count = 4,
                                          .rows = (uint64_t)order,
                                          .busy_ns = 8 * NS_PER_MS,
                                          .max_ns = 5 * NS_PER_MS};
        return max < 1 ? max : 1;
}

static void explain(void *ctx, size_t door, const struct class_facts *facts, struct slice sql,
                    struct traffic_explained *ret)
{
        struct fake *f = &((struct fake *)ctx)[door];
        *ret = (struct traffic_explained){.class = {.tier = -1, .comment_tier = -1},
                                          .limits = f->limits};
        sql_text_scan(sql, &ret->how.text);
        ret->how.kind = ret->how.text.kind;
        ret->how.can_wait = sql_kind_can_wait(ret->how.kind);
        ret->how.digest = sql_digest(sql, ret->how.digest_text);
        ret->how.source = CLASS_SOURCE_USER;
        (void)snprintf(ret->class.identity, sizeof(ret->class.identity), "%.*s",
                       (int)facts->user.len, facts->user.len ? facts->user.ptr : "");
}

static const struct traffic_threads threads = {.publish = publish,
                                               .set_mode = set_mode,
                                               .drain = drain,
                                               .state = state,
                                               .n_classes = n_classes,
                                               .each_class = each_class,
                                               .clients = clients,
                                               .statements = statements,
                                               .explain = explain,
                                               .ctx = fakes};

/* ---- the bench ---- */

static const struct traffic_options front = {"front", "shop", MODE_ENFORCE};

static size_t add_class(struct rig *rig, const char *identity)
{
        struct fake *f = &fakes[0];
        f->classes[f->n] = (struct traffic_class){.tier = -1, .comment_tier = -1};
        (void)snprintf(f->classes[f->n].identity, sizeof(f->classes[f->n].identity), "%s",
                       identity);
        f->n++;
        traffic_classes_made(rig->core, 0);
        rig_turn(rig);
        f->n_seen = f->n_published;
        return f->n - 1;
}

/* Threads of 7 are elevated, and of 20 critical; checks look at none. */
static void bench(struct rig *rig, double load)
{
        rig_init(rig);
        for (size_t i = 0; i < DOORS; i++)
                door_policy_unref(fakes[i].policy);
        memset(fakes, 0, sizeof(fakes));
        set_up(rig, MODE_OFF);
        core_set_traffic(rig->core, &front, 1, &threads);
        sample_for(rig, load, 2);
}

static void end(struct rig *rig)
{
        rig_release(rig);
        for (size_t i = 0; i < DOORS; i++)
                fakes[i].policy = door_policy_unref(fakes[i].policy);
}

static const struct class_verdicts *verdicts(size_t number)
{
        const struct door_policy *p = fakes[0].policy;
        assert_non_null(p);
        assert_true(number < p->n);
        assert_true(p->classes[number].is_known);
        return &p->classes[number];
}

static enum check_reason reason(size_t number)
{
        return verdicts(number)->verdict[2].reason;
}

/* How many policies were published since the last question, or since the last class was made. */
static int published(struct rig *rig)
{
        int was = fakes[0].n_seen;
        rig_turn(rig);
        fakes[0].n_seen = fakes[0].n_published;
        return fakes[0].n_seen - was;
}

/* ---- when ---- */

static void a_door_gets_its_mode_and_a_policy_at_once(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        assert_int_equal(fakes[0].mode, MODE_ENFORCE);
        assert_int_equal(fakes[0].n_modes, 1);
        assert_int_equal(fakes[0].policy->n, 0);
        assert_true(fakes[0].policy->running == 1);
        assert_true(isnan(fakes[0].policy->running_most)); /* no one wrote it: it is learned */
        assert_false(fakes[0].policy->is_harmed);
        size_t etl = add_class(&rig, "etl:dba");
        assert_int_equal(reason(etl), CHECK_GRANTED);
        end(&rig);
}

static void a_mode_that_is_set_reaches_the_threads_once(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        ok(&rig, "SETTINGSET", "mysql.front.mode", "observe");
        rig_turn(&rig);
        assert_int_equal(fakes[0].mode, MODE_OBSERVE);
        assert_int_equal(fakes[0].n_modes, 2);
        has(rig_do(&rig, "PROXIES"), "mode:'observe'");
        ok(&rig, "SETTINGUNSET", "mysql.front.mode");
        rig_turn(&rig);
        assert_int_equal(fakes[0].mode, MODE_ENFORCE);
        end(&rig);
}

static void the_strictest_door_gives_the_mode_that_is_told(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        has(rig_do(&rig, "NOW"), "doors_mode:'enforce'");
        has(rig_do(&rig, "THROTTLESTATUS"), "doors_mode:'enforce'");
        ok(&rig, "SETTINGSET", "mysql.front.mode", "observe");
        has(rig_do(&rig, "NOW"), "doors_mode:'observe'");
        fakes[0].is_enforced = true; /* a class has a mode of its own */
        has(rig_do(&rig, "NOW"), "doors_mode:'enforce'");
        end(&rig);
}

static void nothing_is_published_while_nothing_changes(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        add_class(&rig, "etl");
        assert_int_equal(published(&rig), 0);
        rig_do(&rig, "CHECK", "somebody");
        assert_int_equal(published(&rig), 0);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(published(&rig), 0);
        end(&rig);
}

static void a_sample_is_published_once_a_turn(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl");
        uint64_t seen = fakes[0].policy->n_samples;
        rig_pass_ms(&rig, 100);
        sample(&rig, 20);
        sample(&rig, 20);
        sample(&rig, 20);
        assert_int_equal(published(&rig), 1);
        assert_true(fakes[0].policy->n_samples > seen);
        assert_true(fakes[0].policy->running == 20);
        assert_false(fakes[0].policy->is_harmed); /* many that run are no harm by themselves */
        assert_int_equal(reason(etl), CHECK_LEVEL);
        has(verdicts(etl)->why, "critical by threads_running 20 against 15");
        end(&rig);
}

static void samples_of_another_target_are_none_of_its_business(void **unused)
{
        (void)unused;
        struct rig rig;
        const struct traffic_options alone = {"front", NULL, MODE_ENFORCE};
        bench(&rig, 1);
        core_set_traffic(rig.core, &alone, 1, &threads);
        size_t etl = add_class(&rig, "etl");
        rig_turn(&rig);
        sample(&rig, 20);
        assert_int_equal(published(&rig), 0);
        assert_true(isnan(fakes[0].policy->running));
        assert_int_equal(reason(etl), CHECK_GRANTED);
        rig_do(&rig, "RULESET", "etl", "hold"); /* but rules count */
        assert_int_equal(published(&rig), 1);
        assert_int_equal(reason(etl), CHECK_HOLD);
        end(&rig);
}

static void rules_are_published_when_they_are_set_and_when_they_end(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "nightly:etl");
        rig_do(&rig, "RULESET", "etl", "hold", "FOR", "5000");
        assert_int_equal(published(&rig), 1);
        assert_int_equal(reason(etl), CHECK_HOLD);
        assert_in_range(verdicts(etl)->retry_ms, 4000, 5001);
        has(verdicts(etl)->rule, "etl");
        rig_pass_ms(&rig, 2000); /* while it lasts, what is left of it is told anew */
        assert_int_equal(published(&rig), 1);
        assert_in_range(verdicts(etl)->retry_ms, 2000, 3001);
        sample_for(&rig, 1, 4);
        assert_int_equal(reason(etl), CHECK_GRANTED);
        end(&rig);
}

static void a_ratio_is_published_with_its_bound(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl");
        rig_do(&rig, "RULESET", "etl", "ratio", "RATIO", "0.3");
        rig_turn(&rig);
        const struct class_verdicts *v = verdicts(etl);
        assert_true(v->bound[0] > 0.2999 && v->bound[0] < 0.3001);
        assert_int_equal(v->verdict[0].reason, CHECK_RATIO);
        assert_true(v->verdict[2].is_granted);
        end(&rig);
}

static void the_pause_is_published(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl");
        ok(&rig, "THROTTLE", "PAUSE", "FOR", "2000");
        assert_int_equal(published(&rig), 1);
        assert_int_equal(reason(etl), CHECK_PAUSED);
        rig_pass_ms(&rig, 3000);
        rig_turn(&rig);
        assert_int_equal(reason(etl), CHECK_GRANTED);
        end(&rig);
}

static void a_threshold_that_is_set_is_published(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 4);
        size_t etl = add_class(&rig, "etl");
        assert_int_equal(reason(etl), CHECK_GRANTED);
        ok(&rig, "SETTINGSET", "target.shop.threads_running.elevated", "3,2");
        assert_true(published(&rig) >= 1);
        sample_for(&rig, 4, 1);
        assert_int_equal(reason(etl), CHECK_LEVEL);
        assert_true(fakes[0].policy->running_most ==
                    3); /* the operator's, instead of what is learned */
        ok(&rig, "SETTINGSET", "target.shop.threads_running.elevated", "auto");
        sample_for(&rig, 4, 1);
        assert_true(isnan(fakes[0].policy->running_most)); /* weir's, so the door has its own */
        end(&rig);
}

static void a_metric_that_falls_silent_is_published_without_a_sample(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        add_class(&rig, "etl");
        int was = fakes[0].n_published;
        for (int i = 0; i < 10; i++)
                rig_pass_ms(&rig, 1000);
        rig_turn(&rig);
        assert_true(fakes[0].n_published > was);
        assert_true(isnan(fakes[0].policy->running));
        end(&rig);
}

static void what_critical_held_is_held_while_nobody_answers_and_then_published(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 20);
        size_t high = add_class(&rig, "wcs_renewal");
        assert_int_equal(reason(high), CHECK_LEVEL);
        core_sample(rig.core, 0, 0, 0, rig.now.steady_ns, SAMPLE_FAILED, SLICE_LIT("gone"));
        rig_turn(&rig);
        assert_int_equal(reason(high), CHECK_LEVEL);
        assert_non_null(strstr(verdicts(high)->why, "unknown, critical before"));
        (void)published(&rig);
        rig_pass_ms(&rig, 300 * MS_PER_S - 1);
        assert_int_equal(published(&rig), 0);
        rig_pass_ms(&rig, 1); /* as long as critical delays the tier high */
        assert_int_equal(published(&rig), 1);
        assert_int_equal(reason(high), CHECK_GRANTED);
        end(&rig);
}

static void a_metric_of_harm_above_its_threshold_is_published_in_words(void **unused)
{
        (void)unused;
        struct rig rig;
        static const struct core_metric lag = {.name = "replication_lag",
                                               .rule = {{2, 10}, {1, 5}, 5 * NS_PER_S, false}};
        static const struct core_target replica = {
                .name = "shop", .metrics = &lag, .n_metrics = 1, .mode = -1};
        struct core_throttle options = {.targets = &replica, .n_targets = 1};
        bench(&rig, 1);
        policy_init(&options.policy);
        core_set_throttle(rig.core, &options);
        sample_for(&rig, 1.5, 1);
        assert_false(fakes[0].policy->is_harmed);
        sample_for(&rig, 2.5, 1);
        assert_true(fakes[0].policy->is_harmed);
        same(fakes[0].policy->harm, "replication_lag 2.5 against 2");
        assert_true(isnan(fakes[0].policy->running));
        end(&rig);
}

static void a_reload_reads_targets_and_classes_again(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl");
        assert_int_equal(verdicts(etl)->tier, TIER_NORMAL);
        const struct traffic_options doors[] = {{"back", "shop", MODE_OFF},
                                                {"front", "shop", MODE_OBSERVE}};
        fakes[1] = fakes[0]; /* it is the second now */
        fakes[0] = (struct fake){0};
        fakes[1].classes[etl].tier = TIER_DEFERRABLE;
        core_set_traffic(rig.core, doors, 2, &threads);
        rig_turn(&rig);
        assert_int_equal(traffic_count(rig.core), 2);
        assert_true(traffic_has(rig.core, SLICE_LIT("back")));
        assert_int_equal(fakes[0].mode, MODE_OFF);
        assert_int_equal(fakes[1].mode, MODE_OBSERVE);
        assert_int_equal(fakes[0].policy->n, 0);
        assert_int_equal(fakes[1].policy->n, 1);
        assert_int_equal(fakes[1].policy->classes[etl].tier, TIER_DEFERRABLE);
        traffic_classes_made(rig.core, 7); /* of a door that is gone */
        core_set_traffic(rig.core, NULL, 0, NULL);
        rig_turn(&rig);
        assert_int_equal(traffic_count(rig.core), 0);
        end(&rig);
}

/* ---- tiers ---- */

static void tiers_come_from_the_row_else_from_the_registry(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "nightly:etl");
        assert_int_equal(verdicts(etl)->tier, TIER_NORMAL);
        ok(&rig, "REGISTRYSET", "etl", "deferrable");
        assert_int_equal(published(&rig), 1);
        assert_int_equal(verdicts(etl)->tier, TIER_DEFERRABLE);
        ok(&rig, "REGISTRYSET", "nightly", "high"); /* more specific */
        rig_turn(&rig);
        assert_int_equal(verdicts(etl)->tier, TIER_HIGH);
        size_t pay = add_class(&rig, "pay");
        fakes[0].classes[pay].tier = TIER_CRITICAL;
        core_set_traffic(rig.core, &front, 1, &threads);
        rig_turn(&rig);
        assert_int_equal(verdicts(pay)->tier, TIER_CRITICAL);
        sample_for(&rig, 20, 2);
        assert_int_equal(reason(pay), CHECK_GRANTED);
        assert_int_equal(reason(etl), CHECK_LEVEL);
        end(&rig);
}

static void a_comment_lowers_the_tier_and_raises_it_when_trusted(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        for (size_t i = 0; i < 3; i++) {
                fakes[0].classes[i] = (struct traffic_class){
                        .identity = "app", .tier = -1, .comment_tier = TIER_HIGH};
                fakes[0].n++;
        }
        fakes[0].classes[1].comment_tier = TIER_DEFERRABLE;
        fakes[0].classes[2].is_comment_trusted = true;
        traffic_classes_made(rig.core, 0);
        rig_turn(&rig);
        assert_int_equal(verdicts(0)->tier, TIER_NORMAL);
        assert_int_equal(verdicts(1)->tier, TIER_DEFERRABLE);
        assert_int_equal(verdicts(2)->tier, TIER_HIGH);
        end(&rig);
}

/* ---- counting ---- */

/* The threads let some through and refuse others, in each of so many seconds. */
static void pass(struct rig *rig, size_t number, uint64_t through, uint64_t refused, int seconds)
{
        for (int i = 0; i < seconds; i++) {
                struct class_counts *c = &fakes[0].counts[number];
                c->transactions += through;
                c->busy_ns += through * NS_PER_MS;
                c->refused += refused;
                c->held += refused;
                c->waits.sum_ns += refused * NS_PER_S;
                rig_pass_ms(rig, 1000);
                sample(rig, 1);
                rig_turn(rig);
        }
}

static void transactions_are_counted_as_checks(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "nightly:etl");
        pass(&rig, etl, 10, 0, 3);
        const char *told = rig_do(&rig, "CLIENTSHOW", "nightly:etl");
        has(told, "30");
        has(told, "mysql:front");
        has(rig_do(&rig, "CLIENTSHOW", "etl"), "30"); /* and by its parts */
        end(&rig);
}

static void a_class_that_is_only_refused_starves_and_is_told(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl"), pay = add_class(&rig, "pay");
        rig_do(&rig, "RULESET", "etl", "hold");
        for (int i = 0; i < 320; i++) {
                fakes[0].counts[pay].transactions += 3;
                pass(&rig, etl, 0, 1, 1);
        }
        assert_int_equal(clients_starved(rig.core), 1);
        has(rig_do(&rig, "STARVED"), "pay");
        has(rig_do(&rig, "THROTTLED"), "a rule holds it");
        pass(&rig, etl, 1, 0, 1);
        assert_int_equal(clients_starved(rig.core), 0);
        end(&rig);
}

static void a_door_that_begins_anew_counts_from_zero(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl");
        pass(&rig, etl, 10, 0, 1);
        fakes[0].counts[etl] = (struct class_counts){.transactions = 4};
        pass(&rig, etl, 0, 0, 1);
        has(rig_do(&rig, "CLIENTSHOW", "etl"), "14");
        end(&rig);
}

static void the_threads_of_a_gone_door_are_asked_no_more(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        core_set_traffic(rig.core, &front, 1, NULL); /* the relay could not begin */
        sample_for(&rig, 20, 3);
        has(rig_do(&rig, "PROXIES"), "front");
        has(rig_do(&rig, "PROXYDRAIN", "front", "ON"), "threads of the proxy do not run");
        end(&rig);
}

/* ---- commands ---- */

static void doors_are_listed_with_their_sums(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl"), pay = add_class(&rig, "pay");
        pass(&rig, etl, 100, 5, 1);
        pass(&rig, pay, 23, 0, 1);
        const char *told = rig_do(&rig, "PROXIES");
        has(told, "front");
        has(told, "127.0.0.1:3307");
        has(told, "10.0.0.5:3306");
        has(told, "enforce");
        has(told, "123");
        has(rig_do(&rig, "PROXY", "nowhere"), "unknown MySQL door 'nowhere'; there is front");
        end(&rig);
}

static void a_door_is_told_with_its_series_and_classes(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl");
        fakes[0].running = 41;
        pass(&rig, etl, 77, 0, 2);
        const char *told = rig_do(&rig, "PROXY", "front");
        has(told, "held_ms");
        has(told, "41 41");
        has(told, "77 77");
        has(told, "etl");
        end(&rig);
}

static void classes_tell_verdict_rates_and_times(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl"), pay = add_class(&rig, "pay");
        for (int i = 0; i < 6; i++) {
                fakes[0].counts[pay].transactions += 2;
                fakes[0].counts[pay].services.n[3] += 2; /* 64 to 128 us */
                pass(&rig, etl, 50, 0, 1);
        }
        ok(&rig, "REGISTRYSET", "etl", "deferrable");
        sample_for(&rig, 7, 1);
        const char *told = rig_do(&rig, "PROXYCLASSES", "front");
        const char *first = strstr(told, "etl"), *second = strstr(told, "pay");
        assert_true(first && second && first < second); /* it uses most time */
        has(told, "verdict:'run' reason:'granted'");    /* levels are for jobs and checks */
        has(told, "busy_ms_per_s:40 transactions_per_s:'40.0'"); /* 50 a second, and one without */
        has(told, "service_us_p50:96 service_us_p99:127");
        end(&rig);
}

/* The door judges load itself, whatever the gate says to checks. */
static void a_class_is_told_to_run_above_a_threshold(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t pay = add_class(&rig, "pay");
        ok(&rig, "RULESET", "pay", "metrics", "METRICS", "threads_running");
        sample_for(&rig, 20, 2);
        assert_int_equal(reason(pay), CHECK_THRESHOLD);
        has(rig_do(&rig, "PROXYCLASSES", "front"), "verdict:'run' reason:'granted' why:''");
        end(&rig);
}

static void a_class_that_waits_tells_what_keeps_its_oldest(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        add_class(&rig, "etl");
        fakes[0].running = fakes[0].waiting = 3;
        fakes[0].wait = (struct admit_answer){.verdict = ADMIT_WAIT,
                                              .reason = ADMIT_BY_CONCURRENCY,
                                              .why = "its class runs as many as it may (3)"};
        const char *told = rig_do(&rig, "PROXYCLASSES", "front");
        has(told, "verdict:'wait' reason:'limit' why:'its class runs as many as it may (3)'");
        fakes[0].wait = (struct admit_answer){
                .verdict = ADMIT_WAIT, .reason = ADMIT_BY_LOAD, .why = "the window of 4 is full"};
        told = rig_do(&rig, "PROXYCLASSES", "front");
        has(told, "verdict:'wait' reason:'load' why:'the window of 4 is full'");
        end(&rig);
}

static void clients_are_listed_by_state_and_class(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl");
        fakes[0].clients[0] = (struct traffic_client){
                .thread_id = 501, .state = TRAFFIC_IDLE, .user = "ann", .class_number = UINT32_MAX};
        fakes[0].clients[1] = (struct traffic_client){.thread_id = 502,
                                                      .state = TRAFFIC_HELD,
                                                      .user = "bob",
                                                      .state_ns = 7 * NS_PER_S,
                                                      .class_number = (uint32_t)etl,
                                                      .why = "a rule holds it"};
        fakes[0].n_clients = 2;
        const char *all = rig_do(&rig, "PROXYCLIENTS", "front");
        assert_true(strstr(all, "502") < strstr(all, "501")); /* who waits comes first */
        has(all, "a rule holds it");
        const char *held = rig_do(&rig, "PROXYCLIENTS", "front", "STATE", "held");
        has(held, "bob");
        assert_null(strstr(held, "ann"));
        const char *of_class = rig_do(&rig, "PROXYCLIENTS", "front", "CLASS", "etl");
        has(of_class, "bob");
        assert_null(strstr(of_class, "ann"));
        const char *one = rig_do(&rig, "PROXYCLIENTS", "front", "LIMIT", "1");
        assert_null(strstr(one, "ann"));
        has(one, "true"); /* there are more */
        end(&rig);
}

static void a_held_client_is_told_with_what_its_class_waits_for(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl");
        fakes[0].clients[0] =
                (struct traffic_client){.state = TRAFFIC_HELD, .class_number = (uint32_t)etl};
        fakes[0].n_clients = 1;
        sample_for(&rig, 20, 2); /* is no reason */
        has(rig_do(&rig, "PROXYCLIENTS", "front"), "why:'a limit of its class is reached'");
        rig_do(&rig, "RULESET", "etl", "hold");
        has(rig_do(&rig, "PROXYCLIENTS", "front"), "why:'a rule holds it'");
        end(&rig);
}

static void statements_are_listed_by_the_order_asked_for(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        add_class(&rig, "etl");
        const char *told = rig_do(&rig, "PROXYTOP", "front", "SORT", "held");
        has(told, "0000000000000abc");
        has(told, "SELECT ?");
        has(told, "etl");
        has(told, "2000"); /* us on average */
        has(told, "rows:3");
        end(&rig);
}

static void a_statement_is_explained(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        rig_do(&rig, "RULESET", "ann", "hold");
        const char *told =
                rig_do(&rig, "PROXYEXPLAIN", "front", "delete from t where id = 7", "USER", "ann");
        has(told, "ann");
        has(told, "write");
        has(told, "wait");
        has(told, "hold");
        has(told, "?");
        told = rig_do(&rig, "PROXYEXPLAIN", "front", "commit", "USER", "ann");
        has(told, "verdict:'run'");
        end(&rig);
}

static void a_door_is_drained_and_undrained(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        ok(&rig, "PROXYDRAIN", "front", "ON");
        assert_true(fakes[0].is_draining);
        ok(&rig, "PROXYDRAIN", "front");
        assert_false(fakes[0].is_draining);
        end(&rig);
}

/* ---- /metrics ---- */

struct found {
        const char *name, *label; /* of the sample that is looked for */
        double value;
        size_t n, n_all;
};

static void look(void *ctx, const char *name, const char *labels, double value)
{
        struct found *f = ctx;
        f->n_all++;
        if (strcmp(name, f->name) != 0 || !strstr(labels, f->label))
                return;
        f->value = value;
        f->n++;
}

static double sample_of(struct rig *rig, const char *name, const char *label)
{
        struct found f = {.name = name, .label = label};
        traffic_each_sample(rig->core, look, &f);
        assert_int_equal(f.n, 1);
        return f.value;
}

static void samples_tell_doors_classes_and_times(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, 1);
        size_t etl = add_class(&rig, "etl");
        struct class_counts *c = &fakes[0].counts[etl];
        c->transactions = 30;
        c->services = (struct admit_times){.n = {[0] = 5, [1] = 10, [2] = 15}, .sum_ns = NS_PER_S};
        assert_true(sample_of(&rig, "proxy_connections", "proxy=\"front\"") == 7);
        assert_true(sample_of(&rig, "proxy_window", "front") == 4);
        assert_true(sample_of(&rig, "proxy_transactions_total", "class=\"etl\"") == 30);
        assert_true(sample_of(&rig, "proxy_transactions_total", "class=\"other\"") == 0);
        assert_true(sample_of(&rig, "proxy_service_seconds_bucket",
                              "class=\"etl\",row=\"\",le=\"1.6e-05\"") == 5);
        assert_true(sample_of(&rig, "proxy_service_seconds_bucket",
                              "class=\"etl\",row=\"\",le=\"6.4e-05\"") == 30);
        assert_true(sample_of(&rig, "proxy_service_seconds_bucket",
                              "class=\"etl\",row=\"\",le=\"+Inf\"") == 30);
        assert_true(sample_of(&rig, "proxy_service_seconds_sum", "class=\"etl\"") == 1);
        end(&rig);
}

/* A class that has lines keeps them, so that no counter falls. */
static void the_most_active_classes_have_lines_and_the_rest_is_other(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[32];
        bench(&rig, 1);
        for (unsigned i = 0; i < 150; i++) {
                (void)snprintf(name, sizeof(name), "app%u", i);
                size_t n = add_class(&rig, name);
                fakes[0].counts[n].transactions = 2;
                fakes[0].counts[n].busy_ns = i * NS_PER_MS;
        }
        assert_true(sample_of(&rig, "proxy_transactions_total", "class=\"app149\"") == 2);
        assert_true(sample_of(&rig, "proxy_transactions_total", "class=\"app50\"") == 2);
        assert_true(sample_of(&rig, "proxy_transactions_total", "class=\"other\"") == 100);
        fakes[0].counts[49].busy_ns = 9999 * NS_PER_MS;
        assert_true(sample_of(&rig, "proxy_transactions_total", "class=\"other\"") == 100);
        end(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_door_gets_its_mode_and_a_policy_at_once),
                cmocka_unit_test(a_mode_that_is_set_reaches_the_threads_once),
                cmocka_unit_test(the_strictest_door_gives_the_mode_that_is_told),
                cmocka_unit_test(nothing_is_published_while_nothing_changes),
                cmocka_unit_test(a_sample_is_published_once_a_turn),
                cmocka_unit_test(samples_of_another_target_are_none_of_its_business),
                cmocka_unit_test(rules_are_published_when_they_are_set_and_when_they_end),
                cmocka_unit_test(a_ratio_is_published_with_its_bound),
                cmocka_unit_test(the_pause_is_published),
                cmocka_unit_test(a_threshold_that_is_set_is_published),
                cmocka_unit_test(a_metric_that_falls_silent_is_published_without_a_sample),
                cmocka_unit_test(
                        what_critical_held_is_held_while_nobody_answers_and_then_published),
                cmocka_unit_test(a_metric_of_harm_above_its_threshold_is_published_in_words),
                cmocka_unit_test(a_reload_reads_targets_and_classes_again),
                cmocka_unit_test(tiers_come_from_the_row_else_from_the_registry),
                cmocka_unit_test(a_comment_lowers_the_tier_and_raises_it_when_trusted),
                cmocka_unit_test(transactions_are_counted_as_checks),
                cmocka_unit_test(a_class_that_is_only_refused_starves_and_is_told),
                cmocka_unit_test(a_door_that_begins_anew_counts_from_zero),
                cmocka_unit_test(the_threads_of_a_gone_door_are_asked_no_more),
                cmocka_unit_test(doors_are_listed_with_their_sums),
                cmocka_unit_test(a_door_is_told_with_its_series_and_classes),
                cmocka_unit_test(classes_tell_verdict_rates_and_times),
                cmocka_unit_test(a_class_is_told_to_run_above_a_threshold),
                cmocka_unit_test(a_class_that_waits_tells_what_keeps_its_oldest),
                cmocka_unit_test(clients_are_listed_by_state_and_class),
                cmocka_unit_test(a_held_client_is_told_with_what_its_class_waits_for),
                cmocka_unit_test(statements_are_listed_by_the_order_asked_for),
                cmocka_unit_test(a_statement_is_explained),
                cmocka_unit_test(a_door_is_drained_and_undrained),
                cmocka_unit_test(samples_tell_doors_classes_and_times),
                cmocka_unit_test(the_most_active_classes_have_lines_and_the_rest_is_other),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What the loop decides for the actions of a WordPress site: surveys are made by hand, and a guard
 * that does nothing stands for the thread of the site. */
#include "throttle_box.h"

#include <stdio.h>

#include "core/kernel.h"
#include "sites/sites.h"
#include "sites/sites_state.h"
#include "state/moved.h"

#define INTERVAL_S 5

static const struct slice blog = SLICE_LIT("blog");

#define ok(rig, ...) assert_string_equal(rig_do(rig, __VA_ARGS__), "OK")

/* ---- the bench ---- */

/* What the guard was asked for. */
static struct {
        int n_wakes;
        struct site_request *request;
} asked;

static void wake(void *ctx, struct slice site)
{
        (void)ctx;
        assert_slice(site, "blog");
        asked.n_wakes++;
}

static bool take_request(void *ctx, struct slice site, struct site_request *q)
{
        (void)ctx;
        assert_slice(site, "blog");
        asked.request = q;
        return true;
}

static bool refuse_request(void *ctx, struct slice site, struct site_request *q)
{
        (void)ctx;
        (void)site;
        (void)q;
        return false;
}

static const struct sites_guard idle_guard = {.wake = wake, .request = take_request};

static void set_sites(struct rig *rig, enum gate_mode mode, const struct sites_guard *guard)
{
        const struct site_options options = {.name = "blog",
                                             .target = "shop",
                                             .mode = mode,
                                             .interval_ms = INTERVAL_S * MS_PER_S,
                                             .is_front = true};
        core_set_sites(rig->core, &options, 1, guard);
}

static void set_gate(struct rig *rig)
{
        static const struct registry_entry own[] = {{SLICE_LIT("pay"), TIER_CRITICAL},
                                                    {SLICE_LIT("renew"), TIER_HIGH},
                                                    {SLICE_LIT("news"), TIER_NORMAL},
                                                    {SLICE_LIT("sync"), TIER_DEFERRABLE}};
        struct core_throttle options = {.targets = &shop,
                                        .n_targets = 1,
                                        .registry = own,
                                        .n_registry = ARRAY_LEN(own),
                                        .ramp_cycles = 3,
                                        .ramp_cycle_ns = INTERVAL_S * NS_PER_S};
        policy_init(&options.policy);
        core_set_throttle(rig->core, &options);
}

static void bench(struct rig *rig, enum gate_mode mode, double load)
{
        rig_init(rig);
        asked.n_wakes = 0;
        asked.request = NULL;
        set_gate(rig);
        set_sites(rig, mode, &idle_guard);
        sample_for(rig, load, 2);
}

/* The process dies and comes back: what was in the log is there. */
static void restart(struct rig *rig, double load)
{
        rig_turn(rig);
        assert_true(rig_replays(rig));
        set_gate(rig);
        set_sites(rig, MODE_ENFORCE, &idle_guard);
        sample_for(rig, load, 2);
}

static int64_t now_s(const struct rig *rig)
{
        return rig->now.wall_ms / MS_PER_S;
}

static int64_t slow_ms; /* what the next surveys tell of their cycles */

/* hook, due, hook, due, ..., NULL */
static void survey(struct rig *rig, struct site_plan *ret, ...)
{
        struct site_survey v = {.now_s = now_s(rig)};
        va_list words;
        arena_init(&v.arena, 0);
        v.hooks = arena_array(&v.arena, 200, sizeof(*v.hooks));
        assert_non_null(v.hooks);
        va_start(words, ret);
        for (const char *hook; (hook = va_arg(words, const char *));)
                v.hooks[v.n_hooks++] =
                        (struct site_hook){.hook = arena_copy(&v.arena, slice_str(hook)),
                                           .due = va_arg(words, unsigned)};
        va_end(words);
        v.slow_ms = slow_ms;
        sites_surveyed(rig->core, blog, &v, ret);
        rig_turn(rig);
}

static struct site_due_row due_row(uint64_t id, int64_t original_s)
{
        return (struct site_due_row){.row = {id, original_s}, .current_s = original_s};
}

/* Proposes rows of the hook for that date; how many may be moved. */
static size_t propose(struct rig *rig, struct site_step *step, struct site_due_row *rows, size_t n)
{
        struct problem problem;
        assert_int_equal(sites_propose(rig->core, blog, step, rows, &n, &problem), OK);
        rig_turn(rig);
        return n;
}

/* Moves n actions with ids from `id` on, due now and a second apart, to now + in_s. */
static uint64_t move(struct rig *rig, const char *hook, uint64_t id, size_t n, int64_t in_s)
{
        struct site_due_row rows[SITE_ROWS_MAX];
        struct site_step step = {
                .kind = STEP_MOVE, .hook = slice_str(hook), .to_s = now_s(rig) + in_s};
        for (size_t i = 0; i < n; i++)
                rows[i] = due_row(id + i, now_s(rig) - 100 + (int64_t)i);
        assert_int_equal(propose(rig, &step, rows, n), n);
        sites_stepped(rig->core, blog, &step, n, false);
        rig_turn(rig);
        return step.batch;
}

static size_t n_batches(const struct rig *rig)
{
        return rig->core->state.things[THING_MOVED].len;
}

static const struct moved *batch(const struct rig *rig, uint64_t number)
{
        char name[MOVED_NAME_MAX];
        moved_put_name(name, blog, number);
        const struct thing *t = thing_find(&rig->core->state, THING_MOVED, slice_str(name));
        return t ? CONTAINER_OF(t, const struct moved, thing) : NULL;
}

/* The original that the ledger has for a row of the hook at that date; 0: none. */
static int64_t original_of(const struct rig *rig, const char *hook, uint64_t id, int64_t date_s)
{
        struct moved_ask ask = {.id = id, .hook = slice_str(hook), .date_s = date_s};
        moved_find(&rig->core->state, blog, &ask, 1);
        return ask.is_found ? ask.original_s : 0;
}

static struct site_stray stray(const char *hook, uint64_t id, int64_t original_s, int64_t date_s)
{
        return (struct site_stray){slice_str(hook), {id, original_s}, date_s};
}

static size_t take_strays(struct rig *rig, struct site_stray *rows, size_t n, bool is_taken)
{
        sites_take_strays(rig->core, blog, rows, &n, is_taken);
        rig_turn(rig);
        return n;
}

static void assert_delay(const struct rig *rig, const struct site_step *step, int64_t delay_s)
{
        assert_in_range(step->to_s - now_s(rig), delay_s, delay_s + delay_s / 10);
}

/* Plans, and does nothing. */
static size_t n_steps(struct rig *rig, const char *hook, unsigned due)
{
        struct site_plan plan;
        survey(rig, &plan, hook, due, NULL);
        size_t n = plan.n_steps;
        site_plan_release(&plan);
        return n;
}

/* A while later, with two runners; is_idle: nothing waits. */
static void top_up(struct rig *rig, struct site_plan *ret, int64_t later_ms, bool is_idle)
{
        const struct site_pace pace = {.is_idle = is_idle, .runners = 2};
        rig_pass_ms(rig, later_ms);
        sites_top_up(rig->core, blog, &pace, ret);
        for (size_t i = 0; i < ret->n_steps; i++)
                sites_stepped(rig->core, blog, &ret->steps[i], ret->steps[i].n_rows, false);
        rig_turn(rig);
}

/* How many rows it gives back. */
static size_t topped_up(struct rig *rig, int64_t later_ms, bool is_idle)
{
        struct site_plan plan;
        size_t n = 0;
        top_up(rig, &plan, later_ms, is_idle);
        for (size_t i = 0; i < plan.n_steps; i++)
                n += plan.steps[i].n_rows;
        site_plan_release(&plan);
        return n;
}

/* ---- what is planned ---- */

static void tiers_that_run_get_no_step(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 1);
        assert_int_equal(n_steps(&rig, "sync", 10), 0);
        assert_int_equal(n_steps(&rig, "pay", 10), 0);
        sample_for(&rig, 20, 2);
        assert_int_equal(n_steps(&rig, "pay", 10), 0);
        assert_int_equal(n_steps(&rig, "sync", 0), 0); /* nothing is due */
        rig_release(&rig);
}

static void actions_of_tiers_that_wait_move_by_the_delay_of_the_matrix(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        survey(&rig, &plan, "pay", 1, "renew", 2, "news", 3, "sync", 4, NULL);
        assert_int_equal(plan.n_steps, 3);
        for (size_t i = 0; i < plan.n_steps; i++)
                assert_int_equal(plan.steps[i].kind, STEP_MOVE);
        assert_slice(plan.steps[0].hook, "renew");
        assert_int_equal(plan.steps[2].tier, TIER_DEFERRABLE);
        assert_delay(&rig, &plan.steps[0], 300);
        assert_delay(&rig, &plan.steps[1], 900);
        assert_delay(&rig, &plan.steps[2], 3600);
        assert_int_equal(plan.steps[2].not_before_s, 0);
        assert_int_equal(plan.horizon_s, INTERVAL_S);
        assert_int_equal(plan.reach_s, 3600 + 360 + 60);
        assert_false(plan.is_calm);
        has(plan.reason, "critical");
        site_plan_release(&plan);
        rig_release(&rig);
}

/* In a storm a cycle takes seconds: whatever falls due before the next one has done its work must
 * be moved by this one. */
static void a_slow_database_lets_the_guard_look_further_ahead(void **unused)
{
        (void)unused;
        struct rig rig;
        static const int64_t cases[][2] = {{0, 0}, {400, 1}, {1500, 3}, {600000, 120}};
        bench(&rig, MODE_ENFORCE, 20);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct site_plan plan;
                slow_ms = cases[i][0];
                survey(&rig, &plan, "sync", 4, NULL);
                assert_int_equal(plan.horizon_s, INTERVAL_S + cases[i][1]);
                site_plan_release(&plan);
        }
        slow_ms = 0;
        rig_release(&rig);
}

static void modes_that_only_watch_give_no_steps_and_change_nothing(void **unused)
{
        (void)unused;
        static const struct {
                enum gate_mode mode;
                const char *would_move;
        } rows[] = {{MODE_OBSERVE, "would_move:7 "},
                    {MODE_TEST_OBSERVE, "would_move:0 "},
                    {MODE_OFF, "would_move:0 "}};
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct rig rig;
                bench(&rig, rows[i].mode, 20);
                uint64_t digest = state_digest(&rig.core->state), seq = rig.log.last_seq;
                assert_int_equal(n_steps(&rig, "sync", 7), 0);
                assert_true(state_digest(&rig.core->state) == digest && rig.log.last_seq == seq);
                has(rig_do(&rig, "SITE", "blog"), rows[i].would_move);
                has(rig_do(&rig, "SITEDEFER", "blog", "1", "sync", "1699999999"), "is_wait:false");
                assert_int_equal(n_batches(&rig), 0);
                rig_release(&rig);
        }
}

static void a_setting_changes_the_mode_of_a_site(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_OBSERVE, 20);
        ok(&rig, "SETTINGSET", "site.blog.mode", "enforce");
        assert_int_equal(sites_mode(rig.core, blog), MODE_ENFORCE);
        assert_int_equal(n_steps(&rig, "sync", 1), 1);
        ok(&rig, "SETTINGSET", "throttle.enabled", "false");
        assert_int_equal(n_steps(&rig, "sync", 1), 0);
        assert_int_equal(sites_mode(rig.core, slice_str("other")), MODE_OFF);
        rig_release(&rig);
}

/* A network and its second blog, which the tests call "blog". */
static void set_network(struct rig *rig, bool is_leaving)
{
        const struct site_options options[] = {{.name = "net",
                                                .target = "shop",
                                                .mode = MODE_ENFORCE,
                                                .interval_ms = INTERVAL_S * MS_PER_S},
                                               {.name = "blog",
                                                .network = "net",
                                                .target = "shop",
                                                .mode = MODE_ENFORCE,
                                                .interval_ms = INTERVAL_S * MS_PER_S,
                                                .notice = is_leaving ? "closed\ntwice" : NULL,
                                                .is_leaving = is_leaving,
                                                .is_front = true,
                                                .is_lost_critical = true,
                                                .repairs = {MODE_ENFORCE}}};
        core_set_sites(rig->core, options, ARRAY_LEN(options), NULL);
}

static void a_blog_has_the_mode_of_its_network_unless_it_has_its_own(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        set_network(&rig, false);
        assert_int_equal(sites_mode(rig.core, blog), MODE_ENFORCE);
        ok(&rig, "SETTINGSET", "site.net.mode", "observe");
        assert_int_equal(sites_mode(rig.core, blog), MODE_OBSERVE);
        assert_int_equal(sites_configured_mode(rig.core, 1), MODE_OBSERVE);
        ok(&rig, "SETTINGSET", "site.blog.mode", "off");
        assert_int_equal(sites_mode(rig.core, blog), MODE_OFF);
        assert_int_equal(sites_mode(rig.core, slice_str("net")), MODE_OBSERVE);
        ok(&rig, "SETTINGUNSET", "site.net.mode");
        assert_int_equal(sites_mode(rig.core, blog), MODE_OFF);
        ok(&rig, "SETTINGUNSET", "site.blog.mode");
        assert_int_equal(sites_mode(rig.core, blog), MODE_ENFORCE);
        rig_release(&rig);
}

static void a_blog_that_leaves_gets_back_what_was_moved_and_nothing_else(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        set_network(&rig, false);
        assert_false(sites_has_ledger(rig.core, blog));
        move(&rig, "sync", 1, 3, 3600);
        assert_true(sites_has_ledger(rig.core, blog));
        assert_false(sites_has_ledger(rig.core, slice_str("net")));
        assert_int_equal(topped_up(&rig, 250, true), 0);
        set_network(&rig, true);
        survey(&rig, &plan, "pay", 1, "sync", 5, NULL);
        assert_int_equal(plan.n_steps, 0);
        assert_int_equal(plan.mode, MODE_ENFORCE);
        assert_false(plan.is_front || plan.is_lost_critical);
        for (size_t i = 0; i < SITE_REPAIRS; i++)
                assert_int_equal(plan.repairs[i], MODE_OFF);
        site_plan_release(&plan);
        assert_int_equal(topped_up(&rig, 250, true), 3);
        has(rig_do(&rig, "SITE", "blog"), "advice:['closed' 'twice']");
        rig_release(&rig);
}

static void a_pause_counts_as_critical(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 1);
        ok(&rig, "THROTTLE", "PAUSE");
        survey(&rig, &plan, "pay", 1, "sync", 1, NULL);
        assert_int_equal(plan.n_steps, 1);
        assert_delay(&rig, &plan.steps[0], 3600);
        has(plan.reason, "paused");
        site_plan_release(&plan);
        ok(&rig, "THROTTLE", "RESUME");
        assert_int_equal(n_steps(&rig, "sync", 1), 0);
        rig_release(&rig);
}

static void nothing_moves_before_the_first_measurement(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        set_gate(&rig);
        set_sites(&rig, MODE_ENFORCE, NULL);
        rig_turn(&rig);
        assert_int_equal(n_steps(&rig, "sync", 1), 0);
        sample_for(&rig, 20, 2);
        assert_int_equal(n_steps(&rig, "sync", 1), 1);
        rig_release(&rig);
}

static void retention_waits_for_the_first_measurement_and_a_normal_level(void **unused)
{
        (void)unused;
        static const struct {
                int load;
                bool is_calm;
        } cases[] = {{0, false}, {1, true}, {20, false}};
        struct rig rig;
        rig_init(&rig);
        set_gate(&rig);
        set_sites(&rig, MODE_ENFORCE, NULL);
        rig_turn(&rig);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct site_plan plan;
                if (cases[i].load)
                        sample_for(&rig, cases[i].load, 2);
                survey(&rig, &plan, "sync", 1, NULL);
                assert_int_equal(plan.is_calm, cases[i].is_calm);
                site_plan_release(&plan);
        }
        rig_release(&rig);
}

static void nothing_returns_before_the_first_measurement(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        move(&rig, "sync", 1, 3, 600);
        assert_true(rig_replays(&rig));
        set_gate(&rig);
        set_sites(&rig, MODE_ENFORCE, NULL);
        rig_turn(&rig);
        assert_int_equal(n_steps(&rig, "sync", 0), 0);
        sample_for(&rig, 20, 2); /* the storm goes on */
        assert_int_equal(n_steps(&rig, "sync", 0), 0);
        sample_for(&rig, 1, 100);
        assert_int_equal(topped_up(&rig, 250, true), 3);
        rig_release(&rig);
}

static void a_target_that_is_not_configured_is_an_unknown_level(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        const struct site_options options = {.name = "blog",
                                             .target = "gone",
                                             .mode = MODE_ENFORCE,
                                             .interval_ms = INTERVAL_S * MS_PER_S};
        bench(&rig, MODE_ENFORCE, 1);
        core_set_sites(rig.core, &options, 1, NULL);
        survey(&rig, &plan, "pay", 1, "renew", 1, "news", 1, "sync", 1, NULL);
        assert_int_equal(plan.n_steps, 2);
        assert_delay(&rig, &plan.steps[0], 300);
        assert_delay(&rig, &plan.steps[1], 900);
        has(plan.reason, "gone is not configured");
        site_plan_release(&plan);
        rig_release(&rig);
}

static void a_target_that_cannot_be_measured_is_an_unknown_level(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 1);
        for (int i = 0; i < 20; i++) {
                rig_pass_ms(&rig, MS_PER_S);
                core_sample(rig.core, 0, 0, 0, rig.now.steady_ns, SAMPLE_FAILED,
                            SLICE_LIT("no route"));
        }
        rig_turn(&rig);
        assert_int_equal(n_steps(&rig, "renew", 1), 0);
        assert_int_equal(n_steps(&rig, "news", 1), 1);
        rig_release(&rig);
}

/* A probe fails first when the database is overloaded. */
static void what_critical_held_stays_held_while_nobody_answers(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        for (int i = 0; i < 20; i++) {
                rig_pass_ms(&rig, MS_PER_S);
                core_sample(rig.core, 0, 0, 0, rig.now.steady_ns, SAMPLE_FAILED,
                            SLICE_LIT("too many connections"));
        }
        rig_turn(&rig);
        has(rig_do(&rig, "SITEASK", "blog", "HOOK", "renew"), "claim_size:1 claims:1");
        survey(&rig, &plan, "pay", 1, "renew", 1, "news", 1, "sync", 1, NULL);
        assert_int_equal(plan.n_steps, 3);
        assert_delay(&rig, &plan.steps[0], 300);
        assert_delay(&rig, &plan.steps[1], 900);
        assert_delay(&rig, &plan.steps[2], 3600);
        has(plan.reason, "unknown, and was critical before");
        site_plan_release(&plan);
        int n = asked.n_wakes;
        rig_pass_ms(&rig, (300 - 19) * MS_PER_S - 1); /* it began 19 s ago */
        rig_turn(&rig);
        assert_int_equal(asked.n_wakes, n);
        rig_pass_ms(&rig, 1); /* as long as critical delays the tier high */
        rig_turn(&rig);
        assert_int_equal(asked.n_wakes, n + 1);
        assert_int_equal(n_steps(&rig, "renew", 1), 0);
        assert_int_equal(n_steps(&rig, "news", 1), 1);
        rig_release(&rig);
}

static void a_change_of_the_registry_holds_from_the_next_survey(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        assert_int_equal(n_steps(&rig, "sync", 1), 1);
        ok(&rig, "REGISTRYSET", "sync", "critical");
        assert_int_equal(n_steps(&rig, "sync", 1), 0);
        ok(&rig, "REGISTRYUNSET", "sync");
        assert_int_equal(n_steps(&rig, "sync", 1), 1);
        rig_release(&rig);
}

static void hooks_are_compared_with_their_case(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        survey(&rig, &plan, "PAY", 1, "sync", 1, "Sync", 1, NULL);
        assert_int_equal(plan.n_steps, 3);
        assert_int_equal(plan.steps[0].tier, TIER_NORMAL); /* as an unknown hook */
        assert_int_equal(plan.steps[1].tier, TIER_DEFERRABLE);
        assert_int_equal(plan.steps[2].tier, TIER_NORMAL);
        site_plan_release(&plan);
        move(&rig, "sync", 1, 1, 600);
        assert_int_equal(original_of(&rig, "Sync", 1, now_s(&rig) + 600), 0);
        rig_release(&rig);
}

/* Plans for n hooks "h000", "h001", ... that wait. */
static void survey_many(struct rig *rig, unsigned n, struct site_plan *ret)
{
        struct site_survey v = {.now_s = now_s(rig)};
        arena_init(&v.arena, 0);
        v.hooks = arena_array(&v.arena, n, sizeof(*v.hooks));
        assert_non_null(v.hooks);
        for (unsigned i = 0; i < n; i++) {
                char hook[16];
                (void)snprintf(hook, sizeof(hook), "h%03u", i);
                v.hooks[v.n_hooks++] =
                        (struct site_hook){.hook = arena_copy(&v.arena, slice_str(hook)), .due = 1};
        }
        sites_surveyed(rig->core, blog, &v, ret);
        rig_turn(rig);
}

static void hooks_that_a_plan_left_out_come_first_in_the_next(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        survey_many(&rig, 150, &plan);
        assert_int_equal(plan.n_steps, 100);
        assert_slice(plan.steps[99].hook, "h099");
        site_plan_release(&plan);
        survey_many(&rig, 150, &plan);
        assert_slice(plan.steps[0].hook, "h100");
        assert_slice(plan.steps[50].hook, "h000");
        site_plan_release(&plan);
        survey_many(&rig, 2, &plan); /* there are fewer now */
        assert_int_equal(plan.n_steps, 2);
        site_plan_release(&plan);
        survey_many(&rig, 2, &plan);
        assert_slice(plan.steps[0].hook, "h001");
        site_plan_release(&plan);
        rig_release(&rig);
}

static void the_guard_is_woken_when_a_decision_may_change(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 1);
        asked.n_wakes = 0;
        sample_for(&rig, 1, 20);
        assert_int_equal(asked.n_wakes, 0);
        sample_for(&rig, 20, 2);
        assert_int_equal(asked.n_wakes, 1);
        ok(&rig, "REGISTRYSET", "sync", "high");
        rig_turn(&rig);
        assert_true(asked.n_wakes >= 2);
        int n = asked.n_wakes;
        ok(&rig, "THROTTLE", "PAUSE");
        rig_turn(&rig);
        assert_true(asked.n_wakes > n);
        n = asked.n_wakes;
        rig_turn(&rig);
        assert_int_equal(asked.n_wakes, n);
        rig_release(&rig);
}

/* ---- limits of deferral ---- */

static void actions_that_waited_long_enough_are_left_out(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        ok(&rig, "SETTINGSET", "throttle.max_deferral", "7200s");
        survey(&rig, &plan, "sync", 2, NULL);
        struct site_step *step = &plan.steps[0];
        assert_int_equal(step->not_before_s, step->to_s - 7200);
        struct site_due_row rows[] = {due_row(1, step->not_before_s - 1),
                                      due_row(2, step->not_before_s)};
        assert_int_equal(propose(&rig, step, rows, 2), 1);
        assert_int_equal(rows[0].row.id, 2);
        site_plan_release(&plan);
        rig_release(&rig);
}

static void a_max_deferral_shorter_than_the_delay_shortens_the_delay(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        ok(&rig, "SETTINGSET", "throttle.max_deferral", "600s");
        survey(&rig, &plan, "sync", 1, NULL);
        assert_delay(&rig, &plan.steps[0], 300);
        struct site_due_row row = due_row(1, now_s(&rig));
        assert_int_equal(propose(&rig, &plan.steps[0], &row, 1), 1);
        site_plan_release(&plan);
        rig_release(&rig);
}

static void late_actions_of_a_batch_return_and_the_others_move_on(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        int64_t old_s = now_s(&rig) - 5000;
        struct site_due_row rows[] = {due_row(1, old_s), due_row(2, now_s(&rig))};
        struct site_step step = {.hook = slice_str("sync"), .to_s = now_s(&rig) + 8};
        assert_int_equal(propose(&rig, &step, rows, 2), 2);
        sites_stepped(rig.core, blog, &step, 2, false);
        ok(&rig, "SETTINGSET", "throttle.max_deferral", "7200s");
        survey(&rig, &plan, NULL);
        assert_int_equal(plan.n_steps, 1);
        assert_int_equal(plan.steps[0].kind, STEP_RETURN);
        assert_int_equal(plan.steps[0].n_rows, 1);
        assert_int_equal(plan.steps[0].rows[0].original_s, old_s);
        sites_stepped(rig.core, blog, &plan.steps[0], 1, false);
        site_plan_release(&plan);
        survey(&rig, &plan, NULL);
        assert_int_equal(plan.steps[0].kind, STEP_SHIFT);
        assert_int_equal(plan.steps[0].n_rows, 1);
        assert_int_equal(plan.steps[0].rows[0].id, 2);
        site_plan_release(&plan);
        rig_release(&rig);
}

static void a_hook_is_deferred_only_so_often_in_an_hour(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        ok(&rig, "SETTINGSET", "throttle.deferrals_per_hour", "3");
        struct site_due_row rows[5];
        struct site_step step = {.hook = slice_str("sync"), .to_s = now_s(&rig) + 8};
        for (uint64_t i = 0; i < 5; i++)
                rows[i] = due_row(i + 1, now_s(&rig));
        assert_int_equal(propose(&rig, &step, rows, 5), 3);
        sites_stepped(rig.core, blog, &step, 3, false);
        assert_int_equal(propose(&rig, &step, rows, 5), 0);
        /* What is moved stays until its date, and runs then. */
        assert_int_equal(n_steps(&rig, "sync", 2), 0);
        assert_int_equal(n_batches(&rig), 1);
        rig_release(&rig);
}

/* ---- the ledger ---- */

static void async_actions_keep_their_first_original(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        int64_t original_s = now_s(&rig), date_s = original_s;
        for (int i = 0; i < 4; i++) {
                struct site_due_row row = due_row(9, date_s);
                struct site_step step = {.hook = slice_str("sync"), .to_s = now_s(&rig) + 60};
                row.is_async = true;
                assert_int_equal(propose(&rig, &step, &row, 1), 1);
                assert_int_equal(row.row.original_s, original_s);
                sites_stepped(rig.core, blog, &step, 1, false);
                date_s = step.to_s;
                restart(&rig, 20);
                sample_for(&rig, 20, 60);
                assert_int_equal(original_of(&rig, "sync", 9, date_s), original_s);
        }
        rig_release(&rig);
}

static void a_batch_about_to_fall_due_is_shifted_in_time(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        struct problem problem;
        bench(&rig, MODE_ENFORCE, 20);
        uint64_t number = move(&rig, "sync", 1, 3, 60);
        int64_t was_s = now_s(&rig) + 60;
        assert_int_equal(n_steps(&rig, "sync", 0), 0);
        sample_for(&rig, 20, 55);
        survey(&rig, &plan, NULL);
        assert_int_equal(plan.n_steps, 1);
        struct site_step *step = &plan.steps[0];
        assert_int_equal(step->kind, STEP_SHIFT);
        assert_int_equal(step->n_rows, 3);
        assert_true(step->from_s[0] == was_s && step->from_s[1] == was_s);
        assert_delay(&rig, step, 3600);
        assert_int_equal(sites_propose_shift(rig.core, blog, step, &problem), OK);
        rig_turn(&rig);
        assert_true(original_of(&rig, "sync", 2, was_s) &&
                    original_of(&rig, "sync", 2, step->to_s));
        sites_stepped(rig.core, blog, step, 3, false);
        assert_int_equal(batch(&rig, number)->values.before_s, 0);
        assert_int_equal(batch(&rig, number)->values.date_s, step->to_s);
        has(rig_do(&rig, "SITE", "blog"), "total_shifted:3");
        site_plan_release(&plan);
        rig_release(&rig);
}

static void a_shift_that_was_cut_off_or_refused_goes_on(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        struct problem problem;
        bench(&rig, MODE_ENFORCE, 20);
        uint64_t number = move(&rig, "sync", 1, 3, 8);
        int64_t was_s = now_s(&rig) + 8;
        survey(&rig, &plan, NULL);
        int64_t to_s = plan.steps[0].to_s;
        assert_int_equal(sites_propose_shift(rig.core, blog, &plan.steps[0], &problem), OK);
        site_plan_release(&plan);
        restart(&rig, 20); /* after the UPDATE, before its answer */
        survey(&rig, &plan, NULL);
        assert_true(plan.steps[0].is_resumed);
        assert_int_equal(plan.steps[0].to_s, to_s);
        assert_int_equal(plan.steps[0].from_s[0], was_s);
        assert_int_equal(sites_propose_shift(rig.core, blog, &plan.steps[0], &problem), OK);
        sites_stepped(rig.core, blog, &plan.steps[0], 1, true);
        assert_int_equal(batch(&rig, number)->values.before_s, was_s);
        /* All rows were shifted by the first try: they are not forgotten. */
        sites_stepped(rig.core, blog, &plan.steps[0], 0, false);
        assert_int_equal(batch(&rig, number)->values.before_s, 0);
        assert_int_equal(batch(&rig, number)->values.n_rows, 3);
        site_plan_release(&plan);
        rig_release(&rig);
}

static void a_plan_that_is_out_of_date_moves_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        struct problem problem;
        bench(&rig, MODE_ENFORCE, 20);
        move(&rig, "sync", 1, 1, 8);
        survey(&rig, &plan, "news", 1, NULL);
        assert_int_equal(plan.n_steps, 2);
        ok(&rig, "SETTINGSET", "site.blog.mode", "observe");
        struct site_due_row row = due_row(5, now_s(&rig));
        assert_int_equal(sites_propose_shift(rig.core, blog, &plan.steps[0], &problem), ERR_STATE);
        assert_int_equal(propose(&rig, &plan.steps[1], &row, 1), 0);
        ok(&rig, "SETTINGUNSET", "site.blog.mode");
        sample_for(&rig, 20, 1000); /* now its date is in the past */
        row = due_row(5, now_s(&rig));
        assert_int_equal(propose(&rig, &plan.steps[1], &row, 1), 0);
        assert_int_equal(n_batches(&rig), 1);
        site_plan_release(&plan);
        rig_release(&rig);
}

static void a_move_that_found_nothing_leaves_no_batch(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_due_row row;
        struct site_step step = {.hook = slice_str("sync")};
        bench(&rig, MODE_ENFORCE, 20);
        step.to_s = now_s(&rig) + 600;
        row = due_row(1, now_s(&rig));
        assert_int_equal(propose(&rig, &step, &row, 1), 1);
        sites_stepped(rig.core, blog, &step, 0, true); /* nobody knows */
        assert_int_equal(n_batches(&rig), 1);
        restart(&rig, 20);
        assert_int_equal(n_batches(&rig), 1);
        sites_stepped(rig.core, blog, &step, 0, false);
        assert_int_equal(n_batches(&rig), 0);
        sites_stepped(rig.core, blog, &step, 1, false); /* it is gone: nothing happens */
        restart(&rig, 20);
        assert_int_equal(n_batches(&rig), 0);
        rig_release(&rig);
}

static void a_batch_that_nobody_looks_after_is_forgotten_a_day_after_its_date(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        move(&rig, "sync", 1, 1, 600);
        core_set_sites(rig.core, NULL, 0, NULL);
        rig_pass_ms(&rig, (600 + 86400 - 1) * MS_PER_S);
        assert_int_equal(n_batches(&rig), 1);
        rig_pass_ms(&rig, MS_PER_S);
        assert_int_equal(n_batches(&rig), 0);
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

static void a_ledger_without_room_refuses_without_a_trace(void **unused)
{
        (void)unused;
        struct rig rig;
        struct problem problem;
        bench(&rig, MODE_ENFORCE, 20);
        struct site_due_row row = due_row(1, now_s(&rig));
        struct site_step step = {.hook = slice_str("sync"), .to_s = now_s(&rig) + 600};
        size_t n = 1;
        rig.log.stat.is_disk_full = true;
        rig.log.stat.room_bytes = 1000;
        rig_turn(&rig);
        uint64_t digest = state_digest(&rig.core->state);
        assert_int_equal(sites_propose(rig.core, blog, &step, &row, &n, &problem), ERR_NOSPACE);
        has(rig_do(&rig, "SITEDEFER", "blog", "1", "sync", "1700000000"), "!NOSPACE");
        assert_true(state_digest(&rig.core->state) == digest);
        assert_int_equal(sites_propose(rig.core, slice_str("x"), &step, &row, &n, &problem),
                         ERR_NOTFOUND);
        rig_release(&rig);
}

static void a_ledger_that_is_full_refuses_new_batches_only(void **unused)
{
        (void)unused;
        struct rig rig;
        struct problem problem;
        bench(&rig, MODE_ENFORCE, 20);
        struct site_step step = {.hook = slice_str("sync"), .to_s = now_s(&rig) + 600};
        for (uint64_t id = 1; id <= SITE_BATCHES_MAX; id++) {
                struct site_due_row row = due_row(id, now_s(&rig));
                size_t n = 1;
                assert_int_equal(sites_propose(rig.core, blog, &step, &row, &n, &problem), OK);
                if (id % 8 == 0)
                        core_commit(rig.core);
        }
        rig_turn(&rig);
        struct site_due_row row = due_row(SITE_BATCHES_MAX + 1, now_s(&rig));
        uint64_t seq = rig.log.last_seq;
        size_t n = 1;
        assert_int_equal(sites_propose(rig.core, blog, &step, &row, &n, &problem), ERR_LIMIT);
        struct site_stray lost = stray("sync", row.row.id, now_s(&rig), now_s(&rig) + 900);
        assert_int_equal(take_strays(&rig, &lost, 1, true), 0);
        rig_turn(&rig);
        assert_int_equal(rig.log.last_seq, seq);
        sites_stepped(rig.core, blog, &step, 0, false);
        assert_int_equal(sites_propose(rig.core, blog, &step, &row, &n, &problem), OK);
        rig_release(&rig);
}

/* ---- the way back ---- */

static void actions_return_important_and_old_ones_first(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        move(&rig, "sync", 1, 190, 3000);
        sample_for(&rig, 20, 10);
        move(&rig, "renew", 201, 20, 3000);
        move(&rig, "sync", 301, 20, 3000);
        sample_for(&rig, 1, 100);
        survey(&rig, &plan, NULL);
        assert_int_equal(plan.n_steps, 0); /* the seconds between the surveys give them back */
        assert_true(plan.is_returning);
        has(rig_do(&rig, "SITE", "blog"), "returning:true");
        site_plan_release(&plan);
        top_up(&rig, &plan, 250, true); /* 4 batches of 25 for each of two runners */
        assert_int_equal(plan.n_steps, 2);
        assert_slice(plan.steps[0].hook, "renew");
        assert_int_equal(plan.steps[0].n_rows, 20);
        assert_int_equal(plan.steps[1].n_rows, 180);
        assert_int_equal(plan.steps[1].rows[0].id, 1);
        assert_true(plan.is_returning);
        site_plan_release(&plan);
        top_up(&rig, &plan, 2000, true);
        assert_int_equal(plan.n_steps, 2);
        assert_int_equal(plan.steps[0].rows[0].id, 301); /* older than the rest of the first */
        assert_int_equal(plan.steps[0].n_rows, 20);
        assert_int_equal(plan.steps[1].rows[0].id, 181);
        assert_int_equal(plan.steps[1].n_rows, 10);
        site_plan_release(&plan);
        assert_int_equal(n_batches(&rig), 0);
        has(rig_do(&rig, "SITE", "blog"), "total_returned:230");
        assert_int_equal(n_steps(&rig, "sync", 0), 0);
        has(rig_do(&rig, "SITE", "blog"), "returning:false");
        rig_release(&rig);
}

/* What returns is older than all that is new, and is taken first. */
static void nothing_returns_while_other_work_waits(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        for (uint64_t i = 0; i < 10; i++)
                move(&rig, "sync", 1 + 1000 * i, 500, 3000);
        sample_for(&rig, 1, 100);
        assert_int_equal(n_steps(&rig, "sync", 0), 0);
        assert_int_equal(topped_up(&rig, 250, true), 200);
        for (int i = 0; i < 4; i++) {
                sample_for(&rig, 1, 1);
                assert_int_equal(topped_up(&rig, 0, false), 0);
        }
        has(rig_do(&rig, "SITE", "blog"), "returning:true");
        assert_int_equal(topped_up(&rig, 0, true), 250); /* 200 took 4 s */
        sample_for(&rig, 1, 1);
        assert_int_equal(topped_up(&rig, 0, true), 500); /* twice as many at most */
        sample_for(&rig, 1, 20);
        assert_int_equal(topped_up(&rig, 0, true), 200); /* never less than the least */
        sample_for(&rig, 1, 59);
        assert_int_equal(topped_up(&rig, 0, false), 0);
        sample_for(&rig, 1, 1);
        assert_int_equal(topped_up(&rig, 0, false), 200); /* once a minute, whatever waits */
        rig_release(&rig);
}

static void a_rise_of_the_level_stops_the_way_back(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        move(&rig, "sync", 1, 500, 3000);
        sample_for(&rig, 1, 100);
        assert_int_equal(n_steps(&rig, "sync", 0), 0);
        assert_int_equal(topped_up(&rig, 250, true), 200);
        sample_for(&rig, 20, 6);
        assert_int_equal(topped_up(&rig, 250, true), 0);
        survey(&rig, &plan, NULL);
        assert_false(plan.is_returning);
        site_plan_release(&plan);
        has(rig_do(&rig, "SITE", "blog"), "returning:false");
        sample_for(&rig, 1, 100);
        assert_int_equal(topped_up(&rig, 250, true), 200);
        rig_release(&rig);
}

static void actions_of_a_hook_that_became_critical_return_at_once(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        move(&rig, "sync", 1, 300, 3000);
        ok(&rig, "REGISTRYSET", "sync", "critical");
        survey(&rig, &plan, NULL);
        assert_int_equal(plan.n_steps, 1);
        assert_int_equal(plan.steps[0].n_rows, 300);
        site_plan_release(&plan);
        rig_release(&rig);
}

static void a_return_that_was_refused_stays_in_the_ledger(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        uint64_t number = move(&rig, "sync", 1, 2, 3000);
        ok(&rig, "REGISTRYSET", "sync", "critical"); /* all at once */
        survey(&rig, &plan, NULL);
        assert_int_equal(plan.steps[0].kind, STEP_RETURN);
        assert_int_equal(plan.steps[0].n_rows, 2);
        sites_stepped(rig.core, blog, &plan.steps[0], 1, true);
        assert_int_equal(batch(&rig, number)->values.n_rows, 2);
        restart(&rig, 20);
        sites_stepped(rig.core, blog, &plan.steps[0], 2, false);
        assert_int_equal(n_batches(&rig), 0);
        site_plan_release(&plan);
        rig_release(&rig);
}

/* ---- SITEDEFER ---- */

/* ---- moves that weir does not know any more ---- */

static void a_move_that_the_ledger_does_not_know_comes_into_it_and_returns(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        (void)move(&rig, "sync", 1, 3, 3600); /* known: 1, 2, 3 */
        int64_t now = now_s(&rig), at = now + 3600;
        struct site_stray rows[] = {
                stray("sync", 2, now - 70, at),     stray("sync", 7, now - 50, at),
                stray("sync", 3, now - 40, at + 1), stray("news", 2, now - 30, at),
                stray("sync", 5, now - 60, at),     stray("sync", 5, now - 60, at),
                stray("sync", 8, at, at),           stray("sync", 9, at + 1, at),
                stray("sync", 10, 0, at),           stray("", 11, now, at),
                stray("sync", 12, now, INT64_MAX),  stray("sync", 13, INT64_MIN, at),
        };
        struct site_stray again[ARRAY_LEN(rows)];
        memcpy(again, rows, sizeof(rows));
        assert_int_equal(take_strays(&rig, again, ARRAY_LEN(rows), false), 4);
        assert_int_equal(n_batches(&rig), 1);
        memcpy(again, rows, sizeof(rows));
        assert_int_equal(take_strays(&rig, again, ARRAY_LEN(rows), true), 4);
        assert_int_equal(n_batches(&rig), 4); /* by hook and date */
        restart(&rig, 20);
        assert_int_equal(original_of(&rig, "sync", 5, at), now - 60);
        assert_int_equal(original_of(&rig, "sync", 7, at), now - 50);
        assert_int_equal(original_of(&rig, "sync", 3, at + 1), now - 40);
        assert_int_equal(original_of(&rig, "news", 2, at), now - 30);
        assert_int_equal(original_of(&rig, "sync", 2, at), now - 99); /* as it was */
        memcpy(again, rows, sizeof(rows));
        assert_int_equal(take_strays(&rig, again, ARRAY_LEN(rows), true), 0);
        survey(&rig, &plan, NULL); /* their tier waits, and so do they */
        assert_int_equal(plan.n_steps, 0);
        site_plan_release(&plan);
        sample_for(&rig, 1, 100);
        survey(&rig, &plan, NULL);
        site_plan_release(&plan);
        assert_int_equal(topped_up(&rig, 250, true), 7);
        assert_int_equal(n_batches(&rig), 0);
        rig_release(&rig);
}

static void only_a_site_in_enforce_takes_such_moves(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_OBSERVE, 20);
        int64_t now = now_s(&rig);
        struct site_stray row = stray("sync", 7, now - 50, now + 900);
        assert_int_equal(take_strays(&rig, &row, 1, false), 1);
        assert_int_equal(take_strays(&rig, &row, 1, true), 0);
        set_network(&rig, true); /* and one that leaves takes nothing on */
        row = stray("sync", 7, now - 50, now + 900);
        assert_int_equal(take_strays(&rig, &row, 1, true), 0);
        size_t n = 1;
        sites_take_strays(rig.core, SLICE_LIT("gone"), &row, &n, true);
        assert_int_equal(n, 0);
        assert_int_equal(n_batches(&rig), 0);
        rig_release(&rig);
}

static void runners_defer_single_actions_into_shared_batches(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        for (uint64_t id = 1; id <= 100; id++) {
                const char *reply =
                        rig_do(&rig, "SITEDEFER", "blog", rig_number(id), "sync", "1699999990");
                const char *to = strstr(reply, "to:");
                has(reply, "is_wait:true");
                assert_non_null(to);
                int64_t to_s = strtoll(to + 3, NULL, 10);
                assert_int_equal(to_s % 60, 0);
                assert_in_range(to_s - now_s(&rig), 3600, 3600 + 360 + 60);
                assert_int_equal(original_of(&rig, "sync", id, to_s), 1699999990);
        }
        assert_in_range(n_batches(&rig), 1, 8);
        has(rig_do(&rig, "SITEDEFER", "blog", "1", "pay", "1699999990"), "is_wait:false");
        has(rig_do(&rig, "SITEDEFER", "nope", "1", "sync", "1699999990"), "there is blog");
        has(rig_do(&rig, "SITE", "blog"), "total_moved:100");
        assert_int_equal(times(rig_do(&rig, "SITE", "blog"), "original_ms:1699999990000"), 50);
        restart(&rig, 20);
        uint64_t rows = moved_hook_find(&rig.core->state, blog, slice_str("sync"))->n_rows;
        assert_int_equal(rows, 100);
        rig_release(&rig);
}

/* ---- SITERUN ---- */

static void a_runner_waits_until_something_may_run(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        has(rig_do(&rig, "SITERUN", "blog"), "due:0");
        same(rig_do(&rig, "SITERUN", "blog", "WAIT", "60000"), "(waits)");
        (void)n_steps(&rig, "sync", 5); /* that waits */
        assert_false(rig.me.is_answered);
        (void)n_steps(&rig, "pay", 2);
        assert_true(rig.me.is_answered);
        has(text_reply_str(&rig.me.reply), "due:2");
        has(rig_do(&rig, "SITERUN", "blog", "WAIT", "60000"), "due:2");
        rig_release(&rig);
}

/* A runner takes whatever is due, and the critical tier has no caps. */
static void runners_are_capped_while_more_than_the_critical_tier_may_run(void **unused)
{
        static const struct {
                double load;
                unsigned pay, renew, sync;
                const char *runners, *caps;
        } rows[] = {
                {10, 0, 3, 9, "runners:1 ", "claim_size:5 claims:1"},
                {10, 2, 3, 9, "runners:1 ", "claim_size:5 claims:1"},
                {10, 2, 0, 9, "runners:1000 ", "claim_size:0 claims:0"},
                {20, 2, 3, 9, "runners:1000 ", "claim_size:0 claims:0"},
                {20, 0, 3, 9, "runners:1 ", "claim_size:1 claims:1"},
                {1, 0, 3, 9, "runners:1000 ", "claim_size:0 claims:0"},
        };
        (void)unused;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct rig rig;
                struct site_plan plan;
                bench(&rig, MODE_ENFORCE, rows[i].load);
                survey(&rig, &plan, "pay", rows[i].pay, "renew", rows[i].renew, "sync",
                       rows[i].sync, NULL);
                site_plan_release(&plan);
                has(rig_do(&rig, "SITERUN", "blog"), rows[i].runners);
                has(rig_do(&rig, "SITEASK", "blog", "HOOK", "sync"), rows[i].caps);
                rig_release(&rig);
        }
}

static void the_hooks_that_go_first_are_those_of_the_critical_tier(void **unused)
{
        (void)unused;
        struct rig rig;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        has(rig_do(&rig, "SITEFIRST", "blog"),
            "mode:'enforce' level:'critical' front:true code:0 hooks:[]");
        survey(&rig, &plan, "pay", 0u, "renew", 1u, "sync", 1u, NULL);
        assert_int_equal(plan.n_critical, 1);
        assert_true(slice_eq(plan.critical[0], SLICE_LIT("pay")));
        site_plan_release(&plan);
        has(rig_do(&rig, "SITEFIRST", "blog"), "hooks:['pay']");
        has(rig_do(&rig, "SITEFIRST", "nothere"), "unknown WordPress site");
        rig_release(&rig);
}

/* Whether the next plan puts actions in front. */
static bool plan_is_front(struct rig *rig)
{
        struct site_plan plan;
        survey(rig, &plan, "pay", 1u, NULL);
        bool is_front = plan.is_front;
        site_plan_release(&plan);
        return is_front;
}

static void who_orders_by_itself_is_believed_for_a_minute_in_enforce_alone(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        assert_true(plan_is_front(&rig));
        (void)rig_do(&rig, "SITEFIRST", "blog");
        assert_true(plan_is_front(&rig));
        (void)rig_do(&rig, "SITEFIRST", "blog", "ORDERED");
        assert_false(plan_is_front(&rig));
        rig_pass_ms(&rig, 59 * MS_PER_S);
        assert_false(plan_is_front(&rig));
        rig_pass_ms(&rig, MS_PER_S);
        assert_true(plan_is_front(&rig));
        rig_release(&rig);
        bench(&rig, MODE_OBSERVE, 20);
        (void)rig_do(&rig, "SITEFIRST", "blog", "ORDERED");
        set_sites(&rig, MODE_ENFORCE, &idle_guard);
        assert_true(plan_is_front(&rig));
        rig_release(&rig);
}

static void the_code_of_a_site_decides_tiers_unless_the_operator_did(void **unused)
{
        (void)unused;
        static const struct {
                const char *hook, *before, *code, *after;
        } rows[] = {
                {"sync", "deferrable", "critical", "deferrable"}, /* a pattern of weir.conf */
                {"set_by_hand", "high", "critical", "high"},
                {"klaviyo_sync", "deferrable", "critical", "critical"}, /* a default */
                {"nofraud_x", "critical", "deferrable", "deferrable"},
                {"unknown", "normal", "high", "high"},
        };
        struct rig rig;
        struct site_plan plan;
        char now[64];
        bench(&rig, MODE_ENFORCE, 20);
        (void)rig_do(&rig, "REGISTRYSET", "set_by_hand", "high");
        survey(&rig, &plan, "klaviyo_sync", 1u, NULL);
        assert_int_equal(plan.n_critical, 0);
        site_plan_release(&plan);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                (void)snprintf(now, sizeof(now), "tier:'%s'", rows[i].before);
                has(rig_do(&rig, "SITEASK", "blog", "HOOK", rows[i].hook), now);
                assert_string_equal(rig_do(&rig, "SITETIER", "blog", rows[i].hook, rows[i].code),
                                    "OK");
        }
        restart(&rig, 20);
        (void)rig_do(&rig, "REGISTRYSET", "other", "high"); /* the registry is built anew */
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                (void)snprintf(now, sizeof(now), "tier:'%s'", rows[i].after);
                has(rig_do(&rig, "SITEASK", "blog", "HOOK", rows[i].hook), now);
        }
        survey(&rig, &plan, "klaviyo_sync", 1u, NULL);
        assert_int_equal(plan.n_critical, 1); /* it goes to the front, and is not moved */
        assert_int_equal(plan.n_steps, 0);
        site_plan_release(&plan);
        has(rig_do(&rig, "SITEFIRST", "blog"), "code:5 hooks:['klaviyo_sync']");
        has(rig_do(&rig, "SITE", "blog"), "tier:'critical' registry:'deferrable' code:'critical'");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                has(rig_do(&rig, "SITETIER", "blog", rows[i].hook, "default"), "OK");
                (void)snprintf(now, sizeof(now), "tier:'%s'", rows[i].before);
                has(rig_do(&rig, "SITEASK", "blog", "HOOK", rows[i].hook), now);
        }
        has(rig_do(&rig, "SITETIER", "blog", "sync", "default"), "OK");
        has(rig_do(&rig, "SITETIER", "nothere", "sync", "high"), "unknown WordPress site");
        has(rig_do(&rig, "SITETIER", "blog", "sync", "urgent"), "deferrable");
        rig_release(&rig);
}

static void the_code_of_a_site_decides_a_limited_number_of_tiers(void **unused)
{
        (void)unused;
        struct rig rig;
        char hook[16];
        bench(&rig, MODE_ENFORCE, 20);
        for (int i = 0; i < LIMIT_SITE_TIERS; i++) {
                (void)snprintf(hook, sizeof(hook), "h%d", i);
                assert_string_equal(rig_do(&rig, "SITETIER", "blog", hook, "high"), "OK");
        }
        has(rig_do(&rig, "SITETIER", "blog", "more", "high"), "tiers of 500 hooks already");
        assert_string_equal(rig_do(&rig, "SITETIER", "blog", "h7", "critical"), "OK");
        assert_string_equal(rig_do(&rig, "SITETIER", "blog", "h7", "default"), "OK");
        assert_string_equal(rig_do(&rig, "SITETIER", "blog", "more", "high"), "OK");
        rig_release(&rig);
}

static void a_runner_waits_no_longer_than_it_said(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        bench(&rig, MODE_ENFORCE, 1);
        same(rig_do(&rig, "SITERUN", "blog", "WAIT", "3000"), "(waits)");
        rig_pass_ms(&rig, 2999);
        assert_false(rig.me.is_answered);
        rig_pass_ms(&rig, 1);
        assert_true(rig.me.is_answered);
        has(text_reply_str(&rig.me.reply), "due:0");
        rig_session_init(&other);
        same(rig_as(&rig, &other, "SITERUN", "blog", "WAIT", "3000"), "(waits)");
        rig_session_release(&rig, &other); /* the client has gone */
        rig_pass_ms(&rig, 5000);
        (void)n_steps(&rig, "pay", 2);
        rig_release(&rig);
}

/* A network with blogs 2 and 3; the latter may be leaving. */
static void set_blogs(struct rig *rig, bool is_leaving)
{
        struct site_options options[] = {{.name = "net"},
                                         {.name = "blog"},
                                         {.name = "net.2", .network = "net"},
                                         {.name = "net.3", .network = "net"}};
        for (size_t i = 0; i < ARRAY_LEN(options); i++) {
                options[i].target = "shop";
                options[i].mode = MODE_ENFORCE;
                options[i].interval_ms = INTERVAL_S * MS_PER_S;
        }
        options[3].is_leaving = is_leaving;
        core_set_sites(rig->core, options, ARRAY_LEN(options), NULL);
}

static void survey_due(struct rig *rig, const char *site, const char *hook, uint32_t due)
{
        struct site_survey v = {.now_s = now_s(rig), .n_hooks = 1};
        struct site_plan plan;
        arena_init(&v.arena, 0);
        v.hooks = arena_array(&v.arena, 1, sizeof(*v.hooks));
        assert_non_null(v.hooks);
        v.hooks[0] = (struct site_hook){.hook = arena_copy(&v.arena, slice_str(hook)), .due = due};
        sites_surveyed(rig->core, slice_str(site), &v, &plan);
        site_plan_release(&plan);
        rig_turn(rig);
}

static void a_runner_of_a_network_waits_for_any_of_its_blogs(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        bench(&rig, MODE_ENFORCE, 1);
        set_blogs(&rig, false);
        rig_session_init(&other);
        same(rig_do(&rig, "SITERUN", "net", "WAIT", "60000", "BLOGS"), "(waits)");
        same(rig_as(&rig, &other, "SITERUN", "net", "WAIT", "60000"), "(waits)");
        survey_due(&rig, "blog", "pay", 5); /* of another WordPress */
        assert_false(rig.me.is_answered);
        survey_due(&rig, "net.2", "pay", 2);
        assert_true(rig.me.is_answered);
        assert_false(other.is_answered); /* it asked for the main blog alone */
        const char *told = text_reply_str(&rig.me.reply);
        has(told, "name:'net' due:0 critical:0");
        has(told, "name:'net.2' due:2 critical:2");
        has(told, "name:'net.3' due:0 critical:0");
        assert_null(strstr(told, "name:'blog'"));
        survey_due(&rig, "net.3", "sync", 1);
        told = rig_do(&rig, "SITERUN", "net", "WAIT", "60000", "BLOGS");
        has(told, "name:'net.3' due:1 critical:0");
        has(rig_do(&rig, "SITERUN", "net"), "blogs:[]");
        told = rig_do(&rig, "SITERUN", "net.2", "BLOGS");
        has(told, "name:'net.2'");
        assert_null(strstr(told, "name:'net.3'"));
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

static void a_runner_of_a_network_is_told_the_blogs_that_there_are_now(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 1);
        set_blogs(&rig, false);
        same(rig_do(&rig, "SITERUN", "net", "WAIT", "60000", "BLOGS"), "(waits)");
        set_blogs(&rig, true);
        assert_true(rig.me.is_answered);
        const char *told = text_reply_str(&rig.me.reply);
        has(told, "name:'net.2'");
        assert_null(strstr(told, "name:'net.3'"));
        survey_due(&rig, "net.3", "pay", 2); /* a blog that is closed runs nothing */
        same(rig_do(&rig, "SITERUN", "net", "WAIT", "60000", "BLOGS"), "(waits)");
        core_set_sites(rig.core, NULL, 0, NULL);
        assert_true(rig.me.is_answered);
        rig_release(&rig);
}

/* ---- sites come and go ---- */

static void a_site_that_is_removed_lets_go_of_all_who_wait(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        struct site_plan plan;
        bench(&rig, MODE_ENFORCE, 20);
        uint64_t number = move(&rig, "sync", 1, 2, 8);
        survey(&rig, &plan, NULL);
        rig_session_init(&other);
        same(rig_do(&rig, "SITERUN", "blog", "WAIT", "60000"), "(waits)");
        same(rig_as(&rig, &other, "SITELOCKS", "blog"), "(waits)");
        core_set_sites(rig.core, NULL, 0, NULL);
        assert_true(rig.me.is_answered);
        asked.request->done(asked.request);
        has(text_reply_str(&other.reply), "the site was removed");
        sites_stepped(rig.core, blog, &plan.steps[0], 2, false);
        sites_failed(rig.core, blog, "x");
        sites_repaired(rig.core, blog, NULL, NULL);
        site_plan_release(&plan);
        assert_int_equal(n_steps(&rig, "sync", 9), 0);
        has(rig_do(&rig, "SITE", "blog"), "none is configured");
        set_sites(&rig, MODE_ENFORCE, &idle_guard); /* and it comes back */
        assert_non_null(batch(&rig, number));
        has(rig_do(&rig, "SITE", "blog"), "moved:2");
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

static void a_site_that_stays_keeps_what_is_known_of_it(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 1);
        (void)n_steps(&rig, "pay", 2);
        sites_failed(rig.core, blog, "the server has gone");
        has(rig_do(&rig, "SITES"), "error:'the server has gone'");
        set_sites(&rig, MODE_OBSERVE, &idle_guard);
        has(rig_do(&rig, "SITE", "blog"), "due:2");
        has(rig_do(&rig, "SITE", "blog"), "mode:'observe'");
        has(rig_do(&rig, "SITES"), "error:'the server has gone'");
        (void)n_steps(&rig, "pay", 1);
        has(rig_do(&rig, "SITES"), "error:''");
        rig_release(&rig);
}

/* ---- requests ---- */

static void requests_without_a_guard_are_refused(void **unused)
{
        (void)unused;
        static const struct sites_guard refuses = {.request = refuse_request};
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 1);
        set_sites(&rig, MODE_ENFORCE, NULL);
        starts_with(rig_do(&rig, "SITELOCKS", "blog"), "!UNAVAIL");
        starts_with(rig_do(&rig, "SITEREPORT", "blog"), "!UNAVAIL");
        starts_with(rig_do(&rig, "SITEREPORT", "none"), "!NOTFOUND");
        set_sites(&rig, MODE_ENFORCE, &refuses);
        starts_with(rig_do(&rig, "SITEACTIONS", "blog"), "!UNAVAIL");
        starts_with(rig_do(&rig, "SITEUNLOCK", "blog", "k"), "!BADARG");
        rig_release(&rig);
}

static void a_report_tells_its_lists_and_what_retention_has_to_delete(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 1);
        same(rig_do(&rig, "SITEREPORT", "blog"), "(waits)");
        struct site_report report = {
                .tables = {{"t0", 5, 6}, {"t1", 0, 0}, {"t2", 0, 0}, {"t3", 0, 0}},
                .n = {[SITE_PAST_DUE] = 1},
                .past = 7,
                .is_past_estimate = true};
        report.lists[SITE_PAST_DUE][0] = (struct site_figure){SLICE_LIT("pay"), 8, true, 9};
        asked.request->report = &report;
        asked.request->done(asked.request);
        has(text_reply_str(&rig.me.reply), "rows:5 bytes:6");
        has(text_reply_str(&rig.me.reply), "name:'pay' count:8 estimate:true seconds:9");
        has(text_reply_str(&rig.me.reply), "past:7");
        same(rig_do(&rig, "SITEREPORT", "blog"), "(waits)");
        asked.request->done(asked.request);
        has(text_reply_str(&rig.me.reply), "the guard made no report");
        rig_release(&rig);
}

static void an_answer_for_a_client_that_has_gone_is_dropped(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        bench(&rig, MODE_ENFORCE, 1);
        rig_session_init(&other);
        same(rig_as(&rig, &other, "SITELOCK", "blog", "k"), "(waits)");
        assert_int_equal(asked.request->token.len, 32);
        assert_int_equal(asked.request->ttl_s, 60);
        rig_session_release(&rig, &other);
        asked.request->done(asked.request);
        rig_release(&rig);
}

static void an_action_tells_where_it_was_moved_from(void **unused)
{
        (void)unused;
        struct rig rig;
        bench(&rig, MODE_ENFORCE, 20);
        move(&rig, "sync", 7, 1, 600);
        same(rig_do(&rig, "SITEWHY", "blog", "7"), "(waits)");
        struct site_action action = {.id = 7,
                                     .hook = slice_str("sync"),
                                     .status = slice_str("pending"),
                                     .scheduled_s = now_s(&rig) + 600};
        asked.request->actions = &action;
        asked.request->n_actions = 1;
        asked.request->done(asked.request);
        has(text_reply_str(&rig.me.reply), "moved:true");
        has(text_reply_str(&rig.me.reply), "weir moved it");
        same(rig_do(&rig, "SITEWHY", "blog", "8"), "(waits)");
        asked.request->done(asked.request);
        has(text_reply_str(&rig.me.reply), "there is no action 8");
        rig_release(&rig);
}

static void moved_actions_are_listed_by_pages_newest_first(void **unused)
{
        (void)unused;
        struct rig rig;
        char cursor[24] = "";
        uint64_t want = 9;
        bench(&rig, MODE_ENFORCE, 20);
        for (uint64_t id = 1; id <= 7; id += 3)
                move(&rig, "sync", id, 3, 600 + (int64_t)id);
        do {
                same(cursor[0]
                             ? rig_do(&rig, "SITEACTIONS", "blog", "STATUS", "moved", "LIMIT", "2",
                                      "CURSOR", cursor)
                             : rig_do(&rig, "SITEACTIONS", "blog", "STATUS", "moved", "LIMIT", "2"),
                     "(waits)");
                for (size_t i = 0; i < asked.request->n_ids; i++)
                        assert_int_equal(asked.request->ids[i], want--);
                asked.request->done(asked.request);
                const char *told = strstr(text_reply_str(&rig.me.reply), "cursor:'");
                assert_non_null(told);
                (void)snprintf(cursor, sizeof(cursor), "%.*s", (int)strcspn(told + 8, "'"),
                               told + 8);
                move(&rig, "sync", 100 + want, 1, 900); /* comes before the first page */
        } while (cursor[0]);
        assert_int_equal(want, 0);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(tiers_that_run_get_no_step),
                cmocka_unit_test(actions_of_tiers_that_wait_move_by_the_delay_of_the_matrix),
                cmocka_unit_test(a_slow_database_lets_the_guard_look_further_ahead),
                cmocka_unit_test(modes_that_only_watch_give_no_steps_and_change_nothing),
                cmocka_unit_test(a_setting_changes_the_mode_of_a_site),
                cmocka_unit_test(a_blog_has_the_mode_of_its_network_unless_it_has_its_own),
                cmocka_unit_test(a_blog_that_leaves_gets_back_what_was_moved_and_nothing_else),
                cmocka_unit_test(a_pause_counts_as_critical),
                cmocka_unit_test(nothing_moves_before_the_first_measurement),
                cmocka_unit_test(retention_waits_for_the_first_measurement_and_a_normal_level),
                cmocka_unit_test(nothing_returns_before_the_first_measurement),
                cmocka_unit_test(a_target_that_is_not_configured_is_an_unknown_level),
                cmocka_unit_test(a_target_that_cannot_be_measured_is_an_unknown_level),
                cmocka_unit_test(what_critical_held_stays_held_while_nobody_answers),
                cmocka_unit_test(a_change_of_the_registry_holds_from_the_next_survey),
                cmocka_unit_test(hooks_are_compared_with_their_case),
                cmocka_unit_test(hooks_that_a_plan_left_out_come_first_in_the_next),
                cmocka_unit_test(the_guard_is_woken_when_a_decision_may_change),
                cmocka_unit_test(actions_that_waited_long_enough_are_left_out),
                cmocka_unit_test(a_max_deferral_shorter_than_the_delay_shortens_the_delay),
                cmocka_unit_test(late_actions_of_a_batch_return_and_the_others_move_on),
                cmocka_unit_test(a_hook_is_deferred_only_so_often_in_an_hour),
                cmocka_unit_test(async_actions_keep_their_first_original),
                cmocka_unit_test(a_batch_about_to_fall_due_is_shifted_in_time),
                cmocka_unit_test(a_shift_that_was_cut_off_or_refused_goes_on),
                cmocka_unit_test(a_plan_that_is_out_of_date_moves_nothing),
                cmocka_unit_test(a_move_that_found_nothing_leaves_no_batch),
                cmocka_unit_test(a_batch_that_nobody_looks_after_is_forgotten_a_day_after_its_date),
                cmocka_unit_test(a_ledger_without_room_refuses_without_a_trace),
                cmocka_unit_test(a_ledger_that_is_full_refuses_new_batches_only),
                cmocka_unit_test(actions_return_important_and_old_ones_first),
                cmocka_unit_test(nothing_returns_while_other_work_waits),
                cmocka_unit_test(a_rise_of_the_level_stops_the_way_back),
                cmocka_unit_test(actions_of_a_hook_that_became_critical_return_at_once),
                cmocka_unit_test(a_return_that_was_refused_stays_in_the_ledger),
                cmocka_unit_test(a_move_that_the_ledger_does_not_know_comes_into_it_and_returns),
                cmocka_unit_test(only_a_site_in_enforce_takes_such_moves),
                cmocka_unit_test(runners_defer_single_actions_into_shared_batches),
                cmocka_unit_test(a_runner_waits_until_something_may_run),
                cmocka_unit_test(runners_are_capped_while_more_than_the_critical_tier_may_run),
                cmocka_unit_test(the_hooks_that_go_first_are_those_of_the_critical_tier),
                cmocka_unit_test(the_code_of_a_site_decides_tiers_unless_the_operator_did),
                cmocka_unit_test(the_code_of_a_site_decides_a_limited_number_of_tiers),
                cmocka_unit_test(who_orders_by_itself_is_believed_for_a_minute_in_enforce_alone),
                cmocka_unit_test(a_runner_waits_no_longer_than_it_said),
                cmocka_unit_test(a_runner_of_a_network_waits_for_any_of_its_blogs),
                cmocka_unit_test(a_runner_of_a_network_is_told_the_blogs_that_there_are_now),
                cmocka_unit_test(a_site_that_is_removed_lets_go_of_all_who_wait),
                cmocka_unit_test(a_site_that_stays_keeps_what_is_known_of_it),
                cmocka_unit_test(requests_without_a_guard_are_refused),
                cmocka_unit_test(a_report_tells_its_lists_and_what_retention_has_to_delete),
                cmocka_unit_test(an_answer_for_a_client_that_has_gone_is_dropped),
                cmocka_unit_test(an_action_tells_where_it_was_moved_from),
                cmocka_unit_test(moved_actions_are_listed_by_pages_newest_first),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

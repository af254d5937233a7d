/* What the loop decides for the actions of a WordPress site. */
#include "site_box.h"

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
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

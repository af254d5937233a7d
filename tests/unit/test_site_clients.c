/* What clients ask of a site: runners, the plugin, lists, reports; and sites that come and go. */
#include "site_box.h"

/* ---- SITEDEFER ---- */

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

/* Listings: each filter over live and archived jobs alike, both orders, pages of any size, and
 * steps that are bounded however many jobs there are. */
#include "check.h"

#include <stdio.h>

#include "jobs/find_walk.h"
#include "support/rig.h"

/* The ids of a reply, in order, as "3 2 1". */
static const char *ids_of(const char *reply)
{
        static char text[65536];
        size_t n = 0;
        text[0] = '\0';
        for (const char *at = reply; (at = strstr(at, "{id:")); at += 4)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%llu", n ? " " : "",
                                      strtoull(at + 4, NULL, 10));
        return text;
}

#define assert_ids(reply, want) assert_string_equal(ids_of(reply), want)

static void finish(struct rig *rig, const char *worker, const char *queue)
{
        char token[33];
        uint64_t id = rig_claim(rig, worker, queue, token);
        assert_string_equal(rig_do(rig, "COMPLETE", rig_number(id), token, "well done"), "OK");
}

/* 1 mail/a/g1 complete by w1, archived; 2 mail/b critical canceled, archived; 3 mail/a/g1 pending;
 * 4 sms/b running by w2; 5 mail/b/g2 deferrable pending; one each 10 ms. */
static void make_jobs(struct rig *rig)
{
        rig_init(rig);
        rig_do(rig, "ENQUEUE", "mail", "{\"to\":\"ann\"}", "QUEUE", "a", "GROUP", "g1");
        finish(rig, "w1", "a");
        rig_pass_ms(rig, 10);
        rig_do(rig, "ENQUEUE", "mail", "{\"to\":\"bob\"}", "QUEUE", "b", "TIER", "critical");
        rig_do(rig, "CANCEL", "2");
        rig_archive_all(rig);
        rig_pass_ms(rig, 10);
        rig_do(rig, "ENQUEUE", "mail", "{\"to\":\"bob\"}", "QUEUE", "a", "GROUP", "g1");
        rig_pass_ms(rig, 10);
        char token[33];
        rig_do(rig, "ENQUEUE", "sms", "{\"to\":\"cy\"}", "QUEUE", "b");
        assert_int_equal(rig_claim(rig, "w2", "b", token), 4);
        rig_pass_ms(rig, 10);
        rig_do(rig, "ENQUEUE", "mail", "{}", "QUEUE", "b", "GROUP", "g2", "TIER", "deferrable");
        assert_int_equal(rig->core->state.jobs.len, 3);
}

static void a_filter_holds_for_live_and_archived_jobs_alike(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        assert_ids(rig_do(&rig, "JOBS"), "5 4 3 2 1");
        assert_ids(rig_do(&rig, "JOBS", "HOOK", "mail"), "5 3 2 1");
        assert_ids(rig_do(&rig, "JOBS", "HOOK", "nobody"), "");
        assert_ids(rig_do(&rig, "JOBS", "QUEUE", "b"), "5 4 2");
        assert_ids(rig_do(&rig, "JOBS", "GROUP", "g1"), "3 1");
        assert_ids(rig_do(&rig, "JOBS", "STATUS", "pending"), "5 3");
        assert_ids(rig_do(&rig, "JOBS", "STATUS", "in-progress"), "4");
        assert_ids(rig_do(&rig, "JOBS", "STATUS", "complete"), "1");
        assert_ids(rig_do(&rig, "JOBS", "STATUS", "canceled"), "2");
        assert_ids(rig_do(&rig, "JOBS", "STATUS", "failed"), "");
        assert_ids(rig_do(&rig, "JOBS", "WORKER", "w1"), "1");
        assert_ids(rig_do(&rig, "JOBS", "WORKER", "w2"), "4");
        assert_ids(rig_do(&rig, "JOBS", "WORKER", "w3"), "");
        assert_ids(rig_do(&rig, "JOBS", "MATCH", "bob"), "3 2");
        assert_ids(rig_do(&rig, "JOBS", "MATCH", "sms"), "4");
        assert_ids(rig_do(&rig, "JOBS", "MATCH", "well"), "1");
        assert_ids(rig_do(&rig, "JOBS", "HOOK", "mail", "QUEUE", "b", "GROUP", "g2"), "5");
        rig_release(&rig);
}

static void a_tier_is_the_jobs_own_or_that_of_its_hook(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        assert_ids(rig_do(&rig, "JOBS", "TIER", "critical"), "2");
        assert_ids(rig_do(&rig, "JOBS", "TIER", "deferrable"), "5");
        assert_ids(rig_do(&rig, "JOBS", "TIER", "normal"), "4 3 1");
        assert_string_equal(rig_do(&rig, "REGISTRYSET", "mail", "high"), "OK");
        assert_ids(rig_do(&rig, "JOBS", "TIER", "normal"), "4");
        assert_ids(rig_do(&rig, "JOBS", "TIER", "high"), "3 1");
        rig_release(&rig);
}

static void since_is_included_and_until_is_not(void **state)
{
        struct rig rig;
        char first[24], third[24];
        (void)state;
        make_jobs(&rig);
        int64_t third_ms = state_job(&rig.core->state, 3)->created_ms;
        (void)snprintf(third, sizeof(third), "%lld", (long long)third_ms);
        (void)snprintf(first, sizeof(first), "%lld", (long long)(third_ms - 20));
        assert_ids(rig_do(&rig, "JOBS", "SINCE", third), "5 4 3");
        assert_ids(rig_do(&rig, "JOBS", "UNTIL", third), "2 1");
        assert_ids(rig_do(&rig, "JOBS", "SINCE", first, "UNTIL", third), "2 1");
        assert_ids(rig_do(&rig, "JOBS", "SINCE", third, "UNTIL", third), "");
        rig_release(&rig);
}

/* All ids, page by page, until the cursor is empty. */
static const char *walk_pages(struct rig *rig, const char *order, const char *limit)
{
        static char all[65536];
        char cursor[24] = "";
        size_t n = 0;
        all[0] = '\0';
        do {
                const char *reply =
                        rig_do(rig, "JOBS", "ORDER", order, "LIMIT", limit, "CURSOR", cursor);
                while (strcmp(reply, "(waits)") == 0) {
                        rig_turn(rig);
                        reply = rig->me.is_answered ? text_reply_str(&rig->me.reply) : "(waits)";
                }
                n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", n ? " " : "",
                                      ids_of(reply));
                cursor[0] = '\0';
                (void)sscanf(strstr(reply, "cursor:"), "cursor:'%23[0-9]", cursor);
        } while (cursor[0]);
        return all;
}

static void pages_of_any_size_lead_through_all_jobs_in_both_orders(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        for (int limit = 1; limit <= 6; limit++) {
                char text[12];
                (void)snprintf(text, sizeof(text), "%d", limit);
                for (rig.archive.budget = 0; rig.archive.budget <= 2; rig.archive.budget++) {
                        const char *down = walk_pages(&rig, "newest", text);
                        char packed[32];
                        /* A page that is cut may be empty. */
                        size_t n = 0;
                        for (; *down; down++)
                                if (*down != ' ')
                                        packed[n++] = *down;
                        packed[n] = '\0';
                        assert_string_equal(packed, "54321");
                        n = 0;
                        for (const char *up = walk_pages(&rig, "oldest", text); *up; up++)
                                if (*up != ' ')
                                        packed[n++] = *up;
                        packed[n] = '\0';
                        assert_string_equal(packed, "12345");
                }
        }
        assert_memory_equal(rig_do(&rig, "JOBS", "CURSOR", "x"), "!BADARG", 7);
        rig_release(&rig);
}

static void enqueue_many(struct rig *rig, size_t n)
{
        struct slice argv[2 + 2 * 1000];
        for (size_t i = 0; i < ARRAY_LEN(argv); i++)
                argv[i] = i % 2 ? SLICE_LIT("{\"number\":1}") : SLICE_LIT("h");
        argv[0] = SLICE_LIT("ENQUEUEMANY");
        argv[1] = SLICE_LIT("JOBS");
        for (; n; n -= 1000)
                (void)rig_argv(rig, &rig->me, argv, ARRAY_LEN(argv));
}

static int64_t ticks; /* each look at the watch takes one */

static int64_t tick(void)
{
        return ++ticks * 100000;
}

static void a_listing_of_many_takes_many_turns_and_none_of_them_is_long(void **state)
{
        struct rig rig;
        (void)state;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "rare", "needle");
        enqueue_many(&rig, 50000);
        for (int with_watch = 0; with_watch < 2; with_watch++) {
                int turns = 0;
                rig.core->options.watch_ns = with_watch ? tick : NULL;
                rig_turn(&rig);
                (void)rig_do(&rig, "JOBS", "MATCH", "needle");
                for (; !rig.me.is_answered; turns++) {
                        int64_t before = ticks;
                        rig_turn(&rig);
                        assert_true(ticks - before <= 15); /* 1 ms and a few looks */
                }
                assert_ids(text_reply_str(&rig.me.reply), "1");
                assert_in_range(turns, 2, 40);
        }
        rig_release(&rig);
}

static void many_listings_share_the_time_of_a_turn(void **state)
{
        struct rig rig;
        struct rig_session others[8];
        (void)state;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "rare", "needle");
        enqueue_many(&rig, 50000);
        rig_turn(&rig);
        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
                rig_session_init(&others[i]);
                (void)rig_as(&rig, &others[i], "JOBS", "MATCH", "needle");
        }
        int turns = 0, answered = 0;
        for (; !list_is_empty(&rig.core->scans); turns++)
                rig_turn(&rig);
        rig_turn(&rig);
        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
                answered += others[i].is_answered;
                assert_ids(text_reply_str(&others[i].reply), "1");
                rig_session_release(&rig, &others[i]);
        }
        assert_int_equal(answered, ARRAY_LEN(others));
        assert_true(turns >= 8 * 50000 / 20000 - 1); /* the first did a share when it came */
        rig_release(&rig);
}

static int64_t slow_tick(void)
{
        return ++ticks * 3000000; /* a turn's share is over with the next look */
}

static void a_listing_that_takes_too_long_ends_its_page_and_the_cursor_leads_on(void **state)
{
        struct rig rig;
        (void)state;
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "rare", "needle");
        enqueue_many(&rig, 50000);
        rig.core->options.watch_ns = slow_tick;
        for (int up = 0; up < 2; up++) {
                char cursor[24] = "";
                int found = 0, pages = 0;
                do {
                        rig_turn(&rig);
                        (void)rig_do(&rig, "JOBS", "MATCH", "needle", "CURSOR", cursor, "ORDER",
                                     up ? "oldest" : "newest");
                        while (!rig.me.is_answered)
                                rig_turn(&rig);
                        const char *reply = text_reply_str(&rig.me.reply);
                        found += strstr(reply, "{id:1 ") != NULL;
                        cursor[0] = '\0';
                        (void)sscanf(strstr(reply, "cursor:"), "cursor:'%23[0-9]", cursor);
                        pages++;
                } while (cursor[0]);
                assert_int_equal(found, 1);
                assert_in_range(pages, 2, 200);
        }
        rig_release(&rig);
}

static void a_listing_whose_peer_goes_away_is_forgotten(void **state)
{
        struct rig rig;
        struct rig_session other;
        (void)state;
        rig_init(&rig);
        enqueue_many(&rig, 50000);
        rig_turn(&rig);
        rig_session_init(&other);
        assert_string_equal(rig_as(&rig, &other, "JOBS", "MATCH", "needle", "TIER", "high"),
                            "(waits)");
        rig_session_release(&rig, &other);
        assert_true(list_is_empty(&rig.core->scans));
        rig_turn(&rig);
        rig_release(&rig);
}

static void counts_are_those_of_the_lists(void **state)
{
        struct rig rig;
        (void)state;
        make_jobs(&rig);
        rig_do(&rig, "ENQUEUE", "late", "", "QUEUE", "a", "IN", "5000");
        assert_string_equal(rig_do(&rig, "JOBCOUNTS"),
                            "{pending:3 in-progress:1 complete:1 failed:0 canceled:1 ready:2 "
                            "scheduled:1 waiting:0 parked:0 returning:0]");
        assert_string_equal(rig_do(&rig, "JOBCOUNTS", "QUEUE", "b"),
                            "{pending:1 in-progress:1 complete:0 failed:0 canceled:1 ready:1 "
                            "scheduled:0 waiting:0 parked:0 returning:0]");
        assert_memory_equal(rig_do(&rig, "JOBCOUNTS", "QUEUE", "x"), "!NOTFOUND", 9);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_filter_holds_for_live_and_archived_jobs_alike),
                cmocka_unit_test(a_tier_is_the_jobs_own_or_that_of_its_hook),
                cmocka_unit_test(since_is_included_and_until_is_not),
                cmocka_unit_test(pages_of_any_size_lead_through_all_jobs_in_both_orders),
                cmocka_unit_test(a_listing_of_many_takes_many_turns_and_none_of_them_is_long),
                cmocka_unit_test(many_listings_share_the_time_of_a_turn),
                cmocka_unit_test(
                        a_listing_that_takes_too_long_ends_its_page_and_the_cursor_leads_on),
                cmocka_unit_test(a_listing_whose_peer_goes_away_is_forgotten),
                cmocka_unit_test(counts_are_those_of_the_lists),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

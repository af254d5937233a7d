/* Those who ask: counts per name, a bounded table, minutes, who is active, and what is told of all
 * that. */
#include "check.h"

#include "client_box.h"

static void expect(struct rig *rig, const char *name, const char *part)
{
        has(rig_do(rig, "CLIENTSHOW", name), part);
}

/* ---- counting ---- */

static void the_whole_and_each_part_are_counted(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        granted(&rig, "7f:copy:etl");
        refused(&rig, "80:copy:etl");
        observed(&rig, "80:copy:etl");
        expect(&rig, "7f:copy:etl", "kind:'identity' asks:1 granted:1 refused:0 observed:0");
        expect(&rig, "80:copy:etl", "kind:'identity' asks:2 granted:1 refused:1 observed:1");
        expect(&rig, "80:copy:etl", "share_refused:'0.5'");
        expect(&rig, "80", "kind:'part' asks:2");
        expect(&rig, "etl", "kind:'part' asks:3 granted:2 refused:1 observed:1");
        expect(&rig, "etl", "identities:2");
        expect(&rig, "etl", "reasons:{hold:1 threshold:1]");
        expect(&rig, "7f:copy:etl", "parts:['7f' 'copy' 'etl']");
        has(rig_do(&rig, "CLIENTSHOW", "nobody"),
            "!NOTFOUND no client has asked as 'nobody' since weir started, and no earlier minute "
            "in "
            "history names it; the list of clients shows who has asked");
        release(&rig);
}

/* After a restart totals begin anew, and of a kill's minute nothing is known: an answer says from
 * when it counts. */
static void counts_say_since_when_they_count(void **state)
{
        struct rig rig;
        char text[96];
        (void)state;
        init(&rig);
        granted(&rig, "etl");
        rig_turn(&rig);
        rig_restart(&rig);
        rig_set_gate(&rig, targets, ARRAY_LEN(targets), MODE_OFF, MODE_OFF);
        rig_turn(&rig);
        int64_t start_ms = rig.now.wall_ms;
        has(rig_do(&rig, "CLIENTSHOW", "etl"), "!NOTFOUND");
        rig_pass_ms(&rig, 2 * HOUR);
        granted(&rig, "etl");
        (void)snprintf(text, sizeof(text), "start_ms:%lld]", (long long)start_ms);
        has(rig_do(&rig, "CLIENTS"), text);
        (void)snprintf(text, sizeof(text), " from_ms:%lld minutes_from_ms:%lld ",
                       (long long)start_ms, (long long)start_ms);
        expect(&rig, "etl", text);
        /* A day later the day is known, from its first minute on. */
        rig_pass_ms(&rig, 24 * HOUR);
        (void)snprintf(text, sizeof(text), " from_ms:%lld minutes_from_ms:%lld ",
                       (long long)start_ms, (long long)(start_ms + 2 * HOUR));
        expect(&rig, "etl", text);
        /* Hours that were taken back are not known any more. */
        rig.core->clients->minutes.lost_hour = (rig.now.wall_ms - 3 * HOUR) / HOUR;
        (void)snprintf(text, sizeof(text), " minutes_from_ms:%lld ",
                       (long long)(rig.now.wall_ms - 2 * HOUR));
        expect(&rig, "etl", text);
        release(&rig);
}

/* Who was throttled when is known after a restart, also of one that has not asked since. */
static void a_day_survives_a_restart(void **state)
{
        struct rig rig;
        char text[256];
        (void)state;
        init(&rig);
        rig_pass_ms(&rig, MINUTE);
        int64_t first_ms = rig.now.wall_ms;
        const struct check_verdict no = {.reason = CHECK_THRESHOLD};
        struct client_count count = counting(&no);
        count.metric = 0;
        rig_sample(&rig, 0, 0, 99); /* the metric is named by the minute it was measured in */
        for (int i = 0; i < 12; i++)
                count_as(&rig, "job:etl", &count);
        rig_pass_ms(&rig, MINUTE);
        rig_restart(&rig);
        rig_set_gate(&rig, targets, ARRAY_LEN(targets), MODE_OFF, MODE_OFF);
        rig_turn(&rig);
        expect(&rig, "etl", "asks:12 granted:0 refused:12");
        expect(&rig, "etl", "reasons:{threshold:12]");
        expect(&rig, "job:etl", "was mostly refused between");
        expect(&rig, "job:etl", "because of threads_running on shop");
        (void)snprintf(text, sizeof(text),
                       "{at_ms:%lld asks:12 granted:0 refused:12 observed:0 waited_ms:0 "
                       "reason:'threshold' metric:'threads_running' target:'shop'",
                       (long long)first_ms);
        expect(&rig, "job:etl", text);
        granted(&rig, "job:etl");
        expect(&rig, "job:etl", "asks:1 granted:1 refused:0"); /* totals are of this life */
        expect(&rig, "job:etl", text);
        (void)snprintf(text, sizeof(text), " minutes_from_ms:%lld ",
                       (long long)(first_ms - MINUTE));
        expect(&rig, "job:etl", text);
        release(&rig);
}

static void restart(struct rig *rig, bool is_clean)
{
        if (is_clean)
                core_end(rig->core);
        rig_restart(rig);
        rig_set_gate(rig, targets, ARRAY_LEN(targets), MODE_OFF, MODE_OFF);
        rig_turn(rig);
}

/* Before and after the restart in one minute: both parts are told, while it lasts and later. */
static void the_minute_of_a_restart_has_both_its_parts(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        granted(&rig, "job:etl");
        refused(&rig, "job:etl");
        refused(&rig, "job:once");
        restart(&rig, true);
        expect(&rig, "job:etl", "asks:2 granted:1 refused:1");
        expect(&rig, "once", "asks:1 granted:0 refused:1");
        expect(&rig, "once", "reason:'threshold'");
        granted(&rig, "job:etl");
        expect(&rig, "job:etl", "asks:1 granted:1 refused:0"); /* totals are of this life */
        expect(&rig, "job:etl", "minutes:[{at_ms:1699945200000 asks:3 granted:2 refused:1 ");
        restart(&rig, true);
        expect(&rig, "job:etl", "minutes:[{at_ms:1699945200000 asks:3 granted:2 refused:1 ");
        granted(&rig, "job:etl");
        rig_pass_ms(&rig, MINUTE);
        expect(&rig, "job:etl", "minutes:[{at_ms:1699945200000 asks:4 granted:3 refused:1 ");
        expect(&rig, "once", "minutes:[{at_ms:1699945200000 asks:1 granted:0 refused:1 ");
        release(&rig);
}

/* A kill loses the minute it falls into: the answer does not claim that nobody asked in it. */
static void after_a_kill_the_lost_minute_is_not_denied(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        granted(&rig, "etl");
        restart(&rig, false);
        has(rig_do(&rig, "CLIENTSHOW", "etl"),
            "!NOTFOUND no client has asked as 'etl' since weir started, and no earlier minute in "
            "history names it;");
        rig_pass_ms(&rig, 25 * HOUR);
        has(rig_do(&rig, "CLIENTSHOW", "etl"),
            "!NOTFOUND no client has asked as 'etl' since weir started; the list");
        release(&rig);
}

static void an_identity_of_one_part_is_counted_once(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        granted(&rig, "etl");
        expect(&rig, "etl", "kind:'identity' asks:1");
        expect(&rig, "etl", "parts:[]");
        assert_int_equal(rig.core->clients->names.len, 1);
        granted(&rig, "a:a"); /* and a part that is there twice, too */
        expect(&rig, "a", "asks:1");
        expect(&rig, "a:a", "parts:['a']");
        release(&rig);
}

static void a_name_that_is_both_has_the_sum_and_metrics_tell_each_ask_once(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        granted(&rig, "x:etl"); /* first a part, then an identity of its own */
        granted(&rig, "etl");
        granted(&rig, "etl");
        expect(&rig, "etl", "kind:'identity' asks:3");
        assert_int_equal(rig.core->clients->n_wholes, 2);
        const struct client *e = CONTAINER_OF(
                hash_find(&rig.core->clients->names, SLICE_LIT("etl")), const struct client, node);
        assert_int_equal(totals_asks(&e->total[AS_WHOLE]), 2);
        has(rig_do(&rig, "CLIENTS", "KIND", "part"), "name:'etl'");
        has(rig_do(&rig, "CLIENTS", "KIND", "identity"), "name:'etl'");
        has_not(rig_do(&rig, "CLIENTS", "KIND", "identity"), "name:'x'");
        has_not(rig_do(&rig, "CLIENTS", "KIND", "part"), "name:'x:etl'");
        release(&rig);
}

static void the_last_addresses_are_kept_the_newest_first(void **state)
{
        struct rig rig;
        struct check_verdict v = {.is_granted = true, .value = -1};
        struct client_count count = counting(&v);
        const char *from[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "", "10.0.0.2", "10.0.0.5"};
        (void)state;
        init(&rig);
        for (size_t i = 0; i < ARRAY_LEN(from); i++) {
                count.address = slice_str(from[i]);
                count.is_authenticated = i % 2;
                count_as(&rig, "etl", &count);
        }
        const char *text = rig_do(&rig, "CLIENTSHOW", "etl");
        const char *at = strstr(text, "addresses:[{address:'10.0.0.5' ");
        assert_non_null(at);
        at = strstr(at, "{address:'10.0.0.2' ");
        assert_non_null(at);
        at = strstr(at, "{address:'' ");
        assert_non_null(at);
        assert_non_null(strstr(at, "{address:'10.0.0.3' "));
        has_not(text, "10.0.0.1");
        has(text, "authenticated:true");
        has(text, "address:'10.0.0.5' waiting_ms:0");
        release(&rig);
}

static void note_address(void *ctx, struct slice identity, struct slice address, int64_t wall_ms)
{
        struct buf *b = ctx;
        buf_printf(b, "%.*s/%.*s@%lld ", (int)identity.len, identity.ptr, (int)address.len,
                   address.ptr, (long long)(wall_ms / HOUR % 24));
}

static void every_identity_is_told_with_each_address(void **state)
{
        struct rig rig;
        struct buf b;
        (void)state;
        init(&rig);
        buf_init(&b, 0);
        granted(&rig, "x:etl");
        rig_pass_ms(&rig, HOUR);
        granted(&rig, "purge");
        clients_each_address(rig.core, note_address, &b);
        assert_string_equal(buf_cstr(&b), "x:etl/10.0.0.1@7 purge/10.0.0.1@8 ");
        buf_release(&b);
        release(&rig);
}

/* ---- the bound ---- */

static void name_of(char *ret, size_t size, size_t i)
{
        (void)snprintf(ret, size, "j%zu:etl", i);
}

struct totals_seen {
        double granted, refused;
        size_t n, clients;
};

static void sum_up(void *ctx, const char *name, const char *labels, double value)
{
        struct totals_seen *seen = ctx;
        if (!strcmp(name, "check_clients"))
                seen->clients = (size_t)value;
        if (strcmp(name, "check_asks_total") != 0)
                return;
        seen->n++;
        *(strstr(labels, "refused") ? &seen->refused : &seen->granted) += value;
}

static void the_table_is_bounded_and_the_one_that_asked_longest_ago_goes(void **state)
{
        struct rig rig;
        struct totals_seen seen = {0};
        char name[32];
        size_t n = LIMIT_CLIENTS / 2; /* each has a part of its own */
        (void)state;
        init(&rig);
        for (size_t i = 0; i < n; i++) {
                (void)snprintf(name, sizeof(name), "j%zu:p%zu", i, i);
                granted(&rig, "first"); /* stays, for it asks all the time */
                granted(&rig, name);
        }
        struct clients *c = rig.core->clients;
        clients_check(c);
        assert_true(c->names.len <= LIMIT_CLIENTS && c->names.len > LIMIT_CLIENTS - 3);
        has(rig_do(&rig, "CLIENTSHOW", "j0:p0"), "!NOTFOUND");
        has(rig_do(&rig, "CLIENTSHOW", "p0"), "!NOTFOUND");
        expect(&rig, "first", "asks:5000");
        clients_each_sample(rig.core, sum_up, &seen);
        assert_int_equal((size_t)seen.granted, 2 * n);
        assert_int_equal(seen.n, 51 * 3);
        assert_int_equal(seen.clients, c->names.len);
        assert_true(totals_asks(&c->other) > 0);
        release(&rig);
}

static void a_part_lives_as_long_as_an_identity_that_has_it(void **state)
{
        struct rig rig;
        char name[32];
        (void)state;
        init(&rig);
        for (size_t i = 0; i < LIMIT_CLIENTS + 500; i++) {
                name_of(name, sizeof(name), i);
                granted(&rig, name);
        }
        clients_check(rig.core->clients);
        expect(&rig, "etl", "kind:'part' asks:10500");
        release(&rig);
}

static void a_name_that_is_no_identity_any_more_keeps_its_counts_as_a_part(void **state)
{
        struct rig rig;
        char name[32];
        (void)state;
        init(&rig);
        granted(&rig, "etl");
        for (size_t i = 0; i < LIMIT_CLIENTS; i++) {
                name_of(name, sizeof(name), i);
                granted(&rig, name);
        }
        clients_check(rig.core->clients);
        expect(&rig, "etl", "kind:'part' asks:10001");
        granted(&rig, "etl");
        expect(&rig, "etl", "kind:'identity' asks:10002");
        release(&rig);
}

/* ---- who is active ---- */

static void identities_are_active_for_five_seconds_on_their_target(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        assert_int_equal(clients_active(rig.core, 0), 1); /* whoever wants to know */
        granted(&rig, "a");
        granted(&rig, "b:x");
        granted(&rig, "b:x");
        granted_on(&rig, "c", 1);
        assert_int_equal(clients_active(rig.core, 0), 2);
        assert_int_equal(clients_active(rig.core, 1), 1);
        rig_pass_ms(&rig, 5000);
        assert_int_equal(clients_active(rig.core, 0), 2);
        granted(&rig, "d");
        refused(&rig, "a");
        assert_int_equal(clients_active(rig.core, 0), 3);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(clients_active(rig.core, 0), 2);
        clients_check(rig.core->clients);
        rig_pass_ms(&rig, 7 * HOUR);
        assert_int_equal(clients_active(rig.core, 0), 1);
        release(&rig);
}

static void
an_identity_on_more_targets_than_are_told_apart_is_counted_on_the_last_ones(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        for (uint8_t t = 0; t < CLIENT_TARGETS + 4; t++) {
                granted_on(&rig, "a", t);
                granted_on(&rig, "b", t);
                clients_check(rig.core->clients);
                rig_pass_ms(&rig, 1000);
        }
        assert_int_equal(clients_active(rig.core, CLIENT_TARGETS + 3), 2);
        granted_on(&rig, "a", NONE);
        release(&rig);
}

/* ---- minutes ---- */

static void a_minute_holds_what_was_asked_in_it(void **state)
{
        struct rig rig;
        struct check_verdict v = {.reason = CHECK_THRESHOLD, .value = -1};
        struct client_count count = counting(&v);
        (void)state;
        init(&rig);
        granted(&rig, "etl");
        refused(&rig, "etl");
        rig_pass_ms(&rig, 59999);
        count.waited_ms = 250;
        count.metric = 1;
        count_as(&rig, "etl", &count);
        rig_pass_ms(&rig, 1);
        granted(&rig, "etl");
        const char *text = rig_do(&rig, "CLIENTSHOW", "etl");
        has(text, "minutes:[{at_ms:1699945260000 asks:1 granted:1 refused:0 observed:0 "
                  "waited_ms:0 reason:'' metric:'' target:''] "
                  "{at_ms:1699945200000 asks:3 granted:1 refused:2 observed:0 waited_ms:250 "
                  "reason:'threshold' metric:'replication_lag' target:'shop']]");
        has(text, "waited_ms:250");
        has_not(rig_do(&rig, "CLIENTSHOW", "etl", "MINUTES", "1"), "at_ms:1699945200000");
        has(rig_do(&rig, "CLIENTSHOW", "etl", "MINUTES", "0"), "minutes:[]");
        release(&rig);
}

static void minutes_older_than_a_day_are_gone(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        granted(&rig, "etl");
        rig_pass_ms(&rig, CLIENT_MINUTES * MINUTE - 1);
        expect(&rig, "etl", "minutes:[{at_ms:1699945200000");
        rig_pass_ms(&rig, 1);
        expect(&rig, "etl", "minutes:[]");
        rig_pass_ms(&rig, HOUR);
        granted(&rig, "etl"); /* in the place of the first hour */
        expect(&rig, "etl", "minutes:[{at_ms:1700035200000 asks:1 ");
        expect(&rig, "etl", "asks:2");
        assert_int_equal(rig.core->clients->minutes.n, 1);
        release(&rig);
}

static void all_minutes_together_are_bounded_and_the_oldest_go(void **state)
{
        struct minute_pool pool;
        struct minutes day[3];
        (void)state;
        memset(day, 0, sizeof(day));
        minute_pool_init(&pool, 4 * sizeof(struct minute_hour) + 1);
        assert_int_equal(pool.max, 4);
        for (int64_t hour = 0; hour < 3; hour++)
                for (size_t i = 0; i < 3; i++) {
                        minutes_at(&pool, &day[i], hour, 5)->granted++;
                        minute_pool_check(&pool);
                }
        assert_int_equal(pool.n, 4);
        assert_true(pool.lost_hour >= 1);
        assert_null(minutes_peek(&day[1], 65));
        assert_non_null(minutes_peek(&day[2], 65));
        assert_non_null(minutes_peek(&day[0], 125));
        minutes_at(&pool, &day[0], 1, 5)->granted++; /* an old hour is made anew */
        assert_int_equal(minutes_peek(&day[0], 65)->granted, 1);
        for (size_t i = 0; i < 3; i++)
                minutes_release(&pool, &day[i]);
        assert_int_equal(pool.n, 0);
        minute_pool_check(&pool);
        minute_pool_init(&pool, 0);
        assert_int_equal(pool.max, 1);
}

static void a_wall_that_jumps_back_counts_into_the_same_minutes_again(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        for (int i = 0; i < 3; i++) {
                refused(&rig, "etl");
                rig_pass_ms(&rig, HOUR);
        }
        rig.now.wall_ms -= 3 * HOUR;
        rig_turn(&rig);
        refused(&rig, "etl");
        const char *text = rig_do(&rig, "CLIENTSHOW", "etl");
        has(text, "minutes:[{at_ms:1699945200000 asks:2 "); /* what is in the future is not shown */
        has_not(text, "at_ms:1699948800000");
        rig_pass_ms(&rig, 2 * HOUR);
        expect(&rig, "etl", "at_ms:1699948800000");
        clients_check(rig.core->clients);
        rig.now.wall_ms -= 40LL * 365 * 24 * HOUR; /* before 1970 in the end */
        rig_turn(&rig);
        refused(&rig, "etl");
        rig.now.wall_ms -= 40LL * 365 * 24 * HOUR + 1;
        rig_turn(&rig);
        refused(&rig, "etl");
        expect(&rig, "etl", "asks:6");
        rig.now.wall_ms += 200LL * 365 * 24 * HOUR;
        rig_turn(&rig);
        refused(&rig, "etl");
        expect(&rig, "etl", "asks:7");
        release(&rig);
}

static void numbers_of_a_minute_stop_at_their_largest(void **state)
{
        struct rig rig;
        struct check_verdict v = {.reason = CHECK_HOLD, .value = -1};
        struct client_count count = counting(&v);
        (void)state;
        init(&rig);
        count.waited_ms = UINT32_MAX;
        for (int i = 0; i < 65540; i++)
                count_as(&rig, "etl", &count);
        const struct client_minute *m =
                &CONTAINER_OF(hash_find(&rig.core->clients->names, SLICE_LIT("etl")),
                              const struct client, node)
                         ->minutes.now->cells[0];
        assert_int_equal(m->refused, 65540);
        assert_int_equal(m->by_reason[CHECK_HOLD], UINT16_MAX);
        assert_int_equal(m->waited_ms, UINT32_MAX);
        expect(&rig, "etl", "waited_ms:281492156514300 ");
        release(&rig);
}

/* ---- the story ---- */

static void minutes_of(struct rig *rig, int n, void (*what)(struct rig *, const char *))
{
        for (int i = 0; i < n; i++) {
                for (int k = 0; k < 2; k++)
                        what(rig, "daily-etl");
                rig_pass_ms(rig, MINUTE);
        }
}

static void silence(struct rig *rig, const char *name)
{
        (void)rig, (void)name;
}

static void runs_of_refusals_become_sentences(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        minutes_of(&rig, 10, refused); /* 07:00 */
        minutes_of(&rig, 2, granted);  /* a gap of two is passed over */
        minutes_of(&rig, 13, refused);
        minutes_of(&rig, 30, granted);
        const char *text = rig_do(&rig, "CLIENTSHOW", "daily-etl");
        has(text, "story:[{text:'daily-etl was mostly refused between 07:00 and 07:25 UTC because "
                  "of replication_lag on shop' from_ms:1699945200000 to_ms:1699946700000 "
                  "refused:46 reason:'threshold' metric:'replication_lag' target:'shop']] ");
        release(&rig);
}

static void a_gap_of_three_minutes_is_the_end_of_a_run(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        minutes_of(&rig, 2, refused);
        minutes_of(&rig, 3, silence);
        minutes_of(&rig, 2, refused);
        const char *text = rig_do(&rig, "CLIENTSHOW", "daily-etl");
        has(text, "between 07:00 and 07:02 UTC");
        has(text, "between 07:05 and 07:07 UTC");
        release(&rig);
}

static void few_refusals_are_no_story_and_ten_are(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        for (int i = 0; i < 9; i++)
                refused_for(&rig, "etl", CHECK_HOLD, NONE);
        expect(&rig, "etl", "story:[] ");
        refused_for(&rig, "etl", CHECK_HOLD, NONE);
        expect(&rig, "etl",
               "etl was mostly refused between 07:00 and 07:01 UTC because a rule "
               "holds it'");
        for (int i = 0; i < 10; i++)
                granted(&rig, "etl"); /* as many grants: not mostly refused */
        expect(&rig, "etl", "story:[] ");
        release(&rig);
}

static void a_story_names_its_most_frequent_reason(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        for (int i = 0; i < 10; i++) {
                refused_for(&rig, "etl", CHECK_UNKNOWN, 0);
                refused_for(&rig, "etl", CHECK_UNKNOWN, 0);
                refused_for(&rig, "etl", CHECK_HOLD, NONE);
        }
        expect(&rig, "etl", "because threads_running on shop was not known' ");
        for (int i = 0; i < 30; i++)
                refused_for(&rig, "etl", CHECK_LEVEL, NONE);
        expect(&rig, "etl", "because the load level makes its tier wait' ");
        expect(&rig, "etl", "reason:'level' metric:'' target:'']] ");
        for (int i = 0; i < 50; i++) /* a metric nobody knows is not named */
                refused_for(&rig, "etl", CHECK_THRESHOLD, 77);
        expect(&rig, "etl", "because a metric is above its threshold' ");
        release(&rig);
}

/* ---- CLIENTS ---- */

static void the_list_goes_by_name_with_a_cursor_or_by_numbers(void **state)
{
        struct rig rig;
        (void)state;
        init(&rig);
        granted(&rig, "b");
        granted(&rig, "b");
        refused(&rig, "a");
        granted(&rig, "c:z");
        const char *text = rig_do(&rig, "CLIENTS", "LIMIT", "2");
        has(text, "{clients:[{name:'a' ");
        has(text, "{name:'b' ");
        has(text, "cursor:'b' other:0");
        text = rig_do(&rig, "CLIENTS", "LIMIT", "3", "CURSOR", "b");
        has(text, "{clients:[{name:'c' ");
        has(text, "{name:'z' ");
        has(text, "cursor:'' ");
        has(rig_do(&rig, "CLIENTS", "ORDER", "asks", "LIMIT", "1"), "{clients:[{name:'b' ");
        has(rig_do(&rig, "CLIENTS", "ORDER", "refused"), "{clients:[{name:'a' ");
        has(rig_do(&rig, "CLIENTS", "ORDER", "asks", "LIMIT", "1"), "cursor:'' ");
        has(rig_do(&rig, "CLIENTS", "ORDER", "asks", "CURSOR", "b"), "!BADARG");
        has(rig_do(&rig, "CLIENTS", "MATCH", "z"), "{clients:[{name:'c:z' ");
        has_not(rig_do(&rig, "CLIENTS", "MATCH", "z"), "name:'c' ");
        release(&rig);
}

static void pages_together_hold_every_name_once(void **state)
{
        struct rig rig;
        char cursor[32] = "", name[32];
        size_t n = 0;
        (void)state;
        init(&rig);
        for (size_t i = 0; i < 300; i++) {
                (void)snprintf(name, sizeof(name), "n%zu", i * 7919 % 300);
                granted(&rig, name);
        }
        do {
                const char *text = rig_do(&rig, "CLIENTS", "LIMIT", "7", "CURSOR", cursor);
                char last[32];
                (void)snprintf(last, sizeof(last), "%s", cursor);
                for (const char *at = text; (at = strstr(at, "{name:'")); n++) {
                        assert_int_equal(sscanf(at, "{name:'%31[^']'", name), 1);
                        assert_true(strcmp(last, name) < 0);
                        (void)snprintf(last, sizeof(last), "%s", name);
                        at++;
                }
                *cursor = '\0';
                (void)sscanf(strstr(text, "cursor:"), "cursor:'%31[^']'", cursor);
        } while (*cursor);
        assert_int_equal(n, 300);
        release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_whole_and_each_part_are_counted),
                cmocka_unit_test(counts_say_since_when_they_count),
                cmocka_unit_test(a_day_survives_a_restart),
                cmocka_unit_test(the_minute_of_a_restart_has_both_its_parts),
                cmocka_unit_test(after_a_kill_the_lost_minute_is_not_denied),
                cmocka_unit_test(an_identity_of_one_part_is_counted_once),
                cmocka_unit_test(a_name_that_is_both_has_the_sum_and_metrics_tell_each_ask_once),
                cmocka_unit_test(the_last_addresses_are_kept_the_newest_first),
                cmocka_unit_test(every_identity_is_told_with_each_address),
                cmocka_unit_test(the_table_is_bounded_and_the_one_that_asked_longest_ago_goes),
                cmocka_unit_test(a_part_lives_as_long_as_an_identity_that_has_it),
                cmocka_unit_test(a_name_that_is_no_identity_any_more_keeps_its_counts_as_a_part),
                cmocka_unit_test(identities_are_active_for_five_seconds_on_their_target),
                cmocka_unit_test(
                        an_identity_on_more_targets_than_are_told_apart_is_counted_on_the_last_ones),
                cmocka_unit_test(a_minute_holds_what_was_asked_in_it),
                cmocka_unit_test(minutes_older_than_a_day_are_gone),
                cmocka_unit_test(all_minutes_together_are_bounded_and_the_oldest_go),
                cmocka_unit_test(a_wall_that_jumps_back_counts_into_the_same_minutes_again),
                cmocka_unit_test(numbers_of_a_minute_stop_at_their_largest),
                cmocka_unit_test(runs_of_refusals_become_sentences),
                cmocka_unit_test(a_gap_of_three_minutes_is_the_end_of_a_run),
                cmocka_unit_test(few_refusals_are_no_story_and_ten_are),
                cmocka_unit_test(a_story_names_its_most_frequent_reason),
                cmocka_unit_test(the_list_goes_by_name_with_a_cursor_or_by_numbers),
                cmocka_unit_test(pages_together_hold_every_name_once),
        };
        say_setup(SAY_ERROR, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

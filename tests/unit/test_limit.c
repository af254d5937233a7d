/* Rate limits through their commands and through claims, with the clock moved by hand. */
#include "refusal.h"

#include <stdio.h>

#include "core/kernel.h"
#include "state/limit.h"
#include "support/rig.h"
#include "things/limit.h"

#define granted(left)        "{granted:1 left:" #left " retry_ms:0]"
#define refused(left, retry) "{granted:0 left:" #left " retry_ms:" #retry "]"

static struct thing *limit_named(struct rig *rig, const char *name)
{
        return thing_find(&rig->core->state, THING_LIMIT, slice_str(name));
}

/* ---- taking ---- */

static void a_window_grants_its_amount_and_not_one_more_in_any_period(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        same(rig_do(&rig, "LIMIT", "api", "2", "1000"), "OK");
        same(rig_do(&rig, "TAKE", "api"), granted(1));
        rig_pass_ms(&rig, 600);
        same(rig_do(&rig, "TAKE", "api"), granted(0));
        has(rig_do(&rig, "TAKE", "api"), "{granted:0 left:0 retry_ms:40");
        rig_pass_ms(&rig, 400);
        has(rig_do(&rig, "TAKE", "api"), "granted:0"); /* at most a quantum late, never early */
        rig_pass_ms(&rig, 5);
        same(rig_do(&rig, "TAKE", "api"), granted(0));
        has(rig_do(&rig, "TAKE", "api"), "granted:0");
        rig_release(&rig);
}

static void tokens_come_back_evenly_up_to_the_burst(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        same(rig_do(&rig, "LIMIT", "t", "10", "1000", "KIND", "tokens", "BURST", "3"), "OK");
        same(rig_do(&rig, "TAKE", "t", "COST", "3"), granted(0));
        same(rig_do(&rig, "TAKE", "t", "COST", "2"), refused(0, 200));
        rig_pass_ms(&rig, 199);
        has(rig_do(&rig, "TAKE", "t", "COST", "2"), "granted:0");
        rig_pass_ms(&rig, 1);
        same(rig_do(&rig, "TAKE", "t", "COST", "2"), granted(0));
        rig_pass_ms(&rig, 60000);
        has(rig_do(&rig, "USAGE", "t"), "left:3");
        rig_release(&rig);
}

static void a_new_rule_keeps_what_was_taken(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "api", "10", "60000");
        same(rig_do(&rig, "TAKE", "api", "COST", "4"), granted(6));
        rig_do(&rig, "LIMIT", "api", "5", "60000");
        has(rig_do(&rig, "USAGE", "api"), "used:4 left:1");
        assert_true(rig_replays(&rig));
        same(rig_do(&rig, "TAKE", "api"), granted(0));
        rig_do(&rig, "LIMIT", "api", "3", "60000");
        has(rig_do(&rig, "USAGE", "api"), "used:5 left:0");
        rig_do(&rig, "LIMIT", "api", "6", "60000", "KIND", "tokens");
        has(rig_do(&rig, "USAGE", "api"), "kind:'tokens'");
        has(rig_do(&rig, "USAGE", "api"), "used:5 left:1");
        assert_true(rig_replays(&rig));
        rig_release(&rig);
}

static void a_take_is_not_answered_before_it_is_durable(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "api", "2", "1000");
        rig.log.is_manual = true;
        same(rig_do(&rig, "TAKE", "api"), granted(1));
        assert_true(core_reply_seq(rig.core) > core_durable_seq(rig.core));
        memory_log_sync(&rig.log);
        rig_release(&rig);
}

static void what_was_taken_counts_after_a_restart_and_downtime_does_not_help(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "api", "3", "1000");
        same(rig_do(&rig, "TAKE", "api", "COST", "3"), granted(0));
        rig_pass_ms(&rig, 500);
        rig_do(&rig, "LIMIT", "other", "1", "1000"); /* so the log knows how late it is */
        rig.now.wall_ms += 3600000;                  /* steady time stands still meanwhile */
        assert_true(rig_replays(&rig));
        has(rig_do(&rig, "TAKE", "api"), "granted:0");
        rig_pass_ms(&rig, 505);
        same(rig_do(&rig, "TAKE", "api"), granted(2));
        rig_release(&rig);
}

static void reset_forgets_what_was_taken_and_serves_who_waits(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session other;
        rig_init(&rig);
        rig_session_init(&other);
        rig_do(&rig, "LIMIT", "api", "2", "60000");
        rig_do(&rig, "TAKE", "api", "COST", "2");
        same(rig_as(&rig, &other, "TAKE", "api", "WAIT", "50000"), "(waits)");
        same(rig_do(&rig, "RESETLIMIT", "api"), "OK");
        assert_true(other.is_answered);
        same(text_reply_str(&other.reply), granted(1));
        assert_true(rig_replays(&rig));
        has(rig_do(&rig, "USAGE", "api"), "used:1");
        rig_session_release(&rig, &other);
        rig_release(&rig);
}

/* ---- waiting ---- */

static void waiting_takes_are_served_in_the_order_they_came(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s[3];
        rig_init(&rig);
        for (int i = 0; i < 3; i++)
                rig_session_init(&s[i]);
        rig_do(&rig, "LIMIT", "api", "4", "1000", "KIND", "tokens");
        same(rig_do(&rig, "TAKE", "api", "COST", "4"), granted(0));
        same(rig_as(&rig, &s[0], "TAKE", "api", "COST", "3", "WAIT", "10000"), "(waits)");
        same(rig_as(&rig, &s[1], "TAKE", "api", "COST", "1", "WAIT", "10000"), "(waits)");
        same(rig_as(&rig, &s[2], "TAKE", "api", "COST", "1", "WAIT", "10000"), "(waits)");
        rig_pass_ms(&rig, 500); /* two are there, but the first wants three */
        assert_false(s[0].is_answered || s[1].is_answered || s[2].is_answered);
        has(rig_do(&rig, "TAKE", "api"), "granted:0"); /* nobody overtakes */
        has(rig_do(&rig, "USAGE", "api"), "waiting_clients:3");
        rig_pass_ms(&rig, 250);
        assert_true(s[0].is_answered && !s[1].is_answered);
        same(text_reply_str(&s[0].reply), granted(0));
        rig_pass_ms(&rig, 250);
        assert_true(s[1].is_answered && !s[2].is_answered);
        rig_pass_ms(&rig, 250);
        assert_true(s[2].is_answered);
        state_check(&rig.core->state);
        for (int i = 0; i < 3; i++)
                rig_session_release(&rig, &s[i]);
        rig_release(&rig);
}

static void a_waiting_take_ends_at_its_time_and_the_next_moves_up(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session first, second;
        rig_init(&rig);
        rig_session_init(&first);
        rig_session_init(&second);
        rig_do(&rig, "LIMIT", "api", "4", "4000", "KIND", "tokens");
        rig_do(&rig, "TAKE", "api", "COST", "4");
        same(rig_as(&rig, &first, "TAKE", "api", "COST", "4", "WAIT", "1500"), "(waits)");
        same(rig_as(&rig, &second, "TAKE", "api", "WAIT", "9000"), "(waits)");
        rig_pass_ms(&rig, 1499);
        assert_false(first.is_answered || second.is_answered);
        rig_pass_ms(&rig, 1);
        assert_true(first.is_answered);
        has(text_reply_str(&first.reply), "granted:0");
        rig_turn(&rig); /* one is there for the next */
        assert_true(second.is_answered);
        same(text_reply_str(&second.reply), granted(0));
        rig_session_release(&rig, &first);
        rig_session_release(&rig, &second);
        rig_release(&rig);
}

static void a_peer_that_leaves_the_line_takes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session first, second;
        rig_init(&rig);
        rig_session_init(&first);
        rig_session_init(&second);
        rig_do(&rig, "LIMIT", "api", "1", "1000");
        rig_do(&rig, "TAKE", "api");
        same(rig_as(&rig, &first, "TAKE", "api", "WAIT", "5000"), "(waits)");
        same(rig_as(&rig, &second, "TAKE", "api", "WAIT", "5000"), "(waits)");
        rig_session_release(&rig, &first);
        state_check(&rig.core->state);
        rig_pass_ms(&rig, 1005);
        assert_true(second.is_answered);
        same(text_reply_str(&second.reply), granted(0));
        rig_session_release(&rig, &second);
        rig_release(&rig);
}

static void who_waits_is_told_when_the_limit_goes_or_gets_too_small(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s;
        rig_init(&rig);
        rig_session_init(&s);
        rig_do(&rig, "LIMIT", "api", "5", "60000");
        rig_do(&rig, "TAKE", "api", "COST", "5");
        same(rig_as(&rig, &s, "TAKE", "api", "COST", "3", "WAIT", "50000"), "(waits)");
        rig_do(&rig, "LIMIT", "api", "2", "60000");
        assert_true(s.is_answered);
        has(text_reply_str(&s.reply), "!BADARG cost is 3, but the limit never holds more than 2");
        same(rig_as(&rig, &s, "TAKE", "api", "WAIT", "50000"), "(waits)");
        same(rig_do(&rig, "UNLIMIT", "api"), "OK");
        assert_true(s.is_answered);
        has(text_reply_str(&s.reply), "!NOTFOUND the rate limit 'api' was removed");
        same(rig_as(&rig, &s, "LIMIT", "api", "1", "60000"), "OK");
        rig_do(&rig, "TAKE", "api");
        same(rig_as(&rig, &s, "TAKE", "api", "WAIT", "50000"), "(waits)");
        core_stop(rig.core);
        assert_true(s.is_answered);
        has(text_reply_str(&s.reply), "granted:0");
        has(rig_do(&rig, "TAKE", "api", "WAIT", "50000"), "granted:0"); /* no new wait */
        rig_session_release(&rig, &s);
        rig_release(&rig);
}

/* ---- made in passing ---- */

static void a_take_with_a_rule_makes_the_limit_and_it_is_forgotten_when_idle(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        has(rig_do(&rig, "TAKE", "ip:1"),
            "!NOTFOUND there is no rate limit 'ip:1'; an amount and its period");
        same(rig_do(&rig, "TAKE", "ip:1", "AMOUNT", "2", "PERIOD", "1000"), granted(1));
        has(rig_do(&rig, "USAGE", "ip:1"), "passing:true");
        same(rig_do(&rig, "TAKE", "ip:1"), granted(0));
        assert_true(rig_replays(&rig)); /* the alarm that forgets is there again */
        has(rig_do(&rig, "TAKE", "ip:1", "AMOUNT", "2", "PERIOD", "1000"), "granted:0");
        same(rig_do(&rig, "TAKE", "ip:1", "AMOUNT", "3", "PERIOD", "1000"), granted(0));
        rig_pass_ms(&rig, 999);
        assert_non_null(limit_named(&rig, "ip:1"));
        rig_pass_ms(&rig, 6);
        assert_null(limit_named(&rig, "ip:1"));
        assert_true(rig_replays(&rig));
        assert_null(limit_named(&rig, "ip:1"));
        rig_release(&rig);
}

static void one_that_a_restart_finds_whole_in_the_log_is_forgotten_too(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        same(rig_do(&rig, "TAKE", "ip:1", "AMOUNT", "2", "PERIOD", "1000"), granted(1));
        rig_do(&rig, "ENQUEUE", "h", "");
        rig.log.stat.head_seq = rig.log.last_seq + 1; /* the cleaner writes all of it again */
        rig.log.stat.retained_bytes = 1ULL << 30;
        rig_turn(&rig);
        assert_true(rig_replays(&rig));
        assert_non_null(limit_named(&rig, "ip:1"));
        rig_pass_ms(&rig, 1005);
        assert_null(limit_named(&rig, "ip:1"));
        rig_release(&rig);
}

static void what_was_set_by_hand_is_not_changed_or_forgotten_by_a_take(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "api", "1", "1000");
        same(rig_do(&rig, "TAKE", "api", "AMOUNT", "100", "PERIOD", "1000"), granted(0));
        has(rig_do(&rig, "TAKE", "api", "AMOUNT", "100", "PERIOD", "1000"), "granted:0");
        rig_pass_ms(&rig, 3600000);
        has(rig_do(&rig, "USAGE", "api"), "amount:1 period_ms:1000 burst:0 used:0 left:1");
        /* And one made in passing becomes one of these by LIMIT. */
        rig_do(&rig, "TAKE", "x", "AMOUNT", "1", "PERIOD", "1000");
        rig_do(&rig, "LIMIT", "x", "1", "1000");
        rig_pass_ms(&rig, 3600000);
        has(rig_do(&rig, "USAGE", "x"), "passing:false");
        rig_release(&rig);
}

/* ---- jobs ---- */

static void add_jobs(struct rig *rig, int n, const char *hook, const char *queue)
{
        for (int i = 0; i < n; i++)
                rig_do(rig, "ENQUEUE", hook, "", "QUEUE", queue);
}

static void a_queue_starts_as_many_jobs_as_its_limit_allows(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "queue:mail", "3", "60000");
        add_jobs(&rig, 10, "h", "mail");
        add_jobs(&rig, 1, "h", "other");
        assert_int_equal(rig_claim_many(&rig, "mail"), 3);
        assert_int_equal(rig_claim_many(&rig, "mail"), 0);
        assert_int_equal(rig_claim_many(&rig, "other"), 1);
        rig_pass_ms(&rig, 59999);
        assert_int_equal(rig_claim_many(&rig, "mail"), 0);
        rig_pass_ms(&rig, 300);
        assert_int_equal(rig_claim_many(&rig, "mail"), 3);
        assert_true(rig_replays(&rig));
        assert_int_equal(rig_claim_many(&rig, "mail"), 0);
        rig_do(&rig, "UNLIMIT", "queue:mail");
        assert_int_equal(rig_claim_many(&rig, "mail"), 4);
        rig_release(&rig);
}

static void a_waiting_claim_is_served_when_the_limit_of_its_queue_allows(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session w;
        rig_init(&rig);
        rig_session_init(&w);
        rig_do(&rig, "LIMIT", "queue:mail", "1", "1000");
        add_jobs(&rig, 4, "h", "mail");
        assert_int_equal(rig_claim_many(&rig, "mail"), 1);
        same(rig_as(&rig, &w, "CLAIM", "w", "WAIT", "60000", "QUEUES", "mail"), "(waits)");
        rig_pass_ms(&rig, 999);
        assert_false(w.is_answered);
        rig_pass_ms(&rig, 6);
        assert_true(w.is_answered);
        has(text_reply_str(&w.reply), "id:2");
        same(rig_as(&rig, &w, "CLAIM", "w", "WAIT", "60000", "QUEUES", "mail"), "(waits)");
        rig_do(&rig, "RESETLIMIT", "queue:mail");
        assert_true(w.is_answered);
        same(rig_as(&rig, &w, "CLAIM", "w", "WAIT", "60000", "QUEUES", "mail"), "(waits)");
        rig_do(&rig, "UNLIMIT", "queue:mail");
        assert_true(w.is_answered);
        rig_session_release(&rig, &w);
        rig_release(&rig);
}

static void a_hook_is_limited_over_all_queues_and_lets_others_pass(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "hook:sms", "2", "1000");
        add_jobs(&rig, 2, "sms", "a");
        add_jobs(&rig, 2, "sms", "b");
        add_jobs(&rig, 2, "mail", "b"); /* behind the two that cannot start */
        assert_int_equal(rig_claim_many(&rig, "a"), 2);
        assert_int_equal(rig_claim_many(&rig, "b"), 2);
        has(rig_do(&rig, "USAGE", "hook:sms"), "waiting_jobs:2");
        rig_pass_ms(&rig, 999);
        assert_int_equal(rig_claim_many(&rig, "b"), 0);
        rig_pass_ms(&rig, 6);
        assert_int_equal(rig_claim_many(&rig, "b"), 2);
        has(rig_do(&rig, "USAGE", "hook:sms"), "waiting_jobs:0");
        rig_release(&rig);
}

static void jobs_that_carry_a_limit_take_from_it_once_each(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "api", "3", "60000");
        rig_do(&rig, "LIMIT", "queue:q", "100", "60000");
        for (int i = 0; i < 5; i++)
                rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q", "LIMIT", "api");
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q", "LIMIT", "queue:q"); /* twice the same */
        rig_do(&rig, "ENQUEUE", "h", "", "QUEUE", "q", "LIMIT", "nosuch");
        assert_int_equal(rig_claim_many(&rig, "q"), 5);
        has(rig_do(&rig, "USAGE", "api"), "used:3 left:0");
        has(rig_do(&rig, "USAGE", "queue:q"), "used:5 left:95");
        has(rig_do(&rig, "USAGE", "api"), "waiting_jobs:2");
        rig_do(&rig, "LIMIT", "api", "4", "60000"); /* looser: one more may go */
        assert_int_equal(rig_claim_many(&rig, "q"), 1);
        rig_do(&rig, "UNLIMIT", "api");
        assert_int_equal(rig_claim_many(&rig, "q"), 1);
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void a_job_let_go_and_canceled_does_not_keep_the_others(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "hook:h", "1", "1000");
        add_jobs(&rig, 3, "h", "q");
        assert_int_equal(rig_claim_many(&rig, "q"), 1);
        rig_pass_ms(&rig, 1005); /* job 2 may start, and is canceled instead */
        rig_do(&rig, "CANCEL", "2");
        assert_int_equal(rig_claim_many(&rig, "q"), 0);
        rig_pass_ms(&rig, 1000);
        assert_int_equal(rig_claim_many(&rig, "q"), 1);
        rig_release(&rig);
}

static void many_waiting_jobs_are_let_go_as_the_limit_allows(void **unused)
{
        (void)unused;
        struct rig rig;
        size_t total = 0;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "hook:h", "10", "1000", "KIND", "tokens", "BURST", "10");
        add_jobs(&rig, 500, "h", "q");
        assert_int_equal(rig_claim_many(&rig, "q"), 10);
        for (int i = 0; i < 100; i++) {
                rig_pass_ms(&rig, 100);
                size_t n = rig_claim_many(&rig, "q");
                assert_true(n <= 1);
                total += n;
        }
        assert_int_equal(total, 100);
        rig_pass_ms(&rig, 20000);
        assert_int_equal(rig_claim_many(&rig, "q"), 10);
        state_check(&rig.core->state);
        rig_release(&rig);
}

static void clients_in_line_go_before_jobs(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s;
        rig_init(&rig);
        rig_session_init(&s);
        rig_do(&rig, "LIMIT", "api", "1", "1000");
        rig_do(&rig, "ENQUEUE", "h", "", "LIMIT", "api");
        rig_do(&rig, "TAKE", "api");
        same(rig_as(&rig, &s, "TAKE", "api", "WAIT", "9000"), "(waits)");
        assert_int_equal(rig_claim_many(&rig, "default"), 0);
        rig_pass_ms(&rig, 1005);
        assert_true(s.is_answered);
        assert_int_equal(rig_claim_many(&rig, "default"), 0);
        rig_pass_ms(&rig, 1005);
        assert_int_equal(rig_claim_many(&rig, "default"), 1);
        /* One that is there is not given to a job while a client waits for two. */
        rig_do(&rig, "LIMIT", "two", "2", "2000", "KIND", "tokens");
        rig_do(&rig, "ENQUEUE", "h", "", "LIMIT", "two");
        rig_do(&rig, "TAKE", "two", "COST", "2");
        same(rig_as(&rig, &s, "TAKE", "two", "COST", "2", "WAIT", "9000"), "(waits)");
        rig_pass_ms(&rig, 1500);
        assert_int_equal(rig_claim_many(&rig, "default"), 0);
        rig_pass_ms(&rig, 500);
        assert_true(s.is_answered);
        same(text_reply_str(&s.reply), granted(0));
        rig_pass_ms(&rig, 1000);
        assert_int_equal(rig_claim_many(&rig, "default"), 1);
        rig_session_release(&rig, &s);
        rig_release(&rig);
}

/* ---- the rest ---- */

static void limits_are_listed_by_name(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        same(rig_do(&rig, "LIMITS"), "[]");
        rig_do(&rig, "LIMIT", "b", "1", "1000");
        rig_do(&rig, "LIMIT", "a", "1", "1000", "KIND", "tokens", "BURST", "7");
        const char *text = rig_do(&rig, "LIMITS");
        const char *a = strstr(text, "name:'a'"), *b = strstr(text, "name:'b'");
        assert_true(a && b && a < b);
        has(text, "kind:'tokens'");
        has(text, "burst:7");
        rig_do(&rig, "UNLIMIT", "a");
        rig_do(&rig, "UNLIMIT", "b");
        same(rig_do(&rig, "LIMITS"), "[]");
        assert_true(rig_replays(&rig));
        same(rig_do(&rig, "LIMITS"), "[]");
        rig_release(&rig);
}

static void bad_input_gets_a_clear_error_and_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        const char *const bad[][REFUSAL_WORDS] = {
                {"LIMIT", "x", "0", "1000", "!BADARG amount"},
                {"LIMIT", "x", "-1", "1000", "!BADARG amount"},
                {"LIMIT", "x", "1000000001", "1000", "!BADARG amount"},
                {"LIMIT", "x", "1.5", "1000", "!BADARG amount"},
                {"LIMIT", "x", "1", "0", "!BADARG period"},
                {"LIMIT", "x", "1", "2678400001", "!BADARG period"},
                {"LIMIT", "x", "1", "forever", "!BADARG period"},
                {"LIMIT", "x", "1", "!SYNTAX"},
                {"LIMIT", "", "1", "1000", "!BADARG name"},
                {"LIMIT", "x", "1", "1000", "KIND", "leaky", "!BADARG kind must be one of"},
                {"LIMIT", "x", "1", "1000", "BURST", "5", "!BADARG burst goes with kind tokens"},
                {"LIMIT", "x", "1", "1000", "KIND", "tokens", "BURST", "0", "!BADARG burst"},
                {"UNLIMIT", "x", "!NOTFOUND there is no rate limit 'x'"},
                {"USAGE", "x", "!NOTFOUND there is no rate limit 'x'"},
                {"RESETLIMIT", "x", "!NOTFOUND there is no rate limit 'x'"},
                {"TAKE", "x", "!NOTFOUND there is no rate limit 'x'"},
                {"TAKE", "x", "AMOUNT", "5", "!BADARG amount and period go together"},
                {"TAKE", "x", "PERIOD", "5", "!BADARG amount and period go together"},
                {"TAKE", "ok", "KIND", "tokens", "!BADARG amount and period go together"},
                {"TAKE", "ok", "BURST", "5", "!BADARG amount and period go together"},
                {"TAKE", "x", "AMOUNT", "5", "PERIOD", "9", "COST", "6", "!BADARG cost is 6"},
                {"TAKE", "x", "AMOUNT", "0", "PERIOD", "9", "!BADARG amount"},
                {"TAKE", "queue:x", "AMOUNT", "5", "PERIOD", "9", "!BADARG a name with queue:"},
                {"TAKE", "hook:x", "AMOUNT", "5", "PERIOD", "9", "!BADARG a name with queue:"},
                {"TAKE", "ok", "COST", "0", "!BADARG cost"},
                {"TAKE", "ok", "COST", "11", "!BADARG cost is 11, but the limit never holds more"},
                {"TAKE", "ok", "WAIT", "-1", "!BADARG wait"},
                {"TAKE", "ok", "WAIT", "600001", "!BADARG wait"},
                {"TAKE", "ok", "COST", "!SYNTAX"},
        };
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "ok", "10", "1000");
        assert_rows_are_refused(&rig, bad, ARRAY_LEN(bad));
        assert_int_equal(rig.core->state.things[THING_LIMIT].len, 1);
        rig_release(&rig);
}

static void there_may_be_as_many_limits_as_the_table_says(void **unused)
{
        (void)unused;
        struct rig rig;
        char name[24];
        rig_init(&rig);
        for (int i = 0; i < LIMIT_RATE_LIMITS; i++) {
                (void)snprintf(name, sizeof(name), "n%d", i);
                same(rig_do(&rig, "TAKE", name, "AMOUNT", "1", "PERIOD", "60000"), granted(0));
        }
        has(rig_do(&rig, "TAKE", "more", "AMOUNT", "1", "PERIOD", "60000"),
            "!LIMIT there are 10000 rate limits already");
        has(rig_do(&rig, "LIMIT", "more", "1", "60000"), "!LIMIT");
        same(rig_do(&rig, "LIMIT", "n5", "9", "60000"), "OK");
        rig_do(&rig, "UNLIMIT", "n6");
        same(rig_do(&rig, "LIMIT", "more", "1", "60000"), "OK");
        assert_true(rig_replays(&rig));
        rig_pass_ms(&rig, 61000); /* at most 2000 are forgotten a turn */
        for (int i = 0; i < 5; i++)
                rig_turn(&rig);
        assert_int_equal(rig.core->state.things[THING_LIMIT].len, 2);
        rig_release(&rig);
}

static void a_full_disk_refuses_new_limits_and_takes(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "api", "5", "1000");
        rig.log.stat.is_disk_full = true;
        rig.log.stat.room_bytes = 0;
        rig_turn(&rig);
        has(rig_do(&rig, "LIMIT", "more", "5", "1000"), "!NOSPACE");
        has(rig_do(&rig, "TAKE", "api"), "!NOSPACE");
        same(rig_do(&rig, "UNLIMIT", "api"), "OK");
        rig_release(&rig);
}

static void a_damaged_body_is_refused(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_do(&rig, "LIMIT", "x", "7", "60000");
        for (int i = 0; i < 3; i++) {
                rig_do(&rig, "TAKE", "x", "COST", "2");
                rig_pass_ms(&rig, 1000);
        }
        assert_damage_is_refused(&rig, THING_LIMIT);
        const struct slice notes[] = {
                SLICE_NONE,
                SLICE_LIT("\0"),                       /* no such op */
                SLICE_LIT("\1"),                       /* how many? */
                SLICE_LIT("\1\200"),                   /* a number that does not end */
                SLICE_LIT("\1\1\1"),                   /* and more */
                SLICE_LIT("\2\1"),                     /* RESET takes nothing */
                SLICE_LIT("\1\377\377\377\377\377\1"), /* more than there can be */
        };
        for (size_t i = 0; i < ARRAY_LEN(notes); i++)
                assert_false(applies(&rig, THING_LIMIT, EFFECT_THING_NOTE, notes[i]));
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_window_grants_its_amount_and_not_one_more_in_any_period),
                cmocka_unit_test(tokens_come_back_evenly_up_to_the_burst),
                cmocka_unit_test(a_new_rule_keeps_what_was_taken),
                cmocka_unit_test(a_take_is_not_answered_before_it_is_durable),
                cmocka_unit_test(what_was_taken_counts_after_a_restart_and_downtime_does_not_help),
                cmocka_unit_test(reset_forgets_what_was_taken_and_serves_who_waits),
                cmocka_unit_test(waiting_takes_are_served_in_the_order_they_came),
                cmocka_unit_test(a_waiting_take_ends_at_its_time_and_the_next_moves_up),
                cmocka_unit_test(a_peer_that_leaves_the_line_takes_nothing),
                cmocka_unit_test(who_waits_is_told_when_the_limit_goes_or_gets_too_small),
                cmocka_unit_test(a_take_with_a_rule_makes_the_limit_and_it_is_forgotten_when_idle),
                cmocka_unit_test(one_that_a_restart_finds_whole_in_the_log_is_forgotten_too),
                cmocka_unit_test(what_was_set_by_hand_is_not_changed_or_forgotten_by_a_take),
                cmocka_unit_test(a_queue_starts_as_many_jobs_as_its_limit_allows),
                cmocka_unit_test(a_waiting_claim_is_served_when_the_limit_of_its_queue_allows),
                cmocka_unit_test(a_hook_is_limited_over_all_queues_and_lets_others_pass),
                cmocka_unit_test(jobs_that_carry_a_limit_take_from_it_once_each),
                cmocka_unit_test(a_job_let_go_and_canceled_does_not_keep_the_others),
                cmocka_unit_test(many_waiting_jobs_are_let_go_as_the_limit_allows),
                cmocka_unit_test(clients_in_line_go_before_jobs),
                cmocka_unit_test(limits_are_listed_by_name),
                cmocka_unit_test(bad_input_gets_a_clear_error_and_changes_nothing),
                cmocka_unit_test(there_may_be_as_many_limits_as_the_table_says),
                cmocka_unit_test(a_full_disk_refuses_new_limits_and_takes),
                cmocka_unit_test(a_damaged_body_is_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

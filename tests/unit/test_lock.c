/* Locks through the core: who gets one, for how long, who may give it back, and what a restart
 * leaves of it.  The fair order, handing on and the bodies in the log are looked at closely here;
 * random histories are in tests/prop/prop_lock.c. */
#include "unit/check.h"

#include <stdio.h>
#include <string.h>

#include "core/kernel.h"
#include "state/lock.h"
#include "support/rig.h"

#define NOBODY "00000000000000000000000000000000"

struct grant {
        char token[33];
        unsigned long long fence;
};

static struct grant granted(const char *text)
{
        struct grant g = {{0}, 0};
        if (sscanf(text, "{token:'%32[0-9a-f]' fence:%llu", g.token, &g.fence) != 2)
                fail_msg("not a lock: %s", text);
        return g;
}

static uint64_t digest(const struct rig *rig)
{
        state_check(&rig->core->state);
        return state_digest(&rig->core->state);
}

/* ---- a mutex ---- */

static void a_lock_has_one_holder_and_the_next_gets_null(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000"));
        assert_string_equal(rig_do(&rig, "LOCK", "a", "1000"), "null");
        granted(rig_do(&rig, "LOCK", "b", "1000"));
        assert_string_equal(rig_do(&rig, "UNLOCK", "a", g.token), "OK");
        granted(rig_do(&rig, "LOCK", "a", "1000"));
        rig_release(&rig);
}

static void the_answer_names_token_fence_time_and_count(void **unused)
{
        (void)unused;
        struct rig rig;
        char want[160];
        rig_init(&rig);
        const char *text = rig_do(&rig, "LOCK", "a", "1500");
        struct grant g = granted(text);
        (void)snprintf(want, sizeof(want), "{token:'%s' fence:1 ttl_ms:1500 until_ms:%lld count:1]",
                       g.token, (long long)rig.now.wall_ms + 1500);
        assert_string_equal(text, want);
        rig_release(&rig);
}

static void only_its_holder_gives_a_lock_back(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000", "OWNER", "me"));
        starts_with(rig_do(&rig, "UNLOCK", "a", NOBODY), "!NOTOWNER");
        has(rig_do(&rig, "RENEW", "a", NOBODY, "1000"), "fence 1 does, owner me");
        starts_with(rig_do(&rig, "UNLOCK", "b", g.token), "!NOTFOUND");
        starts_with(rig_do(&rig, "RENEW", "b", g.token, "1000"), "!NOTFOUND");
        assert_string_equal(rig_do(&rig, "UNLOCK", "a", g.token), "OK");
        starts_with(rig_do(&rig, "UNLOCK", "a", g.token), "!NOTFOUND");
        rig_release(&rig);
}

static void a_lock_runs_out_at_its_deadline_and_not_before(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000"));
        rig_pass_ms(&rig, 999);
        assert_string_equal(rig_do(&rig, "LOCK", "a", "1000"), "null");
        rig_pass_ms(&rig, 1);
        struct grant next = granted(rig_do(&rig, "LOCK", "a", "1000"));
        assert_true(next.fence > g.fence);
        starts_with(rig_do(&rig, "UNLOCK", "a", g.token), "!NOTOWNER");
        starts_with(rig_do(&rig, "RENEW", "a", g.token, "1000"), "!NOTOWNER");
        assert_int_equal(rig.core->totals.locks_expired, 1);
        rig_release(&rig);
}

static void a_renewed_lock_lasts_from_now_on(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000"));
        rig_pass_ms(&rig, 900);
        starts_with(rig_do(&rig, "RENEW", "a", g.token, "5000"), "{fence:1 ttl_ms:5000 until_ms:");
        rig_pass_ms(&rig, 4999);
        assert_string_equal(rig_do(&rig, "LOCK", "a", "1000"), "null");
        starts_with(rig_do(&rig, "RENEW", "a", g.token, "PX", "100"), "{fence:1");
        rig_pass_ms(&rig, 99);
        assert_string_equal(rig_do(&rig, "LOCK", "a", "1000"), "null");
        rig_pass_ms(&rig, 1);
        starts_with(rig_do(&rig, "RENEW", "a", g.token, "PX", "100"), "!NOTFOUND");
        granted(rig_do(&rig, "LOCK", "a", "1000"));
        rig_release(&rig);
}

static void the_same_token_is_refused_or_renews_as_asked(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000"));
        starts_with(rig_do(&rig, "LOCK", "a", "1000", "TOKEN", g.token), "!STATE");
        starts_with(rig_do(&rig, "LOCK", "a", "1000", "TOKEN", g.token, "REENTER", "refuse"),
                    "!STATE");
        rig_pass_ms(&rig, 600);
        const char *text = rig_do(&rig, "LOCK", "a", "2000", "REENTER", "renew", "TOKEN", g.token);
        has(text, "ttl_ms:2000");
        struct grant again = granted(text);
        assert_string_equal(again.token, g.token);
        assert_int_equal(again.fence, g.fence);
        rig_pass_ms(&rig, 1999);
        assert_string_equal(rig_do(&rig, "LOCK", "a", "1000", "TOKEN", NOBODY), "null");
        rig_pass_ms(&rig, 1);
        /* It ran out: an ordinary lock with a token of its own. */
        struct grant fresh =
                granted(rig_do(&rig, "LOCK", "a", "1000", "TOKEN", g.token, "REENTER", "renew"));
        assert_string_not_equal(fresh.token, g.token);
        assert_true(fresh.fence > g.fence);
        rig_release(&rig);
}

static void bad_input_is_refused_and_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        char long_name[257];
        memset(long_name, 'x', 256);
        long_name[256] = '\0';
        const struct {
                const char *argv[10];
                const char *error;
        } rows[] = {
                {{"LOCK", "new"}, "!BADARG ttl or ex is missing: say EX seconds"},
                {{"LOCK", "new", "-1"}, "!BADARG"},
                {{"LOCK", "new", "0"}, "!BADARG"},
                {{"LOCK", "new", "300"},
                 "!BADARG ttl is in milliseconds and at least 1000, not 300; for seconds say EX "
                 "300, "
                 "for milliseconds PX 300"},
                {{"LOCK", "new", "999"}, "!BADARG ttl is in milliseconds"},
                {{"LOCK", "new", "EX", "0"}, "!BADARG ex must be 1 to 86400"},
                {{"LOCK", "new", "EX", "86401"}, "!BADARG ex must be 1 to 86400"},
                {{"LOCK", "new", "PX", "99"}, "!BADARG px must be 100 to 86400000 ms"},
                {{"LOCK", "new", "1000", "EX", "1"}, "!BADARG ttl and ex cannot both be given"},
                {{"LOCK", "new", "EX", "1", "PX", "1000"}, "!BADARG ex and px cannot both"},
                {{"LOCK", "new", "EX"}, "!BADARG ttl must be a whole number"},
                {{"LOCK", "new", "WAIT", "5"}, "!BADARG ttl or ex is missing"},
                {{"LOCK", "new", "86400001"}, "!BADARG"},
                {{"LOCK", "new", "1e3"}, "!BADARG"},
                {{"LOCK", "", "1000"}, "!BADARG"},
                {{"LOCK", "a\nb", "1000"}, "!BADARG"},
                {{"LOCK", "\xff", "1000"}, "!BADARG"},
                {{"LOCK", long_name, "1000"}, "!TOOBIG"},
                {{"LOCK", "new", "1000", "WAIT", "-1"}, "!BADARG"},
                {{"LOCK", "new", "1000", "WAIT", "86400001"}, "!BADARG"},
                {{"LOCK", "new", "1000", "COUNT", "0"}, "!BADARG"},
                {{"LOCK", "new", "1000", "COUNT", "1001"}, "!BADARG"},
                {{"LOCK", "new", "1000", "OWNER", ""}, "!BADARG"},
                {{"LOCK", "new", "1000", "OWNER", long_name}, "!TOOBIG"},
                {{"LOCK", "new", "1000", "TOKEN", "123"}, "!BADARG"},
                {{"LOCK", "new", "1000", "TOKEN", NOBODY, "REENTER", "maybe"}, "!BADARG"},
                {{"LOCK", "new", "1000", "REENTER", "renew"}, "!BADARG reenter needs"},
                {{"LOCK", "new", "1000", "FOREVER"}, "!SYNTAX"},
                {{"LOCK", "held", "1000", "COUNT", "2"}, "!STATE the lock 'held' has 1 place"},
                {{"LOCK", "many", "1000"}, "!STATE the lock 'many' has 3 places"},
                {{"UNLOCK", "held"}, "!SYNTAX"},
                {{"UNLOCK", "held", "zz"}, "!BADARG"},
                {{"UNLOCK", "held", NOBODY}, "!NOTOWNER"},
                {{"UNLOCK", "new", NOBODY}, "!NOTFOUND"},
                {{"RENEW", "held", NOBODY}, "!BADARG ttl or ex is missing"},
                {{"RENEW", "held", NOBODY, "0"}, "!BADARG"},
                {{"RENEW", "held", NOBODY, "300"}, "!BADARG ttl is in milliseconds and at least"},
                {{"RENEW", "held", NOBODY, "1000"}, "!NOTOWNER"},
                {{"LOCKS", "LIMIT", "0"}, "!BADARG"},
                {{"LOCKS", "LIMIT", "1001"}, "!BADARG"},
                {{"LOCKS", "MATCH", ""}, "!BADARG"},
                {{"FORCEUNLOCK", "new"}, "!NOTFOUND"},
                {{"FORCEUNLOCK", "held", "REASON", long_name}, "!TOOBIG"},
        };
        rig_init(&rig);
        granted(rig_do(&rig, "LOCK", "held", "60000"));
        granted(rig_do(&rig, "LOCK", "many", "60000", "COUNT", "3"));
        uint64_t before = digest(&rig), last_seq = rig.log.last_seq;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct slice argv[10];
                size_t argc = 0;
                for (; rows[i].argv[argc]; argc++)
                        argv[argc] = slice_str(rows[i].argv[argc]);
                starts_with(rig_argv(&rig, &rig.me, argv, argc), rows[i].error);
        }
        assert_true(before == digest(&rig));
        assert_int_equal(rig.log.last_seq, last_seq);
        rig_release(&rig);
}

/* ---- a semaphore ---- */

static void a_semaphore_has_as_many_places_as_were_asked_for(void **unused)
{
        (void)unused;
        struct rig rig;
        struct grant g[3];
        rig_init(&rig);
        for (size_t i = 0; i < 3; i++)
                g[i] = granted(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "3"));
        assert_string_equal(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "3"), "null");
        assert_true(g[0].fence < g[1].fence && g[1].fence < g[2].fence);
        assert_string_equal(rig_do(&rig, "UNLOCK", "s", g[1].token), "OK");
        starts_with(rig_do(&rig, "UNLOCK", "s", g[1].token), "!NOTOWNER");
        g[1] = granted(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "3"));
        assert_string_equal(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "3"), "null");
        for (size_t i = 0; i < 3; i++)
                assert_string_equal(rig_do(&rig, "UNLOCK", "s", g[i].token), "OK");
        /* Nobody holds it any more: another count is as good. */
        granted(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "2"));
        rig_release(&rig);
}

static void each_place_runs_out_at_its_own_time(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant a = granted(rig_do(&rig, "LOCK", "s", "PX", "300", "COUNT", "2"));
        struct grant b = granted(rig_do(&rig, "LOCK", "s", "COUNT", "2", "PX", "200"));
        rig_pass_ms(&rig, 200);
        starts_with(rig_do(&rig, "RENEW", "s", b.token, "PX", "100"), "!NOTOWNER");
        has(rig_do(&rig, "LOCKED", "s"), "remaining_ms:100");
        starts_with(rig_do(&rig, "RENEW", "s", a.token, "PX", "500"), "{fence:1 ttl_ms:500");
        rig_pass_ms(&rig, 500);
        starts_with(rig_do(&rig, "LOCKED", "s"), "{name:'s' state:'free'");
        rig_release(&rig);
}

/* ---- waiting ---- */

#define WAITERS 50

static void who_waits_is_served_in_the_order_of_arrival(void **unused)
{
        (void)unused;
        struct rig rig;
        static struct rig_session s[WAITERS];
        rig_init(&rig);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000"));
        for (size_t i = 0; i < WAITERS; i++) {
                rig_session_init(&s[i]);
                assert_string_equal(rig_as(&rig, &s[i], "LOCK", "a", "1000", "WAIT", "60000"),
                                    "(waits)");
        }
        has(rig_do(&rig, "LOCKED", "a"), "waiting:50");
        for (size_t i = 0; i < WAITERS; i++) {
                uint64_t batches = rig.core->totals.batches;
                if (i % 2)
                        rig_pass_ms(&rig, 1000); /* it runs out */
                else
                        assert_string_equal(rig_do(&rig, "UNLOCK", "a", g.token), "OK");
                assert_int_equal(rig.core->totals.batches, batches + 1);
                for (size_t j = i + 1; j < WAITERS; j++)
                        assert_false(s[j].is_answered);
                assert_true(s[i].is_answered);
                struct grant next = granted(text_reply_str(&s[i].reply));
                assert_true(next.fence > g.fence);
                g = next;
                digest(&rig);
        }
        for (size_t i = 0; i < WAITERS; i++)
                rig_session_release(&rig, &s[i]);
        rig_release(&rig);
}

static void a_waiter_gets_its_own_time_and_owner(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s;
        rig_init(&rig);
        rig_session_init(&s);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000", "OWNER", "first"));
        rig_as(&rig, &s, "LOCK", "a", "5000", "OWNER", "second", "WAIT", "60000");
        rig_pass_ms(&rig, 400);
        rig_do(&rig, "UNLOCK", "a", g.token);
        const char *text = rig_do(&rig, "LOCKED", "a");
        has(text, "owner:'second'");
        has(text, "age_ms:0 ttl_ms:5000 remaining_ms:5000");
        has(text, "waiting:0");
        rig_session_release(&rig, &s);
        rig_release(&rig);
}

static void a_wait_ends_with_null_at_its_time_and_not_before(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s;
        rig_init(&rig);
        rig_session_init(&s);
        granted(rig_do(&rig, "LOCK", "a", "10000"));
        rig_as(&rig, &s, "LOCK", "a", "1000", "WAIT", "500");
        rig_pass_ms(&rig, 499);
        assert_false(s.is_answered);
        rig_pass_ms(&rig, 1);
        assert_true(s.is_answered);
        assert_string_equal(text_reply_str(&s.reply), "null");
        has(rig_do(&rig, "LOCKED", "a"), "waiting:0");
        rig_session_release(&rig, &s);
        rig_release(&rig);
}

static void a_wait_that_ends_with_the_lock_gets_the_lock(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s;
        rig_init(&rig);
        rig_session_init(&s);
        granted(rig_do(&rig, "LOCK", "a", "PX", "500"));
        rig_as(&rig, &s, "LOCK", "a", "1000", "WAIT", "500");
        rig_pass_ms(&rig, 500);
        granted(text_reply_str(&s.reply));
        rig_session_release(&rig, &s);
        rig_release(&rig);
}

static void a_waiter_that_goes_away_is_forgotten(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session gone, next;
        rig_init(&rig);
        rig_session_init(&gone);
        rig_session_init(&next);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000"));
        rig_as(&rig, &gone, "LOCK", "a", "1000", "WAIT", "60000");
        rig_as(&rig, &next, "LOCK", "a", "1000", "WAIT", "60000");
        rig_session_release(&rig, &gone);
        has(rig_do(&rig, "LOCKED", "a"), "waiting:1");
        rig_do(&rig, "UNLOCK", "a", g.token);
        g = granted(text_reply_str(&next.reply));
        rig_do(&rig, "UNLOCK", "a", g.token);
        starts_with(rig_do(&rig, "LOCKED", "a"), "{name:'a' state:'free'");
        rig_session_release(&rig, &next);
        rig_release(&rig);
}

static void a_stop_tells_those_who_wait_and_gives_no_more_locks(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s;
        rig_init(&rig);
        rig_session_init(&s);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000"));
        rig_as(&rig, &s, "LOCK", "a", "1000", "WAIT", "60000");
        core_stop(rig.core);
        starts_with(text_reply_str(&s.reply), "!STOPPING");
        starts_with(rig_do(&rig, "LOCK", "b", "1000"), "!STOPPING");
        assert_string_equal(rig_do(&rig, "UNLOCK", "a", g.token), "OK");
        rig_session_release(&rig, &s);
        rig_release(&rig);
}

/* ---- force ---- */

static void force_takes_a_lock_from_all_its_holders(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s[4];
        rig_init(&rig);
        struct grant g[3];
        for (size_t i = 0; i < 3; i++)
                g[i] = granted(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "3"));
        for (size_t i = 0; i < 4; i++) {
                rig_session_init(&s[i]);
                rig_as(&rig, &s[i], "LOCK", "s", "1000", "COUNT", "3", "WAIT", "5000");
        }
        assert_string_equal(rig_do(&rig, "FORCEUNLOCK", "s", "REASON", "stuck"), "3");
        for (size_t i = 0; i < 3; i++) {
                starts_with(rig_do(&rig, "UNLOCK", "s", g[i].token), "!NOTOWNER");
                assert_true(granted(text_reply_str(&s[i].reply)).fence > g[2].fence);
        }
        assert_false(s[3].is_answered);
        assert_string_equal(rig_do(&rig, "FORCEUNLOCK", "s"), "3");
        assert_true(s[3].is_answered);
        assert_string_equal(rig_do(&rig, "FORCEUNLOCK", "s"), "1");
        starts_with(rig_do(&rig, "FORCEUNLOCK", "s"), "!NOTFOUND");
        assert_int_equal(rig.core->totals.locks_forced, 3);
        for (size_t i = 0; i < 4; i++)
                rig_session_release(&rig, &s[i]);
        rig_release(&rig);
}

/* ---- looking ---- */

static void a_lock_shows_its_holders_but_not_their_tokens(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "1000", "OWNER", "web-1"));
        rig_pass_ms(&rig, 250);
        const char *text = rig_do(&rig, "LOCKED", "a");
        assert_string_equal(
                text, "{name:'a' state:'held' count:1 waiting:0 holders:[{owner:'web-1' fence:1 "
                      "age_ms:250 ttl_ms:1000 remaining_ms:750]]]");
        assert_null(strstr(text, g.token));
        assert_null(strstr(rig_do(&rig, "LOCKS"), g.token));
        rig_release(&rig);
}

static void a_free_lock_says_that_it_is_free(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(rig_do(&rig, "LOCKED", "a"),
                            "{name:'a' state:'free' count:0 waiting:0 holders:[]]");
        granted(rig_do(&rig, "LOCK", "a", "1000"));
        rig_pass_ms(&rig, 1000);
        has(rig_do(&rig, "LOCKED", "a"), "state:'free'");
        rig_release(&rig);
}

static void a_time_may_be_said_as_redis_has_it(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "EX", "300"));
        has(rig_do(&rig, "LOCKED", "a"), "ttl_ms:300000");
        has(rig_do(&rig, "LOCKED", "a"), "remaining_ms:300000");
        starts_with(rig_do(&rig, "RENEW", "a", g.token, "EX", "2"), "{fence:1 ttl_ms:2000");
        starts_with(rig_do(&rig, "RENEW", "a", g.token, "px", "150"), "{fence:1 ttl_ms:150");
        rig_pass_ms(&rig, 150);
        g = granted(rig_do(&rig, "LOCK", "a", "OWNER", "me", "PX", "250"));
        has(rig_do(&rig, "LOCK", "a", "EX", "9", "TOKEN", g.token, "REENTER", "renew"), "fence:2");
        has(rig_do(&rig, "LOCKED", "a"), "ttl_ms:9000");
        rig_release(&rig);
}

static void locks_are_listed_by_name_in_pages(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        for (int i = 0; i < 25; i++) {
                char name[16];
                (void)snprintf(name, sizeof(name), "%s%02d", i % 5 ? "x" : "y",
                               i * 7 % 25); /* not in order */
                granted(rig_do(&rig, "LOCK", name, "1000"));
        }
        char cursor[64] = "", last[64] = "";
        int seen = 0;
        for (;;) {
                const char *text = rig_do(&rig, "LOCKS", "LIMIT", "7", "CURSOR", cursor);
                for (const char *at = text; (at = strstr(at, "{name:'")); at++) {
                        char name[64];
                        assert_int_equal(sscanf(at, "{name:'%63[^']'", name), 1);
                        assert_true(strcmp(last, name) < 0);
                        memcpy(last, name, sizeof(last));
                        seen++;
                }
                const char *end = strstr(text, "cursor:'");
                assert_non_null(end);
                if (sscanf(end, "cursor:'%63[^']'", cursor) != 1)
                        break;
                assert_string_equal(cursor, last);
        }
        assert_int_equal(seen, 25);
        const char *matched = rig_do(&rig, "LOCKS", "MATCH", "y1");
        has(matched, "name:'y10'");
        assert_null(strstr(matched, "name:'x"));
        has(rig_do(&rig, "LOCKS", "LIMIT", "25"), "cursor:''");
        rig_release(&rig);
}

/* ---- restarts ---- */

static void a_restart_keeps_holders_and_their_full_remaining_time(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant m = granted(rig_do(&rig, "LOCK", "m", "1000", "OWNER", "o"));
        struct grant a = granted(rig_do(&rig, "LOCK", "s", "2000", "COUNT", "2"));
        struct grant b = granted(rig_do(&rig, "LOCK", "s", "3000", "COUNT", "2"));
        rig_do(&rig, "RENEW", "s", a.token, "4000");
        assert_true(rig_replays(&rig));
        rig_pass_ms(&rig, 999);
        assert_string_equal(rig_do(&rig, "LOCK", "m", "1000"), "null");
        assert_string_equal(rig_do(&rig, "UNLOCK", "m", m.token), "OK");
        starts_with(rig_do(&rig, "RENEW", "s", b.token, "1000"), "{fence:3");
        assert_true(granted(rig_do(&rig, "LOCK", "m", "1000")).fence > b.fence);
        rig_release(&rig);
}

/* The cleaner writes again what has its newest full record before `seq`; then comes the trim. */
static void clean_before(struct rig *rig, uint64_t seq)
{
        rig->log.stat.head_seq = seq;
        rig->log.stat.retained_bytes = 1ULL << 30;
        rig_turn(rig);
        rig->log.stat.retained_bytes = 0;
        rig_turn(rig);
}

/* The notes of a semaphore lie in the kept log, its full record before them does not: in replay
 * they are skipped, and the fence in them must be known all the same. */
static void a_fence_in_a_skipped_note_is_not_given_again(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        granted(rig_do(&rig, "LOCK", "s", "60000", "COUNT", "2"));
        uint64_t made = rig.log.last_seq;
        clean_before(&rig, made); /* the counters alone */
        struct grant g = granted(rig_do(&rig, "LOCK", "s", "60000", "COUNT", "2"));
        rig_do(&rig, "UNLOCK", "s", g.token);
        clean_before(&rig, made + 1); /* the semaphore alone */
        assert_true(rig_replays(&rig));
        assert_true(rig.core->state.fence == g.fence);
        rig_release(&rig);
}

/* ---- switched off ---- */

#define OFF "!DISABLED locks are switched off; the setting locks.enabled says so"

static void switch_to(struct rig *rig, const char *value)
{
        assert_string_equal(rig_do(rig, "SETTINGSET", "locks.enabled", value), "OK");
}

static void switched_off_no_lock_is_granted(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        granted(rig_do(&rig, "LOCK", "s", "60000", "COUNT", "2"));
        uint64_t was = rig.core->totals.locks_granted, fence = rig.core->state.fence;
        switch_to(&rig, "false");
        assert_string_equal(rig_do(&rig, "LOCK", "a", "1000"), OFF);
        assert_string_equal(rig_do(&rig, "LOCK", "a", "1000", "WAIT", "5000"), OFF);
        assert_string_equal(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "2"), OFF);
        assert_string_equal(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "3"), OFF);
        assert_string_equal(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "2", "TOKEN", NOBODY), OFF);
        has(rig_do(&rig, "LOCKS"), "held:1 waiting:0");
        has(rig_do(&rig, "LOCKS"), "enabled:false");
        assert_true(rig.core->totals.locks_granted == was && rig.core->state.fence == fence);
        switch_to(&rig, "true");
        has(rig_do(&rig, "LOCKS"), "enabled:true");
        granted(rig_do(&rig, "LOCK", "a", "1000"));
        granted(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "2"));
        assert_string_equal(rig_do(&rig, "LOCK", "s", "1000", "COUNT", "2"), "null");
        rig_release(&rig);
}

/* They are told in the turn of the change, and a place that is free then goes to nobody. */
static void switched_off_those_who_wait_are_told(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s[4];
        rig_init(&rig);
        struct grant a = granted(rig_do(&rig, "LOCK", "a", "60000"));
        granted(rig_do(&rig, "LOCK", "b", "60000"));
        for (size_t i = 0; i < ARRAY_LEN(s); i++) {
                rig_session_init(&s[i]);
                assert_string_equal(rig_as(&rig, &s[i], "LOCK", i % 2 ? "a" : "b", "1000", "WAIT",
                                           i ? "86400000" : "100"),
                                    "(waits)");
        }
        switch_to(&rig, "off");
        for (size_t i = 0; i < ARRAY_LEN(s); i++) {
                assert_true(s[i].is_answered);
                assert_string_equal(text_reply_str(&s[i].reply), OFF);
                assert_false(session_is_waiting(&s[i].base));
        }
        has(rig_do(&rig, "LOCKED", "a"), "waiting:0");
        assert_string_equal(rig_do(&rig, "UNLOCK", "a", a.token), "OK");
        starts_with(rig_do(&rig, "LOCKED", "a"), "{name:'a' state:'free'");
        rig_pass_ms(&rig, 100); /* when the first would have waited long enough */
        switch_to(&rig, "on");
        granted(rig_do(&rig, "LOCK", "a", "1000"));
        assert_string_equal(rig_as(&rig, &s[0], "LOCK", "b", "1000", "WAIT", "5000"), "(waits)");
        assert_string_equal(rig_do(&rig, "FORCEUNLOCK", "b"), "1");
        granted(text_reply_str(&s[0].reply));
        digest(&rig);
        for (size_t i = 0; i < ARRAY_LEN(s); i++)
                rig_session_release(&rig, &s[i]);
        rig_release(&rig);
}

static void switched_off_holders_keep_what_they_hold(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant a = granted(rig_do(&rig, "LOCK", "a", "1000", "OWNER", "me"));
        struct grant b = granted(rig_do(&rig, "LOCK", "b", "1000"));
        struct grant c = granted(rig_do(&rig, "LOCK", "c", "1000"));
        switch_to(&rig, "false");
        starts_with(rig_do(&rig, "RENEW", "a", a.token, "5000"), "{fence:1 ttl_ms:5000");
        starts_with(rig_do(&rig, "LOCK", "a", "1000", "TOKEN", a.token), "!STATE");
        const char *text = rig_do(&rig, "LOCK", "a", "9000", "TOKEN", a.token, "REENTER", "renew");
        has(text, "ttl_ms:9000");
        assert_string_equal(granted(text).token, a.token);
        has(rig_do(&rig, "LOCKED", "a"), "owner:'me'");
        assert_string_equal(rig_do(&rig, "UNLOCK", "b", b.token), "OK");
        assert_string_equal(rig_do(&rig, "FORCEUNLOCK", "c"), "1");
        starts_with(rig_do(&rig, "RENEW", "c", c.token, "1000"), "!NOTFOUND");
        rig_pass_ms(&rig, 9000);
        starts_with(rig_do(&rig, "LOCKED", "a"), "{name:'a' state:'free'");
        assert_string_equal(rig_do(&rig, "LOCK", "a", "1000", "TOKEN", a.token, "REENTER", "renew"),
                            OFF);
        rig_release(&rig);
}

static void switched_off_stays_so_over_a_restart(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        struct grant g = granted(rig_do(&rig, "LOCK", "a", "60000"));
        switch_to(&rig, "false");
        uint64_t before = digest(&rig);
        rig_restart(&rig);
        assert_true(before == digest(&rig));
        assert_string_equal(rig_do(&rig, "LOCK", "b", "1000"), OFF);
        starts_with(rig_do(&rig, "RENEW", "a", g.token, "60000"), "{fence:1");
        assert_string_equal(rig_do(&rig, "SETTINGUNSET", "locks.enabled"), "OK");
        rig_restart(&rig);
        granted(rig_do(&rig, "LOCK", "b", "1000"));
        assert_string_equal(rig_do(&rig, "LOCK", "a", "1000"), "null");
        rig_release(&rig);
}

/* What is set comes before what is configured; taken back, the configuration holds again. */
static void the_configuration_switches_too(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session s;
        rig_init(&rig);
        rig_session_init(&s);
        granted(rig_do(&rig, "LOCK", "a", "60000"));
        assert_string_equal(rig_as(&rig, &s, "LOCK", "a", "1000", "WAIT", "5000"), "(waits)");
        core_set_locks(rig.core, true);
        assert_string_equal(text_reply_str(&s.reply), OFF);
        assert_string_equal(rig_do(&rig, "LOCK", "b", "1000"), OFF);
        switch_to(&rig, "true");
        granted(rig_do(&rig, "LOCK", "b", "1000"));
        rig_restart(&rig);
        core_set_locks(rig.core, true);
        granted(rig_do(&rig, "LOCK", "c", "1000"));
        rig_do(&rig, "SETTINGUNSET", "locks.enabled");
        assert_string_equal(rig_do(&rig, "LOCK", "d", "1000"), OFF);
        core_set_locks(rig.core, false);
        granted(rig_do(&rig, "LOCK", "d", "1000"));
        rig_session_release(&rig, &s);
        rig_release(&rig);
}

/* A job's unique key is no lock. */
static void switched_off_jobs_go_on(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[33];
        rig_init(&rig);
        switch_to(&rig, "false");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "mail", "{}", "UNIQUE", "k"), "1");
        assert_string_equal(rig_do(&rig, "ENQUEUE", "mail", "{}", "UNIQUE", "k"), "1");
        assert_int_equal(rig_claim(&rig, "w", "default", token), 1);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        rig_release(&rig);
}

/* ---- bodies ---- */

static void a_body_that_cannot_be_is_refused(void **unused)
{
        (void)unused;
        struct state s;
        struct buf b;
        struct problem problem;
        struct lock_holder h = {.fence = 5, .deadline_ns = 9, .ttl_ms = 100};
        struct lock_holder two[2] = {h, h}; /* the same fence twice */
        buf_init(&b, 0);
        for (int i = 0; i < 6; i++) {
                state_init(&s, 1, thing_kinds);
                buf_clear(&b);
                lock_put_set(&b, i == 0 ? 0 : 2, i == 1 ? two : &h, i == 1 ? 2 : 1);
                if (i == 2)
                        buf_put_byte(&b, 'x');
                if (i == 3)
                        b.len--;
                struct effect e = {.type = EFFECT_THING_SET,
                                   .kind = THING_LOCK,
                                   .name = SLICE_LIT("a"),
                                   .body = buf_slice(&b)};
                int want = i < 4 ? ERR_CORRUPT : OK;
                assert_int_equal(state_apply(&s, &e, 1, &problem), want);
                if (i >= 4) {
                        buf_clear(&b);
                        buf_put_str(&b, i == 4 ? "Z" : "D\x06"); /* no such note, no such fence */
                        e.type = EFFECT_THING_NOTE;
                        e.body = buf_slice(&b);
                        assert_int_equal(state_apply(&s, &e, 2, &problem), ERR_CORRUPT);
                }
                state_release(&s);
        }
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_lock_has_one_holder_and_the_next_gets_null),
                cmocka_unit_test(the_answer_names_token_fence_time_and_count),
                cmocka_unit_test(only_its_holder_gives_a_lock_back),
                cmocka_unit_test(a_lock_runs_out_at_its_deadline_and_not_before),
                cmocka_unit_test(a_renewed_lock_lasts_from_now_on),
                cmocka_unit_test(the_same_token_is_refused_or_renews_as_asked),
                cmocka_unit_test(bad_input_is_refused_and_changes_nothing),
                cmocka_unit_test(a_semaphore_has_as_many_places_as_were_asked_for),
                cmocka_unit_test(each_place_runs_out_at_its_own_time),
                cmocka_unit_test(who_waits_is_served_in_the_order_of_arrival),
                cmocka_unit_test(a_waiter_gets_its_own_time_and_owner),
                cmocka_unit_test(a_wait_ends_with_null_at_its_time_and_not_before),
                cmocka_unit_test(a_wait_that_ends_with_the_lock_gets_the_lock),
                cmocka_unit_test(a_waiter_that_goes_away_is_forgotten),
                cmocka_unit_test(a_stop_tells_those_who_wait_and_gives_no_more_locks),
                cmocka_unit_test(force_takes_a_lock_from_all_its_holders),
                cmocka_unit_test(a_lock_shows_its_holders_but_not_their_tokens),
                cmocka_unit_test(a_free_lock_says_that_it_is_free),
                cmocka_unit_test(a_time_may_be_said_as_redis_has_it),
                cmocka_unit_test(locks_are_listed_by_name_in_pages),
                cmocka_unit_test(a_restart_keeps_holders_and_their_full_remaining_time),
                cmocka_unit_test(a_fence_in_a_skipped_note_is_not_given_again),
                cmocka_unit_test(switched_off_no_lock_is_granted),
                cmocka_unit_test(switched_off_those_who_wait_are_told),
                cmocka_unit_test(switched_off_holders_keep_what_they_hold),
                cmocka_unit_test(switched_off_stays_so_over_a_restart),
                cmocka_unit_test(the_configuration_switches_too),
                cmocka_unit_test(switched_off_jobs_go_on),
                cmocka_unit_test(a_body_that_cannot_be_is_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Skipped hosts in the core: set, listed, ended, kept over restarts, and whoever probes is told. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "api/limits.h"
#include "base/say.h"
#include "checks/check.h"
#include "support/rig.h"
#include "throttle/host.h"

/* ---- what a prober sees ---- */

struct prober {
        struct core *core;
        char hosts[200]; /* "db2 db3 " */
        unsigned told;
};

static void take_host(void *ctx, struct slice host, int64_t until_wall_ms)
{
        struct prober *p = ctx;
        size_t len = strlen(p->hosts);
        (void)until_wall_ms; /* a prober need not know */
        snprintf(p->hosts + len, sizeof(p->hosts) - len, "%.*s ", (int)host.len, host.ptr);
}

static void on_skips_changed(void *ctx)
{
        struct prober *p = ctx;
        p->told++;
        p->hosts[0] = '\0';
        core_each_skipped(p->core, take_host, p);
}

static void set_up(struct rig *rig, struct prober *p, int64_t rule_max_ms)
{
        struct core_throttle options = {
                .checks = {.mode = MODE_ENFORCE, .rule_max_ms = rule_max_ms},
                .skips_changed = on_skips_changed,
                .ctx = p,
        };
        policy_init(&options.policy);
        *p = (struct prober){.core = rig->core};
        core_set_throttle(rig->core, &options);
        rig_turn(rig);
}

static void init(struct rig *rig, struct prober *p)
{
        say_setup(SAY_ERROR, false);
        rig_init(rig);
        set_up(rig, p, 0);
}

/* ---- commands ---- */

static void a_host_is_skipped_until_its_time_is_over(void **unused)
{
        (void)unused;
        struct rig rig;
        struct prober prober;
        char text[200];
        init(&rig, &prober);
        assert_string_equal(rig_do(&rig, "SKIPPEDHOSTS"), "[]");
        assert_string_equal(rig_do(&rig, "SKIPHOST", "db2", "FOR", "90000"), "OK");
        assert_string_equal(prober.hosts, "db2 ");
        snprintf(text, sizeof(text), "[{host:'db2' until_ms:%lld left_ms:90000]]",
                 (long long)rig.now.wall_ms + 90000);
        assert_string_equal(rig_do(&rig, "SKIPPEDHOSTS"), text);
        rig_pass_ms(&rig, 89999);
        has(rig_do(&rig, "SKIPPEDHOSTS"), "left_ms:1]");
        assert_string_equal(prober.hosts, "db2 ");
        rig_pass_ms(&rig, 1);
        assert_string_equal(rig_do(&rig, "SKIPPEDHOSTS"), "[]");
        assert_string_equal(prober.hosts, "");
        has(rig_do(&rig, "THROTTLEHISTORY"), "db2: its time is over");
        rig_release(&rig);
}

static void an_hour_is_the_default_and_a_second_word_moves_the_end(void **unused)
{
        (void)unused;
        struct rig rig;
        struct prober prober;
        init(&rig, &prober);
        assert_string_equal(rig_do(&rig, "SKIPHOST", "db2"), "OK");
        has(rig_do(&rig, "SKIPPEDHOSTS"), "left_ms:3600000]]");
        assert_string_equal(rig_do(&rig, "SKIPHOST", "db2", "FOR", "1000"), "OK");
        has(rig_do(&rig, "SKIPPEDHOSTS"), "left_ms:1000]]");
        assert_string_equal(prober.hosts, "db2 ");
        rig_release(&rig);
}

static void a_host_counts_again_when_the_operator_says_so(void **unused)
{
        (void)unused;
        struct rig rig;
        struct prober prober;
        init(&rig, &prober);
        has(rig_do(&rig, "RECOVERHOST", "db2"), "!NOTFOUND 'db2' is not skipped");
        assert_string_equal(rig_do(&rig, "SKIPHOST", "db3"), "OK");
        assert_string_equal(rig_do(&rig, "SKIPHOST", "10.0.0.2:3306"), "OK");
        assert_string_equal(prober.hosts, "10.0.0.2:3306 db3 "); /* in order of names */
        assert_string_equal(rig_do(&rig, "RECOVERHOST", "db3"), "OK");
        assert_string_equal(prober.hosts, "10.0.0.2:3306 ");
        has(rig_do(&rig, "RECOVERHOST", "db3"), "!NOTFOUND");
        has(rig_do(&rig, "THROTTLEHISTORY"), "db3: by the operator");
        has(rig_do(&rig, "THROTTLEHISTORY"), "db3 for 1 h");
        rig_release(&rig);
}

static void skipped_hosts_survive_a_restart_and_a_pause_is_none_of_them(void **unused)
{
        (void)unused;
        struct rig rig;
        struct prober prober;
        init(&rig, &prober);
        assert_string_equal(rig_do(&rig, "SKIPHOST", "db2", "FOR", "60000"), "OK");
        assert_string_equal(rig_do(&rig, "THROTTLE", "PAUSE"), "OK");
        assert_string_equal(rig_do(&rig, "REGISTRYSET", "skip:me", "high"), "OK");
        rig_pass_ms(&rig, 20000);
        rig_restart(&rig);
        set_up(&rig, &prober, 0);
        assert_true(prober.told > 0); /* before anybody asks */
        assert_string_equal(prober.hosts, "db2 ");
        has(rig_do(&rig, "SKIPPEDHOSTS"), "left_ms:40000]]");
        rig_pass_ms(&rig, 40000);
        assert_string_equal(prober.hosts, "");
        rig_release(&rig);
}

static void what_cannot_be_skipped_is_refused_and_changes_nothing(void **unused)
{
        (void)unused;
        struct rig rig;
        struct prober prober;
        char n255[256], n256[257];
        memset(n255, 'h', 255);
        memset(n256, 'h', 256);
        n255[255] = n256[256] = '\0';
        init(&rig, &prober);
        has(rig_do(&rig, "SKIPHOST", ""), "!BADARG");
        has(rig_do(&rig, "SKIPHOST", n256), "!");
        has(rig_do(&rig, "SKIPHOST", "a\nb"), "!BADARG");
        has(rig_do(&rig, "SKIPHOST", "db2", "FOR", "999"), "!BADARG");
        has(rig_do(&rig, "SKIPHOST", "db2", "FOR", "604800001"), "for 1s to 7d (rule_max)");
        has(rig_do(&rig, "SKIPHOST", "db2", "FOR", "soon"), "!BADARG");
        assert_string_equal(rig_do(&rig, "SKIPPEDHOSTS"), "[]");
        assert_string_equal(rig_do(&rig, "SKIPHOST", "db2", "FOR", "604800000"), "OK");
        assert_string_equal(rig_do(&rig, "SKIPHOST", n255), "OK");
        assert_string_equal(rig_do(&rig, "RECOVERHOST", n255), "OK");
        rig_release(&rig);
}

static void a_host_is_one_word(void **unused)
{
        (void)unused;
        static const char *const bad[] = {"a b",   " a",   "a ",         " ",   "a\tb",
                                          "a\x7f", "a\nb", "a\xc2\x9bz", "\xff"};
        static const char *const good[] = {"db2", "10.0.0.2:3306", "[::1]:3306",
                                           "/run/mysqld/db2.sock", "r\xc3\xa9plica"};
        struct rig rig;
        struct prober prober;
        struct problem problem = {0};
        init(&rig, &prober);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                assert_int_equal(core_skip_host(rig.core, slice_str(bad[i]), 60000, &problem),
                                 ERR_BADARG);
                has(problem.detail, "without blanks and control characters");
        }
        has(rig_do(&rig, "SKIPHOST", "a b"), "!BADARG host must be");
        has(rig_do(&rig, "SKIPHOST", "a b"), "not 'a b'");
        assert_string_equal(rig_do(&rig, "SKIPPEDHOSTS"), "[]");
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                assert_int_equal(core_skip_host(rig.core, slice_str(good[i]), 60000, &problem), OK);
        rig_release(&rig);
}

static void the_operator_bounds_how_long_a_host_may_be_skipped(void **unused)
{
        (void)unused;
        struct rig rig;
        struct prober prober;
        struct problem problem = {0};
        init(&rig, &prober);
        set_up(&rig, &prober, 600000);
        has(rig_do(&rig, "SKIPHOST", "db2", "FOR", "600001"), "for 1s to 10m (rule_max)");
        assert_string_equal(rig_do(&rig, "SKIPHOST", "db2"), "OK"); /* no more than is allowed */
        has(rig_do(&rig, "SKIPPEDHOSTS"), "left_ms:600000]]");
        assert_int_equal(core_skip_host(rig.core, SLICE_LIT("db3"), -1, &problem), ERR_BADARG);
        assert_int_equal(core_skip_host(rig.core, SLICE_LIT("db3"), INT64_MAX, &problem),
                         ERR_BADARG);
        assert_int_equal(core_skip_host(rig.core, SLICE_NONE, 0, &problem), ERR_BADARG);
        assert_false(core_recover_host(rig.core, SLICE_NONE));
        assert_false(core_recover_host(rig.core, SLICE_LIT("db3")));
        assert_true(core_recover_host(rig.core, SLICE_LIT("db2")));
        rig_release(&rig);
}

static void so_many_hosts_and_not_one_more(void **unused)
{
        (void)unused;
        struct rig rig;
        struct prober prober;
        struct problem problem = {0};
        char name[20];
        init(&rig, &prober);
        for (int i = 0; i < LIMIT_SKIPPED_HOSTS; i++) {
                snprintf(name, sizeof(name), "db%d", i);
                assert_int_equal(core_skip_host(rig.core, slice_str(name), 60000, &problem), OK);
        }
        assert_int_equal(core_skip_host(rig.core, SLICE_LIT("one-more"), 60000, &problem),
                         ERR_LIMIT);
        has(problem.detail, "1000 hosts are skipped already");
        assert_int_equal(core_skip_host(rig.core, SLICE_LIT("db7"), 90000, &problem), OK);
        assert_true(core_recover_host(rig.core, SLICE_LIT("db7")));
        assert_int_equal(core_skip_host(rig.core, SLICE_LIT("one-more"), 60000, &problem), OK);
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_host_is_skipped_until_its_time_is_over),
                cmocka_unit_test(an_hour_is_the_default_and_a_second_word_moves_the_end),
                cmocka_unit_test(a_host_counts_again_when_the_operator_says_so),
                cmocka_unit_test(skipped_hosts_survive_a_restart_and_a_pause_is_none_of_them),
                cmocka_unit_test(what_cannot_be_skipped_is_refused_and_changes_nothing),
                cmocka_unit_test(a_host_is_one_word),
                cmocka_unit_test(the_operator_bounds_how_long_a_host_may_be_skipped),
                cmocka_unit_test(so_many_hosts_and_not_one_more),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}

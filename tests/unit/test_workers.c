/* Who works: names, addresses, jobs in hand, claims that wait, the bounds of the table. */
#include "check.h"

#include <stdio.h>

#include "core/kernel.h"
#include "jobs/workers.h"
#include "support/rig.h"

static void from(struct rig_session *s, const char *address)
{
        (void)snprintf(s->base.address, sizeof(s->base.address), "%s", address);
}

static void nobody_has_claimed_yet(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        assert_string_equal(rig_do(&rig, "WORKERS"), "{workers:[] running:0 counted:0]");
        rig_release(&rig);
}

static void a_worker_is_told_with_its_jobs_and_queues(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        from(&rig.me, "10.0.0.7");
        rig_do(&rig, "ENQUEUE", "mail", "", "TIMEOUT", "600000");
        rig_do(&rig, "ENQUEUE", "mail", "", "TIMEOUT", "1000"); /* ends first */
        rig_do(&rig, "CLAIM", "anna", "MAX", "2", "QUEUES", "default", "mail");
        assert_string_equal(rig_do(&rig, "WORKERS"),
                            "{workers:[{name:'anna' address:'10.0.0.7' running:2 waiting:0 "
                            "queues:['default' 'mail'] last_ms:1700000000000 jobs:[1 2]]] "
                            "running:2 counted:2]");
        rig_release(&rig);
}

static void a_job_that_ends_is_in_hand_no_more(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_enqueue(&rig, 2);
        assert_int_equal(rig_claim(&rig, "anna", "default", token), 1);
        assert_string_equal(rig_do(&rig, "COMPLETE", "1", token), "OK");
        has(rig_do(&rig, "WORKERS"), "running:0 waiting:0");
        assert_int_equal(rig_claim(&rig, "anna", "default", token), 2);
        rig_pass_ms(&rig, 300 * MS_PER_S); /* its lease ends */
        has(rig_do(&rig, "WORKERS"), "name:'anna' address:'' running:0 waiting:0");
        rig_release(&rig);
}

static void of_many_jobs_the_count_is_right_and_twenty_are_named(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        rig_enqueue(&rig, 50);
        rig_do(&rig, "CLAIM", "anna", "MAX", "30", "QUEUES", "default");
        rig_do(&rig, "CLAIM", "bert", "MAX", "20", "QUEUES", "default");
        const char *text = rig_do(&rig, "WORKERS");
        has(text, "{name:'anna' address:'' running:30 ");
        has(text, "{name:'bert' address:'' running:20 ");
        has(text, "jobs:[1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20]");
        has(text, "jobs:[31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50]");
        rig_release(&rig);
}

static void claims_that_wait_are_counted_until_they_are_answered(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session a, b;
        rig_init(&rig);
        rig_session_init(&a);
        rig_session_init(&b);
        from(&a, "10.0.0.1");
        assert_string_equal(rig_as(&rig, &a, "CLAIM", "anna", "WAIT", "60000", "QUEUES", "x"),
                            "(waits)");
        assert_string_equal(rig_as(&rig, &b, "CLAIM", "anna", "WAIT", "60000", "QUEUES", "x"),
                            "(waits)");
        has(rig_do(&rig, "WORKERS"), "running:0 waiting:2 queues:['x']");
        rig_do(&rig, "ENQUEUE", "mail", "", "QUEUE", "x");
        has(rig_do(&rig, "WORKERS"), "running:1 waiting:1");
        rig_session_release(&rig, &b); /* the peer is gone */
        has(rig_do(&rig, "WORKERS"), "running:1 waiting:0");
        rig_session_release(&rig, &a);
        rig_release(&rig);
}

static void what_waits_for_something_else_is_no_claim(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session a;
        rig_init(&rig);
        rig_session_init(&a);
        rig_do(&rig, "LOCK", "door", "60000");
        assert_string_equal(rig_as(&rig, &a, "LOCK", "door", "60000", "WAIT", "60000"), "(waits)");
        assert_string_equal(rig_do(&rig, "WORKERS"), "{workers:[] running:0 counted:0]");
        rig_session_release(&rig, &a);
        rig_release(&rig);
}

static void the_last_claim_says_where_a_worker_is_and_what_it_takes(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        from(&rig.me, "10.0.0.1");
        (void)rig_claim(&rig, "anna", "default", token);
        rig_pass_ms(&rig, 1000);
        from(&rig.me, "10.0.0.2");
        (void)rig_claim(&rig, "anna", "other", token);
        has(rig_do(&rig, "WORKERS"), "address:'10.0.0.2' running:0 waiting:0 queues:['other'] "
                                     "last_ms:1700000001000");
        rig_release(&rig);
}

static void the_busy_come_first_then_those_that_wait(void **unused)
{
        (void)unused;
        struct rig rig;
        struct rig_session a;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_session_init(&a);
        (void)rig_claim(&rig, "anna", "default", token);
        (void)rig_as(&rig, &a, "CLAIM", "mary", "WAIT", "60000", "QUEUES", "x");
        rig_enqueue(&rig, 1);
        (void)rig_claim(&rig, "zoe", "default", token);
        (void)rig_claim(&rig, "bert", "default", token);
        const char *text = rig_do(&rig, "WORKERS");
        const char *zoe = strstr(text, "zoe"), *mary = strstr(text, "mary");
        const char *anna = strstr(text, "anna"), *bert = strstr(text, "bert");
        assert_true(zoe && mary && anna && bert);
        assert_true(zoe < mary && mary < anna && anna < bert);
        rig_session_release(&rig, &a);
        rig_release(&rig);
}

static void an_idle_worker_is_forgotten_after_an_hour(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        rig_do(&rig, "ENQUEUE", "mail", "", "TIMEOUT", "86400000");
        assert_int_equal(rig_claim(&rig, "busy", "default", token), 1);
        (void)rig_claim(&rig, "idle", "default", token);
        rig_pass_ms(&rig, 3599 * MS_PER_S);
        has(rig_do(&rig, "WORKERS"), "idle");
        rig_pass_ms(&rig, 1000);
        const char *text = rig_do(&rig, "WORKERS");
        has_not(text, "idle");
        has(text, "name:'busy'");
        has(text, "queues:['default']"); /* and it is still known where it takes from */
        rig_release(&rig);
}

static void after_a_restart_running_jobs_say_whose_they_are(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN];
        rig_init(&rig);
        from(&rig.me, "10.0.0.1");
        rig_enqueue(&rig, 1);
        assert_int_equal(rig_claim(&rig, "anna", "default", token), 1);
        (void)rig_claim(&rig, "bert", "default", token);
        rig_pass_ms(&rig, 5000);
        rig_restart(&rig);
        assert_string_equal(rig_do(&rig, "WORKERS"),
                            "{workers:[{name:'anna' address:'' running:1 waiting:0 queues:[] "
                            "last_ms:1700000000000 jobs:[1]]] running:1 counted:1]");
        rig_release(&rig);
}

/* The table has room for a thousand: the one that claimed longest ago goes, unless it is busy. */
static void of_a_thousand_and_some_the_last_are_kept(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN], name[32];
        rig_init(&rig);
        rig_enqueue(&rig, 1);
        assert_int_equal(rig_claim(&rig, "busy", "default", token), 1);
        for (int i = 0; i < WORKERS_MAX; i++) {
                (void)snprintf(name, sizeof(name), "w-%d.", i);
                (void)rig_claim(&rig, name, "default", token);
        }
        const char *text = rig_do(&rig, "WORKERS");
        assert_int_equal(times(text, "name:"), WORKERS_MAX);
        has(text, "{workers:[{name:'busy' address:'' running:1");
        has_not(text, "'w-0.'");
        has(text, "'w-1.'");
        has(text, "'w-999.'");
        workers_feature.check(rig.core);
        rig_release(&rig);
}

static void a_worker_that_goes_on_claiming_stays(void **unused)
{
        (void)unused;
        struct rig rig;
        char token[RIG_TOKEN], name[32];
        rig_init(&rig);
        (void)rig_claim(&rig, "steady", "default", token);
        for (int i = 0; i < 1500; i++) {
                if (i == 900) {
                        rig_pass_ms(&rig, 1000);
                        (void)rig_claim(&rig, "steady", "default", token);
                }
                (void)snprintf(name, sizeof(name), "w-%d", i);
                (void)rig_claim(&rig, name, "default", token);
        }
        has(rig_do(&rig, "WORKERS"), "'steady'");
        workers_feature.check(rig.core);
        rig_release(&rig);
}

static void queues_beyond_the_room_are_left_out(void **unused)
{
        (void)unused;
        struct rig rig;
        struct slice argv[3 + 20] = {SLICE_LIT("CLAIM"), SLICE_LIT("anna"), SLICE_LIT("QUEUES")};
        char names[20][256];
        rig_init(&rig);
        for (size_t i = 0; i < 20; i++) {
                memset(names[i], 'a' + (int)i, 255);
                argv[3 + i] = slice_make(names[i], 255);
        }
        (void)rig_argv(&rig, &rig.me, argv, ARRAY_LEN(argv));
        const char *text = rig_do(&rig, "WORKERS");
        has(text, "hhhh']"); /* 8 x 256 bytes */
        has_not(text, "iiii");
        workers_feature.check(rig.core);
        rig_release(&rig);
}

static void with_very_many_jobs_some_are_counted(void **unused)
{
        (void)unused;
        struct rig rig;
        rig_init(&rig);
        for (int i = 0; i < 21; i++) {
                rig_enqueue(&rig, 1000);
                rig_do(&rig, "CLAIM", "anna", "MAX", "1000", "QUEUES", "default");
        }
        const char *text = rig_do(&rig, "WORKERS");
        has(text, "name:'anna' address:'' running:20000 ");
        has(text, "running:21000 counted:20000]");
        rig_release(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nobody_has_claimed_yet),
                cmocka_unit_test(a_worker_is_told_with_its_jobs_and_queues),
                cmocka_unit_test(a_job_that_ends_is_in_hand_no_more),
                cmocka_unit_test(of_many_jobs_the_count_is_right_and_twenty_are_named),
                cmocka_unit_test(claims_that_wait_are_counted_until_they_are_answered),
                cmocka_unit_test(what_waits_for_something_else_is_no_claim),
                cmocka_unit_test(the_last_claim_says_where_a_worker_is_and_what_it_takes),
                cmocka_unit_test(the_busy_come_first_then_those_that_wait),
                cmocka_unit_test(an_idle_worker_is_forgotten_after_an_hour),
                cmocka_unit_test(after_a_restart_running_jobs_say_whose_they_are),
                cmocka_unit_test(of_a_thousand_and_some_the_last_are_kept),
                cmocka_unit_test(a_worker_that_goes_on_claiming_stays),
                cmocka_unit_test(queues_beyond_the_room_are_left_out),
                cmocka_unit_test(with_very_many_jobs_some_are_counted),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
